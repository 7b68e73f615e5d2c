use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rehal_base::{Error, Range, Result};

use crate::flags::*;
use crate::statistics::{Counted, MemoryCounters};
use crate::{Device, HostMemory};

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
///
/// What the host and the device write is seen by the other side at these points and, where memory is not
/// `HOST_COHERENT`, only there:
/// - A mapping shows what the device wrote before [`BufferBackend::map`], unless its access has `DISCARD`: then its bytes
///   are any until the host writes them.
/// - [`BufferBackend::invalidate`] shows what the device wrote since then.
/// - [`BufferBackend::flush`] lets the device see what the host wrote.
/// - [`BufferBackend::unmap`] flushes a mapping for writing, all of it. So a range that is mapped, accessed and unmapped
///   while the device leaves it alone needs no other call, and a range that is mapped for writing is not to be written by the
///   device or through another mapping meanwhile, but where it is invalidated after.
pub trait BufferBackend: Send + Sync {
    /// Maps a range for the host: memory whose byte 0 is the first mapped byte. The handle has checked the range and
    /// the access. The memory stays valid until it is dropped, whatever becomes of the buffer: what ends it belongs
    /// into the keeper of [`HostMemory::foreign`], not into [`BufferBackend::unmap`].
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory>;

    /// Ends the use of what [`BufferBackend::map`] gave, which it is called with once. Fails where what the host wrote
    /// does not reach the device.
    fn unmap(&self, mapped: &MappedRange, memory: &HostMemory) -> Result<()>;

    /// Makes what the host wrote to `range` of a mapping visible to the device. The range counts from the first mapped
    /// byte.
    fn flush(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()>;

    /// Makes what the device wrote to `range` of a mapping visible to the host. The range counts from the first mapped
    /// byte.
    fn invalidate(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()>;

    /// Whether queues own the memory, so that a dealloca gives it back. Where they do not, as on a CPU that runs
    /// work at once, programs order a dealloca as they order anything, and the memory lives as long as its handles.
    fn is_queue_ordered(&self) -> bool;

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
    /// The device that made it, for transfers. With the handle and not with the allocation, so that what a device keeps
    /// itself does not keep the device.
    device: Option<Device>,
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
        Self { allocation, offset: 0, size, device: None }
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
        Ok(Self { offset: range.offset, size: range.length, ..self.clone() })
    }

    /// All of the allocation that it is a part of.
    pub fn whole_allocation(&self) -> Self {
        Self { offset: 0, size: self.allocation.size, ..self.clone() }
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

    /// The device that made it; nothing where no device did.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// Says which device made it, where that is not known yet.
    pub(crate) fn made_by(mut self, device: &Device) -> Self {
        self.device.get_or_insert_with(|| device.clone());
        self
    }

    /// Another handle, which does not keep the device alive.
    pub(crate) fn without_device(&self) -> Self {
        let Self { ref allocation, offset, size, device: _ } = *self;
        Self { allocation: allocation.clone(), offset, size, device: None }
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
    pub fn map(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        self.map_as(MappingMode::SCOPED, access, offset, length)
    }

    /// [`Buffer::map`] for a range that stays mapped while the device uses the buffer. A recorder refuses
    /// one that may be written: it cannot see when.
    pub fn map_persistent(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        self.require_usage(BufferUsage::MAPPING_PERSISTENT)?;
        self.map_as(MappingMode::PERSISTENT, access, offset, length)
    }

    fn map_as(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
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
        let memory = self.allocation.backend.map(&mapped)?;
        // From here on, dropping it unmaps it.
        let mapping = Mapping { memory, mapped, buffer: self.clone(), is_mapped: true };
        if mapping.memory.length() != range.length {
            return Err(Error::new(
                rehal_base::StatusCode::Internal,
                format!("the driver mapped {} bytes instead of {}", mapping.memory.length(), range.length),
            ));
        }
        Ok(mapping)
    }

    /// Whether [`Buffer::map`] may map it at all: the host can see the memory, and it was asked for that.
    pub fn is_mappable(&self) -> bool {
        let params = &self.allocation.params;
        params.memory_type.contains(MemoryType::HOST_VISIBLE)
            && params.usage.intersects(BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT)
    }

    /// Copies bytes out through a mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.map(MemoryAccess::READ, offset, target.len() as u64)?.read(0, target)
    }

    /// Copies bytes in through a mapping, which discards what was there if the buffer allows that.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & self.params().access);
        let mapping = self.map(access, offset, source.len() as u64)?;
        mapping.write(0, source)?;
        mapping.unmap()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.size)
    }
}

