//! The bytes that operations access: which ranges of which buffers and files, and how.

use std::collections::HashMap;

use rehal_hal::{
    Binding, BufferParams, BufferRef, BufferUsage, Command, FileContents, HostOp, Indexed, MemoryAccess,
    QueueOp, RangeOp, WHOLE_BUFFER, WORKGROUP_COUNT_BYTES, WorkgroupCount, WrittenBindings,
};

use crate::Plan;
use crate::plan::{Extent, ObjectKind};

/// How an operation accesses bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Reads them.
    Read,
    /// Writes them, or begins or ends their lifetime.
    Write,
    /// Binds them to a kernel, which may read and write them: captures do not record which.
    Bind,
    /// May read and write any of them: several accesses, one of them a write, as one range.
    Any,
}

impl Effect {
    /// Of two accesses, as one of a range that contains both, and perhaps more.
    fn approximated(self, other: Self) -> Self {
        match (self, other) {
            (Self::Read, Self::Read) => Self::Read,
            (Self::Read | Self::Bind, Self::Read | Self::Bind) => Self::Bind,
            // Not a write: some of the bytes may keep their values, or be read. Nor a binding: it is not the
            // kernels' alone.
            _ => Self::Any,
        }
    }
}

/// An access to bytes `start..end` of a resource: a buffer by its index, or a file (see
/// [`Footprints::file_of`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub resource: u32,
    pub start: u64,
    pub end: u64,
    pub effect: Effect,
}

/// The accesses of an operation.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    pub accesses: Vec<Access>,
    /// Whether there are too many to list, so that any byte may be accessed.
    pub is_unbounded: bool,
}

/// Derives the accesses of a plan's operations from its buffers, files and command buffers.
pub(crate) struct Footprints<'p> {
    plan: &'p Plan,
    buffers: &'p [Extent],
    /// The resource of each file: files with one path share it.
    files: Vec<u32>,
    command_buffers: Vec<Summary>,
    /// By executable; empty if kernels may write all that they bind.
    written: Vec<WrittenBindings>,
    /// Empty lists of command buffers that are released.
    spare: Vec<Vec<Touch>>,
    max_ranges: usize,
}

/// The accesses of a command buffer's commands so far, by buffer or slot.
#[derive(Default)]
struct Summary {
    touches: Vec<Touch>,
    /// Length after which `touches` are merged.
    merge_at: usize,
    is_unbounded: bool,
}

/// An access to bytes `start..end` of a buffer, or of what is bound to a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Touch {
    is_slot: bool,
    index: u32,
    effect: Effect,
    start: u64,
    end: u64,
}

impl<'p> Footprints<'p> {
    /// For the operations of `plan`; a command buffer with more than `max_ranges` different ranges is
    /// approximated.
    pub(crate) fn new(plan: &'p Plan, max_ranges: usize) -> Self {
        let mut command_buffers = Vec::new();
        command_buffers
            .resize_with(plan.counts[ObjectKind::CommandBuffer as usize] as usize, Summary::default);
        Self {
            plan,
            buffers: &plan.extents,
            files: file_resources(plan),
            command_buffers,
            written: Vec::new(),
            spare: Vec::new(),
            max_ranges,
        }
    }

    /// Tells what kernels write, by executable: they only read their other bindings.
    pub(crate) fn set_written(&mut self, written: Vec<WrittenBindings>) {
        self.written = written;
    }

    /// The index of the first file that is `resource`, unless that is a buffer.
    pub(crate) fn file_of(&self, resource: u32) -> Option<usize> {
        (resource as usize).checked_sub(self.buffers.len())
    }

    /// The number of resources.
    pub(crate) fn resource_count(&self) -> usize {
        self.buffers.len() + self.files.len()
    }

    /// The size of a buffer in bytes.
    pub(crate) fn size(&self, buffer: u32) -> u64 {
        self.buffers[buffer as usize].size
    }

