//! Code that is written, and then fetched as instructions (source: the chapter on caches of the Arm
//! Architecture Reference Manual).

use std::arch::asm;
use std::ops::Range;

/// Makes code that was written visible to the instruction fetch of all processors: writes its lines back from
/// the data cache, then drops them from the instruction caches.
pub(crate) fn publish_code(code: &[u8]) {
    let cache_type: usize;
    // SAFETY: reads a register that the system lets programs read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags)) };
    let code = code.as_ptr_range();
    let code = code.start.addr()..code.end.addr();
    // The register has the smallest lines of both caches, as the logarithm of their 4-byte words.
    let lines = |shift: u32| lines(&code, 4 << (cache_type >> shift & 0xF));
    // SAFETY: these change no byte, and the lines contain bytes of a slice, so they are mapped.
    unsafe {
        for line in lines(16) {
            asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags));
        }
        asm!("dsb ish", options(nostack, preserves_flags));
        for line in lines(0) {
            asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags));
        }
        asm!("dsb ish", "isb", options(nostack, preserves_flags));
    }
}

/// The addresses of the lines of this length that contain a part of the range.
fn lines(range: &Range<usize>, length: usize) -> impl Iterator<Item = usize> + use<> {
    (range.start / length * length..range.end).step_by(length)
}
