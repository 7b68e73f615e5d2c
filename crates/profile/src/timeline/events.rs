//! What rows of events show: their place in time, their name and their annotations.

use std::borrow::Cow;

use super::trace::Value;
use crate::layout::{self, NONE};
use crate::model::{Model, QueueKey};
use crate::report::status_name;
use crate::worker::WorkerSpan;
use crate::{CommandOperationType, DependencyStrategy, QueueEventType};

/// A row, zero-copy.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    Submission(&'a layout::QueueEvent),
    HostExecution(&'a layout::HostExecutionEvent),
    Region(&'a layout::CommandRegionEvent),
    DeviceOperation(&'a layout::QueueDeviceEvent),
    /// A dispatch, whose queue is that of its chunk.
    Dispatch(&'a layout::DispatchEvent, QueueKey),
    Memory(&'a layout::MemoryEvent),
    Worker(WorkerSpan),
}

/// The tracks of a queue, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Submission,
    HostOperation,
    HostCommand,
    Region,
    DeviceOperation,
    Dispatch,
    Worker,
}

impl Kind {
    /// The name of the track, which is also the category of its events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submission => "submissions",
            Self::HostOperation => "host operations",
            Self::HostCommand => "host commands",
            Self::Region => "command regions",
            Self::DeviceOperation => "device operations",
            Self::Dispatch => "device dispatches",
            Self::Worker => "workers",
        }
    }
}

/// The start and the end of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// By the host's clock, in nanoseconds.
    Host(i64, i64),
    /// By the clock of this device, in ticks.
    Device(u32, u64, u64),
}

/// Names and values of an event's annotations.
type Annotations = Vec<(&'static str, Value)>;

impl Row<'_> {
    /// When it happened, unless its times are missing or reversed.
    pub fn times(&self) -> Option<Times> {
        let times = match self {
            Self::Submission(row) => Times::Host(row.host_time_ns.get(), row.host_time_ns.get()),
            Self::HostExecution(row) => Times::Host(row.start_host_time_ns.get(), row.end_host_time_ns.get()),
            Self::Region(row) => Times::Host(row.start_host_time_ns.get(), row.end_host_time_ns.get()),
            Self::Memory(row) => Times::Host(row.host_time_ns.get(), row.host_time_ns.get()),
            Self::Worker(span) => Times::Host(span.start_ns, span.end_ns),
            Self::DeviceOperation(row) => {
                let device = row.physical_device_ordinal.get();
                Times::Device(device, row.start_tick.get(), row.end_tick.get())
            }
            Self::Dispatch(row, queue) => Times::Device(queue.0, row.start_tick.get(), row.end_tick.get()),
        };
        let is_valid = match times {
            Times::Host(start, end) => start >= 0 && end >= start,
            Times::Device(_, start, end) => start != 0 && end >= start,
        };
        is_valid.then_some(times)
    }

    /// The worker of which it is, or 0: each has a track.
    pub fn worker(&self) -> u32 {
        match self {
            Self::Worker(span) => span.worker,
            _ => 0,
        }
    }

    /// The tracks that it belongs to, unless it is of a counter.
    pub fn kind(&self) -> Option<Kind> {
        Some(match self {
            Self::Submission(_) => Kind::Submission,
            Self::HostExecution(row) if row.command_index.get() == NONE => Kind::HostOperation,
            Self::HostExecution(_) => Kind::HostCommand,
            Self::Region(_) => Kind::Region,
            Self::DeviceOperation(_) => Kind::DeviceOperation,
            Self::Dispatch(..) => Kind::Dispatch,
            Self::Worker(_) => Kind::Worker,
            Self::Memory(_) => return None,
        })
    }

    /// Its queue.
    pub fn queue(&self) -> QueueKey {
        macro_rules! key {
            ($row:expr) => {
                ($row.physical_device_ordinal.get(), $row.queue_ordinal.get(), $row.stream_id.get())
            };
        }
        match self {
            Self::Submission(row) => key!(row),
            Self::HostExecution(row) => key!(row),
            Self::Region(row) => key!(row),
            Self::DeviceOperation(row) => key!(row),
            Self::Dispatch(_, queue) => *queue,
            Self::Worker(span) => span.queue,
            Self::Memory(row) => (row.physical_device_ordinal.get(), row.queue_ordinal.get(), 0),
        }
    }

    /// The submission that it belongs to.
    pub fn submission(&self) -> u64 {
        match self {
            Self::Submission(row) => row.submission_id.get(),
            Self::HostExecution(row) => row.submission_id.get(),
            Self::Region(row) => row.submission_id.get(),
            Self::DeviceOperation(row) => row.submission_id.get(),
            Self::Dispatch(row, _) => row.submission_id.get(),
            Self::Memory(row) => row.submission_id.get(),
            Self::Worker(span) => span.submission,
        }
    }

    /// The command buffer and the index in it of the command that it is.
    pub fn command(&self) -> (u64, u32) {
        match self {
            Self::HostExecution(row) => (row.command_buffer_id.get(), row.command_index.get()),
            Self::Dispatch(row, _) => (row.command_buffer_id.get(), row.command_index.get()),
            Self::Worker(span) => (span.command_buffer, span.command),
            Self::Submission(_) | Self::Region(_) | Self::DeviceOperation(_) | Self::Memory(_) => (0, NONE),
        }
    }

    /// Its name: that of the function for a dispatch, or else what it does.
    pub fn name<'m>(&self, model: &Model<'m>) -> Cow<'m, str> {
        match self {
            Self::Submission(row) => QueueEventType(row.event_type.get()).name().into(),
            Self::DeviceOperation(row) => QueueEventType(row.event_type.get()).name().into(),
            Self::Region(_) => "region".into(),
            Self::Memory(_) => "memory".into(),
            Self::Worker(span) => text(span.name(model)),
            Self::Dispatch(row, queue) => {
                function_name(model, queue.0, row.executable_id.get(), row.function_ordinal.get())
            }
            Self::HostExecution(row) => {
                let (id, ordinal) = (row.executable_id.get(), row.function_ordinal.get());
                if id == 0 || ordinal == NONE {
                    return QueueEventType(row.event_type.get()).name().into();
                }
                function_name(model, row.physical_device_ordinal.get(), id, ordinal)
            }
        }
    }

    /// Its annotations.
    pub fn annotations(&self) -> Annotations {
        match self {
            Self::Submission(row) => of_submission(row),
            Self::HostExecution(row) => of_host_execution(row),
            Self::Region(row) => of_region(row),
            Self::DeviceOperation(row) => of_device_operation(row),
            Self::Dispatch(row, _) => of_dispatch(row),
            Self::Memory(_) => Vec::new(),
            Self::Worker(span) => of_worker(span),
        }
    }
}

