//! The reference reads files written by our writer, with unchanged contents.

use crate::{Outcome, ensure, per_capture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{self, Capture};
use oracle::reference::Reference;
use oracle::tool;
use rehal_capture::{OpenOptions, RecordFields, Writer};
use serde_json::Value;
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
    // with. The writer moves long data to a page, and the copy is longer then.
    let is_same = torn
        || after.stdout == before.stdout
        || fs::metadata(&copy)?.len() > fs::metadata(&capture.path)?.len()
            && without_places(&after.stdout)? == without_places(&before.stdout)?;
    ensure(is_same, || "the reference's dumps of the original and the copy differ".to_owned())
}

/// The lines of a dump, without the places of things in the file.
fn without_places(dump: &[u8]) -> Result<Vec<Value>, Failed> {
    let mut lines = serde_json::Deserializer::from_slice(dump).into_iter().collect::<Result<Vec<_>, _>>()?;
    lines.iter_mut().for_each(remove_places);
    Ok(lines)
}

fn remove_places(value: &mut Value) {
    let Value::Object(members) = value else { return };
    ["file_length", "file_offset", "record_length"].iter().for_each(|name| drop(members.remove(*name)));
    // A range of the file, unlike one of a buffer.
    if members.contains_key("compression_type") {
        members.remove("offset");
    }
    members.values_mut().for_each(remove_places);
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
