//! The work of a run that is in flight.
//!
//! A run reports the first failed submission in run order: after an error, it waits for everything in flight
//! before it decides. A signal fails with its submission, but also if another submission that signals the
//! same semaphore fails later, or if the device is lost. In these cases a callback on the signal notes
//! whether it failed; otherwise submissions in flight have no callbacks. Objects are released when the work
//! issued before their last use is complete, and `HELD_BYTES` bounds the memory that waits for that. A
//! submission without signals gets a semaphore of the run's own.

use std::collections::{HashMap, VecDeque};
use std::slice::Iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use rehal_base::{Error, Result};
use rehal_hal::{Device, QueueAffinity, Registration, Semaphore, Timepoint};
use smallvec::SmallVec;

use crate::Plan;
use crate::plan::{Completion, RecordLocation, Release};
use crate::schedule::{HostWait, Schedule};

/// Bytes of buffers that wait to be freed, above which the host waits for the work that uses them.
const HELD_BYTES: u64 = 512 << 20;

/// After every step of a plan.
const NO_WAIT: u32 = u32::MAX;

/// The work of a run that is in flight, and when the host waits for it.
///
/// A run notifies it before and after each step, of each submission, of the end of timed scopes, and of its
/// own end. In serialized order no runnable work is in flight after a step. In captured order the schedule
/// lists the waits.
pub(crate) struct Flight<'r> {
    /// `None` in serialized order.
    schedule: Option<&'r Schedule>,
    devices: &'r [Device],
    waits: Iter<'r, HostWait>,
    /// The step of the first of `waits`; [`NO_WAIT`] if there is none.
    next_wait: u32,
    completions: Iter<'r, Completion>,
    /// The step of the first of `completions`; [`NO_WAIT`] if there is none.
    next_completion: u32,
    /// Deferred submissions that are issued and cannot run yet, by index.
    deferred: HashMap<u32, Issued>,
    /// Runnable submissions that may not be complete, in run order.
    in_flight: VecDeque<InFlight>,
    /// The number of submissions that have become runnable: the position of the next in the run order.
    position: u32,
    /// `None` until there is a [`Report`].
    failures: Option<Arc<Failures>>,
    /// The error of a submission that is known to have failed.
    error: Option<Error>,
    /// The queues of each device with work issued since their last flush.
    unflushed: Vec<QueueAffinity>,
    /// Objects to free once all submissions before a position are complete, with the bytes that each frees.
    held: VecDeque<(u32, Release, u64)>,
    held_bytes: u64,
}

/// A submission that is issued.
struct Issued {
    signals: SmallVec<[(Semaphore, u64); 1]>,
    location: RecordLocation,
    /// Whether its signals may fail because of another submission: one that signals the same semaphore, or
    /// any if that loses the device.
    is_shared: bool,
}

/// A submission as it is issued.
pub(crate) struct Issue<'a> {
    pub device: u32,
    pub affinity: QueueAffinity,
    /// With those of the run's own.
    pub signals: &'a [Timepoint<&'a Semaphore>],
    /// As in the plan.
    pub planned_signals: &'a [Timepoint<u32>],
    pub location: RecordLocation,
    /// Its index if it cannot run yet.
    pub deferred: Option<u32>,
}

struct InFlight {
    position: u32,
    issued: Issued,
    /// Of its [`Report`], if its signals are shared. Otherwise they fail only with the submission.
    registration: Option<Registration>,
}

/// The failed submissions of a run, of those that report.
#[derive(Default)]
struct Failures {
    is_any: AtomicBool,
    reported: Mutex<Reported>,
    changed: Condvar,
}

#[derive(Default)]
struct Reported {
    /// Submissions that may still report a failure.
    outstanding: usize,
    /// The first in run order, with its position.
    first: Option<(u32, RecordLocation, Error)>,
}

/// Reports whether a submission failed, when its signal is settled.
struct Report {
    failures: Arc<Failures>,
    position: u32,
    location: RecordLocation,
}

