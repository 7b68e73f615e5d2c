//! Threads for what the host does in the order of queues: host calls, and files.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rehal_base::{Error, Result, StatusCode};

type Call = Box<dyn FnOnce() + Send>;
type Transfer = Box<dyn FnOnce(Slot) + Send>;

/// Runs jobs on threads that it starts as needed.
///
/// A host call may block until the program does something, so it has a thread of its own. A transfer of a
/// file waits only for work that is issued: a few run at a time, each with its staging memory, and the others
/// wait in a queue.
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
    calls: VecDeque<Call>,
    transfers: VecDeque<Transfer>,
    /// Transfers that are running.
    slots: usize,
    /// Threads that wait for jobs.
    idle: usize,
    /// Threads that were started, and have not looked for a job yet.
    starting: usize,
    threads: Vec<(ThreadId, JoinHandle<()>)>,
    is_closed: bool,
}

/// How long a thread without jobs lives.
const IDLE: Duration = Duration::from_millis(200);
/// Limit on the transfers that run at a time.
const SLOTS: usize = 4;

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
    /// Runs a host call. Fails if no thread can be started for it, or the device was released; the call is
    /// dropped then.
    pub(crate) fn call(&self, call: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.0.state.lock();
        check_open(&state)?;
        state.calls.push_back(Box::new(call));
        let Err(error) = self.0.ensure_thread(&mut state) else { return Ok(()) };
        let call = state.calls.pop_back();
        drop(state);
        drop(call);
        Err(error)
    }

    /// Runs a transfer, which drops its slot before it does anything that may block for longer. Fails as
    /// [`ExecutorHandle::call`] does.
    pub(crate) fn transfer(&self, transfer: impl FnOnce(Slot) + Send + 'static) -> Result<()> {
        let mut state = self.0.state.lock();
        check_open(&state)?;
        state.transfers.push_back(Box::new(transfer));
        let Err(error) = self.0.ensure_thread(&mut state) else { return Ok(()) };
        if state.slots != 0 {
            // It runs after those that are running.
            return Ok(());
        }
        let transfer = state.transfers.pop_back();
        drop(state);
        drop(transfer);
        Err(error)
    }
}

fn check_open(state: &State) -> Result<()> {
    if state.is_closed {
        let message = "the device was released while the submission waited";
        return Err(Error::new(StatusCode::Aborted, message));
    }
    Ok(())
}

/// The right to run a transfer; the next may run when it is dropped.
pub(crate) struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.slots -= 1;
        // Without another thread, this one continues when its job ends.
        let _ = self.0.ensure_thread(&mut state);
    }
}

impl State {
    /// The number of jobs that may run now.
    fn runnable(&self) -> usize {
        self.calls.len() + self.transfers.len().min(SLOTS - self.slots)
    }
}

impl Shared {
    /// Wakes or starts a thread if there is a job that may run.
    fn ensure_thread(self: &Arc<Self>, state: &mut State) -> Result<()> {
        let runnable = state.runnable();
        if runnable == 0 {
            return Ok(());
        }
        if state.idle + state.starting >= runnable {
            self.changed.notify_one();
            return Ok(());
        }
        let shared = self.clone();
        let started = thread::Builder::new().name("vulkan host".into()).spawn(move || shared.work());
        let handle = started.map_err(|error| Error::io("starting a thread", &error))?;
        state.threads.push((handle.thread().id(), handle));
        state.starting += 1;
        Ok(())
    }

    fn take(self: &Arc<Self>, state: &mut State) -> Option<Call> {
        if let Some(call) = state.calls.pop_front() {
            return Some(call);
        }
        if state.slots == SLOTS {
            return None;
        }
        let transfer = state.transfers.pop_front()?;
        state.slots += 1;
        let slot = Slot(self.clone());
        Some(Box::new(move || transfer(slot)))
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.starting -= 1;
        loop {
            if let Some(job) = self.take(&mut state) {
                drop(state);
                // A panic was reported when it happened, and has failed the signals.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                return;
            }
            state.idle += 1;
            let is_late = self.changed.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if is_late && state.runnable() == 0 {
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
        let me = thread::current().id();
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
        // Transfers may start threads until none is left.
        loop {
            let threads = std::mem::take(&mut self.shared.state.lock().threads);
            if threads.is_empty() {
                return;
            }
            // A job may drop the last handle of the device; its thread ends by itself then.
            for (_, thread) in threads.into_iter().filter(|(id, _)| *id != me) {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn threads(executor: &Executor) -> usize {
        executor.shared.state.lock().threads.len()
    }

    #[test]
    fn few_transfers_run_at_a_time_and_all_run() {
        let executor = Executor::new();
        let (ran, running, most) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        for _ in 0..500 {
            let (ran, running, most) = (ran.clone(), running.clone(), most.clone());
            let transfer = move |slot: Slot| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_micros(100));
                running.fetch_sub(1, Ordering::SeqCst);
                drop(slot);
                ran.fetch_add(1, Ordering::SeqCst);
            };
            executor.handle().transfer(transfer).unwrap();
        }
        assert!(threads(&executor) <= 3 * SLOTS, "{} threads", threads(&executor));
        drop(executor);
        assert_eq!(ran.load(Ordering::SeqCst), 500);
        assert!((1..=SLOTS).contains(&most.load(Ordering::SeqCst)));
    }

    #[test]
    fn calls_and_transfers_without_a_slot_may_wait_for_one_another() {
        let executor = Executor::new();
        let count = 3 * SLOTS;
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..=2 * count).map(|_| mpsc::channel()).unzip();
        let first = receivers.remove(0);
        // Each waits for the one that is added after it.
        for (index, (sender, receiver)) in senders.iter().zip(receivers).enumerate() {
            let sender = sender.clone();
            let pass = move || {
                receiver.recv_timeout(Duration::from_secs(60)).unwrap();
                sender.send(()).unwrap();
            };
            if index < count {
                executor.handle().call(pass).unwrap();
            } else {
                let transfer = move |slot| {
                    drop(slot);
                    pass();
                };
                executor.handle().transfer(transfer).unwrap();
            }
        }
        senders[2 * count].send(()).unwrap();
        first.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_panic_releases_the_slot_and_a_closed_executor_takes_no_jobs() {
        let executor = Executor::new();
        let handle = executor.handle();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 * SLOTS {
            let ran = ran.clone();
            let transfer = move |_slot| {
                ran.fetch_add(1, Ordering::SeqCst);
                panic!("a job of the test");
            };
            handle.transfer(transfer).unwrap();
        }
        drop(executor);
        assert_eq!(ran.load(Ordering::SeqCst), 3 * SLOTS);
        assert_eq!(handle.call(|| ()).unwrap_err().code(), StatusCode::Aborted);
        assert_eq!(handle.transfer(drop).unwrap_err().code(), StatusCode::Aborted);
    }
}
