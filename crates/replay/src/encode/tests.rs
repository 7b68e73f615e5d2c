//! Round trips: a decoded record encodes to the same bytes, except for the fields listed in [`UNUSED`] and
//! [`RULED_OUT`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::{Path, PathBuf};

use rehal_capture::{Capture, OpenOptions, Record, RecordFields, Writer};

use rehal_hal::Op;

use super::*;
use crate::decode::decode;

/// A record for comparison: the fields of its call, its payload type and the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain {
    call: Call,
    payload_type: PayloadType,
    payload: Vec<u8>,
}

impl Plain {
    fn from_record(record: &Record<'_>) -> Self {
        let header = record.header;
        let object_type = record.object_type();
        let call = Call {
            record_type: record.record_type(),
            operation: record.operation(),
            object_type,
            device: (record.record_type() == RecordType::OBJECT).then_some(header.device_id.get()),
            object: header.object_id.get(),
            related: header.related_object_id.get(),
        };
        Self { call, payload_type: record.payload_type(), payload: record.payload.to_vec() }
    }

    /// Decodes the record and encodes the operation again; `None` if it contains no operation or is rejected.
    fn again(&self) -> Option<Self> {
        let mut bytes = Cursor::new(Vec::new());
        let fields = RecordFields {
            record_type: self.call.record_type,
            device_id: self.call.device.unwrap_or(1),
            object_id: self.call.object,
            related_object_id: self.call.related,
            payload_type: self.payload_type,
            object_type: self.call.object_type,
            operation: self.call.operation,
            ..Default::default()
        };
        let mut writer = Writer::new(&mut bytes).unwrap();
        writer.append(&fields, &[&self.payload]).unwrap();
        writer.close().unwrap();
        let bytes = bytes.into_inner();
        let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
        encoded(&capture.records().next().unwrap().unwrap())
    }
}

/// The encoding of the operation that a record decodes to.
fn encoded(record: &Record<'_>) -> Option<Plain> {
    let mut found = None;
    let mut put = |call, payload_type, parts: &[&[u8]]| {
        assert!(found.is_none(), "an operation encodes to one record");
        found = Some(Plain { call, payload_type, payload: parts.concat() });
    };
    match decode(record).ok()?? {
        Op::Host(it) => host_op(&it, &mut put),
        Op::Info(it) => info_op(&it, &mut put),
        Op::Command { into, command: it } => command(into, &it, &mut put),
        Op::Queue(it) => submission(&it, &mut put),
    }
    assert!(found.is_some(), "{} is encoded as nothing", record.operation());
    found
}

/// The captures of real programs: those in `fixtures/` and, if present, in the corpus.
fn captures() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures");
    let corpus = std::env::var_os("REHAL_CORPUS").map(PathBuf::from);
    let mut left: Vec<_> = std::iter::once(fixtures).chain(corpus).collect();
    let mut found = Vec::new();
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false if path.extension().is_some_and(|it| it == "ireereplay") => found.push(path),
                false => {}
            }
        }
    }
    found
}

fn records(bytes: &[u8]) -> Vec<Record<'_>> {
    match Capture::open(bytes, OpenOptions { recover: true }) {
        Ok(capture) => capture.records().map_while(Result::ok).collect(),
        Err(_) => Vec::new(),
    }
}

type Ranges = &'static [(PayloadType, std::ops::Range<usize>)];

/// Payload bytes that operations omit, since nothing depends on them.
const UNUSED: Ranges = &[
    // Padding, which may contain anything.
    (PayloadType::BUFFER_RANGE, 28..32),
    (PayloadType::BUFFER_RANGE_DATA, 36..40),
    (PayloadType::FILE_OBJECT, 108..112),
    // The address of an update's bytes in the program's memory.
    (PayloadType::DEVICE_QUEUE_UPDATE, 48..56),
    (PayloadType::COMMAND_BUFFER_UPDATE_BUFFER, 40..48),
];

/// Payload bytes that operations omit if other fields make them irrelevant. No recorder writes them.
const RULED_OUT: Ranges = &[
    // The slot of a reference that names a buffer.
    (PayloadType::DEVICE_QUEUE_FILL, 24..28),
    (PayloadType::DEVICE_QUEUE_UPDATE, 24..28),
    (PayloadType::DEVICE_QUEUE_COPY, 24..28),
    (PayloadType::DEVICE_QUEUE_COPY, 56..60),
    (PayloadType::DEVICE_QUEUE_READ, 40..44),
    (PayloadType::DEVICE_QUEUE_WRITE, 24..28),
    (PayloadType::COMMAND_BUFFER_UPDATE_BUFFER, 24..28),
    (PayloadType::COMMAND_BUFFER_COPY_BUFFER, 24..28),
    // Also the slot, and the offset: a buffer is deallocated as a whole.
    (PayloadType::DEVICE_QUEUE_DEALLOCA, 8..16),
    (PayloadType::DEVICE_QUEUE_DEALLOCA, 24..28),
    // The queue of a dispatch in a command buffer; the workgroup count not selected by the flags.
    (PayloadType::DISPATCH, 8..16),
    (PayloadType::DISPATCH, 36..48),
    (PayloadType::DISPATCH, 72..76),
    // Undefined access bits; the validation of a file stored in the capture, and a digest without digest
    // validation.
    (PayloadType::FILE_OBJECT, 50..52),
    (PayloadType::FILE_OBJECT, 64..70),
    (PayloadType::FILE_OBJECT, 76..108),
];

