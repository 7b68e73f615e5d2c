//! Malformed bundles: always an error or fewer rows, never a panic.

#[allow(dead_code, reason = "shared with the tests that write bundles again")]
mod common;

use std::io::Cursor;

use common::printed;
use fastrand::Rng;
use rehal_base::{Fault, FormatError, StatusCode};
use rehal_profile::check::exercise;
use rehal_profile::layout;
use rehal_profile::report::{Format, Report, ReportOptions};
use rehal_profile::{
    Bundle, ContentType, OpenOptions, Record, RecordFields, Writer, activity, rows, timeline, times,
};
use testing::mutate;
use zerocopy::little_endian::{U32, U64};

const RECOVER: OpenOptions = OpenOptions { recover: true };

fn starts(bytes: &[u8]) -> Vec<usize> {
    let bundle = Bundle::open(bytes, OpenOptions::default()).unwrap();
    bundle.records().map(|record| record.unwrap().offset as usize).collect()
}

#[test]
fn a_cut_anywhere_is_named_and_keeps_the_records_before_it() {
    let bytes = testing::sample_profile();
    let starts = starts(&bytes);
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        let error = Bundle::open(cut, OpenOptions::default()).unwrap_err();
        assert_eq!(error.fault, Fault::Truncated, "{error:?}");
        let Ok(bundle) = Bundle::open(cut, RECOVER) else {
            assert!(length < 24);
            continue;
        };
        let whole = starts.iter().skip(1).filter(|end| **end <= length).count();
        assert_eq!(
            bundle.records().filter(|record| record.is_ok()).count(),
            whole,
            "truncated to {length} bytes"
        );
        let tear = bundle.tear().unwrap();
        assert_eq!((tear.offset as usize, tear.record_count as usize), (starts[whole], whole));
        assert_eq!(tear.lost_bytes as usize, length - starts[whole]);
    }
    exercise(&bytes[..bytes.len() / 2]);
}

#[test]
fn a_bundle_of_a_killed_program_is_read_to_its_end_or_to_its_zeros() {
    let mut bytes = testing::sample_profile();
    let count = starts(&bytes).len();
    bytes[16..24].fill(0);
    for options in [OpenOptions::default(), RECOVER] {
        let bundle = Bundle::open(&bytes, options).unwrap();
        let read = bundle.records().filter(|record| record.is_ok()).count();
        assert_eq!((read, bundle.tear(), bundle.is_closed()), (count, None, false));
    }

    let end = bytes.len();
    bytes.resize(end + 5000, 0);
    let bundle = Bundle::open(&bytes, RECOVER).unwrap();
    let tear = bundle.tear().unwrap();
    assert_eq!((tear.offset, tear.record_count, tear.lost_bytes), (end as u64, count as u64, 5000));
    assert!(bundle.records().all(|record| record.is_ok()));
}

#[test]
fn bytes_behind_the_recorded_length_are_ignored() {
    let mut bytes = testing::sample_profile();
    let (count, end) = (starts(&bytes).len(), bytes.len());
    bytes.extend_from_slice(b"stale");
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    assert_eq!((bundle.records().count(), bundle.length_bytes()), (count, end as u64));
    assert_eq!(bundle.total_bytes(), end as u64 + 5);
}

#[test]
fn mutations_of_the_sample() {
    let seed = testing::sample_profile();
    let mut random = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let mut read = 0;
    for _ in 0..400 {
        let mut bytes = seed.clone();
        mutate(&mut bytes, &mut random);
        read += exercise(&bytes);
    }
    // Most mutations leave most rows readable; none would mean that nothing was exercised.
    assert!(read > 40_000, "{read}");
}

