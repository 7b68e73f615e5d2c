use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rehal_base::{Error, Result};

use crate::Registration;
use crate::Timepoint;
use crate::profile::LazyId;

/// A callback for when a timepoint is reached or failed.
pub type WaitCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// A driver's implementation of a semaphore. Every function may be called from any thread.
pub trait SemaphoreBackend: Any + Send + Sync {
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
    /// propagates to the call that ran it, if there is one: threads of a device's own survive it.
    ///
    /// A callback that blocks delays what its thread does next, other callbacks among it: hand work that
    /// takes long, or waits for what the program does elsewhere, to a thread.
    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration;
}

/// A timeline that queues and hosts wait for and signal: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Semaphore(Arc<Shared<dyn SemaphoreBackend>>);

struct Shared<B: ?Sized> {
    id: LazyId,
    backend: B,
}

impl Semaphore {
    /// A semaphore over a driver's backend.
    #[inline]
    #[doc(hidden)]
    pub fn new(backend: impl SemaphoreBackend + 'static) -> Self {
        Self(Arc::new(Shared { id: LazyId::default(), backend }))
    }

    /// Its id, unique in the process and never 0: profiles name it so.
    pub fn id(&self) -> u64 {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        self.0.id.get(|| LAST_ID.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn SemaphoreBackend {
        &self.0.backend
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
    #[inline]
    pub fn query(&self) -> Result<u64> {
        self.0.backend.query()
    }

    /// See [`SemaphoreBackend::signal`].
    #[inline]
    pub fn signal(&self, value: u64) -> Result<()> {
        self.0.backend.signal(value)
    }

    /// See [`SemaphoreBackend::fail`].
    pub fn fail(&self, error: Error) {
        self.0.backend.fail(error);
    }

    /// See [`SemaphoreBackend::wait`].
    #[inline]
    pub fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        self.0.backend.wait(value, timeout)
    }

    /// See [`SemaphoreBackend::on_reached`].
    pub fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.0.backend.on_reached(value, callback)
    }

    /// The number of handles.
    pub(crate) fn handle_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}
