//! Records commands of Vulkan. What they use stays alive with the recorder.
#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::ffi::CString;
use std::sync::{Arc, Weak};

use ash::vk;
use rehal_base::{Context, Error, Range, Result};
use rehal_hal::{Executable, WORKGROUP_COUNT_BYTES};

use super::barriers::Barrier;
use super::staging::Staging;
use super::{MemoryRange, Receiver, StagingMemory};
use crate::error::failure;
use crate::executable::{Pipeline, Slots, descriptor_range};
use crate::gpu::Gpu;
use crate::memory::{Allocation, Block};

/// A command buffer with a pool of its own, so that recording takes no lock.
pub(crate) struct Recorder {
    gpu: Arc<Gpu>,
    family: u32,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    descriptors: Vec<vk::DescriptorPool>,
    staging: Staging,
    tables: Staging,
    /// Memory that overlapping copies pass bytes through.
    temporaries: Vec<Arc<Allocation>>,
    /// The memory that the commands use.
    blocks: Vec<Arc<Block>>,
    /// The code that the commands run.
    executables: Vec<Executable>,
    /// The pipeline that is bound.
    bound: vk::Pipeline,
    timestamps: TimestampPool,
    /// Events that tell which dispatches are complete.
    marks: Vec<vk::Event>,
    /// How many of them the commands set, from the first.
    marked: usize,
    /// Labels that are not ended.
    open_labels: u32,
    /// The number of commands since the pool was last reset.
    recorded: usize,
}

/// Timestamp queries.
#[derive(Default)]
struct TimestampPool {
    pool: vk::QueryPool,
    /// Queries of the pool.
    capacity: u32,
    /// Queries that the commands write, from the first.
    written: u32,
}

impl TimestampPool {
    fn begin(&mut self, gpu: &Gpu, commands: vk::CommandBuffer, count: u32) -> Result<()> {
        let functions = gpu.functions();
        self.written = 0;
        if self.capacity < count {
            let count = count.next_power_of_two().max(64);
            let info =
                vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count);
            // SAFETY: the commands that used the old pool, if any, are complete, since the recorder was
            // reset.
            unsafe { functions.destroy_query_pool(self.pool, None) };
            (self.pool, self.capacity) = (vk::QueryPool::null(), 0);
            // SAFETY: the structure lives until the call returns.
            self.pool = unsafe { functions.create_query_pool(&info, None) }
                .map_err(|error| failure("creating a query pool", error))?;
            self.capacity = count;
        }
        // Queues for transfers have no command for it: `Gpu::timestamp_mask` is 0 for them if the host does
        // not do it.
        if gpu.resets_queries() {
            // SAFETY: the feature is enabled; the commands that used the queries, if any, are complete, and
            // these are submitted once.
            unsafe { functions.reset_query_pool(self.pool, 0, self.capacity) };
        } else {
            // SAFETY: recording has begun, for a queue with graphics or compute.
            unsafe { functions.cmd_reset_query_pool(commands, self.pool, 0, self.capacity) };
        }
        Ok(())
    }

    fn write(&mut self, gpu: &Gpu, commands: vk::CommandBuffer, stage: vk::PipelineStageFlags) {
        if self.written < self.capacity {
            // SAFETY: recording has begun; the query was reset by `begin` and is written once.
            unsafe { gpu.functions().cmd_write_timestamp(commands, stage, self.pool, self.written) };
            self.written += 1;
        }
    }

    fn read(&self, gpu: &Gpu) -> Result<Vec<u64>> {
        let mut ticks = vec![0_u64; self.written as usize];
        if ticks.is_empty() {
            return Ok(ticks);
        }
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the commands have written as many queries.
        unsafe { gpu.functions().get_query_pool_results(self.pool, 0, &mut ticks, flags) }
            .map_err(|error| failure("reading timestamps", error))?;
        Ok(ticks)
    }
}

/// Descriptor sets of a pool.
const SETS_PER_POOL: u32 = 64;
/// The largest update whose bytes are in the command buffer.
const INLINE_UPDATE: usize = 4096;
/// The most that an overlapping copy passes through a temporary at once.
const TEMPORARY: u64 = 1 << 20;

