use std::sync::Arc;

use rehal_base::Result;

use crate::flags::*;
use crate::{Buffer, BufferParams, CommandBufferParams, Names, Rename};

/// Everything that a program asks of an accelerator.
pub enum Op<N: Names> {
    /// What the host does around the work.
    Host(HostOp<N>),
    /// One command, recorded into a command buffer.
    Command {
        /// The command buffer.
        into: N::CommandBuffer,
        /// The command.
        command: Command<N>,
    },
    /// Work for a queue.
    Queue(Submission<N>),
}

/// A range of a buffer, or of whatever a binding table holds in a slot when the work is run.
#[derive(Clone, Copy)]
pub struct BufferRef<N: Names> {
    /// The buffer, or the slot.
    pub binding: Binding<N>,
    /// First byte, in the buffer or in the slot's range.
    pub offset: u64,
    /// Number of bytes, or [`WHOLE_BUFFER`].
    pub length: u64,
}

/// What a [`BufferRef`] refers to.
#[derive(Clone, Copy)]
pub enum Binding<N: Names> {
    /// A buffer.
    Direct(N::Buffer),
    /// An entry of the binding table that comes with the submission.
    Slot(u32),
}

/// A semaphore and a value of its timeline.
#[derive(Clone, Copy)]
pub struct Timepoint<N: Names> {
    /// The semaphore.
    pub semaphore: N::Semaphore,
    /// The value that is waited for or signalled.
    pub value: u64,
}

/// Makes writes of one kind visible to reads of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBarrier {
    /// Accesses before the barrier.
    pub source_scope: AccessScope,
    /// Accesses after it.
    pub target_scope: AccessScope,
}

/// A [`MemoryBarrier`] for a range of a buffer.
#[derive(Clone, Copy)]
pub struct BufferBarrier<N: Names> {
    /// The scopes.
    pub barrier: MemoryBarrier,
    /// The range.
    pub buffer: BufferRef<N>,
}

/// How many workgroups a dispatch runs, in x, y and z.
#[derive(Clone, Copy)]
pub enum WorkgroupCount<N: Names> {
    /// These many.
    Static([u32; 3]),
    /// Three `u32` in a buffer, read when the dispatch runs (or, where the flags say so, when the
    /// submission is issued).
    Indirect(BufferRef<N>),
}

/// A kernel with its arguments.
#[derive(Clone, Copy)]
pub struct Dispatch<N: Names> {
    /// The executable.
    pub executable: N::Executable,
    /// Which of its functions.
    pub function: u32,
    /// Workgroup size in x, y and z; a zero leaves it to the driver (a CPU passes 1, as the reference does).
    pub workgroup_size: [u32; 3],
    /// Number of workgroups.
    pub workgroup_count: WorkgroupCount<N>,
    /// Bytes of workgroup-local memory on top of what the function asks for.
    pub dynamic_local_memory: u32,
    /// 32-bit constants, little-endian.
    pub constants: N::Bytes,
    /// Buffers, by binding ordinal.
    pub bindings: N::BufferRefs,
    /// Flags.
    pub flags: DispatchFlags,
}

/// What a command buffer holds.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields carry the names of the HAL's arguments")]
pub enum Command<N: Names> {
    ExecutionBarrier {
        source_stages: ExecutionStage,
        target_stages: ExecutionStage,
        flags: u64,
        memory_barriers: N::MemoryBarriers,
        buffer_barriers: N::BufferBarriers,
    },
    SignalEvent {
        event: N::Event,
        source_stages: ExecutionStage,
    },
    ResetEvent {
        event: N::Event,
        source_stages: ExecutionStage,
    },
    WaitEvents {
        events: N::Events,
        source_stages: ExecutionStage,
        target_stages: ExecutionStage,
        memory_barriers: N::MemoryBarriers,
        buffer_barriers: N::BufferBarriers,
    },
    Advise {
        buffer: BufferRef<N>,
        flags: u64,
        arguments: [u64; 2],
    },
    Fill {
        target: BufferRef<N>,
        /// 1, 2 or 4 bytes.
        pattern: N::Bytes,
        flags: u64,
    },
    Update {
        source: N::Bytes,
        target: BufferRef<N>,
        flags: u64,
    },
    Copy {
        source: BufferRef<N>,
        target: BufferRef<N>,
        flags: u64,
    },
    Collective {
        channel: N::Channel,
        /// Kind, reduction and element type, packed as the HAL packs them.
        operation: u32,
        param: u32,
        send: BufferRef<N>,
        recv: BufferRef<N>,
        element_count: u64,
    },
    Dispatch(Dispatch<N>),
    BeginDebugGroup {
        label: N::Bytes,
        color: u32,
    },
    EndDebugGroup,
}

