//! Malformed captures: always an error or fewer records, never a panic.

use fastrand::Rng;
use rehal_base::{Fault, Remedy};
use rehal_capture::fuzzing::exercise;
use rehal_capture::{Capture, OpenOptions, PayloadType, RecordType};
use testing::mutate;

const RECOVER: OpenOptions = OpenOptions { recover: true };

#[test]
fn truncation_anywhere_is_an_error_and_recoverable() {
    let bytes = testing::sample_capture();
    let starts: Vec<_> = Capture::open(&bytes, OpenOptions::default())
        .unwrap()
        .records()
        .map(|record| record.unwrap().offset as usize)
        .collect();
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        let error = Capture::open(cut, OpenOptions::default()).unwrap_err();
        if length < 24 {
            assert!(Capture::open(cut, RECOVER).is_err());
            continue;
        }
        assert_eq!((error.fault, error.field), (Fault::Truncated, "file_length"));
        assert_eq!(error.advice, Some(Remedy::RecoverTruncated.into()));
        let capture = Capture::open(cut, RECOVER).unwrap();
        let whole = starts.iter().skip(1).filter(|end| **end <= length).count();
        assert_eq!(
            capture.records().filter(|record| record.is_ok()).count(),
            whole,
            "truncated to {length} bytes"
        );
        match capture.tear() {
            None => assert!(length == 24 || starts.contains(&length)),
            Some(tear) => {
                assert_eq!(tear.offset as usize, starts[whole]);
                assert_eq!(tear.record_count as usize, whole);
                assert_eq!(tear.lost_bytes as usize, length - starts[whole]);
            }
        }
        exercise(cut);
    }
}

#[test]
fn an_unclosed_capture_is_recovered_up_to_its_end_or_zeros() {
    let mut bytes = testing::sample_capture();
    let count = Capture::open(&bytes, OpenOptions::default()).unwrap().records().count();
    bytes[16..24].fill(0);
    let error = Capture::open(&bytes, OpenOptions::default()).unwrap_err();
    assert_eq!((error.fault, error.field, error.offset), (Fault::Truncated, "file_length", 16));
    let capture = Capture::open(&bytes, RECOVER).unwrap();
    assert_eq!((capture.is_closed(), capture.tear()), (false, None));
    assert_eq!(capture.records().count(), count);

    let end = bytes.len();
    bytes.resize(end + 5000, 0);
    let capture = Capture::open(&bytes, RECOVER).unwrap();
    let tear = capture.tear().unwrap();
    assert_eq!((tear.offset, tear.record_count, tear.lost_bytes), (end as u64, count as u64, 5000));
    assert!(capture.records().all(|record| record.is_ok()));
}

/// A sparse file: its program was killed while writing far past the end, or `truncate` extended it.
#[test]
fn recovery_does_not_scan_holes() {
    use std::io::Write;
    let mut bytes = testing::sample_capture();
    let count = Capture::open(&bytes, OpenOptions::default()).unwrap().records().count();
    bytes[16..24].fill(0);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    file.as_file().set_len(1 << 42).unwrap();
    let map = rehal_base::MappedFile::open(file.path()).unwrap();
    let capture = Capture::open_mapped(&map, RECOVER).unwrap();
    let tear = capture.tear().unwrap();
    let lost_bytes = (1 << 42) - bytes.len() as u64;
    assert_eq!(
        (tear.offset, tear.record_count, tear.lost_bytes),
        (bytes.len() as u64, count as u64, lost_bytes)
    );
    assert_eq!(capture.records().count(), count);
}

#[test]
fn recovery_accepts_a_tear_but_no_damage() {
    let mut bytes = testing::sample_capture();
    bytes[16..24].fill(0);
    let third = Capture::open(&bytes, RECOVER).unwrap().records().nth(2).unwrap().unwrap().offset as usize;
    bytes[third + 80] = 1;
    let capture = Capture::open(&bytes, RECOVER).unwrap();
    assert_eq!(capture.tear(), None);
    let error = capture.records().find_map(Result::err).unwrap();
    assert_eq!((error.fault, error.field, error.record), (Fault::Corrupt, "reserved0", Some(2)));
    assert_eq!(error.offset as usize, third + 80);
}

