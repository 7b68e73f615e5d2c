use rehal_base::Result;
use rehal_hal::{Binding, CommandBuffer, Dispatch, Names, QueueOp, WorkgroupCount};

use crate::command::LocalCommands;
use crate::executable::{LocalExecutable, workgroup_total};
use crate::execute::{Resolve, Slots, StoredNames, workgroup_count};

/// Work that takes less than this many nanoseconds runs inline: about what waking a worker takes, and waking
/// the thread that waits for it. Not the measured time ([`PoolHandle::handover_ns`]): a thread that submits
/// must not be detained for long, even if that is slow.
///
/// [`PoolHandle::handover_ns`]: crate::pool::PoolHandle::handover_ns
const INLINE_NS: u64 = 20_000;

/// Work of a stage for which a worker that waits for stages joins: more than the cost of moving it to another
/// core.
pub(super) const JOINING_NS: u64 = 3_000;

/// Assumed throughput of transfers in bytes per nanosecond.
const BYTES_PER_NS: u64 = 8;

/// Estimated duration of a transfer in nanoseconds.
pub(super) fn of_bytes(bytes: u64) -> u64 {
    bytes / BYTES_PER_NS
}

/// Whether an operation takes less time than a handover to a worker. `false` if its duration is unknown:
/// dispatches of a function that was never measured, host calls, and files, which may be on a disk.
pub(super) fn is_brief<'r, N: Names + 'r, R: Resolve<'r, N>>(op: &QueueOp<N>, names: &R) -> bool {
    // If the estimate fails, so will the operation: it runs inline and fails there.
    of_operation(op, names).unwrap_or(Some(0)).is_some_and(|cost| cost < INLINE_NS)
}

/// `sum`, plus the estimated duration of the operations that several workers can share, up to `limit`. Work
/// of unknown duration reaches it.
pub(super) fn of_shared_work<'r, N: Names + 'r, R: Resolve<'r, N>>(
    operations: &[QueueOp<N>],
    names: &R,
    mut sum: u64,
    limit: u64,
) -> u64 {
    for operation in operations {
        if sum >= limit {
            break;
        }
        let cost = match operation {
            QueueOp::Dispatch(dispatch) => match workgroup_count(dispatch, names).map(workgroup_total) {
                Ok(0 | 1) => Some(0),
                // A stage whose arguments are wrong fails.
                _ => of_dispatch(dispatch, names).unwrap_or(Some(0)),
            },
            _ => Some(0),
        };
        sum = sum.saturating_add(cost.unwrap_or(limit));
    }
    sum.min(limit)
}

/// Estimated duration of an operation on one thread in nanoseconds, if known.
fn of_operation<'r, N: Names + 'r, R: Resolve<'r, N>>(op: &QueueOp<N>, names: &R) -> Result<Option<u64>> {
    Ok(match op {
        QueueOp::Alloca { .. } | QueueOp::Dealloca { .. } | QueueOp::Barrier { .. } => Some(0),
        QueueOp::Fill { target, .. } | QueueOp::Update { target, .. } | QueueOp::Copy { target, .. } => {
            Some(of_bytes(names.place(target)?.length()))
        }
        QueueOp::Dispatch(dispatch) => of_dispatch(dispatch, names)?,
        QueueOp::Execute { command_buffer, .. } => of_commands(names.command_buffer(*command_buffer))?,
        QueueOp::Read { .. } | QueueOp::Write { .. } | QueueOp::HostCall { .. } => None,
    })
}

/// Estimated duration of a dispatch on one thread in nanoseconds, if known.
fn of_dispatch<'r, N: Names + 'r, R: Resolve<'r, N>>(
    dispatch: &Dispatch<N>,
    names: &R,
) -> Result<Option<u64>> {
    let executable = LocalExecutable::of(names.executable(dispatch.executable))?;
    let Some(cost) = executable.cost(dispatch.function) else { return Ok(None) };
    Ok(cost.of(workgroup_total(workgroup_count(dispatch, names)?)))
}

/// Estimated duration of the commands on one thread, if known; stops adding once the sum is not brief.
fn of_commands(command_buffer: &CommandBuffer) -> Result<Option<u64>> {
    let Some(recording) = LocalCommands::of(command_buffer)?.baked()? else { return Ok(Some(0)) };
    let names = StoredNames { store: &recording.store, slots: Slots::NONE };
    let mut sum = 0;
    for operation in &recording.operations {
        // The buffers in binding slots are not resolved.
        let length_of_slot = match operation {
            QueueOp::Fill { target, .. } | QueueOp::Update { target, .. } | QueueOp::Copy { target, .. } => {
                matches!(target.binding, Binding::Slot(_)).then_some(target.length)
            }
            QueueOp::Dispatch(Dispatch { workgroup_count: WorkgroupCount::Indirect(count), .. })
                if matches!(count.binding, Binding::Slot(_)) =>
            {
                return Ok(None);
            }
            _ => None,
        };
        let cost = match length_of_slot {
            Some(length) => Some(of_bytes(length)),
            None => of_operation(operation, &names)?,
        };
        let Some(cost) = cost else { return Ok(None) };
        sum += cost;
        if sum >= INLINE_NS {
            break;
        }
    }
    Ok(Some(sum))
}
