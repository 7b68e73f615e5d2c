//! Opening the capture that a tool operates on.

use std::path::Path;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_base::Result;

use crate::output;
use crate::platform::keep_private;
use crate::progress::Progress;

/// The options for opening a capture.
pub(crate) fn options(recover: bool) -> CaptureOptions {
    let mut options = CaptureOptions::default();
    options.recover = recover;
    options
}

/// Opens the capture of a tool that writes some of its data to files: see [`keep_private`].
pub(crate) fn open(path: &Path, options: &CaptureOptions) -> Result<CaptureFile> {
    let capture = CaptureFile::open(path, options)?;
    keep_private(path);
    note_version(&capture);
    Ok(capture)
}

/// Says which release wrote a capture of an earlier version, and what runs it.
fn note_version(capture: &CaptureFile) {
    let version = capture.version();
    if let Some(releases) = version.earlier_releases() {
        output::note(&format!(
            "note: {} is of version {}.{}, which the reference's {releases} wrote: these releases run it, and rehal does; later ones \
             refuse it. It does not name functions: select executables by their ids",
            place(capture),
            version.major,
            version.minor
        ));
    }
}

/// Prints notes about truncation and damage of a capture that is opened with `--recover`.
pub(crate) fn note_recovered(capture: &CaptureFile) -> Result<()> {
    const MAX_PARTS: usize = 8;
    if !capture.is_recovered() {
        return Ok(());
    }
    note_tear(capture);
    let damage = capture.damage_with(&mut Progress::new("verifying").teller())?;
    for part in damage.iter().take(MAX_PARTS) {
        output::note(&format!("note: {} is damaged: {part}", place(capture)));
    }
    if let Some(count @ 1..) = damage.len().checked_sub(MAX_PARTS) {
        output::note(&format!("note: {} is damaged in {count} more places: see rehal info", place(capture)));
    }
    Ok(())
}

fn note_tear(capture: &CaptureFile) {
    if let Some(tear) = capture.tear() {
        output::note(&format!(
            "note: {} is truncated: using the {} records before offset {}, ignoring {} bytes",
            place(capture),
            tear.record_count,
            tear.offset,
            tear.lost_bytes
        ));
    }
}

/// The capture's name in errors.
pub(crate) fn place(capture: &CaptureFile) -> String {
    capture.path().map_or_else(String::new, |path| format!("'{}'", path.display()))
}
