//! Issues the operations of a slice by themselves.

use std::collections::{BTreeSet, HashMap};

use bumpalo::Bump;
use rehal_base::{Error, OwnBytes, Range, Result};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, BufferUsage, Command, CommandBufferMode, CommandBufferParams, CreateOp,
    Device, Dispatch, File, HostFile, HostOp, Indexed, MemoryAccess, MemoryType, PrepareExecutable,
    QUEUE_AFFINITY_ANY, QueueAffinity, QueueOp, Submission, WatchAccesses, transfer,
};

use super::collect::{Collector, Content};
use super::cut::{Item, SlicePlan};
use super::pieces::{Piece, Source};
use super::references::References;
use super::shared::Shared;
use crate::Plan;
use crate::one_by_one::{self, OneByOne};
use crate::plan::ObjectKind;
use crate::run::{LiveNames, Objects};

/// Value of the bytes of a content before the slice.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    /// Its own.
    Captured,
    /// None: memory is as the device allocates it.
    Nothing,
    /// Others, which a kernel that reads them does not take for its own; there are two sets of them.
    Patterns(usize),
}

/// NaN in every floating-point type, and something else that is unlikely to be what was there.
const PATTERNS: [u8; 2] = [0xFF, 0x5A];

/// How many bytes have the same pattern.
const PATTERN_BYTES: usize = 16;

/// Patterns in place of bytes, each of which differs from what it replaces: what is not written can be told.
pub(super) fn patterns(bytes: &[u8], first: usize) -> Vec<u8> {
    let pattern = |at: usize, byte: u8| {
        let block = at / PATTERN_BYTES + first;
        let pattern = PATTERNS[block % PATTERNS.len()];
        if pattern == byte { PATTERNS[(block + 1) % PATTERNS.len()] } else { pattern }
    };
    bytes.iter().enumerate().map(|(at, byte)| pattern(at, *byte)).collect()
}

/// The objects that the operations of a slice name, by index.
struct Needs {
    executables: BTreeSet<u32>,
    events: BTreeSet<u32>,
    files: BTreeSet<u32>,
}

/// A run of a slice.
pub(super) struct IsolatedWork<'r> {
    shared: &'r Shared<'r>,
    plan: &'r Plan,
    found: &'r SlicePlan,
    collected: &'r Collector<'r>,
    devices: &'r [Device],
    objects: Objects,
    /// The device of each buffer, by index.
    homes: HashMap<u32, u32>,
    /// The external files that operations read, by index and device.
    files: HashMap<(u32, u32), File>,
    /// The buffers that are watched, by index; `None` if none is to be.
    watched: Option<Vec<(u32, Box<dyn WatchAccesses>)>>,
    /// The ranges of them that the operations accessed.
    pub accessed: HashMap<u32, Vec<Range>>,
    /// Every submission waits for the previous one.
    parts: OneByOne,
}

