//! Calls on another stack.

use std::ffi::c_void;

/// Calls `function(argument)` on another stack, below `top`.
///
/// # Safety
/// `top` is aligned to 16 bytes, and the memory below it is a stack that is not in use. `function` does not
/// unwind.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn switch(
    argument: *mut c_void,
    function: executable_fn!(fn(*mut c_void)),
    top: *mut u8,
) {
    // With a frame pointer, by which debuggers and profilers find the caller.
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "mov rsp, rdx",
        "call rsi",
        // A kernel may have left another direction of string operations.
        "cld",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
    )
}
