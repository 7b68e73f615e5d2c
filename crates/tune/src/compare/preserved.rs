//! Finds bytes that a replacement writes and the captured kernel leaves as they are, although they contain the same afterwards: zeros
//! that replace zeros.
//!
//! Slices are replayed with other bytes there. Which ones do not matter to the captured kernel is found by replaying
//! it alone: bytes that it preserves, whatever they are, and that change nothing that it writes. A kernel that reads one of them as an
//! index must not crash: so the lowest bit changes, and of what may be an integer of 64 bits, the upper half only if the kernel does not
//! read the lower; and numbers that are the same differ a little in these replays, so that it shows which of them a kernel takes.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use rehal_base::{ElementType, Error, Range, Result, StatusCode};
use rehal_replay::{Observer, Operation, Replay, ReplayOptions};

use super::CompareSubject;
use super::bound::{Bound, Dispatched, bound, bound_for, exact};
use super::integers::mixed;
use super::remembered::is_float;
use super::slices::ShapeSlice;
use crate::tolerance::{element_type_of, type_in_name};
use crate::{Outcome, REDZONE_BYTES, Verification, VerifyOptions};

/// Maximum number of replays of the captured kernel that find out which words of a set it does not read.
const MAX_TESTS: usize = 16;

/// Replays the slices with other bytes where the captured kernel preserves them, up to the first in which the replacement does not:
/// whatever the tolerances are. `None` if there are no such bytes.
pub(super) fn verify(
    subject: &CompareSubject,
    slices: &[ShapeSlice],
    replaced: &ReplayOptions,
    options: &VerifyOptions,
    observers: &mut [&mut dyn Observer],
) -> Result<Option<Verification>> {
    let exact = exact(options);
    let element_type = element_type_of(&options.element_types, Some(subject.function.as_bytes()));
    let element_bytes =
        element_type.or_else(|| type_in_name(&subject.function)).and_then(ElementType::whole_bytes);
    let mut all: Option<Verification> = None;
    for slice in slices {
        slice.locate(observers)?;
        let preserved = match slice.preserved.get() {
            Some(preserved) => preserved,
            None => {
                let found = of_captured(subject, slice, element_bytes)?;
                slice.preserved.get_or_init(|| found)
            }
        };
        let Some(preserved) = preserved else { continue };
        let mut changer = Changer::new(&preserved.words, preserved.by);
        slice.replay(&subject.other_devices, replaced)?.run(&mut [&mut changer])?;
        let Changer { changed, dispatched: Some(dispatched), .. } = changer else { continue };
        let mut found = judge(&dispatched, &changed, &preserved.words, &exact);
        slice.name_captured(&mut found);
        if found.outcome() != Outcome::Same {
            return Ok(Some(found));
        }
        all.get_or_insert_default().add_same(&found);
    }
    Ok(all)
}

/// Whether all words are preserved after the dispatch, of which `changed` was bound to it before.
fn judge(dispatched: &Dispatched, changed: &[Bound], words: &Words, exact: &VerifyOptions) -> Verification {
    let mut expected = dispatched.after.clone();
    for ((expected, changed), words) in expected.iter_mut().zip(changed).zip(&words.0) {
        let pairs = words_mut(&mut expected.content).zip(changed.content.as_chunks::<4>().0);
        pairs.zip(words).filter(|(_, is_word)| **is_word).for_each(|((word, changed), _)| *word = *changed);
    }
    dispatched.judge(&expected, true, exact)
}

/// Words that a captured kernel preserves and does not read, and how they change.
pub(super) struct Preserved {
    words: Words,
    by: u32,
}

/// Which words of what is bound belong to a set: by part, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Words(Vec<Vec<bool>>);

impl Words {
    fn count(&self) -> usize {
        self.0.iter().flatten().filter(|is_word| **is_word).count()
    }

    /// The words of both sets, which have none in common.
    fn and(mut self, other: &Self) -> Self {
        for (one, other) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *one |= *other;
        }
        self
    }

    /// The first and the second half; `None` of fewer than two words.
    fn halves(self) -> Option<[Self; 2]> {
        let half = self.count() / 2;
        let (mut first, mut second, mut seen) = (self.clone(), self, 0);
        for (one, other) in first.0.iter_mut().flatten().zip(second.0.iter_mut().flatten()) {
            seen += usize::from(*one);
            (*one, *other) = (*one && seen <= half, *other && seen > half);
        }
        (half != 0).then_some([first, second])
    }
}

/// With redzones, so that an index of one too many is in memory of the replay.
fn of_captured(
    subject: &CompareSubject,
    slice: &ShapeSlice,
    element_bytes: Option<u64>,
) -> Result<Option<Preserved>> {
    let of = |options: &ReplayOptions| preserved(&slice.replay(&subject.devices, options)?, element_bytes);
    match of(&ReplayOptions { redzone_bytes: REDZONE_BYTES, ..subject.replay.clone() }) {
        Err(error) if error.code() == StatusCode::Unimplemented => of(&subject.replay),
        found => found,
    }
}