/// Limits of the objects that a recorder keeps from one use to the next: enough for a thousand dispatches.
const KEPT_DESCRIPTOR_POOLS: usize = 16;
const KEPT_MARKS: usize = 1024;
const KEPT_TIMESTAMPS: u32 = 2048;
const KEPT_OBJECTS: usize = 1024;
/// Commands above which the memory of the command pool is released, too.
const KEPT_COMMANDS: usize = 4096;

/// Removes all but the first elements.
fn drop_above<T>(list: &mut Vec<T>, most: usize) -> Vec<T> {
    let rest = list.split_off(most.min(list.len()));
    if !rest.is_empty() {
        list.shrink_to_fit();
    }
    rest
}

/// Removes all elements, and releases the memory of more than `most`.
fn clear_above<T>(list: &mut Vec<T>, most: usize) {
    list.clear();
    list.shrink_to(most);
}

/// How often commands are submitted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Once.
    Never,
    /// Any number of times, also before an earlier submission is complete.
    Always,
}

impl Recorder {
    /// An empty command buffer.
    pub(crate) fn create(gpu: &Arc<Gpu>, family: u32) -> Result<Box<Self>> {
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: the family is one of the device's.
        let pool = unsafe { gpu.functions().create_command_pool(&info, None) }
            .map_err(|error| failure("creating a command pool", error))?;
        let mut recorder = Box::new(Self {
            gpu: gpu.clone(),
            family,
            pool,
            commands: vk::CommandBuffer::null(),
            descriptors: Vec::new(),
            staging: Staging::for_updates(),
            tables: Staging::for_tables(),
            temporaries: Vec::new(),
            blocks: Vec::new(),
            executables: Vec::new(),
            bound: vk::Pipeline::null(),
            timestamps: TimestampPool::default(),
            marks: Vec::new(),
            marked: 0,
            open_labels: 0,
            recorded: 0,
        });
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool was just created, and no other thread uses it.
        let commands = unsafe { gpu.functions().allocate_command_buffers(&info) }
            .map_err(|error| failure("allocating a command buffer", error))?;
        recorder.commands = commands.first().copied().unwrap_or_default();
        Ok(recorder)
    }

    /// A barrier after which everything sees all that is before.
    pub(crate) fn for_barrier(gpu: &Arc<Gpu>, family: u32) -> Result<Box<Self>> {
        Self::for_one(
            gpu,
            family,
            &Barrier {
                source_stages: vk::PipelineStageFlags::ALL_COMMANDS,
                target_stages: vk::PipelineStageFlags::ALL_COMMANDS,
                source_access: vk::AccessFlags::MEMORY_WRITE,
                target_access: vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE,
            },
        )
    }

    /// A barrier after which the host sees all that is before.
    pub(crate) fn for_tail(gpu: &Arc<Gpu>, family: u32) -> Result<Box<Self>> {
        Self::for_one(
            gpu,
            family,
            &Barrier {
                source_stages: vk::PipelineStageFlags::ALL_COMMANDS,
                target_stages: vk::PipelineStageFlags::HOST,
                source_access: vk::AccessFlags::MEMORY_WRITE,
                target_access: vk::AccessFlags::HOST_READ | vk::AccessFlags::HOST_WRITE,
            },
        )
    }

    fn for_one(gpu: &Arc<Gpu>, family: u32, barrier: &Barrier) -> Result<Box<Self>> {
        let mut recorder = Self::create(gpu, family)?;
        recorder.begin(Repeats::Always)?;
        recorder.barrier(barrier);
        recorder.end()?;
        Ok(recorder)
    }

    /// The queue family whose queues execute the commands.
    pub(crate) fn family(&self) -> u32 {
        self.family
    }

    /// The commands, for a submission that owns the recorder.
    pub(crate) fn commands(&self) -> vk::CommandBuffer {
        self.commands
    }

