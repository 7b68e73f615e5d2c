use std::any::Any;
use std::sync::Arc;

use rehal_base::{Error, FileKind, Result, glob};
use rehal_hal::profile::{
    MemoryEventKind, ProfileData, ProfileRequest, ProfiledSubmission, Profiler, now_ns,
};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, CommandBuffer, CommandBufferMode, CommandBufferParams, CommonOptions,
    Device, DeviceBackend, DeviceInfo, Event, EventBackend, Executable, ExecutableParams, File, HostFile,
    HostMemory, Live, MemoryAccess, MemoryCounters, MemoryStatistics, MemoryType, Note, OptionSet,
    PendingSubmissions, PlainBuffer, Promise, QueueAffinity, QueueOp, Semaphore, SemaphoreFlags, Submission,
    Timeline,
};
use rehal_simt::Checks;

use crate::command::LocalCommands;
use crate::emulator::{CUDA_DRIVER, Emulation, EmulatorOptions, PTX_FORMAT};
use crate::executable::format::FORMATS;
use crate::executable::{self, ExecutableOptions, LocalExecutable, Plugins, STACK_BYTES, perf};
use crate::execute::{LiveNames, run_and_settle, run_kept};
use crate::options::{LOCAL_SYNC, LOCAL_TASK, LocalSyncOptions, LocalTaskOptions};
use crate::profile::{self, Profiled};
use crate::task::{TaskExecutor, Workers};
use crate::topology::Worker;

/// Minimum alignment of buffers, as compiled kernels assume.
const BINDING_ALIGNMENT_BYTES: usize = 64;

const ALL_ACCESS: MemoryAccess = MemoryAccess::READ.union(MemoryAccess::WRITE).union(MemoryAccess::DISCARD);

/// A CPU device. `local-sync` and `local-task` differ only in how it runs work.
struct LocalDevice {
    info: DeviceInfo,
    plugins: Plugins,
    executables: ExecutableOptions,
    memory: Arc<MemoryCounters>,
    /// Whether buffers are apart from other memory: see [`HostMemory::allocate_guarded`].
    guards_buffers: bool,
    /// Submissions with unreached waits.
    pending: PendingSubmissions,
    executor: Executor,
    profiler: Profiler,
    code: CodeKind,
}

/// The use of a device for executables.
#[derive(Clone, Copy)]
enum CodeKind {
    /// It runs code for CPUs.
    Cpu,
    /// They are data: see [`LocalSyncOptions::described`].
    Described,
    /// It interprets code for GPUs.
    Emulated(Emulation),
}

/// How a device runs the work that is ready.
enum Executor {
    /// On the thread that makes it ready.
    Sync,
    /// On workers.
    Task {
        executor: TaskExecutor,
        /// Dropped after `pending`, whose submissions fail first: dropping the last clone waits for running
        /// work.
        workers: Workers,
        /// The options that describe the workers, if the device started them or shares them with a device of
        /// its group that did.
        description: Option<Box<LocalTaskOptions>>,
    },
}

/// Creates CPU devices that run work on the thread that makes it ready: the one that submits, or the one that
/// signals the last of its waits.
pub struct LocalSync;

impl LocalSync {
    /// The device; executables resolve their imports from `plugins`.
    pub fn create(plugins: Plugins) -> Device {
        Self::device(LocalSyncOptions { plugins, ..LocalSyncOptions::default() })
    }

    /// The device with these options. Fails if a thread for its timeout cannot be started, or if the files of
    /// its perf map cannot be written.
    pub fn create_with(options: LocalSyncOptions) -> Result<Device> {
        options.timeout.map_or(Ok(()), rehal_crash::end_after)?;
        options.perf_map.map_or(Ok(()), perf::open)?;
        Ok(Self::device(options))
    }

    fn device(options: LocalSyncOptions) -> Device {
        Device::new(Self::backend(options))
    }

