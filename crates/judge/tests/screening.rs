//! Verification against a ledger of dispatches: one run if all is the same, a second one to tell what
//! differs.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use rehal_base::{Range, Result};
use rehal_hal::{DeviceGroup, transfer};
use rehal_judge::{
    Ledger, LedgerOptions, LedgerWriter, Outcome, Verification, VerifyOptions, verify_against,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{Observer, Operation, Plan, PlanOptions, RecordLocation, Replay, ReplayOptions};

fn plan(path: &Path) -> Result<Arc<Plan>> {
    Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).map(Arc::new)
}

fn chain() -> Arc<Plan> {
    plan(&testing::fixtures().join("captures/chain.chain.local-sync.ireereplay")).unwrap()
}

fn replay(plan: &Arc<Plan>) -> Result<Replay> {
    let devices = (0..plan.device_count()).map(|_| LocalSync::create(Plugins::default())).collect();
    Replay::new(plan.clone(), &DeviceGroup::new(devices)?, &ReplayOptions::default())
}

fn ledger(plan: &Arc<Plan>) -> Result<Ledger> {
    let mut writer = LedgerWriter::new(Vec::new(), plan, LedgerOptions::default())?;
    replay(plan)?.run(&mut [&mut writer])?;
    Ledger::from_bytes(writer.finish()?)
}

/// Flips a byte of a binding after a dispatch, as a wrong kernel would, and counts the runs.
#[derive(Default)]
struct Flaw {
    /// The record of the dispatch, the binding, and the byte in it.
    at: Option<(u32, usize, u64)>,
    first_run_only: bool,
    runs: u32,
    last_step: Option<u64>,
    /// The bindings of each dispatch.
    bindings: Vec<(u32, Vec<Range>)>,
}

impl Observer for Flaw {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        self.runs += u32::from(self.last_step.is_none_or(|last| location.offset < last));
        self.last_step = Some(location.offset);
        Ok(())
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let record = operation.location.ordinal;
        if operation.dispatch.is_some() {
            let ranges = operation.bindings().iter();
            let ranges = ranges.map(|it| Range { offset: it.offset, length: it.length }).collect();
            self.bindings.push((record, ranges));
        }
        if let Some((at, binding, byte)) = self.at
            && at == record
            && (self.runs == 1 || !self.first_run_only)
        {
            let bound = &operation.bindings()[binding];
            let mut bytes = [0];
            transfer::read(bound.buffer, bound.offset + byte, &mut bytes)?;
            transfer::write(bound.buffer, bound.offset + byte, &[!bytes[0]])?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn verify(plan: &Arc<Plan>, ledger: &Ledger, flaw: &mut Flaw) -> Verification {
    verify_against(&replay(plan).unwrap(), ledger, &VerifyOptions::default(), &mut [flaw]).unwrap()
}

#[test]
fn what_is_the_same_runs_once() {
    let mut count = 0;
    for path in testing::captures(&testing::fixtures()) {
        // These end the process.
        if ["divide-by-zero", "gather-outside"].iter().any(|it| path.to_string_lossy().contains(it)) {
            continue;
        }
        let Ok(plan) = plan(&path) else { continue };
        // Captures whose files or devices are missing cannot be replayed.
        let Ok(ledger) = ledger(&plan) else { continue };
        let mut flaw = Flaw::default();
        let found = verify(&plan, &ledger, &mut flaw);
        assert_ne!(found.outcome(), Outcome::Different, "{}", path.display());
        assert_eq!((flaw.runs, found.is_unreproduced), (1, false), "{}", path.display());
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn each_changed_byte_is_found_at_its_dispatch() {
    let plan = chain();
    let ledger = ledger(&plan).unwrap();
    let mut flaw = Flaw::default();
    assert_eq!(verify(&plan, &ledger, &mut flaw).outcome(), Outcome::Same);
    let dispatches = flaw.bindings;
    assert_eq!(dispatches.len(), 13);
    for (record, ranges) in dispatches {
        for (binding, range) in ranges.iter().enumerate() {
            // The first and the last byte, and some between, which are in different blocks.
            for byte in [0, range.length / 3, range.length / 2 + 1, range.length - 1] {
                let mut flaw = Flaw { at: Some((record, binding, byte)), ..Flaw::default() };
                let found = verify(&plan, &ledger, &mut flaw);
                let difference = &found.differences[0];
                let bytes = difference.different;
                let place = format!("byte {byte} of binding {binding} of #{record}");
                assert_eq!((difference.place.record, flaw.runs), (record, 2), "{place}");
                let other = &ranges[difference.binding.unwrap() as usize];
                let at = range.offset + byte - other.offset;
                assert!(bytes.offset <= at && at < bytes.end(), "{place}: {bytes:?}");
                assert!(!found.is_unreproduced, "{place}");
            }
        }
    }
}

#[test]
fn a_difference_of_the_first_run_alone_is_reported() {
    let plan = chain();
    let ledger = ledger(&plan).unwrap();
    // What the dispatch should write: as the elements that `planted.rs` finds.
    let mut flaw = Flaw { at: Some((28, 2, 400)), first_run_only: true, ..Flaw::default() };
    let found = verify(&plan, &ledger, &mut flaw);
    assert_eq!((found.outcome(), found.is_unreproduced, flaw.runs), (Outcome::Different, true, 2));
    assert_eq!((found.differences[0].place.record, found.differences[0].binding), (28, Some(2)));
}
