use std::sync::Arc;

use rehal_base::Result;
use serde::{Deserialize, Serialize};

use crate::flags::*;
use crate::{BufferParams, BufferRef, HostOp, InfoOp, Names, Rename};

/// Everything that a program requests of an accelerator.
pub enum Op<N: Names> {
    /// A host operation.
    Host(HostOp<N>),
    /// A call that no result depends on.
    Info(InfoOp<N>),
    /// A command recorded into a command buffer.
    Command {
        /// The command buffer.
        into: N::CommandBuffer,
        /// The command.
        command: Command<N>,
    },
    /// Work for a queue.
    Queue(Submission<N>),
}

/// Bytes of an indirect workgroup count: a dispatch reads no others of the range that it names.
pub const WORKGROUP_COUNT_BYTES: u64 = 12;

/// The workgroup count of a dispatch, in x, y and z.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WorkgroupCount<B> {
    /// A static count.
    Static([u32; 3]),
    /// Three `u32` in a buffer, read when the dispatch executes (or, depending on the flags, when the
    /// submission is issued).
    Indirect(BufferRef<B>),
}

/// A kernel with its arguments.
#[derive(Clone, Copy)]
pub struct Dispatch<N: Names> {
    /// The executable.
    pub executable: N::Executable,
    /// The function in it.
    pub function: u32,
    /// Workgroup size in x, y and z; zero lets the driver choose (a CPU passes 1, like the reference).
    pub workgroup_size: [u32; 3],
    /// Number of workgroups.
    pub workgroup_count: WorkgroupCount<N::Buffer>,
    /// Dynamic workgroup-local memory in bytes, in addition to the function's static memory.
    pub dynamic_local_memory: u32,
    /// 32-bit constants, little-endian.
    pub constants: N::Bytes,
    /// Buffers, by binding ordinal.
    pub bindings: N::BufferRefs,
    /// Flags.
    pub flags: DispatchFlags,
}

/// A command of a command buffer.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields have the names of the HAL's arguments")]
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
        buffer: BufferRef<N::Buffer>,
        flags: u64,
        arguments: [u64; 2],
    },
    Fill {
        target: BufferRef<N::Buffer>,
        /// 1, 2 or 4 bytes.
        pattern: N::Bytes,
        flags: u64,
    },
    Update {
        source: N::Bytes,
        target: BufferRef<N::Buffer>,
        flags: u64,
    },
    Copy {
        source: BufferRef<N::Buffer>,
        target: BufferRef<N::Buffer>,
        flags: u64,
    },
    Dispatch(Dispatch<N>),
    BeginDebugGroup {
        label: N::Bytes,
        color: u32,
    },
    EndDebugGroup,
}

/// An operation of a queue.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "fields have the names of the HAL's arguments")]
pub enum QueueOp<N: Names> {
    Alloca {
        params: BufferParams,
        size: u64,
        flags: u64,
        created: N::Created<N::Buffer>,
    },
    Dealloca {
        buffer: N::Buffer,
        /// Size of the buffer in bytes.
        size: N::Captured<u64>,
        flags: u64,
    },
    Fill {
        target: BufferRef<N::Buffer>,
        pattern: N::Bytes,
        flags: u64,
    },
    Update {
        source: N::Bytes,
        target: BufferRef<N::Buffer>,
        flags: u64,
    },
    Copy {
        source: BufferRef<N::Buffer>,
        target: BufferRef<N::Buffer>,
        flags: u64,
    },
    Read {
        file: N::File,
        file_offset: u64,
        target: BufferRef<N::Buffer>,
        /// The bytes that were read; empty unless captured.
        captured: N::Captured<N::Bytes>,
        flags: u64,
    },
    Write {
        source: BufferRef<N::Buffer>,
        file: N::File,
        file_offset: u64,
        flags: u64,
    },
    Dispatch(Dispatch<N>),
    Execute {
        command_buffer: N::CommandBuffer,
        bindings: N::BufferRefs,
        flags: u64,
    },
    Barrier {
        flags: u64,
    },
    HostCall {
        call: N::HostCall,
        arguments: [u64; 4],
        flags: HostCallFlags,
    },
}

/// The kind of a queue operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of [`QueueOp`]")]
pub enum QueueOpKind {
    Alloca,
    Dealloca,
    Fill,
    Update,
    Copy,
    Read,
    Write,
    Dispatch,
    Execute,
    Barrier,
    HostCall,
}

impl QueueOpKind {
    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloca => "alloca",
            Self::Dealloca => "dealloca",
            Self::Fill => "fill",
            Self::Update => "update",
            Self::Copy => "copy",
            Self::Read => "read",
            Self::Write => "write",
            Self::Dispatch => "dispatch",
            Self::Execute => "execute",
            Self::Barrier => "barrier",
            Self::HostCall => "host_call",
        }
    }
}

/// A [`QueueOp`] with the timepoints that order it.
#[derive(Clone, Copy)]
pub struct Submission<N: Names> {
    /// The device of the queue.
    pub device: N::Device,
    /// The queues of the device.
    pub affinity: QueueAffinity,
    /// All must be reached before it executes.
    pub waits: N::Timepoints,
    /// Signalled on completion, failed on error.
    pub signals: N::Timepoints,
    /// The operation.
    pub op: QueueOp<N>,
}

/// A host function called by a queue, with four words of arguments. If it returns `DEFERRED`, it signals or
/// fails the signals of its submission itself, later.
pub type HostCallFn = dyn Fn([u64; 4]) -> Result<()> + Send + Sync;

