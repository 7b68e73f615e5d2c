//! Captures of real programs, as the reference release recorded them.

mod common;

use rehal_capture::{Capture, OpenOptions};

#[test]
fn every_record_and_payload_of_real_captures_is_read() {
    for path in common::captures(false) {
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
