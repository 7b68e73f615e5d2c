//! Compiles a capture into a [`Plan`].

use std::collections::HashMap;

use rehal_base::{Error, Result, page_bytes};
use rehal_capture::{
    Capture, CaptureBytes, ObjectType, OpenOptions, Payload, PayloadType, Record, layout, payload,
};
use rehal_hal::{
    Binding, BufferRef, BufferUsage, Command, CreateOp, FileContents, HostOp, ImportFile, Indexed,
    MemoryAccess, MemoryType, Op, PrepareExecutable, QueueOp, Rename, RenameHost, Span, StoredLists,
    Submission, rename_buffer_ref, rename_lists,
};

use crate::arguments::{check_command, check_queue_op};
use crate::command_buffer::{CommandBufferState, Use};
use crate::decode::{self, decode, is_indirect};
use crate::effects::extent;
use crate::ids::{Ids, refuse};
use crate::memory_needs::{BufferNeeds, MemoryNeeds};
use crate::order::Order;
use crate::plan::{
    self, Completion, ExecutableRecord, Extent, FileRecord, LARGE_BYTES, OBJECT_KINDS, ObjectKind, Plan,
    PlanOptions, RecordLocation, Release, Step, StepOp, StoredExecutable, StoredFile, in_record,
};

/// Bytes of the capture planned between two calls of the progress function.
const PROGRESS_STEP_BYTES: u64 = 4 << 20;

/// Bytes of files at other offsets are copied: kernels need buffers of this alignment.
const MAPPED_ALIGNMENT_BYTES: u64 = 64;

impl Plan {
    /// Compiles a capture.
    ///
    /// Fails if a record is corrupt, if operations are inconsistent, or if an operation cannot be reproduced;
    /// the error names the record and the reason.
    pub fn compile(capture: impl Into<CaptureBytes>, options: PlanOptions<'_>) -> Result<Self> {
        compile(capture.into(), options)
    }
}

fn compile(bytes: CaptureBytes, mut options: PlanOptions<'_>) -> Result<Plan> {
    let capture = bytes.open(OpenOptions { recover: options.recover })?;
    let mut planner = Planner::new(&bytes);
    let mut reported = 0;
    for record in capture.records() {
        let record = record?;
        planner.add_at(&record)?;
        if record.offset >= reported + PROGRESS_STEP_BYTES {
            // After planning, only the data of records is read again, so the pages of a large file can be
            // released.
            bytes.forget(reported, record.offset - reported);
            reported = record.offset;
            if let Some(progress) = &mut options.progress {
                progress(reported, capture.length_bytes());
            }
        }
    }
    planner.finish(bytes.clone(), &capture)
}

/// Checks the records of a capture one by one, as [`Plan::compile`] does, and keeps no operation: what it
/// needs for each object is a few bytes.
pub struct PlanCheck<'a>(Planner<'a>);

/// A capture that can be planned, and what a replay of it needs.
pub struct Plannable {
    capture: CaptureBytes,
    device_count: u32,
    executables: Vec<StoredExecutable>,
    files: Vec<StoredFile>,
    memory: MemoryNeeds,
}

impl<'a> PlanCheck<'a> {
    /// Before the first record.
    pub fn new(capture: &'a CaptureBytes) -> Self {
        Self(Planner::new(capture))
    }

    /// Checks the next record. There is no plan of a capture with one that fails.
    pub fn add(&mut self, record: &Record<'a>) -> Result<()> {
        self.0.add_at(record)?;
        self.0.forget();
        Ok(())
    }

    /// Fails if a submission never runs. `bytes` are those of `capture`, of which all records were checked.
    pub fn finish(self, bytes: &CaptureBytes, capture: &Capture<'a>) -> Result<Plannable> {
        let memory = self.0.memory_needs();
        let Planner { order, device_count, executables, files, .. } = self.0;
        order.finish().map_err(|(location, error)| location.find_in(capture, error))?;
        Ok(Plannable { capture: bytes.clone(), device_count, executables, files, memory })
    }
}

impl Plannable {
    /// See [`Plan::memory`].
    pub fn memory(&self) -> MemoryNeeds {
        self.memory
    }

    /// See [`Plan::check_not_empty`].
    pub fn check_not_empty(&self) -> Result<()> {
        plan::check_not_empty(self.device_count)
    }