#[test]
fn mutations_of_the_sample_do_not_panic() {
    let seed = testing::sample_capture();
    let mut random = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let mut read = 0;
    for _ in 0..4000 {
        let mut bytes = seed.clone();
        mutate(&mut bytes, &mut random);
        read += exercise(&bytes);
    }
    // Most mutations leave most records readable; otherwise the test would exercise nothing.
    assert!(read > 100_000, "{read}");
}

/// Sets every 4- and 8-byte field of every payload header to values that overflow when multiplied.
#[test]
fn huge_counts() {
    let seed = testing::sample_capture();
    let capture = Capture::open(&seed, OpenOptions::default()).unwrap();
    for record in capture.records() {
        let record = record.unwrap();
        let at = record.payload_offset() as usize;
        for field in (0..record.payload.len().min(160)).step_by(4) {
            for value in [u64::MAX, u64::MAX / 16 + 1, u64::MAX / 32 + 1, u64::MAX / 40 + 1, 1 << 40] {
                let mut bytes = seed.clone();
                let length = (record.payload.len() - field).min(8);
                bytes[at + field..at + field + length].copy_from_slice(&value.to_le_bytes()[..length]);
                let changed = Capture::open(&bytes, OpenOptions::default()).unwrap();
                let again = changed.records_from(record.offset, record.ordinal()).next().unwrap().unwrap();
                match again.payload() {
                    Ok(payload) => payload.with_parts(|parts| assert_eq!(parts.concat(), again.payload)),
                    Err(error) => {
                        assert_eq!(error.record, Some(record.ordinal()));
                        assert!(error.offset >= at as u64);
                        assert!(error.offset <= (at + record.payload.len()) as u64);
                    }
                }
            }
        }
    }
}

