//! Checksums of captures: every bit flip is detected, and damage is located.

#![allow(clippy::result_large_err, reason = "as in the crate")]

use std::io::Cursor;

use rehal_base::{Fault, FormatError, Remedy};
use rehal_capture::payload::{self as view};
use rehal_capture::{
    Capture, ChecksumState, Damage, ObjectType, OpenOptions, OperationCode, PayloadType, RecordFields,
    RecordType, Writer, layout,
};
use zerocopy::little_endian::U64;

const STRICT: OpenOptions = OpenOptions { recover: false };
const RECOVER: OpenOptions = OpenOptions { recover: true };

/// Lengths of the host writes in the capture: within a block, across a block boundary, and across many
/// blocks.
const WRITES: [usize; 5] = [7, 4096, 3000, 30_000, 5];

const CALL: RecordFields = RecordFields {
    record_type: RecordType::OPERATION,
    optional: false,
    thread_id: 7,
    device_id: 1,
    object_id: 2,
    related_object_id: 0,
    payload_type: PayloadType::NONE,
    object_type: ObjectType::BUFFER,
    operation: OperationCode::BUFFER_FLUSH_RANGE,
    status_code: 0,
};

type MemoryWriter<'b> = Writer<Cursor<&'b mut Vec<u8>>>;

fn append_write(writer: &mut MemoryWriter<'_>, length: usize) {
    let header = layout::BufferRangeData {
        byte_length: U64::new(length as u64),
        data_length: U64::new(length as u64),
        ..Default::default()
    };
    let data: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
    writer.append_view(&CALL, &view::BufferRangeData { header: &header, data: &data }).unwrap();
}

/// A capture with two statuses patched later: the second record's in the sink, the last record's in the
/// buffer.
fn capture() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Cursor::new(&mut bytes)).unwrap();
    writer.begin_checksummed(&RecordFields { thread_id: 9, ..RecordFields::default() }).unwrap();
    let submission = RecordFields {
        object_id: 1,
        object_type: ObjectType::DEVICE,
        operation: OperationCode::DEVICE_QUEUE_FLUSH,
        ..CALL
    };
    let early = writer.length_bytes();
    writer.append(&submission, &[]).unwrap();
    WRITES.iter().for_each(|length| append_write(&mut writer, *length));
    writer.flush().unwrap();
    writer.set_status(early, 13);
    let late = writer.length_bytes();
    writer.append(&submission, &[]).unwrap();
    writer.set_status(late, 5);
    writer.close().unwrap();
    bytes
}

/// Opens `bytes` and reads each record with its payload.
fn read(bytes: &[u8], options: OpenOptions) -> Result<u64, FormatError> {
    let mut count = 0;
    for record in Capture::open(bytes, options)?.records() {
        record?.payload()?;
        count += 1;
    }
    Ok(count)
}

/// Like [`read`], for readers that skip the data.
fn skim(bytes: &[u8]) -> Result<(), FormatError> {
    for record in Capture::open(bytes, STRICT)?.records_without_data() {
        record?.payload()?;
    }
    Ok(())
}

#[test]
fn an_intact_capture_verifies() {
    let bytes = capture();
    let records = WRITES.len() as u64 + 4;
    assert_eq!((read(&bytes, STRICT), read(&bytes, RECOVER)), (Ok(records), Ok(records)));
    skim(&bytes).unwrap();
    let capture = Capture::open(&bytes, STRICT).unwrap();
    assert_eq!((capture.checksums(), capture.damage(&mut |_| {})), (ChecksumState::Present, vec![]));
    let all: Vec<_> = capture.records().map(Result::unwrap).collect();
    let statuses: Vec<_> = all.iter().map(|record| record.header.status_code.get()).collect();
    assert_eq!(statuses, [0, 13, 0, 0, 0, 0, 0, 5, 0]);
    let (first, last) = (all.first().unwrap(), all.last().unwrap());
    assert_eq!((first.record_type(), first.payload_type()), (RecordType::SESSION, PayloadType::CHECKSUMMED));
    assert_eq!((last.record_type(), last.payload_type()), (RecordType::SESSION, PayloadType::CHECKSUMS));
    assert_eq!(first.header.thread_id.get(), 9);
    // Bytes after the end are not part of the capture.
    let longer = [&bytes[..], b"more"].concat();
    assert_eq!(read(&longer, STRICT), Ok(records));
}

