//! Finds bytes that a replacement writes and the captured kernel leaves as they are, although they contain the same afterwards: zeros
//! that replace zeros.
//!
//! Slices are replayed with other bytes there. Which ones do not matter to the captured kernel is found by replaying
//! it alone: bytes that it preserves, whatever they are, and that change nothing that it writes.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use rehal_base::{Range, Result};
use rehal_hal::transfer;
use rehal_replay::{Observer, Operation, Replay, ReplayOptions};

use super::CompareSubject;
use super::bound::{Bound, Dispatched, Part, bound, exact};
use super::remembered::is_float;
use super::slices::ShapeSlice;
use crate::written::{merged, read};
use crate::{Outcome, Verification, VerifyOptions};

/// By how much words change, one after the other: by 1 first, since they may be indices after all. With the last, all bytes differ.
const CHANGES: [u32; 3] = [1, 0x0101, 0x0101_0101];
const WORD_BYTES: u64 = 4;
/// Maximum number of replays of the captured kernel that find out which words it does not read.
const MAX_TESTS: usize = 16;

/// Replays the slices with other bytes where the captured kernel preserves them, up to the first in which the replacement does not:
/// whatever the tolerances are. `None` if there are no such bytes.
pub(super) fn verify(
    subject: &CompareSubject,
    slices: &[ShapeSlice],
    replaced: &ReplayOptions,
    options: &VerifyOptions,
) -> Result<Option<Verification>> {
    let exact = exact(options);
    let mut all: Option<Verification> = None;
    for slice in slices {
        let Some(preserved) = preserved(&slice.replay(&subject.devices, &subject.replay)?)? else { continue };
        let mut changer = Changer::new(&preserved, CHANGES[CHANGES.len() - 1]);
        slice.replay(&subject.other_devices, replaced)?.run(&mut [&mut changer])?;
        let Some(dispatched) = changer.dispatched else { continue };
        let mut found = dispatched.judge(&changer.changed, true, &exact);
        slice.name_captured(&mut found);
        if found.outcome() != Outcome::Same {
            return Ok(Some(found));
        }
        all.get_or_insert_default().add_same(&found);
    }
    Ok(all)
}

/// Words that are not changed, or may be.
type Words = Part<()>;

/// The words that a captured kernel preserves and does not read; `None` if none are known.
fn preserved(captured: &Replay) -> Result<Option<Vec<Words>>> {
    let mut kept = Kept::default();
    captured.run(&mut [&mut kept])?;
    let tests = Tests { captured, after: &kept.after };
    let mut pending: VecDeque<_> =
        Some(kept.unchanged).filter(|words| !words.is_empty()).into_iter().collect();
    let mut preserved = Vec::new();
    for _ in 0..MAX_TESTS {
        let Some(words) = pending.pop_front() else { break };
        match tests.preserved(&words, CHANGES[0])? {
            Some(mut found) => preserved.append(&mut found),
            // It reads some of them.
            None => pending.extend(halves(words).into_iter().filter(|half| !half.is_empty())),
        }
    }
    // All of them at once.
    for change in CHANGES {
        if preserved.is_empty() {
            return Ok(None);
        }
        preserved = tests.preserved(&preserved, change)?.unwrap_or_default();
    }
    Ok((!preserved.is_empty()).then_some(preserved))
}

/// The first and the second half, neither of which is the whole.
fn halves(words: Vec<Words>) -> [Vec<Words>; 2] {
    let half = words.iter().map(|it| it.range.length / WORD_BYTES).sum::<u64>() / 2 * WORD_BYTES;
    let (mut first, mut second, mut seen) = (Vec::new(), Vec::new(), 0);
    for it in words {
        let length = (half - seen).min(it.range.length);
        let (start, rest) = (it.range.offset, it.range.length - length);
        seen += length;
        let part = |offset, length| Words { range: Range { offset, length }, ..it };
        first.extend((length != 0).then(|| part(start, length)));
        second.extend((rest != 0).then(|| part(start + length, rest)));
    }
    match first.is_empty() {
        // A single word.
        true => [Vec::new(), Vec::new()],
        false => [first, second],
    }
}

/// What is bound to the dispatch of a slice after it, and which words it does not change and may be changed: in bindings in which it
/// changes others.
#[derive(Default)]
struct Kept {
    before: Vec<Bound>,
    after: Vec<Bound>,
    unchanged: Vec<Words>,
}

