use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rehal_base::{Error, Result};

use crate::Registration;

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

    /// Runs `callback` once, when `value` is reached (at once if it is) or the timeline fails, on
    /// whichever thread brings that about. Dropping the registration takes the callback back.
    ///
    /// When the semaphore itself is dropped, the callbacks that are still registered get `ABORTED`. No lock is
    /// held while a callback runs. A callback that panics disables nothing: the others run, and the panic goes on
    /// in the call that ran it.
    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration;

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

    /// See [`SemaphoreBackend::on_reached`].
    pub fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.0.on_reached(value, callback)
    }

    /// A handle that does not keep the semaphore alive.
    pub(crate) fn downgrade(&self) -> WeakSemaphore {
        WeakSemaphore(Arc::downgrade(&self.0))
    }

    /// How many handles there are.
    pub(crate) fn handle_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

/// A semaphore that may be gone.
pub(crate) struct WeakSemaphore(Weak<dyn SemaphoreBackend>);

impl WeakSemaphore {
    /// Whether `semaphore` is the one.
    pub(crate) fn id(&self) -> SemaphoreId {
        SemaphoreId(self.0.as_ptr().addr())
    }
}

/// Tells semaphores apart for as long as a handle of any kind exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SemaphoreId(usize);

impl Semaphore {
    /// Which one it is.
    pub(crate) fn id(&self) -> SemaphoreId {
        SemaphoreId(Arc::as_ptr(&self.0).addr())
    }
}
