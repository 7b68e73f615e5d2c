//! Opening the capture that a tool works on.

use std::path::Path;

use rehal_base::{Context, MappedFile, Result};
use rehal_capture::{Capture, OpenOptions, Tear};

use crate::output;

/// What to do about a file that is no capture.
pub(crate) const ADVICE: &str = "name a capture, as IREE's tools write it with --device_replay_output=PATH";

/// Maps the file at `path`.
pub(crate) fn map(path: &Path) -> Result<MappedFile> {
    MappedFile::open(path).advise(|| ADVICE.into())
}

/// Opens the capture in `file`, or with `recover` what is whole of it.
pub(crate) fn open(file: &MappedFile, recover: bool) -> Result<Capture<'_>> {
    let capture = Capture::open(file.bytes(), OpenOptions { recover });
    capture.context(|| place(file)).advise(|| ADVICE.into())
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

/// How errors call the file.
pub(crate) fn place(file: &MappedFile) -> String {
    format!("'{}'", file.path().display())
}
