#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;
use parking_lot::Mutex;
use rehal_base::{Error, HostMemory, Range, Result, StatusCode};

use super::kinds::Kind;
use super::ranges::{Alignment, Ranges};
use crate::error::failure;
use crate::gpu::{Gpu, Pages};

/// Memory of the device with one Vulkan buffer over all of it. It is mapped for its lifetime where the host
/// can.
pub(crate) struct Block {
    gpu: Arc<Gpu>,
    /// Unique in the process and never reused, as handles are.
    id: u64,
    kind: Kind,
    length: u64,
    memory: vk::DeviceMemory,
    buffer: vk::Buffer,
    /// The host's address of the first byte, or null.
    mapped: *mut u8,
    /// The memory that the host sees in place of that, if its caches are emulated.
    cache: Option<Cache>,
    /// The device's address of the first byte, or 0.
    address: u64,
    free: Mutex<Ranges>,
    /// Memory of the program that the block is made of, and where it begins in the block.
    imported: Option<(Arc<HostMemory>, u64)>,
}

// SAFETY: the pointer is not dereferenced here; the memory that it points to is accessed only through
// `HostMemory`.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// The usage of every block, apart from device addresses.
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::UNIFORM_BUFFER.as_raw()
        | vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw(),
);

/// The memory that a block is made of.
enum Source {
    /// New memory of this type.
    New(Kind),
    /// Memory of the program, in these pages.
    Imported(HostMemory, Pages),
}

impl Block {
    /// Allocates `length` bytes.
    pub(crate) fn allocate(gpu: &Arc<Gpu>, kind: Kind, length: u64) -> Result<Self> {
        Parts::create(gpu, Source::New(kind), length)?.into_block()
    }

    /// A block over memory of the program, with the whole pages that it is in.
    pub(crate) fn import(gpu: &Arc<Gpu>, memory: HostMemory, pages: Pages) -> Result<Self> {
        Parts::create(gpu, Source::Imported(memory, pages), pages.length)?.into_block()
    }

    /// The memory types, as bits, that blocks can be of.
    pub(crate) fn types(gpu: &Arc<Gpu>) -> Result<u32> {
        // Vulkan promises the same for buffers of any length.
        let mut parts = Parts::none(gpu, 1);
        parts.create_buffer(false)?;
        Ok(parts.types())
    }

    /// Takes a range; `None` if the block has none.
    pub(crate) fn take(&self, length: u64, alignment: u64) -> Option<u64> {
        let base = if self.mapped.is_null() { self.address } else { self.mapped.addr() as u64 };
        let atom = if self.kind.needs_flushes() { self.atom().next_power_of_two() } else { 1 };
        let least = self.gpu.memory_alignment().max(atom);
        self.free.lock().take(length, aligned_to(alignment, least, base))
    }

    /// Returns a range.
    pub(crate) fn give(&self, range: Range) {
        self.free.lock().give(range.offset, range.length);
    }

    /// Whether nothing of it is allocated.
    pub(crate) fn is_free(&self) -> bool {
        self.free.lock().is_whole()
    }

    /// The Vulkan buffer over all of it.
    pub(crate) fn buffer(&self) -> vk::Buffer {
        self.buffer
    }

    /// Fails unless it is memory of this device.
    pub(crate) fn require(&self, gpu: &Gpu) -> Result<()> {
        if std::ptr::eq(Arc::as_ptr(&self.gpu), gpu) {
            return Ok(());
        }
        Err(Error::invalid_argument("the buffer belongs to another Vulkan device"))
    }

    /// Fails if it is memory of the program that must not be written: the program may have references to it.
    pub(crate) fn require_writable(&self) -> Result<()> {
        match &self.imported {
            Some((memory, _)) if !memory.is_writable() => Err(Error::new(
                StatusCode::PermissionDenied,
                "the device must not write to the buffer: it is made of constant memory",
            )),
            _ => Ok(()),
        }
    }

    /// Whether it is made of pages of the host.
    pub(crate) fn is_imported(&self) -> bool {
        self.imported.is_some()
    }

