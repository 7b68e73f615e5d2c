use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rehal_base::Result;

/// How a call of a native function ended.
#[derive(Debug)]
pub enum Flow {
    /// It returned; its results are pushed.
    Return,
    /// It lets others run; the function is called again with the same arguments.
    Yield,
    /// It blocks on a wait source; the function is called again with the same arguments once that is ready,
    /// and [`Call::resumed`](crate::Call::resumed) has the outcome.
    Wait(Wait),
}

/// A wait of an invocation: source and deadline.
#[derive(Clone)]
pub struct Wait {
    source: Arc<dyn WaitSource>,
    deadline: Option<Instant>,
}

/// An event outside the program that completes or fails.
pub trait WaitSource: Send + Sync {
    /// Whether it has completed or failed, so that [`WaitSource::block`] returns immediately.
    fn is_ready(&self) -> bool;

    /// Blocks the calling thread until it completes (true) or `deadline` passes (false). Returns its error if
    /// it failed.
    fn block(&self, deadline: Option<Instant>) -> Result<bool>;

    /// Calls `wake` once, on any thread, when it completes or fails; immediately if it already has. Dropping
    /// the returned notification cancels it.
    fn notify(&self, wake: Box<dyn FnOnce() + Send>) -> Notification;
}

/// A registered notification; dropping it cancels it, unless it is already being delivered.
#[must_use = "dropping a notification cancels it"]
pub struct Notification {
    _keeper: Option<Box<dyn Any + Send>>,
}

impl Notification {
    /// A notification that is registered while `keeper` lives.
    pub fn new(keeper: impl Send + 'static) -> Self {
        Self { _keeper: Some(Box::new(keeper)) }
    }

    /// A notification that has been delivered.
    pub fn done() -> Self {
        Self { _keeper: None }
    }
}

impl Wait {
    /// A wait for `source`, with an optional deadline.
    pub fn new(source: Arc<dyn WaitSource>, deadline: Option<Instant>) -> Self {
        Self { source, deadline }
    }

    /// The wait source.
    pub fn source(&self) -> &Arc<dyn WaitSource> {
        &self.source
    }

    /// When the wait times out.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether resuming would find it done: the source completed or failed, or the deadline passed.
    pub fn is_ready(&self) -> bool {
        self.source.is_ready() || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Blocks the calling thread until [`Wait::is_ready`].
    pub fn block(&self) {
        // The outcome is ignored: the function polls the source again when it is resumed.
        let _ = self.source.block(self.deadline);
    }

    /// The outcome: true if it completed, false if the deadline passed. Returns the source's error if it
    /// failed.
    pub(crate) fn outcome(&self) -> Result<bool> {
        // Polled: a source that is not ready by now has missed its deadline.
        self.source.block(Some(Instant::now()))
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wait until {:?}", self.deadline)
    }
}
