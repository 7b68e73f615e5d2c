#![allow(unsafe_code, reason = "owns host memory that several parties write; docs/unsafe.md says why")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{Error, MappedFile, Range, Result, StatusCode};

/// Alignment of every allocation in bytes: a cache line, and what compiled kernels assume at least.
const ALIGNMENT_BYTES: usize = 64;

/// Bytes of the host that several parties share: a program's buffers, a device's memory, a mapped file.
///
/// No reference to bytes that can change lives longer than a call here; copies go through raw pointers. As
/// on any device, the program orders its accesses by timepoints: one that reads what an unfinished
/// operation writes gets bytes of either time, never bytes outside of the memory. Memory over a file or
/// over constant bytes cannot be written.
pub struct HostMemory {
    data: NonNull<u8>,
    length: usize,
    writable: bool,
    owner: Owner,
}

/// What keeps the bytes where they are.
enum Owner {
    /// This memory: what the allocator gave, which `data` may be moved up from. Of size 0, nothing.
    Allocation { base: NonNull<u8>, layout: Layout },
    /// A file's map: the one that is only read, or where this memory is writable, the private one.
    File { file: Arc<MappedFile> },
    /// Memory that this is a part of.
    Part { whole: Arc<HostMemory> },
}

// SAFETY: the bytes are owned, or kept by an owner that is itself Send and Sync and never moves them; all
// access is by copies through raw pointers under the contract above, and freeing needs the only owner.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// `length` zeroed bytes. Fails when the machine has not that many.
    pub fn allocate(length: u64) -> Result<Self> {
        Self::allocate_aligned(length, 0)
    }

    /// `length` zeroed bytes at a multiple of `alignment`, a power of two in bytes; what is smaller
    /// than a cache line gets a cache line. Fails when the machine has not that many.
    pub fn allocate_aligned(length: u64, alignment: u64) -> Result<Self> {
        let exhausted = || {
            Error::resource_exhausted(format!("cannot allocate a buffer of {length} bytes of host memory"))
        };
        let length_host = usize::try_from(length).map_err(|_| exhausted())?;
        if length_host == 0 {
            let (base, layout) = (NonNull::dangling(), Layout::new::<()>());
            let owner = Owner::Allocation { base, layout };
            return Ok(Self { data: base, length: 0, writable: true, owner });
        }
        // Aligning by hand keeps `alloc_zeroed` on the allocator's calloc, which takes fresh pages
        // from the system already zeroed; an aligned layout would write them all.
        let alignment = usize::try_from(alignment).map_err(|_| exhausted())?.max(ALIGNMENT_BYTES);
        if !alignment.is_power_of_two() {
            return Err(Error::invalid_argument(format!(
                "an alignment of {alignment} bytes is not a power of two"
            )));
        }
        let padded = length_host.checked_add(alignment).ok_or_else(exhausted)?;
        let layout = Layout::from_size_align(padded, 1).map_err(|_| exhausted())?;
        // SAFETY: the layout is not of size 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(exhausted)?;
        // Not `align_offset`, which may give up; the address is that of an allocation.
        let shift = base.as_ptr().addr().wrapping_neg() & (alignment - 1);
        // SAFETY: `shift` is below `alignment`, by which the allocation exceeds the length.
        let data = unsafe { base.add(shift) };
        Ok(Self { data, length: length_host, writable: true, owner: Owner::Allocation { base, layout } })
    }

    /// A copy of `bytes` that stays as it is. Fails when the machine has not that much memory.
    pub fn constant(bytes: &[u8]) -> Result<Self> {
        let memory = Self::allocate(bytes.len() as u64)?;
        memory.write(0, bytes)?;
        Ok(memory.into_constant())
    }

    /// The same bytes, which stay as they are from now on.
    pub fn into_constant(mut self) -> Self {
        self.writable = false;
        self
    }

    /// The bytes of `range` of a mapped file, not copied; they cannot be written. Fails where the range
    /// exceeds the file.
    pub fn over_file(file: Arc<MappedFile>, range: Range) -> Result<Self> {
        let bytes = file.bytes();
        if !range.fits(bytes.len() as u64) {
            return Err(exceeds("the file", range.offset, range.length, bytes.len()));
        }
        // In range: `fits` says so. A file that is empty has a slice of its own to point to.
        let part = &bytes[range.offset as usize..][..range.length as usize];
        let data = NonNull::from(part).cast();
        Ok(Self { data, length: part.len(), writable: false, owner: Owner::File { file } })
    }

    /// A range of `whole` as memory of its own: the same bytes, counted from 0. Fails where it exceeds `whole`.
    pub fn part(whole: &Arc<Self>, range: Range) -> Result<Self> {
        let data = NonNull::new(whole.at(range.offset, range.length)?).unwrap_or(whole.data);
        let owner = Owner::Part { whole: whole.clone() };
        Ok(Self { data, length: range.length as usize, writable: whole.writable, owner })
    }

    /// Memory that has the same bytes and can be written, which nobody else sees: a copy, or for a file, pages that
    /// become copies when they are written to. Fails when the machine has not that much memory.
    pub fn private(&self) -> Result<Self> {
        let Some((file, offset)) = self.place_in_file() else {
            let copy = Self::allocate(self.length as u64)?;
            copy.copy_from(0, self, 0, self.length as u64)?;
            return Ok(copy);
        };
        // SAFETY: both maps of the file have the same size, and this memory's range lies within it.
        let data = unsafe { file.private()?.add(offset) };
        Ok(Self { data, length: self.length, writable: true, owner: Owner::File { file: file.clone() } })
    }

    /// The file whose read-only map this lies in, and where.
    fn place_in_file(&self) -> Option<(&Arc<MappedFile>, usize)> {
        let from = |start: usize| self.data.as_ptr().addr().checked_sub(start);
        match &self.owner {
            Owner::File { file } if !self.writable && self.length > 0 => {
                Some((file, from(file.bytes().as_ptr().addr())?))
            }
            Owner::Part { whole } if self.length > 0 => {
                let (file, offset) = whole.place_in_file()?;
                Some((file, offset + from(whole.data.as_ptr().addr())?))
            }
            _ => None,
        }
    }

    /// Whether the bytes can be written; if not, nothing changes them.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The bytes, where nothing can write them.
    pub fn constant_bytes(&self) -> Option<&[u8]> {
        if self.writable {
            return None;
        }
        // SAFETY: the owner keeps the bytes as long as `self`; writing through `self` and its parts is
        // refused, a mapped file's bytes are covered by `MappedFile`, and `constant` made the only handle.
        Some(unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.length) })
    }

    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// Where the bytes start. Valid as long as `self`, for reads of `length` bytes and, where the memory
    /// is writable, for writes.
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// Copies bytes out.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let source = self.at(offset, target.len() as u64)?;
        // SAFETY: `at` checked the range; `target` is the caller's own memory.
        unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        Ok(())
    }

    /// `N` bytes at `offset`, as a scalar is loaded.
    #[inline]
    pub fn load<const N: usize>(&self, offset: u64) -> Result<[u8; N]> {
        let source = self.at(offset, N as u64)?;
        // SAFETY: `at` checked the range; an array of bytes has no alignment.
        Ok(unsafe { source.cast::<[u8; N]>().read() })
    }

    /// Puts `N` bytes at `offset`, as a scalar is stored.
    #[inline]
    pub fn store<const N: usize>(&self, offset: u64, value: [u8; N]) -> Result<()> {
        let target = self.at_mut(offset, N as u64)?;
        // SAFETY: as for `load`.
        unsafe { target.cast::<[u8; N]>().write(value) };
        Ok(())
    }

    /// Copies bytes in.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let target = self.at_mut(offset, source.len() as u64)?;
        // SAFETY: `at` checked the range. A caller that writes a buffer's own bytes to it (through
        // `with_bytes`) overlaps, so this is a move.
        unsafe { std::ptr::copy(source.as_ptr(), target, source.len()) };
        Ok(())
    }

    /// Copies bytes from `source`, which may be the same memory.
    pub fn copy_from(&self, offset: u64, source: &Self, source_offset: u64, length: u64) -> Result<()> {
        let from = source.at(source_offset, length)?;
        let to = self.at_mut(offset, length)?;
        // SAFETY: `at` checked both ranges; `copy` allows them to overlap.
        unsafe { std::ptr::copy(from, to, length as usize) };
        Ok(())
    }

    /// Repeats `pattern` (1, 2, 4 or any number of bytes that divides `length`) over the range.
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
            // SAFETY: `at` checked the range.
            unsafe { target.write_bytes(pattern[0], length) };
            return Ok(());
        }
        // Write the pattern once, then double what is written.
        // SAFETY: the pattern divides the length, which is not 0, so it fits; each copy reads what
        // is before `done` and writes after it, within the range.
        unsafe {
            std::ptr::copy_nonoverlapping(pattern.as_ptr(), target, pattern.len());
            let mut done = pattern.len();
            while done < length {
                let step = done.min(length - done);
                std::ptr::copy_nonoverlapping(target, target.add(done), step);
                done += step;
            }
        }
        Ok(())
    }

    /// Shows the bytes of a range to `look`, without a copy.
    ///
    /// The caller has waited for the operations that write them.
    pub fn with_bytes<R>(&self, offset: u64, length: u64, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let source = self.at(offset, length)?;
        // SAFETY: `at` checked the range, the memory is initialised (it began zeroed), and the
        // caller has waited for the writers.
        Ok(look(unsafe { std::slice::from_raw_parts(source, length as usize) }))
    }

    /// Lets `write` fill the bytes of a range in place, as from a file.
    ///
    /// The caller is the operation that owns the range until it signals.
    pub fn with_bytes_mut<R>(
        &self,
        offset: u64,
        length: u64,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let target = self.at_mut(offset, length)?;
        // SAFETY: as for `with_bytes`, and nobody else accesses the range until the caller signals.
        Ok(write(unsafe { std::slice::from_raw_parts_mut(target, length as usize) }))
    }

    #[inline]
    fn at(&self, offset: u64, length: u64) -> Result<*mut u8> {
        let limit = self.length as u64;
        if length > limit || offset > limit - length {
            return Err(exceeds("a buffer", offset, length, self.length));
        }
        // SAFETY: the offset is within the bytes.
        Ok(unsafe { self.data.as_ptr().add(offset as usize) })
    }

    #[inline]
    fn at_mut(&self, offset: u64, length: u64) -> Result<*mut u8> {
        if !self.writable {
            return Err(constant());
        }
        self.at(offset, length)
    }
}

