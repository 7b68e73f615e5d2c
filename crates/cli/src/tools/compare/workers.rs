//! Comparisons in processes of their own, so that a kernel that crashes ends only its own comparison.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_session::CrashReports;

use super::candidates::Candidate;
use super::print;
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

/// A line of a process that has checked what its replacement computes, and now times it.
const TIMING: &str = "rehal compare: timing";

/// How long a comparison may take.
pub(super) struct Limits {
    /// Until it is known what the replacement computes.
    pub check: Duration,
    /// As a whole.
    pub all: Duration,
}

/// Tells the process that started this one that the replacement is now timed. A failure is found when the result is printed.
pub(super) fn announce_timing() {
    let _ = output::print(&format!("\n{TIMING}\n"));
}

/// Compares a replacement in a process with the same flags, which is ended after some time. What its kernel prints is printed here.
pub(super) fn compare(invocation: &Invocation, candidate: &Candidate, limits: &Limits) -> Result<Report> {
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
    let name = print::name(candidate);
    let ended = wait(child, limits, &name).map_err(cannot)?;
    drop(alive);
    let ended = match ended {
        Ok(ended) => ended,
        Err(is_timing) => {
            let limit = if is_timing { limits.all } else { limits.check };
            return Ok(Report::timed_out(candidate, limit, is_timing));
        }
    };
    let printed = String::from_utf8_lossy(&ended.stderr).into_owned();
    let lines = ended.stdout.strip_suffix(b"\n").unwrap_or(&ended.stdout);
    let start = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let report = Report::from_line(&lines[start..]);
    let by_kernel = if report.is_some() { &ended.stdout[..start] } else { &ended.stdout };
    output::print(&String::from_utf8_lossy(by_kernel).replacen(&format!("\n{TIMING}\n"), "", 1))?;
    match report {
        Some(report) if ended.status.success() => {
            eprint(&printed);
            Ok(report)
        }
        _ if has_crashed(ended.status) => {
            Ok(Report::crashed(candidate, &how(ended.status, &printed), printed))
        }
        _ => Ok(Report::ended(candidate, &how(ended.status, &printed), printed)),
    }
}

