//! Operations as records of a capture: the inverse of `decode.rs`, and the one place where an operation's
//! fields become a payload's.

use rehal_capture::payload::View;
use rehal_capture::{OperationCode as Code, PayloadType, layout, payload};
use rehal_hal::{
    Binding, BufferParams, BufferRef, Command, Dispatch, HostOp, QueueOp, RangeOp, Submission, WorkgroupCount,
};
use zerocopy::little_endian::{U16, U32, U64};

use crate::ids::Ids;

/// What a record says of the call, besides the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub operation: Code,
    /// The object that it is called on, or zero.
    pub object: u64,
    /// A second object, or zero.
    pub related: u64,
    /// Whether captures can hold no more than that the call was made.
    pub unsupported: bool,
}

/// What takes the record: the call, the payload's type and its bytes, piece by piece.
pub(crate) type Put<'p> = dyn FnMut(Call, PayloadType, &[&[u8]]) + 'p;

impl Call {
    pub(crate) fn new(operation: Code, object: u64, related: u64) -> Self {
        Self { operation, object, related, unsupported: false }
    }

    /// Puts the call with `view`.
    pub(crate) fn with<V: View>(self, put: &mut Put<'_>, view: &V) {
        view.with_parts(|parts| put(self, V::TYPE, parts));
    }

    /// Puts the call without a payload.
    pub(crate) fn bare(self, put: &mut Put<'_>) {
        put(self, PayloadType::NONE, &[]);
    }
}

/// A command that is recorded into command buffer `into`.
pub(crate) fn command(into: u64, command: &Command<Ids<'_>>, put: &mut Put<'_>) {
    let call = |code| Call::new(code, into, 0);
    match command {
        Command::ExecutionBarrier { .. } | Command::WaitEvents { .. } => barrier(into, command, put),
        Command::SignalEvent { event, source_stages } | Command::ResetEvent { event, source_stages } => {
            let header = layout::CommandEvent {
                event_id: U64::new(*event),
                source_stage_mask: U64::new(source_stages.bits()),
            };
            let code = match command {
                Command::SignalEvent { .. } => Code::COMMAND_BUFFER_SIGNAL_EVENT,
                _ => Code::COMMAND_BUFFER_RESET_EVENT,
            };
            call(code).with(put, &payload::CommandEvent { header: &header });
        }
        Command::Advise { .. } => call(Code::COMMAND_BUFFER_ADVISE_BUFFER).bare(put),
        Command::Fill { target, pattern, flags } => {
            let header = layout::CommandFill {
                target_ref: buffer_ref(target),
                flags: U32::new(*flags as u32),
                pattern_length: U64::new(pattern.len() as u64),
                ..Default::default()
            };
            let view = payload::CommandFill { header: &header, pattern };
            call(Code::COMMAND_BUFFER_FILL_BUFFER).with(put, &view);
        }
        Command::Update { source, target, flags } => {
            let header = layout::CommandUpdate {
                target_ref: buffer_ref(target),
                flags: U32::new(*flags as u32),
                data_length: U64::new(source.len() as u64),
                ..Default::default()
            };
            let view = payload::CommandUpdate { header: &header, data: source };
            call(Code::COMMAND_BUFFER_UPDATE_BUFFER).with(put, &view);
        }
        Command::Copy { source, target, flags } => {
            let header = layout::CommandCopy {
                source_ref: buffer_ref(source),
                target_ref: buffer_ref(target),
                flags: U32::new(*flags as u32),
                ..Default::default()
            };
            call(Code::COMMAND_BUFFER_COPY_BUFFER).with(put, &payload::CommandCopy { header: &header });
        }
        Command::Collective { .. } => {
            Call { unsupported: true, ..call(Code::COMMAND_BUFFER_COLLECTIVE) }.bare(put);
        }
        Command::Dispatch(it) => {
            let header = dispatch(it, 0, 0, 0);
            let (constants, bindings) = (it.constants, it.bindings);
            let view = payload::Dispatch { header: &header, waits: &[], signals: &[], constants, bindings };
            call(Code::COMMAND_BUFFER_DISPATCH).with(put, &view);
        }
        Command::BeginDebugGroup { .. } => call(Code::COMMAND_BUFFER_BEGIN_DEBUG_GROUP).bare(put),
        Command::EndDebugGroup => call(Code::COMMAND_BUFFER_END_DEBUG_GROUP).bare(put),
    }
}

