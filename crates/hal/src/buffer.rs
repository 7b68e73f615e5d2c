use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rehal_base::{Error, Range, Result};

use crate::HostMemory;
use crate::flags::*;
use crate::statistics::{Counted, MemoryCounters};

/// What is asked of a buffer, or what one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferParams {
    /// What it may be used for.
    pub usage: BufferUsage,
    /// What may be done with its memory.
    pub access: MemoryAccess,
    /// Where its memory lives.
    pub memory_type: MemoryType,
    /// The queues that use it.
    pub affinity: QueueAffinity,
    /// Least alignment in bytes; 0 leaves it to the device.
    pub min_alignment: u64,
}

impl Default for BufferParams {
    /// Device-local memory for dispatches and transfers, on any queue.
    fn default() -> Self {
        Self {
            usage: BufferUsage::TRANSFER_SOURCE
                | BufferUsage::TRANSFER_TARGET
                | BufferUsage::DISPATCH_STORAGE_READ
                | BufferUsage::DISPATCH_STORAGE_WRITE,
            access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD,
            memory_type: MemoryType::DEVICE_LOCAL,
            affinity: QUEUE_AFFINITY_ANY,
            min_alignment: 0,
        }
    }
}

impl BufferParams {
    /// The same with what is left open filled in, as the reference's HAL fills it in for every driver.
    pub fn canonical(self) -> Self {
        Self {
            usage: if self.usage.is_empty() { Self::default().usage } else { self.usage },
            access: if self.access.is_empty() { Self::default().access } else { self.access },
            memory_type: if self.memory_type.is_empty() { MemoryType::OPTIMAL } else { self.memory_type },
            affinity: if self.affinity == 0 { QUEUE_AFFINITY_ANY } else { self.affinity },
            min_alignment: self.min_alignment,
        }
    }
}

/// What the host maps, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// The bytes, in the buffer's allocation.
    pub range: Range,
    /// How long it is mapped.
    pub mode: MappingMode,
    /// What the host does with the bytes.
    pub access: MemoryAccess,
}

/// What a driver does for a buffer.
pub trait BufferBackend: Send + Sync {
    /// The memory, where the host can reach it. Fails where the buffer has none (any more).
    fn host_memory(&self) -> Result<&Arc<HostMemory>>;

    /// Lets the host access a range of the memory until [`BufferBackend::unmap`].
    fn map(&self, mapped: &MappedRange) -> Result<&Arc<HostMemory>> {
        let _ = mapped;
        self.host_memory()
    }

    /// The host has accessed what it mapped.
    fn unmap(&self, mapped: &MappedRange) {
        let _ = mapped;
    }

    /// Makes what the host wrote to `range`, which lies in what it mapped, visible to the device.
    fn flush(&self, mapped: &MappedRange, range: Range) -> Result<()> {
        let _ = (mapped, range);
        Ok(())
    }

    /// Makes what the device wrote to `range`, which lies in what the host mapped, visible to the host.
    fn invalidate(&self, mapped: &MappedRange, range: Range) -> Result<()> {
        let _ = (mapped, range);
        Ok(())
    }

    /// Whether queues own the memory, so that a dealloca gives it back. Where they do not, as on a CPU that runs
    /// work at once, programs order a dealloca as they order anything, and the memory lives as long as its handles.
    fn is_queue_ordered(&self) -> bool {
        false
    }

    /// Marks the memory as given back to the queue; later use is an error.
    fn deallocate(&self) -> Result<()>;

    /// The backend itself, for the driver that made it.
    fn as_any(&self) -> &dyn Any;
}

/// Memory of a device: a cheap clone of a shared object, or of a part of it.
#[derive(Clone)]
pub struct Buffer {
    allocation: Arc<Shared<dyn BufferBackend>>,
    /// First byte of the part in the allocation.
    offset: u64,
    size: u64,
}

struct Shared<B: ?Sized> {
    params: BufferParams,
    size: u64,
    /// Owners that programs count by [`Buffer::preserve`] and [`Buffer::discard`].
    owners: AtomicU32,
    backend: B,
}

