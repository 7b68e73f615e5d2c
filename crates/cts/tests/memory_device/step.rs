use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::*;

use super::kernels::MemoryExecutable;
use super::{Commands, Fault};

/// An operation of a queue or a command buffer that owns its operands.
pub(super) struct Step {
    fault: Fault,
    action: Action,
}

enum Action {
    Nothing,
    Fill { target: Reference, pattern: Vec<u8> },
    Update { source: Vec<u8>, target: Reference },
    Copy { source: Reference, target: Reference },
    Read { file: File, offset: u64, target: Reference },
    Write { source: Reference, file: File, offset: u64 },
    Dealloca(Buffer),
    HostCall { call: HostCall, arguments: [u64; 4], flags: HostCallFlags },
    Execute { commands: CommandBuffer, table: Vec<Reference> },
    Dispatch(Arguments),
}

struct Arguments {
    executable: Executable,
    function: u32,
    count: Result<[u32; 3], Reference>,
    constants: Vec<u8>,
    bindings: Vec<Reference>,
}

/// A range of a buffer or of a slot.
struct Reference {
    buffer: Option<Buffer>,
    slot: u32,
    offset: u64,
    length: u64,
}

/// A range of a buffer, checked.
#[derive(Clone)]
pub(super) struct Place {
    buffer: Buffer,
    range: Range,
}

impl Reference {
    fn of(reference: &BufferRef<&Buffer>) -> Self {
        let (buffer, slot) = match reference.binding {
            Binding::Direct(buffer) => (Some(buffer.clone()), 0),
            Binding::Slot(slot) => (None, slot),
        };
        Self { buffer, slot, offset: reference.offset, length: reference.length }
    }

    fn all(list: &[BufferRef<&Buffer>]) -> Vec<Self> {
        list.iter().map(Self::of).collect()
    }

    fn place(&self, table: &[Option<Place>], fault: Fault) -> Result<Place> {
        if let Some(buffer) = &self.buffer {
            let range = buffer.resolve(self.offset, self.length)?;
            return Ok(Place { buffer: buffer.clone(), range });
        }
        let Some(Some(Place { buffer, range })) = table.get(self.slot as usize) else {
            return Err(Error::invalid_argument(format!("slot {} is empty", self.slot)));
        };
        let outside = || Error::out_of_range("the range exceeds its binding");
        let offset = if fault == Fault::IgnoresOffsetsInSlots { 0 } else { self.offset };
        let length = match self.length {
            WHOLE_BUFFER => range.length.checked_sub(offset).ok_or_else(outside)?,
            length => length,
        };
        match Range::new(offset, length) {
            Some(part) if part.fits(range.length) => {
                let range = Range { offset: range.offset + offset, length };
                Ok(Place { buffer: buffer.clone(), range })
            }
            _ => Err(outside()),
        }
    }
}

impl Place {
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
    pub(super) fn of_queue(op: &QueueOp<Live<'_>>, fault: Fault) -> Self {
        let action = match op {
            QueueOp::Alloca { .. } | QueueOp::Barrier { .. } => Action::Nothing,
            QueueOp::Dealloca { buffer, .. } => Action::Dealloca((*buffer).clone()),
            QueueOp::Fill { target, pattern, .. } => Action::fill(target, pattern),
            QueueOp::Update { source, target, .. } => Action::update(source, target),
            QueueOp::Copy { source, target, .. } => Action::copy(source, target),
            QueueOp::Read { file, file_offset, target, .. } => {
                let target = Reference::of(target);
                Action::Read { file: (*file).clone(), offset: *file_offset, target }
            }
            QueueOp::Write { source, file, file_offset, .. } => {
                let source = Reference::of(source);
                Action::Write { source, file: (*file).clone(), offset: *file_offset }
            }
            QueueOp::Dispatch(dispatch) => Action::Dispatch(Arguments::of(dispatch)),
            QueueOp::Execute { command_buffer, bindings, .. } => {
                Action::Execute { commands: (*command_buffer).clone(), table: Reference::all(bindings) }
            }
            QueueOp::HostCall { call, arguments, flags } => {
                Action::HostCall { call: (*call).clone(), arguments: *arguments, flags: *flags }
            }
        };
        Self { fault, action }
    }

    pub(super) fn of_command(command: &Command<Live<'_>>, fault: Fault) -> Result<Self> {
        let action = match command {
            Command::Fill { target, pattern, .. } => Action::fill(target, pattern),
            Command::Update { source, target, .. } => Action::update(source, target),
            Command::Copy { source, target, .. } => Action::copy(source, target),
            Command::Dispatch(dispatch) => Action::Dispatch(Arguments::of(dispatch)),
            Command::Collective { .. } => return Err(Error::unimplemented("collectives are not supported")),
            _ => Action::Nothing,
        };
        Ok(Self { fault, action })
    }

    pub(super) fn is_non_blocking(&self) -> bool {
        matches!(&self.action, Action::HostCall { flags, .. } if flags.contains(HostCallFlags::NON_BLOCKING))
    }

    pub(super) fn is_deferred(&self, outcome: &Result<()>) -> bool {
        matches!(self.action, Action::HostCall { .. })
            && outcome.as_ref().is_err_and(|error| error.code() == StatusCode::Deferred)
    }

