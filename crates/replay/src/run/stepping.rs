//! Replays that perform operations one by one, with calls of observers between them.
//!
//! A run with such an observer (`Observer::wants_operations`) is serialized. Command buffers are recorded as
//! always, so that commands are refused as always, and a wanted submission is performed in pieces: each
//! command is recorded into a command buffer of its own with the same parameters, and executed with the
//! submission's binding table. It is not issued as a queue operation, since unvalidated command buffers allow
//! what queues refuse. The waits precede the first command and the signals follow the last. Command buffers
//! are never executed inline.
//!
//! Commands that no observer wants (`wants_command`) are executed together, with their barriers, and other
//! submissions are issued whole, so that a run up to a place costs what a replay costs. An allocation is
//! issued in place, since others name its buffer. Objects that commands name live as long as their command
//! buffer, since the commands are recorded more than once.

use std::ops::ControlFlow;

use bumpalo::Bump;
use rehal_base::{Error, Result};
use rehal_hal::{
    BufferRef, Command, CommandBuffer, Indexed, QueueOp, Rename, Submission, WORKGROUP_COUNT_BYTES,
    WorkgroupCount, transfer, wait_all,
};

use super::Run;
use super::live_names::LiveNames;
use super::objects::get;
use super::stepping_state::Stepping;
use crate::Observer;
use crate::effects::{Effect, Footprints};
use crate::flight::Issue;
use crate::one_by_one::{OneByOne, Walker, recorded, walk};
use crate::operation::{
    AccessedRange, DispatchOperation, ExecutableCode, LiveBuffers, Operation, Performer, RunningFunction,
};
use crate::plan::{Completion, RecordLocation};

/// An operation with its arguments: objects by index, and all references resolved to ranges of buffers.
struct Resolved {
    submission: RecordLocation,
    location: RecordLocation,
    occurrence: u64,
    device: u32,
    op: QueueOp<Indexed>,
    workgroup_count: [u32; 3],
    ranges: Vec<Range>,
}

struct Range {
    buffer: u32,
    offset: u64,
    length: u64,
    effect: Effect,
}

/// A submission that is performed one operation at a time.
struct Stepped<'s> {
    submission: &'s Submission<Indexed>,
    location: RecordLocation,
    observers: &'s [usize],
}

/// The commands of a submission, which are performed one at a time.
struct Commands<'c, 'r, 'o, 'b> {
    run: &'c mut Run<'r, 'o, 'b>,
    stepping: &'c Stepping<'r>,
    stepped: &'c Stepped<'c>,
    occurrence: u64,
    table: &'c [BufferRef<u32>],
    parts: OneByOne,
}

impl<'r, 'o, 'b> Walker for Commands<'_, 'r, 'o, 'b> {
    type Item = (RecordLocation, u32);

    fn command<'i>(&'i self, (_, index): &'i Self::Item) -> &'i Command<Indexed> {
        &self.run.plan.commands[*index as usize].1
    }

    /// Whether an observer of the submission wants the command, which must be an operation.
    fn is_single(&mut self, item: &Self::Item) -> bool {
        let is_operation = self.command(item).as_queue_op().is_some();
        let mut wants = false;
        // Each is asked.
        for observer in self.stepped.observers {
            wants |= is_operation && self.run.observers[*observer].wants_command(item.0, self.occurrence);
        }
        wants
    }

    fn together(&mut self, items: &[Self::Item]) -> Result<()> {
        self.run.run_commands(self.stepped.submission, items, &mut self.parts)
    }

    fn single(&mut self, item: &Self::Item) -> Result<ControlFlow<()>> {
        let op = self.command(item).as_queue_op().unwrap_or(QueueOp::Barrier { flags: 0 });
        let Self { run, stepping, stepped, table, parts, .. } = self;
        let (location, plan) = (item.0, run.plan);
        let perform = |run: &mut Run<'r, 'o, 'b>| {
            run.command_step(stepping, location)?;
            run.run_commands(stepped.submission, std::slice::from_ref(item), parts)?;
            run.command_step(stepping, stepped.location)
        };
        let flow = run.step_one(stepping, stepped, (location, self.occurrence), op, table, perform);
        flow.map_err(|error| plan.locate(error, location))
    }
}