    /// All buffers, with their sizes.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(self.buffers.iter().map(|extent| extent.size))
    }

    /// Whether the commands of a command buffer name a buffer, other than through a binding table; `None` if
    /// they are approximated.
    pub(crate) fn names(&self, command_buffer: u32, buffer: u32) -> Option<bool> {
        let summary = &self.command_buffers[command_buffer as usize];
        let is_named = |touch: &Touch| !touch.is_slot && touch.index == buffer;
        (!summary.is_unbounded).then(|| summary.touches.iter().any(is_named))
    }

    /// The accesses of a host operation.
    pub(crate) fn of_host_op(&self, op: &HostOp<Indexed>, into: &mut Footprint) {
        into.clear();
        match op {
            HostOp::Map(range) => {
                if range.access.contains(MemoryAccess::READ) {
                    self.add_range(range, Effect::Read, into);
                }
                if range.access.intersects(MemoryAccess::WRITE | MemoryAccess::DISCARD) {
                    self.add_range(range, Effect::Write, into);
                }
            }
            HostOp::Invalidate(range) => self.add_range(range, Effect::Read, into),
            HostOp::Unmap(range, Some(data)) | HostOp::Flush(range, Some(data)) if data.count != 0 => {
                self.add_range(range, Effect::Write, into);
            }
            // Work in flight cannot reference a new object.
            HostOp::Create(_)
            | HostOp::BeginCommandBuffer { .. }
            | HostOp::EndCommandBuffer { .. }
            | HostOp::Unmap(..)
            | HostOp::Flush(..)
            | HostOp::FlushQueue { .. }
            | HostOp::Trim { .. }
            | HostOp::TrimAllocator { .. }
            | HostOp::ScopeBegin { .. }
            | HostOp::ScopeEnd { .. } => {}
        }
    }

    /// The accesses of a queue operation. The commands of its command buffer have been
    /// [recorded](Self::record).
    pub(crate) fn of_queue_op(&self, op: &QueueOp<Indexed>, into: &mut Footprint) {
        into.clear();
        match op {
            QueueOp::Alloca { created: buffer, .. } | QueueOp::Dealloca { buffer, .. } => {
                self.add(*buffer, 0, WHOLE_BUFFER, Effect::Write, into);
            }
            QueueOp::Read { file, file_offset, target, .. } => {
                let length = self.add_ref(target, Effect::Write, into);
                self.add_file(*file, *file_offset, length, Effect::Read, into);
            }
            QueueOp::Write { source, file, file_offset, .. } => {
                let length = self.add_ref(source, Effect::Read, into);
                self.add_file(*file, *file_offset, length, Effect::Write, into);
            }
            QueueOp::Execute { command_buffer, bindings, .. } => {
                self.add_command_buffer(*command_buffer, bindings.of(&self.plan.lists.buffer_refs), into);
            }
            QueueOp::Fill { .. } | QueueOp::Update { .. } | QueueOp::Copy { .. } | QueueOp::Dispatch(_) => {
                self.each_access(op, |reference, effect| _ = self.add_ref(reference, effect, into));
            }
            QueueOp::Barrier { .. } | QueueOp::HostCall { .. } => {}
        }
    }

    /// The accesses of one command, if it names buffers directly.
    pub(crate) fn of_command(&self, command: &Command<Indexed>, into: &mut Footprint) {
        into.clear();
        if let Some(op) = command.as_queue_op() {
            self.of_queue_op(&op, into);
        }
    }

    /// Adds a command to its command buffer.
    pub(crate) fn record(&mut self, command_buffer: u32, command: &Command<Indexed>) {
        let Some(op) = command.as_queue_op() else { return };
        let index = command_buffer as usize;
        let mut summary = std::mem::take(&mut self.command_buffers[index]);
        if summary.touches.capacity() == 0 {
            summary.touches = self.spare.pop().unwrap_or_default();
        }
        self.each_access(&op, |reference, effect| {
            summary.touches.extend(self.touch(reference, effect));
        });
        if summary.touches.len() > summary.merge_at.max(self.max_ranges) {
            summary.merge(self.max_ranges);
        }
        self.command_buffers[index] = summary;
    }

    /// All commands of the command buffer have been recorded.
    pub(crate) fn end(&mut self, command_buffer: u32) {
        self.command_buffers[command_buffer as usize].merge(self.max_ranges);
    }

    /// The command buffer is not used again.
    pub(crate) fn release(&mut self, command_buffer: u32) {
        let mut touches = std::mem::take(&mut self.command_buffers[command_buffer as usize]).touches;
        if touches.capacity() != 0 {
            touches.clear();
            self.spare.push(touches);
        }
    }

    /// Calls `add` with each range that an operation names, except those of command buffers. The bindings of
    /// a dispatch are followed by its workgroup count.
    pub(crate) fn each_reference(
        plan: &Plan,
        op: &QueueOp<Indexed>,
        mut add: impl FnMut(&BufferRef<u32>, Effect),
    ) {
        match op {
            QueueOp::Fill { target, .. } | QueueOp::Update { target, .. } | QueueOp::Read { target, .. } => {
                add(target, Effect::Write);
            }
            QueueOp::Copy { source, target, .. } => {
                add(source, Effect::Read);
                add(target, Effect::Write);
            }
            QueueOp::Write { source, .. } => add(source, Effect::Read),
            QueueOp::Dispatch(dispatch) => {
                for binding in dispatch.bindings.of(&plan.lists.buffer_refs) {
                    add(binding, Effect::Bind);
                }
                if let WorkgroupCount::Indirect(count) = &dispatch.workgroup_count {
                    let length = count.length.min(WORKGROUP_COUNT_BYTES);
                    add(&BufferRef { length, ..*count }, Effect::Read);
                }
            }
            QueueOp::Alloca { .. }
            | QueueOp::Dealloca { .. }
            | QueueOp::Execute { .. }
            | QueueOp::Barrier { .. }
            | QueueOp::HostCall { .. } => {}
        }
    }

    /// Like [`Footprints::each_reference`], with what is known of kernels.
    fn each_access(&self, op: &QueueOp<Indexed>, mut add: impl FnMut(&BufferRef<u32>, Effect)) {
        let written = match op {
            QueueOp::Dispatch(dispatch) => self
                .written
                .get(dispatch.executable as usize)
                .and_then(|functions| functions.get(dispatch.function as usize)?.as_deref()),
            _ => None,
        };
        let mut bindings = written.unwrap_or_default().iter();
        Self::each_reference(self.plan, op, |reference, effect| {
            let is_read = effect == Effect::Bind && bindings.next() == Some(&false);
            add(reference, if is_read { Effect::Read } else { effect });
        });
    }

    /// The effect on a buffer of an operation that has `effect`: a kernel only reads memory that it cannot
    /// write.
    pub(crate) fn effect_on(&self, buffer: u32, effect: Effect) -> Effect {
        match effect {
            Effect::Bind if !self.buffers[buffer as usize].is_written_by_kernels => Effect::Read,
            effect => effect,
        }
    }

    fn touch(&self, reference: &BufferRef<u32>, effect: Effect) -> Option<Touch> {
        let (is_slot, index, size) = match reference.binding {
            Binding::Direct(buffer) => (false, buffer, self.buffers[buffer as usize].size),
            Binding::Slot(slot) => (true, slot, u64::MAX),
        };
        let (start, end) = clamp(reference.offset, reference.length, size)?;
        Some(Touch { is_slot, index, effect, start, end })
    }

    fn add_command_buffer(&self, command_buffer: u32, table: &[BufferRef<u32>], into: &mut Footprint) {
        let summary = &self.command_buffers[command_buffer as usize];
        into.is_unbounded |= summary.is_unbounded;
        for touch in &summary.touches {
            let (start, length) = (touch.start, touch.end - touch.start);
            if !touch.is_slot {
                self.add(touch.index, start, length, touch.effect, into);
                continue;
            }
            // An empty or missing entry is an error of the command that uses it.
            let Some(BufferRef { binding: Binding::Direct(buffer), offset, length: bound }) =
                table.get(touch.index as usize)
            else {
                continue;
            };
            let size = self.buffers[*buffer as usize].size;
            let Some((first, end)) = clamp(*offset, *bound, size) else { continue };
            let length = length.min((end - first).saturating_sub(start));
            self.add(*buffer, first.saturating_add(start), length, touch.effect, into);
        }
    }

    fn add_range(&self, range: &RangeOp<Indexed>, effect: Effect, into: &mut Footprint) {
        self.add(range.buffer, range.offset, range.length, effect, into);
    }

    /// Adds a direct reference; returns its length in bytes.
    fn add_ref(&self, reference: &BufferRef<u32>, effect: Effect, into: &mut Footprint) -> u64 {
        match reference.binding {
            Binding::Direct(buffer) => self.add(buffer, reference.offset, reference.length, effect, into),
            // A queue operation without a binding table has none, and an inline command runs before it has
            // one.
            Binding::Slot(_) => {
                into.is_unbounded = true;
                reference.length
            }
        }
    }

    fn add(&self, buffer: u32, offset: u64, length: u64, effect: Effect, into: &mut Footprint) -> u64 {
        let extent = self.buffers[buffer as usize];
        let effect = self.effect_on(buffer, effect);
        let Some((start, end)) = clamp(offset, length, extent.size) else { return 0 };
        into.accesses.push(Access { resource: buffer, start, end, effect });
        end - start
    }

    fn add_file(&self, file: u32, offset: u64, length: u64, effect: Effect, into: &mut Footprint) {
        let Some((start, end)) = clamp(offset, length, u64::MAX) else { return };
        into.accesses.push(Access { resource: self.files[file as usize], start, end, effect });
    }
}