    pub(super) fn run(&self, table: &[Option<Place>]) -> Result<()> {
        let place = |reference: &Reference| reference.place(table, self.fault);
        match &self.action {
            Action::Nothing => Ok(()),
            Action::Fill { .. } if self.fault == Fault::SkipsFills => Ok(()),
            Action::Fill { target, pattern } => self.fill(&place(target)?, pattern),
            Action::Update { source, target } => place(target)?.write(source),
            Action::Copy { source, target } => self.copy(&place(source)?, &place(target)?),
            Action::Read { file, offset, target } => {
                let place = place(target)?;
                let offset = if self.fault == Fault::ReadsFilesFromTheStart { 0 } else { *offset };
                file.backend().read_at(offset, PlainBuffer::memory_of(&place.buffer)?, place.range)
            }
            Action::Write { source, file, offset } => {
                let place = place(source)?;
                file.backend().write_at(*offset, PlainBuffer::memory_of(&place.buffer)?, place.range)
            }
            Action::Dealloca(_) if self.fault == Fault::KeepsDeallocatedBuffers => Ok(()),
            Action::Dealloca(buffer) => buffer.backend().deallocate(),
            Action::HostCall { call, .. } if self.fault == Fault::LosesArguments => (call.0)([0; 4]),
            Action::HostCall { call, arguments, .. } => (call.0)(*arguments),
            Action::Execute { commands, table } => {
                let entry = |reference: &Reference| match reference.buffer {
                    Some(_) => reference.place(&[], Fault::Nothing).map(Some),
                    None => Ok(None),
                };
                let table: Vec<_> = table.iter().map(entry).collect::<Result<_>>()?;
                let commands = commands.backend().as_any().downcast_ref::<Commands>();
                commands
                    .ok_or_else(|| Error::invalid_argument("the command buffer belongs to another device"))?
                    .run(&table)
            }
            Action::Dispatch(arguments) => arguments.run(table, self.fault),
        }
    }

    fn fill(&self, place: &Place, pattern: &[u8]) -> Result<()> {
        let step = pattern.len() as u64;
        let Range { offset, length } = place.range;
        if !offset.is_multiple_of(step) || !length.is_multiple_of(step) {
            return Err(Error::invalid_argument("the fill is not aligned"));
        }
        let offset = if self.fault == Fault::FillsFromTheStart { 0 } else { offset };
        PlainBuffer::memory_of(&place.buffer)?.fill(offset, length, pattern)
    }

    fn copy(&self, source: &Place, target: &Place) -> Result<()> {
        if source.buffer.shares_allocation(&target.buffer) && source.range.overlaps(target.range) {
            return Err(Error::invalid_argument("the copy ranges overlap"));
        }
        if source.range.length != target.range.length {
            return Err(Error::invalid_argument("the copy lengths differ"));
        }
        match self.fault {
            Fault::CopiesTheWrongWay => source.write(&target.read()?),
            _ => target.write(&source.read()?),
        }
    }
}

impl Action {
    fn fill(target: &BufferRef<&Buffer>, pattern: &[u8]) -> Self {
        Self::Fill { target: Reference::of(target), pattern: pattern.to_vec() }
    }

    fn update(source: &[u8], target: &BufferRef<&Buffer>) -> Self {
        Self::Update { source: source.to_vec(), target: Reference::of(target) }
    }

    fn copy(source: &BufferRef<&Buffer>, target: &BufferRef<&Buffer>) -> Self {
        Self::Copy { source: Reference::of(source), target: Reference::of(target) }
    }
}

impl Arguments {
    fn of(dispatch: &Dispatch<Live<'_>>) -> Self {
        Self {
            executable: dispatch.executable.clone(),
            function: dispatch.function,
            count: match &dispatch.workgroup_count {
                WorkgroupCount::Static(count) => Ok(*count),
                WorkgroupCount::Indirect(buffer) => Err(Reference::of(buffer)),
            },
            constants: dispatch.constants.to_vec(),
            bindings: Reference::all(dispatch.bindings),
        }
    }

    fn run(&self, table: &[Option<Place>], fault: Fault) -> Result<()> {
        let executable = self.executable.backend().as_any().downcast_ref::<MemoryExecutable>();
        let executable =
            executable.ok_or_else(|| Error::invalid_argument("the executable belongs to another device"))?;
        let place = |reference: &Reference| reference.place(table, fault);
        let bindings: Vec<_> = self.bindings.iter().map(place).collect::<Result<_>>()?;
        let count = match &self.count {
            Ok(count) => *count,
            Err(buffer) => {
                let words = words_of(&place(buffer)?.read()?);
                if words.len() < 3 {
                    return Err(Error::out_of_range("the workgroup count does not have three words"));
                }
                [words[0], words[1], words[2]]
            }
        };
        let count = match fault {
            Fault::RunsOneWorkgroup => [1; 3],
            Fault::IgnoresCountsInBuffers if self.count.is_err() => [1; 3],
            _ => count,
        };
        executable.run(self.function, count, &words_of(&self.constants), &bindings)
    }
}

/// Little-endian words; a trailing partial word is ignored.
pub(super) fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}