/// The first error in the sample after `change` is applied to the first record for which `pick` is true.
fn error_after(
    pick: impl Fn(&rehal_capture::Record<'_>) -> bool,
    change: impl Fn(&mut [u8]),
) -> rehal_base::FormatError {
    let mut bytes = testing::sample_capture();
    let (offset, length) = {
        let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
        let record = capture.records().map(Result::unwrap).find(pick).unwrap();
        (record.offset as usize, record.header.record_length.get() as usize)
    };
    change(&mut bytes[offset..offset + length]);
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    capture
        .records()
        .find_map(|record| match record {
            Ok(record) => record.payload().err(),
            Err(error) => Some(error),
        })
        .unwrap()
}

#[test]
fn errors_name_the_field() {
    let executable = |r: &rehal_capture::Record<'_>| r.payload_type() == PayloadType::EXECUTABLE_PREPARE;
    let dispatch = |r: &rehal_capture::Record<'_>| r.payload_type() == PayloadType::DISPATCH;
    let object = |r: &rehal_capture::Record<'_>| r.payload_type() == PayloadType::BUFFER_OBJECT;
    let optional = |r: &rehal_capture::Record<'_>| !r.record_type().is_known();
    let scope = |r: &rehal_capture::Record<'_>| r.payload_type() == PayloadType::REPLAY_SCOPE;
    let session = |r: &rehal_capture::Record<'_>| r.record_type() == RecordType::SESSION;

    assert_eq!(error_after(session, |r| r[0] += 1).field, "payload_length");
    assert_eq!(error_after(session, |r| r[8] += 1).field, "payload_length");
    assert_eq!(error_after(session, |r| r[16] = 3).field, "sequence_ordinal");
    assert_eq!(error_after(session, |r| r[56] = 95).field, "header_length");
    assert_eq!(error_after(session, |r| r[60] = 0).field, "record_type");
    assert_eq!(error_after(session, |r| r[62] = 2).field, "record_flags");
    assert_eq!(error_after(session, |r| r[88] = 1).field, "reserved1");
    assert_eq!(error_after(object, |r| r[76] = 19).field, "status_code");
    assert_eq!(error_after(dispatch, |r| r[78] = 1).field, "status_code");
    assert_eq!(error_after(object, |r| r[68] = 5).field, "payload_type");
    assert_eq!(error_after(object, |r| r[68] = 0).field, "object_type");
    assert_eq!(error_after(object, |r| r[40] = 0).field, "object_id");
    assert_eq!(error_after(object, |r| r[72] = 1).field, "operation_code");
    assert_eq!(error_after(dispatch, |r| r[68] = 1).field, "object_type");
    assert_eq!(error_after(dispatch, |r| r[64] = 9).field, "payload_type");
    assert_eq!(error_after(object, |r| r[96 + 46] = 1).field, "reserved0");
    assert_eq!(error_after(dispatch, |r| r[96 + 76] = 1).field, "workgroup_count_ref.reserved0");
    assert_eq!(error_after(dispatch, |r| r[96 + 112] = 9).field, "binding_count");
    assert_eq!(error_after(dispatch, |r| r[96 + 112] = 1).field, "payload_length");
    assert_eq!(error_after(scope, |r| r[96 + 8] = 1).field, "flags");
    let names = error_after(executable, |r| r[96 + 40 + 6 + 11 + 8 + 16] += 1);
    assert_eq!(names.field, "function_name_storage_length");

    let unknown = error_after(optional, |r| r[62] = 0);
    assert_eq!((unknown.fault, unknown.field), (Fault::Unsupported, "record_type"));
    let list = error_after(dispatch, |r| {
        let last = r.len();
        r[last - 4] = 1;
    });
    assert_eq!((list.fault, list.field), (Fault::Corrupt, "reserved0"));
}

#[test]
fn the_file_header_is_checked() {
    let error_with = |at: usize, value: &[u8]| {
        let mut bytes = testing::sample_capture();
        bytes[at..at + value.len()].copy_from_slice(value);
        Capture::open(&bytes, OpenOptions::default()).unwrap_err()
    };
    assert_eq!(error_with(0, b"vmfb").field, "magic");
    let version = error_with(4, &[3]);
    assert_eq!(
        (version.fault, version.field, version.found.as_str()),
        (Fault::Unsupported, "version", "3.0")
    );
    assert_eq!(error_with(8, &[23]).field, "header_length");
    assert_eq!(error_with(8, &[255; 4]).field, "header_length");
    assert_eq!(error_with(12, &[1]).field, "flags");
    assert_eq!(error_with(16, &[23, 0, 0, 0]).field, "file_length");
    assert_eq!(error_with(16, &[255; 8]).fault, Fault::Truncated);
    assert_eq!(Capture::open(b"", OpenOptions::default()).unwrap_err().fault, Fault::Truncated);
    assert_eq!(Capture::open(b"{}", OpenOptions::default()).unwrap_err().field, "magic");
}

/// Version 1.0 is 2.0 without names: the two fields that hold the lengths of names were reserved.
#[test]
fn version_1_has_functions_without_names() {
    let mut bytes = testing::sample_capture();
    bytes[4] = 1;
    let executable = |capture: &Capture<'_>| {
        let prepare = |r: &rehal_capture::Record<'_>| r.payload_type() == PayloadType::EXECUTABLE_PREPARE;
        let record = capture.records().map(Result::unwrap).find(prepare).unwrap();
        (record.payload_offset() as usize, record.payload().map(drop))
    };
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    assert_eq!((capture.version().major, capture.version().minor), (1, 0));
    let (payload, named) = executable(&capture);
    let error = named.unwrap_err();
    assert_eq!((error.field, error.found.as_str()), ("metadata.reserved0", "15"));

    // Removes the names: their lengths in the header and in the functions, and their bytes.
    let metadata = payload + 40 + 6 + 11 + 8;
    bytes[metadata + 16] = 0;
    for function in 0..3 {
        bytes[metadata + 32 + 32 * function + 26] = 0;
    }
    let end = metadata + 32 + 3 * 32 + 3 * 8;
    bytes.drain(end..end + 15);
    for (at, width) in [(16, 8), (payload - 96, 8), (payload - 88, 8), (payload + 32, 4)] {
        let value = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) - 15;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        assert!(bytes[at + 4..at + width].iter().all(|byte| *byte == 0));
    }
    let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
    executable(&capture).1.unwrap();
    assert!(capture.records().all(|record| record.unwrap().payload().is_ok()));
}
