use std::collections::VecDeque;
use std::iter::from_fn;
use std::thread::{self, ThreadId};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{defer_callbacks, for_each_unwinding};

use super::{Core, Entry, Uses};

/// Submissions whose work is complete, and who settles their signals.
///
/// Signals have to be settled in order, since payloads increase; so one thread at a time does it. It runs
/// callbacks when its turn is over: one that blocks does not prevent other threads from settling what they
/// wait for.
#[derive(Default)]
pub(super) struct Settling {
    ready: VecDeque<(Entry, Result<()>)>,
    pub(super) owner: Option<ThreadId>,
}

impl Core {
    /// Settles the signals of work that is complete.
    pub(crate) fn settle(&self) {
        if let Err(error) = self.poll() {
            self.lose(self.lost_by("reading the progress of a queue", error));
            return;
        }
        let completed = self.completed();
        let mut state = self.state.lock();
        state.tracks.complete(&completed, self.now());
        let mut settling = self.settling.lock();
        let is_single = self.lanes.len() == 1;
        let mut index = 0;
        while let Some(entry) = state.entries.get(index) {
            if entry.needs.is_included_in(&completed) {
                settling.ready.extend(state.remove(index).map(|entry| (entry, Ok(()))));
            } else if is_single {
                // What is behind it needs no less.
                break;
            } else {
                index += 1;
            }
        }
        state.is_demanded &= !state.entries.is_empty() || !state.backlog.is_empty();
        drop((settling, state));
        self.settle_ready();
    }

    /// Fails everything that is outstanding, when nothing of it executes any more.
    pub(super) fn settle_lost(&self, error: &Error) {
        self.quiesce();
        let completed = self.completed();
        let mut state = self.state.lock();
        state.tracks.clear();
        let mut settling = self.settling.lock();
        state.executing = 0;
        let backlog = std::mem::take(&mut state.backlog);
        settling.ready.extend(state.entries.drain(..).map(|entry| {
            let is_complete = entry.needs.is_included_in(&completed);
            (entry, if is_complete { Ok(()) } else { Err(error.clone()) })
        }));
        settling.ready.extend(backlog.into_iter().map(|(kept, needs)| {
            let entry = Entry { kept, needs, uses: Uses::default() };
            (entry, Err(error.clone()))
        }));
        drop((settling, state));
        self.settle_ready();
    }

    /// Settles what is ready, unless another thread does, which then settles this, too.
    fn settle_ready(&self) {
        let me = thread::current().id();
        defer_callbacks(|| {
            let mut settling = self.settling.lock();
            // Nested in its own turn, a thread that is exiting runs callbacks, or something that work used
            // calls the device.
            let is_nested = settling.owner == Some(me);
            if settling.owner.is_some_and(|owner| owner != me) {
                return;
            }
            settling.owner = Some(me);
            drop(settling);
            // What panics has no effect on the others.
            for_each_unwinding(from_fn(|| self.next_ready(is_nested)), |(entry, outcome)| {
                self.finish(entry, &outcome);
            });
        });
    }

    /// The submission that is settled next; if there is nothing, the turn is over.
    fn next_ready(&self, is_nested: bool) -> Option<(Entry, Result<()>)> {
        let mut settling = self.settling.lock();
        let next = settling.ready.pop_front();
        if next.is_none() && !is_nested {
            settling.owner = None;
        }
        next
    }

    fn finish(&self, entry: Entry, outcome: &Result<()>) {
        let Entry { kept, mut uses, .. } = entry;
        if let Some(sampled) = uses.sampled.take() {
            let tick = outcome.clone().and_then(|()| first_timestamp(&uses));
            // No thread waits for it any more if that fails.
            let _ = sampled.send(tick);
        }
        if self.gpu.is_stuck() {
            // The device may use them forever.
            std::mem::forget(uses);
            kept.promise().settle(outcome);
            std::mem::forget(kept);
            return;
        }
        if let (Some(recorder), Ok(())) = (&uses.recorder, outcome)
            && let (Some(timestamps), Some(profile)) = (&uses.timestamps, kept.profile())
        {
            timestamps.report(profile, recorder, &self.ticks);
        }
        // What was used is free before those that wait for the signals ask for more.
        self.recorders.recycle(uses.recorder.take());
        drop(uses);
        kept.promise().settle(outcome);
        self.give_spare(kept);
    }

    /// The error of work that takes too long; `what` names it.
    pub(super) fn hang(&self, what: &str) -> Error {
        Error::new(StatusCode::DeadlineExceeded, format!("the device makes no progress: {what}"))
    }
}

/// The first timestamp of work that is complete.
fn first_timestamp(uses: &Uses) -> Result<u64> {
    let ticks = uses.recorder.as_ref().map_or_else(|| Ok(Vec::new()), |it| it.read_timestamps())?;
    let tick = ticks.first().copied();
    tick.ok_or_else(|| Error::new(StatusCode::Internal, "the device has not written a timestamp"))
}
