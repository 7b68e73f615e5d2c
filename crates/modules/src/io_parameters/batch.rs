use rehal_base::Result;
use rehal_hal::*;
use rehal_params::Pattern;

/// Limit on the timelines that a batch is spread over (the reference's limit).
const MAX_TIMELINES: usize = 8;

/// Limit on the size of a buffer update that every device accepts, in bytes.
const UPDATE_BYTES: u64 = 64 << 10;

/// Work that starts when `waits` are reached and signals `signals` when all of it has completed.
///
/// Operations are spread over a few timelines, each of which is a chain: the next one goes to the timeline
/// with the fewest bytes so far. Fills are collected in one command buffer.
pub(super) struct Batch<'a> {
    device: &'a Device,
    affinity: QueueAffinity,
    waits: Option<&'a Fence>,
    signals: Option<&'a Fence>,
    timelines: Vec<Timeline>,
    transfers: Option<Transfers>,
}

/// A chain of operations.
struct Timeline {
    semaphore: Semaphore,
    value: u64,
    bytes: u64,
}

/// The fill commands and their dependencies.
struct Transfers {
    command_buffer: CommandBuffer,
    bytes: u64,
    /// The timelines that allocate their buffers, with the values that signal the allocation.
    allocated: Vec<Allocated>,
}

/// A position on a timeline.
#[derive(Clone, Copy)]
struct Step {
    timeline: usize,
    /// The preceding value; `None` for the first operation of the timeline, which waits for the batch's
    /// waits.
    after: Option<u64>,
    reaches: u64,
}

/// Bytes of a buffer.
#[derive(Clone, Copy)]
pub(super) struct Part<'b> {
    /// The buffer.
    pub buffer: &'b Buffer,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// The point at which a buffer allocated by the batch is available: a timeline of the batch and a value.
pub(super) type Allocated = (usize, u64);

impl<'a> Batch<'a> {
    /// An empty batch for the queues of `device` in `affinity`.
    pub(super) fn new(
        device: &'a Device,
        affinity: QueueAffinity,
        waits: Option<&'a Fence>,
        signals: Option<&'a Fence>,
    ) -> Self {
        Self { device, affinity, waits, signals, timelines: Vec::new(), transfers: None }
    }

    /// Allocates a buffer on the queue. The operations that fill it go to the same timeline.
    pub(super) fn alloca(&mut self, params: BufferParams, size: u64) -> Result<(Buffer, Allocated)> {
        let step = self.advance(0)?;
        let buffer = self.submit(step, &[], |queue| queue.alloca(params, size, 0))?;
        Ok((buffer, (step.timeline, step.reaches)))
    }

    /// Reads bytes of a file into a range of a buffer.
    pub(super) fn read(&mut self, file: &File, file_offset: u64, target: Part<'_>) -> Result<()> {
        let step = self.advance(target.length)?;
        self.submit(step, &[], |queue| queue.read(file, file_offset, range(target), 0))
    }

    /// Fills a range of a buffer with a pattern.
    pub(super) fn splat(
        &mut self,
        target: Part<'_>,
        allocated: Option<Allocated>,
        pattern: &Pattern,
    ) -> Result<()> {
        let transfers = match &mut self.transfers {
            Some(transfers) => transfers,
            empty => empty.insert(Transfers::new(self.device, self.affinity)?),
        };
        transfers.bytes = transfers.bytes.saturating_add(target.length);
        transfers.allocated.extend(allocated);
        let pattern = pattern.shortest();
        let buffer = &transfers.command_buffer;
        let pattern = pattern.as_bytes();
        if pattern.len() <= 4 && transfer_checks::check_fill(target.offset, target.length, pattern).is_ok() {
            buffer.record(&Command::Fill { target: range(target), pattern, flags: 0 })
        } else {
            spread(buffer, target, pattern)
        }
    }

    /// Submits the remaining work and makes the batch's signals wait for all of it.
    pub(super) fn finish(mut self) -> Result<()> {
        if let Some(transfers) = self.transfers.take() {
            transfers.command_buffer.end()?;
            let step = self.advance(transfers.bytes)?;
            // Buffers may be allocated on other timelines than the one of the transfers.
            let mut others: Vec<Allocated> = Vec::new();
            for (timeline, value) in transfers.allocated {
                match others.iter_mut().find(|(known, _)| *known == timeline) {
                    Some((_, latest)) => *latest = value.max(*latest),
                    None if timeline != step.timeline => others.push((timeline, value)),
                    None => {}
                }
            }
            self.submit(step, &others, |queue| queue.execute(&transfers.command_buffer, &[], 0))?;
        }
        let last = |timeline: &Timeline| (timeline.semaphore.clone(), timeline.value);
        let joined: Vec<_> = self.timelines.iter().map(last).collect();
        let waits = timepoints(if joined.is_empty() { of_fence(self.waits) } else { &joined });
        let signals = timepoints(of_fence(self.signals));
        self.device.queue(self.affinity).wait(&waits).signal(&signals).barrier(0)
    }

