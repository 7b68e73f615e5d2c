//! Timelines that queues of the device and the host signal.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{Registration, Semaphore, SemaphoreBackend, Timeline, WaitCallback};
use smallvec::SmallVec;

use crate::queue::{Core, Frontier};

/// How long a thread waits before it looks whether more submissions can be issued.
const BACKLOG_SLICE: Duration = Duration::from_millis(1);

/// A semaphore. Its payload is that of a [`Timeline`] of the host, which the driver advances when the work
/// that signals it is complete. It also knows what work will advance it, so that later work of the device
/// waits on the device.
pub(crate) struct VulkanSemaphore {
    timeline: Arc<Timeline>,
    core: Arc<Core>,
    /// Payloads that issued work of the device will signal, ascending, and the work.
    scheduled: Mutex<SmallVec<[(u64, Frontier); 2]>>,
    /// Whether a callback, or a thread that came before the work was issued, waits: neither watches the
    /// device.
    is_watched: AtomicBool,
}

/// The known state of a timepoint.
pub(crate) enum Reach {
    /// It is reached.
    Reached,
    /// This work will reach it.
    Scheduled(Frontier),
    /// Something else has to happen first.
    Unknown,
}

impl VulkanSemaphore {
    /// A semaphore at `initial_value`.
    pub(crate) fn create(core: &Arc<Core>, initial_value: u64) -> Semaphore {
        let timeline = Arc::new(Timeline::new(initial_value));
        core.add_timeline(&timeline);
        Semaphore::new(Self {
            timeline,
            core: core.clone(),
            scheduled: Mutex::default(),
            is_watched: AtomicBool::new(false),
        })
    }

    /// The semaphore, if it is one of the device with this `core`.
    pub(crate) fn of<'s>(semaphore: &'s Semaphore, core: &Core) -> Option<&'s Self> {
        let mine: &Self = (semaphore.backend() as &dyn Any).downcast_ref()?;
        std::ptr::eq(Arc::as_ptr(&mine.core), core).then_some(mine)
    }

    /// How a timepoint is reached; the error if its semaphore has failed.
    pub(crate) fn reach(semaphore: &Semaphore, value: u64, core: &Core) -> Result<Reach> {
        let Some(mine) = Self::of(semaphore, core) else {
            return Ok(if semaphore.query()? >= value { Reach::Reached } else { Reach::Unknown });
        };
        if mine.timeline.query()? >= value {
            return Ok(Reach::Reached);
        }
        Ok(mine.scheduled_at(value).map_or(Reach::Unknown, Reach::Scheduled))
    }

    fn scheduled_at(&self, value: u64) -> Option<Frontier> {
        let scheduled = self.scheduled.lock();
        scheduled.iter().find(|(at, _)| *at >= value).map(|(_, frontier)| *frontier)
    }

    /// Notes that `work` signals `value`. Returns whether it is watched for others.
    pub(crate) fn schedule(&self, value: u64, work: Frontier) -> bool {
        let reached = self.timeline.query().unwrap_or(u64::MAX);
        let mut scheduled = self.scheduled.lock();
        scheduled.retain(|(at, _)| *at > reached);
        let index = scheduled.iter().position(|(at, _)| *at > value).unwrap_or(scheduled.len());
        scheduled.insert(index, (value, work));
        drop(scheduled);
        self.is_watched.load(Ordering::SeqCst)
    }

    /// Notes that a callback waits for `value`.
    fn watch(&self, value: u64) {
        self.is_watched.store(true, Ordering::SeqCst);
        if self.scheduled_at(value).is_some() {
            self.core.demand();
        }
    }
}

impl SemaphoreBackend for VulkanSemaphore {
    fn query(&self) -> Result<u64> {
        let reached = self.timeline.query()?;
        if self.scheduled_at(reached + 1).is_none() {
            return Ok(reached);
        }
        self.core.settle();
        self.timeline.query()
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.timeline.signal(value)
    }

    fn fail(&self, error: Error) {
        self.timeline.fail(error);
    }

    // A thread that waits for work of the device waits for the device itself, and then signals what is
    // complete: no other thread has to wake it.
    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        while self.timeline.query()? < value {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let Some(work) = self.scheduled_at(value) else {
                self.is_watched.store(true, Ordering::SeqCst);
                if self.core.has_backlog() {
                    // What signals it may be issued only when other work is complete, and the device's own
                    // thread may be busy with a callback.
                    self.core.settle();
                    self.core.issue_backlog();
                    let slice = left.map_or(BACKLOG_SLICE, |left| left.min(BACKLOG_SLICE));
                    match self.timeline.wait(value, Some(slice)) {
                        Err(error) if error.code() == StatusCode::DeadlineExceeded && left != Some(slice) => {
                            continue;
                        }
                        outcome => return outcome,
                    }
                }
                if self.scheduled_at(value).is_none() {
                    return self.timeline.wait(value, left);
                }
                continue;
            };
            let is_complete = self.core.wait(&work, left);
            self.core.settle();
            if is_complete {
                // Another thread may be about to signal it.
                return self.timeline.wait(value, left);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return self.timeline.wait(value, Some(Duration::ZERO));
            }
        }
        Ok(())
    }

    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        let registration = self.timeline.on_reached(value, callback);
        self.watch(value);
        registration
    }
}