    /// The device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Begins recording; the command buffer is empty.
    pub(crate) fn begin(&mut self, repeats: Repeats) -> Result<()> {
        let info = vk::CommandBufferBeginInfo::default().flags(match repeats {
            Repeats::Never => vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT,
            Repeats::Always => vk::CommandBufferUsageFlags::SIMULTANEOUS_USE,
        });
        self.bound = vk::Pipeline::null();
        self.marked = 0;
        // SAFETY: the command buffer is new or was reset, and its pool is this thread's while `self` is
        // borrowed.
        unsafe { self.gpu.functions().begin_command_buffer(self.commands, &info) }
            .map_err(|error| failure("recording commands", error))
    }

    /// Ends recording: the commands can be submitted.
    pub(crate) fn end(&mut self) -> Result<()> {
        while self.open_labels != 0 {
            self.end_label();
        }
        // SAFETY: recording has begun.
        unsafe { self.gpu.functions().end_command_buffer(self.commands) }
            .map_err(|error| failure("recording commands", error))
    }

    /// Forgets the commands, which the device does not execute any more, and what they used. Keeps what the
    /// next are likely to need, not what the largest needed.
    pub(crate) fn reset(&mut self) -> Result<()> {
        let functions = self.gpu.functions();
        let flags = match std::mem::take(&mut self.recorded) > KEPT_COMMANDS {
            true => vk::CommandPoolResetFlags::RELEASE_RESOURCES,
            false => vk::CommandPoolResetFlags::empty(),
        };
        // SAFETY: the caller owns the recorder, and work in flight owns the recorder of its commands: there
        // is none.
        unsafe {
            functions
                .reset_command_pool(self.pool, flags)
                .map_err(|error| failure("resetting a command pool", error))?;
            for pool in drop_above(&mut self.descriptors, KEPT_DESCRIPTOR_POOLS) {
                functions.destroy_descriptor_pool(pool, None);
            }
            for event in drop_above(&mut self.marks, KEPT_MARKS) {
                functions.destroy_event(event, None);
            }
            if self.timestamps.capacity > KEPT_TIMESTAMPS {
                functions.destroy_query_pool(self.timestamps.pool, None);
                self.timestamps = TimestampPool::default();
            }
            for pool in &self.descriptors {
                functions
                    .reset_descriptor_pool(*pool, vk::DescriptorPoolResetFlags::empty())
                    .map_err(|error| failure("resetting a descriptor pool", error))?;
            }
        }
        self.marked = 0;
        self.staging.clear();
        self.tables.clear();
        self.temporaries.clear();
        clear_above(&mut self.blocks, KEPT_OBJECTS);
        clear_above(&mut self.executables, KEPT_OBJECTS);
        Ok(())
    }

    /// Keeps memory alive with the commands. Fails if it is of another device.
    pub(crate) fn keep(&mut self, range: &MemoryRange) -> Result<()> {
        let block = range.allocation().block();
        if !self.blocks.iter().any(|kept| Arc::ptr_eq(kept, block)) {
            block.require(&self.gpu)?;
            self.blocks.push(block.clone());
        }
        Ok(())
    }

    /// Keeps memory alive that the commands write. Fails also if it must not be written.
    fn keep_written(&mut self, range: &MemoryRange) -> Result<()> {
        range.allocation().block().require_writable()?;
        self.keep(range)
    }

    /// Leaves it to the submissions of the commands to keep large memory of their binding table alive: blocks
    /// with one allocation, which are freed with their buffer. Returns them.
    pub(crate) fn lend(&mut self, table: &[Option<MemoryRange>]) -> Vec<Weak<Block>> {
        let ranges = table.iter().flatten().map(MemoryRange::allocation);
        let large: Vec<_> = ranges.filter(|it| it.has_own_block()).map(|it| it.block()).collect();
        let is_large = |block: &Arc<Block>| large.iter().any(|it| Arc::ptr_eq(it, block));
        self.blocks.extract_if(.., |block| is_large(block)).map(|block| Arc::downgrade(&block)).collect()
    }

    /// Keeps code alive with the commands.
    pub(crate) fn keep_executable(&mut self, executable: &Executable) {
        if !self.executables.iter().any(|kept| kept.is_same(executable)) {
            self.executables.push(executable.clone());
        }
    }