    /// See [`Plan::executables`].
    pub fn executables(&self) -> impl ExactSizeIterator<Item = ExecutableRecord<'_>> {
        self.executables.iter().map(|stored| stored.record(self.capture.as_slice()))
    }

    /// See [`Plan::files`].
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileRecord<&[u8]>> {
        self.files.iter().map(|stored| stored.record(self.capture.as_slice()))
    }
}

fn ordinal(record: &Record<'_>) -> Result<u32> {
    u32::try_from(record.ordinal())
        .map_err(|_| Error::resource_exhausted("a capture of more than 2^32 records cannot be planned"))
}

/// The object with an id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
    Device,
    Allocator,
    Cache,
    Numbered(ObjectKind),
}

impl Object {
    fn name(self) -> ObjectType {
        match self {
            Self::Device => ObjectType::DEVICE,
            Self::Allocator => ObjectType::ALLOCATOR,
            Self::Cache => ObjectType::EXECUTABLE_CACHE,
            Self::Numbered(ObjectKind::Buffer) => ObjectType::BUFFER,
            Self::Numbered(ObjectKind::Semaphore) => ObjectType::SEMAPHORE,
            Self::Numbered(ObjectKind::Executable) => ObjectType::EXECUTABLE,
            Self::Numbered(ObjectKind::CommandBuffer) => ObjectType::COMMAND_BUFFER,
            Self::Numbered(ObjectKind::File) => ObjectType::FILE,
            Self::Numbered(ObjectKind::Event) => ObjectType::EVENT,
        }
    }
}

/// Maps the ids of a capture to objects. Recorders allocate ids sequentially from 1, so a list is indexed by
/// them; sparse ids, which other captures may use, go into a map, so that no id causes a large allocation.
#[derive(Default)]
struct ObjectTable {
    dense: Vec<Option<(Object, u32)>>,
    sparse: HashMap<u64, (Object, u32)>,
}

/// The largest gap between consecutive ids for which the list is extended.
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
                format!("duplicate object id {id}: it is already a {}", object.name()),
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
    /// Whether they are those of a file.
    is_file: bool,
    location: RecordLocation,
    objects: ObjectTable,
    device_count: u32,
    /// The last step that uses each object, by kind.
    last_use: [Vec<u32>; OBJECT_KINDS],
    order: Order,
    /// The objects of the current record's operation.
    used: Vec<(ObjectKind, u32)>,
    /// The objects of each deferred submission.
    deferred_uses: HashMap<u32, Box<[(ObjectKind, u32)]>>,
    /// The state of each command buffer.
    command_buffers: Vec<CommandBufferState>,
    /// The first invalid command of each command buffer with its error, which is reported if the command
    /// buffer is executed.
    refused_commands: HashMap<u32, Error>,
    steps: Vec<Step>,
    host_ops: Vec<HostOp<Indexed>>,
    commands: Vec<(u32, Command<Indexed>)>,
    submissions: Vec<Submission<Indexed>>,
    lists: StoredLists,
    buffer_ids: Vec<u64>,
    extents: Vec<Extent>,
    initial_payloads: Vec<u64>,
    executables: Vec<StoredExecutable>,
    files: Vec<StoredFile>,
    scopes: Vec<(Span<u8>, u64)>,
    /// Index in `scopes` by name: captures may have as many names as records.
    scope_indices: HashMap<&'a [u8], usize>,
    skipped_count: u64,
    /// The creations of large buffers that nothing has filled from a file.
    unfilled: HashMap<u32, StepOp>,
    /// The buffers, for [`MemoryNeeds`].
    buffers: Vec<BufferNeeds>,
    /// The steps that have been forgotten.
    forgotten: u32,
}

impl<'a> Planner<'a> {
    fn new(capture: &'a CaptureBytes) -> Self {
        Self {
            bytes: capture.as_slice(),
            is_file: capture.path().is_some(),
            location: RecordLocation::default(),
            objects: ObjectTable::default(),
            device_count: 0,
            last_use: Default::default(),
            order: Order::default(),
            used: Vec::new(),
            deferred_uses: HashMap::new(),
            command_buffers: Vec::new(),
            refused_commands: HashMap::new(),
            steps: Vec::new(),
            host_ops: Vec::new(),
            commands: Vec::new(),
            submissions: Vec::new(),
            lists: StoredLists::default(),
            buffer_ids: Vec::new(),
            extents: Vec::new(),
            initial_payloads: Vec::new(),
            executables: Vec::new(),
            files: Vec::new(),
            scopes: Vec::new(),
            scope_indices: HashMap::new(),
            skipped_count: 0,
            unfilled: HashMap::new(),
            buffers: Vec::new(),
            forgotten: 0,
        }
    }

