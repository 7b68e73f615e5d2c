//! Issues submissions whose waits are reached, or are going to be reached by work of the device.

use std::sync::Arc;

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_crash::DriverWork;
use rehal_hal::profile::PoolReservation;
use rehal_hal::{Buffer, Indexed, KeptSubmission, QueueAffinity, QueueOp};

use crate::buffer::VulkanBuffer;
use crate::command::{MemoryRange, Recorder, Repeats, VulkanCommands, record_operation};
use crate::profile::SubmissionTimestamps;
use crate::queue::{Core, Frontier, Origin, Uses, Work};

/// The affinity of the queue for transfers.
pub(crate) const TRANSFER_QUEUE: QueueAffinity = 1 << 1;

/// Issues a submission after the work of `after`, or keeps it until earlier ones are complete, if too many
/// are outstanding. If it fails, so do the signals.
pub(crate) fn issue(core: &Arc<Core>, kept: Box<KeptSubmission>, after: Frontier) -> Result<()> {
    if let Some(profile) = kept.profile() {
        profile.ready();
    }
    let has_commands =
        !matches!(kept.op(), QueueOp::Barrier { .. } | QueueOp::Alloca { .. } | QueueOp::Dealloca { .. });
    let ready = if has_commands { core.defer(kept, after) } else { Some(kept) };
    ready.map_or(Ok(()), |kept| issue_now(core, kept, after, Origin::Program))
}

/// Issues a submission after the work of `after`. If it fails, so do the signals.
pub(crate) fn issue_now(
    core: &Arc<Core>,
    kept: Box<KeptSubmission>,
    after: Frontier,
    origin: Origin,
) -> Result<()> {
    let work = Preparation { core }.prepare(&kept, &after).map_err(|error| error.context(kept.op().name()));
    match work {
        Ok(work) => core.issue(kept, after, work, origin).map(drop),
        Err(error) => Err(core.fail(kept, error)),
    }
}

/// Names the kernel of a dispatch while it is in flight.
fn in_flight(kept: &KeptSubmission, operation: &QueueOp<Indexed>) -> Option<DriverWork> {
    let QueueOp::Dispatch(dispatch) = operation else { return None };
    let executable = kept.store().executables.get(dispatch.executable as usize)?;
    let function = executable.functions().get(dispatch.function as usize)?;
    Some(DriverWork::new(&["dispatch of '", &function.name, "'"]))
}

/// Prepares submissions of a device.
struct Preparation<'c> {
    core: &'c Arc<Core>,
}

