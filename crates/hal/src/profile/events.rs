use rehal_base::StatusCode;

use super::SectionTime;
use crate::op::QueueOpKind;
use crate::{
    Binding, BufferRef, BufferUsage, Dispatch, Indexed, MemoryType, QueueOp, StoredLists, Timepoint,
};

/// A queue operation, as all events of it name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfiledOperation {
    /// Its kind.
    pub kind: QueueOpKind,
    /// The queue that executes it.
    pub queue_ordinal: u32,
    /// The submission, counted from 1 in each session.
    pub submission_id: u64,
    /// The command buffer, or 0.
    pub command_buffer_id: u64,
    /// The allocation, or 0.
    pub allocation_id: u64,
    /// Commands of a command buffer, 0 for a barrier, 1 for other operations.
    pub operation_count: u32,
    /// Bytes that it allocates or moves, or 0.
    pub payload_bytes: u64,
}

/// A submission that is ready to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEvent<'a> {
    /// The operation.
    pub operation: ProfiledOperation,
    /// Timepoints that it waits for, by the ids of the semaphores.
    pub waits: &'a [Timepoint<u64>],
    /// Timepoints that it signals.
    pub signals: &'a [Timepoint<u64>],
    /// Whether some of its waits were not reached when it was submitted.
    pub was_deferred: bool,
    /// When it was submitted, in nanoseconds of [`now_ns`](super::now_ns).
    pub submitted_ns: i64,
    /// When its waits were reached.
    pub ready_ns: i64,
    /// Ordinal of the capture's record that it replays.
    pub replayed_record: Option<u64>,
}

/// A dispatch, as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfiledDispatch {
    /// The executable.
    pub executable_id: u64,
    /// The function in it.
    pub function: u32,
    /// Number of workgroups; zero if only the device knows it.
    pub workgroup_count: [u32; 3],
    /// Workgroup size.
    pub workgroup_size: [u32; 3],
    /// Whether the number of workgroups was read from a buffer.
    pub is_indirect: bool,
}

impl ProfiledDispatch {
    /// The number of workgroups, saturated.
    pub fn workgroup_total(&self) -> u64 {
        let [x, y, z] = self.workgroup_count.map(u64::from);
        (x * y).saturating_mul(z)
    }
}

/// A queue operation, or a command of a command buffer, that the host has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostExecution {
    /// The queue operation; of a command, that which it corresponds to, in the submission of its command
    /// buffer.
    pub operation: ProfiledOperation,
    /// The command in its command buffer; `None` for a queue operation.
    pub command_index: Option<u32>,
    /// The dispatch, if it is one.
    pub dispatch: Option<ProfiledDispatch>,
    /// Whether it ran on other threads than the one that submitted it.
    pub was_deferred: bool,
    /// How it ended.
    pub status: StatusCode,
    /// When it began.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// Sum of the times that all threads spent in it, if it is a dispatch.
    pub thread_time_ns: i64,
    /// The processor's time for it, if it is a dispatch and that is requested.
    pub processor: Option<ProcessorTime>,
    /// Ordinal of the capture's record that the queue operation replays, unless its queue event has it.
    pub replayed_record: Option<u64>,
}

/// Time of the threads that executed workgroups of a dispatch, in the sections in which they did so.
///
/// The CPU time of a section includes its reads of the wall clock, and what of reading the CPU clock exceeds
/// the least that this costs, which is subtracted: caches that the kernel evicted make it dearer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// CPU time of all threads (`CLOCK_THREAD_CPUTIME_ID`).
    pub cpu_ns: u64,
    /// Wall time of the same sections. What it exceeds the CPU time by is time in which the threads did not
    /// run.
    pub elapsed_ns: u64,
    /// Threads that executed at least one workgroup.
    pub thread_count: u32,
    /// CPU time of the thread that used most.
    pub longest_cpu_ns: u64,
    /// Wall time of the thread that took longest.
    pub longest_elapsed_ns: u64,
}

impl ProcessorTime {
    /// Of threads with these CPU times and wall times.
    pub fn of(threads: impl IntoIterator<Item = SectionTime>) -> Self {
        threads.into_iter().fold(Self::default(), |sum, thread| Self {
            cpu_ns: sum.cpu_ns + thread.cpu_ns,
            elapsed_ns: sum.elapsed_ns + thread.elapsed_ns,
            thread_count: sum.thread_count + 1,
            longest_cpu_ns: sum.longest_cpu_ns.max(thread.cpu_ns),
            longest_elapsed_ns: sum.longest_elapsed_ns.max(thread.elapsed_ns),
        })
    }
}

/// The kind of a step in the life of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryEventKind {
    /// Allocated by a queue.
    QueueAlloca,
    /// Deallocated by a queue, or freed with its last handle if a queue allocated it: then without a
    /// submission.
    QueueDealloca,
    /// A queue has reserved memory of a pool for an allocation.
    PoolReserve,
    /// The allocation is in the memory that was reserved.
    PoolMaterialize,
    /// The memory that was reserved may be reserved for others.
    PoolRelease,
    /// Allocated by the host.
    Allocate,
    /// Freed with its last handle, if the host allocated it.
    Free,
    /// Imported memory of the program.
    Import,
    /// Released the imported memory.
    Release,
}

