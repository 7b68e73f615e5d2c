//! Tracks which submissions may be in flight, what they access, and which of them are ordered.
//!
//! A submission joins when it can run: when it is issued or, if it is deferred, when the last of its waits is
//! signalled. From then on it is in flight until the host is known to have waited for it. At most `64 * N`
//! submissions are in flight. A set of them is a bit set, so that each operation on a set takes constant
//! time.

use rehal_hal::Timepoint;

use crate::effects::{Access, Effect, Footprint};
use crate::lists::Lists;

/// Ranges of one resource with different accesses; more are approximated.
pub(crate) const MAX_FRAGMENTS: usize = 64;

/// A set of submissions in flight, by their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots<const N: usize>([u64; N]);

/// A submission in flight.
pub(crate) struct InFlight<const N: usize> {
    /// Its index in the plan.
    pub submission: u32,
    /// The step at which it can run.
    pub step: u32,
    /// Submissions that complete before it starts, transitively.
    before: Slots<N>,
}

/// A range of a resource, with the submissions that access it and that no later access supersedes.
struct Fragment<const N: usize> {
    start: u64,
    end: u64,
    readers: Slots<N>,
    /// The submissions that certainly write.
    writers: Slots<N>,
    binders: Slots<N>,
    /// Whether each of them accesses all of these bytes.
    is_exact: bool,
}

/// Bytes that two unordered submissions access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    /// The slot of the earlier one.
    pub slot: usize,
    /// The access of the later one, with only the bytes that both access.
    pub access: Access,
    /// The access of the earlier one.
    pub effect: Effect,
    /// Whether both access exactly these bytes; otherwise some of them.
    pub is_exact: bool,
}

/// The submissions in flight.
pub(crate) struct Tracker<const N: usize> {
    /// By slot.
    in_flight: Vec<InFlight<N>>,
    /// The submissions that joined before slot 0.
    joined_before: u32,
    /// Submissions that the host is known to have waited for.
    done: Slots<N>,
    /// By resource, sorted by range.
    resources: Lists<Fragment<N>>,
    /// Scratch of [`add`].
    replaced: Vec<Fragment<N>>,
    /// Submissions that may access any byte.
    unbounded: Slots<N>,
    /// Their signals by semaphore, in ascending order.
    signals: Lists<(u64, usize)>,
    /// The payload of each semaphore before these.
    reached: Vec<u64>,
    /// See [`MAX_FRAGMENTS`].
    max_fragments: usize,
    /// A measure of the time spent.
    pub work: u64,
}

impl<const N: usize> Tracker<N> {
    const CAPACITY: usize = 64 * N;

    /// Nothing is in flight, and semaphores have these payloads. Each of the resources has up to
    /// `max_fragments` ranges with different accesses.
    pub(crate) fn new(reached: Vec<u64>, resource_count: usize, max_fragments: usize) -> Self {
        Self {
            in_flight: Vec::new(),
            joined_before: 0,
            done: Slots::default(),
            resources: Lists::new(resource_count),
            replaced: Vec::new(),
            unbounded: Slots::default(),
            signals: Lists::new(reached.len()),
            reached,
            max_fragments,
            work: 0,
        }
    }

    /// The submissions in flight that the host is not known to have waited for.
    pub(crate) fn pending(&self) -> Slots<N> {
        Slots::first(self.in_flight.len()).minus(self.done)
    }

    /// Whether the oldest half must be [retired](Self::retire) before another submission joins.
    pub(crate) fn is_full(&self) -> bool {
        self.in_flight.len() == Self::CAPACITY
    }

    /// The slots of the oldest half.
    pub(crate) fn oldest(&self) -> Slots<N> {
        Slots::first(Self::CAPACITY / 2)
    }

    /// The submission in a slot.
    pub(crate) fn in_flight(&self, slot: usize) -> &InFlight<N> {
        &self.in_flight[slot]
    }

    /// The number of submissions that joined before the one in a slot.
    pub(crate) fn position(&self, slot: usize) -> u32 {
        self.joined_before + slot as u32
    }

