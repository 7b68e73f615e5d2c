//! `iree-profile` and `rehal profile`.

mod common;

use common::{Scratch, fail, print, run};

/// A profile with rows of every kind.
fn sample() -> String {
    format!("{}/../profile/tests/data/sample.ireeprof", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn reports_are_printed_in_both_formats() {
    let sample = sample();
    assert_eq!(print(&["iree-profile", &sample]), print(&["rehal", "profile", "cat", &sample]));
    assert!(print(&["iree-profile", "summary", &sample]).starts_with("IREE HAL profile summary\n"));
    let events =
        print(&["iree-profile", "dispatch", "--format=jsonl", "--dispatch_events", "--id=3", &sample]);
    // One of a device, one of the host, and the summary.
    assert_eq!(events.lines().count(), 3, "{events}");
    for line in print(&["iree-profile", "explain", "--format=jsonl", &sample]).lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object["type"].as_str().unwrap().starts_with("explain_"));
    }
}

#[test]
fn an_export_goes_to_a_file() {
    let (scratch, sample) = (Scratch::new(), sample());
    let path = scratch.path("export.jsonl");
    let export = ["iree-profile", "export", "--format=ireeperf-jsonl"];
    let output = format!("--output={}", path.display());
    assert_eq!(print(&[&export[..], &[&output, &sample]].concat()), "");
    let printed = print(&[&export[..], &[&sample]].concat());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), printed);
    let own = format!("--output={sample}");
    assert!(fail(&[&export[..], &[&own, &sample]].concat()).contains("which is read"));
    assert!(fail(&["iree-profile", "cat", &output, &sample]).contains("does not support --output"));
}

#[test]
fn a_truncated_profile_is_read_with_a_warning() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(sample()).unwrap();
    let path = scratch.file("torn.ireeprof", &bytes[..bytes.len() - 10]);
    let ran = run(&["iree-profile", "summary", &path]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.stderr.contains("complete records are read, and 140 bytes from offset"), "{}", ran.stderr);
    assert!(ran.stdout.contains("session_begin=2") && ran.stdout.contains("session_end=1"), "{}", ran.stdout);
}

#[test]
fn commands_and_flags_that_do_not_apply_are_rejected() {
    let sample = sample();
    let stderr = fail(&["iree-profile", "att", &sample]);
    assert!(stderr.starts_with("UNIMPLEMENTED; 'att'") && stderr.contains("AMD device"), "{stderr}");
    assert!(fail(&["iree-profile", "sumary", &sample]).contains("did you mean 'summary'?"));
    let stderr = fail(&["iree-profile", "queue", "--dispatch_events", &sample]);
    assert!(stderr.contains("dispatch_events requires the format jsonl"), "{stderr}");
    assert!(stderr.contains("try: use --format=jsonl"), "{stderr}");
    assert!(fail(&["iree-profile", "cat", "--id=1", &sample]).contains("try: leave out --id"));
    assert!(fail(&["iree-profile", "export", &sample]).contains("expected ireeperf-jsonl"));
    assert!(fail(&["iree-profile", "--rocm_library_path=/opt/rocm", &sample]).contains("AMD"));
    assert!(fail(&["iree-profile"]).contains("needs a profile"));
    assert!(fail(&["iree-profile", "cat", &sample, &sample]).contains("takes one profile"));
    let other = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    assert!(fail(&["iree-profile", "cat", &other]).contains("is a text file, not a device profile"));
}
