use std::cell::RefCell;
use std::collections::VecDeque;
use std::iter::from_fn;

use rehal_base::Result;

use super::sync::thread_local;
use crate::{WaitCallback, unwind};

/// Callbacks that a thread owes, and whether it is already working them off.
#[derive(Default)]
struct Owed {
    working: bool,
    due: VecDeque<(WaitCallback, Result<()>)>,
}

thread_local! {
    static OWED: RefCell<Owed> = RefCell::new(Owed::default());
}

/// Runs callbacks one after another. A callback may signal another timeline; what that owes runs
/// after it rather than inside it, so that a long chain of work does not pile up on the stack.
///
/// A callback that panics does not keep the others from running, now or later: the first panic goes on when all have
/// run, from the outermost call. A callback that waits for a semaphore runs what is owed first ([`run_owed`]).
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
        // The thread ends and its storage is gone: what is dropped with it may still hold semaphores.
        Err(_) => unwind::for_each(callbacks, |(callback, outcome)| callback(outcome)),
    }
}

/// Runs the callbacks that this thread owes, for one that is about to sleep: a callback that waits may wait for what
/// another of them brings about.
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