    /// The submissions that complete before one with these waits starts.
    pub(crate) fn before(&self, waits: &[Timepoint<u32>]) -> Slots<N> {
        let mut before = Slots::default();
        for wait in waits.iter().filter(|wait| wait.value > self.reached[wait.semaphore as usize]) {
            let signals = self.signals.get(wait.semaphore);
            // Signals of a semaphore are ordered, so the first that suffices is the earliest.
            let at = signals.partition_point(|(value, _)| *value < wait.value);
            if let Some((_, slot)) = signals.get(at) {
                before = before.union(self.closed(Slots::one(*slot)));
            }
        }
        before
    }

    /// The last in flight that signals a semaphore, for each of `signals`.
    pub(crate) fn signallers(&self, signals: &[Timepoint<u32>]) -> Slots<N> {
        let last = |it: &Timepoint<u32>| self.signals.get(it.semaphore).last().map(|(_, slot)| *slot);
        signals.iter().filter_map(last).fold(Slots::default(), |slots, slot| slots.union(Slots::one(slot)))
    }

    /// `slots` and all that complete before them.
    pub(crate) fn closed(&self, slots: Slots<N>) -> Slots<N> {
        slots.iter().fold(slots, |closed, slot| closed.union(self.in_flight[slot].before))
    }

    /// The minimal subset of `slots` whose completion implies that of all others.
    pub(crate) fn last_of(&mut self, slots: Slots<N>) -> Slots<N> {
        let (mut last, mut covered) = (Slots::default(), Slots::default());
        for slot in slots.iter().rev() {
            if !covered.contains(slot) {
                last = last.union(Slots::one(slot));
                covered = covered.union(self.in_flight[slot].before);
            }
        }
        self.work += (N * slots.count()) as u64;
        last
    }

    /// The pending submissions outside of `before` whose accesses conflict with `footprint`. `seen` receives
    /// the bytes.
    pub(crate) fn conflicts(
        &mut self,
        footprint: &Footprint,
        before: Slots<N>,
        mut seen: impl FnMut(Conflict),
    ) -> Slots<N> {
        let candidates = self.pending().minus(before);
        if candidates.is_empty() {
            return candidates;
        }
        if footprint.is_unbounded {
            return candidates;
        }
        let mut conflicts = match footprint.accesses.is_empty() {
            true => Slots::default(),
            false => self.unbounded.and(candidates),
        };
        for access in &footprint.accesses {
            let fragments = self.resources.get(access.resource);
            let from = fragments.partition_point(|it| it.end <= access.start);
            self.work += (N + 4) as u64;
            for fragment in fragments[from..].iter().take_while(|it| it.start < access.end) {
                self.work += (4 * N) as u64;
                let conflicting = fragment.conflicting(access.effect).and(candidates);
                conflicts = conflicts.union(conflicting);
                let (start, end) = (fragment.start.max(access.start), fragment.end.min(access.end));
                for slot in conflicting.iter() {
                    let effect = fragment.effect_of(slot);
                    let (access, is_exact) = (Access { start, end, ..*access }, fragment.is_exact);
                    seen(Conflict { slot, access, effect, is_exact });
                }
            }
        }
        conflicts
    }

    /// The host has waited for `slots`.
    pub(crate) fn complete(&mut self, slots: Slots<N>) {
        self.done = self.done.union(self.closed(slots));
        if self.pending().is_empty() {
            self.joined_before += self.in_flight.len() as u32;
            self.in_flight.clear();
            self.resources.clear_each(|_, _| {});
            self.signals.clear_each(|semaphore, signals| {
                self.reached[semaphore as usize] = signals.last().map_or(0, |(value, _)| *value);
            });
            (self.done, self.unbounded) = Default::default();
        }
    }

    /// A submission can run from `step` on, after those in `before`.
    pub(crate) fn join(
        &mut self,
        submission: u32,
        step: u32,
        before: Slots<N>,
        signals: &[Timepoint<u32>],
        footprint: &Footprint,
    ) {
        let slot = self.in_flight.len();
        self.in_flight.push(InFlight { submission, step, before });
        for signal in signals {
            self.signals.list(signal.semaphore).push((signal.value, slot));
        }
        if footprint.is_unbounded {
            self.unbounded = self.unbounded.union(Slots::one(slot));
        }
        for access in &footprint.accesses {
            let fragments = self.resources.list(access.resource);
            let touched = add(fragments, access, slot, self.max_fragments, &mut self.replaced);
            self.work += (4 * N * touched) as u64;
        }
    }

