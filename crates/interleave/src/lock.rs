use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loom::sync as checked;

/// A lock with the interface of `parking_lot::Mutex`.
pub struct Mutex<T>(checked::Mutex<T>);

/// A held lock, with the interface of `parking_lot::MutexGuard`.
pub struct MutexGuard<'a, T> {
    lock: &'a checked::Mutex<T>,
    /// `None` only inside the functions that temporarily release the lock.
    held: Option<checked::MutexGuard<'a, T>>,
}

/// A condition variable with the interface of `parking_lot::Condvar`.
///
/// Time does not pass in a model: its first wait with a deadline times out, after everything that the other
/// threads may do meanwhile, and later ones end only when notified (otherwise a loop on a timer would have
/// endless executions).
pub struct Condvar {
    changed: checked::Condvar,
    may_time_out: AtomicBool,
}

/// Whether a wait timed out.
pub struct WaitTimeoutResult(bool);

impl<T> Mutex<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self(checked::Mutex::new(value))
    }

    /// Acquires the lock, blocking until it is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { lock: &self.0, held: Some(take(&self.0)) }
    }

    /// The value, which no other thread can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

fn take<T>(lock: &checked::Mutex<T>) -> checked::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> MutexGuard<'_, T> {
    /// Calls `work` with the lock released.
    pub fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        guard.held = None;
        let result = work();
        guard.held = Some(take(guard.lock));
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("the lock is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the lock is held")
    }
}

impl Condvar {
    /// A condition variable without waiters.
    pub fn new() -> Self {
        Self { changed: checked::Condvar::new(), may_time_out: AtomicBool::new(true) }
    }

    /// Releases the lock until notified.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("the lock is held");
        guard.held = Some(self.changed.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Releases the lock until notified or the deadline passes.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _deadline: Instant) -> WaitTimeoutResult {
        let times_out = self.may_time_out.swap(false, Ordering::Relaxed);
        if times_out {
            MutexGuard::unlocked(guard, || {});
        } else {
            self.wait(guard);
        }
        WaitTimeoutResult(times_out)
    }

    /// Releases the lock until notified or `timeout` elapses.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) -> WaitTimeoutResult {
        self.wait_until(guard, Instant::now())
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        self.changed.notify_one();
    }

    /// Wakes all threads.
    pub fn notify_all(&self) {
        self.changed.notify_all();
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitTimeoutResult {
    /// Whether it timed out.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}
