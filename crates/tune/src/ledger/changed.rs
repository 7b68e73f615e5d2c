//! Which bytes each dispatch of a run changes, for about the cost of what it writes.
//!
//! The cost is in proportion to what a dispatch writes, not to what is bound, which is fifty times as much in
//! some models: copies of what is bound outlive a dispatch, and `WriteTracker` (asynchronous userfaultfd
//! write protection) tells which pages to compare.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use rehal_base::{HostMemory, Range, Result, WriteTracker};
use rehal_hal::{Buffer, PlainBuffer, transfer};
use rehal_replay::{AccessKind, AccessedRange, CHANGE_BYTES};

use crate::parallel;
use crate::written::{CHUNK_BYTES, Changes, STRIDE_BYTES, merged, reserve, without};

/// Bytes that a dispatch binds of an allocation, below which they are copied and compared: the calls that tell what was written
/// take as long.
const TRACKED_BYTES: u64 = 64 << 10;
/// Allocations that are kept for the next shadows.
const SPARE_COUNT: usize = 8;

/// Finds what dispatches change in their bindings, by comparison with copies, *shadows*. Shadows outlive a dispatch, and of memory in
/// which the system tracks writes only the pages that were written are copied and compared; other bindings are copied before each
/// dispatch and compared after it.
pub(super) struct ChangeTracker {
    tracker: Option<WriteTracker>,
    shadows: HashMap<ShadowKey, Shadow>,
    bound: Vec<BoundRange>,
    /// The shadows of `bound`.
    active: Vec<ShadowKey>,
    spare: Vec<Vec<u8>>,
}

/// A binding that a dispatch may write.
#[derive(Clone, Copy)]
struct Bound<'a> {
    binding: u32,
    buffer_id: u64,
    buffer: &'a Buffer,
    offset: u64,
    length: u64,
}

/// The same, with its shadow.
struct BoundRange {
    binding: u32,
    buffer_id: u64,
    offset: u64,
    shadow: ShadowKey,
    /// In the memory of the shadow.
    range: Range,
    changes: Vec<Range>,
}

/// What a dispatch changed of a binding.
pub(super) struct ChangedRange<'a> {
    pub binding: u32,
    pub buffer_id: u64,
    /// Offset of the binding in the buffer.
    pub offset: u64,
    /// The bytes of the binding after the dispatch.
    pub bytes: &'a [u8],
    /// What changed of them, in order and in whole units of [`CHANGE_BYTES`].
    pub changes: &'a [Range],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ShadowKey {
    /// The address of the handle of host memory, which the shadow's weak handle keeps from being reused.
    Memory(usize),
    /// The captured id of a buffer that is staged.
    Buffer(u64),
}

/// A copy of what dispatches bind of an allocation.
struct Shadow {
    source: Source,
    /// Where the copy starts in the memory.
    start: u64,
    bytes: Vec<u8>,
    /// The tracked pages; empty without.
    pages: Range,
    /// What is the same as in the memory, but for tracked pages that were written since.
    valid: Vec<Range>,
    /// What the dispatch binds: sorted, and without overlap after [`Shadow::refresh`].
    bound: Vec<Range>,
    /// The tracker tells what the dispatch writes.
    is_tracked_now: bool,
}

enum Source {
    /// Of a CPU device. Weak: the program frees its memory when it likes.
    Memory(Weak<HostMemory>),
    /// Copied by a queue, until the dispatch is complete.
    Buffer(Buffer),
}

impl Default for ChangeTracker {
    fn default() -> Self {
        Self::new(WriteTracker::new().ok())
    }
}

impl ChangeTracker {
    fn new(tracker: Option<WriteTracker>) -> Self {
        let (shadows, bound) = (HashMap::new(), Vec::new());
        Self { tracker, shadows, bound, active: Vec::new(), spare: Vec::new() }
    }

