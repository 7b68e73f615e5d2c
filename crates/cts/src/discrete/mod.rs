//! A test device over any other: its memory is separate from the host's.
//!
//! Device-local memory cannot be mapped. Mappable memory exists twice, once for the device and once for the
//! host, and bytes are copied only at the points where [`rehal_hal::BufferBackend`] guarantees visibility:
//! when a range is mapped or invalidated, and when it is flushed or unmapped. A mapping with `DISCARD`
//! contains [`JUNK`], and new memory is not zeros. Code that maps what it should stage thus fails on it, and
//! code that forgets to flush or to invalidate sees stale bytes. The underlying device does all work.

mod buffer;
mod command_buffer;

use bumpalo::Bump;
use rehal_base::{Error, HostMemory, Result};
use rehal_hal::profile::{ProfileData, ProfileRequest};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, CommandBuffer, CommandBufferParams, Device, DeviceBackend, DeviceInfo,
    Event, Executable, ExecutableParams, File, HostFile, Live, MemoryAccess, MemoryStatistics, MemoryType,
    QueueAffinity, Semaphore, SemaphoreFlags, Submission,
};

use self::buffer::DiscreteBuffer;
use self::command_buffer::{BaseNames, DiscreteCommands};
use crate::forward::forward;

pub use self::buffer::JUNK;

/// The device.
pub struct DiscreteDevice {
    base: Device,
    info: DeviceInfo,
}

impl DiscreteDevice {
    /// A device with memory of its own over `base`, all of whose memory must be mappable.
    pub fn over(base: Device) -> Device {
        let info = DeviceInfo { uses_host_memory: false, zeroes_memory: false, ..base.info().clone() };
        Device::new(Self { base, info })
    }
}

impl DeviceBackend for DiscreteDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    // Device-local memory is not host-visible.
    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        let all = MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD;
        let access = if params.access.is_empty() { all } else { params.access };
        let wanted = params.memory_type;
        if wanted.contains(MemoryType::HOST_VISIBLE) && !wanted.contains(MemoryType::DEVICE_LOCAL) {
            // The host sees a copy, so this memory is never coherent or host-local.
            let memory_type = wanted - MemoryType::OPTIMAL - MemoryType::HOST_COHERENT;
            return Ok(BufferParams { access, memory_type, ..params });
        }
        let mapping = BufferUsage::MAPPING_SCOPED
            | BufferUsage::MAPPING_PERSISTENT
            | BufferUsage::MAPPING_OPTIONAL
            | BufferUsage::MAPPING_ACCESS_RANDOM
            | BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE;
        let usage = params.usage - mapping;
        Ok(BufferParams { access, usage, memory_type: MemoryType::DEVICE_LOCAL, ..params })
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        let base = self.base.backend().allocate_buffer(DiscreteBuffer::base_params(params), size)?;
        DiscreteBuffer::wrap(base, self.grant(params)?)
    }

    fn import_buffer(&self, _params: BufferParams, _memory: HostMemory) -> Result<Buffer> {
        Err(Error::unimplemented("a discrete device cannot import host memory"))
    }

    fn create_semaphore(
        &self,
        affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        self.base.backend().create_semaphore(affinity, initial_value, flags)
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        let base = self.base.backend().create_command_buffer(params)?;
        Ok(CommandBuffer::new(params, DiscreteCommands { base, device: self.base.clone() }))
    }

    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let scratch = Bump::new();
        let mut names = BaseNames { device: &self.base, scratch: &scratch };
        let mut base = submission.rename(&mut names)?;
        let mut granted = None;
        if let rehal_hal::QueueOp::Alloca { params, .. } = &mut base.op {
            granted = Some(self.grant(*params)?);
            *params = DiscreteBuffer::base_params(*params);
        }
        match (self.base.backend().submit(&base)?, granted) {
            (Some(created), Some(granted)) => DiscreteBuffer::wrap(created, granted).map(Some),
            _ => Ok(None),
        }
    }

    fn trim(&self) -> Result<()> {
        self.base.trim()
    }

    forward!();
}
