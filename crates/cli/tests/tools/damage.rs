//! Corrupted captures of rehal's recorder: every tool detects the damage and locates it.

use crate::common::{Scratch, capture, fail, fixture, print, run};
use serde_json::Value;

/// Records a call of the module `name` to a capture.
fn recorded(scratch: &Scratch) -> (String, Vec<u8>) {
    let path = scratch.path("recorded.ireereplay");
    let path = path.to_str().unwrap();
    let module = format!("--module={}", fixture("modules/add4.vmfb"));
    let output = format!("--device_replay_output={path}");
    print(&["iree-run-module", &module, "--function=add", "--input=4xf32=1", "--input=4xf32=2", &output]);
    (path.to_owned(), std::fs::read(path).unwrap())
}

/// The range of the executable's code, which dumps do not print.
fn code_of(path: &str) -> std::ops::Range<usize> {
    let dump = print(&["iree-dump-replay", "--format=jsonl", path]);
    let records = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let prepare = { records }.find(|record| record["payload_type"] == "executable_prepare").unwrap();
    let range = &prepare["payload"]["data_range"];
    let [offset, length] = ["offset", "length"].map(|it| range[it].as_u64().unwrap() as usize);
    offset..offset + length
}

#[test]
fn intact_captures_pass_and_reference_captures_have_no_checksums() {
    let scratch = Scratch::new();
    let (path, _) = recorded(&scratch);
    print(&["iree-run-replay", &path]);
    assert!(print(&["rehal", "info", &path]).contains("\n  checksums: all match\n"));
    let info: Value = serde_json::from_str(&print(&["rehal", "info", "--format=json", &path])).unwrap();
    assert_eq!(info["checksums"], serde_json::json!({ "state": "present", "damage": [] }));
    let other = capture("add4.add.local-sync");
    let info: Value = serde_json::from_str(&print(&["rehal", "info", "--format=json", &other])).unwrap();
    assert_eq!(info["checksums"]["state"], "absent");
}

#[test]
fn a_flipped_bit_is_refused_and_named() {
    let scratch = Scratch::new();
    let (path, bytes) = recorded(&scratch);
    let code = code_of(&path);
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x20;
        let damaged = scratch.file("damaged.ireereplay", &changed);
        let stderr = fail(&["iree-run-replay", &damaged]);
        assert!(stderr.contains("damaged.ireereplay"), "{stderr}");
        let block = at / 4096 * 4096;
        if at < 24 {
            continue;
        }
        let dumped = run(&["iree-dump-replay", &damaged]);
        let in_data = code.start <= block && block + 4096 <= code.end;
        assert_eq!(dumped.status == Some(0), in_data, "byte {at}: {}", dumped.stderr);
        let info = run(&["rehal", "info", &damaged]);
        let said = format!("{}{}", info.stdout, info.stderr);
        // The last block is followed by the checksum record.
        let named = said.contains(&format!("bytes {block} to ")) || said.contains("the record of checksums");
        assert!(named || at > bytes.len() - 200, "byte {at}: {said}");
    }
}

#[test]
fn recovery_continues_and_reports_the_damage() {
    let scratch = Scratch::new();
    let (path, mut bytes) = recorded(&scratch);
    let whole = print(&["iree-dump-replay", &path]);
    // The thread id of the first record, which nothing depends on.
    bytes[24 + 24] ^= 1;
    let damaged = scratch.file("damaged.ireereplay", &bytes);
    for tool in ["iree-run-replay", "iree-dump-replay"] {
        let stderr = fail(&[tool, &damaged]);
        assert!(stderr.starts_with("DATA_LOSS; corrupt capture: checksum: expected "), "{stderr}");
        assert!(stderr.contains(" for bytes 0 to 4095, found "), "{stderr}");
        assert!(stderr.contains("record #0, offset 0") && stderr.contains("--recover"), "{stderr}");
        let recovered = run(&[tool, "--recover", &damaged]);
        assert_eq!(recovered.status, Some(0), "{}", recovered.stderr);
        assert!(
            recovered.stderr.contains("damaged.ireereplay' is damaged: bytes 0 to 4095 (records #0 to #"),
            "{}",
            recovered.stderr
        );
        if tool == "iree-dump-replay" {
            assert_eq!(recovered.stdout.lines().count(), whole.lines().count());
        }
    }
    let report = print(&["rehal", "info", &damaged]);
    assert!(report.contains("\n  checksums: do not match: bytes 0 to 4095 (records #0 to #"), "{report}");
    assert!(
        report.contains(
            "Replay here: no, not on local-task\n  DATA_LOSS; the capture does not match its checksums"
        ),
        "{report}"
    );
}

/// Corrupts a record header, so that the records after it cannot be read.
#[test]
fn info_reports_damage_if_records_cannot_be_read() {
    let scratch = Scratch::new();
    let (_, mut bytes) = recorded(&scratch);
    bytes[24] ^= 1;
    let damaged = scratch.file("damaged.ireereplay", &bytes);
    let stderr = fail(&["rehal", "info", &damaged]);
    assert!(stderr.contains("does not match its checksums: bytes 0 to 4095"), "{stderr}");
}
