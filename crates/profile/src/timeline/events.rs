//! The display of events: their tracks, their names and their annotations.

use std::borrow::Cow;

use super::trace::Value;
use crate::codes::status_name;
use crate::event::{Event, EventRow, Times};
use crate::layout::NONE;
use crate::model::Model;
use crate::{CommandOperationType, DependencyStrategy, QueueEventType};

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

/// Names and values of an event's annotations.
type Annotations = Vec<(&'static str, Value)>;

/// The worker of an event, or 0: each has a track.
pub fn worker(event: &Event<'_>) -> u32 {
    match event.row {
        EventRow::Worker(span) => span.worker,
        _ => 0,
    }
}

/// The tracks that an event belongs to, unless it is of a counter.
pub fn kind(event: &Event<'_>) -> Option<Kind> {
    Some(match event.row {
        EventRow::Submission(_) => Kind::Submission,
        EventRow::HostExecution(_) if event.command == NONE => Kind::HostOperation,
        EventRow::HostExecution(_) => Kind::HostCommand,
        EventRow::Region(_) => Kind::Region,
        EventRow::DeviceOperation(_) => Kind::DeviceOperation,
        EventRow::Dispatch(..) => Kind::Dispatch,
        EventRow::Worker(_) => Kind::Worker,
        EventRow::Memory(_) => return None,
    })
}

/// The name of an event: that of the function for a dispatch, or else what it does.
pub fn name<'m>(event: &Event<'_>, model: &Model<'m>) -> Cow<'m, str> {
    let of_function = || function_name(model, event.queue.0, event.executable, event.function);
    match event.row {
        EventRow::Region(_) => "region".into(),
        EventRow::Worker(span) => text(span.name(model)),
        EventRow::Dispatch(..) => of_function(),
        EventRow::HostExecution(_) if event.function().is_some() => of_function(),
        _ => QueueEventType(event.event_type).name().into(),
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

/// The annotations of an event.
pub fn annotations(event: &Event<'_>) -> Annotations {
    let ids = match event.row {
        EventRow::Worker(span) => {
            Notes::default().number("worker", span.worker.into()).nonzero("submission_id", span.submission)
        }
        _ => Notes::default().number("event_id", event.id).number("submission_id", event.submission),
    };
    let ids = ids.nonzero("command_buffer_id", event.command_buffer);
    if let EventRow::Region(row) = event.row {
        let notes = ids
            .ns("region_index", row.index.get().into())
            .number("dispatch_count", row.dispatch_count.get().into())
            .number("tile_count", row.tile_count.get().into())
            .number("worker_count", row.worker_count.get().into())
            .number("useful_drain_count", row.useful_drain_count.get().into())
            .ns("tail_drain_ns", row.tail_drain_duration_ns.get());
        return notes.0;
    }
    let ids = ids.ordinal("command_index", event.command);
    let ids = match event.row {
        EventRow::Dispatch(..) => ids.number("executable_id", event.executable),
        _ => ids.nonzero("executable_id", event.executable),
    };
    let ids = ids.ordinal("function_ordinal", event.function).nonzero("allocation_id", event.allocation);
    let counts = match event.row {
        EventRow::Submission(_) => ids
            .number("wait_count", event.wait_count.into())
            .number("signal_count", event.signal_count.into())
            .number("operation_count", event.operation_count.into()),
        _ => ids
            .triple("workgroup_count", event.workgroup_count)
            .triple("workgroup_size", event.workgroup_size)
            .nonzero("tile_count", event.tile_count)
            .nonzero("operation_count", event.operation_count.into()),
    };
    let mut notes = counts.nonzero("bytes", event.bytes);
    match (event.row, event.times) {
        (EventRow::Submission(_), Times::Host(submitted, ready)) => {
            notes = notes.text("dependencies", DependencyStrategy(event.strategy).name());
            if submitted >= 0 && ready >= submitted {
                notes = notes.ns("waited_ns", ready - submitted);
            }
        }
        (_, Times::Device(start, end)) => notes = notes.number("start_tick", start).number("end_tick", end),
        (_, Times::Host(..)) => {
            if event.tile_count != 0 {
                notes = notes.ns("tile_time_ns", event.tile_duration_ns);
            }
            if event.status != 0 {
                notes = notes.text("status", status_name(event.status));
            }
        }
    }
    notes.0
}
