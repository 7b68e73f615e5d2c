use std::io::{Seek, SeekFrom};
use std::time::{Duration, Instant};

use rehal_base::{Error, Result};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::checksums::{self, Blocks};
use crate::layout::{FILE_MAGIC, FileHeader, RECORD_FLAG_OPTIONAL, RecordHeader};
use crate::payload::View;
use crate::sink::{Sink, WriteBuffer};
use crate::{ObjectType, OperationCode, PayloadType, RecordType, Version};

/// Longer slices are passed to the sink without a copy.
const COPIED_BYTES: usize = 256 * 1024;

/// Chunk size for checksumming and writing a long slice: it fits into the cache of one core, and file systems
/// write larger chunks no faster.
const SUMMED_BYTES: usize = 256 * 1024;

/// The last part of a payload, from this size on, begins at a page of the file, so that it can be mapped in
/// the place of memory: the header of its record is as much longer. All that is long in captures comes last.
const ALIGNED_BYTES: u64 = 1 << 20;
// A record that is buffered has no room for the padding.
const _: () = assert!(ALIGNED_BYTES > crate::sink::BUFFER_BYTES as u64);
const PAGE_BYTES: u64 = 4096;
static PADDING: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];

/// Maximum age of buffered bytes.
const BUFFER_AGE: Duration = Duration::from_millis(100);

/// Writes a capture, record by record.
///
/// It buffers at most 128 KiB, and borrows payloads only for the duration of a call. The capture of a killed
/// program is readable with `recover`: records are passed to the sink once they amount to 128 KiB or are 100
/// ms old (each append checks the age, unless [`Writer::leave_age_to_owner`] was called).
///
/// The first error of the sink is sticky: later calls repeat it and [`Writer::close`] returns it. Dropping a
/// writer flushes its buffer and leaves the capture unclosed.
pub struct Writer<W: Sink> {
    sink: W,
    buffer: WriteBuffer,
    oldest_byte: Option<Instant>,
    minds_age: bool,
    length_bytes: u64,
    record_count: u64,
    version: Version,
    checksums: Option<Box<Blocks>>,
    failure: Option<Error>,
}

/// The header fields of a record, except its ordinal and sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFields {
    /// The record type.
    pub record_type: RecordType,
    /// Whether readers may skip it if they do not know its type.
    pub optional: bool,
    /// Thread that made the call, or zero.
    pub thread_id: u64,
    /// Device it belongs to, or zero.
    pub device_id: u64,
    /// The object, or zero.
    pub object_id: u64,
    /// The related object, or zero.
    pub related_object_id: u64,
    /// The payload type.
    pub payload_type: PayloadType,
    /// Type of the object.
    pub object_type: ObjectType,
    /// The recorded operation.
    pub operation: OperationCode,
    /// IREE status code of the call.
    pub status_code: u32,
}

impl<W: Sink> Writer<W> {
    /// Starts a capture of version 2.0 at the beginning of `sink`. Writes the header immediately.
    pub fn new(sink: W) -> Result<Self> {
        Self::for_version(sink, Version { major: 2, minor: 0 })
    }

    /// Starts a capture of a version that records are copied from: see [`Writer::new`].
    pub fn for_version(sink: W, version: Version) -> Result<Self> {
        let mut this = Self {
            sink,
            buffer: WriteBuffer::default(),
            oldest_byte: None,
            minds_age: true,
            length_bytes: 0,
            record_count: 0,
            version,
            checksums: None,
            failure: None,
        };
        this.put(file_header(version, 0).as_bytes());
        this.flush()?;
        Ok(this)
    }

    /// Appends the session record which announces that [`Writer::close`] appends checksums of all bytes: four
    /// bytes for each 4 KiB, kept in memory until then.
    ///
    /// Fails unless it is the first record, or if the sink failed.
    pub fn begin_checksummed(&mut self, fields: &RecordFields) -> Result<()> {
        if self.record_count > 0 {
            return Err(Error::failed_precondition("checksums are announced by the first record"));
        }
        let mut blocks = Box::new(Blocks::default());
        blocks.add(file_header(self.version, 0).as_bytes());
        self.checksums = Some(blocks);
        let (record_type, payload_type) = (RecordType::SESSION, PayloadType::CHECKSUMMED);
        self.append(&RecordFields { record_type, payload_type, ..*fields }, &[])
    }

