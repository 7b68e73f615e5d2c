use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rehal_base::Result;

/// How a call of a native function ended.
#[derive(Debug)]
pub enum Flow {
    /// It is done, and its results are pushed.
    Return,
    /// Others may run; the function is called again with the same arguments.
    Yield,
    /// It needs something that has not happened; the function is called again with the same arguments once
    /// it has, and [`Call::resumed`](crate::Call::resumed) says how it went.
    Wait(Wait),
}

/// A wait of an invocation: its source and its deadline.
#[derive(Clone)]
pub struct Wait {
    source: Arc<dyn WaitSource>,
    deadline: Option<Instant>,
}

/// Something that happens, or fails to, outside of the program.
pub trait WaitSource: Send + Sync {
    /// Whether it is ready or has failed: whether [`WaitSource::block`] would return at once.
    fn is_ready(&self) -> bool;

    /// Blocks the calling thread until it happens (true) or `deadline` passes (false). Fails when it failed.
    fn block(&self, deadline: Option<Instant>) -> Result<bool>;

    /// Calls `wake` once, on any thread, when it happens or fails; at once when it has. Dropping what is returned
    /// takes `wake` back.
    fn notify(&self, wake: Box<dyn FnOnce() + Send>) -> Notification;
}

/// Keeps a notification wanted; dropping it takes it back, unless it is being given already.
#[must_use = "dropping a notification takes it back"]
pub struct Notification {
    _keeper: Option<Box<dyn Any + Send>>,
}

impl Notification {
    /// One that is wanted for as long as `keeper` lives.
    pub fn new(keeper: impl Send + 'static) -> Self {
        Self { _keeper: Some(Box::new(keeper)) }
    }

    /// One that has been given.
    pub fn done() -> Self {
        Self { _keeper: None }
    }
}

impl Wait {
    /// A wait for `source`, until `deadline` if there is one.
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

    /// Whether resuming would find it done: it happened, failed, or its time is over.
    pub fn is_ready(&self) -> bool {
        self.source.is_ready() || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Blocks the calling thread until [`Wait::is_ready`].
    pub fn block(&self) {
        // How it went is the function's to say, which asks the source again when it is resumed.
        let _ = self.source.block(self.deadline);
    }

    /// How it went: true when it happened, false when its time is over. Fails when it failed.
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