impl<'r> Shared<'r> {
    /// Creates the objects of a slice on `devices`.
    pub(super) fn isolate(
        &'r self,
        devices: &'r [Device],
        found: &'r SlicePlan,
        collected: &'r Collector<'r>,
    ) -> Result<IsolatedWork<'r>> {
        self.begin(devices, found, collected, None)
    }

    /// The same, with buffers that are watched, if the device can tell what is accessed.
    pub(super) fn isolate_watched(
        &'r self,
        devices: &'r [Device],
        found: &'r SlicePlan,
        collected: &'r Collector<'r>,
    ) -> Result<IsolatedWork<'r>> {
        self.begin(devices, found, collected, Some(Vec::new()))
    }

    fn begin(
        &'r self,
        devices: &'r [Device],
        found: &'r SlicePlan,
        collected: &'r Collector<'r>,
        watched: Option<Vec<(u32, Box<dyn WatchAccesses>)>>,
    ) -> Result<IsolatedWork<'r>> {
        let used = self.used_devices(found, collected);
        let Some(first) = used.first() else {
            return Err(Error::failed_precondition("a slice needs a device"));
        };
        let parts = OneByOne::chained(&devices[*first as usize], QUEUE_AFFINITY_ANY)?;
        let mut work = IsolatedWork {
            shared: self,
            plan: self.plan,
            found,
            collected,
            devices,
            objects: Objects::new(&self.plan.counts),
            homes: HashMap::new(),
            files: HashMap::new(),
            watched,
            accessed: HashMap::new(),
            parts,
        };
        work.create()?;
        Ok(work)
    }

    /// The devices that a slice uses, by index.
    pub(super) fn used_devices(&self, found: &SlicePlan, collected: &Collector<'_>) -> BTreeSet<u32> {
        let mut devices = BTreeSet::new();
        for item in &found.items {
            if let Item::Submission(submission, _) | Item::Command { submission, .. } = *item {
                devices.insert(self.plan.submissions[submission as usize].device);
            }
        }
        devices.extend(self.needed(found, collected).iter().map(|(device, _)| *device));
        devices
    }

    /// The objects that the operations of a slice name, each with its device, in the order of the capture.
    fn needed(&self, found: &SlicePlan, collected: &Collector<'_>) -> Vec<(u32, Needed<'_>)> {
        let needs = Needs::from_items(self, &found.items);
        let buffers: BTreeSet<u32> = collected.buffers().collect();
        let created = self.plan.host_ops.iter().filter_map(|op| {
            let HostOp::Create(op) = op else { return None };
            match *op {
                CreateOp::Executable(ref op) if needs.executables.contains(&op.created) => {
                    Some((op.cache, Needed::Executable(op)))
                }
                CreateOp::Event { device, affinity, flags, created } if needs.events.contains(&created) => {
                    Some((device, Needed::Event { affinity, flags, created }))
                }
                CreateOp::File(ref op) if needs.files.contains(&op.created) => {
                    Some((op.device, Needed::File))
                }
                CreateOp::Buffer { allocator, params, size, created }
                | CreateOp::ImportedBuffer { allocator, params, size, created, .. }
                    if buffers.contains(&created) =>
                {
                    Some((allocator, Needed::Buffer { params, size, created }))
                }
                _ => None,
            }
        });
        let allocated = self.plan.submissions.iter().filter_map(|submission| match submission.op {
            QueueOp::Alloca { params, size, created, .. } if buffers.contains(&created) => {
                Some((submission.device, Needed::Buffer { params, size, created }))
            }
            _ => None,
        });
        created.chain(allocated).collect()
    }
}

/// An object that the operations of a slice name.
enum Needed<'p> {
    Executable(&'p PrepareExecutable<Indexed>),
    Event {
        affinity: QueueAffinity,
        flags: u32,
        created: u32,
    },
    /// It is imported if the slice refers to it.
    File,
    Buffer {
        params: BufferParams,
        size: u64,
        created: u32,
    },
}

impl Needs {
    fn from_items(shared: &Shared<'_>, items: &[Item]) -> Self {
        let plan = shared.plan;
        let mut needs =
            Self { executables: BTreeSet::new(), events: BTreeSet::new(), files: BTreeSet::new() };
        for item in items {
            match *item {
                Item::HostWrite(..) => {}
                Item::Command { command, .. } => needs.add(plan, &plan.commands[command as usize].1),
                Item::Submission(index, _) => match plan.submissions[index as usize].op {
                    QueueOp::Execute { command_buffer, .. } => {
                        for (_, command) in &shared.commands[command_buffer as usize] {
                            needs.add(plan, &plan.commands[*command as usize].1);
                        }
                    }
                    QueueOp::Dispatch(dispatch) => needs.dispatch(&dispatch),
                    QueueOp::Read { file, .. } => {
                        needs.files.insert(file);
                    }
                    _ => {}
                },
            }
        }
        needs
    }

    fn add(&mut self, plan: &Plan, command: &Command<Indexed>) {
        if let Command::Dispatch(dispatch) = command {
            self.dispatch(dispatch);
        }
        crate::run::each_object(plan, command, |kind, index| {
            if kind == ObjectKind::Event {
                self.events.insert(index);
            }
        });
    }

    fn dispatch(&mut self, dispatch: &Dispatch<Indexed>) {
        self.executables.insert(dispatch.executable);
    }
}

impl<'r> IsolatedWork<'r> {
    /// Creates what the operations name, in the order of the capture.
    fn create(&mut self) -> Result<()> {
        for (index, needed) in self.shared.needed(self.found, self.collected) {
            let device = &self.devices[index as usize];
            match needed {
                Needed::Executable(op) => {
                    let prepared = self.shared.replay.prepare(op, device)?;
                    self.objects.executables[op.created as usize] = Some(prepared);
                }
                Needed::Event { affinity, flags, created } => {
                    self.objects.events[created as usize] = Some(device.create_event(affinity, flags)?);
                }
                Needed::File => {}
                Needed::Buffer { params, size, created } => self.allocate(index, params, size, created)?,
            }
        }
        Ok(())
    }

