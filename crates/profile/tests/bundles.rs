//! Bundles of programs, as the reference release recorded them, and what its `iree-profile` prints of each:
//! in the corpus, whose tests are ignored if it is missing.

#[allow(dead_code, reason = "shared with the tests of a bundle made by hand")]
mod common;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fastrand::Rng;
use libtest_mimic::Arguments;
use rehal_profile::check::exercise;
use rehal_profile::layout::RecordHeader;
use rehal_profile::report::{Format, Report, ReportOptions};
use rehal_profile::{Bundle, OpenOptions};

fn main() -> ExitCode {
    let trials = vec![
        testing::on_corpus("every_record_and_row_is_read::corpus", read),
        testing::on_corpus("written_again_they_are_the_same::corpus", survive),
        testing::on_corpus("reports_are_the_references::corpus", report),
        testing::on_corpus("mutations_are_read_or_rejected::corpus", mutated),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The bundles, sorted by name.
fn bundles(corpus: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(corpus.join("profiles")).expect("the corpus has profiles");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireeprof"));
    assert!(paths.len() >= 25, "the corpus has only {} profiles", paths.len());
    paths.sort();
    paths
}

fn read(corpus: &Path) {
    for path in bundles(corpus) {
        let bytes = std::fs::read(&path).unwrap();
        let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
        let mut end = u64::from(bundle.header().header_length.get());
        for record in bundle.records() {
            let record = record.unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
            let mut read_bytes = 0;
            let rows =
                record.with_rows(|parts| read_bytes += parts.iter().map(|part| part.len()).sum::<usize>());
            rows.unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
            assert_eq!((record.offset, read_bytes), (end, record.payload.len()));
            end += record.header.record_length.get();
        }
        assert_eq!(end, bundle.length_bytes(), "{}", path.display());
    }
}

fn survive(corpus: &Path) {
    for path in bundles(corpus) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(common::rewritten(&bytes) == without_padding(bytes), "{}", path.display());
    }
}

/// The reference leaves whatever its stack held in the padding of record headers; we write zeros.
fn without_padding(mut bytes: Vec<u8>) -> Vec<u8> {
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    let offsets: Vec<_> = bundle.records().map(|record| record.unwrap().offset as usize).collect();
    let at = std::mem::offset_of!(RecordHeader, padding);
    for offset in offsets {
        bytes[offset + at..offset + at + 4].fill(0);
    }
    bytes
}

/// The reference's output: standard output and, in the last line, the error of a report that failed.
fn expected(path: &Path, suffix: &str) -> (Vec<u8>, Option<String>) {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    let mut text = std::fs::read(&name).unwrap_or_else(|e| panic!("{}: {e}", name.display()));
    let start = text.windows(3).position(|window| window == b"\nc/").map(|at| at + 1);
    let start = start.or_else(|| text.starts_with(b"c/").then_some(0));
    let error = start.map(|at| String::from_utf8(text.split_off(at)).unwrap());
    (text, error)
}

fn report(corpus: &Path) {
    let mut compared = 0;
    for path in bundles(corpus) {
        let bytes = std::fs::read(&path).unwrap();
        let mut compare = |options: &ReportOptions, suffix: &str| {
            let (text, refused) = expected(&path, suffix);
            let (output, error) = common::printed(&bytes, options);
            let name = format!("{}{suffix}", path.display());
            assert!(output == text, "{name}:\n{}", String::from_utf8_lossy(&output));
            let code = error.as_ref().map(|error| error.code().name());
            assert_eq!(code.is_some(), refused.is_some(), "{name}: {error:?}");
            assert!(refused.is_none_or(|line| line.contains(code.unwrap_or_default())), "{name}: {error:?}");
            compared += 1;
        };
        for report in Report::ALL {
            for format in report.formats() {
                let options = ReportOptions::default().report(*report).format(*format);
                let extension = if *format == Format::Text { "text" } else { "jsonl" };
                compare(&options, &format!(".{}.{extension}", report.name()));
            }
        }
        let (report, format) = (Report::Dispatch, Format::Jsonl);
        let events = ReportOptions::default().report(report).format(format).dispatch_events(true);
        compare(&events, ".dispatch_events.jsonl");
    }
    assert!(compared >= 550, "{compared}");
}

fn mutated(corpus: &Path) {
    let mut random = Rng::with_seed(42);
    let mut count = 0;
    for path in bundles(corpus) {
        let seed = std::fs::read(&path).unwrap();
        for _ in 0..20 {
            let mut bytes = seed.clone();
            testing::mutate(&mut bytes, &mut random);
            exercise(&bytes);
            count += 1;
        }
    }
    assert!(count >= 500, "{count}");
}
