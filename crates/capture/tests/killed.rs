//! The capture of a program that is killed while recording, in a child process (this binary runs itself).

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rehal_capture::{Capture, OpenOptions, PayloadType, RecordFields, RecordType, Writer};

const OUTPUT: &str = "REHAL_TEST_KILLED_OUTPUT";

/// Payload sizes in turn, one larger than the writer's buffer.
const LENGTHS: [usize; 5] = [0, 17, 4096, 100_003, 600_000];

/// Not a test itself: the child process that the test below runs and kills.
#[test]
fn child() {
    let Some(path) = std::env::var_os(OUTPUT) else { return };
    let mut writer = Writer::new(File::create(path).unwrap()).unwrap();
    for ordinal in 0u64.. {
        let fields = RecordFields {
            record_type: RecordType::BLOB,
            payload_type: PayloadType::NONE,
            object_id: ordinal,
            ..RecordFields::default()
        };
        let payload = vec![ordinal as u8; LENGTHS[ordinal as usize % LENGTHS.len()]];
        writer.append(&fields, &[&payload]).unwrap();
        // Bounds the child if it is not killed.
        assert!(writer.length_bytes() < 1 << 30);
    }
}

/// Starts a child that writes `path`, and kills it once the file has `length_bytes`.
fn killed_at(path: &Path, length_bytes: u64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child"]).env(OUTPUT, path).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(path).map_or(0, |it| it.len()) < length_bytes && Instant::now() < patience {
        std::thread::yield_now();
    }
    // SIGKILL on Unix: the program cannot clean up.
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_killed_program_leaves_its_complete_records() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("killed.ireereplay");
    for length_bytes in [24, 1_000_000, 20_000_000] {
        let _ = std::fs::remove_file(&path);
        killed_at(&path, length_bytes);
        let bytes = std::fs::read(&path).unwrap();
        let error = Capture::open(&bytes, OpenOptions::default()).unwrap_err();
        assert!(error.to_string().contains("never closed"), "{error}");
        let capture = Capture::open(&bytes, OpenOptions { recover: true }).unwrap();
        assert!(!capture.is_closed());
        let mut count = 0;
        for (ordinal, record) in capture.records().enumerate() {
            let record = record.unwrap();
            assert_eq!(record.payload.len(), LENGTHS[ordinal % LENGTHS.len()]);
            assert!(record.payload.iter().all(|byte| *byte == ordinal as u8), "record {ordinal}");
            count += 1;
        }
        // At most the record being written is lost.
        let lost_bytes = capture.tear().map_or(0, |tear| tear.lost_bytes);
        assert_eq!(capture.length_bytes() + lost_bytes, bytes.len() as u64);
        assert!(lost_bytes < 96 + 600_000, "{lost_bytes}");
        assert!(length_bytes == 24 || count > 5, "{count} records of {} bytes", bytes.len());
    }
}
