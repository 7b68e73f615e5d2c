use std::time::{Duration, Instant};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{Registration, SemaphoreBackend, Timeline, WaitCallback};

use super::role::WorkersId;
use super::submission_job::SubmissionJob;
use crate::pool::{Help, PoolHandle};

/// A semaphore whose waiting threads help the workers.
///
/// Unless the work is confined to the workers, a thread that waits without a timeout runs queued submissions
/// until the wait is over, in place of the workers for which they are queued: these may be asleep, and waking
/// one, and then this thread, takes longer than many submissions do.
pub(super) struct TaskSemaphore {
    timeline: Timeline,
    pool: PoolHandle<SubmissionJob>,
    workers: WorkersId,
}

/// Time to release a submission's operands, and to run the callbacks of its signals.
const COMPLETION: Duration = Duration::from_micros(10);

/// Time after which a thread that got no permit asks again: long beside most operations, short beside what
/// people notice.
const RETRY: Duration = Duration::from_millis(1);

impl TaskSemaphore {
    /// A semaphore at `initial_value` of devices that run on `pool`, which is that of `workers`.
    pub(super) fn new(initial_value: u64, pool: PoolHandle<SubmissionJob>, workers: WorkersId) -> Self {
        Self { timeline: Timeline::new(initial_value), pool, workers }
    }

    /// Polls for as long as it takes to complete a submission whose last tiles ran on another thread.
    fn poll(&self, value: u64) {
        let start = Instant::now();
        while self.is_before(value) && start.elapsed() < COMPLETION {
            std::hint::spin_loop();
        }
    }

    /// Whether a wait for `value` would block.
    fn is_before(&self, value: u64) -> bool {
        self.timeline.query().is_ok_and(|now| now < value)
    }
}

impl SemaphoreBackend for TaskSemaphore {
    fn query(&self) -> Result<u64> {
        self.timeline.query()
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.timeline.signal(value)
    }

    fn fail(&self, error: Error) {
        self.timeline.fail(error);
    }

    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        // A workgroup may take longer than any timeout.
        if timeout.is_none() && self.workers.admits_this_thread() {
            let leaves = || !self.is_before(value);
            let _helping = self.workers.help();
            while self.is_before(value) {
                match self.pool.help(SubmissionJob::admits_helper, &leaves, SubmissionJob::help) {
                    Help::Ran => self.poll(value),
                    // All workers may be in calls of the host that wait, too: once the permits are returned,
                    // only this thread is left to run what it waits for.
                    Help::Refused => match self.timeline.wait(value, Some(RETRY)) {
                        Err(error) if error.code() == StatusCode::DeadlineExceeded => {}
                        outcome => return outcome,
                    },
                    Help::Nothing => break,
                }
            }
        }
        self.timeline.wait(value, timeout)
    }

    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.timeline.on_reached(value, callback)
    }
}
