//! Summarizes a capture and checks whether it can be replayed here:
//! `cargo run --example survey -- CAPTURE.ireereplay`.

use std::io::Write;
use std::path::Path;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::device::DeviceOptions;
use rehal::{Error, Result};

/// Prints a few lines about the capture at `path`.
pub fn survey(path: &Path, out: &mut dyn Write) -> Result<()> {
    let mut options = CaptureOptions::default();
    options.recover = true;
    let capture = CaptureFile::open(path, &options)?;
    let survey = capture.survey()?;
    let mut line = |text: String| writeln!(out, "{text}").map_err(|error| Error::io("printing", &error));
    line(format!("{} records, {} dispatches", survey.record_count, survey.dispatch_count))?;
    for executable in &survey.executables {
        let format = executable.format.escape_ascii();
        line(format!("executable {}: {format}, {} functions", executable.id, executable.functions.len()))?;
    }
    if let Some(tear) = capture.tear() {
        line(format!("truncated at offset {}", tear.offset))?;
    }
    let verdict = capture.verdict(&DeviceOptions::default().open()?, &[]);
    match verdict.is_replayable() {
        true => line(format!("can be replayed on {}", verdict.device)),
        false => verdict.reasons.iter().try_for_each(|reason| line(format!("cannot be replayed: {reason}"))),
    }
}

#[allow(dead_code, reason = "the test of this example calls what it calls")]
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| Error::invalid_argument("a capture is missing"))?;
    survey(Path::new(&path), &mut std::io::stdout())
}
