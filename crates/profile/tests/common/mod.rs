//! Steps of several tests with a bundle: write it again, and print it.

use std::io::Cursor;

use rehal_profile::report::{self, ReportOptions};
use rehal_profile::{Bundle, OpenOptions, RecordFields, RecordType, Writer};

/// Reads every record and row of `bytes` and writes them again.
pub fn rewritten(bytes: &[u8]) -> Vec<u8> {
    let bundle = Bundle::open(bytes, OpenOptions::default()).unwrap();
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    for record in bundle.records() {
        let record = record.unwrap();
        let fields = RecordFields::from_record(&record);
        let mut payload = Vec::new();
        record.with_rows(|parts| parts.iter().for_each(|part| payload.extend_from_slice(part))).unwrap();
        let status = record.header.session_status_code.get();
        match record.record_type() {
            RecordType::SESSION_BEGIN => writer.begin_session(&fields),
            RecordType::SESSION_END => writer.end_session(&fields, status),
            RecordType::CHUNK => writer.append_chunk(&fields, record.content_type, &[&payload]),
            other => writer.append(other, status, &fields, record.content_type, &[&payload]),
        }
        .unwrap();
    }
    assert_eq!(writer.length_bytes(), bytes.len() as u64);
    writer.into_inner().into_inner()
}

/// The output of a report, and the error that ended it.
pub fn printed(bytes: &[u8], options: &ReportOptions) -> (Vec<u8>, Option<rehal_base::Error>) {
    let bundle = Bundle::open(bytes, OpenOptions::default()).unwrap();
    let mut output = Vec::new();
    let error = report::print(&bundle, options, &mut output).err();
    (output, error)
}
