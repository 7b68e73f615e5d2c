use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use smallvec::SmallVec;

use crate::callbacks::defer_callbacks;
use crate::latch::Latch;
use crate::{Device, QUEUE_AFFINITY_ANY, Registration, Semaphore, SemaphoreFlags, Timepoint, WaitCallback};

/// Limit on the semaphores of a fence (source: the 16-bit count of `iree_hal_fence_t`).
const CAPACITY: usize = u16::MAX as usize - 1;

/// A set of timepoints, reached when all of them are. An empty fence is already reached.
///
/// Each semaphore occurs once, with the maximum of its inserted values.
#[derive(Clone, Default)]
pub struct Fence {
    timepoints: SmallVec<[(Semaphore, u64); 1]>,
}

impl Fence {
    /// A fence with a semaphore of its own on `device`, reached at 1, for hosts and programs to wait for.
    pub fn create(device: &Device) -> Result<Self> {
        // The reference's default: hosts may wait for it, and its timepoints may be exported.
        let flags = SemaphoreFlags::HOST_INTERRUPT | SemaphoreFlags::EXPORTABLE_TIMEPOINTS;
        Ok(Self::at(device.create_semaphore(QUEUE_AFFINITY_ANY, 0, flags)?, 1))
    }

    /// A fence that is reached when one semaphore reaches `value`.
    pub fn at(semaphore: Semaphore, value: u64) -> Self {
        Self { timepoints: SmallVec::from_buf([(semaphore, value)]) }
    }