impl<'r> Run<'r, '_, '_> {
    /// Issues a submission, or performs its operations one by one if an observer wants them.
    pub(super) fn submit_stepping(
        &mut self,
        stepping: &mut Stepping<'r>,
        index: u32,
        runs: bool,
        location: RecordLocation,
        scratch: &Bump,
    ) -> Result<ControlFlow<()>> {
        let submission = &self.plan.submissions[index as usize];
        let mut observers = stepping.observers.clone();
        observers.retain(|observer| self.observers[*observer].wants_submission(location));
        if !runs {
            // Others may name the buffer before it can be allocated.
            if observers.is_empty() || matches!(submission.op, QueueOp::Alloca { .. }) {
                self.issue(index, false, location, scratch)?;
            }
            if !observers.is_empty() {
                stepping.deferred.insert(index, observers);
            }
            return Ok(ControlFlow::Continue(()));
        }
        if observers.is_empty() {
            self.issue(index, true, location, scratch)?;
            stepping.count(submission);
            return Ok(ControlFlow::Continue(()));
        }
        let stepped = Stepped { submission, location, observers: &observers };
        self.step(stepping, &stepped, scratch, |run| run.issue(index, true, location, scratch))
    }

    /// Completes a deferred submission, which can run now.
    pub(super) fn complete_stepping(
        &mut self,
        stepping: &mut Stepping<'r>,
        completion: &Completion,
        scratch: &Bump,
    ) -> Result<ControlFlow<()>> {
        let Completion { submission: index, location, .. } = *completion;
        let submission = &self.plan.submissions[index as usize];
        let Some(observers) = stepping.deferred.remove(&index) else {
            self.flight.complete(index)?;
            stepping.count(submission);
            return Ok(ControlFlow::Continue(()));
        };
        let stepped = Stepped { submission, location, observers: &observers };
        let is_issued = matches!(submission.op, QueueOp::Alloca { .. });
        self.step(stepping, &stepped, scratch, |run| match is_issued {
            true => run.flight.complete(index),
            false => run.issue(index, true, location, scratch),
        })
    }

