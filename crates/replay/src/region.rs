//! A part of a plan that is repeated by itself: what it creates, deallocates, signals, reads and writes.
//!
//! The walk derives what a repetition needs: the bytes that the scope may write and read and does not create,
//! the semaphores that it signals, and the buffers that it deallocates; or why the scope cannot be repeated.
//! A run continues from a `State` (objects and open scopes): the first run ends at the scope, and each
//! repetition is a run of its steps that releases only what these steps create.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use rehal_base::{Error, Range as ByteRange, Result};
use rehal_hal::{CreateOp, FileContents, HostOp, Indexed, QueueOp};

use crate::Plan;
use crate::effects::{Access, Effect, Footprint, Footprints, merged, without};
use crate::plan::{OBJECT_KINDS, ObjectKind, RecordLocation, Release, StepOp};
use crate::scopes::Entry;

/// Maximum number of ranges of a command buffer's accesses; more are approximated.
const MAX_RANGES: usize = 1 << 16;

/// The steps from the first begin of a scope to its last end.
///
/// It can be repeated if everything that it changes can be put back: its objects are created again by the
/// repetition, semaphores and deallocated buffers by [`Region::semaphores`] and [`Region::deallocated`],
/// bytes by [`Region::restored`].
#[derive(Debug)]
pub(crate) struct Region {
    pub steps: Range<u32>,
    /// The number of submissions that are runnable before it.
    pub position: u32,
    /// Whether it creates an object, by kind and index.
    is_created: [Vec<bool>; OBJECT_KINDS],
    /// The objects that it creates.
    pub created: Vec<Release>,
    /// Semaphores that it signals and does not create.
    pub semaphores: Vec<Restart>,
    /// Buffers that it deallocates and does not create.
    pub deallocated: Vec<Restart>,
    /// Bytes of objects that it does not create, which it may both change and read, and all that it reads of
    /// buffers that it deallocates.
    pub restored: Vec<Bytes>,
}

/// An object that exists before a region and is created again for each repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart {
    pub index: u32,
    /// The operation that creates it.
    pub origin: StepOp,
    pub location: RecordLocation,
    /// For a semaphore, its payload before the region.
    pub payload: u64,
}

/// Bytes of a buffer or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes {
    pub holder: Holder,
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    Buffer(u32),
    /// The first file with these bytes: files with one path share them.
    File(u32),
}

impl Region {
    /// The region from the first of the entries of a scope to the last. Fails if it cannot be repeated by
    /// itself.
    pub(crate) fn from_plan(plan: &Plan, entries: &[Entry]) -> Result<Self> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Err(Error::not_found("the capture has no scope of that name"));
        };
        let mut walk = Walk::new(plan, first.begin..last.end + 1);
        walk.all()?;
        walk.finish()
    }

    /// Whether it creates the object.
    pub(crate) fn creates(&self, object: Release) -> bool {
        self.is_created[object.kind as usize][object.index as usize]
    }
}

/// A walk over the steps of a plan up to the end of a region.
struct Walk<'p> {
    plan: &'p Plan,
    footprints: Footprints<'p>,
    footprint: Footprint,
    step: u32,
    /// The objects that are created so far.
    origins: [HashMap<u32, (StepOp, RecordLocation)>; OBJECT_KINDS],
    /// The payload of each semaphore before the region.
    payloads: Vec<u64>,
    /// The steps of deferred submissions that cannot run yet.
    deferred: HashMap<u32, u32>,
    /// Command buffers that the region executes and does not create, with the record of the first execution.
    executed: BTreeMap<u32, RecordLocation>,
    region: Region,
    /// Semaphores and buffers that are in the lists of the region.
    is_listed: [Vec<bool>; 2],
    reads: RangeSet,
    writes: RangeSet,
    /// Whether the region may access any byte.
    is_unbounded: bool,
}

