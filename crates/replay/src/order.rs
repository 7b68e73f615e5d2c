//! Tracks semaphore payloads during planning: which submissions can run when issued, and which must wait for
//! a signal of a later step.

use std::collections::BTreeMap;

use rehal_base::{Error, Result};
use rehal_hal::Timepoint;

use crate::plan::{Completion, RecordLocation};

/// The semaphores of a capture after all steps so far.
#[derive(Default)]
pub(crate) struct Order {
    semaphores: Vec<Semaphore>,
    /// Submissions that cannot run yet, keyed by their first unreached wait.
    deferred: BTreeMap<(u32, u64), Vec<Deferred>>,
    completions: Vec<Completion>,
}

struct Semaphore {
    /// Its id in the capture, for messages.
    id: u64,
    reached: u64,
}

struct Deferred {
    submission: u32,
    location: RecordLocation,
    waits: Box<[Timepoint<u32>]>,
    signals: Box<[Timepoint<u32>]>,
}

impl Order {
    /// Tracks another semaphore.
    pub(crate) fn add_semaphore(&mut self, id: u64, initial_value: u64) {
        self.semaphores.push(Semaphore { id, reached: initial_value });
    }

    /// Tracks a submission issued at `step` and returns whether it runs there. With unreached waits it is
    /// deferred: it runs at the step that signals the last of them.
    pub(crate) fn submit(
        &mut self,
        step: u32,
        submission: u32,
        location: RecordLocation,
        waits: &[Timepoint<u32>],
        signals: &[Timepoint<u32>],
    ) -> Result<bool> {
        if let Some(unmet) = self.unmet(waits) {
            let (waits, signals) = (waits.into(), signals.into());
            let deferred = Deferred { submission, location, waits, signals };
            self.deferred.entry(unmet).or_default().push(deferred);
            return Ok(false);
        }
        self.signal(signals)?;
        self.run_deferred(step, signals)?;
        Ok(true)
    }

    /// [`Order::finish`] then lacks those that have completed.
    pub(crate) fn forget_completions(&mut self) {
        self.completions.clear();
    }

    /// The deferred submissions, in completion order. Fails if one never runs, naming its location.
    pub(crate) fn finish(self) -> Result<Vec<Completion>, (RecordLocation, Error)> {
        let first = self.deferred.iter().flat_map(|(unmet, list)| list.iter().map(move |it| (unmet, it)));
        let Some(((semaphore, value), never)) = first.min_by_key(|(_, it)| it.location.ordinal) else {
            return Ok(self.completions);
        };
        let Semaphore { id, reached } = self.semaphores[*semaphore as usize];
        let error = Error::failed_precondition(format!(
            "it waits for semaphore {id} to reach {value}, which no record signals (current {reached})"
        ));
        Err((never.location, error))
    }

    /// The first unreached wait.
    fn unmet(&self, waits: &[Timepoint<u32>]) -> Option<(u32, u64)> {
        let unmet = waits.iter().find(|it| self.semaphores[it.semaphore as usize].reached < it.value);
        unmet.map(|it| (it.semaphore, it.value))
    }

    fn signal(&mut self, signals: &[Timepoint<u32>]) -> Result<()> {
        for signal in signals {
            let Semaphore { id, reached } = &mut self.semaphores[signal.semaphore as usize];
            let value = signal.value;
            if value <= *reached || value == u64::MAX {
                return Err(Error::data_loss(format!(
                    "payload of semaphore {id} must increase: current {reached}, signalled {value}"
                )));
            }
            *reached = value;
        }
        Ok(())
    }

    /// Runs the submissions that waited for `signals`, transitively.
    fn run_deferred(&mut self, step: u32, signals: &[Timepoint<u32>]) -> Result<()> {
        let mut signalled: Vec<u32> = match self.deferred.is_empty() {
            true => return Ok(()),
            false => signals.iter().map(|signal| signal.semaphore).collect(),
        };
        while let Some(semaphore) = signalled.pop() {
            let reached = self.semaphores[semaphore as usize].reached;
            while let Some((key, _)) = self.deferred.range((semaphore, 0)..=(semaphore, reached)).next() {
                let key = *key;
                for deferred in self.deferred.remove(&key).unwrap_or_default() {
                    if let Some(unmet) = self.unmet(&deferred.waits) {
                        self.deferred.entry(unmet).or_default().push(deferred);
                        continue;
                    }
                    let Deferred { submission, location, signals, .. } = deferred;
                    self.signal(&signals)
                        .map_err(|error| error.context(format!("{location}: the deferred submission")))?;
                    signalled.extend(signals.iter().map(|signal| signal.semaphore));
                    self.completions.push(Completion { step, submission, location });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(semaphore: u32, value: u64) -> Timepoint<u32> {
        Timepoint { semaphore, value }
    }

    fn order(semaphores: u64) -> Order {
        let mut order = Order::default();
        (0..semaphores).for_each(|index| order.add_semaphore(100 + index, 0));
        order
    }

    fn submit(
        order: &mut Order,
        step: u32,
        waits: &[Timepoint<u32>],
        signals: &[Timepoint<u32>],
    ) -> Result<bool> {
        order.submit(step, step, RecordLocation { ordinal: step, offset: 0 }, waits, signals)
    }

    #[test]
    fn a_chain_issued_in_reverse_completes_at_the_signal_of_its_head() {
        let mut order = order(4);
        for step in 0..3 {
            assert!(!submit(&mut order, step, &[at(step + 1, 1)], &[at(step, 1)]).unwrap());
        }
        assert!(submit(&mut order, 3, &[], &[at(3, 1)]).unwrap());
        // The head has signalled, so this does not block.
        assert!(submit(&mut order, 4, &[at(0, 1)], &[at(0, 2)]).unwrap());
        let completed: Vec<_> = order.finish().unwrap().iter().map(|it| (it.step, it.submission)).collect();
        assert_eq!(completed, [(3, 2), (3, 1), (3, 0)]);
    }

    #[test]
    fn a_submission_runs_when_its_last_wait_is_reached_or_exceeded() {
        let mut order = order(3);
        assert!(!submit(&mut order, 0, &[at(0, 2), at(1, 5)], &[at(2, 1)]).unwrap());
        submit(&mut order, 1, &[], &[at(1, 4)]).unwrap();
        submit(&mut order, 2, &[], &[at(0, 2)]).unwrap();
        submit(&mut order, 3, &[], &[at(1, 9)]).unwrap();
        let completed: Vec<_> = order.finish().unwrap().iter().map(|it| (it.step, it.submission)).collect();
        assert_eq!(completed, [(3, 0)]);
    }

    #[test]
    fn the_first_record_that_never_runs_is_reported() {
        let mut order = order(3);
        submit(&mut order, 7, &[at(2, 1)], &[at(2, 2)]).unwrap();
        submit(&mut order, 8, &[at(0, 3)], &[]).unwrap();
        let (location, error) = order.finish().map(drop).unwrap_err();
        assert_eq!(location.ordinal, 7);
        assert!(error.message().contains("semaphore 102 to reach 1"), "{error}");
    }

    #[test]
    fn payloads_must_increase_whichever_operation_signals() {
        let mut order = order(2);
        submit(&mut order, 0, &[at(0, 1)], &[at(1, 1)]).unwrap();
        submit(&mut order, 1, &[], &[at(1, 2)]).unwrap();
        let late = submit(&mut order, 2, &[], &[at(0, 1)]).unwrap_err();
        assert!(late.message().contains("semaphore 101 must increase: current 2, signalled 1"), "{late}");
        assert!(submit(&mut order, 3, &[], &[at(1, u64::MAX)]).is_err());
    }
}
