//! The numbers of differences and reductions of two captures, compared with golden files.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use rehal_base::Result;
use rehal_capture::{CaptureBytes, OpenOptions};
use rehal_edit::{
    DiffOptions, DiffReport, RedactOptions, RedactedNames, ReduceHost, ReduceOptions, ReduceProgress,
    SlicedDispatch, diff_captures, redact, reduce,
};
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{Cut, Plan, PlanOptions, Replay, ReplayOptions, SliceCheck, SliceOptions};
use serde_json::{Value, json};

const CHAIN: &str = "chain.chain.local-sync";
const CONTROL: &str = "control.collatz.local-sync";
/// The first and the last function of an iteration, and the first of the next one.
const CONTROL_FUNCTIONS: [&str; 3] =
    ["collatz_dispatch_1_elementwise", "collatz_dispatch_2_elementwise", "collatz_dispatch_1_elementwise"];

fn bytes(name: &str) -> Vec<u8> {
    fs::read(testing::fixtures().join(format!("captures/{name}.ireereplay"))).unwrap()
}

/// Compares a report, with each element of its lists on a line of its own.
fn assert_golden(name: &str, report: &Value) {
    let mut text = String::new();
    for (key, value) in report.as_object().unwrap() {
        match value.as_array() {
            Some(values) => values.iter().for_each(|it| writeln!(text, "{key}: {it}").unwrap()),
            None => writeln!(text, "{key}: {value}").unwrap(),
        }
    }
    let path = format!("{}/tests/data/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    testing::assert_golden(path.as_ref(), &text);
}

fn diff(before: &[u8], after: &[u8]) -> Value {
    let [before, after] = [before, after].map(|it| CaptureBytes::from(it.to_vec()));
    let found = diff_captures(&before, &after, &DiffOptions::default(), &mut |_| {}).unwrap();
    let paths = ["before".to_owned(), "after".to_owned()];
    serde_json::to_value(DiffReport { diff: &found, paths, digests: None }).unwrap()
}

/// Keeps a dispatch of each of these functions, in this order.
struct Host<'f>(&'f [&'f str]);

impl ReduceHost for Host<'_> {
    fn is_interesting(&self, capture: &Path) -> Result<bool> {
        let plan = Plan::compile(fs::read(capture).unwrap(), PlanOptions::default())?;
        let mut wanted = self.0.iter().peekable();
        plan.dispatches(|it| {
            wanted.next_if(|name| name.as_bytes() == it.name);
            Ok(())
        })?;
        Ok(wanted.peek().is_none())
    }

    fn slice(&self, _: &Path, _: SlicedDispatch, _: &Path) -> Result<bool> {
        Ok(false)
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    fn progress(&self, _: &ReduceProgress) {}
}

/// The operations of the records of a capture.
fn operations(bytes: &[u8]) -> Vec<String> {
    let capture = CaptureBytes::from(bytes.to_vec());
    let records = capture.open(OpenOptions::default()).unwrap().records();
    records.map(|it| it.unwrap().operation().to_string()).collect()
}

/// Reduces a capture to dispatches of functions; returns the bytes of the result, and its numbers.
fn reduced(name: &str, functions: &[&str]) -> (Vec<u8>, Value) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let capture =
        CaptureBytes::map(&testing::fixtures().join(format!("captures/{name}.ireereplay"))).unwrap();
    let reduction =
        reduce(&capture, &ReduceOptions::default(), &Host(functions), directory.path(), &output).unwrap();
    let bytes = fs::read(&output).unwrap();
    let numbers = json!({
        "before": reduction.before,
        "after": reduction.after,
        "checks": reduction.check_count,
        "rejected": reduction.rejected_count,
        "byte_range": reduction.byte_range,
        "is_slice": reduction.is_slice,
        "stop": reduction.stop.map(|it| format!("{it:?}")),
        "records": operations(&bytes),
    });
    (bytes, numbers)
}

/// Without this test, sizes may be counted of the wrong capture, or of records that are not kept.
#[test]
fn reductions_and_differences_have_the_numbers_of_golden_files() {
    let chain: [&str; 2] = ["chain_dispatch_1_matmul_24x24x24_f32", "chain_dispatch_6_elementwise_576_f32"];
    for (name, functions) in [(CHAIN, &chain[..]), (CONTROL, &CONTROL_FUNCTIONS)] {
        let (after, numbers) = reduced(name, functions);
        assert_golden(&format!("{name}.reduce"), &numbers);
        assert_golden(&format!("{name}.diff"), &diff(&bytes(name), &after));
    }
}

/// Without this test, counts of objects and operations may be those of the other capture.
#[test]
fn captures_on_two_devices_differ_by_the_numbers_of_golden_files() {
    for (name, other) in [(CHAIN, "chain.chain.local-task"), (CONTROL, "control.collatz.local-task")] {
        assert_golden(&format!("{name}.task.diff"), &diff(&bytes(name), &bytes(other)));
    }
}

/// Without this test, a slice may keep bytes that its dispatch does not read, or lack a read of what it
/// wrote.
#[test]
fn slices_have_the_numbers_of_golden_files() {
    for name in [CHAIN, CONTROL] {
        let plan = Plan::compile(bytes(name), PlanOptions::default()).unwrap();
        let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
        let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
        let functions = ["*_dispatch_0_*", "*_dispatch_1_*", "*_dispatch_2_*", "*_dispatch_6_*"];
        let slices = functions.iter().flat_map(|pattern| [0, 1].map(|occurrence| (pattern, occurrence)));
        let slices = slices.filter_map(|(pattern, occurrence)| {
            let file = tempfile::NamedTempFile::new().unwrap();
            let cut = Cut::Function { pattern: (*pattern).to_owned(), occurrence };
            let mut options = SliceOptions::default();
            options.check = SliceCheck::Always;
            let slice = replay.slice(&cut, &options, file.reopen().unwrap(), &mut []).ok()?;
            let bytes = fs::read(file.path()).unwrap();
            let reads = slice.reads.iter().map(|it| json!([it.buffer_id, it.offset, it.bytes.len()]));
            Some(json!({
                "name": slice.name,
                "record": slice.location.ordinal,
                "occurrence": slice.occurrence,
                "content_bytes": slice.content_bytes,
                "is_checked": slice.is_checked,
                "reads": reads.collect::<Vec<_>>(),
                "file_bytes": bytes.len(),
                "records": operations(&bytes),
            }))
        });
        assert_golden(&format!("{name}.slices"), &json!({ "slices": slices.collect::<Vec<_>>() }));
    }
}

/// Without this test, bytes that a redacted capture keeps may not be counted, or be of another kind, and
/// other numbers be drawn than those of the seed.
#[test]
fn redactions_have_the_numbers_of_golden_files() {
    for name in [CHAIN, CONTROL, "mlp.mlp.local-sync", "params.capture-ranges.digest.local-sync"] {
        let plan = Plan::compile(bytes(name), PlanOptions::default()).unwrap();
        let mut reports = serde_json::Map::new();
        for names in [RedactedNames::Keep, RedactedNames::Hash] {
            let mut options = RedactOptions::default();
            (options.seed, options.names) = (7, names);
            let mut sink = std::io::Cursor::new(Vec::new());
            let redaction = redact(&plan, &mut sink, &options).unwrap();
            let bytes = sink.into_inner();
            let report = json!({
                "redaction": redaction,
                "kept": redaction.kept,
                "types": redaction.types(),
                "unchanged_bytes": redaction.unchanged_bytes,
                "rewritten": format!("{:?}", redaction.rewritten),
                "indirect": [json!(redaction.indirect_dispatch_count), json!(redaction.counts_may_change)],
                "file_bytes": bytes.len(),
                "digest": rehal_judge::digest(&bytes),
            });
            reports.insert(format!("{names:?}"), report);
        }
        assert_golden(&format!("{name}.redact"), &reports.into());
    }
}
