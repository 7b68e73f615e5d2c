//! Issues the operations of a slice by themselves.

use std::collections::BTreeSet;

use bumpalo::Bump;
use rehal_base::{Error, Result};
use rehal_hal::{
    BufferParams, BufferRef, BufferUsage, Command, CommandBufferMode, CommandBufferParams, CreateOp, Device,
    HostOp, Indexed, MemoryAccess, MemoryType, PrepareExecutable, QUEUE_AFFINITY_ANY, QueueOp, Semaphore,
    SemaphoreFlags, Submission, transfer,
};

use super::collect::{Collector, Content};
use super::cut::{Found, Item};
use crate::plan::ObjectKind;
use crate::run::{LiveNames, Objects};
use crate::{Plan, Replay};

/// Value of a byte before the slice.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    /// Its own.
    Captured,
    /// None: memory is as the device allocates it.
    Nothing,
    /// This one.
    Pattern(u8),
}

/// The objects that the operations of a slice name, by index.
struct Needs {
    executables: BTreeSet<u32>,
    events: BTreeSet<u32>,
    command_buffers: BTreeSet<u32>,
}

/// A run of a slice.
struct Issue<'r> {
    plan: &'r Plan,
    found: &'r Found,
    collected: &'r Collector<'r>,
    devices: &'r [Device],
    objects: Objects,
    /// Every submission waits for the previous one.
    timeline: Semaphore,
    now: u64,
}

impl Replay {
    /// Creates the objects of a slice on `devices`, writes the contents, issues the operations between the calls of `scope`,
    /// and reads the outputs. `fill` is called for each of the contents.
    pub(super) fn issue(
        &self,
        devices: &[Device],
        found: &Found,
        collected: &Collector<'_>,
        fill: &dyn Fn(usize) -> Fill,
        scope: &dyn Fn(bool) -> Result<()>,
    ) -> Result<Vec<Vec<u8>>> {
        let plan = &**self.plan();
        let needs = Needs::of(plan, &found.items);
        let used = self.used_devices(found, collected);
        let Some(first) = used.first() else {
            return Err(Error::failed_precondition("a slice needs a device"));
        };
        let timeline =
            devices[*first as usize].create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::default())?;
        let objects = Objects::new(&plan.counts);
        let mut issue = Issue { plan, found, collected, devices, objects, timeline, now: 0 };
        issue.create(self, &needs)?;
        for (index, content) in collected.contents.iter().enumerate() {
            issue.write(content, fill(index))?;
        }
        scope(true)?;
        let outcome = issue.all();
        scope(false)?;
        outcome?;
        collected.outputs.iter().map(|output| issue.read(output)).collect()
    }
}

impl Replay {
    /// The devices that a slice uses, by index.
    pub(super) fn used_devices(&self, found: &Found, collected: &Collector<'_>) -> BTreeSet<u32> {
        let plan = &**self.plan();
        let needs = Needs::of(plan, &found.items);
        let buffers: BTreeSet<u32> = collected.buffers().collect();
        let mut devices = BTreeSet::new();
        for item in &found.items {
            if let Item::Submission(submission, _) | Item::Command { submission, .. } = *item {
                devices.insert(plan.submissions[submission as usize].device);
            }
        }
        for op in &plan.host_ops {
            let HostOp::Create(op) = op else { continue };
            match *op {
                CreateOp::Executable(ref op) if needs.executables.contains(&op.created) => {
                    devices.insert(op.cache);
                }
                CreateOp::Event { device, created, .. } if needs.events.contains(&created) => {
                    devices.insert(device);
                }
                CreateOp::Buffer { allocator, created, .. }
                | CreateOp::ImportedBuffer { allocator, created, .. }
                    if buffers.contains(&created) =>
                {
                    devices.insert(allocator);
                }
                _ => {}
            }
        }
        for submission in &plan.submissions {
            if let QueueOp::Alloca { created, .. } = submission.op
                && buffers.contains(&created)
            {
                devices.insert(submission.device);
            }
        }
        devices
    }
}

