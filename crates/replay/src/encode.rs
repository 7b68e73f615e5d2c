//! Encodes operations as records: the inverse of `decode.rs`, and the only place that maps operation fields
//! to payload fields.
//!
//! A host call, which captures cannot represent, becomes a record that marks it and that `decode.rs`
//! rejects. Of hints and debug groups, only the occurrence is recorded.

use rehal_capture::payload::View;
use rehal_capture::{
    DigestType, FileReferenceType, FileValidationType, ObjectType, OperationCode as Code, PayloadType,
    RecordType, layout, payload,
};
use rehal_hal::{
    Binding, BufferBarrier, BufferParams, BufferRef, Command, CreateOp, DeviceQuery, Dispatch,
    ExecutableQuery, FileContents, FileSource, HostOp, ImportFile, InfoOp, MemoryBarrier, Op,
    PrepareExecutable, QueueOp, RangeOp, Submission, Timepoint, Validation, WorkgroupCount,
};
use zerocopy::little_endian::{U16, U32, U64};

use crate::ids::Ids;

/// Calls `put` with the payload of an operation, in pieces. The header of its record names the same objects:
/// that of the record from which the operation was decoded, if its objects are the same.
pub fn encode_payload(op: &Op<Ids<'_>>, put: &mut dyn FnMut(PayloadType, &[&[u8]])) {
    operation(op, &mut |_, payload_type, parts| put(payload_type, parts));
}

/// Encodes any operation.
pub(crate) fn operation(op: &Op<Ids<'_>>, put: &mut Put<'_>) {
    match op {
        Op::Host(op) => host_op(op, put),
        Op::Info(op) => info_op(op, put),
        Op::Command { into, command: it } => command(*into, it, put),
        Op::Queue(it) => submission(it, put),
    }
}

/// The fields of a record besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// An operation, an unsupported one without its arguments, or an object that already existed.
    pub record_type: RecordType,
    /// The operation code.
    pub operation: Code,
    /// The type of the object it is called on, or of the existing object.
    pub object_type: ObjectType,
    /// The device of the object, if the operation names it.
    pub device: Option<u64>,
    /// The object, or zero.
    pub object: u64,
    /// A second object, or zero.
    pub related: u64,
}

/// Receives the record: the call, the payload type, and the payload in pieces.
pub(crate) type Put<'p> = dyn FnMut(Call, PayloadType, &[&[u8]]) + 'p;

impl Call {
    fn new(operation: Code, object: u64, related: u64) -> Self {
        let object_type = operation.object_type().unwrap_or_default();
        Self { record_type: RecordType::OPERATION, operation, object_type, device: None, object, related }
    }

    fn unsupported(operation: Code, object: u64) -> Self {
        Self { record_type: RecordType::UNSUPPORTED, ..Self::new(operation, object, 0) }
    }

    fn object(object_type: ObjectType, device: u64, id: u64) -> Self {
        let record_type = RecordType::OBJECT;
        Self { record_type, operation: Code::NONE, object_type, device: Some(device), object: id, related: 0 }
    }

    /// Emits the call with `view` as its payload.
    fn with<V: View>(self, put: &mut Put<'_>, view: &V) {
        view.with_parts(|parts| put(self, V::TYPE, parts));
    }

    /// Emits the call without a payload.
    fn bare(self, put: &mut Put<'_>) {
        put(self, PayloadType::NONE, &[]);
    }
}

