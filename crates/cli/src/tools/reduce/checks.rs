//! What a reduction looks for: a command, a crash, a wrong result, or slowness.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rehal_base::{Error, Result};
use rehal_bench::stats;
use rehal_session::{CrashReports, ReduceHost, ReduceProgress, SlicedDispatch, WrongResult};

use super::child::{self, INTERESTING, NOT_INTERESTING, Request};
use super::process::{self, CheckCommand, End, Ended};
use super::report;
use crate::own_process::{self, PassedFile};
use crate::tools::ledger_flags;
use crate::{Invocation, output};

/// The time that the first check may take, and slices and other preparations, unless the flag says more.
const FIRST_TIMEOUT: Duration = Duration::from_secs(300);
/// By default, a check may take as many times as long as the first.
const TIMEOUT_FACTOR: u32 = 10;
/// By default, a check may take at least this long.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What is looked for.
pub(super) enum Check {
    Command(CheckCommand),
    Crash,
    Wrong,
    /// At least this slow; `None` for half of the time of the capture.
    Slow(Option<Duration>),
}

/// What the capture itself shows.
enum Subject {
    Command(CheckCommand),
    Crash(Crash),
    Wrong(WrongResult),
    Slow(Duration),
}

/// How a replay crashes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Crash {
    /// Its signal, if a report names it; otherwise that of the process.
    signal: String,
    /// The function of the kernel, if it is in one.
    function: Option<String>,
}

/// The time of a capture: the 95 % interval of the median.
struct Measured {
    low: Duration,
    high: Duration,
}

impl Measured {
    /// Why it is not slow enough, and what to do.
    fn why_not(&self, threshold: Duration) -> (String, String) {
        let [low, high, required] = [self.low, self.high, threshold].map(report::time);
        if self.high.is_zero() {
            return (
                "it has no dispatch of such a function".into(),
                "`rehal kernels` lists the functions: --function=GLOB".into(),
            );
        }
        if self.high >= threshold {
            return (
                format!(
                    "it takes {low} to {high} (95 % interval of the median), which cannot be told from {required}"
                ),
                "give a time below: --slower_than=TIME; --function measures dispatches without the time of the host"
                    .into(),
            );
        }
        (
            format!("it takes {low}, and at least {required} is required"),
            "give less than what it takes: --slower_than=TIME".into(),
        )
    }
}

/// Runs the checks.
pub(super) struct Checks {
    /// `argv[0]`.
    program: OsString,
    arguments: Vec<OsString>,
    /// The libraries of kernels, for processes.
    kernels: String,
    subject: Subject,
    /// The flag.
    timeout: Option<Duration>,
    /// How long the first check took.
    first: OnceLock<Duration>,
    interrupted: Arc<AtomicBool>,
    progress: Mutex<report::Progress>,
    /// What the first check of a command printed.
    printed: OnceLock<String>,
    /// What the first check of slowness measured.
    measured: OnceLock<Option<Measured>>,
    pub timeout_count: std::sync::atomic::AtomicU64,
}

impl Checks {
    /// Finds what the capture shows; `directory` is for files. Returns the dispatch that probably shows it as well.
    pub(super) fn find(
        invocation: &Invocation,
        check: Check,
        timeout: Option<Duration>,
        interrupted: Arc<AtomicBool>,
        directory: &Path,
    ) -> Result<(Self, Option<SlicedDispatch>)> {
        let mut this = Self {
            program: invocation.program.clone(),
            arguments: invocation.arguments(),
            kernels: match check {
                Check::Command(_) => String::new(),
                Check::Crash | Check::Wrong | Check::Slow(_) => {
                    child::compile_kernels(&invocation.flags, directory)?
                }
            },
            subject: Subject::Crash(Crash { signal: String::new(), function: None }),
            timeout,
            first: OnceLock::new(),
            interrupted,
            progress: Mutex::new(report::Progress::default()),
            printed: OnceLock::new(),
            measured: OnceLock::new(),
            timeout_count: Default::default(),
        };
        let capture = invocation.operand();
        let suspect;
        (this.subject, suspect) = match check {
            Check::Command(command) => (Subject::Command(command), None),
            Check::Crash => this.find_crash(&capture, directory)?,
            Check::Wrong => {
                let expected = match child::is_compared_with_captured(&invocation.flags) {
                    true => "the captured executables",
                    false => "the ledger",
                };
                this.find_wrong(&capture, expected)?
            }
            Check::Slow(threshold) => (this.find_slow(&capture, threshold)?, None),
        };
        Ok((this, suspect))
    }

