//! The bodies of the fuzz targets: the comparison and the redaction of captures, on arbitrary bytes.

use std::io::Cursor;

use rehal_base::{ElementType, Numerical, Result};
use rehal_capture::CaptureBytes;
use rehal_replay::{FileContents, Plan, PlanOptions};

use crate::{
    CaptureDiff, DataSelector, DiffOptions, RedactDecision, RedactOptions, RedactRule, RedactedNames,
    check_redacted, diff_captures, redact,
};

/// Compares a capture with itself, which must be the same, with a part of it, and with a copy in which a byte
/// differs. The last byte says where.
///
/// Returns how many of them were compared; must terminate without a panic.
pub fn exercise_diff(bytes: &[u8]) -> usize {
    let at = bytes.last().map_or(0, |last| bytes.len() * usize::from(*last) / 256);
    let mut changed = bytes.to_vec();
    changed.iter_mut().skip(at).take(1).for_each(|byte| *byte = !*byte);
    let whole = CaptureBytes::from(bytes.to_vec());
    let compare = |other: &CaptureBytes| {
        let options = DiffOptions::default();
        diff_captures(&whole, other, &options, &mut |_| {}).ok()
    };
    let same = compare(&whole);
    assert!(same.as_ref().is_none_or(CaptureDiff::is_same), "a capture differs from itself");
    let others = [bytes[..at].to_vec(), changed].map(CaptureBytes::from);
    others.iter().filter_map(compare).count() + usize::from(same.is_some())
}

/// Redacts `bytes` as a capture, unless it names external files, and checks that the result is a capture with
/// the same dispatches.
///
/// Returns the number of bytes that were replaced, or why the capture is invalid; must terminate without a
/// panic.
pub fn exercise_redact(bytes: &[u8]) -> Result<u64> {
    let compile =
        |bytes: Vec<u8>| Plan::compile(bytes, PlanOptions { recover: true, ..PlanOptions::default() });
    let plan = compile(bytes.to_vec())?;
    if plan.files().any(|file| matches!(file.source.contents, FileContents::External { .. })) {
        return Ok(0);
    }
    let elements = RedactDecision::Elements(ElementType::from_parts(Numerical::INTEGER, 8));
    let rules = vec![RedactRule { selector: DataSelector::All, decision: elements }];
    let options = RedactOptions { names: RedactedNames::Hash, rules, ..RedactOptions::default() };
    let mut sink = Vec::new();
    let redaction =
        redact(&plan, Cursor::new(&mut sink), &options).expect("what can be planned can be redacted");
    let redacted = compile(sink).expect("what was redacted can be planned");
    check_redacted(&plan, &redacted).expect("the dispatches are the same");
    Ok(redaction.data.values().map(|data| data.bytes).sum())
}
