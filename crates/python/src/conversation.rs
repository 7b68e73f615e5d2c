//! Work that asks: in a process of the `rehal` binary, or in this one.
//!
//! It runs on a thread that never has the interpreter's lock: at the end of the interpreter, a thread that
//! waits for the lock is ended in the middle of what it does. Questions and answers are JSON, in channels.

use std::cell::Cell;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::dialogue::{Dialogue, Question};
use rehal_base::{Error, StatusCode};
use rehal_devices::{DeviceOptions, DeviceSpec};
use rehal_jobs::{Job, JobEnd, JobOutcome, KeptOutput};
use rehal_replay::{Observer, RecordLocation, Replay, ReplayOptions, ReplayOrder};
use serde_json::Value;

use crate::errors::exception;
use crate::interrupt::{PAUSE, lock};
use crate::jobs::{Ended, cannot_run, duration, ended};

/// The part of the process's output that is kept.
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// Work that asks, and is answered by the interpreter.
#[pyclass(frozen, module = "rehal._rehal")]
pub struct Conversation {
    events: Mutex<Receiver<Event>>,
    answers: Sender<Value>,
    state: Arc<State>,
    outcome: Mutex<Option<JobOutcome>>,
}

/// The message of the thread.
enum Event {
    Question(String),
    /// The process of the binary has ended.
    Process(std::io::Result<JobOutcome>),
    /// The work in this process has ended.
    Here(rehal_base::Result<()>),
}

/// The state that both sides look at.
struct State {
    is_cancelled: AtomicBool,
    limit: Limit,
}

/// The limit of the time that work may take.
struct Limit {
    time: Option<Duration>,
    /// Whether the time that the interpreter takes to answer counts; otherwise each answer begins a new time.
    is_whole: bool,
    deadline: Mutex<Option<Instant>>,
}

/// The side of the thread.
struct Asking {
    events: Sender<Event>,
    answers: Receiver<Value>,
    state: Arc<State>,
    /// Whether a question had no answer in time.
    is_late: Cell<bool>,
}

#[pymethods]
impl Conversation {
    /// Begins work of a worker of the binary.
    #[staticmethod]
    fn with_worker(
        program: OsString,
        arguments: Vec<OsString>,
        request: &str,
        timeout_seconds: Option<f64>,
        is_whole: bool,
    ) -> PyResult<Self> {
        let mut job = Job::for_worker_of(program, arguments, parse(request)?);
        job.kept = KeptOutput::Last(KEPT_OUTPUT_BYTES);
        Self::begin(duration(timeout_seconds)?, is_whole, move |asking| {
            let mut answer = |question: Value| asking.ask(question.to_string()).unwrap_or_default();
            let mut look = |_| match asking.state.is_over() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            Event::Process(job.converse(&mut look, &mut answer).map(|mut outcome| {
                let is_ended = outcome.end == JobEnd::Interrupted || asking.is_late.get();
                if is_ended && !asking.state.is_cancelled() {
                    outcome.end = JobEnd::TimedOut { is_past_milestone: false };
                }
                outcome
            }))
        })
    }

    /// Begins a replay in this process, which ends if a kernel crashes.
    #[staticmethod]
    fn with_replay(
        path: PathBuf,
        recover: bool,
        device: Option<String>,
        captured_order: bool,
        request: &str,
    ) -> PyResult<Self> {
        let questions = serde_json::from_value(parse(request)?).map_err(|error| invalid(&error))?;
        Self::begin(None, false, move |asking| {
            let state = asking.state.clone();
            let dialogue = Dialogue::new(questions, move |question: &Question| {
                let text = serde_json::to_string(question).map_err(|error| internal(&error))?;
                let answer = asking.ask(text).ok_or_else(cancelled)?;
                serde_json::from_value(answer).map_err(|error| internal(&error))
            });
            Event::Here(replay(&path, recover, device, captured_order, dialogue, state))
        })
    }

    /// The next question; `None` at the end of the work, whose error is raised.
    fn next(&self, py: Python<'_>) -> PyResult<Option<String>> {
        match self.event(py)? {
            Some(Event::Question(question)) => Ok(Some(question)),
            Some(Event::Process(outcome)) => {
                *lock(&self.outcome) = Some(outcome.map_err(|error| cannot_run(py, &error))?);
                Ok(None)
            }
            Some(Event::Here(ended)) => ended.map(|()| None).map_err(|error| exception(py, &error)),
            None => Ok(None),
        }
    }

    fn answer(&self, answer: &str) -> PyResult<()> {
        // Work that has ended receives nothing.
        let _ = self.answers.send(parse(answer)?);
        Ok(())
    }

