//! `cat`: the header of the file and of every record.

use rehal_base::Result;

use super::out::{Out, row};
use crate::codes::status_name;
use crate::{Bundle, Record};

pub fn print(bundle: &Bundle<'_>, out: &mut Out<'_>) -> Result<()> {
    let header = bundle.header();
    row!(
        out,
        "file",
        "IREE HAL profile bundle\nversion: {version_major}.{version_minor}\nheader_length: {header_length}\n\
         flags: 0x{hexadecimal_flags}\nrecords:\n",
        magic: "IRPF",
        header { version_major, version_minor, header_length, flags },
        @hexadecimal_flags: format_args!("{:08x}", header.flags.get()),
    );
    for record in bundle.records() {
        print_record(&record?, out);
        out.check()?;
    }
    Ok(())
}

fn print_record(record: &Record<'_>, out: &mut Out<'_>) {
    let header = record.header;
    row!(
        out,
        "record",
        "[{index}] {record_type} record_length={record_length} payload_length={payload_length}\n  \
         content_type: {content_type}\n  name: {name}\n  session_id={session_id} stream_id={stream_id} \
         event_id={event_id}\n  executable_id={executable_id} command_buffer_id={command_buffer_id}\n  \
         physical_device_ordinal={physical_device_ordinal} queue_ordinal={queue_ordinal}\n  \
         chunk_flags=0x{hexadecimal_flags} session_status_code={session_status_code} \
         session_status={session_status}\n",
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
        @hexadecimal_flags: format_args!("{:016x}", header.chunk_flags.get()),
        session_status: status_name(header.session_status_code.get()),
    );
}