    fn add_at(&mut self, record: &Record<'a>) -> Result<()> {
        self.location = RecordLocation { ordinal: ordinal(record)?, offset: record.offset };
        self.add(record).map_err(|error| in_record(error, record))
    }

    /// Forgets what only the plan needs of the records so far: not the executables and files, which later
    /// records name.
    fn forget(&mut self) {
        self.forgotten += self.steps.len() as u32;
        self.steps.clear();
        self.host_ops.clear();
        self.commands.clear();
        self.submissions.clear();
        self.lists.clear();
        self.buffer_ids.clear();
        self.extents.clear();
        self.initial_payloads.clear();
        self.deferred_uses.clear();
        self.unfilled.clear();
        self.order.forget_completions();
    }

    fn add(&mut self, record: &Record<'a>) -> Result<()> {
        self.used.clear();
        match decode(record)? {
            None => {
                self.skipped_count += u64::from(record.header.status_code.get() != 0);
                Ok(())
            }
            Some(Op::Info(_)) => Ok(()),
            Some(Op::Host(op)) => self.add_host_op(op),
            Some(Op::Command { into, command }) => self.add_command(into, command, record),
            Some(Op::Queue(submission)) => {
                self.check_count_buffer(record)?;
                self.add_submission(submission)
            }
        }
    }

    /// A dispatch names a buffer for its workgroup count even if the count is static and the operation drops
    /// it. An unknown buffer, or a range without a buffer, means that the record is corrupt.
    fn check_count_buffer(&self, record: &Record<'a>) -> Result<()> {
        if record.payload_type() != PayloadType::DISPATCH {
            return Ok(());
        }
        let Payload::Dispatch(it) = record.payload()? else { return Ok(()) };
        let count = &it.workgroup_count_ref;
        if count.buffer_id.get() != 0 {
            return self.lookup(count.buffer_id.get(), Object::Numbered(ObjectKind::Buffer)).map(drop);
        }
        if is_indirect(it.header) || *count == layout::BufferRef::default() {
            return Ok(());
        }
        Err(Error::data_loss(format!(
            "the workgroup count is static, but refers to slot {}, offset {}, length {}",
            count.buffer_slot, count.offset, count.length
        )))
    }

