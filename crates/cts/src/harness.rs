use std::time::Duration;

use rehal_base::{Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, CachingMode, CommandBuffer, CommandBufferMode, CommandBufferParams,
    CommandCategories, Device, Executable, ExecutableParams, Live, MemoryAccess, MemoryType,
    QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags, Timepoint,
};

use crate::check;
use crate::live::QueueOp;
use crate::script::Part;
use crate::{Kernel, Subject};

/// Submits one operation, with nothing to wait for, and waits until it has run.
///
/// A macro, as the lists of timepoints live only inside of the statement.
macro_rules! run {
    ($harness:expr, $op:expr) => {{
        let harness: &crate::harness::Harness<'_> = $harness;
        match harness.semaphore() {
            Err(error) => Err(error),
            Ok(done) => {
                let signals = [crate::harness::at(&done, 1)];
                match harness.device.submit(rehal_hal::QUEUE_AFFINITY_ANY, &[], &signals, $op) {
                    Err(error) => Err(error),
                    Ok(_) => harness.wait(&done, 1),
                }
            }
        }
    }};
}
pub(crate) use run;

/// A device under test, and the steps that most tests begin with.
pub(crate) struct Harness<'s> {
    subject: &'s dyn Subject,
    pub(crate) device: Device,
}

/// A timepoint.
pub(crate) fn at(semaphore: &Semaphore, value: u64) -> Timepoint<Live<'_>> {
    Timepoint { semaphore, value }
}

/// The bytes of little-endian words.
pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes that differ from their neighbours and from each other's rows: `seed` makes them others.
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

    /// What is tested.
    pub(crate) fn subject(&self) -> &'s dyn Subject {
        self.subject
    }

    /// How long to wait for what must happen.
    pub(crate) fn patience(&self) -> Duration {
        self.subject.patience()
    }

    /// A semaphore at 0.
    pub(crate) fn semaphore(&self) -> Result<Semaphore> {
        self.semaphore_at(0)
    }

    /// A semaphore at `value`.
    pub(crate) fn semaphore_at(&self, value: u64) -> Result<Semaphore> {
        self.device.create_semaphore(QUEUE_AFFINITY_ANY, value, SemaphoreFlags::empty())
    }

    /// Waits for what must happen.
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

    /// Submits a barrier that waits for nothing and waits for it: a device that runs work too
    /// early has had time to do so.
    pub(crate) fn settle(&self) -> Result<()> {
        self.device.flush(QUEUE_AFFINITY_ANY)?;
        run!(self, QueueOp::Barrier { flags: 0 })
    }

    /// What buffers of tests are made with: for transfers, dispatches and mappings.
    pub(crate) fn mappable() -> BufferParams {
        BufferParams {
            usage: BufferParams::default().usage
                | BufferUsage::DISPATCH_INDIRECT_PARAMETERS
                | BufferUsage::MAPPING_SCOPED,
            memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            ..BufferParams::default()
        }
    }

    /// A buffer that holds `bytes`, written by the host.
    pub(crate) fn buffer(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.device.allocate_buffer(Self::mappable(), bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// A buffer that a queue allocated, and that holds `bytes`.
    pub(crate) fn transient(&self, bytes: &[u8]) -> Result<Buffer> {
        let done = self.semaphore()?;
        let buffer = {
            let signals = [at(&done, 1)];
            self.device.alloca(&[], &signals, BufferParams::default(), bytes.len() as u64)?
        };
        self.wait(&done, 1)?;
        run!(self, QueueOp::Update { source: bytes, target: (&buffer).into(), flags: 0 })?;
        Ok(buffer)
    }

    /// A buffer that holds `words`, written by the host.
    pub(crate) fn words(&self, words: &[u32]) -> Result<Buffer> {
        self.buffer(&bytes_of(words))
    }

    /// All bytes of a buffer, read by the host; copied over where the host cannot map it.
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
        run!(self, QueueOp::Copy { source: buffer.into(), target: (&staging).into(), flags: 0 })?;
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

    /// A command buffer that is being recorded.
    pub(crate) fn begin(&self, mode: CommandBufferMode, binding_capacity: u64) -> Result<CommandBuffer> {
        let commands =
            self.unbegun(mode, CommandCategories::TRANSFER | CommandCategories::DISPATCH, binding_capacity)?;
        commands.begin()?;
        Ok(commands)
    }

    /// A command buffer that is not begun yet.
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

    /// Runs a command buffer with a binding table and waits for it.
    pub(crate) fn execute(&self, command_buffer: &CommandBuffer, table: &[Part<'_>]) -> Result<()> {
        let bindings: Vec<_> = table.iter().map(|part| part.as_ref()).collect();
        run!(self, QueueOp::Execute { command_buffer, bindings: &bindings, flags: 0 })
    }

    /// One of the suite's kernels, prepared.
    pub(crate) fn prepare(&self, kernel: Kernel, format: &str) -> Result<Executable> {
        self.prepare_bytes(&self.subject.kernel(kernel, format)?, format, &[])
    }

    /// Code, prepared.
    pub(crate) fn prepare_bytes(&self, data: &[u8], format: &str, constants: &[u32]) -> Result<Executable> {
        self.subject.prepare(
            &self.device,
            &ExecutableParams {
                label: "",
                affinity: QUEUE_AFFINITY_ANY,
                caching_mode: CachingMode::empty(),
                format,
                data,
                constants,
            },
        )
    }
}
