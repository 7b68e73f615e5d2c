//! Accesses outside of bindings, and of bytes that were never written.

use std::ops::ControlFlow;

use rehal_base::{Range, Result};
use rehal_hal::Buffer;
use rehal_replay::{Observer, Operation, merged, without};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::lockstep::{self, NewMemory};
use super::{Difference, Place, Verification, VerifyOptions, VerifySides};
use crate::bytes::{part, read};

/// The redzones of the replays that [`watch_memory`] needs: [`rehal_replay::ReplayOptions::redzone_bytes`].
pub const REDZONE_BYTES: u64 = 64 << 10;

/// Bytes on each side of a binding that are compared after a dispatch.
const NEAR_BYTES: u64 = 1 << 20;
/// Maximum number of bytes of a [`OutOfBoundsWrite`].
const SHOWN_BYTES: usize = 16;

/// Bytes that a dispatch wrote outside of its bindings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutOfBoundsWrite {
    /// The dispatch.
    #[serde(flatten)]
    pub place: Place,
    /// The id in the capture of the buffer that they are in or next to.
    pub buffer_id: u64,
    /// The size of the buffer.
    pub buffer_size: u64,
    /// The first of them, relative to the buffer: negative if it is before the buffer.
    pub offset: i64,
    /// From the first to the last.
    pub length: u64,
    /// The ordinal of the nearest binding.
    pub binding: u32,
    /// The range of the buffer that is bound to it.
    #[serde(flatten, serialize_with = "bound", deserialize_with = "from_bound")]
    pub bound: Range,
    /// The first bytes, as they are now.
    #[serde(serialize_with = "hex::serialize", deserialize_with = "hex::deserialize")]
    pub bytes: Vec<u8>,
}

fn bound<S: Serializer>(range: &Range, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("bound_offset", range.offset), ("bound_length", range.length)])
}

fn from_bound<'d, D: Deserializer<'d>>(from: D) -> std::result::Result<Range, D::Error> {
    #[derive(Deserialize)]
    struct Bound {
        bound_offset: u64,
        bound_length: u64,
    }
    let Bound { bound_offset: offset, bound_length: length } = Bound::deserialize(from)?;
    Ok(Range { offset, length })
}

/// Runs two replays of one plan on equal devices side by side, with different contents of memory that was
/// never written: what differs between them depends on such memory. Also finds writes outside of the bindings
/// of a dispatch, up to 1 MiB from them: in the same buffer, or in its redzones. Both replays have
/// [redzones](REDZONE_BYTES).
///
/// With [`VerifyOptions::keep_going`], bytes that differ are replaced on the second side, so that each
/// dispatch is judged by itself.
pub fn watch_memory(sides: VerifySides<'_, '_, '_>, options: &VerifyOptions) -> Result<Verification> {
    let mut bounds = Bounds { options, found: Vec::new(), omitted: 0, different_count: 0, spans: Vec::new() };
    let VerifySides { expected, actual, expected_observers, observers } = sides;
    let mut all: Vec<&mut dyn Observer> = Vec::with_capacity(observers.len() + 1);
    for observer in observers {
        all.push(&mut **observer);
    }
    all.push(&mut bounds);
    let mut others: Vec<&mut (dyn Observer + Send)> = Vec::with_capacity(expected_observers.len());
    for observer in expected_observers {
        others.push(&mut **observer);
    }
    let sides = VerifySides { expected, actual, expected_observers: &mut others, observers: &mut all };
    let mut outcome = lockstep::run(sides, options, NewMemory::Poisoned)?;
    outcome.out_of_bounds_writes = bounds.found;
    outcome.omitted_out_of_bounds_writes = bounds.omitted;
    outcome.out_of_bounds_write_count = bounds.different_count;
    Ok(outcome)
}

impl Verification {
    /// The memory errors of [`watch_memory`] that the captured kernels, `captured`, do not make in the same
    /// place.
    pub fn memory_errors_beside(mut self, captured: &Self) -> Self {
        let same_write = |left: &OutOfBoundsWrite, right: &OutOfBoundsWrite| {
            let place = |write: &OutOfBoundsWrite| {
                (write.place.record, write.place.occurrence, write.buffer_id, write.offset, write.length)
            };
            place(left) == place(right)
        };
        let same_read = |left: &Difference, right: &Difference| {
            let place = |it: &Difference| (it.place.record, it.place.occurrence, it.binding, it.different);
            place(left) == place(right)
        };
        self.out_of_bounds_writes
            .retain(|it| !captured.out_of_bounds_writes.iter().any(|other| same_write(it, other)));
        self.differences.retain(|it| !captured.differences.iter().any(|other| same_read(it, other)));
        self
    }

