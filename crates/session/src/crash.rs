use std::os::fd::OwnedFd;
use std::time::Duration;

use rehal_base::Result;
use rehal_local::executable::guard;
use rehal_replay::{Observer, RecordLocation};

use crate::CrashOptionNames;

/// Crash reports for kernels, for programs that own their process, such as tools.
///
/// Once installed, a SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP or SIGABRT in a kernel ends the process with a message that names the
/// executable, function, workgroup and address, and with [`CrashReports::EXIT_STATUS`]. A SIGBUS in a mapped file
/// that another process truncated ends it with a message that names the file, and with
/// [`CrashReports::TRUNCATED_STATUS`]. A crash of other code that was called with a [`CrashNote`](rehal_base::CrashNote), such as the
/// compiler of a driver, ends as one in a kernel. Other crashes are passed to the previous handlers, after a message in threads that have
/// replayed records. As an [`Observer`] of a replay, it adds the record to the messages: that of the submission, or that of the dispatch
/// if another observer wants operations, so that commands are performed one by one.
///
/// A library that does not own its process must not install it.
#[derive(Clone, Copy, Debug)]
pub struct CrashReports(());

impl CrashReports {
    /// Exit status after a crash in a kernel, or in code that was called with a note.
    pub const EXIT_STATUS: i32 = guard::EXIT_STATUS;

    /// Exit status after a mapped file was truncated.
    pub const TRUNCATED_STATUS: i32 = guard::TRUNCATED_STATUS;

    /// Installs the signal handlers for the process, and an alternate signal stack for the calling thread. Later calls
    /// only do the latter.
    pub fn install() -> Self {
        guard::install();
        Self(())
    }

    /// From now on, when they end the process, they first write the exit status to this file, as a byte. A process that a kernel ends
    /// does not.
    pub fn announce_exits(to: OwnedFd) {
        guard::announce_exits(to);
    }

    /// Sets the names of the program's options for messages, once.
    pub fn name_options(names: CrashOptionNames) {
        guard::name_options(names);
    }

    /// Ends the process, with a message that names the dispatch, when one on a CPU device runs for longer than this. Of several limits,
    /// the least counts. Fails if no thread can be started.
    pub fn end_after(limit: Duration) -> Result<()> {
        guard::end_after(limit)
    }

    /// Says on standard error what the threads of this process run, as far as they run kernels: for a program that is about to end.
    pub fn describe_running() {
        guard::describe_running();
    }

    /// The observer alone: names the record if reports are installed, and has no effect otherwise.
    pub(crate) fn records() -> Self {
        Self(())
    }
}

impl Observer for CrashReports {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        guard::set_context(location.ordinal.into(), location.offset);
        Ok(())
    }

    fn command_step(&mut self, location: RecordLocation) -> Result<()> {
        self.step(location)
    }
}