    fn backend(options: LocalSyncOptions) -> LocalDevice {
        LocalDevice {
            info: DeviceInfo { formats: options.described.unwrap_or(&FORMATS), ..info(LOCAL_SYNC) },
            plugins: options.plugins,
            executables: ExecutableOptions {
                measures: false,
                local_memory_limit: None,
                stack_bytes: options.stack_bytes.max(STACK_BYTES),
                checks_overruns: options.guards_buffers,
                perf_map: options.perf_map,
            },
            memory: Arc::default(),
            guards_buffers: options.guards_buffers,
            pending: PendingSubmissions::new(run_kept),
            executor: Executor::Sync,
            profiler: Profiler::default(),
            code: if options.described.is_some() { CodeKind::Described } else { CodeKind::Cpu },
        }
    }
}

/// Creates CPU devices that run work on a pool of workers. Independent submissions, and independent commands
/// of a command buffer, run concurrently, and so do the workgroups of a dispatch.
///
/// Work that takes less time than waking a worker runs on the thread that makes it ready, if that is known
/// from earlier dispatches of the same functions.
pub struct LocalTask;

impl LocalTask {
    /// The device. Fails if threads cannot be started, or if the files of its perf map cannot be written.
    pub fn create(options: LocalTaskOptions) -> Result<Device> {
        Self::create_in(options, &[])
    }

    /// The same; it shares the workers of a device of `group` whose options describe the same.
    pub(crate) fn create_in(options: LocalTaskOptions, group: &[Device]) -> Result<Device> {
        options.timeout.map_or(Ok(()), rehal_crash::end_after)?;
        Self::backend(options, group).map(Device::new)
    }

    fn backend(options: LocalTaskOptions, group: &[Device]) -> Result<LocalDevice> {
        options.perf_map.map_or(Ok(()), perf::open)?;
        let description = options.workers.is_none().then(|| Box::new(options.clone()));
        let shared = description.as_ref().and_then(|it| group.iter().find_map(|device| shared(device, it)));
        let workers = shared.map_or_else(|| options.start_workers(), Ok)?;
        // On a machine whose cores differ, a dispatch fails or not regardless of the workers that run it.
        let from_caches = || workers.topology().workers().iter().map(Worker::default_local_memory).min();
        let local_memory_limit =
            options.worker_local_memory.or_else(|| from_caches().map(|bytes| bytes as u64));
        let executor = TaskExecutor::new(&workers, options.abort_on_failure);
        let ready = executor.clone();
        Ok(LocalDevice {
            info: info(LOCAL_TASK),
            plugins: options.plugins,
            executables: ExecutableOptions {
                measures: true,
                local_memory_limit,
                stack_bytes: options.worker.stack_bytes.max(STACK_BYTES),
                checks_overruns: options.guards_buffers,
                perf_map: options.perf_map,
            },
            memory: Arc::default(),
            guards_buffers: options.guards_buffers,
            pending: PendingSubmissions::new(move |kept| ready.execute_kept(kept)),
            executor: Executor::Task { executor, workers, description },
            profiler: Profiler::default(),
            code: CodeKind::Cpu,
        })
    }
}

/// Creates an emulated GPU of the driver for CUDA, with the options of `local-task`, of all drivers, and
/// [`EmulatorOptions`](crate::emulator::EmulatorOptions). If results are judged, or kernels may write next to
/// their buffers, the first error that a check finds fails the dispatch in any case. Then, and with optional
/// checks, work runs on the thread that makes it ready, so that each run finds the same.
pub fn create_emulated(options: &OptionSet, group: &[Device]) -> Result<Device> {
    let (common, own): (CommonOptions, EmulatorOptions) = (options.get(), options.get());
    let is_judged = common.guards_buffers || common.refuses_wrong_results;
    let mut device = match own.checks == Checks::default() && !is_judged {
        true => LocalTask::backend(options.get(), group)?,
        false => LocalSync::backend(LocalSyncOptions::default()),
    };
    device.info = DeviceInfo {
        driver: CUDA_DRIVER.into(),
        formats: &Emulation::FORMATS,
        name: CUDA_DRIVER.into(),
        is_emulated: true,
        ..device.info
    };
    let fails = is_judged || !own.collects;
    device.code = CodeKind::Emulated(Emulation { checks: own.checks, timeout: common.timeout, fails });
    Ok(Device::new(device))
}