/// The words that a captured kernel preserves and does not read; `None` if none are known. `element_bytes` is the size of the elements of what
/// it writes, if that is known.
fn preserved(captured: &Replay, element_bytes: Option<u64>) -> Result<Option<Preserved>> {
    let none = Words::default();
    let run = |is_varied| {
        let mut changer = Changer { is_varied, ..Changer::new(&none, 0) };
        captured.run(&mut [&mut changer])?;
        Ok::<_, Error>(changer.dispatched.map(|dispatched| (changer.changed, dispatched)))
    };
    let (Some((_, whole)), Some((before, dispatched))) = (run(false)?, run(true)?) else { return Ok(None) };
    let unchanged = unchanged(&before, &dispatched);
    let tests = Tests { captured, after: &dispatched.after, is_varied: true };
    let parity = |parity: u64| {
        let of = |(words, bound): (&Vec<bool>, &Bound)| {
            let first = bound.range.offset / 4;
            (first..).zip(words).map(|(at, is_word)| *is_word && at % 2 == parity).collect()
        };
        Words(unchanged.0.iter().zip(&before).map(of).collect())
    };
    let lower = tests.unread(parity(0))?;
    let mut words = lower.clone();
    if element_bytes != Some(8) {
        let mut upper = parity(1);
        let contents = before.iter().zip(&dispatched.after);
        for ((upper, lower), (before, after)) in upper.0.iter_mut().zip(&lower.0).zip(contents) {
            let words = before.content.as_chunks::<4>().0.iter().zip(after.content.as_chunks::<4>().0);
            // Whether the word before each may be changed too: it is not read as the lower half.
            let is_free = lower.iter().zip(words).map(|(is_unread, (old, new))| *is_unread || old != new);
            let is_free: Vec<bool> = std::iter::once(false).chain(is_free).collect();
            upper.iter_mut().zip(is_free).for_each(|(upper, is_free)| *upper &= is_free);
        }
        words = words.and(&tests.unread(upper)?);
    }
    let by = match element_bytes {
        Some(1) => 0x0101_0101,
        Some(2) => 0x0001_0001,
        _ => 1,
    };
    // All of them at once; last with the captured inputs.
    let last = Tests { captured, after: &whole.after, is_varied: false };
    for (tests, by) in [(&tests, 1), (&tests, by), (&last, by)] {
        if words.count() == 0 {
            return Ok(None);
        }
        words = tests.preserved(&words, by)?.unwrap_or_default();
    }
    Ok((words.count() != 0).then_some(Preserved { words, by }))
}

/// The words that a dispatch does not change and that may be changed ([`changed`]), of bindings in which it changes others.
fn unchanged(before: &[Bound], dispatched: &Dispatched) -> Words {
    let of = |(before, after): (&Bound, &Bound)| {
        let own = dispatched.bindings.iter().filter(|(buffer_id, _)| *buffer_id == before.buffer_id);
        let is_changed = |it: &Range| before.range.covers(*it) && before.bytes(*it) != after.bytes(*it);
        let changed: Vec<Range> = own.map(|(_, range)| *range).filter(is_changed).collect();
        let words = before.content.as_chunks::<4>().0.iter().zip(after.content.as_chunks::<4>().0);
        let is_word = |(offset, (old, new)): (u64, (&[u8; 4], &[u8; 4]))| {
            let word = Range { offset, length: 4 };
            old == new
                && self::changed(u32::from_le_bytes(*old), 1).is_some()
                && changed.iter().any(|it| it.covers(word))
        };
        (before.range.offset..).step_by(4).zip(words).map(is_word).collect()
    };
    Words(before.iter().zip(&dispatched.after).map(of).collect())
}

/// Another word. `None` of words that may be sizes or indices other than 0, or an NaN. Infinities become finite.
fn changed(word: u32, by: u32) -> Option<u32> {
    const SIGN: u32 = 1 << 31;
    match word & !SIGN {
        0 => Some(word ^ by),
        _ if word & !SIGN == f32::INFINITY.to_bits() => Some(word - by),
        _ => is_float(word).then_some(word ^ by),
    }
}

/// Makes numbers differ in their last bits that are the same.
fn vary(bound: &mut Bound) {
    let seed = mixed(bound.buffer_id);
    for (place, word) in (bound.range.offset..).step_by(4).zip(words_mut(&mut bound.content)) {
        let value = u32::from_le_bytes(*word);
        if is_float(value) {
            *word = (value ^ (mixed(seed ^ place) & 0xff) as u32).to_le_bytes();
        }
    }
}

