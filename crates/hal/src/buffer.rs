use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rehal_base::{Error, Range, Result, StatusCode};

use crate::flags::*;
use crate::profile::{LazyId, ProfiledAllocation};
use crate::statistics::{CountedMemory, MemoryCounters};
use crate::{BufferParams, BufferRef, Device, HostMemory};

/// Usage by the device, as opposed to the host.
const DEVICE_USAGE: BufferUsage = BufferUsage::TRANSFER_SOURCE
    .union(BufferUsage::TRANSFER_TARGET)
    .union(BufferUsage::DISPATCH_INDIRECT_PARAMETERS)
    .union(BufferUsage::DISPATCH_UNIFORM_READ)
    .union(BufferUsage::DISPATCH_STORAGE_READ)
    .union(BufferUsage::DISPATCH_STORAGE_WRITE)
    .union(BufferUsage::DISPATCH_IMAGE_READ)
    .union(BufferUsage::DISPATCH_IMAGE_WRITE);

/// A range mapped by the host, with the mode and access of the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// The bytes, in the buffer's allocation.
    pub range: Range,
    /// The lifetime of the mapping.
    pub mode: MappingMode,
    /// The host's access to the bytes.
    pub access: MemoryAccess,
}

/// A driver's implementation of a buffer.
///
/// Writes of the host and the device become visible to the other side at these points and, unless memory is
/// `HOST_COHERENT`, only there:
/// - [`BufferBackend::map`] makes earlier writes of the device visible, unless the access has `DISCARD`: then
///   the contents are undefined until the host writes them.
/// - [`BufferBackend::invalidate`] makes later writes of the device visible.
/// - [`BufferBackend::flush`] makes writes of the host visible to the device.
/// - [`BufferBackend::unmap`] flushes the whole range of a mapping for writing. So a range that is mapped,
///   accessed and unmapped while the device does not use it needs no other call, and a range that is mapped
///   for writing must not be written by the device or through another mapping in the meantime, unless it is
///   invalidated afterwards.
pub trait BufferBackend: Any + Send + Sync {
    /// Maps a range for the host: memory whose byte 0 is the first mapped byte. The handle has checked the
    /// range and the access. The memory must stay valid until it is dropped, even if the buffer is dropped
    /// first: release it in the keeper of [`HostMemory::foreign`], not in [`BufferBackend::unmap`].
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory>;

    /// Ends a mapping returned by [`BufferBackend::map`]; called once per mapping. Fails if the host's writes
    /// do not reach the device.
    fn unmap(&self, mapped: &MappedRange, memory: &HostMemory) -> Result<()>;

    /// Makes the host's writes to `range` of a mapping visible to the device. The range is relative to the
    /// mapping.
    fn flush(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()>;

    /// Makes the device's writes to `range` of a mapping visible to the host. The range is relative to the
    /// mapping.
    fn invalidate(&self, mapped: &MappedRange, memory: &HostMemory, range: Range) -> Result<()>;

    /// Whether queues own the memory, so that a dealloca frees it. Otherwise, as on a synchronous CPU device,
    /// a dealloca only participates in ordering, and the memory lives as long as its handles.
    fn is_queue_ordered(&self) -> bool;

    /// Marks the memory as deallocated; later use is an error.
    fn deallocate(&self) -> Result<()>;
}

/// A shared handle to device memory or a subspan of it; cheap to clone.
#[derive(Clone)]
pub struct Buffer {
    allocation: Arc<Shared<dyn BufferBackend>>,
    /// First byte of the subspan in the allocation.
    offset: u64,
    size: u64,
    /// The device that created it, for transfers. Part of the handle, not of the allocation: a device that
    /// stores handles itself would otherwise never be dropped.
    device: Option<Device>,
}

struct Shared<B: ?Sized> {
    id: LazyId,
    params: BufferParams,
    size: u64,
    /// Owners counted by [`Buffer::preserve`] and [`Buffer::discard`].
    owners: AtomicU32,
    /// Its memory, once a device that did not create it has used it.
    memory: OnceLock<Arc<HostMemory>>,
    /// Imports of the memory by such devices, by their key.
    imports: Mutex<Vec<(usize, Import)>>,
    backend: B,
}

type Import = Arc<dyn Any + Send + Sync>;

impl Buffer {
    /// A buffer of `size` bytes with the granted `params`, for drivers.
    #[inline]
    #[doc(hidden)]
    pub fn new(params: BufferParams, size: u64, backend: impl BufferBackend + 'static) -> Self {
        Self::identified(LazyId::default(), params, size, backend)
    }