/// A command recorded into command buffer `into`.
pub(crate) fn command(into: u64, command: &Command<Ids<'_>>, put: &mut Put<'_>) {
    let call = |code| Call::new(code, into, 0);
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
                memory_barrier_count: count(memory_barriers),
                buffer_barrier_count: count(buffer_barriers),
            };
            let view = payload::CommandBarrier { header: &header, memory_barriers, buffer_barriers };
            call(Code::COMMAND_BUFFER_EXECUTION_BARRIER).with(put, &view);
        }
        Command::WaitEvents { events, source_stages, target_stages, memory_barriers, buffer_barriers } => {
            let header = layout::CommandWaitEvents {
                source_stage_mask: U64::new(source_stages.bits()),
                target_stage_mask: U64::new(target_stages.bits()),
                event_count: count(events),
                memory_barrier_count: count(memory_barriers),
                buffer_barrier_count: count(buffer_barriers),
                ..Default::default()
            };
            let view =
                payload::CommandWaitEvents { header: &header, events, memory_barriers, buffer_barriers };
            call(Code::COMMAND_BUFFER_WAIT_EVENTS).with(put, &view);
        }
        Command::SignalEvent { event, source_stages } => {
            command_event(call(Code::COMMAND_BUFFER_SIGNAL_EVENT), event, source_stages.bits(), put);
        }
        Command::ResetEvent { event, source_stages } => {
            command_event(call(Code::COMMAND_BUFFER_RESET_EVENT), event, source_stages.bits(), put);
        }
        Command::Advise { .. } => call(Code::COMMAND_BUFFER_ADVISE_BUFFER).bare(put),
        Command::Fill { target, pattern, flags } => {
            let header = layout::CommandFill {
                target_ref: buffer_ref(&target),
                flags: U32::new(flags as u32),
                pattern_length: count(pattern),
                ..Default::default()
            };
            call(Code::COMMAND_BUFFER_FILL_BUFFER)
                .with(put, &payload::CommandFill { header: &header, pattern });
        }
        Command::Update { source: data, target, flags } => {
            let header = layout::CommandUpdate {
                target_ref: buffer_ref(&target),
                flags: U32::new(flags as u32),
                data_length: count(data),
                ..Default::default()
            };
            call(Code::COMMAND_BUFFER_UPDATE_BUFFER)
                .with(put, &payload::CommandUpdate { header: &header, data });
        }
        Command::Copy { source, target, flags } => {
            let header = layout::CommandCopy {
                source_ref: buffer_ref(&source),
                target_ref: buffer_ref(&target),
                flags: U32::new(flags as u32),
                ..Default::default()
            };
            call(Code::COMMAND_BUFFER_COPY_BUFFER).with(put, &payload::CommandCopy { header: &header });
        }
        Command::Dispatch(it) => {
            let header = dispatch(&it, 0, 0, 0);
            let (constants, bindings) = (it.constants, it.bindings);
            let view = payload::Dispatch { header: &header, waits: &[], signals: &[], constants, bindings };
            call(Code::COMMAND_BUFFER_DISPATCH).with(put, &view);
        }
        Command::BeginDebugGroup { .. } => call(Code::COMMAND_BUFFER_BEGIN_DEBUG_GROUP).bare(put),
        Command::EndDebugGroup => call(Code::COMMAND_BUFFER_END_DEBUG_GROUP).bare(put),
    }
}

fn command_event(call: Call, event: u64, source_stages: u64, put: &mut Put<'_>) {
    let header =
        layout::CommandEvent { event_id: U64::new(event), source_stage_mask: U64::new(source_stages) };
    call.with(put, &payload::CommandEvent { header: &header });
}

/// Emits a queue operation with an object: the fields of its payload's header besides those that all have,
/// and the lists besides the timepoints.
macro_rules! queued {
    (
        $it:ident, $put:ident, $flags:expr,
        $view:ident { $($field:ident: $value:expr),* } $([$($list:ident: $items:expr),*])?,
        $code:ident($object:expr)
    ) => {{
        let header = layout::$view {
            queue_affinity: U64::new($it.affinity),
            flags: U64::new($flags),
            wait_semaphore_count: count($it.waits),
            signal_semaphore_count: count($it.signals),
            $($field: $value,)*
        };
        let (waits, signals) = ($it.waits, $it.signals);
        let view = payload::$view { header: &header, waits, signals, $($($list: $items,)*)? };
        Call::new(Code::$code, $it.device, $object).with($put, &view);
    }};
}