fn words_mut(bytes: &mut [u8]) -> std::slice::IterMut<'_, [u8; 4]> {
    bytes.as_chunks_mut::<4>().0.iter_mut()
}

/// Changes words of buffers before the dispatch of a slice.
struct Changer<'w> {
    words: &'w Words,
    by: u32,
    /// Whether numbers vary, too.
    is_varied: bool,
    /// What is bound to the dispatch before it, with these changes.
    changed: Vec<Bound>,
    dispatched: Option<Dispatched>,
}

impl<'w> Changer<'w> {
    fn new(words: &'w Words, by: u32) -> Self {
        Self { words, by, is_varied: false, changed: Vec::new(), dispatched: None }
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
        let bindings = operation.bindings();
        if self.is_varied {
            for mut it in bound_for(bindings, |_| true)? {
                vary(&mut it);
                match it.put(bindings) {
                    // It stays as it is, in each of the replays.
                    Err(error) if error.code() == StatusCode::PermissionDenied => {}
                    put => put?,
                }
            }
        }
        self.changed = bound(bindings)?;
        for (bound, words) in
            self.changed.iter_mut().zip(&self.words.0).filter(|(_, words)| words.contains(&true))
        {
            for (word, _) in words_mut(&mut bound.content).zip(words).filter(|(_, is_word)| **is_word) {
                let value = u32::from_le_bytes(*word);
                *word = changed(value, self.by).unwrap_or(value).to_le_bytes();
            }
            bound.put(bindings)?;
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

/// Replays of the captured kernel with changed words.
struct Tests<'r> {
    captured: &'r Replay,
    /// What is bound to it without changes.
    after: &'r [Bound],
    /// Whether its numbers vary.
    is_varied: bool,
}

impl Tests<'_> {
    /// Those of the words that it preserves and does not read, as far as a number of tests tells.
    fn unread(&self, words: Words) -> Result<Words> {
        let mut unread = Words(words.0.iter().map(|part| vec![false; part.len()]).collect());
        let mut pending = VecDeque::from([words]);
        for _ in 0..MAX_TESTS {
            let Some(words) = pending.pop_front() else { break };
            if words.count() == 0 {
                continue;
            }
            match self.preserved(&words, 1)? {
                Some(found) => unread = unread.and(&found),
                None => pending.extend(words.halves().into_iter().flatten()),
            }
        }
        Ok(unread)
    }

    /// Those of the words that it preserves. `None` if it reads some of them: then something else differs.
    fn preserved(&self, words: &Words, by: u32) -> Result<Option<Words>> {
        let mut changer = Changer { is_varied: self.is_varied, ..Changer::new(words, by) };
        // A kernel that does not run with other bytes reads them.
        if self.captured.run(&mut [&mut changer]).is_err() {
            return Ok(None);
        }
        let Some(Dispatched { mut after, .. }) = changer.dispatched else { return Ok(None) };
        let mut preserved = words.clone();
        for ((expected, actual), words) in self.after.iter().zip(&mut after).zip(&mut preserved.0) {
            let pairs = words_mut(&mut actual.content).zip(expected.content.as_chunks::<4>().0);
            for ((actual, expected), is_word) in pairs.zip(words).filter(|(_, is_word)| **is_word) {
                // The others it writes.
                *is_word = changed(u32::from_le_bytes(*expected), by) == Some(u32::from_le_bytes(*actual));
                if *is_word {
                    *actual = *expected;
                }
            }
        }
        Ok((after == self.after).then_some(preserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_floats_and_infinities_change_and_integers_do_not() {
        for by in [1, 0x0001_0001, 0x0101_0101] {
            for value in [0.0, -0.0, 1.5, -3e5, f32::INFINITY, f32::NEG_INFINITY] {
                let word = changed(value.to_bits(), by).unwrap();
                let pairs = word.to_le_bytes().into_iter().zip(value.to_le_bytes()).zip(by.to_le_bytes());
                assert!(pairs.filter(|(_, by)| *by != 0).all(|((new, old), _)| new != old), "{value}");
                assert!(f32::from_bits(word).is_finite(), "{value}");
            }
            assert_eq!([1, 77, 1 << 20, f32::NAN.to_bits(), u32::MAX].map(|it| changed(it, by)), [None; 5]);
        }
    }

    #[test]
    fn words_are_halved_down_to_one() {
        let words =
            |parts: [&str; 2]| Words(parts.map(|it| it.bytes().map(|it| it == b'x').collect()).to_vec());
        assert_eq!(words(["..x.", ""]).halves(), None);
        assert_eq!(words(["....", ".."]).halves(), None);
        let halves = words(["x.xx", ".x"]).halves().unwrap();
        assert_eq!(halves, [words(["x.x.", ".."]), words(["...x", ".x"])]);
        let [one, other] = halves;
        assert_eq!(one.and(&other), words(["x.xx", ".x"]));
    }
}
