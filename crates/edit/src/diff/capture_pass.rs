//! One pass over a capture: a token for each operation, and what its objects are.

use std::cell::Cell;
use std::collections::HashMap;

use rehal_base::{Error, Result, StatusCode};
use rehal_capture::layout::ReadDigest;
use rehal_capture::payload::ExecutableMetadata;
use rehal_capture::{Capture, CaptureBytes, ObjectType, OperationCode, PayloadType, Record, RecordType};
use rehal_hal::{CreateOp, FileSource, HostOp, Op, QueueOp};
use rehal_judge::NONE;
use rehal_replay::dump::Progress;
use rehal_replay::{Ids, decode};
use zerocopy::FromBytes as _;

use super::fields::{self, Fields, Name, ObjectKind, Value};
use super::hash::{mix, mix_bytes};
use super::ids::IdMap;
use super::report::ScopePath;

/// Number of bytes after which pages that have been read are released.
const STEP_BYTES: u64 = 4 << 20;

/// Maximum nesting of scopes, and of those that an end is looked for.
pub(super) const MAX_DEPTH: usize = 64;

/// A record that is compared.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// File offset of its record.
    pub offset: u64,
    /// The ordinal of its record.
    pub ordinal: u64,
    /// Hash of everything but ids, timepoints and how data is stored.
    pub exact: u64,
    /// Hash of the operation, and of the function or the scope that it names.
    pub similar: u64,
    /// The operation code; for objects that exist before any call, their type.
    pub code: u32,
    /// The innermost scope, by index.
    pub scope: u32,
    /// The object that it creates, or zero.
    pub created: u64,
    pub role: Role,
}

/// The role of an entry in the alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    ScopeBegin,
    ScopeEnd,
    /// Creates an executable.
    Executable,
    /// Creates another object.
    Creation,
    /// Begins a command buffer.
    Begin,
    /// Reads or writes memory of a device, or imports a file.
    Work,
    Other,
}

/// The contents of a record.
pub(super) enum Call<'c> {
    Op(Op<Ids<'c>>),
    /// The call failed, with this status.
    Failed(u32),
    /// A call that captures cannot represent, or a replay cannot reproduce.
    Opaque,
}

/// A scope within another.
pub(super) struct ScopeNode<'c> {
    /// The index of the enclosing scope, which is less; its own for the root.
    pub parent: u32,
    pub name: &'c [u8],
    pub path: ScopePath,
    /// Number of times it is entered.
    pub count: u64,
}

/// An object, as far as it matters to what uses it.
#[derive(Clone, Copy)]
struct Made {
    /// Hash of its creation without its data; of a command buffer also of its commands.
    recipe: u64,
    /// The entry that creates it.
    entry: u32,
}

/// A capture that has been read.
pub(super) struct Side<'c> {
    bytes: &'c CaptureBytes,
    capture: Capture<'c>,
    /// Up to which offset pages are released: those of records that have been read.
    behind: Cell<u64>,
    pub entries: Vec<Entry>,
    pub record_count: u64,
    /// Operations that are compared by name only.
    pub opaque_count: u64,
    pub scopes: Vec<ScopeNode<'c>>,
    scope_index: HashMap<(u32, &'c [u8]), u32>,
    open_scopes: Vec<(u32, u32)>,
    /// The entry of the end of each scope, by that of its begin.
    pub scope_ends: HashMap<u32, u32>,
    objects: IdMap<Made>,
    /// The names of functions by executable.
    functions: IdMap<Vec<&'c [u8]>>,
    /// The sources of files.
    files: IdMap<FileSource<&'c [u8]>>,
    /// Payload and entry of each signal, by semaphore, in order of the records.
    signals: IdMap<Vec<(u64, u32)>>,
    /// The digests of what the host read, by the entry that maps it.
    pub reads: HashMap<u32, [u8; 16]>,
    /// Whether the last record maps memory.
    is_mapped: bool,
    /// Number of objects by kind.
    pub object_counts: [u64; ObjectKind::ALL.len()],
    /// Bytes of buffers that the program created.
    pub buffer_bytes: u64,
    /// Whether functions are known by name.
    has_names: bool,
}

