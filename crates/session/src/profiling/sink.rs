use std::fs::File;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::profile::{
    ClockSample, CommandRegion, DeviceQueueEvent, DispatchEvent, EventCounts, EventLog, HostExecution,
    KeptEvents, MemoryEvent, ProfileSink, ProfiledCommand, ProfiledOperation, QueueEvent, WorkerSpan,
};
use rehal_hal::{CommandBufferParams, FunctionInfo};
use rehal_profile::layout;
use rehal_profile::{ContentType, RecordFields, Writer};

use super::rows::{self, Origin};

/// The file, which all devices of a session write to.
pub(super) struct Bundle {
    writer: Mutex<Writer<File>>,
    /// The first error.
    failure: Mutex<Option<Error>>,
    /// Whether there is enough to write that a program which measures should do it at the next opportunity.
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
    /// The most frequent events, while the session is active. They become rows when they are written, which is not in the time of
    /// the program's work.
    kept: Mutex<Option<KeptEvents>>,
    /// Held while rows are taken and written, so that chunks are in the order of their rows. Empty: it has the capacity for what is kept next.
    writing: Mutex<EventLog>,
}

/// What is not written yet.
#[derive(Default)]
struct Pending {
    /// Rows, as the bytes of their chunks.
    lists: [Vec<u8>; LISTS.len()],
    /// Bytes of all rows.
    size_bytes: usize,
    /// Rows of each list in the session so far, which number events.
    counts: [u64; LISTS.len()],
}

/// The last number of an event in each list of rows that events which were kept become.
struct LastIds {
    submission: u64,
    execution: u64,
    relationship: u64,
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
            kept: Mutex::default(),
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
        self.write();
        let fields = self.fields();
        self.bundle.with_writer(|writer| writer.end_session(&fields, status as u32));
    }

    /// Writes the rows reported so far.
    pub(super) fn write(&self) {
        let mut writing = self.writing.lock();
        let kept = &mut *writing;
        if let Some(source) = &*self.kept.lock() {
            source.take(kept);
        }
        let (mut lists, last) = self.pending.lock().take(kept);
        self.encode(&mut lists, kept, last);
        kept.clear();
        if let Some(source) = &*self.kept.lock() {
            source.give_back(kept);
        }
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

    /// Adds the rows of events.
    fn encode(&self, lists: &mut [Vec<u8>; LISTS.len()], kept: &EventLog, mut last: LastIds) {
        let next = |last: &mut u64| {
            *last += 1;
            *last
        };
        for event in kept.submissions.events() {
            rows::queue_event(&mut lists[QUEUE], &self.origin, next(&mut last.submission), &event);
            rows::relationships(
                &mut lists[RELATIONSHIP],
                &self.origin,
                || next(&mut last.relationship),
                &event,
            );
        }
        for event in kept.executions.events() {
            rows::host_execution(&mut lists[HOST_EXECUTION], &self.origin, next(&mut last.execution), &event);
            if let Some(record) = event.replayed_record {
                let (rows, id) = (&mut lists[RELATIONSHIP], next(&mut last.relationship));
                rows::replayed_submission(rows, &self.origin, id, &event.operation, record);
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
        self.bound_size(size_bytes);
    }

    fn bound_size(&self, size_bytes: usize) {
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
        self.counts[list] += 1;
        let rows = &mut self.lists[list];
        let before = rows.len();
        put(rows, self.counts[list]);
        self.size_bytes += rows.len() - before;
    }

    fn push_relationships(&mut self, origin: &Origin, event: &QueueEvent<'_>) {
        let (rows, count) = (&mut self.lists[RELATIONSHIP], &mut self.counts[RELATIONSHIP]);
        let before = rows.len();
        let next = || {
            *count += 1;
            *count
        };
        rows::relationships(rows, origin, next, event);
        self.size_bytes += rows.len() - before;
    }

    /// Takes all rows; the ids of those that `kept` becomes follow the last ones.
    fn take(&mut self, kept: &EventLog) -> ([Vec<u8>; LISTS.len()], LastIds) {
        let last = LastIds {
            submission: self.counts[QUEUE],
            execution: self.counts[HOST_EXECUTION],
            relationship: self.counts[RELATIONSHIP],
        };
        let counts = kept.counts();
        self.counts[QUEUE] += counts.submissions as u64;
        self.counts[HOST_EXECUTION] += counts.executions as u64;
        self.counts[RELATIONSHIP] += counts.relationships as u64;
        self.size_bytes = 0;
        (take(&mut self.lists), last)
    }
}

/// Bytes of the rows that the events become.
fn size_of_events(counts: EventCounts) -> usize {
    counts.submissions * size_of::<layout::QueueEvent>()
        + counts.executions * size_of::<layout::HostExecutionEvent>()
        + counts.relationships * size_of::<layout::EventRelationship>()
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

    fn session_begins(&self, kept: KeptEvents) {
        *self.kept.lock() = Some(kept);
    }

    fn events_kept(&self, counts: EventCounts) {
        self.bound_size(size_of_events(counts));
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
