use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which threads run the work of a pool. By default any may; after [`Confinement::to_new_workers`], only its
/// workers.
///
/// Not also threads whose affinity mask allows only CPUs of the workers: a mask may change while work runs,
/// and work would run on one thread or the other depending on how the program was started.
#[derive(Clone, Copy, Default)]
pub(super) struct Confinement(Option<NonZeroU64>);

thread_local! {
    /// The pool that the thread is a worker of, if its work is confined.
    static POOL: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
}

impl Confinement {
    /// The work of a new pool runs on its workers only. Each of them must [enter](Self::enter).
    pub(super) fn to_new_workers() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(NonZeroU64::new(LAST.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// The calling thread is a worker of the pool.
    pub(super) fn enter(self) {
        POOL.set(self.0);
    }

    /// Whether the calling thread may run work.
    #[inline]
    pub(super) fn admits_this_thread(self) -> bool {
        self.0.is_none() || POOL.get() == self.0
    }
}