impl<'p> Walk<'p> {
    fn new(plan: &'p Plan, steps: Range<u32>) -> Self {
        let flags = |kind: usize| vec![false; plan.counts[kind] as usize];
        let region = Region {
            steps,
            position: 0,
            is_created: std::array::from_fn(flags),
            created: Vec::new(),
            semaphores: Vec::new(),
            deallocated: Vec::new(),
            restored: Vec::new(),
        };
        Self {
            plan,
            footprints: Footprints::new(plan, MAX_RANGES),
            footprint: Footprint::default(),
            step: 0,
            origins: Default::default(),
            payloads: vec![0; plan.counts[ObjectKind::Semaphore as usize] as usize],
            deferred: HashMap::new(),
            executed: BTreeMap::new(),
            region,
            is_listed: [flags(ObjectKind::Buffer as usize), flags(ObjectKind::Semaphore as usize)],
            reads: RangeSet::default(),
            writes: RangeSet::default(),
            is_unbounded: false,
        }
    }

    fn all(&mut self) -> Result<()> {
        let plan = self.plan;
        let mut completions = plan.completions.iter().peekable();
        for (number, step) in (0..self.region.steps.end).zip(&plan.steps) {
            self.step = number;
            let outcome = match step.op {
                StepOp::Host(index) => self.host_op(step.op, &plan.host_ops[index as usize]),
                StepOp::Command(index) => self.command(index),
                StepOp::Submission(index) => self.issued(index, step.op).and_then(|()| self.runs(index)),
                StepOp::Deferred(index) => {
                    self.deferred.insert(index, number);
                    self.issued(index, step.op)
                }
            };
            outcome.map_err(|error| plan.locate(error, step.location))?;
            while let Some(completion) = completions.next_if(|it| it.step == number) {
                if self.deferred.remove(&completion.submission).is_some_and(|step| !self.has(step))
                    && self.is_inside()
                {
                    let error = refuse("a submission is issued before it, and can run only within it");
                    return Err(plan.locate(error, completion.location));
                }
                self.runs(completion.submission)?;
            }
        }
        match self.deferred.values().filter(|step| self.has(**step)).min() {
            None => Ok(()),
            Some(step) => {
                let error = refuse("a submission is issued within it, and can run only after it");
                Err(plan.locate(error, plan.steps[*step as usize].location))
            }
        }
    }

    fn has(&self, step: u32) -> bool {
        step >= self.region.steps.start
    }

    fn is_inside(&self) -> bool {
        self.has(self.step)
    }

    fn location(&self) -> RecordLocation {
        self.plan.steps[self.step as usize].location
    }

    fn host_op(&mut self, step: StepOp, op: &HostOp<Indexed>) -> Result<()> {
        match op {
            HostOp::Create(op) => {
                if let Some((kind, index)) = created(op) {
                    self.creates(kind, index, step);
                }
                if let CreateOp::Semaphore { initial_value, created, .. } = op {
                    self.payloads[*created as usize] = *initial_value;
                }
            }
            HostOp::BeginCommandBuffer { command_buffer } => self.records(*command_buffer)?,
            HostOp::EndCommandBuffer { command_buffer } => {
                self.records(*command_buffer)?;
                self.footprints.end(*command_buffer);
            }
            _ => {}
        }
        if self.is_inside() {
            self.accesses(|footprints, footprint| footprints.of_host_op(op, footprint));
        }
        Ok(())
    }

    fn command(&mut self, index: u32) -> Result<()> {
        let (into, command) = &self.plan.commands[index as usize];
        self.records(*into)?;
        self.footprints.record(*into, command);
        if self.is_inside() && self.plan.inline_command_buffers[*into as usize] {
            self.accesses(|footprints, footprint| footprints.of_command(command, footprint));
        }
        Ok(())
    }

    /// A call that records a command buffer, which a repetition could not record again.
    fn records(&self, command_buffer: u32) -> Result<()> {
        match self.is_inside()
            && !self.region.is_created[ObjectKind::CommandBuffer as usize][command_buffer as usize]
        {
            true => Err(refuse("a command buffer is created before it, and recorded within it")),
            false => Ok(()),
        }
    }