    /// As [`Buffer::new`], with an id of [`Buffer::next_id`], or of the buffer that the backend decorates.
    #[inline]
    #[doc(hidden)]
    pub fn with_id(id: u64, params: BufferParams, size: u64, backend: impl BufferBackend + 'static) -> Self {
        Self::identified(LazyId::from_id(id), params, size, backend)
    }

    #[inline]
    fn identified(
        id: LazyId,
        params: BufferParams,
        size: u64,
        backend: impl BufferBackend + 'static,
    ) -> Self {
        let (owners, memory, imports) = (AtomicU32::new(1), OnceLock::new(), Mutex::default());
        let allocation = Arc::new(Shared { id, params, size, owners, memory, imports, backend });
        Self { allocation, offset: 0, size, device: None }
    }

    /// The id of a buffer that is about to be created.
    #[inline]
    pub fn next_id() -> u64 {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        LAST_ID.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The id of its allocation in profiles: unique in the process, and never 0.
    pub fn id(&self) -> u64 {
        self.allocation.id.get(Self::next_id)
    }

    /// Size in bytes; for a subspan, its own.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Offset in its allocation: 0 unless it is a subspan.
    pub fn allocation_offset(&self) -> u64 {
        self.offset
    }

    /// Size in bytes of the underlying allocation.
    pub fn allocation_size(&self) -> u64 {
        self.allocation.size
    }

    /// A subspan of this buffer, sharing its memory. `length` may be [`WHOLE_BUFFER`].
    pub fn subspan(&self, offset: u64, length: u64) -> Result<Self> {
        let range = self.resolve(offset, length)?;
        Ok(Self { offset: range.offset, size: range.length, ..self.clone() })
    }

    /// The whole underlying allocation.
    pub fn whole_allocation(&self) -> Self {
        Self { offset: 0, size: self.allocation.size, ..self.clone() }
    }

    /// See [`BufferBackend::is_queue_ordered`].
    pub fn is_queue_ordered(&self) -> bool {
        self.allocation.backend.is_queue_ordered()
    }

    /// Adds an owner of the allocation; a new one has one owner.
    pub fn preserve(&self) {
        self.allocation.owners.fetch_add(1, Ordering::Acquire);
    }

    /// Removes an owner of the allocation; returns whether it was the last, so that the caller may
    /// deallocate.
    pub fn discard(&self) -> bool {
        self.allocation.owners.fetch_sub(1, Ordering::Release) == 1
    }

    /// Whether the allocation has exactly one owner.
    pub fn has_one_owner(&self) -> bool {
        self.allocation.owners.load(Ordering::Acquire) == 1
    }

    /// The granted usage, access and memory type.
    pub fn params(&self) -> &BufferParams {
        &self.allocation.params
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn BufferBackend {
        &self.allocation.backend
    }

    /// The memory of the whole allocation, for work of a device that did not create it. Fails unless the host
    /// can map it and needs no flushes, and while the buffer is not allocated.
    #[inline]
    pub fn shared_memory(&self) -> Result<&Arc<HostMemory>> {
        match (self.backend() as &dyn Any).downcast_ref::<PlainBuffer>() {
            Some(plain) => plain.memory(),
            None => self.mapped_memory(),
        }
    }

    #[cold]
    fn mapped_memory(&self) -> Result<&Arc<HostMemory>> {
        let memory_type = self.allocation.params.memory_type;
        if !memory_type.contains(MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT) {
            return Err(Error::invalid_argument(format!(
                "the buffer belongs to another device, and memory of type {memory_type:?} is not shared between devices"
            )));
        }
        let range = Range { offset: 0, length: self.allocation.size };
        let access = MemoryAccess::READ | MemoryAccess::WRITE;
        // Each time, since it fails after a dealloca.
        let mapped = MappedRange { range, mode: MappingMode::PERSISTENT, access };
        let memory = self.backend().map(&mapped).map_err(|error| match error.code() {
            // A recorder would not see what is written.
            StatusCode::Unimplemented => Error::invalid_argument(format!(
                "the buffer belongs to another device, which does not share its memory: {}",
                error.message()
            )),
            _ => error,
        })?;
        Ok(self.allocation.memory.get_or_init(|| Arc::new(memory)))
    }

    /// The import of the buffer's memory that a device that did not create it makes with `import`, which is
    /// called once. It lives as long as the allocation. `key` identifies the device for as long as the import
    /// lives.
    pub fn imported<T: Any + Send + Sync>(
        &self,
        key: usize,
        import: impl FnOnce(HostMemory) -> Result<T>,
    ) -> Result<Arc<T>> {
        let memory = self.shared_memory()?;
        let mut imports = self.allocation.imports.lock();
        let found = imports.iter().find(|(owner, _)| *owner == key);
        if let Some(found) = found.and_then(|(_, import)| import.clone().downcast().ok()) {
            return Ok(found);
        }
        let imported = Arc::new(import(HostMemory::part(memory, memory.whole())?)?);
        imports.push((key, imported.clone()));
        Ok(imported)
    }

    /// The device that created it, if any.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// Sets the device that created it, unless already set.
    #[inline]
    pub(crate) fn made_by(mut self, device: &Device) -> Self {
        self.device.get_or_insert_with(|| device.clone());
        self
    }

    /// Another handle, which does not keep the device alive.
    pub(crate) fn without_device(&self) -> Self {
        let Self { ref allocation, offset, size, device: _ } = *self;
        Self { allocation: allocation.clone(), offset, size, device: None }
    }

    /// Whether both handles refer to the same buffer, or the same subspan.
    pub fn is_same(&self, other: &Self) -> bool {
        self.shares_allocation(other) && self.offset == other.offset && self.size == other.size
    }

    /// Whether both share an allocation.
    pub fn shares_allocation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.allocation, &other.allocation)
    }

