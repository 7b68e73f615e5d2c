//! Processes of their own for work with replaced kernels, which may end their process in any way.
//!
//! A kernel that calls `_exit(0)` would otherwise have the exit status of one that is right. The process gets
//! the parsed flags, not the command line, whose flag files may be pipes, and writes its status to a file in
//! memory once the work is done.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt, parent_id};
use std::process::{self, Command, ExitStatus};

use rehal_base::{Error, Result, StatusCode};
use rehal_session::CrashReports;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{Invocation, advice, output};

/// Set in a process of its own, to the id of the process that started it: it may reach others, such as compilers.
const PARENT: &str = "REHAL_PARENT";
/// Where the process puts its exit status once its work is done.
const STATUS: &str = "REHAL_CHILD_STATUS";

/// Whether this process is one that [`command`] describes. It still is one after its parent has ended, which [`end_with_parent`] tells.
pub(crate) fn is_child() -> bool {
    env::var(PARENT).is_ok_and(|parent| is_parent(&parent) || has_ended(&parent))
}

fn is_parent(process: &str) -> bool {
    process == parent_id().to_string()
}

/// Whether a process has ended: nothing is known of it, except perhaps its status.
fn has_ended(process: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat"));
    match state {
        // The state follows the name, which may contain anything.
        Ok(text) => text.rsplit(')').next().is_some_and(|it| it.trim_start().starts_with(['Z', 'X'])),
        Err(error) => error.kind() == io::ErrorKind::NotFound && fs::exists("/proc/self").unwrap_or(false),
    }
}

/// The command of a process with the flags of this one. It is to call [`end_with_parent`].
pub(crate) fn command(program: &OsStr, arguments: &[impl AsRef<OsStr>]) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg0(program).args(arguments).env(PARENT, process::id().to_string());
    Ok(command)
}

/// Ends this process by SIGTERM when the thread ends that started it, so that temporary files are removed.
pub(crate) fn end_with_parent() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Error::io("asking for the signal of the parent's end", &error.into()))?;
    // It may have ended before.
    match env::var(PARENT).is_ok_and(|parent| is_parent(&parent)) {
        true => Ok(()),
        false => Err(Error::new(StatusCode::Aborted, "the process that started this one has ended")),
    }
}

/// Does work in a process of its own, and takes the exit status that it sets. Fails if the process ended before the work was done:
/// otherwise a kernel that calls `_exit(0)` would have an exit status that says that all went well.
pub(crate) fn run(invocation: &Invocation, work: impl FnOnce() -> Result<()>) -> Result<()> {
    if is_child() {
        end_with_parent()?;
        if let Err(error) = work() {
            output::note(&advice::report(&error));
            invocation.set_status(1);
        }
        let Some(path) = passed(STATUS) else { return Ok(()) };
        let passed = fs::write(path, [invocation.status()]);
        return passed.map_err(|error| Error::io("passing an exit status", &error));
    }
    let cannot = |error: io::Error| Error::io("starting a process for replaced kernels", &error);
    let mut done = PassedFile::new(&[]).map_err(cannot)?;
    let command = command(&invocation.program, &invocation.arguments());
    let ended = command.and_then(|mut it| it.env(STATUS, done.name()).status()).map_err(cannot)?;
    match (done.read().map_err(cannot)?.first(), ended.code()) {
        (Some(status), _) => invocation.set_status(*status),
        // A crash, which has been reported.
        (None, Some(CrashReports::EXIT_STATUS)) => invocation.set_status(CrashReports::EXIT_STATUS as u8),
        _ => return Err(ended_early(ended)),
    }
    Ok(())
}

fn ended_early(ended: ExitStatus) -> Error {
    /// That of a panic in Rust.
    const PANIC: i32 = 101;
    let early = |how: String| {
        Error::new(StatusCode::Aborted, format!("the process ended {how} before its work was done"))
    };
    match (ended.code(), ended.signal()) {
        (Some(PANIC), _) => early(format!("with status {PANIC}")),
        (Some(code), _) => early(format!("with status {code}"))
            .advise("a kernel returns a status instead of ending the process: correct the replacement"),
        (None, Some(libc::SIGKILL)) => early("by signal 9, as when the machine has no memory left,".into()),
        (None, signal) => early(format!("by signal {}", signal.unwrap_or_default())),
    }
}

/// A file in memory that processes inherit.
pub(crate) struct PassedFile(File);

impl PassedFile {
    pub(crate) fn new(bytes: &[u8]) -> io::Result<Self> {
        let mut file = File::from(memfd_create("rehal-passed", MemfdFlags::empty())?);
        file.write_all(bytes)?;
        Ok(Self(file))
    }

    /// Its name in the environment, for [`passed`].
    pub(crate) fn name(&self) -> String {
        self.0.as_raw_fd().to_string()
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The path of the file that this process inherited, and that a variable of the environment names.
pub(crate) fn passed(variable: &str) -> Option<String> {
    let file: RawFd = env::var(variable).ok()?.parse().ok()?;
    is_child().then(|| format!("/proc/self/fd/{file}"))
}
