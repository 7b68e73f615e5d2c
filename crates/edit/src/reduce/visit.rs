//! Objects that an operation names, and operations with other lists: renamings from ids to the same ids.

use rehal_base::Result;
use rehal_capture::layout;
use rehal_hal::{
    Binding, BufferBarrier, BufferRef, Command, CreateOp, FileSource, HostOp, Op, QueueOp, Rename,
    RenameHost, Submission,
};
use rehal_replay::Ids;
use zerocopy::little_endian::U64;

/// The objects that an operation names.
#[derive(Default)]
pub(super) struct Named {
    /// The objects that it cannot do without, in the order of its fields; the object that it creates is not
    /// one.
    pub ids: Vec<u64>,
    /// The slots of the binding table that it cannot do without.
    pub slots: Vec<u32>,
    /// Whether it waits for events: these are not in `ids`.
    pub waits_for_events: bool,
}

impl Named {
    /// The objects that an operation names, except what can be left out of its lists: timepoints, barriers of
    /// buffers, events to wait for, and the binding table of an execution.
    pub fn by(op: &Op<Ids<'_>>) -> Result<Self> {
        let mut this = Self::default();
        match *op {
            Op::Host(op) => drop(op.rename(&mut this)?),
            Op::Info(_) => {}
            Op::Command { into, command } => {
                this.ids.push(into);
                command.rename(&mut this)?;
            }
            Op::Queue(Submission { device, op: QueueOp::Execute { command_buffer, .. }, .. }) => {
                this.ids.extend([device, command_buffer]);
            }
            Op::Queue(submission) => drop(submission.rename(&mut this)?),
        }
        Ok(this)
    }

    fn reference(&mut self, reference: &BufferRef<u64>) {
        match reference.binding {
            Binding::Direct(id) => self.ids.push(id),
            Binding::Slot(slot) => self.slots.push(slot),
        }
    }

    fn used(&mut self, id: u64) -> Result<u64> {
        self.ids.push(id);
        Ok(id)
    }
}

/// Lists in place of those of an operation.
#[derive(Default)]
pub(super) struct Lists<'b> {
    pub waits: Option<&'b [layout::SemaphoreTimepoint]>,
    /// The binding table of an execution.
    pub table: Option<&'b [layout::BufferRef]>,
    pub events: Option<&'b [U64]>,
    pub buffer_barriers: Option<&'b [layout::BufferBarrier]>,
    /// The bytes that the operation carries.
    pub data: Option<&'b [u8]>,
    /// Slots of the binding table of a command buffer.
    pub capacity: Option<u64>,
}

/// The operation with other lists.
pub(super) fn with_lists<'b>(op: Op<Ids<'b>>, lists: &Lists<'b>) -> Op<Ids<'b>> {
    match op {
        Op::Queue(submission) => {
            let waits = lists.waits.unwrap_or(submission.waits);
            let op = match (submission.op, lists.table, lists.data) {
                (QueueOp::Execute { command_buffer, bindings, flags }, table, _) => {
                    QueueOp::Execute { command_buffer, bindings: table.unwrap_or(bindings), flags }
                }
                (QueueOp::Update { target, flags, .. }, _, Some(source)) => {
                    QueueOp::Update { source, target, flags }
                }
                (QueueOp::Read { file, file_offset, target, flags, .. }, _, Some(captured)) => {
                    QueueOp::Read { file, file_offset, target, captured, flags }
                }
                (op, ..) => op,
            };
            Op::Queue(Submission { waits, op, ..submission })
        }
        Op::Command { into, command } => Op::Command { into, command: command_with(command, lists) },
        Op::Host(HostOp::Create(CreateOp::CommandBuffer { device, mut params, created })) => {
            params.binding_capacity = lists.capacity.unwrap_or(params.binding_capacity);
            Op::Host(HostOp::Create(CreateOp::CommandBuffer { device, params, created }))
        }
        Op::Host(op) => Op::Host(match (op, lists.data) {
            (HostOp::Unmap(range, Some(_)), Some(data)) => HostOp::Unmap(range, Some(data)),
            (HostOp::Flush(range, Some(_)), Some(data)) => HostOp::Flush(range, Some(data)),
            (HostOp::Create(op), Some(data)) => HostOp::Create(super::bytes::created_with(op, data)),
            (op, _) => op,
        }),
        Op::Info(op) => Op::Info(op),
    }
}

