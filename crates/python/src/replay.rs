//! Replays that ask Python: in a process of the `rehal` binary, or in this one.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use rehal_session::{
    CaptureFile, CaptureOptions, DeviceOptions, DeviceSpec, Dialogue, Error, Job, KeptOutput, LocalRunner,
    Observer, Question, RecordLocation, Replay, ReplayOptions, ReplayOrder, Runner, StatusCode,
};
use serde_json::Value;

use crate::errors::exception;
use crate::interrupt::Signals;
use crate::jobs::{Ended, cannot_run, ended, limits, watch};

/// The part of the process's output that is kept.
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// Ends a replay from another thread.
#[pyclass(frozen, module = "rehal._rehal")]
#[derive(Default)]
pub struct Cancellation(AtomicBool);

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends the replay soon.
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Cancellation {
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs a worker that asks. `reply` gets each question as JSON, and returns the answer as JSON; an exception
/// of it ends the worker, and is raised. Returns how it ended, and its own answer as JSON.
#[pyfunction]
pub fn converse<'py>(
    py: Python<'py>,
    program: OsString,
    arguments: Vec<OsString>,
    request: &str,
    reply: Py<PyAny>,
    cancellation: Py<Cancellation>,
    timeout_seconds: Option<f64>,
) -> PyResult<(Ended<'py>, Option<String>)> {
    let mut job = Job::for_worker_of(program, arguments, parse(request)?);
    job.kept = KeptOutput::Last(KEPT_OUTPUT_BYTES);
    job.limits = limits(timeout_seconds)?;
    let signals = Mutex::new(Signals::new());
    let cancellation = cancellation.get();
    let outcome = py.detach(|| {
        let mut answer = |question: Value| match ask(&reply, &question.to_string()) {
            Ok(answer) => answer,
            Err(raised) => {
                lock(&signals).raise(raised);
                Value::Null
            }
        };
        let mut look = |_| match cancellation.is_cancelled() {
            true => ControlFlow::Break(()),
            false => watch(&mut lock(&signals)),
        };
        LocalRunner.converse(&job, &mut look, &mut answer)
    });
    lock(&signals).take()?;
    let outcome = outcome.map_err(|error| cannot_run(py, &error))?;
    let answer = outcome.answer.as_ref().map(Value::to_string);
    Ok((ended(py, &outcome)?, answer))
}

/// The same in this process, which ends if a kernel crashes.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the package calls it by name")]
pub fn replay_here(
    py: Python<'_>,
    path: PathBuf,
    recover: bool,
    device: Option<String>,
    captured_order: bool,
    request: &str,
    reply: Py<PyAny>,
    cancellation: Py<Cancellation>,
) -> PyResult<()> {
    let questions = serde_json::from_value(parse(request)?).map_err(|error| invalid(&error))?;
    let signals = Arc::new(Mutex::new(Signals::new()));
    let ran = py.detach(|| -> rehal_session::Result<()> {
        let raised = signals.clone();
        let dialogue = Dialogue::new(questions, move |question: &Question| {
            let text = serde_json::to_string(question).map_err(|error| internal(&error))?;
            let answer = ask(&reply, &text).map_err(|exception| {
                lock(&raised).raise(exception);
                Error::new(StatusCode::Aborted, "a callback raised an exception")
            })?;
            serde_json::from_value(answer).map_err(|error| internal(&error))
        });
        let mut options = CaptureOptions::default();
        options.recover = recover;
        let plan = CaptureFile::open(&path, &options)?.plan()?;
        let device = device.map_or_else(|| Ok(DeviceSpec::default()), |uri| DeviceSpec::find(&uri))?;
        let devices = DeviceOptions::for_plan(&plan, device).open()?;
        let mut options = ReplayOptions::default().substitute(dialogue.substitute());
        if captured_order {
            options.order = ReplayOrder::Captured;
        }
        let replay = Replay::new(plan, &devices, &options)?;
        let (mut dialogue, mut interrupts) =
            (dialogue, Interrupts { signals: signals.clone(), cancellation });
        dialogue.begin(replay.plan())?;
        replay.check_capture()?;
        replay.run(&mut [&mut interrupts, &mut dialogue])?;
        dialogue.finish()
    });
    lock(&signals).take()?;
    ran.map_err(|error| exception(py, &error))
}

fn parse(json: &str) -> PyResult<Value> {
    serde_json::from_str(json).map_err(|error| invalid(&error))
}

fn invalid(error: &serde_json::Error) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(error.to_string())
}

fn internal(error: &serde_json::Error) -> Error {
    Error::new(StatusCode::Internal, format!("a message of a replay: {error}"))
}

fn lock(signals: &Mutex<Signals>) -> MutexGuard<'_, Signals> {
    signals.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask(reply: &Py<PyAny>, question: &str) -> PyResult<Value> {
    let answer: String = Python::attach(|py| reply.call1(py, (question,))?.extract(py))?;
    parse(&answer)
}

/// Ends a replay when it is cancelled, or a signal raises an exception.
struct Interrupts {
    signals: Arc<Mutex<Signals>>,
    cancellation: Py<Cancellation>,
}

impl Observer for Interrupts {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, _location: RecordLocation) -> rehal_session::Result<()> {
        match self.cancellation.get().is_cancelled() || lock(&self.signals).is_raised() {
            true => Err(Error::new(StatusCode::Aborted, "the replay was interrupted")),
            false => Ok(()),
        }
    }

    fn command_step(&mut self, location: RecordLocation) -> rehal_session::Result<()> {
        self.step(location)
    }
}
