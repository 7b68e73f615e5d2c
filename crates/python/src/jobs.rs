//! Jobs: processes of the `rehal` binary.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rehal_base::Error;
use rehal_jobs::{Job, JobEnd, JobOutcome, KeptOutput};

use crate::errors::exception;
use crate::interrupt::Signals;

/// A report is kept whole up to this size.
const MAX_OUTPUT_BYTES: usize = 1 << 30;

/// How a job ended: whether by `exit`, `signal` or `time`, with the number of it, and its output.
pub type Ended<'py> = (&'static str, i32, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Runs a program to its end. Fails with what a signal raises, after the program has been ended.
#[pyfunction]
pub fn run_job<'py>(
    py: Python<'py>,
    program: OsString,
    arguments: Vec<OsString>,
    timeout_seconds: Option<f64>,
) -> PyResult<Ended<'py>> {
    let mut job = Job::for_program(program);
    job.arguments = arguments;
    job.kept = KeptOutput::First(MAX_OUTPUT_BYTES);
    job.limits.time = duration(timeout_seconds)?;
    let mut signals = Signals::new();
    let outcome = py.detach(|| job.run(&mut |_| watch(&mut signals)));
    signals.take()?;
    ended(py, &outcome.map_err(|error| cannot_run(py, &error))?)
}

/// The limit of a job's time.
pub fn duration(timeout_seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let time = timeout_seconds.map(Duration::try_from_secs_f64).transpose();
    time.map_err(|error| pyo3::exceptions::PyValueError::new_err(format!("timeout: {error}")))
}

fn watch(signals: &mut Signals) -> ControlFlow<()> {
    match signals.is_raised() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

pub fn cannot_run(py: Python<'_>, error: &std::io::Error) -> PyErr {
    exception(py, &Error::io("running rehal", error))
}

pub fn ended<'py>(py: Python<'py>, outcome: &JobOutcome) -> PyResult<Ended<'py>> {
    let (how, number) = match outcome.end {
        JobEnd::Exited(status) => ("exit", status),
        JobEnd::Signaled(signal) => ("signal", signal),
        JobEnd::TimedOut { .. } => ("time", 0),
        JobEnd::Interrupted => ("interrupt", 0),
    };
    let bytes = |printed: &rehal_jobs::Printed| PyBytes::new(py, &printed.bytes);
    Ok((how, number, bytes(&outcome.stdout), bytes(&outcome.stderr)))
}
