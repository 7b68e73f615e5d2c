//! The common parts of all reports: the header of their JSON, and errors as JSON.

use serde_json::Value;

use crate::common::{Scratch, capture, run};

/// The report of a verb, or its error.
fn json(words: &[&str]) -> (Value, Option<i32>, String) {
    let ran = run(words);
    let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{words:?}: {ran:?}"));
    (report, ran.status, ran.stderr)
}

const KEYS: [&str; 9] =
    ["capture_digest", "commit", "cpu", "device", "flags", "host", "load", "schema", "version"];

fn check_header(report: &Value, schema: &str) {
    let header = report["header"].as_object().unwrap();
    assert_eq!(header.keys().collect::<Vec<_>>(), KEYS);
    assert_eq!(header["schema"], schema);
    assert_eq!(header["version"], env!("CARGO_PKG_VERSION"));
    let commit = header["commit"].as_str().unwrap();
    let is_commit = commit.len() >= 40 && commit.bytes().all(|it| it.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown", "{commit}");
    assert!(header["load"]["processors"].as_u64().unwrap() > 0);
    assert!(header["cpu"].is_string() && header["host"].is_string());
}

#[test]
fn headers_say_what_was_measured() {
    let path = capture("add4.add.local-sync");
    let digest = blake3::hash(&std::fs::read(&path).unwrap()).to_hex();
    let local = serde_json::json!(["local-sync"]);
    for (words, schema, device) in [
        (&["races"][..], "rehal.races/1", Value::Null),
        (&["info", "--device=local-sync"], "rehal.info/1", local.clone()),
        (&["kernels", "--no_run"], "rehal.kernels/1", Value::Null),
        (&["kernels", "--device=local-sync"], "rehal.kernels/1", local.clone()),
        (&["verify", "--device=local-sync", "--watch_memory"], "rehal.verify/1", local),
    ] {
        let words = [&["rehal"], words, &["--format=json", &path]].concat();
        let (report, status, stderr) = json(&words);
        assert_eq!(status, Some(0), "{words:?}: {stderr}");
        check_header(&report, schema);
        let header = &report["header"];
        assert_eq!(header["capture_digest"], digest.as_str(), "{words:?}");
        assert_eq!(header["device"], device, "{words:?}");
        let flags = header["flags"].as_array().unwrap();
        assert!(flags.contains(&"--format=json".into()) && flags.contains(&path.clone().into()), "{flags:?}");
    }
}

#[test]
fn reports_of_written_captures_have_headers() {
    let scratch = Scratch::new();
    let (path, output) = (capture("add4.add.local-sync"), scratch.path("output").display().to_string());
    let digest = blake3::hash(&std::fs::read(&path).unwrap()).to_hex();
    for (words, schema) in
        [(["reduce", "--check=true"], "rehal.reduce/1"), (["redact", "--zero=all"], "rehal.redact/1")]
    {
        let words = [&["rehal"], &words[..], &["--format=json", &path, "-o", &output]].concat();
        let (report, status, stderr) = json(&words);
        assert_eq!(status, Some(0), "{words:?}: {stderr}");
        check_header(&report, schema);
        assert_eq!(report["header"]["capture_digest"], digest.as_str());
    }
    // An error would damage a result on standard output.
    let ran = run(&["rehal", "redact", "--format=json", "no-such-file", "-o", "-"]);
    assert_eq!((ran.status, &*ran.stdout), (Some(1), ""));
}

#[test]
fn reports_of_two_files_have_headers() {
    let path = capture("add4.add.local-sync");
    let digest = blake3::hash(&std::fs::read(&path).unwrap()).to_hex();
    let (report, status, stderr) = json(&["rehal", "diff", "--format=json", &path, &path]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    check_header(&report, "rehal.diff/1");
    assert_eq!(report["header"]["capture_digest"], Value::Null);
    for side in ["before", "after"] {
        assert_eq!(report[side]["capture_digest"], digest.as_str());
    }
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/../profile/tests/data/sample.ireeprof");
    let (report, status, stderr) = json(&["rehal", "profile", "compare", "--format=json", profile, profile]);
    assert_eq!(status, Some(0), "{stderr}");
    check_header(&report, "rehal.profile.compare/1");
}

#[test]
fn errors_are_json_if_the_report_would_be() {
    let path = capture("add4.add.local-sync");
    let missing = ["rehal", "races", "--format=json", "no-such-file"];
    let unknown = ["rehal", "races", "--format=json", "--stricct", &path];
    let two = ["rehal", "races", "--format=json", &path, &path];
    for (words, code, message) in [
        (&missing[..], "NOT_FOUND", "No such file or directory"),
        (&unknown, "INVALID_ARGUMENT", "unknown flag '--stricct'"),
        (&two, "INVALID_ARGUMENT", "rehal races takes one capture"),
    ] {
        let (report, status, stderr) = json(words);
        assert_eq!(status, Some(1), "{words:?}");
        check_header(&report, "rehal.error/1");
        let error = report["error"].as_object().unwrap();
        assert_eq!(error.keys().collect::<Vec<_>>(), ["advice", "code", "context", "message"]);
        assert_eq!(error["code"], code);
        let told = error["message"].as_str().unwrap();
        assert!(told.contains(message) && stderr.contains(told), "{words:?}: {told}: {stderr}");
        let advice = error["advice"].as_str().unwrap();
        assert!(stderr.contains(&format!("try: {advice}")), "{words:?}: {stderr}");
    }
    // The digest is that of a capture that can be read.
    let digest = blake3::hash(&std::fs::read(&path).unwrap()).to_hex();
    let no_capture = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (path, digest) in [(&*path, Some(digest.as_str())), (no_capture, None)] {
        let (report, status, stderr) = json(&["rehal", "info", "--device=none", "--format=json", path]);
        assert_eq!(status, Some(1), "{stderr}");
        check_header(&report, "rehal.error/1");
        assert_eq!(report["header"]["capture_digest"].as_str(), digest, "{stderr}");
    }
    // The last format counts, and text has no errors on standard output.
    for words in [
        ["rehal", "races", "--format=json", "--format=text", "no-such-file"],
        ["rehal", "races", "--", "--format=json", &path],
    ] {
        let ran = run(&words);
        assert_eq!((ran.status, &*ran.stdout), (Some(1), ""), "{words:?}");
    }
}