    fn add_host_op(&mut self, op: HostOp<Ids<'a>>) -> Result<()> {
        let op = match op {
            HostOp::Create(op) => match self.create(op)? {
                Some(op) => HostOp::Create(op),
                None => return Ok(()),
            },
            HostOp::BeginCommandBuffer { command_buffer } => {
                self.advance(command_buffer, Use::Begin)?;
                op.rename(self)?
            }
            HostOp::EndCommandBuffer { command_buffer } => {
                self.advance(command_buffer, Use::End)?;
                op.rename(self)?
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
            HostOp::Map(_)
            | HostOp::Unmap(..)
            | HostOp::Invalidate(_)
            | HostOp::Flush(..)
            | HostOp::FlushQueue { .. }
            | HostOp::Trim { .. }
            | HostOp::TrimAllocator { .. } => op.rename(self)?,
        };
        let filled = match op {
            HostOp::Create(CreateOp::ImportedBuffer { data, created, .. }) => Some((created, 0, data)),
            HostOp::Unmap(range, Some(data)) | HostOp::Flush(range, Some(data)) => {
                Some((range.buffer, range.offset, data))
            }
            _ => None,
        };
        self.host_ops.push(op);
        if let Some((buffer, offset, data)) = filled.filter(|_| self.is_file) {
            self.note_filled(buffer, offset, data.count, data.start);
        }
        self.push_step(StepOp::Host(self.host_ops.len() as u32 - 1));
        Ok(())
    }

    /// Indexes the object created by `op`; `None` if a run need not create it.
    fn create(&mut self, mut op: CreateOp<Ids<'a>>) -> Result<Option<CreateOp<Indexed>>> {
        match &mut op {
            // The maximum value denotes a failed semaphore, on every device.
            CreateOp::Semaphore { initial_value: u64::MAX, .. } => {
                return Err(Error::data_loss("the initial payload of a semaphore is the failure value"));
            }
            CreateOp::Semaphore { initial_value, created, .. } => {
                self.order.add_semaphore(*created, *initial_value);
                self.initial_payloads.push(*initial_value);
            }
            CreateOp::CommandBuffer { params, .. } => {
                self.command_buffers.push(CommandBufferState::new(params));
            }
            CreateOp::Executable(it) => self.add_executable(it)?,
            CreateOp::File(it) => self.add_file(it)?,
            // A run allocates the buffer and writes its bytes.
            CreateOp::ImportedBuffer { params, .. } => {
                params.memory_type |= MemoryType::HOST_VISIBLE;
                params.access |= MemoryAccess::WRITE;
                params.usage |= BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_ACCESS_RANDOM;
            }
            CreateOp::Device { .. }
            | CreateOp::Allocator { .. }
            | CreateOp::ExecutableCache { .. }
            | CreateOp::Event { .. }
            | CreateOp::Buffer { .. } => {}
        }
        let op = op.rename(self)?;
        if let CreateOp::Buffer { params, size, created, .. }
        | CreateOp::ImportedBuffer { params, size, created, .. } = &op
        {
            self.extents.push(extent(params, *size));
            self.note_created(*created, *size, StepOp::Host(self.host_ops.len() as u32));
        }
        let is_named_only = matches!(
            op,
            CreateOp::Device { .. } | CreateOp::Allocator { .. } | CreateOp::ExecutableCache { .. }
        );
        Ok((!is_named_only).then_some(op))
    }

    /// Adds a command. An invalid command is reported only if it is executed: the submission may have failed
    /// in the captured program, which then continued without it.
    fn add_command(&mut self, into: u64, command: Command<Ids<'a>>, record: &Record<'a>) -> Result<()> {
        // Captures store hints and labels without their arguments, so there is nothing to replay.
        if let Command::Advise { .. } | Command::BeginDebugGroup { .. } | Command::EndDebugGroup = command {
            return Ok(());
        }
        let state = self.advance(into, Use::Record)?;
        let into = self.command_buffer(into)?;
        let checked = self
            .check_count_buffer(record)
            .and_then(|()| check_command(&command, state.slots))
            .and_then(|()| command.rename(self));
        match checked {
            Ok(command) => {
                self.commands.push((into, command));
                self.push_step(StepOp::Command(self.commands.len() as u32 - 1));
                Ok(())
            }
            Err(error) if state.is_inline => Err(error),
            Err(error) => {
                self.refused_commands.entry(into).or_insert_with(|| in_record(error, record));
                Ok(())
            }
        }
    }

    /// Checks that `command_buffer` can be executed with `bindings` entries in its binding table.
    fn check_execution(&mut self, command_buffer: u64, bindings: u64) -> Result<()> {
        let state = self.advance(command_buffer, Use::Run)?;
        let index = self.command_buffer(command_buffer)?;
        if let Some(error) = self.refused_commands.get(&index) {
            return Err(error.clone());
        }
        state.check_table(bindings, command_buffer)
    }

    fn add_submission(&mut self, mut submission: Submission<Ids<'a>>) -> Result<()> {
        // A read whose bytes are in the capture does not need the file.
        let mut captured_from = None;
        if let QueueOp::Read { file, target, captured, .. } = submission.op
            && !captured.is_empty()
        {
            let index = self.file(file)? as usize;
            let is_ranges = matches!(self.files[index].source.contents, FileContents::Ranges { .. });
            captured_from = is_ranges.then_some(file);
            submission.op = QueueOp::Update { source: captured, target, flags: 0 };
        }
        check_queue_op(&submission.op)?;
        if let QueueOp::Execute { command_buffer, bindings, .. } = submission.op {
            self.check_execution(command_buffer, bindings.len() as u64)?;
        }
        if let QueueOp::Read { file, .. } | QueueOp::Write { file, .. } = submission.op {
            let index = self.file(file)?;
            if let FileContents::Ranges { path } = self.files[index as usize].source.contents {
                return Err(Error::failed_precondition(format!(
                    "the capture has only the bytes that were read from '{}', not these",
                    path.of(self.bytes).escape_ascii()
                )));
            }
        }
        if let Some(file) = captured_from
            && let QueueOp::Update { source, target, flags } = submission.op
            && self.is_file
            && source.len() as u64 >= LARGE_BYTES
            && source.len() as u64 == target.length
        {
            // From the capture, which a run imports in the place of the file, so that it can be mapped.
            let file_offset = self.bytes(source)?.start;
            submission.op = QueueOp::Read { file, file_offset, target, captured: &[], flags };
        }
        let submission = submission.rename(self)?;
        let index = self.submissions.len() as u32;
        match submission.op {
            QueueOp::Alloca { ref params, size, created, .. } => {
                self.extents.push(extent(params, size));
                self.note_created(created, size, StepOp::Submission(index));
            }
            QueueOp::Read {
                target: BufferRef { binding: Binding::Direct(buffer), offset, length },
                file,
                file_offset,
                ..
            } => {
                let start = match self.files[file as usize].source.contents {
                    FileContents::Inline(bytes) => self.is_file.then_some(bytes.start),
                    FileContents::External { .. } | FileContents::Ranges { .. } => Some(0),
                    FileContents::Nothing => None,
                };
                if let Some(start) = start {
                    self.note_filled(buffer, offset, length, start.wrapping_add(file_offset));
                }
            }
            _ => {}
        }
        let waits = submission.waits.of(&self.lists.timepoints);
        let signals = submission.signals.of(&self.lists.timepoints);
        let step = self.next_step();
        let runs = self.order.submit(step, index, self.location, waits, signals)?;
        if !runs {
            self.deferred_uses.insert(index, self.used.as_slice().into());
        }
        self.submissions.push(submission);
        self.push_step(if runs { StepOp::Submission(index) } else { StepOp::Deferred(index) });
        Ok(())
    }

    fn note_created(&mut self, buffer: u32, size: u64, by: StepOp) {
        self.buffers.push(BufferNeeds { size, mapped: 0, place: None, created: self.next_step() });
        if size >= LARGE_BYTES {
            self.unfilled.insert(buffer, by);
        }
    }

    /// Notes bytes of a file that fill a buffer from `offset` on. The first large ones decide which offset in
    /// a file the first byte of the buffer has.
    fn note_filled(&mut self, buffer: u32, offset: u64, length: u64, place: u64) {
        if length < LARGE_BYTES {
            return;
        }
        let first_byte = place.wrapping_sub(offset);
        let params = match self.unfilled.remove(&buffer) {
            Some(StepOp::Host(index)) => match self.host_ops.get_mut(index as usize) {
                Some(HostOp::Create(
                    CreateOp::Buffer { params, .. } | CreateOp::ImportedBuffer { params, .. },
                )) => Some(params),
                _ => None,
            },
            Some(StepOp::Submission(index)) => match self.submissions.get_mut(index as usize) {
                Some(Submission { op: QueueOp::Alloca { params, .. }, .. }) => Some(params),
                _ => None,
            },
            _ => None,
        };
        let (needs, page) = (&mut self.buffers[buffer as usize], page_bytes() as u64);
        if let Some(params) = params {
            params.file_offset = Some(first_byte);
        }
        let place = first_byte % page;
        let aligned = if place.is_multiple_of(MAPPED_ALIGNMENT_BYTES) { place } else { 0 };
        if *needs.place.get_or_insert(aligned) == place {
            needs.mapped = needs.mapped.saturating_add(length).min(needs.size);
        }
    }

    /// The needs of a replay, in which each buffer lives up to its last use.
    fn memory_needs(&self) -> MemoryNeeds {
        MemoryNeeds::new(&self.buffers, &self.last_use[ObjectKind::Buffer as usize])
    }

    fn add_executable(&mut self, it: &PrepareExecutable<Ids<'a>>) -> Result<()> {
        if it.metadata.is_empty() {
            return Err(Error::data_loss(
                "the executable has no metadata, so its functions cannot be checked",
            ));
        }
        let metadata = payload::ExecutableMetadata::read(it.metadata);
        let executable = StoredExecutable {
            location: self.location,
            id: it.created,
            format: self.bytes(it.format)?,
            data: self.bytes(it.data)?,
            constants: self.bytes(it.constants)?,
            metadata: self.bytes(it.metadata)?,
            function_count: metadata.map_or(0, |metadata| metadata.function_count() as u32),
        };
        self.executables.push(executable);
        Ok(())
    }

    fn add_file(&mut self, it: &ImportFile<Ids<'a>>) -> Result<()> {
        let source = it.source.try_map_bytes(|bytes| self.bytes(bytes))?;
        let access = if it.access.intersects(MemoryAccess::READ | MemoryAccess::WRITE) {
            it.access
        } else {
            MemoryAccess::READ
        };
        let (id, length) = (it.created, it.length);
        self.files.push(StoredFile { location: self.location, id, length, access, source });
        Ok(())
    }

    /// The index of a name in `scopes`. All scopes of a name share the span of its first occurrence, so that
    /// a run does not touch a page of the file for each.
    fn scope(&mut self, name: &'a [u8]) -> Result<usize> {
        if let Some(index) = self.scope_indices.get(name) {
            return Ok(*index);
        }
        let bytes = self.bytes(name)?;
        self.scope_indices.insert(name, self.scopes.len());
        self.scopes.push((bytes, 0));
        Ok(self.scopes.len() - 1)
    }

    /// Advances command buffer `id` by the use `wanted` and returns its state; fails if its state does not
    /// allow that use.
    fn advance(&mut self, id: u64, wanted: Use) -> Result<CommandBufferState> {
        let index = self.command_buffer(id)?;
        let state = &mut self.command_buffers[index as usize];
        state.advance(wanted, id)?;
        Ok(*state)
    }

    fn next_step(&self) -> u32 {
        self.forgotten + self.steps.len() as u32
    }

    fn push_step(&mut self, op: StepOp) {
        self.steps.push(Step { location: self.location, op });
    }

    /// Extends the lifetime of the objects of deferred submissions to their completion.
    fn keep_until_complete(&mut self, completions: &[Completion]) {
        for completion in completions {
            for (kind, index) in self.deferred_uses.remove(&completion.submission).into_iter().flatten() {
                let last_use = &mut self.last_use[kind as usize][index as usize];
                *last_use = completion.step.max(*last_use);
            }
        }
    }

    /// Assigns an index to a new object.
    fn number(&mut self, id: u64, kind: ObjectKind) -> Result<u32> {
        let index = self.last_use[kind as usize].len() as u32;
        self.objects.insert(id, (Object::Numbered(kind), index))?;
        self.last_use[kind as usize].push(self.next_step());
        if kind == ObjectKind::Buffer {
            self.buffer_ids.push(id);
        }
        Ok(index)
    }

    /// The index of an object, which is marked as used by the next step.
    fn used(&mut self, id: u64, kind: ObjectKind) -> Result<u32> {
        let index = self.lookup(id, Object::Numbered(kind))?;
        self.last_use[kind as usize][index as usize] = self.next_step();
        self.used.push((kind, index));
        Ok(index)
    }

    fn lookup(&self, id: u64, expected: Object) -> Result<u32> {
        match self.objects.get(id) {
            Some((object, index)) if object == expected => Ok(index),
            Some((object, _)) => Err(Error::failed_precondition(format!(
                "object {id} is a {}, expected a {}",
                object.name(),
                expected.name()
            ))),
            None => Err(Error::not_found(format!(
                "object {id} is used as a {}, but no earlier record creates it",
                expected.name()
            ))),
        }
    }

    fn finish(mut self, bytes: CaptureBytes, capture: &Capture<'a>) -> Result<Plan> {
        let completions = std::mem::take(&mut self.order)
            .finish()
            .map_err(|(location, error)| location.find_in(capture, error))?;
        self.keep_until_complete(&completions);
        let counts = std::array::from_fn(|kind| self.last_use[kind].len() as u32);
        const ALL: [ObjectKind; OBJECT_KINDS] = [
            ObjectKind::Buffer,
            ObjectKind::Semaphore,
            ObjectKind::Executable,
            ObjectKind::CommandBuffer,
            ObjectKind::File,
            ObjectKind::Event,
        ];
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
            memory: self.memory_needs(),
            capture: bytes,
            version: capture.version(),
            tear: capture.tear(),
            steps: self.steps,
            host_ops: self.host_ops,
            commands: self.commands,
            submissions: self.submissions,
            completions,
            lists: self.lists,
            device_count: self.device_count,
            counts,
            releases,
            buffer_ids: self.buffer_ids,
            extents: self.extents,
            initial_payloads: self.initial_payloads,
            inline_command_buffers: self.command_buffers.iter().map(|state| state.is_inline).collect(),
            executables: self.executables,
            files: self.files,
            scopes: self.scopes,
            skipped_count: self.skipped_count,
        })
    }
}

