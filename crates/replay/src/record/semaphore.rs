use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rehal_base::{Error, Result};
use rehal_capture::layout::SemaphoreTimepoint;
use rehal_hal::{
    QUEUE_AFFINITY_ANY, QueueOp, Registration, Semaphore, SemaphoreBackend, Submission, WaitCallback,
};
use zerocopy::little_endian::U64;

use super::names::Recorded;
use super::stream::{Log, Stream, status_of};
use crate::encode;

/// A semaphore that recorded submissions wait for and signal.
///
/// Host operations on semaphores are not recorded (nor does the reference record them), with one exception: if a
/// submission waits for a value that only the host signals, a replay would deadlock. The capture then gets a queue
/// barrier that signals it.
pub(super) struct RecordedSemaphore {
    pub base: Semaphore,
    pub id: u64,
    device: u64,
    stream: Arc<Stream>,
    /// The highest value that a record signals, or the initial value.
    recorded: AtomicU64,
    beyond: Mutex<Beyond>,
}

/// What is beyond the recorded signals.
struct Beyond {
    /// The highest value that the host has signalled.
    host: u64,
    /// The highest value that a record waits for and none signals yet.
    awaited: u64,
}

impl RecordedSemaphore {
    /// The handle of semaphore `id`, which the device made as `base`.
    pub fn wrap(
        base: Semaphore,
        id: u64,
        device: u64,
        stream: &Arc<Stream>,
        initial_value: u64,
    ) -> Semaphore {
        let beyond = Mutex::new(Beyond { host: initial_value, awaited: initial_value });
        let recorded = AtomicU64::new(initial_value);
        Semaphore::new(Self { base, id, device, stream: stream.clone(), recorded, beyond })
    }

    /// A submission that waits for `value` is about to be recorded: makes sure that a record signals what the
    /// host has signalled already. Gives whether the records so far reach `value`: otherwise the submission is
    /// deferred in a replay, and what it signals is not reached where it is recorded.
    pub fn will_wait(&self, value: u64) -> bool {
        if self.recorded.load(Ordering::Acquire) >= value {
            return true;
        }
        let mut beyond = self.beyond.lock();
        if self.refresh(&beyond) >= value {
            return true;
        }
        beyond.awaited = beyond.awaited.max(value);
        if beyond.host < value {
            return false;
        }
        self.will_signal(beyond.host);
        self.stream.record(|log| {
            self.record_signal(log, beyond.host, 0);
        });
        true
    }

    /// A submission that signals `value`, and is not deferred, is about to be recorded. Gives what records signalled
    /// before.
    pub fn will_signal(&self, value: u64) -> u64 {
        self.recorded.fetch_max(value, Ordering::AcqRel)
    }

    /// The device refused the submission, so that `value` is still to be signalled: by another one, or by the host.
    pub fn will_not_signal(&self, value: u64, before: u64) {
        // If another record has signalled more meanwhile, that counts.
        let _ = self.recorded.compare_exchange(value, before, Ordering::AcqRel, Ordering::Acquire);
    }

    /// What records signal. Where the semaphore is beyond what the host has signalled, a record has brought it there:
    /// a deferred submission that has run by now.
    fn refresh(&self, beyond: &Beyond) -> u64 {
        match self.base.query() {
            Ok(value) if value > beyond.host => self.recorded.fetch_max(value, Ordering::AcqRel).max(value),
            _ => self.recorded.load(Ordering::Acquire),
        }
    }

    fn record_signal(&self, log: &mut Log, value: u64, status: u32) -> u64 {
        let signals = [SemaphoreTimepoint { semaphore_id: U64::new(self.id), value: U64::new(value) }];
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

impl SemaphoreBackend for RecordedSemaphore {
    fn query(&self) -> Result<u64> {
        self.base.query()
    }

    // Recorded first: what the signal sets off may be recorded before the call comes back.
    fn signal(&self, value: u64) -> Result<()> {
        let mut recorded_at = None;
        let mut beyond = self.beyond.lock();
        let needed = |recorded| recorded < value && recorded < beyond.awaited;
        let needed = needed(self.recorded.load(Ordering::Acquire)) && needed(self.refresh(&beyond));
        beyond.host = beyond.host.max(value);
        if needed {
            self.will_signal(value);
            self.stream.record(|log| recorded_at = Some(self.record_signal(log, value, 0)));
        }
        drop(beyond);
        let outcome = self.base.signal(value);
        if let (Err(_), Some(offset)) = (&outcome, recorded_at) {
            self.stream.record(|log| log.set_status(offset, status_of(&outcome)));
        }
        outcome
    }

    fn fail(&self, error: Error) {
        self.base.fail(error);
    }

    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        self.base.wait(value, timeout)
    }

    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.base.on_reached(value, callback)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Recorded for RecordedSemaphore {
    const NAME: &'static str = "a semaphore";

    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}