/// The writer flushes in pieces of any size, and a long payload may be passed in parts or as a tail.
#[test]
fn checksums_do_not_depend_on_chunking() {
    let blob = RecordFields { record_type: RecordType::BLOB, ..RecordFields::default() };
    let data: Vec<u8> = (0..3_000_000u32).map(|at| (at / 5) as u8).collect();
    let write = |append: &dyn Fn(&mut MemoryWriter<'_>)| {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(Cursor::new(&mut bytes)).unwrap();
        writer.begin_checksummed(&RecordFields::default()).unwrap();
        append(&mut writer);
        writer.close().unwrap();
        bytes
    };
    let whole = write(&|writer| writer.append(&blob, &[&data]).unwrap());
    let parts = write(&|writer| {
        let parts: Vec<_> = data.chunks(100_003).collect();
        writer.append(&blob, &parts).unwrap();
    });
    let tail = write(&|writer| {
        let length = data.len() as u64;
        writer
            .append_with_tail(&blob, &[], length, |at, target| {
                target.copy_from_slice(&data[at as usize..][..target.len()]);
            })
            .unwrap();
    });
    assert!(whole == tail);
    for bytes in [whole, parts] {
        assert_eq!(read(&bytes, STRICT), Ok(3));
        let capture = Capture::open(&bytes, STRICT).unwrap();
        assert!(capture.records().any(|record| record.unwrap().payload == data));
    }
}

/// Every bit of the file, including the checksums.
#[test]
fn every_bit_flip_is_detected() {
    let bytes = capture();
    let whole = Capture::open(&bytes, STRICT).unwrap();
    let data: Vec<_> = whole
        .records()
        .map(Result::unwrap)
        .map(|record| {
            let data = record.payload().unwrap().data().len() as u64;
            let end = record.payload_offset() + record.payload.len() as u64;
            end - data..end
        })
        .collect();
    let mut changed = bytes.clone();
    // Every bit outside of data; in data, a stride that visits each block.
    let is_data = |at: u64| data.iter().any(|range| range.contains(&at));
    for at in 0..bytes.len() {
        if is_data(at as u64) && at % 61 != 0 {
            continue;
        }
        for bit in 0..8 {
            changed[at] ^= 1 << bit;
            let error = read(&changed, STRICT).expect_err("no error");
            let place = || format!("bit {bit} of byte {at}: {error}");
            assert!(
                matches!(error.fault, Fault::Corrupt | Fault::Truncated | Fault::Unsupported),
                "{}",
                place()
            );
            if at >= 24 && error.field == "checksum" {
                assert!(error.offset <= at as u64 && at as u64 <= error.offset + 4096, "{}", place());
            }
            if let Err(error) = skim(&changed) {
                assert!(error.record.is_some() || at < 24 || at > bytes.len() - 400, "{}", place());
            } else {
                // Only in blocks that contain nothing but data.
                let block = at as u64 / 4096 * 4096;
                let inside = |range: &std::ops::Range<u64>| range.start <= block && block + 4096 <= range.end;
                assert!(data.iter().any(inside), "{}", place());
            }
            changed[at] ^= 1 << bit;
        }
    }
    assert_eq!(changed, bytes);
}

/// Overwritten values, runs copied from elsewhere, several at once: what fuzzing does to captures.
#[test]
fn mutations_are_detected() {
    let bytes = capture();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..1000 {
        let mut changed = bytes.clone();
        testing::mutate(&mut changed, &mut random);
        assert_eq!(read(&changed, STRICT).is_ok(), changed == bytes);
        rehal_capture::fuzzing::exercise(&changed);
    }
}