impl Preparation<'_> {
    /// Does what the host does of a submission, and records what the device does.
    fn prepare(&self, kept: &KeptSubmission, after: &Frontier) -> Result<Option<Work>> {
        let store = kept.store();
        match kept.op() {
            QueueOp::Barrier { .. } => Ok(None),
            QueueOp::Alloca { .. } => {
                let created = kept.created().ok_or_else(|| {
                    Error::new(StatusCode::Internal, "an alloca without the buffer that it allocates")
                })?;
                self.alloca(created, after)?;
                Ok(None)
            }
            QueueOp::Dealloca { buffer, .. } => {
                let buffer = &store.buffers[*buffer as usize];
                self.dealloca(buffer, after)?;
                if let Some(profile) = kept.profile() {
                    profile.dealloca(buffer);
                    let allocation = VulkanBuffer::of(buffer).ok().and_then(VulkanBuffer::profiled);
                    allocation.inspect(|it| it.release(profile.operation()));
                }
                Ok(None)
            }
            QueueOp::Execute { command_buffer, bindings, .. } => {
                let table =
                    MemoryRange::table(self.core.memory(), store, bindings.of(&store.lists.buffer_refs))?;
                let commands = VulkanCommands::of(&store.command_buffers[*command_buffer as usize])?;
                if commands.is_empty()? {
                    return Ok(None);
                }
                let in_flight = DriverWork::new(&[commands.description()]);
                let (commands, mut uses) = commands.bake(self.core, &table, kept.profile())?;
                uses.in_flight = Some(in_flight);
                for range in table.iter().flatten() {
                    uses.blocks.push(range.allocation().block().clone());
                }
                Ok(Some(Work { lane: 0, commands, uses }))
            }
            operation => {
                let lane = self.lane(kept, operation);
                let mut recorder = self.core.recorders().take_recorder(self.core.gpu().families()[lane])?;
                recorder.begin(Repeats::Never)?;
                let timestamps = self.record(&mut recorder, kept, operation)?;
                recorder.end()?;
                let commands = recorder.commands();
                let in_flight = in_flight(kept, operation);
                let uses = Uses { recorder: Some(recorder), timestamps, in_flight, ..Uses::default() };
                Ok(Some(Work { lane, commands, uses }))
            }
        }
    }

    /// Records an operation, with timestamps if a profile wants them.
    fn record(
        &self,
        recorder: &mut Recorder,
        kept: &KeptSubmission,
        operation: &QueueOp<Indexed>,
    ) -> Result<Option<SubmissionTimestamps>> {
        let (store, staging) = (kept.store(), self.core.staging());
        let family = recorder.family();
        let timestamps = kept
            .profile()
            .and_then(|profile| SubmissionTimestamps::from_submission(profile, self.core.gpu(), family));
        let (Some(mut timestamps), Some(profile)) = (timestamps, kept.profile()) else {
            record_operation(recorder, staging, store, &[], operation)?;
            return Ok(None);
        };
        timestamps.begin(recorder, 1)?;
        let record = |recorder: &mut Recorder| record_operation(recorder, staging, store, &[], operation);
        match operation {
            QueueOp::Dispatch(dispatch) => {
                timestamps.dispatch(recorder, profile, store, dispatch, None, record)?;
            }
            _ => record(recorder)?,
        }
        timestamps.end(recorder);
        Ok(Some(timestamps))
    }

    /// Transfers run on the queue for transfers if they ask for it and there is one.
    fn lane(&self, kept: &KeptSubmission, operation: &QueueOp<Indexed>) -> usize {
        let is_transfer = !matches!(operation, QueueOp::Dispatch(_));
        let asks = kept.submission().affinity == TRANSFER_QUEUE;
        usize::from(is_transfer && asks && self.core.lane_count() > 1)
    }

    fn alloca(&self, created: &Buffer, after: &Frontier) -> Result<()> {
        let params = *created.params();
        let (pool, memory) = (self.core.pool(), VulkanBuffer::of(created)?);
        // What was granted may be mapped where the host can, although no device shares it.
        let allocation = match memory.is_shared() {
            true => pool.allocate(self.core, &params, created.size()).map(Arc::new),
            false => pool.alloca(self.core, &params, created.size(), after),
        };
        let allocation = allocation.context(|| format!("a transient buffer of {} bytes", created.size()))?;
        let counted = self.core.counters().count(params.memory_type, created.size());
        let reservation = PoolReservation {
            pool_id: u64::from(allocation.block().kind().index) + 1,
            backing_id: allocation.block().id(),
            offset: allocation.offset(),
            length_bytes: allocation.length(),
        };
        memory.allocate(allocation, counted)?;
        memory.profiled().inspect(|it| it.reserve(reservation));
        Ok(())
    }

    fn dealloca(&self, buffer: &Buffer, after: &Frontier) -> Result<()> {
        let alignment = buffer.params().min_alignment;
        let Some(memory) = VulkanBuffer::of(buffer).ok().filter(|memory| memory.is_of(self.core.gpu()))
        else {
            // What this device does with it meanwhile owns an import of the memory.
            return buffer.backend().deallocate();
        };
        let allocation = memory.take()?;
        if buffer.is_queue_ordered() {
            self.core.pool().deallocate(allocation, alignment, *after, &self.core.completed());
        }
        Ok(())
    }
}
