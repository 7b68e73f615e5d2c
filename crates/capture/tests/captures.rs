//! Captures of programs, recorded by the reference release: the fixtures, and the corpus, whose tests are
//! ignored if it is missing.

#[allow(dead_code, reason = "shared with the tests of synthetic captures")]
mod common;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fastrand::Rng;
use libtest_mimic::Arguments;
use rehal_capture::fuzzing::exercise;
use rehal_capture::{Capture, OpenOptions};

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
        assert!(common::rewritten(&bytes) == without_padding(bytes), "{}", path.display());
    }
}

/// Zeroes the padding of record headers, which the reference leaves uninitialised and we write as zeros.
fn without_padding(mut bytes: Vec<u8>) -> Vec<u8> {
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let offsets: Vec<_> = capture.records().map(|record| record.unwrap().offset as usize).collect();
    let at = std::mem::offset_of!(rehal_capture::layout::RecordHeader, padding);
    for offset in offsets {
        bytes[offset + at..offset + at + 4].fill(0);
    }
    bytes
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