    /// Before a dispatch: knows the bytes that it may write. Several bindings of one range are the first of them.
    pub fn begin(&mut self, bindings: &[AccessedRange<'_>]) -> Result<()> {
        let bound = (0..).zip(bindings).filter(|(_, it)| it.access != AccessKind::Reads);
        self.begin_with(bound.map(|(binding, it)| Bound {
            binding,
            buffer_id: it.buffer_id,
            buffer: it.buffer,
            offset: it.offset,
            length: it.length,
        }))
    }

    fn begin_with<'a>(&mut self, bindings: impl Iterator<Item = Bound<'a>>) -> Result<()> {
        self.release();
        for it in bindings {
            let is_same = |other: &BoundRange| {
                (other.buffer_id, other.offset, other.range.length) == (it.buffer_id, it.offset, it.length)
            };
            if it.length == 0 || self.bound.iter().any(is_same) {
                continue;
            }
            let binding = it.binding;
            let (shadow, range) = self.shadow_of(&it)?;
            if !self.active.contains(&shadow) {
                self.active.push(shadow);
            }
            let (buffer_id, offset, changes) = (it.buffer_id, it.offset, Vec::new());
            self.bound.push(BoundRange { binding, buffer_id, offset, shadow, range, changes });
        }
        for key in &self.active {
            let Some(shadow) = self.shadows.get_mut(key) else { continue };
            shadow.refresh(self.tracker.as_ref())?;
        }
        Ok(())
    }

    /// After it: finds what it changed.
    pub fn end(&mut self) -> Result<()> {
        for key in &self.active {
            let Some(shadow) = self.shadows.get_mut(key) else { continue };
            let mut bound: Vec<&mut BoundRange> =
                self.bound.iter_mut().filter(|it| it.shadow == *key).collect();
            let ranges: Vec<Range> = bound.iter().map(|it| it.range).collect();
            let found = shadow.update(self.tracker.as_ref(), &ranges)?;
            for (number, it) in bound.iter_mut().enumerate() {
                let mut changes = Changes::new(&mut it.changes);
                found.iter().filter(|(of, _)| *of == number).for_each(|(_, range)| changes.add(*range));
            }
        }
        Ok(())
    }

    /// The bindings that changed, in order.
    pub fn changed(&self) -> impl Iterator<Item = ChangedRange<'_>> {
        let changed = self.bound.iter().filter(|it| !it.changes.is_empty());
        changed.filter_map(|it| {
            let shadow = self.shadows.get(&it.shadow)?;
            let (binding, buffer_id, offset) = (it.binding, it.buffer_id, it.offset);
            Some(ChangedRange {
                binding,
                buffer_id,
                offset,
                bytes: shadow.of(it.range),
                changes: &it.changes,
            })
        })
    }

    /// Forgets the dispatch, and the handles of its buffers.
    pub fn release(&mut self) {
        self.bound.clear();
        for key in self.active.drain(..) {
            let Some(shadow) = self.shadows.get_mut(&key) else { continue };
            shadow.bound.clear();
            if let Source::Buffer(_) = shadow.source {
                self.shadows.remove(&key).into_iter().for_each(|it| keep(&mut self.spare, it.bytes));
            }
        }
    }

    /// The shadow of a binding, to which it adds the range that is bound, in its memory.
    fn shadow_of(&mut self, it: &Bound<'_>) -> Result<(ShadowKey, Range)> {
        let memory = PlainBuffer::memory_of(it.buffer).ok();
        let (key, offset) = match memory {
            Some(memory) => {
                let key = ShadowKey::Memory(Arc::as_ptr(memory).addr());
                (key, it.buffer.allocation_offset() + it.offset)
            }
            None => (ShadowKey::Buffer(it.buffer_id), it.offset),
        };
        if !self.shadows.contains_key(&key) {
            let shadow = match memory {
                Some(memory) => self.track(memory),
                None => Shadow::new(Source::Buffer(it.buffer.clone())),
            };
            self.shadows.insert(key, shadow);
        }
        let range = Range { offset, length: it.length };
        let size = memory.map_or_else(|| it.buffer.size(), |memory| memory.length());
        if let Some(shadow) = self.shadows.get_mut(&key) {
            shadow.bind(range, size, self.tracker.as_ref(), &mut self.spare)?;
        }
        Ok((key, range))
    }

    /// A shadow of memory, whose writes are tracked if possible.
    fn track(&mut self, memory: &Arc<HostMemory>) -> Shadow {
        let spare = &mut self.spare;
        self.shadows.retain(|_, it| {
            let is_alive = it.memory().is_some() || matches!(it.source, Source::Buffer(_));
            if !is_alive {
                keep(spare, std::mem::take(&mut it.bytes));
            }
            is_alive
        });
        let mut shadow = Shadow::new(Source::Memory(Arc::downgrade(memory)));
        let mut is_alone = true;
        for other in self.shadows.values_mut() {
            if other.memory().is_some_and(|other| overlap(&other, memory)) {
                // What one of them takes from the tracker, the other would miss.
                other.pages = Range::default();
                other.valid.clear();
                is_alone = false;
            }
        }
        let tracker = self.tracker.as_ref().filter(|_| is_alone && memory.length() >= TRACKED_BYTES);
        shadow.pages = tracker.and_then(|it| it.track(memory).ok()).unwrap_or_default();
        shadow
    }
}

