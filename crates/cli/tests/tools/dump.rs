//! `iree-dump-replay`: output identical to the reference's, and exit statuses.

use std::io::Read;

use crate::common::{capture, command, fixture, print, ran, run};

/// A test of the library has the dumps of all captures.
#[test]
fn dumps_equal_the_reference_output() {
    let path = capture("multi.scalars.local-sync");
    for (flags, form) in [(&[][..], "text"), (&["--format=jsonl"], "jsonl")] {
        let expected = fixture(&format!("expected/multi.scalars.local-sync.dump.{form}"));
        let dump = print(&[&["rehal", "dump"], flags, &[&path]].concat());
        assert_eq!(dump, std::fs::read_to_string(expected).unwrap());
    }
}

#[test]
fn a_truncated_capture_is_dumped_up_to_the_tear() {
    let ran = run(&["iree-dump-replay", "--recover", &capture("torn.gather.local-sync")]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.stdout.contains("records: total=29 "), "{}", ran.stdout);
    assert!(ran.stderr.contains("records before offset 8116"), "{}", ran.stderr);
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut dump = command("iree-dump-replay");
    // Large enough to fill the pipe before the dump ends.
    dump.args(["--format=jsonl", &capture("bench.add4.200.local-sync")]).stdout(writer);
    dump.stderr(std::process::Stdio::piped());
    let child = dump.spawn().unwrap();
    drop(dump);
    reader.read_exact(&mut [0; 64]).unwrap();
    drop(reader);
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
}