impl<'c> Side<'c> {
    /// Reads all records. `has_names` is false if one of the captures has no names of functions.
    pub(super) fn read(
        bytes: &'c CaptureBytes,
        capture: Capture<'c>,
        has_names: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let limit = capture.length_bytes() / size_of::<rehal_capture::layout::RecordHeader>() as u64 + 1024;
        let root = ScopeNode { parent: 0, name: &[], path: ScopePath::default(), count: 1 };
        let mut this = Self {
            bytes,
            capture,
            behind: Cell::new(0),
            entries: Vec::new(),
            record_count: 0,
            opaque_count: 0,
            scopes: vec![root],
            scope_index: HashMap::new(),
            open_scopes: Vec::new(),
            scope_ends: HashMap::new(),
            objects: IdMap::new(limit),
            functions: IdMap::new(limit),
            files: IdMap::new(limit),
            signals: IdMap::new(limit),
            reads: HashMap::new(),
            is_mapped: false,
            object_counts: [0; ObjectKind::ALL.len()],
            buffer_bytes: 0,
            has_names,
        };
        let total_bytes = capture.length_bytes();
        for record in capture.records() {
            let record = record?;
            this.add(&record)?;
            if this.forget_before(record.offset) {
                progress(Progress { done_bytes: record.offset, total_bytes });
            }
        }
        this.behind.set(0);
        Ok(this)
    }

    /// Releases the pages before a record that is read, every few megabytes; returns whether it did.
    fn forget_before(&self, offset: u64) -> bool {
        let behind = self.behind.get();
        // A record that was moved may be read out of order.
        let is_due = offset < behind || offset - behind >= STEP_BYTES;
        if is_due {
            self.bytes.forget(behind, offset.saturating_sub(behind));
            self.behind.set(offset);
        }
        is_due
    }

    fn add(&mut self, record: &Record<'c>) -> Result<()> {
        self.record_count += 1;
        if record.payload_type() == PayloadType::READ_DIGEST {
            self.add_read(record);
        }
        self.is_mapped = record.operation() == OperationCode::BUFFER_MAP_RANGE;
        let Some(call) = call(record)? else { return Ok(()) };
        if self.entries.len() >= NONE as usize {
            return Err(Error::resource_exhausted("the capture has more operations than can be compared"));
        }
        let index = self.entries.len() as u32;
        let code = code_of(record);
        let mut hash = Hash { side: self, shape: code.into(), data: 0, created: None, has_commands: false };
        let mut similar = mix(0, code.into());
        let mut role = Role::Other;
        match &call {
            Call::Op(op) => {
                hash.has_commands = matches!(op, Op::Queue(_));
                fields::write(op, &mut hash);
                role = role_of(op);
            }
            Call::Failed(status) => {
                hash.shape = mix(mix(hash.shape, 1), (*status).into());
            }
            Call::Opaque => hash.data = record.payload.len() as u64,
        }
        let (shape, exact, created) = (hash.shape, mix(hash.shape, hash.data), hash.created);
        self.opaque_count += u64::from(matches!(call, Call::Opaque));
        let outer = self.open_scopes.last().map_or(0, |(scope, _)| *scope);
        if let Call::Op(op) = &call {
            similar = mix(similar, self.subject(op));
            self.follow(op, index, exact);
        }
        if let Some((kind, id)) = created {
            self.object_counts[kind as usize] += 1;
            self.objects.insert(id, Made { recipe: shape, entry: index });
        }
        let inner = self.open_scopes.last().map_or(0, |(scope, _)| *scope);
        // The begin and the end of a scope are outside of it.
        let scope = if role == Role::ScopeBegin { outer } else { inner };
        let created = created.map_or(0, |(_, id)| id);
        let (offset, ordinal) = (record.offset, record.ordinal());
        self.entries.push(Entry { offset, ordinal, exact, similar, code, scope, created, role });
        Ok(())
    }

    /// Notes what the host read with the call before this record.
    fn add_read(&mut self, record: &Record<'c>) {
        let mapped = self.entries.len().checked_sub(1).filter(|_| self.is_mapped);
        if let (Some(mapped), Ok(read)) = (mapped, ReadDigest::ref_from_bytes(record.payload)) {
            self.reads.insert(mapped as u32, read.digest);
        }
    }

    /// Hash of what the operation is about: a function, a scope, the functions of an executable.
    fn subject(&self, op: &Op<Ids<'c>>) -> u64 {
        match op {
            Op::Host(HostOp::ScopeBegin { name } | HostOp::ScopeEnd { name }) => mix_bytes(0, name),
            Op::Host(HostOp::Create(CreateOp::Executable(it))) => {
                let names = function_names(it.metadata);
                match self.has_names {
                    true => names.fold(0, mix_bytes),
                    false => names.count() as u64,
                }
            }
            op => fields::dispatched(op)
                .map_or(0, |(executable, ordinal)| self.function_key(executable, ordinal)),
        }
    }

