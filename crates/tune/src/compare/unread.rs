//! Finds differences in what a replacement writes where memory contains the same before and after: zeros that replace zeros. Bytes that it
//! writes and the captured kernel leaves as they are, and elements that it leaves as they are and the captured kernel writes.
//!
//! Slices are replayed with other bytes there. Which ones do not matter to the captured kernel is found by replaying
//! it alone: those that change nothing else that it leaves. A kernel that reads one of them as an
//! index must not crash: so the lowest bits change, and of what may be an integer of 64 bits, the upper half only if the kernel does not
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

/// Replays the slices with changed inputs in memory that the captured kernel neither changes nor reads, up to the first slice in which the
/// replacement writes other bytes there, whatever the tolerances are. `None` if no memory can be tested.
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
        let unread = match slice.unread.get() {
            Some(unread) => unread,
            None => {
                let found = of_captured(subject, slice, element_bytes)?;
                slice.unread.get_or_init(|| found)
            }
        };
        let Some(unread) = unread else { continue };
        let replay = slice.replay(&subject.other_devices, replaced)?;
        let run = |by| {
            let mut changer = Changer::new(&unread.words, by);
            replay.run(&mut [&mut changer])?;
            Ok::<_, Error>(changer.dispatched.map(|dispatched| (changer.changed, dispatched)))
        };
        let [one, other] = unread.by.map(run);
        let (Some((changed, dispatched)), Some((changed_again, dispatched_again))) = (one?, other?) else {
            continue;
        };
        let (mut expected, mut is_left) = (dispatched.after.clone(), false);
        let again = changed_again.iter().zip(&dispatched_again.after);
        for (part, ((expected, changed), (changed_again, after_again))) in
            expected.iter_mut().zip(&changed).zip(again).enumerate()
        {
            let runs = [(changed, &dispatched.after[part]), (changed_again, after_again)];
            is_left |= unread.expect(part, runs, &mut expected.content);
        }
        let mut found = dispatched.judge(&expected, !is_left, &exact);
        slice.name_captured(&mut found);
        if found.outcome() != Outcome::Same {
            return Ok(Some(found));
        }
        all.get_or_insert_default().add_same(&found);
    }
    Ok(all)
}

/// Words that contain the same before and after a captured kernel, which does not read them.
pub(super) struct Unread {
    words: Words,
    /// By what they change, in two replays.
    by: [u32; 2],
    /// By part, which bytes are preserved if they change. The others are written again.
    preserved: Vec<Vec<bool>>,
    /// What the captured kernel leaves without changes.
    after: Vec<Bound>,
    /// A number of bytes that are written together, 4 at most.
    element_bytes: usize,
}

impl Unread {
    /// Makes of what a replacement left in a part, with the first changes, what it should have left. `runs` are what was changed in the part
    /// and left there, with either changes. Returns whether it should have written more.
    fn expect(&self, part: usize, runs: [(&Bound, &Bound); 2], expected: &mut [u8]) -> bool {
        let mut is_any_left = false;
        let (preserved, captured) = (&self.preserved[part], &self.after[part].content);
        let [(changed, _), _] = runs;
        for (word, _) in self.words.0[part].iter().enumerate().filter(|(_, is_word)| **is_word) {
            for start in (4 * word..4 * word + 4).step_by(self.element_bytes) {
                let element = start..start + self.element_bytes;
                // With either changes: so it was not written, and not by chance the same.
                let is_left = runs.iter().all(|(changed, after)| {
                    let (changed, after) =
                        (&changed.content[element.clone()], &after.content[element.clone()]);
                    changed == after && after != &captured[element.clone()]
                });
                for at in element {
                    if preserved[at] {
                        expected[at] = changed.content[at];
                    } else if is_left {
                        is_any_left |= expected[at] != captured[at];
                        expected[at] = captured[at];
                    }
                }
            }
        }
        is_any_left
    }
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
) -> Result<Option<Unread>> {
    let of = |options: &ReplayOptions| unread(&slice.replay(&subject.devices, options)?, element_bytes);
    match of(&ReplayOptions { redzone_bytes: REDZONE_BYTES, ..subject.replay.clone() }) {
        Err(error) if error.code() == StatusCode::Unimplemented => of(&subject.replay),
        found => found,
    }
}