fn overlap(a: &HostMemory, b: &HostMemory) -> bool {
    let span = |it: &HostMemory| (it.as_ptr().addr() as u64, it.as_ptr().addr() as u64 + it.length());
    let ((a, a_end), (b, b_end)) = (span(a), span(b));
    a < b_end && b < a_end
}

/// Keeps an allocation for the next shadow.
fn keep(spare: &mut Vec<Vec<u8>>, bytes: Vec<u8>) {
    if spare.len() < SPARE_COUNT {
        spare.push(bytes);
    }
}

impl Shadow {
    fn new(source: Source) -> Self {
        Self {
            source,
            start: 0,
            bytes: Vec::new(),
            pages: Range::default(),
            valid: Vec::new(),
            bound: Vec::new(),
            is_tracked_now: false,
        }
    }

    fn memory(&self) -> Option<Arc<HostMemory>> {
        match &self.source {
            Source::Memory(memory) => memory.upgrade(),
            Source::Buffer(_) => None,
        }
    }

    /// The range of the memory that it has.
    fn span(&self) -> Range {
        Range { offset: self.start, length: self.bytes.len() as u64 }
    }

    /// Bytes of the memory.
    fn of(&self, range: Range) -> &[u8] {
        &self.bytes[(range.offset - self.start) as usize..][..range.length as usize]
    }

    /// Adds a range that is bound to what it has; the memory has `size` bytes.
    fn bind(
        &mut self,
        range: Range,
        size: u64,
        tracker: Option<&WriteTracker>,
        spare: &mut Vec<Vec<u8>>,
    ) -> Result<()> {
        self.bound.push(range);
        let span = self.span();
        if span.length != 0 && range.offset >= span.offset && range.end() <= span.end() {
            return Ok(());
        }
        // All of the memory the second time, so that many bindings do not move what it has as often.
        let wanted = match span.length {
            0 => self.pages_around(range, size, tracker),
            _ => Range { offset: 0, length: size },
        };
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() < wanted.length as usize {
            bytes = spare.pop().unwrap_or_default();
        }
        reserve(&mut bytes, wanted.length as usize)?;
        bytes.resize(wanted.length as usize, 0);
        (self.start, self.bytes) = (wanted.offset, bytes);
        self.valid.clear();
        Ok(())
    }

    /// A range with the rest of its first and last page.
    fn pages_around(&self, range: Range, size: u64, tracker: Option<&WriteTracker>) -> Range {
        let Range { offset: first, .. } = self.pages;
        let (Some(tracker), false) = (tracker, self.pages.length == 0) else { return range };
        let page = tracker.page_bytes();
        let start = range.offset.checked_sub(first).map_or(0, |it| first + it / page * page);
        let end = match range.end().checked_sub(first) {
            None => first,
            Some(it) => first + it.next_multiple_of(page),
        };
        let end = if end > self.pages.end() { size } else { end };
        Range { offset: start, length: end - start }
    }

