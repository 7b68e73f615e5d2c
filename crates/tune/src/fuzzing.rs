//! The bodies of the fuzz targets: the readers of ledgers and of kernel descriptors, and the comparison and
//! the redaction of captures, on arbitrary bytes.

use std::io::Cursor;

use rehal_base::{ElementType, Numerical, Result};
use rehal_capture::CaptureBytes;
use rehal_replay::{FileContents, Plan, PlanOptions};

use crate::ledger::layout::{EntryHeader, Header};
use crate::{
    CaptureDiff, DataSelector, DiffOptions, KernelDescriptor, Ledger, RedactDecision, RedactOptions,
    RedactRule, RedactedNames, check_redacted, diff_captures, redact,
};

/// Reads `bytes` as a ledger and checks the invariants of its entries.
///
/// Returns the number of entries, or why the ledger is invalid; must terminate without a panic.
pub fn exercise(bytes: &[u8]) -> Result<usize> {
    let ledger = Ledger::from_bytes(bytes)?;
    let mut count = 0;
    for entry in ledger.entries() {
        let ranges = entry?.ranges;
        assert!(
            ranges.windows(2).all(|it| it[0].binding < it[1].binding),
            "bindings are in order, and a host read has one range"
        );
        for range in ranges {
            let mut end = 0;
            for piece in &range.pieces {
                assert!(
                    piece.range.offset >= end && piece.range.fits(range.range.length),
                    "pieces are in order"
                );
                assert!(piece.kept.len() as u64 <= piece.range.length, "only bytes of a piece are kept");
                end = piece.range.end();
            }
        }
        count += 1;
    }
    Ok(count)
}

/// Reads `text` as the descriptor of a kernel and checks what a replay relies on.
///
/// Returns the number of bindings, or why the descriptor is invalid; must terminate without a panic.
pub fn exercise_descriptor(text: &[u8]) -> Result<usize> {
    let descriptor = KernelDescriptor::parse(text)?;
    for binding in &descriptor.bindings {
        let end = binding.offset.checked_add(binding.length);
        assert!(end.is_some_and(|end| end <= descriptor.allocation_bytes), "bindings are in the allocation");
    }
    let files = &descriptor.files;
    for name in
        [Some(&files.image), Some(&files.record_input), files.record_output.as_ref()].into_iter().flatten()
    {
        assert!(!name.contains('/') && name != "..", "files are in the directory of the descriptor");
    }
    let again = KernelDescriptor::parse(descriptor.text()?.as_bytes())?;
    assert!(again == descriptor, "what is written is read back");
    Ok(descriptor.bindings.len())
}

/// Corrects the checksums of a ledger, as far as it has entries, so that changes reach what is behind them.
pub fn seal(bytes: &mut [u8]) {
    let summed = std::mem::offset_of!(Header, checksum);
    let mut at = size_of::<Header>();
    if bytes.len() < at {
        return;
    }
    let sum = crc32fast::hash(&bytes[..summed]);
    bytes[summed..summed + 4].copy_from_slice(&sum.to_le_bytes());
    let own = std::mem::offset_of!(EntryHeader, checksum);
    while let Some(length) = bytes[at..].first_chunk() {
        let length = u64::from_le_bytes(*length);
        if length < size_of::<EntryHeader>() as u64 || length > (bytes.len() - at) as u64 {
            return;
        }
        let entry = &mut bytes[at..at + length as usize];
        entry[own..own + 4].fill(0);
        let sum = crc32fast::hash(entry);
        entry[own..own + 4].copy_from_slice(&sum.to_le_bytes());
        at += length as usize;
    }
}

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

#[cfg(test)]
mod tests {
    use super::exercise_descriptor;

    #[test]
    fn every_change_of_a_descriptor_is_read_or_refused() {
        let seed = include_bytes!("../tests/data/add4.add.local-sync.json");
        assert_eq!(exercise_descriptor(seed).unwrap(), 3);
        let mut refused = 0;
        for at in 0..seed.len() {
            refused += usize::from(exercise_descriptor(&seed[..at]).is_err());
            for byte in [b'0', b'9', b'-', b'"', b'{', b'\\', 0xFF] {
                let mut changed = seed.to_vec();
                changed[at] = byte;
                let _ = exercise_descriptor(&changed);
            }
        }
        // All but the last newline is needed.
        assert_eq!(refused, seed.len() - 1);
    }
}
