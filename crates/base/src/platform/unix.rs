//! Systems of the Unix family.

use std::ffi::c_int;
use std::ptr::NonNull;

/// Size of a page of memory in bytes. Async-signal-safe.
#[inline]
pub fn page_bytes() -> usize {
    #[cfg(test)]
    if let Some(bytes) = PAGE_BYTES.get() {
        return bytes;
    }
    // Linux has one size on this processor; others have several, of which the system chooses.
    if cfg!(target_arch = "x86_64") { 4096 } else { rustix::param::page_size() }
}

#[cfg(test)]
thread_local! {
    /// The size of pages of a system that has larger ones than this one.
    pub(crate) static PAGE_BYTES: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Bytes of memory of the machine; 0 if unknown.
pub fn memory_bytes() -> u64 {
    // SAFETY: the call reads a number.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(page_bytes() as u64)
}

/// Makes the C library's allocator keep the memory that is freed, if it is glibc.
pub(crate) fn keep_freed_memory() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    {
        /// Larger blocks are mapped, and unmapped when they are freed: the most that glibc accepts.
        const MAPPED_BYTES: c_int = 32 << 20;
        // SAFETY: the call changes when memory is returned, under the allocator's lock; -1 is never.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        }
    }
}

fn map(length: usize, access: c_int, flags: c_int) -> Option<NonNull<u8>> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping at an address chosen by the system affects no other memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
    NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED)
}

/// Zeroed pages. If they are not reserved, the system may have less memory.
pub(crate) fn map_pages(length: usize, reserves: bool) -> Option<NonNull<u8>> {
    map(length, libc::PROT_READ | libc::PROT_WRITE, if reserves { 0 } else { libc::MAP_NORESERVE })
}

/// A mapping of which only a range is accessible, `shift` bytes after its start.
pub(crate) fn map_reserved(
    length: usize,
    accessible: impl FnOnce(usize) -> (usize, usize),
) -> Option<(NonNull<u8>, usize)> {
    let mapping = map(length, libc::PROT_NONE, libc::MAP_NORESERVE)?;
    let (shift, bytes) = accessible(mapping.addr().get());
    debug_assert!(shift + bytes <= length);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the pages are within the mapping, which nothing else uses.
    if unsafe { libc::mprotect(mapping.as_ptr().byte_add(shift).cast(), bytes, access) } != 0 {
        // SAFETY: as above.
        unsafe { unmap_pages(mapping, length) };
        return None;
    }
    Some((mapping, shift))
}

/// Unmaps pages.
///
/// # Safety
/// They are a whole mapping of [`map_pages`] or [`map_reserved`], and nothing uses them any more.
pub(crate) unsafe fn unmap_pages(base: NonNull<u8>, length: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::munmap(base.as_ptr().cast(), length) };
}
