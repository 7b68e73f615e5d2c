//! Captures that another process truncates while a tool has them mapped: the kernel raises SIGBUS, and the
//! tool names the file.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};

use crate::common::{Scratch, capture, command};
use rehal_capture::{ObjectType, OperationCode, RecordFields, RecordType, Writer};

/// Truncates `path`; returns the exit status and standard error of the child.
fn ended_after_truncation(mut child: Child, path: &str) -> (Option<i32>, String) {
    let mut stdout = child.stdout.take().unwrap();
    File::options().write(true).open(path).unwrap().set_len(100).unwrap();
    let (mut rest, mut stderr) = (Vec::new(), String::new());
    stdout.read_to_end(&mut rest).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

fn start(words: &[&str]) -> Child {
    let mut command = command(words[0]);
    command.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn assert_named((status, stderr): (Option<i32>, String), path: &str) {
    assert_eq!(status, Some(1), "{stderr}");
    // Either the size of the file is seen first, or that memory of it is gone.
    let is_seen = stderr.contains("DATA_LOSS; truncated capture: file: expected ")
        && stderr.contains(&format!("'{path}'"))
        && stderr.contains("\n  try: do not change a capture that is open; open it again");
    let signal = format!(
        "DATA_LOSS; '{path}' was truncated while it was mapped, or cannot be read (SIGBUS at offset "
    );
    let is_signal =
        stderr.contains(&signal) && stderr.contains("\n  try: run it again once nothing writes to the file");
    assert!(is_seen || is_signal, "{stderr}");
}

/// A capture whose dump exceeds the pipe buffer, so that the dump blocks in the middle of the file.
fn long_capture(scratch: &Scratch) -> String {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut bytes).unwrap();
    let session = RecordFields { record_type: RecordType::SESSION, ..RecordFields::default() };
    writer.append(&session, &[]).unwrap();
    let flush = RecordFields {
        record_type: RecordType::OPERATION,
        object_type: ObjectType::DEVICE,
        object_id: 1,
        device_id: 1,
        operation: OperationCode::DEVICE_QUEUE_FLUSH,
        ..RecordFields::default()
    };
    (0..20_000).for_each(|_| writer.append(&flush, &[]).unwrap());
    writer.close().unwrap();
    scratch.file("long.ireereplay", bytes.into_inner())
}

#[test]
fn a_dump_names_the_file() {
    let scratch = Scratch::new();
    let path = long_capture(&scratch);
    for format in ["--format=text", "--format=jsonl"] {
        let path = scratch.file(&format[9..], std::fs::read(&path).unwrap());
        let mut child = start(&["iree-dump-replay", format, &path]);
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_named(ended_after_truncation(child, &path), &path);
    }
}

/// A benchmark prints its context when the capture is planned, and reads from the file in each iteration.
#[test]
fn a_benchmark_names_the_file() {
    let scratch = Scratch::new();
    let path = scratch.file("mlp.ireereplay", std::fs::read(capture("mlp.mlp.local-sync")).unwrap());
    let mut child = start(&["iree-benchmark-replay", "--benchmark_min_time=100000000x", &path]);
    child.stderr.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert_named(ended_after_truncation(child, &path), &path);
}
