//! Which functions use the data that a capture writes, also after copies.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range as Part;

use rehal_base::{ElementType, Range, Result};
use rehal_hal::WORKGROUP_COUNT_BYTES;
use rehal_hal::profile::QueueOpKind;
use rehal_judge::type_in_name;
use rehal_replay::{AccessKind, Plan, PlannedTransfer};

use super::rules::RedactRule;

/// Steps of the search for the uses of copied data, which is quadratic for captures that shift data within a
/// buffer many times.
const MAX_STEPS: u64 = 1 << 24;

/// Where data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Store {
    /// A buffer, by id.
    Buffer(u64),
    /// The data of a record, by ordinal: updates, reads and files.
    Record(u64),
}

/// The uses of the data of a capture.
#[derive(Default)]
pub(super) struct Uses {
    functions: Vec<String>,
    users: Vec<User>,
    /// In order and without overlap.
    segments: HashMap<Store, Vec<Segment>>,
    /// Data is copied in more ways than were followed: types in names are not reliable.
    is_incomplete: bool,
    /// Dispatches that read their workgroup count from a buffer, each performed one.
    pub indirect_dispatch_count: u64,
    /// The record of the first of them.
    pub first_indirect: Option<u32>,
    /// Whether workgroup counts may depend on other data than the kept.
    pub counts_may_change: bool,
}

/// A kind of user of data. Functions with the same element type and the same rules are one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// A dispatch reads its workgroup count.
    WorkgroupCount,
    /// A function, the element type in its name, and the rules that select it.
    Function(Option<ElementType>, Vec<usize>),
}

/// A part of data that the same functions use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    range: Range,
    /// Indices of users.
    users: Vec<usize>,
    /// The functions among them.
    functions: Vec<u32>,
}

/// The range that a function, or a dispatch with its workgroup count, uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Use {
    range: Range,
    user: usize,
    function: Option<u32>,
}

/// The uses of each store.
#[derive(Default)]
struct StoreUses {
    uses: HashMap<Store, Vec<Use>>,
    seen: HashSet<(Store, Use)>,
}

impl Uses {
    /// Finds the uses of the data of a plan.
    pub(super) fn from_plan(plan: &Plan, rules: &[RedactRule]) -> Result<Self> {
        let (mut this, mut found) = (Self::default(), StoreUses::default());
        let mut known = HashMap::new();
        plan.distinct_dispatches(|dispatch, count| {
            if let Some(it) = &dispatch.workgroup_count_ref {
                this.indirect_dispatch_count += count;
                this.first_indirect.get_or_insert(dispatch.location.ordinal);
                let range = Range { offset: it.offset, length: it.length.min(WORKGROUP_COUNT_BYTES) };
                let user = this.user(User::WorkgroupCount);
                found.add(Store::Buffer(it.buffer_id), Use { range, user, function: None });
            }
            let (function, user) = match known.get(dispatch.name) {
                Some(known) => *known,
                None => {
                    let name = String::from_utf8_lossy(dispatch.name).into_owned();
                    let selected =
                        (0..rules.len()).filter(|index| rules[*index].selects_function(dispatch.name));
                    let user = this.user(User::Function(type_in_name(&name), selected.collect()));
                    this.functions.push(name);
                    let new = (this.functions.len() as u32 - 1, user);
                    known.insert(dispatch.name.to_vec(), new);
                    new
                }
            };
            for it in dispatch.bindings {
                let range = Range { offset: it.offset, length: it.length };
                found.add(Store::Buffer(it.buffer_id), Use { range, user, function: Some(function) });
            }
            Ok(())
        })?;
        let mut transfers = Vec::new();
        plan.distinct_transfers(|it| transfers.push(*it));
        this.is_incomplete = !found.follow(&transfers);
        this.segments = found.uses.into_iter().map(|(store, uses)| (store, segments(&uses))).collect();
        this.counts_may_change = this.may_change(plan, &transfers)?;
        Ok(this)
    }

    fn user(&mut self, user: User) -> usize {
        let found = self.users.iter().position(|it| *it == user);
        found.unwrap_or_else(|| {
            self.users.push(user);
            self.users.len() - 1
        })
    }

