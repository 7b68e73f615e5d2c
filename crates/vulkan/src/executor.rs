//! Threads for what the host does in the order of queues: host calls, and files.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rehal_base::{Error, Result};

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs on threads that it starts as needed: a job that blocks delays no other.
pub(crate) struct Executor {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: Vec<(ThreadId, JoinHandle<()>)>,
    is_closed: bool,
}

/// How long a thread without jobs lives.
const IDLE: Duration = Duration::from_millis(200);

impl Executor {
    /// No threads yet.
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// A handle that adds jobs.
    pub(crate) fn handle(&self) -> ExecutorHandle {
        ExecutorHandle(self.shared.clone())
    }
}

/// Adds jobs to an executor.
#[derive(Clone)]
pub(crate) struct ExecutorHandle(Arc<Shared>);

impl ExecutorHandle {
    /// Runs a job. Fails if no thread can be started for it; the job is dropped then.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.0.state.lock();
        state.jobs.push_back(Box::new(job));
        if state.idle >= state.jobs.len() {
            self.0.changed.notify_one();
            return Ok(());
        }
        let shared = self.0.clone();
        let started = thread::Builder::new().name("vulkan host".into()).spawn(move || shared.work());
        match started {
            Ok(handle) => state.threads.push((handle.thread().id(), handle)),
            Err(error) => {
                let job = state.jobs.pop_back();
                drop(state);
                drop(job);
                return Err(Error::io("starting a thread", &error));
            }
        }
        Ok(())
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                return;
            }
            state.idle += 1;
            let is_late = self.changed.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if is_late && state.jobs.is_empty() {
                let me = thread::current().id();
                state.threads.retain(|(id, _)| *id != me);
                return;
            }
        }
    }
}

impl Drop for Executor {
    /// Waits for all jobs.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.shared.changed.notify_all();
        let me = thread::current().id();
        // A job may drop the last handle of the device; its thread ends by itself then. A panic was reported when it happened.
        for (_, thread) in threads.into_iter().filter(|(id, _)| *id != me) {
            let _ = thread.join();
        }
    }
}
