use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use rehal_hal::profile::{ProcessorTime, ProfiledSubmission, SectionClock, SectionTime};

use crate::profile::Span;

/// When the threads of a job ran the tiles of a command. Measured only if the submission is profiled.
///
/// Relaxed accesses suffice, as in [`Tiling`](super::stage::Tiling): a thread adds its time before it
/// completes the tiles.
pub(super) struct CommandTimes {
    first_ns: AtomicI64,
    last_ns: AtomicI64,
    sum_ns: AtomicI64,
    /// Times that a thread took tiles.
    drains: AtomicU32,
    /// The time that each thread spent on workgroups, if the session wants it.
    threads: Mutex<Vec<(ThreadId, SectionTime)>>,
}

impl Default for CommandTimes {
    fn default() -> Self {
        let zero = || AtomicI64::new(0);
        Self {
            first_ns: AtomicI64::new(i64::MAX),
            last_ns: zero(),
            sum_ns: zero(),
            drains: AtomicU32::new(0),
            threads: Mutex::default(),
        }
    }
}

impl CommandTimes {
    /// No tile has run.
    pub(super) fn reset(&self) {
        if self.drains.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        self.first_ns.store(i64::MAX, Ordering::Relaxed);
        self.last_ns.store(0, Ordering::Relaxed);
        self.sum_ns.store(0, Ordering::Relaxed);
        self.threads.lock().clear();
    }

    /// The time from the first tile to the last; `None` if none has run.
    pub(super) fn span(&self, profile: &ProfiledSubmission) -> Option<Span> {
        let start_ns = self.first_ns.load(Ordering::Relaxed);
        let processor = || ProcessorTime::of(self.threads.lock().iter().map(|it| it.1));
        (start_ns != i64::MAX).then(|| Span {
            start_ns,
            end_ns: self.last_ns.load(Ordering::Relaxed),
            thread_time_ns: self.sum_ns.load(Ordering::Relaxed),
            processor: profile.reports_processor_time().then(processor),
            was_deferred: true,
        })
    }

    /// Times that a thread took tiles.
    pub(super) fn drains(&self) -> u32 {
        self.drains.load(Ordering::Relaxed)
    }

    /// This thread has spent so much on workgroups.
    fn add_to_thread(&self, time: SectionTime) {
        let (id, mut threads) = (thread::current().id(), self.threads.lock());
        match threads.iter_mut().find(|(known, _)| *known == id) {
            Some((_, sum)) => {
                sum.cpu_ns += time.cpu_ns;
                sum.elapsed_ns += time.elapsed_ns;
            }
            None => threads.push((id, time)),
        }
    }
}

/// Data of the report of a submission besides the times of its commands.
#[derive(Default)]
pub(super) struct ReportProgress {
    pub(super) start_ns: AtomicI64,
    pub(super) stage_start_ns: AtomicI64,
    /// Tiles of the stage that runs.
    pub(super) tiles: AtomicU32,
    /// Stages that were reported.
    pub(super) reported: AtomicU32,
}

impl ReportProgress {
    /// The first stage is about to begin.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// The clock of one thread that runs tiles of a command; does nothing unless the submission is profiled.
pub(super) struct Clock {
    is_on: bool,
    has_cpu: bool,
    begun: Option<SectionClock>,
}

impl Clock {
    /// A clock that does not run yet.
    pub(super) fn new(profile: Option<&ProfiledSubmission>) -> Self {
        let is_on = profile.is_some_and(|profile| profile.reports_spans() || profile.reports_regions());
        let has_cpu = profile.is_some_and(ProfiledSubmission::reports_processor_time);
        Self { is_on, has_cpu, begun: None }
    }

    /// Tiles are about to run. `has_workgroups` says whether there are workgroups in them, whose CPU time is
    /// measured.
    pub(super) fn start(&mut self, has_workgroups: bool) {
        if self.is_on {
            self.begun = Some(SectionClock::start(self.has_cpu && has_workgroups));
        }
    }

    /// The tiles have run, and are not complete yet. Returns when they began and ended.
    pub(super) fn stop(&mut self, times: &CommandTimes) -> Option<(i64, i64)> {
        self.begun.take().map(|begun| {
            let (start_ns, (end_ns, time)) = (begun.start_ns, begun.stop());
            times.first_ns.fetch_min(start_ns, Ordering::Relaxed);
            times.last_ns.fetch_max(end_ns, Ordering::Relaxed);
            times.sum_ns.fetch_add(end_ns - start_ns, Ordering::Relaxed);
            times.drains.fetch_add(1, Ordering::Relaxed);
            if let Some(time) = time {
                times.add_to_thread(time);
            }
            (start_ns, end_ns)
        })
    }
}
