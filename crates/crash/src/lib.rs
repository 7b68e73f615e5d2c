//! Reports and removals of a process that ends early: reports of crashes, timeouts and interruptions that
//! name the kernel, and temporary files.
//!
//! A program that owns its process opts in by [`install`]: without that, no signal handler is replaced, and
//! nothing here ends the process. The crate must not depend on a driver: those describe the kernels that
//! their threads [`run`] by [`Running`]. Drivers, recorders and tools use it.
//!
//! Once installed, SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP and abort(3) on a thread that is running a
//! kernel, and exit(3) there, report the kernel and the fault on standard error and end the process with
//! [`EXIT_STATUS`]. A SIGBUS in a file that was truncated while it was mapped names the file, on any thread,
//! and ends the process with [`TRUNCATED_STATUS`]. Faults of other code that the thread has called with a
//! [`CrashNote`], such as a driver that compiles a kernel, are reported with the note. Other faults are
//! passed to the previous handler. Before that, the last record of the thread is reported if it has replayed
//! one, otherwise the [`DriverWork`] in flight.
//!
//! The cost of [`run`] is two stores to a thread-local, and the name of the function if the process has a
//! [`BlackBox`]; workgroup ids are read from the kernel's own state.
//! The handler does not allocate, block or use formatting. C stdio output of the kernel is flushed after the
//! report, [`BackgroundWriter`]s complete what they write, and what has a [`Removal`] is removed: temporary
//! files and directories, and processes. Where a device is to abort on failure, a crash of its kernel ends in
//! abort(3) after the report instead ([`AbortScope`]).
//!
//! # State of the process
//!
//! All state of the workspace that belongs to the process or to a thread, and that changes, is in this table;
//! `cargo xtask tidy` checks it. Besides, [`install`] sets actions of signals and a function of atexit(3),
//! [`answer_metadata`] sets that of SIGSYS, and threads that run kernels get a signal stack. Loaded libraries
//! stay loaded. Nothing else is set for the whole process, unless a tool does it: tools handle SIGINT,
//! SIGTERM and SIGHUP, and set the allocator's thresholds.
//!
//! | place | state | what it is for |
//! | --- | --- | --- |
//! | `base/memory/guarded.rs` | `SPARE` | pages of guarded buffers, to be used again |
//! | `base/memory/pages.rs` | `RANGES` | how many ranges of files are mapped |
//! | `base/memory/spare.rs` | `SPARE` | freed blocks, to be used again |
//! | `capi/fork.rs` | `PROCESS`, `CALLS`, `HAS_THREADS`, `DEPTH` | whether a child after fork may call |
//! | `capi/handle.rs` | `GRAVES` | freed handles of debug builds, which stay allocated |
//! | `cli/kernel_recording.rs` | `NAME` | the directory in which confined code records kernels |
//! | `cli/output_file.rs` | `PREPARED`, `FINISHED` | outputs that are opened before the process is confined |
//! | `jobs/platform/unix/interrupts.rs` | `FLAG`, `HANDLER` | signals of a tool |
//! | `cli/platform/unix/at_start.rs` | `WAS_CLOSED` | standard output before `main` |
//! | `crash/background_writer.rs` | `WRITERS` | writers that a crash waits for |
//! | `crash/black_box.rs` | `IN_USE`, `SLOT`, `OWNED` | what threads run, for the parent of the process |
//! | `crash/context.rs` | `ABORTS`, `RECORD`, `OFFSET` | what a thread works for |
//! | `crash/crash_note.rs` | `IS_CHANGING`, `CURRENT` | foreign code that a thread calls |
//! | `crash/driver_work.rs` | `COUNT`, `LAST`, `IS_WRITING` | work of drivers in flight |
//! | `crash/guard.rs` | `OPTIONS`, `IS_INSTALLED` | what the program has opted into |
//! | `crash/platform/linux/c_stdio.rs` | `stdout`, `STATUS` | C's stream, and the status after a second fault |
//! | `crash/platform/linux/fault.rs` | `INSTALLED`, `ONCE`, `ALLOW`, `STACK` | handlers of faults, signal stacks |
//! | `crash/platform/unix.rs` | `ANNOUNCED` | where the exit status is said |
//! | `crash/platform/linux/interrupt.rs` | `REPORT` | handler of SIGURG |
//! | `crash/removal.rs` | `FIRST`, `CHANGES` | what is removed when the process is ended |
//! | `crash/report.rs` | `IS_ENDING` | one thread ends the process |
//! | `crash/running.rs` | `CURRENT` | the kernel that a thread runs |
//! | `crash/watchdog.rs` | `LIMIT_NS`, `SLOTS`, `ENDS`, `HAS_SAID`, `HANDLED`, `IS_WATCHED`, `START`, `SLOT` | timeouts of dispatches |
//! | `cts/discrete/buffer.rs` | `COUNT` | differing contents of new buffers |
//! | `hal/buffer.rs` | `LAST_ID` | ids of buffers |
//! | `hal/callbacks.rs` | `OWED` | callbacks that a thread owes |
//! | `hal/command_buffer.rs` | `LAST_ID` | ids of command buffers |
//! | `hal/executable.rs` | `LAST_ID` | ids of executables |
//! | `hal/profile/clock.rs` | `RESOLUTION_NS`, `READING_NS` | the clock's resolution and the cost of reading it, measured once |
//! | `hal/profile/identity.rs` | `REPLAYED_RECORD` | the record that a thread replays |
//! | `hal/profile/session.rs` | `LAST_ID` | ids of sessions |
//! | `hal/semaphore.rs` | `LAST_ID` | ids of semaphores |
//! | `local/command.rs` | `SPARE` | command buffers of a thread, to be used again |
//! | `local/emulator/findings.rs` | `FOUND` | errors that emulated devices found in kernels |
//! | `local/executable/image_cache.rs` | `CACHE` | images that are loaded again |
//! | `local/executable/local_executable.rs` | `LOCAL_MEMORY` | memory of workgroups on a thread |
//! | `local/executable/perf/mod.rs` | `FILES` | files of the process for profilers |
//! | `local/executable/processor.rs` | `FEATURES` | features of the CPU, read once |
//! | `local/executable/vmvx/module.rs` | `SCRATCH` | memory of bytecode kernels on a thread |
//! | `local/platform/unix/kernel_stack.rs` | `SPARE`, `IN_USE` | stacks of kernels |
//! | `local/platform/unix/library_file.rs` | `NEXT` | names of files |
//! | `local/platform/unix/open_library.rs` | `ONCE` | libraries that executables need are loaded once |
//! | `local/platform/x86_64/vectors.rs` | `WIDTH` | the CPU's vectors, read once |
//! | `local/platform/unix/watched_pages.rs` | `SLOTS`, `HANDLING` | pages that are watched, by the handler of SIGSEGV |
//! | `local/profile.rs` | `LAST_NS` | times of a thread's events increase |
//! | `local/task/role.rs` | `WORKER`, `HELPED`, `LAST` | the role of a thread; ids of groups of workers |
//! | `replay/record/rename.rs` | `SCRATCH` | memory of a thread's records |
//! | `replay/record/stream.rs` | `ID` | the id of a thread |
//! | `kernels/kernels.rs` | `CORES` | the number of cores, read once |
//! | `base/parallel.rs` | `POOL` | threads that copy, compare and digest |
//! | `jobs/platform/unix/fork.rs` | `EMULATOR_THREADS` | threads that are not the program's |
//! | `jobs/worker.rs` | `IS_WORKER` | whether this process is a worker |
//! | `jobs/platform/unix/group.rs` | `WATCHDOG_PROCESS` | what ends processes that this one has started |
//! | `jobs/platform/windows/interrupts.rs` | `FLAG`, `WAITS`, `ONCE` | Ctrl-C |
//! | `local/platform/windows/kernel_stack.rs` | `SPARE` | stacks of kernels |
//! | `vulkan/gpu.rs` | `DEVICES` | devices that are open |
//! | `vulkan/memory/block.rs` | `MAPPINGS`, `LAST_ID` | mappings of emulated devices; ids of blocks |

