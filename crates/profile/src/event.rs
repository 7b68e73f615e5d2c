//! Events: what the host and devices did, and when. Every kind of event has the same fields, for all that
//! read events: the reports, the timeline, the activity and the times of dispatches.

use rehal_base::Result;
use zerocopy::little_endian::U32;

use crate::layout::{self, NONE};
use crate::model::{FunctionKey, QueueKey, queue_of};
use crate::worker::WorkerSpan;
use crate::{ContentType, QueueEventType, Record, rows};

/// The row of an event, zero-copy.
#[derive(Clone, Copy, Debug)]
pub enum EventRow<'a> {
    Submission(&'a layout::QueueEvent),
    HostExecution(&'a layout::HostExecutionEvent),
    Region(&'a layout::CommandRegionEvent),
    DeviceOperation(&'a layout::QueueDeviceEvent),
    /// A dispatch, whose queue is that of its chunk.
    Dispatch(&'a layout::DispatchEvent, QueueKey),
    Memory(&'a layout::MemoryEvent),
    Worker(WorkerSpan),
}

/// The start and the end of an event, as its row has them: they may be missing or reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// By the host's clock, in nanoseconds.
    Host(i64, i64),
    /// By the clock of the event's device, in ticks.
    Device(u64, u64),
}

/// An event. Numbers that an event of its kind does not have are zero, ordinals and indices [`NONE`].
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub row: EventRow<'a>,
    pub queue: QueueKey,
    pub times: Times,
    pub event_type: u32,
    pub id: u64,
    pub submission: u64,
    pub command_buffer: u64,
    /// Index of its command in the command buffer.
    pub command: u32,
    pub executable: u64,
    /// Ordinal of its function in the executable.
    pub function: u32,
    pub allocation: u64,
    pub workgroup_count: [U32; 3],
    pub workgroup_size: [U32; 3],
    pub bytes: u64,
    pub wait_count: u32,
    pub signal_count: u32,
    pub operation_count: u32,
    pub tile_count: u64,
    pub tile_duration_ns: i64,
    pub strategy: u32,
    pub status: u32,
}

impl<'a> From<EventRow<'a>> for Event<'a> {
    fn from(row: EventRow<'a>) -> Self {
        let zero = [U32::ZERO; 3];
        let none = Self {
            row,
            queue: (NONE, NONE, 0),
            times: Times::Host(-1, -1),
            event_type: 0,
            id: 0,
            submission: 0,
            command_buffer: 0,
            command: NONE,
            executable: 0,
            function: NONE,
            allocation: 0,
            workgroup_count: zero,
            workgroup_size: zero,
            bytes: 0,
            wait_count: 0,
            signal_count: 0,
            operation_count: 0,
            tile_count: 0,
            tile_duration_ns: 0,
            strategy: NONE,
            status: 0,
        };
        /// The event of a row with the fields that most rows have, and with fields of these names.
        macro_rules! event {
            ($it:ident, $queue:expr, $times:ident($start:ident, $end:ident), $($name:ident: $field:ident),*) => {
                Self {
                    queue: $queue,
                    times: Times::$times($it.$start.get(), $it.$end.get()),
                    id: $it.event_id.get(),
                    submission: $it.submission_id.get(),
                    $( $name: $it.$field.get(), )*
                    ..none
                }
            };
        }
        match row {
            EventRow::Submission(it) => event!(
                it, queue_of!(it), Host(host_time_ns, ready_host_time_ns), event_type: event_type,
                command_buffer: command_buffer_id, allocation: allocation_id, bytes: payload_length,
                wait_count: wait_count, signal_count: signal_count, operation_count: operation_count,
                strategy: dependency_strategy
            ),
            EventRow::DeviceOperation(it) => event!(
                it, queue_of!(it), Device(start_tick, end_tick), event_type: event_type,
                command_buffer: command_buffer_id, allocation: allocation_id, bytes: payload_length,
                operation_count: operation_count
            ),
            EventRow::Dispatch(it, queue) => Self {
                workgroup_count: it.workgroup_count,
                workgroup_size: it.workgroup_size,
                ..event!(
                    it, queue, Device(start_tick, end_tick), command_buffer: command_buffer_id,
                    command: command_index, executable: executable_id, function: function_ordinal
                )
            },
            EventRow::HostExecution(it) => Self {
                workgroup_count: it.workgroup_count,
                workgroup_size: it.workgroup_size,
                ..event!(
                    it, queue_of!(it), Host(start_host_time_ns, end_host_time_ns), event_type: event_type,
                    command_buffer: command_buffer_id, command: command_index, executable: executable_id,
                    function: function_ordinal, allocation: allocation_id, bytes: payload_length,
                    operation_count: operation_count, tile_count: tile_count,
                    tile_duration_ns: tile_duration_sum_ns, status: status_code
                )
            },
            EventRow::Region(it) => Self {
                tile_count: it.tile_count.get().into(),
                ..event!(
                    it, queue_of!(it), Host(start_host_time_ns, end_host_time_ns),
                    command_buffer: command_buffer_id, operation_count: dispatch_count
                )
            },
            EventRow::Memory(it) => {
                let queue = (it.physical_device_ordinal.get(), it.queue_ordinal.get(), 0);
                event!(it, queue, Host(host_time_ns, host_time_ns), event_type: event_type, bytes: length)
            }
            EventRow::Worker(span) => Self {
                queue: span.queue,
                times: Times::Host(span.start_ns, span.end_ns),
                submission: span.submission,
                command_buffer: span.command_buffer,
                command: span.command,
                ..none
            },
        }
    }
}

impl Event<'_> {
    /// Its function, if it has one.
    pub fn function(&self) -> Option<FunctionKey> {
        (self.executable != 0 && self.function != NONE).then_some((self.executable, self.function))
    }

    /// Whether the host executed a dispatch.
    pub fn is_host_dispatch(&self) -> bool {
        matches!(self.row, EventRow::HostExecution(_)) && self.event_type == QueueEventType::DISPATCH.0
    }

    /// Where a timeline has it: a submission that became ready at no known time has no length.
    pub fn placed(&self) -> Times {
        match (self.row, self.times) {
            (EventRow::Submission(_), Times::Host(start, end)) => Times::Host(start, end.max(start)),
            (_, times) => times,
        }
    }
}

impl Times {
    /// The times, unless they are missing or reversed.
    pub fn valid(self) -> Option<Self> {
        let is_valid = match self {
            Self::Host(start, end) => nanoseconds(start, end).is_some(),
            Self::Device(start, end) => ticks(start, end).is_some(),
        };
        is_valid.then_some(self)
    }
}

/// The ticks of a device's event, unless they are missing or reversed.
pub fn ticks(start: u64, end: u64) -> Option<u64> {
    if start == 0 || end == 0 { None } else { end.checked_sub(start) }
}

/// The nanoseconds of a host event, unless they are missing or reversed.
pub fn nanoseconds(start: i64, end: i64) -> Option<i64> {
    if start < 0 { None } else { end.checked_sub(start).filter(|ns| *ns >= 0) }
}

impl<'a> Record<'a> {
    /// Calls `use_event` with each event of a chunk, in file order.
    pub(crate) fn for_each_event(&self, mut use_event: impl FnMut(Event<'a>) -> Result<()>) -> Result<()> {
        macro_rules! each {
            ($row:ident, $make:expr) => {
                self.rows::<rows::$row<'_>>().try_for_each(|row| use_event($make(row?.header).into()))
            };
        }
        match self.content() {
            Some(ContentType::QueueEvents) => each!(QueueEvent, EventRow::Submission),
            Some(ContentType::HostExecutionEvents) => each!(HostExecutionEvent, EventRow::HostExecution),
            Some(ContentType::CommandRegionEvents) => each!(CommandRegionEvent, EventRow::Region),
            Some(ContentType::QueueDeviceEvents) => each!(QueueDeviceEvent, EventRow::DeviceOperation),
            Some(ContentType::DispatchEvents) => {
                each!(DispatchEvent, |row| EventRow::Dispatch(row, queue_of!(self.header)))
            }
            Some(ContentType::MemoryEvents) => each!(MemoryEvent, EventRow::Memory),
            Some(ContentType::EventRelationships) => {
                self.rows::<rows::EventRelationship<'_>>().try_for_each(|row| {
                    WorkerSpan::from_row(row?.header)
                        .map_or(Ok(()), |span| use_event(EventRow::Worker(span).into()))
                })
            }
            _ => Ok(()),
        }
    }
}