impl<'r> Flight<'r> {
    /// Nothing is in flight before step `first`, and `position` submissions were runnable before it. With a
    /// schedule, the order is the captured one.
    pub(crate) fn new(
        plan: &'r Plan,
        schedule: Option<&'r Schedule>,
        devices: &'r [Device],
        first: u32,
        position: u32,
    ) -> Self {
        let waits = schedule.map_or(&[][..], |schedule| &schedule.waits);
        let waits = &waits[waits.partition_point(|wait| wait.step < first)..];
        let completions = &plan.completions;
        let completions = &completions[completions.partition_point(|completion| completion.step < first)..];
        Self {
            schedule,
            devices,
            next_wait: waits.first().map_or(NO_WAIT, |wait| wait.step),
            waits: waits.iter(),
            next_completion: completions.first().map_or(NO_WAIT, |completion| completion.step),
            completions: completions.iter(),
            deferred: HashMap::new(),
            in_flight: VecDeque::new(),
            position,
            failures: None,
            error: None,
            unflushed: vec![0; devices.len()],
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// Called before `step` is performed: waits for what it must not overtake.
    #[inline]
    pub(crate) fn before(&mut self, step: u32) -> Result<()> {
        let is_any_reported = || self.failures.as_ref().is_some_and(|failures| failures.is_any());
        let has_failed = self.error.is_some() || is_any_reported();
        if step < self.next_wait && !has_failed { Ok(()) } else { self.wait_before(step) }
    }

    fn wait_before(&mut self, step: u32) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if let Some((_, error)) = self.failures.as_ref().and_then(|failures| failures.first()) {
            return Err(error);
        }
        while self.next_wait <= step
            && let Some(wait) = self.waits.next()
        {
            self.next_wait = self.waits.as_slice().first().map_or(NO_WAIT, |next| next.step);
            self.wait_for(wait.position)?;
        }
        Ok(())
    }

    /// Whether the host waits for each submission that can run.
    #[inline]
    pub(crate) fn is_serialized(&self) -> bool {
        self.schedule.is_none()
    }

    /// Called when a submission is issued to queues of a device. If it can run, the serialized order waits
    /// for it; a deferred one can run when [`Flight::complete`] is called, after the step that signals the
    /// last of its waits.
    pub(crate) fn issued(&mut self, issue: &Issue<'_>) -> Result<()> {
        if let Some(index) = issue.deferred {
            let issued = self.issued_of(issue);
            self.deferred.insert(index, issued);
        }
        if self.schedule.is_none() {
            let device = &self.devices[issue.device as usize];
            return match issue.deferred {
                Some(_) => device.flush(issue.affinity),
                None => Self::flush_and_wait(device, issue.affinity, issue.signals),
            };
        }
        self.unflushed[issue.device as usize] |= issue.affinity;
        if issue.deferred.is_none() {
            let is_complete =
                |it: &Timepoint<&Semaphore>| it.semaphore.query().is_ok_and(|at| at >= it.value);
            match issue.signals.iter().all(is_complete) {
                true => self.position += 1,
                false => {
                    let issued = self.issued_of(issue);
                    self.fly(issued);
                }
            }
        }
        Ok(())
    }

    /// Waits for a submission that can run, as [`Flight::issued`] does in serialized order.
    #[inline]
    pub(crate) fn flush_and_wait(
        device: &Device,
        affinity: QueueAffinity,
        signals: &[Timepoint<&Semaphore>],
    ) -> Result<()> {
        device.flush(affinity)?;
        signals.iter().try_for_each(|signal| signal.semaphore.wait(signal.value, None))
    }

    fn issued_of(&self, issue: &Issue<'_>) -> Issued {
        let signals = issue.signals.iter().map(|signal| (signal.semaphore.clone(), signal.value)).collect();
        let is_shared = self.schedule.is_some_and(|schedule| schedule.share_signals(issue.planned_signals))
            || self.devices[issue.device as usize].info().can_be_lost;
        Issued { signals, location: issue.location, is_shared }
    }

    /// Called after `step`: the next deferred submission that it makes runnable.
    #[inline]
    pub(crate) fn next_runnable(&mut self, step: u32) -> Option<&'r Completion> {
        if self.next_completion != step {
            return None;
        }
        let next = self.completions.next();
        self.next_completion =
            self.completions.as_slice().first().map_or(NO_WAIT, |completion| completion.step);
        next
    }

    /// A deferred submission that is issued is runnable now, and so in flight. The serialized order waits for
    /// it.
    pub(crate) fn complete(&mut self, submission: u32) -> Result<()> {
        let Some(issued) = self.deferred.remove(&submission) else { return Ok(()) };
        match self.schedule {
            None => issued.wait()?,
            Some(_) if issued.is_complete().is_ok_and(|is_complete| is_complete) => self.position += 1,
            Some(_) => self.fly(issued),
        }
        Ok(())
    }

    /// Whether no runnable work is in flight.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// An object's last use is issued, and it holds `bytes`: [`Flight::next_released`] returns it once the
    /// work that may use it is complete.
    pub(crate) fn hold(&mut self, release: Release, bytes: u64) {
        self.held_bytes += bytes;
        self.held.push_back((self.position, release, bytes));
    }

