use super::sync::{AtomicU64, Ordering};

/// Limits how many threads execute work of a pool at the same time, to the number of its workers.
///
/// All of it is one word, so that a thread that returns a permit cannot miss one that was refused before: the
/// number of permits that are held, and whether a worker was refused and no worker has taken one since. Until
/// then no other thread gets a permit: a thread that runs one brief operation after another would keep the
/// worker from its job.
///
/// Alone in its cache lines: other threads write beside it while they submit.
#[repr(align(128))]
pub(super) struct Permits {
    state: AtomicU64,
    limit: u64,
}

/// A worker was refused.
const REFUSED: u64 = 1 << 63;

impl Permits {
    /// So many permits, none of which is held.
    pub(super) fn new(limit: usize) -> Self {
        Self { state: AtomicU64::new(0), limit: limit as u64 }
    }

    /// Takes a permit for a thread that can do without, unless a worker waits for one.
    pub(super) fn take(&self) -> bool {
        self.update(|state| (state < self.limit).then_some(state + 1)).is_some()
    }

    /// Takes a permit for a worker. If there is none, [`Permits::put_back`] says so to the next thread that
    /// returns one.
    pub(super) fn take_for_worker(&self) -> bool {
        // Written even if nothing changes: a permit may have been returned since the state was read.
        let before = self.update(|state| match state & !REFUSED {
            held if held < self.limit => Some(held + 1),
            held => Some(held | REFUSED),
        });
        before.is_some_and(|state| state & !REFUSED < self.limit)
    }

    /// Returns a permit. If it returns `true`, a worker was refused, and the caller must wake one or
    /// [forget](Permits::forget_refused) it.
    pub(super) fn put_back(&self) -> bool {
        self.state.fetch_sub(1, Ordering::Release) & REFUSED != 0
    }

    /// No worker waits for a permit: there is no job.
    pub(super) fn forget_refused(&self) {
        self.state.fetch_and(!REFUSED, Ordering::Relaxed);
    }

    /// Whether a worker waits for a permit.
    pub(super) fn was_refused(&self) -> bool {
        self.state.load(Ordering::Relaxed) & REFUSED != 0
    }

    /// Replaces the state; returns the one before. Who takes a permit sees what those did who returned it.
    fn update(&self, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange(state, next(state)?, success, failure) {
                Ok(before) => return Some(before),
                Err(current) => state = current,
            }
        }
    }
}
