use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::*;
use std::any::Any;

use super::kernels::MemoryExecutable;
use super::{Commands, Fault};

/// An operation of a queue with all objects that it names.
pub(super) struct Step {
    fault: Fault,
    store: Store,
    op: QueueOp<Indexed>,
}

/// A range of a buffer, checked.
#[derive(Clone)]
pub(super) struct BufferSlice {
    buffer: Buffer,
    range: Range,
}

impl BufferSlice {
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.range.length as usize];
        PlainBuffer::memory_of(&self.buffer)?.read(self.range.offset, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 != self.range.length {
            return Err(Error::invalid_argument("length mismatch"));
        }
        PlainBuffer::memory_of(&self.buffer)?.write(self.range.offset, bytes)
    }
}

impl Step {
    pub(super) fn from_queue_op(op: &QueueOp<Live<'_>>, fault: Fault) -> Result<Self> {
        let mut store = Store::default();
        let op = op.rename(&mut store)?;
        Ok(Self { fault, store, op })
    }

    /// The step of a command. Commands execute in order, so barriers and events need nothing.
    pub(super) fn from_command(command: &Command<Live<'_>>, fault: Fault) -> Result<Option<Self>> {
        command.as_queue_op().map(|op| Self::from_queue_op(&op, fault)).transpose()
    }

    pub(super) fn is_non_blocking(&self) -> bool {
        matches!(self.op, QueueOp::HostCall { flags, .. } if flags.contains(HostCallFlags::NON_BLOCKING))
    }

    pub(super) fn is_deferred(&self, outcome: &Result<()>) -> bool {
        matches!(self.op, QueueOp::HostCall { .. })
            && outcome.as_ref().is_err_and(|error| error.code() == StatusCode::Deferred)
    }

    pub(super) fn run(&self, table: &[Option<BufferSlice>]) -> Result<()> {
        let Self { fault, store, op } = self;
        let slice = |reference: &BufferRef<u32>| self.slice(reference, table);
        match op {
            QueueOp::Alloca { .. } | QueueOp::Barrier { .. } => Ok(()),
            QueueOp::Fill { .. } if *fault == Fault::SkipsFills => Ok(()),
            QueueOp::Fill { target, pattern, .. } => self.fill(&slice(target)?, pattern.of(&store.bytes)),
            QueueOp::Update { source, target, .. } => slice(target)?.write(source.of(&store.bytes)),
            QueueOp::Copy { source, target, .. } => self.copy(&slice(source)?, &slice(target)?),
            QueueOp::Read { file, file_offset, target, .. } => {
                let slice = slice(target)?;
                let offset = if *fault == Fault::ReadsFilesFromTheStart { 0 } else { *file_offset };
                let file = store.files[*file as usize].backend();
                file.read_at(offset, PlainBuffer::memory_of(&slice.buffer)?, slice.range)
            }
            QueueOp::Write { source, file, file_offset, .. } => {
                let slice = slice(source)?;
                let file = store.files[*file as usize].backend();
                file.write_at(*file_offset, PlainBuffer::memory_of(&slice.buffer)?, slice.range)
            }
            QueueOp::Dealloca { .. } if *fault == Fault::KeepsDeallocatedBuffers => Ok(()),
            QueueOp::Dealloca { buffer, .. } => store.buffers[*buffer as usize].backend().deallocate(),
            QueueOp::HostCall { call, arguments, .. } => {
                let arguments = if *fault == Fault::LosesArguments { [0; 4] } else { *arguments };
                (store.host_calls[*call as usize].0)(arguments)
            }
            QueueOp::Execute { command_buffer, bindings, .. } => {
                let entry = |reference: &BufferRef<u32>| match reference.binding {
                    Binding::Direct(_) => self.slice(reference, &[]).map(Some),
                    Binding::Slot(_) => Ok(None),
                };
                let table =
                    bindings.of(&store.lists.buffer_refs).iter().map(entry).collect::<Result<Vec<_>>>()?;
                let commands = &store.command_buffers[*command_buffer as usize];
                let commands = (commands.backend() as &dyn Any).downcast_ref::<Commands>();
                commands
                    .ok_or_else(|| Error::invalid_argument("the command buffer belongs to another device"))?
                    .run(&table)
            }
            QueueOp::Dispatch(dispatch) => self.dispatch(dispatch, table),
        }
    }

