//! The library as an embedding program uses it: examples, options and errors.

mod captured_numbers;
mod captures;
mod dialogues;
mod examples;
mod executables;
mod kernel_stubs;
mod profiling;
mod programs;
mod record_table;
mod substitutes;
mod workers;

use std::path::{Path, PathBuf};

/// A file of `fixtures/`.
fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// A capture of `fixtures/captures`.
fn capture(name: &str) -> PathBuf {
    fixture(&format!("captures/{name}.ireereplay"))
}
