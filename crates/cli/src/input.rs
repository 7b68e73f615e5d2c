//! Opening the capture that a tool works on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rehal_base::{Context, Error, MappedFile, Result, StatusCode};
use rehal_capture::{Capture, OpenOptions, Tear};

use crate::output;

/// What to do about a file that is no capture.
const NO_CAPTURE: &str = "name a capture, as IREE's tools write it with --device_replay_output=PATH";

/// What to do about a capture that contradicts itself.
const DAMAGED: &str = "the file is damaged: copy it again from where it was made, or capture again";

/// Fewer bytes cannot be a capture, damaged or not.
const MIN_BYTES: usize = 24;

/// Maps the file at `path`.
pub(crate) fn map(path: &Path) -> Result<Arc<MappedFile>> {
    MappedFile::open(path).map(Arc::new).advise(|| NO_CAPTURE.into())
}

/// Opens the capture in `file`, or with `recover` what is whole of it.
pub(crate) fn open(file: &MappedFile, recover: bool) -> Result<Capture<'_>> {
    Capture::open(file.bytes(), OpenOptions { recover }).map_err(|error| explain(file, error.into()))
}

/// Adds the file to an error about what is in it, and what to do unless the error knows better.
pub(crate) fn explain(file: &MappedFile, error: Error) -> Error {
    let error = error.context(place(file));
    match error.code() {
        _ if file.bytes().len() < MIN_BYTES => error.advise(NO_CAPTURE),
        StatusCode::DataLoss => error.advise(DAMAGED),
        _ => error,
    }
}

/// Says on standard error where a capture is torn.
pub(crate) fn note_tear(file: &MappedFile, tear: &Tear) {
    output::note(&format!(
        "note: {} is torn at offset {}: the {} records before it are used, {} bytes are not",
        place(file),
        tear.offset,
        tear.record_count,
        tear.lost_bytes
    ));
}

/// Refuses to write to `path` if that is the mapped file itself.
pub(crate) fn check_output(file: &MappedFile, flag: &str, path: &Path) -> Result<()> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    match identity(file.path()) {
        Some(capture) if identity(path) == Some(capture) => {
            let error = Error::invalid_argument(format!("--{flag}={} is the capture itself", path.display()));
            Err(error.advise("name another file to write to"))
        }
        _ => Ok(()),
    }
}

/// How errors call the file.
pub(crate) fn place(file: &MappedFile) -> String {
    format!("'{}'", file.path().display())
}
