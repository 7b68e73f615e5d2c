//! Performs work one part at a time: a part begins once the one before it is complete.

use rehal_base::Result;
use rehal_hal::{
    CommandBuffer, CommandBufferParams, Device, QueueAffinity, Semaphore, SemaphoreFlags, Timepoint,
};

/// Submits parts and waits for each: for observers that look at memory between operations, for a recorder
/// whose dispatches are watched, and for the work of a slice.
pub(crate) struct OneByOne {
    /// Signalled by each part, which waits for the part before it.
    timeline: Semaphore,
    now: u64,
}

impl OneByOne {
    pub(crate) fn new(device: &Device, affinity: QueueAffinity) -> Result<Self> {
        Ok(Self { timeline: device.create_semaphore(affinity, 0, SemaphoreFlags::default())?, now: 0 })
    }

    /// Issues a part, with the timepoint of the part before it and its own, and waits until it is complete.
    ///
    /// Nothing is in flight, so that the part need not wait for the one before it, unless a capture is made
    /// of it.
    pub(crate) fn perform(
        &mut self,
        device: &Device,
        affinity: QueueAffinity,
        issue: impl FnOnce(&[Timepoint<&Semaphore>], &[Timepoint<&Semaphore>]) -> Result<()>,
    ) -> Result<()> {
        let before = (self.now != 0).then(|| self.timeline.at(self.now));
        issue(before.as_slice(), &[self.timeline.at(self.now + 1)])?;
        self.now += 1;
        device.flush(affinity)?;
        self.timeline.wait(self.now, None)
    }
}

/// A command buffer of the commands that `record` adds to it.
pub(crate) fn recorded(
    device: &Device,
    params: CommandBufferParams,
    record: impl FnOnce(&CommandBuffer) -> Result<()>,
) -> Result<CommandBuffer> {
    let own = device.create_command_buffer(params)?;
    own.begin()?;
    record(&own)?;
    own.end()?;
    Ok(own)
}