    /// Before a dispatch: copies what may have changed of the bound ranges.
    fn refresh(&mut self, tracker: Option<&WriteTracker>) -> Result<()> {
        self.bound = merged(std::mem::take(&mut self.bound));
        let total: u64 = self.bound.iter().map(|it| it.length).sum();
        let tracker = tracker.filter(|_| self.pages.length != 0 && total >= TRACKED_BYTES);
        self.is_tracked_now = tracker.is_some();
        let mut stale = tracker.and_then(|it| self.written(it)).unwrap_or_else(|| self.bound.clone());
        if self.is_tracked_now {
            stale.extend(without(&self.bound, self.valid.iter().copied()));
            stale = merged(stale);
        }
        self.each_block(&stale, |_, old, new, _: &mut Vec<()>| old.copy_from_slice(new))?;
        if self.is_tracked_now {
            self.valid.extend(&self.bound);
            self.valid = merged(std::mem::take(&mut self.valid));
        }
        Ok(())
    }

    /// After it: replaces what changed, and returns the changes of each of `bindings`, by index and in the binding, in order.
    fn update(&mut self, tracker: Option<&WriteTracker>, bindings: &[Range]) -> Result<Vec<(usize, Range)>> {
        let tracker = tracker.filter(|_| self.is_tracked_now);
        let dirty = tracker.and_then(|it| self.written(it)).unwrap_or_else(|| self.bound.clone());
        self.each_block(&dirty, |at, old, new, found| {
            if old != new {
                for (number, binding) in bindings.iter().enumerate() {
                    add_changes(*binding, at, old, new, |range| found.push((number, range)));
                }
                old.copy_from_slice(new);
            }
        })
    }

    /// What was written of the bound ranges since it was last asked, with the rest of the pages; `None` if that is not known, now
    /// and from now on.
    fn written(&mut self, tracker: &WriteTracker) -> Option<Vec<Range>> {
        let written = self.memory().and_then(|memory| self.written_of(&memory, tracker).ok());
        if written.is_none() {
            self.pages = Range::default();
            self.valid.clear();
            self.is_tracked_now = false;
        }
        written
    }

    fn written_of(&self, memory: &HostMemory, tracker: &WriteTracker) -> Result<Vec<Range>> {
        let mut written = Vec::new();
        for range in &self.bound {
            let around = self.pages_around(*range, memory.length(), Some(tracker));
            let (start, end) = (around.offset.max(self.pages.offset), around.end().min(self.pages.end()));
            if start < end {
                tracker.take(memory, Range { offset: start, length: end - start }, &mut written)?;
            }
            // Pages of which other memory has a part are not tracked.
            written.extend(without(&[*range], [self.pages].into_iter()));
        }
        Ok(merged(written))
    }

    /// Calls `perform` for each block of ranges, with its place in the memory, its bytes here and those in the memory. On several
    /// threads if that is faster. Returns what it adds, in order.
    fn each_block<T: Send>(
        &mut self,
        ranges: &[Range],
        perform: impl Fn(u64, &mut [u8], &[u8], &mut Vec<T>) + Sync,
    ) -> Result<Vec<T>> {
        let whole = |memory: &HostMemory, source: u64, at: u64, bytes: &mut [u8]| {
            let (mut block, mut found) = ([0; STRIDE_BYTES], Vec::new());
            for (number, old) in bytes.chunks_mut(STRIDE_BYTES).enumerate() {
                let (offset, new) = ((number * STRIDE_BYTES) as u64, &mut block[..old.len()]);
                memory.read(source + offset, new)?;
                perform(at + offset, old, new, &mut found);
            }
            Ok::<_, rehal_base::Error>(found)
        };
        let total: u64 = ranges.iter().map(|it| it.length).sum();
        let parts = parts_of(&mut self.bytes, self.start, ranges);
        match &self.source {
            Source::Memory(memory) => {
                let Some(memory) = memory.upgrade() else { return Ok(Vec::new()) };
                let of = |(at, bytes): (u64, &mut [u8])| whole(&memory, at, at, bytes);
                let found: Result<Vec<_>> = match total > CHUNK_BYTES as u64 {
                    true => parallel::map(parts, of).into_iter().collect(),
                    false => parts.into_iter().map(of).collect(),
                };
                Ok(found?.into_iter().flatten().collect())
            }
            Source::Buffer(buffer) => {
                let mut found = Vec::new();
                for (mut at, mut bytes) in parts {
                    transfer::read_with(buffer, at, bytes.len() as u64, |memory, piece| {
                        let (now, rest) = std::mem::take(&mut bytes).split_at_mut(piece.length as usize);
                        found.extend(whole(memory, piece.offset, at, now)?);
                        (at, bytes) = (at + piece.length, rest);
                        Ok(())
                    })?;
                }
                Ok(found)
            }
        }
    }
}

