//! Comparisons in workers, so that a kernel that crashes ends only its own comparison.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};
use rehal_devices::CrashReports;
use rehal_hal::NeededWorkgroups;
use rehal_jobs::{Job, JobEnd, JobLimits, JobOutcome, JobProgress, KeptOutput, Printed, Worker};
use rehal_judge::{Measuring, Pulse};
use rehal_replay::{Code, Replacement};
use serde::{Deserialize, Serialize};

use super::candidates::Candidate;
use super::print;
use super::report::{CandidateReport, Outcome};
use crate::tool::RUNNER;
use crate::{Invocation, output};

/// What a worker compares, with the flags of the tool.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::tools) struct Request {
    /// The path of the replacement, instead of those of the flags. Any path is a message as an [`OsString`].
    candidate: OsString,
    /// Whether it may change inputs.
    pub changes_inputs: bool,
    pub effort: Effort,
    pub codes: Codes,
}

impl Request {
    /// The request of a worker.
    pub(super) fn from_worker(worker: &Worker) -> Result<Self> {
        worker.request().map_err(|error| Error::io("reading the request of a worker", &error))
    }

    pub(super) fn candidate(&self) -> Candidate {
        Candidate { path: PathBuf::from(&self.candidate) }
    }
}

/// How long a replacement is timed.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(in crate::tools) struct Effort {
    pub max_time: Duration,
    /// See [`CompareOptions::far`](rehal_judge::CompareOptions::far).
    pub far: f64,
}

/// Code that was read or compiled before.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::tools) struct Codes {
    /// What the replacement is compared with, if it is not the captured kernel.
    pub baseline: Option<ReadCode>,
    /// The replacement; `None` if the worker is to read or compile its file.
    pub replacement: Option<ReadCode>,
}

/// The code of a replacement, as a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::tools) struct ReadCode {
    #[serde(with = "base64_bytes")]
    bytes: Arc<[u8]>,
    format: Option<String>,
    keeps_missing: bool,
    name: Option<String>,
    workgroups: Vec<(Option<String>, Needed)>,
}

impl ReadCode {
    /// `None` of a file that has not been read.
    pub(in crate::tools) fn from_replacement(replacement: &Replacement) -> Option<Self> {
        let Code::Bytes(bytes) = &replacement.code else { return None };
        Some(Self {
            bytes: bytes.clone(),
            format: replacement.format.clone(),
            keeps_missing: replacement.keeps_missing,
            name: replacement.name.clone(),
            workgroups: replacement.workgroups.iter().map(|(name, it)| (name.clone(), it.into())).collect(),
        })
    }

    /// The workgroups that its functions need, in words, if these are not the captured ones.
    pub(in crate::tools) fn workgroups(&self) -> Option<String> {
        (!self.workgroups.is_empty()).then(|| format!("{:?}", self.workgroups))
    }

    pub(in crate::tools) fn to_replacement(&self) -> Replacement {
        let mut replacement = Replacement::bytes(self.bytes.clone());
        replacement.format.clone_from(&self.format);
        replacement.keeps_missing = self.keeps_missing;
        replacement.name.clone_from(&self.name);
        let workgroups = self.workgroups.iter().map(|(name, it)| (name.clone(), it.to_needed()));
        replacement.workgroups = workgroups.collect();
        replacement
    }

    pub(in crate::tools) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The workgroups that a function needs, as a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Needed {
    Same,
    Count([u32; 3]),
    Computed(String),
    Unknown(String),
}

impl From<&NeededWorkgroups> for Needed {
    fn from(it: &NeededWorkgroups) -> Self {
        match it {
            NeededWorkgroups::Same => Self::Same,
            NeededWorkgroups::Count(count) => Self::Count(*count),
            NeededWorkgroups::Computed(formula) => Self::Computed(formula.to_string()),
            NeededWorkgroups::Unknown(why) => Self::Unknown(why.to_string()),
        }
    }
}

impl Needed {
    fn to_needed(&self) -> NeededWorkgroups {
        match self {
            Self::Same => NeededWorkgroups::Same,
            Self::Count(count) => NeededWorkgroups::Count(*count),
            Self::Computed(text) => match text.parse() {
                Ok(formula) => NeededWorkgroups::Computed(Arc::new(formula)),
                Err(_) => NeededWorkgroups::Unknown("a message has no formula".into()),
            },
            Self::Unknown(why) => NeededWorkgroups::Unknown(why.as_str().into()),
        }
    }
}

/// Bytes in messages: a list of numbers would be three times as long.
mod base64_bytes {
    use std::sync::Arc;

    use base64::prelude::{BASE64_STANDARD, Engine};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Arc<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        BASE64_STANDARD.encode(bytes).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Arc<[u8]>, D::Error> {
        let bytes = BASE64_STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)?;
        Ok(bytes.into())
    }
}

