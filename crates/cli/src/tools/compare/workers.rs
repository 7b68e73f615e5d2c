//! Comparisons in processes of their own, so that a kernel that crashes ends only its own comparison.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus, Stdio};
use std::thread;

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

/// Compares a replacement in a process with the same flags. What its kernel prints is printed here.
pub(super) fn compare(invocation: &Invocation, candidate: &Candidate) -> Result<Report> {
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
    let ended = child.wait_with_output().map_err(cannot)?;
    drop(alive);
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