    /// How the process of the work ended, and its own answer as JSON; `None` if it has not, or was none.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Option<(Ended<'py>, Option<String>)>> {
        let outcome = lock(&self.outcome);
        let Some(outcome) = &*outcome else { return Ok(None) };
        Ok(Some((ended(py, outcome)?, outcome.answer.as_ref().map(Value::to_string))))
    }

    /// Ends the work soon.
    fn cancel(&self) {
        self.state.is_cancelled.store(true, Ordering::Relaxed);
        // It may wait for an answer.
        let _ = self.answers.send(Value::Null);
    }

    /// Waits for the end of the work.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        while self.event(py)?.is_some() {}
        Ok(())
    }
}

impl Drop for Conversation {
    /// Does not wait: it may be garbage that is collected anywhere.
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Conversation {
    /// Begins work on a thread.
    fn begin(
        time: Option<Duration>,
        is_whole: bool,
        work: impl FnOnce(Asking) -> Event + Send + 'static,
    ) -> PyResult<Self> {
        let limit = Limit { time, is_whole, deadline: Mutex::new(None) };
        limit.begin();
        let state = Arc::new(State { is_cancelled: AtomicBool::new(false), limit });
        let ((to_events, events), (answers, from_answers)) = (channel(), channel());
        let asking = Asking {
            events: to_events.clone(),
            answers: from_answers,
            state: state.clone(),
            is_late: Cell::new(false),
        };
        let thread = std::thread::Builder::new().name("rehal work".into());
        thread.spawn(move || {
            // No one may wait for it.
            let _ = to_events.send(work(asking));
        })?;
        Ok(Self { events: Mutex::new(events), answers, state, outcome: Mutex::new(None) })
    }

    /// The next event; `None` after the last one. Fails with what a signal raises.
    fn event(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        loop {
            match py.detach(|| lock(&self.events).recv_timeout(PAUSE)) {
                Ok(event) => return Ok(Some(event)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }
}

impl Asking {
    /// Asks, and waits for the answer; `None` if the work is to end.
    fn ask(&self, question: String) -> Option<Value> {
        // What is asked after the end was requested is answered here: no one waits for it.
        if self.state.is_over() || self.events.send(Event::Question(question)).is_err() {
            return None;
        }
        let answer = match self.state.limit.left() {
            Some(left) => self.answers.recv_timeout(left).ok(),
            None => self.answers.recv().ok(),
        };
        self.is_late.set(answer.is_none());
        let answer = answer.filter(|_| !self.state.is_cancelled());
        self.state.limit.continue_after_answer();
        answer
    }
}

impl State {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_cancelled() || lock(&self.limit.deadline).is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Limit {
    fn begin(&self) {
        *lock(&self.deadline) = self.time.and_then(|time| Instant::now().checked_add(time));
    }

    /// The time in which an answer counts.
    fn left(&self) -> Option<Duration> {
        let deadline = (*lock(&self.deadline)).filter(|_| self.is_whole)?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    fn continue_after_answer(&self) {
        if !self.is_whole {
            self.begin();
        }
    }
}

fn replay(
    path: &std::path::Path,
    recover: bool,
    device: Option<String>,
    captured_order: bool,
    mut dialogue: Dialogue,
    state: Arc<State>,
) -> rehal_base::Result<()> {
    let mut options = CaptureOptions::default();
    options.recover = recover;
    let plan = CaptureFile::open(path, &options)?.plan()?;
    let device = device.map_or_else(|| Ok(DeviceSpec::default()), |uri| DeviceSpec::find(&uri))?;
    let devices = DeviceOptions::for_plan(&plan, device).open()?;
    let mut options = ReplayOptions::default().substitute(dialogue.substitute());
    if captured_order {
        options.order = ReplayOrder::Captured;
    }
    let replay = Replay::new(plan, &devices, &options)?;
    dialogue.begin(replay.plan())?;
    replay.check_capture()?;
    replay.run(&mut [&mut Interrupts(state), &mut dialogue])?;
    dialogue.finish()
}

/// Ends a replay when it is cancelled.
struct Interrupts(Arc<State>);

impl Observer for Interrupts {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, _location: RecordLocation) -> rehal_base::Result<()> {
        if self.0.is_over() { Err(cancelled()) } else { Ok(()) }
    }

    fn command_step(&mut self, location: RecordLocation) -> rehal_base::Result<()> {
        self.step(location)
    }
}

fn cancelled() -> Error {
    Error::new(StatusCode::Aborted, "the replay was interrupted")
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
