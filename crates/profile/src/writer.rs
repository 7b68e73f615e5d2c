use std::io::{Seek, SeekFrom, Write};

use rehal_base::{Error, Result, StatusCode};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::layout::{CHUNK_TRUNCATED, FILE_MAGIC, FileHeader, NONE, RecordHeader, VERSION};
use crate::{ContentType, RecordType, Row};

/// Records longer than this are not assembled in memory.
const ASSEMBLED_BYTES: usize = 256 * 1024;

/// Writes a bundle, record by record.
///
/// Each record is with the sink when the call that appends it returns, so the bundle of a killed program is
/// readable up to the last one. The length is in the file while no session is open.
///
/// The first error of the sink is sticky: later calls repeat it.
pub struct Writer<W: Write + Seek> {
    sink: W,
    /// The record that is being assembled, empty between calls.
    record: Vec<u8>,
    length_bytes: u64,
    /// Whether the length is in the file header.
    is_closed: bool,
    failure: Option<Error>,
}

/// The header fields of a record, except its type and sizes. The default has neither device nor queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFields<'a> {
    /// The name of the device.
    pub name: &'a [u8],
    /// The session.
    pub session_id: u64,
    /// Stream of all rows, or zero.
    pub stream_id: u64,
    /// An event, or zero.
    pub event_id: u64,
    /// An executable, or zero.
    pub executable_id: u64,
    /// A command buffer, or zero.
    pub command_buffer_id: u64,
    /// Physical device of all rows, or [`NONE`].
    pub physical_device_ordinal: u32,
    /// Queue of all rows, or [`NONE`].
    pub queue_ordinal: u32,
    /// Of a chunk: rows that its producer dropped. Such a chunk is marked truncated.
    pub dropped_record_count: u64,
    /// Of a chunk: whether it is marked truncated though no count is known.
    pub is_truncated: bool,
}

impl Default for RecordFields<'_> {
    fn default() -> Self {
        Self {
            name: b"",
            session_id: 0,
            stream_id: 0,
            event_id: 0,
            executable_id: 0,
            command_buffer_id: 0,
            physical_device_ordinal: NONE,
            queue_ordinal: NONE,
            dropped_record_count: 0,
            is_truncated: false,
        }
    }
}

