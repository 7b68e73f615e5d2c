#![allow(unsafe_code, reason = "owns host memory that devices write; docs/unsafe.md says why")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use rehal_base::{Error, Range, Result};

/// Alignment of every allocation in bytes: a cache line, and what compiled kernels assume at least.
const ALIGNMENT_BYTES: usize = 64;

/// Zeroed host memory that a device may write behind the host's back.
///
/// No reference to its bytes lives longer than a call here; copies go through raw pointers. As on
/// any device, the program orders its accesses by timepoints: one that reads what an unfinished
/// operation writes gets bytes of either time, never bytes outside of the allocation.
pub struct HostMemory {
    /// What the allocator gave, or dangling where `layout` is of size 0.
    base: NonNull<u8>,
    layout: Layout,
    /// `base` moved up to its alignment.
    data: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns its allocation; all access is by copies through raw pointers under the contract
// above, and freeing needs the only owner.
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
            return Ok(Self { base, layout, data: base, length: 0 });
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
        Ok(Self { base, layout, data, length: length_host })
    }

    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// Where the bytes start. Valid, for reads and writes of `length` bytes, as long as `self`.
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

    /// Copies bytes in.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let target = self.at(offset, source.len() as u64)?;
        // SAFETY: `at` checked the range. A caller that writes a buffer's own bytes to it (through
        // `with_bytes`) overlaps, so this is a move.
        unsafe { std::ptr::copy(source.as_ptr(), target, source.len()) };
        Ok(())
    }

    /// Copies bytes from `source`, which may be the same memory.
    pub fn copy_from(&self, offset: u64, source: &Self, source_offset: u64, length: u64) -> Result<()> {
        let from = source.at(source_offset, length)?;
        let to = self.at(offset, length)?;
        // SAFETY: `at` checked both ranges; `copy` allows them to overlap.
        unsafe { std::ptr::copy(from, to, length as usize) };
        Ok(())
    }

    /// Repeats `pattern` (1, 2, 4 or any number of bytes that divides `length`) over the range.
    pub fn fill(&self, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
        let target = self.at(offset, length)?;
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
        let target = self.at(offset, length)?;
        // SAFETY: as for `with_bytes`, and nobody else accesses the range until the caller signals.
        Ok(write(unsafe { std::slice::from_raw_parts_mut(target, length as usize) }))
    }

    fn at(&self, offset: u64, length: u64) -> Result<*mut u8> {
        match Range::new(offset, length) {
            Some(range) if range.fits(self.length as u64) => {
                // SAFETY: the offset is within the allocation.
                Ok(unsafe { self.data.as_ptr().add(offset as usize) })
            }
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a buffer of {} bytes",
                self.length
            ))),
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: `base` came from the allocator with this layout and is freed once.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
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
}
