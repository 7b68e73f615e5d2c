//! Checks of an operation's arguments that fail on every device.

use rehal_base::{Error, Result};
use rehal_capture::layout;
use rehal_hal::{Binding, BufferRef, Command, Dispatch, QueueOp, WorkgroupCount, transfer_checks};

use crate::ids::Ids;

/// Fails if the data of a queue operation does not match its range, or a range refers to a slot: only an
/// execution has a binding table.
pub(crate) fn check_queue_op(op: &QueueOp<Ids<'_>>) -> Result<()> {
    match op {
        QueueOp::Fill { target, pattern, .. } => {
            check_direct(target)?;
            transfer_checks::check_pattern(pattern).map_err(damaged)?;
            // An asynchronous device checks the alignment when the fill runs, so the status of its call is
            // OK.
            transfer_checks::check_fill(target.offset, target.length, pattern)
        }
        QueueOp::Update { source, target, .. } => {
            check_direct(target)?;
            transfer_checks::check_update(source, target.length).map_err(damaged)
        }
        QueueOp::Copy { source, target, .. } => {
            check_direct(source)?;
            check_direct(target)?;
            transfer_checks::check_copy(source.length, target.length).map_err(damaged)
        }
        QueueOp::Read { target, .. } => check_direct(target),
        QueueOp::Write { source, .. } => check_direct(source),
        QueueOp::Dispatch(dispatch) => {
            if dispatch.bindings.iter().any(|it| it.buffer_id.get() == 0) {
                return Err(no_table());
            }
            match &dispatch.workgroup_count {
                WorkgroupCount::Static(_) => Ok(()),
                WorkgroupCount::Indirect(buffer) => check_direct(buffer),
            }
        }
        QueueOp::Alloca { .. }
        | QueueOp::Dealloca { .. }
        | QueueOp::Execute { .. }
        | QueueOp::Barrier { .. }
        | QueueOp::HostCall { .. } => Ok(()),
    }
}

/// Fails if the data of a command does not match its range, or it refers to a slot out of bounds of its
/// command buffer's `slots`.
pub(crate) fn check_command(command: &Command<Ids<'_>>, slots: u64) -> Result<()> {
    let check_slot = |reference: &BufferRef<u64>| match reference.binding {
        Binding::Slot(slot) => check_slot(slot, slots),
        Binding::Direct(_) => Ok(()),
    };
    match command {
        Command::ExecutionBarrier { buffer_barriers, .. } | Command::WaitEvents { buffer_barriers, .. } => {
            buffer_barriers.iter().try_for_each(|it| check_stored_slot(&it.buffer_ref, slots))
        }
        Command::Fill { target, pattern, .. } => {
            check_slot(target)?;
            transfer_checks::check_fill(target.offset, target.length, pattern).map_err(damaged)
        }
        Command::Update { source, target, .. } => {
            check_slot(target)?;
            transfer_checks::check_update(source, target.length).map_err(damaged)
        }
        Command::Copy { source, target, .. } => {
            check_slot(source)?;
            check_slot(target)?;
            transfer_checks::check_copy(source.length, target.length).map_err(damaged)
        }
        Command::Dispatch(Dispatch { bindings, workgroup_count, .. }) => {
            bindings.iter().try_for_each(|it| check_stored_slot(it, slots))?;
            match workgroup_count {
                WorkgroupCount::Static(_) => Ok(()),
                WorkgroupCount::Indirect(buffer) => check_slot(buffer),
            }
        }
        Command::SignalEvent { .. }
        | Command::ResetEvent { .. }
        | Command::Advise { .. }
        | Command::BeginDebugGroup { .. }
        | Command::EndDebugGroup => Ok(()),
    }
}

fn check_direct(reference: &BufferRef<u64>) -> Result<()> {
    match reference.binding {
        Binding::Direct(_) => Ok(()),
        Binding::Slot(_) => Err(no_table()),
    }
}

#[cold]
pub(crate) fn no_table() -> Error {
    Error::data_loss("a queue operation refers to a binding slot, but has no binding table")
}

fn check_stored_slot(reference: &layout::BufferRef, slots: u64) -> Result<()> {
    match reference.buffer_id.get() {
        0 => check_slot(reference.buffer_slot.get(), slots),
        _ => Ok(()),
    }
}

fn check_slot(slot: u32, slots: u64) -> Result<()> {
    if u64::from(slot) < slots {
        return Ok(());
    }
    Err(Error::out_of_range(format!(
        "binding slot {slot} is out of bounds: the command buffer has {slots} slots"
    )))
}

/// The error as [`StatusCode::DataLoss`](rehal_base::StatusCode::DataLoss): a device would have rejected the
/// call at capture, so the capture is corrupt.
#[cold]
fn damaged(error: Error) -> Error {
    Error::data_loss(error.message())
}
