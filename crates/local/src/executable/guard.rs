//! The crash guard: a kernel that faults ends the process with words instead of a core dump.
//!
//! [`install`] is for tools, once, before anything is dispatched. From then on SIGSEGV, SIGILL,
//! SIGFPE and SIGBUS on a thread that is running a kernel print what ran and where on standard error
//! and end the process with [`EXIT_STATUS`]. A SIGBUS of a file that was truncated while it was mapped names the file,
//! whoever touched it, and ends the process with [`TRUNCATED_STATUS`]. Other faults go to whoever handled them before.
//!
//! The cost per dispatch is two stores to a thread-local; workgroup ids are read from the state that
//! the kernel has anyway. The handler allocates nothing, waits for no lock and formats by hand. What the kernel printed
//! with C's stdio is written out after the report.

mod instruction;
mod report;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use super::abi::{DispatchState, WorkgroupState};
use super::library::Library;
use crate::platform;

/// Exit status of a process that a kernel has crashed.
pub const EXIT_STATUS: i32 = 86;

/// Exit status where the kernel uses an instruction that this CPU does not have: the executable is
/// for another machine, which is wrong input like any other.
pub const WRONG_MACHINE_STATUS: i32 = 1;

/// Exit status where a mapped file ended before the page that was read: that of errors.
pub const TRUNCATED_STATUS: i32 = 1;

/// Installs the guard for the process and arms the calling thread. Later calls only arm.
pub fn install() {
    platform::install_fault_handler(report::report);
}

/// Gives the calling thread a stack of its own for the guard, so that it can also report a kernel
/// that ran out of stack. For threads that run kernels, other than the one that installed the guard.
pub fn arm_thread() {
    platform::arm_thread();
}

/// Says which record of a capture the calling thread is replaying: its ordinal, and its offset in
/// the file in bytes. Two stores; stays until the next call or [`clear_context`].
#[inline]
pub fn set_context(record_ordinal: u64, file_offset: u64) {
    RECORD.set(record_ordinal);
    OFFSET.set(file_offset);
}

/// Says that the calling thread replays no record.
#[inline]
pub fn clear_context() {
    RECORD.set(NO_RECORD);
}

const NO_RECORD: u64 = u64::MAX;

thread_local! {
    static RECORD: Cell<u64> = const { Cell::new(NO_RECORD) };
    static OFFSET: Cell<u64> = const { Cell::new(0) };
    static CURRENT: Cell<*const Current> = const { Cell::new(std::ptr::null()) };
}

/// What messages say of an executable, made when it is loaded.
pub(super) struct Label {
    name: Box<str>,
    label: Box<str>,
    /// Addresses of its code, empty where only the system's loader knows.
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
}

impl Current {
    /// The pointers are read by the handler while a [`watch`] on this lives.
    pub(super) fn new(
        library: &Library,
        ordinal: u32,
        dispatch: &DispatchState,
        workgroup: *const WorkgroupState,
    ) -> Self {
        Self { library, ordinal, dispatch, workgroup }
    }
}

/// Makes `current` what a fault on this thread is about, until the result is dropped.
#[inline]
pub(super) fn watch(current: &Current) -> Watch<'_> {
    let previous = CURRENT.replace(current);
    // The handler reads what the compiler cannot see being read.
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
    }
}
