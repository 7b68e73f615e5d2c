//! The subject of a reduction: a command, a crash, a wrong result, or slowness.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rehal::work::{CheckTask, CheckWork, Checked, VerifyWork, located};
use rehal_base::{Error, Result};
use rehal_devices::CrashReports;
use rehal_edit::{ReduceHost, ReduceProgress, SlicedDispatch, WrongResult};
use rehal_jobs::{Confinement, Job, JobEnd, JobLimits, JobOutcome, KeptOutput};
use rehal_judge::{Outcome, stats};

use super::command::CheckCommand;
use super::report;
use crate::tools::{ledger_flags, verify};
use crate::{advice, output};

/// The time that the first check may take, and slices and other preparations, unless the flag says more.
const FIRST_TIMEOUT: Duration = Duration::from_secs(300);
/// By default, a check may take as many times as long as the first.
const TIMEOUT_FACTOR: u32 = 10;
/// By default, a check may take at least this long.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of what a process prints is kept: its end.
const KEPT_BYTES: usize = 16 << 10;

/// The request: what candidates have to show.
pub(super) enum Check {
    Command(CheckCommand),
    Crash,
    Wrong,
    /// At least this slow; `None` for half of the time of the capture.
    Slow(Option<Duration>, Option<String>),
}

/// The subject that the capture itself shows.
enum Subject {
    Command(CheckCommand),
    Crash(Crash),
    Wrong(WrongResult),
    Slow(Duration, Option<String>),
}

/// How a replay crashes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Crash {
    /// Its signal, or the call that ends the process, if a report names it; otherwise that of the process.
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
    /// Of the workers.
    confinement: Confinement,
    /// The work of workers, with the capture itself.
    work: CheckWork,
    subject: Subject,
    /// The flag.
    timeout: Option<Duration>,
    /// How long the first check took.
    first: OnceLock<Duration>,
    interrupted: Arc<AtomicBool>,
    progress: Mutex<report::Progress>,
    /// The output of the first check of a command.
    printed: OnceLock<String>,
    /// The time that the first check of slowness measured.
    measured: OnceLock<Option<Measured>>,
    pub timeout_count: std::sync::atomic::AtomicU64,
}

impl Checks {
    /// Finds what the capture shows; `directory` is for files. Returns the dispatch that probably shows it as
    /// well.
    pub(super) fn find(
        confinement: Confinement,
        verify: VerifyWork,
        check: Check,
        timeout: Option<Duration>,
        interrupted: Arc<AtomicBool>,
        directory: &Path,
    ) -> Result<(Self, Option<SlicedDispatch>)> {
        let mut this = Self {
            confinement,
            work: CheckWork { verify, task: CheckTask::Replay },
            subject: Subject::Crash(Crash { signal: String::new(), function: None }),
            timeout,
            first: OnceLock::new(),
            interrupted,
            progress: Mutex::new(report::Progress::begin()),
            printed: OnceLock::new(),
            measured: OnceLock::new(),
            timeout_count: Default::default(),
        };
        let capture = this.work.verify.setup.capture().to_owned();
        let suspect;
        (this.subject, suspect) = match check {
            Check::Command(command) => (Subject::Command(command), None),
            Check::Crash => this.find_crash(&capture, directory)?,
            Check::Wrong => this.find_wrong(&capture)?,
            Check::Slow(threshold, function) => (this.find_slow(&capture, threshold, function)?, None),
        };
        Ok((this, suspect))
    }

