use rehal_base::{Error, Result, StatusCode};

use crate::command_buffer::DISPATCH_STORAGE;
use crate::device::check_alignment;
use crate::flags::*;
use crate::transfer_checks::{check_copy, check_fill, check_update};
use crate::{
    Binding, Buffer, BufferParams, BufferRef, CommandBuffer, Device, Dispatch, File, HostCall, Live, QueueOp,
    Semaphore, Submission, Timepoint, WorkgroupCount,
};

/// The queues of a device with the wait and signal lists of the next operation: a value on the stack, created
/// by [`Device::queue`].
///
/// Each queue operation is a method. It checks its arguments and submits immediately. An error means that no
/// semaphore will be signalled by it: either nothing was submitted, or the work failed before the call
/// returned, and its signals with it. Lists, bytes and handles are borrowed only for the call.
///
/// ```
/// use rehal_base::Result;
/// use rehal_hal::{Buffer, Device, QUEUE_AFFINITY_ANY, Semaphore};
///
/// fn clear_then_copy(device: &Device, from: &Buffer, to: &Buffer, done: &Semaphore) -> Result<()> {
///     let queue = device.queue(QUEUE_AFFINITY_ANY);
///     queue.signal(&[done.at(1)]).fill(from, &[0], 0)?;
///     queue.wait(&[done.at(1)]).signal(&[done.at(2)]).copy(from, to, 0)
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    device: &'a Device,
    affinity: QueueAffinity,
    waits: &'a [Timepoint<&'a Semaphore>],
    signals: &'a [Timepoint<&'a Semaphore>],
}

impl Device {
    /// The queues of this device in `affinity`: see [`Queue`].
    pub fn queue(&self, affinity: QueueAffinity) -> Queue<'_> {
        Queue { device: self, affinity, waits: &[], signals: &[] }
    }
}

impl<'a> Queue<'a> {
    /// The same queues for work that starts once all of `waits` are reached.
    #[must_use]
    pub fn wait(self, waits: &'a [Timepoint<&'a Semaphore>]) -> Self {
        Self { waits, ..self }
    }

    /// The same queues for work that signals `signals` on completion, or fails them on error.
    #[must_use]
    pub fn signal(self, signals: &'a [Timepoint<&'a Semaphore>]) -> Self {
        Self { signals, ..self }
    }

    /// Allocates a buffer, which may be referenced immediately and accessed once the work has signalled.
    pub fn alloca(self, params: BufferParams, size: u64, flags: u64) -> Result<Buffer> {
        let op = QueueOp::Alloca { params, size, flags, created: () };
        self.issue(op)?
            .ok_or_else(|| Error::new(StatusCode::Internal, "the driver's alloca returned no buffer"))
    }

    /// Deallocates a queue-allocated buffer.
    pub fn dealloca(self, buffer: &Buffer, flags: u64) -> Result<()> {
        self.issue(QueueOp::Dealloca { buffer, size: (), flags }).map(drop)
    }

    /// Fills a range with a pattern of 1, 2 or 4 bytes.
    pub fn fill<'b>(
        self,
        target: impl Into<BufferRef<&'b Buffer>>,
        pattern: &[u8],
        flags: u64,
    ) -> Result<()> {
        let target = target.into();
        self.issue(QueueOp::Fill { target, pattern, flags }).map(drop)
    }

    /// Writes host bytes, which are copied before this returns.
    pub fn update<'b>(
        self,
        source: &[u8],
        target: impl Into<BufferRef<&'b Buffer>>,
        flags: u64,
    ) -> Result<()> {
        let target = target.into();
        self.issue(QueueOp::Update { source, target, flags }).map(drop)
    }

    /// Copies a range of a buffer to another.
    pub fn copy<'b>(
        self,
        source: impl Into<BufferRef<&'b Buffer>>,
        target: impl Into<BufferRef<&'b Buffer>>,
        flags: u64,
    ) -> Result<()> {
        let (source, target) = (source.into(), target.into());
        self.issue(QueueOp::Copy { source, target, flags }).map(drop)
    }

    /// Reads bytes of a file at `file_offset`.
    pub fn read<'b>(
        self,
        file: &File,
        file_offset: u64,
        target: impl Into<BufferRef<&'b Buffer>>,
        flags: u64,
    ) -> Result<()> {
        let target = target.into();
        self.issue(QueueOp::Read { file, file_offset, target, captured: (), flags }).map(drop)
    }

    /// Writes bytes of a file at `file_offset`.
    pub fn write<'b>(
        self,
        source: impl Into<BufferRef<&'b Buffer>>,
        file: &File,
        file_offset: u64,
        flags: u64,
    ) -> Result<()> {
        let source = source.into();
        self.issue(QueueOp::Write { source, file, file_offset, flags }).map(drop)
    }

    /// Dispatches a kernel.
    pub fn dispatch(self, dispatch: &Dispatch<Live<'_>>) -> Result<()> {
        self.issue(QueueOp::Dispatch(dispatch.reborrow()?)).map(drop)
    }

    /// Executes a command buffer with a binding table.
    pub fn execute(
        self,
        command_buffer: &CommandBuffer,
        bindings: &[BufferRef<&Buffer>],
        flags: u64,
    ) -> Result<()> {
        self.issue(QueueOp::Execute { command_buffer, bindings, flags }).map(drop)
    }

    /// Only waits and signals.
    pub fn barrier(self, flags: u64) -> Result<()> {
        self.issue(QueueOp::Barrier { flags }).map(drop)
    }

    /// Calls a host function with `arguments`.
    pub fn host_call(self, call: &HostCall, arguments: [u64; 4], flags: HostCallFlags) -> Result<()> {
        self.issue(QueueOp::HostCall { call, arguments, flags }).map(drop)
    }

    /// Submits any operation; returns the buffer of an alloca.
    #[doc(hidden)]
    pub fn submit(self, op: QueueOp<Live<'_>>) -> Result<Option<Buffer>> {
        self.issue(op.reborrow()?)
    }

    #[inline]
    fn issue(self, op: QueueOp<Live<'a>>) -> Result<Option<Buffer>> {
        let Self { device, affinity, waits, signals } = self;
        Submission { device, affinity, waits, signals, op }.submit()
    }
}

