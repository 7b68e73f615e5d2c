use std::collections::HashMap;

use rehal_base::Result;
use rehal_capture::layout::SemaphoreTimepoint;
use rehal_capture::payload::Dispatch;
use rehal_capture::{Capture, CaptureBytes, ObjectType, OperationCode, Payload, Record, RecordType};
use rehal_profile::activity::{
    Activity, Axis, Builder, Column, Event, OperationNames, Span, Submission, TrackKind,
};
use rehal_profile::layout::NONE;
use rehal_replay::dump::Progress;
use serde::Serialize;

/// The contents of a capture, for programs that draw it: its calls, submissions and dispatches in the order
/// of the records. Captures contain no times.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CaptureActivity {
    /// Calls, submissions with their semaphores, and dispatches. Ids are ordinals of records.
    pub activity: Activity,
    /// The buffers, in the order of the records.
    pub buffers: Vec<BufferSummary>,
    /// Submissions and buffers left out because of the limit.
    pub omitted_count: u64,
}

/// A buffer of a capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BufferSummary {
    /// Its id in the capture.
    pub id: u64,
    /// The ordinal of the record that created it.
    pub ordinal: u64,
    /// The operation that created it, such as `device.queue_alloca`.
    pub operation: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// The ordinal of the record of its dealloca. Captures do not contain when other buffers are freed.
    pub deallocated: Option<u64>,
}

/// The buffers of a capture as columns, for pages that draw them.
#[derive(Serialize)]
pub struct BufferColumns {
    count: usize,
    operations: OperationNames,
    operation: Column,
    id: Column,
    ordinal: Column,
    bytes: Column,
    deallocated: Column,
}

impl From<&[BufferSummary]> for BufferColumns {
    fn from(buffers: &[BufferSummary]) -> Self {
        let mut operations = OperationNames::default();
        let numbers: Vec<_> = buffers.iter().map(|buffer| operations.index(buffer.operation)).collect();
        Self {
            count: buffers.len(),
            operations,
            operation: Column::new(numbers.len(), |at| numbers[at]),
            id: Column::new(buffers.len(), |at| buffers[at].id),
            ordinal: Column::new(buffers.len(), |at| buffers[at].ordinal),
            bytes: Column::new(buffers.len(), |at| buffers[at].bytes),
            // Zero is the ordinal of the session's record, never of a dealloca.
            deallocated: Column::new(buffers.len(), |at| buffers[at].deallocated.unwrap_or(0)),
        }
    }
}

/// Number of bytes after which pages that have been read are released.
const STEP_BYTES: u64 = 4 << 20;

