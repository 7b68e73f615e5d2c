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

/// Where buffers begin, at least: what compiled kernels assume.
const BINDING_ALIGNMENT_BYTES: usize = 64;

const ALL_ACCESS: MemoryAccess = MemoryAccess::READ.union(MemoryAccess::WRITE).union(MemoryAccess::DISCARD);

/// A CPU as a device whose work runs on whichever thread makes it ready: the one that submits, or
/// the one that signals the last of its waits.
pub struct LocalSync {
    info: DeviceInfo,
    plugins: Plugins,
    memory: Arc<MemoryCounters>,
    /// Submissions whose waits are not reached.
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
            _ => Err(Error::not_found(format!("device '{}' knows no '{category} :: {key}'", self.info.name))),
        }
    }

    // Every buffer is host memory, so every buffer can be mapped and copied (as the reference's
    // heap allocator grants it, which captures show).
    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        Ok(BufferParams {
            memory_type: (params.memory_type - MemoryType::OPTIMAL) | MemoryType::HOST_VISIBLE,
            usage: params.usage
                | BufferUsage::MAPPING_SCOPED
                | BufferUsage::MAPPING_PERSISTENT
                | BufferUsage::MAPPING_ACCESS_RANDOM
                | BufferUsage::TRANSFER_SOURCE
                | BufferUsage::TRANSFER_TARGET,
            // As in the reference, no access named is all of it.
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
        // Kernels assume it of every binding. The code is the reference's, by which programs go on to copy.
        if !memory.as_ptr().addr().is_multiple_of(BINDING_ALIGNMENT_BYTES) {
            return Err(Error::out_of_range(format!(
                "imported memory begins at {:p}; the device needs it at a multiple of {BINDING_ALIGNMENT_BYTES} bytes",
                memory.as_ptr()
            )));
        }
        // Programs promise not to write their constants, and some have kernels sort them where they are. What nobody
        // may write is not what a kernel gets, unless it cannot be bound to one that writes.
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

    #[allow(unsafe_code, reason = "the trust boundary of native code; see DeviceBackend")]
    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: the caller vouches for the code, as this function demands.
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
                        "a command buffer that may run while it is recorded is submitted with waits",
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
            // What a host call returns is for the semaphores; without any, only the caller can hear of it.
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

/// An event: commands run in order on one thread, so there is nothing to hold.
struct LocalEvent;

impl EventBackend for LocalEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }
}
