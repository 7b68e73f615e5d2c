//! What the dispatches of a capture say about the data that it writes to buffers.

use std::collections::{BTreeSet, HashMap, HashSet};

use rehal_base::{ElementType, Range, Result};
use rehal_replay::Plan;

use super::kinds::{CANDIDATES, Kind};
use super::segments::{Choice, UNIT_BYTES};
use crate::ElementTypeRule;
use crate::tolerance::element_type_of;

/// Ranges of bindings that are remembered. The type of other data is inferred from its bytes alone.
const MAX_RANGES: usize = 1 << 20;

/// What is known of the data of a capture.
pub(crate) struct Hints {
    /// The candidates, and the kinds that rules name.
    pub kinds: Vec<Kind>,
    /// By buffer, in order and without overlap.
    ranges: HashMap<u64, Vec<Hint>>,
    /// Of units of which nothing is known.
    pub otherwise: Choice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hint {
    range: Range,
    /// The kinds that names of functions mention, as bits by index.
    mentioned: u32,
    /// The kind that a rule states.
    stated: Option<usize>,
}

impl Hints {
    /// Those of the dispatches of a plan. `rules` state the types of what functions access; one without a function, of all data.
    pub(crate) fn of(plan: &Plan, rules: &[ElementTypeRule]) -> Result<Self> {
        let candidates = (1 << CANDIDATES.len()) - 1;
        let otherwise = Choice { allowed: candidates, preferred: 0 };
        let mut this = Self { kinds: CANDIDATES.to_vec(), ranges: HashMap::new(), otherwise };
        if let Some(kind) = element_type_of(rules, None).and_then(|it| this.number(it)) {
            this.otherwise = Choice { allowed: 1 << kind, preferred: 0 };
        }
        let mut seen = HashSet::new();
        plan.distinct_dispatches(|dispatch, _| {
            let mentioned = mentioned(dispatch.name);
            let stated = element_type_of(rules, Some(dispatch.name)).and_then(|it| this.number(it));
            if mentioned == 0 && stated.is_none() {
                return Ok(());
            }
            for binding in dispatch.bindings {
                let key = (binding.buffer_id, binding.offset, binding.length, mentioned, stated);
                if seen.len() < MAX_RANGES && seen.insert(key) {
                    let range = Range { offset: binding.offset, length: binding.length };
                    this.ranges.entry(binding.buffer_id).or_default().push(Hint { range, mentioned, stated });
                }
            }
            Ok(())
        })?;
        this.ranges.values_mut().for_each(|hints| *hints = flattened(hints));
        Ok(this)
    }

    /// The index of the kind of elements of a type.
    fn number(&mut self, element_type: ElementType) -> Option<usize> {
        let kind = Kind::of(element_type)?;
        let found = self.kinds.iter().position(|it| (it.size, it.form) == (kind.size, kind.form));
        // One bit for each.
        if found.is_none() && self.kinds.len() == 32 {
            return None;
        }
        Some(found.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        }))
    }

    /// The choices of the units of `length` bytes that are written to a place; empty if nothing is known of them.
    pub(crate) fn choices(&self, (buffer, offset): (u64, u64), length: usize) -> Vec<Choice> {
        let Some(hints) = self.ranges.get(&buffer) else { return Vec::new() };
        let mut choices = Vec::new();
        let first = hints.partition_point(|hint| hint.range.end() <= offset);
        for hint in &hints[first..] {
            let Some(part) = overlap(hint.range, offset, length as u64) else { break };
            let part = part.start as usize..part.end as usize;
            choices.resize(length.div_ceil(UNIT_BYTES), self.otherwise);
            for choice in &mut choices[part.start / UNIT_BYTES..part.end.div_ceil(UNIT_BYTES)] {
                choice.preferred |= hint.mentioned;
                if let Some(kind) = hint.stated {
                    choice.allowed = 1 << kind;
                }
            }
        }
        choices
    }
}

/// Hints that say the same, in order and without overlap: what any of them mentions, and what the last of them states. A search among
/// them takes little time, however many ranges of a buffer are bound.
fn flattened(hints: &[Hint]) -> Vec<Hint> {
    let mut ends: Vec<(u64, usize)> = Vec::with_capacity(2 * hints.len());
    for (index, Hint { range, .. }) in hints.iter().enumerate() {
        ends.extend([(range.offset, index), (range.offset.saturating_add(range.length), index)]);
    }
    ends.sort_unstable();
    let (mut flat, mut open): (Vec<Hint>, Open) = Default::default();
    let mut at = 0;
    for (end, index) in ends {
        if at < end && !open.indices.is_empty() {
            let (mentioned, stated) = (open.mentioned(), open.stated(hints));
            match flat.last_mut() {
                Some(last) if (last.range.end(), last.mentioned, last.stated) == (at, mentioned, stated) => {
                    last.range.length = end - last.range.offset;
                }
                _ => flat.push(Hint { range: Range { offset: at, length: end - at }, mentioned, stated }),
            }
        }
        at = end;
        open.pass(index, &hints[index]);
    }
    flat
}

