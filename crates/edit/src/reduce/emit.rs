//! Writes what is kept of a program as a capture.

use std::collections::BTreeMap;
use std::io::{BufWriter, Seek, Write};

use rehal_base::{Error, Result};
use rehal_capture::layout::RECORD_FLAG_OPTIONAL;
use rehal_capture::{PayloadType, Record, RecordFields, Writer};
use rehal_hal::{Command, HostOp, MemoryAccess, Op, QueueOp, RangeOp};
use rehal_replay::{Ids, decode, encode_payload};

use super::ReduceSize;
use super::bytes::{data_of, nonzero};
use super::closure::{Choice, Edits, KeptRecords};
use super::program::{Program, Role};
use super::visit::{Lists, with_lists};

/// Shorter runs of zeros are stored: the records of another range take as much.
pub(super) const SPARSE_GAP_BYTES: usize = 256;

/// Receives the records: whether the one at the index is written as it is, its fields, and its payload.
type Put<'p> = dyn FnMut(bool, &RecordFields, &[&[u8]]) -> Result<()> + 'p;

/// The kept records of a program, with their changes.
pub(super) struct Variant<'v, 'a> {
    pub program: &'v Program<'a>,
    pub choice: &'v Choice,
    pub kept: &'v KeptRecords,
}

impl Variant<'_, '_> {
    /// Writes a capture with checksums; returns its size in bytes.
    pub fn write(&self, sink: impl Write + Seek) -> Result<u64> {
        let mut sink = BufWriter::new(sink);
        let mut writer = Writer::new(&mut sink)?;
        writer.begin_checksummed(&RecordFields::default())?;
        for (index, record) in self.kept_records() {
            self.record(index, record, &mut |_, fields, parts| writer.append(fields, parts))?;
        }
        writer.close()?;
        let length = sink.stream_position().map_err(|error| Error::io("writing a capture", &error))?;
        sink.flush().map_err(|error| Error::io("writing a capture", &error))?;
        Ok(length)
    }

    /// A digest that differs between different captures of the same program.
    pub fn digest(&self) -> Result<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        for (index, record) in self.kept_records() {
            hasher.update(&index.to_le_bytes());
            self.record(index, record, &mut |is_unchanged, _, parts| {
                if !is_unchanged {
                    let length: usize = parts.iter().map(|part| part.len()).sum();
                    hasher.update(&(length as u64).to_le_bytes());
                    for part in parts {
                        hasher.update(part);
                    }
                }
                Ok(())
            })?;
        }
        Ok(*hasher.finalize().as_bytes())
    }

    fn kept_records(&self) -> impl Iterator<Item = (u32, &Record<'_>)> {
        (0..).zip(&self.program.records).filter(|(index, _)| self.kept.records[*index as usize])
    }

    fn record(&self, index: u32, record: &Record<'_>, put: &mut Put<'_>) -> Result<()> {
        let source = self.source(index, record);
        let choice = self.choice;
        if choice.sparse.contains(&self.last_of_part(index)) && self.is_mapping(index)? {
            return self.sparse(index, put);
        }
        let edits = self.kept.edits.get(&source);
        let zeros = choice.zeros.get(&source);
        if edits.is_none() && zeros.is_none() {
            return put(true, &fields_of(record, record.payload_type()), &[record.payload]);
        }
        let none = Edits::default();
        let edits = edits.unwrap_or(&none);
        let source = &self.program.records[source as usize];
        let Some(op) = decode(source)? else { return Ok(()) };
        let cleared = zeros.and_then(|zeros| data_of(&op).map(|data| zeros.cleared(data)));
        let lists = Lists {
            waits: edits.waits.as_deref(),
            table: edits.table.as_deref(),
            events: edits.events.as_deref(),
            buffer_barriers: edits.buffer_barriers.as_deref(),
            data: cleared.as_deref(),
            capacity: edits.capacity,
        };
        put_op(record, &with_lists(op, &lists), put)
    }

    /// The record whose changes apply to a record. The description of an object repeats its creation; that of
    /// an allocation does not, and its submission has changes of its own.
    fn source(&self, index: u32, record: &Record<'_>) -> u32 {
        let Role::Described(id) = self.program.roles[index as usize] else { return index };
        let part = self.program.creators.get(&id);
        let creation = part.and_then(|part| self.program.parts[*part as usize].records.first());
        let repeats = |it: &&u32| self.program.records[**it as usize].payload_type() == record.payload_type();
        creation.filter(repeats).copied().unwrap_or(index)
    }

    fn last_of_part(&self, index: u32) -> u32 {
        let part = self.program.part_of[index as usize];
        self.program.parts[part as usize].records.last().copied().unwrap_or(index)
    }

    /// Whether a record belongs to the mapping of which it, or its part, stores the bytes.
    fn is_mapping(&self, index: u32) -> Result<bool> {
        Ok(self.program.roles[index as usize] == Role::Host && {
            let op = self.program.op(index)?;
            matches!(op, Some(Op::Host(HostOp::Map(_) | HostOp::Unmap(..) | HostOp::Flush(..))))
        })
    }

    /// Writes only the ranges of what the host writes that are not zeros, each as a mapping of its own.
    fn sparse(&self, index: u32, put: &mut Put<'_>) -> Result<()> {
        let record = &self.program.records[index as usize];
        let part = &self.program.parts[self.program.part_of[index as usize] as usize];
        let Some(Op::Host(op)) = self.program.op(index)? else { return Ok(()) };
        let (range, data) = match op {
            // Each range is mapped where it is unmapped.
            HostOp::Unmap(range, Some(data)) | HostOp::Flush(range, Some(data)) => (range, data),
            _ => return Ok(()),
        };
        let cleared = match self.choice.zeros.get(&index) {
            Some(zeros) => zeros.cleared(data),
            None => data.to_vec(),
        };
        let spans = nonzero(&cleared, SPARSE_GAP_BYTES);
        for span in spans {
            let at = RangeOp::<Ids<'_>> {
                offset: range.offset + span.start as u64,
                length: span.len() as u64,
                ..range
            };
            let bytes = &cleared[span];
            match op {
                HostOp::Unmap(..) => {
                    let map = &self.program.records[part.records[0] as usize];
                    if let Some(Op::Host(HostOp::Map(mapped))) = decode(map)? {
                        let (offset, length) = (at.offset, at.length);
                        let mapped = RangeOp::<Ids<'_>> { offset, length, ..mapped };
                        put_op(map, &Op::Host(HostOp::Map(mapped)), put)?;
                    }
                    put_op(record, &Op::Host(HostOp::Unmap(at, Some(bytes))), put)?;
                }
                _ => put_op(record, &Op::Host(HostOp::Flush(at, Some(bytes))), put)?,
            }
        }
        Ok(())
    }
}