/// What a queue is given.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields carry the names of the HAL's arguments")]
pub enum QueueOp<N: Names> {
    Alloca { params: BufferParams, size: u64, flags: u64, created: N::Created<N::Buffer> },
    Dealloca { buffer: N::Buffer, flags: u64 },
    Fill { target: BufferRef<N>, pattern: N::Bytes, flags: u64 },
    Update { source: N::Bytes, target: BufferRef<N>, flags: u64 },
    Copy { source: BufferRef<N>, target: BufferRef<N>, flags: u64 },
    Read { file: N::File, file_offset: u64, target: BufferRef<N>, flags: u64 },
    Write { source: BufferRef<N>, file: N::File, file_offset: u64, flags: u64 },
    Dispatch(Dispatch<N>),
    Execute { command_buffer: N::CommandBuffer, bindings: N::BufferRefs, flags: u64 },
    Barrier { flags: u64 },
    HostCall { call: N::HostCall, arguments: [u64; 4], flags: HostCallFlags },
}

/// A [`QueueOp`] with the timepoints that order it.
#[derive(Clone, Copy)]
pub struct Submission<N: Names> {
    /// The device whose queue it goes to.
    pub device: N::Device,
    /// Which of the device's queues.
    pub affinity: QueueAffinity,
    /// All must be reached before it runs.
    pub waits: N::Timepoints,
    /// Signalled when it has run, failed when it could not.
    pub signals: N::Timepoints,
    /// The work.
    pub op: QueueOp<N>,
}

/// A function of the host that a queue calls, with the four words that were submitted with it. One
/// that returns `DEFERRED` will signal or fail the signals of its submission itself, later.
pub type HostCallFn = dyn Fn([u64; 4]) -> Result<()> + Send + Sync;

/// A host call that can be submitted.
#[derive(Clone)]
pub struct HostCall(pub Arc<HostCallFn>);

/// A host access to a range of a buffer.
#[derive(Clone, Copy)]
pub struct RangeOp<N: Names> {
    /// The buffer.
    pub buffer: N::Buffer,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// For map: how long it lives. Zero otherwise.
    pub mode: MappingMode,
    /// What the host does with the bytes.
    pub access: MemoryAccess,
}

/// What the host does around commands and submissions.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields carry the names of the HAL's arguments")]
pub enum HostOp<N: Names> {
    CreateSemaphore {
        device: N::Device,
        affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
        created: N::Created<N::Semaphore>,
    },
    CreateCommandBuffer {
        device: N::Device,
        params: CommandBufferParams,
        created: N::Created<N::CommandBuffer>,
    },
    BeginCommandBuffer {
        command_buffer: N::CommandBuffer,
    },
    EndCommandBuffer {
        command_buffer: N::CommandBuffer,
    },
    CreateEvent {
        device: N::Device,
        affinity: QueueAffinity,
        flags: u32,
        created: N::Created<N::Event>,
    },
    PrepareExecutable {
        device: N::Device,
        affinity: QueueAffinity,
        caching_mode: CachingMode,
        format: N::Bytes,
        data: N::Bytes,
        /// 32-bit specialization constants, little-endian.
        constants: N::Bytes,
        created: N::Created<N::Executable>,
    },
    ImportFile {
        device: N::Device,
        affinity: QueueAffinity,
        access: MemoryAccess,
        length: u64,
        created: N::Created<N::File>,
    },
    AllocateBuffer {
        device: N::Device,
        params: BufferParams,
        size: u64,
        created: N::Created<N::Buffer>,
    },
    /// Host memory that becomes a buffer, with the bytes that it held.
    ImportBuffer {
        device: N::Device,
        params: BufferParams,
        size: u64,
        data: N::Bytes,
        created: N::Created<N::Buffer>,
    },
    Map(RangeOp<N>),
    /// With the bytes that the host wrote while it was mapped, where it may have written.
    Unmap(RangeOp<N>, Option<N::Bytes>),
    Invalidate(RangeOp<N>),
    /// With the bytes that are flushed.
    Flush(RangeOp<N>, Option<N::Bytes>),
    FlushQueue {
        device: N::Device,
    },
    /// Frees what the device keeps only to be faster the next time.
    Trim {
        device: N::Device,
    },
    /// The same of its allocator alone, which is an object of its own in captures.
    TrimAllocator {
        device: N::Device,
    },
    ScopeBegin {
        name: N::Bytes,
    },
    ScopeEnd {
        name: N::Bytes,
    },
    /// A question or a hint, without an effect on what is computed.
    Query(Query),
}

