use std::time::Duration;

use rehal_base::{Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, BufferUsage, CommandBuffer, CommandBufferMode, CommandBufferParams,
    CommandCategories, Device, Executable, ExecutableParams, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY,
    Queue, Semaphore, SemaphoreFlags, WorkgroupSchedule,
};

use crate::check;
use crate::{Kernel, Subject};

/// A device under test, and the common steps of tests.
pub(crate) struct Harness<'s> {
    subject: &'s dyn Subject,
    pub(crate) device: Device,
}

/// Words as little-endian bytes.
pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Pseudo-random bytes, distinct from their neighbours; `seed` selects the sequence.
pub(crate) fn noise(length: usize, seed: u32) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed.into()).fill(&mut bytes);
    bytes
}

impl<'s> Harness<'s> {
    /// A harness around a new device.
    pub(crate) fn new(subject: &'s dyn Subject) -> Result<Self> {
        Ok(Self { subject, device: subject.device()? })
    }

    /// The subject under test.
    pub(crate) fn subject(&self) -> &'s dyn Subject {
        self.subject
    }

    /// The timeout for events that must happen.
    pub(crate) fn patience(&self) -> Duration {
        self.subject.patience()
    }

    /// A semaphore at 0.
    pub(crate) fn semaphore(&self) -> Result<Semaphore> {
        self.semaphore_at(0)
    }

    /// Two semaphores at 0, such as that of a wait and that of a signal.
    pub(crate) fn two_semaphores(&self) -> Result<(Semaphore, Semaphore)> {
        Ok((self.semaphore()?, self.semaphore()?))
    }

    /// A semaphore at `value`.
    pub(crate) fn semaphore_at(&self, value: u64) -> Result<Semaphore> {
        self.device.create_semaphore(QUEUE_AFFINITY_ANY, value, SemaphoreFlags::empty())
    }

    /// All queues of the device.
    pub(crate) fn queue(&self) -> Queue<'_> {
        self.device.queue(QUEUE_AFFINITY_ANY)
    }

    /// Submits work through `submit` on a queue without waits, and waits for its completion.
    pub(crate) fn run(&self, submit: impl FnOnce(Queue<'_>) -> Result<()>) -> Result<()> {
        let done = self.semaphore()?;
        submit(self.queue().signal(&[done.at(1)]))?;
        self.wait(&done, 1)
    }

    /// Waits for an event that must happen.
    pub(crate) fn wait(&self, semaphore: &Semaphore, value: u64) -> Result<()> {
        semaphore.wait(value, Some(self.patience()))
    }

    /// Waits for a failure and checks its code.
    #[track_caller]
    pub(crate) fn expect_failure(&self, what: &str, semaphore: &Semaphore, code: StatusCode) -> Result<()> {
        let outcome = semaphore.wait(u64::MAX - 1, Some(self.patience()));
        check::refused(what, outcome, &[code])?;
        check::refused(what, semaphore.query(), &[code])
    }

    /// Submits a barrier without waits and waits for it: time enough for a device to run work too early.
    pub(crate) fn settle(&self) -> Result<()> {
        self.device.flush(QUEUE_AFFINITY_ANY)?;
        self.run(|queue| queue.barrier(0))
    }

    /// Buffer parameters of tests: transfers, dispatches and mappings. The memory need not be coherent.
    pub(crate) fn mappable() -> BufferParams {
        BufferParams {
            usage: BufferParams::default().usage
                | BufferUsage::DISPATCH_INDIRECT_PARAMETERS
                | BufferUsage::MAPPING_SCOPED,
            memory_type: MemoryType::HOST_VISIBLE | MemoryType::DEVICE_VISIBLE,
            ..BufferParams::default()
        }
    }

    /// A buffer with `bytes`, written by the host.
    pub(crate) fn buffer(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.device.allocate_buffer(Self::mappable(), bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// A queue-allocated buffer with `bytes`.
    pub(crate) fn transient(&self, bytes: &[u8]) -> Result<Buffer> {
        let done = self.semaphore()?;
        let buffer = {
            let signals = [done.at(1)];
            self.queue().signal(&signals).alloca(BufferParams::default(), bytes.len() as u64, 0)?
        };
        self.wait(&done, 1)?;
        self.run(|queue| queue.update(bytes, &buffer, 0))?;
        Ok(buffer)
    }

    /// A buffer with `words`, written by the host.
    pub(crate) fn words(&self, words: &[u32]) -> Result<Buffer> {
        self.buffer(&bytes_of(words))
    }

    /// All bytes of a buffer, read by the host; staged if the host cannot map it.
    pub(crate) fn read(&self, buffer: &Buffer) -> Result<Vec<u8>> {
        let mut bytes = vec![0; buffer.size() as usize];
        let params = buffer.params();
        if params.memory_type.contains(MemoryType::HOST_VISIBLE)
            && params.usage.contains(BufferUsage::MAPPING_SCOPED)
            && params.access.intersects(MemoryAccess::READ | MemoryAccess::ANY)
        {
            buffer.read(0, &mut bytes)?;
            self.subject.saw(&bytes);
            return Ok(bytes);
        }
        let staging = self.buffer(&bytes)?;
        self.run(|queue| queue.copy(buffer, &staging, 0))?;
        staging.read(0, &mut bytes)?;
        self.subject.saw(&bytes);
        Ok(bytes)
    }

    /// All words of a buffer.
    pub(crate) fn read_words(&self, buffer: &Buffer) -> Result<Vec<u32>> {
        let bytes = self.read(buffer)?;
        let words = bytes.chunks_exact(4);
        Ok(words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    /// A command buffer that has begun recording.
    pub(crate) fn begin(&self, mode: CommandBufferMode, binding_capacity: u64) -> Result<CommandBuffer> {
        let commands =
            self.unbegun(mode, CommandCategories::TRANSFER | CommandCategories::DISPATCH, binding_capacity)?;
        commands.begin()?;
        Ok(commands)
    }

    /// A command buffer that has not begun recording.
    pub(crate) fn unbegun(
        &self,
        mode: CommandBufferMode,
        categories: CommandCategories,
        binding_capacity: u64,
    ) -> Result<CommandBuffer> {
        self.device.create_command_buffer(CommandBufferParams {
            mode,
            categories,
            affinity: QUEUE_AFFINITY_ANY,
            binding_capacity,
        })
    }

    /// Executes a command buffer with a binding table and waits for it.
    pub(crate) fn execute(&self, command_buffer: &CommandBuffer, table: &[BufferRef<&Buffer>]) -> Result<()> {
        self.run(|queue| queue.execute(command_buffer, table, 0))
    }

    /// Prepares one of the suite's kernels.
    pub(crate) fn prepare(&self, kernel: Kernel, format: &str) -> Result<Executable> {
        self.prepare_bytes(&self.subject.kernel(kernel, format)?, format, &[])
    }

    /// The same, whose workgroups run as scheduled.
    pub(crate) fn prepare_scheduled(
        &self,
        kernel: Kernel,
        format: &str,
        workgroups: WorkgroupSchedule,
    ) -> Result<Executable> {
        let data = self.subject.kernel(kernel, format)?;
        let params = ExecutableParams { workgroups, ..ExecutableParams::new(format, &data) };
        self.subject.prepare(&self.device, &params)
    }

    /// Prepares code.
    pub(crate) fn prepare_bytes(&self, data: &[u8], format: &str, constants: &[u32]) -> Result<Executable> {
        self.subject
            .prepare(&self.device, &ExecutableParams { constants, ..ExecutableParams::new(format, data) })
    }
}
