//! The machine-readable format: one JSON object per line.
//!
//! Strings from the capture are escaped as JSON requires and otherwise copied verbatim, so invalid UTF-8 is
//! preserved, as by the reference.

use rehal_base::StatusCode;
use rehal_capture::layout::{BufferRef, SemaphoreTimepoint};
use rehal_capture::{Capture, Payload, PayloadType, Record};
use zerocopy::little_endian::U32;

use super::output::Output;
use super::sink::{Fields, Name, name};
use super::{Error, Summary, fields};

/// Writes the lines before the records.
pub fn write_file(out: &mut Output<'_>, capture: &Capture<'_>, summary: &Summary) {
    let (version, header) = (capture.version(), capture.header());
    let length = match header.file_length.get() {
        0 => capture.total_bytes(),
        length => length,
    };
    out.text("{\"kind\":\"file\"");
    numbers(
        out,
        &[
            ("version_major", version.major.into()),
            ("version_minor", version.minor.into()),
            ("header_length", header.header_length.get().into()),
            ("flags", header.flags.get().into()),
            ("file_length", length),
        ],
    );
    out.text("}\n");
    write_summary(out, summary);
}

fn write_summary(out: &mut Output<'_>, s: &Summary) {
    out.text(&format!(
        "{{\"kind\":\"summary\",\"hermetic\":{},\"environment_referenced\":{},\"strict_replay_supported\":{}",
        s.hermetic(),
        s.environment_referenced(),
        s.strict_replay_supported(),
    ));
    numbers(
        out,
        &[
            ("record_count", s.record_count),
            ("object_count", s.object_count),
            ("operation_count", s.operation_count),
            ("unsupported_count", s.unsupported_count),
            ("scope_begin_count", s.scope_begin_count),
            ("scope_end_count", s.scope_end_count),
            ("file_object_count", s.file_object_count),
            ("external_file_count", s.external_file_count),
            ("inline_file_count", s.inline_file_count),
            ("range_file_count", s.range_file_count),
            ("unknown_file_reference_count", s.unknown_file_reference_count),
            ("external_file_total_length", s.external_file_total_length),
            ("inline_file_total_length", s.inline_file_total_length),
            ("range_file_total_length", s.range_file_total_length),
            ("captured_read_total_length", s.captured_read_total_length),
        ],
    );
    out.text(&format!(
        ",\"file_validation\":{{\"identity\":{},\"digest\":{},\"none\":{},\"unknown\":{}}}}}\n",
        s.identity_validation_count,
        s.digest_validation_count,
        s.no_validation_count,
        s.unknown_validation_count,
    ));
}

fn numbers(out: &mut Output<'_>, members: &[(&str, u64)]) {
    for (name, value) in members {
        out.text(",\"");
        out.text(name);
        out.text("\":");
        out.decimal(*value);
    }
}

/// Writes the line of a record.
pub fn write_record(out: &mut Output<'_>, record: &Record<'_>, payload: &Payload<'_>) -> Result<(), Error> {
    let header = record.header;
    out.text("{\"kind\":\"");
    out.text(record.record_type().name());
    out.text("\",\"file_offset\":");
    out.decimal(record.offset);
    out.text(",\"record_length\":");
    out.decimal(header.record_length.get());
    out.text(",\"payload_length\":");
    out.decimal(header.payload_length.get());
    out.text(",\"sequence_ordinal\":");
    out.decimal(header.sequence_ordinal.get());
    out.text(",\"thread_id\":");
    out.decimal(header.thread_id.get());
    out.text(",\"device_id\":");
    out.decimal(header.device_id.get());
    out.text(",\"object_id\":");
    out.decimal(header.object_id.get());
    out.text(",\"related_object_id\":");
    out.decimal(header.related_object_id.get());
    out.text(",\"record_type_code\":");
    out.decimal(header.record_type.get().into());
    out.text(",\"record_flags\":");
    out.decimal(header.record_flags.get().into());
    write_codes(out, record);
    let mut json = Json { out, first: false };
    json.range(name!("payload_range"), record.payload_offset(), record.payload.len() as u64);
    match payload {
        _ if record.payload_type() == PayloadType::NONE => {}
        Payload::None | Payload::Opaque(_) => out.text(",\"payload\":null"),
        _ => {
            out.text(",\"payload\":{");
            fields::write(record, payload, &mut Json { out, first: true });
            out.byte(b'}');
        }
    }
    out.byte(b'}');
    Ok(out.end_line()?)
}

