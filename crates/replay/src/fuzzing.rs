//! The body of the fuzz target: every operation on a capture that needs no device, on arbitrary bytes.

use rehal_base::Result;

use crate::dump::{self, Format, Options};
use crate::schedule::Schedule;
use crate::{Plan, PlanOptions, RaceOptions};

/// Opens `bytes` strictly and for recovery, plans and schedules them, searches them for races, and dumps them
/// in both formats, discarding the output. Nothing is executed.
///
/// Returns the number of planned steps; the property under test is that it returns.
pub fn exercise(bytes: &[u8]) -> usize {
    let planned = [false, true].map(|recover| plan(bytes, recover).unwrap_or_default());
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
