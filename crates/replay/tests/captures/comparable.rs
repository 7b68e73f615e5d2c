//! A capture as text without nondeterministic parts: a line per record, objects numbered in order of
//! appearance.

use std::collections::HashMap;
use std::fmt::Debug;

use rehal_base::fnv::fnv1a64;
use rehal_capture::{Capture, OpenOptions, OperationCode as Code, Payload, PayloadType, Record, RecordType};

/// Differences between two captures that are ignored.
#[derive(Clone, Copy, Default)]
pub struct Apart {
    /// Calls that a replay does not repeat identically: queries, executable caches, flushes of queues, failed
    /// calls, file imports, and reads whose bytes are in the capture, which become updates.
    pub replayed: bool,
    /// Differences of the reference's `local-task` device: the placement of buffers, and mappings for reading
    /// that are not unmapped.
    pub task: bool,
}

/// The lines of a capture.
pub fn lines(bytes: &[u8], apart: Apart) -> Vec<String> {
    let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
    let records = capture.records().map(|record| record.unwrap());
    // A replay imports files before it begins, so they come first.
    let is_file = |record: &Record<'_>| apart.replayed && record.payload_type() == PayloadType::FILE_OBJECT;
    let (files, others): (Vec<_>, Vec<_>) =
        records.filter(|record| !is_left_out(record, apart)).partition(is_file);
    let mut numbers = Numbers::default();
    let others: Vec<_> = others.iter().map(|record| line(record, apart, &mut numbers)).collect();
    files.iter().map(|record| payload(record, apart)).chain(others).collect()
}

fn is_left_out(record: &Record<'_>, apart: Apart) -> bool {
    let operation = record.operation();
    let is_range = record.payload_type() == PayloadType::BUFFER_RANGE;
    if apart.task && operation == Code::BUFFER_UNMAP_RANGE && is_range {
        return true;
    }
    if !apart.replayed {
        return false;
    }
    let captured_ranges =
        matches!(record.payload(), Ok(Payload::FileObject(it)) if it.reference_type.get() == 3);
    captured_ranges
        // The call failed.
        || record.header.status_code.get() != 0
        || record.record_type() == RecordType::SESSION
        || matches!(record.object_type().name(), "device" | "allocator" | "executable_cache")
            && record.record_type() == RecordType::OBJECT
        || matches!(
            operation,
            Code::DEVICE_QUERY_I64
                | Code::DEVICE_ASSIGN_TOPOLOGY_INFO
                | Code::DEVICE_CREATE_EXECUTABLE_CACHE
                | Code::DEVICE_QUEUE_FLUSH
                | Code::EXECUTABLE_LOOKUP_FUNCTION_BY_NAME
        )
}

#[derive(Default)]
struct Numbers(HashMap<u64, usize>);

impl Numbers {
    fn of(&mut self, id: u64) -> usize {
        let next = self.0.len() + 1;
        if id == 0 { 0 } else { *self.0.entry(id).or_insert(next) }
    }

    /// Numbers the ids in a text of the form `..._id: ID`, and those in a list of events.
    fn of_text(&mut self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("_id: U64(") {
            let (head, tail) = rest.split_at(at + "_id: U64(".len());
            let digits = tail.find(|it: char| !it.is_ascii_digit()).unwrap_or(tail.len());
            result.push_str(head);
            result.push_str(&self.of(tail[..digits].parse().unwrap()).to_string());
            rest = &tail[digits..];
        }
        result + rest
    }
}

fn line(record: &Record<'_>, apart: Apart, numbers: &mut Numbers) -> String {
    let header = record.header;
    let is_prepare = record.operation() == Code::EXECUTABLE_CACHE_PREPARE_EXECUTABLE;
    // The cache is omitted, so numbering it would shift the others.
    let object = if apart.replayed && is_prepare { 0 } else { numbers.of(header.object_id.get()) };
    let (device, related) = (numbers.of(header.device_id.get()), numbers.of(header.related_object_id.get()));
    let mut payload = numbers.of_text(&payload(record, apart));
    if apart.task && payload.starts_with("BufferObject") {
        let placed = "queue_affinity: U64(1), placement_flags: U32(1)";
        payload = payload.replace(placed, "queue_affinity: U64(0), placement_flags: U32(0)");
        payload = payload.replace("placement_flags: U32(1)", "placement_flags: U32(0)");
    }
    let operation = match payload.starts_with("written") {
        true => "replay writes",
        false => record.operation().name(),
    };
    let (record_type, status) = (record.record_type(), header.status_code);
    format!("{record_type} dev={device} obj={object} rel={related} status={status} {operation} {payload}")
}

/// The payload as text, with byte lists as length and digest.
fn payload(record: &Record<'_>, apart: Apart) -> String {
    match record.payload().unwrap() {
        Payload::QueueUpdate(it) if apart.replayed => {
            with_bytes(&("written", it.target_ref, it.waits, it.signals), it.data).replacen("(\"", "", 1)
        }
        Payload::QueueRead(it) if apart.replayed && !it.captured_data.is_empty() => {
            with_bytes(&("written", it.target_ref, it.waits, it.signals), it.captured_data)
                .replacen("(\"", "", 1)
        }
        Payload::QueueUpdate(it) => with_bytes(&(it.header, it.waits, it.signals), it.data),
        Payload::QueueRead(it) => with_bytes(&(it.header, it.waits, it.signals), it.captured_data),
        Payload::CommandUpdate(it) => with_bytes(it.header, it.data),
        Payload::BufferRangeData(it) => {
            with_bytes(it.header, it.data).replace(&padding(&it.header.padding), "")
        }
        Payload::BufferRange(it) => format!("{:?}", it.header).replace(&padding(&it.header.padding), ""),
        Payload::BufferObject(it) => format!("{:?}", it.header).replace(&padding(&it.header.padding), ""),
        Payload::ImportBuffer(it) => with_bytes(it.header, it.data),
        Payload::FileObject(it) => {
            // The file's identity depends on the machine, and the location of its bytes on the recorder.
            format!(
                "FileObject {} {} {} {} {}",
                it.file_length, it.access, it.reference_type, it.validation_type, it.digest_type
            )
        }
        Payload::ExecutablePrepare(it) => {
            // A replay clears the first bit: the bytes do not outlive it.
            let mode = it.caching_mode.get();
            let prepare = with_bytes(it.header, it.data)
                .replace(&format!("caching_mode: U32({mode})"), &format!("caching_mode: U32({})", mode & !1));
            format!("{prepare} {:?} {:?} {}", it.format, it.constants, it.metadata_bytes.escape_ascii())
        }
        other => format!("{other:?}"),
    }
}

fn padding(bytes: &[u8]) -> String {
    format!(", padding: {bytes:?}")
}

fn with_bytes(rest: &dyn Debug, bytes: &[u8]) -> String {
    format!("{rest:?} +{} {:016x}", bytes.len(), fnv1a64(bytes))
}
