//! The crash guard: a kernel that faults ends the process with a report instead of a core dump.
//!
//! Tools call [`install`] once, before any dispatch. From then on SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP and abort(3) on a
//! thread that is running a kernel, and exit(3) there, report the kernel and the fault on standard error and end the process with
//! [`EXIT_STATUS`]. A SIGBUS in a file that was truncated while it was mapped names the file, on any thread, and ends
//! the process with [`TRUNCATED_STATUS`]. Faults of other code that the thread has called with a
//! [`CrashNote`](rehal_base::CrashNote), such as a driver that compiles a kernel, are reported with the note. Other faults are
//! passed to the previous handler; of a thread that has replayed records, the last one is reported before, and of others the
//! [`DriverWork`](rehal_base::DriverWork) in flight.
//!
//! The cost per dispatch is two stores to a thread-local; workgroup ids are read from the kernel's own state.
//! The handler does not allocate, block or use formatting. C stdio output of the kernel is flushed after the
//! report. Temporary files and directories of results are removed ([`RemovedOnCrash`]). Where a device is to abort on failure,
//! a crash of its kernel ends in abort(3) after the report instead ([`AbortScope`]).

mod instruction;
mod report;
mod watchdog;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use super::abi::{DispatchState, WorkgroupState};
use super::library::Library;
use crate::platform;

pub(crate) use watchdog::Timed;
pub use watchdog::{describe_running, end_after};

/// Exit status of a process whose kernel crashed, or code that was called with a [`CrashNote`](rehal_base::CrashNote).
pub const EXIT_STATUS: i32 = 86;

/// Exit status if the kernel uses an instruction that this CPU lacks: the executable is for another machine,
/// which is invalid input.
pub const WRONG_MACHINE_STATUS: i32 = 1;

/// Exit status if a mapped file was truncated before the accessed page: that of errors.
pub const TRUNCATED_STATUS: i32 = 1;

/// Exit status if a dispatch runs for longer than [`end_after`] allows: that of errors.
pub const TIMEOUT_STATUS: i32 = 1;

/// Names of the options of a program, for reports.
#[derive(Clone, Copy, Debug)]
pub struct OptionNames {
    /// The size of the stack of kernels.
    pub stack: &'static str,
    /// The time that a dispatch may take.
    pub timeout: &'static str,
}

static OPTIONS: OnceLock<OptionNames> = OnceLock::new();

/// Sets the names of the options, once.
pub fn name_options(names: OptionNames) {
    let _ = OPTIONS.set(names);
}

/// From now on, when the guard ends the process, it first writes the exit status to this file, as a byte: a process that is ended by a
/// kernel does not.
pub fn announce_exits(to: OwnedFd) {
    platform::announce_exits(to);
}

/// Installs the guard for the process and arms the calling thread. Later calls only arm.
pub fn install() {
    platform::install_fault_handler(report::report);
}

/// A file or directory that the guard removes when it ends the process, for as long as this lives: a temporary one of a result that
/// is then never complete.
pub struct RemovedOnCrash(#[expect(dead_code, reason = "dropped with it")] platform::RemovedFile);

impl RemovedOnCrash {
    /// For the file at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self(platform::RemovedFile::new(path))
    }

    /// For the directory at `path` with all files and directories that it then contains, at most 8 levels deep. Need not exist yet.
    pub fn directory(path: &Path) -> Self {
        Self(platform::RemovedFile::directory(path))
    }
}

/// Installs a signal stack for the calling thread, so that a stack overflow of a kernel can be reported too.
/// For threads that run kernels, except the one that installed the guard.
pub fn arm_thread() {
    platform::arm_thread();
}

/// Sets the capture record that the calling thread is replaying: its ordinal, and its offset in the file in
/// bytes. Two stores; valid until the next call or [`clear_context`].
#[inline]
pub fn set_context(record_ordinal: u64, file_offset: u64) {
    RECORD.set(record_ordinal);
    OFFSET.set(file_offset);
}

