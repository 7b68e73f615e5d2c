use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::{Error, Range, Result};
use rehal_hal::{BufferParams, BufferUsage, MemoryType};

use super::{MemoryRange, Recorder};
use crate::memory::{Allocation, Kind, Memory};
use crate::queue::Uses;

/// Limit on the recorders that are kept for reuse.
const SPARE_LIMIT: usize = 256;

/// The recorders of a device, which are reused, with the memory that they stage in.
pub(crate) struct RecorderPool {
    memory: Arc<Memory>,
    staging: Kind,
    /// Every byte once, in order: what transfers that are not aligned to words copy from.
    bytes: Arc<Allocation>,
    #[allow(clippy::vec_box, reason = "boxes are moved to and from work in flight")]
    spare: Mutex<Vec<Box<Recorder>>>,
}

impl RecorderPool {
    /// A pool for a device, without recorders yet.
    pub(crate) fn create(memory: &Arc<Memory>) -> Result<Self> {
        let params = BufferParams {
            memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            usage: BufferUsage::TRANSFER_SOURCE | BufferUsage::MAPPING_ACCESS_SEQUENTIAL_WRITE,
            ..BufferParams::default()
        };
        let staging = memory.kinds(&params, 0)?[0];
        let bytes = Arc::new(memory.allocate(staging, 256, 0)?);
        let whole = Range { offset: 0, length: 256 };
        let mapped = bytes
            .map(whole)
            .ok_or_else(|| Error::failed_precondition("the host cannot map the device's staging memory"))?;
        mapped.write(0, &std::array::from_fn::<u8, 256, _>(|byte| byte as u8))?;
        bytes.flush(whole)?;
        Ok(Self { memory: memory.clone(), staging, bytes, spare: Mutex::default() })
    }

    /// The memory of the device.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Memory that host and device see.
    pub(crate) fn allocate_staging(&self, length: u64) -> Result<Allocation> {
        self.memory.allocate(self.staging, length, 0)
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
