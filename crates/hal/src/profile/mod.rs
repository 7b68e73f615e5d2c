//! Profiling: what a device tells a sink about the work that it does.
//!
//! A program begins a session on a device with [`Device::begin_profiling`](crate::Device::begin_profiling),
//! and the driver calls the session's [`ProfileSink`] until it ends. A driver has a [`Profiler`], which is
//! off by default and then costs one branch per operation. Objects are named by the ids of their handles; the
//! format of a file is the sink's concern.
//!
//! Executables and command buffers are described once per session, before the first event that names them. A
//! `ProfiledSubmission` travels with its submission and reports when it is ready and when it has executed.
//! `ProfileRequest::check` refuses kinds of data that a device lacks, by name. The span of a dispatch begins
//! and ends with its workgroups, that of an execution ends with its last command, and that of an alloca is
//! that of the allocation. A driver leaves out a sample of its clock whose error could be above 1 % of the
//! time since the last one.
//!
//! A replay notes its record for its thread before each operation (`set_replayed_record`), and a submission
//! or command that the thread makes is related to that record.

mod clock;
mod events;
mod identity;
mod session;
mod submission;

use std::sync::Arc;

use rehal_base::{Error, Result};

use crate::{CommandBufferParams, DeviceInfo, FunctionInfo};

pub use crate::op::QueueOpKind;
pub use clock::{SectionClock, SectionTime, greatest_common_divisor, now_ns, process_cpu_ns, resolution_ns};
pub use events::{
    ClockSample, CommandRegion, DeviceQueueEvent, DispatchEvent, HostExecution, MemoryEvent, MemoryEventKind,
    PoolReservation, ProcessorTime, ProfiledCommand, ProfiledCommandKind, ProfiledDispatch,
    ProfiledOperation, ProfiledThread, QueueEvent, WorkerSpan,
};
pub use identity::set_replayed_record;
pub use session::{ProfileSession, ProfiledAllocation, Profiler};
pub use submission::ProfiledSubmission;

pub(crate) use identity::{Identity, LazyId, ReplayedCommands};

bitflags::bitflags! {
    /// Kinds of data that a device may report.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ProfileData: u32 {
        /// Submissions to queues.
        const QUEUE_EVENTS = 1 << 0;
        /// Spans of queue operations and dispatches that the host executes.
        const HOST_EXECUTION = 1 << 1;
        /// Queue operations, timed by the device.
        const DEVICE_QUEUE_EVENTS = 1 << 2;
        /// Dispatches, timed by the device.
        const DISPATCH_EVENTS = 1 << 3;
        /// Hardware counters of dispatches.
        const COUNTERS = 1 << 4;
        /// Executables, their functions, and the commands of command buffers.
        const EXECUTABLE_METADATA = 1 << 5;
        /// Hardware traces of dispatches.
        const EXECUTABLE_TRACES = 1 << 6;
        /// Allocations.
        const MEMORY_EVENTS = 1 << 7;
        /// Temperatures, clock rates and the like.
        const DEVICE_METRICS = 1 << 8;
        /// Work between two barriers of a command buffer.
        const COMMAND_REGIONS = 1 << 9;
        /// Hardware counters of time ranges.
        const COUNTER_RANGES = 1 << 10;
        /// CPU time of dispatches that the host executes: [`ProcessorTime`]. Reading that clock is a system
        /// call, so nothing reads it unless it is requested.
        const PROCESSOR_TIME = 1 << 11;
    }
}

impl ProfileData {
    /// The detailed data of queue operations and their commands.
    pub(crate) const OF_OPERATIONS: Self = Self::HOST_EXECUTION
        .union(Self::DISPATCH_EVENTS)
        .union(Self::COMMAND_REGIONS)
        .union(Self::PROCESSOR_TIME);

    /// The names of the kinds of data (source: the flag `--device_profiling_mode` of release 3.13.0, which
    /// lacks the last).
    pub const NAMES: [(&'static str, Self); 12] = [
        ("queue-events", Self::QUEUE_EVENTS),
        ("host-execution", Self::HOST_EXECUTION),
        ("device-queue-events", Self::DEVICE_QUEUE_EVENTS),
        ("dispatch-events", Self::DISPATCH_EVENTS),
        ("memory-events", Self::MEMORY_EVENTS),
        ("device-metrics", Self::DEVICE_METRICS),
        ("command-region-events", Self::COMMAND_REGIONS),
        ("counters", Self::COUNTERS),
        ("counter-ranges", Self::COUNTER_RANGES),
        ("executable-metadata", Self::EXECUTABLE_METADATA),
        ("executable-traces", Self::EXECUTABLE_TRACES),
        ("processor-time", Self::PROCESSOR_TIME),
    ];

    /// The names of all kinds of data in this set.
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES.iter().filter(|(_, data)| self.intersects(*data)).map(|(name, _)| *name).collect()
    }
}