/// A queue operation.
pub(crate) fn submission(it: &Submission<Ids<'_>>, put: &mut Put<'_>) {
    match it.op {
        QueueOp::Alloca { params, size, flags, created } => {
            queued!(
                it,
                put,
                flags,
                QueueAlloca { allocation: allocate_buffer(&params, size) },
                DEVICE_QUEUE_ALLOCA(created)
            );
        }
        QueueOp::Dealloca { buffer, size, flags } => {
            queued!(
                it,
                put,
                flags,
                QueueDealloca { buffer_ref: buffer_ref(&BufferRef::range(buffer, 0, size)) },
                DEVICE_QUEUE_DEALLOCA(buffer)
            );
        }
        QueueOp::Fill { target, pattern, flags } => queued!(
            it, put, flags,
            QueueFill { target_ref: buffer_ref(&target), pattern_length: count(pattern) } [pattern: pattern],
            DEVICE_QUEUE_FILL(id_of(&target))
        ),
        QueueOp::Update { source, target, flags } => queued!(
            it, put, flags,
            QueueUpdate {
                target_ref: buffer_ref(&target),
                source_offset: U64::ZERO,
                data_length: count(source)
            } [data: source],
            DEVICE_QUEUE_UPDATE(id_of(&target))
        ),
        QueueOp::Copy { source, target, flags } => queued!(
            it,
            put,
            flags,
            QueueCopy { source_ref: buffer_ref(&source), target_ref: buffer_ref(&target) },
            DEVICE_QUEUE_COPY(id_of(&target))
        ),
        QueueOp::Read { file, file_offset, target, captured, flags } => queued!(
            it, put, flags,
            QueueRead {
                source_file_id: U64::new(file),
                source_offset: U64::new(file_offset),
                target_ref: buffer_ref(&target),
                captured_data_length: count(captured)
            } [captured_data: captured],
            DEVICE_QUEUE_READ(id_of(&target))
        ),
        QueueOp::Write { source, file, file_offset, flags } => queued!(
            it,
            put,
            flags,
            QueueWrite {
                source_ref: buffer_ref(&source),
                target_file_id: U64::new(file),
                target_offset: U64::new(file_offset)
            },
            DEVICE_QUEUE_WRITE(id_of(&source))
        ),
        QueueOp::Dispatch(op) => {
            let header = dispatch(&op, it.affinity, it.waits.len(), it.signals.len());
            let (constants, bindings) = (op.constants, op.bindings);
            let (waits, signals) = (it.waits, it.signals);
            let view = payload::Dispatch { header: &header, waits, signals, constants, bindings };
            Call::new(Code::DEVICE_QUEUE_DISPATCH, it.device, op.executable).with(put, &view);
        }
        QueueOp::Execute { command_buffer, bindings, flags } => {
            execute(it, command_buffer, bindings, flags, put);
        }
        QueueOp::Barrier { flags } => execute(it, 0, &[], flags, put),
        QueueOp::HostCall { .. } => Call::unsupported(Code::DEVICE_QUEUE_HOST_CALL, it.device).bare(put),
    }
}

fn execute(
    it: &Submission<Ids<'_>>,
    command_buffer: u64,
    bindings: &[layout::BufferRef],
    flags: u64,
    put: &mut Put<'_>,
) {
    queued!(
        it, put, flags,
        QueueExecute { command_buffer_id: U64::new(command_buffer), binding_count: count(bindings) }
        [bindings: bindings],
        DEVICE_QUEUE_EXECUTE(command_buffer)
    );
}

/// A host operation.
pub(crate) fn host_op(op: &HostOp<Ids<'_>>, put: &mut Put<'_>) {
    let mut bare = |code, object| Call::new(code, object, 0).bare(put);
    match *op {
        HostOp::BeginCommandBuffer { command_buffer } => bare(Code::COMMAND_BUFFER_BEGIN, command_buffer),
        HostOp::EndCommandBuffer { command_buffer } => bare(Code::COMMAND_BUFFER_END, command_buffer),
        HostOp::FlushQueue { device } => bare(Code::DEVICE_QUEUE_FLUSH, device),
        HostOp::Trim { device } => bare(Code::DEVICE_TRIM, device),
        HostOp::TrimAllocator { allocator } => bare(Code::ALLOCATOR_TRIM, allocator),
        HostOp::Create(op) => create(&op, put),
        HostOp::Map(it) => range(Code::BUFFER_MAP_RANGE, &it, None, put),
        HostOp::Unmap(it, data) => range(Code::BUFFER_UNMAP_RANGE, &it, data, put),
        HostOp::Invalidate(it) => range(Code::BUFFER_INVALIDATE_RANGE, &it, None, put),
        HostOp::Flush(it, data) => range(Code::BUFFER_FLUSH_RANGE, &it, data, put),
        HostOp::ScopeBegin { name } => scope(Code::REPLAY_SCOPE_BEGIN, name, put),
        HostOp::ScopeEnd { name } => scope(Code::REPLAY_SCOPE_END, name, put),
    }
}

