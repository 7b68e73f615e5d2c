//! What several tests do with a bundle: write it again, and change it.

use std::io::Cursor;

use fastrand::Rng;
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

/// Changes a few bytes: bits, whole values that overflow, or runs copied from elsewhere.
pub fn mutate(bytes: &mut [u8], random: &mut Rng) {
    const EXTREMES: [u64; 6] = [0, 1, u64::MAX, u64::MAX / 16 + 1, 1 << 32, u64::MAX >> 1];
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len());
        match random.usize(..4) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at] = random.u8(..),
            2 => {
                let value = EXTREMES[random.usize(..EXTREMES.len())].to_le_bytes();
                let length = value.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&value[..length]);
            }
            _ => {
                let length = random.usize(..64).min(bytes.len() - at);
                let from = random.usize(..bytes.len() - length);
                bytes.copy_within(from..from + length, at);
            }
        }
    }
}
