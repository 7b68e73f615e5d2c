//! Helpers shared by several tests: rewriting and mutating captures.

use std::io::Cursor;

use fastrand::Rng;
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
