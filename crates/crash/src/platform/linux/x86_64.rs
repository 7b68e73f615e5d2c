//! The registers of x86-64.

use std::ffi::{c_int, c_long};

use libc::ucontext_t;

/// Longest instruction in bytes.
pub(super) const INSTRUCTION_BYTES: usize = 15;

/// How far the address after a breakpoint, of one byte, is from the breakpoint.
pub(super) const BREAKPOINT_BYTES: usize = 1;

/// Bytes of a signal frame beyond those of a handler's stack. With AVX-512 and AMX, it takes 11 KiB.
pub(super) fn extra_frame_bytes() -> usize {
    0
}

/// The address of the next instruction.
pub(super) fn instruction(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
}

pub(super) fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

/// The arguments of a system call.
pub(super) fn arguments(context: &ucontext_t) -> [i64; 5] {
    [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8]
        .map(|register| context.uc_mcontext.gregs[register as usize])
}

/// The number of a system call.
pub(super) fn number(context: &ucontext_t) -> c_long {
    context.uc_mcontext.gregs[libc::REG_RAX as usize]
}

pub(super) fn set_result(context: &mut ucontext_t, result: i64) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = result;
}

/// The system calls that ask for metadata of a path.
pub(crate) const METADATA_CALLS: [c_long; 4] =
    [libc::SYS_stat, libc::SYS_lstat, libc::SYS_newfstatat, libc::SYS_statx];

/// The flags of one that has a path without a directory.
pub(super) fn flags_of(call: c_long) -> Option<c_int> {
    match call {
        libc::SYS_stat => Some(0),
        libc::SYS_lstat => Some(libc::AT_SYMLINK_NOFOLLOW),
        _ => None,
    }
}
