use std::sync::Arc;

use parking_lot::Mutex;
use rehal_base::Result;

use super::Recorder;
use crate::gpu::Gpu;

/// Limit on the recorders that are kept for reuse.
const SPARE_LIMIT: usize = 256;

/// The recorders of a device, which are reused.
pub(crate) struct RecorderPool {
    gpu: Arc<Gpu>,
    #[allow(clippy::vec_box, reason = "boxes are moved to and from work in flight")]
    spare: Mutex<Vec<Box<Recorder>>>,
}

impl RecorderPool {
    /// A pool without recorders yet.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Self {
        Self { gpu: gpu.clone(), spare: Mutex::default() }
    }

    /// A recorder without commands, for a queue family.
    pub(crate) fn take_recorder(&self, family: u32) -> Result<Box<Recorder>> {
        let mut spare = self.spare.lock();
        let found = spare.iter().rposition(|recorder| recorder.family() == family);
        if let Some(index) = found {
            return Ok(spare.swap_remove(index));
        }
        drop(spare);
        Recorder::create(&self.gpu, family)
    }

    /// Keeps the recorder of complete work, if it had one, for reuse.
    pub(crate) fn recycle(&self, recorder: Option<Box<Recorder>>) {
        let Some(mut recorder) = recorder else { return };
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
