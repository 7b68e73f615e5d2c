//! Calls on another stack.

use std::ffi::c_void;

/// Calls `function(argument)` on another stack, below `top`.
///
/// # Safety
/// `top` is aligned to 16 bytes, and the memory below it is a stack that is not in use. `function` does not
/// unwind.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(
    argument: *mut c_void,
    function: executable_fn!(fn(*mut c_void)),
    top: *mut u8,
) {
    // With a frame record, by which debuggers and profilers find the caller.
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "mov sp, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "ret",
    )
}