/// A call without effect on results.
pub(crate) fn info_op(op: &InfoOp<Ids<'_>>, put: &mut Put<'_>) {
    let mut bare = |code, object| Call::new(code, object, 0).bare(put);
    match *op {
        InfoOp::AssignTopology { device } => bare(Code::DEVICE_ASSIGN_TOPOLOGY_INFO, device),
        InfoOp::BeginProfiling { device } => bare(Code::DEVICE_PROFILING_BEGIN, device),
        InfoOp::FlushProfiling { device } => bare(Code::DEVICE_PROFILING_FLUSH, device),
        InfoOp::EndProfiling { device } => bare(Code::DEVICE_PROFILING_END, device),
        InfoOp::BeginExternalCapture { device } => bare(Code::DEVICE_EXTERNAL_CAPTURE_BEGIN, device),
        InfoOp::EndExternalCapture { device } => bare(Code::DEVICE_EXTERNAL_CAPTURE_END, device),
        InfoOp::QueryDevice { device, query } => match query {
            DeviceQuery::I64 => bare(Code::DEVICE_QUERY_I64, device),
            DeviceQuery::Capabilities => bare(Code::DEVICE_QUERY_CAPABILITIES, device),
            DeviceQuery::QueuePool => bare(Code::DEVICE_QUERY_QUEUE_POOL_BACKEND, device),
        },
        InfoOp::QueryMemoryHeaps { allocator } => bare(Code::ALLOCATOR_QUERY_MEMORY_HEAPS, allocator),
        InfoOp::QueryExecutable { executable, query } => match query {
            ExecutableQuery::FunctionCount => bare(Code::EXECUTABLE_FUNCTION_COUNT, executable),
            ExecutableQuery::FunctionInfo => bare(Code::EXECUTABLE_FUNCTION_INFO, executable),
            ExecutableQuery::FunctionParameters => bare(Code::EXECUTABLE_FUNCTION_PARAMETERS, executable),
            ExecutableQuery::LookupFunction => bare(Code::EXECUTABLE_LOOKUP_FUNCTION_BY_NAME, executable),
        },
    }
}

/// The creation of an object.
pub(crate) fn create(op: &CreateOp<Ids<'_>>, put: &mut Put<'_>) {
    match *op {
        CreateOp::Device { created } => Call::object(ObjectType::DEVICE, 0, created).bare(put),
        CreateOp::Allocator { device, created } => {
            Call::object(ObjectType::ALLOCATOR, device, created).bare(put);
        }
        CreateOp::Semaphore { device, affinity, initial_value, flags, created } => {
            let header = layout::SemaphoreObject {
                queue_affinity: U64::new(affinity),
                initial_value: U64::new(initial_value),
                flags: U64::new(flags.bits()),
                ..Default::default()
            };
            let view = payload::SemaphoreObject { header: &header };
            Call::new(Code::DEVICE_CREATE_SEMAPHORE, device, created).with(put, &view);
        }
        CreateOp::CommandBuffer { device, params, created } => {
            let header = layout::CommandBufferObject {
                mode: U32::new(params.mode.bits()),
                command_categories: U32::new(params.categories.bits()),
                queue_affinity: U64::new(params.affinity),
                binding_capacity: U64::new(params.binding_capacity),
            };
            let view = payload::CommandBufferObject { header: &header };
            Call::new(Code::DEVICE_CREATE_COMMAND_BUFFER, device, created).with(put, &view);
        }
        CreateOp::Event { device, affinity, flags, created } => {
            let header = layout::EventObject {
                queue_affinity: U64::new(affinity),
                flags: U32::new(flags),
                ..Default::default()
            };
            let view = payload::EventObject { header: &header };
            Call::new(Code::DEVICE_CREATE_EVENT, device, created).with(put, &view);
        }
        CreateOp::ExecutableCache { device, identifier, created } => {
            let header =
                layout::ExecutableCacheObject { identifier_length: count(identifier), ..Default::default() };
            let view = payload::ExecutableCacheObject { header: &header, identifier };
            Call::new(Code::DEVICE_CREATE_EXECUTABLE_CACHE, device, created).with(put, &view);
        }
        CreateOp::Executable(it) => executable(&it, put),
        CreateOp::File(it) => file(&it, put),
        CreateOp::Buffer { allocator, params, size, created } => {
            let view = payload::AllocateBuffer { header: &allocate_buffer(&params, size) };
            Call::new(Code::ALLOCATOR_ALLOCATE_BUFFER, allocator, created).with(put, &view);
        }
        CreateOp::ImportedBuffer { allocator, params, size, flags, data, created } => {
            /// `IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION`.
            const HOST_ALLOCATION: u32 = 1;
            let header = layout::ImportBuffer {
                allocation: allocate_buffer(&params, size),
                external_type: U32::new(HOST_ALLOCATION),
                external_flags: U32::new(flags),
                data_length: count(data),
            };
            let view = payload::ImportBuffer { header: &header, data };
            Call::new(Code::ALLOCATOR_IMPORT_BUFFER, allocator, created).with(put, &view);
        }
    }
}