    /// Allocates a buffer with its captured parameters, and mappable if the device can do that.
    fn allocate(&mut self, index: u32, params: BufferParams, size: u64, created: u32) -> Result<()> {
        let device = &self.devices[index as usize];
        let params = params.canonical();
        let mappable = BufferParams {
            usage: params.usage | BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_ACCESS_RANDOM,
            memory_type: params.memory_type | MemoryType::HOST_VISIBLE,
            access: params.access | MemoryAccess::READ | MemoryAccess::WRITE,
            ..params
        };
        let is_granted = device
            .backend()
            .grant(mappable)
            .is_ok_and(|granted| granted.memory_type.contains(MemoryType::HOST_VISIBLE));
        let params = if is_granted { mappable } else { params };
        let buffer = match self.watch(device, params, size, created)? {
            Some(buffer) => buffer,
            None => device.allocate_buffer(params, size)?,
        };
        self.objects.buffers[created as usize] = Some(buffer);
        self.homes.insert(created, index);
        Ok(())
    }

    /// A buffer that is watched, if it is to be and can be.
    fn watch(
        &mut self,
        device: &Device,
        params: BufferParams,
        size: u64,
        created: u32,
    ) -> Result<Option<Buffer>> {
        let (Some(watched), Some(watch)) = (&mut self.watched, &self.shared.options.watch) else {
            return Ok(None);
        };
        Ok(watch(device, params, size)?.map(|it| {
            watched.push((created, it.accesses));
            it.buffer
        }))
    }

    /// Imports the files that operations read and slices may refer to; the others' bytes are stored.
    pub(super) fn import_files(&mut self, references: &References) -> Result<()> {
        for index in Needs::from_items(self.shared, &self.found.items).files {
            let Some(file) = references.files.get(&index) else { continue };
            let op = self.plan.host_ops.iter().find_map(|op| match op {
                HostOp::Create(CreateOp::File(op)) if op.created == index => Some(op),
                _ => None,
            });
            if let Some(op) = op {
                let device = op.device;
                self.objects.files[index as usize] = Some(self.import(index, device, file)?);
            }
        }
        Ok(())
    }