/// The parts of `bytes` that `ranges` have, at most [`CHUNK_BYTES`] long, with their places; `bytes` start at `start`, and ranges are
/// in order.
fn parts_of<'b>(mut bytes: &'b mut [u8], mut start: u64, ranges: &[Range]) -> Vec<(u64, &'b mut [u8])> {
    let mut parts = Vec::new();
    let span_end = start + bytes.len() as u64;
    for range in ranges {
        let (mut at, end) = (range.offset.max(start), range.end().min(span_end));
        while at < end {
            let length = (end - at).min(CHUNK_BYTES as u64);
            let (part, rest) = bytes.split_at_mut((at + length - start) as usize);
            parts.push((at, &mut part[(at - start) as usize..]));
            (bytes, start, at) = (rest, at + length, at + length);
        }
    }
    parts
}

/// The changes of a block that starts at `at`, as ranges of `binding` in whole units.
fn add_changes(binding: Range, at: u64, old: &[u8], new: &[u8], mut add: impl FnMut(Range)) {
    let unit = CHANGE_BYTES as u64;
    let (first, end) = (binding.offset.max(at), binding.end().min(at + old.len() as u64));
    if first >= end {
        return;
    }
    let part = (first - at) as usize..(end - at) as usize;
    let (old, new, place) = (&old[part.clone()], &new[part], first - binding.offset);
    let mut add_units = |start: u64, end: u64| {
        let (start, end) = (start / unit * unit, end.next_multiple_of(unit).min(binding.length));
        add(Range { offset: start, length: end - start });
    };
    // The end of a unit that begins in the block before.
    let head = (place.next_multiple_of(unit) - place).min(old.len() as u64) as usize;
    if old[..head] != new[..head] {
        add_units(place, place + head as u64);
    }
    for range in rehal_replay::changes(&old[head..], &new[head..]) {
        let start = place + head as u64 + range.offset;
        add_units(start, start + range.length);
    }
}

#[cfg(test)]
mod tests {
    use rehal_hal::{BufferParams, BufferUsage, MemoryType};

    use super::*;

    fn buffer(size: u64) -> Buffer {
        let params = BufferParams {
            usage: BufferUsage::MAPPING_SCOPED,
            memory_type: MemoryType::HOST_LOCAL,
            ..BufferParams::default()
        };
        Buffer::new(params, size, PlainBuffer::allocate(size).unwrap())
    }

    fn write(buffer: &Buffer, offset: u64, bytes: &[u8]) {
        transfer::write(buffer, offset, bytes).unwrap();
    }

    /// The units of a binding that differ, found without a tracker.
    fn units(before: &[u8], after: &[u8]) -> Vec<u64> {
        let units = before.chunks(CHANGE_BYTES).zip(after.chunks(CHANGE_BYTES));
        (0..).zip(units).filter(|(_, (old, new))| old != new).map(|(at, _)| at).collect()
    }

