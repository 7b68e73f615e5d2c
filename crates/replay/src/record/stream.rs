use std::sync::Arc;
use std::time::Duration;

use rehal_base::{Error, HostMemory, Range, Result};
use rehal_capture::payload::View;
use rehal_capture::{ObjectType, PayloadType, RecordFields, RecordType, Writer, layout};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

use super::RecordOptions;
use super::background_sink::{BackgroundSink, CaptureSink};
use super::sync::thread::{Builder, JoinHandle};
use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use crate::encode::{Call, Put};
use crate::ids::ThreadNumbers;

/// Shared memory up to this size is copied, then encoded like other bytes; more is copied into the writer's
/// buffer.
const COPIED_BYTES: u64 = 4096;

/// How often pending records are written: a record reaches the file within 100 ms of its call even if the
/// machine is busy.
const FLUSH_INTERVAL: Duration = Duration::from_millis(40);

/// The records of all devices of a program, in a single order.
pub(super) struct Stream {
    pub options: RecordOptions,
    next_id: AtomicU64,
    /// Whether the program has a part that the capture lacks: see [`Stream::host_takes_part`].
    host_part: AtomicBool,
    log: Mutex<Option<Log>>,
    ending: Arc<Ending>,
    flusher: Mutex<Option<JoinHandle<()>>>,
}

/// Tells the flusher to exit.
#[derive(Default)]
struct Ending {
    ended: Mutex<bool>,
    changed: Condvar,
}

/// The capture under construction.
///
/// The writer keeps the first error of its sink. The error must not disturb the program, so adding a record
/// does not return it; [`Stream::close`] does.
pub(super) struct Log {
    writer: Writer<BackgroundSink>,
    /// Set if threads are numbered.
    threads: Option<ThreadNumbers>,
}

impl Stream {
    /// Starts a capture and its flusher thread.
    pub fn start(sink: Box<dyn CaptureSink>, options: RecordOptions) -> Result<Arc<Self>> {
        let mut writer = Writer::new(BackgroundSink::start(sink)?)?;
        writer.leave_age_to_owner();
        writer.begin_checksummed(&RecordFields::default())?;
        let ending = Arc::new(Ending::default());
        let this = Arc::new(Self {
            options,
            next_id: AtomicU64::new(1),
            host_part: AtomicBool::new(false),
            log: Mutex::new(Some(Log {
                writer,
                threads: options.renumber_threads.then(ThreadNumbers::default),
            })),
            ending: ending.clone(),
            flusher: Mutex::new(None),
        });
        let stream = Arc::downgrade(&this);
        let flusher = Builder::new()
            .name("rehal-recorder".into())
            .spawn(move || {
                while !ending.wait(FLUSH_INTERVAL) {
                    let Some(stream) = stream.upgrade() else { return };
                    stream.with_log(|log| drop(log.writer.start_flush()));
                }
            })
            .map_err(|error| Error::io("starting the thread that writes the capture", &error))?;
        *this.flusher.lock() = Some(flusher);
        Ok(this)
    }

    /// Allocates an object id.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that the host fails a semaphore, or is called by a queue: work may then fail without a cause in
    /// the capture.
    pub fn host_takes_part(&self) {
        self.host_part.store(true, Ordering::Release);
    }

    /// Whether it has.
    pub fn has_host_part(&self) -> bool {
        self.host_part.load(Ordering::Acquire)
    }

    /// Appends records atomically: those of one call are contiguous. Does nothing once the capture is closed.
    #[inline]
    pub fn with_log(&self, add: impl FnOnce(&mut Log)) {
        if let Some(log) = &mut *self.log.lock() {
            add(log);
        }
    }

    /// Closes the capture and returns its first write error. A second close does nothing, and returns once
    /// the first has completed.
    pub fn close(&self) -> Result<()> {
        let mut log = self.log.lock();
        let Some(Log { writer, .. }) = log.take() else { return Ok(()) };
        let outcome = writer.close();
        drop(log);
        self.ending.end();
        let flusher = self.flusher.lock().take();
        // It exits because the stream is closed; the writer has kept any error.
        let _ = flusher.map(JoinHandle::join);
        outcome
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Not joined: the flusher itself may drop the last handle.
        self.ending.end();
    }
}

impl Ending {
    fn end(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }

    /// Waits at most `time` for the end; returns whether it was reached.
    fn wait(&self, time: Duration) -> bool {
        let mut ended = self.ended.lock();
        if !*ended {
            self.changed.wait_for(&mut ended, time);
        }
        *ended
    }
}

impl Log {
    /// Writes all records so far to the file, and waits for that. Closing reports errors.
    pub fn flush(&mut self) {
        drop(self.writer.flush());
    }

    /// Appends the record of a call on `device` that returned `status`; returns its offset.
    pub fn operation(
        &mut self,
        device: u64,
        status: u32,
        call: Call,
        payload_type: PayloadType,
        parts: &[&[u8]],
    ) -> u64 {
        let offset = self.writer.length_bytes();
        self.append(fields_of(device, status, call, payload_type), parts);
        offset
    }