    fn import(&mut self, index: u32, device: u32, file: &std::fs::File) -> Result<File> {
        if let Some(file) = self.files.get(&(index, device)) {
            return Ok(file.clone());
        }
        let same =
            file.try_clone().map_err(|error| Error::io("duplicating the descriptor of a file", &error))?;
        let on = &self.devices[device as usize];
        let file = on.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, HostFile::Disk(same))?;
        self.files.insert((index, device), file.clone());
        Ok(file)
    }

    /// Puts what a piece contains into its buffer.
    pub(super) fn put(&mut self, piece: &Piece<'_>) -> Result<()> {
        let Some(buffer) = self.objects.buffers[piece.buffer as usize].clone() else { return Ok(()) };
        let (file, file_offset) = match piece.source {
            Source::Bytes(bytes) => return transfer::write(&buffer, piece.offset, bytes),
            Source::File { file, offset } => (file, offset),
        };
        let home = self.homes.get(&piece.buffer).copied().unwrap_or(0);
        let file = self.import(file, home, &self.shared.references()?.files[&file])?;
        let device = &self.devices[home as usize];
        let target = BufferRef::range(&buffer, piece.offset, piece.length);
        self.parts.perform(device, QUEUE_AFFINITY_ANY, |queue| queue.read(&file, file_offset, target, 0))
    }

    pub(super) fn write(&self, content: &Content, fill: Fill) -> Result<()> {
        let Some(buffer) = &self.objects.buffers[content.buffer as usize] else { return Ok(()) };
        match fill {
            Fill::Nothing => Ok(()),
            Fill::Captured => transfer::write_own(buffer, content.offset, &content.bytes),
            Fill::Patterns(first) => {
                transfer::write(buffer, content.offset, &patterns(&content.bytes, first))
            }
        }
    }

    fn read(&self, output: &Content) -> Result<OwnBytes> {
        match &self.objects.buffers[output.buffer as usize] {
            Some(buffer) => transfer::to_own(buffer, output.offset, output.bytes.len() as u64),
            None => Err(Error::not_found(format!("buffer {}", self.plan.buffer_ids[output.buffer as usize]))),
        }
    }

    /// Issues the operations between the calls of `scope`, and reads the outputs.
    pub(super) fn run(&mut self, scope: &dyn Fn(bool) -> Result<()>) -> Result<Vec<OwnBytes>> {
        scope(true)?;
        self.watched.iter().flatten().try_for_each(|(_, it)| it.watch())?;
        let outcome = self.all();
        for (buffer, accesses) in self.watched.iter().flatten() {
            self.accessed.insert(*buffer, accesses.accessed()?);
        }
        scope(false)?;
        outcome?;
        self.collected.outputs.iter().map(|output| self.read(output)).collect()
    }

    fn all(&mut self) -> Result<()> {
        for item in &self.found.items {
            match *item {
                Item::HostWrite(op, _) => self.host_write(op)?,
                Item::Command { submission, command, .. } => {
                    self.execute(&self.plan.submissions[submission as usize], &[command])?;
                }
                Item::Submission(index, location) => {
                    let submission = &self.plan.submissions[index as usize];
                    match &submission.op {
                        QueueOp::Execute { command_buffer, .. } => {
                            let commands = &self.shared.commands[*command_buffer as usize];
                            let commands: Vec<u32> = commands.iter().map(|(_, command)| *command).collect();
                            self.execute(submission, &commands)?;
                        }
                        QueueOp::Read { file, .. } if self.objects.files[*file as usize].is_some() => {
                            self.submit(submission)?;
                        }
                        QueueOp::Read { target, .. } => {
                            let reads = self.collected.file_reads.get(&location.ordinal);
                            for bytes in reads.into_iter().flatten() {
                                let (buffer, offset, _) = self.objects.resolve(target, &[])?;
                                if let Some(buffer) = &self.objects.buffers[buffer as usize] {
                                    transfer::write_own(buffer, offset, bytes)?;
                                }
                            }
                        }
                        // Its buffers exist throughout, and it writes no files.
                        QueueOp::Alloca { .. } | QueueOp::Dealloca { .. } | QueueOp::Write { .. } => {}
                        _ => self.submit(submission)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn host_write(&self, op: u32) -> Result<()> {
        if let HostOp::Unmap(at, Some(data)) | HostOp::Flush(at, Some(data)) = self.plan.host_ops[op as usize]
            && let Some(buffer) = &self.objects.buffers[at.buffer as usize]
        {
            let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & buffer.params().access);
            self.plan.write_data(buffer, access, Range { offset: at.offset, length: data.count }, data)?;
        }
        Ok(())
    }

    /// Executes commands in a command buffer without a binding table.
    fn execute(&mut self, submission: &Submission<Indexed>, commands: &[u32]) -> Result<()> {
        let QueueOp::Execute { command_buffer, bindings, flags } = submission.op else { return Ok(()) };
        let table: &[BufferRef<u32>] = bindings.of(&self.plan.lists.buffer_refs);
        let device = &self.devices[submission.device as usize];
        // The plan has created it before it is executed.
        let params = self.shared.params.get(&command_buffer).copied().unwrap_or_default();
        let mode = params.mode - CommandBufferMode::ALLOW_INLINE_EXECUTION;
        let params = CommandBufferParams { mode, binding_capacity: 0, ..params };
        let own = one_by_one::recorded(device, params, commands, |own, command, scratch| {
            let names = LiveNames::new(self.plan, self.devices, &self.objects, scratch);
            own.record(&self.plan.commands[*command as usize].1.rename(&mut names.with_table(table))?)
        })?;
        self.parts.perform(device, submission.affinity, |queue| queue.execute(&own, &[], flags))
    }

    fn submit(&mut self, submission: &Submission<Indexed>) -> Result<()> {
        let device = &self.devices[submission.device as usize];
        let scratch = Bump::new();
        let mut names = LiveNames::new(self.plan, self.devices, &self.objects, &scratch).with_table(&[]);
        let op = submission.op.rename(&mut names)?;
        self.parts.perform(device, submission.affinity, |queue| queue.submit(op).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::patterns;

    #[test]
    fn every_byte_of_a_pattern_differs_from_what_it_replaces() {
        let bytes: Vec<u8> = (0..2048).map(|at| (at / 8) as u8).collect();
        for first in 0..2 {
            let patterns = patterns(&bytes, first);
            assert!(
                patterns.len() == bytes.len() && patterns.iter().zip(&bytes).all(|(one, other)| one != other)
            );
            assert_eq!(patterns[0], super::PATTERNS[first]);
        }
    }
}