fn function_name<'m>(model: &Model<'m>, device: u32, id: u64, ordinal: u32) -> Cow<'m, str> {
    match model.functions.get(&(id, ordinal)) {
        Some(function) => text(crate::model::key_of(function, device)),
        // A truncated bundle may lack the description.
        None => format!("{} {id}#{ordinal}", CommandOperationType::DISPATCH.name()).into(),
    }
}

fn text(name: Cow<'_, [u8]>) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(name) => String::from_utf8_lossy(name),
        Cow::Owned(name) => String::from_utf8_lossy(&name).into_owned().into(),
    }
}

/// Annotations that are left out if they say nothing.
#[derive(Default)]
struct Notes(Annotations);

impl Notes {
    /// A number that is always shown.
    fn number(mut self, name: &'static str, value: u64) -> Self {
        self.0.push((name, Value::Unsigned(value)));
        self
    }

    /// An id or a count, unless it is zero.
    fn nonzero(self, name: &'static str, value: u64) -> Self {
        if value == 0 { self } else { self.number(name, value) }
    }

    /// An ordinal or an index, unless it is that of nothing.
    fn ordinal(self, name: &'static str, value: u32) -> Self {
        if value == NONE { self } else { self.number(name, value.into()) }
    }

    /// Nanoseconds.
    fn ns(mut self, name: &'static str, value: i64) -> Self {
        self.0.push((name, Value::Signed(value)));
        self
    }

    /// Numbers in three dimensions, unless all are zero.
    fn triple(mut self, name: &'static str, value: [zerocopy::little_endian::U32; 3]) -> Self {
        let [x, y, z] = value.map(zerocopy::little_endian::U32::get);
        if [x, y, z] != [0; 3] {
            self.0.push((name, Value::Text(format!("{x}x{y}x{z}"))));
        }
        self
    }

