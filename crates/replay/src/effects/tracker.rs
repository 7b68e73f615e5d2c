//! The bytes that dispatches change, found by comparing their bindings with copies.

use std::collections::BTreeMap;

use rehal_base::{HostMemory, OwnBytes, Range, Result, parallel};
use rehal_hal::{Buffer, PlainBuffer, transfer};

use super::changes::{Changes, STRIDE_BYTES, add_changes};
use super::ranges::{merged, overlap, without};
use crate::{AccessKind, AccessedRange};

/// Bytes that a thread copies or compares at a time: several strides, and enough to be worth waking a thread.
const PART_BYTES: usize = 1 << 20;

/// Bytes that are mapped at a time: those of a buffer of another process are memory of this one until then.
const AT_ONCE_BYTES: usize = 16 << 20;

/// Finds what dispatches change of what is bound to them: captures do not say what kernels write.
///
/// The bindings of a dispatch are copied unless copies of them are known. A copy is known until
/// [`ChangeTracker::forget`] or [`ChangeTracker::release`]; a consumer calls `release` if it does not see
/// everything that may write between two dispatches. A write outside of the bindings of a dispatch is a
/// change of the next dispatch that binds these bytes.
#[derive(Default)]
pub struct ChangeTracker {
    /// By captured id.
    buffers: BTreeMap<u64, KnownBuffer>,
    /// The bindings that the dispatch may write.
    bindings: Vec<Bound>,
}

struct Bound {
    binding: u32,
    aliases: Vec<u32>,
    buffer_id: u64,
    range: Range,
    changes: Vec<Range>,
}

/// A buffer, and what is known of its bytes.
struct KnownBuffer {
    buffer: Buffer,
    /// In order, without overlap. Each bound range is in one of them.
    segments: Vec<Segment>,
    /// The bytes that the last dispatch changed, in order.
    replaced: Vec<Replaced>,
}

/// A copy of bytes.
struct Segment {
    offset: u64,
    bytes: OwnBytes,
}

/// Strides of a buffer as they were before a dispatch that changed them.
#[derive(Default)]
struct Replaced {
    /// Where each is in the buffer.
    strides: Vec<Range>,
    /// Their bytes, one after the other.
    bytes: Vec<u8>,
}

/// A binding that a dispatch may have written, after it.
#[derive(Clone, Copy)]
pub struct TrackedBinding<'t> {
    /// Its ordinal.
    pub binding: u32,
    /// Other bindings of the same range.
    pub aliases: &'t [u32],
    /// The buffer's id in the capture.
    pub buffer_id: u64,
    /// The bound range of the buffer.
    pub range: Range,
    /// The changed ranges of it, in order and in units of [`CHANGE_BYTES`](crate::CHANGE_BYTES); changes with
    /// little between them are one.
    pub changes: &'t [Range],
    /// All bytes of it.
    pub after: &'t [u8],
    known: &'t KnownBuffer,
}

impl ChangeTracker {
    /// Before a dispatch: copies what it may write, as far as that is not known. The same range is compared
    /// once.
    pub fn begin(&mut self, bindings: &[AccessedRange<'_>]) -> Result<()> {
        self.bindings.clear();
        for (binding, it) in (0..).zip(bindings) {
            let range = it.range();
            if it.access == AccessKind::Reads || range.length == 0 {
                continue;
            }
            let is_same = |other: &&mut Bound| (other.buffer_id, other.range) == (it.buffer_id, range);
            if let Some(same) = self.bindings.iter_mut().find(is_same) {
                same.aliases.push(binding);
                continue;
            }
            let known = self.buffers.entry(it.buffer_id).or_insert_with(|| KnownBuffer {
                buffer: it.buffer.clone(),
                segments: Vec::new(),
                replaced: Vec::new(),
            });
            known.learn(range)?;
            let (aliases, changes) = (Vec::new(), Vec::new());
            self.bindings.push(Bound { binding, aliases, buffer_id: it.buffer_id, range, changes });
        }
        Ok(())
    }

    /// After it: compares what is bound.
    pub fn end(&mut self) -> Result<()> {
        let mut ids: Vec<u64> = self.bindings.iter().map(|it| it.buffer_id).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in &ids {
            let own = self.bindings.iter().filter(|it| it.buffer_id == *id);
            let bound = merged(own.map(|it| it.range).collect());
            if let Some(known) = self.buffers.get_mut(id) {
                known.update(&bound)?;
            }
        }
        for it in &mut self.bindings {
            let mut changes = Changes::new(&mut it.changes);
            let Some(known) = self.buffers.get(&it.buffer_id) else { continue };
            for (stride, old) in known.replaced_in(it.range) {
                add_changes(it.range, stride.offset, old, known.bytes(stride), &mut changes);
            }
        }
        self.forget_aliases(&ids);
        Ok(())
    }

    /// A binding, unless the dispatch only reads it or it is empty.
    pub fn binding(&self, ordinal: u32) -> Option<TrackedBinding<'_>> {
        self.bindings().find(|it| it.binding == ordinal || it.aliases.contains(&ordinal))
    }

