use std::env;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode, keep_freed_memory};
use rehal_devices::CrashReports;
use rehal_jobs::{
    Asker, Caller, Confinement, Isolation, Job, JobEnd, JobLimits, JobOutcome, JobProgress, KeptOutput,
    Printed, Work, WorkOptions, perform_after,
};
use rehal_judge::{
    CompareOptions, CompareSubject, Comparison, FreshInputs, KernelComparer, Measuring, Outcome, Pulse,
};
use rehal_kernels::{KernelOptions, Kernels};
use rehal_replay::{Plan, Replacement, Selector, Substitution};
use serde::{Deserialize, Serialize};

use super::setup::{ReplaySetup, add_code};
use super::side::SideReplay;

/// The comparison of a kernel of a capture with a replacement.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompareWork {
    /// The replays of both sides.
    pub setup: ReplaySetup,
    /// The name of the function.
    pub function: String,
    /// The options of the check and of the timing.
    pub options: CompareOptions,
    /// The kernel with which the replacement is compared, if it is not the captured one.
    pub baseline: Option<Replacement>,
    /// The replacement; `None` for none yet.
    pub replacement: Option<Replacement>,
}

impl CompareWork {
    /// A comparison of this function, without a replacement.
    pub fn new(setup: ReplaySetup, function: impl Into<String>, options: CompareOptions) -> Self {
        Self { setup, function: function.into(), options, baseline: None, replacement: None }
    }

    /// The same with a replacement.
    pub fn with(self, replacement: Replacement) -> Self {
        Self { replacement: Some(replacement), ..self }
    }

    /// Prepares the side of the capture.
    pub fn comparer(&self, plan: Arc<Plan>) -> Result<KernelComparer> {
        plan.check_not_empty()?;
        let shapes = Kernels::from_plan(&plan, &KernelOptions::default())?.compared(&plan, &self.function)?;
        let devices = self.setup.devices.to_options()?;
        let baseline = self.baseline.iter().cloned();
        let baseline = baseline.map(|it| Substitution::new(Selector::Name(self.function.clone()), it));
        KernelComparer::new(CompareSubject {
            plan,
            devices: devices.open()?,
            other_devices: devices.open()?,
            replay: self.setup.options.clone().substitutions(baseline.collect()),
            function: self.function.clone(),
            shapes,
        })
    }

    /// Compares where the options say. A process that crashes may do so because of inputs that were changed,
    /// which may be out of bounds for either kernel: then it is compared with the captured ones alone, in
    /// what is left of the limit, and the comparison says so.
    pub fn run(&self, options: &WorkOptions) -> Result<Comparison> {
        let attempt = |work: &Self, spent| perform_after(work, options, spent);
        let (first, again) = self.attempts(attempt, |(_, end)| end.is_some_and(is_crash))?;
        let has_crashed = again.is_some();
        let comparison = again.unwrap_or(first).0?;
        match options.isolation {
            Isolation::None => Ok(comparison),
            Isolation::Process => self.confirm(comparison, has_crashed, options),
        }
    }

    /// Compares again what a process says is right, since it could say so of anything: with each side in a
    /// process of its own, and the comparison in this one. If a process `has_crashed` with changed inputs,
    /// the replacement is wrong if it fails with fresh ones again, and the captured kernel does not.
    fn confirm(
        &self,
        mut comparison: Comparison,
        has_crashed: bool,
        options: &WorkOptions,
    ) -> Result<Comparison> {
        comparison.changes_inputs = self.options.changes_inputs && !has_crashed;
        if !comparison.is_right() {
            return Ok(comparison);
        }
        let plan = self.setup.plan()?;
        let side = |code: Option<&Replacement>| {
            let mut setup = self.setup.clone();
            let selector = Selector::Name(self.function.clone());
            let substitution = code.map(|it| Substitution::new(selector, it.clone()));
            setup.options.substitutions = substitution.into_iter().collect();
            SideReplay::of_setup(&plan, &setup, options)
        };
        let (expected, actual) = (side(self.baseline.as_ref())?, side(self.replacement.as_ref())?);
        let mut verify = self.options.verify.clone();
        verify.measures_rounding &= comparison.changes_inputs;
        // A kernel could know the values of a seed that is not drawn here.
        let fresh = || FreshInputs::of_function(&self.function, &verify, fastrand::u64(..));
        let fresh = if self.options.changes_inputs { fresh() } else { None };
        for fresh in [None].into_iter().chain(fresh.as_ref().map(Some)) {
            let found = match expected.lockstep(&actual, &verify, fresh) {
                Err(error) if has_crashed && fresh.is_some() => {
                    // The other processes were left in the middle of a replay.
                    let [one, other] = [side(self.baseline.as_ref())?, side(self.baseline.as_ref())?];
                    if one.lockstep(&other, &verify, fresh).is_ok() {
                        let message = error.message();
                        comparison.not_reproduced = Some(format!(
                            "with fresh values of its inputs, which the captured kernel takes, it fails: {message}"
                        ));
                    }
                    break;
                }
                found => found?,
            };
            match (found.outcome(), found.inconclusive.first()) {
                (Outcome::Inconclusive, reason) => {
                    let reason = reason.map_or("", String::as_str);
                    let message = format!("cannot tell whether the replacement is right: {reason}");
                    return Err(Error::failed_precondition(message));
                }
                (Outcome::Different, _) if fresh.is_none() => {
                    comparison.verification = found;
                    break;
                }
                (Outcome::Different, _) => {
                    let place =
                        found.differences.first().map(|it| format!(", at record #{}", it.place.record));
                    let place = place.unwrap_or_default();
                    comparison.not_reproduced =
                        Some(format!("with fresh values of its inputs, it computes something else{place}"));
                }
                (Outcome::Same, _) => {}
            }
        }
        Ok(comparison)
    }