    /// `offset` and `length` (which may be [`WHOLE_BUFFER`]) as a range of the allocation, as backends
    /// address it. Fails if the range exceeds this buffer.
    #[inline]
    pub fn resolve(&self, offset: u64, length: u64) -> Result<Range> {
        match self.size.checked_sub(offset) {
            // A subspan is in bounds of its allocation, so the sum cannot overflow.
            Some(left) if length <= left => Ok(Range { offset: self.offset + offset, length }),
            Some(left) if length == WHOLE_BUFFER => Ok(Range { offset: self.offset + offset, length: left }),
            _ => Err(self.out_of_range(offset, length)),
        }
    }

    #[cold]
    fn out_of_range(&self, offset: u64, length: u64) -> Error {
        let size = self.size;
        Error::out_of_range(match length {
            WHOLE_BUFFER => format!("offset {offset} is out of bounds of a buffer of {size} bytes"),
            _ => format!("{length} bytes at offset {offset} exceed a buffer of {size} bytes"),
        })
    }

    /// Fails unless the buffer allows all of `usage` and its memory allows the access that the transfers in
    /// `usage` need. Usage by the device also requires device-visible memory. (Only the kernel knows whether
    /// a dispatch writes.)
    #[inline]
    pub fn require_usage(&self, usage: BufferUsage) -> Result<()> {
        let params = &self.allocation.params;
        let is_visible =
            !usage.intersects(DEVICE_USAGE) || params.memory_type.contains(MemoryType::DEVICE_VISIBLE);
        if !params.usage.contains(usage) || !is_visible {
            return Err(self.usage_error(usage));
        }
        let mut access = MemoryAccess::empty();
        access.set(MemoryAccess::READ, usage.contains(BufferUsage::TRANSFER_SOURCE));
        access.set(MemoryAccess::WRITE, usage.contains(BufferUsage::TRANSFER_TARGET));
        self.require_access(access)
    }

    #[cold]
    fn usage_error(&self, usage: BufferUsage) -> Error {
        let BufferParams { usage: allowed, memory_type, .. } = self.allocation.params;
        let message = match usage.difference(allowed) {
            missing if missing.is_empty() => format!("the device cannot see memory of type {memory_type:?}"),
            missing => format!("buffer usage does not allow {missing:?} (allowed: {allowed:?})"),
        };
        Error::new(StatusCode::PermissionDenied, message)
    }

    #[inline]
    fn require_access(&self, access: MemoryAccess) -> Result<()> {
        let allowed = self.allocation.params.access;
        match (allowed | access).intersects(MemoryAccess::ANY) || allowed.contains(access) {
            true => Ok(()),
            false => Err(self.access_error(access)),
        }
    }

    #[cold]
    fn access_error(&self, access: MemoryAccess) -> Error {
        let allowed = self.allocation.params.access;
        Error::new(
            StatusCode::PermissionDenied,
            format!("buffer access does not allow {access:?} (allowed: {allowed:?})"),
        )
    }

