//! Compiles a capture into a [`Plan`].

use std::collections::HashMap;

use rehal_base::{Error, Result};
use rehal_capture::{
    Capture, CaptureBytes, DigestType, FileReferenceType, FileValidationType, ObjectType, OpenOptions,
    Payload, PayloadType, Record, layout, payload,
};
use rehal_hal::{
    BufferBarrier, BufferRef, Command, HostOp, Indexed, MemoryAccess, MemoryBarrier, Op, QueueOp, RangeOp,
    Rename, Span, StoredLists, Submission, Timepoint, rename_buffer_ref,
};
use zerocopy::little_endian::U64;

use crate::decode::{Decoded, buffer_barrier, buffer_ref, decode, memory_barrier, timepoint};
use crate::ids::{Ids, refuse};
use crate::plan::{
    FileSource, KINDS, Kind, Place, Plan, PlanOptions, Release, Step, StepOp, StoredExecutable, StoredFile,
    Validation,
};
use crate::recording::{Recording, Use};
use crate::shape::{check_command, check_queue_op};

/// How many bytes of the capture are planned between two calls of the progress function.
const PROGRESS_STEP_BYTES: u64 = 4 << 20;

pub(crate) fn compile(bytes: CaptureBytes, mut options: PlanOptions<'_>) -> Result<Plan> {
    let capture = Capture::open(bytes.as_slice(), OpenOptions { recover: options.recover })?;
    let mut planner = Planner::new(bytes.as_slice());
    let mut reported = 0;
    for record in capture.records() {
        let record = record?;
        planner.place = Place { ordinal: ordinal(&record)?, offset: record.offset };
        planner.add(&record).map_err(|error| in_record(error, &record))?;
        if record.offset >= reported + PROGRESS_STEP_BYTES {
            // What is planned is read again only for its data, so the rest of a large file needs no memory.
            bytes.forget(reported, record.offset - reported);
            reported = record.offset;
            if let Some(progress) = &mut options.progress {
                progress(reported, capture.length_bytes());
            }
        }
    }
    planner.finish(bytes.clone(), &capture)
}

fn ordinal(record: &Record<'_>) -> Result<u32> {
    u32::try_from(record.ordinal())
        .map_err(|_| Error::resource_exhausted("a capture of more than 2^32 records cannot be planned"))
}

/// Says in which record, on which operation and which objects.
pub(crate) fn in_record(error: Error, record: &Record<'_>) -> Error {
    let header = record.header;
    let mut place =
        format!("record #{}, offset {}: {}", record.ordinal(), record.offset, record.record_type());
    if record.operation() != rehal_capture::OperationCode::NONE {
        place = format!("{place} {}", record.operation());
    }
    for (what, id) in [
        ("device", header.device_id),
        ("object", header.object_id),
        ("related object", header.related_object_id),
    ] {
        if id.get() != 0 {
            place = format!("{place}, {what} {id}");
        }
    }
    error.context(place)
}

/// What an id stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    Device,
    Allocator,
    Cache,
    Numbered(Kind),
}

impl Object {
    fn name(self) -> ObjectType {
        match self {
            Self::Device => ObjectType::DEVICE,
            Self::Allocator => ObjectType::ALLOCATOR,
            Self::Cache => ObjectType::EXECUTABLE_CACHE,
            Self::Numbered(Kind::Buffer) => ObjectType::BUFFER,
            Self::Numbered(Kind::Semaphore) => ObjectType::SEMAPHORE,
            Self::Numbered(Kind::Executable) => ObjectType::EXECUTABLE,
            Self::Numbered(Kind::CommandBuffer) => ObjectType::COMMAND_BUFFER,
            Self::Numbered(Kind::File) => ObjectType::FILE,
            Self::Numbered(Kind::Event) => ObjectType::EVENT,
        }
    }
}

/// Ids of a capture and what they stand for. Recorders count ids up from 1, so they index a list;
/// the few that a stranger capture may spread out lie in a map, so that no id costs memory.
#[derive(Default)]
struct ObjectTable {
    dense: Vec<Option<(Object, u32)>>,
    sparse: HashMap<u64, (Object, u32)>,
}

/// How far an id may be ahead of those before it and still extend the list.
const DENSE_GAP: usize = 64;