#![deny(unsafe_code)]

mod background_writer;
mod black_box;
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
pub use black_box::{BlackBox, Bytecode, RunningThread, note_step};
pub use context::{AbortScope, RecordScope, clear_context, describe_record, record, set_context};
pub use crash_note::CrashNote;
pub use driver_work::DriverWork;
pub use guard::{
    EXIT_STATUS, OptionNames, TIMEOUT_STATUS, TRUNCATED_STATUS, WRONG_MACHINE_STATUS, announce_exits,
    announce_signal, arm_thread, handles_faults, is_installed, name_options, status_of_signal,
};
pub use platform::HeldSignals;
pub use removal::{Removal, Stays, change, forget_removals, remove_all};
pub use running::{Running, run};
pub use text::Text;
pub use watchdog::{Timed, describe_running, end_after};

/// Installs the guard for the process, and a signal stack for the calling thread. Later calls only do the
/// latter.
///
/// This is the opt-in of a program: it replaces the process's actions for SIGSEGV, SIGILL, SIGFPE, SIGBUS,
/// SIGABRT, SIGTRAP and SIGURG, and registers a function with atexit(3). Faults that are not the guard's are
/// passed to the previous actions; a SIGURG of another sender is not.
pub fn install() {
    platform::install_handlers(report::report, watchdog::handle);
    guard::set_installed();
    arm_thread();
}

/// Answers the system calls that ask for metadata of files, for a process whose filter of system calls traps
/// them: only of files that it may read. Returns the numbers of these calls. Sets the action for SIGSYS.
pub fn answer_metadata() -> &'static [std::ffi::c_long] {
    platform::answer_metadata();
    &platform::METADATA_CALLS
}

/// Flushes C's stdio streams, to which executables and plugins print and whose buffers are separate from
/// Rust's. Call it before printing, so that their output comes first.
pub fn flush_c_streams() {
    platform::flush_c_streams();
}

/// Whether the process ignores a signal, such as SIGHUP under nohup(1).
pub fn is_ignored(signal: std::ffi::c_int) -> bool {
    platform::is_ignored(signal)
}

/// Sets the function that decides about each access to protected memory before it becomes a fault. It returns
/// true if the access is now allowed, and is to be repeated. The process has one such function.
///
/// # Safety
/// The function is called in a signal handler: it only makes async-signal-safe calls.
#[allow(unsafe_code, reason = "sets a function that a signal handler calls; see docs/unsafe.md")]
pub unsafe fn allow_accesses(allow: fn(usize) -> bool) {
    // SAFETY: guaranteed by the caller.
    unsafe { platform::allow_accesses(allow) }
}
