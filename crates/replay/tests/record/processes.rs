//! Concurrent recorders with the same path, in separate processes (this binary runs itself).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rehal_base::StatusCode;
use rehal_capture::{Capture, OpenOptions};
use rehal_hal::DeviceGroup;
use rehal_replay::{RecordOptions, Recorder};

use crate::program::{local_sync, mappable};

const OUTPUT: &str = "REHAL_TEST_PROCESSES_OUTPUT";
const VALUE: &str = "REHAL_TEST_PROCESSES_VALUE";

/// Bytes that a child records: more than a recorder buffers.
const LENGTH: usize = 3 << 20;

/// Not a test itself: a child process that records one write of `VALUE`s. It prints `recording` or the error,
/// and closes its capture when its standard input ends.
#[test]
fn child() {
    let (Some(path), Ok(value)) = (std::env::var_os(OUTPUT), std::env::var(VALUE)) else { return };
    let recorder = match Recorder::create(Path::new(&path), RecordOptions::default()) {
        Ok(recorder) => recorder,
        Err(error) => {
            println!("refused {}: {error}", error.code().name());
            return;
        }
    };
    let group = recorder.wrap(&DeviceGroup::new(vec![local_sync()]).unwrap()).unwrap();
    let buffer = group.devices()[0].allocate_buffer(mappable(), LENGTH as u64).unwrap();
    buffer.write(0, &vec![value.parse().unwrap(); LENGTH]).unwrap();
    println!("recording");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    recorder.close().unwrap();
}

/// A running child and its first line of output.
struct Process {
    child: Child,
    said: String,
}

fn start(path: &Path, value: u8) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "processes::child", "--nocapture"])
        .env(OUTPUT, path)
        .env(VALUE, value.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The test harness prints the test's name before its output.
    let said = lines.map(|line| line.rsplit("... ").next().unwrap_or_default().to_owned());
    let said = said.filter(|line| line.starts_with("recording") || line.starts_with("refused"));
    let said = { said }.next().expect("the child exits without output");
    Process { child, said }
}

impl Process {
    fn ends(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// The data that a child recorded.
fn values(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let long = |record: &rehal_capture::Record<'_>| record.payload.len() > LENGTH;
    let record = capture.records().map(Result::unwrap).find(long).expect("a record of the write");
    let mut values = record.payload[record.payload.len() - LENGTH..].to_vec();
    values.dedup();
    values
}

#[test]
fn a_second_process_cannot_record_to_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("both.ireereplay");
    let first = start(&path, 1);
    assert_eq!(first.said, "recording");
    let second = start(&path, 2);
    assert!(second.said.starts_with("refused UNAVAILABLE"), "{}", second.said);
    assert!(
        second.said.contains(&format!("'{}': another recorder is writing to it", path.display())),
        "{}",
        second.said
    );
    second.ends();
    first.ends();
    assert_eq!(values(&path), [1]);
    // The lock is released on close.
    let third = start(&path, 3);
    assert_eq!(third.said, "recording");
    third.ends();
    assert_eq!(values(&path), [3]);
}

/// They start concurrently, so that each could truncate the others' capture.
#[test]
fn one_of_several_racing_processes_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("race.ireereplay");
    for _ in 0..4 {
        let path = &path;
        let processes: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> =
                (1..=4).map(|value| scope.spawn(move || (value, start(path, value)))).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        let recording: Vec<_> = processes.iter().filter(|(_, process)| process.said == "recording").collect();
        assert_eq!(recording.len(), 1);
        let value = recording[0].0;
        processes.into_iter().for_each(|(_, process)| process.ends());
        assert_eq!(values(path), [value]);
    }
}

#[test]
fn a_killed_process_leaves_its_capture_and_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed.ireereplay");
    let mut killed = start(&path, 4);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(!Capture::open(&bytes, OpenOptions { recover: true }).unwrap().is_closed());
    let next = start(&path, 5);
    assert_eq!(next.said, "recording");
    next.ends();
    assert_eq!(values(&path), [5]);
}

#[test]
fn a_second_recorder_in_one_process_is_rejected() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let first = Recorder::create(file.path(), RecordOptions::default()).unwrap();
    let refused = Recorder::create(file.path(), RecordOptions::default()).err().unwrap();
    assert_eq!(refused.code(), StatusCode::Unavailable);
    assert!(
        refused.advice().is_some_and(|advice| advice.to_string().contains("a separate file")),
        "{refused}"
    );
    first.close().unwrap();
    Recorder::create(file.path(), RecordOptions::default()).unwrap().close().unwrap();
}

/// Only regular files are locked: any number of programs may record to the null device.
#[test]
fn two_recorders_share_the_null_device() {
    let null = Path::new("/dev/null");
    let both = [1, 2].map(|_| Recorder::create(null, RecordOptions::default()).unwrap());
    both.iter().for_each(|recorder| recorder.close().unwrap());
}

#[test]
fn new_captures_are_private_and_existing_files_keep_their_mode() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mode.ireereplay");
    let record = || Recorder::create(&path, RecordOptions::default()).unwrap().close().unwrap();
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    record();
    assert_eq!(mode() & !0o640, 0, "{:o}", mode());
    assert_eq!(mode() & 0o600, 0o600, "{:o}", mode());
    let longer = std::fs::File::options().write(true).open(&path).unwrap();
    longer.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    (&longer).write_all(&vec![1; 1 << 20]).unwrap();
    record();
    assert_eq!(mode(), 0o600);
    assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20, "truncated");
}