    /// Whether objects are held.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The next held object whose work is complete. Waits if too much memory is held.
    pub(crate) fn next_released(&mut self) -> Result<Option<Release>> {
        self.reap();
        if self.held_bytes > HELD_BYTES
            && let Some(first) = self.in_flight.front()
        {
            self.wait_for(first.position)?;
        }
        let reached = self.in_flight.front().map_or(self.position, |first| first.position);
        Ok(self.held.pop_front_if(|(position, ..)| *position <= reached).map(|(_, release, bytes)| {
            self.held_bytes -= bytes;
            release
        }))
    }

    /// Waits for all runnable work.
    pub(crate) fn drain(&mut self) -> Result<()> {
        while let Some(first) = self.in_flight.front() {
            self.wait_for(first.position)?;
        }
        Ok(())
    }

    /// Waits for all runnable work, whether or not it fails. Returns the record and the error of the first
    /// submission that failed, in run order: others may have failed because of it.
    pub(crate) fn abort(&mut self) -> Option<(RecordLocation, Error)> {
        // Work that cannot be flushed fails, or executes by itself.
        let _ = self.flush();
        let mut first = None;
        for InFlight { position, issued, registration } in self.in_flight.drain(..) {
            let outcome = issued.wait();
            match (registration, outcome) {
                (Some(registration), _) => registration.detach(),
                (None, Err(error)) if first.is_none() => first = Some((position, issued.location, error)),
                (None, _) => {}
            }
        }
        let reported = self.failures.as_ref().and_then(|failures| {
            let mut reported = failures.reported.lock();
            while reported.outstanding != 0 {
                failures.changed.wait(&mut reported);
            }
            reported.first.take()
        });
        let first = first.into_iter().chain(reported).min_by_key(|(position, ..)| *position);
        first.map(|(_, location, error)| (location, error))
    }

    fn fly(&mut self, issued: Issued) {
        let position = self.position;
        self.position += 1;
        let failures = &mut self.failures;
        let watched = issued.signals.last().filter(|_| issued.is_shared);
        let registration = watched.map(|(semaphore, value)| {
            let failures = failures.get_or_insert_default();
            failures.reported.lock().outstanding += 1;
            let report = Report { failures: failures.clone(), position, location: issued.location };
            semaphore.on_reached(*value, Box::new(move |outcome| report.settle(outcome)))
        });
        self.in_flight.push_back(InFlight { position, issued, registration });
        self.reap();
    }

    /// Waits for the submission at a position of the run order, unless it is known to be complete.
    fn wait_for(&mut self, position: u32) -> Result<()> {
        self.reap();
        let at = self.in_flight.partition_point(|in_flight| in_flight.position < position);
        if self.in_flight.get(at).is_some_and(|in_flight| in_flight.position == position) {
            self.flush()?;
            self.in_flight[at].issued.wait()?;
            self.reap();
        }
        Ok(())
    }

    /// Removes completed submissions from the front of those in flight, and notes a failure.
    fn reap(&mut self) {
        while let Some(first) = self.in_flight.front() {
            match first.issued.is_complete() {
                Ok(true) => drop(self.in_flight.pop_front()),
                Ok(false) => return,
                Err(error) => {
                    self.error.get_or_insert(error);
                    return;
                }
            }
        }
    }

    /// Flushes the queues with new work, so that it executes while the host waits.
    fn flush(&mut self) -> Result<()> {
        for (device, unflushed) in self.devices.iter().zip(&mut self.unflushed) {
            let affinity = std::mem::take(unflushed);
            if affinity != 0 {
                device.flush(affinity)?;
            }
        }
        Ok(())
    }
}

