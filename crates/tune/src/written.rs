//! Which bytes a dispatch wrote: captures do not say, so its bindings are compared with themselves before it.

use rehal_base::{Error, Range, Result};
use rehal_hal::{Buffer, transfer};
use rehal_replay::{AccessKind, Operation};

/// Unit of changes: a multiple of the size of every element, so that no element is split.
pub(crate) const GRAIN_BYTES: usize = 16;
/// Bytes that are compared at once while nothing differs.
const STRIDE_BYTES: usize = 4 << 10;
/// Maximum number of changed ranges of a binding; beyond that, ranges with little between them are merged.
const MAX_CHANGES: usize = 1024;
/// Ranges with fewer unchanged bytes between them are one.
const MIN_GAP_BYTES: usize = 64;

/// The bindings that a dispatch may write, before and after it. Reused, so that memory is allocated for the largest only.
#[derive(Default)]
pub(crate) struct Written {
    pub bindings: Vec<WrittenBinding>,
    spare: Vec<WrittenBinding>,
}

/// A binding of a dispatch.
#[derive(Default)]
pub(crate) struct WrittenBinding {
    pub binding: u32,
    /// Other bindings of the same range.
    pub aliases: Vec<u32>,
    pub buffer: Option<Buffer>,
    pub buffer_id: u64,
    pub offset: u64,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// What differs between the two, in order.
    pub changes: Vec<Range>,
}

impl Written {
    /// Keeps the bytes that a dispatch may write; the same range is kept once.
    pub(crate) fn begin(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.spare.append(&mut self.bindings);
        for (binding, range) in (0..).zip(operation.bindings()) {
            let is_same = |it: &WrittenBinding| -> bool {
                (it.buffer_id, it.offset, it.before.len() as u64)
                    == (range.buffer_id, range.offset, range.length)
            };
            if range.access == AccessKind::Reads || range.length == 0 {
                continue;
            }
            if let Some(same) = self.bindings.iter_mut().find(|it| is_same(it)) {
                same.aliases.push(binding);
                continue;
            }
            let mut kept = self.spare.pop().unwrap_or_default();
            kept.binding = binding;
            kept.aliases.clear();
            kept.buffer = Some(range.buffer.clone());
            kept.buffer_id = range.buffer_id;
            kept.offset = range.offset;
            read(range.buffer, range.offset, range.length, &mut kept.before)?;
            self.bindings.push(kept);
        }
        Ok(())
    }

    /// Compares them with the bytes after it.
    pub(crate) fn end(&mut self) -> Result<()> {
        for binding in &mut self.bindings {
            let Some(buffer) = binding.buffer.take() else { continue };
            read(&buffer, binding.offset, binding.before.len() as u64, &mut binding.after)?;
            changes(&binding.before, &binding.after, &mut binding.changes);
            binding.buffer = Some(buffer);
        }
        Ok(())
    }

    /// Releases the buffers.
    pub(crate) fn release(&mut self) {
        self.bindings.iter_mut().for_each(|it| it.buffer = None);
    }
}

impl WrittenBinding {
    /// The range of the buffer.
    pub(crate) fn range(&self) -> Range {
        Range { offset: self.offset, length: self.before.len() as u64 }
    }

    /// Overwrites bytes of the binding on its device.
    pub(crate) fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        match &self.buffer {
            Some(buffer) => transfer::write(buffer, self.offset + at, bytes),
            None => Ok(()),
        }
    }
}

/// The bytes of a range of `bytes`.
pub(crate) fn part(bytes: &[u8], range: Range) -> &[u8] {
    &bytes[range.offset as usize..][..range.length as usize]
}

pub(crate) fn read(buffer: &Buffer, offset: u64, length: u64, target: &mut Vec<u8>) -> Result<()> {
    let length = length as usize;
    target.clear();
    target
        .try_reserve_exact(length)
        .map_err(|_| Error::resource_exhausted(format!("cannot copy {length} bytes to the host")))?;
    target.resize(length, 0);
    transfer::read(buffer, offset, target)
}

/// The ranges in which two slices of the same length differ, in units of [`GRAIN_BYTES`].
pub(crate) fn changes(before: &[u8], after: &[u8], ranges: &mut Vec<Range>) {
    ranges.clear();
    let mut gap = MIN_GAP_BYTES as u64;
    let strides = before.chunks(STRIDE_BYTES).zip(after.chunks(STRIDE_BYTES));
    for (number, (old, new)) in strides.enumerate() {
        if old == new {
            continue;
        }
        let grains = old.chunks(GRAIN_BYTES).zip(new.chunks(GRAIN_BYTES));
        for (grain, (old, new)) in grains.enumerate() {
            if old == new {
                continue;
            }
            let start = (number * STRIDE_BYTES + grain * GRAIN_BYTES) as u64;
            let end = start + new.len() as u64;
            match ranges.last_mut() {
                Some(last) if start - (last.offset + last.length) < gap => last.length = end - last.offset,
                _ => ranges.push(Range { offset: start, length: end - start }),
            }
            while ranges.len() > MAX_CHANGES {
                gap *= 4;
                merge(ranges, gap);
            }
        }
    }
}

/// Merges ranges with fewer than `gap` bytes between them.
fn merge(ranges: &mut Vec<Range>, gap: u64) {
    ranges.dedup_by(|next, last| {
        let is_near = next.offset - (last.offset + last.length) < gap;
        if is_near {
            last.length = next.offset + next.length - last.offset;
        }
        is_near
    });
}

/// The parts of `ranges` that no range of `others` covers; both are in order and do not overlap themselves.
pub(crate) fn without(ranges: &[Range], others: impl Iterator<Item = Range>) -> Vec<Range> {
    let mut others = others.peekable();
    let mut rest = Vec::new();
    for range in ranges {
        let (mut start, end) = (range.offset, range.offset + range.length);
        while start < end {
            match others.peek() {
                Some(other) if other.offset + other.length <= start => {
                    others.next();
                }
                Some(other) if other.offset < end => {
                    if other.offset > start {
                        rest.push(Range { offset: start, length: other.offset - start });
                    }
                    start = other.offset + other.length;
                }
                _ => {
                    rest.push(Range { offset: start, length: end - start });
                    start = end;
                }
            }
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.offset, range.length)).collect()
    }

    fn changed(before: &[u8], after: &[u8]) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        changes(before, after, &mut ranges);
        pairs(&ranges)
    }

    #[test]
    fn changes_are_whole_grains() {
        let before = vec![0; 10_000];
        let mut after = before.clone();
        assert!(changed(&before, &after).is_empty());
        after[5] = 1;
        after[40] = 1;
        after[4095] = 1;
        after[4096] = 1;
        after[9_999] = 1;
        assert_eq!(changed(&before, &after), [(0, 48), (4080, 32), (9984, 16)]);
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

    #[test]
    fn what_others_cover_is_left_out() {
        let range = |offset, length| Range { offset, length };
        let others = || [range(0, 10), range(20, 5), range(40, 100)].into_iter();
        assert_eq!(pairs(&without(&[range(0, 10), range(22, 2)], others())), []);
        assert_eq!(pairs(&without(&[range(5, 20), range(30, 20)], others())), [(10, 10), (30, 10)]);
        assert_eq!(pairs(&without(&[range(200, 3)], others())), [(200, 3)]);
        assert_eq!(pairs(&without(&[range(15, 30)], others())), [(15, 5), (25, 15)]);
    }
}
