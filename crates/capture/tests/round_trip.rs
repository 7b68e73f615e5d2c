//! What is read and written again is the same file, byte for byte.

mod common;

use std::io::Cursor;

use rehal_capture::{Capture, OpenOptions, Payload, PayloadType, RecordFields, Writer, sample};

/// Reads every record of `bytes` and writes it again, the payload in as many parts as it has lists.
fn rewritten(bytes: &[u8]) -> Vec<u8> {
    let capture = Capture::open(bytes, OpenOptions { recover: true }).unwrap();
    let mut copy = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut copy).unwrap();
    for record in capture.records() {
        let record = record.unwrap();
        let payload = record.payload().unwrap();
        payload.with_parts(|parts| writer.append(&RecordFields::from(record.header), parts)).unwrap();
    }
    writer.close().unwrap();
    copy.into_inner()
}

/// The reference leaves whatever its stack held in the padding of record headers; we write zeros.
fn without_padding(mut bytes: Vec<u8>) -> Vec<u8> {
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let offsets: Vec<_> = capture.records().map(|record| record.unwrap().offset as usize).collect();
    let at = std::mem::offset_of!(rehal_capture::layout::RecordHeader, padding);
    for offset in offsets {
        bytes[offset + at..offset + at + 4].fill(0);
    }
    bytes
}

#[test]
fn the_sample_survives_and_has_every_payload() {
    let bytes = sample::capture();
    assert_eq!(rewritten(&bytes), bytes);
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    for payload_type in PayloadType::ALL {
        let found = capture.records().any(|record| record.unwrap().payload_type() == *payload_type);
        assert!(found, "{payload_type}");
    }
}

#[test]
fn real_captures_survive() {
    for path in common::captures(false) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(rewritten(&bytes) == without_padding(bytes), "{}", path.display());
    }
}

#[test]
fn a_payload_survives_any_alignment() {
    let bytes = sample::capture();
    for shift in 0..8 {
        let shifted = [vec![0xEE; shift], bytes.clone()].concat();
        assert_eq!(rewritten(&shifted[shift..]), bytes);
    }
}

#[test]
fn a_writer_refuses_a_count_that_is_not_the_length_of_its_list() {
    let bytes = sample::capture();
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    let mut writer = Writer::new(std::io::sink()).unwrap();
    let mut refused = 0;
    for record in capture.records() {
        let record = record.unwrap();
        if let Payload::QueueExecute(mut execute) = record.payload().unwrap() {
            let fields = RecordFields::from(record.header);
            writer.append_view(&fields, &execute).unwrap();
            execute.waits = &execute.waits[1..];
            let error = writer.append_view(&fields, &execute).unwrap_err();
            assert!(error.message().contains("wait_semaphore_count is 2 for a list of 1"), "{error}");
            refused += 1;
        }
    }
    assert_eq!((refused, writer.record_count()), (2, 2));
}
