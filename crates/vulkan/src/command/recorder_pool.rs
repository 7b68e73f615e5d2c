use std::sync::{Arc, Weak};

use ash::vk::MemoryPropertyFlags;
use parking_lot::Mutex;
use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::{BufferParams, BufferUsage, MemoryType};

use super::{MemoryRange, Recorder};
use crate::memory::{Allocation, Kind, Kinds, Memory};
use crate::queue::{Core, Uses};

/// Limit on the recorders that are kept for reuse.
const SPARE_LIMIT: usize = 256;

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

/// The recorders of a device, which are reused, with the memory that they stage in.
pub(crate) struct RecorderPool {
    memory: Arc<Memory>,
    /// What has the pool, and what queues have deallocated.
    core: Weak<Core>,
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
    #[allow(clippy::vec_box, reason = "boxes are moved to and from work in flight")]
    spare: Mutex<Vec<Box<Recorder>>>,
}

impl RecorderPool {
    /// A pool for a device, without recorders yet, and for no `Core` yet.
    pub(crate) fn create(memory: &Arc<Memory>) -> Result<Self> {
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
        Ok(Self {
            memory: memory.clone(),
            core: Weak::new(),
            for_device,
            for_kernels,
            for_host,
            for_commands,
            bytes,
            spare: Mutex::default(),
        })
    }

    /// The pool, of `core`.
    pub(crate) fn of(self, core: &Weak<Core>) -> Self {
        Self { core: core.clone(), ..self }
    }

    /// The memory of the device.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Memory for transfers to `receiver`, which host and device see unless only commands do. If there is not
    /// enough, it waits for what queues have deallocated, so callers hold no lock that a callback may need.
    pub(crate) fn allocate_staging(&self, length: u64, receiver: Receiver) -> Result<Allocation> {
        let kinds = match receiver {
            Receiver::Device => &self.for_device,
            Receiver::Kernels => &self.for_kernels,
            Receiver::Host => &self.for_host,
            Receiver::Commands => &self.for_commands,
        };
        let core = self.core.upgrade().ok_or_else(|| {
            Error::new(StatusCode::Internal, "memory is staged for a device that was released")
        })?;
        core.pool().allocate_new(&core, kinds, length, 0)
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

    /// A recorder without commands, for a queue family.
    pub(crate) fn take_recorder(&self, family: u32) -> Result<Box<Recorder>> {
        let mut spare = self.spare.lock();
        let found = spare.iter().rposition(|recorder| recorder.family() == family);
        if let Some(index) = found {
            return Ok(spare.swap_remove(index));
        }
        drop(spare);
        Recorder::create(self.memory.gpu(), family)
    }

    /// Keeps the recorder of complete work for reuse, and drops what else it used.
    pub(crate) fn recycle(&self, uses: Uses) {
        let Some(mut recorder) = uses.recorder else { return };
        if recorder.reset().is_ok() {
            let mut spare = self.spare.lock();
            if spare.len() < SPARE_LIMIT {
                spare.push(recorder);
            }
        }
    }

    /// Drops the recorders that are kept.
    pub(crate) fn trim(&self) {
        let spare = std::mem::take(&mut *self.spare.lock());
        drop(spare);
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::MemoryPropertyFlags as Flags;

    use super::*;
    use crate::emulation::{EmulatedMemory, Emulation};
    use crate::gpu::tests::emulated;

    #[test]
    fn kernels_read_tables_in_the_memory_of_the_device() {
        let emulation = Emulation { memory: Some(EmulatedMemory::Separate), ..Emulation::default() };
        let core = Core::create(&emulated(&emulation), None).unwrap();
        let recorders = core.recorders();
        let mut recorder = recorders.take_recorder(core.gpu().families()[0]).unwrap();
        let in_window = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE;
        for length in [16, 1 << 20] {
            let table = recorder.table(recorders, &vec![1; length]).unwrap();
            assert!(table.allocation().block().kind().flags.contains(in_window), "{length} bytes");
        }
        // Where it is exhausted, they are in memory of the host.
        let table = recorder.table(recorders, &vec![1; 65 << 20]).unwrap();
        assert!(!table.allocation().block().kind().flags.contains(Flags::DEVICE_LOCAL));
        let staged = recorders.allocate_staging(4096, Receiver::Device).unwrap();
        assert!(!staged.block().kind().flags.intersects(Flags::DEVICE_LOCAL | Flags::HOST_CACHED));
    }
}
