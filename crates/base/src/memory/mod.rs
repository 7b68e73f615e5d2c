#![allow(unsafe_code, reason = "owns host memory that other threads and devices write; see docs/unsafe.md")]

mod copy;
mod evict;
mod file_pages;
mod files;
mod guarded;
mod pages;
mod spare;
#[cfg(test)]
mod tests;

use std::alloc::Layout;
use std::any::Any;
use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use crate::{Error, MappedFile, Range, Result, StatusCode, page_bytes};

use guarded::{PAGE_BYTES, Pages};
use pages::AllFilePages;
use spare::Block;

pub use evict::evict;
pub use file_pages::OwnBytes;
pub use guarded::Overrun;
pub use spare::keep_freed_memory;

/// Alignment of every allocation in bytes: a cache line, and the minimum that compiled kernels assume.
const ALIGNMENT_BYTES: usize = 64;

/// Allocations up to this size in bytes are zeroed here, without what alignment adds. Up to 1 KiB, glibc's
/// per-thread cache (tcache) of free blocks serves only `malloc`, and `calloc` is several times slower.
/// Larger ones than this are left to the allocator, which gets zero pages from the kernel for most of them.
const ZEROED_HERE_BYTES: usize = 64 << 10;

/// Size of the pieces of [`HostMemory::for_each_chunk`].
const CHUNK_BYTES: usize = 64 << 10;

/// Copies up to this size use the stack.
const STACK_BYTES: usize = 4 << 10;

/// Host memory that may be shared: a program's buffers, a device's memory, a mapped file.
///
/// Any number of threads may read and write the same bytes concurrently. Mutable bytes are never borrowed:
/// all functions copy in or out, and a data race yields a mix of the old and the new bytes (each byte is one
/// or the other), as with relaxed atomics. Programs that need stronger guarantees order accesses by
/// timepoints. Constant bytes can be borrowed ([`HostMemory::constant_bytes`]), and so can those of uniquely
/// owned memory ([`HostMemory::exclusive_bytes`]).
pub struct HostMemory {
    data: NonNull<u8>,
    length: usize,
    access: Access,
    /// The ranges read from files whose pages may be mapped into the allocation that this memory owns.
    file_pages: AllFilePages,
    owner: Owner,
}

/// Allowed accesses to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Constant for the lifetime of the memory.
    Constant,
    /// Read-only through this memory; others may write them.
    ReadOnly,
    /// Writable.
    Writable,
}

/// The owner that keeps the bytes allocated, at a fixed address.
enum Owner {
    /// This memory itself: an allocation, in which alignment may place `data` after `base`. Nothing is
    /// allocated for length 0.
    Allocation { base: NonNull<u8>, layout: Layout },
    /// The same, between pages that cannot be accessed. Taken when it is dropped.
    Guarded(Option<Pages>),
    /// A mapped file: its read-only mapping or, if this memory is writable, the private one.
    File { file: Arc<MappedFile> },
    /// The memory that contains this part.
    Part { whole: Arc<HostMemory> },
    /// The keeper passed to [`HostMemory::foreign`]; dropping it releases the bytes.
    Foreign { _keeper: Box<dyn Any + Send + Sync> },
}