impl ObjectTable {
    fn get(&self, id: u64) -> Option<(Object, u32)> {
        match usize::try_from(id).ok().and_then(|id| self.dense.get(id)) {
            Some(Some(entry)) => Some(*entry),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id).copied(),
        }
    }

    fn insert(&mut self, id: u64, entry: (Object, u32)) -> Result<()> {
        if id == 0 {
            return Err(Error::data_loss("an object is created without an id"));
        }
        if let Some((object, _)) = self.get(id) {
            return Err(Error::new(
                rehal_base::StatusCode::AlreadyExists,
                format!("id {id} is given out twice; it is a {} already", object.name()),
            ));
        }
        match usize::try_from(id) {
            Ok(index) if index < self.dense.len() + DENSE_GAP => {
                if index >= self.dense.len() {
                    self.dense.resize(index + 1, None);
                }
                self.dense[index] = Some(entry);
            }
            _ => {
                self.sparse.insert(id, entry);
            }
        }
        Ok(())
    }
}

struct Planner<'a> {
    bytes: &'a [u8],
    place: Place,
    objects: ObjectTable,
    device_count: u32,
    /// Per kind and object, the last step that uses it.
    last_use: [Vec<u32>; KINDS],
    /// Per semaphore, the value that it has reached when all steps so far have run.
    reached: Vec<u64>,
    /// Per command buffer, how far its recording is.
    recordings: Vec<Recording>,
    steps: Vec<Step>,
    host_ops: Vec<HostOp<Indexed>>,
    commands: Vec<(u32, Command<Indexed>)>,
    submissions: Vec<Submission<Indexed>>,
    lists: StoredLists,
    buffer_ids: Vec<u64>,
    executables: Vec<StoredExecutable>,
    files: Vec<StoredFile>,
    scopes: Vec<(Span<u8>, u64)>,
    /// Where a name is in `scopes`: captures may have as many names as records.
    scope_indices: HashMap<&'a [u8], usize>,
}