    /// What is looked for, in a line.
    pub(super) fn description(&self) -> String {
        match &self.subject {
            Subject::Command(command) => format!("{} exits with status 0", command.program()),
            Subject::Crash(Crash { signal, function: Some(function) }) => {
                format!("a crash with {signal} in '{}'", output::escaped(function))
            }
            Subject::Crash(Crash { signal, function: None }) => format!("a crash with {signal}"),
            Subject::Wrong(WrongResult { dispatch: Some(it), .. }) => {
                format!("the wrong bytes of binding {} of '{}'", it.binding, output::escaped(&it.function))
            }
            Subject::Wrong(_) => "the wrong bytes of a host read".into(),
            Subject::Slow(threshold) => format!("at least {}", report::time(*threshold)),
        }
    }

    /// What the first check of a command printed, if it failed.
    pub(super) fn printed(&self) -> Option<&str> {
        self.printed.get().map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Why the first check of slowness failed, and what to do.
    pub(super) fn too_fast(&self) -> Option<(String, String)> {
        let (Subject::Slow(threshold), Some(measured)) = (&self.subject, self.measured.get()) else {
            return None;
        };
        Some(match measured {
            Some(measured) => measured.why_not(*threshold),
            None => (
                "its time could not be measured".into(),
                "replay the capture with `rehal run`, or give it more time: --check_timeout=10m".into(),
            ),
        })
    }

    fn child(&self, request: &Request, capture: &Path) -> Result<Ended> {
        let mut command = child::command(&self.program, &self.arguments, request, capture, &self.kernels)?;
        let status =
            PassedFile::new(&[]).map_err(|error| Error::io("starting a process for a check", &error))?;
        command.env(own_process::STATUS, status.name());
        let ended = self.process(command, "rehal")?;
        Ok(Ended { is_announced: status.has_bytes(), ..ended })
    }

    fn process(&self, command: Command, program: &str) -> Result<Ended> {
        let limit = match (self.timeout, self.first.get()) {
            (Some(timeout), _) => timeout,
            (None, Some(first)) => (*first * TIMEOUT_FACTOR).max(SHORTEST_TIMEOUT),
            (None, None) => FIRST_TIMEOUT,
        };
        let ended = process::run(command, limit, &self.interrupted).map_err(|error| {
            let is_limit = error.kind() == std::io::ErrorKind::WouldBlock;
            let error = Error::io(format!("starting '{}' for a check", output::escaped(program)), &error);
            error.advise(match is_limit {
                true => "raise the limit on processes and threads: ulimit -u, or that of the container",
                false => "name a program that exists and can be executed: --check='PROGRAM {}'",
            })
        })?;
        if ended.end == End::TimedOut {
            self.timeout_count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(ended)
    }

    fn find_crash(&self, capture: &Path, directory: &Path) -> Result<(Subject, Option<SlicedDispatch>)> {
        let ended = self.child(&Request::Replay, capture)?;
        let Some(crash) = crash_of(&ended) else {
            return Err(self.no_subject("a replay of the capture does not crash", &ended));
        };
        let place = directory.join("place");
        // It may crash elsewhere if operations are performed one by one.
        let again = self.child(&Request::Locate(place.clone()), capture)?;
        let suspect = if crash_of(&again).as_ref() == Some(&crash) { child::located(&place) } else { None };
        Ok((Subject::Crash(crash), suspect))
    }

    fn find_wrong(&self, capture: &Path, expected: &str) -> Result<(Subject, Option<SlicedDispatch>)> {
        let ended = self.child(&Request::FindWrong, capture)?;
        let answer = child::answer(&ended.stdout);
        let wrong = answer.as_ref().and_then(|answer| child::wrong_of(&answer["wrong"]));
        let Some(wrong) = wrong else {
            let report = answer.as_ref().and_then(|answer| answer["report"].as_str()).unwrap_or_default();
            return Err(
                match (report.lines().next(), answer.as_ref().is_some_and(|it| it["same"] == true)) {
                    (None, _) => {
                        self.no_subject(&format!("the capture cannot be compared with {expected}"), &ended)
                    }
                    (Some(first), true) => {
                        self.no_subject(&format!("no difference from {expected}: {first}"), &ended)
                    }
                    (Some(_), false) => Error::failed_precondition(format!(
                        "no difference from {expected}, of which not all could be compared: {}",
                        report.trim_end()
                    ))
                    .advise(ledger_flags::MAKE_LEDGER),
                },
            );
        };
        let suspect = wrong.dispatch.as_ref().map(|it| it.place);
        Ok((Subject::Wrong(wrong), suspect))
    }

    fn find_slow(&self, capture: &Path, threshold: Option<Duration>) -> Result<Subject> {
        if let Some(threshold) = threshold {
            return Ok(Subject::Slow(threshold));
        }
        let ended = self.child(&Request::Time, capture)?;
        match child::times_of(&ended.stdout) {
            Some(times) if stats::median(&times) > 0.0 => {
                Ok(Subject::Slow(child::duration(stats::median(&times) / 2.0)))
            }
            Some(_) => Err(Error::not_found("the capture has no dispatch of such a function")
                .advise("`rehal kernels` lists the functions: --function=GLOB")),
            None => Err(self.no_subject("the time of the capture cannot be measured", &ended)),
        }
    }

    /// The error for a capture that does not show what is looked for.
    fn no_subject(&self, what: &str, ended: &Ended) -> Error {
        let printed = String::from_utf8_lossy(&ended.stderr);
        // An error of the process has its own advice, which is the one to follow.
        let (printed, advice) = match printed.trim_end().rsplit_once("\n  try: ") {
            Some((printed, advice)) if !advice.contains('\n') => (printed, Some(advice)),
            _ => (printed.trim_end(), None),
        };
        let mut message = what.to_string();
        if ended.end == End::TimedOut {
            message.push_str(" within the time of a check");
        }
        if !printed.is_empty() {
            message.push_str(&format!("\n{printed}"));
        }
        Error::failed_precondition(message).advise(match (ended.end, advice) {
            (End::TimedOut, _) => "give it more time: --check_timeout=10m",
            (_, Some(advice)) => advice,
            (_, None) => "name what the capture shows: --check=crash, wrong or slow, or --check='COMMAND {}'",
        })
    }

    fn is_command_interesting(&self, command: &CheckCommand, capture: &Path) -> Result<bool> {
        let begun = Instant::now();
        let ended = self.process(command.on(capture)?, command.program())?;
        let is_interesting = matches!(ended.end, End::Exited(status) if status.success());
        if self.first.get().is_none() {
            let mut printed = [ended.stdout, ended.stderr].concat();
            let tail = printed.split_off(printed.len().saturating_sub(1000));
            let how = how(ended.end);
            let printed = format!("it {how}\n{}", String::from_utf8_lossy(&tail));
            let _ = self.printed.set(printed.trim_end().to_string());
            let _ = self.first.set(begun.elapsed());
        }
        Ok(is_interesting)
    }
}

impl ReduceHost for Checks {
    fn is_interesting(&self, capture: &Path) -> Result<bool> {
        if let Subject::Command(command) = &self.subject {
            return self.is_command_interesting(command, capture);
        }
        let begun = Instant::now();
        let is_interesting = match &self.subject {
            Subject::Command(_) => false,
            Subject::Crash(crash) => {
                crash_of(&self.child(&Request::Replay, capture)?).as_ref() == Some(crash)
            }
            Subject::Wrong(wrong) => {
                let ended = self.child(&Request::HasWrong(wrong.clone()), capture)?;
                status_of(&ended) == Some(INTERESTING)
            }
            Subject::Slow(threshold) => {
                let ended = self.child(&Request::Time, capture)?;
                let times = child::times_of(&ended.stdout).filter(|times| !times.is_empty());
                let interval = times.map(|times| stats::bootstrap(&times, stats::median));
                let low = interval.map(|it| child::duration(it.low));
                let measured = interval
                    .map(|it| Measured { low: child::duration(it.low), high: child::duration(it.high) });
                if self.measured.set(measured).is_ok() && child::is_of_host(&ended.stdout) {
                    output::note(
                        "note: the device reports no times of dispatches: those of the host contain their submission",
                    );
                }
                low.is_some_and(|low| low >= *threshold)
            }
        };
        let _ = self.first.set(begun.elapsed());
        Ok(is_interesting)
    }

    fn slice(&self, capture: &Path, dispatch: SlicedDispatch, output: &Path) -> Result<bool> {
        let ended = self.child(&Request::Slice(dispatch, PathBuf::from(output)), capture)?;
        let is_written = status_of(&ended) == Some(NOT_INTERESTING);
        if !is_written {
            let _ = fs::remove_file(output);
        }
        Ok(is_written)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn progress(&self, progress: &ReduceProgress) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).tell(progress);
    }
}

/// The exit status of a ready check that ran to its end.
fn status_of(ended: &Ended) -> Option<u8> {
    let End::Exited(status) = ended.end else { return None };
    let status = u8::try_from(status.code()?).ok()?;
    (ended.is_announced && [INTERESTING, NOT_INTERESTING].contains(&status)).then_some(status)
}

/// The crash of a process, if it ended by one.
fn crash_of(ended: &Ended) -> Option<Crash> {
    let End::Exited(status) = ended.end else { return None };
    let printed = String::from_utf8_lossy(&ended.stderr);
    let report =
        printed.lines().rev().find_map(|line| line.split_once("; a kernel crashed with ").map(|it| it.1));
    if let (Some(CrashReports::EXIT_STATUS), Some(report)) = (status.code(), report) {
        let signal = report.split([' ', ':']).next().unwrap_or_default().to_string();
        let name = report.split_once("function '").map(|it| it.1);
        let function = name.and_then(|name| name.rsplit_once("' (")).map(|it| it.0);
        // A label may have parentheses as well: the ordinal follows the name.
        let function = function.map(|text| text.split("' (").next().unwrap_or(text).to_string());
        return Some(Crash { signal, function });
    }
    if let (Some(code), false) = (status.code(), ended.is_announced) {
        return Some(Crash { signal: format!("exit status {code}"), function: None });
    }
    let signal = status.signal()?;
    // Not those by which others end a process.
    const ENDED: [i32; 5] = [1, 2, 9, 13, 15];
    (!ENDED.contains(&signal)).then(|| Crash { signal: format!("signal {signal}"), function: None })
}

fn how(end: End) -> String {
    match end {
        End::TimedOut => "took longer than --check_timeout allows".into(),
        End::Interrupted => "was interrupted".into(),
        End::Exited(status) => exited(status),
    }
}

fn exited(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (_, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_within_the_interval_cannot_be_told() {
        let of = |low, high| Measured { low: Duration::from_micros(low), high: Duration::from_micros(high) };
        let why = |measured: Measured| measured.why_not(Duration::from_micros(100)).0;
        assert_eq!(
            why(of(90, 110)),
            "it takes 90.0 us to 110.0 us (95 % interval of the median), which cannot be told from 100.0 us"
        );
        assert_eq!(why(of(80, 99)), "it takes 80.0 us, and at least 100.0 us is required");
        assert_eq!(why(of(0, 0)), "it has no dispatch of such a function");
    }
}
