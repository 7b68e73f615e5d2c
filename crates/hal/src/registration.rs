use std::sync::Weak;

use smallvec::SmallVec;

/// A callback registered with a semaphore; dropping it cancels the callback.
///
/// Afterwards the callback has run, or is about to run on a thread that has already reached its timepoint, or
/// has been dropped and never runs. Nothing of it remains registered. It does not keep the semaphore alive.
#[must_use = "dropping a registration cancels its callback; see Registration::detach"]
#[derive(Default)]
pub struct Registration {
    entries: SmallVec<[Entry; 1]>,
}

/// Implemented by semaphores to cancel callbacks.
pub trait CallbackRegistry: Send + Sync {
    /// Drops the callback registered for `value` under `key`, if still present.
    fn deregister(&self, value: u64, key: u64);
}

struct Entry {
    registry: Weak<dyn CallbackRegistry>,
    value: u64,
    key: u64,
}

impl Registration {
    /// The registration of a callback for `value`, identified by `key` in `registry`.
    #[doc(hidden)]
    pub fn new(registry: Weak<dyn CallbackRegistry>, value: u64, key: u64) -> Self {
        Self { entries: SmallVec::from_buf([Entry { registry, value, key }]) }
    }

    /// The registration of a callback that is no longer registered: it is running or has run.
    pub fn done() -> Self {
        Self::default()
    }

    /// Combines several registrations into one.
    pub fn join(registrations: impl IntoIterator<Item = Self>) -> Self {
        let entries = registrations.into_iter().flat_map(|mut it| std::mem::take(&mut it.entries));
        Self { entries: entries.collect() }
    }

    /// Leaves the callback registered until its semaphore reaches the timepoint, fails or is dropped.
    pub fn detach(mut self) {
        self.entries.clear();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        for Entry { registry, value, key } in self.entries.drain(..) {
            if let Some(registry) = registry.upgrade() {
                registry.deregister(value, key);
            }
        }
    }
}