/// The error of the first record or row that is one, after `change` has been made to the sample's first
/// record of a content type.
fn error_after(content: ContentType, change: impl Fn(&mut [u8], usize)) -> FormatError {
    let mut bytes = testing::sample_profile();
    let is_of = |record: &Record<'_>| record.content() == Some(content);
    let (offset, length, payload) = {
        let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
        let record = bundle.records().map(Result::unwrap).find(is_of).unwrap();
        let length = record.header.record_length.get() as usize;
        (record.offset as usize, length, length - record.payload.len())
    };
    change(&mut bytes[offset..offset + length], payload);
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    let error = bundle.records().find_map(|record| match record {
        Ok(record) => record.with_rows(|_| ()).err(),
        Err(error) => Some(error),
    });
    let error = error.unwrap();
    assert!((offset..=offset + length).contains(&(error.offset as usize)), "{error:?}");
    error
}

#[test]
fn reserved_fields_are_zero_up_to_the_newest_known_minor_version() {
    let mut bytes = testing::sample_profile();
    let offset = {
        let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
        let mut records = bundle.records().map(Result::unwrap);
        let queues = records.find(|record| record.content() == Some(ContentType::Queues)).unwrap();
        queues.offset as usize + queues.header.record_length.get() as usize - queues.payload.len()
    };
    bytes[offset + 12] = 1;
    for minor in [0, layout::VERSION.1, layout::VERSION.1 + 1, u16::MAX] {
        bytes[6..8].copy_from_slice(&minor.to_le_bytes());
        let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
        let failure = bundle.records().find_map(|record| record.unwrap().with_rows(|_| ()).err());
        let is_known = minor <= layout::VERSION.1;
        assert_eq!(failure.map(|error| error.field), is_known.then_some("reserved0"), "1.{minor}");
    }
}

#[test]
fn errors_name_the_field() {
    let devices = |change: fn(&mut [u8], usize)| error_after(ContentType::Devices, change);
    assert_eq!(devices(|r, _| r[0] += 1).field, "payload_length");
    assert_eq!(devices(|r, _| r[8] += 1).field, "payload_length");
    assert_eq!(devices(|r, _| r[56] = 103).field, "header_length");
    assert_eq!(devices(|r, _| r[59] = 1).field, "header_length");
    assert_eq!(devices(|r, _| r[60] += 1).field, "payload_length");
    assert_eq!(devices(|r, _| r[67] = 255).field, "payload_length");
    assert_eq!(devices(|r, _| r[102] = 1).field, "flags");
    assert_eq!(devices(|r, at| r[at] = 31).field, "record_length");
    assert_eq!(devices(|r, at| r[at + 3] = 1).field, "record_length");
    assert_eq!(devices(|r, at| r[at] = 60).field, "row", "what is left is shorter than a row");
    assert_eq!(error_after(ContentType::Queues, |r, at| r[at + 12] = 1).field, "reserved0");
    assert_eq!(error_after(ContentType::QueueDeviceEvents, |r, at| r[at + 76] = 1).field, "reserved1");
    let functions = |change: fn(&mut [u8], usize)| error_after(ContentType::Functions, change);
    assert_eq!(functions(|r, at| r[at + 44] += 1).field, "name_length");
    assert_eq!(functions(|r, at| r[at + 44] -= 1).field, "record_length");
    assert_eq!(error_after(ContentType::CodeObjects, |r, at| r[at + 31] = 255).field, "data_length");
    assert_eq!(
        error_after(ContentType::CounterSamples, |r, at| r[at + 107] = 255).field,
        "sample_value_count"
    );
    assert_eq!(error_after(ContentType::MetricSamples, |r, at| r[at + 60] += 1).field, "value_count");
    let traces = |change: fn(&mut [u8], usize)| error_after(ContentType::ExecutableTraces, change);
    assert_eq!(traces(|r, at| r[at] += 1).field, "record_length");
    assert_eq!(traces(|r, at| r[at + 80] += 1).field, "data_length");
    assert_eq!(traces(|r, at| r[at + 80] -= 1).field, "record_length");
}

