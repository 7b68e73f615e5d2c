//! The queue operations. Each begins with the device, the affinity, the fence that it waits for and the fence that it
//! signals, either of which may be null.

use rehal_base::{Error, Result};
use rehal_hal::{
    Buffer, BufferRef, CommandBuffer, Device, Fence, File, Live, MemoryAccess, QueueAffinity, QueueOp,
    Timepoint,
};
use rehal_vm::Call;

use super::HalState;
use super::allocator::params;
use super::arguments::{handle, optional_handle, optional_tuple_handle, part_of};
use super::command_buffer::{buffer_ref, pattern_of};
use super::handle::Handle;
use super::scratch::Scratch;

type Timepoints<'a> = Scratch<Timepoint<Live<'a>>, 4>;
type BindingTable<'a> = Scratch<BufferRef<Live<'a>>, 16>;

/// Where an operation goes, and what orders it.
struct Queue<'a> {
    device: &'a Device,
    affinity: QueueAffinity,
    waits: Option<&'a Fence>,
    signals: Option<&'a Fence>,
}

impl<'a> Queue<'a> {
    fn of(call: &'a Call<'_>) -> Result<Self> {
        Ok(Self {
            device: handle(call, 0)?,
            affinity: call.u64(1)?,
            waits: optional_handle(call, 2)?,
            signals: optional_handle(call, 3)?,
        })
    }
}

fn timepoints(fence: Option<&Fence>) -> Result<Timepoints<'_>> {
    match fence {
        Some(fence) => Timepoints::collect(fence.live_timepoints().map(Ok)),
        None => Ok(Timepoints::Empty),
    }
}

/// Submits an operation. Its names, the timepoints and their lists have one lifetime, so this is no function.
macro_rules! submit {
    ($queue:expr, $op:expr) => {{
        let queue: &Queue<'_> = &$queue;
        let (waits, signals) = (timepoints(queue.waits)?, timepoints(queue.signals)?);
        queue.device.submit(queue.affinity, &waits, &signals, $op)
    }};
}

/// `(.., pool, memory types, usage, size, flags) -> buffer`
pub(super) fn alloca(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    if call.i64(4)? != 0 {
        return Err(Error::unimplemented("VM queue allocation pools are not supported"));
    }
    let params = params(0, call.u32(5)?, call.u32(6)?, MemoryAccess::empty());
    let op = QueueOp::Alloca { params, size: call.u64(7)?, flags: call.u64(8)?, created: () };
    let buffer = submit!(Queue::of(call)?, op)?.ok_or_else(|| {
        Error::new(rehal_base::StatusCode::Internal, "the driver's alloca returned no buffer")
    })?;
    call.push(Handle::reference(buffer));
    Ok(())
}

/// `(.., buffer, flags)`: what no queue owns is not given back to one; then only the order is kept.
pub(super) fn dealloca(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let buffer: &Buffer = handle(call, 4)?;
    let op = match buffer.is_queue_ordered() {
        true => QueueOp::Dealloca { buffer, flags: call.u64(5)? },
        false => QueueOp::Barrier { flags: 0 },
    };
    submit!(Queue::of(call)?, op).map(drop)
}

/// `(.., target, offset, length, pattern, pattern length, flags)`
pub(super) fn fill(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let target = BufferRef::range(handle(call, 4)?, call.u64(5)?, call.u64(6)?);
    let pattern = call.u64(7)?.to_le_bytes();
    let op = QueueOp::Fill { target, pattern: pattern_of(&pattern, call.u32(8)?)?, flags: call.u64(9)? };
    submit!(Queue::of(call)?, op).map(drop)
}

/// `(.., bytes, source offset, target, target offset, length, flags)`
pub(super) fn update(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let bytes: &rehal_vm::Buffer = call.object(4)?;
    let length = call.u64(8)?;
    let source = part_of(bytes, call.u64(5)?, length)?;
    let target = BufferRef::range(handle(call, 6)?, call.u64(7)?, length);
    let op = QueueOp::Update { source: &*source, target, flags: call.u64(9)? };
    submit!(Queue::of(call)?, op).map(drop)
}

/// `(.., source, source offset, target, target offset, length, flags)`
pub(super) fn copy(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let length = call.u64(8)?;
    let source = BufferRef::range(handle(call, 4)?, call.u64(5)?, length);
    let target = BufferRef::range(handle(call, 6)?, call.u64(7)?, length);
    submit!(Queue::of(call)?, QueueOp::Copy { source, target, flags: call.u64(9)? }).map(drop)
}

/// `(.., file, file offset, target, target offset, length, flags)`
pub(super) fn read(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let file: &File = handle(call, 4)?;
    let target = BufferRef::range(handle(call, 6)?, call.u64(7)?, call.u64(8)?);
    let op = QueueOp::Read { file, file_offset: call.u64(5)?, target, flags: call.u64(9)? };
    submit!(Queue::of(call)?, op).map(drop)
}

/// `(.., source, source offset, file, file offset, length, flags)`
pub(super) fn write(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let source = BufferRef::range(handle(call, 4)?, call.u64(5)?, call.u64(8)?);
    let file: &File = handle(call, 6)?;
    let op = QueueOp::Write { source, file, file_offset: call.u64(7)?, flags: call.u64(9)? };
    submit!(Queue::of(call)?, op).map(drop)
}

/// `(.., flags)`
pub(super) fn barrier(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    submit!(Queue::of(call)?, QueueOp::Barrier { flags: call.u64(4)? }).map(drop)
}

/// `(.., command buffer, flags)`
pub(super) fn execute(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let command_buffer: &CommandBuffer = handle(call, 4)?;
    let op = QueueOp::<Live<'_>>::Execute { command_buffer, bindings: &[], flags: call.u64(5)? };
    submit!(Queue::of(call)?, op).map(drop)
}

/// `(.., command buffer, flags, [buffer, offset, length])`: slots without a buffer stay empty.
pub(super) fn execute_indirect(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let command_buffer: &CommandBuffer = handle(call, 4)?;
    let table = BindingTable::collect(call.span(6)?.tuples().map(|tuple| {
        let buffer: Option<&Buffer> = optional_tuple_handle(tuple, 0)?;
        Ok(buffer_ref(buffer, 0, tuple.u64(1)?, tuple.u64(2)?))
    }))?;
    let op = QueueOp::<Live<'_>>::Execute { command_buffer, bindings: &table, flags: call.u64(5)? };
    submit!(Queue::of(call)?, op).map(drop)
}

/// `(device, affinity)`
pub(super) fn flush(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    handle::<Device>(call, 0)?.flush(call.u64(1)?)
}