impl Needs {
    fn of(plan: &Plan, items: &[Item]) -> Self {
        let mut needs =
            Self { executables: BTreeSet::new(), events: BTreeSet::new(), command_buffers: BTreeSet::new() };
        let mut all_commands = None;
        for item in items {
            match *item {
                Item::HostWrite(..) => {}
                Item::Command { submission, command, .. } => {
                    if let QueueOp::Execute { command_buffer, .. } = plan.submissions[submission as usize].op
                    {
                        needs.command_buffers.insert(command_buffer);
                    }
                    needs.add(plan, &plan.commands[command as usize].1);
                }
                Item::Submission(index, _) => match plan.submissions[index as usize].op {
                    QueueOp::Execute { command_buffer, .. } => {
                        needs.command_buffers.insert(command_buffer);
                        let all_commands = all_commands.get_or_insert_with(|| plan.commands_by_buffer());
                        for (_, command) in &all_commands[command_buffer as usize] {
                            needs.add(plan, &plan.commands[*command as usize].1);
                        }
                    }
                    QueueOp::Dispatch(dispatch) => {
                        needs.executables.insert(dispatch.executable);
                    }
                    _ => {}
                },
            }
        }
        needs
    }

    fn add(&mut self, plan: &Plan, command: &Command<Indexed>) {
        crate::run::each_object(plan, command, |kind, index| match kind {
            ObjectKind::Executable => drop(self.executables.insert(index)),
            ObjectKind::Event => drop(self.events.insert(index)),
            _ => {}
        });
    }
}