    /// Orders what was recorded before what is recorded after.
    pub(crate) fn barrier(&mut self, barrier: &Barrier) {
        self.recorded += 1;
        let memory = [vk::MemoryBarrier::default()
            .src_access_mask(barrier.source_access)
            .dst_access_mask(barrier.target_access)];
        // SAFETY: recording has begun; the masks have stages that the queue has.
        unsafe {
            self.gpu.functions().cmd_pipeline_barrier(
                self.commands,
                barrier.source_stages,
                barrier.target_stages,
                vk::DependencyFlags::empty(),
                &memory,
                &[],
                &[],
            );
        }
    }

    /// Fills with a pattern of 1, 2 or 4 bytes, to which the range is aligned.
    pub(crate) fn fill(
        &mut self,
        memory: &StagingMemory,
        target: &MemoryRange,
        pattern: &[u8],
    ) -> Result<()> {
        self.recorded += 1;
        let (start, end) = (target.offset(), target.offset() + target.length());
        if start == end {
            return Ok(());
        }
        self.keep_written(target)?;
        let buffer = target.allocation().block().buffer();
        let (first, last) = (start.next_multiple_of(4).min(end), (end / 4 * 4).max(start));
        let at = |offset: u64| pattern[((offset - start) % pattern.len() as u64) as usize];
        if first < last {
            let word = u32::from_le_bytes(std::array::from_fn(|index| at(first + index as u64)));
            // SAFETY: recording has begun; the range is aligned to words and within the buffer, which `self`
            // keeps.
            unsafe { self.gpu.functions().cmd_fill_buffer(self.commands, buffer, first, last - first, word) };
        }
        // Vulkan fills words; the bytes around them are copied.
        let edges = (start..first).chain(last.max(first)..end);
        let mut regions: smallvec::SmallVec<[vk::BufferCopy; 6]> = smallvec::SmallVec::new();
        let mut source = vk::Buffer::null();
        for offset in edges {
            let byte = memory.byte(at(offset));
            self.keep(&byte)?;
            source = byte.allocation().block().buffer();
            regions.push(vk::BufferCopy { src_offset: byte.offset(), dst_offset: offset, size: 1 });
        }
        if !regions.is_empty() {
            // SAFETY: recording has begun; the ranges are within the buffers, which `self` keeps.
            unsafe { self.gpu.functions().cmd_copy_buffer(self.commands, source, buffer, &regions) };
        }
        Ok(())
    }

    /// Writes bytes, as many as the range has.
    pub(crate) fn update(
        &mut self,
        memory: &StagingMemory,
        target: &MemoryRange,
        bytes: &[u8],
    ) -> Result<()> {
        self.recorded += 1;
        if bytes.is_empty() {
            return Ok(());
        }
        let is_inline = bytes.len() <= INLINE_UPDATE && bytes.len().is_multiple_of(4);
        if is_inline && target.offset().is_multiple_of(4) {
            self.keep_written(target)?;
            let buffer = target.allocation().block().buffer();
            // SAFETY: recording has begun; the range is aligned to words and within the buffer, which `self`
            // keeps.
            unsafe {
                self.gpu.functions().cmd_update_buffer(self.commands, buffer, target.offset(), bytes);
            }
            return Ok(());
        }
        let staged = self.staging.write(memory, bytes, 4)?;
        self.copy(&staged, target)
    }

    /// Copies a range to another of the same length, with which it shares no bytes.
    pub(crate) fn copy(&mut self, source: &MemoryRange, target: &MemoryRange) -> Result<()> {
        self.recorded += 1;
        if target.length() == 0 {
            return Ok(());
        }
        self.keep(source)?;
        self.keep_written(target)?;
        let region = [vk::BufferCopy {
            src_offset: source.offset(),
            dst_offset: target.offset(),
            size: target.length(),
        }];
        let (from, to) = (source.allocation().block().buffer(), target.allocation().block().buffer());
        // SAFETY: recording has begun; the ranges are within the buffers, which `self` keeps.
        unsafe { self.gpu.functions().cmd_copy_buffer(self.commands, from, to, &region) };
        Ok(())
    }

