//! A device for tests, over any other: one whose memory is apart from the host's.
//!
//! Memory that is device-local cannot be mapped. Memory that can be mapped is there twice, once for the device and once
//! for the host, and bytes go from one to the other only at the points where [`rehal_hal::BufferBackend`] promises it:
//! when a range is mapped or invalidated, and when it is flushed or unmapped. What is mapped to be discarded holds
//! [`JUNK`]. So code that maps what it should stage fails on it, and code that forgets to flush or to invalidate sees
//! stale bytes. All work is done by the device beneath.

#![allow(unsafe_code, reason = "passes on what it is told of native code; docs/unsafe.md lists it")]

mod buffer;
mod command_buffer;
mod names;

use std::any::Any;

use bumpalo::Bump;
use rehal_base::{Error, HostMemory, Result};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, Channel, ChannelParams, CommandBuffer, CommandBufferParams, Device,
    DeviceBackend, DeviceInfo, Event, Executable, ExecutableParams, File, HostFile, Live, MemoryAccess,
    MemoryStatistics, MemoryType, QueueAffinity, Semaphore, SemaphoreFlags, Submission,
};

use self::buffer::DiscreteBuffer;
use self::command_buffer::DiscreteCommands;
use self::names::BaseNames;

pub use self::buffer::JUNK;

/// The device.
pub struct DiscreteDevice {
    base: Device,
}

impl DiscreteDevice {
    /// A device with memory of its own over `base`, all of whose memory the host must be able to map.
    pub fn over(base: Device) -> Device {
        Device::new(Self { base })
    }
}

impl DeviceBackend for DiscreteDevice {
    fn info(&self) -> &DeviceInfo {
        self.base.info()
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        self.base.query_i64(category, key)
    }

    // What is local to the device is nothing else.
    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        let all = MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD;
        let access = if params.access.is_empty() { all } else { params.access };
        let wanted = params.memory_type;
        if wanted.contains(MemoryType::HOST_VISIBLE) && !wanted.contains(MemoryType::DEVICE_LOCAL) {
            return Ok(BufferParams { access, memory_type: wanted - MemoryType::OPTIMAL, ..params });
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
        Err(Error::unimplemented("memory of the host is not memory of a discrete device"))
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

    fn create_event(&self, affinity: QueueAffinity, flags: u32) -> Result<Event> {
        self.base.backend().create_event(affinity, flags)
    }

    fn create_channel(&self, affinity: QueueAffinity, params: &ChannelParams<'_>) -> Result<Channel> {
        self.base.backend().create_channel(affinity, params)
    }

    fn create_executable_cache(&self, identifier: &str) -> Result<()> {
        self.base.backend().create_executable_cache(identifier)
    }

    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        self.base.infer_executable_format(data)
    }

    fn can_prepare_executable(&self, format: &str) -> bool {
        self.base.can_prepare_executable(format)
    }

    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: the caller vouches for the code, as this function demands; the code goes on as it came.
        unsafe { self.base.backend().prepare_executable(params) }
    }

    fn import_file(&self, affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        self.base.backend().import_file(affinity, access, file)
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

    fn refused(&self, _submission: &Submission<Live<'_>>, _error: &Error) {}

    fn trim(&self) -> Result<()> {
        self.base.trim()
    }

    fn flush(&self, affinity: QueueAffinity) -> Result<()> {
        self.base.flush(affinity)
    }

    fn memory_statistics(&self) -> Option<MemoryStatistics> {
        self.base.memory_statistics()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