#[cold]
fn exceeds(what: &str, offset: u64, length: u64, size: usize) -> Error {
    Error::out_of_range(format!("{length} bytes at offset {offset} exceed {what} of {size} bytes"))
}

#[cold]
fn constant() -> Error {
    Error::new(StatusCode::PermissionDenied, "constant memory cannot be written")
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Owner::Allocation { base, layout } = self.owner
            && layout.size() != 0
        {
            // SAFETY: `base` came from the allocator with this layout and is freed once.
            unsafe { dealloc(base.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_copies_and_refuses_what_is_outside() {
        let memory = HostMemory::allocate(16).unwrap();
        assert!((memory.as_ptr() as usize).is_multiple_of(ALIGNMENT_BYTES));
        let page = HostMemory::allocate_aligned(16, 4096).unwrap();
        assert!((page.as_ptr() as usize).is_multiple_of(4096));
        page.write(0, &[1; 16]).unwrap();
        assert!(HostMemory::allocate_aligned(16, 96).is_err());
        assert!(HostMemory::allocate_aligned(16, 1 << 63).is_err());
        memory.fill(0, 12, &[1, 2, 3]).unwrap();
        memory.copy_from(2, &memory, 0, 4).unwrap();
        let mut bytes = [0; 16];
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 1, 2, 3, 1, 1, 2, 3, 1, 2, 3, 0, 0, 0, 0]);
        assert!(memory.fill(0, 4, &[1, 2, 3]).is_err());
        assert!(memory.write(15, &[0, 0]).is_err());
        assert!(memory.read(u64::MAX, &mut bytes).is_err());
        assert!(memory.copy_from(0, &memory, 9, 8).is_err());
        assert!(HostMemory::allocate(u64::MAX).is_err());
        assert_eq!(HostMemory::allocate(0).unwrap().length(), 0);
    }
    #[test]
    fn private_memory_is_written_and_nobody_else_sees_it() {
        let path = std::env::temp_dir().join(format!("rehal-private-{}", std::process::id()));
        std::fs::write(&path, [7; 10_000]).unwrap();
        let file = Arc::new(MappedFile::open(&path).unwrap());
        let all = Range::new(0, 10_000).unwrap();
        let mapped = Arc::new(HostMemory::over_file(file, all).unwrap());
        let inner = Arc::new(HostMemory::part(&mapped, Range::new(4000, 5000).unwrap()).unwrap());
        let part = HostMemory::part(&inner, Range::new(96, 200).unwrap()).unwrap();
        let (private, again) = (part.private().unwrap(), part.private().unwrap());
        private.store(0, [1, 2]).unwrap();
        assert_eq!(private.load::<4>(0).unwrap(), [1, 2, 7, 7]);
        assert_eq!(private.as_ptr().addr() % 4096, part.as_ptr().addr() % 4096);
        assert_eq!(again.load::<2>(0).unwrap(), [1, 2], "one private map for all");
        assert_eq!((part.load::<2>(0).unwrap(), std::fs::read(&path).unwrap()[4096]), ([7, 7], 7));
        assert!(private.store(199, [1, 2]).is_err());
        // What is private already, or was never a file's, is copied.
        let copy = private.private().unwrap();
        copy.store(0, [9]).unwrap();
        assert_eq!((private.load::<1>(0).unwrap(), copy.load::<2>(0).unwrap()), ([1], [9, 2]));
        let constant = HostMemory::constant(&[5; 3]).unwrap();
        constant.private().unwrap().store(0, [6]).unwrap();
        assert_eq!(constant.load::<1>(0).unwrap(), [5]);
        assert_eq!(HostMemory::allocate(0).unwrap().private().unwrap().length(), 0);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn parts_share_bytes_and_constants_stay() {
        let whole = Arc::new(HostMemory::allocate(16).unwrap());
        let part = HostMemory::part(&whole, Range::new(4, 8).unwrap()).unwrap();
        part.store(2, 0x0403_0201_u32.to_le_bytes()).unwrap();
        assert_eq!(whole.load::<4>(6).unwrap(), [1, 2, 3, 4]);
        assert!(part.store(5, [0; 4]).is_err());
        assert!(HostMemory::part(&whole, Range::new(9, 8).unwrap()).is_err());
        assert!(whole.constant_bytes().is_none());
        drop(whole);
        assert_eq!(part.load::<2>(2).unwrap(), [1, 2]);

        let constant = Arc::new(HostMemory::constant(&[1, 2, 3]).unwrap());
        let end = HostMemory::part(&constant, Range::new(1, 2).unwrap()).unwrap();
        assert_eq!(end.constant_bytes(), Some(&[2, 3][..]));
        assert_eq!(end.write(0, &[0]).unwrap_err().code(), StatusCode::PermissionDenied);
        assert!(end.fill(0, 2, &[0]).is_err() && end.store(0, [0]).is_err());
        assert!(end.with_bytes_mut(0, 1, |_| ()).is_err());
    }

    #[test]
    fn files_are_read_where_they_lie() {
        let path = std::env::temp_dir().join(format!("rehal-memory-{}", std::process::id()));
        std::fs::write(&path, [1, 2, 3, 4]).unwrap();
        let file = Arc::new(MappedFile::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let memory = HostMemory::over_file(file.clone(), Range::new(1, 3).unwrap()).unwrap();
        assert_eq!(memory.as_ptr().cast_const(), file.bytes()[1..].as_ptr());
        assert_eq!(memory.constant_bytes(), Some(&[2, 3, 4][..]));
        assert!(memory.write(0, &[0]).is_err());
        assert!(HostMemory::over_file(file, Range::new(1, 4).unwrap()).is_err());
    }
}