    /// A submission is issued, which creates the buffer of an allocation.
    fn issued(&mut self, index: u32, step: StepOp) -> Result<()> {
        let submission = &self.plan.submissions[index as usize];
        if let QueueOp::Alloca { created, .. } = &submission.op {
            self.creates(ObjectKind::Buffer, *created, step);
        }
        if !self.is_inside() {
            return Ok(());
        }
        for signal in submission.signals.of(&self.plan.lists.timepoints) {
            self.restart(ObjectKind::Semaphore, signal.semaphore);
        }
        if let QueueOp::Dealloca { buffer, .. } = &submission.op {
            self.restart(ObjectKind::Buffer, *buffer);
        }
        Ok(())
    }

    /// A submission can run.
    fn runs(&mut self, index: u32) -> Result<()> {
        let submission = &self.plan.submissions[index as usize];
        if !self.is_inside() {
            if let QueueOp::Dealloca { buffer, .. } = &submission.op {
                self.origins[ObjectKind::Buffer as usize].remove(buffer);
            }
            self.region.position += 1;
            for signal in submission.signals.of(&self.plan.lists.timepoints) {
                let payload = &mut self.payloads[signal.semaphore as usize];
                *payload = signal.value.max(*payload);
            }
            return Ok(());
        }
        if let QueueOp::Execute { command_buffer, .. } = &submission.op
            && !self.region.is_created[ObjectKind::CommandBuffer as usize][*command_buffer as usize]
        {
            let location = self.location();
            self.executed.entry(*command_buffer).or_insert(location);
        }
        self.accesses(|footprints, footprint| footprints.of_queue_op(&submission.op, footprint));
        Ok(())
    }

    fn creates(&mut self, kind: ObjectKind, index: u32, step: StepOp) {
        if self.is_inside() {
            self.region.is_created[kind as usize][index as usize] = true;
            self.region.created.push(Release { step: self.step, index, kind });
        } else if let ObjectKind::Buffer | ObjectKind::Semaphore = kind {
            self.origins[kind as usize].insert(index, (step, self.location()));
        }
    }

    /// An object must be created again before a repetition, unless the repetition does so.
    fn restart(&mut self, kind: ObjectKind, index: u32) {
        let Some((origin, location)) = self.origins[kind as usize].get(&index).copied() else { return };
        let is_listed = &mut self.is_listed[kind as usize][index as usize];
        if !std::mem::replace(is_listed, true) {
            let payload = match kind {
                ObjectKind::Semaphore => self.payloads[index as usize],
                _ => 0,
            };
            let list = match kind {
                ObjectKind::Semaphore => &mut self.region.semaphores,
                _ => &mut self.region.deallocated,
            };
            list.push(Restart { index, origin, location, payload });
        }
    }

