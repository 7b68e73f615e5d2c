//! Ready checks in workers, which have the flags of the tool: a crash ends only them.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rehal::capture::CaptureFile;
use rehal_base::{Context, Error, Result, StatusCode, glob};
use rehal_build::{CompilerOptions, KernelLibrary, build_kernel, substitute_sources};
use rehal_devices::CrashReports;
use rehal_edit::{SlicedDispatch, WrongResult, has_wrong_result, wrong_result};
use rehal_jobs::Worker;
use rehal_judge::{Clock, Ledger, Outcome, Verification, VerifyOptions, verify_against, verify_lockstep};
use rehal_kernels::{KernelOptions, Kernels};
use rehal_replay::{
    CalledFunction, Code, Cut, ExecutableNames, Observer, Operation, Replay, SliceOptions, Substitution,
};
use serde::{Deserialize, Serialize};

use super::AGAINST;
use crate::flags::Flags;
use crate::tools::{ledger_flags, replay_flags, verify};
use crate::{Invocation, output};

/// Number of replays of which the time is measured, at least and at most.
const SAMPLES: usize = 9;
const MAX_SAMPLES: usize = 99;
/// More than the least number are measured within this time: those of short work depend on chance.
const SAMPLING: Duration = Duration::from_millis(50);

/// What a worker does with a capture.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    pub work: Work,
    /// The path of the capture. Any path is a message as an [`OsString`].
    pub capture: OsString,
    /// The libraries of kernels, by their sources: of [`compile_kernels`].
    pub kernels: Libraries,
}

/// Files, by the source that they were compiled from.
pub(super) type Libraries = Vec<(OsString, OsString)>;

/// What is done.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Work {
    /// Replays it; a crash ends the process.
    Replay,
    /// Replays it, and keeps the current dispatch in a file.
    Locate(OsString),
    /// Cuts a dispatch out, without performing it.
    Slice(SlicedDispatch, OsString),
    /// Finds the first wrong result.
    FindWrong,
    /// Looks for a wrong result.
    HasWrong(WrongResult),
    /// Measures its time, or that of the functions that this pattern matches.
    Time(Option<String>),
}

/// What a worker found.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    /// It did it.
    Done,
    /// What [`Work::FindWrong`] found.
    Wrong {
        wrong: Option<WrongResult>,
        /// What a verification shows.
        report: String,
        is_same: bool,
    },
    /// Whether the capture has the wrong result.
    HasWrong(bool),
    /// Times in nanoseconds.
    Times {
        times: Vec<f64>,
        /// Whether the times of dispatches are those of the host.
        is_of_host: bool,
    },
}

/// The libraries of kernels that substitutions name by source, in `directory`. Each is compiled once, not by
/// each worker.
pub(super) fn compile_kernels(invocation: &Invocation, directory: &Path) -> Result<Libraries> {
    let mut libraries = Libraries::new();
    let substitutions = invocation.flags.list(&replay_flags::SUBSTITUTION);
    if !substitutions.iter().any(|it| it.replacement.is_kernel_source()) {
        return Ok(libraries);
    }
    // What is wrong with the capture is said when it is replayed.
    let recover = crate::captures::options(invocation.flags.get(&replay_flags::RECOVER));
    let plan = crate::captures::open(&invocation.operand(), &recover);
    let plan = plan.and_then(|it| replay_flags::compile(&it)).ok();
    let called = plan.as_ref().map_or_else(Vec::new, |it| CalledFunction::in_plan(it));
    let names = plan.as_ref().map(|it| ExecutableNames::from_plan(it));
    for it in &substitutions {
        let Code::File(source) = &it.replacement.code else { continue };
        if !it.replacement.is_kernel_source() || libraries.iter().any(|(other, _)| *other == **source) {
            continue;
        }
        let resolved = names.as_ref().and_then(|names| {
            let mut resolved = names.resolve(std::slice::from_ref(it)).ok()?.substitutions;
            names.resolve_patterns(&mut resolved).ok().map(|()| resolved)
        });
        let resolved = resolved.unwrap_or_else(|| vec![it.clone()]);
        let selected = |it: &Substitution| CalledFunction::selected(&it.selector, &called);
        let mut options = CompilerOptions::default();
        options.functions = resolved.iter().flat_map(selected).collect();
        let built = build_kernel(source, &options);
        let KernelLibrary { bytes, messages, .. } =
            built.context(|| format!("the substitute for {}", it.selector))?;
        if !messages.trim().is_empty() {
            output::note(messages.trim_end());
        }
        let file = directory.join(format!("kernel-{}.so", libraries.len()));
        fs::write(&file, bytes).map_err(|error| Error::io("writing a compiled kernel", &error))?;
        libraries.push((source.as_path().into(), file.into()));
    }
    Ok(libraries)
}

