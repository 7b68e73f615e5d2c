//! Processors of 64-bit ARM.

#[cfg(not(any(miri, rehal_portable_memory)))]
pub(crate) mod access;

use std::arch::asm;

/// Evicts the lines of bytes from the caches of all processors, and writes back modified ones.
///
/// # Safety
/// The bytes are valid for reads, and the system lets programs evict lines
/// ([`Ability::Eviction`](crate::Ability)). Other threads may access the bytes: eviction changes none.
pub(crate) unsafe fn evict_lines(start: *const u8, length: usize) {
    if length == 0 {
        return;
    }
    let cache_type: usize;
    // SAFETY: reads a register that the system lets programs read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags)) };
    // The smallest line of all data caches, as the logarithm of its words of 4 bytes.
    let line_bytes = 4 << (cache_type >> 16 & 0xF);
    let start = start.expose_provenance();
    // SAFETY: each line has a byte of the range, so its page is mapped; to clean and invalidate it changes
    // nothing.
    unsafe {
        asm!("dsb ish", options(nostack, preserves_flags));
        for line in (start / line_bytes * line_bytes..start + length).step_by(line_bytes) {
            asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags));
        }
        asm!("dsb ish", options(nostack, preserves_flags));
    }
}