impl<'a> RecordFields<'a> {
    /// The fields of a record that was read.
    pub fn from_record(record: &crate::Record<'a>) -> Self {
        let header = record.header;
        Self {
            name: record.name,
            session_id: header.session_id.get(),
            stream_id: header.stream_id.get(),
            event_id: header.event_id.get(),
            executable_id: header.executable_id.get(),
            command_buffer_id: header.command_buffer_id.get(),
            physical_device_ordinal: header.physical_device_ordinal.get(),
            queue_ordinal: header.queue_ordinal.get(),
            dropped_record_count: header.dropped_record_count.get(),
            is_truncated: record.is_truncated(),
        }
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Starts a bundle at the beginning of `sink`. Writes the header immediately.
    pub fn new(mut sink: W) -> Result<Self> {
        sink.write_all(file_header(0).as_bytes()).map_err(|error| failed(&error))?;
        let length_bytes = size_of::<FileHeader>() as u64;
        Ok(Self { sink, record: Vec::new(), length_bytes, is_closed: false, failure: None })
    }

    /// Appends the record that begins a session.
    pub fn begin_session(&mut self, fields: &RecordFields<'_>) -> Result<()> {
        if self.is_closed {
            // Readers ignore what is behind the length, so the rows of a killed program's second session
            // would be lost.
            self.write_length(0)?;
            self.is_closed = false;
        }
        let content_type = ContentType::Session.text();
        self.append(RecordType::SESSION_BEGIN, StatusCode::Ok as u32, fields, content_type.as_bytes(), &[])
    }

    /// Appends the record that ends a session with `status_code`, and writes the length of the bundle into
    /// its header.
    pub fn end_session(&mut self, fields: &RecordFields<'_>, status_code: u32) -> Result<()> {
        let content_type = ContentType::Session.text();
        self.append(RecordType::SESSION_END, status_code, fields, content_type.as_bytes(), &[])?;
        self.write_length(self.length_bytes)?;
        self.is_closed = true;
        Ok(())
    }

    /// Appends a chunk of `rows`.
    ///
    /// Fails if a length or count in a row's header is not that of its lists, if a trace is not the only row
    /// of its chunk, or if the sink fails or has failed before.
    pub fn append_rows<'r, R: Row<'r>>(&mut self, fields: &RecordFields<'_>, rows: &[R]) -> Result<()> {
        let mut payload = Vec::new();
        for row in rows {
            if let Some((field, expected, found)) = row.count_mismatch() {
                let chunk = R::CONTENT.text();
                return Err(Error::invalid_argument(format!("{chunk}: {field} is {found}, not {expected}")));
            }
            row.with_parts(|parts| parts.iter().for_each(|part| payload.extend_from_slice(part)));
        }
        if R::CONTENT == ContentType::ExecutableTraces && rows.len() != 1 {
            return Err(Error::invalid_argument(format!("a chunk has one trace, not {}", rows.len())));
        }
        self.append_chunk(fields, R::CONTENT.text().as_bytes(), &[&payload])
    }

    /// Appends a chunk of any content type, whose payload is the concatenation of `parts`.
    pub fn append_chunk(
        &mut self,
        fields: &RecordFields<'_>,
        content_type: &[u8],
        parts: &[&[u8]],
    ) -> Result<()> {
        self.append(RecordType::CHUNK, 0, fields, content_type, parts)
    }

    /// The sink, with all that was appended.
    pub fn into_inner(self) -> W {
        self.sink
    }

    /// Bytes of the bundle so far.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Appends a record of any type, so that a bundle of a newer version survives being read and written.
    pub fn append(
        &mut self,
        record_type: RecordType,
        status_code: u32,
        fields: &RecordFields<'_>,
        content_type: &[u8],
        parts: &[&[u8]],
    ) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)?;
        let payload_length: usize = parts.iter().map(|part| part.len()).sum();
        let strings = [content_type, fields.name];
        let lengths = strings.map(|text| u32::try_from(text.len()).ok());
        let [Some(content_type_length), Some(name_length)] = lengths else {
            return Err(Error::out_of_range("a content type or name is longer than 4 GiB"));
        };
        let data_length = (content_type.len() + fields.name.len() + payload_length) as u64;
        let header = RecordHeader {
            record_length: U64::new(size_of::<RecordHeader>() as u64 + data_length),
            payload_length: U64::new(payload_length as u64),
            content_type_length: U32::new(content_type_length),
            name_length: U32::new(name_length),
            session_status_code: U32::new(status_code),
            record_type: U16::new(record_type.0),
            ..record_header(record_type, fields)
        };
        self.record.clear();
        self.record.extend_from_slice(header.as_bytes());
        strings.iter().for_each(|text| self.record.extend_from_slice(text));
        let written = if payload_length <= ASSEMBLED_BYTES {
            parts.iter().for_each(|part| self.record.extend_from_slice(part));
            self.sink.write_all(&self.record)
        } else {
            let first = self.sink.write_all(&self.record);
            parts.iter().fold(first, |so_far, part| so_far.and_then(|()| self.sink.write_all(part)))
        };
        self.length_bytes += header.record_length.get();
        self.check(written)
    }

    /// Writes the file header again, with a length.
    fn write_length(&mut self, length: u64) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)?;
        let header = file_header(length);
        let written = self
            .sink
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.sink.write_all(header.as_bytes()))
            .and_then(|()| self.sink.seek(SeekFrom::Start(self.length_bytes)))
            .and_then(|_| self.sink.flush());
        self.check(written)
    }

    fn check(&mut self, result: std::io::Result<()>) -> Result<()> {
        result.map_err(|error| self.failure.insert(failed(&error)).clone())
    }
}

fn record_header(record_type: RecordType, fields: &RecordFields<'_>) -> RecordHeader {
    let is_chunk = record_type == RecordType::CHUNK;
    let dropped = if is_chunk { fields.dropped_record_count } else { 0 };
    let is_truncated = is_chunk && (fields.is_truncated || dropped != 0);
    RecordHeader {
        session_id: U64::new(fields.session_id),
        stream_id: U64::new(fields.stream_id),
        event_id: U64::new(fields.event_id),
        executable_id: U64::new(fields.executable_id),
        command_buffer_id: U64::new(fields.command_buffer_id),
        header_length: U32::new(size_of::<RecordHeader>() as u32),
        physical_device_ordinal: U32::new(fields.physical_device_ordinal),
        queue_ordinal: U32::new(fields.queue_ordinal),
        chunk_flags: U64::new(if is_truncated { CHUNK_TRUNCATED } else { 0 }),
        dropped_record_count: U64::new(dropped),
        ..RecordHeader::default()
    }
}

fn file_header(length: u64) -> FileHeader {
    FileHeader {
        magic: U32::new(FILE_MAGIC),
        version_major: U16::new(VERSION.0),
        version_minor: U16::new(VERSION.1),
        header_length: U32::new(size_of::<FileHeader>() as u32),
        flags: U32::new(0),
        file_length: U64::new(length),
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::io("writing the profile", error)
}