    /// The first attempt and, if it crashed with changed inputs, one with the captured inputs. `attempt` gets
    /// the time that was spent before.
    fn attempts<T>(
        &self,
        mut attempt: impl FnMut(&Self, Duration) -> Result<T>,
        is_crashed: impl FnOnce(&T) -> bool,
    ) -> Result<(T, Option<T>)> {
        let begun = Instant::now();
        let first = attempt(self, Duration::ZERO)?;
        if !self.options.changes_inputs || !is_crashed(&first) {
            return Ok((first, None));
        }
        let mut work = self.clone();
        work.options.changes_inputs = false;
        Ok((first, Some(attempt(&work, begun.elapsed())?)))
    }
}

impl Work for CompareWork {
    const NAME: &'static str = "compare";
    type Outcome = Comparison;

    fn perform(&self, caller: &Caller<'_>) -> Result<Comparison> {
        let mut options = self.options.clone();
        options.verify.measures_rounding &= options.changes_inputs;
        if let Some(asker) = caller.asker()? {
            keep_freed_memory();
            options.pulse = pulse_of(asker);
        }
        let replacement =
            self.replacement.as_ref().ok_or_else(|| Error::invalid_argument("no replacement"))?;
        let plan = self.setup.plan()?;
        caller.confine(|confinement| {
            self.setup.confine(&plan, confinement);
            self.baseline.iter().chain([replacement]).for_each(|it| add_code(it, confinement));
        })?;
        let comparer = self.comparer(plan)?;
        let mut reports = CrashReports::records();
        let checked = comparer.check(replacement, &options, &mut [&mut reports])?;
        caller.reach_milestone();
        checked.time(&mut [&mut reports])
    }
}

/// How far the timing of a worker is: what it asks, and the answer is whether it continues.
#[derive(Serialize, Deserialize)]
struct Beat {
    sample_count: u64,
    elapsed: Duration,
}

/// A pulse of a worker, which is that of the process that started it.
fn pulse_of(asker: Asker) -> Pulse {
    /// The process that started it looks from time to time.
    const INTERVAL: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    let asking = Mutex::new((asker, begun));
    Pulse::new(move |it| {
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
    })
}

/// A comparison in a worker.
#[derive(Debug)]
pub struct IsolatedComparison {
    /// Its end.
    pub end: CompareEnd,
    /// The standard output of its kernels.
    pub stdout: Printed,
    /// The standard error of the worker.
    pub stderr: Printed,
}

/// How a comparison in a worker ended.
#[derive(Debug)]
pub enum CompareEnd {
    /// With a result.
    Compared(Box<Comparison>),
    /// With an error.
    Failed(Error),
    /// The replacement ended the process: how.
    Crashed(String),
    /// The process ended for a reason that says nothing about what the replacement computes: how.
    Ended(String),
    /// After this time, in which it was checked or timed.
    TimedOut {
        /// The limit.
        limit: Duration,
        /// Whether it was right, and timed.
        is_timing: bool,
    },
}

/// Compares in a worker of this program, which is ended if it is not known after `check` what the replacement
/// computes, or when `watch` says so; the pulse of the options may end its timing, whose result counts. The
/// second comparison is that with the captured inputs alone: see [`CompareWork::run`].
pub fn compare_isolated(
    work: &CompareWork,
    check: Duration,
    confinement: &Confinement,
    watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>,
) -> Result<(IsolatedComparison, Option<IsolatedComparison>)> {
    work.attempts(
        |tried, spent| attempt(work, tried, check, spent, confinement, watch),
        |it| matches!(it.end, CompareEnd::Crashed(_)),
    )
}

