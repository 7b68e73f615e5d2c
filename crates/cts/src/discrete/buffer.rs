use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rehal_base::{Error, HostMemory, Range, Result};
use rehal_hal::{Buffer, BufferBackend, BufferParams, BufferUsage, MappedRange, MemoryAccess, MemoryType};

/// The contents of a range mapped with `DISCARD`, until the host writes it.
pub const JUNK: u8 = 0xdd;

/// A buffer with a separate copy for the host if it is mappable.
pub(super) struct DiscreteBuffer {
    /// The device's memory.
    pub base: Buffer,
    /// The host's copy, if the memory can be mapped.
    shadow: Option<Arc<HostMemory>>,
}

impl DiscreteBuffer {
    /// The parameters for the underlying device: memory that this device can copy to and from.
    pub fn base_params(params: BufferParams) -> BufferParams {
        BufferParams {
            usage: params.usage | BufferUsage::MAPPING_SCOPED,
            access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD,
            memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            ..params
        }
    }

    /// The handle of a new buffer with the granted parameters. Its memory is not zeros, and differs from that
    /// of the one before.
    pub fn wrap(base: Buffer, granted: BufferParams) -> Result<Buffer> {
        static COUNT: AtomicU8 = AtomicU8::new(0);
        let size = base.size();
        base.shared_memory()?.fill(0, size, &[COUNT.fetch_add(1, Ordering::Relaxed) | 1])?;
        let is_visible = granted.memory_type.contains(MemoryType::HOST_VISIBLE);
        let shadow = match is_visible {
            true => Some(Arc::new(HostMemory::allocate_aligned(size, granted.min_alignment)?)),
            false => None,
        };
        Ok(Buffer::new(granted, size, Self { base, shadow }))
    }

    /// The underlying buffer of a handle of this kind of device.
    pub fn base_of(buffer: &Buffer) -> Result<&Buffer> {
        match (buffer.backend() as &dyn Any).downcast_ref::<Self>() {
            Some(discrete) => Ok(&discrete.base),
            None => Err(Error::invalid_argument("the buffer belongs to another driver")),
        }
    }

    /// A range of a mapping as a range of the buffer.
    fn place(mapped: &MappedRange, range: Range) -> u64 {
        mapped.range.offset + range.offset
    }
}

impl BufferBackend for DiscreteBuffer {
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        let Some(shadow) = &self.shadow else {
            return Err(Error::failed_precondition("the memory is not host-visible"));
        };
        let Range { offset, length } = mapped.range;
        let device = self.base.map(MemoryAccess::READ, offset, length)?;
        match mapped.access.contains(MemoryAccess::DISCARD) {
            true => shadow.fill(offset, length, &[JUNK])?,
            false => shadow.copy_from(offset, device.source()?, 0, length)?,
        }
        HostMemory::part(shadow, mapped.range)
    }

    fn unmap(&self, mapped: &MappedRange, memory: &HostMemory) -> Result<()> {
        match mapped.access.contains(MemoryAccess::WRITE) {
            true => self.flush(mapped, memory, memory.whole()),
            false => Ok(()),
        }
    }

    fn flush(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()> {
        let device = self.base.map(MemoryAccess::WRITE, Self::place(mapped, range), range.length)?;
        device.target()?.copy_from(0, memory, range.offset, range.length)
    }

    fn invalidate(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()> {
        let device = self.base.map(MemoryAccess::READ, Self::place(mapped, range), range.length)?;
        memory.copy_from(range.offset, device.source()?, 0, range.length)
    }

    fn is_queue_ordered(&self) -> bool {
        self.base.is_queue_ordered()
    }

    fn deallocate(&self) -> Result<()> {
        self.base.backend().deallocate()
    }
}