    /// Whether it is mapped memory of an emulated device that imports no mappings.
    fn is_refused_elsewhere(&self) -> bool {
        let is_mapped = !self.mapped.is_null() && !self.is_imported();
        is_mapped && self.gpu.physical().emulation.refuses_mappings
    }

    /// Its id: unique in the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Its memory type.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The device's address of the first byte, or 0 if the device has no addresses.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The host's address of a byte; `None` if the host does not map the block.
    pub(crate) fn host_address(&self, offset: u64) -> Option<u64> {
        (!self.mapped.is_null()).then(|| self.mapped.addr() as u64 + offset)
    }

    /// A range for the host, which keeps `keeper`, and thereby the block, alive. `None` if the host cannot
    /// map it.
    pub(crate) fn map(
        self: &Arc<Self>,
        range: Range,
        keeper: impl Send + Sync + 'static,
    ) -> Option<HostMemory> {
        if self.mapped.is_null() || !range.fits(self.length) {
            return None;
        }
        if let Some((memory, start)) = &self.imported {
            // The program's access to it stays what it is: constant memory is not written through the mapping
            // either.
            let offset = range.offset.checked_sub(*start)?;
            return HostMemory::part(memory, Range { offset, length: range.length }).ok();
        }
        // SAFETY: the range is in the block, which is mapped as a whole.
        let pointer = NonNull::new(unsafe { self.mapped.add(range.offset as usize) })?;
        let keeper = Box::new((self.clone(), keeper));
        // SAFETY: the keeper owns the block, which is mapped until it is dropped. The memory is the system's,
        // which has initialized it; devices write it. Nothing here has references to it.
        Some(unsafe { HostMemory::foreign(pointer, range.length as usize, true, keeper) })
    }

    /// Makes the host's writes to a range visible to the device.
    pub(crate) fn flush(&self, range: Range) -> Result<()> {
        if let Some(cache) = &self.cache {
            cache.flush(self.clipped(range))?;
        }
        match self.mapped_range(range) {
            // SAFETY: the memory is mapped, and the range is as Vulkan requires.
            Some(range) => unsafe { self.gpu.functions().flush_mapped_memory_ranges(&[range]) }
                .map_err(|error| failure("flushing mapped memory", error)),
            None => Ok(()),
        }
    }

    /// Makes the device's writes to a range visible to the host.
    pub(crate) fn invalidate(&self, range: Range) -> Result<()> {
        if let Some(cache) = &self.cache {
            cache.invalidate(self.clipped(range))?;
        }
        match self.mapped_range(range) {
            // SAFETY: the memory is mapped, and the range is as Vulkan requires.
            Some(range) => unsafe { self.gpu.functions().invalidate_mapped_memory_ranges(&[range]) }
                .map_err(|error| failure("invalidating mapped memory", error)),
            None => Ok(()),
        }
    }

    /// Makes the device's writes around a range visible to the host that is about to write all of it:
    /// flushing it writes whole atoms, and what is in them beside the range must be what the device has
    /// written.
    pub(crate) fn invalidate_edges(&self, range: Range) -> Result<()> {
        edges(range, self.atom()).into_iter().flatten().try_for_each(|edge| self.invalidate(edge))
    }

    /// The atoms that a range touches, as far as they are in the block.
    fn clipped(&self, range: Range) -> Range {
        let atoms = whole_atoms(range, self.atom());
        Range { length: atoms.end().min(self.length) - atoms.offset, ..atoms }
    }

    /// Bytes that the device flushes at once.
    fn atom(&self) -> u64 {
        self.gpu.limits().non_coherent_atom_size.max(1)
    }

    /// A range that has to be flushed or invalidated, in whole atoms. Allocations are aligned to them, so
    /// none of another is touched.
    fn mapped_range(&self, range: Range) -> Option<vk::MappedMemoryRange<'static>> {
        if !self.kind.needs_flushes() || range.length == 0 {
            return None;
        }
        let range = whole_atoms(range, self.atom());
        let size = if range.end() >= self.length { vk::WHOLE_SIZE } else { range.length };
        Some(vk::MappedMemoryRange::default().memory(self.memory).offset(range.offset).size(size))
    }
}