/// Appends renamed items to a list of the planner; renaming borrows the planner mutably.
macro_rules! planned {
    ($names:ident, $list:ident, $lists:ident, $item:ident) => {{
        let start = $names.lists.$lists.len();
        for item in $list {
            let renamed = $names.$item(decode::$item(item))?;
            $names.lists.$lists.push(renamed);
        }
        Ok(Span::new(start as u64, ($names.lists.$lists.len() - start) as u64))
    }};
}

impl<'a> Rename<Ids<'a>, Indexed> for Planner<'a> {
    fn device(&mut self, name: u64) -> Result<u32> {
        self.lookup(name, Object::Device)
    }

    fn buffer(&mut self, name: u64) -> Result<u32> {
        self.used(name, ObjectKind::Buffer)
    }

    fn buffer_ref(&mut self, reference: BufferRef<u64>) -> Result<BufferRef<u32>> {
        rename_buffer_ref(self, reference)
    }

    fn semaphore(&mut self, name: u64) -> Result<u32> {
        self.used(name, ObjectKind::Semaphore)
    }

    fn function(&mut self, executable: u64, ordinal: u32) -> Result<(u32, u32)> {
        let index = self.used(executable, ObjectKind::Executable)?;
        let count = self.executables[index as usize].function_count;
        if ordinal >= count {
            return Err(Error::out_of_range(format!(
                "function ordinal {ordinal} is out of bounds: executable {executable} has {count} functions"
            )));
        }
        Ok((index, ordinal))
    }

    fn command_buffer(&mut self, name: u64) -> Result<u32> {
        self.used(name, ObjectKind::CommandBuffer)
    }

    fn file(&mut self, name: u64) -> Result<u32> {
        self.used(name, ObjectKind::File)
    }

    fn event(&mut self, name: u64) -> Result<u32> {
        self.used(name, ObjectKind::Event)
    }

    fn host_call(&mut self, _name: u64) -> Result<u32> {
        Err(refuse("host calls cannot be replayed"))
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
                "a payload is outside the bytes of its capture",
            )),
        }
    }

    rename_lists!(planned, Ids<'a> => Indexed);

    fn created_buffer(&mut self, name: u64) -> Result<u32> {
        self.number(name, ObjectKind::Buffer)
    }
}