/// How long a comparison may take.
#[derive(Clone, Copy)]
pub(in crate::tools) struct Limits {
    /// Until it is known what the replacement computes.
    pub check: Duration,
}

impl Limits {
    /// As a whole: a part of the checks is repeated after timing.
    fn all(&self, effort: Effort) -> Duration {
        self.check.saturating_mul(2).saturating_add(effort.max_time.saturating_mul(5))
    }

    /// The limits of the job. Its worker reaches the milestone when the checks end and timing begins.
    fn to_job(self, effort: Effort) -> JobLimits {
        let mut limits = JobLimits::for_time(self.all(effort));
        limits.milestone = Some(self.check);
        limits
    }
}

/// How far the timing of a worker is: what it asks, and the answer is whether it continues.
#[derive(Serialize, Deserialize)]
struct Beat {
    sample_count: u64,
    elapsed: Duration,
}

/// A pulse of a worker, which is that of the process that started it.
pub(super) fn pulse_of(worker: &Worker) -> Result<Pulse> {
    /// The process that started it looks from time to time.
    const INTERVAL: Duration = Duration::from_millis(100);
    let asker = worker.asker().map_err(|error| Error::io("asking whether to go on", &error))?;
    let begun = Instant::now();
    let asking = Mutex::new((asker, begun));
    Ok(Pulse::new(move |it| {
        let (asker, next_at) = &mut *asking.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() < *next_at {
            return ControlFlow::Continue(());
        }
        *next_at = Instant::now() + INTERVAL;
        let beat = Beat { sample_count: it.sample_count, elapsed: begun.elapsed() };
        match asker.ask(&beat) {
            Ok(false) => ControlFlow::Break(()),
            // If no process listens, this one is ended.
            Ok(true) | Err(_) => ControlFlow::Continue(()),
        }
    }))
}

/// Compares a replacement in a process with the same flags, which is ended after some time, or when `watch`
/// says so; `pulse` may end its timing, whose result counts. What its kernel prints is printed here.
///
/// A process that crashes may do so because of inputs that it has changed, which may be out of bounds for
/// either kernel: only one that crashes with the captured inputs is reported as a crash.
pub(in crate::tools) fn compare_candidate(
    invocation: &Invocation,
    candidate: &Candidate,
    codes: Codes,
    limits: Limits,
    effort: Effort,
    pulse: &Pulse,
    watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>,
) -> Result<CandidateReport> {
    let mut request =
        Request { candidate: candidate.path.clone().into(), changes_inputs: true, effort, codes };
    let report = attempt(invocation, candidate, &request, limits, pulse, watch)?;
    if report.outcome != Outcome::Crashed {
        return Ok(report);
    }
    request.changes_inputs = false;
    let again = attempt(invocation, candidate, &request, limits, pulse, watch)?;
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
    request: &Request,
    limits: Limits,
    pulse: &Pulse,
    watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>,
) -> Result<CandidateReport> {
    let cannot = |error| Error::io("starting a process for a comparison", &error);
    let job = Job::for_worker(invocation.program.clone(), invocation.arguments(), request);
    let mut job = job.map_err(cannot)?;
    (job.limits, job.kept) = (limits.to_job(request.effort), KeptOutput::Last(KEPT_BYTES));
    let mut notice = Notice { name: print::name(candidate), limit: limits.check, is_said: false };
    let watch = &mut |progress| {
        notice.watch(progress);
        watch(progress)
    };
    let max_time = Some(request.effort.max_time);
    let reply = &mut |question| {
        let continues = Beat::deserialize(question).is_ok_and(|it| {
            let measuring = Measuring::from_limits((it.sample_count, None), (it.elapsed, max_time));
            pulse.beat(measuring).is_continue()
        });
        continues.into()
    };
    let JobOutcome { end, answer, stdout, stderr, .. } =
        RUNNER.converse(&job, watch, reply).map_err(cannot)?;
    if end == JobEnd::Interrupted {
        return Err(Error::new(StatusCode::Cancelled, "a comparison was interrupted"));
    }
    let printed = text_of(&stderr);
    if stdout.dropped > 0 {
        output::note(&dropped(stdout.dropped, "standard output"));
    }
    output::print(&String::from_utf8_lossy(&stdout.bytes))?;
    match (end, answer.and_then(|it| CandidateReport::deserialize(it).ok())) {
        (JobEnd::Exited(0), Some(report)) => {
            eprint(&printed);
            Ok(report)
        }
        (JobEnd::TimedOut { is_past_milestone: is_timing }, _) => {
            eprint(&printed);
            let limit = if is_timing { limits.all(request.effort) } else { limits.check };
            Ok(CandidateReport::timed_out(candidate, limit, is_timing))
        }
        (end, _) if is_crash(end) => Ok(CandidateReport::crashed(candidate, &how(end, &printed), printed)),
        (end, _) => Ok(CandidateReport::ended(candidate, &how(end, &printed), &printed)),
    }
}

