//! What a process says and removes when it ends early: reports of crashes, timeouts and interruptions that name the kernel, and
//! temporary files.
//!
//! A program that owns its process opts in by [`install`]: without that, no signal handler is replaced, and nothing here ends the
//! process. The crate must not depend on a driver: those describe the kernels that their threads [`run`] by [`Running`]. Drivers,
//! recorders and tools use it.
//!
//! Once installed, SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP and abort(3) on a thread that is running a kernel, and exit(3) there,
//! report the kernel and the fault on standard error and end the process with [`EXIT_STATUS`]. A SIGBUS in a file that was truncated
//! while it was mapped names the file, on any thread, and ends the process with [`TRUNCATED_STATUS`]. Faults of other code that the
//! thread has called with a [`CrashNote`], such as a driver that compiles a kernel, are reported with the note. Other faults are
//! passed to the previous handler; of a thread that has replayed records, the last one is reported before, and of others the
//! [`DriverWork`] in flight.
//!
//! The cost per dispatch is two stores to a thread-local; workgroup ids are read from the kernel's own state. The handler does not
//! allocate, block or use formatting. C stdio output of the kernel is flushed after the report, [`BackgroundWriter`]s complete what
//! they write, and what has a [`Removal`] is removed: temporary files and directories, and processes. Where a device is to abort on
//! failure, a crash of its kernel ends in abort(3) after the report instead ([`AbortScope`]).

#![deny(unsafe_code)]

mod background_writer;
mod context;
mod crash_note;
mod driver_work;
mod guard;
mod platform;
#[allow(unsafe_code, reason = "is a list for signal handlers; see docs/unsafe.md")]
mod removal;
mod report;
#[allow(unsafe_code, reason = "keeps a pointer for a signal handler; see docs/unsafe.md")]
mod running;
mod text;
mod watchdog;

pub use background_writer::BackgroundWriter;
pub use context::{AbortScope, RecordScope, clear_context, describe_record, record, set_context};
pub use crash_note::CrashNote;
pub use driver_work::DriverWork;
pub use guard::{
    EXIT_STATUS, OptionNames, TIMEOUT_STATUS, TRUNCATED_STATUS, WRONG_MACHINE_STATUS, announce_exits,
    arm_thread, handles_faults, install, is_installed, name_options,
};
pub use removal::{Removal, Stays, change, remove_all};
pub use running::{Running, run};
pub use text::Text;
pub use watchdog::{Timed, describe_running, end_after};

/// Flushes C's stdio streams, to which executables and plugins print and whose buffers are separate from Rust's. Call it
/// before printing, so that their output comes first.
pub fn flush_c_streams() {
    platform::flush_c_streams();
}

/// Sets what is asked about each access to memory that is protected, before it is a fault: true if the access is now allowed, and to
/// be repeated. One function for the process.
///
/// # Safety
/// The function is called in a signal handler: it only makes async-signal-safe calls.
#[allow(unsafe_code, reason = "sets a function that a signal handler calls; see docs/unsafe.md")]
pub unsafe fn allow_accesses(allow: fn(usize) -> bool) {
    // SAFETY: guaranteed by the caller.
    unsafe { platform::allow_accesses(allow) }
}
