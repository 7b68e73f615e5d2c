use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::thread::{self, ThreadId};

use rehal_base::{Error, Result};

use super::{Core, Entry};
use crate::error::failure;

/// Submissions whose work is complete, and who settles their signals.
///
/// Signals have to be settled in order, since payloads increase; so one thread at a time does it. Callbacks of signals run then,
/// without a lock; one that waits settles more.
#[derive(Default)]
pub(super) struct Settling {
    ready: VecDeque<(Entry, Result<()>)>,
    owner: Option<ThreadId>,
}

/// Ends the thread's turn, also if a callback panics.
struct Turn<'a>(&'a Core);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.settling.lock().owner = None;
    }
}

impl Core {
    /// Settles the signals of work that is complete.
    pub(crate) fn settle(&self) {
        if let Err(error) = self.poll() {
            self.lose(error);
            return;
        }
        let completed = self.completed();
        let mut state = self.state.lock();
        for (lane, track) in state.tracks.iter_mut().enumerate() {
            track.complete(completed.on(lane));
        }
        let mut settling = self.settling.lock();
        let is_single = self.lanes.len() == 1;
        let mut index = 0;
        while let Some(entry) = state.entries.get(index) {
            if entry.needs.is_reached(&completed) {
                settling.ready.extend(state.entries.remove(index).map(|entry| (entry, Ok(()))));
            } else if is_single {
                // What is behind it needs no less.
                break;
            } else {
                index += 1;
            }
        }
        state.is_demanded &= !state.entries.is_empty();
        drop((settling, state));
        self.settle_ready();
    }

    /// Fails everything that is outstanding.
    pub(super) fn settle_lost(&self, error: &Error) {
        let mut state = self.state.lock();
        state.tracks.iter_mut().for_each(super::Track::clear);
        let mut settling = self.settling.lock();
        settling.ready.extend(state.entries.drain(..).map(|entry| (entry, Err(error.clone()))));
        drop((settling, state));
        self.settle_ready();
    }

    fn settle_ready(&self) {
        let me = thread::current().id();
        let mut settling = self.settling.lock();
        let turn = match settling.owner {
            Some(owner) if owner != me => return,
            Some(_) => None,
            None => {
                settling.owner = Some(me);
                Some(Turn(self))
            }
        };
        while let Some((entry, outcome)) = settling.ready.pop_front() {
            drop(settling);
            self.finish(entry, &outcome);
            settling = self.settling.lock();
        }
        if let Some(turn) = turn {
            // Under the lock, so that nothing becomes ready in between.
            std::mem::forget(turn);
            settling.owner = None;
        }
    }

    fn finish(&self, entry: Entry, outcome: &Result<()>) {
        let Entry { kept, _uses: uses, .. } = entry;
        if self.gpu.is_stuck() {
            // The device may use them forever.
            std::mem::forget(uses);
            kept.promise().settle(outcome);
            std::mem::forget(kept);
            return;
        }
        if let (Some(recorder), Ok(())) = (&uses.recorder, outcome) {
            if let (Some(timed), Some(profile)) = (&uses.timed, kept.profile()) {
                timed.report(profile, recorder);
            }
            if let (Some(sampled), Ok(ticks)) = (&uses.sampled, recorder.read_timestamps()) {
                sampled.store(ticks.first().copied().unwrap_or(0), Ordering::Release);
            }
        }
        // What was used is free before those that wait for the signals ask for more.
        self.tools.recycle(uses);
        kept.promise().settle(outcome);
        self.give_spare(kept);
    }

    /// The error of work that takes too long; `what` names it.
    pub(super) fn hang(&self, what: &str) -> Error {
        Error::new(rehal_base::StatusCode::DeadlineExceeded, format!("the device makes no progress: {what}"))
    }

    /// The error of a call of Vulkan that reads progress.
    pub(super) fn lost_by(&self, error: ash::vk::Result) -> Error {
        failure("waiting for a queue", error)
    }
}
