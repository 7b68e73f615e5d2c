use std::fs::File;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::profile::{
    ClockSample, CommandRegion, DeviceQueueEvent, DispatchEvent, HostExecution, MemoryEvent, ProfileSink,
    ProfiledCommand, ProfiledOperation, QueueEvent, WorkerSpan,
};
use rehal_hal::{CommandBufferParams, FunctionInfo};
use rehal_profile::{ContentType, RecordFields, Writer};

use super::rows::{self, Origin};

/// The file, which all devices of a session write to.
pub(super) struct Bundle {
    writer: Mutex<Writer<File>>,
    /// The first error.
    failure: Mutex<Option<Error>>,
    /// Returns true if a benchmark should flush at its next pause.
    is_due: AtomicBool,
    /// How often the program has flushed.
    flush_count: AtomicU64,
}

/// Receives what one device reports, as a session of its own in the bundle.
pub(super) struct DeviceSink {
    bundle: Arc<Bundle>,
    name: String,
    session_id: u64,
    origin: Origin,
    pending: Mutex<Pending>,
    /// Held while rows are taken and written, so that chunks are in the order of their rows.
    writing: Mutex<()>,
}

/// The rows that are not written yet.
#[derive(Default)]
struct Pending {
    /// Rows, as the bytes of their chunks.
    lists: [Vec<u8>; LISTS.len()],
    /// Bytes of all rows.
    size_bytes: usize,
    /// Rows of each list in the session so far, which number events.
    counts: [u64; LISTS.len()],
    /// Whether the session has ended: what is reported later, such as buffers that are freed then, is not
    /// written.
    is_ended: bool,
}

/// Chunks in the order in which they are written: metadata precedes events.
const LISTS: [ContentType; 12] = [
    ContentType::Executables,
    ContentType::Functions,
    ContentType::CommandBuffers,
    ContentType::CommandOperations,
    ContentType::ClockCorrelations,
    ContentType::DispatchEvents,
    ContentType::QueueEvents,
    ContentType::QueueDeviceEvents,
    ContentType::HostExecutionEvents,
    ContentType::CommandRegionEvents,
    ContentType::MemoryEvents,
    ContentType::EventRelationships,
];
const EXECUTABLE: usize = 0;
const FUNCTION: usize = 1;
const COMMAND_BUFFER: usize = 2;
const OPERATION: usize = 3;
const CLOCK: usize = 4;
const DISPATCH: usize = 5;
const QUEUE: usize = 6;
const QUEUE_DEVICE: usize = 7;
const HOST_EXECUTION: usize = 8;
const REGION: usize = 9;
const MEMORY: usize = 10;
const RELATIONSHIP: usize = 11;

/// Pending bytes at which a program that measures should write them.
const DUE_BYTES: usize = 1 << 20;

/// Pending bytes at which the thread that reports writes them: the writer is late.
const BACKLOG_BYTES: usize = 8 << 20;

impl Bundle {
    pub(super) fn new(file: File) -> Result<Self> {
        Ok(Self {
            writer: Mutex::new(Writer::new(file)?),
            failure: Mutex::default(),
            is_due: AtomicBool::new(false),
            flush_count: AtomicU64::new(0),
        })
    }

    /// Fails with the first error of writing.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Whether rows should be written at the next opportunity.
    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    pub(super) fn set_due(&self, is_due: bool) {
        self.is_due.store(is_due, Ordering::Relaxed);
    }

    /// The program flushes: nothing is due any more.
    pub(super) fn count_flush(&self) {
        self.set_due(false);
        self.flush_count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn flush_count(&self) -> u64 {
        self.flush_count.load(Ordering::Relaxed)
    }

    fn with_writer(&self, write: impl FnOnce(&mut Writer<File>) -> Result<()>) {
        let written = write(&mut self.writer.lock());
        if let Err(error) = written {
            self.failure.lock().get_or_insert(error);
        }
    }
}

impl DeviceSink {
    /// The sink of the device with this ordinal.
    pub(super) fn new(
        bundle: &Arc<Bundle>,
        ordinal: u32,
        name: &str,
        device_uuid: Option<[u8; 16]>,
    ) -> Arc<Self> {
        Arc::new(Self {
            bundle: bundle.clone(),
            name: name.to_owned(),
            session_id: u64::from(ordinal) + 1,
            origin: Origin { device_ordinal: ordinal, device_uuid },
            pending: Mutex::default(),
            writing: Mutex::default(),
        })
    }

    fn fields(&self) -> RecordFields<'_> {
        RecordFields { name: self.name.as_bytes(), session_id: self.session_id, ..RecordFields::default() }
    }

    /// Writes the begin of the session, with the device and its queue.
    pub(super) fn begin(&self) {
        let fields = self.fields();
        self.bundle.with_writer(|writer| {
            writer.begin_session(&fields)?;
            append(writer, &fields, ContentType::Devices, &self.origin.device())?;
            append(writer, &fields, ContentType::Queues, &self.origin.queue())
        });
    }

    /// Writes all rows, and the end of the session.
    pub(super) fn end(&self, status: StatusCode) {
        self.pending.lock().is_ended = true;
        self.write();
        let fields = self.fields();
        self.bundle.with_writer(|writer| writer.end_session(&fields, status as u32));
    }

