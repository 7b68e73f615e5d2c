//! Pages for code: written first, then protected, never both writable and executable.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::platform::Protection;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Mappings up to this size get their pages in the call that makes them: page faults cost more than
/// the few pages of an executable that are never touched.
const POPULATE_LIMIT_BYTES: usize = 256 << 10;

/// A span of anonymous pages, unmapped when dropped.
struct Pages {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the pages belong to this value alone and to no thread.
unsafe impl Send for Pages {}
// SAFETY: shared access only yields addresses.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `base..base + length` is a mapping that `WritableMapping::new` made and nobody
        // else unmaps. An error would leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// Zeroed pages that can be written and not executed.
pub(crate) struct WritableMapping(Pages);

impl WritableMapping {
    /// `length` bytes, a positive multiple of [`PAGE_BYTES`].
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        let mut flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        if length <= POPULATE_LIMIT_BYTES {
            flags |= MapFlags::POPULATE;
        }
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self(Pages { base, length }))
    }

    /// Address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.0.base.as_ptr() as usize
    }

    /// All bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages are mapped readable and writable for as long as this value lives, zeroed
        // by the kernel, and borrowed uniquely through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.base.as_ptr(), self.0.length) }
    }

    /// Gives each run of pages (byte ranges, whole pages) its protection.
    pub(crate) fn protect(self, runs: &[(Range<usize>, Protection)]) -> io::Result<Mapping> {
        for (range, protection) in runs {
            assert!(range.start <= range.end && range.end <= self.0.length, "a run lies in the mapping");
            assert!(range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES));
            let flags = match protection {
                Protection::None => MprotectFlags::empty(),
                Protection::Read => MprotectFlags::READ,
                Protection::ReadWrite => continue,
                Protection::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
            };
            // SAFETY: the range lies in pages that this value owns; it is consumed, so that nobody
            // writes to them as plain memory any more.
            unsafe {
                let start = self.0.base.as_ptr().add(range.start).cast::<c_void>();
                mprotect(start, range.end - range.start, flags)?;
            }
        }
        Ok(Mapping(self.0))
    }
}

/// Pages with their final protections.
pub(crate) struct Mapping(Pages);

impl Mapping {
    /// Address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.0.base.as_ptr() as usize
    }

    /// Number of bytes.
    pub(crate) fn length(&self) -> usize {
        self.0.length
    }
}