/// Waits for a process and what it prints, and says if its checks take long. Ends it after the limits and returns whether it was
/// timing.
fn wait(mut child: Child, limits: &Limits, name: &str) -> io::Result<Result<Output, bool>> {
    /// How often it is looked at.
    const INTERVAL: Duration = Duration::from_millis(5);
    /// When it is said that it is being checked, if it still is.
    const NOTICE: Duration = Duration::from_secs(5);
    let begun = Instant::now();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (printed, mut is_noticed) = (Printed::default(), false);
    thread::scope(|scope| {
        let stdout = scope.spawn(|| printed.read(stdout));
        let stderr = scope.spawn(|| {
            let printed = Printed::default();
            printed.read(stderr).map(|()| printed.take())
        });
        let ended = loop {
            if let Some(status) = child.try_wait()? {
                break Ok(status);
            }
            let (elapsed, is_timing) = (begun.elapsed(), printed.is_timing());
            if elapsed >= if is_timing { limits.all } else { limits.check } {
                child.kill()?;
                child.wait()?;
                break Err(is_timing);
            }
            if elapsed >= NOTICE && !is_timing && !is_noticed {
                is_noticed = true;
                let limit = limits.check.as_secs_f64();
                output::note(&format!("{name} is still being checked, and is ended after {limit:.0} s"));
            }
            thread::sleep(INTERVAL);
        };
        joined(stdout)?;
        let stderr = joined(stderr)?;
        if ended.is_err() {
            eprint(&String::from_utf8_lossy(&stderr));
        }
        Ok(ended.map(|status| Output { status, stdout: printed.take(), stderr }))
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

/// Of what a process prints, at least the last so many bytes are kept: the result is its last line.
const KEPT_BYTES: usize = 4 << 20;

/// What a process has printed so far.
#[derive(Default)]
struct Printed(Mutex<Text>);

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    /// Whether [`TIMING`] is one of its lines.
    is_timing: bool,
}

impl Printed {
    fn read(&self, from: Option<impl Read>) -> io::Result<()> {
        let Some(mut from) = from else { return Ok(()) };
        let mut piece = vec![0; 64 << 10];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => self.0.lock().add(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_timing(&self) -> bool {
        self.0.lock().is_timing
    }

    /// What was printed; nothing is left.
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().bytes)
    }
}

impl Text {
    fn add(&mut self, bytes: &[u8]) {
        // The line may have begun before.
        let mut start = self.bytes.len().saturating_sub(TIMING.len() + 1);
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * KEPT_BYTES {
            self.bytes.drain(..self.bytes.len() - KEPT_BYTES);
            start = self.bytes.len().saturating_sub(bytes.len() + TIMING.len() + 1);
        }
        let line = format!("\n{TIMING}\n");
        let is_it = |it: &[u8]| it == line.as_bytes();
        self.is_timing |= self.bytes[start..].windows(TIMING.len() + 2).any(is_it);
    }
}

fn eprint(text: &str) {
    if !text.is_empty() {
        output::note(text.trim_end());
    }
}

/// Whether a process that has no result was ended by the replacement: it crashed, or it left with a status of its own. Otherwise it was
/// killed, or failed with the status of errors, as the crash guard does if the code is for another machine.
fn has_crashed(status: ExitStatus) -> bool {
    const ERROR: i32 = 1;
    const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
    match (status.code(), status.signal()) {
        (Some(code), _) => code != ERROR,
        (_, signal) => signal.is_some_and(|signal| FAULTS.contains(&signal)),
    }
}

/// How a process ended that has no result.
fn how(status: ExitStatus, printed: &str) -> String {
    let is_reported = matches!(status.code(), Some(1 | CrashReports::EXIT_STATUS));
    match printed.lines().find(|line| is_reported && !line.is_empty()) {
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
    fn errors_and_kills_are_not_crashes() {
        let ended = |script: &str| Command::new("sh").args(["-c", script]).status().unwrap();
        for script in ["exit 86", "exit 5", "exit 0", "kill -SEGV $$", "kill -ABRT $$"] {
            assert!(has_crashed(ended(script)), "{script}");
        }
        for script in ["exit 1", "kill -KILL $$", "kill -TERM $$"] {
            assert!(!has_crashed(ended(script)), "{script}");
        }
        assert_eq!(how(ended("exit 1"), "\nINCOMPATIBLE; why\n"), "INCOMPATIBLE; why");
        assert_eq!(how(ended("kill -KILL $$"), "anything"), "its process was ended by signal 9");
    }

    #[test]
    fn of_endless_output_the_end_is_kept() {
        let mut text = Text::default();
        text.add(format!("x\n{TIMING}\n").as_bytes());
        (0..40).for_each(|_| text.add(&[b'y'; 1 << 20]));
        text.add(b"\nlast");
        assert!(text.is_timing && text.bytes.ends_with(b"\nlast") && text.bytes.len() <= 2 * KEPT_BYTES);
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let spawn = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let limits =
            |check, all| Limits { check: Duration::from_millis(check), all: Duration::from_millis(all) };
        let begun = Instant::now();
        let (few, many) = (50, 600_000);
        assert_eq!(wait(spawn("exec sleep 600"), &limits(few, many), "").unwrap().err(), Some(false));
        let timing = format!("echo; echo {TIMING}; exec sleep 600");
        assert_eq!(wait(spawn(&timing), &limits(10_000, 10_000), "").unwrap().err(), Some(true));
        assert!(begun.elapsed() < Duration::from_secs(300));
        let ended = wait(spawn("echo out; echo err >&2; exit 3"), &limits(many, many), "").unwrap().unwrap();
        assert_eq!(
            (ended.status.code(), &ended.stdout[..], &ended.stderr[..]),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
    }
}