    /// The bindings that the dispatch may have written, by ordinal.
    pub fn bindings(&self) -> impl Iterator<Item = TrackedBinding<'_>> {
        self.bindings.iter().filter_map(|it| {
            let known = self.buffers.get(&it.buffer_id)?;
            let Bound { binding, ref aliases, buffer_id, range, ref changes } = *it;
            let after = known.bytes(range);
            Some(TrackedBinding { binding, aliases, buffer_id, range, changes, after, known })
        })
    }

    /// Whether what is known of these ranges of a buffer has changed since.
    pub fn differs(&mut self, buffer_id: u64, ranges: &[Range]) -> Result<bool> {
        let known = self.buffers.get_mut(&buffer_id);
        let parts = known.map_or_else(|| Ok(Vec::new()), |it| it.each_known(ranges, &differs));
        Ok(parts?.contains(&true))
    }

    /// Whether anything that is known has changed since.
    pub fn differs_anywhere(&mut self) -> Result<bool> {
        let whole = [Range { offset: 0, length: u64::MAX }];
        let ids: Vec<u64> = self.buffers.keys().copied().collect();
        ids.into_iter().try_fold(false, |differs, id| Ok(self.differs(id, &whole)? || differs))
    }

    /// Takes what these ranges of a buffer contain now as what is known of them.
    pub fn accept(&mut self, buffer_id: u64, ranges: &[Range]) -> Result<()> {
        let known = self.buffers.get_mut(&buffer_id);
        known.map_or(Ok(()), |it| it.each_known(ranges, &copies).map(drop))
    }

    /// A range of a buffer is not known from here on.
    pub fn forget(&mut self, buffer_id: u64, range: Range) -> Result<()> {
        let Some(known) = self.buffers.get_mut(&buffer_id) else { return Ok(()) };
        for segment in std::mem::take(&mut known.segments) {
            let Some(part) = segment.overlap(range) else {
                known.segments.push(segment);
                continue;
            };
            for kept in without(&[segment.range()], [part].into_iter()) {
                let place = Range { offset: kept.offset - segment.offset, ..kept };
                known.segments.push(Segment { offset: kept.offset, bytes: segment.bytes.part(place)? });
            }
        }
        Ok(())
    }

    /// Nothing is known from here on, and no buffer is kept.
    pub fn release(&mut self) {
        self.bindings.clear();
        self.buffers.clear();
    }

    /// Forgets what is known of other buffers in the same memory as those that the dispatch has changed.
    fn forget_aliases(&mut self, bound: &[u64]) {
        let changed: Vec<Range> = bound
            .iter()
            .filter_map(|id| self.buffers.get(id))
            .filter(|buffer| buffer.replaced.iter().any(|part| !part.bytes.is_empty()))
            .filter_map(KnownBuffer::place)
            .collect();
        if changed.is_empty() {
            return;
        }
        for (_, known) in self.buffers.iter_mut().filter(|(id, _)| bound.binary_search(id).is_err()) {
            if known.place().is_some_and(|place| changed.iter().any(|it| it.overlaps(place))) {
                known.segments.clear();
            }
        }
    }
}