    /// These memory errors alone, of as many dispatches and reads.
    pub fn only_memory_errors(self) -> Self {
        let mut memory = Self::default();
        (memory.dispatch_count, memory.read_count) = (self.dispatch_count, self.read_count);
        memory.out_of_bounds_write_count = self.out_of_bounds_writes.len() as u64;
        memory.different_count = self.differences.len() as u64;
        (memory.out_of_bounds_writes, memory.differences) = (self.out_of_bounds_writes, self.differences);
        memory.static_writes = self.static_writes;
        memory
    }
}

/// Compares what is outside of the bindings of each dispatch.
struct Bounds<'o> {
    options: &'o VerifyOptions,
    found: Vec<OutOfBoundsWrite>,
    /// Number of out-of-bounds writes that are not in `found`.
    omitted: u64,
    different_count: u64,
    spans: Vec<Span>,
}

/// Bytes near bindings.
struct Span {
    buffer: Buffer,
    buffer_id: u64,
    /// In the allocation.
    range: Range,
    before: Vec<u8>,
}

impl Bounds<'_> {
    /// Keeps the bytes near the bindings of a dispatch.
    fn begin(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.spans.clear();
        let bindings = operation.bindings();
        for (index, binding) in bindings.iter().enumerate() {
            // All bindings of a buffer together.
            if bindings[..index].iter().any(|it| it.buffer_id == binding.buffer_id) {
                continue;
            }
            let buffer = binding.buffer.whole_allocation();
            let own = bindings.iter().filter(|it| it.buffer_id == binding.buffer_id);
            let bound =
                own.map(|it| Range { offset: it.buffer.allocation_offset() + it.offset, length: it.length });
            let bound = merged(bound.collect());
            let near = bound.iter().map(|it| {
                let offset = it.offset.saturating_sub(NEAR_BYTES);
                let end = it.end().saturating_add(NEAR_BYTES).min(buffer.size());
                Range { offset, length: end - offset }
            });
            for range in without(&merged(near.collect()), bound.iter().copied()) {
                let mut before = Vec::new();
                read(&buffer, range.offset, range.length, &mut before)?;
                self.spans.push(Span { buffer: buffer.clone(), buffer_id: binding.buffer_id, range, before });
            }
        }
        Ok(())
    }

    /// Compares them.
    fn end(&mut self, operation: &Operation<'_>) -> Result<bool> {
        let mut is_found = false;
        let mut after = Vec::new();
        for span in std::mem::take(&mut self.spans) {
            read(&span.buffer, span.range.offset, span.range.length, &mut after)?;
            if after == span.before {
                continue;
            }
            is_found = true;
            match self.found.len() < self.options.max_differences {
                true => self.found.extend(out_of_bounds_write(&span, &after, operation)),
                false => self.omitted += 1,
            }
        }
        self.different_count += u64::from(is_found);
        Ok(is_found)
    }
}

fn out_of_bounds_write(span: &Span, after: &[u8], operation: &Operation<'_>) -> Option<OutOfBoundsWrite> {
    let differs = |(old, new): (&u8, &u8)| old != new;
    let first = span.before.iter().zip(after).position(differs)? as u64;
    let last = span.before.iter().zip(after).rposition(differs)? as u64;
    let own = operation.bindings().iter().zip(0..).filter(|(it, _)| it.buffer_id == span.buffer_id);
    let start = own.clone().next()?.0.buffer.allocation_offset();
    let at = (span.range.offset + first) as i64 - start as i64;
    let (nearest, binding) = own.min_by_key(|(it, _)| {
        let (offset, end) = (it.offset as i64, (it.offset + it.length) as i64);
        if at < offset { offset - at } else { at - end }
    })?;
    let length = last - first + 1;
    let shown = Range { offset: first, length: length.min(SHOWN_BYTES as u64) };
    Some(OutOfBoundsWrite {
        place: Place::from_operation(operation),
        buffer_id: span.buffer_id,
        buffer_size: nearest.buffer.size(),
        offset: at,
        length,
        binding,
        bound: Range { offset: nearest.offset, length: nearest.length },
        bytes: part(after, shown).to_vec(),
    })
}

impl Observer for Bounds<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            self.begin(operation)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let is_found = operation.dispatch.is_some() && self.end(operation)?;
        Ok(match is_found && !self.options.keep_going {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}