    /// Copies a range to another of the same length, which begins `distance` bytes above it and shares bytes
    /// with it: the target gets the bytes that the source has before. Vulkan copies only ranges that share
    /// none.
    pub(crate) fn copy_overlapping(
        &mut self,
        memory: &StagingMemory,
        source: &MemoryRange,
        target: &MemoryRange,
        distance: i64,
    ) -> Result<()> {
        let (length, apart) = (target.length(), distance.unsigned_abs());
        self.recorded += 1;
        if apart == 0 {
            return Ok(());
        }
        // Pieces of at most `apart` bytes share none. Many small ones would take longer than a temporary.
        let (step, temporary) = match apart >= TEMPORARY || apart >= length / 2 {
            true => (apart, None),
            false => {
                let step = TEMPORARY.min(length);
                (step, Some(self.temporary(memory, step)?))
            }
        };
        let mut done = 0;
        while done < length {
            let size = step.min(length - done);
            // The piece whose source is overwritten next is copied first.
            let offset = if distance < 0 { done } else { length - done - size };
            let piece = Range { offset, length: size };
            let (from, to) = (source.piece(piece)?, target.piece(piece)?);
            // The copies before have read what this one overwrites, in the temporary, too.
            self.barrier(&Barrier::for_transfers());
            match &temporary {
                None => self.copy(&from, &to)?,
                Some(temporary) => {
                    let between = MemoryRange::within(temporary, Range { offset: 0, length: size });
                    self.copy(&from, &between)?;
                    self.barrier(&Barrier::for_transfers());
                    self.copy(&between, &to)?;
                }
            }
            done += size;
        }
        Ok(())
    }

    /// Memory of the device for commands to pass bytes through.
    fn temporary(&mut self, memory: &StagingMemory, length: u64) -> Result<Arc<Allocation>> {
        if let Some(found) = self.temporaries.iter().find(|it| it.length() >= length) {
            return Ok(found.clone());
        }
        let length = length.next_power_of_two().max(4096);
        let allocation = Arc::new(memory.allocate(length, Receiver::Commands)?);
        self.temporaries.push(allocation.clone());
        Ok(allocation)
    }

    /// Begins a group of commands with a label, for debuggers.
    pub(crate) fn begin_label(&mut self, label: &[u8], color: u32) {
        let Some(labels) = self.gpu.labels() else { return };
        // A label ends with its first zero byte.
        let text: Vec<u8> = label.iter().copied().take_while(|byte| *byte != 0).collect();
        let Ok(text) = CString::new(text) else { return };
        let [red, green, blue, alpha] = color.to_le_bytes().map(|part| f32::from(part) / 255.0);
        let info = vk::DebugUtilsLabelEXT::default().label_name(&text).color([red, green, blue, alpha]);
        // SAFETY: recording has begun; the extension is enabled, and the text lives until the call returns.
        unsafe { labels.cmd_begin_debug_utils_label(self.commands, &info) };
        self.open_labels += 1;
    }

    /// Ends the group that was begun last, if there is one.
    pub(crate) fn end_label(&mut self) {
        if let (Some(labels), Some(left)) = (self.gpu.labels(), self.open_labels.checked_sub(1)) {
            // SAFETY: recording has begun, and these commands have begun the group.
            unsafe { labels.cmd_end_debug_utils_label(self.commands) };
            self.open_labels = left;
        }
    }

    /// Begins with at most `count` timestamps, in commands that are submitted once.
    pub(crate) fn begin_timestamps(&mut self, count: u32) -> Result<()> {
        self.timestamps.begin(&self.gpu, self.commands, count)
    }

    /// Writes a timestamp when what is before it has passed a stage.
    pub(crate) fn timestamp(&mut self, stage: vk::PipelineStageFlags) {
        self.timestamps.write(&self.gpu, self.commands, stage);
    }

    /// The timestamps of commands that are complete.
    pub(crate) fn read_timestamps(&self) -> Result<Vec<u64>> {
        self.timestamps.read(&self.gpu)
    }

    /// Begins with at most `count` marks, none of them set, if the device has events. One submission at a
    /// time uses the commands.
    pub(crate) fn begin_marks(&mut self, count: usize) -> Result<()> {
        self.marked = 0;
        if !self.gpu.has_events() {
            return Ok(());
        }
        let functions = self.gpu.functions();
        while self.marks.len() < count {
            // SAFETY: the structure lives until the call returns.
            let event = unsafe { functions.create_event(&vk::EventCreateInfo::default(), None) }
                .map_err(|error| failure("creating an event", error))?;
            self.marks.push(event);
        }
        self.reset_marks()
    }