impl<'a> RenameHost<Ids<'a>, Indexed> for Planner<'a> {
    fn allocator(&mut self, name: u64) -> Result<u32> {
        self.lookup(name, Object::Allocator)
    }

    fn executable_cache(&mut self, name: u64) -> Result<u32> {
        self.lookup(name, Object::Cache)
    }

    fn executable(&mut self, name: u64) -> Result<u32> {
        self.used(name, ObjectKind::Executable)
    }

    fn created_device(&mut self, name: u64) -> Result<u32> {
        self.objects.insert(name, (Object::Device, self.device_count))?;
        self.device_count += 1;
        Ok(self.device_count - 1)
    }

    fn created_allocator(&mut self, device: u32, name: u64) -> Result<u32> {
        self.objects.insert(name, (Object::Allocator, device))?;
        Ok(device)
    }

    fn created_executable_cache(&mut self, device: u32, name: u64) -> Result<u32> {
        self.objects.insert(name, (Object::Cache, device))?;
        Ok(device)
    }

    fn created_semaphore(&mut self, name: u64) -> Result<u32> {
        self.number(name, ObjectKind::Semaphore)
    }

    fn created_command_buffer(&mut self, name: u64) -> Result<u32> {
        self.number(name, ObjectKind::CommandBuffer)
    }

    fn created_executable(&mut self, name: u64) -> Result<u32> {
        self.number(name, ObjectKind::Executable)
    }

    fn created_file(&mut self, name: u64) -> Result<u32> {
        self.number(name, ObjectKind::File)
    }

    fn created_event(&mut self, name: u64) -> Result<u32> {
        self.number(name, ObjectKind::Event)
    }
}
