//! Which bytes a dispatch wrote: captures do not say, so its bindings are compared with themselves before it.

use rehal_base::{Error, HostMemory, Range, Result};
use rehal_hal::{Buffer, transfer};
use rehal_replay::{AccessKind, AccessedRange};

use crate::parallel;

/// Bytes that are compared at once while nothing differs.
pub(crate) const STRIDE_BYTES: usize = 4 << 10;
/// Bytes that a thread copies or compares at a time: several strides, and enough to be worth waking a thread.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Maximum number of changed ranges of a binding; beyond that, ranges with little between them are merged.
const MAX_CHANGES: usize = 1024;
/// [`Changes::gap`], unless there are too many ranges.
const MIN_GAP_BYTES: u64 = 64;

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
    /// What the dispatch changed, in order.
    pub changes: Vec<Range>,
    contents: Contents,
    /// By chunk.
    replaced: Vec<Replaced>,
}

/// A copy of bytes. Its allocation only grows, and is zeroed once: most dispatches of a replay bind the same few lengths.
#[derive(Default)]
struct Contents {
    allocation: Vec<u8>,
    length: usize,
}

/// What a dispatch changed in a chunk of a binding.
#[derive(Default)]
struct Replaced {
    /// Where the changed strides start, in the binding.
    offsets: Vec<usize>,
    /// Their bytes before the dispatch, one after the other. All strides are [`STRIDE_BYTES`] long but for the last one of a
    /// binding.
    bytes: Vec<u8>,
    /// The changes of each stride.
    changes: Vec<Range>,
}

impl Written {
    /// Keeps the bytes that a dispatch may write; the same range is kept once.
    pub(crate) fn begin(&mut self, bindings: &[AccessedRange<'_>]) -> Result<()> {
        self.spare.append(&mut self.bindings);
        for (binding, range) in (0..).zip(bindings) {
            let bound = Range { offset: range.offset, length: range.length };
            if range.access == AccessKind::Reads || range.length == 0 {
                continue;
            }
            let is_same = |it: &&mut WrittenBinding| (it.buffer_id, it.range()) == (range.buffer_id, bound);
            if let Some(same) = self.bindings.iter_mut().find(is_same) {
                same.aliases.push(binding);
                continue;
            }
            let mut kept = self.spare.pop().unwrap_or_default();
            kept.binding = binding;
            kept.aliases.clear();
            kept.buffer = Some(range.buffer.clone());
            kept.buffer_id = range.buffer_id;
            kept.offset = range.offset;
            kept.contents.read(range.buffer, bound)?;
            self.bindings.push(kept);
        }
        Ok(())
    }

    /// Compares them with the bytes after it.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.bindings.iter_mut().try_for_each(WrittenBinding::update)
    }

    /// Releases the buffers.
    pub(crate) fn release(&mut self) {
        self.bindings.iter_mut().for_each(|it| it.buffer = None);
    }
}

impl WrittenBinding {
    /// The range of the buffer.
    pub(crate) fn range(&self) -> Range {
        Range { offset: self.offset, length: self.contents.length as u64 }
    }

    /// All bytes after the dispatch.
    pub(crate) fn after(&self) -> &[u8] {
        self.contents.bytes()
    }

    /// The bytes of a range before the dispatch.
    pub(crate) fn before(&self, range: Range) -> Vec<u8> {
        let mut bytes = part(self.after(), range).to_vec();
        let (start, end) = (range.offset as usize, (range.offset + range.length) as usize);
        for (at, old) in self.replaced.iter().flat_map(Replaced::strides) {
            let (first, last) = (start.max(at), end.min(at + old.len()));
            if first < last {
                bytes[first - start..last - start].copy_from_slice(&old[first - at..last - at]);
            }
        }
        bytes
    }

    /// Overwrites bytes of the binding on its device.
    pub(crate) fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        match &self.buffer {
            Some(buffer) => transfer::write(buffer, self.offset + at, bytes),
            None => Ok(()),
        }
    }

    /// Replaces the bytes with those after the dispatch.
    fn update(&mut self) -> Result<()> {
        let Some(buffer) = &self.buffer else { return Ok(()) };
        let (contents, replaced) =
            (&mut self.contents.allocation[..self.contents.length], &mut self.replaced);
        let length = contents.len() as u64;
        replaced.resize_with(contents.len().div_ceil(CHUNK_BYTES), Replaced::default);
        let mut rest = contents.chunks_mut(CHUNK_BYTES).zip(replaced.iter_mut()).enumerate();
        transfer::read_with(buffer, self.offset, length, |memory, piece| {
            let count = (piece.length as usize).div_ceil(CHUNK_BYTES);
            let chunks: Vec<_> = rest.by_ref().take(count).collect();
            each_chunk(chunks, |index, (number, (chunk, replaced))| {
                let source = piece.offset + (index * CHUNK_BYTES) as u64;
                replaced.update(number * CHUNK_BYTES, chunk, memory, source)
            })
        })?;
        let mut changes = Changes::new(&mut self.changes);
        self.replaced.iter().flat_map(|it| &it.changes).for_each(|range| changes.add(*range));
        Ok(())
    }
}