/// The workers of a device, if its options describe the same as these.
fn shared(device: &Device, options: &LocalTaskOptions) -> Option<Workers> {
    let device: &LocalDevice = (device.backend() as &dyn Any).downcast_ref()?;
    match &device.executor {
        Executor::Task { workers, description: Some(its), .. } if its.describes_workers_of(options) => {
            Some(workers.clone())
        }
        _ => None,
    }
}

fn info(name: &str) -> DeviceInfo {
    DeviceInfo {
        driver: name.into(),
        formats: &FORMATS,
        name: name.into(),
        is_synchronous: name == LOCAL_SYNC,
        uses_host_memory: true,
        zeroes_memory: true,
        can_be_lost: false,
        is_emulated: false,
        uuid: None,
        limits: None,
    }
}

/// Whether a device is one of this crate: buffers that it imports are the imported memory, which only the
/// processor accesses.
pub(crate) fn is_local(device: &Device) -> bool {
    (device.backend() as &dyn Any).is::<LocalDevice>()
}

impl LocalDevice {
    fn is_task(&self) -> bool {
        matches!(self.executor, Executor::Task { .. })
    }

    fn plain_buffer(&self, params: &BufferParams, size: u64) -> Result<PlainBuffer> {
        match self.guards_buffers {
            true => PlainBuffer::allocate_guarded(params, size),
            false => PlainBuffer::allocate_with(params, size),
        }
    }

    /// A buffer that a queue allocates. As in the reference, no queue owns an empty one.
    fn alloca(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        let granted = self.grant(params)?;
        let buffer = self.plain_buffer(&params, size)?;
        let buffer = if self.is_task() && size != 0 { buffer.queue_ordered() } else { buffer };
        Ok(Buffer::new(granted, size, buffer.counted(&self.memory, granted.memory_type)))
    }

    /// A buffer of the host, which a profile reports until it is freed.
    fn host_buffer(
        &self,
        kind: MemoryEventKind,
        params: BufferParams,
        size: u64,
        buffer: PlainBuffer,
    ) -> Buffer {
        let id = Buffer::next_id();
        let allocation = self
            .profiler
            .session(ProfileData::MEMORY_EVENTS)
            .and_then(|session| session.allocation(kind, id, &params, size));
        Buffer::with_id(id, params, size, buffer.profiled(allocation))
    }

    /// The submission in a profile, if the device is being profiled. `begun_ns` is when the allocation of
    /// `created` began.
    #[inline]
    fn profiled(
        &self,
        submission: &Submission<Live<'_>>,
        created: Option<&Buffer>,
        is_ready: bool,
        begun_ns: Option<i64>,
    ) -> Result<Option<ProfiledSubmission>> {
        match self.profiler.is_active() {
            true => self.profile(submission, created, is_ready, begun_ns),
            false => Ok(None),
        }
    }

    fn profile(
        &self,
        submission: &Submission<Live<'_>>,
        created: Option<&Buffer>,
        is_ready: bool,
        begun_ns: Option<i64>,
    ) -> Result<Option<ProfiledSubmission>> {
        let profiled = self.profiler.submission(submission, created, is_ready, begun_ns, |session| {
            Ok(match &submission.op {
                QueueOp::Execute { command_buffer, .. } => profile::describe(session, command_buffer)?,
                QueueOp::Dispatch(dispatch) => {
                    session.describe_executable(dispatch.executable);
                    1
                }
                QueueOp::Barrier { .. } => 0,
                _ => 1,
            })
        })?;
        if let (Some(profiled), Some(created)) = (&profiled, created)
            && let Some(allocation) = profiled.alloca(created)
        {
            PlainBuffer::set_profiled(created, allocation);
        }
        Ok(profiled)
    }

    /// The number of threads that run workgroups of a dispatch.
    fn concurrency(&self) -> i64 {
        match &self.executor {
            Executor::Sync => 1,
            Executor::Task { workers, .. } => workers.topology().workers().len() as i64,
        }
    }
}