    /// Whether a workgroup count may depend on data that does not stay: kernels write it, or it is in a file.
    fn may_change(&self, plan: &Plan, transfers: &[PlannedTransfer]) -> Result<bool> {
        if self.indirect_dispatch_count == 0 {
            return Ok(false);
        }
        let is_count = |buffer: u64, range: Range| {
            let parts = self.parts(Store::Buffer(buffer), range);
            parts.iter().any(|(_, users)| users.is_some_and(|it| self.is_workgroup_count(it)))
        };
        let mut may_change = self.is_incomplete
            || transfers.iter().filter(|it| it.kind == QueueOpKind::Read).any(|it| {
                let target = &it.target;
                is_count(target.buffer_id, Range { offset: target.offset, length: target.length })
            });
        plan.distinct_dispatches(|dispatch, _| {
            may_change |= dispatch.bindings.iter().any(|binding| {
                let range = Range { offset: binding.offset, length: binding.length };
                binding.access != AccessKind::Reads && is_count(binding.buffer_id, range)
            });
            Ok(())
        })?;
        Ok(may_change)
    }

    /// All parts of a range, in order, relative to it; `None` for those without a use.
    pub(super) fn parts(&self, store: Store, range: Range) -> Vec<(Part<u64>, Option<&Segment>)> {
        let mut parts = Vec::new();
        let mut at = 0;
        let segments = self.segments.get(&store).map_or(&[][..], Vec::as_slice);
        let first = segments.partition_point(|it| it.range.end() <= range.offset);
        for segment in &segments[first..] {
            let Some(part) = overlap(segment.range, range) else { break };
            if at < part.start {
                parts.push((at..part.start, None));
            }
            at = part.end;
            parts.push((part, Some(segment)));
        }
        if at < range.length {
            parts.push((at..range.length, None));
        }
        parts
    }

    pub(super) fn is_workgroup_count(&self, segment: &Segment) -> bool {
        segment.users.iter().any(|user| self.users[*user] == User::WorkgroupCount)
    }

    /// The rules that select functions which use a segment.
    pub(super) fn rules(&self, segment: &Segment) -> impl Iterator<Item = usize> {
        segment
            .users
            .iter()
            .flat_map(|user| match &self.users[*user] {
                User::Function(_, rules) => rules.as_slice(),
                User::WorkgroupCount => &[],
            })
            .copied()
    }

    /// The rules that select no function.
    pub(super) fn selects_none(&self, rule: usize) -> bool {
        !self.users.iter().any(|user| matches!(user, User::Function(_, rules) if rules.contains(&rule)))
    }

    /// The element types in the names of the functions that use a segment; `None` for a name without.
    pub(super) fn types(&self, segment: &Segment) -> impl Iterator<Item = Option<ElementType>> {
        segment.users.iter().filter_map(|user| match self.users[*user] {
            User::Function(element_type, _) => Some(element_type.filter(|_| !self.is_incomplete)),
            User::WorkgroupCount => None,
        })
    }

    /// The name of a function that uses a segment, and how many do.
    pub(super) fn function(&self, segment: &Segment) -> (Option<String>, usize) {
        let name = segment.functions.first().map(|function| self.functions[*function as usize].clone());
        (name, segment.functions.len())
    }
}

impl StoreUses {
    /// Adds a use; returns whether it is new.
    fn add(&mut self, store: Store, it: Use) -> bool {
        let is_new = it.range.length != 0 && self.seen.insert((store, it));
        if is_new {
            self.uses.entry(store).or_default().push(it);
        }
        is_new
    }

    /// Adds the uses of the data that is copied, written, or read from files to where it comes from. Copies
    /// are followed backwards, so that a second pass only adds something if a command buffer is executed
    /// again. Returns whether all were followed.
    fn follow(&mut self, transfers: &[PlannedTransfer]) -> bool {
        let (mut steps, mut is_done) = (0, false);
        while !is_done {
            is_done = true;
            for transfer in transfers.iter().rev() {
                let target = &transfer.target;
                let written = Range { offset: target.offset, length: target.length };
                let uses = self.uses.get(&Store::Buffer(target.buffer_id)).cloned().unwrap_or_default();
                steps += uses.len() as u64 + 1;
                if steps > MAX_STEPS {
                    return false;
                }
                for (store, first, length) in sources(transfer) {
                    for it in &uses {
                        let Some(part) = overlap(it.range, written) else { continue };
                        let end = part.end.min(length);
                        let range = Range {
                            offset: first.saturating_add(part.start),
                            length: end.saturating_sub(part.start),
                        };
                        is_done &= !self.add(store, Use { range, ..*it });
                    }
                }
            }
        }
        true
    }
}

