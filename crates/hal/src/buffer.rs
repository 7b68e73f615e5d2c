use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rehal_base::{Error, Range, Result};

use crate::HostMemory;
use crate::flags::*;

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

/// What a driver does for a buffer.
pub trait BufferBackend: Send + Sync {
    /// The memory, where the host can reach it. Fails where the buffer has none (any more).
    fn host_memory(&self) -> Result<&Arc<HostMemory>>;

    /// Marks the memory as given back to the queue; later use is an error.
    fn deallocate(&self) -> Result<()>;

    /// The backend itself, for the driver that made it.
    fn as_any(&self) -> &dyn Any;
}

/// Memory of a device: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Buffer(Arc<Shared<dyn BufferBackend>>);

struct Shared<B: ?Sized> {
    params: BufferParams,
    size: u64,
    backend: B,
}

impl Buffer {
    /// A buffer of `size` bytes with what it has in `params`, for drivers.
    pub fn new(params: BufferParams, size: u64, backend: impl BufferBackend + 'static) -> Self {
        Self(Arc::new(Shared { params, size, backend }))
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// What it has: usage, access and memory type as granted.
    pub fn params(&self) -> &BufferParams {
        &self.0.params
    }

    /// The backend.
    pub fn backend(&self) -> &dyn BufferBackend {
        &self.0.backend
    }

    /// Whether both handles are of one buffer.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// `offset` and `length` (which may be [`WHOLE_BUFFER`]) as a range of this buffer.
    pub fn resolve(&self, offset: u64, length: u64) -> Result<Range> {
        let wanted = if length == WHOLE_BUFFER { self.0.size.checked_sub(offset) } else { Some(length) };
        match wanted.and_then(|length| Range::new(offset, length)) {
            Some(range) if range.fits(self.0.size) => Ok(range),
            _ if length == WHOLE_BUFFER => {
                Err(Error::out_of_range(format!("offset {offset} exceeds a buffer of {} bytes", self.0.size)))
            }
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a buffer of {} bytes",
                self.0.size
            ))),
        }
    }

    /// Fails unless the buffer may be used for all of `usage`.
    pub fn require_usage(&self, usage: BufferUsage) -> Result<()> {
        if self.0.params.usage.contains(usage) {
            return Ok(());
        }
        Err(Error::new(
            rehal_base::StatusCode::PermissionDenied,
            format!(
                "the buffer does not allow {:?}; it allows {:?}",
                usage.difference(self.0.params.usage),
                self.0.params.usage
            ),
        ))
    }

    /// Maps a range for the host. Fails when the host cannot reach the memory, the buffer does not
    /// allow the access, or the range exceeds it.
    pub fn map(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping<'_>> {
        let params = &self.0.params;
        if !params.memory_type.contains(MemoryType::HOST_VISIBLE) {
            return Err(Error::failed_precondition(format!(
                "the host cannot map memory of type {:?}",
                params.memory_type
            )));
        }
        if !params.usage.intersects(BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT) {
            self.require_usage(BufferUsage::MAPPING_SCOPED)?;
        }
        let wanted = access & (MemoryAccess::READ | MemoryAccess::WRITE);
        if !params.access.intersects(MemoryAccess::ANY) && !params.access.contains(wanted) {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!("the buffer does not allow {access:?}; it allows {:?}", params.access),
            ));
        }
        let range = self.resolve(offset, length)?;
        Ok(Mapping { memory: self.0.backend.host_memory()?, range, access })
    }

    /// Copies bytes out through a mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.map(MemoryAccess::READ, offset, target.len() as u64)?.read(0, target)
    }

    /// Copies bytes in through a mapping.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.map(MemoryAccess::WRITE, offset, source.len() as u64)?.write(0, source)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.0.size)
    }
}

/// A range of a buffer that the host can reach.
pub struct Mapping<'a> {
    memory: &'a HostMemory,
    range: Range,
    access: MemoryAccess,
}

impl Mapping<'_> {
    /// Number of bytes mapped.
    pub fn length(&self) -> u64 {
        self.range.length
    }

    /// Copies bytes out, from `offset` of the mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.require(MemoryAccess::READ, offset, target.len() as u64)?;
        self.memory.read(self.range.offset + offset, target)
    }

    /// Copies bytes in, at `offset` of the mapping.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.require(MemoryAccess::WRITE, offset, source.len() as u64)?;
        self.memory.write(self.range.offset + offset, source)
    }

    /// Shows all bytes to `look`, without a copy; the caller has waited for their writers.
    pub fn with_bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.require(MemoryAccess::READ, 0, self.range.length)?;
        self.memory.with_bytes(self.range.offset, self.range.length, look)
    }

    fn require(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<()> {
        if !self.access.contains(access) {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!("mapped for {:?}, used for {access:?}", self.access),
            ));
        }
        match Range::new(offset, length) {
            Some(range) if range.fits(self.range.length) => Ok(()),
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a mapping of {} bytes",
                self.range.length
            ))),
        }
    }
}

/// A buffer that is nothing but host memory: what CPU drivers use.
pub struct PlainBuffer {
    memory: Arc<HostMemory>,
    deallocated: AtomicBool,
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
        Self { memory: Arc::new(memory), deallocated: AtomicBool::new(false) }
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