/// How large what is kept is, without the bytes of the file.
pub(super) fn size_of(program: &Program<'_>, choice: &Choice, kept: &KeptRecords) -> Result<ReduceSize> {
    let mut size = ReduceSize::default();
    for (index, role) in program.roles.iter().enumerate().filter(|(index, _)| kept.records[*index]) {
        size.records += 1;
        match role {
            Role::Note | Role::Described(_) | Role::Recording(_) => continue,
            Role::Command(_) => size.commands += 1,
            Role::Create(_) => size.objects += 1,
            Role::Submission | Role::Host => {}
        }
        match program.op(index as u32)? {
            Some(Op::Queue(submission)) => {
                size.submissions += 1;
                size.dispatches += u64::from(matches!(submission.op, QueueOp::Dispatch(_)));
            }
            Some(Op::Command { command: Command::Dispatch(_), .. }) => size.dispatches += 1,
            Some(Op::Host(HostOp::ScopeBegin { .. })) => size.scopes += 1,
            Some(Op::Host(HostOp::Map(_) | HostOp::Flush(..) | HostOp::Invalidate(_))) => {
                size.host_accesses += 1;
            }
            _ => {}
        }
    }
    let nonzero = |data: &Vec<u8>| data.iter().filter(|byte| **byte != 0).count() as u64;
    size.data_bytes = carried(program, choice, kept)?.values().map(nonzero).sum();
    Ok(size)
}

/// The bytes that a kept record carries, with zeros for those that are left out.
pub(super) fn carried(
    program: &Program<'_>,
    choice: &Choice,
    kept: &KeptRecords,
) -> Result<BTreeMap<u32, Vec<u8>>> {
    let mut carried = BTreeMap::new();
    for (index, is_kept) in kept.records.iter().enumerate() {
        let index = index as u32;
        if !is_kept || matches!(program.roles[index as usize], Role::Note | Role::Described(_)) {
            continue;
        }
        let Some(op) = program.op(index)? else { continue };
        let Some(data) = data_of(&op) else { continue };
        let data = match choice.zeros.get(&index) {
            Some(zeros) => zeros.cleared(data),
            None => data.to_vec(),
        };
        carried.insert(index, data);
    }
    Ok(carried)
}

/// Whether the zeros of what a record carries can be left out: what the host writes without reading it.
pub(super) fn can_be_sparse(op: &Op<Ids<'_>>) -> bool {
    let writes_only = |range: &RangeOp<Ids<'_>>| !range.access.contains(MemoryAccess::READ);
    match op {
        Op::Host(HostOp::Unmap(range, Some(_)) | HostOp::Flush(range, Some(_))) => writes_only(range),
        _ => false,
    }
}

/// Writes an operation in the record from which it was decoded.
fn put_op(record: &Record<'_>, op: &Op<Ids<'_>>, put: &mut Put<'_>) -> Result<()> {
    let mut outcome = Ok(());
    encode_payload(op, &mut |payload_type, parts| {
        outcome = put(false, &fields_of(record, payload_type), parts);
    });
    outcome
}

fn fields_of(record: &Record<'_>, payload_type: PayloadType) -> RecordFields {
    let header = record.header;
    RecordFields {
        record_type: record.record_type(),
        optional: header.record_flags.get() & RECORD_FLAG_OPTIONAL != 0,
        thread_id: header.thread_id.get(),
        device_id: header.device_id.get(),
        object_id: header.object_id.get(),
        related_object_id: header.related_object_id.get(),
        payload_type,
        object_type: record.object_type(),
        operation: record.operation(),
        status_code: header.status_code.get(),
    }
}
