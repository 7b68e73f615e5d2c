use std::fs::File;
use std::mem::take;
use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::profile::{
    ClockSample, CommandRegion, DeviceQueueEvent, DispatchEvent, HostExecution, MemoryEvent, ProfileSink,
    ProfiledCommand, QueueEvent, WorkerSpan,
};
use rehal_hal::{CommandBufferParams, FunctionInfo};
use rehal_profile::layout::{RELATIONSHIP_SIGNALS, RELATIONSHIP_WAITS};
use rehal_profile::{ContentType, RecordFields, Writer};

use super::rows::{self, Origin};

/// The file, which all devices of a session write to.
pub(super) struct Bundle {
    writer: Mutex<Writer<File>>,
    /// The first error.
    failure: Mutex<Option<Error>>,
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

/// Rows that are not written yet, as the bytes of their chunks.
#[derive(Default)]
struct Pending {
    /// Metadata, in the order in which it must precede events.
    chunks: Vec<(ContentType, Vec<u8>)>,
    lists: [Vec<u8>; LISTS.len()],
    /// Rows of each list in the session so far.
    counts: [u64; LISTS.len()],
    clock_samples: u64,
}

/// Events, in the order in which they are written.
const LISTS: [ContentType; 7] = [
    ContentType::DispatchEvents,
    ContentType::QueueEvents,
    ContentType::QueueDeviceEvents,
    ContentType::HostExecutionEvents,
    ContentType::CommandRegionEvents,
    ContentType::MemoryEvents,
    ContentType::EventRelationships,
];
const DISPATCH: usize = 0;
const QUEUE: usize = 1;
const QUEUE_DEVICE: usize = 2;
const HOST_EXECUTION: usize = 3;
const REGION: usize = 4;
const MEMORY: usize = 5;
const RELATIONSHIP: usize = 6;

/// Bytes of a list at which the thread that reports writes it: the writer's thread falls behind.
const BACKLOG_BYTES: usize = 8 << 20;

impl Bundle {
    pub(super) fn new(file: File) -> Result<Self> {
        Ok(Self { writer: Mutex::new(Writer::new(file)?), failure: Mutex::default() })
    }

    /// Fails with the first error of writing.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.lock().clone().map_or(Ok(()), Err)
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
    pub(super) fn new(bundle: &Arc<Bundle>, ordinal: u32, name: &str) -> Arc<Self> {
        Arc::new(Self {
            bundle: bundle.clone(),
            name: name.to_owned(),
            session_id: u64::from(ordinal) + 1,
            origin: Origin { device_ordinal: ordinal },
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
        self.write();
        let fields = self.fields();
        self.bundle.with_writer(|writer| writer.end_session(&fields, status as u32));
    }

    /// Writes the rows reported so far.
    pub(super) fn write(&self) {
        let _writing = self.writing.lock();
        let (chunks, lists) = {
            let mut pending = self.pending.lock();
            (take(&mut pending.chunks), take(&mut pending.lists))
        };
        let fields = self.fields();
        self.bundle.with_writer(|writer| {
            for (content, rows) in &chunks {
                append(writer, &fields, *content, rows)?;
            }
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
        pending.counts[list] += 1;
        let id = pending.counts[list];
        put(&mut pending.lists[list], id);
        if pending.lists[list].len() >= BACKLOG_BYTES {
            drop(pending);
            self.write();
        }
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

impl ProfileSink for DeviceSink {
    fn executable(&self, id: u64, functions: &[FunctionInfo]) {
        let (executable, functions) = rows::executable(id, functions);
        let chunks = &mut self.pending.lock().chunks;
        chunks.push((ContentType::Executables, executable));
        chunks.push((ContentType::Functions, functions));
    }

    fn command_buffer(&self, id: u64, params: &CommandBufferParams, commands: &[ProfiledCommand]) {
        let (command_buffer, commands) = rows::command_buffer(&self.origin, id, params, commands);
        let chunks = &mut self.pending.lock().chunks;
        chunks.push((ContentType::CommandBuffers, command_buffer));
        chunks.push((ContentType::CommandOperations, commands));
    }

    fn queue_event(&self, event: &QueueEvent<'_>) {
        self.push(QUEUE, |rows, id| rows::queue_event(rows, &self.origin, id, event));
        let waits = event.waits.iter().map(|it| (RELATIONSHIP_WAITS, it));
        let signals = event.signals.iter().map(|it| (RELATIONSHIP_SIGNALS, it));
        for (kind, timepoint) in waits.chain(signals) {
            self.push(RELATIONSHIP, |rows, id| {
                rows::timepoint(rows, &self.origin, id, kind, event, timepoint);
            });
        }
    }

    fn host_execution(&self, event: &HostExecution) {
        self.push(HOST_EXECUTION, |rows, id| rows::host_execution(rows, &self.origin, id, event));
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

    fn clock_sample(&self, sample: &ClockSample) {
        let mut pending = self.pending.lock();
        pending.clock_samples += 1;
        let row = rows::clock_sample(&self.origin, pending.clock_samples, sample);
        pending.chunks.push((ContentType::ClockCorrelations, row));
    }
}