impl Footprint {
    fn clear(&mut self) {
        self.accesses.clear();
        self.is_unbounded = false;
    }
}

impl Summary {
    /// Merges ranges that overlap or touch, and approximates if more than `max_ranges` are left: by one range
    /// for each buffer and slot, or by all bytes.
    fn merge(&mut self, max_ranges: usize) {
        self.touches.sort_unstable();
        self.touches.dedup_by(|next, last| {
            let is_same = (next.is_slot, next.index, next.effect) == (last.is_slot, last.index, last.effect);
            let is_merged = is_same && next.start <= last.end;
            if is_merged {
                last.end = last.end.max(next.end);
            }
            is_merged
        });
        if self.touches.len() > max_ranges {
            self.touches.dedup_by(|next, last| {
                let is_same = (next.is_slot, next.index) == (last.is_slot, last.index);
                if is_same {
                    last.start = last.start.min(next.start);
                    last.end = last.end.max(next.end);
                    last.effect = last.effect.approximated(next.effect);
                }
                is_same
            });
        }
        if self.touches.len() > max_ranges {
            self.touches.clear();
            self.is_unbounded = true;
        }
        self.merge_at = 2 * self.touches.len();
    }
}

/// The non-empty range of `length` bytes from `offset` in `size` bytes. Accesses out of bounds are errors of
/// the device.
pub(crate) fn clamp(offset: u64, length: u64, size: u64) -> Option<(u64, u64)> {
    let end = if length == WHOLE_BUFFER { size } else { offset.saturating_add(length).min(size) };
    (offset < end).then_some((offset, end))
}

/// The extent of a buffer of `size` bytes.
pub(crate) fn extent(params: &BufferParams, size: u64) -> Extent {
    Extent { size, is_written_by_kernels: written_by_kernels(params) }
}

/// Whether kernels may write a buffer.
pub(crate) fn written_by_kernels(params: &BufferParams) -> bool {
    let params = params.canonical();
    let writing = BufferUsage::DISPATCH_STORAGE_WRITE | BufferUsage::DISPATCH_IMAGE_WRITE;
    params.usage.intersects(writing) && params.access.intersects(MemoryAccess::WRITE | MemoryAccess::ANY)
}

fn file_resources(plan: &Plan) -> Vec<u32> {
    let mut by_path: HashMap<&[u8], u32> = HashMap::new();
    let first = plan.counts[ObjectKind::Buffer as usize];
    let resources = (first..).zip(&plan.files).map(|(resource, file)| match file.source.contents {
        FileContents::External { path, .. } => *by_path.entry(path.of(plan.bytes())).or_insert(resource),
        // No other file shares its bytes.
        FileContents::Nothing | FileContents::Inline(_) | FileContents::Ranges { .. } => resource,
    });
    resources.collect()
}
