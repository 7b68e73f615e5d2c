//! What the dispatches of a capture say about the data that it writes to buffers.

use std::collections::{HashMap, HashSet};

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
    /// By buffer.
    ranges: HashMap<u64, Vec<Hint>>,
    /// Where workgroup counts are read from, by buffer.
    counts: HashMap<u64, Vec<Range>>,
    /// Of units of which nothing is known.
    pub otherwise: Choice,
}

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
        let mut this =
            Self { kinds: CANDIDATES.to_vec(), ranges: HashMap::new(), counts: HashMap::new(), otherwise };
        if let Some(kind) = element_type_of(rules, None).and_then(|it| this.number(it)) {
            this.otherwise = Choice { allowed: 1 << kind, preferred: 0 };
        }
        let mut seen = HashSet::new();
        plan.dispatches(|dispatch| {
            if let Some(count) = dispatch.workgroup_count_ref {
                let range = Range { offset: count.offset, length: count.length };
                let ranges = this.counts.entry(count.buffer_id).or_default();
                if !ranges.contains(&range) {
                    ranges.push(range);
                }
            }
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
        for hint in hints {
            let Some(part) = overlap(hint.range, offset, length) else { continue };
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

    /// The parts of `length` bytes, written to a place, that are workgroup counts.
    pub(crate) fn counts(
        &self,
        (buffer, offset): (u64, u64),
        length: usize,
    ) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ranges = self.counts.get(&buffer).map_or(&[][..], Vec::as_slice);
        ranges.iter().filter_map(move |range| overlap(*range, offset, length))
    }
}

/// The part of `length` bytes at `offset` that is in `range`.
fn overlap(range: Range, offset: u64, length: usize) -> Option<std::ops::Range<usize>> {
    let start = range.offset.max(offset);
    let end = range.offset.saturating_add(range.length).min(offset.saturating_add(length as u64));
    (start < end).then(|| (start - offset) as usize..(end - offset) as usize)
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
    fn ranges_overlap() {
        let range = Range { offset: 64, length: 16 };
        assert_eq!(overlap(range, 0, 100), Some(64..80));
        assert_eq!(overlap(range, 70, 100), Some(0..10));
        assert_eq!((overlap(range, 0, 64), overlap(range, 80, 10)), (None, None));
    }
}