/// A host call for submission.
#[derive(Clone)]
pub struct HostCall(pub Arc<HostCallFn>);

impl<N: Names> Dispatch<N> {
    /// The same dispatch under other names.
    #[doc(hidden)]
    pub fn rename<T: Names, R: Rename<N, T>>(&self, names: &mut R) -> Result<Dispatch<T>> {
        let (executable, function) = names.function(self.executable, self.function)?;
        Ok(Dispatch {
            executable,
            function,
            workgroup_size: self.workgroup_size,
            workgroup_count: match self.workgroup_count {
                WorkgroupCount::Static(count) => WorkgroupCount::Static(count),
                WorkgroupCount::Indirect(buffer) => WorkgroupCount::Indirect(names.buffer_ref(buffer)?),
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
    pub fn rename<T: Names, R: Rename<N, T>>(&self, names: &mut R) -> Result<Command<T>> {
        Ok(match *self {
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
                Command::Advise { buffer: names.buffer_ref(buffer)?, flags, arguments }
            }
            Self::Fill { target, pattern, flags } => {
                Command::Fill { target: names.buffer_ref(target)?, pattern: names.bytes(pattern)?, flags }
            }
            Self::Update { source, target, flags } => {
                Command::Update { source: names.bytes(source)?, target: names.buffer_ref(target)?, flags }
            }
            Self::Copy { source, target, flags } => {
                Command::Copy { source: names.buffer_ref(source)?, target: names.buffer_ref(target)?, flags }
            }
            Self::Dispatch(dispatch) => Command::Dispatch(dispatch.rename(names)?),
            Self::BeginDebugGroup { label, color } => {
                Command::BeginDebugGroup { label: names.bytes(label)?, color }
            }
            Self::EndDebugGroup => Command::EndDebugGroup,
        })
    }
}

impl<N: Names> Command<N> {
    /// The equivalent queue operation. Only transfers and dispatches have one.
    pub fn as_queue_op(self) -> Option<QueueOp<N>> {
        match self {
            Self::Fill { target, pattern, flags } => Some(QueueOp::Fill { target, pattern, flags }),
            Self::Update { source, target, flags } => Some(QueueOp::Update { source, target, flags }),
            Self::Copy { source, target, flags } => Some(QueueOp::Copy { source, target, flags }),
            Self::Dispatch(dispatch) => Some(QueueOp::Dispatch(dispatch)),
            Self::ExecutionBarrier { .. }
            | Self::SignalEvent { .. }
            | Self::ResetEvent { .. }
            | Self::WaitEvents { .. }
            | Self::Advise { .. }
            | Self::BeginDebugGroup { .. }
            | Self::EndDebugGroup => None,
        }
    }
}

impl<N: Names> QueueOp<N> {
    /// The same operation under other names.
    #[inline]
    pub fn rename<T: Names, R: Rename<N, T>>(&self, names: &mut R) -> Result<QueueOp<T>> {
        Ok(match *self {
            Self::Alloca { params, size, flags, created } => {
                QueueOp::Alloca { params, size, flags, created: names.created_buffer(created)? }
            }
            Self::Dealloca { buffer, size, flags } => QueueOp::Dealloca {
                buffer: names.buffer(buffer)?,
                size: names.deallocated_size(buffer, size)?,
                flags,
            },
            Self::Fill { target, pattern, flags } => {
                QueueOp::Fill { target: names.buffer_ref(target)?, pattern: names.bytes(pattern)?, flags }
            }
            Self::Update { source, target, flags } => {
                QueueOp::Update { source: names.bytes(source)?, target: names.buffer_ref(target)?, flags }
            }
            Self::Copy { source, target, flags } => {
                QueueOp::Copy { source: names.buffer_ref(source)?, target: names.buffer_ref(target)?, flags }
            }
            Self::Read { file, file_offset, target, captured, flags } => QueueOp::Read {
                file: names.file(file)?,
                file_offset,
                target: names.buffer_ref(target)?,
                captured: names.captured_read(file, file_offset, target, captured)?,
                flags,
            },
            Self::Write { source, file, file_offset, flags } => QueueOp::Write {
                source: names.buffer_ref(source)?,
                file: names.file(file)?,
                file_offset,
                flags,
            },
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

    /// Its kind in profiles.
    pub fn kind(&self) -> QueueOpKind {
        match self {
            Self::Alloca { .. } => QueueOpKind::Alloca,
            Self::Dealloca { .. } => QueueOpKind::Dealloca,
            Self::Fill { .. } => QueueOpKind::Fill,
            Self::Update { .. } => QueueOpKind::Update,
            Self::Copy { .. } => QueueOpKind::Copy,
            Self::Read { .. } => QueueOpKind::Read,
            Self::Write { .. } => QueueOpKind::Write,
            Self::Dispatch(_) => QueueOpKind::Dispatch,
            Self::Execute { .. } => QueueOpKind::Execute,
            Self::Barrier { .. } => QueueOpKind::Barrier,
            Self::HostCall { .. } => QueueOpKind::HostCall,
        }
    }

    /// The operation's name in captures.
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
    /// The same submission under other names.
    #[inline]
    pub fn rename<T: Names, R: Rename<N, T>>(&self, names: &mut R) -> Result<Submission<T>> {
        Ok(Submission {
            device: names.device(self.device)?,
            affinity: self.affinity,
            waits: names.timepoints(self.waits)?,
            signals: names.timepoints(self.signals)?,
            op: self.op.rename(names)?,
        })
    }
}
