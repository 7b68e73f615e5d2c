use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use rehal_hal::profile::{ProfiledSubmission, now_ns};

use crate::profile::Span;

/// When the threads of an issue ran the tiles of a command. Measured only if the submission is profiled.
///
/// Relaxed accesses suffice, as in [`Tiling`](super::stage::Tiling): a thread adds its time before it
/// completes the tiles.
pub(super) struct CommandTimes {
    first_ns: AtomicI64,
    last_ns: AtomicI64,
    sum_ns: AtomicI64,
    /// Times that a thread took tiles.
    drains: AtomicU32,
}

impl Default for CommandTimes {
    fn default() -> Self {
        let zero = || AtomicI64::new(0);
        Self {
            first_ns: AtomicI64::new(i64::MAX),
            last_ns: zero(),
            sum_ns: zero(),
            drains: AtomicU32::new(0),
        }
    }
}

impl CommandTimes {
    /// No tile has run.
    pub(super) fn reset(&self) {
        self.first_ns.store(i64::MAX, Ordering::Relaxed);
        self.last_ns.store(0, Ordering::Relaxed);
        self.sum_ns.store(0, Ordering::Relaxed);
        self.drains.store(0, Ordering::Relaxed);
    }

    /// The time from the first tile to the last; `None` if none has run.
    pub(super) fn span(&self) -> Option<Span> {
        let start_ns = self.first_ns.load(Ordering::Relaxed);
        (start_ns != i64::MAX).then(|| Span {
            start_ns,
            end_ns: self.last_ns.load(Ordering::Relaxed),
            thread_time_ns: self.sum_ns.load(Ordering::Relaxed),
            was_deferred: true,
        })
    }

    /// Times that a thread took tiles.
    pub(super) fn drains(&self) -> u32 {
        self.drains.load(Ordering::Relaxed)
    }
}

/// The clock of one thread that runs tiles of a command; does nothing unless the submission is profiled.
pub(super) struct Clock {
    is_on: bool,
    start_ns: Option<i64>,
}

impl Clock {
    /// A clock that does not run yet.
    pub(super) fn new(profile: Option<&ProfiledSubmission>) -> Self {
        let is_on = profile.is_some_and(|profile| profile.reports_spans() || profile.reports_regions());
        Self { is_on, start_ns: None }
    }

    /// Tiles are about to run.
    pub(super) fn start(&mut self) {
        if self.is_on {
            self.start_ns = Some(now_ns());
        }
    }

    /// The tiles have run, and are not complete yet. Returns when they began and ended.
    pub(super) fn stop(&mut self, times: &CommandTimes) -> Option<(i64, i64)> {
        self.start_ns.take().map(|start_ns| {
            let end_ns = now_ns();
            times.first_ns.fetch_min(start_ns, Ordering::Relaxed);
            times.last_ns.fetch_max(end_ns, Ordering::Relaxed);
            times.sum_ns.fetch_add(end_ns - start_ns, Ordering::Relaxed);
            times.drains.fetch_add(1, Ordering::Relaxed);
            (start_ns, end_ns)
        })
    }
}