impl Submission<Live<'_>> {
    /// Checks the operation and submits it to its device. An error means that no semaphore will be signalled
    /// by it: either nothing was submitted, or the work failed before this returned, and its signals with it.
    #[inline]
    pub fn submit(&self) -> Result<Option<Buffer>> {
        self.check().inspect_err(|error| self.device.backend().refused(self, error))?;
        Ok(self.device.backend().submit(self)?.map(|created| created.made_by(self.device)))
    }

    fn check(&self) -> Result<()> {
        match &self.op {
            QueueOp::Alloca { params, .. } => check_alignment(params.min_alignment),
            QueueOp::Dealloca { .. } | QueueOp::Barrier { .. } | QueueOp::HostCall { .. } => Ok(()),
            QueueOp::Fill { target, pattern, .. } => {
                check_ref(target, BufferUsage::TRANSFER_TARGET)?;
                check_fill(target.offset, target.length, pattern)
            }
            QueueOp::Update { source, target, .. } => {
                check_ref(target, BufferUsage::TRANSFER_TARGET)?;
                check_update(source, target.length)
            }
            QueueOp::Copy { source, target, .. } => {
                check_ref(source, BufferUsage::TRANSFER_SOURCE)?;
                check_ref(target, BufferUsage::TRANSFER_TARGET)?;
                check_copy(source.length, target.length)
            }
            QueueOp::Read { file, file_offset, target, .. } => {
                let length = check_ref(target, BufferUsage::TRANSFER_TARGET)?;
                file.require(MemoryAccess::READ, *file_offset, length)
            }
            QueueOp::Write { source, file, file_offset, .. } => {
                let length = check_ref(source, BufferUsage::TRANSFER_SOURCE)?;
                file.require(MemoryAccess::WRITE, *file_offset, length)
            }
            QueueOp::Dispatch(dispatch) => {
                dispatch.check_shape()?;
                if let WorkgroupCount::Indirect(buffer) = &dispatch.workgroup_count {
                    check_ref(buffer, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?;
                }
                for binding in dispatch.bindings {
                    check_ref(binding, DISPATCH_STORAGE)?;
                }
                Ok(())
            }
            QueueOp::Execute { command_buffer, bindings, .. } => {
                command_buffer.require_ready()?;
                let capacity = command_buffer.params().binding_capacity;
                if (bindings.len() as u64) < capacity {
                    return Err(Error::invalid_argument(format!(
                        "the command buffer takes {capacity} bindings, the submission has {}",
                        bindings.len()
                    )));
                }
                for binding in *bindings {
                    check_binding(binding)?;
                }
                command_buffer.require_slot_usage(bindings)?;
                Ok(())
            }
        }
    }
}

/// An entry of a binding table is a range of a buffer, or empty.
fn check_binding(binding: &BufferRef<&Buffer>) -> Result<()> {
    match binding.binding {
        Binding::Direct(buffer) => buffer.resolve(binding.offset, binding.length).map(drop),
        Binding::Slot(_) => Ok(()),
    }
}

/// A queue operation names buffers directly; returns the length of the range.
fn check_ref(reference: &BufferRef<&Buffer>, usage: BufferUsage) -> Result<u64> {
    match reference.binding {
        Binding::Direct(buffer) => {
            buffer.require_usage(usage)?;
            Ok(buffer.resolve(reference.offset, reference.length)?.length)
        }
        Binding::Slot(slot) => Err(Error::invalid_argument(format!(
            "the queue operation refers to slot {slot} but has no binding table"
        ))),
    }
}
