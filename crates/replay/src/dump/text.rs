//! The format for a person.

use rehal_base::StatusCode;
use rehal_capture::layout::{BufferRef, SemaphoreTimepoint};
use rehal_capture::{Capture, ObjectType, OperationCode, Payload, PayloadType, Record};
use zerocopy::little_endian::U32;

use super::output::Output;
use super::sink::{Fields, Name, name};
use super::{Error, Summary, fields};

/// Writes the header before the records.
pub fn write_file(out: &mut Output<'_>, capture: &Capture<'_>, summary: &Summary) {
    let yes = |value: bool| if value { "yes" } else { "no" };
    let version = capture.version();
    let length = match capture.header().file_length.get() {
        0 => capture.total_bytes(),
        length => length,
    };
    let s = summary;
    out.text(&format!(
        "IREE HAL replay v{}.{}\nfile_length: {length}\nheader_length: {}\nsummary:\n",
        version.major,
        version.minor,
        capture.header().header_length.get(),
    ));
    out.text(&format!(
        "  hermetic: {}\n  environment_referenced: {}\n  strict_replay_supported: {}\n",
        yes(s.hermetic()),
        yes(s.environment_referenced()),
        yes(s.strict_replay_supported()),
    ));
    out.text(&format!(
        "  records: total={} objects={} operations={} unsupported={}\n  scopes: begin={} end={}\n",
        s.record_count,
        s.object_count,
        s.operation_count,
        s.unsupported_count,
        s.scope_begin_count,
        s.scope_end_count,
    ));
    out.text(&format!(
        "  files: total={} external={} inline={} ranges={} unknown={}\n",
        s.file_object_count,
        s.external_file_count,
        s.inline_file_count,
        s.range_file_count,
        s.unknown_file_reference_count,
    ));
    out.text(&format!(
        "  file_bytes: external={} inline={} ranges={} captured_reads={}\n",
        s.external_file_total_length,
        s.inline_file_total_length,
        s.range_file_total_length,
        s.captured_read_total_length,
    ));
    out.text(&format!(
        "  file_validation: identity={} digest={} none={} unknown={}\nrecords:\n",
        s.identity_validation_count,
        s.digest_validation_count,
        s.no_validation_count,
        s.unknown_validation_count,
    ));
}

/// Writes the line of a record.
pub fn write_record(out: &mut Output<'_>, record: &Record<'_>, payload: &Payload<'_>) -> Result<(), Error> {
    let header = record.header;
    out.text("  @");
    out.decimal(record.offset);
    out.text(" #");
    out.decimal(record.ordinal());
    out.byte(b' ');
    let kind = record.record_type().name();
    out.text(kind);
    // The longest name has eleven letters, and the others are filled up to it.
    out.text(&"           "[kind.len().min(11)..]);
    out.text(" dev=");
    out.decimal(header.device_id.get());
    out.text(" obj=");
    out.decimal(header.object_id.get());
    out.text(" rel=");
    out.decimal(header.related_object_id.get());
    out.text(" thread=");
    out.decimal(header.thread_id.get());
    out.text(" status=");
    out.text(StatusCode::from_u32(header.status_code.get()).map_or("", StatusCode::name));
    let (object_type, operation) = (record.object_type(), record.operation());
    if object_type != ObjectType::NONE {
        out.text(" object=");
        code(out, object_type.name(), object_type.0);
    }
    if operation != OperationCode::NONE {
        out.text(" op=");
        code(out, operation.name(), operation.0);
    }
    let payload_type = record.payload_type();
    if payload_type != PayloadType::NONE || !record.payload.is_empty() {
        out.text(" payload=");
        code(out, payload_type.name(), payload_type.0);
        let mut text = Text { out, references: [None; 2] };
        text.range(name!("range"), record.payload_offset(), record.payload.len() as u64);
        fields::write(record, payload, &mut text);
        text.put_references();
    }
    Ok(out.end_line()?)
}

/// `name(number)`.
#[inline]
fn code(out: &mut Output<'_>, name: &str, number: u32) {
    out.text(name);
    out.byte(b'(');
    out.decimal(number.into());
    out.byte(b')');
}

/// Fields as ` name=value`.
struct Text<'o, 'w> {
    out: &'o mut Output<'w>,
    /// References that wait for the ranges to be over; no payload has more.
    references: [Option<(Name, BufferRef)>; 2],
}

impl Text<'_, '_> {
    #[inline]
    fn put_references(&mut self) {
        for (name, reference) in self.references.iter().flatten() {
            self.out.text(name.text);
            put_reference(self.out, reference);
        }
    }
}

fn put_reference(out: &mut Output<'_>, reference: &BufferRef) {
    out.text("{buffer_id=");
    out.decimal(reference.buffer_id.get());
    out.text(" offset=");
    out.decimal(reference.offset.get());
    out.text(" length=");
    out.decimal(reference.length.get());
    out.text(" slot=");
    out.decimal(reference.buffer_slot.get().into());
    out.byte(b'}');
}

impl Fields for Text<'_, '_> {
    const TEXT: bool = true;

    #[inline]
    fn number(&mut self, name: Name, value: u64) {
        if !name.text.is_empty() {
            self.out.text(name.text);
            self.out.decimal(value);
        }
    }

    #[inline]
    fn bits<const DIGITS: usize>(&mut self, name: Name, value: u64) {
        self.out.text(name.text);
        self.out.hexadecimal::<DIGITS>(value);
    }

    fn triple(&mut self, name: Name, values: &[U32; 3]) {
        self.out.text(name.text);
        for (value, before) in values.iter().zip(*b"[,,") {
            self.out.byte(before);
            self.out.decimal(value.get().into());
        }
        self.out.byte(b']');
    }

    #[inline]
    fn range(&mut self, name: Name, offset: u64, length: u64) {
        if !name.text.is_empty() {
            self.out.text(name.text);
            self.out.byte(b'[');
            self.out.decimal(offset);
            self.out.text(", +");
            self.out.decimal(length);
            self.out.byte(b']');
        }
    }

    fn code(&mut self, name: Name, value: u32, _meaning_name: Name, meaning: &'static str) {
        self.out.text(name.text);
        code(self.out, meaning, value);
    }

    fn digest(&mut self, name: Name, value: u64) {
        self.bits::<16>(name, value);
    }

    fn string(&mut self, name: Name, bytes: &[u8]) {
        self.out.text(name.text);
        self.out.byte(b'"');
        self.out.raw(bytes);
        self.out.byte(b'"');
    }

    #[inline]
    fn reference(&mut self, name: Name, reference: &BufferRef) {
        let free = usize::from(self.references[0].is_some());
        self.references[free] = Some((name, *reference));
    }

    fn timepoints(&mut self, name: Name, timepoints: &[SemaphoreTimepoint]) {
        self.out.text(name.text);
        self.out.byte(b'[');
        for (index, timepoint) in timepoints.iter().enumerate() {
            self.out.text(if index == 0 { "{semaphore_id=" } else { ",{semaphore_id=" });
            self.out.decimal(timepoint.semaphore_id.get());
            self.out.text(" value=");
            self.out.decimal(timepoint.value.get());
            self.out.byte(b'}');
            self.out.spill();
        }
        self.out.byte(b']');
    }

    fn references(&mut self, name: Name, references: &[BufferRef]) {
        self.out.text(name.text);
        self.out.byte(b'[');
        for (index, reference) in references.iter().enumerate() {
            if index > 0 {
                self.out.byte(b',');
            }
            put_reference(self.out, reference);
            self.out.spill();
        }
        self.out.byte(b']');
    }
}
