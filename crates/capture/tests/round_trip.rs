//! Reading and rewriting a capture yields the same bytes.

#[allow(dead_code, reason = "shared with the tests that mutate captures")]
mod common;

use common::rewritten;
use rehal_capture::{Capture, OpenOptions, Payload, PayloadType, RecordFields, Writer};

#[test]
fn the_sample_round_trips_and_has_every_payload() {
    let bytes = testing::sample_capture();
    assert_eq!(rewritten(&bytes), bytes);
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    for payload_type in PayloadType::ALL {
        let found = capture.records().any(|record| record.unwrap().payload_type() == *payload_type);
        assert!(found, "{payload_type}");
    }
}

#[test]
fn payloads_round_trip_at_any_alignment() {
    let bytes = testing::sample_capture();
    for shift in 0..8 {
        let shifted = [vec![0xEE; shift], bytes.clone()].concat();
        assert_eq!(rewritten(&shifted[shift..]), bytes);
    }
}

#[test]
fn a_writer_rejects_a_count_that_differs_from_its_list() {
    let bytes = testing::sample_capture();
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
