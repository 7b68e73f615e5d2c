use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rehal_base::{Error, Result, StatusCode};

use crate::{SemaphoreBackend, WaitCallback};

/// The value that stands for "failed" in the atomic; no timeline reaches it.
const FAILED: u64 = u64::MAX;

/// A semaphore on the host: a value that only grows, or a failure that stays.
///
/// Reading a value that is reached takes one atomic load; everything else takes a lock.
pub struct Timeline {
    value: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    failure: Option<Error>,
    callbacks: Vec<(u64, WaitCallback)>,
    /// Threads that sleep on `changed`.
    sleepers: u32,
}

impl Timeline {
    /// A timeline at `initial_value`.
    pub fn new(initial_value: u64) -> Self {
        Self {
            value: AtomicU64::new(initial_value),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        }
    }

    fn failure(state: &State) -> Error {
        match &state.failure {
            Some(error) => error.clone(),
            None => Error::new(StatusCode::Internal, "a semaphore failed without an error"),
        }
    }

    /// Moves the value and wakes whoever waited for it.
    fn advance(&self, mut state: parking_lot::MutexGuard<'_, State>, value: u64) {
        self.value.store(value, Ordering::Release);
        if state.sleepers != 0 {
            self.changed.notify_all();
        }
        if state.callbacks.is_empty() {
            return;
        }
        let outcome = if value == FAILED { Err(Self::failure(&state)) } else { Ok(()) };
        let reached = state.callbacks.extract_if(.., |(wanted, _)| *wanted <= value);
        let due: Vec<_> = reached.map(|(_, callback)| callback).collect();
        drop(state);
        run_callbacks(due, &outcome);
    }
}

impl SemaphoreBackend for Timeline {
    fn query(&self) -> Result<u64> {
        match self.value.load(Ordering::Acquire) {
            FAILED => Err(Self::failure(&self.state.lock())),
            value => Ok(value),
        }
    }

    fn signal(&self, value: u64) -> Result<()> {
        let state = self.state.lock();
        let current = self.value.load(Ordering::Relaxed);
        if current == FAILED {
            return Err(Self::failure(&state));
        }
        if value <= current || value == FAILED {
            return Err(Error::out_of_range(format!(
                "a timeline only grows: it is at {current} and cannot be signalled to {value}"
            )));
        }
        self.advance(state, value);
        Ok(())
    }

    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        if state.failure.is_none() {
            state.failure = Some(error);
            self.advance(state, FAILED);
        }
    }

    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let reached = |value_now: u64| value_now != FAILED && value_now >= value;
        if reached(self.value.load(Ordering::Acquire)) {
            return Ok(());
        }
        let mut state = self.state.lock();
        loop {
            match self.value.load(Ordering::Acquire) {
                FAILED => return Err(Self::failure(&state)),
                now if reached(now) => return Ok(()),
                now => {
                    state.sleepers += 1;
                    let late = match deadline {
                        Some(deadline) => self.changed.wait_until(&mut state, deadline).timed_out(),
                        None => {
                            self.changed.wait(&mut state);
                            false
                        }
                    };
                    state.sleepers -= 1;
                    if late && self.value.load(Ordering::Acquire) < value {
                        return Err(Error::new(
                            StatusCode::DeadlineExceeded,
                            format!("waited for a semaphore to reach {value}; it is at {now}"),
                        ));
                    }
                }
            }
        }
    }

    fn on_reached(&self, value: u64, callback: WaitCallback) {
        let mut state = self.state.lock();
        let outcome = match self.value.load(Ordering::Acquire) {
            FAILED => Err(Self::failure(&state)),
            now if now >= value => Ok(()),
            _ => return state.callbacks.push((value, callback)),
        };
        drop(state);
        run_callbacks(vec![callback], &outcome);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Callbacks that a thread owes, and whether it is already working them off.
struct Owed {
    working: bool,
    due: VecDeque<(WaitCallback, Result<()>)>,
}

thread_local! {
    static OWED: RefCell<Owed> = const { RefCell::new(Owed { working: false, due: VecDeque::new() }) };
}

/// Runs callbacks one after another. A callback may signal another timeline; what that owes runs
/// after it rather than inside it, so that a long chain of work does not pile up on the stack.
fn run_callbacks(callbacks: Vec<WaitCallback>, outcome: &Result<()>) {
    let working = OWED.with_borrow_mut(|owed| {
        owed.due.extend(callbacks.into_iter().map(|callback| (callback, outcome.clone())));
        std::mem::replace(&mut owed.working, true)
    });
    if working {
        return;
    }
    while let Some((callback, outcome)) = OWED.with_borrow_mut(|owed| owed.due.pop_front()) {
        callback(outcome);
    }
    OWED.with_borrow_mut(|owed| owed.working = false);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn grows_and_never_shrinks() {
        let timeline = Timeline::new(3);
        assert_eq!(timeline.query().unwrap(), 3);
        timeline.signal(5).unwrap();
        assert_eq!(timeline.signal(5).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(timeline.signal(u64::MAX).unwrap_err().code(), StatusCode::OutOfRange);
        timeline.wait(5, None).unwrap();
        let late = timeline.wait(6, Some(Duration::from_millis(1))).unwrap_err();
        assert_eq!(late.code(), StatusCode::DeadlineExceeded);
    }

    #[test]
    fn a_failure_reaches_every_waiter_and_stays() {
        let timeline = Arc::new(Timeline::new(0));
        let seen = Arc::new(AtomicUsize::new(0));
        for value in 1..4 {
            let seen = seen.clone();
            timeline.on_reached(
                value,
                Box::new(move |outcome| {
                    assert_eq!(outcome.unwrap_err().code(), StatusCode::DataLoss);
                    seen.fetch_add(1, Ordering::Relaxed);
                }),
            );
        }
        let sleeper = std::thread::spawn({
            let timeline = timeline.clone();
            move || timeline.wait(9, None)
        });
        timeline.fail(Error::data_loss("gone"));
        timeline.fail(Error::not_found("too late to matter"));
        assert_eq!(sleeper.join().unwrap().unwrap_err().message(), "gone");
        assert_eq!(seen.load(Ordering::Relaxed), 3);
        assert_eq!(timeline.query().unwrap_err().message(), "gone");
        assert_eq!(timeline.signal(9).unwrap_err().message(), "gone");
    }

    #[test]
    fn a_long_chain_does_not_use_up_the_stack() {
        let length = if cfg!(miri) { 100 } else { 100_000 };
        let chain: Vec<_> = (0..length).map(|_| Arc::new(Timeline::new(0))).collect();
        for pair in chain.windows(2) {
            let next = pair[1].clone();
            pair[0].on_reached(1, Box::new(move |outcome| outcome.and_then(|()| next.signal(1)).unwrap()));
        }
        chain[0].signal(1).unwrap();
        assert_eq!(chain.last().unwrap().query().unwrap(), 1);
    }
}