#[test]
fn the_file_header_is_checked() {
    let error_with = |at: usize, value: &[u8]| {
        let mut bytes = testing::sample_profile();
        bytes[at..at + value.len()].copy_from_slice(value);
        Bundle::open(&bytes, OpenOptions::default()).unwrap_err()
    };
    assert_eq!(error_with(0, b"IRRP").field, "magic");
    let version = error_with(4, &[2]);
    assert_eq!((version.fault, version.found.as_str()), (Fault::Unsupported, "2.6"));
    assert_eq!(error_with(8, &[23]).field, "header_length");
    assert_eq!(error_with(8, &[255; 4]).field, "header_length");
    assert_eq!(error_with(12, &[1]).field, "flags");
    assert_eq!(error_with(16, &[23, 0, 0, 0]).field, "file_length");
    assert_eq!(error_with(16, &[255; 8]).fault, Fault::Truncated);
    assert_eq!(Bundle::open(b"", OpenOptions::default()).unwrap_err().fault, Fault::Truncated);
    assert_eq!(Bundle::open(b"{}", OpenOptions::default()).unwrap_err().field, "magic");
}

/// `cat` shows damaged bundles, and `memory` and `statistics` read what they total.
#[test]
fn a_malformed_row_of_any_chunk_is_rejected_also_by_reports_that_print_none_of_its_kind() {
    let bytes = testing::sample_profile();
    let starts: Vec<_> = {
        let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
        let start = |content: &ContentType| {
            let mut records = bundle.records().map(Result::unwrap);
            let record = records.find(|record| record.content() == Some(*content)).unwrap();
            let length = record.header.record_length.get() as usize;
            (*content, record.offset as usize + length - record.payload.len())
        };
        ContentType::CHUNKS.iter().map(start).collect()
    };
    for (content, start) in starts {
        let length = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap());
        for changed in [length + 0x10_0000, length - 4, 0, 4] {
            let mut bytes = bytes.clone();
            bytes[start..start + 4].copy_from_slice(&changed.to_le_bytes());
            let at = format!("{content:?}, {changed} instead of {length}");
            let reads_some = |it: &Report| matches!(it, Report::Cat | Report::Memory | Report::Statistics);
            for report in Report::ALL.iter().filter(|it| !reads_some(it)) {
                let format = report.formats()[0];
                let options = ReportOptions::default().report(*report).format(format);
                let error = printed(&bytes, &options).1;
                let error = error.unwrap_or_else(|| panic!("{} reads {at}", report.name()));
                assert_eq!(error.code(), StatusCode::DataLoss, "{}, {at}: {error}", report.name());
            }
            let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
            assert!(timeline::write(&bundle, &mut std::io::sink()).is_err(), "{at}");
            assert!(activity::of_bundle(&bundle, 16).is_err(), "{at}");
            assert!(times::of(&bundle).is_err(), "{at}");
        }
    }
}

/// A bundle without the chunks of a content type.
fn without(content: ContentType) -> Vec<u8> {
    let bytes = testing::sample_profile();
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    for record in bundle.records().map(Result::unwrap).filter(|record| record.content() != Some(content)) {
        let status = record.header.session_status_code.get();
        let (fields, content_type) = (RecordFields::from_record(&record), record.content_type);
        writer.append(record.record_type(), status, &fields, content_type, &[record.payload]).unwrap();
    }
    writer.into_inner().into_inner()
}

#[test]
fn reports_reject_what_the_bundle_does_not_describe() {
    for (content, report, what) in [
        (ContentType::Queues, Report::Dispatch, "queue 0 of device 0"),
        (ContentType::Queues, Report::Queue, "queue 0 of device 0"),
        (ContentType::Executables, Report::Executable, "function 0 is of executable 1"),
        (ContentType::Functions, Report::Dispatch, "describe the function"),
        (ContentType::CommandBuffers, Report::Command, "command 0 of command buffer 5"),
        (ContentType::CounterSets, Report::Counter, "counter set 8"),
        (ContentType::Counters, Report::Counter, "no counter of the set"),
        (ContentType::MetricDescriptors, Report::Export, "metric 1 of source 1"),
    ] {
        let format = report.formats()[report.formats().len() - 1];
        let options = ReportOptions::default().report(report).format(format);
        let (_, error) = printed(&without(content), &options);
        let error = error.unwrap_or_else(|| panic!("{} without {content:?}", report.name()));
        assert_eq!(error.code(), StatusCode::DataLoss);
        assert!(error.message().contains(what), "{}: {error}", report.name());
    }
}