/// The data that a session reports, and its sink.
#[derive(Clone)]
pub struct ProfileRequest {
    /// The kinds of data.
    pub data: ProfileData,
    /// Which operations are reported in detail.
    pub filter: ProfileFilter,
    /// Hardware counters to sample, by the device's names.
    pub counters: Vec<String>,
    /// Receives the data.
    pub sink: Arc<dyn ProfileSink>,
}

/// Selects the operations that are reported in detail: spans of the host, dispatch events, regions, counters
/// and traces. Events of queues, also those that the device times, of memory, and metadata are always
/// complete. By default, all operations are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFilter {
    /// Dispatches of functions whose names match this pattern with `*` and `?`.
    pub function: Option<String>,
    /// The execution of the command buffer with this id.
    pub command_buffer: Option<u64>,
    /// The command with this index in its command buffer.
    pub command_index: Option<u32>,
    /// The queue with this ordinal.
    pub queue: Option<u32>,
}

/// Receives what a device reports in one session. Every function may be called from any thread, by threads
/// that run work of the device: it must be fast and must not call the device.
///
/// A sink that fails keeps its error, which its creator reports: profiling must not fail the work. Sinks are
/// not decorated, so each ignores by default what it does not receive.
pub trait ProfileSink: Send + Sync {
    /// An executable, before the first event that names it.
    fn executable(&self, _id: u64, _functions: &[FunctionInfo]) {}

    /// A command buffer with its commands, before the first event that names it. `records` are the indices of
    /// commands that replay a record of a capture, with its ordinal.
    fn command_buffer(
        &self,
        _id: u64,
        _params: &CommandBufferParams,
        _commands: &[ProfiledCommand],
        _records: &[(u32, u64)],
    ) {
    }

    /// A submission that is ready to execute.
    fn queue_event(&self, _event: &QueueEvent<'_>) {}

    /// Work that the host has executed.
    fn host_execution(&self, _event: &HostExecution) {}

    /// A step in the life of an allocation.
    fn memory_event(&self, _event: &MemoryEvent) {}

    /// Work between two barriers of a command buffer.
    fn command_region(&self, _event: &CommandRegion) {}

    /// Work of one thread, with the regions.
    fn worker_span(&self, _span: &WorkerSpan) {}

    /// A queue operation, timed by the device.
    fn device_queue_event(&self, _event: &DeviceQueueEvent) {}

    /// A dispatch, timed by the device.
    fn dispatch_event(&self, _event: &DispatchEvent) {}

    /// The ordinal of the capture's record that a submission replays, unless one of its events has it.
    fn replayed(&self, _operation: &ProfiledOperation, _record: u64) {}

    /// The clocks of the device and of the host at one moment. A device that times work reports them at the
    /// begin and end of a session, at each flush, and on request: see
    /// [`Device::sample_profiling_clock`](crate::Device::sample_profiling_clock).
    fn clock_sample(&self, _sample: &ClockSample) {}
}

impl ProfileRequest {
    /// Fails, naming what is missing, unless `device` supports all that is requested.
    pub fn check(&self, device: &DeviceInfo, supported: ProfileData) -> Result<()> {
        self.data.check(&self.counters, device, supported)
    }
}

impl ProfileData {
    /// Fails, naming what is missing, unless `device`, which supports these kinds of data, can report this
    /// with these counters.
    pub fn check(self, counters: &[String], device: &DeviceInfo, supported: Self) -> Result<()> {
        let missing = self - supported;
        if !missing.is_empty() {
            let (missing, supported) = (missing.names().join(", "), supported.names().join(", "));
            let message = format!("device '{}' cannot report {missing}", device.name);
            return Err(Error::unimplemented(message).advise(format!("it reports {supported}")));
        }
        let sampled = Self::COUNTERS | Self::COUNTER_RANGES;
        if !counters.is_empty() && !supported.intersects(sampled) {
            let message = format!("device '{}' has no hardware counters", device.name);
            return Err(Error::unimplemented(message));
        }
        Ok(())
    }
}