/// A range of a buffer that the host can reach, until it is dropped. It keeps the buffer.
///
/// Offsets count from the first mapped byte. When the device sees what is written, and the host what the device wrote,
/// is the contract of [`BufferBackend`].
pub struct Mapping {
    memory: HostMemory,
    mapped: MappedRange,
    buffer: Buffer,
    is_mapped: bool,
}

impl Mapping {
    /// Number of bytes mapped.
    pub fn length(&self) -> u64 {
        self.mapped.range.length
    }

    /// The bytes, to be read. Fails where they are not mapped for that.
    pub fn source(&self) -> Result<&HostMemory> {
        self.require(MemoryAccess::READ)?;
        Ok(&self.memory)
    }

    /// The bytes, to be written. Fails where they are not mapped for that.
    pub fn target(&self) -> Result<&HostMemory> {
        self.require(MemoryAccess::WRITE)?;
        Ok(&self.memory)
    }

    /// Copies bytes out, from `offset` of the mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.part(MemoryAccess::READ, offset, target.len() as u64)?;
        self.memory.read(offset, target)
    }

    /// Copies bytes in, at `offset` of the mapping.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.part(MemoryAccess::WRITE, offset, source.len() as u64)?;
        self.memory.write(offset, source)
    }

    /// Makes what was written to a part of the mapping visible to the device while it stays mapped.
    pub fn flush(&self, offset: u64, length: u64) -> Result<()> {
        let range = self.part(MemoryAccess::WRITE, offset, length)?;
        self.backend().flush(&self.mapped, &self.memory, range)
    }

    /// Makes what the device wrote since the range was mapped visible in a part of the mapping.
    pub fn invalidate(&self, offset: u64, length: u64) -> Result<()> {
        let range = self.part(MemoryAccess::READ, offset, length)?;
        self.backend().invalidate(&self.mapped, &self.memory, range)
    }

    /// Ends the mapping, as dropping does, and says whether what was written reaches the device.
    pub fn unmap(mut self) -> Result<()> {
        self.is_mapped = false;
        self.backend().unmap(&self.mapped, &self.memory)
    }

    fn backend(&self) -> &dyn BufferBackend {
        self.buffer.backend()
    }

    fn require(&self, access: MemoryAccess) -> Result<()> {
        if self.mapped.access.contains(access) {
            return Ok(());
        }
        Err(Error::new(
            rehal_base::StatusCode::PermissionDenied,
            format!("mapped for {:?}, used for {access:?}", self.mapped.access),
        ))
    }

    /// A range of the mapping.
    fn part(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Range> {
        self.require(access)?;
        match Range::new(offset, length) {
            Some(range) if range.fits(self.length()) => Ok(range),
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a mapping of {} bytes",
                self.length()
            ))),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_mapped {
            // Who wants to hear of a failure calls `unmap`.
            let _ = self.backend().unmap(&self.mapped, &self.memory);
        }
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

impl PlainBuffer {
    /// The memory of a buffer that a CPU driver made this way, for that driver. Fails for buffers of other drivers (a
    /// recorder's among them) and after a dealloca. Nothing but a CPU driver asks: others map, or go by
    /// [`transfer`](crate::transfer).
    pub fn memory_of(buffer: &Buffer) -> Result<&Arc<HostMemory>> {
        match buffer.backend().as_any().downcast_ref::<Self>() {
            Some(plain) => plain.memory(),
            None => Err(Error::invalid_argument("the buffer belongs to a device of another driver")),
        }
    }

    /// The memory. Fails after a dealloca.
    pub fn memory(&self) -> Result<&Arc<HostMemory>> {
        if self.deallocated.load(Ordering::Acquire) {
            return Err(Error::failed_precondition("the buffer is used after its dealloca"));
        }
        Ok(&self.memory)
    }
}

impl BufferBackend for PlainBuffer {
    // Host and device are one processor: there is nothing to flush or to invalidate.
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        HostMemory::part(self.memory()?, mapped.range)
    }

    fn unmap(&self, _mapped: &MappedRange, _memory: &HostMemory) -> Result<()> {
        Ok(())
    }

    fn flush(&self, _mapped: &MappedRange, _memory: &HostMemory, _range: Range) -> Result<()> {
        Ok(())
    }

    fn invalidate(&self, _mapped: &MappedRange, _memory: &HostMemory, _range: Range) -> Result<()> {
        Ok(())
    }

    fn is_queue_ordered(&self) -> bool {
        false
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
        assert_eq!(part.map(MemoryAccess::READ, 3, 1).unwrap().source().unwrap().load(0).unwrap(), [9]);
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
