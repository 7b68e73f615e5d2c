//! Rewriting captures, for several tests.

use std::io::Cursor;

use rehal_capture::{Capture, OpenOptions, RecordFields, Writer};

/// Reads every record of `bytes` and writes it again, its payload in one part per list.
pub fn rewritten(bytes: &[u8]) -> Vec<u8> {
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