/// Uses the libraries that have been compiled.
fn substitute_compiled(substitutions: &mut [Substitution], libraries: &Libraries) -> Result<()> {
    substitute_sources(substitutions, |source| {
        let library = libraries.iter().find(|(it, _)| *it == *source);
        let read = library.map(|(_, file)| fs::read(file)).transpose();
        read.map_err(|error| Error::io("reading a compiled kernel", &error))
    })
}

/// Performs the request of a worker.
pub(super) fn run(invocation: &Invocation, worker: &Worker) -> Result<()> {
    let cannot = |error| Error::io("reading the request of a worker", &error);
    let Request { work, capture, kernels } = worker.request().map_err(cannot)?;
    let answer = perform(invocation, work, Path::new(&capture), &kernels)?;
    worker.answer(&answer).map_err(|error| Error::io("answering a request", &error))
}

fn perform(invocation: &Invocation, work: Work, capture: &Path, kernels: &Libraries) -> Result<Answer> {
    // The capture itself may be truncated; candidates are not.
    let recover = capture == invocation.operand() && invocation.flags.get(&replay_flags::RECOVER);
    let capture = crate::captures::open(capture, &crate::captures::options(recover))?;
    let (replay, mut reports) = prepare(invocation, &capture, kernels)?;
    let observers: &mut [&mut dyn Observer] = &mut [&mut reports];
    Ok(match work {
        Work::Replay => {
            replay.run(observers)?;
            Answer::Done
        }
        Work::Locate(path) => {
            let cannot = |error: std::io::Error| Error::io("creating a file", &error);
            let file = File::create(path).map_err(cannot)?;
            replay.run(&mut [&mut reports, &mut Locator { file }])?;
            Answer::Done
        }
        Work::Slice(dispatch, path) => {
            let file = File::create(path).map_err(|error| Error::io("creating a file", &error))?;
            let mut options = SliceOptions::default();
            options.unperformed = true;
            let SlicedDispatch { record, occurrence } = dispatch;
            replay.slice(&Cut::Dispatch { record, occurrence }, &options, file, observers)?;
            Answer::Done
        }
        Work::FindWrong => {
            let found = verification(invocation, &replay, observers)?;
            let wrong = wrong_result(&replay, &found, observers)?;
            Answer::Wrong { wrong, report: verify::report(&found), is_same: found.outcome() == Outcome::Same }
        }
        Work::HasWrong(wrong) => Answer::HasWrong(has_wrong_result(&replay, &wrong, observers)?),
        Work::Time(function) => {
            rehal_base::keep_freed_memory();
            let (times, is_of_host) = times(&replay, function, &mut reports)?;
            Answer::Times { times, is_of_host }
        }
    })
}

fn prepare(
    invocation: &Invocation,
    capture: &CaptureFile,
    kernels: &Libraries,
) -> Result<(Replay, CrashReports)> {
    let mut options = replay_flags::Options::from_invocation(invocation)?;
    options.path = invocation.operand();
    substitute_compiled(&mut options.replay.substitutions, kernels)?;
    replay_flags::prepare(&options, capture.plan()?)
}