    fn function_key(&self, executable: u64, ordinal: u32) -> u64 {
        match self.function_name(executable, ordinal) {
            Some(name) => mix_bytes(1, name),
            None => mix(2, ordinal.into()),
        }
    }

    /// The effects of an operation: on scopes, and on the contents of its objects.
    fn follow(&mut self, op: &Op<Ids<'c>>, index: u32, exact: u64) {
        match op {
            Op::Host(HostOp::ScopeBegin { name }) => self.enter(name, index),
            Op::Host(HostOp::ScopeEnd { name }) => self.leave(name, index),
            Op::Host(HostOp::Create(CreateOp::Executable(it))) => {
                self.functions.insert(it.created, function_names(it.metadata).collect());
            }
            Op::Host(HostOp::Create(CreateOp::File(it))) => self.files.insert(it.created, it.source),
            Op::Host(HostOp::Create(
                CreateOp::Buffer { size, .. } | CreateOp::ImportedBuffer { size, .. },
            )) => {
                self.buffer_bytes = self.buffer_bytes.saturating_add(*size);
            }
            Op::Command { into, .. } => {
                if let Some(made) = self.objects.get_mut(*into) {
                    made.recipe = mix(made.recipe, exact);
                }
            }
            Op::Queue(submission) => {
                if let QueueOp::Alloca { size, .. } = submission.op {
                    self.buffer_bytes = self.buffer_bytes.saturating_add(size);
                }
                for it in submission.signals {
                    let (id, signal) = (it.semaphore_id.get(), (it.value.get(), index));
                    match self.signals.get_mut(id) {
                        Some(signals) => signals.push(signal),
                        None => self.signals.insert(id, vec![signal]),
                    }
                }
            }
            Op::Host(_) | Op::Info(_) => {}
        }
    }

    fn enter(&mut self, name: &'c [u8], index: u32) {
        // Deeper scopes count as siblings.
        let depth = self.open_scopes.len().min(MAX_DEPTH);
        let parent = depth.checked_sub(1).map_or(0, |last| self.open_scopes[last].0);
        let scopes = &mut self.scopes;
        let scope = *self.scope_index.entry((parent, name)).or_insert_with(|| {
            let path = scopes[parent as usize].path.inner(name);
            scopes.push(ScopeNode { parent, name, path, count: 0 });
            scopes.len() as u32 - 1
        });
        self.scopes[scope as usize].count += 1;
        self.open_scopes.push((scope, index));
    }

    fn leave(&mut self, name: &[u8], index: u32) {
        let is_it = |(scope, _): &(u32, u32)| self.scopes[*scope as usize].name == name;
        let outer = self.open_scopes.len().saturating_sub(MAX_DEPTH);
        if let Some(at) = self.open_scopes[outer..].iter().rposition(is_it) {
            let (_, begin) = self.open_scopes.remove(outer + at);
            self.scope_ends.insert(begin, index);
        }
    }

    /// The name of a function, unless it is unknown.
    pub(super) fn function_name(&self, executable: u64, ordinal: u32) -> Option<&'c [u8]> {
        let names = self.functions.get(executable).filter(|_| self.has_names)?;
        names.get(ordinal as usize).copied().filter(|name| !name.is_empty())
    }

    /// The record of an entry.
    pub(super) fn record(&self, index: u32) -> Result<Record<'c>> {
        let entry = &self.entries[index as usize];
        self.forget_before(entry.offset);
        let record = self.capture.records_from(entry.offset, entry.ordinal).next();
        Ok(record.expect("records that were read are still there")?)
    }

    /// The entry that creates an object.
    pub(super) fn creator(&self, id: u64) -> Option<u32> {
        self.objects.get(id).map(|made| made.entry)
    }

    /// The source of a file.
    pub(super) fn source(&self, file: u64) -> Option<FileSource<&'c [u8]>> {
        self.files.get(file).copied()
    }

    /// The entry whose signal makes a semaphore reach `value` first; `None` if no entry does.
    pub(super) fn origin(&self, semaphore: u64, value: u64) -> Option<u32> {
        let signals = self.signals.get(semaphore)?;
        // Payloads increase in a valid capture.
        let index = signals.partition_point(|(signalled, _)| *signalled < value);
        signals.get(index).map(|(_, entry)| *entry)
    }
}

