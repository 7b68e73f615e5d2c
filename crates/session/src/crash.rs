use rehal_base::Result;
use rehal_local::executable::guard;
use rehal_replay::{Observer, RecordLocation};

/// Reports of crashing kernels, for programs that own their process, such as tools.
///
/// After [`CrashReports::install`], a SIGSEGV, SIGILL, SIGFPE or SIGBUS of a kernel ends the process with a
/// message that names the executable, the function, the workgroup and the address, and with
/// [`CrashReports::EXIT_STATUS`]. A SIGBUS in a file that another process truncated while it was mapped ends
/// it with a message that names the file, and with [`CrashReports::TRUNCATED_STATUS`]. Other crashes are
/// passed to the previous handlers. As an [`Observer`] of a replay it adds the record to the message.
///
/// A library loaded into another program's process should not install it.
#[derive(Clone, Copy, Debug)]
pub struct CrashReports(());

impl CrashReports {
    /// Exit status of a process whose kernel crashed.
    pub const EXIT_STATUS: i32 = guard::EXIT_STATUS;

    /// Exit status of a process whose mapped file was truncated.
    pub const TRUNCATED_STATUS: i32 = guard::TRUNCATED_STATUS;

    /// Installs the signal handlers for the process and a signal stack for the calling thread. Later calls do
    /// only the latter.
    pub fn install() -> Self {
        guard::install();
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
}