impl Observer for Kept {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.before = bound(operation.bindings())?;
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        self.after = bound(operation.bindings())?;
        for (before, after) in self.before.iter().zip(&self.after) {
            let own = operation.bindings().iter().filter(|it| it.buffer_id == before.buffer_id);
            let own = own.map(|it| Range { offset: it.offset, length: it.length });
            let is_changed = |it: &Range| before.range.covers(*it) && before.bytes(*it) != after.bytes(*it);
            for range in merged(own.filter(is_changed).collect()) {
                unchanged(before, after, range, &mut self.unchanged);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Adds the words of a range that are the same before and after, and may be changed ([`changed`]).
fn unchanged(before: &Bound, after: &Bound, range: Range, words: &mut Vec<Words>) {
    let (old, new) = (before.bytes(range).as_chunks::<4>().0, after.bytes(range).as_chunks::<4>().0);
    for ((offset, old), new) in (range.offset..).step_by(4).zip(old).zip(new) {
        if old == new && changed(u32::from_le_bytes(*old), 1).is_some() {
            add(words, before.buffer_id, offset);
        }
    }
}

/// Adds a word, not before the last.
fn add(words: &mut Vec<Words>, buffer_id: u64, offset: u64) {
    match words.last_mut() {
        Some(last) if last.buffer_id == buffer_id && last.range.end() == offset => {
            last.range.length += WORD_BYTES;
        }
        _ => words.push(Part { buffer_id, range: Range { offset, length: WORD_BYTES }, content: () }),
    }
}

/// Another word, of which each byte differs that is not zero in `by`. `None` of words that may be sizes or indices other than 0, or an
/// NaN. Zeros become numbers that are as good as 0; infinities become finite.
fn changed(word: u32, by: u32) -> Option<u32> {
    const SIGN: u32 = 1 << 31;
    match word & !SIGN {
        0 => Some(word ^ by),
        _ if word & !SIGN == f32::INFINITY.to_bits() => Some(word - by),
        _ => is_float(word).then_some(word ^ by),
    }
}

/// Changes words of buffers before the dispatch of a slice.
struct Changer<'w> {
    words: &'w [Words],
    by: u32,
    dispatched: Option<Dispatched>,
    /// What changed words contain.
    changed: Vec<Bound>,
}

impl<'w> Changer<'w> {
    fn new(words: &'w [Words], by: u32) -> Self {
        Self { words, by, dispatched: None, changed: Vec::new() }
    }
}

impl Observer for Changer<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        for Part { buffer_id, range, .. } in self.words {
            if let Some(it) = operation.bindings().iter().find(|it| it.buffer_id == *buffer_id) {
                let mut content = Vec::new();
                read(it.buffer, range.offset, range.length, &mut content)?;
                change(&mut content, self.by);
                transfer::write(it.buffer, range.offset, &content)?;
                self.changed.push(Part { buffer_id: *buffer_id, range: *range, content });
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.dispatched = Some(Dispatched::of(operation)?);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Changes words that may be changed.
fn change(bytes: &mut [u8], by: u32) {
    for word in bytes.as_chunks_mut::<4>().0 {
        let value = u32::from_le_bytes(*word);
        *word = changed(value, by).unwrap_or(value).to_le_bytes();
    }
}

/// Replays of the captured kernel with changed words.
struct Tests<'r> {
    captured: &'r Replay,
    /// What is bound to it without changes.
    after: &'r [Bound],
}

impl Tests<'_> {
    /// Those of the words that it preserves. `None` if it reads some of them: then something else differs.
    fn preserved(&self, words: &[Words], by: u32) -> Result<Option<Vec<Words>>> {
        let mut changer = Changer::new(words, by);
        // A kernel that does not run with other bytes reads them.
        if self.captured.run(&mut [&mut changer]).is_err() {
            return Ok(None);
        }
        let Some(Dispatched { mut after, .. }) = changer.dispatched else { return Ok(None) };
        let mut preserved = Vec::new();
        for Part { buffer_id, range, .. } in words {
            let is_it = |it: &Bound| it.buffer_id == *buffer_id && it.range.covers(*range);
            let (Some(expected), Some(actual)) =
                (self.after.iter().find(|it| is_it(it)), after.iter_mut().find(|it| is_it(it)))
            else {
                return Ok(None);
            };
            let span = actual.span(*range);
            let (expected, actual) = (expected.bytes(*range), &mut actual.content[span]);
            let words = actual.as_chunks_mut::<4>().0.iter_mut().zip(expected.as_chunks::<4>().0);
            for (offset, (actual, expected)) in (range.offset..).step_by(4).zip(words) {
                // The others it writes.
                if changed(u32::from_le_bytes(*expected), by) == Some(u32::from_le_bytes(*actual)) {
                    *actual = *expected;
                    add(&mut preserved, *buffer_id, offset);
                }
            }
        }
        Ok((after == self.after).then_some(preserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(parts: &[(u64, u64, u64)]) -> Vec<Words> {
        let part =
            |&(buffer_id, offset, length)| Part { buffer_id, range: Range { offset, length }, content: () };
        parts.iter().map(part).collect()
    }

    #[test]
    fn zeros_floats_and_infinities_change_in_every_byte() {
        let by = CHANGES[CHANGES.len() - 1];
        for value in [0.0, -0.0, 1.5, -3e5, f32::INFINITY, f32::NEG_INFINITY] {
            let word = changed(value.to_bits(), by).unwrap();
            assert!(
                word.to_le_bytes().iter().zip(value.to_le_bytes()).all(|(new, old)| *new != old),
                "{value}"
            );
            assert!(f32::from_bits(word).is_finite(), "{value}");
            assert!(value != 0.0 || f32::from_bits(word).abs() < 1e-30, "{value}");
        }
        assert_eq!([1, 77, 1 << 20, f32::NAN.to_bits(), u32::MAX].map(|it| changed(it, by)), [None; 5]);
    }

    #[test]
    fn words_are_halved_down_to_one() {
        assert_eq!(halves(words(&[(1, 8, 4)])), [vec![], vec![]]);
        assert_eq!(halves(words(&[(1, 8, 12)])), [words(&[(1, 8, 4)]), words(&[(1, 12, 8)])]);
        let all = words(&[(1, 0, 8), (1, 16, 4), (2, 0, 16)]);
        assert_eq!(halves(all), [words(&[(1, 0, 8), (1, 16, 4)]), words(&[(2, 0, 16)])]);
    }
}
