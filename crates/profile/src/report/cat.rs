//! `cat`: the header of the file and of every record.

use rehal_base::Result;

use super::out::{Out, object, text};
use super::{ReportOptions, status_name};
use crate::{Bundle, Record};

pub fn print(bundle: &Bundle<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let header = bundle.header();
    if options.is_text() {
        let (major, minor) = (header.version_major, header.version_minor);
        text!(out, "IREE HAL profile bundle\nversion: {major}.{minor}\n");
        text!(
            out,
            "header_length: {}\nflags: 0x{:08x}\nrecords:\n",
            header.header_length,
            header.flags.get()
        );
    } else {
        object!(out, "file", magic: "IRPF", header { version_major, version_minor, header_length, flags });
    }
    for record in bundle.records() {
        let record = record?;
        if options.is_text() {
            print_text(&record, out)
        } else {
            print_jsonl(&record, out)
        }
        out.check()?;
    }
    Ok(())
}

fn print_text(record: &Record<'_>, out: &mut Out<'_>) {
    let header = record.header;
    let (length, payload) = (header.record_length, header.payload_length);
    text!(out, "[{}] {} ", record.ordinal, record.record_type());
    text!(out, "record_length={length} payload_length={payload}\n  content_type: ");
    out.name(record.content_type);
    text!(out, "\n  name: ");
    out.name(record.name);
    let (session, stream, event) = (header.session_id, header.stream_id, header.event_id);
    text!(out, "\n  session_id={session} stream_id={stream} event_id={event}\n");
    let (executable, command_buffer) = (header.executable_id, header.command_buffer_id);
    text!(out, "  executable_id={executable} command_buffer_id={command_buffer}\n");
    let (device, queue) = (header.physical_device_ordinal, header.queue_ordinal);
    text!(out, "  physical_device_ordinal={device} queue_ordinal={queue}\n");
    let code = header.session_status_code.get();
    text!(out, "  chunk_flags=0x{:016x} ", header.chunk_flags.get());
    text!(out, "session_status_code={code} session_status={}\n", status_name(code));
}

fn print_jsonl(record: &Record<'_>, out: &mut Out<'_>) {
    let header = record.header;
    object!(
        out,
        "record",
        index: record.ordinal,
        record_type: record.record_type().name(),
        record_type_value: header.record_type,
        header { record_length, payload_length },
        content_type: record.content_type,
        name: record.name,
        header {
            session_id, stream_id, event_id, executable_id, command_buffer_id, physical_device_ordinal, queue_ordinal,
            chunk_flags, session_status_code,
        },
        session_status: status_name(header.session_status_code.get()),
    );
}