    /// Unsets the marks, before commands that no work in flight uses are submitted. The host does it: a reset
    /// by the commands is not ordered before the events that they set, unless barriers order it after what is
    /// executing, too.
    pub(crate) fn reset_marks(&self) -> Result<()> {
        for event in &self.marks {
            // SAFETY: the event lives as long as the recorder, and no work in flight uses it.
            unsafe { self.gpu.functions().reset_event(*event) }
                .map_err(|error| failure("resetting an event", error))?;
        }
        Ok(())
    }

    /// Marks that what is before it is complete, for a host that looks while the commands execute. Events
    /// order nothing, and the host reads them without waiting, which some drivers do for queries.
    pub(crate) fn mark(&mut self) {
        if let Some(event) = self.marks.get(self.marked) {
            let stages = vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER;
            // SAFETY: recording has begun, and the event lives as long as the commands.
            unsafe { self.gpu.functions().cmd_set_event(self.commands, *event, stages) };
            self.marked += 1;
        }
    }

    /// How many of the marks the device has passed; `None` if there are none, or that is not known.
    pub(crate) fn marks_passed(&self) -> Option<usize> {
        let marks = self.marks.get(..self.marked).filter(|marks| !marks.is_empty())?;
        for (index, event) in marks.iter().enumerate() {
            // SAFETY: the event lives as long as the commands.
            match unsafe { self.gpu.functions().get_event_status(*event) } {
                Ok(true) => {}
                Ok(false) => return Some(index),
                Err(_) => return None,
            }
        }
        Some(marks.len())
    }

    /// Binds a pipeline with its constants and bindings. `executable`, whose pipeline it is, is kept.
    pub(crate) fn bind(
        &mut self,
        memory: &StagingMemory,
        executable: &Executable,
        pipeline: &Pipeline,
        constants: &[u8],
        bindings: &[MemoryRange],
    ) -> Result<()> {
        self.keep_executable(executable);
        // Kernels may write to all that is bound.
        bindings.iter().try_for_each(|range| self.keep_written(range))?;
        match pipeline.slots() {
            Slots::Descriptors => self.bind_descriptors(pipeline, bindings)?,
            Slots::Addresses(layout) => {
                let mut table = Vec::with_capacity(8 * bindings.len());
                for (ordinal, range) in bindings.iter().enumerate() {
                    layout
                        .check(ordinal, range.address(), range.length())
                        .context(|| format!("binding {ordinal}"))?;
                    table.extend(range.address().to_le_bytes());
                }
                let mut root = layout.root(0);
                if !table.is_empty() {
                    root = layout.root(self.table(memory, &table)?.address());
                }
                self.push_constants(pipeline, layout.root_offset(), &root);
            }
        }
        self.push_constants(pipeline, pipeline.constant_offset(), constants);
        if self.bound != pipeline.handle() {
            self.bound = pipeline.handle();
            // SAFETY: recording has begun; `self` keeps the pipeline's executable.
            unsafe {
                self.gpu.functions().cmd_bind_pipeline(
                    self.commands,
                    vk::PipelineBindPoint::COMPUTE,
                    pipeline.handle(),
                );
            }
        }
        Ok(())
    }

    /// A table of addresses, which kernels read: in the memory of the device if the host can write to that.
    pub(super) fn table(&mut self, memory: &StagingMemory, addresses: &[u8]) -> Result<MemoryRange> {
        let table = self.tables.write(memory, addresses, 16)?;
        self.keep(&table)?;
        Ok(table)
    }

    fn push_constants(&mut self, pipeline: &Pipeline, offset: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // SAFETY: recording has begun; the executable's reader has checked that the layout has the range.
        unsafe {
            self.gpu.functions().cmd_push_constants(
                self.commands,
                pipeline.layout(),
                vk::ShaderStageFlags::COMPUTE,
                offset,
                bytes,
            );
        }
    }

