use std::sync::Weak;

use smallvec::SmallVec;

/// Keeps a callback registered with a semaphore; dropping it takes the callback back.
///
/// Afterwards the callback has run, or is about to run on a thread that has reached its timepoint already, or has
/// been dropped and never runs. Nothing of it stays behind. It does not keep the semaphore alive.
#[must_use = "dropping a registration takes its callback back; see Registration::detach"]
#[derive(Default)]
pub struct Registration {
    entries: SmallVec<[Entry; 1]>,
}

/// What semaphores implement to take callbacks back.
pub trait CallbackRegistry: Send + Sync {
    /// Drops the callback that was registered for `value` under `key`, if it is still there.
    fn deregister(&self, value: u64, key: u64);
}

struct Entry {
    registry: Weak<dyn CallbackRegistry>,
    value: u64,
    key: u64,
}

impl Registration {
    /// The registration of a callback for `value`, which `registry` knows by `key`.
    pub fn new(registry: Weak<dyn CallbackRegistry>, value: u64, key: u64) -> Self {
        Self { entries: SmallVec::from_buf([Entry { registry, value, key }]) }
    }

    /// The registration of a callback that is not registered any more: it runs, or has run.
    pub fn done() -> Self {
        Self::default()
    }

    /// One registration in place of several.
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