/// Host operations that change nothing that later work depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the HAL's own")]
pub enum Query {
    DeviceQueryI64,
    DeviceQueryCapabilities,
    DeviceAssignTopology,
    DeviceQueryPool,
    ProfilingBegin,
    ProfilingFlush,
    ProfilingEnd,
    ExternalCaptureBegin,
    ExternalCaptureEnd,
    AllocatorQueryHeaps,
    ExecutableFunctionCount,
    ExecutableFunctionInfo,
    ExecutableFunctionParameters,
    ExecutableLookupFunction,
}

impl<N: Names> BufferRef<N> {
    /// All of `buffer`.
    pub fn whole(buffer: N::Buffer) -> Self {
        Self { binding: Binding::Direct(buffer), offset: 0, length: WHOLE_BUFFER }
    }

    /// `length` bytes of `buffer` from `offset`.
    pub fn range(buffer: N::Buffer, offset: u64, length: u64) -> Self {
        Self { binding: Binding::Direct(buffer), offset, length }
    }

    /// `length` bytes from `offset` of what the binding table holds in `slot`.
    pub fn slot(slot: u32, offset: u64, length: u64) -> Self {
        Self { binding: Binding::Slot(slot), offset, length }
    }

    /// The same range under other names.
    pub fn rename<T: Names, R: Rename<N, T>>(self, names: &mut R) -> Result<BufferRef<T>> {
        names.buffer_ref(self)
    }
}

impl<'a> From<&'a Buffer> for BufferRef<crate::Live<'a>> {
    fn from(buffer: &'a Buffer) -> Self {
        Self::whole(buffer)
    }
}

impl<N: Names> Timepoint<N> {
    /// The same timepoint under another name.
    pub fn rename<T: Names, R: Rename<N, T>>(self, names: &mut R) -> Result<Timepoint<T>> {
        Ok(Timepoint { semaphore: names.semaphore(self.semaphore)?, value: self.value })
    }
}

impl<N: Names> BufferBarrier<N> {
    /// The same barrier under other names.
    pub fn rename<T: Names, R: Rename<N, T>>(self, names: &mut R) -> Result<BufferBarrier<T>> {
        Ok(BufferBarrier { barrier: self.barrier, buffer: self.buffer.rename(names)? })
    }
}

impl<N: Names> Dispatch<N> {
    /// The same dispatch under other names.
    pub fn rename<T: Names, R: Rename<N, T>>(self, names: &mut R) -> Result<Dispatch<T>> {
        let (executable, function) = names.function(self.executable, self.function)?;
        Ok(Dispatch {
            executable,
            function,
            workgroup_size: self.workgroup_size,
            workgroup_count: match self.workgroup_count {
                WorkgroupCount::Static(count) => WorkgroupCount::Static(count),
                WorkgroupCount::Indirect(buffer) => WorkgroupCount::Indirect(buffer.rename(names)?),
            },
            dynamic_local_memory: self.dynamic_local_memory,
            constants: names.bytes(self.constants)?,
            bindings: names.buffer_refs(self.bindings)?,
            flags: self.flags,
        })
    }
}

