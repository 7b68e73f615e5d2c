//! `rehal diff`: the reports, the exit status, and errors.

use crate::common::{Ran, Scratch, capture, command, fail, fixture, run};
use serde_json::Value;

fn diff(words: &[&str]) -> Ran {
    run(&[&["rehal", "diff"], words].concat())
}

#[test]
fn the_same_program_recorded_again_is_the_same() {
    let scratch = Scratch::new();
    let recorded = scratch.path("again.ireereplay");
    let arguments = ["--device=local-sync", "--function=abs", "--input=f32=-7.25"];
    let run = |input: &str| {
        let status = command("iree-run-module")
            .args(arguments.map(|it| if it.starts_with("--input") { input } else { it }))
            .arg(format!("--module={}", fixture("modules/simple_abs.vmfb")))
            .arg(format!("--device_replay_output={}", recorded.display()))
            .output()
            .unwrap()
            .status;
        assert!(status.success());
    };
    run("--input=f32=-7.25");
    // The fixture was recorded by the reference.
    let (before, after) = (capture("simple_abs.abs.local-sync"), recorded.to_str().unwrap());
    let found = diff(&[&before, after]);
    assert_eq!((found.status, &*found.stderr), (Some(0), ""), "{found:?}");
    assert!(found.stdout.starts_with("the same: "), "{found:?}");

    // Another input: one upload differs.
    run("--input=f32=-7.5");
    let found = diff(&["--element_type=f32", &before, after]);
    assert_eq!(found.status, Some(2), "{found:?}");
    assert!(found.stdout.contains("-7.25 -> -7.5"), "{found:?}");
    assert!(found.stdout.starts_with("different: 1 operation changed; "), "{found:?}");
}

#[test]
fn both_formats_tell_the_same() {
    let (before, after) = (capture("simple_abs.abs.local-sync"), capture("simple_abs.vmvx.local-sync"));
    let found = diff(&["--format=json", &before, &after]);
    assert_eq!(found.status, Some(2), "{found:?}");
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(report["same"], false);
    assert_eq!(report["before"]["path"], before);
    let sum: u64 =
        report["operations"].as_array().unwrap().iter().map(|it| it["count"].as_u64().unwrap()).sum();
    let executables = report["executables"].as_array().unwrap().len() as u64;
    let counts = &report["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert!(sum + executables <= count("changed") + count("removed") + count("inserted") + count("moved"));
    let text = diff(&[&before, &after]);
    assert_eq!(text.status, Some(2));
    assert!(text.stdout.contains("\nExecutables\n"), "{text:?}");
    // Few changes are printed, and how many are left.
    let short = diff(&["--max_differences=0", &before, &after]);
    assert!(short.stdout.contains("more (--max_differences"), "{short:?}");
    assert!(short.stdout.len() < text.stdout.len());
    let same = diff(&["--format=json", &before, &before]);
    let report: Value = serde_json::from_str(&same.stdout).unwrap();
    assert_eq!((same.status, &report["same"]), (Some(0), &Value::Bool(true)));
}

#[test]
fn a_truncated_capture_is_compared_up_to_its_end() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(capture("mlp.mlp.local-sync")).unwrap();
    let torn = scratch.file("torn.ireereplay", &bytes[..bytes.len() - 200]);
    let found = diff(&[&capture("mlp.mlp.local-sync"), &torn]);
    assert_eq!(found.status, Some(2), "{found:?}");
    assert!(found.stdout.contains("is truncated: compared up to offset"), "{found:?}");
    let found = diff(&[&torn, &torn]);
    assert_eq!(found.status, Some(0), "{found:?}");
    assert!(found.stdout.contains("is truncated"), "{found:?}");
}

#[test]
fn wrong_input_is_refused() {
    let scratch = Scratch::new();
    let good = capture("mlp.mlp.local-sync");
    let module = fixture("modules/add4.vmfb");
    assert!(fail(&["rehal", "diff", &good, &module]).contains("not a capture"));
    assert!(fail(&["rehal", "diff", &module, &good]).contains("not a capture"));
    fail(&["rehal", "diff", &good]);
    fail(&["rehal", "diff", &good, "missing.ireereplay"]);
    fail(&["rehal", "diff", "--element_type=f33", &good, &good]);
    let empty = scratch.file("empty.ireereplay", []);
    fail(&["rehal", "diff", &good, &empty]);
    // The size of a record is larger than its payload.
    let mut bytes = std::fs::read(&good).unwrap();
    bytes[24 + 8] ^= 1;
    let corrupt = scratch.file("corrupt.ireereplay", &bytes);
    let error = fail(&["rehal", "diff", &good, &corrupt]);
    assert!(error.contains("corrupt.ireereplay"), "{error}");
}

#[test]
fn damage_is_an_error_unless_it_is_accepted() {
    let scratch = Scratch::new();
    let path = scratch.path("own.ireereplay");
    let module = format!("--module={}", fixture("modules/simple_abs.vmfb"));
    let output = format!("--device_replay_output={}", path.display());
    let arguments = ["--device=local-sync", "--function=abs", "--input=f32=-7.25", &module, &output];
    let ran = command("iree-run-module").args(arguments).output().unwrap();
    assert!(ran.status.success());
    let mut bytes = std::fs::read(&path).unwrap();
    let own = scratch.file("whole.ireereplay", &bytes);
    // In the code.
    let code = bytes.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
    bytes[code + 300] ^= 1;
    let damaged = scratch.file("damaged.ireereplay", &bytes);
    let error = fail(&["rehal", "diff", &own, &damaged]);
    assert!(error.contains("checksums"), "{error}");
    let found = diff(&["--recover", &own, &damaged]);
    assert_eq!(found.status, Some(2), "{found:?}");
    assert!(found.stderr.contains("is damaged"), "{found:?}");
}