impl Buffer {
    /// A buffer of `size` bytes with what it has in `params`, for drivers.
    pub fn new(params: BufferParams, size: u64, backend: impl BufferBackend + 'static) -> Self {
        let allocation = Arc::new(Shared { params, size, owners: AtomicU32::new(1), backend });
        Self { allocation, offset: 0, size }
    }

    /// Size in bytes, of the part where it is one.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where it begins in its allocation: 0 unless it is a part of a buffer.
    pub fn allocation_offset(&self) -> u64 {
        self.offset
    }

    /// Size in bytes of the allocation that it is all or a part of.
    pub fn allocation_size(&self) -> u64 {
        self.allocation.size
    }

    /// A part of this buffer: the same memory, without an allocation. `length` may be [`WHOLE_BUFFER`].
    pub fn subspan(&self, offset: u64, length: u64) -> Result<Self> {
        let range = self.resolve(offset, length)?;
        Ok(Self { allocation: self.allocation.clone(), offset: range.offset, size: range.length })
    }

    /// All of the allocation that it is a part of.
    pub fn whole_allocation(&self) -> Self {
        Self { allocation: self.allocation.clone(), offset: 0, size: self.allocation.size }
    }

    /// See [`BufferBackend::is_queue_ordered`].
    pub fn is_queue_ordered(&self) -> bool {
        self.allocation.backend.is_queue_ordered()
    }

    /// Counts one more owner of the allocation; a new one has one owner.
    pub fn preserve(&self) {
        self.allocation.owners.fetch_add(1, Ordering::Acquire);
    }

    /// Counts one owner less; whether it was the last, so that the caller may deallocate.
    pub fn discard(&self) -> bool {
        self.allocation.owners.fetch_sub(1, Ordering::Release) == 1
    }

    /// Whether the allocation has one owner left.
    pub fn has_one_owner(&self) -> bool {
        self.allocation.owners.load(Ordering::Acquire) == 1
    }

    /// What it has: usage, access and memory type as granted.
    pub fn params(&self) -> &BufferParams {
        &self.allocation.params
    }

    /// The backend.
    pub fn backend(&self) -> &dyn BufferBackend {
        &self.allocation.backend
    }

    /// Whether both handles are of one buffer, or of the same part of it.
    pub fn is_same(&self, other: &Self) -> bool {
        self.shares_allocation(other) && self.offset == other.offset && self.size == other.size
    }

