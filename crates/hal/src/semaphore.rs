use std::any::Any;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};

use crate::Timepoint;

/// What runs when a timepoint is reached or can no longer be.
pub type WaitCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// What a driver does for a semaphore. Every function may be called from any thread.
pub trait SemaphoreBackend: Send + Sync {
    /// The value reached so far, or the failure.
    fn query(&self) -> Result<u64>;

    /// Moves the timeline to `value`, which must be above where it is.
    fn signal(&self, value: u64) -> Result<()>;

    /// Ends the timeline: every waiter, now and later, gets `error`. The first failure stays.
    fn fail(&self, error: Error);

    /// Blocks until `value` is reached; `None` waits without end. `DEADLINE_EXCEEDED` when the time
    /// is up, the failure when there is one.
    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()>;

    /// Runs `callback` once, when `value` is reached (at once where it is) or the timeline fails, on
    /// whichever thread brings that about.
    fn on_reached(&self, value: u64, callback: WaitCallback);

    /// The backend itself, for the driver that made it.
    fn as_any(&self) -> &dyn Any;
}

/// A timeline that queues and hosts wait for and signal: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Semaphore(Arc<dyn SemaphoreBackend>);

impl Semaphore {
    /// A semaphore over a driver's backend.
    pub fn new(backend: impl SemaphoreBackend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// The backend.
    pub fn backend(&self) -> &dyn SemaphoreBackend {
        &*self.0
    }

    /// Whether both handles are of one semaphore.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A value of its timeline.
    pub fn at(&self, value: u64) -> Timepoint<&Self> {
        Timepoint { semaphore: self, value }
    }

    /// See [`SemaphoreBackend::query`].
    pub fn query(&self) -> Result<u64> {
        self.0.query()
    }

    /// See [`SemaphoreBackend::signal`].
    pub fn signal(&self, value: u64) -> Result<()> {
        self.0.signal(value)
    }

    /// See [`SemaphoreBackend::fail`].
    pub fn fail(&self, error: Error) {
        self.0.fail(error);
    }

    /// See [`SemaphoreBackend::wait`].
    pub fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        self.0.wait(value, timeout)
    }
}

/// Waits until every timepoint is reached; fails as [`SemaphoreBackend::wait`] does. The timeout is
/// for all of them together.
pub fn wait_all(timepoints: &[Timepoint<&Semaphore>], timeout: Option<Duration>) -> Result<()> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    for timepoint in timepoints {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        timepoint.semaphore.wait(timepoint.value, left)?;
    }
    Ok(())
}

/// Waits until one timepoint is reached and returns its index in the list; of several that are
/// reached, the first. Fails with the failure of the first semaphore that fails before that, with
/// `DEADLINE_EXCEEDED` when the time is up, and with `INVALID_ARGUMENT` for an empty list.
///
/// A semaphore that is not reached when this returns keeps a note of a few bytes until it is.
pub fn wait_any(timepoints: &[Timepoint<&Semaphore>], timeout: Option<Duration>) -> Result<usize> {
    if timepoints.is_empty() {
        return Err(Error::invalid_argument("none of no timepoints can be reached"));
    }
    for (index, timepoint) in timepoints.iter().enumerate() {
        if timepoint.semaphore.query()? >= timepoint.value {
            return Ok(index);
        }
    }
    let (sender, receiver) = mpsc::channel();
    for (index, timepoint) in timepoints.iter().enumerate() {
        let sender = sender.clone();
        // Nobody listens to what comes after the first; sending it fails, as it should.
        let tell = move |outcome: Result<()>| drop(sender.send(outcome.map(|()| index)));
        timepoint.semaphore.backend().on_reached(timepoint.value, Box::new(tell));
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let told = match deadline {
        Some(deadline) => receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        None => receiver.recv().map_err(mpsc::RecvTimeoutError::from),
    };
    told.unwrap_or_else(|_| {
        Err(Error::new(
            StatusCode::DeadlineExceeded,
            format!("waited for any of {} semaphores; none was reached", timepoints.len()),
        ))
    })
}
