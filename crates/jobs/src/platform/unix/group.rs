//! A process with all that it starts, which ends with the process that started it, in whatever way that one
//! ends.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use rehal_crash::{Removal, change};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Reads which groups exist until its standard input is closed: when the process that has the other end ends.
/// SIGTERM comes first, so that processes can remove their temporary files. The shell that starts it ends, so
/// that a program that waits for all its children does not wait for it.
const WATCHDOG: &str = r#"
exec 3<&0
{
groups=' '
while read -r what group; do
  case $what in
  begin) groups="$groups$group " ;;
  end) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
  esac
done
for group in $groups; do kill -s TERM -- "-$group" && found=yes; done
[ -n "$found" ] || exit
sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done
} <&3 3<&- &
"#;

/// The watchdog of this process. It is started for the first group, since a process for each would take as
/// long as a short job.
static WATCHDOG_PROCESS: Mutex<Option<Watchdog>> = Mutex::new(None);

/// A process with all that it starts, in a group of its own. It is ended when this is dropped, by
/// [`rehal_crash::remove_all`], or when this process ends.
///
/// A watchdog does the latter. The death signal that Linux offers instead reaches only the process itself,
/// and already when the thread ends that started it.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    /// The leader. Until it has been waited for, no other group has its id.
    child: Child,
    id: Pid,
    /// `None` once it has been waited for.
    removal: Option<Removal>,
}

#[derive(Debug)]
struct Watchdog {
    /// The process that it watches: a fork of that one has a watchdog of its own.
    watched: u32,
    groups: Vec<Pid>,
    channel: UnixStream,
}

impl ProcessGroup {
    /// Starts a process.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        // It is there before the process: to start it takes longer than to tell it of a group.
        with_watchdog(|_| Ok(()))?;
        let this = change(|| {
            let mut child = command.process_group(0).spawn()?;
            let Some(id) = pid_of(&child) else {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other("the id of a process is not positive"));
            };
            let removal = Some(Removal::process_group(id.as_raw_nonzero().get()));
            Ok(Self { child, id, removal })
        })?;
        // An error drops `this`, which ends the process.
        with_watchdog(|watchdog| watchdog.begin(this.id))?;
        Ok(this)
    }

    /// The id of the process, and of its group.
    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// How the process has ended; `None` if it has not. Whatever it has started ends with it.
    pub(crate) fn try_end(&mut self) -> io::Result<Option<ExitStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.id), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Ok(None),
            Ok(Some(_)) => self.end().map(Some),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the processes of the group.
    pub(crate) fn end(&mut self) -> io::Result<ExitStatus> {
        if self.removal.is_some() {
            let _ = kill_process_group(self.id, Signal::KILL);
            // Without a watchdog, there is nothing to tell.
            let _ = with_watchdog(|watchdog| watchdog.end(self.id));
        }
        change(|| {
            self.removal = None;
            self.child.wait()
        })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Makes a copy of a process forget the watchdog of that one: a kernel could tell it to end any processes.
pub(crate) fn forget_watchdog() {
    *WATCHDOG_PROCESS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Tells the watchdog of this process something; starts it if there is none.
fn with_watchdog(tell: impl Fn(&mut Watchdog) -> io::Result<()>) -> io::Result<()> {
    let mut watchdog = WATCHDOG_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let ours = watchdog.as_mut().filter(|it| it.watched == process::id());
    let groups = match ours {
        None => Vec::new(),
        Some(ours) => match tell(ours) {
            Ok(()) => return Ok(()),
            // A user or a kernel has ended it.
            Err(_) => std::mem::take(&mut ours.groups),
        },
    };
    let mut new = Watchdog::spawn()?;
    groups.into_iter().try_for_each(|group| new.begin(group))?;
    tell(&mut new)?;
    *watchdog = Some(new);
    Ok(())
}

impl Watchdog {
    fn spawn() -> io::Result<Self> {
        let (channel, other) = UnixStream::pair()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCHDOG]).process_group(0);
        command.stdin(OwnedFd::from(other)).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status()?.success() {
            true => Ok(Self { watched: process::id(), groups: Vec::new(), channel }),
            false => Err(io::Error::other("/bin/sh cannot start what ends processes")),
        }
    }

    fn begin(&mut self, group: Pid) -> io::Result<()> {
        if self.groups.contains(&group) {
            return Ok(());
        }
        self.groups.push(group);
        self.say("begin", group)
    }

    fn end(&mut self, group: Pid) -> io::Result<()> {
        self.groups.retain(|it| *it != group);
        self.say("end", group)
    }

    fn say(&mut self, what: &str, group: Pid) -> io::Result<()> {
        self.channel.write_all(format!("{what} {}\n", group.as_raw_nonzero()).as_bytes())
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    #[test]
    fn a_watchdog_ends_what_runs_when_its_process_ends() {
        let [mut running, mut ended] = [(); 2].map(|()| sleep().process_group(0).spawn().unwrap());
        let mut watchdog = Watchdog::spawn().unwrap();
        for child in [&ended, &running] {
            watchdog.begin(pid_of(child).unwrap()).unwrap();
        }
        watchdog.end(pid_of(&ended).unwrap()).unwrap();
        // As the end of this process does.
        watchdog.channel.shutdown(Shutdown::Write).unwrap();
        assert_eq!(running.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        // It closes its end when it has ended.
        assert_eq!(watchdog.channel.read(&mut [0]).unwrap(), 0);
        assert!(ended.try_wait().unwrap().is_none());
        ended.kill().unwrap();
        ended.wait().unwrap();
    }

    #[test]
    fn a_watchdog_that_was_ended_is_replaced() {
        let first = ProcessGroup::spawn(&mut sleep()).unwrap();
        // Nothing reads from a channel whose watchdog has been killed.
        let (dead, _) = UnixStream::pair().unwrap();
        let living =
            WATCHDOG_PROCESS.lock().unwrap().as_mut().map(|it| std::mem::replace(&mut it.channel, dead));
        let mut second = ProcessGroup::spawn(&mut sleep()).unwrap();
        let watched = || {
            let watchdog = WATCHDOG_PROCESS.lock().unwrap();
            watchdog.as_ref().unwrap().groups.clone()
        };
        assert!([first.id, second.id].iter().all(|id| watched().contains(id)));
        let status = second.end().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert!(watched().contains(&first.id) && !watched().contains(&second.id));
        drop((first, living));
    }
}
