//! Processors of x86-64.

#[cfg(not(any(miri, rehal_portable_memory)))]
pub(crate) mod access;

use std::arch::x86_64::{_mm_clflush, _mm_mfence};

/// All processors with CLFLUSH that are 64-bit evict at least this much.
const LINE_BYTES: usize = 64;

/// Evicts the lines of bytes from the caches of all processors, and writes back modified ones.
///
/// # Safety
/// The bytes are valid for reads. Other threads may access them: eviction changes none.
pub(crate) unsafe fn evict_lines(start: *const u8, length: usize) {
    if length == 0 {
        return;
    }
    let end = start.addr() + length;
    let mut line = start.map_addr(|address| address & !(LINE_BYTES - 1));
    // SAFETY: SSE2 is part of x86-64. Each line has a byte of the range, so its page is mapped.
    unsafe {
        _mm_mfence();
        while line.addr() < end {
            _mm_clflush(line);
            line = line.wrapping_add(LINE_BYTES);
        }
        _mm_mfence();
    }
}
