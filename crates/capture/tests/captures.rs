//! Captures of programs, recorded by the reference release: the fixtures, and the corpus, whose tests are
//! ignored if it is missing.

#[allow(dead_code, reason = "shared with the tests of synthetic captures")]
mod common;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fastrand::Rng;
use libtest_mimic::Arguments;
use rehal_capture::fuzzing::exercise;
use rehal_capture::{Capture, OpenOptions, Record};

fn main() -> ExitCode {
    let trials = [
        testing::on_both_sets("every_record_and_payload_is_read", read),
        testing::on_both_sets("written_again_they_are_the_same", survive),
        testing::on_both_sets("mutations_are_read_or_refused", mutated),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}

/// The captures of a set except those whose program was killed while recording (`torn.*`).
fn whole_captures(set: &Path) -> Vec<PathBuf> {
    let is_torn =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"torn."));
    let mut paths = testing::captures(set);
    paths.retain(|path| !is_torn(path));
    paths
}

fn read(set: &Path) {
    for path in whole_captures(set) {
        let bytes = std::fs::read(&path).unwrap();
        let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
        let mut end = capture.first_record_offset();
        for record in capture.records() {
            let record = record.unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
            let payload = record.payload().unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
            payload.with_parts(|parts| assert_eq!(parts.concat(), record.payload));
            assert_eq!(record.offset, end);
            end += record.header.record_length.get();
        }
        assert_eq!(end, capture.length_bytes(), "{}", path.display());
    }
}

fn survive(set: &Path) {
    for path in whole_captures(set) {
        let bytes = std::fs::read(&path).unwrap();
        let again = common::rewritten(&bytes);
        assert!(records(&again) == records(&bytes), "{}", path.display());
        // Long data is written at a page of the file.
        let is_long = records(&bytes).iter().any(|(_, payload)| payload.len() >= 1 << 20);
        assert!(is_long || again.len() == bytes.len(), "{}", path.display());
    }
}

/// The header of each record without its lengths, which contain the padding that aligns data, and without the
/// field that the reference leaves uninitialised; and its payload.
fn records(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    use rehal_capture::layout::RecordHeader;
    let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
    let record = |record: Record<'_>| {
        let mut header = bytes[record.offset as usize..][..size_of::<RecordHeader>()].to_vec();
        for (at, length) in [
            (std::mem::offset_of!(RecordHeader, padding), 4),
            (std::mem::offset_of!(RecordHeader, header_length), 4),
            (std::mem::offset_of!(RecordHeader, record_length), 8),
        ] {
            header[at..at + length].fill(0);
        }
        (header, record.payload.to_vec())
    };
    capture.records().map(|it| record(it.unwrap())).collect()
}

fn mutated(set: &Path) {
    let mut random = Rng::with_seed(42);
    let mut count = 0;
    for path in testing::captures(set) {
        let seed = std::fs::read(&path).unwrap();
        // Fewer rounds for large captures, which take longer.
        let rounds = if seed.len() > 64 * 1024 { 8 } else { 320 };
        for _ in 0..rounds {
            let mut bytes = seed.clone();
            testing::mutate(&mut bytes, &mut random);
            exercise(&bytes);
            count += 1;
        }
    }
    assert!(count >= 10_000, "{count}");
}
