//! A device: what programs ask of it, and how submissions are issued.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rehal_base::{Error, HostMemory, Result, glob};
use rehal_hal::profile::{
    MemoryEventKind, ProfileData, ProfileRequest, ProfiledSubmission, Profiler, now_ns,
};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, CommandBuffer, CommandBufferParams, Device, DeviceBackend, DeviceInfo,
    Event, EventBackend, Executable, ExecutableParams, File, HostFile, KeptSubmission, Live, MemoryAccess,
    MemoryStatistics, Note, PendingSubmissions, Promise, QueueAffinity, QueueOp, Semaphore, SemaphoreFlags,
    Submission, WorkgroupSchedule, unsupported,
};

use crate::buffer::VulkanBuffer;
use crate::command::VulkanCommands;
use crate::executable::{FORMATS, VulkanExecutable, is_supported};
use crate::executor::{Executor, ExecutorHandle};
use crate::gpu::Gpu;
use crate::host_work::{self, is_for_host};
use crate::memory::grant;
use crate::physical::Physical;
use crate::profile;
use crate::queue::{Core, Frontier, Progress};
use crate::semaphore::{Reach, VulkanSemaphore};
use crate::submission::issue;
use crate::{VULKAN, VulkanOptions};

/// A Vulkan device.
struct VulkanDevice {
    info: DeviceInfo,
    options: VulkanOptions,
    core: Arc<Core>,
    profiler: Profiler,
    /// The host's time of the last clock sample that was reported.
    sampled_ns: AtomicI64,
    // Dropped in this order: what waits fails, what the host does ends, and what the device does is complete.
    pending: PendingSubmissions,
    executor: Executor,
    _progress: Progress,
}

/// Creates a device.
pub(crate) fn create(physical: Physical, options: &VulkanOptions) -> Result<Device> {
    let name = physical.name();
    let gpu = Arc::new(Gpu::create(physical, options)?);
    let core = Core::create(&gpu, options.timeout)?;
    let executor = Executor::new();
    let ready = Ready {
        core: core.clone(),
        executor: executor.handle(),
        maps_device_memory: options.maps_device_memory,
    };
    Ok(Device::new(VulkanDevice {
        info: DeviceInfo {
            driver: VULKAN.into(),
            formats: &FORMATS,
            name,
            is_synchronous: false,
            uses_host_memory: gpu.can_import(),
            zeroes_memory: false,
            can_be_lost: true,
            is_emulated: false,
            uuid: Some(gpu.physical().device_uuid),
            limits: Some(gpu.physical().dispatch_limits()),
        },
        options: options.clone(),
        profiler: Profiler::default(),
        sampled_ns: AtomicI64::new(0),
        pending: PendingSubmissions::new(move |kept| ready.run(Box::new(kept))),
        executor,
        _progress: Progress::start(&core)?,
        core,
    }))
}

/// The handler of submissions that had to wait.
struct Ready {
    core: Arc<Core>,
    executor: ExecutorHandle,
    maps_device_memory: bool,
}

impl Ready {
    fn run(&self, kept: Box<KeptSubmission>) {
        if is_for_host(kept.op()) {
            // The signals fail if the job is dropped.
            let _ = host_work::run(&self.core, &self.executor, self.maps_device_memory, kept);
            return;
        }
        let after = match remaining(&self.core, &kept) {
            Ok(after) => after,
            Err(error) => {
                self.core.fail(kept, error);
                return;
            }
        };
        // Waiters get a failure from the signals.
        let _ = issue(&self.core, kept, after);
    }
}

/// The work that a submission still waits for.
fn remaining(core: &Core, kept: &KeptSubmission) -> Result<Frontier> {
    let store = kept.store();
    let mut after = Frontier::default();
    for wait in kept.submission().waits.of(&store.lists.timepoints) {
        let semaphore = &store.semaphores[wait.semaphore as usize];
        if let Reach::Scheduled(work) = VulkanSemaphore::reach(semaphore, wait.value, core)? {
            after.join(&work);
        }
    }
    Ok(after)
}

impl VulkanDevice {
    /// A buffer that the host allocates or imports.
    fn host_buffer(
        &self,
        kind: MemoryEventKind,
        params: BufferParams,
        size: u64,
        buffer: VulkanBuffer,
    ) -> Buffer {
        let id = Buffer::next_id();
        let session = self.profiler.session(ProfileData::MEMORY_EVENTS);
        buffer.set_profiled(session.and_then(|session| session.allocation(kind, id, &params, size)));
        Buffer::with_id(id, params, size, buffer)
    }

    /// A buffer that a queue is going to allocate.
    fn alloca(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        // If that is exhausted when the queue allocates it, it is in other memory that the host sees alike.
        let granted = grant(self.core.memory().best(&params, size)?, params, self.options.maps_device_memory);
        if size > self.core.gpu().largest_block() {
            return Err(Error::resource_exhausted(format!(
                "cannot allocate {size} bytes: the device allocates at most {} at once",
                self.core.gpu().largest_block()
            )));
        }
        Ok(Buffer::new(granted, size, VulkanBuffer::awaited(self.core.memory().shares(&params))))
    }