    fn slice(&self, reference: &BufferRef<u32>, table: &[Option<BufferSlice>]) -> Result<BufferSlice> {
        let slot = match reference.binding {
            Binding::Slot(slot) => slot,
            Binding::Direct(buffer) => {
                let buffer = &self.store.buffers[buffer as usize];
                let range = buffer.resolve(reference.offset, reference.length)?;
                return Ok(BufferSlice { buffer: buffer.clone(), range });
            }
        };
        let Some(Some(BufferSlice { buffer, range })) = table.get(slot as usize) else {
            return Err(Error::invalid_argument(format!("slot {slot} is empty")));
        };
        let outside = || Error::out_of_range("the range exceeds its binding");
        let offset = if self.fault == Fault::IgnoresOffsetsInSlots { 0 } else { reference.offset };
        let length = match reference.length {
            WHOLE_BUFFER => range.length.checked_sub(offset).ok_or_else(outside)?,
            length => length,
        };
        match Range::new(offset, length) {
            Some(part) if part.fits(range.length) => {
                let range = Range { offset: range.offset + offset, length };
                Ok(BufferSlice { buffer: buffer.clone(), range })
            }
            _ => Err(outside()),
        }
    }

    fn fill(&self, slice: &BufferSlice, pattern: &[u8]) -> Result<()> {
        let step = pattern.len() as u64;
        let Range { offset, length } = slice.range;
        if !offset.is_multiple_of(step) || !length.is_multiple_of(step) {
            return Err(Error::invalid_argument("the fill is not aligned"));
        }
        let offset = if self.fault == Fault::FillsFromTheStart { 0 } else { offset };
        PlainBuffer::memory_of(&slice.buffer)?.fill(offset, length, pattern)
    }

    fn copy(&self, source: &BufferSlice, target: &BufferSlice) -> Result<()> {
        if source.range.length != target.range.length {
            return Err(Error::invalid_argument("the copy lengths differ"));
        }
        match self.fault {
            Fault::CopiesTheWrongWay => source.write(&target.read()?),
            _ => target.write(&source.read()?),
        }
    }

    fn dispatch(&self, dispatch: &Dispatch<Indexed>, table: &[Option<BufferSlice>]) -> Result<()> {
        let executable = &self.store.executables[dispatch.executable as usize];
        let executable = (executable.backend() as &dyn Any).downcast_ref::<MemoryExecutable>();
        let executable =
            executable.ok_or_else(|| Error::invalid_argument("the executable belongs to another device"))?;
        let slice = |reference: &BufferRef<u32>| self.slice(reference, table);
        let bindings = dispatch.bindings.of(&self.store.lists.buffer_refs);
        let bindings: Vec<_> = bindings.iter().map(slice).collect::<Result<_>>()?;
        let count = match &dispatch.workgroup_count {
            WorkgroupCount::Static(count) => *count,
            WorkgroupCount::Indirect(buffer) => {
                let words = words_of(&slice(buffer)?.read()?);
                if words.len() < 3 {
                    return Err(Error::out_of_range("the workgroup count does not have three words"));
                }
                [words[0], words[1], words[2]]
            }
        };
        let is_indirect = matches!(dispatch.workgroup_count, WorkgroupCount::Indirect(_));
        let count = match self.fault {
            Fault::RunsOneWorkgroup => [1; 3],
            Fault::IgnoresCountsInBuffers if is_indirect => [1; 3],
            _ => count,
        };
        let constants = words_of(dispatch.constants.of(&self.store.bytes));
        executable.run(dispatch.function, count, &constants, &bindings)
    }
}

/// Little-endian words; a trailing partial word is ignored.
pub(super) fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}