    /// Stops checking the age of buffered bytes: the owner calls [`Writer::flush`] at least every 100 ms.
    pub fn leave_age_to_owner(&mut self) {
        self.minds_age = false;
        self.oldest_byte = None;
    }

    /// Appends a record whose payload is the concatenation of `parts`.
    ///
    /// Fails if the record type is unknown and not optional, or if the sink fails or has failed before.
    pub fn append(&mut self, fields: &RecordFields, parts: &[&[u8]]) -> Result<()> {
        let header = self.begin_record(fields, parts, 0)?;
        let record_bytes = header.record_length.get();
        if record_bytes <= self.buffer.free_bytes() as u64 {
            self.length_bytes += record_bytes;
            self.note_age();
            self.buffer.fill_with(record_bytes as usize, |target| {
                let (target, mut rest) = target.split_at_mut(size_of::<RecordHeader>());
                target.copy_from_slice(header.as_bytes());
                for part in parts {
                    let (target, after) = rest.split_at_mut(part.len());
                    target.copy_from_slice(part);
                    rest = after;
                }
            });
        } else {
            self.put_first(&header, parts);
        }
        self.flush_if_due();
        self.check_failure()
    }

    /// Appends a record whose payload is `parts` followed by `tail_length` bytes, for data that is not
    /// available as a slice. `read` is called with an offset in the tail and a slice to fill completely, for
    /// one piece after another.
    ///
    /// Fails like [`Writer::append`].
    pub fn append_with_tail(
        &mut self,
        fields: &RecordFields,
        parts: &[&[u8]],
        tail_length: u64,
        mut read: impl FnMut(u64, &mut [u8]),
    ) -> Result<()> {
        let header = self.begin_record(fields, parts, tail_length)?;
        self.put_first(&header, parts);
        let mut done = 0;
        while done < tail_length {
            self.make_room(1);
            let count = (tail_length - done).min(self.buffer.free_bytes() as u64);
            self.buffer.fill_with(count as usize, |target| read(done, target));
            self.length_bytes += count;
            done += count;
        }
        self.flush_if_due();
        self.check_failure()
    }

    /// Counts a record and returns its header.
    #[inline(always)]
    fn begin_record(
        &mut self,
        fields: &RecordFields,
        parts: &[&[u8]],
        tail_length: u64,
    ) -> Result<RecordHeader> {
        self.check_failure()?;
        if fields.record_type == RecordType::NONE || !(fields.record_type.is_known() || fields.optional) {
            return Err(must_be_optional(fields.record_type));
        }
        let payload_length = parts.iter().map(|part| part.len() as u64).sum::<u64>() + tail_length;
        let mut header = record_header(fields, self.record_count, payload_length);
        let last_length =
            if tail_length == 0 { parts.last().map_or(0, |it| it.len() as u64) } else { tail_length };
        if last_length >= ALIGNED_BYTES {
            let last = self.length_bytes + header.record_length.get() - last_length;
            let padding = last.wrapping_neg() % PAGE_BYTES;
            header.header_length += U32::new(padding as u32);
            header.record_length += U64::new(padding);
        }
        self.record_count += 1;
        Ok(header)
    }

    /// Appends a record with a typed payload. The payload type is the view's; the one in `fields` is ignored.
    ///
    /// Fails like [`Writer::append`], and if a count in the view's header differs from the length of its
    /// list.
    pub fn append_view(&mut self, fields: &RecordFields, view: &impl View) -> Result<()> {
        let fields = RecordFields { payload_type: view_type(view), ..*fields };
        if let Some((field, length, count)) = view.count_mismatch() {
            let name = fields.payload_type.name();
            return Err(Error::invalid_argument(format!(
                "{name}: {field} is {count} for a list of {length}"
            )));
        }
        view.with_parts(|parts| self.append(&fields, parts))
    }

    /// Flushes the buffer and the sink.
    pub fn flush(&mut self) -> Result<()> {
        self.flush_by(W::flush)
    }

    /// Flushes the buffer and the sink without waiting for a sink that writes later: see
    /// [`Sink::start_flush`].
    pub fn start_flush(&mut self) -> Result<()> {
        self.flush_by(W::start_flush)
    }

    fn flush_by(&mut self, flush: impl FnOnce(&mut W) -> std::io::Result<()>) -> Result<()> {
        self.drain();
        if self.failure.is_none()
            && let Err(error) = flush(&mut self.sink)
        {
            self.fail(&error);
        }
        self.check_failure()
    }