/// Offsets in a block at the address `base` are aligned to `least`, as the device needs; addresses to
/// `alignment`, as the program asks, too, if that address allows both. Both are powers of two.
fn aligned_to(alignment: u64, least: u64, base: u64) -> Alignment {
    let phase = base & (alignment - 1);
    let phase = if phase.is_multiple_of(least) { phase } else { 0 };
    Alignment { alignment: alignment.max(least), phase }
}

/// The atoms that a range touches.
fn whole_atoms(range: Range, atom: u64) -> Range {
    let offset = range.offset / atom * atom;
    Range { offset, length: range.end().next_multiple_of(atom) - offset }
}

/// The first and the last atom of a range if it has only a part of them.
fn edges(range: Range, atom: u64) -> [Option<Range>; 2] {
    if range.length == 0 {
        return [None; 2];
    }
    let atoms = whole_atoms(range, atom);
    let starts_within = atoms.offset != range.offset;
    let ends_within = atoms.end() != range.end();
    let first = Range { offset: atoms.offset, length: atom };
    let last = Range { offset: atoms.end() - atom, length: atom };
    let is_first_last = first == last;
    [
        (starts_within || (ends_within && is_first_last)).then_some(first),
        (ends_within && !is_first_last).then_some(last),
    ]
}

/// Mappings of the blocks of emulated devices that import none: the address and the bytes of each.
static MAPPINGS: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());

/// Whether pages are a mapping of a block of a device that is emulated to import none.
fn is_mapping(pages: &Pages) -> bool {
    let start = pages.start.addr() as u64;
    let overlaps =
        |(at, length): &(usize, u64)| start < *at as u64 + length && (*at as u64) < start + pages.length;
    MAPPINGS.lock().iter().any(overlaps)
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_refused_elsewhere() {
            MAPPINGS.lock().retain(|(start, _)| *start != self.mapped.addr());
        }
        let functions = self.gpu.functions();
        // SAFETY: work that uses the block owns it, so none is left. Freeing the memory unmaps it.
        unsafe {
            functions.destroy_buffer(self.buffer, None);
            functions.free_memory(self.memory, None);
        }
        self.gpu.release_block(self.kind.heap, self.length);
    }
}

/// The emulated caches of a host that is not coherent with the device.
struct Cache {
    /// Memory as the host sees it.
    host: HostMemory,
    /// Memory as the device sees it.
    device: HostMemory,
}

impl Cache {
    /// For memory that is mapped at `mapped` as long as the cache lives.
    fn new(mapped: *mut u8, length: u64) -> Result<Self> {
        /// The bytes that the host sees of memory that it has not invalidated.
        const STALE: u8 = 0xa5;
        let start = NonNull::new(mapped).ok_or_else(|| Error::failed_precondition("memory is not mapped"))?;
        let host = HostMemory::allocate_aligned(length, 4096)?;
        host.fill(0, length, &[STALE])?;
        // SAFETY: the memory is mapped as a whole, and the block that owns the cache frees it last. The
        // device writes it; nothing here has references to it.
        let device = unsafe { HostMemory::foreign(start, length as usize, true, Box::new(())) };
        Ok(Self { host, device })
    }

    fn flush(&self, range: Range) -> Result<()> {
        self.device.copy_from(range.offset, &self.host, range.offset, range.length)
    }

    fn invalidate(&self, range: Range) -> Result<()> {
        self.host.copy_from(range.offset, &self.device, range.offset, range.length)
    }
}

/// The parts of a block while it is made; dropping them destroys what there is.
struct Parts {
    gpu: Arc<Gpu>,
    kind: Kind,
    length: u64,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    is_counted: bool,
    imported: Option<(HostMemory, Pages)>,
}

impl Parts {
    /// Nothing yet of a block of `length` bytes.
    fn none(gpu: &Arc<Gpu>, length: u64) -> Self {
        let kind = Kind { index: 0, heap: 0, flags: vk::MemoryPropertyFlags::empty() };
        let (buffer, memory) = (vk::Buffer::null(), vk::DeviceMemory::null());
        Self { gpu: gpu.clone(), kind, length, buffer, memory, is_counted: false, imported: None }
    }