/// Where the bytes that a transfer writes are from: a store, the first byte, and the length.
fn sources(transfer: &PlannedTransfer) -> Vec<(Store, u64, u64)> {
    let record = (Store::Record(transfer.location.ordinal.into()), 0, u64::MAX);
    match (transfer.kind, &transfer.source, transfer.file) {
        (_, Some(source), _) => vec![(Store::Buffer(source.buffer_id), source.offset, source.length)],
        (_, _, Some((file, offset))) => vec![record, (Store::Record(file.into()), offset, u64::MAX)],
        // The pattern of a fill stays.
        (QueueOpKind::Fill, ..) => Vec::new(),
        _ => vec![record],
    }
}

/// The parts that the same functions use, in order and without overlap.
fn segments(uses: &[Use]) -> Vec<Segment> {
    let mut ends: Vec<(u64, usize)> = Vec::with_capacity(2 * uses.len());
    for (index, it) in uses.iter().enumerate() {
        ends.extend([(it.range.offset, index), (it.range.offset.saturating_add(it.range.length), index)]);
    }
    ends.sort_unstable();
    let mut segments: Vec<Segment> = Vec::new();
    let (mut users, mut functions) = (BTreeMap::new(), BTreeMap::new());
    let mut open = vec![false; uses.len()];
    let mut at = 0;
    for (end, index) in ends {
        if at < end && !users.is_empty() {
            let users: Vec<usize> = users.keys().copied().collect();
            let functions: Vec<u32> = functions.keys().copied().collect();
            match segments.last_mut() {
                Some(last)
                    if last.range.end() == at && last.users == users && last.functions == functions =>
                {
                    last.range.length = end - last.range.offset;
                }
                _ => {
                    segments.push(Segment { range: Range { offset: at, length: end - at }, users, functions })
                }
            }
        }
        at = end;
        open[index] = !open[index];
        count(&mut users, uses[index].user, open[index]);
        if let Some(function) = uses[index].function {
            count(&mut functions, function, open[index]);
        }
    }
    segments
}

/// Counts one more of `key`, or one less.
fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, is_more: bool) {
    match counts.entry(key) {
        std::collections::btree_map::Entry::Occupied(mut it) => match (is_more, *it.get()) {
            (true, _) => *it.get_mut() += 1,
            (false, 1) => drop(it.remove()),
            (false, _) => *it.get_mut() -= 1,
        },
        std::collections::btree_map::Entry::Vacant(it) => drop(it.insert(1)),
    }
}

/// The part of `range` that is in `other`, relative to `range`.
fn overlap(other: Range, range: Range) -> Option<Part<u64>> {
    let start = other.offset.max(range.offset);
    let end = other.offset.saturating_add(other.length).min(range.offset.saturating_add(range.length));
    (start < end).then(|| start - range.offset..end - range.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_the_users_and_functions_of_each_of_their_bytes() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let uses: Vec<_> = (0..random.usize(..6))
                .map(|_| Use {
                    range: Range { offset: random.u64(..20), length: random.u64(1..12) },
                    user: random.usize(..3),
                    function: Some(random.u32(..4)),
                })
                .collect();
            let segments = segments(&uses);
            assert!(segments.windows(2).all(|it| it[0].range.end() <= it[1].range.offset), "{segments:?}");
            for at in 0..40 {
                let has = |range: &Range| range.offset <= at && at < range.end();
                let expected: std::collections::BTreeSet<_> =
                    uses.iter().filter(|it| has(&it.range)).map(|it| it.user).collect();
                let found = segments.iter().find(|it| has(&it.range));
                let users = found.map_or(Vec::new(), |it| it.users.clone());
                assert_eq!(users, expected.into_iter().collect::<Vec<_>>(), "byte {at}: {uses:?}");
                let expected: std::collections::BTreeSet<_> =
                    uses.iter().filter(|it| has(&it.range)).filter_map(|it| it.function).collect();
                let functions = found.map_or(Vec::new(), |it| it.functions.clone());
                assert_eq!(functions, expected.into_iter().collect::<Vec<_>>(), "byte {at}: {uses:?}");
            }
        }
    }

    #[test]
    fn ranges_overlap() {
        let range = Range { offset: 64, length: 16 };
        let other = |offset, length| Range { offset, length };
        assert_eq!(overlap(range, other(0, 100)), Some(64..80));
        assert_eq!(overlap(range, other(70, 100)), Some(0..10));
        assert_eq!((overlap(range, other(0, 64)), overlap(range, other(80, 10))), (None, None));
    }
}
