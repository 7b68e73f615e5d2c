//! A bundle that is read and written again is the same file, byte for byte.

#[allow(dead_code, reason = "shared with the tests that change bundles")]
mod common;

use std::io::Cursor;

use common::rewritten;
use rehal_profile::layout;
use rehal_profile::{Bundle, ContentType, OpenOptions, RecordFields, Writer, rows};
use zerocopy::little_endian::{U32, U64};

#[test]
fn the_sample_survives_and_has_rows_of_every_content_type() {
    let bytes = testing::sample_profile();
    assert_eq!(rewritten(&bytes), bytes);
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    for content in ContentType::CHUNKS {
        let mut rows = 0;
        for record in bundle.records().map(Result::unwrap).filter(|record| record.content() == Some(*content))
        {
            record.with_rows(|_| rows += 1).unwrap();
        }
        assert!(rows > 0, "{content:?}");
        assert_eq!(ContentType::from_text(content.text().as_bytes()), Some(*content));
    }
}

#[test]
fn rows_survive_any_alignment() {
    let bytes = testing::sample_profile();
    for shift in 0..8 {
        let shifted = [vec![0xEE; shift], bytes.clone()].concat();
        assert_eq!(rewritten(&shifted[shift..]), bytes);
    }
}

#[test]
fn a_writer_rejects_rows_whose_lengths_are_not_those_of_their_lists() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let name: &[u8] = b"name";
    let header = layout::Function::default().sized(name);
    let row = rows::Function { header: &header, name, appended: &[] };
    writer.append_rows(&RecordFields::default(), &[row]).unwrap();
    let longer = rows::Function { name: b"names", ..row };
    let error = writer.append_rows(&RecordFields::default(), &[longer]).unwrap_err();
    assert!(error.message().contains("name_length is 4, not 5"), "{error}");
    let unsized_header = layout::Queue::default();
    let unsized_row = rows::Queue { header: &unsized_header, appended: &[] };
    let error = writer.append_rows(&RecordFields::default(), &[unsized_row]).unwrap_err();
    assert!(error.message().contains("record_length is 0, not 24"), "{error}");

    let header = layout::ExecutableTrace::default().sized(b"ab");
    let trace = rows::ExecutableTrace { header: &header, data: b"ab", appended: &[] };
    assert!(writer.append_rows(&RecordFields::default(), &[trace, trace]).is_err());
    writer.append_rows(&RecordFields::default(), &[trace]).unwrap();

    // Behind lists, appended bytes could not be told from a longer list.
    let header = layout::Function::default().sized(name);
    let row = rows::Function { header: &header, name, appended: b"newer" };
    let error = writer.append_rows(&RecordFields::default(), &[row]).unwrap_err();
    assert!(error.message().contains("length of appended bytes is 5, not 0"), "{error}");
}

/// A newer version may append fields to rows without lists.
#[test]
fn appended_fields_are_kept() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let mut header = layout::Queue { stream_id: U64::new(7), ..layout::Queue::default() }.sized();
    header.record_length = U32::new(header.record_length.get() + 5);
    let row = rows::Queue { header: &header, appended: b"newer" };
    writer.begin_session(&RecordFields::default()).unwrap();
    writer.append_rows(&RecordFields::default(), &[row, row]).unwrap();
    writer.end_session(&RecordFields::default(), 0).unwrap();
    let bytes = writer.into_inner().into_inner();
    assert_eq!(rewritten(&bytes), bytes);
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    let record = bundle.records().nth(1).unwrap().unwrap();
    let read: Vec<_> = record.rows::<rows::Queue<'_>>().map(Result::unwrap).collect();
    assert_eq!(read.len(), 2);
    assert_eq!((read[1].stream_id.get(), read[1].appended), (7, &b"newer"[..]));
    assert_eq!(record.rows::<rows::Device<'_>>().count(), 0, "rows of another content type");
}

/// Until a session has ended, the file has no length; a killed program leaves it like that.
#[test]
fn records_are_with_the_sink_before_a_session_ends() {
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file).unwrap();
    writer.begin_session(&RecordFields::default()).unwrap();
    let long = vec![1; 1 << 20];
    writer.append_chunk(&RecordFields::default(), b"x", &[&long, b"end"]).unwrap();
    drop(writer);
    let bytes = file.into_inner();
    let bundle = Bundle::open(&bytes, OpenOptions { recover: true }).unwrap();
    assert_eq!((bundle.header().file_length.get(), bundle.tear()), (0, None));
    let records: Vec<_> = bundle.records().map(Result::unwrap).collect();
    assert_eq!((records.len(), records[1].payload.len()), (2, long.len() + 3));
}

/// While a later session is open, the file has no length either: readers would ignore what is behind it.
#[test]
fn a_second_session_is_readable_before_it_ends() {
    let fields = RecordFields::default();
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut file).unwrap();
    writer.begin_session(&fields).unwrap();
    writer.end_session(&fields, 0).unwrap();
    writer.begin_session(&fields).unwrap();
    writer.append_chunk(&fields, b"x", &[b"y"]).unwrap();
    drop(writer);
    let bytes = file.into_inner();
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    assert_eq!((bundle.records().map(Result::unwrap).count(), bundle.is_closed()), (4, false));
}

#[test]
fn the_first_error_of_a_sink_is_sticky() {
    struct Full(u64);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += 1;
            if self.0 > 2 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    impl std::io::Seek for Full {
        fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
            Ok(0)
        }
    }
    let mut full = Full(0);
    let mut writer = Writer::new(&mut full).unwrap();
    let fields = RecordFields::default();
    writer.begin_session(&fields).unwrap();
    let first = writer.append_chunk(&fields, b"x", &[b"y"]).unwrap_err();
    let second = writer.end_session(&fields, 0).unwrap_err();
    assert_eq!(first.message(), second.message());
    assert_eq!(full.0, 3, "nothing was written after the error");
}