    /// Maps a range for the host until the mapping is dropped. Fails if the memory is not host-visible, the
    /// buffer does not allow the access, or the range is out of bounds.
    pub fn map(&self, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        self.map_as(MappingMode::SCOPED, access, offset, length)
    }

    /// Like [`Buffer::map`], for a range that stays mapped while the device uses the buffer. A recorder
    /// rejects writable ones: it cannot observe the writes.
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
                StatusCode::Internal,
                format!("the driver mapped {} bytes instead of {}", mapping.memory.length(), range.length),
            ));
        }
        Ok(mapping)
    }

    /// Whether [`Buffer::map`] can succeed: the memory is host-visible and was requested with mapping usage.
    pub fn is_mappable(&self) -> bool {
        let params = &self.allocation.params;
        params.memory_type.contains(MemoryType::HOST_VISIBLE)
            && params.usage.intersects(BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT)
    }

    /// Reads bytes through a mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.map(MemoryAccess::READ, offset, target.len() as u64)?.read(0, target)
    }

    /// Writes bytes through a mapping, discarding the previous contents if the buffer allows that.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & self.params().access);
        let mapping = self.map(access, offset, source.len() as u64)?;
        mapping.write(0, source)?;
        mapping.unmap()
    }
}

impl<'a> From<&'a Buffer> for BufferRef<&'a Buffer> {
    fn from(buffer: &'a Buffer) -> Self {
        Self::whole(buffer)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.size)
    }
}

/// A host-mapped range of a buffer, unmapped on drop. Keeps the buffer alive.
///
/// Offsets are relative to the mapping. The visibility of writes is specified by [`BufferBackend`].
pub struct Mapping {
    memory: HostMemory,
    mapped: MappedRange,
    buffer: Buffer,
    is_mapped: bool,
}

impl Mapping {
    /// Size of the mapping in bytes.
    pub fn length(&self) -> u64 {
        self.mapped.range.length
    }

    /// The bytes for reading. Fails if the mapping does not allow reads.
    pub fn source(&self) -> Result<&HostMemory> {
        self.require(MemoryAccess::READ)?;
        Ok(&self.memory)
    }

    /// The bytes for writing. Fails if the mapping does not allow writes.
    pub fn target(&self) -> Result<&HostMemory> {
        self.require(MemoryAccess::WRITE)?;
        Ok(&self.memory)
    }

    /// Reads bytes at `offset` of the mapping.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        self.part(MemoryAccess::READ, offset, target.len() as u64)?;
        self.memory.read(offset, target)
    }

    /// Writes bytes at `offset` of the mapping.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.part(MemoryAccess::WRITE, offset, source.len() as u64)?;
        self.memory.write(offset, source)
    }

    /// Makes writes to a range of the mapping visible to the device while it stays mapped.
    pub fn flush(&self, offset: u64, length: u64) -> Result<()> {
        let range = self.part(MemoryAccess::WRITE, offset, length)?;
        self.backend().flush(&self.mapped, &self.memory, range)
    }

    /// Makes the device's writes since the range was mapped visible in a range of the mapping.
    pub fn invalidate(&self, offset: u64, length: u64) -> Result<()> {
        let range = self.part(MemoryAccess::READ, offset, length)?;
        self.backend().invalidate(&self.mapped, &self.memory, range)
    }

    /// Unmaps like drop, and returns the error if the writes do not reach the device.
    pub fn unmap(mut self) -> Result<()> {
        self.is_mapped = false;
        self.backend().unmap(&self.mapped, &self.memory)
    }

    /// Unmaps it, and returns its bytes: a copy, unless nothing else has them, as those of a buffer of
    /// another process.
    pub(crate) fn into_copy(mut self) -> Result<HostMemory> {
        let is_own = self.memory.exclusive_bytes().is_some();
        let copy = match is_own {
            true => HostMemory::allocate(0)?,
            false => self.source()?.to_copy(self.memory.whole())?,
        };
        self.is_mapped = false;
        self.backend().unmap(&self.mapped, &self.memory)?;
        Ok(if is_own { std::mem::replace(&mut self.memory, copy) } else { copy })
    }

    fn backend(&self) -> &dyn BufferBackend {
        self.buffer.backend()
    }

    fn require(&self, access: MemoryAccess) -> Result<()> {
        if self.mapped.access.contains(access) {
            return Ok(());
        }
        Err(Error::new(
            StatusCode::PermissionDenied,
            format!("mapped for {:?}, used for {access:?}", self.mapped.access),
        ))
    }

    /// A range relative to the mapping.
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
            // Callers that need the error call `unmap`.
            let _ = self.backend().unmap(&self.mapped, &self.memory);
        }
    }
}

