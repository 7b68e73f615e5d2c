use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_hal::{
    QUEUE_AFFINITY_ANY, QueueOp, Registration, Semaphore, SemaphoreBackend, Submission, Timepoint,
    WaitCallback,
};

use super::object::{Recorded, handle};
use super::stream::{Log, status_of};
use crate::encode;

handle!(Semaphore, "a semaphore", Payloads);

/// The payloads of a semaphore that the recorder knows.
pub(super) struct Payloads {
    /// The highest value signalled by a record, or the initial value.
    recorded: AtomicU64,
    beyond: Mutex<Beyond>,
}

/// State beyond the recorded signals.
struct Beyond {
    /// The highest value signalled by the host.
    host: u64,
    /// The highest value that a record waits for and no record signals yet.
    awaited: u64,
}

impl Payloads {
    pub fn new(initial_value: u64) -> Self {
        let beyond = Mutex::new(Beyond { host: initial_value, awaited: initial_value });
        Self { recorded: AtomicU64::new(initial_value), beyond }
    }
}

/// Host operations on semaphores are not recorded (nor does the reference record them), with one exception:
/// if a submission waits for a value that only the host signals, a replay would deadlock. The capture then
/// contains a queue barrier that signals it.
impl Recorded<Semaphore> {
    /// Called before a submission that waits for `value` is recorded: records a signal if the host has
    /// already signalled it. Returns whether the records so far reach `value`; otherwise a replay defers the
    /// submission, and its signals are not reached at its record.
    pub fn will_wait(&self, value: u64) -> bool {
        if self.state.recorded.load(Ordering::Acquire) >= value {
            return true;
        }
        let mut beyond = self.state.beyond.lock();
        if self.refresh(&beyond) >= value {
            return true;
        }
        beyond.awaited = beyond.awaited.max(value);
        if beyond.host < value {
            return false;
        }
        self.will_signal(beyond.host);
        self.stream.with_log(|log| {
            self.record_signal(log, beyond.host, 0);
        });
        true
    }

    /// Called before a submission that signals `value` and is not deferred is recorded. Returns the
    /// previously recorded value.
    pub fn will_signal(&self, value: u64) -> u64 {
        self.state.recorded.fetch_max(value, Ordering::AcqRel)
    }

    /// The device rejected the submission, so `value` is still to be signalled, by another submission or the
    /// host.
    pub fn will_not_signal(&self, value: u64, before: u64) {
        // A higher signal recorded concurrently takes precedence.
        let _ = self.state.recorded.compare_exchange(value, before, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Updates the recorded value. A payload beyond the host's signals was reached by a record: a deferred
    /// submission that has completed.
    fn refresh(&self, beyond: &Beyond) -> u64 {
        match self.base.query() {
            Ok(value) if value > beyond.host => {
                self.state.recorded.fetch_max(value, Ordering::AcqRel).max(value)
            }
            _ => self.state.recorded.load(Ordering::Acquire),
        }
    }

    fn record_signal(&self, log: &mut Log, value: u64, status: u32) -> u64 {
        let signals = [encode::timepoint(&Timepoint { semaphore: self.id, value })];
        let barrier = Submission::<crate::Ids<'_>> {
            device: self.device,
            affinity: QUEUE_AFFINITY_ANY,
            waits: &[],
            signals: &signals,
            op: QueueOp::Barrier { flags: 0 },
        };
        let mut offset = 0;
        encode::submission(&barrier, &mut |call, payload_type, parts| {
            offset = log.operation(self.device, status, call, payload_type, parts);
        });
        offset
    }
}

impl SemaphoreBackend for Recorded<Semaphore> {
    fn query(&self) -> Result<u64> {
        self.base.query()
    }

    // Recorded first: calls triggered by the signal may be recorded before this call returns.
    fn signal(&self, value: u64) -> Result<()> {
        let mut recorded_at = None;
        let mut beyond = self.state.beyond.lock();
        let needed = |recorded| recorded < value && recorded < beyond.awaited;
        let needed = needed(self.state.recorded.load(Ordering::Acquire)) && needed(self.refresh(&beyond));
        beyond.host = beyond.host.max(value);
        if needed {
            self.will_signal(value);
            self.stream.with_log(|log| recorded_at = Some(self.record_signal(log, value, 0)));
        }
        drop(beyond);
        let outcome = self.base.signal(value);
        if let (Err(_), Some(offset)) = (&outcome, recorded_at) {
            self.stream.with_log(|log| log.set_status(offset, status_of(&outcome)));
        }
        outcome
    }

    fn fail(&self, error: Error) {
        self.stream.host_takes_part();
        self.base.fail(error);
    }

    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        self.base.wait(value, timeout)
    }

    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.base.on_reached(value, callback)
    }
}
