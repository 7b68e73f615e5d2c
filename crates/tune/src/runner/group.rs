//! A process with all that it starts, which ends with the process that started it, in whatever way that one
//! ends.

use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rehal_crash::{Removal, change};
use rustix::process::{Pid, Signal, kill_process_group};

/// The watchdog of a group. Its standard input is a pipe without data, which is closed when the process that
/// has the other end ends. SIGTERM comes first, so that processes can remove their temporary files.
const WATCHDOG: &str = "read -r _; trap '' TERM; kill -TERM 0; sleep 1; kill -KILL 0";

/// A process with all that it starts, in a group of its own. It is ended when this is dropped, by
/// [`rehal_crash::remove_all`], or when this process ends.
///
/// A watchdog leads the group. The death signal that Linux offers instead reaches only the process itself,
/// and already when the thread ends that started it.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    child: Child,
    watchdog: Watchdog,
}

#[derive(Debug)]
struct Watchdog {
    process: Child,
    group: Pid,
    removal: Option<Removal>,
    /// Closed by the end of this process.
    _lifeline: PipeWriter,
}

impl ProcessGroup {
    /// Starts a process.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let watchdog = Watchdog::spawn()?;
        // It ends with the watchdog if it cannot be started.
        let child = command.process_group(watchdog.group.as_raw_nonzero().get()).spawn()?;
        Ok(Self { child, watchdog })
    }

    /// The process.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends the processes of the group.
    pub(crate) fn kill(&self) {
        self.watchdog.kill_group();
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

impl Watchdog {
    fn spawn() -> io::Result<Self> {
        let (reader, lifeline) = io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCHDOG]).process_group(0);
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        change(|| {
            let mut process = command.spawn()?;
            let Some(group) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) else {
                process.kill()?;
                process.wait()?;
                return Err(io::Error::other("the id of a process is not positive"));
            };
            let removal = Some(Removal::process_group(group.as_raw_nonzero().get()));
            Ok(Self { process, group, removal, _lifeline: lifeline })
        })
    }

    /// The group has its id until the watchdog has been waited for.
    fn kill_group(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.kill_group();
        change(|| {
            let _ = self.process.wait();
            self.removal = None;
        });
    }
}
