//! Operations of queues and commands of command buffers, as commands of Vulkan.

use rehal_base::{Context, Result};
use rehal_hal::{
    Command, Dispatch, Indexed, KeptSubmission, QueueOp, Store, WorkgroupCount, transfer_checks,
};
use smallvec::SmallVec;

use super::barriers::Barrier;
use super::{MemoryRange, Recorder, StagingMemory};
use crate::executable::VulkanExecutable;

/// Records an operation that the device executes. Fails if its arguments, which the binding table completes,
/// are wrong.
pub(crate) fn record_operation(
    recorder: &mut Recorder,
    memory: &StagingMemory,
    store: &Store,
    table: &[Option<MemoryRange>],
    operation: &QueueOp<Indexed>,
) -> Result<()> {
    let resolve = |reference| MemoryRange::resolve(memory.memory(), store, table, reference);
    match operation {
        QueueOp::Fill { target, pattern, .. } => {
            let (target, pattern) = (resolve(target)?, pattern.of(&store.bytes));
            transfer_checks::check_fill(target.range().offset, target.length(), pattern)?;
            recorder.fill(memory, &target, pattern)
        }
        QueueOp::Update { source, target, .. } => {
            let (bytes, target) = (source.of(&store.bytes), resolve(target)?);
            transfer_checks::check_update(bytes, target.length())?;
            recorder.update(memory, &target, bytes)
        }
        QueueOp::Copy { source, target, .. } => {
            let (source, target) = (resolve(source)?, resolve(target)?);
            transfer_checks::check_copy(source.length(), target.length())?;
            match source.overlap_distance(&target) {
                None => recorder.copy(&source, &target),
                Some(distance) => recorder.copy_overlapping(memory, &source, &target, distance),
            }
        }
        QueueOp::Dispatch(dispatch) => record_dispatch(recorder, memory, store, table, dispatch),
        // The others are not the device's.
        _ => Ok(()),
    }
}

fn record_dispatch(
    recorder: &mut Recorder,
    memory: &StagingMemory,
    store: &Store,
    table: &[Option<MemoryRange>],
    dispatch: &Dispatch<Indexed>,
) -> Result<()> {
    let executable = &store.executables[dispatch.executable as usize];
    let pipeline = VulkanExecutable::of(executable, recorder.gpu())?.pipeline(dispatch.function)?;
    pipeline.check_subgroups(recorder.gpu())?;
    pipeline.check_local_memory(dispatch.dynamic_local_memory)?;
    let mut bindings: SmallVec<[MemoryRange; 8]> = SmallVec::new();
    for (ordinal, binding) in dispatch.bindings.of(&store.lists.buffer_refs).iter().enumerate() {
        let bound = MemoryRange::resolve(memory.memory(), store, table, binding)
            .context(|| format!("binding {ordinal}"))?;
        bindings.push(bound);
    }
    let constants = dispatch.constants.of(&store.bytes);
    recorder.bind(memory, executable, pipeline, constants, &bindings)?;
    match &dispatch.workgroup_count {
        WorkgroupCount::Static(count) => recorder.dispatch(*count),
        WorkgroupCount::Indirect(count) => {
            recorder.dispatch_indirect(&MemoryRange::resolve(memory.memory(), store, table, count)?)
        }
    }
}

/// Records a command of a command buffer. Errors name its index.
pub(super) fn record_command(
    recorder: &mut Recorder,
    memory: &StagingMemory,
    store: &Store,
    table: &[Option<MemoryRange>],
    command: &Command<Indexed>,
) -> Result<()> {
    match command {
        Command::ExecutionBarrier {
            source_stages, target_stages, memory_barriers, buffer_barriers, ..
        } => {
            let memory = memory_barriers.of(&store.lists.memory_barriers);
            let buffers = buffer_barriers.of(&store.lists.buffer_barriers);
            let scopes = memory.iter().chain(buffers.iter().map(|it| &it.barrier));
            recorder.barrier(&Barrier::new(*source_stages, *target_stages, scopes));
            Ok(())
        }
        // The signal of an event precedes the waits for it in the order of commands, and a barrier orders all
        // that does. Events of Vulkan would have to be reset between submissions that may execute at once.
        Command::WaitEvents { source_stages, target_stages, memory_barriers, buffer_barriers, .. } => {
            let memory = memory_barriers.of(&store.lists.memory_barriers);
            let buffers = buffer_barriers.of(&store.lists.buffer_barriers);
            let scopes = memory.iter().chain(buffers.iter().map(|it| &it.barrier));
            recorder.barrier(&Barrier::new(*source_stages, *target_stages, scopes));
            Ok(())
        }
        Command::SignalEvent { .. } | Command::ResetEvent { .. } | Command::Advise { .. } => Ok(()),
        Command::BeginDebugGroup { label, color } => {
            recorder.begin_label(label.of(&store.bytes), *color);
            Ok(())
        }
        Command::EndDebugGroup => {
            recorder.end_label();
            Ok(())
        }
        command => match command.as_queue_op() {
            Some(operation) => record_operation(recorder, memory, store, table, &operation),
            None => Ok(()),
        },
    }
}

/// A description of a submission for messages: its operation, and the functions that it dispatches; if it is
/// known how many dispatches are complete, the one that is not.
pub(crate) fn describe(kept: &KeptSubmission, completed: Option<usize>) -> String {
    let store = kept.store();
    match kept.op() {
        QueueOp::Dispatch(dispatch) => format!("dispatch of {}", function_name(store, dispatch)),
        QueueOp::Execute { command_buffer, .. } => {
            let commands = &store.command_buffers[*command_buffer as usize];
            super::VulkanCommands::of(commands)
                .map_or_else(|_| "a command buffer".into(), |commands| commands.describe(completed))
        }
        operation => operation.name().into(),
    }
}

/// The name of the function that a dispatch runs.
pub(super) fn function_name(store: &Store, dispatch: &Dispatch<Indexed>) -> String {
    let executable = store.executables.get(dispatch.executable as usize);
    let function = executable.and_then(|it| it.functions().get(dispatch.function as usize));
    function.map_or_else(
        || format!("function {}", dispatch.function),
        |it| format!("'{}'", it.name.escape_debug()),
    )
}
