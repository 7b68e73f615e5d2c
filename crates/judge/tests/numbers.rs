//! The numbers in the reports of verifications of two captures, compared with golden files.

use std::sync::Arc;

use rehal_hal::{Device, DeviceGroup};
use rehal_judge::{VerifyOptions, VerifySides, verify_captures};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions};
use rehal_replay::{Plan, PlanOptions, Replacement, Replay, ReplayOptions, Selector, Substitution};

/// A row is off in the results of one function of `fixtures/cts/chain.c`.
const ROW: u32 = 2;
/// One of the kernels has another factor.
const FACTOR: u32 = 1;

fn replay(name: &str, fault: Option<u32>) -> Replay {
    const MARK: &[u8] = b"REHAL-FAULT\0";
    let path = testing::fixtures().join(format!("captures/{name}.ireereplay"));
    let plan = Arc::new(Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap());
    let device: Device = match name.ends_with("local-sync") {
        true => LocalSync::create(Plugins::default()),
        false => LocalTask::create(LocalTaskOptions::default()).unwrap(),
    };
    let substitution = |fault: u32| {
        let mut code = std::fs::read(testing::fixtures().join("cts/chain.so")).unwrap();
        let at = code.windows(MARK.len()).position(|bytes| bytes == MARK).unwrap() + MARK.len();
        code[at..at + 4].copy_from_slice(&fault.to_le_bytes());
        Substitution::new(Selector::All, Replacement::bytes(code))
    };
    let options = ReplayOptions::default().substitutions(fault.map(substitution).into_iter().collect());
    Replay::new(plan, &DeviceGroup::new(vec![device]).unwrap(), &options).unwrap()
}

/// Without this test, counts of dispatches, reads and differing elements may be off, and results of one
/// capture without a counterpart in the other one may be left out of the report.
#[test]
fn reports_of_two_captures_have_the_numbers_of_golden_files() {
    for (golden, expected, actual, fault) in [
        ("chain.same", "chain.chain.local-sync", "chain.chain.local-task", None),
        ("chain.row", "chain.chain.local-sync", "chain.chain.local-task", Some(ROW)),
        ("chain.factor", "chain.chain.local-task", "chain.chain.local-sync", Some(FACTOR)),
        ("control.same", "control.collatz.local-sync", "control.collatz.local-task", None),
        ("mlp.unmatched", "mlp.mlp.local-sync", "bench.mlp.5.local-sync", None),
    ] {
        let (expected, actual) = (replay(expected, None), replay(actual, fault));
        let sides = VerifySides {
            expected: &expected,
            actual: &actual,
            expected_observers: &mut [],
            observers: &mut [],
        };
        let mut options = VerifyOptions::default();
        options.measures_rounding = false;
        options.keep_going = true;
        (options.max_elements, options.max_differences) = (2, 2);
        let found = verify_captures(sides, &options).unwrap();
        let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
        let path = format!("{}/tests/data/{golden}.verify.json", env!("CARGO_MANIFEST_DIR"));
        testing::assert_golden(path.as_ref(), &text);
    }
}
