//! The registers of 64-bit ARM.

use std::ffi::{c_int, c_long};

use libc::ucontext_t;

/// Length of an instruction in bytes.
pub(super) const INSTRUCTION_BYTES: usize = 4;

/// How far the address after a breakpoint is from it: the system reports that of the breakpoint.
pub(super) const BREAKPOINT_BYTES: usize = 0;

/// Bytes of a signal frame beyond those of a handler's stack: vectors of SVE, and up to 64 KiB of SME.
pub(super) fn extra_frame_bytes() -> usize {
    /// The entry of the auxiliary vector (linux/auxvec.h).
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: the call reads what the system has passed to the process.
    unsafe { libc::getauxval(AT_MINSIGSTKSZ) as usize }.next_multiple_of(16)
}

/// The address of the next instruction.
pub(super) fn instruction(context: &ucontext_t) -> usize {
    context.uc_mcontext.pc as usize
}

pub(super) fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

/// The arguments of a system call.
pub(super) fn arguments(context: &ucontext_t) -> [i64; 5] {
    std::array::from_fn(|index| context.uc_mcontext.regs[index] as i64)
}

/// The number of a system call.
pub(super) fn number(context: &ucontext_t) -> c_long {
    context.uc_mcontext.regs[8] as c_long
}

pub(super) fn set_result(context: &mut ucontext_t, result: i64) {
    context.uc_mcontext.regs[0] = result as u64;
}

/// The system calls that ask for metadata of a path.
pub(crate) const METADATA_CALLS: [c_long; 2] = [libc::SYS_newfstatat, libc::SYS_statx];

/// Both have a directory.
pub(super) fn flags_of(_call: c_long) -> Option<c_int> {
    None
}