    /// Writes the rows reported so far.
    pub(super) fn write(&self) {
        let _writing = self.writing.lock();
        let lists = self.pending.lock().take();
        let fields = self.fields();
        self.bundle.with_writer(|writer| {
            for (index, (content, rows)) in
                LISTS.iter().zip(&lists).enumerate().filter(|(_, (_, rows))| !rows.is_empty())
            {
                // The device and the queue of these are those of their chunk.
                let fields = match index {
                    DISPATCH => self.origin.of_queue(fields),
                    _ => fields,
                };
                append(writer, &fields, *content, rows)?;
            }
            Ok(())
        });
        // Keep the capacity, so that reporting does not allocate.
        let mut pending = self.pending.lock();
        for (list, mut written) in pending.lists.iter_mut().zip(lists) {
            if list.is_empty() && written.capacity() > list.capacity() {
                written.clear();
                *list = written;
            }
        }
    }

    /// Adds a row to a list; `put` gets the list and the event's id.
    fn push(&self, list: usize, put: impl FnOnce(&mut Vec<u8>, u64)) {
        let mut pending = self.pending.lock();
        pending.push(list, put);
        self.bound(pending);
    }

    /// Bounds what is pending.
    fn bound(&self, pending: MutexGuard<'_, Pending>) {
        let size_bytes = pending.size_bytes;
        drop(pending);
        if size_bytes >= DUE_BYTES {
            self.bundle.set_due(true);
        }
        if size_bytes >= BACKLOG_BYTES {
            self.write();
        }
    }
}

impl Pending {
    fn push(&mut self, list: usize, put: impl FnOnce(&mut Vec<u8>, u64)) {
        if self.is_ended {
            return;
        }
        self.counts[list] += 1;
        let rows = &mut self.lists[list];
        let before = rows.len();
        put(rows, self.counts[list]);
        self.size_bytes += rows.len() - before;
    }

    fn push_relationships(&mut self, origin: &Origin, event: &QueueEvent<'_>) {
        if self.is_ended {
            return;
        }
        let (rows, count) = (&mut self.lists[RELATIONSHIP], &mut self.counts[RELATIONSHIP]);
        let before = rows.len();
        let next = || {
            *count += 1;
            *count
        };
        rows::relationships(rows, origin, next, event);
        self.size_bytes += rows.len() - before;
    }

    /// Takes all rows.
    fn take(&mut self) -> [Vec<u8>; LISTS.len()] {
        self.size_bytes = 0;
        take(&mut self.lists)
    }
}

fn append(
    writer: &mut Writer<File>,
    fields: &RecordFields<'_>,
    content: ContentType,
    rows: &[u8],
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writer.append_chunk(fields, content.text().as_bytes(), &[rows])
}

// A method of the trait that is not here would lose its events.
#[deny(clippy::missing_trait_methods)]
impl ProfileSink for DeviceSink {
    fn executable(&self, id: u64, functions: &[FunctionInfo]) {
        let mut pending = self.pending.lock();
        pending.push(EXECUTABLE, |rows, _| rows::executable(rows, id, functions.len()));
        pending.push(FUNCTION, |rows, _| rows::functions(rows, id, functions));
        self.bound(pending);
    }

    fn command_buffer(
        &self,
        id: u64,
        params: &CommandBufferParams,
        commands: &[ProfiledCommand],
        records: &[(u32, u64)],
    ) {
        let mut pending = self.pending.lock();
        pending.push(COMMAND_BUFFER, |rows, _| rows::command_buffer(rows, &self.origin, id, params));
        pending.push(OPERATION, |rows, _| rows::operations(rows, id, commands));
        for (index, record) in records {
            pending.push(RELATIONSHIP, |rows, relationship| {
                rows::replayed_command(rows, &self.origin, relationship, (id, *index), *record);
            });
        }
        self.bound(pending);
    }

    fn queue_event(&self, event: &QueueEvent<'_>) {
        let mut pending = self.pending.lock();
        pending.push(QUEUE, |rows, id| rows::queue_event(rows, &self.origin, id, event));
        pending.push_relationships(&self.origin, event);
        self.bound(pending);
    }

    fn host_execution(&self, event: &HostExecution) {
        let mut pending = self.pending.lock();
        pending.push(HOST_EXECUTION, |rows, id| rows::host_execution(rows, &self.origin, id, event));
        if let Some(time) = &event.processor {
            let source = (pending.counts[HOST_EXECUTION], &event.operation);
            pending.push(RELATIONSHIP, |rows, id| {
                rows::processor_time(rows, &self.origin, id, source, time);
            });
        }
        if let Some(record) = event.replayed_record {
            pending.push(RELATIONSHIP, |rows, id| {
                rows::replayed_submission(rows, &self.origin, id, &event.operation, record);
            });
        }
        self.bound(pending);
    }

    fn memory_event(&self, event: &MemoryEvent) {
        self.push(MEMORY, |rows, id| rows::memory_event(rows, &self.origin, id, event));
    }

    fn command_region(&self, event: &CommandRegion) {
        self.push(REGION, |rows, id| rows::command_region(rows, &self.origin, id, event));
    }

    fn worker_span(&self, span: &WorkerSpan) {
        self.push(RELATIONSHIP, |rows, id| rows::worker_span(rows, &self.origin, id, span));
    }

    fn device_queue_event(&self, event: &DeviceQueueEvent) {
        self.push(QUEUE_DEVICE, |rows, id| rows::device_queue_event(rows, &self.origin, id, event));
    }

    fn dispatch_event(&self, event: &DispatchEvent) {
        self.push(DISPATCH, |rows, id| rows::dispatch_event(rows, id, event));
    }

    fn replayed(&self, operation: &ProfiledOperation, record: u64) {
        self.push(RELATIONSHIP, |rows, id| {
            rows::replayed_submission(rows, &self.origin, id, operation, record);
        });
    }

    fn clock_sample(&self, sample: &ClockSample) {
        self.push(CLOCK, |rows, id| rows::clock_sample(rows, &self.origin, id, sample));
    }
}
