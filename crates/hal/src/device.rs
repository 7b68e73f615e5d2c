use std::any::Any;
use std::sync::Arc;

use rehal_base::{Error, Range, Result};

use crate::flags::*;
use crate::profile::{ProfileData, ProfileRequest};
use crate::{
    Buffer, BufferParams, CommandBuffer, CommandBufferParams, DeviceInfo, Event, Executable,
    ExecutableParams, File, HostFile, HostMemory, Live, MemoryStatistics, Semaphore, Submission,
};

/// A driver's implementation of a device. Every function may be called from any thread.
pub trait DeviceBackend: Any + Send + Sync {
    /// Its identity.
    fn info(&self) -> &DeviceInfo;

    /// A property that programs query by category and key; `NOT_FOUND` for unknown ones.
    fn query_i64(&self, category: &str, key: &str) -> Result<i64>;

    /// The parameters that a buffer requested with `params` would be granted: usage, access and memory type.
    fn grant(&self, params: BufferParams) -> Result<BufferParams>;

    /// A buffer of `size` bytes with the result of [`DeviceBackend::grant`]; `params` are complete.
    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer>;

    /// A buffer over host `memory`, which it shares and keeps alive, with the result of
    /// [`DeviceBackend::grant`]; `params` are complete. Optional; see [`unsupported`].
    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer>;

    /// A semaphore at `initial_value`.
    fn create_semaphore(
        &self,
        affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Semaphore>;

    /// An empty command buffer.
    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer>;

    /// An event.
    fn create_event(&self, affinity: QueueAffinity, flags: u32) -> Result<Event>;

    /// Notes that the program is about to prepare executables in a cache called `identifier`. Drivers have no
    /// caches and succeed; a recorder records it, since captures have caches.
    fn create_executable_cache(&self, identifier: &str) -> Result<()>;

    /// The format of executable `data`, if the device recognizes it.
    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str>;

    /// Whether executables of this format can be prepared.
    fn can_prepare_executable(&self, format: &str) -> bool;

    /// Prepares code for execution.
    ///
    /// # Safety
    ///
    /// The code runs in this process, or on the device, with the caller's privileges, now (its initialisers)
    /// and at each dispatch, workgroups of one dispatch concurrently. The caller must justify its trust in
    /// the bytes, and must order dispatches by timepoints with other work that accesses the same bytes if
    /// either writes.
    #[allow(unsafe_code, reason = "the trust boundary of native code")]
    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable>;

    /// Imports a host file for use by the device's queues.
    fn import_file(&self, affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File>;

    /// Executes `submission` once its waits are reached and signals or fails its signals. Returns the buffer
    /// of an alloca, which may be referenced immediately and accessed once the alloca has signalled.
    ///
    /// Work that runs during the call and fails is an error of the call too, except that of a host call that
    /// has signals to fail.
    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>>;

    /// The handle has refused `submission` because its arguments are wrong. Decorators that log calls log
    /// this one; drivers have nothing to do.
    fn refused(&self, submission: &Submission<Live<'_>>, error: &Error);

    /// Frees caches.
    fn trim(&self) -> Result<()>;

    /// Flushes: work that was submitted must execute without another call.
    fn flush(&self, affinity: QueueAffinity) -> Result<()>;

    /// The kinds of data that its profiles can have.
    fn profile_data(&self) -> ProfileData;

    /// Begins a profiling session, which reports to the sink of the request until it ends. Fails with
    /// `UNIMPLEMENTED`, naming what is missing, if the device cannot report all that is requested
    /// ([`ProfileRequest::check`]), and with `FAILED_PRECONDITION` if there is a session.
    fn begin_profiling(&self, request: &ProfileRequest) -> Result<()>;

    /// Reports what the device has buffered of complete work. Without a session, does nothing and succeeds.
    fn flush_profiling(&self) -> Result<()>;

    /// Reports a clock sample, if the device times work with a clock of its own and the sample would be
    /// exact: clocks drift in long sessions, and a killed program has no sample at its end. The background
    /// thread that writes a profile calls it, up to ten times per second, so recorders do not record it.
    /// Without a session, does nothing and succeeds.
    fn sample_profiling_clock(&self) -> Result<()>;

    /// Flushes and ends the session. Without a session, does nothing and succeeds.
    fn end_profiling(&self) -> Result<()>;

    /// Its allocation statistics; `None` if it does not keep any.
    fn memory_statistics(&self) -> Option<MemoryStatistics>;
}

/// The error of a driver whose `device` lacks an optional feature, such as `imported memory`.
pub fn unsupported(device: &DeviceInfo, ability: &str) -> Error {
    Error::unimplemented(format!("device '{}' does not support {ability}", device.name))
}

/// A device: a cheap clone of a shared object.
#[derive(Clone)]
pub struct Device(Arc<dyn DeviceBackend>);

impl Device {
    /// A device over a driver's backend.
    #[doc(hidden)]
    pub fn new(backend: impl DeviceBackend + 'static) -> Self {
        Self(Arc::new(backend))
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn DeviceBackend {
        &*self.0
    }

    /// Whether both handles refer to the same device.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its identity.
    pub fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    /// See [`DeviceBackend::query_i64`].
    pub fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        self.0.query_i64(category, key)
    }

    /// Allocates a buffer of `size` bytes. Fails if the device cannot grant `params` or memory is exhausted.
    pub fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        check_alignment(params.min_alignment)?;
        Ok(self.0.allocate_buffer(params.canonical(), size)?.made_by(self))
    }

    /// A buffer over a range of host memory, which it shares and keeps alive. Fails if the range is out of
    /// bounds, `params` request write access to constant memory, or the device cannot access the memory.
    pub fn import_buffer(
        &self,
        params: BufferParams,
        memory: &Arc<HostMemory>,
        range: Range,
    ) -> Result<Buffer> {
        check_alignment(params.min_alignment)?;
        let params = params.canonical();
        if params.access.intersects(MemoryAccess::WRITE | MemoryAccess::ANY) && !memory.is_writable() {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!("cannot import constant memory with access {:?}", params.access),
            ));
        }
        let memory = HostMemory::part(memory, range)?;
        if params.min_alignment != 0 && !(memory.as_ptr().addr() as u64).is_multiple_of(params.min_alignment)
        {
            return Err(Error::invalid_argument(format!(
                "the memory is not aligned to {} bytes",
                params.min_alignment
            )));
        }
        Ok(self.0.import_buffer(params, memory)?.made_by(self))
    }