/// The codes of a record, each as name and number.
fn write_codes(out: &mut Output<'_>, record: &Record<'_>) {
    let (object_type, operation, payload_type) =
        (record.object_type(), record.operation(), record.payload_type());
    let status_code = record.header.status_code.get();
    out.text(",\"object_type\":\"");
    out.text(object_type.name());
    out.text("\",\"object_type_code\":");
    out.decimal(object_type.0.into());
    out.text(",\"operation\":\"");
    out.text(operation.name());
    out.text("\",\"operation_code\":");
    out.decimal(operation.0.into());
    out.text(",\"status_code\":");
    out.decimal(status_code.into());
    out.text(",\"status\":\"");
    out.text(StatusCode::from_u32(status_code).map_or("", StatusCode::name));
    out.text("\",\"payload_type\":\"");
    out.text(payload_type.name());
    out.text("\",\"payload_type_code\":");
    out.decimal(payload_type.0.into());
}

/// Writes fields as members of an object.
struct Json<'o, 'w> {
    out: &'o mut Output<'w>,
    /// Whether the object is still empty, so that the next member is written without a comma.
    first: bool,
}

impl Json<'_, '_> {
    #[inline]
    fn name(&mut self, name: Name) {
        let skip = usize::from(std::mem::take(&mut self.first));
        self.out.text(&name.json[skip..]);
    }

    /// A list whose elements are written by `put`.
    #[inline]
    fn list<T>(&mut self, name: Name, elements: &[T], mut put: impl FnMut(&mut Output<'_>, &T)) {
        self.name(name);
        self.out.byte(b'[');
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.out.byte(b',');
            }
            put(self.out, element);
            self.out.spill();
        }
        self.out.byte(b']');
    }
}

fn put_reference(out: &mut Output<'_>, reference: &BufferRef) {
    out.text("{\"buffer_id\":");
    out.decimal(reference.buffer_id.get());
    out.text(",\"offset\":");
    out.decimal(reference.offset.get());
    out.text(",\"length\":");
    out.decimal(reference.length.get());
    out.text(",\"buffer_slot\":");
    out.decimal(reference.buffer_slot.get().into());
    out.byte(b'}');
}

fn put_timepoint(out: &mut Output<'_>, timepoint: &SemaphoreTimepoint) {
    out.text("{\"semaphore_id\":");
    out.decimal(timepoint.semaphore_id.get());
    out.text(",\"value\":");
    out.decimal(timepoint.value.get());
    out.byte(b'}');
}

impl Fields for Json<'_, '_> {
    const TEXT: bool = false;

    #[inline]
    fn number(&mut self, name: Name, value: u64) {
        if !name.json.is_empty() {
            self.name(name);
            self.out.decimal(value);
        }
    }

    #[inline]
    fn bits<const DIGITS: usize>(&mut self, name: Name, value: u64) {
        self.number(name, value);
    }

    fn triple(&mut self, name: Name, values: &[U32; 3]) {
        self.list(name, values, |out, value| out.decimal(value.get().into()));
    }

    fn range(&mut self, name: Name, offset: u64, length: u64) {
        if !name.json.is_empty() {
            self.name(name);
            self.out.text("{\"offset\":");
            self.out.decimal(offset);
            self.out.text(",\"length\":");
            self.out.decimal(length);
            self.out.text(",\"uncompressed_length\":");
            self.out.decimal(length);
            self.out.text(",\"compression_type\":0,\"digest_type\":0}");
        }
    }

    fn code(&mut self, name: Name, value: u32, meaning_name: Name, meaning: &'static str) {
        self.number(name, value.into());
        self.string(meaning_name, meaning.as_bytes());
    }

    fn digest(&mut self, name: Name, value: u64) {
        self.name(name);
        self.out.byte(b'"');
        self.out.hexadecimal::<16>(value);
        self.out.byte(b'"');
    }

    fn string(&mut self, name: Name, bytes: &[u8]) {
        self.name(name);
        self.out.byte(b'"');
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
            self.out.raw(&rest[..at]);
            put_escaped(self.out, rest[at]);
            rest = &rest[at + 1..];
        }
        self.out.raw(rest);
        self.out.byte(b'"');
    }

    fn reference(&mut self, name: Name, reference: &BufferRef) {
        self.name(name);
        put_reference(self.out, reference);
    }

    fn timepoints(&mut self, name: Name, timepoints: &[SemaphoreTimepoint]) {
        self.list(name, timepoints, put_timepoint);
    }

    fn references(&mut self, name: Name, references: &[BufferRef]) {
        self.list(name, references, put_reference);
    }
}

/// Whether a byte must be escaped in a JSON string.
fn put_escaped(out: &mut Output<'_>, byte: u8) {
    match byte {
        b'"' => out.text("\\\""),
        b'\\' => out.text("\\\\"),
        0x08 => out.text("\\b"),
        0x0C => out.text("\\f"),
        b'\n' => out.text("\\n"),
        b'\r' => out.text("\\r"),
        b'\t' => out.text("\\t"),
        _ => out.text(&format!("\\u{byte:04x}")),
    }
}