    /// Whether both are all or parts of one allocation.
    pub fn shares_allocation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.allocation, &other.allocation)
    }

    /// `offset` and `length` (which may be [`WHOLE_BUFFER`]) as a range of the allocation: where the backend's
    /// memory has what this buffer has at `offset`. Fails where the range exceeds this buffer.
    pub fn resolve(&self, offset: u64, length: u64) -> Result<Range> {
        let wanted = if length == WHOLE_BUFFER { self.size.checked_sub(offset) } else { Some(length) };
        match wanted.and_then(|length| Range::new(offset, length)) {
            // A part lies within its allocation, so this sum does not overflow.
            Some(range) if range.fits(self.size) => Ok(Range { offset: self.offset + offset, ..range }),
            _ if length == WHOLE_BUFFER => {
                Err(Error::out_of_range(format!("offset {offset} exceeds a buffer of {} bytes", self.size)))
            }
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a buffer of {} bytes",
                self.size
            ))),
        }
    }

    /// Fails unless the buffer may be used for all of `usage`, and its memory accessed as transfers among it do.
    /// (Whether a dispatch writes, only its kernel knows.)
    pub fn require_usage(&self, usage: BufferUsage) -> Result<()> {
        let params = &self.allocation.params;
        if !params.usage.contains(usage) {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!(
                    "the buffer does not allow {:?}; it allows {:?}",
                    usage.difference(params.usage),
                    params.usage
                ),
            ));
        }
        let mut access = MemoryAccess::empty();
        access.set(MemoryAccess::READ, usage.contains(BufferUsage::TRANSFER_SOURCE));
        access.set(MemoryAccess::WRITE, usage.contains(BufferUsage::TRANSFER_TARGET));
        self.require_access(access)
    }

    fn require_access(&self, access: MemoryAccess) -> Result<()> {
        let allowed = self.allocation.params.access;
        let wanted = access & (MemoryAccess::READ | MemoryAccess::WRITE);
        if allowed.intersects(MemoryAccess::ANY) || allowed.contains(wanted) {
            return Ok(());
        }
        Err(Error::new(
            rehal_base::StatusCode::PermissionDenied,
            format!("the buffer does not allow {access:?}; it allows {allowed:?}"),
        ))
    }

    /// Maps a range for the host, until the mapping is dropped. Fails when the host cannot reach the memory,
    /// the buffer does not allow the access, or the range exceeds it.
    pub fn map(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping<'_>> {
        self.map_as(MappingMode::SCOPED, access, offset, length)
    }

    /// [`Buffer::map`] for a range that stays mapped while the device uses the buffer. A recorder refuses
    /// one that may be written: it cannot see when.
    pub fn map_persistent(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping<'_>> {
        self.require_usage(BufferUsage::MAPPING_PERSISTENT)?;
        self.map_as(MappingMode::PERSISTENT, access, offset, length)
    }

    fn map_as(
        &self,
        mode: MappingMode,
        access: MemoryAccess,
        offset: u64,
        length: u64,
    ) -> Result<Mapping<'_>> {
        let params = &self.allocation.params;
        if !params.memory_type.contains(MemoryType::HOST_VISIBLE) {
            return Err(Error::failed_precondition(format!(
                "the host cannot map memory of type {:?}",
                params.memory_type
            )));
        }
        if !params.usage.intersects(BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT) {
            self.require_usage(BufferUsage::MAPPING_SCOPED)?;
        }
        self.require_access(access)?;
        let range = self.resolve(offset, length)?;
        let mapped = MappedRange { range, mode, access };
        let backend = &self.allocation.backend;
        Ok(Mapping { memory: backend.map(&mapped)?, mapped, backend })
    }

    /// Copies bytes out through a mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.map(MemoryAccess::READ, offset, target.len() as u64)?.read(0, target)
    }

    /// Copies bytes in through a mapping, which discards what was there if the buffer allows that.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & self.params().access);
        self.map(access, offset, source.len() as u64)?.write(0, source)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.size)
    }
}

/// A range of a buffer that the host can reach, until it is dropped.
pub struct Mapping<'a> {
    memory: &'a HostMemory,
    mapped: MappedRange,
    backend: &'a dyn BufferBackend,
}

impl Mapping<'_> {
    /// Number of bytes mapped.
    pub fn length(&self) -> u64 {
        self.mapped.range.length
    }

    /// Copies bytes out, from `offset` of the mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let range = self.part(MemoryAccess::READ, offset, target.len() as u64)?;
        self.memory.read(range.offset, target)
    }

    /// Copies bytes in, at `offset` of the mapping.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let range = self.part(MemoryAccess::WRITE, offset, source.len() as u64)?;
        self.memory.write(range.offset, source)
    }

    /// Lets `write` fill all bytes in place, as from a file; nobody else accesses them meanwhile.
    pub fn with_bytes_mut<R>(&self, write: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let range = self.part(MemoryAccess::WRITE, 0, self.length())?;
        self.memory.with_bytes_mut(range.offset, range.length, write)
    }

    /// Shows all bytes to `look`, without a copy; the caller has waited for their writers.
    pub fn with_bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let range = self.part(MemoryAccess::READ, 0, self.length())?;
        self.memory.with_bytes(range.offset, range.length, look)
    }

    /// Makes what was written to a part of the mapping visible to the device, before it is unmapped.
    pub fn flush(&self, offset: u64, length: u64) -> Result<()> {
        let range = self.part(MemoryAccess::WRITE, offset, length)?;
        self.backend.flush(&self.mapped, range)
    }

    /// Makes what the device wrote since the range was mapped visible in a part of the mapping.
    pub fn invalidate(&self, offset: u64, length: u64) -> Result<()> {
        let range = self.part(MemoryAccess::READ, offset, length)?;
        self.backend.invalidate(&self.mapped, range)
    }

    /// A range of the mapping as one of the allocation.
    fn part(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Range> {
        if !self.mapped.access.contains(access) {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!("mapped for {:?}, used for {access:?}", self.mapped.access),
            ));
        }
        match Range::new(offset, length) {
            Some(range) if range.fits(self.length()) => {
                Ok(Range { offset: self.mapped.range.offset + offset, length })
            }
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a mapping of {} bytes",
                self.length()
            ))),
        }
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        self.backend.unmap(&self.mapped);
    }
}

