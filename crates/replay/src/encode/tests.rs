use std::path::{Path, PathBuf};

use rehal_capture::{Capture, OpenOptions, Payload, Record, RecordType, sample};
use rehal_hal::Op;

use super::*;
use crate::decode::{Decoded, decode};

/// What a record says of its call: the call itself, its payload's type and the payload.
type Said = (Call, PayloadType, Vec<u8>);

/// The captures of real programs in `fixtures/`.
fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures");
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn said(record: &Record<'_>) -> Said {
    let header = record.header;
    let call = Call {
        operation: record.operation(),
        object: header.object_id.get(),
        related: header.related_object_id.get(),
        unsupported: record.record_type() == RecordType::UNSUPPORTED,
    };
    (call, record.payload_type(), record.payload.to_vec())
}

/// What the record would be if the operation that it decodes to were recorded.
fn encoded(record: &Record<'_>) -> Option<Said> {
    let mut found = None;
    let mut put =
        |call: Call, payload_type, parts: &[&[u8]]| found = Some((call, payload_type, parts.concat()));
    match (decode(record).ok()?, record.payload().ok()?) {
        (Decoded::Op(Op::Command { into, command: it }), _) => command(into, &it, &mut put),
        (Decoded::Op(Op::Queue(it)), payload) => {
            let deallocated_bytes = match payload {
                Payload::QueueDealloca(it) => it.buffer_ref.length.get(),
                _ => 0,
            };
            submission(&it, &Rest { deallocated_bytes, ..Rest::default() }, &mut put);
        }
        (Decoded::Op(Op::Host(it)), _) => host_op(&it, &mut put),
        (Decoded::Executable(op, it), _) => executable(&op, it.metadata_bytes, &mut put),
        (Decoded::File(op, it), _) => file(&op, it.header, it.reference, &mut put),
        _ => {}
    }
    found
}

/// Where the operation deliberately says less than the record: flags that a replay takes away or adds, and what
/// captures hold of the program's own memory.
fn without_losses(record: &Record<'_>, is_recorded: bool, said: &mut Said) {
    // First byte and end of each field of the payload.
    let lost: &[(usize, usize)] = match record.operation() {
        Code::ALLOCATOR_IMPORT_BUFFER => &[(24, 34), (44, 48)],
        Code::EXECUTABLE_CACHE_PREPARE_EXECUTABLE => &[(24, 28)],
        Code::DEVICE_QUEUE_UPDATE => &[(48, 56)],
        Code::COMMAND_BUFFER_UPDATE_BUFFER => &[(40, 48)],
        // The sample's have a queue where there is none, and two workgroup counts.
        Code::COMMAND_BUFFER_DISPATCH | Code::DEVICE_QUEUE_DISPATCH if !is_recorded => &[(8, 16), (36, 80)],
        // The sample deallocates a part of a buffer, which goes as a whole.
        Code::DEVICE_QUEUE_DEALLOCA if !is_recorded => &[(8, 16)],
        // Padding, which may hold anything.
        _ if record.payload_type() == PayloadType::BUFFER_RANGE => &[(28, 32)],
        _ if record.payload_type() == PayloadType::BUFFER_RANGE_DATA => &[(36, 40)],
        _ => return,
    };
    lost.iter().for_each(|(start, end)| said.2[*start..*end].fill(0));
}

#[test]
fn what_a_record_decodes_to_is_encoded_as_that_record() {
    let mut compared = std::collections::BTreeMap::<&str, u32>::new();
    for path in fixtures() {
        compare(&std::fs::read(path).unwrap(), true, &mut compared);
    }
    // Nobody recorded the sample: it has everything, but its calls name any object.
    compare(&sample::capture(), false, &mut compared);
    assert!(compared.len() > 30, "{compared:?}");
}

fn compare(bytes: &[u8], is_recorded: bool, compared: &mut std::collections::BTreeMap<&str, u32>) {
    let Ok(capture) = Capture::open(bytes, OpenOptions { recover: true }) else { return };
    for record in capture.records().map_while(Result::ok) {
        let Some(mut now) = encoded(&record) else { continue };
        let mut was = said(&record);
        if !is_recorded {
            was.0.related = now.0.related;
        }
        without_losses(&record, is_recorded, &mut was);
        without_losses(&record, is_recorded, &mut now);
        assert_eq!(was, now, "{} at {}", record.operation(), record.offset);
        *compared.entry(record.operation().name()).or_default() += 1;
    }
}