#[test]
fn damage_is_located_by_blocks_and_records() {
    let bytes = capture();
    let records: Vec<_> = Capture::open(&bytes, STRICT).unwrap().records().map(Result::unwrap).collect();
    let offset_of = |ordinal: usize| records[ordinal].offset as usize;
    let damage_after = |flips: &[usize]| {
        let mut changed = bytes.clone();
        flips.iter().for_each(|at| changed[*at] ^= 0x10);
        let capture = Capture::open(&changed, RECOVER).unwrap();
        (capture.damage(&mut |_| {}), read(&changed, RECOVER))
    };
    // In the long write, record 5: one block, two adjacent ones, and a separate one.
    let data = (offset_of(5) + 5_000) / 4096 * 4096;
    let block = |index: usize, count: u64, records| Damage {
        offset: (data + index * 4096) as u64,
        length: count * 4096,
        records: Some(records),
    };
    let (damage, read_on) = damage_after(&[data + 5, data + 4096, data + 5 * 4096 - 1]);
    assert_eq!(damage, [block(0, 2, (5, 5)), block(4, 1, (5, 5))]);
    assert_eq!(read_on, Ok(records.len() as u64), "recovery reads all records");
    // The first block holds records 0 to 3.
    let (damage, _) = damage_after(&[offset_of(2) + 24]);
    assert_eq!(damage, [Damage { offset: 0, length: 4096, records: Some((0, 3)) }]);
    // After a damaged header, record boundaries are unknown.
    let (damage, read_on) = damage_after(&[offset_of(1), data]);
    assert_eq!(
        damage,
        [
            Damage { offset: 0, length: 4096, records: Some((0, 0)) },
            Damage { records: None, ..block(0, 1, (0, 0)) }
        ]
    );
    assert_eq!(read_on.unwrap_err().record, Some(1));
    // Damaged checksums cannot verify the rest of the file.
    let last = records.last().unwrap();
    let length = bytes.len() as u64 - last.offset;
    let (damage, _) = damage_after(&[bytes.len() - 14, data]);
    assert_eq!(damage, [Damage { offset: last.offset, length, records: Some((8, 8)) }]);
}

#[test]
fn an_error_has_block_record_and_advice() {
    let mut bytes = capture();
    let third = Capture::open(&bytes, STRICT).unwrap().records().nth(3).unwrap().unwrap().offset as usize;
    bytes[third + 4000] ^= 1;
    let error = read(&bytes, STRICT).unwrap_err();
    assert_eq!(
        (error.fault, error.field, error.offset, error.record),
        (Fault::Corrupt, "checksum", 4096, Some(3))
    );
    assert!(error.expected.ends_with("for bytes 4096 to 8191"), "{error}");
    assert_eq!(error.advice, Some(Remedy::RecoverDamaged.into()));
}

#[test]
fn checksums_are_absent_missing_or_present() {
    let sample = testing::sample_capture();
    assert_eq!(Capture::open(&sample, STRICT).unwrap().checksums(), ChecksumState::Absent);
    // Never closed, or truncated: the checksums are at the end.
    let mut bytes = capture();
    bytes[16..24].fill(0);
    let open = Capture::open(&bytes, RECOVER).unwrap();
    assert_eq!((open.checksums(), open.damage(&mut |_| {})), (ChecksumState::Missing, vec![]));
    let bytes = capture();
    let cut = Capture::open(&bytes[..bytes.len() - 1], RECOVER).unwrap();
    assert_eq!(cut.checksums(), ChecksumState::Missing);
    // A length that ends before the checksums does not bypass them.
    let mut bytes = capture();
    let last = Capture::open(&bytes, STRICT).unwrap().records().last().unwrap().unwrap().offset;
    bytes[16..24].copy_from_slice(&last.to_le_bytes());
    let error = read(&bytes, STRICT).unwrap_err();
    assert_eq!((error.fault, error.field, error.offset), (Fault::Corrupt, "checksums", last));
    assert_eq!(read(&bytes, RECOVER), Ok(WRITES.len() as u64 + 3));
}

#[test]
fn checksums_must_be_announced_by_the_first_record() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    writer
        .append(&RecordFields { record_type: RecordType::SESSION, ..RecordFields::default() }, &[])
        .unwrap();
    assert!(writer.begin_checksummed(&RecordFields::default()).is_err());
}
