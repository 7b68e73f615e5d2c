//! Processes of their own for work with replaced kernels, which may end their process in any way.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;

use rehal_base::{Error, Result, StatusCode};
use rehal_session::CrashReports;

use crate::{Invocation, advice, output};

/// Set in the process that does the work, whose flags are the same.
const CHILD: &str = "REHAL_CHILD";

/// Added to the exit status of a process that has done its work: others are of a kernel that ended it.
const DONE: u8 = 0xe0;

/// Does work in a process of its own, and takes its exit status, which is below 32. Fails if the process ended before the work was done:
/// otherwise a kernel that calls `_exit(0)` would have an exit status that says that all went well.
pub(super) fn run(invocation: &Invocation, work: impl FnOnce() -> Result<u8>) -> Result<()> {
    if env::var_os(CHILD).is_some() {
        end_with_parent()?;
        let status = work().unwrap_or_else(|error| {
            output::note(&advice::report(&error));
            1
        });
        invocation.set_status(DONE + status);
        return Ok(());
    }
    let cannot = |error: io::Error| Error::io("starting a process for replaced kernels", &error);
    let mut child = command(invocation).map_err(cannot)?.env(CHILD, "1").spawn().map_err(cannot)?;
    // It is closed once the process has ended: until then, it shows that this one has not.
    let alive = child.stdin.take();
    let ended = child.wait().map_err(cannot)?;
    drop(alive);
    match ended.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) if code >= DONE => invocation.set_status(code - DONE),
        // What ended it has been reported.
        Some(code) if is_reported(code) => invocation.set_status(code),
        _ => return Err(ended_early(ended)),
    }
    Ok(())
}

fn is_reported(code: u8) -> bool {
    [CrashReports::EXIT_STATUS, CrashReports::TRUNCATED_STATUS].contains(&code.into())
}

fn ended_early(ended: ExitStatus) -> Error {
    let how = match (ended.code(), ended.signal()) {
        (Some(code), _) => format!("with status {code}"),
        (None, signal) => format!("by signal {}", signal.unwrap_or_default()),
    };
    Error::new(StatusCode::Aborted, format!("the process ended {how} before its work was done"))
        .advise("a kernel returns a status instead of ending the process: correct the replacement")
}

/// The command of a process with the flags of this one, which [`end_with_parent`] ends.
pub(super) fn command(invocation: &Invocation) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg0(&invocation.program).args(env::args_os().skip(1)).stdin(Stdio::piped());
    Ok(command)
}

/// Ends this process when the one that started it ends, which holds the other end of standard input.
pub(super) fn end_with_parent() -> Result<()> {
    let wait = || {
        // What ends the wait does not matter.
        let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
        process::exit(1);
    };
    let spawned = thread::Builder::new().name("end_with_parent".into()).spawn(wait);
    spawned.map(drop).map_err(|error| Error::io("starting a thread", &error))
}
