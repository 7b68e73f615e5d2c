use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ash::vk;
use rehal_base::{Error, Result};

use super::{Core, Frontier, State};

/// How long work is left to the threads that wait for it, before this thread watches it.
const LINGER: Duration = Duration::from_millis(1);
/// The longest wait before the watchdog looks.
const WATCH: Duration = Duration::from_millis(20);

/// The thread that watches the device for those that do not: callbacks, other devices, and work that no thread waits for.
pub(crate) struct Progress {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the thread.
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        let watched = core.clone();
        let thread = thread::Builder::new()
            .name("vulkan".into())
            .spawn(move || watched.watch())
            .map_err(|error| Error::io("starting a thread", &error))?;
        Ok(Self { core: core.clone(), thread: Some(thread) })
    }
}

impl Drop for Progress {
    /// Waits until all work is complete, and settled.
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        state.is_closed = true;
        drop(state);
        self.core.work.notify_all();
        let Some(thread) = self.thread.take() else { return };
        // The last handle of the device may be dropped by a callback that this thread runs; it ends by itself then.
        if thread.thread().id() != thread::current().id() {
            // A panic of a callback was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Core {
    fn watch(&self) {
        let mut last_seen = Frontier::default();
        loop {
            let mut state = self.state.lock();
            if state.entries.is_empty() {
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

    /// Waits for the next work to complete, and settles it.
    fn advance(&self) {
        if self.flush().is_err() {
            return;
        }
        let state = self.state.lock();
        let mut next = Frontier::default();
        for lane in 0..self.lanes.len() {
            if let Some((position, _)) = state.tracks[lane].oldest() {
                next.join(&Frontier::at(lane, position));
            }
        }
        drop(state);
        let slice = if self.timeout.is_some() { WATCH } else { Duration::MAX };
        match self.wait_on_device(&next, slice, vk::SemaphoreWaitFlags::ANY) {
            Ok(()) => self.settle(),
            Err(vk::Result::TIMEOUT) => self.check_timeout(),
            Err(error) => self.lose(self.lost_by(error)),
        }
    }

    /// Fails the device if its oldest work takes too long.
    fn check_timeout(&self) {
        let Some(timeout) = self.timeout else { return };
        let state = self.state.lock();
        let is_late = |since: Instant| since.elapsed() >= timeout;
        let late = (0..self.lanes.len()).find_map(|lane| {
            let (position, since) = state.tracks[lane].oldest()?;
            is_late(since).then_some(Frontier::at(lane, position))
        });
        let Some(late) = late else { return };
        let what = describe_late(&state, &late);
        drop(state);
        self.gpu.set_stuck();
        let message = format!("work has not completed within {timeout:?}: {what}");
        self.lose(self.hang(&message));
    }
}

/// The submissions that may be executing.
fn describe_late(state: &State, late: &Frontier) -> String {
    let names: Vec<_> = state
        .entries
        .iter()
        .filter(|entry| entry.needs.is_reached(late))
        .take(4)
        .map(|entry| crate::command::describe(&entry.kept))
        .collect();
    names.join(", ")
}