fn barrier(into: u64, command: &Command<Ids<'_>>, put: &mut Put<'_>) {
    match *command {
        Command::ExecutionBarrier {
            source_stages,
            target_stages,
            flags,
            memory_barriers,
            buffer_barriers,
        } => {
            let header = layout::CommandBarrier {
                source_stage_mask: U64::new(source_stages.bits()),
                target_stage_mask: U64::new(target_stages.bits()),
                flags: U64::new(flags),
                memory_barrier_count: U64::new(memory_barriers.len() as u64),
                buffer_barrier_count: U64::new(buffer_barriers.len() as u64),
            };
            let view = payload::CommandBarrier { header: &header, memory_barriers, buffer_barriers };
            Call::new(Code::COMMAND_BUFFER_EXECUTION_BARRIER, into, 0).with(put, &view);
        }
        Command::WaitEvents { events, source_stages, target_stages, memory_barriers, buffer_barriers } => {
            let header = layout::CommandWaitEvents {
                source_stage_mask: U64::new(source_stages.bits()),
                target_stage_mask: U64::new(target_stages.bits()),
                event_count: U64::new(events.len() as u64),
                memory_barrier_count: U64::new(memory_barriers.len() as u64),
                buffer_barrier_count: U64::new(buffer_barriers.len() as u64),
                ..Default::default()
            };
            let view =
                payload::CommandWaitEvents { header: &header, events, memory_barriers, buffer_barriers };
            Call::new(Code::COMMAND_BUFFER_WAIT_EVENTS, into, 0).with(put, &view);
        }
        _ => {}
    }
}

/// What records of submissions say that their operations do not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rest<'a> {
    /// What a read gave, where the capture is to hold it.
    pub captured_data: &'a [u8],
    /// Size of the buffer that is deallocated, in bytes.
    pub deallocated_bytes: u64,
}

/// Work for a queue.
pub(crate) fn submission(it: &Submission<Ids<'_>>, rest: &Rest<'_>, put: &mut Put<'_>) {
    match &it.op {
        QueueOp::Alloca { .. } | QueueOp::Dealloca { .. } => allocation(it, rest, put),
        QueueOp::Fill { .. } | QueueOp::Update { .. } | QueueOp::Copy { .. } => transfer(it, put),
        QueueOp::Read { .. } => read(it, rest.captured_data, put),
        QueueOp::Write { source, file, file_offset, flags } => {
            let header = layout::QueueWrite {
                source_ref: buffer_ref(source),
                target_file_id: U64::new(*file),
                target_offset: U64::new(*file_offset),
                queue_affinity: U64::new(it.affinity),
                flags: U64::new(*flags),
                wait_semaphore_count: count(it.waits),
                signal_semaphore_count: count(it.signals),
            };
            let view = payload::QueueWrite { header: &header, waits: it.waits, signals: it.signals };
            Call::new(Code::DEVICE_QUEUE_WRITE, it.device, id_of(source)).with(put, &view);
        }
        QueueOp::Dispatch(op) => {
            let header = dispatch(op, it.affinity, it.waits.len(), it.signals.len());
            let view = payload::Dispatch {
                header: &header,
                waits: it.waits,
                signals: it.signals,
                constants: op.constants,
                bindings: op.bindings,
            };
            Call::new(Code::DEVICE_QUEUE_DISPATCH, it.device, op.executable).with(put, &view);
        }
        QueueOp::Execute { command_buffer, bindings, flags } => {
            execute(it, *command_buffer, bindings, *flags, put);
        }
        QueueOp::Barrier { flags } => execute(it, 0, &[], *flags, put),
        QueueOp::HostCall { .. } => {
            let call = Call::new(Code::DEVICE_QUEUE_HOST_CALL, it.device, 0);
            Call { unsupported: true, ..call }.bare(put);
        }
    }
}

fn read(it: &Submission<Ids<'_>>, captured_data: &[u8], put: &mut Put<'_>) {
    let QueueOp::Read { file, file_offset, target, flags } = &it.op else { return };
    let header = layout::QueueRead {
        source_file_id: U64::new(*file),
        source_offset: U64::new(*file_offset),
        target_ref: buffer_ref(target),
        queue_affinity: U64::new(it.affinity),
        flags: U64::new(*flags),
        captured_data_length: U64::new(captured_data.len() as u64),
        wait_semaphore_count: count(it.waits),
        signal_semaphore_count: count(it.signals),
    };
    let view = payload::QueueRead { header: &header, waits: it.waits, signals: it.signals, captured_data };
    Call::new(Code::DEVICE_QUEUE_READ, it.device, id_of(target)).with(put, &view);
}