    /// Flushes the buffer to the sink if it is old enough.
    fn flush_if_due(&mut self) {
        if self.oldest_byte.is_some_and(|since| since.elapsed() >= BUFFER_AGE) {
            self.drain();
        }
    }

    /// Records so far.
    pub fn record_count(&self) -> u64 {
        self.record_count
    }

    /// Bytes of the capture so far, including buffered ones.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Ends the capture without its length, for a sink that is not seekable (a pipe): to readers, the capture
    /// was never closed.
    pub fn close_unsealed(mut self) -> Result<()> {
        self.flush()
    }

    /// Appends the header of a record and `parts`.
    fn put_first(&mut self, header: &RecordHeader, parts: &[&[u8]]) {
        // Whole, so that a status is either in the buffer or in the sink, never split.
        self.make_room(size_of::<RecordHeader>());
        self.put(header.as_bytes());
        self.put(&PADDING[..header.header_length.get() as usize - size_of::<RecordHeader>()]);
        parts.iter().for_each(|part| self.put(part));
    }

    /// Appends bytes to the capture: to the buffer, or directly to the sink if they are long.
    fn put(&mut self, mut bytes: &[u8]) {
        self.length_bytes += bytes.len() as u64;
        if bytes.len() > COPIED_BYTES {
            self.drain();
            return self.send(bytes);
        }
        while !bytes.is_empty() {
            self.make_room(1);
            bytes = &bytes[self.buffer.extend(bytes)..];
        }
    }

    /// Ensures room for `bytes` in the buffer, which the caller then appends.
    fn make_room(&mut self, bytes: usize) {
        if self.buffer.free_bytes() < bytes {
            self.drain();
        }
        self.note_age();
    }

    fn note_age(&mut self) {
        if self.minds_age {
            self.oldest_byte.get_or_insert_with(Instant::now);
        }
    }

    fn drain(&mut self) {
        self.oldest_byte = None;
        if self.buffer.filled().is_empty() {
            return;
        }
        if let Some(checksums) = &mut self.checksums {
            checksums.add(self.buffer.filled());
        }
        if self.failure.is_none()
            && let Err(error) = self.sink.write_buffer(&mut self.buffer)
        {
            self.fail(&error);
        }
        self.buffer.clear();
    }

    fn send(&mut self, bytes: &[u8]) {
        // In chunks, so that the bytes are still in the cache when the sink reads them.
        for piece in bytes.chunks(SUMMED_BYTES) {
            if let Some(checksums) = &mut self.checksums {
                checksums.add(piece);
            }
            if self.failure.is_none()
                && let Err(error) = self.sink.write_bytes(piece)
            {
                self.fail(&error);
            }
        }
    }

    #[cold]
    fn fail(&mut self, error: &std::io::Error) {
        self.failure.get_or_insert_with(|| Error::io("writing the capture", error));
    }