impl<'t> TrackedBinding<'t> {
    /// The bytes of a part of it before the dispatch.
    pub fn before(&self, part: Range) -> Vec<u8> {
        let mut bytes = self.after[part.offset as usize..part.end() as usize].to_vec();
        let start = self.range.offset + part.offset;
        for (stride, old) in self.known.replaced_in(Range { offset: start, length: part.length }) {
            let (first, last) = (start.max(stride.offset), stride.end().min(start + part.length));
            let old = &old[(first - stride.offset) as usize..(last - stride.offset) as usize];
            bytes[(first - start) as usize..(last - start) as usize].copy_from_slice(old);
        }
        bytes
    }

    /// Overwrites bytes of it on its device.
    pub fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        transfer::write(&self.known.buffer, self.range.offset + at, bytes)
    }
}

impl KnownBuffer {
    /// Copies a range, as far as it is not known.
    fn learn(&mut self, range: Range) -> Result<()> {
        let first = self.segments.partition_point(|it| it.range().end() <= range.offset);
        let end = self.segments.partition_point(|it| it.offset < range.end());
        if self.segments[first..end].first().is_some_and(|it| it.range().covers(range)) {
            return Ok(());
        }
        let joined: Vec<Segment> = self.segments.drain(first..end).collect();
        let start = joined.first().map_or(range.offset, |it| it.offset.min(range.offset));
        let last = joined.last().map_or(range.end(), |it| it.range().end().max(range.end()));
        let mut bytes = transfer::to_own(&self.buffer, start, last - start)?;
        for segment in joined {
            let at = (segment.offset - start) as usize;
            let now = bytes[at..at + segment.bytes.len()].chunks_mut(STRIDE_BYTES);
            // What is the same stays the file's.
            let differing = now.zip(segment.bytes.chunks(STRIDE_BYTES)).filter(|(now, known)| now != known);
            differing.for_each(|(now, known)| now.copy_from_slice(known));
        }
        self.segments.insert(first, Segment { offset: start, bytes });
        Ok(())
    }

    /// Replaces what changed of these ranges, which are in order and do not overlap.
    fn update(&mut self, ranges: &[Range]) -> Result<()> {
        self.replaced = self.each_known(ranges, &Replaced::update)?;
        Ok(())
    }

    /// Calls `perform` for the parts of ranges that are known; see [`each_part`].
    fn each_known<R: Send>(&mut self, ranges: &[Range], perform: &Perform<'_, R>) -> Result<Vec<R>> {
        let mut results = Vec::new();
        for segment in &mut self.segments {
            for part in ranges.iter().filter_map(|range| segment.overlap(*range)).collect::<Vec<_>>() {
                let span = segment.span(part);
                let bytes = &mut segment.bytes[span];
                results.append(&mut each_part(&self.buffer, part.offset, bytes, perform)?);
            }
        }
        Ok(results)
    }

    /// The strides that the last dispatch changed and that overlap a range of the buffer, as they were
    /// before.
    fn replaced_in(&self, range: Range) -> impl Iterator<Item = (Range, &[u8])> {
        let overlaps = move |span: Range| span.overlaps(range);
        let parts = self.replaced.iter().filter(move |part| part.span().is_some_and(overlaps));
        parts.flat_map(Replaced::each).filter(move |(stride, _)| stride.overlaps(range))
    }

    /// The bytes of a range that is known.
    fn bytes(&self, range: Range) -> &[u8] {
        let at = self.segments.partition_point(|it| it.range().end() <= range.offset);
        let segment = self.segments.get(at).filter(|it| it.range().covers(range));
        segment.map_or(&[], |it| &it.bytes[it.span(range)])
    }

    /// Where it is in the memory of the process; `None` if it is on a device.
    fn place(&self) -> Option<Range> {
        let memory = PlainBuffer::memory_of(&self.buffer).ok()?;
        let offset = memory.as_ptr().addr() as u64 + self.buffer.allocation_offset();
        Range::new(offset, self.buffer.size())
    }
}

