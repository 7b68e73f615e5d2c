use rehal_base::{Error, Result};
use rehal_hal::*;
use rehal_params::Pattern;

/// How many timelines work of a batch is spread over (the reference's limit).
const MAX_TIMELINES: usize = 8;

/// The largest update of a buffer that every device takes, in bytes.
const UPDATE_BYTES: u64 = 64 << 10;

/// Work that starts when `waits` are reached and signals `signals` when all of it is done.
///
/// Operations are spread over a few timelines, each of which is a chain: the next one goes to the
/// timeline with the fewest bytes so far. What fills buffers is collected in one command buffer.
pub(super) struct Batch<'a> {
    device: &'a Device,
    affinity: QueueAffinity,
    waits: Vec<Timepoint<Live<'a>>>,
    signals: Vec<Timepoint<Live<'a>>>,
    timelines: Vec<Timeline>,
    transfers: Option<Transfers>,
}

/// A chain of operations.
struct Timeline {
    semaphore: Semaphore,
    value: u64,
    bytes: u64,
}

/// The commands that fill buffers, and what has to be there first.
struct Transfers {
    command_buffer: CommandBuffer,
    bytes: u64,
    /// The timelines that its buffers are allocated on, with the values by which they are.
    allocated: Vec<(usize, u64)>,
}

/// The next place on a timeline.
#[derive(Clone, Copy)]
struct Step {
    timeline: usize,
    /// The value before; `None` for the timeline's first operation, which waits for what the batch does.
    after: Option<u64>,
    reaches: u64,
}

/// A buffer of the batch and, where the batch allocated it, when it is there.
pub(super) struct Target<'b> {
    /// The buffer.
    pub buffer: &'b Buffer,
    /// The timeline and value of its allocation.
    pub allocated: Option<(usize, u64)>,
}

impl<'a> Batch<'a> {
    /// An empty batch for the queues of `device` in `affinity`.
    pub(super) fn new(
        device: &'a Device,
        affinity: QueueAffinity,
        waits: Option<&'a Fence>,
        signals: Option<&'a Fence>,
    ) -> Self {
        let timepoints =
            |fence: Option<&'a Fence>| fence.into_iter().flat_map(|fence| fence.live_timepoints()).collect();
        Self {
            device,
            affinity,
            waits: timepoints(waits),
            signals: timepoints(signals),
            timelines: Vec::new(),
            transfers: None,
        }
    }

    /// Allocates a buffer in the queue. What fills it next goes to the same timeline.
    pub(super) fn alloca(&mut self, params: BufferParams, size: u64) -> Result<(Buffer, (usize, u64))> {
        let step = self.advance(0)?;
        let op = QueueOp::Alloca { params, size, flags: 0, created: () };
        let buffer = self.submit(step, &[], op)?.ok_or_else(|| {
            Error::new(rehal_base::StatusCode::Internal, "the driver's alloca returned no buffer")
        })?;
        Ok((buffer, (step.timeline, step.reaches)))
    }

    /// Reads bytes of a file into a range of a buffer.
    pub(super) fn read(&mut self, file: &File, file_offset: u64, target: BufferRef<Live<'_>>) -> Result<()> {
        let step = self.advance(target.length)?;
        self.submit(step, &[], QueueOp::Read { file, file_offset, target, flags: 0 }).map(drop)
    }

    /// Writes a range of a buffer to a file.
    pub(super) fn write(
        &mut self,
        source: BufferRef<Live<'_>>,
        file: &File,
        file_offset: u64,
    ) -> Result<()> {
        let step = self.advance(source.length)?;
        self.submit(step, &[], QueueOp::Write { source, file, file_offset, flags: 0 }).map(drop)
    }

