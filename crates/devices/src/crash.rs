use rehal_base::Result;
use rehal_replay::{Observer, RecordLocation};

/// Crash reports for kernels, for programs that own their process, such as tools.
///
/// Once installed, a SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP or SIGABRT in a kernel ends the process with a
/// message that names the executable, function, workgroup and address, and with
/// [`CrashReports::EXIT_STATUS`]. A SIGBUS in a mapped file that another process truncated ends it with a
/// message that names the file, and with [`CrashReports::TRUNCATED_STATUS`]. A crash of other code that was
/// called with a [`CrashNote`](rehal_crash::CrashNote), such as the compiler of a driver, ends as one in a
/// kernel. Other crashes are passed to the previous handlers, after a message in threads that have replayed
/// records. As an [`Observer`] of a replay, it adds the record to the messages: that of the submission, or
/// that of the dispatch if another observer wants operations, so that commands are performed one by one.
///
/// A program opts in by it: [`CrashReports::install`] replaces the process's actions for these signals and
/// for SIGURG, and nothing else in this crate does. Without it, a kernel that crashes ends the process as the
/// system does, and a device with a [timeout](rehal_local::LocalSyncOptions::timeout) cannot be created. A
/// library that does not own its process must not install it.
#[derive(Clone, Copy, Debug)]
pub struct CrashReports(());

impl CrashReports {
    /// Exit status after a crash in a kernel, or in code that was called with a note.
    pub const EXIT_STATUS: i32 = rehal_crash::EXIT_STATUS;

    /// Exit status after a mapped file was truncated.
    pub const TRUNCATED_STATUS: i32 = rehal_crash::TRUNCATED_STATUS;

    /// Installs the signal handlers for the process, and an alternate signal stack for the calling thread.
    /// Later calls only do the latter.
    pub fn install() -> Self {
        rehal_crash::install();
        Self(())
    }

    /// The observer alone: names the record if reports are installed, and has no effect otherwise.
    pub fn records() -> Self {
        Self(())
    }
}

impl Observer for CrashReports {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        rehal_crash::set_context(location.ordinal.into(), location.offset);
        Ok(())
    }

    fn command_step(&mut self, location: RecordLocation) -> Result<()> {
        self.step(location)
    }
}
