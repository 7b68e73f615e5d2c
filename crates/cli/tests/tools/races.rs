//! `rehal races`: the reports, and the exit status.

use std::path::Path;

use rehal_devices::DeviceOptions;
use rehal_hal::{BufferParams, BufferRef, QUEUE_AFFINITY_ANY, SemaphoreFlags};
use rehal_replay::{RecordOptions, Recorder};
use serde_json::{Value, json};

use crate::common::{Ran, Scratch, capture, fail, run};

/// Records a program that fills two ranges of a buffer, which overlap, unordered; the second waits for
/// something else.
fn record(path: &Path) {
    let recorder = Recorder::create(path, RecordOptions::default()).unwrap();
    let devices = recorder.wrap(&DeviceOptions::default().open().unwrap()).unwrap();
    let device = &devices.devices()[0];
    let buffer = device.allocate_buffer(BufferParams::default(), 64).unwrap();
    let semaphores: Vec<_> = (0..3)
        .map(|_| device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap())
        .collect();
    let [first, other, second] = &semaphores[..] else { unreachable!("three are created") };
    let queue = || device.queue(QUEUE_AFFINITY_ANY);
    queue().signal(&[first.at(1)]).fill(BufferRef::range(&buffer, 0, 24), &[1], 0).unwrap();
    queue().signal(&[other.at(1)]).barrier(0).unwrap();
    let (waits, signals) = ([other.at(1)], [second.at(1)]);
    queue().wait(&waits).signal(&signals).fill(BufferRef::range(&buffer, 16, 24), &[2], 0).unwrap();
    // Ordered after the first only if the host has waited.
    queue().signal(&[first.at(2)]).fill(BufferRef::range(&buffer, 0, 4), &[3], 0).unwrap();
    recorder.close().unwrap();
}

fn races(words: &[&str]) -> Ran {
    run(&[&["rehal", "races"], words].concat())
}

/// The ordinal of the n-th fill.
fn ordinal(path: &str, index: usize) -> u64 {
    let dump = crate::common::print(&["iree-dump-replay", "--format=jsonl", path]);
    let records = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut fills = records.filter(|it| it["payload_type"] == "device_queue_fill");
    fills.nth(index).unwrap()["sequence_ordinal"].as_u64().unwrap()
}

#[test]
fn a_device_is_accepted_without_effect() {
    let path = capture("add4.add.local-sync");
    let plain = races(&[&path]);
    let ran = races(&["--device=local-sync", &path]);
    assert_eq!((ran.status, ran.stdout), (plain.status, plain.stdout));
    assert!(
        ran.stderr.contains("without effect: --device (races are those of the capture"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_race_is_reported_with_status_2() {
    let scratch = Scratch::new();
    let path = scratch.path("races.ireereplay");
    record(&path);
    let path = path.to_str().unwrap();
    let (first, second) = (ordinal(path, 0), ordinal(path, 1));
    let found = races(&[path]);
    let expected = format!(
        "1 race\n#{first} queue_fill and #{second} queue_fill\n  buffer 3, bytes 16..24: the first writes them, the \
         second writes them\nnote: captures do not contain waits of the host: a pair is not a race if the program's host waited for the \
         first before it issued the second\n"
    );
    assert_eq!((found.status, &*found.stdout, &*found.stderr), (Some(2), &*expected, ""));
    let found = races(&["--format=json", "--strict", path]);
    assert_eq!(found.status, Some(2), "{found:?}");
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(report["count"], 1);
    let pair = &report["pairs"][0];
    assert_eq!((&pair["first"]["ordinal"], &pair["second"]["ordinal"]), (&json!(first), &json!(second)));
    let overlap = json!({
        "object": "buffer", "id": 3, "offset": 16, "length": 8, "first": "writes", "second": "writes"
    });
    assert_eq!(pair["overlaps"], json!([overlap]));
    assert_eq!((&report["strict"], &report["incomplete"]), (&json!(true), &Value::Null));
    assert_eq!((&pair["may_be_host_ordered"], &pair["host_access"]), (&json!(true), &Value::Null));
    assert_eq!(report["unknown"], json!(["host_waits"]));
}

#[test]
fn captures_without_races() {
    let path = capture("mlp.async.local-task");
    let found = races(&[&path]);
    assert_eq!((found.status, &*found.stdout), (Some(0), "no races\n"), "{found:?}");
    let path = capture("globals.step.local-task");
    let found = races(&[&path]);
    let expected = "no races\n1 more if the host did not wait at scopes and before operations without waits (--strict)\n";
    assert_eq!((found.status, &*found.stdout), (Some(0), expected), "{found:?}");
    let strict = races(&["--strict", &path]);
    assert_eq!(strict.status, Some(2), "{strict:?}");
    assert!(strict.stdout.starts_with("1 race\n#19 queue_read and #44 queue_execute\n"), "{strict:?}");
    let between = "  the host accesses a buffer between them (#24): it may have waited\nnote: captures do not contain waits";
    assert!(strict.stdout.contains(between), "{strict:?}");
    assert!(strict.stdout.contains("\nnote: captures do not contain what kernels access: "), "{strict:?}");
}

/// Each call of the program binds the same inputs, which its SPIR-V only reads, and an output of its own.
#[test]
fn bindings_that_spirv_only_reads_do_not_race() {
    let path = crate::common::fixture("vulkan/captures/bench.add4.20.ireereplay");
    let found = races(&["--strict", &path]);
    assert_eq!((found.status, &*found.stdout), (Some(0), "no races\n"), "{found:?}");
    // It reads the variable that a read of the queue initializes.
    let path = crate::common::fixture("vulkan/captures/globals.step.ireereplay");
    let found = races(&["--strict", &path]);
    assert_eq!(found.status, Some(2), "{found:?}");
    assert!(found.stdout.contains("the first writes them, the second reads them"), "{found:?}");
    assert!(!found.stdout.contains("what kernels access"), "{found:?}");
    // Executables of CPUs do not tell.
    let calls = crate::common::fixture("captures/bench.add4.200.local-sync.ireereplay");
    let found = races(&["--strict", &calls]);
    assert_eq!(found.status, Some(2), "{found:?}");
}

#[test]
fn other_files_are_errors() {
    let error = fail(&["rehal", "races", &crate::common::fixture("modules/add4.vmfb")]);
    assert!(error.contains("is a compiled module"), "{error}");
}
