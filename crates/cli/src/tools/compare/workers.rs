//! Comparisons in processes of their own, so that a kernel that crashes ends only its own comparison.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result};
use rehal_session::CrashReports;

use super::candidates::Candidate;
use super::report::Report;
use crate::{Invocation, output};

/// Names the replacement that a process compares instead of those of its flags, which are otherwise the same.
const CANDIDATE: &str = "REHAL_COMPARE_CANDIDATE";

/// The replacement that this process compares for another one.
pub(super) fn candidate() -> Option<PathBuf> {
    env::var_os(CANDIDATE).map(PathBuf::from)
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

/// Compares a replacement in a process with the same flags, which is ended after `limit`. What its kernel prints is printed here.
pub(super) fn compare(invocation: &Invocation, candidate: &Candidate, limit: Duration) -> Result<Report> {
    let cannot = |error: io::Error| Error::io("starting a process for a comparison", &error);
    let mut child = Command::new(env::current_exe().map_err(cannot)?)
        .arg0(&invocation.program)
        .args(env::args_os().skip(1))
        .env(CANDIDATE, &candidate.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    // It is closed once the process has ended: until then, it shows that this one has not.
    let alive = child.stdin.take();
    let ended = wait(child, limit).map_err(cannot)?;
    drop(alive);
    let Some(ended) = ended else { return Ok(Report::timed_out(candidate, limit)) };
    let printed = String::from_utf8_lossy(&ended.stderr).into_owned();
    let lines = ended.stdout.strip_suffix(b"\n").unwrap_or(&ended.stdout);
    let start = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let report = Report::from_line(&lines[start..]);
    let by_kernel = if report.is_some() { &ended.stdout[..start] } else { &ended.stdout };
    output::print(&String::from_utf8_lossy(by_kernel))?;
    match report {
        Some(report) if ended.status.success() => {
            eprint(&printed);
            Ok(report)
        }
        _ => Ok(Report::crashed(candidate, &how(ended.status, &printed), printed)),
    }
}

/// Waits for a process and what it prints; ends it after `limit` and returns `None`.
fn wait(mut child: Child, limit: Duration) -> io::Result<Option<Output>> {
    /// How often it is looked at.
    const INTERVAL: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let stdout = scope.spawn(|| read(stdout));
        let stderr = scope.spawn(|| read(stderr));
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if begun.elapsed() >= limit => {
                    child.kill()?;
                    child.wait()?;
                    break None;
                }
                None => thread::sleep(INTERVAL),
            }
        };
        let joined = |it: thread::ScopedJoinHandle<'_, io::Result<Vec<u8>>>| {
            it.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        };
        let (stdout, stderr) = (joined(stdout)?, joined(stderr)?);
        Ok(status.map(|status| Output { status, stdout, stderr }))
    })
}

fn read(from: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        from.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn eprint(text: &str) {
    if !text.is_empty() {
        output::note(text.trim_end());
    }
}

/// How a process ended that has no result.
fn how(status: ExitStatus, printed: &str) -> String {
    let reported = status.code() == Some(CrashReports::EXIT_STATUS);
    match printed.lines().find(|line| reported && !line.is_empty()) {
        Some(line) => line.to_owned(),
        None => match (status.code(), status.signal()) {
            (Some(code), _) => format!("its process ended with status {code}"),
            (_, signal) => format!("its process was ended by signal {}", signal.unwrap_or_default()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let spawn = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let begun = Instant::now();
        assert!(wait(spawn("exec sleep 600"), Duration::from_millis(50)).unwrap().is_none());
        assert!(begun.elapsed() < Duration::from_secs(300));
        let ended = wait(spawn("echo out; echo err >&2; exit 3"), Duration::from_secs(600)).unwrap().unwrap();
        assert_eq!(
            (ended.status.code(), &ended.stdout[..], &ended.stderr[..]),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
    }
}
