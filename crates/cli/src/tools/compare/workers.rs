//! Comparisons in processes of their own, so that a kernel that crashes ends only its own comparison.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_session::{CrashReports, ProcessGroup};

use super::candidates::Candidate;
use super::print;
use super::report::{Outcome, Report};
use crate::own_process::{self, PassedFile};
use crate::{Invocation, output};

/// Names the replacement that a process compares instead of those of its flags, which are otherwise the same.
const CANDIDATE: &str = "REHAL_COMPARE_CANDIDATE";

/// The replacement that this process compares for another one.
pub(super) fn candidate() -> Option<PathBuf> {
    env::var_os(CANDIDATE).filter(|_| own_process::is_child()).map(PathBuf::from)
}

/// Set in a process that changes no inputs.
const CAPTURED_INPUTS: &str = "REHAL_COMPARE_CAPTURED_INPUTS";

/// Whether this process may change inputs.
pub(super) fn changes_inputs() -> bool {
    !own_process::is_child() || env::var_os(CAPTURED_INPUTS).is_none()
}

/// What sources were compiled into.
#[derive(Default)]
pub(super) struct Libraries {
    /// The baseline: otherwise each comparison would compile it again.
    pub baseline: Option<Arc<[u8]>>,
    pub replacement: Option<Arc<[u8]>>,
}

/// Name the libraries.
const BASELINE: &str = "REHAL_COMPARE_BASELINE";
const LIBRARY: &str = "REHAL_COMPARE_LIBRARY";

/// What the process that started this one has compiled the baseline into.
pub(super) fn baseline() -> Result<Option<Vec<u8>>> {
    passed(BASELINE)
}

/// What it has compiled the replacement into.
pub(super) fn library() -> Result<Option<Vec<u8>>> {
    passed(LIBRARY)
}