    /// [`Log::calls`] with shared memory as the last part of the payload: `encode` receives the bytes, or an
    /// empty slice if they are appended after its output.
    pub fn calls_with_memory(
        &mut self,
        device: u64,
        status: u32,
        memory: &HostMemory,
        range: Range,
        encode: impl FnOnce(&[u8], &mut Put<'_>),
    ) {
        if range.length <= COPIED_BYTES || memory.constant_bytes().is_some() {
            // In bounds: checked by the constructor of the range.
            let bytes = memory.bytes(range).unwrap_or_default();
            return self.calls(device, status, |put| encode(&bytes, put));
        }
        encode(&[], &mut |call, payload_type, parts| {
            let fields = self.numbered(fields_of(device, status, call, payload_type));
            let header = announce(payload_type, parts, range.length);
            // Copied on the way: the checksum must match the written bytes even if the program writes
            // concurrently.
            let _ = self.writer.append_with_tail(&fields, &[&header], range.length, |done, target| {
                let read = memory.read(range.offset + done, target);
                debug_assert!(read.is_ok(), "the range is of the memory");
                if read.is_err() {
                    target.fill(0);
                }
            });
        });
    }

    /// Appends the record of a created object.
    pub fn object(&mut self, device: u64, object_type: ObjectType, id: u64, view: &impl View) {
        view.with_parts(|parts| self.object_parts(device, object_type, id, payload_type(view), parts));
    }

    /// Appends the record of an object without a payload.
    pub fn bare_object(&mut self, device: u64, object_type: ObjectType, id: u64) {
        self.object_parts(device, object_type, id, PayloadType::NONE, &[]);
    }

    /// Appends the calls emitted by `encode`, on `device` with `status`.
    pub fn calls(&mut self, device: u64, status: u32, encode: impl FnOnce(&mut Put<'_>)) {
        encode(&mut |call, payload_type, parts| {
            self.operation(device, status, call, payload_type, parts);
        });
    }

    /// Appends the call emitted by `encode` and, if it succeeded, the created object of type `made`, with the
    /// same payload.
    pub fn creation(
        &mut self,
        device: u64,
        status: u32,
        made: ObjectType,
        encode: impl FnOnce(&mut Put<'_>),
    ) {
        encode(&mut |call, payload_type, parts| {
            self.operation(device, status, call, payload_type, parts);
            if status == 0 {
                self.object_parts(device, made, call.related, payload_type, parts);
            }
        });
    }

    /// Appends what the map before it read.
    pub fn read_digest(&mut self, digest: &layout::ReadDigest) {
        self.session(PayloadType::READ_DIGEST, digest.as_bytes());
    }

    /// Appends what a dispatch of an earlier submission wrote.
    pub fn dispatch_digests(&mut self, payload: &[u8]) {
        self.session(PayloadType::DISPATCH_DIGESTS, payload);
    }

    fn session(&mut self, payload_type: PayloadType, payload: &[u8]) {
        let record_type = RecordType::SESSION;
        let fields = RecordFields { record_type, optional: true, payload_type, ..Default::default() };
        self.append(fields, &[payload]);
    }

    /// Records so far: the ordinal of the next one.
    pub fn record_count(&self) -> u64 {
        self.writer.record_count()
    }

    /// Updates the status of the record at `offset`, whose call has failed only now.
    pub fn set_status(&mut self, offset: u64, status: u32) {
        self.writer.set_status(offset, status);
    }

    /// Appends the record of an object with the payload `parts`.
    pub fn object_parts(
        &mut self,
        device: u64,
        object_type: ObjectType,
        id: u64,
        payload_type: PayloadType,
        parts: &[&[u8]],
    ) {
        let fields = RecordFields {
            record_type: RecordType::OBJECT,
            thread_id: thread_id(),
            device_id: device,
            object_id: id,
            payload_type,
            object_type,
            ..Default::default()
        };
        self.append(fields, parts);
    }

    fn append(&mut self, fields: RecordFields, parts: &[&[u8]]) {
        // The writer keeps an error until it is closed.
        let fields = self.numbered(fields);
        let _ = self.writer.append(&fields, parts);
    }

    fn numbered(&mut self, mut fields: RecordFields) -> RecordFields {
        if let Some(threads) = &mut self.threads {
            fields.thread_id = threads.number(fields.thread_id);
        }
        fields
    }
}

/// The fields of a call's record besides its payload.
fn fields_of(device: u64, status: u32, call: Call, payload_type: PayloadType) -> RecordFields {
    RecordFields {
        record_type: call.record_type,
        thread_id: thread_id(),
        device_id: call.device.unwrap_or(device),
        object_id: call.object,
        related_object_id: call.related,
        payload_type,
        object_type: call.object_type,
        operation: call.operation,
        status_code: status,
        ..Default::default()
    }
}

/// Patches a payload that was encoded without its last part as if `length` more bytes followed.
fn announce(payload_type: PayloadType, parts: &[&[u8]], length: u64) -> Vec<u8> {
    let mut payload = parts.concat();
    let length = U64::new(length);
    // The header comes first and is complete: `encode` emitted it.
    match payload_type {
        PayloadType::BUFFER_RANGE_DATA => {
            header(&mut payload, |it: &mut layout::BufferRangeData| it.data_length = length)
        }
        PayloadType::ALLOCATOR_IMPORT_BUFFER => {
            header(&mut payload, |it: &mut layout::ImportBuffer| it.data_length = length)
        }
        PayloadType::FILE_OBJECT => {
            header(&mut payload, |it: &mut layout::FileObject| it.reference_length = length)
        }
        other => unreachable!("no payload of type {other} ends with memory"),
    }
    payload
}

fn header<T: FromBytes + IntoBytes + KnownLayout>(payload: &mut [u8], change: impl FnOnce(&mut T)) {
    match T::mut_from_prefix(payload) {
        Ok((header, _)) => change(header),
        Err(_) => unreachable!("the payload begins with its header"),
    }
}

fn payload_type<V: View>(_: &V) -> PayloadType {
    V::TYPE
}

/// The operating system's id of this thread.
fn thread_id() -> u64 {
    thread_local! {
        static ID: u64 = rehal_base::thread_id();
    }
    ID.with(|id| *id)
}

/// The status code of a result as stored in captures.
pub(super) fn status_of<T>(outcome: &Result<T>) -> u32 {
    match outcome {
        Ok(_) => 0,
        Err(error) => error.code() as u32,
    }
}