    #[inline]
    fn check_failure(&self) -> Result<()> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl<W: Sink + Seek> Writer<W> {
    /// Patches the status of the record at `record_offset`, the value of [`Writer::length_bytes`] before it
    /// was appended. It must have been appended with status 0.
    pub fn set_status(&mut self, record_offset: u64, status_code: u32) {
        let status = U32::new(status_code);
        let offset = record_offset + core::mem::offset_of!(RecordHeader, status_code) as u64;
        let written_bytes = self.length_bytes - self.buffer.filled().len() as u64;
        // Headers are appended whole, so the field is either in the buffer or in the sink, never split.
        if let Some(waiting) = offset.checked_sub(written_bytes) {
            self.buffer.overwrite(waiting as usize, status.as_bytes());
        } else if self.failure.is_none() {
            if let Some(checksums) = &mut self.checksums {
                checksums.patch(offset, status.as_bytes());
            }
            let mut change = || {
                self.sink.seek(SeekFrom::Start(offset))?;
                self.sink.write_bytes(status.as_bytes())?;
                self.sink.seek(SeekFrom::Start(written_bytes)).map(drop)
            };
            if let Err(error) = change() {
                self.fail(&error);
            }
        }
    }

    /// Closes the capture: writes the buffer and the checksums, then the length into the file header. Returns
    /// the first error of any call.
    pub fn close(mut self) -> Result<()> {
        if let Some(checksums) = self.checksums.take() {
            self.append_checksums(*checksums)?;
        }
        self.flush()?;
        let header = file_header(self.version, self.length_bytes);
        let sealed = (|| {
            self.sink.seek(SeekFrom::Start(0))?;
            self.sink.write_bytes(header.as_bytes())?;
            self.sink.seek(SeekFrom::Start(self.length_bytes))?;
            self.sink.flush()
        })();
        sealed.map_err(|error| Error::io("closing the capture", &error))
    }
}

impl<W: Sink> Writer<W> {
    /// Appends the last record, with the checksums of all bytes before it.
    fn append_checksums(&mut self, mut blocks: Blocks) -> Result<()> {
        blocks.add(self.buffer.filled());
        let record_offset = self.length_bytes;
        let payload_bytes = Blocks::payload_bytes(record_offset);
        let length = U64::new(record_offset + size_of::<RecordHeader>() as u64 + payload_bytes);
        blocks.patch(core::mem::offset_of!(FileHeader, file_length) as u64, length.as_bytes());
        let fields = RecordFields {
            record_type: RecordType::SESSION,
            optional: true,
            payload_type: PayloadType::CHECKSUMS,
            ..Default::default()
        };
        let checksums = blocks.finish();
        let header = record_header(&fields, self.record_count, payload_bytes);
        let footer = checksums::footer(record_offset, &header, &checksums);
        self.append(&fields, &[checksums.as_bytes(), footer.as_bytes()])
    }
}

impl<W: Sink> Drop for Writer<W> {
    fn drop(&mut self) {
        // Drop cannot report a failure; `close` does.
        let _ = self.flush();
    }
}

impl From<&RecordHeader> for RecordFields {
    fn from(header: &RecordHeader) -> Self {
        Self {
            record_type: RecordType(header.record_type.get()),
            optional: header.record_flags.get() & RECORD_FLAG_OPTIONAL != 0,
            thread_id: header.thread_id.get(),
            device_id: header.device_id.get(),
            object_id: header.object_id.get(),
            related_object_id: header.related_object_id.get(),
            payload_type: PayloadType(header.payload_type.get()),
            object_type: ObjectType(header.object_type.get()),
            operation: OperationCode(header.operation_code.get()),
            status_code: header.status_code.get(),
        }
    }
}

#[cold]
fn must_be_optional(record_type: RecordType) -> Error {
    Error::invalid_argument(format!("a record of type {record_type} must be optional"))
}

fn view_type<V: View>(_: &V) -> PayloadType {
    V::TYPE
}

fn file_header(version: Version, file_length: u64) -> FileHeader {
    FileHeader {
        magic: U32::new(FILE_MAGIC),
        version_major: U16::new(version.major),
        version_minor: U16::new(version.minor),
        header_length: U32::new(size_of::<FileHeader>() as u32),
        flags: U32::ZERO,
        file_length: U64::new(file_length),
    }
}

fn record_header(fields: &RecordFields, ordinal: u64, payload_length: u64) -> RecordHeader {
    RecordHeader {
        record_length: U64::new(size_of::<RecordHeader>() as u64 + payload_length),
        payload_length: U64::new(payload_length),
        sequence_ordinal: U64::new(ordinal),
        thread_id: U64::new(fields.thread_id),
        device_id: U64::new(fields.device_id),
        object_id: U64::new(fields.object_id),
        related_object_id: U64::new(fields.related_object_id),
        header_length: U32::new(size_of::<RecordHeader>() as u32),
        record_type: U16::new(fields.record_type.0),
        record_flags: U16::new(if fields.optional { RECORD_FLAG_OPTIONAL } else { 0 }),
        payload_type: U32::new(fields.payload_type.0),
        object_type: U32::new(fields.object_type.0),
        operation_code: U32::new(fields.operation.0),
        status_code: U32::new(fields.status_code),
        ..RecordHeader::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;
    use crate::sink::BUFFER_BYTES;
    use crate::{Capture, OpenOptions};

    /// A sink that is full after `room` bytes.
    struct Full {
        room: usize,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
            Ok(0)
        }
    }

    const SESSION: RecordFields = RecordFields {
        record_type: RecordType::SESSION,
        optional: false,
        thread_id: 0,
        device_id: 0,
        object_id: 0,
        related_object_id: 0,
        payload_type: PayloadType::NONE,
        object_type: ObjectType::NONE,
        operation: OperationCode::NONE,
        status_code: 0,
    };

    #[test]
    fn the_first_error_sticks_until_close() {
        let mut writer = Writer::new(Full { room: 200 }).unwrap();
        let long = vec![7; 2 * BUFFER_BYTES];
        let blob = RecordFields { record_type: RecordType::BLOB, ..SESSION };
        let first = writer.append(&blob, &[&long]).unwrap_err();
        assert!(first.to_string().starts_with("RESOURCE_EXHAUSTED; writing the capture"), "{first}");
        assert_eq!(writer.append(&SESSION, &[]).unwrap_err().to_string(), first.to_string());
        assert_eq!(writer.close().unwrap_err().to_string(), first.to_string());
    }

    #[test]
    fn a_dropped_writer_leaves_a_recoverable_unclosed_capture() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(io::Cursor::new(&mut bytes)).unwrap();
        writer.append(&SESSION, &[]).unwrap();
        drop(writer);
        assert!(Capture::open(&bytes, OpenOptions::default()).is_err());
        let capture = Capture::open(&bytes, OpenOptions { recover: true }).unwrap();
        assert!(!capture.is_closed());
        assert_eq!(capture.tear(), None);
        assert_eq!(capture.records().count(), 1);
    }