impl Replaced {
    /// The changed strides as they were, with their offsets in the binding.
    fn strides(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.offsets.iter().copied().zip(self.bytes.chunks(STRIDE_BYTES))
    }

    /// Replaces the bytes of a chunk, which starts at `at`, with those in `memory` from `source` on. These are copied in strides
    /// that stay in the cache: most do not change.
    fn update(&mut self, at: usize, chunk: &mut [u8], memory: &HostMemory, source: u64) -> Result<()> {
        self.offsets.clear();
        self.bytes.clear();
        self.changes.clear();
        let mut block = [0; STRIDE_BYTES];
        for (number, old) in chunk.chunks_mut(STRIDE_BYTES).enumerate() {
            let start = number * STRIDE_BYTES;
            let new = &mut block[..old.len()];
            memory.read(source + start as u64, new)?;
            if old == new {
                continue;
            }
            let ranges = rehal_replay::changes(old, new).into_iter();
            self.changes.extend(ranges.map(|it| Range { offset: it.offset + (at + start) as u64, ..it }));
            self.offsets.push(at + start);
            self.bytes.extend_from_slice(old);
            old.copy_from_slice(new);
        }
        Ok(())
    }
}

/// Calls `perform` for each chunk: on several threads if there is more than one, since one processor alone cannot use all the
/// bandwidth of the memory.
pub(crate) fn each_chunk<T: Send>(
    chunks: Vec<T>,
    perform: impl Fn(usize, T) -> Result<()> + Send + Sync,
) -> Result<()> {
    let numbered = chunks.into_iter().enumerate().collect();
    parallel::map(numbered, |(index, chunk)| perform(index, chunk)).into_iter().collect()
}

impl Contents {
    fn bytes(&self) -> &[u8] {
        &self.allocation[..self.length]
    }

    fn read(&mut self, buffer: &Buffer, range: Range) -> Result<()> {
        let length = range.length as usize;
        if self.allocation.len() < length {
            reserve(&mut self.allocation, length)?;
            self.allocation.resize(length, 0);
        }
        self.length = length;
        let mut rest = self.allocation[..length].chunks_mut(CHUNK_BYTES);
        transfer::read_with(buffer, range.offset, range.length, |memory, piece| {
            let count = (piece.length as usize).div_ceil(CHUNK_BYTES);
            each_chunk(rest.by_ref().take(count).collect(), |index, chunk| {
                memory.read(piece.offset + (index * CHUNK_BYTES) as u64, chunk)
            })
        })
    }
}

/// Number of bytes that differ, of ranges of the same length.
pub(crate) fn different_bytes(one: &[u8], other: &[u8]) -> u64 {
    one.iter().zip(other).filter(|(one, other)| one != other).count() as u64
}

/// The bytes of a range of `bytes`.
pub(crate) fn part(bytes: &[u8], range: Range) -> &[u8] {
    &bytes[range.offset as usize..][..range.length as usize]
}

pub(crate) fn read(buffer: &Buffer, offset: u64, length: u64, target: &mut Vec<u8>) -> Result<()> {
    let length = length as usize;
    target.clear();
    reserve(target, length)?;
    target.resize(length, 0);
    transfer::read(buffer, offset, target)
}

/// Reserves capacity for `length` elements.
pub(crate) fn reserve<T>(target: &mut Vec<T>, length: usize) -> Result<()> {
    let more = length.saturating_sub(target.len());
    target.try_reserve_exact(more).map_err(|_| {
        let bytes = length.saturating_mul(size_of::<T>());
        Error::resource_exhausted(format!("cannot copy {bytes} bytes to the host"))
    })
}

/// Collects ranges, of which it merges those that are near or overlap.
pub(crate) struct Changes<'r> {
    ranges: &'r mut Vec<Range>,
    /// Ranges with fewer unchanged bytes between them are one.
    gap: u64,
}

impl<'r> Changes<'r> {
    pub(crate) fn new(ranges: &'r mut Vec<Range>) -> Self {
        ranges.clear();
        Self { ranges, gap: MIN_GAP_BYTES }
    }

    /// Adds the next range, which does not start before the last one.
    pub(crate) fn add(&mut self, range: Range) {
        match self.ranges.last_mut() {
            Some(last) if range.offset.saturating_sub(last.end()) < self.gap => {
                last.length = range.end().max(last.end()) - last.offset;
            }
            _ => self.ranges.push(range),
        }
        while self.ranges.len() > MAX_CHANGES {
            self.gap *= 4;
            merge(self.ranges, self.gap);
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

/// The same bytes as ranges in order, without overlap.
pub(crate) fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.retain(|range| range.length != 0);
    ranges.sort_by_key(|range| range.offset);
    ranges.dedup_by(|next, last| {
        let is_merged = next.offset <= last.end();
        if is_merged {
            last.length = last.end().max(next.end()) - last.offset;
        }
        is_merged
    });
    ranges
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
        let mut changes = Changes::new(&mut ranges);
        rehal_replay::changes(before, after).into_iter().for_each(|range| changes.add(range));
        pairs(&ranges)
    }

    #[test]
    fn changes_are_whole_units() {
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
