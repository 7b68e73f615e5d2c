//! Pages for code: written, then protected, never both writable and executable.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use rehal_base::page_bytes;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

use crate::platform::system::POPULATED;
use crate::platform::{Protection, publish_code};

/// Mappings up to this size are populated when created: page faults cost more than the few pages of an
/// executable that are never accessed.
const POPULATE_LIMIT_BYTES: usize = 256 << 10;

/// A span of anonymous pages, unmapped when dropped.
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
        // SAFETY: `base..base + length` is a mapping that `WritableMapping::new` created and only this drop
        // unmaps. On an error it stays mapped, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// Zeroed pages, writable but not executable.
pub(crate) struct WritableMapping(Pages);

impl WritableMapping {
    /// `length` bytes, a positive multiple of [`page_bytes`].
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        let mut flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        if length <= POPULATE_LIMIT_BYTES {
            flags |= POPULATED;
        }
        // SAFETY: a fresh anonymous mapping at an address chosen by the kernel affects no other memory.
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
        // SAFETY: the pages are mapped readable and writable while this value lives, zeroed by the kernel,
        // and exclusively borrowed through `self`.
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
                Protection::None => MprotectFlags::empty(),
                Protection::Read => MprotectFlags::READ,
                Protection::ReadWrite => continue,
                Protection::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
            };
            // SAFETY: the range is in pages owned by this value; consuming it prevents further writes to them
            // as plain memory.
            unsafe {
                let start = self.0.base.as_ptr().add(range.start).cast::<c_void>();
                mprotect(start, range.end - range.start, flags)?;
            }
        }
        Ok(Mapping(self.0))
    }
}

/// Maps the first page of a file executable until the process ends: `perf` records such mappings, and finds a
/// jitdump file by them. Nothing executes or reads that page.
pub(crate) fn announce_to_perf(file: &File) -> io::Result<()> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE);
    // SAFETY: a fresh mapping at an address chosen by the kernel affects no other memory.
    unsafe { mmap(std::ptr::null_mut(), page_bytes(), protection, flags, file, 0)? };
    Ok(())
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