/// The contents of a record; `None` unless it is compared.
pub(super) fn call<'c>(record: &Record<'c>) -> Result<Option<Call<'c>>> {
    let status = record.header.status_code.get();
    match record.record_type() {
        RecordType::OPERATION | RecordType::UNSUPPORTED if status != 0 => {
            record.payload()?;
            return Ok(Some(Call::Failed(status)));
        }
        RecordType::UNSUPPORTED => return Ok(Some(Call::Opaque)),
        _ => {}
    }
    match decode(record) {
        // A query changes nothing, and recorders differ in which they make.
        Ok(Some(Op::Info(_)) | None) => Ok(None),
        Ok(Some(op)) => Ok(Some(Call::Op(op))),
        Err(error) if error.code() == StatusCode::Unimplemented => Ok(Some(Call::Opaque)),
        Err(error) => Err(error.context(format!("record #{}", record.ordinal()))),
    }
}

/// The operation code of a record, or a number beyond them for an object that existed before any call.
fn code_of(record: &Record<'_>) -> u32 {
    match record.record_type() {
        RecordType::OBJECT => OBJECTS + record.object_type().0,
        _ => record.operation().0,
    }
}

/// Added to the types of objects, beyond all operation codes.
const OBJECTS: u32 = 1 << 31;

/// The name of the operation with a code that [`Entry::code`] has.
pub(super) fn name_of(code: u32) -> &'static str {
    match code.checked_sub(OBJECTS) {
        Some(object) => ObjectType(object).name(),
        None => OperationCode(code).name(),
    }
}

fn role_of(op: &Op<Ids<'_>>) -> Role {
    match op {
        Op::Host(HostOp::ScopeBegin { .. }) => Role::ScopeBegin,
        Op::Host(HostOp::ScopeEnd { .. }) => Role::ScopeEnd,
        Op::Host(HostOp::Create(CreateOp::Executable(_))) => Role::Executable,
        Op::Host(HostOp::Create(CreateOp::File(_))) => Role::Work,
        Op::Host(HostOp::Create(_)) => Role::Creation,
        Op::Host(HostOp::BeginCommandBuffer { .. }) => Role::Begin,
        Op::Command { command, .. } if command.as_queue_op().is_some() => Role::Work,
        Op::Queue(submission) => match submission.op {
            QueueOp::Alloca { .. } => Role::Creation,
            QueueOp::Dealloca { .. } | QueueOp::Barrier { .. } | QueueOp::HostCall { .. } => Role::Other,
            _ => Role::Work,
        },
        Op::Host(_) | Op::Info(_) | Op::Command { .. } => Role::Other,
    }
}

fn function_names(metadata: &[u8]) -> impl Iterator<Item = &[u8]> {
    ExecutableMetadata::read(metadata).into_iter().flat_map(|it| it.functions().map(|function| function.name))
}

/// Hashes the fields of an operation.
struct Hash<'s, 'c> {
    side: &'s Side<'c>,
    /// Everything but data.
    shape: u64,
    data: u64,
    created: Option<(ObjectKind, u64)>,
    /// Whether what a command buffer contains counts.
    has_commands: bool,
}

impl<'c> Fields<'c> for Hash<'_, 'c> {
    fn field(&mut self, _: Name, value: Value<'c>) {
        let shape = |value| mix(self.shape, value);
        self.shape = match value {
            Value::Number(value) | Value::Flags(value, _) | Value::Count(value) => shape(value),
            Value::Triple([x, y, z]) => mix(shape(u64::from(x) | u64::from(y) << 32), z.into()),
            Value::Text(text) => mix_bytes(self.shape, text),
            Value::Object(ObjectKind::CommandBuffer, _) if !self.has_commands => return,
            Value::Object(_, id) => shape(self.side.objects.get(id).map_or(0, |made| made.recipe)),
            Value::Function(executable, ordinal) => shape(self.side.function_key(executable, ordinal)),
            Value::Data(data) => {
                self.data = mix_bytes(self.data, data);
                return;
            }
            Value::Waits(list) | Value::Signals(list) => shape(list.len() as u64),
            // Stored or referred to, as the program chose.
            Value::Source(_) | Value::FileRead { .. } => return,
            Value::Created(kind, id) => {
                self.created = Some((kind, id));
                return;
            }
        };
    }
}
