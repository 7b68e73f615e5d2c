//! The module `rehal._rehal`, over which the Python sources beside it are the package `rehal`.
//!
//! It opens captures, makes columns of their records, and runs jobs: what runs captured code is a process of
//! the `rehal` binary, unless the caller says otherwise. The interpreter's lock is released during all work,
//! and Ctrl-C ends it. It must not depend on flags. A panic becomes an exception: the profile `python`
//! unwinds. Nothing uses it but the package.

#![deny(unsafe_code)]

mod arrow;
mod capture;
mod columns;
mod conversation;
mod errors;
mod exporter;
mod interrupt;
mod jobs;
mod judge;
mod program;

use pyo3::prelude::*;

/// The contents of the package, in Rust.
#[pymodule]
mod _rehal {
    #[pymodule_export]
    use super::capture::Capture;
    #[pymodule_export]
    use super::columns::{Column, Columns};
    #[pymodule_export]
    use super::conversation::Conversation;
    #[pymodule_export]
    use super::jobs::run_job;
    #[pymodule_export]
    use super::judge::judge;
    #[pymodule_export]
    use super::panics;
    #[pymodule_init]
    fn init(module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use super::PyModuleMethods;
        module.add("Exporter", super::exporter::class(module.py())?)
    }
    #[pymodule_export]
    use super::program::Program;
}

/// Panics: for the test that a panic becomes an exception.
#[pyfunction]
fn panics() {
    panic!("a panic for a test");
}