    fn accesses(&mut self, find: impl FnOnce(&Footprints<'p>, &mut Footprint)) {
        let mut footprint = std::mem::take(&mut self.footprint);
        find(&self.footprints, &mut footprint);
        self.is_unbounded |= footprint.is_unbounded;
        for access in &footprint.accesses {
            let Some(bytes) = self.outside(access) else { continue };
            if access.effect != Effect::Write {
                self.reads.add(bytes);
            }
            if access.effect != Effect::Read {
                self.writes.add(bytes);
            }
        }
        self.footprint = footprint;
    }

    /// The accessed bytes, unless the region creates their holder.
    fn outside(&self, access: &Access) -> Option<Bytes> {
        let (holder, kind, index, is_external) = match self.footprints.file_of(access.resource) {
            None => (Holder::Buffer(access.resource), ObjectKind::Buffer, access.resource as usize, false),
            Some(file) => {
                let is_external =
                    matches!(self.plan.files[file].source.contents, FileContents::External { .. });
                (Holder::File(file as u32), ObjectKind::File, file, is_external)
            }
        };
        let is_outside = is_external || !self.region.is_created[kind as usize][index];
        is_outside.then_some(Bytes { holder, start: access.start, end: access.end })
    }

    fn finish(mut self) -> Result<Region> {
        for (command_buffer, location) in &self.executed {
            let is_named =
                |buffer: &Restart| self.footprints.names(*command_buffer, buffer.index).unwrap_or(true);
            if self.region.deallocated.iter().any(is_named) {
                // It has the handle of that buffer, which no other buffer can replace.
                let error =
                    refuse("a command buffer is recorded before it with a buffer that it deallocates");
                return Err(self.plan.locate(error, *location));
            }
        }
        if self.is_unbounded {
            for index in self.origins[ObjectKind::Buffer as usize].keys() {
                let (holder, end) = (Holder::Buffer(*index), self.footprints.size(*index));
                self.reads.add(Bytes { holder, start: 0, end });
                self.writes.add(Bytes { holder, start: 0, end });
            }
        }
        for Restart { index, .. } in &self.region.deallocated {
            let (holder, end) = (Holder::Buffer(*index), self.footprints.size(*index));
            self.writes.add(Bytes { holder, start: 0, end });
        }
        self.region.restored = self.reads.and(self.writes);
        Ok(self.region)
    }
}

fn refuse(what: &str) -> Error {
    Error::unimplemented(format!("the scope cannot be repeated by itself: {what}"))
        .advise("measure it without fast-forward, which repeats the whole capture")
}

/// The kind and index of the object that an operation creates.
fn created(op: &CreateOp<Indexed>) -> Option<(ObjectKind, u32)> {
    match op {
        CreateOp::Semaphore { created, .. } => Some((ObjectKind::Semaphore, *created)),
        CreateOp::CommandBuffer { created, .. } => Some((ObjectKind::CommandBuffer, *created)),
        CreateOp::Event { created, .. } => Some((ObjectKind::Event, *created)),
        CreateOp::Executable(op) => Some((ObjectKind::Executable, op.created)),
        CreateOp::File(op) => Some((ObjectKind::File, op.created)),
        CreateOp::Buffer { created, .. } | CreateOp::ImportedBuffer { created, .. } => {
            Some((ObjectKind::Buffer, *created))
        }
        CreateOp::Device { .. } | CreateOp::Allocator { .. } | CreateOp::ExecutableCache { .. } => None,
    }
}

/// A set of bytes.
#[derive(Debug, Default)]
pub(crate) struct RangeSet(BTreeMap<Holder, Held>);

/// The bytes of a holder.
#[derive(Debug, Default)]
struct Held {
    ranges: Vec<ByteRange>,
    /// Length after which ranges are merged.
    merge_at: usize,
}

impl RangeSet {
    pub(crate) fn add(&mut self, Bytes { holder, start, end }: Bytes) {
        let Held { ranges, merge_at } = self.0.entry(holder).or_default();
        let range = ByteRange { offset: start, length: end - start };
        if ranges.last() == Some(&range) {
            return;
        }
        ranges.push(range);
        if ranges.len() > (*merge_at).max(4096) {
            *ranges = merged(std::mem::take(ranges));
            *merge_at = 2 * ranges.len();
        }
    }

    /// The bytes as sorted, disjoint ranges, by holder.
    pub(crate) fn sorted(self) -> impl Iterator<Item = (Holder, Vec<ByteRange>)> {
        self.0.into_iter().map(|(holder, held)| (holder, merged(held.ranges)))
    }

    /// The bytes that are in both.
    fn and(self, other: Self) -> Vec<Bytes> {
        let mut others: BTreeMap<_, _> = other.sorted().collect();
        let both = self.sorted().flat_map(|(holder, ranges)| {
            let outside = without(&ranges, others.remove(&holder).unwrap_or_default().into_iter());
            let both = without(&ranges, outside.into_iter()).into_iter();
            both.map(move |it| Bytes { holder, start: it.offset, end: it.end() })
        });
        both.collect()
    }
}

#[cfg(test)]
mod tests {
    use rehal_hal::{
        BufferRef, Command, CommandBufferParams, CommandCategories, QUEUE_AFFINITY_ANY, SemaphoreFlags,
    };

