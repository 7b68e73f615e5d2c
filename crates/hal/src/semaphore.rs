use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rehal_base::{Error, Result};

use crate::Registration;
use crate::Timepoint;

/// A callback for when a timepoint is reached or failed.
pub type WaitCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// A driver's implementation of a semaphore. Every function may be called from any thread.
pub trait SemaphoreBackend: Send + Sync {
    /// The current payload, or the failure.
    fn query(&self) -> Result<u64>;

    /// Advances the timeline to `value`, which must be greater than the current payload.
    fn signal(&self, value: u64) -> Result<()>;

    /// Fails the timeline: every waiter, now and later, gets `error`. The first failure wins.
    fn fail(&self, error: Error);

    /// Blocks until `value` is reached; `None` waits forever. Fails with `DEADLINE_EXCEEDED` on timeout, or
    /// with the timeline's failure.
    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()>;

    /// Calls `callback` once, when `value` is reached (immediately if it already is) or the timeline fails,
    /// on the thread that causes it. Dropping the registration cancels the callback.
    ///
    /// When the semaphore is dropped, callbacks that are still registered get `ABORTED`. No lock is held
    /// while a callback runs. A callback that panics has no effect on others: they run, and the panic
    /// propagates to the call that ran it.
    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration;

    /// The concrete backend, for downcasts by its driver.
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

    /// Whether both handles refer to the same semaphore.
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

    /// See [`SemaphoreBackend::on_reached`].
    pub fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.0.on_reached(value, callback)
    }

    /// A weak handle.
    pub(crate) fn downgrade(&self) -> WeakSemaphore {
        WeakSemaphore(Arc::downgrade(&self.0))
    }

    /// The number of handles.
    pub(crate) fn handle_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

/// A weak handle of a semaphore.
pub(crate) struct WeakSemaphore(Weak<dyn SemaphoreBackend>);

impl WeakSemaphore {
    /// Whether it refers to `semaphore`.
    pub(crate) fn id(&self) -> SemaphoreId {
        SemaphoreId(self.0.as_ptr().addr())
    }
}

/// Identifies a semaphore for as long as a handle of any kind exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SemaphoreId(usize);

impl Semaphore {
    /// The identity.
    pub(crate) fn id(&self) -> SemaphoreId {
        SemaphoreId(Arc::as_ptr(&self.0).addr())
    }
}
