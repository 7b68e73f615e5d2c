//! `rehal redact`: what it writes, reports and refuses.

use crate::common::{Scratch, capture, command, fail, fixture, print, ran, run};
use serde_json::Value;

fn redact<'a>(words: &[&'a str], path: &'a str, output: &'a str) -> Vec<&'a str> {
    [&["rehal", "redact", "--device=local-sync"], words, &[path, "-o", output]].concat()
}

/// The kinds and targets of the operations of a capture.
fn operations(path: &str) -> Vec<String> {
    let dump = print(&["iree-dump-replay", "--format=jsonl", path]);
    let records = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = |it: &Value| format!("{} {} {}", it["operation"], it["object_id"], it["payload_type"]);
    records.filter(|it| it["record_type"] == "operation").map(|it| of(&it)).collect()
}

#[test]
fn a_redacted_capture_is_an_ordinary_one() {
    let scratch = Scratch::new();
    let output = scratch.path("redacted.ireereplay");
    let output = output.to_str().unwrap();
    for name in ["mlp.mlp.local-sync", "dtypes.bf16.local-sync", "crash.gather-ok.local-sync"] {
        let path = capture(name);
        let report = print(&redact(&["--element_type=i32"], &path, output));
        assert!(report.starts_with("replaced: ") && report.contains("kept, and may reveal"), "{report}");
        assert_eq!(operations(&path), operations(output));
        for words in [
            &["iree-run-replay", "--device=local-sync"][..],
            &["rehal", "info"],
            &["rehal", "kernels", "--no_run"],
        ] {
            print(&[words, &[output]].concat());
        }
        let [was, is] = [&path, output]
            .map(|it| print(&["iree-run-replay", "--device=local-sync", "--replay_host_reads=-", it]));
        assert!(was != is && was.lines().count() == is.lines().count());
    }
}

/// Values of unknown type are not guessed: each listed range is a flag.
#[test]
fn ranges_of_unknown_type_are_listed() {
    let scratch = Scratch::new();
    let output = scratch.path("redacted.ireereplay");
    let output = output.to_str().unwrap();
    let path = capture("crash.gather-ok.local-sync");
    let ran = run(&redact(&[], &path, output));
    assert!(ran.status == Some(1) && ran.stderr.contains("nothing is written"), "{ran:?}");
    assert!(!std::path::Path::new(output).exists());
    let lines: Vec<_> = ran.stdout.lines().skip(1).collect();
    assert!(ran.stdout.starts_with("ranges of unknown type:\n") && !lines.is_empty(), "{ran:?}");
    assert!(lines.iter().any(|it| it.contains("'gather_dispatch_0_elementwise_4_i64xf32'")), "{ran:?}");
    let places: Vec<_> = lines.iter().map(|it| it.split_whitespace().next().unwrap()).collect();
    let listed = run(&redact(&["--format=json"], &path, output));
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let of = |it: &Value| it["range"].as_str().unwrap().to_owned();
    assert_eq!(listed["undecided"].as_array().unwrap().iter().map(of).collect::<Vec<_>>(), places);
    let flags: Vec<_> = places.iter().map(|it| format!("--element_type={it}:i32")).collect();
    let mut words: Vec<_> = flags.iter().map(String::as_str).collect();
    print(&redact(&words, &path, output));
    let once = std::fs::read(output).unwrap();
    print(&redact(&words, &path, output));
    assert!(std::fs::read(output).unwrap() == once);
    // One of them alone is not enough if there are more.
    words.pop();
    let ran = run(&redact(&words, &path, output));
    assert!(ran.status == Some(1) && ran.stdout.contains(places.last().unwrap()), "{ran:?}");
}

