//! What tests of replays share: captures made by hand, a device that keeps a log of what it ran,
//! an observer that keeps what it was told, and where captures of real programs are.

mod builder;
mod device;
mod everything;
mod observed;
mod payloads;

pub use builder::CaptureBuilder;
pub use device::{Bound, FAKE_FORMAT, FAKE_RAW_FORMAT, FLUSHED, FakeCode, Ran, TestDevice, code, function};
pub use everything::everything;
pub use observed::{Observed, Read, refusal, replay, run, run_with};
pub use payloads::{FileSpec, allocation, range, slot, whole};

use std::path::{Path, PathBuf};

/// An id of a capture.
pub type Id = u64;

/// The captures in `fixtures/`.
pub fn fixtures() -> Vec<PathBuf> {
    captures(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures"))
}

/// The captures of the corpus beside the checkout (or at `REHAL_CORPUS`); none where it is not there.
pub fn corpus() -> Vec<PathBuf> {
    let root = match std::env::var_os("REHAL_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    captures(&root.join("captures"))
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireereplay"));
    paths.sort();
    paths
}