    /// The submission in a profile, if the device is being profiled.
    fn profiled(
        &self,
        submission: &Submission<Live<'_>>,
        created: Option<&Buffer>,
        is_ready: bool,
    ) -> Result<Option<Box<ProfiledSubmission>>> {
        let profiled = self.profiler.submission(submission, created, is_ready, None, |session| {
            Ok(match &submission.op {
                QueueOp::Execute { command_buffer, .. } => {
                    profile::describe(session, command_buffer, self.core.gpu())?
                }
                QueueOp::Dispatch(dispatch) => {
                    session.describe_executable(dispatch.executable);
                    1
                }
                QueueOp::Barrier { .. } => 0,
                _ => 1,
            })
        })?;
        if let (Some(profiled), Some(created)) = (&profiled, created) {
            VulkanBuffer::of(created)?.set_profiled(profiled.alloca(created));
        }
        Ok(profiled.map(Box::new))
    }

    /// Reports the clocks of device and host, if times are reported. With `longest_ns`, a sample that is not
    /// known to be exact to that is left out.
    fn sample_clock(&self, longest_ns: Option<i64>) -> Result<()> {
        let times = ProfileData::DEVICE_QUEUE_EVENTS | ProfileData::DISPATCH_EVENTS;
        let Some(session) = self.profiler.session(times) else { return Ok(()) };
        let longest = longest_ns.map(|ns| Duration::from_nanos(ns.max(0) as u64));
        if let Some(sample) = profile::sample_clock(&self.core, longest)? {
            self.sampled_ns.store(sample.host_after_ns, Ordering::Relaxed);
            session.sink().clock_sample(&sample);
        }
        Ok(())
    }

    fn keep(&self, submission: &Submission<Live<'_>>, note: Note) -> Result<()> {
        let is_for_host = is_for_host(&submission.op);
        self.pending.keep(submission, note, |wait| {
            let reach = VulkanSemaphore::reach(wait.semaphore, wait.value, &self.core);
            is_for_host || !matches!(reach, Ok(Reach::Scheduled(_)))
        })
    }
}