#[test]
fn the_report_is_an_object_on_request() {
    let scratch = Scratch::new();
    let output = scratch.path("redacted.ireereplay");
    let path = capture("params.capture-all.digest.local-sync");
    let words = ["--format=json", "--names=hash", "--zero=all"];
    let report = print(&redact(&words, &path, output.to_str().unwrap()));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["replaced"]["files"]["bytes"].as_u64().unwrap() > 1000, "{report}");
    assert!(report["hashed_names"]["scopes"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["kept"]["names"], 0);
    assert!(report["kept"]["code_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn parameters_become_part_of_the_capture() {
    let scratch = Scratch::new();
    let output = scratch.path("redacted.ireereplay");
    let output = output.to_str().unwrap();
    let path = capture("params.reference.digest.local-sync");
    let stderr = fail(&redact(&[], &path, output));
    assert!(stderr.contains("model.irpa") && stderr.contains("--replay_file_remap"), "{stderr}");
    let remap = format!("--replay_file_remap=/tmp/rehal-fixtures/params={}", fixture("params"));
    let report = print(&redact(&[&remap], &path, output));
    assert!(report.contains("reads of files: ") && report.contains("part of the capture now: 1"), "{report}");
    let info: Value = serde_json::from_str(&print(&["rehal", "info", "--format=json", output])).unwrap();
    assert_eq!(info["external_files"].as_array().unwrap().len(), 0);
    print(&["iree-run-replay", "--device=local-sync", output]);
}

#[test]
fn digests_of_a_recording_are_left_out() {
    let scratch = Scratch::new();
    let (path, output) = (scratch.path("add.ireereplay"), scratch.path("redacted.ireereplay"));
    let (path, output) = (path.to_str().unwrap(), output.to_str().unwrap());
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let recording = format!("--device_replay_output={path}");
    print(&[
        "iree-run-module",
        "--device=local-sync",
        &module,
        "--function=add",
        "--input=4xf32=1.25 2.5 3.75 4.125",
        "--input=4xf32=10 20 30 40",
        &recording,
        "--device_replay_ledger=reads",
    ]);
    assert!(print(&["iree-dump-replay", path]).contains("unknown(1919248387)"));
    let report = print(&redact(&[], path, output));
    assert!(report.contains("digests of host reads: 2"), "{report}");
    assert!(!print(&["iree-dump-replay", output]).contains("unknown(1919248387)"));
}

#[test]
fn what_cannot_be_redacted_is_an_error_and_writes_nothing() {
    let scratch = Scratch::new();
    let path = capture("add4.add.local-sync");
    let output = scratch.path("redacted.ireereplay");
    let output = output.to_str().unwrap();
    let torn = capture("torn.divide.local-sync");
    let empty = scratch.file("empty.ireereplay", b"");
    for (words, path, reason) in [
        (&[][..], torn.as_str(), "--recover"),
        (&[], &empty, "empty"),
        (&[], "/no/such/file", "No such file"),
        (&["--seed=-1"], &path, "--seed"),
        (&["--names=drop"], &path, "--names"),
        (&["--element_type=i4"], &path, "--element_type"),
        (&["--element_type=#1@0:f32"], &path, "--element_type"),
        (&["--zero=#1@0+4"], &path, "no data at #1@0+4"),
        (&["--keep=nothing*"], &path, "'nothing*'"),
        (&["--zero=add*", "--keep=add*"], &path, "different things"),
        (&["--device=nothing"], &path, "nothing"),
    ] {
        let stderr = fail(&redact(words, path, output));
        assert!(stderr.contains(reason), "{words:?} {path}: {stderr}");
        assert!(!std::path::Path::new(output).exists(), "{words:?} {path}");
    }
    assert!(fail(&["rehal", "redact", &path]).contains("--output is missing"));
    let before = std::fs::read(&path).unwrap();
    fail(&redact(&[], &path, &path));
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(run(&redact(&[], &path, "/dev/full")).status, Some(1));
    // A kernel that crashes ends the replay of the result.
    let ran = run(&redact(&["--keep=all"], &capture("crash.gather-outside.local-sync"), output));
    assert_eq!(ran.status, Some(86));
    assert!(!std::path::Path::new(output).exists());
    print(&redact(&["--no_run", "--zero=all"], &capture("crash.gather-outside.local-sync"), output));
}

#[test]
fn standard_output_gets_the_capture_alone() {
    let path = capture("add4.add.local-sync");
    let output = command("rehal").args(["redact", "--device=local-sync", &path, "-o", "-"]).output().unwrap();
    assert!(output.stdout.starts_with(b"IRRP"));
    let ran = ran(output);
    assert!(ran.status == Some(0) && ran.stderr.contains(" of 32 bytes of data"), "{}", ran.stderr);
}

#[test]
fn a_truncated_capture_needs_recovery_before_and_after() {
    let scratch = Scratch::new();
    let mut bytes = std::fs::read(capture("chain.chain.local-sync")).unwrap();
    bytes[16..24].fill(0);
    bytes.truncate(bytes.len() - 500);
    let path = scratch.file("torn.ireereplay", bytes);
    let output = scratch.path("redacted.ireereplay");
    let output = output.to_str().unwrap();
    print(&redact(&["--recover"], &path, output));
    fail(&["rehal", "run", output]);
    print(&["rehal", "run", "--recover", output]);
}