    use super::*;
    use crate::plan_numbers::record;
    use crate::scopes;

    const fn bytes(buffer: u32, start: u64, end: u64) -> Bytes {
        Bytes { holder: Holder::Buffer(buffer), start, end }
    }

    #[test]
    fn intersections_equal_those_of_single_bytes() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..500 {
            let mut sets = [RangeSet::default(), RangeSet::default()];
            let mut has = [[[false; 24]; 2]; 2];
            for (set, has) in sets.iter_mut().zip(&mut has) {
                for _ in 0..random.usize(..6) {
                    let (buffer, start) = (random.usize(..2), random.usize(..23));
                    let end = random.usize(start + 1..24);
                    set.add(bytes(buffer as u32, start as u64, end as u64));
                    has[buffer][start..end].fill(true);
                }
            }
            let [one, other] = sets;
            let mut both = [[false; 24]; 2];
            for Bytes { holder, start, end } in one.and(other) {
                let Holder::Buffer(buffer) = holder else { unreachable!() };
                for byte in &mut both[buffer as usize][start as usize..end as usize] {
                    assert!(!std::mem::replace(byte, true), "ranges overlap");
                }
            }
            let expected: [[bool; 24]; 2] =
                std::array::from_fn(|b| std::array::from_fn(|at| has[0][b][at] && has[1][b][at]));
            assert_eq!(both, expected);
        }
    }

    /// Without it, a command buffer may be executed with a buffer that was deallocated, or its work is not
    /// put back.
    #[test]
    fn command_buffers_of_before_name_buffers_that_a_repetition_may_deallocate() {
        let plan = record(|recorder, device, params| {
            let order = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty())?;
            let queue = || device.queue(QUEUE_AFFINITY_ANY);
            let kept = device.allocate_buffer(params, 8)?;
            let named = queue().signal(&[order.at(1)]).alloca(params, 16, 0)?;
            let other = queue().signal(&[order.at(2)]).alloca(params, 32, 0)?;
            let commands = device.create_command_buffer(CommandBufferParams {
                categories: CommandCategories::TRANSFER,
                ..CommandBufferParams::default()
            })?;
            commands.begin()?;
            for target in [BufferRef::range(&kept, 0, 4), BufferRef::range(&named, 4, 4)] {
                commands.record(&Command::Fill { target, pattern: &[1], flags: 0 })?;
            }
            commands.end()?;
            for (scope, deallocated, value) in
                [("none", None, 3), ("other", Some(&other), 4), ("named", Some(&named), 6)]
            {
                let _scope = recorder.scope(scope)?;
                queue().wait(&[order.at(2)]).signal(&[order.at(value)]).execute(&commands, &[], 0)?;
                if let Some(buffer) = deallocated {
                    queue().wait(&[order.at(value)]).signal(&[order.at(value + 1)]).dealloca(buffer, 0)?;
                }
            }
            Ok(())
        });
        let plan = plan.unwrap();
        let restored = |scope: &str, max_ranges| {
            let entry = scopes::entries(&plan, scope.as_bytes()).unwrap()[0];
            let mut walk = Walk::new(&plan, entry.begin..entry.end + 1);
            walk.footprints = Footprints::new(&plan, max_ranges);
            let region = walk.all().and_then(|()| walk.finish());
            region.map(|it| it.restored).map_err(|error| error.message().to_owned())
        };
        let refused = Err(refuse("a command buffer is recorded before it with a buffer that it deallocates")
            .message()
            .to_owned());
        assert_eq!(restored("none", 2), Ok(vec![]));
        assert_eq!(restored("other", 2), Ok(vec![]));
        assert_eq!(restored("named", 2), refused);
        // Approximated, its commands may name and change any buffer.
        assert_eq!(restored("none", 1), Ok(vec![bytes(0, 0, 8), bytes(1, 0, 16), bytes(2, 0, 32)]));
        assert_eq!(restored("other", 1), refused);
        assert_eq!(restored("named", 1), refused);
    }
}