/// A buffer over plain host memory, used by CPU drivers.
pub struct PlainBuffer {
    memory: Arc<HostMemory>,
    deallocated: AtomicBool,
    is_queue_ordered: bool,
    _counted: Option<CountedMemory>,
    /// Boxed, since few buffers are profiled.
    profiled: OnceLock<Box<ProfiledAllocation>>,
}

impl PlainBuffer {
    /// `size` zeroed bytes.
    pub fn allocate(size: u64) -> Result<Self> {
        HostMemory::allocate(size).map(Self::over)
    }

    /// `size` zeroed bytes, aligned as `params` require.
    #[inline]
    pub fn allocate_with(params: &BufferParams, size: u64) -> Result<Self> {
        HostMemory::allocate_for_file(size, params.min_alignment, params.file_offset).map(Self::over)
    }

    /// The same, [guarded](HostMemory::allocate_guarded).
    pub fn allocate_guarded(params: &BufferParams, size: u64) -> Result<Self> {
        HostMemory::allocate_guarded(size, params.min_alignment, params.file_offset).map(Self::over)
    }

    /// A buffer over existing memory.
    #[inline]
    pub fn over(memory: HostMemory) -> Self {
        Self {
            memory: Arc::new(memory),
            deallocated: AtomicBool::new(false),
            is_queue_ordered: false,
            _counted: None,
            profiled: OnceLock::new(),
        }
    }

    /// The same buffer, owned by queues: see [`BufferBackend::is_queue_ordered`].
    #[inline]
    pub fn queue_ordered(mut self) -> Self {
        self.is_queue_ordered = true;
        self
    }

    /// The same buffer, whose release is reported to a profile's session when it is dropped.
    pub fn profiled(mut self, allocation: Option<ProfiledAllocation>) -> Self {
        self.profiled = allocation.map(|it| OnceLock::from(Box::new(it))).unwrap_or_default();
        self
    }

    /// Reports the release of a queue's buffer to a profile's session: with its dealloca, or else when it is
    /// dropped. For the driver that just allocated it.
    pub fn set_profiled(buffer: &Buffer, allocation: ProfiledAllocation) {
        if let Some(plain) = (buffer.backend() as &dyn Any).downcast_ref::<Self>() {
            // A buffer is allocated once.
            let _ = plain.profiled.set(Box::new(allocation));
        }
    }

    /// The same buffer, counted as allocated memory of this type until it is dropped.
    #[inline]
    pub fn counted(mut self, counters: &Arc<MemoryCounters>, memory_type: MemoryType) -> Self {
        self._counted = Some(counters.count(memory_type, self.memory.length()));
        self
    }
}

impl PlainBuffer {
    /// The memory of a CPU driver's buffer, for that driver. Fails for buffers of other drivers (including a
    /// recorder's) and after a dealloca. For CPU drivers, and to track writes; others map, or use
    /// [`transfer`](crate::transfer).
    pub fn memory_of(buffer: &Buffer) -> Result<&Arc<HostMemory>> {
        match (buffer.backend() as &dyn Any).downcast_ref::<Self>() {
            Some(plain) => plain.memory(),
            None => Err(Error::invalid_argument("the buffer belongs to another driver")),
        }
    }

    /// The memory. Fails after a dealloca.
    #[inline]
    pub fn memory(&self) -> Result<&Arc<HostMemory>> {
        match self.deallocated.load(Ordering::Acquire) {
            true => Err(is_deallocated()),
            false => Ok(&self.memory),
        }
    }
}

#[cold]
fn is_deallocated() -> Error {
    Error::failed_precondition("the buffer is used after its dealloca")
}

impl BufferBackend for PlainBuffer {
    // Host and device share caches: flush and invalidate are no-ops.
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
        self.is_queue_ordered
    }

    // The bytes live until the last handle is dropped: freeing them here would invalidate mappings, and
    // programs drop their handle with the dealloca.
    fn deallocate(&self) -> Result<()> {
        if self.deallocated.swap(true, Ordering::AcqRel) {
            return Err(Error::failed_precondition("the buffer was already deallocated"));
        }
        if let Some(allocation) = self.profiled.get() {
            allocation.deallocate();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subspan_shares_memory_at_its_offset() {
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
