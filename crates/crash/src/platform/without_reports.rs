//! Systems on which the handlers of faults have not been tried: a kernel that crashes ends the process by a
//! signal, which names no kernel.

use crate::platform::Fault;

pub(crate) fn install_handlers(_report: fn(&Fault<'_>) -> bool, _interrupted: fn(usize)) {}

/// None is trapped here.
pub(crate) const METADATA_CALLS: [std::ffi::c_long; 0] = [];

pub(crate) fn answer_metadata() {}

pub(crate) fn handles_faults() -> bool {
    false
}

/// # Safety
/// Nothing is called here.
pub(crate) unsafe fn allow_accesses(_allow: fn(usize) -> bool) {}

pub(crate) fn arm_thread() {}

pub(crate) fn interrupt_thread(_thread: i32) -> bool {
    false
}

pub(crate) fn thread_id() -> i32 {
    0
}

/// No report names a thread.
pub(crate) fn thread_name() -> [u8; 0] {
    []
}

pub(crate) fn flush_after_crash(_status: i32) {}