impl DeviceBackend for LocalDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let is_emulated = matches!(self.code, CodeKind::Emulated(_));
        match (category, key) {
            ("hal.device.id", pattern) => Ok(glob::matches(pattern, &self.info.name).into()),
            _ if is_emulated => {
                let value = Emulation::query(category, key);
                value.ok_or_else(|| {
                    Error::not_found(format!("device '{CUDA_DRIVER}' has no '{category} :: {key}'"))
                })
            }
            ("hal.executable.format", format) => Ok(executable::is_supported(format).into()),
            ("hal.device", "concurrency") => Ok(1),
            ("hal.dispatch", "concurrency") => Ok(self.concurrency()),
            ("hal.cpu", feature) => executable::query_processor(feature),
            _ => Err(Error::not_found(format!("device '{}' has no '{category} :: {key}'", self.info.name))),
        }
    }

    // All buffers are host memory, so all can be mapped and copied (the reference's heap allocator grants the
    // same, as captures show). Those of GPUs only do what they are asked for.
    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        // As in the reference, no requested access means all access.
        let access = if params.access.is_empty() { ALL_ACCESS } else { params.access };
        if let CodeKind::Emulated(_) = self.code {
            return Ok(BufferParams { memory_type: Emulation::memory_type(&params), access, ..params });
        }
        Ok(BufferParams {
            memory_type: (params.memory_type - MemoryType::OPTIMAL) | MemoryType::HOST_VISIBLE,
            usage: params.usage
                | BufferUsage::MAPPING_SCOPED
                | BufferUsage::MAPPING_PERSISTENT
                | BufferUsage::MAPPING_ACCESS_RANDOM
                | BufferUsage::TRANSFER_SOURCE
                | BufferUsage::TRANSFER_TARGET,
            access,
            ..params
        })
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        let granted = self.grant(params)?;
        let buffer = self.plain_buffer(&params, size)?;
        let buffer = buffer.counted(&self.memory, granted.memory_type);
        Ok(self.host_buffer(MemoryEventKind::Allocate, granted, size, buffer))
    }

    fn create_semaphore(
        &self,
        _affinity: QueueAffinity,
        initial_value: u64,
        _flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        Ok(match &self.executor {
            Executor::Sync => Semaphore::new(Timeline::new(initial_value)),
            Executor::Task { executor, .. } => executor.create_semaphore(initial_value),
        })
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        // What runs while it is recorded cannot be attributed to commands.
        let is_profiled = self.profiler.reports(profile::NEEDS_COMMANDS);
        // The recording thread would execute beside as many others as there are workers.
        let has_workers = matches!(&self.executor, Executor::Task { .. });
        Ok(LocalCommands::create(params, !is_profiled && !has_workers))
    }

    fn create_event(&self, _affinity: QueueAffinity, _flags: u32) -> Result<Event> {
        Ok(Event::new(LocalEvent))
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<()> {
        Ok(())
    }

    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        match self.code {
            // An image by itself does not say how it is dispatched.
            CodeKind::Emulated(_) => {
                (FileKind::from_head(data) == Some(FileKind::CudaExecutable)).then_some(PTX_FORMAT)
            }
            CodeKind::Cpu | CodeKind::Described => executable::infer_format(data),
        }
    }

    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer> {
        // As in the reference's driver: programs then read constants into memory of the device.
        if matches!(self.code, CodeKind::Emulated(_)) && params.memory_type.contains(MemoryType::DEVICE_LOCAL)
        {
            return Err(Error::invalid_argument("memory of the host cannot become memory of the device"));
        }
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
        let (granted, size) = (self.grant(params)?, memory.length());
        Ok(self.host_buffer(MemoryEventKind::Import, granted, size, PlainBuffer::over(memory)))
    }

    fn can_prepare_executable(&self, format: &str) -> bool {
        match self.code {
            CodeKind::Described | CodeKind::Emulated(_) => self.info.format(format).is_some(),
            CodeKind::Cpu => executable::is_supported(format),
        }
    }

    #[allow(unsafe_code, reason = "trust boundary of native code; see DeviceBackend")]
    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        let unknown = || Error::unimplemented(format!("no driver is known for format '{}'", params.format));
        let format = || self.info.format(params.format).ok_or_else(unknown);
        let executable = match self.code {
            CodeKind::Described => {
                let functions = (format()?.functions)(params.format, params.data)?;
                LocalExecutable::described(functions, self.executables)
            }
            CodeKind::Emulated(emulation) => {
                format()?;
                LocalExecutable::emulated(params, emulation, self.executables)?
            }
            // SAFETY: guaranteed by the caller, as this function requires.
            CodeKind::Cpu => unsafe { LocalExecutable::prepare(params, &self.plugins, self.executables) }?,
        };
        Ok(Executable::new(executable))
    }

    fn import_file(&self, _affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        file.into_file(access)
    }

    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let mut begun_ns = None;
        let created = match &submission.op {
            QueueOp::Alloca { params, size, .. } => {
                begun_ns = self.profiler.reports(ProfileData::HOST_EXECUTION).then(now_ns);
                Some(self.alloca(*params, *size)?)
            }
            QueueOp::Execute { command_buffer, .. }
                if !submission.waits.is_empty()
                    && command_buffer.params().mode.contains(CommandBufferMode::ALLOW_INLINE_EXECUTION)
                    && LocalCommands::of(command_buffer)?.is_inline() =>
            {
                return Err(Error::invalid_argument(
                    "cannot wait: a command buffer with inline execution runs while it is recorded",
                ));
            }
            _ => None,
        };
        for wait in submission.waits {
            match wait.semaphore.query() {
                Ok(value) if value >= wait.value => {}
                Ok(_) => {
                    let mut note = Note::from(rehal_crash::record());
                    note.profile = self.profiled(submission, created.as_ref(), false, None)?.map(Box::new);
                    self.pending.keep(submission, note, |_| true)?;
                    return Ok(created);
                }
                Err(error) => {
                    Promise::new(submission.signals).settle(&Err(error.clone()));
                    // Whether the call reports it must not depend on whether workers have failed already: the
                    // signals do.
                    let is_reported = !self.info.is_synchronous && !submission.signals.is_empty();
                    return if is_reported { Ok(created) } else { Err(error) };
                }
            }
        }
        let outcome = match &self.executor {
            Executor::Sync => {
                let profile;
                let profile = match self.profiler.is_active() {
                    true => {
                        profile = self.profile(submission, created.as_ref(), true, begun_ns)?;
                        profile.as_ref().map(Profiled::by_caller)
                    }
                    false => None,
                };
                let promise = Promise::new(submission.signals);
                let _abort = rehal_crash::AbortScope::enter(false);
                run_and_settle(&submission.op, &LiveNames, promise, profile, ())
            }
            Executor::Task { executor, .. } => {
                executor.execute(submission, self.profiled(submission, created.as_ref(), true, begun_ns)?)
            }
        };
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
        HostMemory::release_spare();
        Ok(())
    }

    fn flush(&self, _affinity: QueueAffinity) -> Result<()> {
        Ok(())
    }

    fn profile_data(&self) -> ProfileData {
        profile::SUPPORTED
    }

    fn begin_profiling(&self, request: &ProfileRequest) -> Result<()> {
        request.check(&self.info, self.profile_data())?;
        self.profiler.begin(request)
    }

    // Work is reported when it is complete, so nothing is buffered.
    fn flush_profiling(&self) -> Result<()> {
        Ok(())
    }

    // Its times are the host's.
    fn sample_profiling_clock(&self) -> Result<()> {
        Ok(())
    }

    fn end_profiling(&self) -> Result<()> {
        self.profiler.end();
        Ok(())
    }

    fn memory_statistics(&self) -> Option<MemoryStatistics> {
        Some(self.memory.statistics())
    }
}

/// An event. Commands on events end a stage of their command buffer, so it has no state.
struct LocalEvent;

impl EventBackend for LocalEvent {}
