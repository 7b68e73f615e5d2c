//! Verdicts that times prove.

use pyo3::prelude::*;
use rehal_judge::{check_times, judge_processes};

use crate::errors::exception;

/// A ratio, both ends of its interval, and a verdict.
type Told = (f64, Option<(f64, f64)>, &'static str);

/// The ratio of the times of two sets of processes, its interval, and what it proves.
#[pyfunction]
pub fn judge(
    py: Python<'_>,
    before: Vec<f64>,
    after: Vec<f64>,
    margin: f64,
    comparisons: usize,
) -> PyResult<Told> {
    check_times(&before, &after, margin).map_err(|error| exception(py, &error))?;
    let judgment = judge_processes(&before, &after, margin, comparisons);
    Ok((judgment.ratio, judgment.interval.map(|it| (it.low, it.high)), judgment.verdict.told()))
}
