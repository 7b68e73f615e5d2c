#![allow(unsafe_code, reason = "calls the Vulkan driver")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::vk;
use rehal_base::Result;

use crate::error::failure;
use crate::gpu::Gpu;

/// Ends a wait for the device from the host: a timeline semaphore that only the host signals, among those
/// that are waited for.
pub(super) struct Waker {
    gpu: Arc<Gpu>,
    semaphore: vk::Semaphore,
    /// The value of the semaphore; changed with the lock of the state held.
    value: AtomicU64,
}

impl Waker {
    pub(super) fn create(gpu: &Arc<Gpu>) -> Result<Self> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the structures live until the call returns; every device that is created has timeline
        // semaphores.
        let semaphore = unsafe { gpu.functions().create_semaphore(&info, None) }
            .map_err(|error| failure("creating a timeline semaphore", error))?;
        Ok(Self { gpu: gpu.clone(), semaphore, value: AtomicU64::new(0) })
    }

    /// The semaphore that is waited for.
    pub(super) fn semaphore(&self) -> vk::Semaphore {
        self.semaphore
    }

    /// The number of wakes so far: a wait that is to be woken waits for one more.
    pub(super) fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Wakes the thread that waits. The lock of the state is held.
    pub(super) fn wake(&self) -> Result<(), vk::Result> {
        let value = self.value.load(Ordering::Acquire) + 1;
        let info = vk::SemaphoreSignalInfo::default().semaphore(self.semaphore).value(value);
        // SAFETY: the host alone signals the semaphore, under a lock, so that its value increases.
        unsafe { self.gpu.functions().signal_semaphore(&info) }?;
        self.value.store(value, Ordering::Release);
        Ok(())
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        if !self.gpu.is_stuck() {
            // SAFETY: the thread that waits for it owns the queues, of which this is a part.
            unsafe { self.gpu.functions().destroy_semaphore(self.semaphore, None) };
        }
    }
}
