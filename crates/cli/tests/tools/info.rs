//! `rehal info`: the text and JSON reports, also of captures that cannot be replayed.

use crate::common::{Scratch, capture, fixture, patched, print, run};
use serde_json::Value;

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&print(&[&["rehal", "info", "--format=json"], words].concat())).unwrap()
}

#[test]
fn loading_executables_is_said() {
    let path = capture("add4.add.local-sync");
    let ran = run(&["rehal", "info", "--load_executables", &path]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(ran.stderr, "note: loading the executables, which runs code of the capture\n");
    assert!(ran.stdout.contains("\nReplay here: yes, on local-task\n"), "{}", ran.stdout);
    assert_eq!(run(&["rehal", "info", &path]).stderr, "");
}

#[test]
fn a_text_report() {
    let path = capture("add4.add.local-sync");
    let expected = format!(
        "{path}
  capture 2.0, 12.0 KiB, closed
  60 records of 14 objects, 1 device, 3 submissions on queues, 1 dispatch
  checksums: none in this capture, so damage may go undetected

Replay here: yes (kernels not loaded), on local-task

Scopes
  init     entered 1 time
  execute  entered 1 time
  deinit   entered 1 time

Executables
  4  embedded-elf-x86_64, 4.1 KiB, 2 functions
    #0  add_dispatch_0_elementwise_4_f32    1 dispatch  1x1x1 workgroups  3 bindings  0 constants
    #1  mul_dispatch_0_elementwise_4_f32  0 dispatches  1x1x1 workgroups  3 bindings  0 constants

Bytes
  executables    4.1 KiB  33.8 %
  mapped writes     32 B   0.3 %
  records        7.9 KiB  65.9 %

Needs from outside: nothing
"
    );
    // Which parts there are depends on the machine.
    let told = print(&["rehal", "info", &path]);
    let (confined, others): (Vec<_>, Vec<_>) =
        told.split_inclusive('\n').partition(|line| line.starts_with("  its code is confined: "));
    assert_eq!((confined.len(), others.concat()), (1, expected));
}

/// The device could not import a constant zero-copy, so the program fell back to a copy.
#[test]
fn failed_operations_are_named_and_a_replay_notes_that_it_skips_them() {
    let path = capture("bigconst.scale.local-sync");
    let screen = print(&["rehal", "info", &path]);
    let named =
        "  1 operation had failed and will be skipped\n    #13 allocator.import_buffer OUT_OF_RANGE\n";
    assert!(screen.contains(named), "{screen}");
    let expected = serde_json::json!([
        { "ordinal": 13, "operation": "allocator.import_buffer", "status": "OUT_OF_RANGE" }
    ]);
    assert_eq!(json(&[&path])["failed_operations"], expected);
    let note = "note: skipped 1 operation that had failed at capture; `rehal info` names it\n";
    for (path, noted) in [(path, note), (capture("add4.add.local-sync"), "")] {
        let replayed = run(&["iree-run-replay", &path]);
        assert_eq!((replayed.status, &*replayed.stdout, &*replayed.stderr), (Some(0), "", noted));
    }
}

#[test]
fn bytes_add_up_and_counts_are_those_of_the_dump() {
    for name in ["mlp.mlp.local-sync", "params.capture-ranges.digest.local-sync", "bigconst.scale.local-sync"]
    {
        let path = capture(name);
        let info = json(&[&path]);
        let total: u64 = info["bytes"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(info["size_bytes"], total, "{name}");
        let dump = print(&["iree-dump-replay", "--format=jsonl", &path]);
        let summary: Value = serde_json::from_str(dump.lines().nth(1).unwrap()).unwrap();
        for (ours, theirs) in
            [("records", "record_count"), ("operations", "operation_count"), ("objects", "object_count")]
        {
            assert_eq!(info["counts"][ours], summary[theirs], "{name}: {ours}");
        }
    }
}

/// 200 executions of one command buffer are 200 dispatches.
#[test]
fn dispatches_are_counted_per_execution() {
    let info = json(&[&capture("bench.add4.200.local-sync")]);
    let submitted: u64 = info["executables"][0]["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|function| function["dispatches"].as_u64().unwrap())
        .sum();
    assert_eq!(info["counts"]["dispatches"], submitted);
    let scopes = info["scopes"].as_array().unwrap();
    let execute = scopes.iter().find(|scope| scope["name"] == "execute").unwrap();
    assert!(submitted >= 200 && execute["count"].as_u64().unwrap() >= 200, "{info}");
}

#[test]
fn external_files_are_reported() {
    let path = capture("params.reference.digest.local-sync");
    let missing = json(&["--replay_file_remap=/=/nonexistent/", &path]);
    let file = &missing["external_files"][0];
    assert_eq!((&file["validation"], &file["problem"]["status"]), (&"digest".into(), &"NOT_FOUND".into()));
    assert_eq!(missing["replay"]["possible"], false);
    assert!(
        print(&["rehal", "info", "--replay_file_remap=/=/nonexistent/", &path])
            .contains("  not at /nonexistent/")
    );

    let captured = file["path"].as_str().unwrap();
    let remap = |here: &str| format!("--replay_file_remap={captured}={here}");
    let here = remap(&fixture("params/model.irpa"));
    assert_eq!(json(&[&here, &path])["replay"]["possible"], true);
    assert!(print(&["rehal", "info", &here, &path]).contains("validated by digest  at "));

    let scratch = Scratch::new();
    let other = remap(&scratch.file("other", "other"));
    let report = print(&["rehal", "info", &other, &path]);
    assert!(report.contains("another one is at ") && report.contains("length has changed"), "{report}");
}

#[test]
fn reasons_against_a_replay_are_reported() {
    let scratch = Scratch::new();
    let abs = std::fs::read(capture("simple_abs.abs.local-sync")).unwrap();
    let arm = scratch.file("arm", patched(&abs, b"embedded-elf-x86_64", b"embedded-elf-arm_64"));
    for (path, expected) in [
        (arm, "executable 4 is 'embedded-elf-arm_64', which local-task cannot run"),
        (capture("torn.gather.local-sync"), "the capture is truncated at offset 8116"),
    ] {
        let report = print(&["rehal", "info", &path]);
        assert!(
            report.contains("Replay here: no, not on local-task\n") && report.contains(expected),
            "{report}"
        );
    }
    let torn = json(&[&capture("torn.gather.local-sync")]);
    assert_eq!((&torn["closed"], &torn["tear"]["offset"]), (&false.into(), &8116.into()));
    let two = print(&["rehal", "info", &capture("two_devices.ss")]);
    assert!(
        two.contains("yes (kernels not loaded), on local-task (--device=local-task given 2 times)"),
        "{two}"
    );
}

/// A capture with every record type of the format.
#[test]
fn a_capture_of_everything_has_a_report() {
    let scratch = Scratch::new();
    let path = scratch.file("everything", testing::sample_capture());
    let info = json(&[&path]);
    assert_eq!(info["replay"]["possible"], false, "host calls and channels cannot be replayed");
    assert!(!info["replay"]["reasons"][0]["message"].as_str().unwrap().is_empty());
    let total: u64 = info["bytes"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
    assert_eq!(info["size_bytes"], total);
    assert!(info["bytes"].as_object().unwrap().values().all(|it| it.as_u64().unwrap() > 0), "{info}");
    assert!(print(&["rehal", "info", &path]).contains("Replay here: no, not on local-task"));
}

/// A file header of version 1.0, without records.
#[test]
fn captures_of_version_1_are_named_with_their_releases() {
    let scratch = Scratch::new();
    let numbers = [1_u32, 24, 0, 24, 0].map(u32::to_le_bytes).concat();
    let path = scratch.file("old.ireereplay", [&b"IRRP"[..], &numbers].concat());
    for words in [
        &["rehal", "info"][..],
        &["iree-dump-replay"],
        &["iree-run-replay"],
        &["iree-benchmark-replay"],
        &["rehal", "kernels"],
        &["rehal", "executables"],
        &["rehal", "races"],
        &["rehal", "verify"],
    ] {
        let ran = run(&[words, &[path.as_str()]].concat());
        let releases = "3.12.0rc20260429 to 3.12.0rc20260519 wrote: these releases run it, and rehal does";
        assert_eq!(ran.stderr.matches(releases).count(), 1, "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn modules_of_earlier_versions_are_named_with_their_releases() {
    let scratch = Scratch::new();
    let mut bytes = std::fs::read(fixture("modules/add4.vmfb")).unwrap();
    let [supported, earlier] = [17_u32, 16].map(|it| (it << 16).to_le_bytes());
    let at = bytes.windows(4).position(|it| it == supported).unwrap();
    bytes[at..at + 4].copy_from_slice(&earlier);
    let path = scratch.file("old.vmfb", bytes);
    let module = format!("--module={path}");
    for words in [
        &["iree-run-module", &module, "--function=add"][..],
        &["iree-benchmark-module", &module, "--function=add"],
        &["iree-check-module", &module],
        &["iree-dump-module", &path],
        &["rehal", "executables", &path],
        &["rehal", "substitute", &path, "--executable=1=x.so", "-o", "new.vmfb"],
        &["rehal", "kernel", "disassemble", &path],
    ] {
        let ran = run(words);
        assert_eq!(ran.status, Some(1), "{words:?}");
        for said in ["bytecode version 16.0, which release 3.10.0 wrote", "iree-base-runtime 3.10.0"] {
            assert!(ran.stderr.contains(said), "{words:?}: {}", ran.stderr);
        }
    }
}
