//! Checks of `reduce` that run captured code.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rehal_base::platform::FileExt;
use rehal_base::{Error, Result, glob, keep_freed_memory};
use rehal_devices::CrashReports;
use rehal_edit::{SlicedDispatch, WrongResult, has_wrong_result, wrong_result};
use rehal_jobs::{Caller, Work};
use rehal_judge::{Clock, Verification};
use rehal_kernels::{Kernel, KernelOptions, Kernels};
use rehal_replay::{Cut, Observer, Operation, Replay, SliceOptions};
use serde::{Deserialize, Serialize};

use super::verify::VerifyWork;

/// Number of replays of which the time is measured, at least and at most.
const SAMPLES: usize = 9;
const MAX_SAMPLES: usize = 99;
/// More than the least number are measured within this time: those of short work depend on chance.
const SAMPLING: Duration = Duration::from_millis(50);

/// A task of a reduction with a capture. The process that performs it ends if a kernel crashes.
#[derive(Clone, Serialize, Deserialize)]
pub struct CheckWork {
    /// The replay, and when its results are right.
    pub verify: VerifyWork,
    /// The task.
    pub task: CheckTask,
}

/// The task on a capture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CheckTask {
    /// Replays it.
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

/// The findings of a [`CheckTask`].
#[derive(Debug, Serialize, Deserialize)]
pub enum Checked {
    /// It is done.
    Done,
    /// The findings of [`CheckTask::FindWrong`].
    Wrong {
        /// The first wrong result.
        wrong: Option<WrongResult>,
        /// The verification.
        verification: Box<Verification>,
    },
    /// Whether the capture has the wrong result.
    HasWrong(bool),
    /// Times in nanoseconds.
    Times {
        /// The times.
        times: Vec<f64>,
        /// Whether the times of dispatches are those of the host.
        is_of_host: bool,
    },
}

impl Work for CheckWork {
    const NAME: &'static str = "check";
    type Outcome = Checked;

    fn perform(&self, caller: &Caller<'_>) -> Result<Checked> {
        let setup = &self.verify.setup;
        let plan = setup.plan()?;
        let create =
            |path| File::create(path).map_err(|error: std::io::Error| Error::io("creating a file", &error));
        let written = match &self.task {
            CheckTask::Locate(path) | CheckTask::Slice(_, path) => Some(path),
            _ => None,
        };
        // Confined work creates no files.
        written.map(create).transpose()?;
        caller.confine(|confinement| {
            self.verify.confine(&plan, confinement);
            written.into_iter().for_each(|path| confinement.write(path));
        })?;
        let replay = setup.replay(plan)?;
        let mut reports = CrashReports::records();
        let observers: &mut [&mut dyn Observer] = &mut [&mut reports];
        match &self.task {
            CheckTask::Replay => replay.run(observers)?,
            CheckTask::Locate(path) => {
                replay.run(&mut [&mut reports, &mut Locator { file: create(path)? }])?;
            }
            CheckTask::Slice(SlicedDispatch { record, occurrence }, path) => {
                let mut options = SliceOptions::default();
                options.unperformed = true;
                let cut = Cut::Dispatch { record: *record, occurrence: *occurrence };
                replay.slice(&cut, &options, create(path)?, observers)?;
            }
            CheckTask::FindWrong => {
                let found = self.verify.verify(&replay, observers)?;
                let wrong = wrong_result(&replay, &found, observers)?;
                return Ok(Checked::Wrong { wrong, verification: Box::new(found) });
            }
            CheckTask::HasWrong(wrong) => {
                return Ok(Checked::HasWrong(has_wrong_result(&replay, wrong, observers)?));
            }
            CheckTask::Time(function) => {
                if caller.asker()?.is_some() {
                    keep_freed_memory();
                }
                let (times, is_of_host) = times(&replay, function.as_deref(), &mut reports)?;
                return Ok(Checked::Times { times, is_of_host });
            }
        }
        Ok(Checked::Done)
    }
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

/// The dispatch that a file of [`CheckTask::Locate`] has.
pub fn located(path: &Path) -> Option<SlicedDispatch> {
    let place: [u8; 12] = fs::read(path).ok()?.try_into().ok()?;
    let (record, occurrence) = place.split_at(4);
    Some(SlicedDispatch {
        record: u32::from_le_bytes(record.try_into().ok()?),
        occurrence: u64::from_le_bytes(occurrence.try_into().ok()?),
    })
}

/// Times in nanoseconds: of replays, or of the slowest dispatch of the functions that match, and whether
/// these are the host's since the device reports none.
fn times(replay: &Replay, function: Option<&str>, reports: &mut CrashReports) -> Result<(Vec<f64>, bool)> {
    let reports = RefCell::new(reports);
    let is_of_host = Cell::new(false);
    let once = || -> Result<f64> {
        if let Some(function) = function {
            let kernels = Kernels::timed(replay, &KernelOptions::default())?;
            is_of_host.set(is_of_host.get() || kernels.times == Some(Clock::Wall));
            let mean = |it: &Kernel| it.time_ns.unwrap_or(0) as f64 / it.count.max(1) as f64;
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