    /// Performs random writes as dispatches and between them, and checks what is found.
    fn random_dispatches(mut tracker: ChangeTracker) {
        let mut random = fastrand::Rng::with_seed(11);
        let mut buffers: Vec<(u64, Buffer)> = Vec::new();
        for round in 0..80_u64 {
            if buffers.len() < 4 || random.u8(..) < 30 {
                // Freed memory is often that of the next buffer.
                if buffers.len() >= 4 {
                    buffers.swap_remove(random.usize(..buffers.len()));
                }
                let size = *random.choice([&100_u64, &70_000, &300_001, &(3 << 20)]).unwrap();
                buffers.push((round, buffer(size)));
            }
            let mut bindings: Vec<Bound<'_>> = Vec::new();
            for binding in 0..random.u32(1..5) {
                let (id, buffer) = &buffers[random.usize(..buffers.len())];
                let offset = random.u64(..buffer.size());
                let length = random.u64(1..=buffer.size() - offset);
                bindings.push(Bound { binding, buffer_id: *id, buffer, offset, length });
            }
            let scribble = |random: &mut fastrand::Rng| {
                for _ in 0..random.usize(..5) {
                    let it = &bindings[random.usize(..bindings.len())];
                    let at = it.offset + random.u64(..it.length);
                    let length = random.u64(..=(it.offset + it.length - at).min(9000));
                    write(it.buffer, at, &vec![random.u8(..); length as usize]);
                }
            };
            scribble(&mut random);
            let contents = |it: &Bound<'_>| transfer::to_vec(it.buffer, it.offset, it.length).unwrap();
            let before: Vec<_> = bindings.iter().map(contents).collect();
            tracker.begin_with(bindings.iter().copied()).unwrap();
            scribble(&mut random);
            tracker.end().unwrap();
            let mut changed: HashMap<u32, Vec<u64>> = HashMap::new();
            for it in tracker.changed() {
                assert!(it.bytes == contents(&bindings[it.binding as usize]), "round {round}");
                let length = it.bytes.len() as u64;
                let is_unit = |at: u64| at.is_multiple_of(CHANGE_BYTES as u64) || at == length;
                assert!(it.changes.iter().all(|range| is_unit(range.offset) && is_unit(range.end())));
                assert!(it.changes.windows(2).all(|pair| pair[0].end() < pair[1].offset));
                let units = |range: &Range| range.offset / 16..range.end().div_ceil(16);
                changed.insert(it.binding, it.changes.iter().flat_map(units).collect());
            }
            for (number, (it, before)) in bindings.iter().zip(&before).enumerate() {
                let expected = units(before, &contents(it));
                let is_same = |other: &Bound<'_>| {
                    (other.buffer_id, other.offset, other.length) == (it.buffer_id, it.offset, it.length)
                };
                let first = bindings.iter().position(is_same).unwrap();
                let found = changed.get(&(first as u32)).cloned().unwrap_or_default();
                // Units between changes that are near are changes too.
                assert!(expected.iter().all(|unit| found.contains(unit)), "round {round}, binding {number}");
                assert!(found.len() <= expected.len() * 5, "round {round}: {found:?} of {expected:?}");
                assert_eq!(found.is_empty(), expected.is_empty(), "round {round}, binding {number}");
            }
        }
    }

    #[test]
    fn changes_are_found_in_tracked_memory() {
        random_dispatches(ChangeTracker::default());
    }

    #[test]
    fn changes_are_found_without_a_tracker() {
        random_dispatches(ChangeTracker::new(None));
    }

    #[test]
    fn buffers_over_the_same_memory_see_each_others_changes() {
        let whole = buffer(1 << 20);
        let memory = PlainBuffer::memory_of(&whole).unwrap();
        let part = HostMemory::part(memory, Range { offset: 4096, length: 500_000 }).unwrap();
        let other = Buffer::new(*whole.params(), 500_000, PlainBuffer::over(part));
        let mut tracker = ChangeTracker::default();
        let range = |buffer_id, buffer| {
            let (binding, length) = (buffer_id as u32, 500_000);
            Bound { binding, buffer_id, buffer, offset: 0, length }
        };
        for round in 1..4_u8 {
            for bindings in [vec![range(1, &whole)], vec![range(1, &whole), range(2, &other)]] {
                tracker.begin_with(bindings.iter().copied()).unwrap();
                write(&whole, 8192, &[round + bindings.len() as u8 * 16]);
                tracker.end().unwrap();
                let found: Vec<_> =
                    tracker.changed().map(|it| (it.buffer_id, it.changes[0].offset)).collect();
                assert_eq!(found, [(1, 8192), (2, 4096)][..bindings.len()]);
            }
        }
    }

    #[test]
    fn freed_memory_has_no_shadow_for_long() {
        let mut tracker = ChangeTracker::default();
        for id in 0..20 {
            let memory = buffer(1 << 20);
            let length = 1 << 20;
            let bound = Bound { binding: 0, buffer_id: id, buffer: &memory, offset: 0, length };
            tracker.begin_with([bound].into_iter()).unwrap();
            tracker.end().unwrap();
            assert_eq!(tracker.changed().count(), 0);
            tracker.release();
            assert!(tracker.shadows.len() <= 2, "{}", tracker.shadows.len());
        }
    }
}
