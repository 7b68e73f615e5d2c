//! The guard of the process: what it is asked to do, and the exit statuses that it ends the process with.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::platform;

/// Exit status of a process whose kernel crashed, or code that was called with a
/// [`CrashNote`](crate::CrashNote).
pub const EXIT_STATUS: i32 = 86;

/// Exit status if the kernel uses an instruction that this CPU lacks: the executable is for another machine,
/// which is invalid input.
pub const WRONG_MACHINE_STATUS: i32 = 1;

/// Exit status if a mapped file was truncated before the accessed page: that of errors.
pub const TRUNCATED_STATUS: i32 = 1;

/// Exit status if a dispatch runs for longer than [`end_after`](crate::end_after) allows: that of errors.
pub const TIMEOUT_STATUS: i32 = 1;

/// Names of the options of a program, for reports.
#[derive(Clone, Copy, Debug)]
pub struct OptionNames {
    /// The size of the stack of kernels.
    pub stack: &'static str,
    /// The time that a dispatch may take.
    pub timeout: &'static str,
}

pub(crate) static OPTIONS: OnceLock<OptionNames> = OnceLock::new();

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// Sets the names of the options, once.
pub fn name_options(names: OptionNames) {
    let _ = OPTIONS.set(names);
}

/// From now on, when the guard ends the process, it first writes the exit status to this file, as a byte. A
/// process that a kernel ends does not. If a signal ends the process after a report, the byte is
/// [`status_of_signal`].
pub fn announce_exits(to: platform::OwnedStream) {
    platform::announce_exits(to);
}

/// Says, where [exits are announced](announce_exits), that this signal is about to end the process, which has
/// reported why.
pub fn announce_signal(signal: c_int) {
    platform::announce(status_of_signal(signal));
}

/// The exit status that stands for the end by a signal, as in shells.
pub fn status_of_signal(signal: c_int) -> u8 {
    128_u8.wrapping_add(signal as u8)
}

/// Called by [`install`](crate::install).
pub(crate) fn set_installed() {
    IS_INSTALLED.store(true, Ordering::Release);
}

/// Whether the program has called [`install`](crate::install).
pub fn is_installed() -> bool {
    IS_INSTALLED.load(Ordering::Acquire)
}

/// Whether faults of this process reach the guard: it is installed, and its handler has not been replaced
/// since.
pub fn handles_faults() -> bool {
    platform::handles_faults()
}

/// Installs a signal stack for the calling thread, so that a stack overflow of a kernel can be reported too;
/// without effect if the guard is not installed. For threads that run kernels, except the one that installed
/// the guard.
pub fn arm_thread() {
    if is_installed() {
        platform::arm_thread();
    }
}
