//! The body of the fuzz target: every operation on a capture that needs no device, on arbitrary bytes.

use rehal_base::Result;
use rehal_capture::{CaptureBytes, OpenOptions};

use crate::dump::{self, Format, Options};
use crate::schedule::Schedule;
use crate::{Plan, PlanCheck, PlanOptions, RaceOptions};

/// Opens `bytes` strictly and for recovery, plans and schedules them, searches them for races, and dumps them
/// in both formats, discarding the output. Nothing is executed.
///
/// Returns the number of planned steps; the property under test is that it returns.
pub fn exercise(bytes: &[u8]) -> usize {
    let planned = [false, true].map(|recover| {
        let planned = plan(bytes, recover);
        assert_eq!(check(bytes, recover).is_ok(), planned.is_ok());
        planned.unwrap_or_default()
    });
    for recover in [false, true] {
        for format in [Format::Text, Format::Jsonl] {
            let options = Options { format, recover };
            // An error means that the bytes are malformed, which is expected; the sink accepts all writes.
            let _ = dump::dump(bytes.into(), options, &mut std::io::sink(), &mut |_| {});
        }
    }
    planned.iter().sum()
}

/// The number of steps of the plan.
fn plan(bytes: &[u8], recover: bool) -> Result<usize> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions { recover, ..PlanOptions::default() })?;
    for record in plan.executables() {
        assert!(record.function_names().count() <= bytes.len());
    }
    assert!(plan.scopes().all(|(name, count)| !name.is_empty() && count > 0));
    let waits = Schedule::from_plan(&plan, Vec::new()).waits;
    assert!(waits.is_sorted_by_key(|wait| wait.step) && waits.len() <= plan.submissions.len());
    for strict in [false, true] {
        let races = plan.races(RaceOptions { strict });
        assert!(races.pairs.len() as u64 <= races.count);
    }
    Ok(plan.step_count())
}

/// The checks of a plan alone.
fn check(bytes: &[u8], recover: bool) -> Result<()> {
    let bytes = CaptureBytes::from(bytes.to_vec());
    let capture = bytes.open(OpenOptions { recover })?;
    let mut check = PlanCheck::new(&bytes);
    for record in capture.records() {
        check.add(&record?)?;
    }
    check.finish(&bytes, &capture).map(drop)
}
