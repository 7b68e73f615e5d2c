use std::any::Any;
use std::sync::Arc;

use rehal_base::{Error, Result, glob};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, Channel, ChannelParams, CommandBuffer, CommandBufferParams, Device,
    DeviceBackend, DeviceInfo, Event, EventBackend, Executable, ExecutableParams, File, HostFile, HostMemory,
    Live, MemoryAccess, MemoryCounters, MemoryStatistics, MemoryType, PendingSubmissions, PlainBuffer,
    Promise, QueueAffinity, QueueOp, Semaphore, SemaphoreFlags, Submission, Timeline, unsupported,
};

use crate::command::LocalCommands;
use crate::driver::LOCAL_SYNC;
use crate::executable::{self, LocalExecutable, Plugins};
use crate::execute::{LiveNames, run_and_settle, run_kept};

/// Minimum alignment of buffers, as compiled kernels assume.
const BINDING_ALIGNMENT_BYTES: usize = 64;

const ALL_ACCESS: MemoryAccess = MemoryAccess::READ.union(MemoryAccess::WRITE).union(MemoryAccess::DISCARD);

/// A CPU device that runs work on the thread that makes it ready: the one that submits, or the one that
/// signals the last of its waits.
pub struct LocalSync {
    info: DeviceInfo,
    plugins: Plugins,
    memory: Arc<MemoryCounters>,
    /// Submissions with unreached waits.
    pending: PendingSubmissions,
}

impl LocalSync {
    /// The device; executables resolve their imports from `plugins`.
    pub fn create(plugins: Plugins) -> Device {
        let info = DeviceInfo { driver: LOCAL_SYNC.into(), name: LOCAL_SYNC.into() };
        Device::new(Self {
            info,
            plugins,
            memory: Arc::default(),
            pending: PendingSubmissions::new(run_kept),
        })
    }
}

impl DeviceBackend for LocalSync {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        match (category, key) {
            ("hal.device.id", pattern) => Ok(glob::matches(pattern, &self.info.name).into()),
            ("hal.executable.format", format) => Ok(executable::is_supported(format).into()),
            ("hal.device" | "hal.dispatch", "concurrency") => Ok(1),
            ("hal.cpu", feature) => executable::query_processor(feature),
            _ => Err(Error::not_found(format!("device '{}' has no '{category} :: {key}'", self.info.name))),
        }
    }

    // All buffers are host memory, so all can be mapped and copied (the reference's heap allocator grants the
    // same, as captures show).
    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        Ok(BufferParams {
            memory_type: (params.memory_type - MemoryType::OPTIMAL) | MemoryType::HOST_VISIBLE,
            usage: params.usage
                | BufferUsage::MAPPING_SCOPED
                | BufferUsage::MAPPING_PERSISTENT
                | BufferUsage::MAPPING_ACCESS_RANDOM
                | BufferUsage::TRANSFER_SOURCE
                | BufferUsage::TRANSFER_TARGET,
            // As in the reference, no requested access means all access.
            access: if params.access.is_empty() { ALL_ACCESS } else { params.access },
            ..params
        })
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        let granted = self.grant(params)?;
        let buffer = PlainBuffer::allocate_aligned(size, params.min_alignment)?;
        Ok(Buffer::new(granted, size, buffer.counted(&self.memory, granted.memory_type)))
    }

    fn create_semaphore(
        &self,
        _affinity: QueueAffinity,
        initial_value: u64,
        _flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        Ok(Semaphore::new(Timeline::new(initial_value)))
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        Ok(LocalCommands::create(params))
    }

    fn create_event(&self, _affinity: QueueAffinity, _flags: u32) -> Result<Event> {
        Ok(Event::new(LocalEvent))
    }

    fn create_channel(&self, _affinity: QueueAffinity, _params: &ChannelParams<'_>) -> Result<Channel> {
        Err(unsupported(&self.info, "channels"))
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<()> {
        Ok(())
    }

    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        executable::infer_format(data)
    }

    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer> {
        // Kernels assume this alignment of every binding. The status code is the reference's: programs then
        // copy instead.
        if !memory.as_ptr().addr().is_multiple_of(BINDING_ALIGNMENT_BYTES) {
            return Err(Error::out_of_range(format!(
                "imported memory at {:p} is not aligned to {BINDING_ALIGNMENT_BYTES} bytes",
                memory.as_ptr()
            )));
        }
        // Programs promise not to write their constants, yet some have kernels sort them in place. Read-only
        // memory is therefore rejected, unless it cannot be bound to a kernel that writes.
        let writes = BufferUsage::DISPATCH_STORAGE_WRITE | BufferUsage::TRANSFER_TARGET;
        let memory = if memory.is_writable() || !params.usage.intersects(writes) {
            memory
        } else {
            memory.private()?
        };
        Ok(Buffer::new(self.grant(params)?, memory.length(), PlainBuffer::over(memory)))
    }

    fn can_prepare_executable(&self, format: &str) -> bool {
        executable::is_supported(format)
    }

    #[allow(unsafe_code, reason = "trust boundary of native code; see DeviceBackend")]
    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: guaranteed by the caller, as this function requires.
        let executable = unsafe { LocalExecutable::prepare(params, &self.plugins) }?;
        Ok(Executable::new(executable))
    }

    fn import_file(&self, _affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        file.into_file(access)
    }

    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let created = match &submission.op {
            QueueOp::Alloca { params, size, .. } => Some(self.allocate_buffer(*params, *size)?),
            QueueOp::Execute { command_buffer, .. } if !submission.waits.is_empty() => {
                if LocalCommands::of(command_buffer)?.is_inline() {
                    return Err(Error::invalid_argument(
                        "cannot wait: a command buffer with inline execution runs while it is recorded",
                    ));
                }
                None
            }
            _ => None,
        };
        for wait in submission.waits {
            match wait.semaphore.query() {
                Ok(value) if value >= wait.value => {}
                Ok(_) => {
                    self.pending.keep(submission, |_| true)?;
                    return Ok(created);
                }
                Err(error) => {
                    Promise::new(submission.signals).settle(&Err(error.clone()));
                    return Err(error);
                }
            }
        }
        let outcome = run_and_settle(&submission.op, &LiveNames, Promise::new(submission.signals));
        match outcome {
            // The semaphores receive the result of a host call; without any, only the caller can.
            Err(_) if matches!(submission.op, QueueOp::HostCall { .. }) && !submission.signals.is_empty() => {
                Ok(created)
            }
            outcome => outcome.map(|()| created),
        }
    }

    fn refused(&self, _submission: &Submission<Live<'_>>, _error: &Error) {}

    fn trim(&self) -> Result<()> {
        executable::drop_kept_images();
        self.pending.fail_stranded();
        LocalCommands::drop_spare();
        Ok(())
    }

    fn flush(&self, _affinity: QueueAffinity) -> Result<()> {
        Ok(())
    }

    fn memory_statistics(&self) -> Option<MemoryStatistics> {
        Some(self.memory.statistics())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An event: commands run in order on one thread, so it has no state.
struct LocalEvent;

impl EventBackend for LocalEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }
}