    fn bind_descriptors(&mut self, pipeline: &Pipeline, bindings: &[MemoryRange]) -> Result<()> {
        let slots = pipeline.descriptors();
        if slots.is_empty() && pipeline.set_layouts().is_empty() {
            return Ok(());
        }
        let buffers: smallvec::SmallVec<[vk::DescriptorBufferInfo; 8]> = bindings
            .iter()
            .map(|range| {
                let is_empty = range.length() == 0;
                vk::DescriptorBufferInfo {
                    buffer: range.allocation().block().buffer(),
                    offset: if is_empty { range.allocation().offset() } else { range.offset() },
                    range: descriptor_range(range.length()),
                }
            })
            .collect();
        for (range, slot) in bindings.iter().zip(slots) {
            slot.check(range.offset(), range.length(), |message, advice| {
                self.gpu.beyond_limits(message, advice)
            })?;
        }
        let pushed = self.gpu.push_descriptors().zip(pipeline.pushed_set()).map(|(_, set)| set);
        let sets = match pushed {
            Some(_) => smallvec::SmallVec::<[vk::DescriptorSet; 2]>::new(),
            None => self.allocate_sets(pipeline)?,
        };
        let writes: smallvec::SmallVec<[vk::WriteDescriptorSet<'_>; 8]> = slots
            .iter()
            .zip(&buffers)
            .map(|(slot, buffer)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(sets.get(slot.set as usize).copied().unwrap_or_default())
                    .dst_binding(slot.binding)
                    .dst_array_element(slot.element)
                    .descriptor_type(slot.kind)
                    .buffer_info(std::slice::from_ref(buffer))
            })
            .collect();
        let (functions, layout, point) =
            (self.gpu.functions(), pipeline.layout(), vk::PipelineBindPoint::COMPUTE);
        if let (Some(push), Some(set)) = (self.gpu.push_descriptors(), pushed) {
            // SAFETY: recording has begun; the writes name slots of the pipeline's layout and buffers that
            // `self` keeps.
            unsafe { push.cmd_push_descriptor_set(self.commands, point, layout, set, &writes) };
            return Ok(());
        }
        // SAFETY: as above; the sets are new, so that no commands use them.
        unsafe {
            functions.update_descriptor_sets(&writes, &[]);
            functions.cmd_bind_descriptor_sets(self.commands, point, layout, 0, &sets, &[]);
        }
        Ok(())
    }

