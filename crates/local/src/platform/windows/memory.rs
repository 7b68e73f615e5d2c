//! Pages for code: written, then protected, never both writable and executable.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use rehal_base::page_bytes;
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_EXECUTE_READ, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE,
    VirtualAlloc, VirtualFree, VirtualProtect,
};

use crate::platform::{Protection, publish_code};

/// A span of pages, freed when dropped.
struct Pages {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the pages belong to this value alone and are not bound to a thread.
unsafe impl Send for Pages {}
// SAFETY: shared access only yields addresses.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `WritableMapping::new` allocated the pages, and only this drop frees them.
        unsafe { VirtualFree(self.base.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}

/// Zeroed pages, writable but not executable.
pub(crate) struct WritableMapping(Pages);

impl WritableMapping {
    /// `length` bytes, a positive multiple of [`page_bytes`].
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        // SAFETY: fresh pages at an address chosen by the system affect no other memory.
        let base =
            unsafe { VirtualAlloc(std::ptr::null(), length, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self(Pages { base, length }))
    }

    /// Address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.0.base.as_ptr() as usize
    }

    /// All bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages are readable and writable while this value lives, zeroed by the system, and
        // exclusively borrowed through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.base.as_ptr(), self.0.length) }
    }

    /// Sets the protection of each run of pages (page-aligned byte ranges).
    pub(crate) fn protect(mut self, runs: &[(Range<usize>, Protection)]) -> io::Result<Mapping> {
        for (range, protection) in runs {
            assert!(range.start <= range.end && range.end <= self.0.length, "a run is within the mapping");
            assert!(range.start.is_multiple_of(page_bytes()) && range.end.is_multiple_of(page_bytes()));
            if *protection == Protection::ReadExecute {
                publish_code(&self.bytes_mut()[range.clone()]);
            }
            let flags = match protection {
                Protection::None => PAGE_NOACCESS,
                Protection::Read => PAGE_READONLY,
                Protection::ReadWrite => continue,
                Protection::ReadExecute => PAGE_EXECUTE_READ,
            };
            let (length, mut before) = (range.end - range.start, 0);
            // SAFETY: the range is in pages owned by this value; consuming it prevents further writes to them
            // as plain memory.
            let is_set = length == 0
                || unsafe {
                    let start = self.0.base.as_ptr().add(range.start).cast();
                    VirtualProtect(start, length, flags, &raw mut before) != 0
                };
            if !is_set {
                return Err(io::Error::last_os_error());
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