/// Says that the checks of a replacement take long, once.
struct Notice {
    name: String,
    limit: Duration,
    is_said: bool,
}

impl Notice {
    fn watch(&mut self, progress: JobProgress) {
        // A line of progress says so there.
        self.is_said |= std::io::stderr().is_terminal();
        const DELAY: Duration = Duration::from_secs(5);
        if progress.elapsed >= DELAY && !progress.is_past_milestone && !self.is_said {
            self.is_said = true;
            let (name, limit) = (&self.name, self.limit.as_secs_f64());
            output::note(&format!("{name} is still being checked, and is ended after {limit:.0} s"));
        }
    }
}

/// How much of standard output and of standard error is kept.
const KEPT_BYTES: usize = 64 << 10;

/// Messages, after what says that those before were dropped.
fn text_of(messages: &Printed) -> String {
    let text = String::from_utf8_lossy(&messages.bytes);
    match messages.dropped {
        0 => text.into_owned(),
        count => format!("{}\n{text}", dropped(count, "standard error")),
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

/// Whether a process ended because of what its kernel did. Others end it for lack of memory, and it ends
/// itself if the CPU lacks an instruction or a file was truncated: that says nothing about what the kernel
/// computes.
fn is_crash(end: JobEnd) -> bool {
    match end {
        JobEnd::Exited(code) => code == CrashReports::EXIT_STATUS,
        // A limit of its time is the machine's.
        JobEnd::Signaled(signal) => !end.is_killed() && signal != libc::SIGXCPU,
        JobEnd::TimedOut { .. } | JobEnd::Interrupted => false,
    }
}

/// How a process ended that has no result.
fn how(end: JobEnd, printed: &str) -> String {
    let report = printed.lines().rev().find(|line| line.contains("; a kernel "));
    let reported = end == JobEnd::Exited(CrashReports::EXIT_STATUS);
    let line = report.or_else(|| printed.lines().find(|line| reported && !line.is_empty()));
    match (line, end) {
        (Some(line), JobEnd::Exited(_)) => line.to_owned(),
        (_, JobEnd::Exited(_)) => format!("its process ended {end}"),
        (_, end) => format!("its process was ended {end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_kernel_does_is_a_crash() {
        let (exited, signaled) = (JobEnd::Exited, JobEnd::Signaled);
        let signals = [libc::SIGSEGV, libc::SIGABRT, libc::SIGALRM, libc::SIGSYS].map(signaled);
        for end in signals.into_iter().chain([exited(CrashReports::EXIT_STATUS)]) {
            assert!(is_crash(end), "{end:?}");
        }
        let truncated = exited(CrashReports::TRUNCATED_STATUS);
        for end in [exited(0), truncated, exited(5), signaled(libc::SIGKILL), signaled(libc::SIGTERM)] {
            assert!(!is_crash(end), "{end:?}");
        }
        let incompatible = "note: x\nINCOMPATIBLE; a kernel crashed with SIGILL: function 'f'\n  try: y\n";
        let why = how(exited(1), incompatible);
        assert_eq!(why, "INCOMPATIBLE; a kernel crashed with SIGILL: function 'f'");
        assert_eq!(how(exited(1), "why\n"), "its process ended with status 1");
        assert!(how(signaled(libc::SIGKILL), "").contains("signal 9, as when"));
    }

    #[test]
    fn code_is_a_string_in_a_message() {
        let bytes: Vec<u8> = (0..3000).map(|it| it as u8).collect();
        let replacement = Replacement::bytes(bytes)
            .of_format("f")
            .keep_missing()
            .named("n")
            .with_workgroups(Some("g"), NeededWorkgroups::Count([1, 2, 3]))
            .with_workgroups(Some("h"), NeededWorkgroups::Unknown("why".into()))
            .with_workgroups(
                Some("i"),
                NeededWorkgroups::Computed(Arc::new("in:0 =1 -> 0 1 1".parse().unwrap())),
            )
            .with_workgroups(None, NeededWorkgroups::Same);
        let code = ReadCode::from_replacement(&replacement);
        assert_eq!(ReadCode::from_replacement(&Replacement::file("n")), None);
        let message = serde_json::to_string(&Codes { baseline: None, replacement: code }).unwrap();
        assert!(message.len() < 4400, "{}", message.len());
        let again: Codes = serde_json::from_str(&message).unwrap();
        assert_eq!(again.baseline, None);
        assert_eq!(again.replacement.unwrap().to_replacement(), replacement);
        assert!(serde_json::from_str::<ReadCode>(r#"{"bytes":"?","keeps_missing":false}"#).is_err());
    }

    #[test]
    fn the_start_of_messages_may_be_dropped() {
        let messages = |dropped| text_of(&Printed { bytes: b"end\n".to_vec(), dropped });
        assert_eq!(messages(0), "end\n");
        assert_eq!(messages(7), dropped(7, "standard error") + "\nend\n");
    }
}
