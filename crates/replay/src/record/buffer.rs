use rehal_base::{Error, HostMemory, Range, Result};
use rehal_capture::{layout, payload};
use rehal_hal::{
    Buffer, BufferBackend, HostOp, MappedRange, MappingMode, MemoryAccess, QUEUE_AFFINITY_ANY, RangeOp,
};
use zerocopy::little_endian::{U16, U32, U64};

use super::LedgerRecording;
use super::object::Recorded;
use super::stream::{Log, status_of};
use crate::encode;
use crate::ids::Ids;

impl Recorded<Buffer> {
    fn range<'a>(&self, range: Range, mode: MappingMode, access: MemoryAccess) -> RangeOp<Ids<'a>> {
        RangeOp { buffer: self.id, offset: range.offset, length: range.length, mode, access }
    }

    /// The digest of the bytes that a program reads, if that is recorded.
    fn digest(&self, mapped: &MappedRange, memory: &HostMemory) -> Option<layout::ReadDigest> {
        let is_wanted = self.stream.options.ledger != LedgerRecording::Off;
        if !is_wanted || !mapped.access.contains(MemoryAccess::READ) {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        let hashed = memory.for_each_chunk(memory.whole(), |bytes| {
            hasher.update(bytes);
            Ok::<_, Error>(())
        });
        // The whole memory is in range.
        hashed.ok()?;
        let mut digest = [0; 16];
        digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Some(layout::ReadDigest {
            buffer_id: U64::new(self.id),
            offset: U64::new(mapped.range.offset),
            length: U64::new(mapped.range.length),
            digest,
        })
    }

    /// Records the bytes that the host may have written to `range` of a mapping.
    fn record_written(
        &self,
        status: u32,
        mapped: &MappedRange,
        memory: &HostMemory,
        range: Range,
        op: impl for<'b> FnOnce(RangeOp<Ids<'b>>, &'b [u8]) -> HostOp<Ids<'b>>,
    ) {
        let place = Range { offset: mapped.range.offset + range.offset, ..range };
        self.stream.with_log(|log| {
            log.calls_with_memory(self.device, status, memory, range, |bytes, put| {
                encode::host_op(&op(self.range(place, MappingMode::empty(), mapped.access), bytes), put);
            });
        });
    }
}

/// Records host accesses.
impl BufferBackend for Recorded<Buffer> {
    fn is_queue_ordered(&self) -> bool {
        self.base.is_queue_ordered()
    }

    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        let unseen =
            mapped.mode.contains(MappingMode::PERSISTENT) && mapped.access.contains(MemoryAccess::WRITE);
        let outcome = match unseen {
            false => self.base.backend().map(mapped),
            true => Err(Error::unimplemented(
                "a persistent mapping for writing cannot be recorded; map the range for each write",
            )),
        };
        let range = self.range(mapped.range, mapped.mode, mapped.access);
        // Hashed outside of the lock of the stream, before the program has the memory.
        let digest = outcome.as_ref().ok().and_then(|memory| self.digest(mapped, memory));
        self.stream.with_log(|log| {
            log.calls(self.device, status_of(&outcome), |put| encode::host_op(&HostOp::Map(range), put));
            if let Some(digest) = digest {
                log.read_digest(&digest);
            }
        });
        outcome
    }

    // The mapped memory outlives this and contains the host's writes.
    fn unmap(&self, mapped: &MappedRange, memory: &HostMemory) -> Result<()> {
        let outcome = self.base.backend().unmap(mapped, memory);
        let status = status_of(&outcome);
        if mapped.access.contains(MemoryAccess::WRITE) {
            self.record_written(status, mapped, memory, memory.whole(), |it, bytes| {
                HostOp::Unmap(it, Some(bytes))
            });
        } else if !self.is_queue_ordered() {
            // In the reference, a buffer of an alloca hands a mapping over to the memory behind it, which is
            // not recorded. Without bytes the record says nothing that a replay needs; one with bytes, which
            // it loses too, is kept.
            let range = self.range(mapped.range, MappingMode::empty(), mapped.access);
            self.record_host_op(status, &HostOp::Unmap(range, None));
        }
        outcome
    }

    fn flush(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()> {
        let outcome = self.base.backend().flush(mapped, memory, range);
        let status = status_of(&outcome);
        self.record_written(status, mapped, memory, range, |it, bytes| HostOp::Flush(it, Some(bytes)));
        outcome
    }

    fn invalidate(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()> {
        let outcome = self.base.backend().invalidate(mapped, memory, range);
        let range = Range { offset: mapped.range.offset + range.offset, ..range };
        let invalidated = self.range(range, MappingMode::empty(), MemoryAccess::empty());
        self.record_host_op(status_of(&outcome), &HostOp::Invalidate(invalidated));
        outcome
    }

    fn deallocate(&self) -> Result<()> {
        self.base.backend().deallocate()
    }
}

/// Records a buffer that was created. Its placement as captures state it: all queues for imported memory, the
/// first queue for a queue allocation, none for a synchronous allocation.
pub(super) fn record_object(log: &mut Log, device: u64, id: u64, buffer: &Buffer, is_imported: bool) {
    /// `IREE_HAL_BUFFER_PLACEMENT_FLAG_ASYNCHRONOUS`.
    const ASYNCHRONOUS: u32 = 1;
    let (queue_affinity, placement_flags) = match (is_imported, buffer.is_queue_ordered()) {
        (true, _) => (QUEUE_AFFINITY_ANY, 0),
        (false, true) => (1, ASYNCHRONOUS),
        (false, false) => (0, 0),
    };
    let params = buffer.params();
    let header = layout::BufferObject {
        allocation_size: U64::new(buffer.allocation_size()),
        byte_offset: U64::new(buffer.allocation_offset()),
        byte_length: U64::new(buffer.size()),
        queue_affinity: U64::new(queue_affinity),
        placement_flags: U32::new(placement_flags),
        memory_type: U32::new(params.memory_type.bits()),
        allowed_usage: U32::new(params.usage.bits()),
        allowed_access: U16::new(params.access.bits()),
        ..Default::default()
    };
    log.object(device, rehal_capture::ObjectType::BUFFER, id, &payload::BufferObject { header: &header });
}
