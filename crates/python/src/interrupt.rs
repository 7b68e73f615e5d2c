//! Ctrl-C during work that does not hold the interpreter's lock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How often signals are looked for.
pub const PAUSE: Duration = Duration::from_millis(20);

/// Looks for signals from time to time, and keeps the exception that one raised.
pub struct Signals {
    last: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    pub fn new() -> Self {
        Self { last: Instant::now(), raised: None }
    }

    /// Whether the work is to end. Signals are handled on the main thread only.
    pub fn is_raised(&mut self) -> bool {
        if self.raised.is_none() && self.last.elapsed() >= PAUSE {
            self.last = Instant::now();
            self.raised = Python::attach(|py| py.check_signals()).err();
        }
        self.raised.is_some()
    }

    /// The exception.
    pub fn take(&mut self) -> PyResult<()> {
        self.raised.take().map_or(Ok(()), Err)
    }
}

/// Locks what no panic leaves half changed.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