    /// Advances the timeline with the fewest bytes; unused ones have none.
    fn advance(&mut self, bytes: u64) -> Result<Step> {
        let least = (0..self.timelines.len()).min_by_key(|index| self.timelines[*index].bytes);
        let unused = self.timelines.len() < MAX_TIMELINES;
        let timeline = match least {
            Some(index) if self.timelines[index].bytes == 0 || !unused => index,
            _ => {
                let flags = SemaphoreFlags::HOST_INTERRUPT | SemaphoreFlags::EXPORTABLE_TIMEPOINTS;
                let semaphore = self.device.create_semaphore(QUEUE_AFFINITY_ANY, 0, flags)?;
                self.timelines.push(Timeline { semaphore, value: 0, bytes: 0 });
                self.timelines.len() - 1
            }
        };
        let chosen = &mut self.timelines[timeline];
        let after = (chosen.value > 0).then_some(chosen.value);
        chosen.value += 1;
        chosen.bytes = chosen.bytes.saturating_add(bytes);
        Ok(Step { timeline, after, reaches: chosen.value })
    }

    /// Submits an operation at its position on a timeline.
    fn submit<R>(
        &self,
        step: Step,
        others: &[Allocated],
        operation: impl FnOnce(Queue<'_>) -> Result<R>,
    ) -> Result<R> {
        let at = |timeline: usize, value| self.timelines[timeline].semaphore.at(value);
        let mut waits = match step.after {
            Some(value) => vec![at(step.timeline, value)],
            None => timepoints(of_fence(self.waits)),
        };
        waits.extend(others.iter().map(|(timeline, value)| at(*timeline, *value)));
        let signals = [at(step.timeline, step.reaches)];
        operation(self.device.queue(self.affinity).wait(&waits).signal(&signals))
    }
}

impl Transfers {
    fn new(device: &Device, affinity: QueueAffinity) -> Result<Self> {
        let command_buffer = device.create_command_buffer(CommandBufferParams {
            mode: CommandBufferMode::ONE_SHOT,
            categories: CommandCategories::TRANSFER,
            affinity,
            binding_capacity: 0,
        })?;
        command_buffer.begin()?;
        Ok(Self { command_buffer, bytes: 0, allocated: Vec::new() })
    }
}

/// The timepoints of a fence; empty for `None`.
fn of_fence(fence: Option<&Fence>) -> &[(Semaphore, u64)] {
    fence.map_or(&[], Fence::timepoints)
}

fn timepoints(named: &[(Semaphore, u64)]) -> Vec<Timepoint<&Semaphore>> {
    named.iter().map(|(semaphore, value)| semaphore.at(*value)).collect()
}

/// A range of a buffer as an operand.
fn range(part: Part<'_>) -> BufferRef<&Buffer> {
    BufferRef { binding: Binding::Direct(part.buffer), offset: part.offset, length: part.length }
}

/// Fills with a pattern that fill commands cannot express, being wide or unaligned: writes its start, and
/// repeatedly doubles it by copying. (The reference fails here.)
fn spread(into: &CommandBuffer, target: Part<'_>, pattern: &[u8]) -> Result<()> {
    let Part { buffer, offset, length } = target;
    let part = |offset, length| range(Part { buffer, offset, length });
    let start: Vec<u8> = pattern.iter().copied().cycle().take(length.min(UPDATE_BYTES) as usize).collect();
    let mut done = start.len() as u64;
    into.record(&Command::Update { source: &start, target: part(offset, done), flags: 0 })?;
    while done < length {
        let memory_barriers = &[MemoryBarrier {
            source_scope: AccessScope::TRANSFER_WRITE,
            target_scope: AccessScope::TRANSFER_READ,
        }];
        into.record(&Command::ExecutionBarrier {
            source_stages: ExecutionStage::TRANSFER,
            target_stages: ExecutionStage::TRANSFER,
            flags: 0,
            memory_barriers,
            buffer_barriers: &[],
        })?;
        let next = done.min(length - done);
        let (source, target) = (part(offset, next), part(offset + done, next));
        into.record(&Command::Copy { source, target, flags: 0 })?;
        done += next;
    }
    Ok(())
}