// SAFETY: the bytes are owned, or kept by an owner that is itself Send and Sync and never moves them. All
// accesses are copies that may race (`copy`), except to constant bytes, which nothing writes, and to bytes
// behind a `&mut` of their unique owner. Freeing requires the unique owner.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// `length` zeroed bytes. Fails if the allocation fails.
    pub fn allocate(length: u64) -> Result<Self> {
        Self::allocate_aligned(length, 0)
    }

    /// `length` zeroed bytes, aligned to `alignment` bytes, a power of two, and at least to a cache line.
    /// Fails if the allocation fails.
    pub fn allocate_aligned(length: u64, alignment: u64) -> Result<Self> {
        Self::allocate_for_file(length, alignment, None)
    }

    /// The same, at an address at which a file can be mapped whose byte at `file_offset` is to be the first
    /// of the memory: see [`HostMemory::map_file_at`]. Addresses that are not so aligned are left alone.
    pub fn allocate_for_file(length: u64, alignment: u64, file_offset: Option<u64>) -> Result<Self> {
        let exhausted = || {
            Error::resource_exhausted(format!("cannot allocate a buffer of {length} bytes of host memory"))
        };
        let length_host = usize::try_from(length).map_err(|_| exhausted())?;
        let access = Access::Writable;
        let alignment = usize::try_from(alignment).map_err(|_| exhausted())?.max(ALIGNMENT_BYTES);
        let Some(address) = NonZeroUsize::new(alignment).filter(|it| it.is_power_of_two()) else {
            return Err(Error::invalid_argument(format!(
                "an alignment of {alignment} bytes is not a power of two"
            )));
        };
        if length_host == 0 {
            // Aligned even if empty: imports and bindings require it.
            let (base, layout) = (NonNull::without_provenance(address), Layout::new::<()>());
            return Ok(Self::new(base, 0, access, Owner::Allocation { base, layout }));
        }
        let file_offset = file_offset.filter(|_| length_host >= pages::LEAST_BYTES);
        let at_page = file_offset.map_or(0, |offset| pages::place_in_page(offset, alignment));
        let alignment = if length_host < PAGE_BYTES { alignment } else { alignment.max(PAGE_BYTES) };
        let alignment = if file_offset.is_some() { alignment.max(page_bytes()) } else { alignment };
        // Aligned by hand, so that `alloc_zeroed` calls the allocator's calloc, which gets zero pages from
        // the kernel; with an aligned layout it would write zeros to every page.
        let padded = length_host.checked_add(alignment).ok_or_else(exhausted)?;
        let layout = Block::layout(padded, file_offset.is_some()).ok_or_else(exhausted)?;
        let (base, is_zeroed) = match Block::take(layout) {
            Some(block) => (block.base, false),
            None => {
                let is_zeroed = length_host > ZEROED_HERE_BYTES;
                let allocate = || Block::allocate(layout, is_zeroed, file_offset.is_none());
                let block = allocate().or_else(|| {
                    Self::release_spare();
                    allocate()
                });
                (block.ok_or_else(exhausted)?.base, is_zeroed)
            }
        };
        // Not `align_offset`, which is allowed to fail.
        let shift = at_page.wrapping_sub(base.as_ptr().addr()) & (alignment - 1);
        // SAFETY: `shift` is below `alignment`, by which the allocation exceeds the length.
        let data = unsafe { base.add(shift) };
        if !is_zeroed {
            // SAFETY: as above.
            unsafe { data.write_bytes(0, length_host) };
        }
        Ok(Self::new(data, length_host, access, Owner::Allocation { base, layout }))
    }

    fn new(data: NonNull<u8>, length: usize, access: Access, owner: Owner) -> Self {
        Self { data, length, access, file_pages: OnceLock::new(), owner }
    }

    /// The same as [`HostMemory::allocate_for_file`], between pages that cannot be accessed, and apart from
    /// what else the program allocates: code that writes next to the memory faults, or
    /// [`HostMemory::take_overrun`] tells. Without [`Ability::Guards`](crate::Ability) it is an
    /// ordinary allocation. It takes at least a page, and longer than an allocation the first time.
    pub fn allocate_guarded(length: u64, alignment: u64, file_offset: Option<u64>) -> Result<Self> {
        let sizes = (usize::try_from(length), usize::try_from(alignment));
        let (Ok(bytes @ 1..), Ok(alignment_bytes)) = sizes else {
            return Self::allocate_aligned(length, alignment);
        };
        let alignment_bytes = alignment_bytes.max(ALIGNMENT_BYTES);
        let is_guarded = alignment_bytes.is_power_of_two() && bytes <= isize::MAX as usize;
        let file_offset = file_offset.filter(|_| is_guarded && bytes >= pages::LEAST_BYTES);
        let at_page = file_offset.map_or(0, |offset| pages::place_in_page(offset, alignment_bytes));
        let pages = if is_guarded { Pages::allocate(bytes, alignment_bytes, at_page) } else { None };
        match pages {
            Some((pages, data)) => Ok(Self::new(data, bytes, Access::Writable, Owner::Guarded(Some(pages)))),
            // Refused for the same reason, or memory without guards.
            None => Self::allocate_aligned(length, alignment),
        }
    }

    /// Bytes next to this guarded memory, or to that of which it is a part, that were written since it was
    /// allocated or since the last call. `None` if there are none, or if it is not guarded.
    #[doc(hidden)]
    pub fn take_overrun(&self) -> Option<Overrun> {
        match &self.owner {
            Owner::Guarded(Some(pages)) => pages.take_overrun(self.data, self.length),
            Owner::Part { whole } => whole.take_overrun(),
            _ => None,
        }
    }

    /// Returns the memory that was freed to the system: up to 256 MiB are kept for the next allocations of
    /// the same sizes.
    pub fn release_spare() {
        spare::release_all();
        guarded::release_all();
    }

    /// A constant copy of `bytes`. Fails if the allocation fails.
    pub fn constant(bytes: &[u8]) -> Result<Self> {
        let memory = Self::allocate(bytes.len() as u64)?;
        memory.write(0, bytes)?;
        memory.into_constant()
    }

    /// Makes the bytes constant. Fails unless this memory is an allocation with a unique owner: a part of
    /// other memory, or foreign memory, could be written through its other owners.
    pub fn into_constant(mut self) -> Result<Self> {
        // No part of this memory exists: a part holds its whole in an `Arc`, out of which `self` cannot be
        // moved.
        match self.owner {
            Owner::Allocation { .. } | Owner::Guarded(_) => self.access = Access::Constant,
            _ if self.access == Access::Constant => {}
            _ => return Err(Error::failed_precondition("memory with other owners cannot become constant")),
        }
        Ok(self)
    }

    /// `range` of a mapped file, zero-copy and read-only. Fails if the range exceeds the file.
    #[doc(hidden)]
    pub fn over_file(file: Arc<MappedFile>, range: Range) -> Result<Self> {
        let size = file.bytes().len();
        if !range.fits(size as u64) {
            return Err(exceeds("the file", range.offset, range.length, size));
        }
        // SAFETY: `fits` guarantees an offset within the mapping, or its end. The pointer is that of the
        // mapping, not of a slice: bytes read by atomics are not accessed through a shared reference to plain
        // bytes.
        let data = unsafe { file.start().add(range.offset as usize) };
        Ok(Self::new(data, range.length as usize, Access::Constant, Owner::File { file }))
    }

    /// Memory that others allocated: mapped by a driver, or lent by a caller. `keeper` keeps it valid and is
    /// dropped with the last handle of this memory or of a part of it, so its `Drop` should unmap or release
    /// the memory. If `is_writable` is false, it cannot be written through the handle.
    ///
    /// # Safety
    /// Until `keeper` is dropped, `pointer` is valid for reads of `length` initialized bytes, and for writes
    /// if `is_writable`. Until then, all other accesses are single-byte atomics or equivalent: by the system,
    /// a device, inline assembly, or kernels that the program orders by timepoints. No reference to the bytes
    /// exists.
    pub unsafe fn foreign(
        pointer: NonNull<u8>,
        length: usize,
        is_writable: bool,
        keeper: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let access = if is_writable { Access::Writable } else { Access::ReadOnly };
        Self::new(pointer, length, access, Owner::Foreign { _keeper: keeper })
    }

    /// A part of `whole` that shares its bytes. Fails if `range` exceeds `whole`.
    pub fn part(whole: &Arc<Self>, range: Range) -> Result<Self> {
        let data = NonNull::new(whole.at(range.offset, range.length)?).unwrap_or(whole.data);
        let owner = Owner::Part { whole: whole.clone() };
        Ok(Self::new(data, range.length as usize, whole.access, owner))
    }

    /// Writable memory with the same contents that is shared with no other owner: a copy or, for a file,
    /// copy-on-write pages. Fails if the allocation fails.
    pub fn private(&self) -> Result<Self> {
        let Some((file, offset)) = self.place_in_file() else {
            let copy = Self::allocate(self.length as u64)?;
            copy.copy_from(0, self, 0, self.length as u64)?;
            return Ok(copy);
        };
        // SAFETY: both mappings of the file have the same size, and this memory's range is within it.
        let data = unsafe { file.private()?.add(offset) };
        let owner = Owner::File { file: file.clone() };
        Ok(Self::new(data, self.length, Access::Writable, owner))
    }

    /// The file whose read-only mapping contains this memory, and the offset of the memory in the file.
    fn place_in_file(&self) -> Option<(&Arc<MappedFile>, usize)> {
        let from = |start: usize| self.data.as_ptr().addr().checked_sub(start);
        match &self.owner {
            Owner::File { file } if !self.is_writable() && self.length > 0 => {
                Some((file, from(file.bytes().as_ptr().addr())?))
            }
            Owner::Part { whole } if self.length > 0 => {
                let (file, offset) = whole.place_in_file()?;
                Some((file, offset + from(whole.data.as_ptr().addr())?))
            }
            _ => None,
        }
    }

    /// The ranges that are mapped, if any can be: into a mapping that this memory, or that of which it is a
    /// part, owns.
    fn mappable(&self) -> Option<&AllFilePages> {
        match &self.owner {
            Owner::Allocation { layout, .. } if Block::is_mapping(*layout) => Some(&self.file_pages),
            Owner::Guarded(Some(_)) => Some(&self.file_pages),
            Owner::Part { whole } => whole.mappable(),
            _ => None,
        }
    }

    /// Whether the bytes can be written through this memory.
    pub fn is_writable(&self) -> bool {
        self.access == Access::Writable
    }

    /// The bytes, if they are constant.
    pub fn constant_bytes(&self) -> Option<&[u8]> {
        if self.access != Access::Constant {
            return None;
        }
        // SAFETY: the owner keeps the bytes as long as `self`, and nothing writes them: an allocation became
        // constant while it had a unique owner, and rejects writes since; a mapped file's bytes are covered
        // by `MappedFile`; a part is constant if its whole is.
        Some(unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.length) })
    }

    /// The bytes of a uniquely owned allocation, for writing in place. `None` for parts of other memory and
    /// for foreign memory.
    pub fn exclusive_bytes(&mut self) -> Option<&mut [u8]> {
        if !matches!(self.owner, Owner::Allocation { .. } | Owner::Guarded(_)) || !self.is_writable() {
            return None;
        }
        // SAFETY: the allocation has this length, is initialized (it was zeroed), and belongs to this memory
        // alone: a part would hold it in an `Arc`, from which no `&mut` can be borrowed.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.length) })
    }

    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// The range of the whole memory.
    pub fn whole(&self) -> Range {
        Range { offset: 0, length: self.length() }
    }

    /// Address of the first byte. Valid as long as `self`, for reads of `length` bytes and, if the memory is
    /// writable, for writes.
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    #[inline]
    fn at(&self, offset: u64, length: u64) -> Result<*mut u8> {
        let limit = self.length as u64;
        if length > limit || offset > limit - length {
            return Err(exceeds("a buffer", offset, length, self.length));
        }
        // SAFETY: the offset is in bounds.
        Ok(unsafe { self.data.as_ptr().add(offset as usize) })
    }

    #[inline]
    fn at_mut(&self, offset: u64, length: u64) -> Result<*mut u8> {
        if self.access != Access::Writable {
            return Err(read_only());
        }
        self.at(offset, length)
    }

    /// Address of element `index` of an array of `N`-byte elements. One comparison suffices: if the index is
    /// less than the element count, `index * N` cannot overflow.
    #[inline(always)]
    fn element<const N: usize>(&self, index: u64) -> Result<*mut u8> {
        const { assert!(N > 0, "an element has bytes") };
        if index >= (self.length / N) as u64 {
            return Err(no_element(index, N, self.length));
        }
        // SAFETY: `index + 1` elements are at most the length.
        Ok(unsafe { self.data.as_ptr().add(index as usize * N) })
    }
}