fn listed(list: Ranges, payload_type: PayloadType, offset: usize) -> bool {
    list.iter().any(|(it, range)| *it == payload_type && range.contains(&offset))
}

fn without_unused(mut plain: Plain) -> Plain {
    for (offset, byte) in plain.payload.iter_mut().enumerate() {
        if listed(UNUSED, plain.payload_type, offset) {
            *byte = 0;
        }
    }
    plain
}

#[test]
fn records_of_programs_round_trip() {
    let mut compared = BTreeMap::<&str, u32>::new();
    for path in captures() {
        let bytes = std::fs::read(&path).unwrap();
        for record in records(&bytes) {
            let Some(now) = encoded(&record) else { continue };
            let was = without_unused(Plain::from_record(&record));
            assert_eq!(
                was,
                without_unused(now),
                "{} at {} of {}",
                record.operation(),
                record.offset,
                path.display()
            );
            *compared.entry(record.operation().name()).or_default() += 1;
        }
    }
    assert!(compared.len() >= 20, "{compared:?}");
}

/// A change of any payload byte is rejected, changes the operation, or is listed.
#[test]
fn every_other_payload_byte_is_preserved() {
    let mut missing = BTreeMap::<(PayloadType, &str), BTreeSet<usize>>::new();
    let lists = UNUSED.iter().chain(RULED_OUT);
    let mut kept: BTreeSet<(PayloadType, usize)> =
        lists.flat_map(|(it, range)| range.clone().map(|offset| (*it, offset))).collect();
    let mut covered = BTreeSet::new();
    for canonical in canonical_records() {
        covered.insert((canonical.call.operation, canonical.payload_type));
        assert_eq!(canonical.again().as_ref(), Some(&canonical), "{}", canonical.call.operation);
        for offset in 0..canonical.payload.len() {
            for change in [0x01, 0x02, 0x40, 0xff] {
                let mut changed = canonical.clone();
                changed.payload[offset] ^= change;
                let Some(again) = changed.again() else { continue };
                if again.payload.get(offset) == changed.payload.get(offset) {
                    continue;
                }
                let payload_type = canonical.payload_type;
                kept.remove(&(payload_type, offset));
                if !listed(UNUSED, payload_type, offset) && !listed(RULED_OUT, payload_type, offset) {
                    missing
                        .entry((payload_type, canonical.call.operation.name()))
                        .or_default()
                        .insert(offset);
                }
            }
        }
    }
    assert!(missing.is_empty(), "lost: {missing:?}");
    assert!(kept.is_empty(), "listed as unused, but preserved: {kept:?}");
    let all = Code::ALL.iter().flat_map(|code| code.payload_types().iter().map(|it| (*code, *it)));
    let all: BTreeSet<_> = all.filter(|(_, payload_type)| *payload_type != PayloadType::NONE).collect();
    assert_eq!(covered, all, "every operation with each of its payload types");
}

/// Each operation with each of its payload types, with the payloads of the sample.
fn canonical_records() -> Vec<Plain> {
    let bytes = testing::sample_capture();
    let mut found = Vec::new();
    for record in records(&bytes) {
        let payload_type = record.payload_type();
        for code in Code::ALL.iter().filter(|code| code.payload_types().contains(&payload_type)) {
            if payload_type != PayloadType::NONE {
                let call = Call::new(*code, 7, 99);
                found.extend(Plain { call, payload_type, payload: record.payload.to_vec() }.again());
            }
        }
    }
    found
}

/// Every operation code is decoded, or rejected with the reason; none is skipped silently.
#[test]
fn every_operation_is_decoded_or_rejected_by_name() {
    let mut refused = Vec::new();
    for code in Code::ALL.iter().filter(|code| **code != Code::NONE) {
        if code.payload_types() != [PayloadType::NONE] {
            continue;
        }
        let plain =
            Plain { call: Call::new(*code, 7, 0), payload_type: PayloadType::NONE, payload: Vec::new() };
        match plain.again() {
            Some(again) => assert_eq!(again, plain, "{code}"),
            None => refused.push(code.name()),
        }
    }
    assert_eq!(
        refused,
        [
            "device.refine_topology_edge",
            "device.create_channel",
            "device.queue_host_call",
            "allocator.export_buffer",
            "allocator.virtual_memory_query_granularity",
            "allocator.virtual_memory_reserve",
            "allocator.virtual_memory_release",
            "allocator.physical_memory_allocate",
            "allocator.physical_memory_free",
            "allocator.virtual_memory_map",
            "allocator.virtual_memory_unmap",
            "allocator.virtual_memory_protect",
            "allocator.virtual_memory_advise",
            "command_buffer.collective",
            "executable_cache.infer_format",
            "executable_cache.can_prepare_format",
        ]
    );
}