    /// See [`DeviceBackend::create_semaphore`]. Rejects the largest value, which is reserved for failure.
    pub fn create_semaphore(
        &self,
        affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        if initial_value == u64::MAX {
            return Err(Error::out_of_range(format!(
                "semaphore payload must be below {}, which is reserved for failure",
                u64::MAX
            )));
        }
        self.0.create_semaphore(affinity, initial_value, flags)
    }

    /// See [`DeviceBackend::create_command_buffer`].
    pub fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        self.0.create_command_buffer(params)
    }

    /// See [`DeviceBackend::create_event`].
    pub fn create_event(&self, affinity: QueueAffinity, flags: u32) -> Result<Event> {
        self.0.create_event(affinity, flags)
    }

    /// See [`DeviceBackend::create_executable_cache`].
    pub fn create_executable_cache(&self, identifier: &str) -> Result<()> {
        self.0.create_executable_cache(identifier)
    }

    /// See [`DeviceBackend::infer_executable_format`].
    pub fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        self.0.infer_executable_format(data)
    }

    /// See [`DeviceBackend::can_prepare_executable`].
    pub fn can_prepare_executable(&self, format: &str) -> bool {
        self.0.can_prepare_executable(format)
    }

    /// See [`DeviceBackend::import_file`].
    pub fn import_file(
        &self,
        affinity: QueueAffinity,
        access: MemoryAccess,
        file: impl Into<HostFile>,
    ) -> Result<File> {
        self.0.import_file(affinity, access, file.into())
    }

    /// See [`DeviceBackend::trim`].
    pub fn trim(&self) -> Result<()> {
        self.0.trim()
    }

    /// See [`DeviceBackend::memory_statistics`].
    pub fn memory_statistics(&self) -> Option<MemoryStatistics> {
        self.0.memory_statistics()
    }

    /// See [`DeviceBackend::profile_data`].
    pub fn profile_data(&self) -> ProfileData {
        self.0.profile_data()
    }

    /// See [`DeviceBackend::begin_profiling`].
    #[doc(hidden)]
    pub fn begin_profiling(&self, request: &ProfileRequest) -> Result<()> {
        self.0.begin_profiling(request)
    }

    /// See [`DeviceBackend::flush_profiling`].
    pub fn flush_profiling(&self) -> Result<()> {
        self.0.flush_profiling()
    }

    /// See [`DeviceBackend::sample_profiling_clock`].
    pub fn sample_profiling_clock(&self) -> Result<()> {
        self.0.sample_profiling_clock()
    }

    /// See [`DeviceBackend::end_profiling`].
    pub fn end_profiling(&self) -> Result<()> {
        self.0.end_profiling()
    }

    /// See [`DeviceBackend::flush`].
    pub fn flush(&self, affinity: QueueAffinity) -> Result<()> {
        self.0.flush(affinity)
    }
}

pub(crate) fn check_alignment(min_alignment: u64) -> Result<()> {
    // Host memory is aligned to 64 bytes; captures of the reference ask for 0 or a power of two.
    if min_alignment != 0 && !min_alignment.is_power_of_two() {
        return Err(Error::invalid_argument(format!(
            "invalid alignment of {min_alignment} bytes (expected a power of two)"
        )));
    }
    Ok(())
}
