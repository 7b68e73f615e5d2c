use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ash::vk;
use rehal_base::{Error, Result};

use super::lane::WATCH;
use super::{Core, Frontier, State};

/// How long work is left to the threads that wait for it, before this thread watches it.
const LINGER: Duration = Duration::from_millis(1);

/// The threads of a device: one that watches it for those that do not, which are callbacks, other devices,
/// and work that no thread waits for; and a watchdog, if work has a timeout.
pub(crate) struct Progress {
    core: Arc<Core>,
    threads: [Option<JoinHandle<()>>; 2],
}

impl Progress {
    /// Starts the threads.
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        // Dropped, and so joined, if the second cannot be started.
        let mut progress = Self { core: core.clone(), threads: [None, None] };
        progress.threads[0] = Some(spawn("vulkan", core, Core::watch)?);
        if let Some(timeout) = core.timeout {
            progress.threads[1] = Some(spawn("vulkan watchdog", core, move |core| core.guard(timeout))?);
        }
        Ok(progress)
    }
}

fn spawn(
    name: &str,
    core: &Arc<Core>,
    run: impl FnOnce(&Arc<Core>) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let core = core.clone();
    thread::Builder::new()
        .name(name.into())
        .spawn(move || run(&core))
        .map_err(|error| Error::io("starting a thread", &error))
}

impl Drop for Progress {
    /// Waits until all work is complete, and settled.
    fn drop(&mut self) {
        self.core.state.lock().is_closed = true;
        self.core.work.notify_all();
        // In this order: the watchdog fails work that the other waits for.
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            self.core.closed.notify_all();
            // The last handle of the device may be dropped by a callback that one of these threads runs. It
            // ends by itself then, and the watchdog after the one that settles the work that it watches.
            if thread.thread().id() == thread::current().id() {
                return;
            }
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Core {
    fn watch(self: &Arc<Self>) {
        let mut last_seen = Frontier::default();
        loop {
            // See below.
            let _ = catch_unwind(AssertUnwindSafe(|| self.issue_backlog()));
            let mut state = self.state.lock();
            if state.entries.is_empty() {
                if !state.is_done() {
                    drop(state);
                    thread::yield_now();
                    continue;
                }
                if state.is_closed {
                    return;
                }
                state.is_asleep = true;
                self.work.wait(&mut state);
                state.is_asleep = false;
                continue;
            }
            if !state.is_demanded && !state.is_closed {
                let oldest = state.entries.front().map_or_else(Frontier::default, |entry| entry.needs);
                if oldest != last_seen {
                    last_seen = oldest;
                    self.work.wait_for(&mut state, LINGER);
                    continue;
                }
            }
            drop(state);
            // A panic of a callback was reported when it happened. Other callbacks need this thread.
            let _ = catch_unwind(AssertUnwindSafe(|| self.advance()));
        }
    }

    /// Waits for the next work to complete, and settles it. Returns also when a lane without work gets some:
    /// that is watched, too.
    fn advance(&self) {
        if self.flush().is_err() {
            return;
        }
        let slice = if self.timeout.is_some() { WATCH } else { Duration::MAX };
        let mut state = self.state.lock();
        let next = state.tracks.next();
        state.watched = Some(next);
        let wakes = self.waker.as_ref().map(|waker| waker.value() + 1);
        drop(state);
        let waited = self.wait_for_any(&next, wakes, slice);
        self.state.lock().watched = None;
        match waited {
            Ok(()) => self.settle(),
            Err(vk::Result::TIMEOUT) => {}
            Err(error) => self.lose(self.lost_by("waiting for a queue", error)),
        }
    }

    /// The watchdog. Other threads that wait for the device may be blocked by callbacks, or by work of
    /// another lane.
    pub(super) fn guard(&self, timeout: Duration) {
        let look = WATCH.min(timeout / 4);
        loop {
            let mut state = self.state.lock();
            // What is kept is issued, and executes, after the device is released, too.
            if state.is_closed && state.is_done() {
                return;
            }
            self.closed.wait_for(&mut state, look);
            let is_idle = state.tracks.next().is_empty();
            drop(state);
            if !is_idle {
                // See `watch`.
                let _ = catch_unwind(AssertUnwindSafe(|| self.check_timeout(timeout)));
            }
        }
    }

    /// Fails the device if a submission takes too long.
    fn check_timeout(&self, timeout: Duration) {
        if let Err(error) = self.poll() {
            self.lose(self.lost_by("reading the progress of a queue", error));
            return;
        }
        let (completed, now) = (self.completed(), self.now());
        let mut state = self.state.lock();
        state.tracks.complete(&completed, now);
        let Some(late) = state.tracks.late(timeout, now) else { return };
        let what = Self::describe_late(&state, &late, &completed);
        drop(state);
        self.gpu.set_stuck();
        let message = format!("work has not completed within {timeout:?}: {what}");
        self.lose(self.hang(&message));
    }

    /// The submissions that may be executing; of one, the dispatch that is, if that can be told.
    fn describe_late(state: &State, late: &Frontier, completed: &Frontier) -> String {
        let executing = state
            .entries
            .iter()
            .filter(|entry| entry.needs.is_included_in(&late.joined(completed)))
            .filter(|entry| !entry.needs.is_included_in(completed));
        let names: Vec<_> = executing
            .take(4)
            .map(|entry| crate::command::describe(&entry.kept, entry.dispatches_completed()))
            .collect();
        match &*names {
            [one] => one.clone(),
            several => format!("one of {}", several.join(", ")),
        }
    }
}