    /// A fence that is reached when all of `fences` are; `None` if they have no timepoints. Fails if they
    /// have more semaphores than a fence can hold.
    pub fn join<'a>(fences: impl IntoIterator<Item = &'a Self>) -> Result<Option<Self>> {
        let mut joined = Self::default();
        for fence in fences {
            joined.extend(fence)?;
        }
        Ok(if joined.timepoints.is_empty() { None } else { Some(joined) })
    }

    /// Adds a timepoint; for a semaphore that is already present, keeps the larger value. Fails if the fence
    /// is full.
    pub fn insert(&mut self, semaphore: &Semaphore, value: u64) -> Result<()> {
        if let Some((_, existing)) = self.timepoints.iter_mut().find(|(known, _)| known.is_same(semaphore)) {
            *existing = value.max(*existing);
            return Ok(());
        }
        if self.timepoints.len() == CAPACITY {
            return Err(Error::resource_exhausted(format!(
                "the fence exceeds the limit of {CAPACITY} semaphores"
            )));
        }
        self.timepoints.push((semaphore.clone(), value));
        Ok(())
    }

    /// Adds all timepoints of another fence.
    pub fn extend(&mut self, other: &Self) -> Result<()> {
        other.timepoints.iter().try_for_each(|(semaphore, value)| self.insert(semaphore, *value))
    }

    /// The semaphores, each with the value it must reach.
    pub fn timepoints(&self) -> &[(Semaphore, u64)] {
        &self.timepoints
    }

    /// The timepoints in the form that submissions take.
    pub fn live_timepoints(&self) -> impl ExactSizeIterator<Item = Timepoint<&Semaphore>> {
        self.timepoints.iter().map(|(semaphore, value)| semaphore.at(*value))
    }

    /// Whether it is reached; the error if a semaphore failed, since then it never will be.
    pub fn query(&self) -> Result<bool> {
        let mut is_reached = true;
        for (semaphore, value) in &self.timepoints {
            is_reached &= semaphore.query()? >= *value;
        }
        Ok(is_reached)
    }

    /// Signals every timepoint in order; stops at the first error. Callbacks run when all are signalled.
    pub fn signal(&self) -> Result<()> {
        let mut signalled = Ok(());
        defer_callbacks(|| {
            signalled = self.timepoints.iter().try_for_each(|(semaphore, value)| semaphore.signal(*value));
        });
        signalled
    }

    /// Fails every semaphore. Callbacks run when all have failed.
    pub fn fail(&self, error: &Error) {
        defer_callbacks(|| {
            for (semaphore, _) in &self.timepoints {
                semaphore.fail(error.clone());
            }
        });
    }

    /// Calls `callback` once, when all timepoints are reached (immediately if they already are) or the first
    /// of them fails, on the thread that causes it. Dropping the registration cancels it.
    pub fn on_reached(&self, callback: WaitCallback) -> Registration {
        if let [(semaphore, value)] = &*self.timepoints {
            return semaphore.on_reached(*value, callback);
        }
        if self.timepoints.is_empty() {
            callback(Ok(()));
            return Registration::done();
        }
        let pending = Arc::new(Mutex::new((self.timepoints.len(), Some(callback))));
        Registration::join(self.timepoints.iter().map(|(semaphore, value)| {
            let pending = pending.clone();
            let arrive = move |outcome: Result<()>| {
                let mut state = pending.lock();
                state.0 -= 1;
                if state.0 > 0 && outcome.is_ok() {
                    return;
                }
                let callback = state.1.take();
                drop(state);
                if let Some(callback) = callback {
                    callback(outcome);
                }
            };
            semaphore.on_reached(*value, Box::new(arrive))
        }))
    }

    /// Blocks until it is reached; `None` waits forever. Fails with `DEADLINE_EXCEEDED` on timeout, or with
    /// the error of the first semaphore that fails.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        if let [(semaphore, value)] = &*self.timepoints {
            return semaphore.wait(*value, timeout);
        }
        if self.query()? {
            return Ok(());
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let latch = Latch::new();
        let _registration = self.on_reached(Box::new({
            let latch = latch.clone();
            move |outcome| latch.set(outcome)
        }));
        latch.wait(deadline).unwrap_or_else(|| {
            let count = self.timepoints.len();
            let message = format!("timed out waiting for a fence of {count} semaphores");
            Err(Error::new(StatusCode::DeadlineExceeded, message))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Timeline;

    fn semaphores<const N: usize>() -> [Semaphore; N] {
        std::array::from_fn(|_| Semaphore::new(Timeline::new(0)))
    }

    #[test]
    fn a_semaphore_occurs_once_with_its_largest_value() {
        let [a, b] = semaphores();
        let mut fence = Fence::at(a.clone(), 3);
        fence.insert(&b, 1).unwrap();
        fence.insert(&a, 2).unwrap();
        let joined = Fence::join([&fence, &Fence::at(a, 7), &Fence::default()]).unwrap().unwrap();
        let values: Vec<_> = joined.timepoints().iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [7, 1]);
        assert!(Fence::join([&Fence::default()]).unwrap().is_none());
        assert!(Fence::join([]).unwrap().is_none());
        assert_eq!(joined.live_timepoints().len(), 2);
    }

    #[test]
    fn is_reached_when_all_timepoints_are() {
        let [a, b] = semaphores();
        let fence = Fence::join([&Fence::at(a.clone(), 1), &Fence::at(b.clone(), 2)]).unwrap().unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = seen.clone();
        let _registration = fence.on_reached(Box::new(move |outcome| {
            outcome.unwrap();
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        assert!(!fence.query().unwrap());
        b.signal(2).unwrap();
        let late = fence.wait(Some(Duration::from_millis(1))).unwrap_err();
        assert_eq!(late.code(), StatusCode::DeadlineExceeded);
        assert_eq!(seen.load(Ordering::Relaxed), 0);
        a.signal(1).unwrap();
        assert!(fence.query().unwrap());
        fence.wait(None).unwrap();
        assert_eq!(seen.load(Ordering::Relaxed), 1);
        assert_eq!(fence.signal().unwrap_err().code(), StatusCode::OutOfRange);
        assert!(Fence::default().query().unwrap());
        Fence::default().wait(None).unwrap();
        Fence::default().on_reached(Box::new(|outcome| outcome.unwrap())).detach();
    }

    #[test]
    fn a_failed_semaphore_fails_a_pending_fence() {
        let [a, b] = semaphores();
        let fence = Fence::join([&Fence::at(a.clone(), 1), &Fence::at(b.clone(), 1)]).unwrap().unwrap();
        let sleeper = std::thread::spawn({
            let fence = fence.clone();
            move || fence.wait(None)
        });
        Fence::at(b, 1).fail(&Error::data_loss("gone"));
        assert_eq!(sleeper.join().unwrap().unwrap_err().message(), "gone");
        assert_eq!(fence.query().unwrap_err().message(), "gone");
        a.signal(1).unwrap();
        assert_eq!(fence.query().unwrap_err().message(), "gone");
        assert_eq!(fence.wait(None).unwrap_err().message(), "gone");
    }

    #[test]
    fn signals_and_fails_every_semaphore() {
        let [a, b] = semaphores();
        let fence = Fence::join([&Fence::at(a.clone(), 4), &Fence::at(b.clone(), 5)]).unwrap().unwrap();
        fence.signal().unwrap();
        assert_eq!((a.query().unwrap(), b.query().unwrap()), (4, 5));
        fence.fail(&Error::not_found("lost"));
        assert!(a.query().is_err() && b.query().is_err());
    }
}
