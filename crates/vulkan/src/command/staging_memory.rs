use std::sync::Arc;

use ash::vk::MemoryPropertyFlags;
use rehal_base::{Error, Range, Result};
use rehal_hal::{BufferParams, BufferUsage, MemoryType};

use super::MemoryRange;
use crate::memory::{Allocation, Kind, Kinds, Memory};

/// Who reads what is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// The device copies what the host has written.
    Device,
    /// Kernels read what the host has written, perhaps many times.
    Kernels,
    /// The host reads what the device has written.
    Host,
    /// Commands read what others have written.
    Commands,
}

/// Allocates memory of the first of these kinds that has as many bytes.
pub(crate) type Allocate = Box<dyn Fn(&[Kind], u64) -> Result<Allocation> + Send + Sync>;

/// The memory of a device that is staged in.
pub(crate) struct StagingMemory {
    memory: Arc<Memory>,
    allocate: Allocate,
    /// Memory that the host writes for the device, which it need not cache.
    for_device: Kinds,
    /// Memory of the device that the host writes, where there is such memory.
    for_kernels: Kinds,
    /// Memory that the host reads, cached where the device has such memory.
    for_host: Kinds,
    /// Memory of the device.
    for_commands: Kinds,
    /// Every byte once, in order: what transfers that are not aligned to words copy from.
    bytes: Arc<Allocation>,
}

impl StagingMemory {
    /// The memory of a device for staging, for a function that allocates it.
    pub(crate) fn create(memory: &Arc<Memory>) -> Result<impl FnOnce(Allocate) -> Self + use<>> {
        let host = MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE;
        let kinds = |memory_type, usage| {
            memory.kinds(&BufferParams { memory_type, usage, ..BufferParams::default() }, 0)
        };
        let sequential = BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE;
        let for_device = kinds(host, BufferUsage::TRANSFER_SOURCE | sequential)?;
        let for_host = kinds(host, BufferUsage::TRANSFER_TARGET | BufferUsage::MAPPING_ACCESS_RANDOM)?;
        let visible = MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE;
        let for_commands =
            kinds(MemoryType::DEVICE_LOCAL, BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET)?;
        let for_kernels = kinds(visible, BufferUsage::DISPATCH_STORAGE_READ | sequential)?;
        let bytes = Arc::new(memory.allocate(for_device[0], 256, 0)?);
        let whole = Range { offset: 0, length: 256 };
        let mapped = bytes
            .map(whole)
            .ok_or_else(|| Error::failed_precondition("the host cannot map the device's staging memory"))?;
        mapped.write(0, &std::array::from_fn::<u8, 256, _>(|byte| byte as u8))?;
        bytes.flush(whole)?;
        let memory = memory.clone();
        Ok(move |allocate| Self { memory, allocate, for_device, for_kernels, for_host, for_commands, bytes })
    }

    /// The memory of the device.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Memory for transfers to `receiver`, which host and device see unless only commands do. If there is not
    /// enough, it waits for what queues have deallocated, so callers hold no lock that a callback may need.
    pub(crate) fn allocate(&self, length: u64, receiver: Receiver) -> Result<Allocation> {
        let kinds = match receiver {
            Receiver::Device => &self.for_device,
            Receiver::Kernels => &self.for_kernels,
            Receiver::Host => &self.for_host,
            Receiver::Commands => &self.for_commands,
        };
        (self.allocate)(kinds, length)
    }

    /// Whether the host reads staging memory faster than memory of `kind`.
    pub(crate) fn reads_faster_than(&self, kind: Kind) -> bool {
        let is_cached = |kind: Kind| kind.flags.contains(MemoryPropertyFlags::HOST_CACHED);
        is_cached(self.for_host[0]) && !is_cached(kind)
    }

    /// A byte with this value, on the device.
    pub(crate) fn byte(&self, value: u8) -> MemoryRange {
        MemoryRange::within(&self.bytes, Range { offset: value.into(), length: 1 })
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::MemoryPropertyFlags as Flags;

    use super::*;
    use crate::emulation::{EmulatedMemory, Emulation};
    use crate::gpu::tests::emulated;
    use crate::queue::Core;

    #[test]
    fn kernels_read_tables_in_the_memory_of_the_device() {
        let emulation = Emulation { memory: Some(EmulatedMemory::Separate), ..Emulation::default() };
        let core = Core::create(&emulated(&emulation), None).unwrap();
        let staging = core.staging();
        let mut recorder = core.recorders().take_recorder(core.gpu().families()[0]).unwrap();
        let in_window = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE;
        for length in [16, 1 << 20] {
            let table = recorder.table(staging, &vec![1; length]).unwrap();
            assert!(table.allocation().block().kind().flags.contains(in_window), "{length} bytes");
        }
        // Where it is exhausted, they are in memory of the host.
        let table = recorder.table(staging, &vec![1; 65 << 20]).unwrap();
        assert!(!table.allocation().block().kind().flags.contains(Flags::DEVICE_LOCAL));
        let staged = staging.allocate(4096, Receiver::Device).unwrap();
        assert!(!staged.block().kind().flags.intersects(Flags::DEVICE_LOCAL | Flags::HOST_CACHED));
    }
}