/// A step in the life of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// The kind of the step.
    pub kind: MemoryEventKind,
    /// When it happened.
    pub time_ns: i64,
    /// The allocation, unique in the process.
    pub allocation_id: u64,
    /// The submission, or 0 if the host did it.
    pub submission_id: u64,
    /// The queue of the submission; `None` if the host did it.
    pub queue_ordinal: Option<u32>,
    /// The granted memory type.
    pub memory_type: MemoryType,
    /// The granted usage.
    pub usage: BufferUsage,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Alignment in bytes.
    pub alignment: u64,
    /// The memory of a pool, of events about it.
    pub reservation: Option<PoolReservation>,
}

/// A range of a pool's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolReservation {
    /// The pool, among those of its device; not 0.
    pub pool_id: u64,
    /// The allocation of the driver that it is in.
    pub backing_id: u64,
    /// Its first byte there.
    pub offset: u64,
    /// Its length in bytes, at least that of what is allocated in it.
    pub length_bytes: u64,
}

/// The commands between two barriers of a command buffer, executed by the threads of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRegion {
    /// The execution of the command buffer.
    pub operation: ProfiledOperation,
    /// The region, counted from 0.
    pub index: u32,
    /// Its commands.
    pub command_count: u32,
    /// The pieces in which threads take its work.
    pub tile_count: u32,
    /// Threads that the device has.
    pub worker_count: u32,
    /// Times that a thread took pieces.
    pub useful_drain_count: u32,
    /// When it began.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// When the first piece began.
    pub first_tile_ns: i64,
    /// When the last piece ended.
    pub last_tile_ns: i64,
    /// The pieces of the region after it; `None` for the last.
    pub next_tile_count: Option<u32>,
}

/// A thread that executes work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfiledThread {
    /// A worker of the device, counted from 0.
    Worker(u32),
    /// A thread that waits and helps meanwhile.
    Waiting,
    /// A thread that submitted the work or made it ready, and executed it at once.
    Submitting,
}

/// Work of a command that one thread of a device executed, without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSpan {
    /// The queue operation: of a command, the execution of its command buffer.
    pub operation: ProfiledOperation,
    /// The command in its command buffer; `None` for a queue operation.
    pub command_index: Option<u32>,
    /// The thread.
    pub thread: ProfiledThread,
    /// When it began.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
}

/// A queue operation, timed by the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceQueueEvent {
    /// The queue operation.
    pub operation: ProfiledOperation,
    /// When it began, in ticks of the device.
    pub start_tick: u64,
    /// When it ended.
    pub end_tick: u64,
}

/// A dispatch, timed by the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchEvent {
    /// The queue operation.
    pub operation: ProfiledOperation,
    /// The command in its command buffer; `None` for a dispatch that was submitted to a queue.
    pub command_index: Option<u32>,
    /// The dispatch.
    pub dispatch: ProfiledDispatch,
    /// When it began, in ticks of the device.
    pub start_tick: u64,
    /// When it ended.
    pub end_tick: u64,
}

/// The clocks of the device and of the host at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// The device's clock.
    pub device_tick: u64,
    /// The host's clock before the device's was read.
    pub host_before_ns: i64,
    /// The host's clock after it.
    pub host_after_ns: i64,
}

/// A command of a command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfiledCommand {
    /// Its kind.
    pub kind: ProfiledCommandKind,
    /// Whether its buffers come from the binding table.
    pub uses_binding_table: bool,
}

impl ProfiledCommand {
    /// A transfer or a dispatch that is stored in a command buffer, of which `describe` describes dispatches.
    /// A command buffer has no others.
    pub fn from_operation(
        operation: &QueueOp<Indexed>,
        lists: &StoredLists,
        describe: impl FnOnce(&Dispatch<Indexed>) -> ProfiledDispatch,
    ) -> Option<Self> {
        let slot = |reference: &BufferRef<u32>| match reference.binding {
            Binding::Slot(slot) => Some(slot),
            Binding::Direct(_) => None,
        };
        let is_slot = |reference: &BufferRef<u32>| slot(reference).is_some();
        let (kind, uses_binding_table) = match operation {
            QueueOp::Dispatch(dispatch) => {
                let bindings = dispatch.bindings.of(&lists.buffer_refs);
                let (dispatch, binding_count) = (describe(dispatch), bindings.len() as u32);
                (ProfiledCommandKind::Dispatch { dispatch, binding_count }, bindings.iter().any(is_slot))
            }
            QueueOp::Fill { target, .. } => {
                let (target_slot, target_offset, length) = (slot(target), target.offset, target.length);
                (ProfiledCommandKind::Fill { target_slot, target_offset, length }, is_slot(target))
            }
            QueueOp::Update { target, .. } => {
                let (target_slot, target_offset, length) = (slot(target), target.offset, target.length);
                (ProfiledCommandKind::Update { target_slot, target_offset, length }, is_slot(target))
            }
            QueueOp::Copy { source, target, .. } => {
                let kind = ProfiledCommandKind::Copy {
                    source_slot: slot(source),
                    source_offset: source.offset,
                    target_slot: slot(target),
                    target_offset: target.offset,
                    length: target.length,
                };
                (kind, is_slot(source) || is_slot(target))
            }
            _ => return None,
        };
        Some(Self { kind, uses_binding_table })
    }
}

/// The kind of a command of a command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the arguments of the commands")]
pub enum ProfiledCommandKind {
    Barrier,
    Dispatch {
        dispatch: ProfiledDispatch,
        binding_count: u32,
    },
    Fill {
        target_slot: Option<u32>,
        target_offset: u64,
        length: u64,
    },
    Update {
        target_slot: Option<u32>,
        target_offset: u64,
        length: u64,
    },
    Copy {
        source_slot: Option<u32>,
        source_offset: u64,
        target_slot: Option<u32>,
        target_offset: u64,
        length: u64,
    },
}