fn command_with<'b>(command: Command<Ids<'b>>, lists: &Lists<'b>) -> Command<Ids<'b>> {
    match command {
        Command::ExecutionBarrier {
            source_stages,
            target_stages,
            flags,
            memory_barriers,
            buffer_barriers,
        } => Command::ExecutionBarrier {
            source_stages,
            target_stages,
            flags,
            memory_barriers,
            buffer_barriers: lists.buffer_barriers.unwrap_or(buffer_barriers),
        },
        Command::WaitEvents { events, source_stages, target_stages, memory_barriers, buffer_barriers } => {
            Command::WaitEvents {
                events: lists.events.unwrap_or(events),
                source_stages,
                target_stages,
                memory_barriers,
                buffer_barriers: lists.buffer_barriers.unwrap_or(buffer_barriers),
            }
        }
        Command::Update { source, target, flags } => {
            Command::Update { source: lists.data.unwrap_or(source), target, flags }
        }
        command => command,
    }
}

impl<'a> Rename<Ids<'a>, Ids<'a>> for Named {
    fn device(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn buffer(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn buffer_ref(&mut self, reference: BufferRef<u64>) -> Result<BufferRef<u64>> {
        self.reference(&reference);
        Ok(reference)
    }

    fn buffer_barrier(&mut self, it: BufferBarrier<u64>) -> Result<BufferBarrier<u64>> {
        Ok(it)
    }

    fn semaphore(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn function(&mut self, executable: u64, ordinal: u32) -> Result<(u64, u32)> {
        Ok((self.used(executable)?, ordinal))
    }

    fn command_buffer(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn file(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn event(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn host_call(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        Ok(bytes)
    }

    fn buffer_refs(&mut self, list: &'a [layout::BufferRef]) -> Result<&'a [layout::BufferRef]> {
        for item in list {
            match item.buffer_id.get() {
                0 => self.slots.push(item.buffer_slot.get()),
                id => self.ids.push(id),
            }
        }
        Ok(list)
    }

    fn timepoints(
        &mut self,
        list: &'a [layout::SemaphoreTimepoint],
    ) -> Result<&'a [layout::SemaphoreTimepoint]> {
        Ok(list)
    }

    fn events(&mut self, list: &'a [U64]) -> Result<&'a [U64]> {
        self.waits_for_events = true;
        Ok(list)
    }

    fn memory_barriers(&mut self, list: &'a [layout::MemoryBarrier]) -> Result<&'a [layout::MemoryBarrier]> {
        Ok(list)
    }

    fn buffer_barriers(&mut self, list: &'a [layout::BufferBarrier]) -> Result<&'a [layout::BufferBarrier]> {
        Ok(list)
    }

    fn created_buffer(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn deallocated_size(&mut self, _buffer: u64, size: u64) -> Result<u64> {
        Ok(size)
    }

    fn captured_read(
        &mut self,
        _file: u64,
        _file_offset: u64,
        _target: BufferRef<u64>,
        bytes: &'a [u8],
    ) -> Result<&'a [u8]> {
        Ok(bytes)
    }
}

impl<'a> RenameHost<Ids<'a>, Ids<'a>> for Named {
    fn allocator(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn executable_cache(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn executable(&mut self, name: u64) -> Result<u64> {
        self.used(name)
    }

    fn created_device(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn created_allocator(&mut self, _device: u64, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn created_executable_cache(&mut self, _device: u64, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn created_semaphore(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn created_command_buffer(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn created_executable(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn created_file(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn created_event(&mut self, name: u64) -> Result<u64> {
        Ok(name)
    }

    fn captured_metadata(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        Ok(bytes)
    }

    fn captured_source(&mut self, source: FileSource<&'a [u8]>) -> Result<FileSource<&'a [u8]>> {
        Ok(source)
    }
}