    /// The memory requirements of the buffer, which is created.
    fn needs(&self) -> vk::MemoryRequirements {
        // SAFETY: the buffer is the device's.
        unsafe { self.gpu.functions().get_buffer_memory_requirements(self.buffer) }
    }

    /// The memory types, as bits, that the buffer can be in.
    fn types(&self) -> u32 {
        self.gpu.physical().emulation.types(self.needs().memory_type_bits)
    }

    fn create(gpu: &Arc<Gpu>, source: Source, length: u64) -> Result<Self> {
        // The limit of allocations is for new ones.
        let most = match source {
            Source::New(_) => gpu.largest_block(),
            Source::Imported(..) => gpu.physical().max_buffer_bytes,
        };
        if length > most {
            return Err(gpu.exceeds_largest(length));
        }
        let mut parts = Self::none(gpu, length);
        let types = match &source {
            Source::New(kind) => 1 << kind.index,
            Source::Imported(_, pages) if gpu.physical().emulation.refuses_mappings && is_mapping(pages) => {
                let error = vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
                return Err(failure("importing memory of the host", error));
            }
            Source::Imported(_, pages) => gpu.importable_types(pages)?,
        };
        parts.create_buffer(matches!(source, Source::Imported(..)))?;
        let needs = parts.needs();
        let types = types & parts.types();
        parts.kind = match &source {
            Source::New(kind) => *kind,
            Source::Imported(..) => gpu.kind_for_host(types)?,
        };
        if types & (1 << parts.kind.index) == 0 {
            return Err(Error::invalid_argument("buffers cannot be in this type of memory"));
        }
        let length = match &source {
            Source::New(_) => needs.size.max(length),
            Source::Imported(..) => length,
        };
        if needs.size > length {
            return Err(Error::out_of_range(format!(
                "a buffer of {length} bytes needs {} bytes of memory",
                needs.size
            )));
        }
        gpu.reserve_block(parts.kind.heap, length, matches!(source, Source::Imported(..)))?;
        (parts.length, parts.is_counted) = (length, true);
        parts.allocate_memory(source)?;
        // SAFETY: both were just created, and the memory has the size and the type that the buffer needs.
        unsafe { gpu.functions().bind_buffer_memory(parts.buffer, parts.memory, 0) }
            .map_err(|error| failure("binding memory to a buffer", error))?;
        Ok(parts)
    }

    fn create_buffer(&mut self, is_imported: bool) -> Result<()> {
        let mut usage = USAGE;
        if self.gpu.has_addresses() {
            usage |= vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        }
        let families = self.gpu.distinct_families();
        let mut external = vk::ExternalMemoryBufferCreateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let mut info = vk::BufferCreateInfo::default().size(self.length).usage(usage);
        if families.len() > 1 {
            info = info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(families);
        }
        if is_imported {
            info = info.push_next(&mut external);
        }
        // SAFETY: the structures live until the call returns, and the extension of the chain is enabled if it
        // is used.
        self.buffer = unsafe { self.gpu.functions().create_buffer(&info, None) }
            .map_err(|error| failure(&format!("creating a buffer of {} bytes", self.length), error))?;
        Ok(())
    }

    fn allocate_memory(&mut self, source: Source) -> Result<()> {
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let index = self.gpu.physical().emulation.index(self.kind.index);
        let mut info =
            vk::MemoryAllocateInfo::default().allocation_size(self.length).memory_type_index(index);
        if self.gpu.has_addresses() {
            info = info.push_next(&mut flags);
        }
        if let Source::Imported(memory, pages) = source {
            import.p_host_pointer = pages.start.cast();
            self.imported = Some((memory, pages));
            info = info.push_next(&mut import);
        }
        // SAFETY: the chain's structures live until the call returns. Imported memory is owned by `self`, and
        // then by the block, which frees the device's memory first.
        self.memory = unsafe { self.gpu.functions().allocate_memory(&info, None) }
            .map_err(|error| failure(&format!("allocating {} bytes", self.length), error))?;
        Ok(())
    }

