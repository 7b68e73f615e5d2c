//! The obligation to settle the signals of a submission.
//!
//! A panic in a host call fails the signals and propagates through the call that ran it, `submit` or
//! `signal`. `unwind.rs` runs all other callbacks that are due first, and no lock or busy flag stays set.

use std::cell::Cell;

use rehal_base::{Error, Result, StatusCode};

use super::callbacks::defer_callbacks;
use crate::{Semaphore, Timepoint, unwind};

/// The duty to settle the signals of a submission: each is signalled or failed, once.
///
/// A driver creates one before it executes the operation. If it is dropped unsettled, because the work
/// panicked or a queue was shut down, the signals fail: a waiter never hangs.
#[must_use = "dropping a promise fails the signals"]
pub struct Promise<'a> {
    signals: Signals<'a>,
    is_settled: Cell<bool>,
}

#[derive(Clone, Copy)]
enum Signals<'a> {
    Live(&'a [Timepoint<&'a Semaphore>]),
    Kept(&'a [Timepoint<u32>], &'a [Semaphore]),
}

impl<'a> Promise<'a> {
    /// The promise of a submission that executes synchronously.
    pub fn new(signals: &'a [Timepoint<&'a Semaphore>]) -> Self {
        Self { signals: Signals::Live(signals), is_settled: Cell::new(false) }
    }

    /// The promise of a kept submission, whose signals are indices of `semaphores`.
    pub(crate) fn from_kept(signals: &'a [Timepoint<u32>], semaphores: &'a [Semaphore]) -> Self {
        Self { signals: Signals::Kept(signals, semaphores), is_settled: Cell::new(false) }
    }

    /// Signals everything promised, or fails it with the error. A semaphore that rejects the signal fails.
    /// Callbacks run when all are signalled: one may query, or wait for, another signal of the submission.
    pub fn settle(self, outcome: &Result<()>) {
        self.is_settled.set(true);
        self.signals.settle(outcome);
    }

    /// Leaves the signals to a host call that has returned `DEFERRED`.
    pub fn defer(self) {
        self.is_settled.set(true);
    }
}

impl Drop for Promise<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_settled.get() && !self.signals.is_empty() {
            self.signals.fail();
        }
    }
}

impl Signals<'_> {
    #[cold]
    fn fail(self) {
        self.settle(&Err(if std::thread::panicking() {
            Error::new(StatusCode::Internal, "the thread that ran the submission panicked")
        } else {
            Error::new(StatusCode::Aborted, "the submission was dropped before it was complete")
        }));
    }

    fn is_empty(self) -> bool {
        match self {
            Self::Live(signals) => signals.is_empty(),
            Self::Kept(signals, _) => signals.is_empty(),
        }
    }

    fn settle(self, outcome: &Result<()>) {
        match self {
            // A single signal, which is the usual case, needs no deferral.
            Signals::Live([only]) if !std::thread::panicking() => {
                settle_one(only.semaphore, only.value, outcome);
            }
            Signals::Kept([only], semaphores) if !std::thread::panicking() => {
                settle_one(&semaphores[only.semaphore as usize], only.value, outcome);
            }
            Signals::Live(signals) => {
                settle_all(signals, |it| settle_one(it.semaphore, it.value, outcome));
            }
            Signals::Kept(signals, semaphores) => {
                settle_all(signals, |it| settle_one(&semaphores[it.semaphore as usize], it.value, outcome));
            }
        }
    }
}

/// A semaphore may panic; the others are signalled nevertheless, all before the first callback.
fn settle_all<S>(signals: &[Timepoint<S>], settle: impl FnMut(&Timepoint<S>)) {
    defer_callbacks(|| unwind::for_each(signals, settle));
}

fn settle_one(semaphore: &Semaphore, value: u64, outcome: &Result<()>) {
    let settled = match outcome {
        Ok(()) => semaphore.signal(value),
        Err(error) => Err(error.clone()),
    };
    if let Err(error) = settled {
        semaphore.fail(error);
    }
}