fn allocation(it: &Submission<Ids<'_>>, rest: &Rest<'_>, put: &mut Put<'_>) {
    let (waits, signals) = (it.waits, it.signals);
    match &it.op {
        QueueOp::Alloca { params, size, flags, created } => {
            let header = layout::QueueAlloca {
                allocation: allocate_buffer(params, *size),
                queue_affinity: U64::new(it.affinity),
                flags: U64::new(*flags),
                wait_semaphore_count: count(waits),
                signal_semaphore_count: count(signals),
            };
            let view = payload::QueueAlloca { header: &header, waits, signals };
            Call::new(Code::DEVICE_QUEUE_ALLOCA, it.device, *created).with(put, &view);
        }
        QueueOp::Dealloca { buffer, flags } => {
            let header = layout::QueueDealloca {
                buffer_ref: layout::BufferRef {
                    buffer_id: U64::new(*buffer),
                    length: U64::new(rest.deallocated_bytes),
                    ..Default::default()
                },
                queue_affinity: U64::new(it.affinity),
                flags: U64::new(*flags),
                wait_semaphore_count: count(waits),
                signal_semaphore_count: count(signals),
            };
            let view = payload::QueueDealloca { header: &header, waits, signals };
            Call::new(Code::DEVICE_QUEUE_DEALLOCA, it.device, *buffer).with(put, &view);
        }
        _ => {}
    }
}

fn transfer(it: &Submission<Ids<'_>>, put: &mut Put<'_>) {
    let (waits, signals, queue_affinity) = (it.waits, it.signals, U64::new(it.affinity));
    let (wait_semaphore_count, signal_semaphore_count) = (count(waits), count(signals));
    match &it.op {
        QueueOp::Fill { target, pattern, flags } => {
            let header = layout::QueueFill {
                target_ref: buffer_ref(target),
                queue_affinity,
                flags: U64::new(*flags),
                wait_semaphore_count,
                signal_semaphore_count,
                pattern_length: U64::new(pattern.len() as u64),
            };
            let view = payload::QueueFill { header: &header, waits, signals, pattern };
            Call::new(Code::DEVICE_QUEUE_FILL, it.device, id_of(target)).with(put, &view);
        }
        QueueOp::Update { source, target, flags } => {
            let header = layout::QueueUpdate {
                target_ref: buffer_ref(target),
                queue_affinity,
                flags: U64::new(*flags),
                source_offset: U64::ZERO,
                data_length: U64::new(source.len() as u64),
                wait_semaphore_count,
                signal_semaphore_count,
            };
            let view = payload::QueueUpdate { header: &header, waits, signals, data: source };
            Call::new(Code::DEVICE_QUEUE_UPDATE, it.device, id_of(target)).with(put, &view);
        }
        QueueOp::Copy { source, target, flags } => {
            let header = layout::QueueCopy {
                source_ref: buffer_ref(source),
                target_ref: buffer_ref(target),
                queue_affinity,
                flags: U64::new(*flags),
                wait_semaphore_count,
                signal_semaphore_count,
            };
            let view = payload::QueueCopy { header: &header, waits, signals };
            Call::new(Code::DEVICE_QUEUE_COPY, it.device, id_of(target)).with(put, &view);
        }
        _ => {}
    }
}

fn execute(
    it: &Submission<Ids<'_>>,
    command_buffer: u64,
    bindings: &[layout::BufferRef],
    flags: u64,
    put: &mut Put<'_>,
) {
    let header = layout::QueueExecute {
        command_buffer_id: U64::new(command_buffer),
        queue_affinity: U64::new(it.affinity),
        flags: U64::new(flags),
        wait_semaphore_count: count(it.waits),
        signal_semaphore_count: count(it.signals),
        binding_count: U64::new(bindings.len() as u64),
    };
    let view = payload::QueueExecute { header: &header, waits: it.waits, signals: it.signals, bindings };
    Call::new(Code::DEVICE_QUEUE_EXECUTE, it.device, command_buffer).with(put, &view);
}