impl<'a> Planner<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            place: Place::default(),
            objects: ObjectTable::default(),
            device_count: 0,
            last_use: Default::default(),
            reached: Vec::new(),
            recordings: Vec::new(),
            steps: Vec::new(),
            host_ops: Vec::new(),
            commands: Vec::new(),
            submissions: Vec::new(),
            lists: StoredLists::default(),
            buffer_ids: Vec::new(),
            executables: Vec::new(),
            files: Vec::new(),
            scopes: Vec::new(),
            scope_indices: HashMap::new(),
        }
    }

    fn add(&mut self, record: &Record<'a>) -> Result<()> {
        let decoded = decode(record)?;
        if record.payload_type() == PayloadType::DISPATCH && !matches!(decoded, Decoded::Nothing) {
            self.check_count_buffer(record)?;
        }
        match decoded {
            Decoded::Nothing | Decoded::Op(Op::Host(HostOp::Query(_))) => Ok(()),
            Decoded::Device(id) => {
                self.objects.insert(id, (Object::Device, self.device_count))?;
                self.device_count += 1;
                Ok(())
            }
            Decoded::Allocator { id, device } => {
                let device = self.lookup(device, Object::Device)?;
                self.objects.insert(id, (Object::Allocator, device))
            }
            Decoded::Cache { id, device } => {
                let device = self.lookup(device, Object::Device)?;
                self.objects.insert(id, (Object::Cache, device))
            }
            Decoded::Op(Op::Host(op)) => self.add_host_op(op),
            Decoded::Op(Op::Command { into, command }) => self.add_command(into, command),
            Decoded::Op(Op::Queue(submission)) => self.add_submission(submission),
            Decoded::CapturedRead { file, submission } => {
                self.file(file)?;
                self.add_submission(submission)
            }
            Decoded::Executable(op, payload) => self.add_executable(op, payload),
            Decoded::File(op, payload) => self.add_file(op, &payload),
        }
    }

    /// A dispatch names a buffer for its workgroup count even where the count is static and the
    /// operation drops it; a name of nothing says that the record is damaged.
    fn check_count_buffer(&self, record: &Record<'a>) -> Result<()> {
        match record.payload()? {
            Payload::Dispatch(it) if it.workgroup_count_ref.buffer_id.get() != 0 => {
                let id = it.workgroup_count_ref.buffer_id.get();
                self.lookup(id, Object::Numbered(Kind::Buffer)).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn add_host_op(&mut self, op: HostOp<Ids<'a>>) -> Result<()> {
        let op = self.host_op(op)?;
        self.host_ops.push(op);
        self.push_step(StepOp::Host(self.host_ops.len() as u32 - 1));
        Ok(())
    }

    fn add_command(&mut self, into: u64, command: Command<Ids<'a>>) -> Result<()> {
        // Captures hold hints and labels without their arguments; there is nothing to give on.
        if let Command::Advise { .. } | Command::BeginDebugGroup { .. } | Command::EndDebugGroup = command {
            return Ok(());
        }
        let slots = self.recording(into, Use::Record)?.slots;
        check_command(&command, slots)?;
        let into = self.command_buffer(into)?;
        let command = command.rename(self)?;
        self.commands.push((into, command));
        self.push_step(StepOp::Command(self.commands.len() as u32 - 1));
        Ok(())
    }

    fn add_submission(&mut self, submission: Submission<Ids<'a>>) -> Result<()> {
        check_queue_op(&submission.op)?;
        self.check_order(&submission)?;
        if let QueueOp::Execute { command_buffer, bindings, .. } = submission.op {
            self.recording(command_buffer, Use::Run)?.check_table(bindings.len() as u64, command_buffer)?;
        }
        if let QueueOp::Read { file, .. } | QueueOp::Write { file, .. } = submission.op {
            let index = self.file(file)?;
            if let FileSource::Ranges { path } = self.files[index as usize].record(self.bytes).source {
                return Err(Error::failed_precondition(format!(
                    "only what was read of '{}' is in the capture, and this is not",
                    path.escape_ascii()
                )));
            }
        }
        // The waits and signals first: a buffer must not exist before its alloca is known to be right.
        let mut new_buffer = None;
        if let QueueOp::Alloca { created, .. } = submission.op {
            new_buffer = Some(self.create(created, Kind::Buffer)?);
        }
        let submission = submission.rename(self, |_| Ok(new_buffer.unwrap_or_default()))?;
        self.submissions.push(submission);
        self.push_step(StepOp::Submission(self.submissions.len() as u32 - 1));
        Ok(())
    }

    /// Makes sure that operations can run in the order of the capture, one after another: what one
    /// waits for has been signalled before, and what it signals has not.
    fn check_order(&mut self, submission: &Submission<Ids<'a>>) -> Result<()> {
        for wait in submission.waits {
            let (id, value) = (wait.semaphore_id.get(), wait.value.get());
            let index = self.semaphore(id)?;
            let reached = self.reached[index as usize];
            if reached < value {
                return Err(Error::failed_precondition(format!(
                    "it waits for semaphore {id} to reach {value}, which nothing before it in the capture signals (it is at {reached})"
                )));
            }
        }
        for signal in submission.signals {
            let (id, value) = (signal.semaphore_id.get(), signal.value.get());
            let index = self.semaphore(id)?;
            let reached = &mut self.reached[index as usize];
            if value <= *reached || value == u64::MAX {
                return Err(Error::data_loss(format!(
                    "it signals semaphore {id} to {value}, which is at {reached} already"
                )));
            }
            *reached = value;
        }
        Ok(())
    }

    fn add_executable(&mut self, op: HostOp<Ids<'a>>, payload: payload::ExecutablePrepare<'a>) -> Result<()> {
        let HostOp::PrepareExecutable { created, .. } = op else { return self.add_host_op(op) };
        if payload.metadata_bytes.is_empty() {
            return Err(Error::data_loss(
                "the executable comes without metadata, so its functions cannot be checked",
            ));
        }
        self.add_host_op(op)?;
        let executable = StoredExecutable {
            place: self.place,
            id: created,
            format: self.bytes(payload.format)?,
            data: self.bytes(payload.data)?,
            metadata: self.bytes(payload.metadata_bytes)?,
            function_count: payload.metadata().map_or(0, |metadata| metadata.function_count() as u32),
        };
        self.executables.push(executable);
        Ok(())
    }

    fn add_file(&mut self, op: HostOp<Ids<'a>>, payload: &payload::FileObject<'a>) -> Result<()> {
        let HostOp::ImportFile { created, access, length, .. } = op else { return self.add_host_op(op) };
        let source = self.file_source(payload)?;
        self.add_host_op(op)?;
        let access = if access.intersects(MemoryAccess::READ | MemoryAccess::WRITE) {
            access
        } else {
            MemoryAccess::READ
        };
        self.files.push(StoredFile { place: self.place, id: created, length, access, source });
        Ok(())
    }

    fn file_source(&mut self, it: &payload::FileObject<'a>) -> Result<FileSource<Span<u8>>> {
        let reference = self.bytes(it.reference)?;
        match FileReferenceType(it.reference_type.get()) {
            FileReferenceType::EXTERNAL_PATH => {
                Ok(FileSource::External { path: reference, validation: validation(it)? })
            }
            FileReferenceType::INLINE_BYTES => {
                if it.file_length.get() != it.reference.len() as u64 {
                    return Err(Error::data_loss(format!(
                        "the file has {} bytes, and {} of them are in the capture",
                        it.file_length,
                        it.reference.len()
                    )));
                }
                Ok(FileSource::Inline(reference))
            }
            FileReferenceType::CAPTURED_RANGES => Ok(FileSource::Ranges { path: reference }),
            other => Err(refuse(format!("a file by reference of type {other} cannot be opened"))),
        }
    }

    fn host_op(&mut self, op: HostOp<Ids<'a>>) -> Result<HostOp<Indexed>> {
        Ok(match op {
            HostOp::CreateSemaphore { device, affinity, initial_value, flags, created } => {
                let device = self.device(device)?;
                // The largest value stands for a failure, on every device.
                if initial_value == u64::MAX {
                    return Err(Error::data_loss("a semaphore starts with the value of a failed one"));
                }
                let created = self.create(created, Kind::Semaphore)?;
                self.reached.push(initial_value);
                HostOp::CreateSemaphore { device, affinity, initial_value, flags, created }
            }
            HostOp::CreateCommandBuffer { device, params, created } => {
                let device = self.device(device)?;
                self.recordings.push(Recording::new(params.binding_capacity));
                HostOp::CreateCommandBuffer {
                    device,
                    params,
                    created: self.create(created, Kind::CommandBuffer)?,
                }
            }
            HostOp::BeginCommandBuffer { command_buffer } => {
                self.recording(command_buffer, Use::Begin)?;
                HostOp::BeginCommandBuffer { command_buffer: self.command_buffer(command_buffer)? }
            }
            HostOp::EndCommandBuffer { command_buffer } => {
                self.recording(command_buffer, Use::End)?;
                HostOp::EndCommandBuffer { command_buffer: self.command_buffer(command_buffer)? }
            }
            HostOp::CreateEvent { device, affinity, flags, created } => {
                let device = self.device(device)?;
                HostOp::CreateEvent { device, affinity, flags, created: self.create(created, Kind::Event)? }
            }
            HostOp::PrepareExecutable {
                device,
                affinity,
                caching_mode,
                format,
                data,
                constants,
                created,
            } => HostOp::PrepareExecutable {
                device: self.lookup(device, Object::Cache)?,
                affinity,
                caching_mode,
                format: self.bytes(format)?,
                data: self.bytes(data)?,
                constants: self.bytes(constants)?,
                created: self.create(created, Kind::Executable)?,
            },
            HostOp::ImportFile { device, affinity, access, length, created } => {
                let device = self.device(device)?;
                HostOp::ImportFile {
                    device,
                    affinity,
                    access,
                    length,
                    created: self.create(created, Kind::File)?,
                }
            }
            HostOp::AllocateBuffer { device, params, size, created } => {
                let device = self.lookup(device, Object::Allocator)?;
                HostOp::AllocateBuffer { device, params, size, created: self.create(created, Kind::Buffer)? }
            }
            HostOp::ImportBuffer { device, params, size, data, created } => {
                let device = self.lookup(device, Object::Allocator)?;
                let data = self.bytes(data)?;
                HostOp::ImportBuffer {
                    device,
                    params,
                    size,
                    data,
                    created: self.create(created, Kind::Buffer)?,
                }
            }
            HostOp::Map(range) => HostOp::Map(self.range(range)?),
            HostOp::Unmap(range, data) => HostOp::Unmap(self.range(range)?, self.optional_bytes(data)?),
            HostOp::Invalidate(range) => HostOp::Invalidate(self.range(range)?),
            HostOp::Flush(range, data) => HostOp::Flush(self.range(range)?, self.optional_bytes(data)?),
            HostOp::FlushQueue { device } => HostOp::FlushQueue { device: self.device(device)? },
            HostOp::Trim { device } => HostOp::Trim { device: self.device(device)? },
            HostOp::TrimAllocator { device } => {
                HostOp::TrimAllocator { device: self.lookup(device, Object::Allocator)? }
            }
            HostOp::ScopeBegin { name } => {
                let index = self.scope(name)?;
                self.scopes[index].1 += 1;
                HostOp::ScopeBegin { name: self.scopes[index].0 }
            }
            HostOp::ScopeEnd { name } => {
                let index = self.scope(name)?;
                HostOp::ScopeEnd { name: self.scopes[index].0 }
            }
            HostOp::Query(query) => HostOp::Query(query),
        })
    }

    /// Where a name is in `scopes`. All scopes of a name share its first bytes in the capture, so
    /// that a run does not touch a page of the file for each.
    fn scope(&mut self, name: &'a [u8]) -> Result<usize> {
        if let Some(index) = self.scope_indices.get(name) {
            return Ok(*index);
        }
        let bytes = self.bytes(name)?;
        self.scope_indices.insert(name, self.scopes.len());
        self.scopes.push((bytes, 0));
        Ok(self.scopes.len() - 1)
    }

    fn range(&mut self, range: RangeOp<Ids<'a>>) -> Result<RangeOp<Indexed>> {
        let RangeOp { buffer, offset, length, mode, access } = range;
        Ok(RangeOp { buffer: self.buffer(buffer)?, offset, length, mode, access })
    }

    fn optional_bytes(&mut self, bytes: Option<&'a [u8]>) -> Result<Option<Span<u8>>> {
        bytes.map(|bytes| self.bytes(bytes)).transpose()
    }

    /// The recording of command buffer `id`, which must be where `wanted` finds it; moves it on.
    fn recording(&mut self, id: u64, wanted: Use) -> Result<Recording> {
        let index = self.command_buffer(id)?;
        let recording = &mut self.recordings[index as usize];
        recording.advance(wanted, id)?;
        Ok(*recording)
    }

    fn push_step(&mut self, op: StepOp) {
        self.steps.push(Step { place: self.place, op });
    }

    /// Numbers a new object.
    fn create(&mut self, id: u64, kind: Kind) -> Result<u32> {
        let index = self.last_use[kind as usize].len() as u32;
        self.objects.insert(id, (Object::Numbered(kind), index))?;
        self.last_use[kind as usize].push(self.steps.len() as u32);
        if kind == Kind::Buffer {
            self.buffer_ids.push(id);
        }
        Ok(index)
    }

    /// The number of an object that the step about to be added uses.
    fn used(&mut self, id: u64, kind: Kind) -> Result<u32> {
        let index = self.lookup(id, Object::Numbered(kind))?;
        self.last_use[kind as usize][index as usize] = self.steps.len() as u32;
        Ok(index)
    }

    fn lookup(&self, id: u64, expected: Object) -> Result<u32> {
        match self.objects.get(id) {
            Some((object, index)) if object == expected => Ok(index),
            Some((object, _)) => Err(Error::failed_precondition(format!(
                "object {id} is a {}, and a {} is needed",
                object.name(),
                expected.name()
            ))),
            None => Err(Error::not_found(format!(
                "object {id} is used as a {}, but nothing before has made it",
                expected.name()
            ))),
        }
    }

    fn finish(self, bytes: CaptureBytes, capture: &Capture<'a>) -> Result<Plan> {
        let counts = std::array::from_fn(|kind| self.last_use[kind].len() as u32);
        const ALL: [Kind; KINDS] =
            [Kind::Buffer, Kind::Semaphore, Kind::Executable, Kind::CommandBuffer, Kind::File, Kind::Event];
        let mut releases: Vec<Release> = Vec::with_capacity(self.last_use.iter().map(Vec::len).sum());
        for (kind, last_use) in ALL.into_iter().zip(&self.last_use) {
            releases.extend(last_use.iter().zip(0..).map(|(step, index)| Release {
                step: *step,
                index,
                kind,
            }));
        }
        releases.sort_by_key(|release| release.step);
        Ok(Plan {
            capture: bytes,
            version: capture.version(),
            tear: capture.tear(),
            steps: self.steps,
            host_ops: self.host_ops,
            commands: self.commands,
            submissions: self.submissions,
            lists: self.lists,
            device_count: self.device_count,
            counts,
            releases,
            buffer_ids: self.buffer_ids,
            executables: self.executables,
            files: self.files,
            scopes: self.scopes,
        })
    }
}

/// Appends to a list of the planner while the planner renames what goes into it.
macro_rules! append {
    ($self:ident, $list:ident, $items:expr, $item:ident => $renamed:expr) => {{
        let start = $self.lists.$list.len();
        for $item in $items {
            let renamed = $renamed;
            $self.lists.$list.push(renamed);
        }
        Ok(Span::new(start as u64, ($self.lists.$list.len() - start) as u64))
    }};
}

impl<'a> Rename<Ids<'a>, Indexed> for Planner<'a> {
    fn device(&mut self, name: u64) -> Result<u32> {
        self.lookup(name, Object::Device)
    }

    fn buffer(&mut self, name: u64) -> Result<u32> {
        self.used(name, Kind::Buffer)
    }

    fn buffer_ref(&mut self, reference: BufferRef<Ids<'a>>) -> Result<BufferRef<Indexed>> {
        rename_buffer_ref(self, reference)
    }

    fn semaphore(&mut self, name: u64) -> Result<u32> {
        self.used(name, Kind::Semaphore)
    }

    fn function(&mut self, executable: u64, ordinal: u32) -> Result<(u32, u32)> {
        let index = self.used(executable, Kind::Executable)?;
        let count = self.executables[index as usize].function_count;
        if ordinal >= count {
            return Err(Error::out_of_range(format!(
                "function {ordinal} of executable {executable} is dispatched, and the capture knows {count}"
            )));
        }
        Ok((index, ordinal))
    }

    fn command_buffer(&mut self, name: u64) -> Result<u32> {
        self.used(name, Kind::CommandBuffer)
    }

    fn file(&mut self, name: u64) -> Result<u32> {
        self.used(name, Kind::File)
    }

    fn event(&mut self, name: u64) -> Result<u32> {
        self.used(name, Kind::Event)
    }

    fn channel(&mut self, _name: u64) -> Result<u32> {
        Err(refuse("channels reach devices outside of the capture"))
    }

    fn host_call(&mut self, _name: u64) -> Result<u32> {
        Err(refuse("a call back into the program cannot be reproduced"))
    }

    fn bytes(&mut self, bytes: &'a [u8]) -> Result<Span<u8>> {
        if bytes.is_empty() {
            return Ok(Span::new(0, 0));
        }
        let start = bytes.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
        match start.checked_add(bytes.len()) {
            Some(end) if end <= self.bytes.len() => Ok(Span::new(start as u64, bytes.len() as u64)),
            _ => Err(Error::new(
                rehal_base::StatusCode::Internal,
                "a payload is not in the bytes of its capture",
            )),
        }
    }

    fn buffer_refs(&mut self, list: &'a [layout::BufferRef]) -> Result<Span<BufferRef<Indexed>>> {
        append!(self, buffer_refs, list, item => buffer_ref(item).rename(self)?)
    }

    fn timepoints(&mut self, list: &'a [layout::SemaphoreTimepoint]) -> Result<Span<Timepoint<Indexed>>> {
        append!(self, timepoints, list, item => timepoint(item).rename(self)?)
    }

    fn events(&mut self, list: &'a [U64]) -> Result<Span<u32>> {
        append!(self, events, list, item => self.event(item.get())?)
    }

    fn memory_barriers(&mut self, list: &'a [layout::MemoryBarrier]) -> Result<Span<MemoryBarrier>> {
        append!(self, memory_barriers, list, item => memory_barrier(item.source_scope.get(), item.target_scope.get()))
    }

    fn buffer_barriers(&mut self, list: &'a [layout::BufferBarrier]) -> Result<Span<BufferBarrier<Indexed>>> {
        append!(self, buffer_barriers, list, item => buffer_barrier(item).rename(self)?)
    }
}

fn validation(it: &payload::FileObject<'_>) -> Result<Validation> {
    match FileValidationType(it.validation_type.get()) {
        FileValidationType::NONE => Ok(Validation::Length),
        FileValidationType::IDENTITY => {
            let identity = [it.file_device.get(), it.file_inode.get(), it.file_mtime_ns.get()];
            match identity {
                // A recorder on a platform without identities leaves zeros.
                [0, 0, 0] => Ok(Validation::Length),
                [device, inode, mtime_ns] => Ok(Validation::Identity { device, inode, mtime_ns }),
            }
        }
        FileValidationType::CONTENT_DIGEST => match DigestType(it.digest_type.get()) {
            DigestType::FNV1A_64 => {
                let mut digest = [0; 8];
                digest.copy_from_slice(&it.digest[..8]);
                Ok(Validation::Digest(u64::from_le_bytes(digest)))
            }
            other => Err(refuse(format!("a file digest of type {other} cannot be checked"))),
        },
        other => Err(refuse(format!("a file validation of type {other} cannot be done"))),
    }
}