    /// Repeats a pattern over a range of a buffer.
    pub(super) fn splat(
        &mut self,
        target: &Target<'_>,
        offset: u64,
        length: u64,
        pattern: &Pattern,
    ) -> Result<()> {
        let transfers = match &mut self.transfers {
            Some(transfers) => transfers,
            empty => empty.insert(Transfers::new(self.device, self.affinity)?),
        };
        transfers.bytes += length;
        transfers.allocated.extend(target.allocated);
        let pattern = pattern.shortest();
        let buffer = &transfers.command_buffer;
        match pattern.as_bytes() {
            bytes if bytes.len() <= 4 => {
                let target = range(target.buffer, offset, length);
                buffer.record(&Command::Fill { target, pattern: bytes, flags: 0 })
            }
            bytes => spread(buffer, target.buffer, offset, length, bytes),
        }
    }

    /// Submits what is left and makes the batch's signals wait for all of it.
    pub(super) fn finish(mut self) -> Result<()> {
        if let Some(transfers) = self.transfers.take() {
            transfers.command_buffer.end()?;
            let step = self.advance(transfers.bytes)?;
            // Buffers may be allocated on other timelines than the one that this goes to.
            let mut others: Vec<(usize, u64)> = Vec::new();
            for (timeline, value) in transfers.allocated {
                match others.iter_mut().find(|(known, _)| *known == timeline) {
                    Some((_, latest)) => *latest = value.max(*latest),
                    None if timeline != step.timeline => others.push((timeline, value)),
                    None => {}
                }
            }
            let command_buffer = &transfers.command_buffer;
            self.submit(step, &others, QueueOp::Execute { command_buffer, bindings: &[], flags: 0 })?;
        }
        let joined: Vec<_> = self
            .timelines
            .iter()
            .map(|timeline| Timepoint { semaphore: &timeline.semaphore, value: timeline.value })
            .collect();
        let waits = if joined.is_empty() { &self.waits } else { &joined };
        self.device.submit(self.affinity, waits, &self.signals, QueueOp::Barrier { flags: 0 }).map(drop)
    }

    /// Takes the next place on the timeline with the fewest bytes; an unused one has none.
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

    fn submit(&self, step: Step, others: &[(usize, u64)], op: QueueOp<Live<'_>>) -> Result<Option<Buffer>> {
        let at = |timeline: usize, value| Timepoint { semaphore: &self.timelines[timeline].semaphore, value };
        let mut waits = match step.after {
            Some(value) => vec![at(step.timeline, value)],
            None => self.waits.clone(),
        };
        waits.extend(others.iter().map(|(timeline, value)| at(*timeline, *value)));
        self.device.submit(self.affinity, &waits, &[at(step.timeline, step.reaches)], op)
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

/// A range of a buffer, as commands name it.
pub(super) fn range(buffer: &Buffer, offset: u64, length: u64) -> BufferRef<Live<'_>> {
    BufferRef { binding: Binding::Direct(buffer), offset, length }
}

/// Repeats a pattern that is too wide for a fill: writes its start, and copies that behind itself,
/// twice as much each time. (The reference fails here.)
fn spread(
    into: &CommandBuffer,
    buffer: &Buffer,
    offset: u64,
    length: u64,
    pattern: &[u8],
) -> Result<()> {
    let start: Vec<u8> = pattern.iter().copied().cycle().take(length.min(UPDATE_BYTES) as usize).collect();
    let mut done = start.len() as u64;
    into.record(&Command::Update { source: &start, target: range(buffer, offset, done), flags: 0 })?;
    let written = [MemoryBarrier {
        source_scope: AccessScope::TRANSFER_WRITE,
        target_scope: AccessScope::TRANSFER_READ,
    }];
    while done < length {
        into.record(&Command::ExecutionBarrier {
            source_stages: ExecutionStage::TRANSFER,
            target_stages: ExecutionStage::TRANSFER,
            flags: 0,
            memory_barriers: &written,
            buffer_barriers: &[],
        })?;
        let next = done.min(length - done);
        let (source, target) = (range(buffer, offset, next), range(buffer, offset + done, next));
        into.record(&Command::Copy { source, target, flags: 0 })?;
        done += next;
    }
    Ok(())
}