    /// The subject, in a line.
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
            Subject::Slow(threshold, _) => format!("at least {}", report::time(*threshold)),
        }
    }

    /// The output of the first check of a command, if it failed.
    pub(super) fn printed(&self) -> Option<&str> {
        self.printed.get().map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Why the first check of slowness failed, and what to do.
    pub(super) fn too_fast(&self) -> Option<(String, String)> {
        let (Subject::Slow(threshold, _), Some(measured)) = (&self.subject, self.measured.get()) else {
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

    fn child(&self, task: CheckTask, capture: &Path) -> Result<JobOutcome> {
        let mut work = CheckWork { task, ..self.work.clone() };
        // The capture itself may be truncated; candidates are not.
        if capture != work.verify.setup.capture() {
            work.verify.setup = work.verify.setup.of_capture(capture);
        }
        self.process(Job::for_work(&work, &self.confinement)?, "rehal")
    }

    fn process(&self, mut job: Job, program: &str) -> Result<JobOutcome> {
        let limit = match (self.timeout, self.first.get()) {
            (Some(timeout), _) => timeout,
            (None, Some(first)) => (*first * TIMEOUT_FACTOR).max(SHORTEST_TIMEOUT),
            (None, None) => FIRST_TIMEOUT,
        };
        (job.limits, job.kept) = (JobLimits::for_time(limit), KeptOutput::Last(KEPT_BYTES));
        let mut watch = |_| match self.is_interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let ended = job.run(&mut watch).map_err(|error| {
            let is_limit = error.kind() == std::io::ErrorKind::WouldBlock;
            let error = Error::io(format!("starting '{}' for a check", output::escaped(program)), &error);
            error.advise(match is_limit {
                true => "raise the limit on processes and threads: ulimit -u, or that of the container",
                false => "name a program that exists and can be executed: --check='PROGRAM {}'",
            })
        })?;
        if is_timed_out(&ended) {
            self.timeout_count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(ended)
    }

    fn find_crash(&self, capture: &Path, directory: &Path) -> Result<(Subject, Option<SlicedDispatch>)> {
        let ended = self.child(CheckTask::Replay, capture)?;
        let Some(crash) = crash_of(&ended) else {
            return Err(self.no_subject("a replay of the capture does not crash", &ended));
        };
        let place = directory.join("place");
        // It may crash elsewhere if operations are performed one by one.
        let again = self.child(CheckTask::Locate(place.clone().into()), capture)?;
        let suspect = if crash_of(&again).as_ref() == Some(&crash) { located(&place) } else { None };
        Ok((Subject::Crash(crash), suspect))
    }

    fn find_wrong(&self, capture: &Path) -> Result<(Subject, Option<SlicedDispatch>)> {
        let verify = &self.work.verify;
        let expected = match verify.ledger.is_none() && !verify.setup.options.substitutions.is_empty() {
            true => "the captured executables",
            false => "the ledger",
        };
        let ended = self.child(CheckTask::FindWrong, capture)?;
        let (wrong, report, is_same) = match answer_of(&ended) {
            Some(Checked::Wrong { wrong, verification }) => {
                (wrong, verify::report(&verification), verification.outcome() == Outcome::Same)
            }
            _ => (None, String::new(), false),
        };
        let Some(wrong) = wrong else {
            return Err(match (report.lines().next(), is_same) {
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
            });
        };
        let suspect = wrong.dispatch.as_ref().map(|it| it.place);
        Ok((Subject::Wrong(wrong), suspect))
    }

    fn find_slow(
        &self,
        capture: &Path,
        threshold: Option<Duration>,
        function: Option<String>,
    ) -> Result<Subject> {
        if let Some(threshold) = threshold {
            return Ok(Subject::Slow(threshold, function));
        }
        let ended = self.child(CheckTask::Time(function.clone()), capture)?;
        match times_of(&ended) {
            Some((times, _)) if stats::median(&times) > 0.0 => {
                Ok(Subject::Slow(duration(stats::median(&times) / 2.0), function))
            }
            Some(_) => Err(Error::not_found("the capture has no dispatch of such a function")
                .advise("`rehal kernels` lists the functions: --function=GLOB")),
            None => Err(self.no_subject("the time of the capture cannot be measured", &ended)),
        }
    }

    /// The error for a capture that does not show what is looked for.
    fn no_subject(&self, what: &str, ended: &JobOutcome) -> Error {
        let printed = self.printed_by(ended);
        // An error of the process has its own advice, which is the one to follow.
        let (printed, advice) = match printed.trim_end().rsplit_once("\n  try: ") {
            Some((printed, advice)) if !advice.contains('\n') => (printed, Some(advice)),
            _ => (printed.trim_end(), None),
        };
        let mut message = what.to_string();
        if is_timed_out(ended) {
            message.push_str(" within the time of a check");
        }
        if !printed.is_empty() {
            message.push_str(&format!("\n{printed}"));
        }
        Error::failed_precondition(message).advise(match (ended.end, advice) {
            (JobEnd::TimedOut { .. }, _) => "give it more time: --check_timeout=10m",
            (_, Some(advice)) => advice,
            (_, None) => "name what the capture shows: --check=crash, wrong or slow, or --check='COMMAND {}'",
        })
    }

    /// The report of a worker on its failure.
    fn printed_by(&self, ended: &JobOutcome) -> String {
        match ended.of_work::<CheckWork>() {
            Some(Err(error)) => {
                let error = match error.message().starts_with("nothing to compare with") {
                    true => error.replace_advice(
                        "name a ledger of the capture with --against=PATH (rehal run --replay_ledger=PATH writes one), or another \
                         executable with --replay_executable_substitution",
                    ),
                    false if self.is_of_ledger(&error) => error.replace_advice(ledger_flags::MAKE_LEDGER),
                    false => error,
                };
                advice::report(&error)
            }
            _ => String::from_utf8_lossy(&ended.stderr.bytes).into_owned(),
        }
    }

    /// Whether an error is that of the ledger, or of one of another capture.
    fn is_of_ledger(&self, error: &Error) -> bool {
        let Some(path) = &self.work.verify.ledger else { return false };
        let path = path.to_string_lossy();
        error.context_lines().iter().any(|line| line.contains(&*path)) || error.message().contains(&*path)
    }

    fn is_command_interesting(&self, command: &CheckCommand, capture: &Path) -> Result<bool> {
        let begun = Instant::now();
        let ended = self.process(command.on(capture)?, command.program())?;
        let is_interesting = ended.is_success();
        if self.first.get().is_none() {
            let mut printed = [ended.stdout.bytes, ended.stderr.bytes].concat();
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
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).check();
        if let Subject::Command(command) = &self.subject {
            return self.is_command_interesting(command, capture);
        }
        let begun = Instant::now();
        let is_interesting = match &self.subject {
            Subject::Command(_) => false,
            Subject::Crash(crash) => {
                crash_of(&self.child(CheckTask::Replay, capture)?).as_ref() == Some(crash)
            }
            Subject::Wrong(wrong) => {
                let ended = self.child(CheckTask::HasWrong(wrong.clone()), capture)?;
                matches!(answer_of(&ended), Some(Checked::HasWrong(true)))
            }
            Subject::Slow(threshold, function) => {
                let ended = self.child(CheckTask::Time(function.clone()), capture)?;
                let times = times_of(&ended).filter(|(times, _)| !times.is_empty());
                let is_of_host = times.as_ref().is_some_and(|(_, is_of_host)| *is_of_host);
                let interval = times.and_then(|(times, _)| stats::median_interval(&times, 0.05));
                let low = interval.map(|it| duration(it.low));
                let measured = interval.map(|it| Measured { low: duration(it.low), high: duration(it.high) });
                if self.measured.set(measured).is_ok() && is_of_host {
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
        let ended = self.child(CheckTask::Slice(dispatch, output.into()), capture)?;
        let is_written = matches!(answer_of(&ended), Some(Checked::Done));
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

/// A time in nanoseconds.
fn duration(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}

fn is_timed_out(ended: &JobOutcome) -> bool {
    matches!(ended.end, JobEnd::TimedOut { .. })
}

/// The answer of a worker that ran to its end.
fn answer_of(ended: &JobOutcome) -> Option<Checked> {
    ended.of_work::<CheckWork>()?.ok()
}

/// The times that a worker measured, in nanoseconds, and whether they are those of the host.
fn times_of(ended: &JobOutcome) -> Option<(Vec<f64>, bool)> {
    match answer_of(ended)? {
        Checked::Times { times, is_of_host } => Some((times, is_of_host)),
        _ => None,
    }
}

/// The crash of a process, if it ended by one.
fn crash_of(ended: &JobOutcome) -> Option<Crash> {
    let printed = String::from_utf8_lossy(&ended.stderr.bytes);
    // What the guard says before it ends the process, also of a call of exit(3).
    let reports = [("; a kernel crashed with ", ""), ("; a kernel called ", "a call of ")];
    let report = printed
        .lines()
        .rev()
        .find_map(|line| reports.iter().find_map(|(start, how)| Some((*how, line.split_once(start)?.1))));
    if let (JobEnd::Exited(CrashReports::EXIT_STATUS), Some((how, report))) = (ended.end, report) {
        let signal = format!("{how}{}", report.split([' ', ':']).next().unwrap_or_default());
        let name = report.split_once("function '").map(|it| it.1);
        let function = name.and_then(|name| name.rsplit_once("' (")).map(|it| it.0);
        // A label may have parentheses as well: the ordinal follows the name.
        let function = function.map(|text| text.split("' (").next().unwrap_or(text).to_string());
        return Some(Crash { signal, function });
    }
    match ended.end {
        JobEnd::Exited(code) if ended.announced.is_none() => {
            Some(Crash { signal: format!("exit status {code}"), function: None })
        }
        JobEnd::Signaled(signal) => {
            // Not those by which others end a process.
            const ENDED: [i32; 5] = [1, 2, 9, 13, 15];
            (!ENDED.contains(&signal)).then(|| Crash { signal: format!("signal {signal}"), function: None })
        }
        _ => None,
    }
}

fn how(end: JobEnd) -> String {
    match end {
        JobEnd::TimedOut { .. } => "took longer than --check_timeout allows".into(),
        JobEnd::Exited(_) => format!("exited {end}"),
        JobEnd::Signaled(_) | JobEnd::Interrupted => format!("was ended {end}"),
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
            "it takes 90.0 us to 110 us (95 % interval of the median), which cannot be told from 100 us"
        );
        assert_eq!(why(of(80, 99)), "it takes 80.0 us, and at least 100 us is required");
        assert_eq!(why(of(0, 0)), "it has no dispatch of such a function");
    }
}
