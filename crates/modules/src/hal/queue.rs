//! The queue operations. Each starts with the device, the affinity, the wait fence and the signal fence, both
//! nullable.

use rehal_base::{Error, Result};
use rehal_hal::{
    Buffer, BufferRef, CommandBuffer, Device, Fence, File, MemoryAccess, Queue, QueueAffinity, Semaphore,
    Timepoint,
};
use rehal_vm::Call;
use smallvec::SmallVec;

use super::HalState;
use super::allocator::params;
use super::arguments::{handle, optional_handle, optional_tuple_handle, part_of};
use super::command_buffer::{buffer_ref, pattern_of};
use super::handle::Handle;

type Timepoints<'a> = SmallVec<[Timepoint<&'a Semaphore>; 4]>;
type BindingTable<'a> = SmallVec<[BufferRef<&'a Buffer>; 16]>;

/// The target and the ordering of an operation.
struct Arguments<'a> {
    device: &'a Device,
    affinity: QueueAffinity,
    waits: Timepoints<'a>,
    signals: Timepoints<'a>,
}

impl<'a> Arguments<'a> {
    fn from_call(call: &'a Call<'_>) -> Result<Self> {
        Ok(Self {
            device: handle(call, 0)?,
            affinity: call.u64(1)?,
            waits: timepoints(optional_handle(call, 2)?),
            signals: timepoints(optional_handle(call, 3)?),
        })
    }

    fn queue(&self) -> Queue<'_> {
        self.device.queue(self.affinity).wait(&self.waits).signal(&self.signals)
    }
}

fn timepoints(fence: Option<&Fence>) -> Timepoints<'_> {
    fence.map_or_else(SmallVec::new, |fence| fence.live_timepoints().collect())
}

/// `(.., pool, memory types, usage, size, flags) -> buffer`
pub(super) fn alloca(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    if call.i64(4)? != 0 {
        return Err(Error::unimplemented("VM queue allocation pools are not supported"));
    }
    let params = params(0, call.u32(5)?, call.u32(6)?, MemoryAccess::empty());
    let buffer = Arguments::from_call(call)?.queue().alloca(params, call.u64(7)?, call.u64(8)?)?;
    call.push(Handle::reference(buffer));
    Ok(())
}

/// `(.., buffer, flags)`: a buffer that no queue owns is not deallocated; the operation then only preserves
/// ordering.
pub(super) fn dealloca(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let buffer: &Buffer = handle(call, 4)?;
    let arguments = Arguments::from_call(call)?;
    match buffer.is_queue_ordered() {
        true => arguments.queue().dealloca(buffer, call.u64(5)?),
        false => arguments.queue().barrier(0),
    }
}

/// `(.., target, offset, length, pattern, pattern length, flags)`
pub(super) fn fill(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let target = BufferRef::range(handle(call, 4)?, call.u64(5)?, call.u64(6)?);
    let pattern = call.u64(7)?.to_le_bytes();
    let pattern = pattern_of(&pattern, call.u32(8)?)?;
    Arguments::from_call(call)?.queue().fill(target, pattern, call.u64(9)?)
}

/// `(.., bytes, source offset, target, target offset, length, flags)`
pub(super) fn update(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let bytes: &rehal_vm::Buffer = call.object(4)?;
    let length = call.u64(8)?;
    let source = part_of(bytes, call.u64(5)?, length)?;
    let target = BufferRef::range(handle(call, 6)?, call.u64(7)?, length);
    Arguments::from_call(call)?.queue().update(&source, target, call.u64(9)?)
}

/// `(.., source, source offset, target, target offset, length, flags)`
pub(super) fn copy(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let length = call.u64(8)?;
    let source = BufferRef::range(handle(call, 4)?, call.u64(5)?, length);
    let target = BufferRef::range(handle(call, 6)?, call.u64(7)?, length);
    Arguments::from_call(call)?.queue().copy(source, target, call.u64(9)?)
}

/// `(.., file, file offset, target, target offset, length, flags)`
pub(super) fn read(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let file: &File = handle(call, 4)?;
    let target = BufferRef::range(handle(call, 6)?, call.u64(7)?, call.u64(8)?);
    Arguments::from_call(call)?.queue().read(file, call.u64(5)?, target, call.u64(9)?)
}

/// `(.., source, source offset, file, file offset, length, flags)`
pub(super) fn write(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let source = BufferRef::range(handle(call, 4)?, call.u64(5)?, call.u64(8)?);
    let file: &File = handle(call, 6)?;
    Arguments::from_call(call)?.queue().write(source, file, call.u64(7)?, call.u64(9)?)
}

/// `(.., flags)`
pub(super) fn barrier(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    Arguments::from_call(call)?.queue().barrier(call.u64(4)?)
}

/// `(.., command buffer, flags)`
pub(super) fn execute(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let command_buffer: &CommandBuffer = handle(call, 4)?;
    Arguments::from_call(call)?.queue().execute(command_buffer, &[], call.u64(5)?)
}

/// `(.., command buffer, flags, [buffer, offset, length])`: slots without a buffer stay empty.
pub(super) fn execute_indirect(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let command_buffer: &CommandBuffer = handle(call, 4)?;
    let slots = call.span(6)?.tuples().map(|tuple| {
        let buffer: Option<&Buffer> = optional_tuple_handle(tuple, 0)?;
        Ok(buffer_ref(buffer, 0, tuple.u64(1)?, tuple.u64(2)?))
    });
    let table = slots.collect::<Result<BindingTable<'_>>>()?;
    Arguments::from_call(call)?.queue().execute(command_buffer, &table, call.u64(5)?)
}

/// `(device, affinity)`
pub(super) fn flush(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    handle::<Device>(call, 0)?.flush(call.u64(1)?)
}