fn passed(variable: &str) -> Result<Option<Vec<u8>>> {
    let read = own_process::passed(variable).map(fs::read).transpose();
    read.map_err(|error| Error::io("reading a compiled kernel", &error))
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
///
/// A process that crashes may do so because of inputs that it has changed, which may be out of bounds for either kernel: only one that
/// crashes with the captured inputs is reported as a crash.
pub(super) fn compare(
    invocation: &Invocation,
    candidate: &Candidate,
    libraries: &Libraries,
    limits: &Limits,
) -> Result<Report> {
    let report = attempt(invocation, candidate, libraries, limits, true)?;
    if report.outcome != Outcome::Crashed {
        return Ok(report);
    }
    let again = attempt(invocation, candidate, libraries, limits, false)?;
    if matches!(again.outcome, Outcome::Right | Outcome::Wrong) {
        output::note(&format!(
            "{}\nnote: {}: with other inputs, the replacement or the captured kernel crashed, so that only the captured ones were used",
            report.text.trim_end(),
            print::name(candidate)
        ));
    }
    Ok(again)
}

fn attempt(
    invocation: &Invocation,
    candidate: &Candidate,
    libraries: &Libraries,
    limits: &Limits,
    changes_inputs: bool,
) -> Result<Report> {
    let cannot = |error: io::Error| Error::io("starting a process for a comparison", &error);
    let mut command = own_process::command(&invocation.program, &invocation.arguments()).map_err(cannot)?;
    let mut files = Vec::new();
    for (variable, library) in [(BASELINE, &libraries.baseline), (LIBRARY, &libraries.replacement)] {
        let Some(library) = library else { continue };
        let file = PassedFile::new(library).map_err(cannot)?;
        command.env(variable, file.name());
        files.push(file);
    }
    if !changes_inputs {
        command.env(CAPTURED_INPUTS, "1");
    } else {
        command.env_remove(CAPTURED_INPUTS);
    }
    command
        .env(CANDIDATE, &candidate.path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let group = ProcessGroup::spawn(&mut command).map_err(cannot)?;
    let name = print::name(candidate);
    let ended = wait(group, limits, &name).map_err(cannot)?;
    let Ended { end, stdout, stderr } = ended;
    let printed = stderr.text();
    let lines = stdout.bytes.strip_suffix(b"\n").unwrap_or(&stdout.bytes);
    let start = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let report = Report::from_line(&lines[start..]);
    let by_kernel = if report.is_some() { &stdout.bytes[..start] } else { &stdout.bytes };
    if stdout.dropped > 0 {
        output::note(&dropped(stdout.dropped, "standard output"));
    }
    output::print(&String::from_utf8_lossy(by_kernel).replacen(&format!("\n{TIMING}\n"), "", 1))?;
    match (end, report) {
        (End::Exited(status), Some(report)) if status.success() => {
            eprint(&printed);
            Ok(report)
        }
        (End::Exited(status), _) if is_crash(status) => {
            Ok(Report::crashed(candidate, &how(status, &printed), printed))
        }
        (End::Exited(status), _) => Ok(Report::ended(candidate, &how(status, &printed), &printed)),
        (End::TimedOut { is_timing }, _) => {
            eprint(&printed);
            let limit = if is_timing { limits.all } else { limits.check };
            Ok(Report::timed_out(candidate, limit, is_timing))
        }
    }
}

/// A process that has ended, and the end of what it printed.
struct Ended {
    end: End,
    stdout: Text,
    stderr: Text,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exited(ExitStatus),
    /// It was ended, after a limit.
    TimedOut {
        is_timing: bool,
    },
}

/// Waits for a process and what it prints, and ends what it has started.
fn wait(mut group: ProcessGroup, limits: &Limits, name: &str) -> io::Result<Ended> {
    let (stdout, stderr) = (group.child().stdout.take(), group.child().stderr.take());
    let printed = Printed::with_limit(KEPT_BYTES);
    thread::scope(|scope| {
        let read_messages = || {
            let printed = Printed::with_limit(KEPT_MESSAGES);
            printed.read(stderr).map(|()| printed.take())
        };
        let started = thread::Builder::new().spawn_scoped(scope, || printed.read(stdout));
        let started = started.and_then(|stdout| {
            let stderr = thread::Builder::new().spawn_scoped(scope, read_messages)?;
            Ok((stdout, stderr))
        });
        let (stdout, stderr) = match started {
            Ok(threads) => threads,
            Err(error) => {
                group.kill();
                group.child().wait()?;
                return Err(error);
            }
        };
        let end = end(group.child(), &printed, limits, name);
        // Processes of a kernel would keep the pipes open.
        group.kill();
        let end = end?;
        joined(stdout)?;
        let stderr = joined(stderr)?;
        Ok(Ended { end, stdout: printed.take(), stderr })
    })
}

/// Waits for the end of a process, ends it after the limits, and notes if its checks take long. The limit of the checks no longer
/// applies once it has printed that it times.
fn end(child: &mut Child, printed: &Printed, limits: &Limits, name: &str) -> io::Result<End> {
    /// How often it is looked at.
    const INTERVAL: Duration = Duration::from_millis(5);
    /// When it is said that it is being checked, if it still is.
    const NOTICE: Duration = Duration::from_secs(5);
    let begun = Instant::now();
    let mut is_noticed = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(End::Exited(status));
        }
        let (elapsed, is_timing) = (begun.elapsed(), printed.is_timing());
        if elapsed >= if is_timing { limits.all } else { limits.check } {
            child.kill()?;
            child.wait()?;
            return Ok(End::TimedOut { is_timing });
        }
        if elapsed >= NOTICE && !is_timing && !is_noticed {
            is_noticed = true;
            let limit = limits.check.as_secs_f64();
            output::note(&format!("{name} is still being checked, and is ended after {limit:.0} s"));
        }
        thread::sleep(INTERVAL);
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

/// How much of standard output is kept, whose last line is the report: the more dispatches are timed, the longer it is.
const KEPT_BYTES: usize = 16 << 20;

/// How much of standard error is kept.
const KEPT_MESSAGES: usize = 64 << 10;

/// What a process has printed so far: its end.
struct Printed {
    text: Mutex<Text>,
    limit: usize,
}

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    /// Number of bytes before these.
    dropped: u64,
    /// Whether [`TIMING`] is one of its lines.
    is_timing: bool,
}

impl Printed {
    fn with_limit(limit: usize) -> Self {
        Self { text: Mutex::default(), limit }
    }

    fn read(&self, from: Option<impl Read>) -> io::Result<()> {
        let Some(mut from) = from else { return Ok(()) };
        let mut piece = vec![0; 64 << 10];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => self.text.lock().add(&piece[..count], self.limit),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_timing(&self) -> bool {
        self.text.lock().is_timing
    }

    /// What was printed; nothing is left.
    fn take(&self) -> Text {
        let mut text = std::mem::take(&mut *self.text.lock());
        text.keep(self.limit);
        text
    }
}

impl Text {
    fn add(&mut self, bytes: &[u8], limit: usize) {
        // The line may have begun before.
        let start = self.bytes.len().saturating_sub(TIMING.len() + 1);
        self.bytes.extend_from_slice(bytes);
        let line = format!("\n{TIMING}\n");
        let is_it = |it: &[u8]| it == line.as_bytes();
        self.is_timing |= self.bytes[start..].windows(TIMING.len() + 2).any(is_it);
        if self.bytes.len() > 2 * limit {
            self.keep(limit);
        }
    }

    /// Drops all but the last bytes.
    fn keep(&mut self, limit: usize) {
        let count = self.bytes.len().saturating_sub(limit);
        self.bytes.drain(..count);
        self.dropped += count as u64;
    }

    /// Messages, after what says that those before were dropped.
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        match self.dropped {
            0 => text.into_owned(),
            count => format!("{}\n{text}", dropped(count, "standard error")),
        }
    }
}

fn dropped(count: u64, stream: &str) -> String {
    format!("note: the first {count} bytes that the process printed on {stream} are not kept")
}

fn eprint(text: &str) {
    if !text.is_empty() {
        output::note(text.trim_end());
    }
}

/// Whether a process ended because of what its kernel did. Others end it for lack of memory, and it ends itself if the CPU lacks an
/// instruction or a file was truncated: that says nothing about what the kernel computes.
fn is_crash(status: ExitStatus) -> bool {
    /// By which the kernel ends it, and not another process.
    const CRASHES: [i32; 6] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];
    status.code() == Some(CrashReports::EXIT_STATUS)
        || status.signal().is_some_and(|signal| CRASHES.contains(&signal))
}