/// Each sample is counted once for each counter of its set, so counters must share its values.
#[test]
fn samples_with_fewer_values_than_their_counters_are_rejected() {
    let print = |sample_count: usize| {
        let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
        let fields = RecordFields::default();
        let (empty, values): (&[u8], _) = (b"", [U64::new(1), U64::new(2)]);
        let set = layout::CounterSet { sample_value_count: U32::new(2), ..Default::default() }.sized(empty);
        writer
            .append_rows(&fields, &[rows::CounterSet { header: &set, name: empty, appended: &[] }])
            .unwrap();
        for ordinal in [0, 1, 2].map(U32::new) {
            let counter = layout::Counter { counter_ordinal: ordinal, ..Default::default() };
            let header = &counter.sized(empty, empty, empty);
            let row =
                rows::Counter { header, block_name: empty, name: empty, description: empty, appended: &[] };
            writer.append_rows(&fields, &[row]).unwrap();
        }
        let header = &layout::CounterSample::default().sized(&values);
        let sample = rows::CounterSample { header, values: &values, appended: &[] };
        writer.append_rows(&fields, &vec![sample; sample_count]).unwrap();
        let options = ReportOptions::default().report(Report::Counter);
        printed(&writer.into_inner().into_inner(), &options).1
    };
    assert!(print(0).is_none(), "counters without samples cost nothing");
    assert!(print(1).unwrap().message().contains("more values than the sample"));
}

#[test]
fn totals_that_overflow_are_errors() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let event = layout::MemoryEvent {
        event_type: U32::new(9),
        length: U64::new(u64::MAX),
        ..layout::MemoryEvent::default()
    }
    .sized();
    let row = rows::MemoryEvent { header: &event, appended: &[] };
    writer.append_rows(&RecordFields::default(), &[row, row]).unwrap();
    let bytes = writer.into_inner().into_inner();
    for (report, overflows) in [(Report::Memory, true), (Report::Statistics, true), (Report::Summary, false)]
    {
        let (_, error) = printed(&bytes, &ReportOptions::default().report(report));
        let code = error.map(|error| error.code());
        assert_eq!(code, overflows.then_some(StatusCode::OutOfRange), "{}", report.name());
    }
}

#[test]
fn options_that_a_report_does_not_support_are_rejected() {
    let options = |report, format| ReportOptions::default().report(report).format(format);
    let all =
        Report::ALL.iter().flat_map(|report| Format::ALL.iter().map(|format| options(*report, *format)));
    assert_eq!(all.filter(|options| options.check().is_ok()).count(), 21);
    let rejected = |options: ReportOptions, what: &str| {
        let error = options.check().unwrap_err();
        assert!(error.message().contains(what), "{error}");
        assert_eq!(printed(&testing::sample_profile(), &options).0, b"", "nothing is printed");
    };
    let (text, jsonl) = (Format::Text, Format::Jsonl);
    rejected(options(Report::Export, jsonl), "expected ireeperf-jsonl");
    rejected(options(Report::Cat, Format::IreeperfJsonl), "expected text or jsonl");
    rejected(options(Report::Cat, text).filter("x".into()), "does not support the option filter");
    rejected(options(Report::Summary, text).id(0), "does not support the option id");
    rejected(
        options(Report::Memory, jsonl).dispatch_events(true),
        "does not support the option dispatch_events",
    );
    rejected(options(Report::Queue, text).dispatch_events(true), "requires the format jsonl");
    rejected(
        options(Report::Queue, jsonl).counter_samples(true),
        "does not support the option counter_samples",
    );
    rejected(options(Report::Counter, text).counter_samples(true), "requires the format jsonl");
}