impl Segment {
    fn range(&self) -> Range {
        Range { offset: self.offset, length: self.bytes.len() as u64 }
    }

    fn overlap(&self, range: Range) -> Option<Range> {
        overlap(self.range(), range)
    }

    /// Where a range of the buffer, inside, is in its bytes.
    fn span(&self, range: Range) -> std::ops::Range<usize> {
        let start = (range.offset - self.offset) as usize;
        start..start + range.length as usize
    }
}

impl Replaced {
    /// Replaces a part of a copy, and keeps what was in the strides that differ.
    fn update(at: u64, part: &mut [u8], memory: &HostMemory, source: u64) -> Result<Self> {
        let mut this = Self::default();
        each_stride(part, memory, source, |offset, old, new| {
            if old != new {
                this.strides.push(Range { offset: at + offset as u64, length: old.len() as u64 });
                this.bytes.extend_from_slice(old);
                old.copy_from_slice(new);
            }
        })?;
        Ok(this)
    }

    /// From the first to the last.
    fn span(&self) -> Option<Range> {
        let (first, last) = (self.strides.first()?, self.strides.last()?);
        Some(Range { offset: first.offset, length: last.end() - first.offset })
    }

    fn each(&self) -> impl Iterator<Item = (Range, &[u8])> {
        let mut rest = &*self.bytes;
        self.strides.iter().map(move |stride| {
            let (bytes, others) = rest.split_at(stride.length as usize);
            rest = others;
            (*stride, bytes)
        })
    }
}

/// An action on a part of a copy: the offset of the part in the buffer, the part, and where the buffer
/// has it now.
type Perform<'p, R> = dyn Fn(u64, &mut [u8], &HostMemory, u64) -> Result<R> + Sync + 'p;

fn copies(_at: u64, part: &mut [u8], memory: &HostMemory, source: u64) -> Result<()> {
    memory.read(source, part)
}

fn differs(_at: u64, part: &mut [u8], memory: &HostMemory, source: u64) -> Result<bool> {
    let mut differs = false;
    each_stride(part, memory, source, |_, old, new| differs |= old != new)?;
    Ok(differs)
}

/// Calls `perform` for parts of `copy`, which is of a buffer from `offset` on: on several threads if there
/// is more than one part, since one processor alone cannot use all the bandwidth of the memory.
fn each_part<R: Send>(
    buffer: &Buffer,
    offset: u64,
    copy: &mut [u8],
    perform: &Perform<'_, R>,
) -> Result<Vec<R>> {
    let mut results = Vec::new();
    for (mut start, mut copy) in (offset..).step_by(AT_ONCE_BYTES).zip(copy.chunks_mut(AT_ONCE_BYTES)) {
        transfer::read_with(buffer, start, copy.len() as u64, |memory, piece| {
            let (now, rest) = std::mem::take(&mut copy).split_at_mut(piece.length as usize);
            let at = start;
            (copy, start) = (rest, at + piece.length);
            let parts = now.chunks_mut(PART_BYTES).enumerate().collect();
            let done = parallel::map(parts, |(number, part)| {
                let skipped = (number * PART_BYTES) as u64;
                perform(at + skipped, part, memory, piece.offset + skipped)
            });
            done.into_iter().try_for_each(|outcome| outcome.map(|result| results.push(result)))
        })?;
    }
    Ok(results)
}

