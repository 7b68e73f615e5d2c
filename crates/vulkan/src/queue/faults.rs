//! Errors of Vulkan that tests inject: software drivers do not fail by themselves.

use ash::vk;
#[cfg(test)]
use parking_lot::Mutex;

/// A call that may be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// `vkQueueSubmit`.
    Submit,
    /// `vkGetSemaphoreCounterValue`.
    Poll,
    /// `vkWaitSemaphores`.
    Wait,
}

/// The errors that calls return; none, except in tests.
#[derive(Default)]
pub(super) struct Faults {
    #[cfg(test)]
    injected: Mutex<Vec<(Call, vk::Result)>>,
    /// The value that `vkGetSemaphoreCounterValue` returns from now on.
    #[cfg(test)]
    counter: Mutex<Option<u64>>,
}

impl Faults {
    /// Fails if the next call of this kind is to fail, in place of the call.
    #[cfg(not(test))]
    pub(super) fn check(&self, _call: Call) -> Result<(), vk::Result> {
        Ok(())
    }

    /// Fails if the next call of this kind is to fail, in place of the call.
    #[cfg(test)]
    pub(super) fn check(&self, call: Call) -> Result<(), vk::Result> {
        let mut injected = self.injected.lock();
        match injected.iter().position(|(it, _)| *it == call) {
            Some(index) => Err(injected.remove(index).1),
            None => Ok(()),
        }
    }

    /// Makes a call fail: each one once, in order.
    #[cfg(test)]
    pub(super) fn inject(&self, call: Call, error: vk::Result) {
        self.injected.lock().push((call, error));
    }

    /// The value of a semaphore for which Vulkan returned `value`.
    #[cfg(not(test))]
    pub(super) fn counter(&self, value: u64) -> u64 {
        value
    }

    /// The value of a semaphore for which Vulkan returned `value`.
    #[cfg(test)]
    pub(super) fn counter(&self, value: u64) -> u64 {
        self.counter.lock().unwrap_or(value)
    }

    /// Makes all semaphores have this value from now on.
    #[cfg(test)]
    pub(super) fn inject_counter(&self, value: u64) {
        *self.counter.lock() = Some(value);
    }
}