impl Issued {
    fn is_complete(&self) -> Result<bool> {
        for (semaphore, value) in &self.signals {
            if semaphore.query()? < *value {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn wait(&self) -> Result<()> {
        self.signals.iter().try_for_each(|(semaphore, value)| semaphore.wait(*value, None))
    }
}

impl Failures {
    fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    fn first(&self) -> Option<(RecordLocation, Error)> {
        if !self.is_any() {
            return None;
        }
        self.reported.lock().first.as_ref().map(|(_, location, error)| (*location, error.clone()))
    }
}

impl Report {
    fn settle(&self, outcome: Result<()>) {
        let Err(error) = outcome else { return };
        let mut reported = self.failures.reported.lock();
        if reported.first.as_ref().is_none_or(|(position, ..)| self.position < *position) {
            reported.first = Some((self.position, self.location, error));
        }
        drop(reported);
        self.failures.is_any.store(true, Ordering::Release);
    }
}

/// Dropped when it is settled or cancelled.
impl Drop for Report {
    fn drop(&mut self) {
        self.failures.reported.lock().outstanding -= 1;
        self.failures.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use rehal_hal::SemaphoreFlags;
    use rehal_local::LocalSync;

    use super::*;
    use crate::plan::ObjectKind;
    use crate::plan_numbers::recorded;

    /// Without it, a run that begins at a step may miss the wait or the completion of that step.
    #[test]
    fn a_run_begins_with_what_its_first_step_waits_for_and_completes() {
        let plan = recorded().unwrap();
        let schedule = Schedule::from_plan(&plan, Vec::new());
        let found = |first| {
            let mut flight = Flight::new(&plan, Some(&schedule), &[], first, 0);
            let waits = (flight.next_wait, flight.waits.len());
            let next = flight.next_completion;
            (waits, next, flight.next_runnable(next).map(|it| it.submission), flight.next_completion)
        };
        let waits: Vec<u32> = schedule.waits.iter().map(|it| it.step).collect();
        let completions: Vec<_> = plan.completions.iter().map(|it| (it.step, it.submission)).collect();
        assert_eq!(waits, [27, 30, 30, 33, 34]);
        assert_eq!(completions, [(11, 4), (19, 6), (19, 7), (30, 10), (30, 11)]);
        assert_eq!(found(0), ((27, 5), 11, Some(4), 19));
        assert_eq!(found(11), ((27, 5), 11, Some(4), 19));
        assert_eq!(found(12), ((27, 5), 19, Some(6), 19));
        assert_eq!(found(27), ((27, 5), 30, Some(10), 30));
        assert_eq!(found(28), ((30, 4), 30, Some(10), 30));
        assert_eq!(found(36), ((NO_WAIT, 0), NO_WAIT, None, NO_WAIT));
    }

    /// Without it, memory may be held although nothing uses it.
    #[test]
    fn what_nothing_in_flight_uses_is_released_at_once() {
        let plan = recorded().unwrap();
        let mut flight = Flight::new(&plan, None, &[], 0, 3);
        let release = |index| Release { step: 0, index, kind: ObjectKind::Buffer };
        for (index, bytes) in [(0, 1), (1, HELD_BYTES), (2, 5)] {
            flight.hold(release(index), bytes);
        }
        assert!(flight.holds() && flight.held_bytes == HELD_BYTES + 6);
        let released = std::iter::from_fn(|| flight.next_released().unwrap());
        assert_eq!(released.map(|it| it.index).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(!flight.holds() && flight.held_bytes == 0);
    }

    /// Without it, a run holds any amount of memory, or waits although there is enough.
    #[test]
    fn more_memory_than_the_limit_waits_for_the_work_that_uses_it() {
        let plan = recorded().unwrap();
        let schedule = Schedule::from_plan(&plan, Vec::new());
        let devices = [LocalSync::create(Default::default())];
        let release = |index| Release { step: 0, index, kind: ObjectKind::Buffer };
        for (bytes, waits) in [(512 << 20, false), ((512 << 20) + 1, true)] {
            let signal = devices[0].create_semaphore(1, 0, SemaphoreFlags::empty()).unwrap();
            let mut flight = Flight::new(&plan, Some(&schedule), &devices, 36, 3);
            flight.hold(release(0), 1);
            let issue = Issue {
                device: 0,
                affinity: 1,
                signals: &[signal.at(1)],
                planned_signals: &[],
                location: RecordLocation { ordinal: 0, offset: 0 },
                deferred: None,
            };
            flight.issued(&issue).unwrap();
            // What is in flight does not use it.
            assert_eq!(flight.next_released().unwrap().map(|it| it.index), Some(0));
            flight.hold(release(1), bytes);
            // A wait returns the error.
            signal.fail(Error::data_loss("it failed"));
            let next = flight.next_released().map(|it| it.map(|it| it.index));
            assert_eq!(next.map_err(|_| ()), if waits { Err(()) } else { Ok(None) });
        }
    }

    /// Without it, an error may name a submission that failed because of another.
    #[test]
    fn the_first_failure_in_run_order_is_kept() {
        let failures = Arc::new(Failures::default());
        failures.reported.lock().outstanding = 3;
        for position in [5, 2, 9] {
            let location = RecordLocation { ordinal: 10 * position, offset: 0 };
            Report { failures: failures.clone(), position, location }
                .settle(Err(Error::data_loss("it fails")));
        }
        assert_eq!(failures.first().map(|(location, _)| location.ordinal), Some(20));
        assert_eq!(failures.reported.lock().outstanding, 0);
    }
}
