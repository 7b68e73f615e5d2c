//! The semaphore of the host, with its waits and callbacks.
//!
//! Callbacks of reached timepoints run one after another on the thread that reached them, never nested.
//! Dropping a `Registration` cancels its callback, so that a wait which times out leaves nothing registered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};

use super::callbacks::{run_callbacks, run_owed};
use super::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use crate::{CallbackRegistry, Registration, SemaphoreBackend, WaitCallback};

/// The atomic's value for a failed timeline; no payload reaches it.
const FAILED: u64 = u64::MAX;

/// A host semaphore: a payload that increases, or a sticky failure.
///
/// Reading a reached value takes one atomic load; everything else takes a lock. Callbacks of one signal run
/// in order of registration. Those still registered when the timeline is dropped get `ABORTED`: it can no
/// longer be signalled.
pub struct Timeline {
    /// A copy of `State::value` for lock-free readers.
    value: AtomicU64,
    changed: Condvar,
    state: Mutex<State>,
}

struct State {
    /// The payload, or [`FAILED`].
    value: u64,
    failure: Option<Error>,
    /// Shared with registrations, which do not keep it alive. Most semaphores never have a callback, and
    /// replays create them by the thousand, so it is allocated with the first callback.
    callbacks: Option<Arc<Mutex<Callbacks>>>,
    /// Threads blocked on `changed`.
    sleepers: u32,
}

/// The registered callbacks of a timeline. Locked after its [`State`], or alone.
#[derive(Default)]
struct Callbacks {
    /// By value, then by key.
    by_value: BTreeMap<(u64, u64), WaitCallback>,
    /// The next callback key.
    next_key: u64,
}

impl Timeline {
    /// A timeline at `initial_value`.
    #[inline]
    pub fn new(initial_value: u64) -> Self {
        let state = State { value: initial_value, failure: None, callbacks: None, sleepers: 0 };
        Self { value: AtomicU64::new(initial_value), changed: Condvar::new(), state: Mutex::new(state) }
    }

    /// The number of callbacks that are registered and not cancelled.
    pub fn registered_callbacks(&self) -> usize {
        self.state.lock().callbacks.as_ref().map_or(0, |callbacks| callbacks.lock().by_value.len())
    }

    /// Advances the payload and wakes its waiters.
    fn advance(&self, mut state: MutexGuard<'_, State>, value: u64) {
        state.value = value;
        self.value.store(value, Ordering::Release);
        if state.sleepers != 0 {
            self.changed.notify_all();
        }
        let Some(callbacks) = &state.callbacks else { return };
        let due = callbacks.lock().take_due(value);
        let outcome = if value == FAILED { Err(state.failure()) } else { Ok(()) };
        drop(state);
        if !due.is_empty() {
            run_callbacks(due, &outcome);
        }
    }
}

impl State {
    fn failure(&self) -> Error {
        match &self.failure {
            Some(error) => error.clone(),
            None => Error::new(StatusCode::Internal, "a semaphore failed without an error"),
        }
    }
}

impl Callbacks {
    /// Takes the callbacks that `value` reaches, in order of registration.
    fn take_due(&mut self, value: u64) -> Vec<WaitCallback> {
        let mut due = Vec::new();
        while let Some(first) = self.by_value.first_entry()
            && first.key().0 <= value
        {
            let ((_, key), callback) = first.remove_entry();
            due.push((key, callback));
        }
        due.sort_unstable_by_key(|(key, _)| *key);
        due.into_iter().map(|(_, callback)| callback).collect()
    }
}

impl SemaphoreBackend for Timeline {
    fn query(&self) -> Result<u64> {
        match self.value.load(Ordering::Acquire) {
            FAILED => Err(self.state.lock().failure()),
            value => Ok(value),
        }
    }

    fn signal(&self, value: u64) -> Result<()> {
        let state = self.state.lock();
        let current = state.value;
        if current == FAILED {
            return Err(state.failure());
        }
        if value == FAILED {
            return Err(Error::out_of_range(format!(
                "semaphore payload must be below {FAILED}, which is reserved for failure"
            )));
        }
        if value <= current {
            return Err(Error::out_of_range(format!(
                "semaphore payload must increase: current {current}, signalled {value}"
            )));
        }
        self.advance(state, value);
        Ok(())
    }

    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        if state.failure.is_none() {
            state.failure = Some(error);
            self.advance(state, FAILED);
        }
    }

    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let reached = |value_now: u64| value_now != FAILED && value_now >= value;
        if reached(self.value.load(Ordering::Acquire)) {
            return Ok(());
        }
        run_owed();
        let mut state = self.state.lock();
        loop {
            match state.value {
                FAILED => return Err(state.failure()),
                now if reached(now) => return Ok(()),
                _ => {
                    state.sleepers += 1;
                    let late = match deadline {
                        Some(deadline) => self.changed.wait_until(&mut state, deadline).timed_out(),
                        None => {
                            self.changed.wait(&mut state);
                            false
                        }
                    };
                    state.sleepers -= 1;
                    let now = state.value;
                    if late && now < value {
                        return Err(Error::new(
                            StatusCode::DeadlineExceeded,
                            format!("timed out waiting for a semaphore to reach {value}: current {now}"),
                        ));
                    }
                }
            }
        }
    }

    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        let mut state = self.state.lock();
        let outcome = match state.value {
            FAILED => Err(state.failure()),
            now if now >= value => Ok(()),
            _ => {
                let registry = state.callbacks.get_or_insert_default();
                let mut callbacks = registry.lock();
                let key = callbacks.next_key;
                callbacks.next_key += 1;
                callbacks.by_value.insert((value, key), callback);
                drop(callbacks);
                let registry = Arc::downgrade(registry);
                return Registration::new(registry, value, key);
            }
        };
        drop(state);
        run_callbacks([callback], &outcome);
        Registration::done()
    }
}

impl CallbackRegistry for Mutex<Callbacks> {
    fn deregister(&self, value: u64, key: u64) {
        let callback = self.lock().by_value.remove(&(value, key));
        // Dropped without holding the lock: its captures may hold this timeline, or registrations with it.
        drop(callback);
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let Some(callbacks) = &state.callbacks else { return };
        let due = callbacks.lock().take_due(FAILED);
        if !due.is_empty() {
            let current = state.value;
            let message =
                format!("the semaphore was released at {current}, before the timepoint was reached");
            run_callbacks(due, &Err(Error::new(StatusCode::Aborted, message)));
        }
    }
}
