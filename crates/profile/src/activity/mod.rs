//! The activity of devices over time: the events of a bundle on tracks, for programs that draw them.
//!
//! Unlike the reports, it has one time axis for all devices: ticks are mapped to the host's clock. A
//! reference to something that the bundle does not describe is named by its numbers.

mod builder;
mod bundle;
mod columns;
mod memory;
mod submissions;
#[cfg(test)]
mod tests;

pub use builder::{Builder, MAX_LANES, Span};
pub use bundle::of_bundle;
pub use columns::{ActivityColumns, Column, GraphColumns, OperationNames, SessionText, text};

use std::borrow::Cow;

use crate::layout::NONE;
use crate::worker::worker_name;

/// Events on tracks, and values over time.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// The unit of the time axis.
    pub axis: Axis,
    /// The host's time of 0 in nanoseconds.
    pub origin_ns: i64,
    /// The sessions of a bundle, in the order in which they began.
    pub sessions: Vec<Session>,
    /// The tracks, in the order in which to draw them.
    pub tracks: Vec<Track>,
    /// Names of events. Arbitrary bytes: UTF-8 by convention only.
    pub names: Vec<Vec<u8>>,
    /// Functions that are dispatched.
    pub functions: Vec<Function>,
    /// The events by track, lane and start; those without a time are last.
    pub events: Vec<Event>,
    /// Events left out because of a limit.
    pub omitted_count: u64,
    /// Rows that the producer of the bundle dropped.
    pub dropped_count: u64,
    /// Values over time.
    pub series: Vec<Series>,
    /// The semaphores of submissions, by time; empty if that is not known of any.
    pub submissions: Vec<Submission>,
}

/// A submission in the graph of semaphores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Its id in the bundle, or the ordinal of its record in the capture.
    pub id: u64,
    /// Physical device, or [`NONE`].
    pub device: u32,
    /// The operation, such as `execute`; empty if it is not known.
    pub operation: &'static str,
    /// The semaphores that it waits for, by id, with their payload values.
    pub waits: Vec<(u64, u64)>,
    /// The semaphores that it signals.
    pub signals: Vec<(u64, u64)>,
}

/// A session of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: u64,
    /// The name of its device; arbitrary bytes.
    pub name: Vec<u8>,
    /// The status code with which it ended; `None` if its end is not in the bundle.
    pub status: Option<u32>,
}

/// The unit of the time axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// Nanoseconds of the host's monotonic clock.
    #[default]
    Nanoseconds,
    /// Ordinals of a capture's records: an order without times.
    Records,
}

/// A row of a timeline, with a lane for each event that overlaps others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The kind of its events.
    pub kind: TrackKind,
    /// Physical device, or [`NONE`].
    pub device: u32,
    /// Queue of the device, or [`NONE`].
    pub queue: u32,
    /// Stream of the queue, or the thread of calls, or the worker.
    pub stream: u64,
    /// Number of lanes.
    pub lane_count: u32,
    /// Whether its times can be compared with those of other tracks. If not, one tick of the device is shown
    /// as 1 ns, and its first event is at 0.
    pub is_correlated: bool,
}

/// The kind of the events of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrackKind {
    /// Scopes of a capture.
    Scopes,
    /// Calls of a thread.
    Calls,
    /// Submissions to a queue, from the call until they may run.
    Submissions,
    /// Operations that the host executed for a queue.
    HostExecution,
    /// Regions of command buffers between barriers.
    CommandRegions,
    /// Queue operations, timed by the device.
    DeviceOperations,
    /// Dispatches, timed by the device.
    DeviceDispatches,
    /// Command buffers, from begin to end.
    Recordings,
    /// Dispatches in command buffers.
    RecordedDispatches,
    /// Work that a worker of a device executed.
    Worker,
}

impl Track {
    /// The name that a page shows.
    pub fn name(&self) -> Cow<'static, str> {
        match self.kind {
            TrackKind::Worker => worker_name(u32::try_from(self.stream).unwrap_or(NONE)),
            kind => Cow::Borrowed(kind.name()),
        }
    }
}

impl TrackKind {
    /// The name that a page shows for tracks of this kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scopes => "scopes",
            Self::Calls => "calls",
            Self::Submissions => "submissions",
            Self::HostExecution => "host execution",
            Self::CommandRegions => "command regions",
            Self::DeviceOperations => "device operations",
            Self::DeviceDispatches => "device dispatches",
            Self::Recordings => "command buffers",
            Self::RecordedDispatches => "recorded dispatches",
            Self::Worker => "worker",
        }
    }
}

/// A function of an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The executable.
    pub executable: u64,
    /// Its ordinal there.
    pub ordinal: u32,
    /// Index of its name in [`Activity::names`].
    pub name: u32,
}

/// An event. Numbers that an event of its kind does not have are zero, ordinals and indices [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Index of its track.
    pub track: u32,
    /// Lane of the track: events of a lane do not overlap, except in the last of [`MAX_LANES`].
    pub lane: u32,
    /// Whether it has a start and a duration.
    pub is_timed: bool,
    /// The start, counted from [`Activity::origin_ns`].
    pub start: u64,
    /// The duration.
    pub duration: u64,
    /// Index of its name.
    pub name: u32,
    /// Index of the dispatched function, or [`NONE`].
    pub function: u32,
    /// Its id in the bundle, or the ordinal of its record in the capture.
    pub id: u64,
    /// Its submission.
    pub submission: u64,
    /// Its command buffer.
    pub command_buffer: u64,
    /// Index of its command in the command buffer, or [`NONE`].
    pub command: u32,
    /// Workgroups of a dispatch.
    pub workgroup_count: [u32; 3],
    /// Size of a workgroup of a dispatch.
    pub workgroup_size: [u32; 3],
    /// Bytes that it moves or allocates.
    pub bytes: u64,
    /// Semaphores that it waits for.
    pub wait_count: u32,
    /// Semaphores that it signals.
    pub signal_count: u32,
    /// Operations in it.
    pub operation_count: u32,
    /// Tiles that workers executed.
    pub tile_count: u64,
    /// Sum of the tiles' durations.
    pub tile_duration: u64,
    /// A [`DependencyStrategy`](crate::DependencyStrategy), or [`NONE`].
    pub strategy: u32,
    /// Status code.
    pub status: u32,
    /// Ordinal of the capture's record that it replays, or [`NONE`].
    pub replayed_record: u32,
}

impl Default for Event {
    fn default() -> Self {
        Self {
            track: 0,
            lane: 0,
            is_timed: false,
            start: 0,
            duration: 0,
            name: 0,
            function: NONE,
            id: 0,
            submission: 0,
            command_buffer: 0,
            command: NONE,
            workgroup_count: [0; 3],
            workgroup_size: [0; 3],
            bytes: 0,
            wait_count: 0,
            signal_count: 0,
            operation_count: 0,
            tile_count: 0,
            tile_duration: 0,
            strategy: NONE,
            status: 0,
            replayed_record: NONE,
        }
    }
}

/// A value over time: between two points it is that of the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Physical device, or [`NONE`].
    pub device: u32,
    /// Its name; arbitrary bytes.
    pub name: Vec<u8>,
    /// Unit of its values, such as `bytes`.
    pub unit: &'static str,
    /// Times and values, by time.
    pub points: Vec<(u64, f64)>,
}
