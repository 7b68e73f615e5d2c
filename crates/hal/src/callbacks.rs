use std::cell::RefCell;
use std::collections::VecDeque;
use std::iter::from_fn;

use rehal_base::Result;

use super::sync::thread_local;
use crate::{WaitCallback, unwind};

/// Callbacks queued on a thread, and whether the thread is already running them.
#[derive(Default)]
struct Owed {
    working: bool,
    due: VecDeque<(WaitCallback, Result<()>)>,
}

thread_local! {
    static OWED: RefCell<Owed> = RefCell::new(Owed::default());
}

/// Runs callbacks one after another. A callback may signal another timeline; the callbacks of that signal run
/// after it rather than nested inside, so that a long chain does not overflow the stack.
///
/// A callback that panics does not prevent the others from running, now or later: the first panic is resumed
/// when all have run, from the outermost call. A callback that waits for a semaphore runs the queued
/// callbacks first ([`run_owed`]).
pub(super) fn run_callbacks(callbacks: impl IntoIterator<Item = WaitCallback>, outcome: &Result<()>) {
    let mut callbacks = callbacks.into_iter().map(|callback| (callback, outcome.clone()));
    let owed = OWED.try_with(|owed| {
        let mut owed = owed.borrow_mut();
        owed.due.extend(callbacks.by_ref());
        std::mem::replace(&mut owed.working, true)
    });
    match owed {
        Ok(true) => {}
        Ok(false) => {
            let _stop = StopWorking;
            unwind::for_each(from_fn(next), |(callback, outcome)| callback(outcome));
        }
        // The thread is exiting and its storage is destroyed: objects dropped with it may still hold
        // semaphores.
        Err(_) => unwind::for_each(callbacks, |(callback, outcome)| callback(outcome)),
    }
}

/// Calls `work`, and runs the callbacks of what it signals or fails when it returns, on this thread. So of
/// several signals that belong together, a callback of one finds the others signalled; and `work` may hold a
/// turn that a callback must not prolong.
///
/// Nested in a callback, or in another `defer_callbacks`, the callbacks run when the outermost call returns,
/// or when this thread waits for a semaphore. A panic of `work` or of a callback is resumed when all
/// callbacks have run.
pub fn defer_callbacks(work: impl FnOnce()) {
    let is_nested = OWED.try_with(|owed| std::mem::replace(&mut owed.borrow_mut().working, true));
    match is_nested {
        Ok(false) => {
            let _stop = StopWorking;
            let mut work = Some(work);
            let steps = from_fn(|| work.take().map(Step::Work).or_else(|| next().map(Step::Callback)));
            unwind::for_each(steps, |step| match step {
                Step::Work(work) => work(),
                Step::Callback((callback, outcome)) => callback(outcome),
            });
        }
        // On a thread that is exiting, each signal runs its callbacks: there is nowhere to queue them.
        Ok(true) | Err(_) => work(),
    }
}

enum Step<W> {
    Work(W),
    Callback((WaitCallback, Result<()>)),
}

/// Runs the callbacks queued on this thread before it blocks: a callback that waits may depend on another one
/// in the queue.
pub(super) fn run_owed() {
    unwind::for_each(from_fn(next), |(callback, outcome)| callback(outcome));
}

fn next() -> Option<(WaitCallback, Result<()>)> {
    OWED.try_with(|owed| owed.borrow_mut().due.pop_front()).ok().flatten()
}

struct StopWorking;

impl Drop for StopWorking {
    fn drop(&mut self) {
        OWED.with(|owed| owed.borrow_mut().working = false);
    }
}