    /// A killed program loses at most the last 128 KiB, and payloads are not retained.
    #[test]
    fn pending_bytes_are_bounded_by_the_buffer() {
        let shared = std::rc::Rc::new(std::cell::Cell::new(0u64));
        struct Counter(std::rc::Rc<std::cell::Cell<u64>>);
        impl Write for Counter {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.set(self.0.get() + bytes.len() as u64);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = Writer::new(Counter(shared.clone())).unwrap();
        let blob = RecordFields { record_type: RecordType::BLOB, ..SESSION };
        for length in [10, 100_000, 200_000, 3_000_000, 1, 250_000, 250_000] {
            writer.append(&blob, &[&vec![1; length]]).unwrap();
            let waiting = writer.length_bytes() - shared.get();
            assert!(waiting <= BUFFER_BYTES as u64, "{waiting}");
            assert_eq!(waiting, writer.buffer.filled().len() as u64);
        }
        writer.flush().unwrap();
        assert_eq!(shared.get(), writer.length_bytes());
    }

    #[test]
    fn a_status_is_patched_in_the_buffer_and_in_the_sink() {
        let mut bytes = io::Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut bytes).unwrap();
        let first = writer.length_bytes();
        writer.append(&SESSION, &[]).unwrap();
        writer.flush().unwrap();
        let second = writer.length_bytes();
        writer.append(&SESSION, &[b"payload"]).unwrap();
        writer.set_status(second, 9);
        writer.set_status(first, 5);
        writer.append(&SESSION, &[]).unwrap();
        writer.close().unwrap();
        let capture = Capture::open(bytes.get_ref(), OpenOptions::default()).unwrap();
        let statuses: Vec<_> =
            capture.records().map(|record| record.unwrap().header.status_code.get()).collect();
        assert_eq!(statuses, [5, 9, 0]);
    }

    /// Wherever the buffer ends: before, in or after the header of the record.
    #[test]
    fn a_status_is_patched_across_any_buffer_boundary() {
        let header_bytes = size_of::<RecordHeader>();
        for free_bytes in 0..header_bytes + 8 {
            let mut bytes = io::Cursor::new(Vec::new());
            let mut writer = Writer::new(&mut bytes).unwrap();
            writer.begin_checksummed(&SESSION).unwrap();
            let blob = RecordFields { record_type: RecordType::BLOB, ..SESSION };
            writer
                .append(&blob, &[&vec![1; writer.buffer.free_bytes() - header_bytes - free_bytes]])
                .unwrap();
            assert_eq!(writer.buffer.free_bytes(), free_bytes);
            let last = writer.length_bytes();
            writer.append(&blob, &[&[2; 16]]).unwrap();
            writer.set_status(last, 5);
            writer.close().unwrap();
            let capture = Capture::open(bytes.get_ref(), OpenOptions::default()).unwrap();
            let statuses: Vec<_> =
                capture.records().map(|record| record.unwrap().header.status_code.get()).collect();
            assert_eq!(statuses, [0, 0, 5, 0], "{free_bytes}");
        }
    }