/// A buffer that is nothing but host memory: what CPU drivers use.
pub struct PlainBuffer {
    memory: Arc<HostMemory>,
    deallocated: AtomicBool,
    _counted: Option<Counted>,
}

impl PlainBuffer {
    /// `size` zeroed bytes.
    pub fn allocate(size: u64) -> Result<Self> {
        Self::allocate_aligned(size, 0)
    }

    /// `size` zeroed bytes at a multiple of `alignment`, a power of two in bytes or 0 for any.
    pub fn allocate_aligned(size: u64, alignment: u64) -> Result<Self> {
        let memory = HostMemory::allocate_aligned(size, alignment)?;
        Ok(Self::over(memory))
    }

    /// A buffer over memory that exists.
    pub fn over(memory: HostMemory) -> Self {
        Self { memory: Arc::new(memory), deallocated: AtomicBool::new(false), _counted: None }
    }

    /// The same buffer, counted as memory of this type until it is gone.
    pub fn counted(mut self, counters: &Arc<MemoryCounters>, memory_type: MemoryType) -> Self {
        self._counted = Some(counters.count(memory_type, self.memory.length()));
        self
    }
}

impl BufferBackend for PlainBuffer {
    fn host_memory(&self) -> Result<&Arc<HostMemory>> {
        if self.deallocated.load(Ordering::Acquire) {
            return Err(Error::failed_precondition("the buffer is used after its dealloca"));
        }
        Ok(&self.memory)
    }

    // The bytes stay until the last handle is gone: freeing them now would pull them from under a
    // mapping, and a program drops its handle with the dealloca.
    fn deallocate(&self) -> Result<()> {
        if self.deallocated.swap(true, Ordering::AcqRel) {
            return Err(Error::failed_precondition("the buffer was deallocated before"));
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_memory_seen_from_its_offset() {
        let params = BufferParams {
            usage: BufferUsage::MAPPING_SCOPED,
            memory_type: MemoryType::HOST_LOCAL,
            ..BufferParams::default()
        };
        let whole = Buffer::new(params, 16, PlainBuffer::allocate(16).unwrap());
        let part = whole.subspan(4, 8).unwrap();
        let inner = part.subspan(2, WHOLE_BUFFER).unwrap();
        assert_eq!((part.size(), part.allocation_offset(), part.allocation_size()), (8, 4, 16));
        assert_eq!((inner.size(), inner.allocation_offset()), (6, 6));
        inner.write(1, &[9]).unwrap();
        let mut byte = [0];
        whole.read(7, &mut byte).unwrap();
        assert_eq!(byte, [9]);
        part.map(MemoryAccess::READ, 3, 1).unwrap().with_bytes(|bytes| assert_eq!(bytes, [9])).unwrap();
        assert!(part.read(8, &mut byte).is_err());
        assert!(part.subspan(4, 5).is_err());
        assert!(part.subspan(9, WHOLE_BUFFER).is_err());
        assert!(part.subspan(u64::MAX, 2).is_err());
        assert!(part.shares_allocation(&whole) && !part.is_same(&whole));
        assert!(part.whole_allocation().is_same(&whole));
        assert!(whole.subspan(4, 8).unwrap().is_same(&part));
    }

    #[test]
    fn owners_are_counted_per_allocation() {
        let whole = Buffer::new(BufferParams::default(), 4, PlainBuffer::allocate(4).unwrap());
        let part = whole.subspan(0, 2).unwrap();
        assert!(whole.has_one_owner());
        part.preserve();
        assert!(!whole.has_one_owner());
        assert!(!whole.discard());
        assert!(part.discard());
    }
}
