//! Fallback for all other platforms: no kernel runs there, so none can fault.

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

pub(crate) fn announce_exits(_to: std::os::fd::OwnedFd) {}

pub(crate) fn announce(_status: u8) {}

pub(crate) fn interrupt_thread(_thread: i32) -> bool {
    false
}

pub(crate) fn thread_id() -> i32 {
    0
}

/// Nothing crashes here.
pub(crate) fn thread_name() -> [u8; 0] {
    []
}

pub(crate) fn write_stderr(bytes: &[u8]) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), bytes);
}

/// No native code runs here, so nothing was printed.
pub(crate) fn flush_c_streams() {}

pub(crate) fn flush_after_crash(_status: i32) {}

pub(crate) fn exit_now(status: i32) -> ! {
    std::process::exit(status)
}

pub(crate) fn abort_now() -> ! {
    std::process::abort()
}

/// No kernel runs here.
pub(crate) fn shared_zeros() -> std::io::Result<&'static crate::BlackBox> {
    Err(std::io::ErrorKind::Unsupported.into())
}