/// Accesses to the bytes, by copy.
impl HostMemory {
    /// Copies bytes out.
    #[inline]
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let source = self.at(offset, target.len() as u64)?;
        // SAFETY: `at` checked the range; concurrent accesses are as `copy` requires.
        unsafe { copy::copy_out(source, target) };
        Ok(())
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let target = self.at_mut(offset, source.len() as u64)?;
        // SAFETY: as for `read`; no slice borrows writable memory.
        unsafe { copy::copy_in(source, target) };
        Ok(())
    }

    /// Loads `N` bytes at `offset`, as a scalar.
    #[inline(always)]
    pub fn load<const N: usize>(&self, offset: u64) -> Result<[u8; N]> {
        let source = self.at(offset, N as u64)?;
        // SAFETY: as for `read`.
        Ok(unsafe { copy::load(source) })
    }

    /// Stores `N` bytes at `offset`, as a scalar.
    #[inline(always)]
    pub fn store<const N: usize>(&self, offset: u64, value: [u8; N]) -> Result<()> {
        let target = self.at_mut(offset, N as u64)?;
        // SAFETY: as for `write`.
        unsafe { copy::store(target, value) };
        Ok(())
    }

    /// Replaces `N` bytes at `offset` by `new` if they are `expected`, as one atomic operation, and returns
    /// the former bytes: if these are not `expected`, nothing was stored. `N` is 2, 4 or 8. Fails if the
    /// address of the bytes is not a multiple of `N`.
    pub fn compare_exchange<const N: usize>(
        &self,
        offset: u64,
        expected: [u8; N],
        new: [u8; N],
    ) -> Result<[u8; N]> {
        const { assert!(matches!(N, 2 | 4 | 8), "processors have operations of these sizes") };
        let target = self.at_mut(offset, N as u64)?;
        if !target.addr().is_multiple_of(N) {
            return Err(Error::invalid_argument(format!(
                "{N} bytes at offset {offset} are misaligned for an atomic operation"
            )));
        }
        // SAFETY: as for `write`; it is aligned.
        Ok(unsafe { copy::exchange(target, expected, new) })
    }

    /// Like [`HostMemory::load`] at `index * N` bytes: an element of an array.
    #[inline(always)]
    pub fn load_element<const N: usize>(&self, index: u64) -> Result<[u8; N]> {
        let source = self.element::<N>(index)?;
        // SAFETY: `element` checked the range; other threads access the bytes as `copy` requires.
        Ok(unsafe { copy::load(source) })
    }

    /// Like [`HostMemory::store`] at `index * N` bytes: an element of an array.
    #[inline(always)]
    pub fn store_element<const N: usize>(&self, index: u64, value: [u8; N]) -> Result<()> {
        if self.access != Access::Writable {
            return Err(read_only());
        }
        let target = self.element::<N>(index)?;
        // SAFETY: as for `load_element`; no slice refers to writable memory.
        unsafe { copy::store(target, value) };
        Ok(())
    }

    /// Copies bytes from `source`, which may be the same memory and overlap.
    pub fn copy_from(&self, offset: u64, source: &Self, source_offset: u64, length: u64) -> Result<()> {
        let from = source.at(source_offset, length)?;
        let to = self.at_mut(offset, length)?;
        // SAFETY: `at` checked both ranges; concurrent accesses are as `copy` requires.
        unsafe { copy::copy(from, to, length as usize) };
        Ok(())
    }

    /// Fills the range with copies of `pattern`, whose size must divide `length`.
    pub fn fill(&self, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
        let target = self.at_mut(offset, length)?;
        let length = length as usize;
        if length == 0 {
            return Ok(());
        }
        if pattern.is_empty() || !length.is_multiple_of(pattern.len()) {
            return Err(Error::invalid_argument(format!(
                "a pattern of {} bytes cannot fill {length} bytes",
                pattern.len()
            )));
        }
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            // SAFETY: `at_mut` checked the range.
            unsafe { copy::set(target, length, pattern[0]) };
            return Ok(());
        }
        // Repeats as many patterns as fit on the stack.
        let mut block = [0; STACK_BYTES];
        let block = match STACK_BYTES / pattern.len() {
            0 => pattern,
            times => {
                let block = &mut block[..(times * pattern.len()).min(length)];
                block.chunks_exact_mut(pattern.len()).for_each(|place| place.copy_from_slice(pattern));
                block
            }
        };
        for done in (0..length).step_by(block.len()) {
            let piece = &block[..block.len().min(length - done)];
            // SAFETY: `at_mut` checked the range, and the piece ends within it.
            unsafe { copy::copy_in(piece, target.add(done)) };
        }
        Ok(())
    }

    /// The bytes of a range: borrowed if they are constant, otherwise copied.
    pub fn bytes(&self, range: Range) -> Result<Cow<'_, [u8]>> {
        let Range { offset, length } = range;
        self.at(offset, length)?;
        Ok(match self.constant_bytes() {
            // In range, or `at` would have failed.
            Some(bytes) => Cow::Borrowed(&bytes[offset as usize..][..length as usize]),
            None => {
                let mut copy = vec![0; length as usize];
                self.read(offset, &mut copy)?;
                Cow::Owned(copy)
            }
        })
    }

    /// Passes the bytes of a range to `look` in pieces: constant bytes borrowed as one piece, others in
    /// copies of at most 64 KiB. Stops at the first error.
    pub fn for_each_chunk<E: From<Error>>(
        &self,
        range: Range,
        mut look: impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Range { offset, length } = range;
        self.at(offset, length)?;
        if let Some(bytes) = self.constant_bytes() {
            return look(&bytes[offset as usize..][..length as usize]);
        }
        let (mut on_stack, mut on_heap) = ([0; STACK_BYTES], Vec::new());
        let chunk = match length as usize {
            0..=STACK_BYTES => &mut on_stack[..length as usize],
            length => {
                on_heap.resize(length.min(CHUNK_BYTES), 0);
                &mut on_heap[..]
            }
        };
        let mut done = 0;
        while done < length {
            let count = (length - done).min(chunk.len() as u64);
            let piece = &mut chunk[..count as usize];
            self.read(offset + done, piece)?;
            look(piece)?;
            done += count;
        }
        Ok(())
    }

    /// Whether `length` bytes here and in `other` are equal.
    pub fn is_equal(&self, offset: u64, other: &Self, other_offset: u64, length: u64) -> Result<bool> {
        self.at(offset, length)?;
        other.at(other_offset, length)?;
        let (mut first, mut second) = ([0; STACK_BYTES], [0; STACK_BYTES]);
        let mut done = 0;
        while done < length {
            let count = (length - done).min(STACK_BYTES as u64);
            let (first, second) = (&mut first[..count as usize], &mut second[..count as usize]);
            self.read(offset + done, first)?;
            other.read(other_offset + done, second)?;
            if first != second {
                return Ok(false);
            }
            done += count;
        }
        Ok(true)
    }
}

#[cold]
fn exceeds(what: &str, offset: u64, length: u64, size: usize) -> Error {
    Error::out_of_range(format!("{length} bytes at offset {offset} exceed {what} of {size} bytes"))
}

#[cold]
fn no_element(index: u64, size: usize, length: usize) -> Error {
    exceeds("a buffer", index.saturating_mul(size as u64), size as u64, length)
}

#[cold]
fn read_only() -> Error {
    Error::new(StatusCode::PermissionDenied, "read-only memory cannot be written")
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // Pages of a file are not used again: they would be written to be zeroed.
        let has_file_pages = self.file_pages.get().is_some();
        match &mut self.owner {
            Owner::Allocation { base, layout } if layout.size() != 0 => {
                let block = Block { base: *base, layout: *layout };
                if has_file_pages { block.release() } else { block.free() }
            }
            Owner::Guarded(pages) if !has_file_pages => {
                if let Some(pages) = pages.take() {
                    pages.free();
                }
            }
            _ => {}
        }
    }
}