/// The hints that begin before a place and end after it.
#[derive(Default)]
struct Open {
    indices: HashSet<usize>,
    /// How many of them mention each kind.
    mentions: [u32; CANDIDATES.len()],
    /// Those that state a kind.
    stating: BTreeSet<usize>,
}

impl Open {
    /// Passes the begin or the end of a hint.
    fn pass(&mut self, index: usize, hint: &Hint) {
        let begins = self.indices.insert(index);
        let mentioned = self.mentions.iter_mut().enumerate();
        for (_, count) in mentioned.filter(|(kind, _)| hint.mentioned >> kind & 1 != 0) {
            *count = if begins { *count + 1 } else { *count - 1 };
        }
        if !begins {
            self.indices.remove(&index);
            self.stating.remove(&index);
        } else if hint.stated.is_some() {
            self.stating.insert(index);
        }
    }

    fn mentioned(&self) -> u32 {
        let kinds = (0..).zip(&self.mentions).filter(|(_, count)| **count != 0);
        kinds.fold(0, |mentioned, (kind, _): (u32, _)| mentioned | 1 << kind)
    }

    fn stated(&self, hints: &[Hint]) -> Option<usize> {
        self.stating.last().and_then(|index| hints[*index].stated)
    }
}

/// The part of `length` bytes at `offset` that is in `range`.
pub(super) fn overlap(range: Range, offset: u64, length: u64) -> Option<std::ops::Range<u64>> {
    let start = range.offset.max(offset);
    let end = range.offset.saturating_add(range.length).min(offset.saturating_add(length));
    (start < end).then(|| start - offset..end - offset)
}

/// The candidates that the name of a function mentions, such as `f16` and `f32` in `matmul_4x8x16_f16xf16xf32`.
fn mentioned(name: &[u8]) -> u32 {
    let words =
        name.split(|byte| !byte.is_ascii_alphanumeric()).flat_map(|word| word.split(|it| *it == b'x'));
    let kinds = words.filter_map(|word| {
        let kind = Kind::of(std::str::from_utf8(word).ok()?.parse().ok()?)?;
        CANDIDATES.iter().position(|it| (it.size, it.form) == (kind.size, kind.form))
    });
    kinds.fold(0, |mentioned, kind| mentioned | 1 << kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mention_types() {
        let of = |name: &str| {
            let mentioned = mentioned(name.as_bytes());
            let kinds = (0..).zip(CANDIDATES).filter(|(number, _)| mentioned >> number & 1 != 0);
            kinds.map(|(_, kind)| kind.element_type.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("main$async_dispatch_0_matmul_4x8x16_f16xf16xf32"), "f32 f16");
        assert_eq!(of("gather_10xi64"), "i64");
        assert_eq!(of("quantized_i8xi8xi32_bf16"), "bf16 i32 i8");
        assert_eq!(of("main_dispatch_17"), "");
    }

    #[test]
    fn flattened_hints_say_of_each_byte_what_all_of_them_say() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let hint = |random: &mut fastrand::Rng| Hint {
                range: Range { offset: random.u64(..20), length: random.u64(..12) },
                mentioned: random.u32(..4),
                stated: Some(random.usize(..4)).filter(|it| *it != 0),
            };
            let hints: Vec<_> = (0..random.usize(..6)).map(|_| hint(&mut random)).collect();
            let flat = flattened(&hints);
            assert!(flat.windows(2).all(|it| it[0].range.end() <= it[1].range.offset), "{flat:?}");
            for at in 0..40 {
                let has = |hint: &&Hint| hint.range.offset <= at && at < hint.range.end();
                let all = hints.iter().filter(has);
                let mentioned = all.clone().fold(0, |mentioned, it| mentioned | it.mentioned);
                let expected =
                    (all.clone().count() != 0, mentioned, all.filter_map(|it| it.stated).next_back());
                let one = flat.iter().find(has);
                let found = (one.is_some(), one.map_or(0, |it| it.mentioned), one.and_then(|it| it.stated));
                assert_eq!(found, expected, "byte {at}: {hints:?}");
            }
        }
    }

    #[test]
    fn ranges_overlap() {
        let range = Range { offset: 64, length: 16 };
        assert_eq!(overlap(range, 0, 100), Some(64..80));
        assert_eq!(overlap(range, 70, 100), Some(0..10));
        assert_eq!((overlap(range, 0, 64), overlap(range, 80, 10)), (None, None));
    }
}