    /// Forgets the oldest half, which is complete.
    pub(crate) fn retire(&mut self) {
        let half = Self::CAPACITY / 2;
        self.in_flight.drain(..half);
        self.joined_before += half as u32;
        for in_flight in &mut self.in_flight {
            in_flight.before = in_flight.before.without_oldest();
        }
        self.done = self.done.without_oldest();
        self.unbounded = self.unbounded.without_oldest();
        self.resources.retain_non_empty(|_, fragments| {
            self.work += (3 * N * fragments.len()) as u64;
            fragments.retain_mut(Fragment::retire);
        });
        self.signals.retain_non_empty(|semaphore, signals| {
            let retired = signals.partition_point(|(_, slot)| *slot < half);
            if let Some((value, _)) = signals.drain(..retired).next_back() {
                self.reached[semaphore as usize] = value;
            }
            signals.iter_mut().for_each(|(_, slot)| *slot -= half);
        });
    }
}

impl<const N: usize> Fragment<N> {
    fn empty(start: u64, end: u64) -> Self {
        let none = Slots::default();
        Self { start, end, readers: none, writers: none, binders: none, is_exact: true }
    }

    fn conflicting(&self, effect: Effect) -> Slots<N> {
        let writers = self.writers.union(self.binders);
        match effect {
            Effect::Read => writers,
            Effect::Write | Effect::Bind | Effect::Any => writers.union(self.readers),
        }
    }

    fn effect_of(&self, slot: usize) -> Effect {
        match () {
            () if self.writers.contains(slot) => Effect::Write,
            () if self.binders.contains(slot) => Effect::Bind,
            () => Effect::Read,
        }
    }

    /// Adds an access. One that may write is ordered after all earlier ones, so whatever is ordered after it
    /// is ordered after them.
    fn add(&mut self, effect: Effect, slot: usize) {
        let one = Slots::one(slot);
        if effect != Effect::Read {
            let both = self.readers.union(self.writers).union(self.binders);
            self.is_exact |= both.and(one).is_empty();
            for slots in [&mut self.readers, &mut self.writers, &mut self.binders] {
                *slots = slots.and(one);
            }
        }
        let accessors = match effect {
            Effect::Read => &mut self.readers,
            Effect::Write => &mut self.writers,
            Effect::Bind | Effect::Any => &mut self.binders,
        };
        *accessors = accessors.union(one);
    }

    /// The accesses of both ranges, for all bytes from the first to the last.
    fn merged(&self, next: &Self) -> Self {
        Self {
            start: self.start,
            end: next.end,
            readers: self.readers.union(next.readers),
            writers: self.writers.union(next.writers),
            binders: self.binders.union(next.binders),
            is_exact: false,
        }
    }

    fn retire(&mut self) -> bool {
        for slots in [&mut self.readers, &mut self.writers, &mut self.binders] {
            *slots = slots.without_oldest();
        }
        !self.conflicting(Effect::Write).is_empty()
    }

    /// Another fragment with the same accesses.
    fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, ..*self }
    }
}

/// Adds an access to the sorted `fragments` of its resource; returns how many it touched. `replaced` is
/// scratch.
fn add<const N: usize>(
    fragments: &mut Vec<Fragment<N>>,
    access: &Access,
    slot: usize,
    max_fragments: usize,
    replaced: &mut Vec<Fragment<N>>,
) -> usize {
    // Most operations access what an earlier one has accessed, or what none has.
    match fragments.as_mut_slice() {
        [] => {
            let mut fragment = Fragment::empty(access.start, access.end);
            fragment.add(access.effect, slot);
            fragments.push(fragment);
            return 1;
        }
        [only] if (only.start, only.end) == (access.start, access.end) => {
            only.add(access.effect, slot);
            return 1;
        }
        _ => {}
    }
    let from = fragments.partition_point(|it| it.end <= access.start);
    let to = from + fragments[from..].partition_point(|it| it.start < access.end);
    replaced.clear();
    let mut at = access.start;
    let cover = |replaced: &mut Vec<Fragment<N>>, mut fragment: Fragment<N>| {
        fragment.add(access.effect, slot);
        replaced.push(fragment);
    };
    for old in &fragments[from..to] {
        if old.start < access.start {
            replaced.push(old.part(old.start, access.start));
        }
        if at < old.start {
            cover(replaced, Fragment::empty(at, old.start));
        }
        let end = old.end.min(access.end);
        cover(replaced, old.part(old.start.max(access.start), end));
        if access.end < old.end {
            replaced.push(old.part(access.end, old.end));
        }
        at = end;
    }
    if at < access.end {
        cover(replaced, Fragment::empty(at, access.end));
    }
    let touched = replaced.len() + fragments.len() - to;
    fragments.splice(from..to, replaced.drain(..));
    if fragments.len() > max_fragments {
        coarsen(fragments);
        return touched + max_fragments;
    }
    touched
}

