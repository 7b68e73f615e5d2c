//! Opening the capture that a tool operates on.

use rehal_base::Result;
use rehal_session::{CaptureFile, CaptureOptions};

use crate::output;
use crate::progress::Progress;

/// The options for opening a capture.
pub(crate) fn options(recover: bool) -> CaptureOptions {
    let mut options = CaptureOptions::default();
    options.recover = recover;
    options
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
