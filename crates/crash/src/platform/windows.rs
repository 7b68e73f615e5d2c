//! Windows: no fault is handled. A tool runs kernels in a process of its own, and the one that has started it
//! says by what exception it ended.

use std::ffi::c_int;

use crate::platform::Fault;
use crate::removal::remove_after_crash;

/// A handle that this process owns.
pub(crate) type OwnedStream = std::os::windows::io::OwnedHandle;

/// Nothing is held: a handler of Ctrl-C runs on a thread of its own.
pub struct HeldSignals(());

impl HeldSignals {
    /// Has no effect.
    pub fn hold() -> Self {
        Self(())
    }
}

pub(crate) fn is_ignored(_signal: c_int) -> bool {
    false
}

pub(crate) fn install_handlers(_report: fn(&Fault<'_>) -> bool, _interrupted: fn(usize)) {}

/// None is trapped.
pub(crate) const METADATA_CALLS: [std::ffi::c_long; 0] = [];

pub(crate) fn answer_metadata() {}

pub(crate) fn handles_faults() -> bool {
    false
}

/// # Safety
/// Nothing is called here.
pub(crate) unsafe fn allow_accesses(_allow: fn(usize) -> bool) {}

pub(crate) fn arm_thread() {}

/// A process has no one to tell: its own exit code is what counts.
pub(crate) fn announce_exits(_to: OwnedStream) {}

pub(crate) fn announce(_status: u8) {}

/// A thread that runs machine code is not interrupted: what runs is known without it.
pub(crate) fn interrupt_thread(_thread: i32) -> bool {
    false
}

pub(crate) fn thread_id() -> i32 {
    rehal_base::platform::thread_id() as i32
}

/// Only a handler of faults would ask for it.
pub(crate) fn thread_name() -> [u8; 0] {
    []
}

pub(crate) fn write_stderr(bytes: &[u8]) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), bytes);
}

/// Embedded executables do not use the C library.
pub(crate) fn flush_c_streams() {}

pub(crate) fn flush_after_crash(_status: i32) {}

pub(crate) fn exit_now(status: i32) -> ! {
    remove_after_crash();
    std::process::exit(status)
}

pub(crate) fn abort_now() -> ! {
    remove_after_crash();
    std::process::abort()
}

/// No other process reads it.
pub(crate) fn shared_zeros() -> std::io::Result<&'static crate::BlackBox> {
    Err(std::io::ErrorKind::Unsupported.into())
}