impl DeviceBackend for VulkanDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        let gpu = self.core.gpu();
        let limits = gpu.limits();
        let value = match (category, key) {
            ("hal.device.id", pattern) => glob::matches(pattern, VULKAN).into(),
            ("hal.executable.format", format) => is_supported(gpu, self.options.dispatch_abis, format).into(),
            // The reference has a queue for transfers even where the device has not.
            ("hal.device", "concurrency") => 2,
            ("hal.dispatch", "concurrency") => 1,
            ("vulkan.device", "api_version") => gpu.physical().properties.api_version.into(),
            ("vulkan.device", "subgroup_size") => gpu.physical().subgroup.size.into(),
            ("vulkan.device", "max_compute_workgroup_invocations") => {
                limits.max_compute_work_group_invocations.into()
            }
            ("vulkan.device", "max_compute_workgroup_size_x") => limits.max_compute_work_group_size[0].into(),
            ("vulkan.device", "max_compute_workgroup_size_y") => limits.max_compute_work_group_size[1].into(),
            ("vulkan.device", "max_compute_workgroup_size_z") => limits.max_compute_work_group_size[2].into(),
            ("vulkan.device", "max_compute_workgroup_count_x") => {
                limits.max_compute_work_group_count[0].into()
            }
            ("vulkan.device", "max_compute_workgroup_count_y") => {
                limits.max_compute_work_group_count[1].into()
            }
            ("vulkan.device", "max_compute_workgroup_count_z") => {
                limits.max_compute_work_group_count[2].into()
            }
            _ => {
                return Err(Error::not_found(format!(
                    "device '{}' has no '{category} :: {key}'",
                    self.info.name
                )));
            }
        };
        Ok(value)
    }

    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        Ok(grant(self.core.memory().best(&params, 0)?, params, self.options.maps_device_memory))
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        let allocation = self.core.pool().allocate(&self.core, &params, size)?;
        let granted = grant(allocation.block().kind(), params, self.options.maps_device_memory);
        let counted = self.core.counters().count(granted.memory_type, size);
        let buffer = VulkanBuffer::allocated(allocation, counted);
        Ok(self.host_buffer(MemoryEventKind::Allocate, granted, size, buffer))
    }

    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer> {
        if !self.core.gpu().can_import() {
            return Err(unsupported(&self.info, "imported memory"));
        }
        let size = memory.length();
        // Kernels may write to whatever they bind.
        let writes = BufferUsage::DISPATCH_STORAGE_READ
            | BufferUsage::DISPATCH_STORAGE_WRITE
            | BufferUsage::TRANSFER_TARGET;
        // The device never writes to read-only memory.
        let memory = if memory.is_writable() || !params.usage.intersects(writes) {
            memory
        } else {
            memory.private()?
        };
        let allocation = self.core.memory().import_as(&params, memory)?;
        let kind = allocation.block().kind();
        let granted = grant(kind, params, true);
        let counted = self.core.counters().count(granted.memory_type, 0);
        let buffer = VulkanBuffer::allocated(allocation, counted);
        Ok(self.host_buffer(MemoryEventKind::Import, granted, size, buffer))
    }

    fn create_semaphore(
        &self,
        _affinity: QueueAffinity,
        initial_value: u64,
        _flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        Ok(VulkanSemaphore::create(&self.core, initial_value))
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        Ok(VulkanCommands::create(self.core.gpu(), params))
    }

    fn create_event(&self, _affinity: QueueAffinity, _flags: u32) -> Result<Event> {
        Ok(Event::new(VulkanEvent))
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<()> {
        Ok(())
    }

    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        rehal_formats::vulkan::infer(data)
    }

    fn can_prepare_executable(&self, format: &str) -> bool {
        is_supported(self.core.gpu(), self.options.dispatch_abis, format)
    }

    #[allow(unsafe_code, reason = "trust boundary of native code; see DeviceBackend")]
    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        if let WorkgroupSchedule::Where { .. } = params.workgroups {
            return Err(Error::unimplemented("a Vulkan device runs all workgroups of a dispatch"));
        }
        // The caller vouches for the code.
        let prepared = VulkanExecutable::prepare(self.core.gpu(), &self.options, params)?;
        Ok(Executable::new(prepared))
    }

    fn import_file(&self, _affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        file.into_file(access)
    }

    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let mut note = Note::default();
        if let QueueOp::Alloca { params, size, .. } = &submission.op {
            note.created = Some(self.alloca(*params, *size)?);
        }
        let created = note.created.clone();
        let is_for_host = is_for_host(&submission.op);
        let mut after = Frontier::default();
        let mut is_ready = true;
        for wait in submission.waits {
            match VulkanSemaphore::reach(wait.semaphore, wait.value, &self.core) {
                Ok(Reach::Reached) => {}
                Ok(Reach::Scheduled(work)) => {
                    after.join(&work);
                    is_ready &= !is_for_host;
                }
                Ok(Reach::Unknown) => is_ready = false,
                Err(error) => {
                    Promise::new(submission.signals).settle(&Err(error.clone()));
                    return Err(error);
                }
            }
        }
        note.profile = self.profiled(submission, created.as_ref(), is_ready)?;
        if !is_ready {
            self.keep(submission, note)?;
            return Ok(created);
        }
        let mut kept = self.core.take_spare();
        kept.keep(submission, note)?;
        if is_for_host {
            host_work::run(&self.core, &self.executor.handle(), self.options.maps_device_memory, kept)?;
        } else {
            issue(&self.core, kept, after)?;
        }
        Ok(created)
    }

    fn refused(&self, _submission: &Submission<Live<'_>>, _error: &Error) {}

    fn trim(&self) -> Result<()> {
        self.core.settle();
        self.pending.fail_stranded();
        self.core.pool().release(&self.core.completed(), 0);
        self.core.trim();
        self.core.recorders().trim();
        self.core.memory().trim();
        HostMemory::release_spare();
        Ok(())
    }

    fn flush(&self, _affinity: QueueAffinity) -> Result<()> {
        self.core.flush()
    }

    fn profile_data(&self) -> ProfileData {
        profile::supported(self.core.gpu())
    }

    fn begin_profiling(&self, request: &ProfileRequest) -> Result<()> {
        request.check(&self.info, self.profile_data())?;
        let mut request = request.clone();
        // The reference's driver describes what all events of queues execute, where its CPU drivers do not.
        if request.data.intersects(ProfileData::QUEUE_EVENTS | ProfileData::DEVICE_QUEUE_EVENTS) {
            request.data |= ProfileData::EXECUTABLE_METADATA;
        }
        self.profiler.begin(&request)?;
        // The caller does not end a session that has not begun.
        self.sample_clock(None).inspect_err(|_| self.profiler.end())
    }

    fn flush_profiling(&self) -> Result<()> {
        self.core.settle();
        self.sample_clock(None)
    }

    // Without a calibrated clock, a timestamp waits for the work before it, which may take longer than the
    // rate of the clock between two samples allows; nor should the thread that writes the profile wait for
    // work that does not end.
    fn sample_profiling_clock(&self) -> Result<()> {
        let passed_ns = now_ns().saturating_sub(self.sampled_ns.load(Ordering::Relaxed));
        self.sample_clock(Some(passed_ns / 100))
    }

    fn end_profiling(&self) -> Result<()> {
        self.core.settle();
        let sampled = self.sample_clock(None);
        self.profiler.end();
        // Both, so that the next profile does not fail because of this one.
        let read = self.core.ticks().check();
        sampled.and(read)
    }

    fn memory_statistics(&self) -> Option<MemoryStatistics> {
        Some(self.core.counters().statistics())
    }
}

/// The queues of a device.
#[cfg(test)]
pub(crate) fn core_of(device: &Device) -> Arc<Core> {
    let device: Option<&VulkanDevice> = (device.backend() as &dyn std::any::Any).downcast_ref();
    device.map(|device| device.core.clone()).unwrap()
}

/// An event. Waits for events are barriers, so it has no state.
struct VulkanEvent;

impl EventBackend for VulkanEvent {}
