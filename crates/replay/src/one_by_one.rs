//! Performs work one part at a time: a part begins once the one before it is complete.
//!
//! [`walk`] decides what the parts of a command buffer are, [`recorded`] makes a command buffer of each, and
//! [`OneByOne`] submits them. Observers that look at memory between operations (`run/stepping.rs`) and a
//! recorder whose dispatches are watched (`record/watch.rs`) walk over commands; the work of a slice
//! (`slice/isolated_work.rs`) is not observed, and its parts are those of the capture.

use std::ops::ControlFlow;

use bumpalo::Bump;
use rehal_base::Result;
use rehal_hal::{
    Command, CommandBuffer, CommandBufferParams, Device, Indexed, Queue, QueueAffinity, Semaphore,
    SemaphoreFlags,
};

/// Submits parts and waits for each.
pub(crate) struct OneByOne {
    /// Signalled by each part.
    timeline: Semaphore,
    now: u64,
    /// Whether a part also waits for the one before it. Nothing is in flight, so this is only needed if a
    /// capture is made of the parts.
    is_chained: bool,
}

impl OneByOne {
    pub(crate) fn new(device: &Device, affinity: QueueAffinity) -> Result<Self> {
        let timeline = device.create_semaphore(affinity, 0, SemaphoreFlags::default())?;
        Ok(Self { timeline, now: 0, is_chained: false })
    }

    /// Parts that wait for one another, so that a capture of them has their order.
    pub(crate) fn chained(device: &Device, affinity: QueueAffinity) -> Result<Self> {
        Ok(Self { is_chained: true, ..Self::new(device, affinity)? })
    }

    /// Issues a part to a queue that signals its timepoint, and waits until it is complete.
    pub(crate) fn perform(
        &mut self,
        device: &Device,
        affinity: QueueAffinity,
        issue: impl FnOnce(Queue<'_>) -> Result<()>,
    ) -> Result<()> {
        let before = (self.is_chained && self.now != 0).then(|| self.timeline.at(self.now));
        let signals = [self.timeline.at(self.now + 1)];
        issue(device.queue(affinity).wait(before.as_slice()).signal(&signals))?;
        self.now += 1;
        device.flush(affinity)?;
        self.timeline.wait(self.now, None)
    }
}

/// A command buffer of some commands; `record` adds one, with scratch memory for it.
pub(crate) fn recorded<C>(
    device: &Device,
    params: CommandBufferParams,
    commands: &[C],
    mut record: impl FnMut(&CommandBuffer, &C, &Bump) -> Result<()>,
) -> Result<CommandBuffer> {
    let own = device.create_command_buffer(params)?;
    own.begin()?;
    let mut scratch = Bump::new();
    for command in commands {
        record(&own, command, &scratch)?;
        scratch.reset();
    }
    own.end()?;
    Ok(own)
}

/// Performs the commands of a command buffer in parts.
pub(crate) trait Walker {
    /// A command, with its place.
    type Item;

    fn command<'i>(&'i self, item: &'i Self::Item) -> &'i Command<Indexed>;

    /// Whether a command is performed by itself. Called once for each.
    fn is_single(&mut self, item: &Self::Item) -> bool;

    /// Performs commands in a part.
    fn together(&mut self, items: &[Self::Item]) -> Result<()>;

    /// Performs a command by itself, with what is done before and after it; ends the walk if it breaks.
    fn single(&mut self, item: &Self::Item) -> Result<ControlFlow<()>>;
}

/// Performs commands: those that are single by themselves, and others together with their neighbors.
pub(crate) fn walk<W: Walker>(walker: &mut W, items: &[W::Item]) -> Result<ControlFlow<()>> {
    let mut rest = items;
    loop {
        let count = rest.iter().take_while(|it| !walker.is_single(it)).count();
        let (together, others) = rest.split_at(count);
        let is_barrier = |it| matches!(walker.command(it), Command::ExecutionBarrier { .. });
        // Everything before and after them is ordered already.
        if !together.iter().all(is_barrier) {
            walker.together(together)?;
        }
        let Some((single, others)) = others.split_first() else { return Ok(ControlFlow::Continue(())) };
        if walker.single(single)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        rest = others;
    }
}