/// Halves the number of fragments: each two neighbours become one, with the bytes between them.
fn coarsen<const N: usize>(fragments: &mut Vec<Fragment<N>>) {
    let merged = fragments.chunks(2).map(|pair| match pair {
        [first, second] => first.merged(second),
        rest => rest[0].part(rest[0].start, rest[0].end),
    });
    *fragments = merged.collect();
}

impl<const N: usize> Default for Slots<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Slots<N> {
    fn one(slot: usize) -> Self {
        let mut words = [0; N];
        words[slot / 64] = 1 << (slot % 64);
        Self(words)
    }

    fn first(count: usize) -> Self {
        Self(std::array::from_fn(|word| match count.saturating_sub(64 * word) {
            bits @ 0..64 => (1 << bits) - 1,
            _ => u64::MAX,
        }))
    }

    pub(crate) fn contains(self, slot: usize) -> bool {
        self.0[slot / 64] >> (slot % 64) & 1 != 0
    }

    /// Whether it has no elements.
    pub(crate) fn is_empty(self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn with(self, slot: usize) -> Self {
        self.union(Self::one(slot))
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The elements, in ascending order.
    pub(crate) fn iter(self) -> SlotIter<N> {
        SlotIter(self)
    }

    /// The elements of the newer half, renumbered from 0.
    fn without_oldest(self) -> Self {
        if N == 1 {
            return Self([self.0[0] >> 32; N]);
        }
        Self(std::array::from_fn(|word| self.0.get(word + N / 2).copied().unwrap_or_default()))
    }
}

/// Iterates over a set.
pub(crate) struct SlotIter<const N: usize>(Slots<N>);

impl<const N: usize> Iterator for SlotIter<N> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let (index, word) = self.0.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(64 * index + bit)
    }
}