/// What the host does. Executables and files say more in a capture than their operations do: see
/// [`executable`] and [`file`], which take the rest.
pub(crate) fn host_op(op: &HostOp<Ids<'_>>, put: &mut Put<'_>) {
    match *op {
        HostOp::CreateSemaphore { .. }
        | HostOp::CreateCommandBuffer { .. }
        | HostOp::CreateEvent { .. }
        | HostOp::AllocateBuffer { .. }
        | HostOp::ImportBuffer { .. } => create(op, put),
        HostOp::PrepareExecutable { .. } => executable(op, &[], put),
        HostOp::ImportFile { .. } => file(op, &layout::FileObject::default(), &[], put),
        HostOp::BeginCommandBuffer { command_buffer } => {
            Call::new(Code::COMMAND_BUFFER_BEGIN, command_buffer, 0).bare(put);
        }
        HostOp::EndCommandBuffer { command_buffer } => {
            Call::new(Code::COMMAND_BUFFER_END, command_buffer, 0).bare(put);
        }
        HostOp::Map(it) => range(Code::BUFFER_MAP_RANGE, &it, None, put),
        HostOp::Unmap(it, data) => range(Code::BUFFER_UNMAP_RANGE, &it, data, put),
        HostOp::Invalidate(it) => range(Code::BUFFER_INVALIDATE_RANGE, &it, None, put),
        HostOp::Flush(it, data) => range(Code::BUFFER_FLUSH_RANGE, &it, data, put),
        HostOp::FlushQueue { device } => Call::new(Code::DEVICE_QUEUE_FLUSH, device, 0).bare(put),
        HostOp::Trim { device } => Call::new(Code::DEVICE_TRIM, device, 0).bare(put),
        HostOp::TrimAllocator { device } => Call::new(Code::ALLOCATOR_TRIM, device, 0).bare(put),
        HostOp::ScopeBegin { name } => scope(Code::REPLAY_SCOPE_BEGIN, name, put),
        HostOp::ScopeEnd { name } => scope(Code::REPLAY_SCOPE_END, name, put),
        // Captures say of a query on which object it was; its operation does not.
        HostOp::Query(_) => {}
    }
}

fn create(op: &HostOp<Ids<'_>>, put: &mut Put<'_>) {
    match op {
        HostOp::CreateSemaphore { device, affinity, initial_value, flags, created } => {
            let header = layout::SemaphoreObject {
                queue_affinity: U64::new(*affinity),
                initial_value: U64::new(*initial_value),
                flags: U64::new(flags.bits()),
                ..Default::default()
            };
            let view = payload::SemaphoreObject { header: &header };
            Call::new(Code::DEVICE_CREATE_SEMAPHORE, *device, *created).with(put, &view);
        }
        HostOp::CreateCommandBuffer { device, params, created } => {
            let header = layout::CommandBufferObject {
                mode: U32::new(params.mode.bits()),
                command_categories: U32::new(params.categories.bits()),
                queue_affinity: U64::new(params.affinity),
                binding_capacity: U64::new(params.binding_capacity),
            };
            let view = payload::CommandBufferObject { header: &header };
            Call::new(Code::DEVICE_CREATE_COMMAND_BUFFER, *device, *created).with(put, &view);
        }
        HostOp::CreateEvent { device, affinity, flags, created } => {
            let header = layout::EventObject {
                queue_affinity: U64::new(*affinity),
                flags: U32::new(*flags),
                ..Default::default()
            };
            let view = payload::EventObject { header: &header };
            Call::new(Code::DEVICE_CREATE_EVENT, *device, *created).with(put, &view);
        }
        HostOp::AllocateBuffer { device, params, size, created } => {
            let view = payload::AllocateBuffer { header: &allocate_buffer(params, *size) };
            Call::new(Code::ALLOCATOR_ALLOCATE_BUFFER, *device, *created).with(put, &view);
        }
        HostOp::ImportBuffer { device, params, size, data, created } => {
            /// `IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION`.
            const HOST_ALLOCATION: u32 = 1;
            let header = layout::ImportBuffer {
                allocation: allocate_buffer(params, *size),
                external_type: U32::new(HOST_ALLOCATION),
                external_flags: U32::ZERO,
                data_length: U64::new(data.len() as u64),
            };
            let view = payload::ImportBuffer { header: &header, data };
            Call::new(Code::ALLOCATOR_IMPORT_BUFFER, *device, *created).with(put, &view);
        }
        _ => {}
    }
}

/// An executable, with what its device says of its functions.
pub(crate) fn executable(op: &HostOp<Ids<'_>>, metadata_bytes: &[u8], put: &mut Put<'_>) {
    let HostOp::PrepareExecutable { device, affinity, caching_mode, format, data, constants, created } = *op
    else {
        return;
    };
    // Constants are words; bytes that are left over are none.
    let constants =
        <[U32] as zerocopy::FromBytes>::ref_from_prefix_with_elems(constants, constants.len() / 4);
    let constants = constants.map_or(&[][..], |(words, _)| words);
    let header = layout::ExecutablePrepare {
        queue_affinity: U64::new(affinity),
        executable_data_length: U64::new(data.len() as u64),
        constant_count: U64::new(constants.len() as u64),
        caching_mode: U32::new(caching_mode.bits()),
        executable_format_length: U32::new(format.len() as u32),
        executable_metadata_length: U32::new(metadata_bytes.len() as u32),
        ..Default::default()
    };
    let view = payload::ExecutablePrepare { header: &header, format, data, constants, metadata_bytes };
    Call::new(Code::EXECUTABLE_CACHE_PREPARE_EXECUTABLE, device, created).with(put, &view);
}