    fn allocate_sets(&mut self, pipeline: &Pipeline) -> Result<smallvec::SmallVec<[vk::DescriptorSet; 2]>> {
        let layouts = pipeline.set_layouts();
        for pool in self.descriptors.iter().rev() {
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(*pool).set_layouts(layouts);
            // SAFETY: the pool is this recorder's, and the layouts are kept by the pipeline's executable.
            match unsafe { self.gpu.functions().allocate_descriptor_sets(&info) } {
                Ok(sets) => return Ok(sets.into()),
                Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL) => {}
                Err(error) => return Err(failure("allocating descriptors", error)),
            }
        }
        let pool = self.create_descriptor_pool(pipeline)?;
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(layouts);
        // SAFETY: as above; the new pool has room for the sets.
        unsafe { self.gpu.functions().allocate_descriptor_sets(&info) }
            .map(Into::into)
            .map_err(|error| failure("allocating descriptors", error))
    }

    fn create_descriptor_pool(&mut self, pipeline: &Pipeline) -> Result<vk::DescriptorPool> {
        let count = |kind| pipeline.descriptor_count(kind).max(4) * SETS_PER_POOL;
        let sizes = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::UNIFORM_BUFFER]
            .map(|kind| vk::DescriptorPoolSize { ty: kind, descriptor_count: count(kind) });
        let sets = SETS_PER_POOL.max(pipeline.set_layouts().len() as u32);
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the sizes live until the call returns.
        let pool = unsafe { self.gpu.functions().create_descriptor_pool(&info, None) }
            .map_err(|error| failure("creating a descriptor pool", error))?;
        self.descriptors.push(pool);
        Ok(pool)
    }

    /// Runs workgroups of what is bound. Fails if the device cannot run as many.
    pub(crate) fn dispatch(&mut self, count: [u32; 3]) -> Result<()> {
        self.recorded += 1;
        for exceeded in self.gpu.physical().dispatch_limits().exceeded(Some(count), 0) {
            self.gpu.beyond_limits(exceeded, "compile the program with larger workgroups or tiles")?;
        }
        if !count.contains(&0) {
            let [x, y, z] = count;
            // SAFETY: recording has begun; a pipeline with all it needs is bound.
            unsafe { self.gpu.functions().cmd_dispatch(self.commands, x, y, z) };
        }
        Ok(())
    }

    /// Runs as many workgroups of what is bound as three words in a buffer say then.
    pub(crate) fn dispatch_indirect(&mut self, count: &MemoryRange) -> Result<()> {
        self.recorded += 1;
        if count.length() < WORKGROUP_COUNT_BYTES {
            return Err(Error::out_of_range(format!(
                "a workgroup count has {WORKGROUP_COUNT_BYTES} bytes, not {}",
                count.length()
            )));
        }
        if !count.offset().is_multiple_of(4) {
            return Err(Error::invalid_argument("a workgroup count is not aligned to 4 bytes"));
        }
        self.keep(count)?;
        let buffer = count.allocation().block().buffer();
        // SAFETY: recording has begun; a pipeline with all it needs is bound; the words are in the buffer,
        // which `self` keeps.
        unsafe { self.gpu.functions().cmd_dispatch_indirect(self.commands, buffer, count.offset()) };
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.gpu.is_stuck() {
            return;
        }
        let functions = self.gpu.functions();
        // SAFETY: work in flight owns its recorder, so the device does not use it any more.
        unsafe {
            for pool in &self.descriptors {
                functions.destroy_descriptor_pool(*pool, None);
            }
            functions.destroy_query_pool(self.timestamps.pool, None);
            self.marks.iter().for_each(|event| functions.destroy_event(*event, None));
            functions.destroy_command_pool(self.pool, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use rehal_hal::ExecutableParams;

    use super::*;
    use crate::VulkanOptions;
    use crate::executable::VulkanExecutable;
    use crate::gpu::tests::gpu;

    /// The numbers of objects that a recorder keeps, and whether its command pool is large.
    fn kept(recorder: &Recorder) -> (usize, usize, u32, bool) {
        let (pools, marks) = (recorder.descriptors.len(), recorder.marks.len());
        (pools, marks, recorder.timestamps.capacity, recorder.recorded > KEPT_COMMANDS)
    }

    #[test]
    fn recorders_do_not_keep_what_only_the_largest_commands_need() {
        let gpu = gpu();
        let path = testing::fixtures().join("vulkan/executables/constants.descriptors.vk1");
        let data = std::fs::read(path).unwrap();
        let params = ExecutableParams::new("vulkan-spirv-fb", &data);
        let executable = VulkanExecutable::prepare(&gpu, &VulkanOptions::default(), &params).unwrap();
        let pipeline = executable.pipeline(0).unwrap();
        let mut recorder = Recorder::create(&gpu, gpu.families()[0]).unwrap();
        let mut record = |pools: usize, marks: usize, timestamps: u32, commands: usize| {
            recorder.begin(Repeats::Never).unwrap();
            while recorder.descriptors.len() < pools {
                recorder.create_descriptor_pool(pipeline).unwrap();
            }
            recorder.begin_marks(marks).unwrap();
            recorder.begin_timestamps(timestamps).unwrap();
            for _ in 0..commands {
                recorder.dispatch([0; 3]).unwrap();
            }
            recorder.end().unwrap();
            let before = kept(&recorder);
            recorder.reset().unwrap();
            (before, kept(&recorder))
        };
        // Enough for what is usual is kept.
        assert_eq!(record(2, 100, 202, 300), ((2, 100, 256, false), (2, 100, 256, false)));
        let (before, after) = record(100, 5000, 10_002, 10_000);
        assert_eq!(before, (100, 5000, 16_384, true));
        assert_eq!(after, (KEPT_DESCRIPTOR_POOLS, KEPT_MARKS, 0, false));
        assert_eq!(record(2, 100, 202, 300).1, (KEPT_DESCRIPTOR_POOLS, KEPT_MARKS, 256, false));
    }
}