    /// Performs the operations of a submission that can run: its commands, or itself with `perform`.
    fn step(
        &mut self,
        stepping: &mut Stepping<'r>,
        stepped: &Stepped<'_>,
        scratch: &Bump,
        perform: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<ControlFlow<()>> {
        let submission = stepped.submission;
        if let QueueOp::Execute { command_buffer, .. } = submission.op {
            let is_operation =
                |command: &u32| self.plan.commands[*command as usize].1.as_queue_op().is_some();
            let commands = &stepping.commands[command_buffer as usize];
            if !commands.iter().any(|(_, command)| is_operation(command)) {
                stepping.count(submission);
                return perform(self).map(ControlFlow::Continue);
            }
            let flow = self.step_commands(stepping, stepped, scratch)?;
            stepping.count(submission);
            return Ok(flow);
        }
        self.step_one(stepping, stepped, (stepped.location, 0), submission.op, &[], perform)
    }

    /// Performs the commands of a command buffer, between the waits and the signals of its submission.
    fn step_commands(
        &mut self,
        stepping: &mut Stepping<'r>,
        stepped: &Stepped<'_>,
        scratch: &Bump,
    ) -> Result<ControlFlow<()>> {
        let Stepped { submission, location, .. } = *stepped;
        let QueueOp::Execute { command_buffer, .. } = submission.op else {
            return Ok(ControlFlow::Continue(()));
        };
        let occurrence = stepping.execution_counts[command_buffer as usize];
        let commands = std::mem::take(&mut stepping.commands[command_buffer as usize]);
        let outcome = self.step_each(stepping, stepped, &commands, occurrence, scratch);
        stepping.commands[command_buffer as usize] = commands;
        let mut names =
            LiveNames::new(self.plan, self.replay.devices.devices(), &self.state.objects, scratch);
        let signals = names.timepoints(submission.signals)?;
        let flow = outcome.inspect_err(|error| {
            signals.iter().for_each(|signal| signal.semaphore.fail(error.clone()));
        })?;
        if flow.is_continue() && !signals.is_empty() {
            let device = &self.replay.devices.devices()[submission.device as usize];
            device.queue(submission.affinity).signal(signals).barrier(0)?;
            self.flight.issued(&Issue {
                device: submission.device,
                affinity: submission.affinity,
                signals,
                planned_signals: submission.signals.of(&self.plan.lists.timepoints),
                location,
                deferred: None,
            })?;
        }
        Ok(flow)
    }

    /// Performs commands one by one, after the waits of their submission.
    fn step_each(
        &mut self,
        stepping: &Stepping<'r>,
        stepped: &Stepped<'_>,
        commands: &[(RecordLocation, u32)],
        occurrence: u64,
        scratch: &Bump,
    ) -> Result<ControlFlow<()>> {
        let submission = stepped.submission;
        let QueueOp::Execute { bindings: table, .. } = submission.op else {
            return Ok(ControlFlow::Continue(()));
        };
        wait_all(self.names(scratch).timepoints(submission.waits)?, None)?;
        let parts = OneByOne::new(self.device(submission.device), submission.affinity)?;
        let table = table.of(&self.plan.lists.buffer_refs);
        walk(&mut Commands { run: self, stepping, stepped, occurrence, table, parts }, commands)
    }

    /// Tells the observers that want steps of a record that is performed next.
    fn command_step(&mut self, stepping: &Stepping<'r>, location: RecordLocation) -> Result<()> {
        stepping.steps.iter().try_for_each(|&index| self.observers[index].command_step(location))
    }

    /// Executes commands in a command buffer of their own, with the binding table of their submission, and
    /// waits.
    fn run_commands(
        &self,
        submission: &Submission<Indexed>,
        commands: &[(RecordLocation, u32)],
        parts: &mut OneByOne,
    ) -> Result<()> {
        let QueueOp::Execute { command_buffer, bindings, flags } = submission.op else { return Ok(()) };
        let device = self.device(submission.device);
        let whole: &CommandBuffer = get(&self.state.objects.command_buffers, command_buffer)?;
        let own = recorded(device, *whole.params(), commands, |own, (location, index), scratch| {
            let command = self.plan.commands[*index as usize].1;
            let recorded = command.rename(&mut self.names(scratch)).and_then(|command| own.record(&command));
            recorded.map_err(|error| self.plan.locate(error, *location))
        })?;
        let scratch = Bump::new();
        let bindings = self.names(&scratch).buffer_refs(bindings)?;
        parts.perform(device, submission.affinity, |queue| queue.execute(&own, bindings, flags))
    }

    /// Performs one operation, with the calls of observers before and after it.
    fn step_one(
        &mut self,
        stepping: &Stepping<'r>,
        stepped: &Stepped<'_>,
        (location, occurrence): (RecordLocation, u64),
        op: QueueOp<Indexed>,
        table: &[BufferRef<u32>],
        perform: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<ControlFlow<()>> {
        let resolved = match self.resolve(stepping, &op, table) {
            Ok((ranges, workgroup_count)) => Resolved {
                submission: stepped.location,
                location,
                occurrence,
                device: stepped.submission.device,
                op,
                workgroup_count,
                ranges,
            },
            // The device refuses it as well, with its own error.
            Err(error) => return perform(self).and(Err(error)),
        };
        if self.notify(stepped, &resolved, |it, operation| it.before_operation(operation))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        perform(self)?;
        if let QueueOp::Alloca { created, .. } = op {
            let buffer = get(&self.state.objects.buffers, created)?.clone();
            self.allocated(created, &buffer)?;
        }
        self.notify(stepped, &resolved, |it, operation| it.after_operation(operation))
    }

    /// The ranges that an operation may access, and its workgroup count.
    fn resolve(
        &self,
        stepping: &Stepping<'r>,
        op: &QueueOp<Indexed>,
        table: &[BufferRef<u32>],
    ) -> Result<(Vec<Range>, [u32; 3])> {
        let mut ranges: Vec<Result<Range>> = Vec::new();
        if let QueueOp::Alloca { created: buffer, .. } | QueueOp::Dealloca { buffer, .. } = *op {
            let length = stepping.footprints.size(buffer);
            ranges.push(Ok(Range { buffer, offset: 0, length, effect: Effect::Write }));
        }
        Footprints::each_reference(self.plan, op, |reference, effect| {
            ranges.push(self.state.objects.resolve(reference, table).map(|(buffer, offset, length)| Range {
                buffer,
                offset,
                length,
                effect: stepping.footprints.effect_on(buffer, effect),
            }));
        });
        let ranges = ranges.into_iter().collect::<Result<Vec<_>>>()?;
        let workgroup_count = match op {
            QueueOp::Dispatch(dispatch) => match dispatch.workgroup_count {
                WorkgroupCount::Static(count) => count,
                WorkgroupCount::Indirect(_) => self.workgroup_count(ranges.last())?,
            },
            _ => [0; 3],
        };
        Ok((ranges, workgroup_count))
    }

    fn workgroup_count(&self, range: Option<&Range>) -> Result<[u32; 3]> {
        let range = range.filter(|range| range.length == WORKGROUP_COUNT_BYTES).ok_or_else(|| {
            Error::out_of_range(format!("an indirect workgroup count needs {WORKGROUP_COUNT_BYTES} bytes"))
        })?;
        let mut bytes = [0; WORKGROUP_COUNT_BYTES as usize];
        transfer::read(get(&self.state.objects.buffers, range.buffer)?, range.offset, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok([0, 1, 2].map(|at| u32::from_le_bytes(words[at])))
    }

    /// Calls the observers of a submission.
    fn notify(
        &mut self,
        stepped: &Stepped<'_>,
        resolved: &Resolved,
        mut call: impl FnMut(&mut dyn Observer, &Operation<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let objects = &self.state.objects;
        let mut ranges = Vec::with_capacity(resolved.ranges.len());
        for range in &resolved.ranges {
            let Range { buffer: index, offset, length, effect } = *range;
            // One that is not allocated yet has no bytes.
            if let Some(buffer) = &objects.buffers[index as usize] {
                let buffer_id = self.plan.buffer_ids[index as usize];
                ranges.push(AccessedRange { access: effect.into(), buffer_id, buffer, offset, length });
            }
        }
        let dispatch = match &resolved.op {
            QueueOp::Dispatch(it) => {
                let all = get(&objects.executables, it.executable)?;
                let (prepared, function) = all.function(it.function);
                let executable = self.plan.executables[it.executable as usize].record(self.bytes);
                let code = match all.replacement(it.function) {
                    Some(code) => ExecutableCode { format: code.format.as_bytes(), data: code.data() },
                    None => ExecutableCode { format: executable.format, data: executable.data },
                };
                let info = prepared.function(function)?;
                Some(DispatchOperation {
                    executable,
                    function: it.function,
                    name: &info.name,
                    running: Some(RunningFunction { prepared, info, ordinal: function, code }),
                    workgroup_count: resolved.workgroup_count,
                    is_indirect: matches!(it.workgroup_count, WorkgroupCount::Indirect(_)),
                    workgroup_size: it.workgroup_size,
                    dynamic_local_memory: it.dynamic_local_memory,
                    constants: it.constants.of(self.bytes),
                    binding_count: it.bindings.of(&self.plan.lists.buffer_refs).len(),
                })
            }
            _ => None,
        };
        let operation = Operation {
            submission: resolved.submission,
            location: resolved.location,
            occurrence: resolved.occurrence,
            scope: self.state.open_scopes.last().map(|name| name.of(self.bytes)),
            device: resolved.device as usize,
            kind: resolved.op.kind(),
            dispatch,
            ranges: &ranges,
            buffers: LiveBuffers { ids: &self.plan.buffer_ids, buffers: &objects.buffers },
            performer: Performer::Device(&self.replay.devices.devices()[resolved.device as usize]),
        };
        self.observers.iter_mut().for_each(|it| it.pause_timing());
        let mut flow = Ok(ControlFlow::Continue(()));
        for observer in stepped.observers {
            match call(&mut *self.observers[*observer], &operation) {
                Ok(ControlFlow::Continue(())) => {}
                other => flow = flow.and(other),
            }
        }
        self.observers.iter_mut().for_each(|it| it.resume_timing());
        flow
    }
}