    fn text(mut self, name: &'static str, value: &str) -> Self {
        self.0.push((name, Value::Text(value.to_owned())));
        self
    }
}

fn of_submission(row: &layout::QueueEvent) -> Annotations {
    let (submitted, ready) = (row.host_time_ns.get(), row.ready_host_time_ns.get());
    let mut notes = Notes::default()
        .number("event_id", row.event_id.get())
        .number("submission_id", row.submission_id.get())
        .nonzero("command_buffer_id", row.command_buffer_id.get())
        .nonzero("allocation_id", row.allocation_id.get())
        .number("wait_count", row.wait_count.get().into())
        .number("signal_count", row.signal_count.get().into())
        .number("operation_count", row.operation_count.get().into())
        .nonzero("bytes", row.payload_length.get())
        .text("dependencies", DependencyStrategy(row.dependency_strategy.get()).name());
    if submitted >= 0 && ready >= submitted {
        notes = notes.ns("waited_ns", ready - submitted);
    }
    notes.0
}

fn of_host_execution(row: &layout::HostExecutionEvent) -> Annotations {
    let mut notes = Notes::default()
        .number("event_id", row.event_id.get())
        .number("submission_id", row.submission_id.get())
        .nonzero("command_buffer_id", row.command_buffer_id.get())
        .ordinal("command_index", row.command_index.get())
        .nonzero("executable_id", row.executable_id.get())
        .ordinal("function_ordinal", row.function_ordinal.get())
        .nonzero("allocation_id", row.allocation_id.get())
        .triple("workgroup_count", row.workgroup_count)
        .triple("workgroup_size", row.workgroup_size)
        .nonzero("tile_count", row.tile_count.get())
        .nonzero("operation_count", row.operation_count.get().into())
        .nonzero("bytes", row.payload_length.get());
    if row.tile_count.get() != 0 {
        notes = notes.ns("tile_time_ns", row.tile_duration_sum_ns.get());
    }
    if row.status_code.get() != 0 {
        notes = notes.text("status", status_name(row.status_code.get()));
    }
    notes.0
}

fn of_region(row: &layout::CommandRegionEvent) -> Annotations {
    Notes::default()
        .number("event_id", row.event_id.get())
        .number("submission_id", row.submission_id.get())
        .nonzero("command_buffer_id", row.command_buffer_id.get())
        .ns("region_index", row.index.get().into())
        .number("dispatch_count", row.dispatch_count.get().into())
        .number("tile_count", row.tile_count.get().into())
        .number("worker_count", row.worker_count.get().into())
        .number("useful_drain_count", row.useful_drain_count.get().into())
        .ns("tail_drain_ns", row.tail_drain_duration_ns.get())
        .0
}

fn of_worker(span: &WorkerSpan) -> Annotations {
    Notes::default()
        .number("worker", span.worker.into())
        .nonzero("submission_id", span.submission)
        .nonzero("command_buffer_id", span.command_buffer)
        .ordinal("command_index", span.command)
        .0
}

fn of_device_operation(row: &layout::QueueDeviceEvent) -> Annotations {
    Notes::default()
        .number("event_id", row.event_id.get())
        .number("submission_id", row.submission_id.get())
        .nonzero("command_buffer_id", row.command_buffer_id.get())
        .nonzero("allocation_id", row.allocation_id.get())
        .nonzero("operation_count", row.operation_count.get().into())
        .nonzero("bytes", row.payload_length.get())
        .number("start_tick", row.start_tick.get())
        .number("end_tick", row.end_tick.get())
        .0
}

fn of_dispatch(row: &layout::DispatchEvent) -> Annotations {
    Notes::default()
        .number("event_id", row.event_id.get())
        .number("submission_id", row.submission_id.get())
        .nonzero("command_buffer_id", row.command_buffer_id.get())
        .ordinal("command_index", row.command_index.get())
        .number("executable_id", row.executable_id.get())
        .ordinal("function_ordinal", row.function_ordinal.get())
        .triple("workgroup_count", row.workgroup_count)
        .triple("workgroup_size", row.workgroup_size)
        .number("start_tick", row.start_tick.get())
        .number("end_tick", row.end_tick.get())
        .0
}
