//! A capture as records that are kept or left out together.

use std::collections::{BTreeMap, HashMap};

use rehal_base::{Error, Result};
use rehal_capture::{Capture, CaptureBytes, OpenOptions, PayloadType, Record, RecordType};
use rehal_hal::{CreateOp, HostOp, Op, QueueOp, Submission};
use rehal_replay::{Ids, decode};

/// The kind of a part, which decides when it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PartKind {
    /// A record without an operation: a query, a call that failed, a digest.
    Note,
    /// The creation of an object: kept while something names it.
    Object,
    /// A submission that is not an allocation.
    Submission,
    /// A command.
    Command,
    /// The host's accesses to memory, and its other calls.
    Host,
    /// The begin and the end of a scope.
    Scope,
}

/// Records that are kept or left out together.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub kind: PartKind,
    /// Their indices, in order.
    pub records: Vec<u32>,
}

/// The role of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Note,
    /// Creates the object.
    Create(u64),
    /// Describes an object that another record creates.
    Described(u64),
    /// Begins or ends a command buffer.
    Recording(u64),
    Command(u64),
    Submission,
    Host,
}

/// An entered scope: the records of its begin and end.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopeSpan {
    pub begin: u32,
    pub end: u32,
}

/// A capture, taken apart.
pub(super) struct Program<'a> {
    pub records: Vec<Record<'a>>,
    pub roles: Vec<Role>,
    pub parts: Vec<Part>,
    /// The part of each record.
    pub part_of: Vec<u32>,
    /// The part that creates each object.
    pub creators: HashMap<u64, u32>,
    /// The records that execute each command buffer.
    pub executions: HashMap<u64, Vec<u32>>,
    /// The commands of each command buffer, as records.
    pub commands: HashMap<u64, Vec<u32>>,
    /// The submissions that signal each semaphore, by value.
    pub signals: HashMap<u64, BTreeMap<u64, u32>>,
    /// Outer ones before inner ones.
    pub scopes: Vec<ScopeSpan>,
    /// The records of devices.
    pub devices: Vec<u32>,
}

impl<'a> Program<'a> {
    /// Takes a capture apart that a plan has been compiled from.
    pub fn from_capture(bytes: &'a CaptureBytes, recover: bool) -> Result<Self> {
        let capture: Capture<'a> = bytes.open(OpenOptions { recover })?;
        let mut this = Self {
            records: Vec::new(),
            roles: Vec::new(),
            parts: Vec::new(),
            part_of: Vec::new(),
            creators: HashMap::new(),
            executions: HashMap::new(),
            commands: HashMap::new(),
            signals: HashMap::new(),
            scopes: Vec::new(),
            devices: Vec::new(),
        };
        let mut pairs = Pairs::default();
        for record in capture.records() {
            let record = record?;
            // The writer adds its own.
            if matches!(record.payload_type(), PayloadType::CHECKSUMMED | PayloadType::CHECKSUMS)
                && record.record_type() == RecordType::SESSION
            {
                continue;
            }
            let index = u32::try_from(this.records.len())
                .map_err(|_| Error::resource_exhausted("a capture of more than 2^32 records"))?;
            this.records.push(record);
            this.add(index, &record, &mut pairs)?;
        }
        this.scopes.sort_by_key(|it| (it.begin, std::cmp::Reverse(it.end)));
        Ok(this)
    }