/// How a process ended that has no result.
fn how(status: ExitStatus, printed: &str) -> String {
    let report = printed.lines().rev().find(|line| line.contains("; a kernel "));
    let reported = status.code() == Some(CrashReports::EXIT_STATUS);
    let line = report.or_else(|| printed.lines().find(|line| reported && !line.is_empty()));
    match (line, status.code(), status.signal()) {
        (Some(line), Some(_), _) => line.to_owned(),
        (_, Some(code), _) => format!("its process ended with status {code}"),
        (.., Some(libc::SIGKILL)) => {
            "its process was ended by signal 9, as when the machine has no memory left".into()
        }
        (.., signal) => format!("its process was ended by signal {}", signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let spawn = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
            ProcessGroup::spawn(&mut command).unwrap()
        };
        let limits =
            |check, all| Limits { check: Duration::from_millis(check), all: Duration::from_millis(all) };
        let begun = Instant::now();
        let (few, many) = (50, 600_000);
        let ended = wait(spawn("echo before; exec sleep 600"), &limits(few * 20, many), "").unwrap();
        assert_eq!(ended.end, End::TimedOut { is_timing: false });
        assert_eq!(ended.stdout.bytes, b"before\n");
        let timing = format!("echo; echo {TIMING}; exec sleep 600");
        let ended = wait(spawn(&timing), &limits(10_000, 10_000), "").unwrap();
        assert_eq!(ended.end, End::TimedOut { is_timing: true });
        assert!(begun.elapsed() < Duration::from_secs(300));
        // Another process that has the pipes ends with it.
        let ended =
            wait(spawn("sleep 600 & echo out; echo err >&2; exit 3"), &limits(many, many), "").unwrap();
        assert!(matches!(ended.end, End::Exited(status) if status.code() == Some(3)), "{:?}", ended.end);
        assert_eq!((&ended.stdout.bytes[..], &ended.stderr.bytes[..]), (&b"out\n"[..], &b"err\n"[..]));
    }

    #[test]
    fn the_limit_of_the_checks_does_not_end_timing() {
        let limits = Limits { check: Duration::ZERO, all: Duration::from_secs(600) };
        let ended = |line: &[u8]| {
            let printed = Printed::with_limit(KEPT_BYTES);
            printed.read(Some(line)).unwrap();
            // It ends by itself only once its input is closed, which is after it was first looked at.
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let input = child.stdin.take();
            let closing = thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                drop(input);
            });
            let end = end(&mut child, &printed, &limits, "").unwrap();
            closing.join().unwrap();
            end
        };
        assert_eq!(ended(b"\nother\n"), End::TimedOut { is_timing: false });
        let end = ended(format!("\n{TIMING}\n").as_bytes());
        assert!(matches!(end, End::Exited(status) if status.success()), "{end:?}");
    }

    #[test]
    fn only_the_end_of_what_is_printed_is_kept() {
        let printed = Printed::with_limit(100);
        let lines: String = (0..1000).map(|number| format!("{number}\n")).collect();
        let timing = format!("\n{TIMING}\n");
        for bytes in [timing.as_bytes(), lines.as_bytes(), b"end\n"] {
            printed.read(Some(bytes)).unwrap();
            assert!(printed.text.lock().bytes.len() <= 200);
        }
        assert!(printed.is_timing());
        let text = printed.take();
        assert_eq!(text.bytes.len(), 100);
        assert_eq!(text.dropped as usize, timing.len() + lines.len() + 4 - 100);
        assert!(text.text().starts_with("note: the first ") && text.text().ends_with("999\nend\n"));
    }

    #[test]
    fn only_what_a_kernel_does_is_a_crash() {
        let ended = |raw| ExitStatus::from_raw(raw);
        for status in [CrashReports::EXIT_STATUS << 8, libc::SIGSEGV, libc::SIGABRT | 0x80] {
            assert!(is_crash(ended(status)), "{status}");
        }
        for status in [0, CrashReports::TRUNCATED_STATUS << 8, 5 << 8, libc::SIGKILL, libc::SIGTERM] {
            assert!(!is_crash(ended(status)), "{status}");
        }
        let incompatible = "note: x\nINCOMPATIBLE; a kernel crashed with SIGILL: function 'f'\n  try: y\n";
        let why = how(ended(1 << 8), incompatible);
        assert_eq!(why, "INCOMPATIBLE; a kernel crashed with SIGILL: function 'f'");
        assert_eq!(how(ended(1 << 8), "why\n"), "its process ended with status 1");
        assert!(how(ended(libc::SIGKILL), "").contains("signal 9, as when"));
    }
}