fn executable(it: &PrepareExecutable<Ids<'_>>, put: &mut Put<'_>) {
    // Constants are words; trailing bytes are dropped.
    let words =
        <[U32] as zerocopy::FromBytes>::ref_from_prefix_with_elems(it.constants, it.constants.len() / 4);
    let constants = words.map_or(&[][..], |(words, _)| words);
    let header = layout::ExecutablePrepare {
        queue_affinity: U64::new(it.affinity),
        executable_data_length: count(it.data),
        constant_count: count(constants),
        caching_mode: U32::new(it.caching_mode.bits()),
        executable_format_length: U32::new(it.format.len() as u32),
        executable_metadata_length: U32::new(it.metadata.len() as u32),
        ..Default::default()
    };
    let (format, data, metadata_bytes) = (it.format, it.data, it.metadata);
    let view = payload::ExecutablePrepare { header: &header, format, data, constants, metadata_bytes };
    Call::new(Code::EXECUTABLE_CACHE_PREPARE_EXECUTABLE, it.cache, it.created).with(put, &view);
}

fn file(it: &ImportFile<Ids<'_>>, put: &mut Put<'_>) {
    let FileSource { handle_type, flags, identity, contents } = it.source;
    let (reference_type, reference) = match contents {
        FileContents::Nothing => (FileReferenceType::NONE, &[][..]),
        FileContents::External { path, .. } => (FileReferenceType::EXTERNAL_PATH, path),
        FileContents::Inline(bytes) => (FileReferenceType::INLINE_BYTES, bytes),
        FileContents::Ranges { path } => (FileReferenceType::CAPTURED_RANGES, path),
    };
    let mut header = layout::FileObject {
        queue_affinity: U64::new(it.affinity),
        file_length: U64::new(it.length),
        file_device: U64::new(identity.device),
        file_inode: U64::new(identity.inode),
        file_mtime_ns: U64::new(identity.mtime_ns),
        reference_length: count(reference),
        access: U32::new(u32::from(it.access.bits())),
        flags: U32::new(flags),
        handle_type: U32::new(handle_type),
        reference_type: U32::new(reference_type.0),
        ..Default::default()
    };
    if let FileContents::External { validation, .. } = contents {
        header.validation_type = U32::new(match validation {
            Validation::Length => FileValidationType::NONE.0,
            Validation::Identity => FileValidationType::IDENTITY.0,
            Validation::Digest(digest) => {
                header.digest_type = U16::new(DigestType::FNV1A_64.0);
                header.digest[..8].copy_from_slice(&digest.to_le_bytes());
                FileValidationType::CONTENT_DIGEST.0
            }
        });
    }
    let view = payload::FileObject { header: &header, reference };
    Call::new(Code::DEVICE_IMPORT_FILE, it.device, it.created).with(put, &view);
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
        data_length: count(data),
        mapping_mode: U32::new(it.mode.bits()),
        memory_access: U16::new(it.access.bits()),
        ..Default::default()
    };
    call.with(put, &payload::BufferRangeData { header: &header, data });
}

fn scope(code: Code, name: &[u8], put: &mut Put<'_>) {
    let header = layout::Scope { name_length: count(name), ..Default::default() };
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
        constants_length: count(it.constants),
        binding_count: count(it.bindings),
        ..Default::default()
    }
}

/// Requested buffer parameters, as stored.
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

/// A reference, as stored.
pub(crate) fn buffer_ref(it: &BufferRef<u64>) -> layout::BufferRef {
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

/// A timepoint, as stored.
pub(crate) fn timepoint(it: &Timepoint<u64>) -> layout::SemaphoreTimepoint {
    layout::SemaphoreTimepoint { semaphore_id: U64::new(it.semaphore), value: U64::new(it.value) }
}

/// An event, as stored.
pub(crate) fn event(id: &u64) -> U64 {
    U64::new(*id)
}

/// A barrier, as stored.
pub(crate) fn memory_barrier(it: &MemoryBarrier) -> layout::MemoryBarrier {
    layout::MemoryBarrier {
        source_scope: U32::new(it.source_scope.bits()),
        target_scope: U32::new(it.target_scope.bits()),
    }
}

/// A buffer barrier, as stored.
pub(crate) fn buffer_barrier(it: &BufferBarrier<u64>) -> layout::BufferBarrier {
    let layout::MemoryBarrier { source_scope, target_scope } = memory_barrier(&it.barrier);
    layout::BufferBarrier { source_scope, target_scope, buffer_ref: buffer_ref(&it.buffer) }
}

fn id_of(it: &BufferRef<u64>) -> u64 {
    match it.binding {
        Binding::Direct(id) => id,
        Binding::Slot(_) => 0,
    }
}

fn count<T>(list: &[T]) -> U64 {
    U64::new(list.len() as u64)
}

#[cfg(test)]
mod tests;