/// A file, with where its bytes are: `rest` says all that its operation does not.
pub(crate) fn file(op: &HostOp<Ids<'_>>, rest: &layout::FileObject, reference: &[u8], put: &mut Put<'_>) {
    let HostOp::ImportFile { device, affinity, access, length, created } = *op else { return };
    let header = layout::FileObject {
        queue_affinity: U64::new(affinity),
        file_length: U64::new(length),
        access: U32::new(u32::from(access.bits())),
        reference_length: U64::new(reference.len() as u64),
        ..*rest
    };
    let view = payload::FileObject { header: &header, reference };
    Call::new(Code::DEVICE_IMPORT_FILE, device, created).with(put, &view);
}

fn range(code: Code, it: &RangeOp<Ids<'_>>, data: Option<&[u8]>, put: &mut Put<'_>) {
    let call = Call::new(code, it.buffer, 0);
    let Some(data) = data else {
        let header = layout::BufferRange {
            byte_offset: U64::new(it.offset),
            byte_length: U64::new(it.length),
            mapping_mode: U32::new(it.mode.bits()),
            memory_access: U16::new(it.access.bits()),
            ..Default::default()
        };
        return call.with(put, &payload::BufferRange { header: &header });
    };
    let header = layout::BufferRangeData {
        byte_offset: U64::new(it.offset),
        byte_length: U64::new(it.length),
        data_length: U64::new(data.len() as u64),
        mapping_mode: U32::new(it.mode.bits()),
        memory_access: U16::new(it.access.bits()),
        ..Default::default()
    };
    call.with(put, &payload::BufferRangeData { header: &header, data });
}

fn scope(code: Code, name: &[u8], put: &mut Put<'_>) {
    let header = layout::Scope { name_length: U64::new(name.len() as u64), ..Default::default() };
    Call::new(code, 0, 0).with(put, &payload::Scope { header: &header, name });
}

fn dispatch(it: &Dispatch<Ids<'_>>, affinity: u64, waits: usize, signals: usize) -> layout::Dispatch {
    let (workgroup_count, workgroup_count_ref) = match &it.workgroup_count {
        WorkgroupCount::Static(count) => (*count, layout::BufferRef::default()),
        WorkgroupCount::Indirect(reference) => ([0; 3], buffer_ref(reference)),
    };
    layout::Dispatch {
        executable_id: U64::new(it.executable),
        queue_affinity: U64::new(affinity),
        function_ordinal: U32::new(it.function),
        flags: U32::new(it.flags.bits() as u32),
        workgroup_size: it.workgroup_size.map(U32::new),
        workgroup_count: workgroup_count.map(U32::new),
        workgroup_count_ref,
        dynamic_workgroup_local_memory: U32::new(it.dynamic_local_memory),
        wait_semaphore_count: U64::new(waits as u64),
        signal_semaphore_count: U64::new(signals as u64),
        constants_length: U64::new(it.constants.len() as u64),
        binding_count: U64::new(it.bindings.len() as u64),
        ..Default::default()
    }
}

/// What is asked of a buffer, as captures store it.
pub(crate) fn allocate_buffer(params: &BufferParams, size: u64) -> layout::AllocateBuffer {
    layout::AllocateBuffer {
        allocation_size: U64::new(size),
        queue_affinity: U64::new(params.affinity),
        min_alignment: U64::new(params.min_alignment),
        usage: U32::new(params.usage.bits()),
        memory_type: U32::new(params.memory_type.bits()),
        access: U16::new(params.access.bits()),
        ..Default::default()
    }
}

/// An operation's reference as captures store it.
pub(crate) fn buffer_ref(it: &BufferRef<Ids<'_>>) -> layout::BufferRef {
    let (buffer_id, buffer_slot) = match it.binding {
        Binding::Direct(id) => (id, 0),
        Binding::Slot(slot) => (0, slot),
    };
    layout::BufferRef {
        buffer_id: U64::new(buffer_id),
        offset: U64::new(it.offset),
        length: U64::new(it.length),
        buffer_slot: U32::new(buffer_slot),
        ..Default::default()
    }
}

fn id_of(it: &BufferRef<Ids<'_>>) -> u64 {
    match it.binding {
        Binding::Direct(id) => id,
        Binding::Slot(_) => 0,
    }
}

fn count(list: &[layout::SemaphoreTimepoint]) -> U64 {
    U64::new(list.len() as u64)
}

#[cfg(test)]
mod tests;
