//! Submissions that cannot run yet: kept, with all that they name, until their waits are reached.

use rehal_base::{Error, Result};
use rehal_hal::{Indexed, Live, QueueOp, Semaphore, Store, Submission, Timepoint};

use crate::execute::{StoredNames, run_and_settle};

/// A submission that waits.
pub(crate) struct Pending {
    store: Store,
    submission: Submission<Indexed>,
}

impl Pending {
    /// Keeps a submission and runs it when the last of its waits is reached, on the thread that
    /// brings that about. A wait that fails fails its signals, and it does not run.
    pub(crate) fn start(submission: &Submission<Live<'_>>) -> Result<()> {
        let mut store = Store::default();
        let kept = submission.rename(&mut store)?;
        Box::new(Self { store, submission: kept }).wait_from(0);
        Ok(())
    }

    fn wait_from(self: Box<Self>, first: u64) {
        let waits = self.submission.waits;
        if first == waits.count {
            return self.finish();
        }
        let wait = waits.of(&self.store.lists.timepoints)[first as usize];
        let semaphore = self.store.semaphores[wait.semaphore as usize].clone();
        semaphore.backend().on_reached(
            wait.value,
            Box::new(move |outcome| match outcome {
                Ok(()) => self.wait_from(first + 1),
                Err(error) => self.settle(&Err(error)),
            }),
        );
    }

    fn finish(self: Box<Self>) {
        let names = StoredNames { store: &self.store, table: &[] };
        // Who waits hears of a failure from the signals; there is nobody else to tell.
        let _ = run_and_settle(&self.submission.op, &names, |outcome| self.settle(outcome));
    }

    fn settle(&self, outcome: &Result<()>) {
        for signal in self.submission.signals.of(&self.store.lists.timepoints) {
            let semaphore = &self.store.semaphores[signal.semaphore as usize];
            settle_one(semaphore, signal.value, outcome);
        }
    }
}

/// Signals what a submission promised, or passes on why it cannot.
pub(crate) fn settle(signals: &[Timepoint<&Semaphore>], outcome: &Result<()>) {
    for signal in signals {
        settle_one(signal.semaphore, signal.value, outcome);
    }
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

/// Names what went wrong and where, for the waiters of a submission.
pub(crate) fn in_operation<N: rehal_hal::Names>(error: Error, op: &QueueOp<N>) -> Error {
    error.context(op.name())
}