/// An attempt: `tried` changes no inputs if the work that is asked for has crashed before.
fn attempt(
    work: &CompareWork,
    tried: &CompareWork,
    check: Duration,
    spent: Duration,
    confinement: &Confinement,
    watch: &mut dyn FnMut(JobProgress) -> ControlFlow<()>,
) -> Result<IsolatedComparison> {
    /// How much of standard output and of standard error is kept.
    const KEPT_BYTES: usize = 64 << 10;
    let max_time = work.options.max_time;
    // A part of the checks is repeated after timing.
    let all = check.saturating_mul(2).saturating_add(max_time.saturating_mul(5));
    let mut job = Job::for_work(tried, confinement)?;
    (job.limits, job.kept) = (JobLimits::for_time(all.saturating_sub(spent)), KeptOutput::Last(KEPT_BYTES));
    // Its worker reaches it when the checks end and timing begins.
    job.limits.milestone = Some(check);
    let reply = &mut |question| {
        let continues = Beat::deserialize(question).is_ok_and(|it| {
            let measuring = Measuring::from_limits((it.sample_count, None), (it.elapsed, Some(max_time)));
            work.options.pulse.beat(measuring).is_continue()
        });
        continues.into()
    };
    let outcome = job.converse(watch, reply);
    let outcome = outcome.map_err(|error| Error::io("starting a process for a comparison", &error))?;
    let end = match outcome.end {
        JobEnd::Interrupted => return Err(Error::new(StatusCode::Cancelled, "a comparison was interrupted")),
        JobEnd::TimedOut { is_past_milestone: is_timing } => {
            let limit = if is_timing { all } else { check };
            CompareEnd::TimedOut { limit, is_timing }
        }
        end => match outcome.of_work::<CompareWork>() {
            Some(Ok(comparison)) => {
                let mut options = WorkOptions::default();
                (options.program, options.time) = (env::current_exe().ok(), Some(check));
                options.confinement = confinement.clone();
                let has_crashed = work.options.changes_inputs && !tried.options.changes_inputs;
                match work.confirm(comparison, has_crashed, &options) {
                    Ok(comparison) => CompareEnd::Compared(Box::new(comparison)),
                    Err(error) => CompareEnd::Failed(error),
                }
            }
            Some(Err(error)) => CompareEnd::Failed(error),
            None if is_crash(end) => CompareEnd::Crashed(how(&outcome)),
            None => CompareEnd::Ended(how(&outcome)),
        },
    };
    Ok(IsolatedComparison { end, stdout: outcome.stdout, stderr: outcome.stderr })
}

/// Whether a process ended because of what its kernel did. Others end it for lack of memory, and it ends
/// itself if the CPU lacks an instruction or a file was truncated: that says nothing about what the kernel
/// computes.
fn is_crash(end: JobEnd) -> bool {
    /// SIGXCPU of Linux.
    const XCPU: i32 = 24;
    match end {
        JobEnd::Exited(code) => code == CrashReports::EXIT_STATUS,
        // A limit of its time is the machine's.
        JobEnd::Signaled(signal) => !end.is_killed() && signal != XCPU,
        JobEnd::TimedOut { .. } | JobEnd::Interrupted => false,
    }
}

/// How a process ended that has no result.
fn how(outcome: &JobOutcome) -> String {
    let printed = String::from_utf8_lossy(&outcome.stderr.bytes);
    let end = outcome.end;
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
    use rustix::process::Signal;

    use super::*;

    fn ended(end: JobEnd, printed: &str) -> String {
        let mut outcome = Job::for_program("true").run(&mut |_| ControlFlow::Continue(())).unwrap();
        (outcome.end, outcome.stderr.bytes) = (end, printed.into());
        how(&outcome)
    }

    #[test]
    fn only_what_a_kernel_does_is_a_crash() {
        let (exited, signaled) = (JobEnd::Exited, |it: Signal| JobEnd::Signaled(it.as_raw()));
        let signals = [Signal::SEGV, Signal::ABORT, Signal::ALARM, Signal::SYS].map(signaled);
        for end in signals.into_iter().chain([exited(CrashReports::EXIT_STATUS)]) {
            assert!(is_crash(end), "{end:?}");
        }
        let truncated = exited(CrashReports::TRUNCATED_STATUS);
        for end in [exited(0), truncated, exited(5), signaled(Signal::KILL), signaled(Signal::TERM)] {
            assert!(!is_crash(end), "{end:?}");
        }
        let incompatible = "note: x\nINCOMPATIBLE; a kernel crashed with SIGILL: function 'f'\n  try: y\n";
        let why = ended(exited(1), incompatible);
        assert_eq!(why, "INCOMPATIBLE; a kernel crashed with SIGILL: function 'f'");
        assert_eq!(ended(exited(1), "why\n"), "its process ended with status 1");
        assert!(ended(signaled(Signal::KILL), "").contains("signal 9, as when"));
    }
}
