//! The reference reads files written by our writer, with unchanged contents.

use crate::{Outcome, ensure, per_capture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{self, Capture};
use oracle::reference::Reference;
use oracle::tool;
use rehal_capture::{OpenOptions, RecordFields, Writer};
use std::fs::{self, File};
use std::path::Path;

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    per_capture(trials, "rewritten", capture, rewritten);
}

/// Copies every record through typed views, then compares the reference's dumps of both files.
fn rewritten(capture: &Capture) -> Outcome {
    let tool = Reference::find(&captures::repository())?.tool("iree-dump-replay");
    let scratch = tempfile::tempdir()?;
    let copy = scratch.path().join("copy.ireereplay");
    let torn = rewrite(&capture.path, &copy)?;
    let dump = |path: &Path| {
        tool::run(&tool, &["--format=jsonl".into(), path.as_os_str().to_owned()], &capture.directory)
    };
    let (after, before) = (dump(&copy)?, dump(&capture.path)?);
    ensure(after.succeeded(), || format!("the reference rejects the copy: {}", after.summary()))?;
    // A torn capture is copied to a complete one with the remaining records: there is nothing to compare it
    // with.
    ensure(torn || after.stdout == before.stdout, || {
        "the reference's dumps of the original and the copy differ".to_owned()
    })
}

/// Whether the original was torn.
fn rewrite(from: &Path, to: &Path) -> Result<bool, Failed> {
    let bytes = fs::read(from)?;
    let capture = rehal_capture::Capture::open(&bytes, OpenOptions { recover: true })?;
    let mut writer = Writer::new(File::create(to)?)?;
    for record in capture.records() {
        let record = record?;
        let payload = record.payload()?;
        payload.with_parts(|parts| writer.append(&RecordFields::from(record.header), parts))?;
    }
    writer.close()?;
    Ok(capture.tear().is_some())
}