/// The words that a captured kernel does not read and that contain the same afterwards; `None` if none are known. `element_bytes` is the
/// size of the elements of what it writes, if that is known.
fn unread(captured: &Replay, element_bytes: Option<u64>) -> Result<Option<Unread>> {
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
    if words.count() == 0 || !tests.is_unread(&words, 1)? || !tests.is_unread(&words, by)? {
        return Ok(None);
    }
    let last = Tests { captured, after: &whole.after, is_varied: false };
    let by = [by, by << 1];
    let (Some(preserved), Some(again)) = (last.preserved(&words, by[0])?, last.preserved(&words, by[1])?)
    else {
        return Ok(None);
    };
    let element_bytes = element_bytes.map_or(4, |bytes| bytes.clamp(1, 4)) as usize;
    Ok((preserved == again).then_some(Unread { words, by, preserved, after: whole.after, element_bytes }))
}

/// The words that a dispatch does not change and that may be changed ([`changed`]): of bindings in which it changes others, if there are
/// some.
fn unchanged(before: &[Bound], dispatched: &Dispatched) -> Words {
    let is_unchanged = before == dispatched.after;
    let of = |(before, after): (&Bound, &Bound)| {
        let own = dispatched.bindings.iter().filter(|(buffer_id, _)| *buffer_id == before.buffer_id);
        let is_changed = |it: &Range| before.range.covers(*it) && before.bytes(*it) != after.bytes(*it);
        let changed: Vec<Range> = own.map(|(_, range)| *range).filter(is_changed).collect();
        let words = before.content.as_chunks::<4>().0.iter().zip(after.content.as_chunks::<4>().0);
        let is_word = |(offset, (old, new)): (u64, (&[u8; 4], &[u8; 4]))| {
            let word = Range { offset, length: 4 };
            old == new
                && self::changed(u32::from_le_bytes(*old), 1).is_some()
                && (is_unchanged || changed.iter().any(|it| it.covers(word)))
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
    /// Those of the words that it does not read, as far as a number of tests tells.
    fn unread(&self, words: Words) -> Result<Words> {
        let mut unread = Words(words.0.iter().map(|part| vec![false; part.len()]).collect());
        let mut pending = VecDeque::from([words]);
        for _ in 0..MAX_TESTS {
            let Some(words) = pending.pop_front() else { break };
            if words.count() == 0 {
                continue;
            }
            match self.is_unread(&words, 1)? {
                true => unread = unread.and(&words),
                false => pending.extend(words.halves().into_iter().flatten()),
            }
        }
        Ok(unread)
    }

    /// Whether nothing else changes if words change.
    fn is_unread(&self, words: &Words, by: u32) -> Result<bool> {
        Ok(self.preserved(words, by)?.is_some())
    }

    /// Which bytes of the words are preserved when they change, by part; the others are written with what they contain without changes.
    /// `None` if something else changes: then the kernel reads some of them.
    fn preserved(&self, words: &Words, by: u32) -> Result<Option<Vec<Vec<bool>>>> {
        let mut changer = Changer { is_varied: self.is_varied, ..Changer::new(words, by) };
        // A kernel that does not run with other bytes reads them.
        if self.captured.run(&mut [&mut changer]).is_err() {
            return Ok(None);
        }
        let Changer { changed, dispatched: Some(Dispatched { after, .. }), .. } = changer else {
            return Ok(None);
        };
        let mut preserved = Vec::with_capacity(after.len());
        for (((after, expected), changed), words) in after.iter().zip(self.after).zip(&changed).zip(&words.0)
        {
            let bytes = after.content.iter().zip(&expected.content).zip(&changed.content).enumerate();
            let mut part = vec![false; after.content.len()];
            for (at, ((after, expected), changed)) in bytes {
                if after != expected {
                    part[at] = after == changed && words.get(at / 4) == Some(&true);
                    if !part[at] {
                        return Ok(None);
                    }
                }
            }
            preserved.push(part);
        }
        Ok(Some(preserved))
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