/// Clears the record of the calling thread.
#[inline]
pub fn clear_context() {
    RECORD.set(NO_RECORD);
}

/// The record that the calling thread is replaying, for the thread that runs its work later: [`RecordScope::enter`].
#[inline]
pub(crate) fn record() -> [u64; 2] {
    [RECORD.get(), OFFSET.get()]
}

/// A record as errors name it; `None` if there is none.
pub(crate) fn describe_record([ordinal, offset]: [u64; 2]) -> Option<String> {
    (ordinal != NO_RECORD).then(|| format!("record #{ordinal}, offset {offset}"))
}

/// While it lives, the calling thread runs work of another record: that of the submission. Faults name it.
pub(crate) struct RecordScope {
    previous: [u64; 2],
}

impl RecordScope {
    /// Sets what [`record`] returned when the work was submitted.
    #[inline]
    pub(crate) fn enter(record: [u64; 2]) -> Self {
        let previous = self::record();
        set_context(record[0], record[1]);
        Self { previous }
    }
}

impl Drop for RecordScope {
    #[inline]
    fn drop(&mut self) {
        set_context(self.previous[0], self.previous[1]);
    }
}

/// While it lives, it is that of the device whose work the calling thread executes: whether a kernel that crashes aborts the process
/// after the report, instead of ending it with [`EXIT_STATUS`]. Work may make that of another device ready, on the same thread.
pub(crate) struct AbortScope {
    previous: bool,
}

impl AbortScope {
    /// For work of a device that aborts on failure, or does not.
    #[inline]
    pub(crate) fn enter(aborts: bool) -> Self {
        Self { previous: ABORTS.replace(aborts) }
    }
}

impl Drop for AbortScope {
    #[inline]
    fn drop(&mut self) {
        ABORTS.set(self.previous);
    }
}

const NO_RECORD: u64 = u64::MAX;

thread_local! {
    static ABORTS: Cell<bool> = const { Cell::new(false) };
    static RECORD: Cell<u64> = const { Cell::new(NO_RECORD) };
    static OFFSET: Cell<u64> = const { Cell::new(0) };
    static CURRENT: Cell<*const Current> = const { Cell::new(std::ptr::null()) };
}

/// The description of an executable in messages, built when it is loaded.
pub(super) struct Label {
    name: Box<str>,
    label: Box<str>,
    /// Addresses of its code, empty if known only to the system's loader.
    memory: Range<usize>,
}

impl Label {
    pub(super) fn new(name: &str, label: &str, memory: Range<usize>) -> Self {
        Self { name: name.into(), label: label.into(), memory }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The dispatch that a thread is running, on that thread's stack.
pub(super) struct Current {
    library: *const Library,
    ordinal: u32,
    dispatch: *const DispatchState,
    workgroup: *const WorkgroupState,
    /// The size of the stack that it runs on.
    stack_bytes: usize,
}

impl Current {
    /// The handler reads the pointers while a [`watch`] on this lives.
    pub(super) fn new(
        library: &Library,
        ordinal: u32,
        dispatch: &DispatchState,
        workgroup: *const WorkgroupState,
        stack_bytes: usize,
    ) -> Self {
        Self { library, ordinal, dispatch, workgroup, stack_bytes }
    }
}

/// Makes `current` the dispatch of this thread's faults, until the result is dropped.
#[inline]
pub(super) fn watch(current: &Current) -> Watch<'_> {
    // The compiler cannot see the handler's reads. A signal that asks what runs may come between any two instructions.
    compiler_fence(Ordering::SeqCst);
    let previous = CURRENT.replace(current);
    compiler_fence(Ordering::SeqCst);
    Watch { previous, _current: PhantomData }
}

/// See [`watch`].
pub(super) struct Watch<'a> {
    previous: *const Current,
    _current: PhantomData<&'a Current>,
}

impl Drop for Watch<'_> {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        CURRENT.set(self.previous);
        compiler_fence(Ordering::SeqCst);
    }
}
