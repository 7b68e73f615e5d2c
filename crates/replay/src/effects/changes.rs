//! The unit of a change, and the list of changes of a range.

use rehal_base::Range;

/// Unit of [`changes`]: a multiple of the size of every element, so that no element is split.
pub const CHANGE_BYTES: usize = 16;
/// Bytes that are compared at once while nothing differs.
pub(crate) const STRIDE_BYTES: usize = 4 << 10;
/// Maximum number of changes of a range; beyond that, changes with little between them are merged.
const MAX_CHANGES: usize = 1024;
/// [`Changes::gap`], unless there are too many changes.
const MIN_GAP_BYTES: u64 = 64;

/// The ranges in which two slices of the same length differ, in units of [`CHANGE_BYTES`]; ranges that
/// touch are one.
pub(crate) fn changes(before: &[u8], after: &[u8]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut add = |offset: usize, length: usize| {
        let (offset, length) = (offset as u64, length as u64);
        match ranges.last_mut() {
            Some(last) if last.end() == offset => last.length += length,
            _ => ranges.push(Range { offset, length }),
        }
    };
    for Range { offset, length } in changed_strides(before, after) {
        let start = offset as usize;
        let (old, new) = (&before[start..][..length as usize], &after[start..][..length as usize]);
        // Of constant length, so that they are compared in a register and not by a call each.
        let ((old, old_rest), (new, new_rest)) = (old.as_chunks(), new.as_chunks());
        for (grain, _) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| is_changed(old, new)) {
            add(start + grain * CHANGE_BYTES, CHANGE_BYTES);
        }
        if old_rest != new_rest {
            add(start + old.len() * CHANGE_BYTES, new_rest.len());
        }
    }
    ranges
}

/// The strides in which two slices of the same length differ.
pub(crate) fn changed_strides(before: &[u8], after: &[u8]) -> impl Iterator<Item = Range> {
    let strides = before.chunks(STRIDE_BYTES).zip(after.chunks(STRIDE_BYTES));
    let changed = (0..).step_by(STRIDE_BYTES).zip(strides).filter(|(_, (old, new))| old != new);
    changed.map(|(offset, (old, _))| Range { offset, length: old.len() as u64 })
}

fn is_changed(old: &[u8; CHANGE_BYTES], new: &[u8; CHANGE_BYTES]) -> bool {
    u128::from_ne_bytes(*old) != u128::from_ne_bytes(*new)
}

/// Collects the changes of a range, of which it merges those that are near or overlap.
pub(super) struct Changes<'r> {
    ranges: &'r mut Vec<Range>,
    /// Changes with fewer unchanged bytes between them are one.
    gap: u64,
}

impl<'r> Changes<'r> {
    pub(super) fn new(ranges: &'r mut Vec<Range>) -> Self {
        ranges.clear();
        Self { ranges, gap: MIN_GAP_BYTES }
    }

    /// Adds the next change, which does not start before the last one.
    pub(super) fn add(&mut self, range: Range) {
        match self.ranges.last_mut() {
            Some(last) if range.offset.saturating_sub(last.end()) < self.gap => {
                last.length = range.end().max(last.end()) - last.offset;
            }
            _ => self.ranges.push(range),
        }
        while self.ranges.len() > MAX_CHANGES {
            self.gap *= 4;
            let gap = self.gap;
            self.ranges.dedup_by(|next, last| {
                let is_near = next.offset - last.end() < gap;
                if is_near {
                    last.length = next.end() - last.offset;
                }
                is_near
            });
        }
    }
}

/// Adds the changes of bytes at `at` in a buffer, as ranges of `binding` in whole units of it.
pub(super) fn add_changes(binding: Range, at: u64, old: &[u8], new: &[u8], changed: &mut Changes<'_>) {
    let unit = CHANGE_BYTES as u64;
    let (first, end) = (binding.offset.max(at), binding.end().min(at + old.len() as u64));
    if first >= end {
        return;
    }
    let part = (first - at) as usize..(end - at) as usize;
    let (old, new, place) = (&old[part.clone()], &new[part], first - binding.offset);
    let mut add_units = |start: u64, end: u64| {
        let (start, end) = (start / unit * unit, end.next_multiple_of(unit).min(binding.length));
        changed.add(Range { offset: start, length: end - start });
    };
    // The end of a unit that begins before these bytes.
    let head = (place.next_multiple_of(unit) - place).min(old.len() as u64) as usize;
    if old[..head] != new[..head] {
        add_units(place, place + head as u64);
    }
    for range in changes(&old[head..], &new[head..]) {
        let start = place + head as u64 + range.offset;
        add_units(start, start + range.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.offset, range.length)).collect()
    }

    fn changed(before: &[u8], after: &[u8]) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        let whole = Range { offset: 0, length: before.len() as u64 };
        add_changes(whole, 0, before, after, &mut Changes::new(&mut ranges));
        pairs(&ranges)
    }

    #[test]
    fn changes_are_whole_units() {
        let before = vec![0; 10_005];
        let mut after = before.clone();
        assert!(changes(&before, &after).is_empty());
        for at in [5, 40, 4095, 4096, 9_999, 10_003] {
            after[at] = 1;
        }
        assert_eq!(pairs(&changes(&before, &after)), [(0, 16), (32, 16), (4080, 32), (9984, 21)]);
        // Those with little between them are one.
        assert_eq!(changed(&before, &after), [(0, 48), (4080, 32), (9984, 21)]);
    }

    #[test]
    fn many_changes_are_merged_and_none_is_lost() {
        let mut random = fastrand::Rng::with_seed(7);
        for stride in [100, 4096, 10_000] {
            let before = vec![0_u8; 4000 * stride];
            let mut after = before.clone();
            for row in 0..4000 {
                after[row * stride + random.usize(..stride)] = 1;
            }
            let ranges = changed(&before, &after);
            assert!(ranges.len() <= MAX_CHANGES, "{}", ranges.len());
            let mut rebuilt = before.clone();
            for (offset, length) in &ranges {
                let at = *offset as usize..(*offset + *length) as usize;
                rebuilt[at.clone()].copy_from_slice(&after[at]);
            }
            assert!(rebuilt == after);
            assert!(ranges.windows(2).all(|it| it[0].0 + it[0].1 < it[1].0));
        }
    }
}
