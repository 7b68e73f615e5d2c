//! Evicts what timed work touches from the CPU's caches, to measure with cold caches.

use std::collections::HashMap;

use rehal_base::{Range, Result, evict};
use rehal_hal::{
    Buffer, Command, CreateOp, FileContents, HostOp, Indexed, MappedRange, MappingMode, MemoryAccess,
    QueueOp, Span,
};

use crate::Plan;
use crate::effects::{Footprint, Footprints};
use crate::plan::StepOp;
use crate::region::{Bytes, Holder, RangeSet};
use crate::scopes::Entry;

/// Maximum number of ranges of a command buffer's accesses; more are approximated.
const MAX_RANGES: usize = 1 << 16;

/// The memory that the entries of a scope touch, by the step that begins each.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    entries: HashMap<u32, EntryFootprint>,
}

/// The memory that one entry touches.
#[derive(Debug, Default)]
struct EntryFootprint {
    /// Of buffers, whether or not they exist when it begins.
    bytes: Vec<(u32, Range)>,
    /// Data of the capture.
    data: Vec<Span<u8>>,
}

impl Evictions {
    /// For these entries of a scope.
    pub(crate) fn from_plan(plan: &Plan, entries: &[Entry]) -> Self {
        let mut footprints = Footprints::new(plan, MAX_RANGES);
        let mut footprint = Footprint::default();
        let (mut found, mut coming) = (HashMap::new(), entries.iter().peekable());
        let (mut set, mut data) = (RangeSet::default(), Vec::new());
        let mut completions = plan.completions.iter().peekable();
        for (number, step) in (0u32..).zip(&plan.steps) {
            let Some(entry) = coming.peek() else { break };
            let is_inside = number >= entry.begin;
            let mut touches = |footprint: &Footprint| {
                let buffers =
                    footprint.accesses.iter().filter(|it| footprints.file_of(it.resource).is_none());
                buffers.for_each(|it| {
                    let holder = Holder::Buffer(it.resource);
                    set.add(Bytes { holder, start: it.start, end: it.end });
                });
                if footprint.is_unbounded {
                    footprints.buffers().for_each(|(buffer, size)| {
                        set.add(Bytes { holder: Holder::Buffer(buffer), start: 0, end: size });
                    });
                }
            };
            if is_inside {
                data.extend(data_of(plan, step.op));
                match step.op {
                    StepOp::Host(index) => {
                        footprints.of_host_op(&plan.host_ops[index as usize], &mut footprint);
                        touches(&footprint);
                    }
                    StepOp::Submission(index) => {
                        footprints.of_queue_op(&plan.submissions[index as usize].op, &mut footprint);
                        touches(&footprint);
                    }
                    StepOp::Command(_) | StepOp::Deferred(_) => {}
                }
            }
            while let Some(completion) = completions.next_if(|it| it.step <= number) {
                if is_inside {
                    let submission = &plan.submissions[completion.submission as usize];
                    footprints.of_queue_op(&submission.op, &mut footprint);
                    touches(&footprint);
                }
            }
            match step.op {
                StepOp::Command(index) => {
                    let (into, command) = &plan.commands[index as usize];
                    footprints.record(*into, command);
                }
                StepOp::Host(index) => {
                    if let HostOp::EndCommandBuffer { command_buffer } = plan.host_ops[index as usize] {
                        footprints.end(command_buffer);
                    }
                }
                StepOp::Submission(_) | StepOp::Deferred(_) => {}
            }
            if number == entry.end {
                let bytes = std::mem::take(&mut set);
                let touched = EntryFootprint { bytes: by_buffer(bytes), data: std::mem::take(&mut data) };
                found.insert(entry.begin, touched);
                coming.next();
            }
        }
        Self { entries: found }
    }

    /// Whether caches are evicted before a step.
    pub(crate) fn has(&self, step: u32) -> bool {
        self.entries.contains_key(&step)
    }

    /// Evicts what the entry that begins with `step` touches and exists now.
    pub(crate) fn evict<'b>(
        &self,
        step: u32,
        bytes: &[u8],
        buffer: impl Fn(u32) -> Option<&'b Buffer>,
    ) -> Result<()> {
        let Some(touched) = self.entries.get(&step) else { return Ok(()) };
        for (index, range) in &touched.bytes {
            if let Some(buffer) = buffer(*index) {
                evict_buffer(buffer, *range)?;
            }
        }
        touched.data.iter().try_for_each(|span| evict(span.of(bytes)))
    }
}

/// Evicts the data of the capture that all steps read.
pub(crate) fn evict_data(plan: &Plan) -> Result<()> {
    plan.steps
        .iter()
        .filter_map(|step| data_of(plan, step.op))
        .try_for_each(|span| evict(span.of(plan.bytes())))
}

fn by_buffer(set: RangeSet) -> Vec<(u32, Range)> {
    let ranges = set.sorted().flat_map(|(holder, ranges)| match holder {
        Holder::Buffer(buffer) => ranges.into_iter().map(|range| (buffer, range)).collect(),
        Holder::File(_) => Vec::new(),
    });
    ranges.collect()
}

/// Evicts bytes of a buffer, unless they are in memory that the host cannot address, and that its caches
/// therefore do not contain. The buffer need not allow mapping: no byte of it is accessed.
fn evict_buffer(buffer: &Buffer, range: Range) -> Result<()> {
    let mapped = MappedRange { range, mode: MappingMode::SCOPED, access: MemoryAccess::READ };
    let Ok(memory) = buffer.backend().map(&mapped) else { return Ok(()) };
    let evicted = memory.evict(memory.whole());
    buffer.backend().unmap(&mapped, &memory)?;
    evicted
}

/// The data of the capture that an operation reads when it is issued.
fn data_of(plan: &Plan, op: StepOp) -> Option<Span<u8>> {
    match op {
        StepOp::Host(index) => match &plan.host_ops[index as usize] {
            HostOp::Unmap(_, data) | HostOp::Flush(_, data) => *data,
            HostOp::Create(CreateOp::ImportedBuffer { data, .. }) => Some(*data),
            HostOp::Create(CreateOp::Executable(op)) => Some(op.data),
            _ => None,
        },
        StepOp::Command(index) => match &plan.commands[index as usize].1 {
            Command::Update { source, .. } => Some(*source),
            _ => None,
        },
        StepOp::Submission(index) | StepOp::Deferred(index) => {
            queue_data(plan, &plan.submissions[index as usize].op)
        }
    }
}

fn queue_data(plan: &Plan, op: &QueueOp<Indexed>) -> Option<Span<u8>> {
    match op {
        QueueOp::Update { source, .. } => Some(*source),
        QueueOp::Read { file, file_offset, target, .. } => {
            let bytes = match plan.files[*file as usize].source.contents {
                FileContents::Inline(bytes) => bytes,
                FileContents::Ranges { .. } => Span::new(0, plan.bytes().len() as u64),
                FileContents::Nothing | FileContents::External { .. } => return None,
            };
            let offset = (*file_offset).min(bytes.count);
            Some(Span::new(bytes.start + offset, target.length.min(bytes.count - offset)))
        }
        _ => None,
    }
}