impl<const N: usize> DoubleEndedIterator for SlotIter<N> {
    fn next_back(&mut self) -> Option<usize> {
        let (index, word) = self.0.0.iter_mut().enumerate().rfind(|(_, word)| **word != 0)?;
        let bit = 63 - word.leading_zeros() as usize;
        *word &= !(1 << bit);
        Some(64 * index + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn access(start: u64, end: u64, effect: Effect) -> Access {
        Access { resource: 0, start, end, effect }
    }

    fn footprint(accesses: &[Access]) -> Footprint {
        Footprint { accesses: accesses.to_vec(), is_unbounded: false }
    }

    fn at(value: u64) -> Timepoint<u32> {
        Timepoint { semaphore: 0, value }
    }

    fn slots(list: &[usize]) -> Slots<1> {
        list.iter().fold(Slots::default(), |slots, slot| slots.with(*slot))
    }

    /// The submissions with these accesses, each after those in its set; the one in slot `n` signals `n + 1`.
    fn tracker(max_fragments: usize, joined: &[(&[usize], &[Access])]) -> Tracker<1> {
        let mut tracker = Tracker::new(vec![0], 1, max_fragments);
        for (slot, (before, accesses)) in (0..).zip(joined) {
            tracker.join(slot, slot, slots(before), &[at(u64::from(slot) + 1)], &footprint(accesses));
        }
        tracker
    }

    fn conflicts(
        tracker: &mut Tracker<1>,
        it: Access,
        before: &[usize],
    ) -> (Slots<1>, Vec<(u64, u64, bool)>) {
        let mut seen = Vec::new();
        let slots = tracker.conflicts(&footprint(&[it]), slots(before), |it| {
            seen.push((it.access.start, it.access.end, it.is_exact));
        });
        (slots, seen)
    }

    /// Without it, accesses of what is ordered may conflict, or those of what is not may be missed.
    #[test]
    fn conflicts_are_those_of_the_last_accesses_of_each_byte() {
        const READ: Access = access(0, 10, Effect::Read);
        const BIND: Access = access(5, 15, Effect::Bind);
        let mut tracker = tracker(8, &[(&[], &[READ]), (&[], &[READ]), (&[0, 1], &[BIND])]);
        for (it, before, expected, bytes) in [
            (access(0, 20, Effect::Read), &[][..], &[2][..], &[(5, 10), (10, 15)][..]),
            (access(0, 5, Effect::Write), &[], &[0, 1], &[(0, 5), (0, 5)]),
            // Those that the binding is ordered after are superseded by it.
            (access(5, 10, Effect::Write), &[], &[2], &[(5, 10)]),
            (access(4, 6, Effect::Any), &[1], &[0, 2], &[(4, 5), (5, 6)]),
            (access(15, 20, Effect::Write), &[], &[], &[]),
            (access(0, 20, Effect::Write), &[0, 1, 2], &[], &[]),
        ] {
            let (found, seen) = conflicts(&mut tracker, it, before);
            let bytes: Vec<_> = bytes.iter().map(|(start, end)| (*start, *end, true)).collect();
            assert_eq!((found, seen), (slots(expected), bytes), "{it:?}");
        }
        // The host waits for the last one only, and then nothing conflicts.
        assert_eq!(tracker.last_of(slots(&[0, 1, 2])), slots(&[2]));
        assert_eq!(tracker.last_of(slots(&[0, 1])), slots(&[0, 1]));
        tracker.complete(slots(&[0]));
        assert_eq!(tracker.pending(), slots(&[1, 2]));
        assert_eq!(conflicts(&mut tracker, access(0, 5, Effect::Write), &[]).0, slots(&[1]));
        tracker.complete(slots(&[2]));
        assert_eq!((tracker.pending(), tracker.position(0)), (Slots::default(), 3));
    }

    /// Without it, merged ranges may be reported as if all their bytes were accessed.
    #[test]
    fn merged_ranges_are_not_exact() {
        let parts: Vec<_> = (0..4).map(|at| access(10 * at, 10 * at + 2, Effect::Write)).collect();
        let last = |max_fragments| {
            conflicts(&mut tracker(max_fragments, &[(&[], &parts)]), access(31, 40, Effect::Read), &[]).1
        };
        assert_eq!(last(4), [(31, 32, true)]);
        assert_eq!(last(3), [(31, 32, false)]);
        // The pairs that are merged leave the last one alone.
        assert_eq!(last(2), [(31, 32, true)]);
        assert_eq!(last(1), [(31, 32, false)]);
    }

    /// Without it, a wait for a value that is reached orders work, or one for a later value does not.
    #[test]
    fn waits_order_what_signals_their_values_first() {
        const NONE: (&[usize], &[Access]) = (&[], &[]);
        let mut tracker = tracker(8, &[NONE; 64]);
        for (value, expected) in [(0, &[][..]), (1, &[0]), (33, &[32]), (64, &[63]), (65, &[])] {
            assert_eq!(tracker.before(&[at(value)]), slots(expected), "{value}");
        }
        assert_eq!(tracker.signallers(&[at(65)]), slots(&[63]));
        assert!(tracker.is_full());
        tracker.complete(tracker.oldest());
        tracker.retire();
        assert_eq!((tracker.position(0), tracker.pending()), (32, Slots::first(32)));
        for (value, expected) in [(32, &[][..]), (33, &[0]), (34, &[1]), (64, &[31])] {
            assert_eq!(tracker.before(&[at(value)]), slots(expected), "{value}");
        }
        tracker.complete(Slots::first(32));
        tracker.join(64, 64, Slots::default(), &[at(70)], &footprint(&[]));
        assert_eq!(tracker.before(&[at(64)]), Slots::default());
        assert_eq!(tracker.before(&[at(65)]), slots(&[0]));
    }
}
