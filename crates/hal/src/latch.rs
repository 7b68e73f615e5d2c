use std::sync::Arc;
use std::time::Instant;

use rehal_base::Result;

use super::callbacks::run_owed;
use super::sync::{Condvar, Mutex};

/// A one-shot value that one thread waits for: the first of several outcomes wins.
pub(super) struct Latch<T>(Arc<Shared<T>>);

struct Shared<T> {
    outcome: Mutex<Option<Result<T>>>,
    set: Condvar,
}

impl<T> Latch<T> {
    /// An unset latch.
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared { outcome: Mutex::new(None), set: Condvar::new() }))
    }

    /// Sets it unless already set.
    pub(super) fn set(&self, outcome: Result<T>) {
        let mut slot = self.0.outcome.lock();
        if slot.is_none() {
            *slot = Some(outcome);
            self.0.set.notify_all();
        }
    }

    /// Waits until it is set and takes the value; `None` if the deadline passes first.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Option<Result<T>> {
        run_owed();
        let mut slot = self.0.outcome.lock();
        while slot.is_none() {
            match deadline {
                None => self.0.set.wait(&mut slot),
                Some(deadline) => {
                    if self.0.set.wait_until(&mut slot, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        slot.take()
    }
}

impl<T> Clone for Latch<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