    /// The operation of a record that has one.
    pub fn op(&self, index: u32) -> Result<Option<Op<Ids<'a>>>> {
        decode(&self.records[index as usize])
    }

    fn add(&mut self, index: u32, record: &Record<'a>, pairs: &mut Pairs<'a>) -> Result<()> {
        let (role, kind) = match decode(record)? {
            None if record.record_type() == RecordType::OBJECT => {
                let id = record.header.object_id.get();
                match self.creators.get(&id) {
                    Some(part) => return self.join(index, Role::Described(id), *part),
                    None => (Role::Note, PartKind::Note),
                }
            }
            None | Some(Op::Info(_)) => (Role::Note, PartKind::Note),
            Some(Op::Command { into, .. }) => {
                self.commands.entry(into).or_default().push(index);
                (Role::Command(into), PartKind::Command)
            }
            Some(Op::Queue(submission)) => self.add_submission(index, &submission),
            Some(Op::Host(op)) => match self.host_op(index, &op, pairs) {
                Added::New(role, kind) => (role, kind),
                Added::Joined(role, part) => return self.join(index, role, part),
            },
        };
        let part = self.parts.len() as u32;
        if let Role::Create(id) = role {
            self.creators.insert(id, part);
        }
        self.parts.push(Part { kind, records: vec![index] });
        self.part_of.push(part);
        self.roles.push(role);
        Ok(())
    }

    fn join(&mut self, index: u32, role: Role, part: u32) -> Result<()> {
        self.parts[part as usize].records.push(index);
        self.part_of.push(part);
        self.roles.push(role);
        Ok(())
    }

    fn add_submission(&mut self, index: u32, it: &Submission<Ids<'a>>) -> (Role, PartKind) {
        for signal in it.signals {
            let values = self.signals.entry(signal.semaphore_id.get()).or_default();
            values.insert(signal.value.get(), index);
        }
        match it.op {
            QueueOp::Alloca { created, .. } => (Role::Create(created), PartKind::Object),
            QueueOp::Execute { command_buffer, .. } => {
                self.executions.entry(command_buffer).or_default().push(index);
                (Role::Submission, PartKind::Submission)
            }
            _ => (Role::Submission, PartKind::Submission),
        }
    }

    fn host_op(&mut self, index: u32, op: &HostOp<Ids<'a>>, pairs: &mut Pairs<'a>) -> Added {
        let next = self.parts.len() as u32;
        if let HostOp::Create(CreateOp::Device { .. }) = op {
            self.devices.push(index);
        }
        match *op {
            HostOp::Create(ref op) => Added::New(Role::Create(created(op)), PartKind::Object),
            HostOp::BeginCommandBuffer { command_buffer } | HostOp::EndCommandBuffer { command_buffer } => {
                let role = Role::Recording(command_buffer);
                match self.creators.get(&command_buffer) {
                    Some(part) => Added::Joined(role, *part),
                    None => Added::New(role, PartKind::Host),
                }
            }
            HostOp::Map(range) => {
                let key = (range.buffer, range.offset, range.length);
                pairs.maps.entry(key).or_default().push(next);
                Added::New(Role::Host, PartKind::Host)
            }
            HostOp::Unmap(range, _) => {
                let key = (range.buffer, range.offset, range.length);
                match pairs.maps.get_mut(&key).and_then(Vec::pop) {
                    Some(part) => Added::Joined(Role::Host, part),
                    None => Added::New(Role::Host, PartKind::Host),
                }
            }
            HostOp::ScopeBegin { name } => {
                pairs.scopes.push((name, index, next));
                Added::New(Role::Host, PartKind::Scope)
            }
            HostOp::ScopeEnd { name } => match pairs.scopes.iter().rposition(|it| it.0 == name) {
                Some(open) => {
                    let (_, begin, part) = pairs.scopes.remove(open);
                    self.scopes.push(ScopeSpan { begin, end: index });
                    Added::Joined(Role::Host, part)
                }
                None => Added::New(Role::Host, PartKind::Scope),
            },
            HostOp::Invalidate(_)
            | HostOp::Flush(..)
            | HostOp::FlushQueue { .. }
            | HostOp::Trim { .. }
            | HostOp::TrimAllocator { .. } => Added::New(Role::Host, PartKind::Host),
        }
    }
}

enum Added {
    New(Role, PartKind),
    /// Belongs to an earlier part.
    Joined(Role, u32),
}

/// The calls that have begun and not ended.
#[derive(Default)]
struct Pairs<'a> {
    /// The parts of mappings, by buffer, offset and length.
    maps: HashMap<(u64, u64, u64), Vec<u32>>,
    /// The name, record and part of each open scope.
    scopes: Vec<(&'a [u8], u32, u32)>,
}

fn created(op: &CreateOp<Ids<'_>>) -> u64 {
    match *op {
        CreateOp::Device { created }
        | CreateOp::Allocator { created, .. }
        | CreateOp::Semaphore { created, .. }
        | CreateOp::CommandBuffer { created, .. }
        | CreateOp::Event { created, .. }
        | CreateOp::ExecutableCache { created, .. }
        | CreateOp::Buffer { created, .. }
        | CreateOp::ImportedBuffer { created, .. } => created,
        CreateOp::Executable(ref op) => op.created,
        CreateOp::File(ref op) => op.created,
    }
}