    #[test]
    fn a_tail_ends_its_record() {
        let blob = RecordFields { record_type: RecordType::BLOB, ..SESSION };
        let (mut together, mut apart) = (Vec::new(), Vec::new());
        for (bytes, has_tail) in [(&mut together, false), (&mut apart, true)] {
            let mut writer = Writer::new(io::Cursor::new(bytes)).unwrap();
            writer.append(&SESSION, &[b"first"]).unwrap();
            if has_tail {
                let read = |at: u64, target: &mut [u8]| {
                    target.copy_from_slice(&b"tail"[at as usize..][..target.len()])
                };
                writer.append_with_tail(&blob, &[b"head", b"er"], 4, read).unwrap();
            } else {
                writer.append(&blob, &[b"head", b"er", b"tail"]).unwrap();
            }
            let last = writer.length_bytes();
            writer.append(&SESSION, &[b"last"]).unwrap();
            writer.set_status(last, 3);
            writer.close().unwrap();
        }
        assert_eq!(together, apart);
        let mut writer = Writer::new(Full { room: 400 }).unwrap();
        let read = |_, target: &mut [u8]| target.fill(7);
        let first = writer.append_with_tail(&blob, &[], 2 * BUFFER_BYTES as u64, read).unwrap_err();
        assert!(first.to_string().starts_with("RESOURCE_EXHAUSTED; writing the capture"), "{first}");
        assert_eq!(writer.close().unwrap_err().to_string(), first.to_string());
    }

    /// Wherever in the file the record begins, and however the last part is passed.
    #[test]
    fn a_long_last_part_begins_at_a_page() {
        let blob = RecordFields { record_type: RecordType::BLOB, ..SESSION };
        let (long, short) = (vec![7; 1 << 20], vec![7; (1 << 20) - 1]);
        let mut bytes = Vec::new();
        let mut writer = Writer::new(io::Cursor::new(&mut bytes)).unwrap();
        writer.begin_checksummed(&SESSION).unwrap();
        let mut places = Vec::new();
        for at in 0..24 {
            writer.append(&blob, &[&vec![1; at * 411]]).unwrap();
            let (last, has_tail) = (if at % 8 < 6 { &long } else { &short }, at % 2 == 0);
            match has_tail {
                true => writer.append_with_tail(&blob, &[b"head"], last.len() as u64, |_, it| it.fill(7)),
                false => writer.append(&blob, &[b"he", b"ad", last]),
            }
            .unwrap();
            places.push((writer.length_bytes() - last.len() as u64, last.len()));
        }
        writer.close().unwrap();
        let capture = Capture::open(&bytes, OpenOptions::default()).unwrap();
        let records: Vec<_> = capture.records().map(|record| record.unwrap()).collect();
        let mut places = places.into_iter();
        for record in records.iter().filter(|it| it.payload.starts_with(b"head")) {
            let (place, length) = places.next().unwrap();
            let is_long = length == long.len();
            assert_eq!(record.payload_offset() + 4, place);
            assert!(!is_long || place % 4096 == 0);
            let header_bytes = record.header.header_length.get() as usize;
            assert_eq!(is_long, header_bytes > size_of::<RecordHeader>(), "{place}");
            assert!(record.payload[4..] == vec![7; length]);
            let padding =
                record.offset as usize + size_of::<RecordHeader>()..record.payload_offset() as usize;
            assert!(bytes[padding].iter().all(|byte| *byte == 0));
        }
        assert_eq!(places.next(), None);
    }

    #[test]
    fn an_unsealed_capture_differs_only_in_its_length() {
        let (mut piped, mut sealed) = (Vec::new(), io::Cursor::new(Vec::new()));
        let mut writer = Writer::new(&mut piped).unwrap();
        writer.append(&SESSION, &[]).unwrap();
        writer.close_unsealed().unwrap();
        let mut writer = Writer::new(&mut sealed).unwrap();
        writer.append(&SESSION, &[]).unwrap();
        writer.close().unwrap();
        assert_eq!(piped[24..], sealed.get_ref()[24..]);
        assert_eq!(piped[16..24], [0; 8]);
        assert_eq!(sealed.get_ref()[16..24], 120u64.to_le_bytes());
    }

    #[test]
    fn unknown_record_types_must_be_optional() {
        let mut writer = Writer::new(io::sink()).unwrap();
        let mut fields = RecordFields { record_type: RecordType(900), ..SESSION };
        assert!(writer.append(&fields, &[]).is_err());
        fields.optional = true;
        writer.append(&fields, &[b"note"]).unwrap();
        fields.record_type = RecordType::NONE;
        assert!(writer.append(&fields, &[]).is_err());
    }
}