/// Calls `perform` for strides of a part of a copy, with their offset in it, and what the memory has. That
/// is copied in strides that stay in the cache.
fn each_stride(
    part: &mut [u8],
    memory: &HostMemory,
    source: u64,
    mut perform: impl FnMut(usize, &mut [u8], &[u8]),
) -> Result<()> {
    let mut block = vec![0; part.len().min(STRIDE_BYTES)];
    for (number, old) in part.chunks_mut(STRIDE_BYTES).enumerate() {
        let offset = number * STRIDE_BYTES;
        let new = &mut block[..old.len()];
        memory.read(source + offset as u64, new)?;
        perform(offset, old, new);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rehal_hal::{BufferParams, BufferUsage, MemoryType};

    use super::super::CHANGE_BYTES;
    use super::*;

    fn buffer(size: u64) -> Buffer {
        let params = BufferParams {
            usage: BufferUsage::MAPPING_SCOPED,
            memory_type: MemoryType::HOST_LOCAL,
            ..BufferParams::default()
        };
        Buffer::new(params, size, PlainBuffer::allocate(size).unwrap())
    }

    fn bound(buffer_id: u64, buffer: &Buffer, offset: u64, length: u64) -> AccessedRange<'_> {
        AccessedRange { access: AccessKind::Binds, buffer_id, buffer, offset, length }
    }

    fn contents(it: &AccessedRange<'_>) -> Vec<u8> {
        transfer::to_vec(it.buffer, it.offset, it.length).unwrap()
    }

    /// The units of a binding that differ.
    fn units(before: &[u8], after: &[u8]) -> Vec<u64> {
        let units = before.chunks(CHANGE_BYTES).zip(after.chunks(CHANGE_BYTES));
        (0..).zip(units).filter(|(_, (old, new))| old != new).map(|(at, _)| at).collect()
    }

    /// Checks what a tracker says of a dispatch.
    fn check(tracker: &ChangeTracker, bindings: &[AccessedRange<'_>], before: &[Vec<u8>], place: &str) {
        let mut seen = 0;
        for it in tracker.bindings() {
            let number = it.binding as usize;
            assert_eq!((it.buffer_id, it.range), (bindings[number].buffer_id, bindings[number].range()));
            assert!(it.after == contents(&bindings[number]), "{place}");
            let whole = Range { offset: 0, length: it.range.length };
            assert!(it.before(whole) == before[number], "{place}");
            let is_unit = |at: u64| at.is_multiple_of(CHANGE_BYTES as u64) || at == it.range.length;
            assert!(it.changes.iter().all(|range| is_unit(range.offset) && is_unit(range.end())));
            assert!(it.changes.windows(2).all(|pair| pair[0].end() < pair[1].offset));
            let found = |range: &Range| range.offset / 16..range.end().div_ceil(16);
            let found: Vec<u64> = it.changes.iter().flat_map(found).collect();
            let expected = units(&before[number], it.after);
            // Units between changes that are near are changes too.
            assert!(expected.iter().all(|unit| found.contains(unit)), "{place}, binding {number}");
            assert!(found.len() <= expected.len() * 5, "{place}: {found:?} of {expected:?}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{place}, binding {number}");
            seen += 1 + it.aliases.len();
        }
        assert_eq!(seen, bindings.len());
    }

    /// Performs random writes as dispatches, of which some are in one submission.
    #[test]
    fn changes_are_those_of_the_dispatch() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut tracker = ChangeTracker::default();
        let mut buffers: Vec<(u64, Buffer)> = Vec::new();
        for round in 0..200_u64 {
            let is_new_submission = random.u8(..) < 50;
            if is_new_submission {
                tracker.release();
            }
            if buffers.len() < 4 || is_new_submission {
                // Freed memory is often that of the next buffer.
                if buffers.len() >= 4 {
                    buffers.swap_remove(random.usize(..buffers.len()));
                }
                let size = *random.choice([&100_u64, &70_000, &300_001, &(3 << 20)]).unwrap();
                buffers.push((round, buffer(size)));
            }
            let mut bindings: Vec<AccessedRange<'_>> = Vec::new();
            for _ in 0..random.u32(1..5) {
                let (id, buffer) = &buffers[random.usize(..buffers.len())];
                let offset = random.u64(..buffer.size());
                let it = bound(*id, buffer, offset, random.u64(1..=buffer.size() - offset));
                bindings.push(it);
            }
            let before: Vec<_> = bindings.iter().map(contents).collect();
            tracker.begin(&bindings).unwrap();
            for _ in 0..random.usize(..5) {
                let it = &bindings[random.usize(..bindings.len())];
                let at = it.offset + random.u64(..it.length);
                let length = random.u64(..=(it.offset + it.length - at).min(9000));
                transfer::write(it.buffer, at, &vec![random.u8(..); length as usize]).unwrap();
            }
            tracker.end().unwrap();
            check(&tracker, &bindings, &before, &format!("round {round}"));
            assert!(!tracker.differs_anywhere().unwrap());
        }
    }

    /// Without it, what a dispatch only reads is copied and compared, and may be said to be written.
    #[test]
    fn only_bindings_that_may_be_written_are_tracked() {
        let (one, other) = (buffer(64), buffer(64));
        let read = AccessedRange { access: AccessKind::Reads, ..bound(2, &other, 0, 64) };
        let mut tracker = ChangeTracker::default();
        tracker.begin(&[read, bound(1, &one, 8, 0), bound(1, &one, 16, 32), bound(1, &one, 16, 32)]).unwrap();
        transfer::write(&one, 20, &[1]).unwrap();
        transfer::write(&other, 20, &[1]).unwrap();
        tracker.end().unwrap();
        let found: Vec<_> = tracker.bindings().map(|it| (it.binding, it.aliases, it.changes)).collect();
        assert_eq!(found, [(2, &[3][..], &[Range { offset: 0, length: 16 }][..])]);
        assert!(tracker.binding(0).is_none() && tracker.binding(1).is_none());
        assert_eq!(tracker.binding(3).map(|it| it.binding), Some(2));
    }

    #[test]
    fn what_is_known_is_compared_accepted_and_forgotten() {
        let (one, other) = (buffer(3 << 20), buffer(100));
        let mut tracker = ChangeTracker::default();
        let range = |offset, length| Range { offset, length };
        tracker.begin(&[bound(1, &one, 1000, 2 << 20), bound(2, &other, 0, 100)]).unwrap();
        tracker.end().unwrap();
        transfer::write(&one, 5000, &[1; 10]).unwrap();
        transfer::write(&one, 10, &[1]).unwrap();
        let mut differs = |offset, length| tracker.differs(1, &[range(offset, length)]).unwrap();
        assert!(differs(5009, 1) && differs(0, 3 << 20) && !differs(5010, 90_000) && !differs(0, 5000));
        assert!(tracker.differs_anywhere().unwrap() && !tracker.differs(2, &[range(0, 100)]).unwrap());
        tracker.accept(1, &[range(5000, 4), range(5004, 6)]).unwrap();
        assert!(!tracker.differs_anywhere().unwrap());
        transfer::write(&one, 7000, &[1; 10]).unwrap();
        assert!(tracker.differs_anywhere().unwrap());
        tracker.forget(1, range(7005, 5)).unwrap();
        assert!(tracker.differs(1, &[range(7000, 5)]).unwrap());
        tracker.forget(1, range(7000, 5)).unwrap();
        assert!(!tracker.differs_anywhere().unwrap());
        // It is known again, and so is the rest.
        transfer::write(&one, 9000, &[1]).unwrap();
        let bindings = [bound(1, &one, 900, 20_000)];
        tracker.begin(&bindings).unwrap();
        assert!(tracker.differs_anywhere().unwrap());
        tracker.release();
        assert!(!tracker.differs_anywhere().unwrap());
    }

    #[test]
    fn buffers_over_the_same_memory_see_each_others_changes() {
        let whole = buffer(1 << 20);
        let memory = PlainBuffer::memory_of(&whole).unwrap();
        let part = HostMemory::part(memory, Range { offset: 4096, length: 500_000 }).unwrap();
        let other = Buffer::new(*whole.params(), 500_000, PlainBuffer::over(part));
        let mut tracker = ChangeTracker::default();
        let ranges = || [bound(1, &whole, 0, 500_000), bound(2, &other, 0, 500_000)];
        for round in 1..4_u8 {
            for (number, bindings) in [&ranges()[..], &ranges()[..1], &ranges()[1..]].iter().enumerate() {
                let before: Vec<_> = bindings.iter().map(contents).collect();
                tracker.begin(bindings).unwrap();
                transfer::write(&whole, 8192, &[round + number as u8 * 16]).unwrap();
                tracker.end().unwrap();
                check(&tracker, bindings, &before, &format!("round {round}, {number}"));
            }
        }
    }
}