impl<'r> Issue<'r> {
    /// Creates what the operations name, in the order of the capture.
    fn create(&mut self, replay: &Replay, needs: &Needs) -> Result<()> {
        let buffers: BTreeSet<u32> = self.collected.buffers().collect();
        for op in &self.plan.host_ops {
            let HostOp::Create(op) = op else { continue };
            match *op {
                CreateOp::Executable(ref op) if needs.executables.contains(&op.created) => {
                    self.prepare(replay, op)?;
                }
                CreateOp::Event { device, affinity, flags, created } if needs.events.contains(&created) => {
                    let event = self.devices[device as usize].create_event(affinity, flags)?;
                    self.objects.events[created as usize] = Some(event);
                }
                CreateOp::Buffer { allocator, params, size, created }
                | CreateOp::ImportedBuffer { allocator, params, size, created, .. }
                    if buffers.contains(&created) =>
                {
                    self.allocate(allocator, params, size, created)?;
                }
                _ => {}
            }
        }
        for submission in &self.plan.submissions {
            if let QueueOp::Alloca { params, size, created, .. } = submission.op
                && buffers.contains(&created)
            {
                self.allocate(submission.device, params, size, created)?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, replay: &Replay, op: &PrepareExecutable<Indexed>) -> Result<()> {
        let prepared = replay.prepare(op, &self.devices[op.cache as usize])?;
        self.objects.executables[op.created as usize] = Some(prepared);
        Ok(())
    }

    /// Allocates a buffer with its captured parameters, and mappable if the device can do that.
    fn allocate(&mut self, device: u32, params: BufferParams, size: u64, created: u32) -> Result<()> {
        let device = &self.devices[device as usize];
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
        let buffer = device.allocate_buffer(if is_granted { mappable } else { params }, size)?;
        self.objects.buffers[created as usize] = Some(buffer);
        Ok(())
    }

    fn write(&self, content: &Content, fill: Fill) -> Result<()> {
        let Some(buffer) = &self.objects.buffers[content.buffer as usize] else { return Ok(()) };
        match fill {
            Fill::Nothing => Ok(()),
            Fill::Captured => transfer::write(buffer, content.offset, &content.bytes),
            Fill::Pattern(byte) => transfer::write(buffer, content.offset, &vec![byte; content.bytes.len()]),
        }
    }

    fn read(&self, output: &Content) -> Result<Vec<u8>> {
        match &self.objects.buffers[output.buffer as usize] {
            Some(buffer) => transfer::to_vec(buffer, output.offset, output.bytes.len() as u64),
            None => Err(Error::not_found(format!("buffer {}", self.plan.buffer_ids[output.buffer as usize]))),
        }
    }

    fn all(&mut self) -> Result<()> {
        let commands = self.plan.commands_by_buffer();
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
                            let commands = &commands[*command_buffer as usize];
                            let commands: Vec<u32> = commands.iter().map(|(_, command)| *command).collect();
                            self.execute(submission, &commands)?;
                        }
                        QueueOp::Read { target, .. } => {
                            let reads = self.collected.file_reads.get(&location.ordinal);
                            for bytes in reads.into_iter().flatten() {
                                let (buffer, offset, _) = self.objects.resolve(target, &[])?;
                                if let Some(buffer) = &self.objects.buffers[buffer as usize] {
                                    transfer::write(buffer, offset, bytes)?;
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
            transfer::write(buffer, at.offset, data.of(self.plan.bytes()))?;
        }
        Ok(())
    }

    /// Executes commands in a command buffer without a binding table.
    fn execute(&mut self, submission: &Submission<Indexed>, commands: &[u32]) -> Result<()> {
        let QueueOp::Execute { command_buffer, bindings, flags } = submission.op else { return Ok(()) };
        let table: &[BufferRef<u32>] = bindings.of(&self.plan.lists.buffer_refs);
        let device = &self.devices[submission.device as usize];
        let params = self.params_of(command_buffer);
        let mode = params.mode - CommandBufferMode::ALLOW_INLINE_EXECUTION;
        let recorded =
            device.create_command_buffer(CommandBufferParams { mode, binding_capacity: 0, ..params })?;
        recorded.begin()?;
        let mut scratch = Bump::new();
        for command in commands {
            let mut names = LiveNames::of(self.plan, self.devices, &self.objects, &scratch).with_table(table);
            recorded.record(&self.plan.commands[*command as usize].1.rename(&mut names)?)?;
            scratch.reset();
        }
        recorded.end()?;
        let (wait, signal) = ([self.timeline.at(self.now)], [self.timeline.at(self.now + 1)]);
        let waits = if self.now == 0 { &[][..] } else { &wait[..] };
        device.queue(submission.affinity).wait(waits).signal(&signal).execute(&recorded, &[], flags)?;
        self.wait(submission)
    }

    fn submit(&mut self, submission: &Submission<Indexed>) -> Result<()> {
        let device = &self.devices[submission.device as usize];
        let scratch = Bump::new();
        let mut names = LiveNames::of(self.plan, self.devices, &self.objects, &scratch).with_table(&[]);
        let op = submission.op.rename(&mut names)?;
        let (wait, signal) = ([self.timeline.at(self.now)], [self.timeline.at(self.now + 1)]);
        let waits = if self.now == 0 { &[][..] } else { &wait[..] };
        device.queue(submission.affinity).wait(waits).signal(&signal).submit(op)?;
        self.wait(submission)
    }

    fn wait(&mut self, submission: &Submission<Indexed>) -> Result<()> {
        self.now += 1;
        self.devices[submission.device as usize].flush(submission.affinity)?;
        self.timeline.wait(self.now, None)
    }

    fn params_of(&self, command_buffer: u32) -> CommandBufferParams {
        let of = |op: &HostOp<Indexed>| match *op {
            HostOp::Create(CreateOp::CommandBuffer { params, created, .. }) if created == command_buffer => {
                Some(params)
            }
            _ => None,
        };
        // The plan has created it before it is executed.
        self.plan.host_ops.iter().find_map(of).unwrap_or(CommandBufferParams {
            mode: CommandBufferMode::empty(),
            categories: rehal_hal::CommandCategories::all(),
            affinity: QUEUE_AFFINITY_ANY,
            binding_capacity: 0,
        })
    }
}