impl<N: Names> Command<N> {
    /// The same command under other names.
    pub fn rename<T: Names, R: Rename<N, T>>(self, names: &mut R) -> Result<Command<T>> {
        Ok(match self {
            Self::ExecutionBarrier {
                source_stages,
                target_stages,
                flags,
                memory_barriers,
                buffer_barriers,
            } => Command::ExecutionBarrier {
                source_stages,
                target_stages,
                flags,
                memory_barriers: names.memory_barriers(memory_barriers)?,
                buffer_barriers: names.buffer_barriers(buffer_barriers)?,
            },
            Self::SignalEvent { event, source_stages } => {
                Command::SignalEvent { event: names.event(event)?, source_stages }
            }
            Self::ResetEvent { event, source_stages } => {
                Command::ResetEvent { event: names.event(event)?, source_stages }
            }
            Self::WaitEvents { events, source_stages, target_stages, memory_barriers, buffer_barriers } => {
                Command::WaitEvents {
                    events: names.events(events)?,
                    source_stages,
                    target_stages,
                    memory_barriers: names.memory_barriers(memory_barriers)?,
                    buffer_barriers: names.buffer_barriers(buffer_barriers)?,
                }
            }
            Self::Advise { buffer, flags, arguments } => {
                Command::Advise { buffer: buffer.rename(names)?, flags, arguments }
            }
            Self::Fill { target, pattern, flags } => {
                Command::Fill { target: target.rename(names)?, pattern: names.bytes(pattern)?, flags }
            }
            Self::Update { source, target, flags } => {
                Command::Update { source: names.bytes(source)?, target: target.rename(names)?, flags }
            }
            Self::Copy { source, target, flags } => {
                Command::Copy { source: source.rename(names)?, target: target.rename(names)?, flags }
            }
            Self::Collective { channel, operation, param, send, recv, element_count } => {
                Command::Collective {
                    channel: names.channel(channel)?,
                    operation,
                    param,
                    send: send.rename(names)?,
                    recv: recv.rename(names)?,
                    element_count,
                }
            }
            Self::Dispatch(dispatch) => Command::Dispatch(dispatch.rename(names)?),
            Self::BeginDebugGroup { label, color } => {
                Command::BeginDebugGroup { label: names.bytes(label)?, color }
            }
            Self::EndDebugGroup => Command::EndDebugGroup,
        })
    }
}

impl<N: Names> QueueOp<N> {
    /// The same operation under other names; `created` turns the name of a buffer that it makes.
    pub fn rename<T: Names, R: Rename<N, T>>(
        self,
        names: &mut R,
        created: impl FnOnce(N::Created<N::Buffer>) -> Result<T::Created<T::Buffer>>,
    ) -> Result<QueueOp<T>> {
        Ok(match self {
            Self::Alloca { params, size, flags, created: name } => {
                QueueOp::Alloca { params, size, flags, created: created(name)? }
            }
            Self::Dealloca { buffer, flags } => QueueOp::Dealloca { buffer: names.buffer(buffer)?, flags },
            Self::Fill { target, pattern, flags } => {
                QueueOp::Fill { target: target.rename(names)?, pattern: names.bytes(pattern)?, flags }
            }
            Self::Update { source, target, flags } => {
                QueueOp::Update { source: names.bytes(source)?, target: target.rename(names)?, flags }
            }
            Self::Copy { source, target, flags } => {
                QueueOp::Copy { source: source.rename(names)?, target: target.rename(names)?, flags }
            }
            Self::Read { file, file_offset, target, flags } => {
                QueueOp::Read { file: names.file(file)?, file_offset, target: target.rename(names)?, flags }
            }
            Self::Write { source, file, file_offset, flags } => {
                QueueOp::Write { source: source.rename(names)?, file: names.file(file)?, file_offset, flags }
            }
            Self::Dispatch(dispatch) => QueueOp::Dispatch(dispatch.rename(names)?),
            Self::Execute { command_buffer, bindings, flags } => QueueOp::Execute {
                command_buffer: names.command_buffer(command_buffer)?,
                bindings: names.buffer_refs(bindings)?,
                flags,
            },
            Self::Barrier { flags } => QueueOp::Barrier { flags },
            Self::HostCall { call, arguments, flags } => {
                QueueOp::HostCall { call: names.host_call(call)?, arguments, flags }
            }
        })
    }

    /// The name of the operation, as captures and profiles print it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Alloca { .. } => "queue_alloca",
            Self::Dealloca { .. } => "queue_dealloca",
            Self::Fill { .. } => "queue_fill",
            Self::Update { .. } => "queue_update",
            Self::Copy { .. } => "queue_copy",
            Self::Read { .. } => "queue_read",
            Self::Write { .. } => "queue_write",
            Self::Dispatch(_) => "queue_dispatch",
            Self::Execute { .. } => "queue_execute",
            Self::Barrier { .. } => "queue_barrier",
            Self::HostCall { .. } => "queue_host_call",
        }
    }
}

impl<N: Names> Submission<N> {
    /// The same submission under other names; see [`QueueOp::rename`] for `created`.
    pub fn rename<T: Names, R: Rename<N, T>>(
        self,
        names: &mut R,
        created: impl FnOnce(N::Created<N::Buffer>) -> Result<T::Created<T::Buffer>>,
    ) -> Result<Submission<T>> {
        Ok(Submission {
            device: names.device(self.device)?,
            affinity: self.affinity,
            waits: names.timepoints(self.waits)?,
            signals: names.timepoints(self.signals)?,
            op: self.op.rename(names, created)?,
        })
    }
}