struct Collector<'a> {
    builder: Builder,
    limit: usize,
    result: CaptureActivity,
    submissions: Vec<Submission>,
    devices: HashMap<u64, u32>,
    functions: HashMap<u64, Vec<&'a [u8]>>,
    buffers: HashMap<u64, usize>,
    live_bytes: HashMap<(u32, &'static str), u64>,
    /// Open scopes: name and ordinal.
    scopes: Vec<(&'a [u8], u64)>,
    /// The recording of each command buffer.
    recordings: HashMap<u64, usize>,
    all_recordings: Vec<Recording>,
    /// Dispatches in command buffers, with their recordings.
    dispatches: Vec<(Event, u64, usize)>,
    record_count: u64,
}

/// A command buffer from its begin on.
struct Recording {
    id: u64,
    device: u32,
    begin: u64,
    end: Option<u64>,
    execution_count: u32,
    command_count: u32,
}

impl CaptureActivity {
    /// Reads all records of `capture`, whose bytes are `bytes`. Keeps at most `limit` events, submissions and
    /// buffers each.
    pub(crate) fn from_capture(
        bytes: &CaptureBytes,
        capture: &Capture<'_>,
        limit: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let mut this = Collector {
            builder: Builder::new(Axis::Records, limit),
            limit,
            result: Self::default(),
            submissions: Vec::new(),
            devices: HashMap::new(),
            functions: HashMap::new(),
            buffers: HashMap::new(),
            live_bytes: HashMap::new(),
            scopes: Vec::new(),
            recordings: HashMap::new(),
            all_recordings: Vec::new(),
            dispatches: Vec::new(),
            record_count: 0,
        };
        let (total_bytes, mut behind) = (capture.length_bytes(), 0);
        for record in capture.records() {
            let record = record?;
            this.add(&record, &record.payload()?);
            if record.offset - behind >= STEP_BYTES {
                bytes.forget(behind, record.offset - behind);
                behind = record.offset;
                progress(Progress { done_bytes: behind, total_bytes });
            }
        }
        Ok(this.finish())
    }
}

impl<'a> Collector<'a> {
    fn add(&mut self, record: &Record<'a>, payload: &Payload<'a>) {
        self.record_count += 1;
        match record.record_type() {
            RecordType::OBJECT => self.add_object(record, payload),
            RecordType::OPERATION => self.add_call(record, payload),
            _ => {}
        }
    }

    fn add_object(&mut self, record: &Record<'a>, payload: &Payload<'a>) {
        let id = record.header.object_id.get();
        match payload {
            _ if record.object_type() == ObjectType::DEVICE => {
                self.device(id);
            }
            Payload::BufferObject(buffer) => {
                if let Some(index) = self.buffers.get(&id) {
                    self.result.buffers[*index].bytes = buffer.byte_length.get();
                }
            }
            _ => {}
        }
    }

    fn add_call(&mut self, record: &Record<'a>, payload: &Payload<'a>) {
        let (header, ordinal) = (record.header, record.ordinal());
        let operation = record.operation();
        let device = self.device(header.device_id.get());
        let event = Event {
            name: self.builder.name(operation.name().as_bytes()),
            id: ordinal,
            status: header.status_code.get(),
            ..Event::default()
        };
        let track = self.builder.track(TrackKind::Calls, NONE, NONE, header.thread_id.get());
        self.event(Event { track, ..event }, ordinal, 1);
        if header.status_code.get() != 0 {
            return;
        }
        if let Some((waits, signals, affinity)) = links(operation, payload) {
            let track = self.builder.track(TrackKind::Submissions, device, NONE, affinity);
            let submitted =
                self.submission(record, payload, Event { track, ..event }, device, (waits, signals));
            self.event(submitted, ordinal, 1);
        }
        self.add_state(record, payload, device);
    }

    /// The changes of a call: to scopes, executables, command buffers and memory.
    fn add_state(&mut self, record: &Record<'a>, payload: &Payload<'a>, device: u32) {
        let (header, ordinal) = (record.header, record.ordinal());
        let object = header.object_id.get();
        match (record.operation(), payload) {
            (OperationCode::REPLAY_SCOPE_BEGIN, Payload::Scope(scope)) => {
                self.scopes.push((scope.name, ordinal))
            }
            (OperationCode::REPLAY_SCOPE_END, Payload::Scope(scope)) => {
                if let Some(at) = self.scopes.iter().rposition(|(name, _)| *name == scope.name) {
                    let (name, begin) = self.scopes.remove(at);
                    self.add_scope(name, begin, ordinal);
                }
            }
            (_, Payload::ExecutablePrepare(it)) => {
                let functions = it.metadata().into_iter().flat_map(|metadata| metadata.functions());
                let names = functions.map(|function| function.name).collect();
                self.functions.insert(header.related_object_id.get(), names);
            }
            (OperationCode::COMMAND_BUFFER_BEGIN, _) => {
                self.recordings.insert(object, self.all_recordings.len());
                self.all_recordings.push(Recording {
                    id: object,
                    device,
                    begin: ordinal,
                    end: None,
                    execution_count: 0,
                    command_count: 0,
                });
            }
            (OperationCode::COMMAND_BUFFER_END, _) => {
                if let Some(recording) = self.recording(object) {
                    recording.end = Some(ordinal);
                }
            }
            (OperationCode::COMMAND_BUFFER_DISPATCH, Payload::Dispatch(it)) => {
                self.add_dispatch(record, it);
            }
            (OperationCode::DEVICE_QUEUE_EXECUTE, Payload::QueueExecute(it)) => {
                if let Some(recording) = self.recording(it.command_buffer_id.get()) {
                    recording.execution_count = recording.execution_count.saturating_add(1);
                }
            }
            (_, Payload::AllocateBuffer(it)) => {
                self.add_buffer(record, device, "allocated buffers", it.allocation_size.get());
            }
            (_, Payload::ImportBuffer(it)) => {
                self.add_buffer(record, device, "imported buffers", it.allocation.allocation_size.get());
            }
            (_, Payload::QueueAlloca(it)) => {
                self.add_buffer(record, device, QUEUE_ALLOCATIONS, it.allocation.allocation_size.get());
            }
            (_, Payload::QueueDealloca(it)) => {
                self.deallocate(it.buffer_ref.buffer_id.get(), ordinal, device)
            }
            _ => {}
        }
        if (OperationCode::COMMAND_BUFFER_BEGIN.0 + 1..OperationCode::EXECUTABLE_CACHE_INFER_FORMAT.0)
            .contains(&record.operation().0)
            && record.operation() != OperationCode::COMMAND_BUFFER_END
            && let Some(recording) = self.recording(object)
        {
            recording.command_count = recording.command_count.saturating_add(1);
        }
    }

    fn recording(&mut self, command_buffer: u64) -> Option<&mut Recording> {
        let index = *self.recordings.get(&command_buffer)?;
        self.all_recordings.get_mut(index)
    }

    /// The index of a device: its order of appearance.
    fn device(&mut self, id: u64) -> u32 {
        let next = self.devices.len() as u32;
        if id == 0 { NONE } else { *self.devices.entry(id).or_insert(next) }
    }

    fn event(&mut self, event: Event, ordinal: u64, length: u64) {
        let start = i64::try_from(ordinal).unwrap_or(i64::MAX);
        let end = i64::try_from(ordinal.saturating_add(length)).unwrap_or(i64::MAX);
        self.builder.event(event, Span::Host(start, end));
    }

    /// The event of a submission, which is added to the graph of semaphores.
    fn submission(
        &mut self,
        record: &Record<'a>,
        payload: &Payload<'a>,
        event: Event,
        device: u32,
        (waits, signals): (&[SemaphoreTimepoint], &[SemaphoreTimepoint]),
    ) -> Event {
        let pairs = |list: &[SemaphoreTimepoint]| {
            list.iter().map(|it| (it.semaphore_id.get(), it.value.get())).collect()
        };
        if self.submissions.len() < self.limit {
            self.submissions.push(Submission {
                id: record.ordinal(),
                device,
                operation: record.operation().name(),
                waits: pairs(waits),
                signals: pairs(signals),
            });
        } else {
            self.result.omitted_count += 1;
        }
        let mut event = Event {
            wait_count: waits.len() as u32,
            signal_count: signals.len() as u32,
            bytes: payload.data().len() as u64,
            operation_count: 1,
            ..event
        };
        match payload {
            Payload::Dispatch(it) => event = Event { operation_count: 1, ..self.dispatched(event, it) },
            Payload::QueueExecute(it) => event.command_buffer = it.command_buffer_id.get(),
            Payload::QueueAlloca(it) => event.bytes = it.allocation.allocation_size.get(),
            _ => {}
        }
        event
    }

    /// `event` as one of a dispatch.
    fn dispatched(&mut self, event: Event, it: &Dispatch<'_>) -> Event {
        let (executable, ordinal) = (it.executable_id.get(), it.function_ordinal.get());
        let names = self.functions.get(&executable);
        let known = names.and_then(|names| names.get(ordinal as usize)).filter(|name| !name.is_empty());
        let (function, name) = self.builder.function(executable, ordinal, || match known {
            Some(name) => name.to_vec(),
            None => format!("executable{executable}#{ordinal}").into_bytes(),
        });
        Event {
            function,
            name,
            workgroup_count: it.workgroup_count.map(|count| count.get()),
            workgroup_size: it.workgroup_size.map(|size| size.get()),
            ..event
        }
    }

    fn add_dispatch(&mut self, record: &Record<'a>, it: &Dispatch<'a>) {
        let command_buffer = record.header.object_id.get();
        let Some(index) = self.recordings.get(&command_buffer).copied() else { return };
        let device = self.all_recordings[index].device;
        let event = Event {
            track: self.builder.track(TrackKind::RecordedDispatches, device, NONE, 0),
            id: record.ordinal(),
            command_buffer,
            command: self.all_recordings[index].command_count,
            ..Event::default()
        };
        let event = self.dispatched(event, it);
        self.dispatches.push((event, record.ordinal(), index));
    }

    fn add_scope(&mut self, name: &[u8], begin: u64, end: u64) {
        let event = Event {
            track: self.builder.track(TrackKind::Scopes, NONE, NONE, 0),
            name: self.builder.name(name),
            id: begin,
            ..Event::default()
        };
        self.event(event, begin, end.saturating_sub(begin).saturating_add(1));
    }

    fn add_buffer(&mut self, record: &Record<'a>, device: u32, series: &'static str, bytes: u64) {
        let id = record.header.related_object_id.get();
        if self.result.buffers.len() < self.limit {
            self.buffers.insert(id, self.result.buffers.len());
            self.result.buffers.push(BufferSummary {
                id,
                ordinal: record.ordinal(),
                operation: record.operation().name(),
                bytes,
                deallocated: None,
            });
        } else {
            self.result.omitted_count += 1;
        }
        self.change_bytes(device, series, record.ordinal(), |total| total.saturating_add(bytes));
    }

    fn deallocate(&mut self, buffer: u64, ordinal: u64, device: u32) {
        let Some(index) = self.buffers.get(&buffer) else { return };
        let buffer = &mut self.result.buffers[*index];
        if buffer.deallocated.replace(ordinal).is_none() {
            let bytes = buffer.bytes;
            self.change_bytes(device, QUEUE_ALLOCATIONS, ordinal, |total| total.saturating_sub(bytes));
        }
    }

    fn change_bytes(&mut self, device: u32, series: &'static str, ordinal: u64, change: impl Fn(u64) -> u64) {
        let total = self.live_bytes.entry((device, series)).or_default();
        *total = change(*total);
        let at = i64::try_from(ordinal).unwrap_or(i64::MAX);
        self.builder.point(device, series.as_bytes(), "bytes", at, *total as f64);
    }

    fn finish(mut self) -> CaptureActivity {
        for (name, begin) in std::mem::take(&mut self.scopes) {
            self.add_scope(name, begin, self.record_count.saturating_sub(1));
        }
        let recordings = std::mem::take(&mut self.all_recordings);
        for recording in &recordings {
            let event = Event {
                track: self.builder.track(TrackKind::Recordings, recording.device, NONE, 0),
                name: self.builder.name(format!("command buffer {}", recording.id).as_bytes()),
                id: recording.begin,
                command_buffer: recording.id,
                operation_count: recording.command_count,
                ..Event::default()
            };
            let end = recording.end.unwrap_or(self.record_count.saturating_sub(1));
            self.event(event, recording.begin, end.saturating_sub(recording.begin).saturating_add(1));
        }
        for (event, ordinal, index) in std::mem::take(&mut self.dispatches) {
            let operation_count = recordings[index].execution_count;
            self.event(Event { operation_count, ..event }, ordinal, 1);
        }
        self.result.activity = Activity { submissions: self.submissions, ..self.builder.finish() };
        self.result
    }
}

/// The series of what queues allocate.
const QUEUE_ALLOCATIONS: &str = "queue allocations";

/// The timepoints that a submission waits for and signals, and its queues; `None` for other calls.
fn links<'p>(
    operation: OperationCode,
    payload: &Payload<'p>,
) -> Option<(&'p [SemaphoreTimepoint], &'p [SemaphoreTimepoint], u64)> {
    Some(match payload {
        Payload::Dispatch(it) if operation == OperationCode::DEVICE_QUEUE_DISPATCH => {
            (it.waits, it.signals, it.queue_affinity.get())
        }
        Payload::QueueExecute(it) => (it.waits, it.signals, it.queue_affinity.get()),
        Payload::QueueAlloca(it) => (it.waits, it.signals, it.queue_affinity.get()),
        Payload::QueueDealloca(it) => (it.waits, it.signals, it.queue_affinity.get()),
        Payload::QueueFill(it) => (it.waits, it.signals, it.queue_affinity.get()),
        Payload::QueueUpdate(it) => (it.waits, it.signals, it.queue_affinity.get()),
        Payload::QueueCopy(it) => (it.waits, it.signals, it.queue_affinity.get()),
        Payload::QueueRead(it) => (it.waits, it.signals, it.queue_affinity.get()),
        Payload::QueueWrite(it) => (it.waits, it.signals, it.queue_affinity.get()),
        _ => return None,
    })
}