    fn into_block(mut self) -> Result<Block> {
        let functions = self.gpu.functions();
        let mut mapped = std::ptr::null_mut();
        if let Some((_, pages)) = &self.imported {
            mapped = pages.start;
        } else if self.kind.is_host_visible() {
            let all = vk::MemoryMapFlags::empty();
            // SAFETY: the memory is host-visible and not mapped yet.
            mapped = unsafe { functions.map_memory(self.memory, 0, vk::WHOLE_SIZE, all) }
                .map_err(|error| failure(&format!("mapping {} bytes", self.length), error))?
                .cast();
        }
        let cache = match self.kind.needs_flushes() && self.gpu.physical().emulation.has_caches() {
            true => Some(Cache::new(mapped, self.length)?),
            false => None,
        };
        let mut address = 0;
        if self.gpu.has_addresses() {
            let info = vk::BufferDeviceAddressInfo::default().buffer(self.buffer);
            // SAFETY: the feature is enabled, and the buffer and its memory were created for it.
            address = unsafe { functions.get_buffer_device_address(&info) };
        }
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let block = Block {
            gpu: self.gpu.clone(),
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            kind: self.kind,
            length: self.length,
            memory: self.memory,
            buffer: self.buffer,
            mapped: cache.as_ref().map_or(mapped, |cache| cache.host.as_ptr()),
            cache,
            address,
            free: Mutex::new(Ranges::new(self.length)),
            imported: self.imported.take().map(|(memory, pages)| (Arc::new(memory), pages.offset)),
        };
        if block.is_refused_elsewhere() {
            MAPPINGS.lock().push((block.mapped.addr(), block.length));
        }
        // The block owns them now.
        (self.buffer, self.memory, self.is_counted) = (vk::Buffer::null(), vk::DeviceMemory::null(), false);
        Ok(block)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let functions = self.gpu.functions();
        // SAFETY: both are null, or were created and are not used by any work.
        unsafe {
            functions.destroy_buffer(self.buffer, None);
            functions.free_memory(self.memory, None);
        }
        if self.is_counted {
            self.gpu.release_block(self.kind.heap, self.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64, length: u64) -> Range {
        Range { offset, length }
    }

    #[test]
    fn offsets_are_aligned_for_the_device_whatever_the_address_is() {
        for (alignment, least, base, expected) in [
            (4096, 64, 0x1000, (4096, 0)),
            (4096, 64, 0x1040, (4096, 64)),
            // An address that is aligned to cache lines, and atoms that are larger.
            (4096, 256, 0x1040, (4096, 0)),
            (4096, 256, 0x1100, (4096, 256)),
            (16, 256, 0x1040, (256, 0)),
        ] {
            let Alignment { alignment, phase } = aligned_to(alignment, least, base);
            assert_eq!((alignment, phase), expected);
        }
    }

    #[test]
    fn flushes_cover_whole_atoms() {
        assert_eq!(whole_atoms(at(64, 64), 64), at(64, 64));
        assert_eq!(whole_atoms(at(65, 1), 64), at(64, 64));
        assert_eq!(whole_atoms(at(100, 100), 64), at(64, 192));
        assert_eq!(whole_atoms(at(5, 3), 1), at(5, 3));
    }

    #[test]
    fn atoms_that_are_written_in_part_are_invalidated_before() {
        assert_eq!(edges(at(64, 128), 64), [None, None]);
        assert_eq!(edges(at(3, 9), 1), [None, None]);
        assert_eq!(edges(at(100, 0), 64), [None, None]);
        assert_eq!(edges(at(70, 10), 64), [Some(at(64, 64)), None], "all is in one atom");
        assert_eq!(edges(at(64, 10), 64), [Some(at(64, 64)), None]);
        assert_eq!(edges(at(70, 58), 64), [Some(at(64, 64)), None]);
        assert_eq!(edges(at(70, 122), 64), [Some(at(64, 64)), None]);
        assert_eq!(edges(at(64, 130), 64), [None, Some(at(192, 64))]);
        assert_eq!(edges(at(70, 200), 64), [Some(at(64, 64)), Some(at(256, 64))]);
    }
}