/// Compares a replay as `rehal verify` does: with a ledger, with substitutions in lockstep with the captured
/// executables, or with what the recorder added.
fn verification(
    invocation: &Invocation,
    replay: &Replay,
    observers: &mut [&mut dyn Observer],
) -> Result<Verification> {
    let flags = &invocation.flags;
    let mut options = VerifyOptions::default();
    options.tolerances = flags.list(&verify::TOLERANCE);
    options.element_types = flags.list(&ledger_flags::ELEMENT_TYPE);
    let ledger = match flags.get(&AGAINST) {
        Some(path) => ledger_flags::open(&path, replay.plan())?,
        None if is_compared_with_captured(flags) => {
            let mut captured = replay_flags::Options::from_invocation(invocation)?;
            captured.replay.substitutions.clear();
            // Lockstep is of two replays of one plan.
            let (captured, _reports) = replay_flags::prepare(&captured, replay.plan().clone())?;
            return verify::side_by_side(&captured, replay, |sides| verify_lockstep(sides, &options));
        }
        None => Ledger::from_plan(replay.plan())?.ok_or_else(|| {
            Error::invalid_argument("nothing to compare with: the capture has no expected results").advise(
                "name a ledger of the capture with --against=PATH (rehal run --replay_ledger=PATH writes one), or another executable \
                 with --replay_executable_substitution",
            )
        })?,
    };
    verify_against(replay, &ledger, &options, observers).map_err(|error| match error.code() {
        // Its entries are read meanwhile.
        StatusCode::DataLoss => error.advise(ledger_flags::MAKE_LEDGER),
        _ => error,
    })
}

/// Whether results are compared with those of the captured executables.
pub(super) fn is_compared_with_captured(flags: &Flags) -> bool {
    flags.get(&AGAINST).is_none() && !flags.list(&replay_flags::SUBSTITUTION).is_empty()
}

/// Keeps the current dispatch in a file, of which a crash leaves the last.
struct Locator {
    file: File,
}

impl Observer for Locator {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        if operation.dispatch.is_some() {
            let mut place = [0; 12];
            place[..4].copy_from_slice(&operation.location.ordinal.to_le_bytes());
            place[4..].copy_from_slice(&operation.occurrence.to_le_bytes());
            let written = self.file.write_all_at(&place, 0);
            written.map_err(|error| Error::io("writing a file", &error))?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The dispatch that a file of [`Work::Locate`] has.
pub(super) fn located(path: &Path) -> Option<SlicedDispatch> {
    let place: [u8; 12] = fs::read(path).ok()?.try_into().ok()?;
    let (record, occurrence) = place.split_at(4);
    Some(SlicedDispatch {
        record: u32::from_le_bytes(record.try_into().ok()?),
        occurrence: u64::from_le_bytes(occurrence.try_into().ok()?),
    })
}

/// Times in nanoseconds: of replays, or of the slowest dispatch of the functions that match, and whether
/// these are the host's since the device reports none.
fn times(replay: &Replay, function: Option<String>, reports: &mut CrashReports) -> Result<(Vec<f64>, bool)> {
    let reports = RefCell::new(reports);
    let is_of_host = Cell::new(false);
    let once = || -> Result<f64> {
        if let Some(function) = &function {
            let kernels = Kernels::timed(replay, &KernelOptions::default())?;
            is_of_host.set(is_of_host.get() || kernels.times == Some(Clock::Wall));
            let mean = |it: &rehal_kernels::Kernel| it.time_ns.unwrap_or(0) as f64 / it.count.max(1) as f64;
            // A candidate may lack them.
            let matching = kernels.kernels.iter().filter(|it| glob::matches(function, &it.name));
            return Ok(matching.map(mean).fold(0.0, f64::max));
        }
        let begun = Instant::now();
        replay.run(&mut [&mut **reports.borrow_mut()])?;
        Ok(begun.elapsed().as_nanos() as f64)
    };
    // Caches are filled, and pages are mapped.
    once()?;
    let begun = Instant::now();
    let mut times = Vec::with_capacity(MAX_SAMPLES);
    while times.len() < SAMPLES || (times.len() < MAX_SAMPLES && begun.elapsed() < SAMPLING) {
        times.push(once()?);
    }
    Ok((times, is_of_host.get()))
}

/// A time in nanoseconds.
pub(super) fn duration(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}
