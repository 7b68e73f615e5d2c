//! Decodes records into operations: the only place that maps payload fields to operation fields.

use rehal_base::{Error, Result};
use rehal_capture::{
    DigestType, FileReferenceType, FileValidationType, ObjectType, OperationCode as Code, Payload, Record,
    RecordType, layout, payload,
};
use rehal_hal::{
    AccessScope, Binding, BufferBarrier, BufferParams, BufferRef, BufferUsage, CachingMode, Command,
    CommandBufferMode, CommandBufferParams, CommandCategories, CreateOp, DeviceQuery, Dispatch,
    DispatchFlags, ExecutableQuery, ExecutionStage, FileContents, FileIdentity, FileSource, HostOp,
    ImportFile, InfoOp, MappingMode, MemoryAccess, MemoryBarrier, MemoryType, Op, PrepareExecutable, QueueOp,
    RangeOp, SemaphoreFlags, Submission, Timepoint, Validation, WorkgroupCount,
};

use zerocopy::little_endian::U64;

use crate::ids::{Ids, refuse};

/// Decodes the operation of `record`; `None` for informational records and for calls that failed at capture.
/// Fails if the payload is corrupt, or if the operation cannot be reproduced.
pub fn decode<'a>(record: &Record<'a>) -> Result<Option<Op<Ids<'a>>>> {
    match record.record_type() {
        RecordType::SESSION => Ok(None),
        RecordType::OBJECT => decode_object(record),
        // A call that failed created nothing; the program's fallback follows in the capture.
        RecordType::OPERATION | RecordType::UNSUPPORTED if record.header.status_code.get() != 0 => Ok(None),
        RecordType::OPERATION => decode_operation(record).map(Some),
        RecordType::UNSUPPORTED => Err(refuse(
            "the program made a call that captures cannot represent, so later records may depend on it",
        )),
        _ if record.is_skippable() => Ok(None),
        other => Err(refuse(format!("a record of type {other} cannot be replayed"))),
    }
}

/// Devices and allocators exist before any call; every other object follows the call that created it.
fn decode_object<'a>(record: &Record<'a>) -> Result<Option<Op<Ids<'a>>>> {
    // Validated even if unused: a capture with a corrupt record is corrupt.
    record.payload()?;
    let created = record.header.object_id.get();
    let op = match record.object_type() {
        ObjectType::DEVICE => CreateOp::Device { created },
        ObjectType::ALLOCATOR => CreateOp::Allocator { device: record.header.device_id.get(), created },
        _ => return Ok(None),
    };
    Ok(Some(Op::Host(HostOp::Create(op))))
}

fn decode_operation<'a>(record: &Record<'a>) -> Result<Op<Ids<'a>>> {
    let code = record.operation();
    let on = record.header.object_id.get();
    let created = record.header.related_object_id.get();
    let payload = record.payload()?;
    if let Some(op) = bare(code, on) {
        return Ok(Op::Host(op));
    }
    if let Some(op) = info(code, on) {
        return Ok(Op::Info(op));
    }
    if is_command(code) {
        return Ok(Op::Command { into: on, command: command(code, payload)? });
    }
    if let Some(op) = host_access(code, on, &payload) {
        return op.map(Op::Host);
    }
    match create(code, on, created, &payload) {
        Some(op) => Ok(Op::Host(HostOp::Create(op?))),
        None => Ok(Op::Queue(submission(code, on, created, payload)?)),
    }
}

fn is_command(code: Code) -> bool {
    code.object_type() == Some(ObjectType::COMMAND_BUFFER)
}

/// The host operation with `code`, for those that captures describe only by their object.
fn bare<'a>(code: Code, on: u64) -> Option<HostOp<Ids<'a>>> {
    Some(match code {
        Code::COMMAND_BUFFER_BEGIN => HostOp::BeginCommandBuffer { command_buffer: on },
        Code::COMMAND_BUFFER_END => HostOp::EndCommandBuffer { command_buffer: on },
        Code::DEVICE_QUEUE_FLUSH => HostOp::FlushQueue { device: on },
        Code::DEVICE_TRIM => HostOp::Trim { device: on },
        Code::ALLOCATOR_TRIM => HostOp::TrimAllocator { allocator: on },
        _ => return None,
    })
}

/// The query with `code`, or another call without effect on results.
fn info<'a>(code: Code, on: u64) -> Option<InfoOp<Ids<'a>>> {
    let device = |query| InfoOp::QueryDevice { device: on, query };
    let executable = |query| InfoOp::QueryExecutable { executable: on, query };
    Some(match code {
        Code::DEVICE_ASSIGN_TOPOLOGY_INFO => InfoOp::AssignTopology { device: on },
        Code::DEVICE_PROFILING_BEGIN => InfoOp::BeginProfiling { device: on },
        Code::DEVICE_PROFILING_FLUSH => InfoOp::FlushProfiling { device: on },
        Code::DEVICE_PROFILING_END => InfoOp::EndProfiling { device: on },
        Code::DEVICE_EXTERNAL_CAPTURE_BEGIN => InfoOp::BeginExternalCapture { device: on },
        Code::DEVICE_EXTERNAL_CAPTURE_END => InfoOp::EndExternalCapture { device: on },
        Code::DEVICE_QUERY_I64 => device(DeviceQuery::I64),
        Code::DEVICE_QUERY_CAPABILITIES => device(DeviceQuery::Capabilities),
        Code::DEVICE_QUERY_QUEUE_POOL_BACKEND => device(DeviceQuery::QueuePool),
        Code::ALLOCATOR_QUERY_MEMORY_HEAPS => InfoOp::QueryMemoryHeaps { allocator: on },
        Code::EXECUTABLE_FUNCTION_COUNT => executable(ExecutableQuery::FunctionCount),
        Code::EXECUTABLE_FUNCTION_INFO => executable(ExecutableQuery::FunctionInfo),
        Code::EXECUTABLE_FUNCTION_PARAMETERS => executable(ExecutableQuery::FunctionParameters),
        Code::EXECUTABLE_LOOKUP_FUNCTION_BY_NAME => executable(ExecutableQuery::LookupFunction),
        _ => return None,
    })
}

/// The host access or scope operation with `code`.
fn host_access<'a>(code: Code, on: u64, payload: &Payload<'a>) -> Option<Result<HostOp<Ids<'a>>>> {
    Some(Ok(match (code, payload) {
        (Code::REPLAY_SCOPE_BEGIN, Payload::Scope(it)) => HostOp::ScopeBegin { name: it.name },
        (Code::REPLAY_SCOPE_END, Payload::Scope(it)) => HostOp::ScopeEnd { name: it.name },
        (Code::BUFFER_MAP_RANGE, Payload::BufferRange(it)) => return Some(map(on, it)),
        (Code::BUFFER_INVALIDATE_RANGE, Payload::BufferRange(it)) => HostOp::Invalidate(range(on, it)),
        (Code::BUFFER_UNMAP_RANGE, Payload::BufferRange(it)) => HostOp::Unmap(range(on, it), None),
        (Code::BUFFER_FLUSH_RANGE, Payload::BufferRange(it)) => HostOp::Flush(range(on, it), None),
        (Code::BUFFER_UNMAP_RANGE | Code::BUFFER_FLUSH_RANGE, Payload::BufferRangeData(it)) => {
            let access = MemoryAccess::from_bits_retain(it.memory_access.get());
            if !it.data.is_empty() && !access.contains(MemoryAccess::WRITE) {
                return Some(Err(Error::data_loss(format!(
                    "{} bytes were written to a range that was mapped for {access:?}",
                    it.data_length
                ))));
            }
            if it.data_length.get() > it.byte_length.get() {
                return Some(Err(Error::data_loss(format!(
                    "{} bytes were written to a range of {}",
                    it.data_length, it.byte_length
                ))));
            }
            let mode = MappingMode::from_bits_retain(it.mapping_mode.get());
            let (offset, length) = (it.byte_offset.get(), it.byte_length.get());
            let range = RangeOp { buffer: on, offset, length, mode, access };
            match code {
                Code::BUFFER_UNMAP_RANGE => HostOp::Unmap(range, Some(it.data)),
                _ => HostOp::Flush(range, Some(it.data)),
            }
        }
        _ => return None,
    }))
}

/// The object creation with `code`.
fn create<'a>(code: Code, on: u64, created: u64, payload: &Payload<'a>) -> Option<Result<CreateOp<Ids<'a>>>> {
    Some(Ok(match (code, payload) {
        (Code::DEVICE_CREATE_COMMAND_BUFFER, Payload::CommandBufferObject(it)) => {
            let params = CommandBufferParams {
                mode: CommandBufferMode::from_bits_retain(it.mode.get()),
                categories: CommandCategories::from_bits_retain(it.command_categories.get()),
                affinity: it.queue_affinity.get(),
                binding_capacity: it.binding_capacity.get(),
            };
            CreateOp::CommandBuffer { device: on, params, created }
        }
        (Code::DEVICE_CREATE_SEMAPHORE, Payload::SemaphoreObject(it)) => CreateOp::Semaphore {
            device: on,
            affinity: it.queue_affinity.get(),
            initial_value: it.initial_value.get(),
            flags: SemaphoreFlags::from_bits_retain(it.flags.get()),
            created,
        },
        (Code::DEVICE_CREATE_EVENT, Payload::EventObject(it)) => {
            CreateOp::Event { device: on, affinity: it.queue_affinity.get(), flags: it.flags.get(), created }
        }
        (Code::DEVICE_CREATE_EXECUTABLE_CACHE, Payload::ExecutableCacheObject(it)) => {
            CreateOp::ExecutableCache { device: on, identifier: it.identifier, created }
        }
        (Code::EXECUTABLE_CACHE_PREPARE_EXECUTABLE, Payload::ExecutablePrepare(it)) => {
            CreateOp::Executable(PrepareExecutable {
                cache: on,
                affinity: it.queue_affinity.get(),
                caching_mode: CachingMode::from_bits_retain(it.caching_mode.get()),
                format: it.format,
                data: it.data,
                constants: zerocopy::IntoBytes::as_bytes(it.constants),
                metadata: it.metadata_bytes,
                created,
            })
        }
        (Code::DEVICE_IMPORT_FILE, Payload::FileObject(it)) => return Some(import_file(on, created, it)),
        (Code::ALLOCATOR_ALLOCATE_BUFFER, Payload::AllocateBuffer(it)) => CreateOp::Buffer {
            allocator: on,
            params: buffer_params(it.header),
            size: it.allocation_size.get(),
            created,
        },
        (Code::ALLOCATOR_IMPORT_BUFFER, Payload::ImportBuffer(it)) => {
            return Some(import_buffer(on, created, it));
        }
        _ => return None,
    }))
}

fn import_file<'a>(on: u64, created: u64, it: &payload::FileObject<'a>) -> Result<CreateOp<Ids<'a>>> {
    let contents = match FileReferenceType(it.reference_type.get()) {
        FileReferenceType::EXTERNAL_PATH => {
            FileContents::External { path: it.reference, validation: validation(it)? }
        }
        FileReferenceType::INLINE_BYTES => {
            if it.file_length.get() != it.reference.len() as u64 {
                return Err(Error::data_loss(format!(
                    "the file has {} bytes, but the capture has {}",
                    it.file_length,
                    it.reference.len()
                )));
            }
            FileContents::Inline(it.reference)
        }
        FileReferenceType::CAPTURED_RANGES => FileContents::Ranges { path: it.reference },
        other => return Err(refuse(format!("unsupported file reference type {other}"))),
    };
    Ok(CreateOp::File(ImportFile {
        device: on,
        affinity: it.queue_affinity.get(),
        access: MemoryAccess::from_bits_retain(it.access.get() as u16),
        length: it.file_length.get(),
        source: FileSource {
            handle_type: it.handle_type.get(),
            flags: it.flags.get(),
            identity: FileIdentity {
                device: it.file_device.get(),
                inode: it.file_inode.get(),
                mtime_ns: it.file_mtime_ns.get(),
            },
            contents,
        },
        created,
    }))
}

fn validation(it: &payload::FileObject<'_>) -> Result<Validation> {
    match FileValidationType(it.validation_type.get()) {
        FileValidationType::NONE => Ok(Validation::Length),
        FileValidationType::IDENTITY => Ok(Validation::Identity),
        FileValidationType::CONTENT_DIGEST => match DigestType(it.digest_type.get()) {
            DigestType::FNV1A_64 => {
                let mut digest = [0; 8];
                digest.copy_from_slice(&it.digest[..8]);
                Ok(Validation::Digest(u64::from_le_bytes(digest)))
            }
            other => Err(refuse(format!("unsupported file digest type {other}"))),
        },
        other => Err(refuse(format!("unsupported file validation type {other}"))),
    }
}

fn import_buffer<'a>(on: u64, created: u64, it: &payload::ImportBuffer<'a>) -> Result<CreateOp<Ids<'a>>> {
    /// `IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION`.
    const HOST_ALLOCATION: u32 = 1;
    if it.external_type.get() != HOST_ALLOCATION {
        return Err(refuse(format!(
            "unsupported external memory type {}: only host allocations can be replayed",
            it.external_type
        )));
    }
    let size = it.allocation.allocation_size.get();
    if it.data_length.get() > size {
        return Err(Error::data_loss(format!(
            "{} bytes were imported into a buffer of {size}",
            it.data_length
        )));
    }
    Ok(CreateOp::ImportedBuffer {
        allocator: on,
        params: buffer_params(&it.allocation),
        size,
        flags: it.external_flags.get(),
        data: it.data,
        created,
    })
}

fn map<'a>(on: u64, it: &payload::BufferRange<'a>) -> Result<HostOp<Ids<'a>>> {
    let range = range(on, it);
    if range.mode.contains(MappingMode::PERSISTENT) && range.access.contains(MemoryAccess::WRITE) {
        return Err(refuse(
            "a persistent mapping for writing cannot be replayed: the capture does not have the writes",
        ));
    }
    Ok(HostOp::Map(range))
}

fn range<'a>(on: u64, it: &payload::BufferRange<'a>) -> RangeOp<Ids<'a>> {
    RangeOp {
        buffer: on,
        offset: it.byte_offset.get(),
        length: it.byte_length.get(),
        mode: MappingMode::from_bits_retain(it.mapping_mode.get()),
        access: MemoryAccess::from_bits_retain(it.memory_access.get()),
    }
}

fn command<'a>(code: Code, payload: Payload<'a>) -> Result<Command<Ids<'a>>> {
    Ok(match (code, payload) {
        (Code::COMMAND_BUFFER_BEGIN_DEBUG_GROUP, _) => Command::BeginDebugGroup { label: &[], color: 0 },
        (Code::COMMAND_BUFFER_END_DEBUG_GROUP, _) => Command::EndDebugGroup,
        (Code::COMMAND_BUFFER_ADVISE_BUFFER, _) => {
            // Captures record that there was a hint, but not its arguments.
            Command::Advise { buffer: BufferRef::slot(0, 0, 0), flags: 0, arguments: [0; 2] }
        }
        (Code::COMMAND_BUFFER_EXECUTION_BARRIER, Payload::CommandBarrier(it)) => Command::ExecutionBarrier {
            source_stages: ExecutionStage::from_bits_retain(it.source_stage_mask.get()),
            target_stages: ExecutionStage::from_bits_retain(it.target_stage_mask.get()),
            flags: it.flags.get(),
            memory_barriers: it.memory_barriers,
            buffer_barriers: it.buffer_barriers,
        },
        (Code::COMMAND_BUFFER_SIGNAL_EVENT, Payload::CommandEvent(it)) => Command::SignalEvent {
            event: it.event_id.get(),
            source_stages: ExecutionStage::from_bits_retain(it.source_stage_mask.get()),
        },
        (Code::COMMAND_BUFFER_RESET_EVENT, Payload::CommandEvent(it)) => Command::ResetEvent {
            event: it.event_id.get(),
            source_stages: ExecutionStage::from_bits_retain(it.source_stage_mask.get()),
        },
        (Code::COMMAND_BUFFER_WAIT_EVENTS, Payload::CommandWaitEvents(it)) => Command::WaitEvents {
            events: it.events,
            source_stages: ExecutionStage::from_bits_retain(it.source_stage_mask.get()),
            target_stages: ExecutionStage::from_bits_retain(it.target_stage_mask.get()),
            memory_barriers: it.memory_barriers,
            buffer_barriers: it.buffer_barriers,
        },
        (Code::COMMAND_BUFFER_FILL_BUFFER, Payload::CommandFill(it)) => Command::Fill {
            target: buffer_ref(&it.target_ref),
            pattern: it.pattern,
            flags: u64::from(it.flags.get()),
        },
        (Code::COMMAND_BUFFER_UPDATE_BUFFER, Payload::CommandUpdate(it)) => Command::Update {
            source: it.data,
            target: buffer_ref(&it.target_ref),
            flags: u64::from(it.flags.get()),
        },
        (Code::COMMAND_BUFFER_COPY_BUFFER, Payload::CommandCopy(it)) => Command::Copy {
            source: buffer_ref(&it.source_ref),
            target: buffer_ref(&it.target_ref),
            flags: u64::from(it.flags.get()),
        },
        (Code::COMMAND_BUFFER_DISPATCH, Payload::Dispatch(it)) => {
            if !it.waits.is_empty() || !it.signals.is_empty() {
                return Err(refuse(
                    "a dispatch in a command buffer has semaphores, which only queue operations may have",
                ));
            }
            Command::Dispatch(dispatch(&it))
        }
        _ => return Err(not_replayable(code)),
    })
}

fn submission<'a>(code: Code, on: u64, created: u64, payload: Payload<'a>) -> Result<Submission<Ids<'a>>> {
    macro_rules! queued {
        ($it:ident, $op:expr) => {{
            let (affinity, waits, signals) = ($it.queue_affinity.get(), $it.waits, $it.signals);
            Submission { device: on, affinity, waits, signals, op: $op }
        }};
    }
    Ok(match (code, payload) {
        (Code::DEVICE_QUEUE_ALLOCA, Payload::QueueAlloca(it)) => {
            let params = buffer_params(&it.allocation);
            let size = it.allocation.allocation_size.get();
            queued!(it, QueueOp::Alloca { params, size, flags: it.flags.get(), created })
        }
        (Code::DEVICE_QUEUE_DEALLOCA, Payload::QueueDealloca(it)) => {
            let (buffer, size) = (direct(&it.buffer_ref)?, it.buffer_ref.length.get());
            queued!(it, QueueOp::Dealloca { buffer, size, flags: it.flags.get() })
        }
        (Code::DEVICE_QUEUE_FILL, Payload::QueueFill(it)) => {
            let target = buffer_ref(&it.target_ref);
            queued!(it, QueueOp::Fill { target, pattern: it.pattern, flags: it.flags.get() })
        }
        (Code::DEVICE_QUEUE_UPDATE, Payload::QueueUpdate(it)) => {
            let target = buffer_ref(&it.target_ref);
            queued!(it, QueueOp::Update { source: it.data, target, flags: it.flags.get() })
        }
        (Code::DEVICE_QUEUE_COPY, Payload::QueueCopy(it)) => {
            let (source, target) = (buffer_ref(&it.source_ref), buffer_ref(&it.target_ref));
            queued!(it, QueueOp::Copy { source, target, flags: it.flags.get() })
        }
        (Code::DEVICE_QUEUE_READ, Payload::QueueRead(it)) => queued!(
            it,
            QueueOp::Read {
                file: it.source_file_id.get(),
                file_offset: it.source_offset.get(),
                target: buffer_ref(&it.target_ref),
                captured: it.captured_data,
                flags: it.flags.get(),
            }
        ),
        (Code::DEVICE_QUEUE_WRITE, Payload::QueueWrite(it)) => queued!(
            it,
            QueueOp::Write {
                source: buffer_ref(&it.source_ref),
                file: it.target_file_id.get(),
                file_offset: it.target_offset.get(),
                flags: it.flags.get(),
            }
        ),
        (Code::DEVICE_QUEUE_DISPATCH, Payload::Dispatch(it)) => queued!(it, QueueOp::Dispatch(dispatch(&it))),
        (Code::DEVICE_QUEUE_EXECUTE, Payload::QueueExecute(it)) => queued!(it, execute(&it)?),
        _ => return Err(not_replayable(code)),
    })
}

fn execute<'a>(it: &payload::QueueExecute<'a>) -> Result<QueueOp<Ids<'a>>> {
    let flags = it.flags.get();
    match it.command_buffer_id.get() {
        0 if it.bindings.is_empty() => Ok(QueueOp::Barrier { flags }),
        0 => Err(Error::data_loss("a queue barrier has bindings")),
        command_buffer => Ok(QueueOp::Execute { command_buffer, bindings: it.bindings, flags }),
    }
}

/// Whether a dispatch reads its workgroup count from a buffer.
pub(crate) fn is_indirect(it: &layout::Dispatch) -> bool {
    dispatch_flags(it)
        .intersects(DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS)
}

fn dispatch_flags(it: &layout::Dispatch) -> DispatchFlags {
    DispatchFlags::from_bits_retain(u64::from(it.flags.get()))
}

fn dispatch<'a>(it: &payload::Dispatch<'a>) -> Dispatch<Ids<'a>> {
    Dispatch {
        executable: it.executable_id.get(),
        function: it.function_ordinal.get(),
        workgroup_size: it.workgroup_size.map(|size| size.get()),
        workgroup_count: if is_indirect(it.header) {
            WorkgroupCount::Indirect(buffer_ref(&it.workgroup_count_ref))
        } else {
            WorkgroupCount::Static(it.workgroup_count.map(|count| count.get()))
        },
        dynamic_local_memory: it.dynamic_workgroup_local_memory.get(),
        constants: it.constants,
        bindings: it.bindings,
        flags: dispatch_flags(it.header),
    }
}

fn buffer_params(it: &layout::AllocateBuffer) -> BufferParams {
    BufferParams {
        usage: BufferUsage::from_bits_retain(it.usage.get()),
        access: MemoryAccess::from_bits_retain(it.access.get()),
        memory_type: MemoryType::from_bits_retain(it.memory_type.get()),
        affinity: it.queue_affinity.get(),
        min_alignment: it.min_alignment.get(),
        file_offset: None,
    }
}

/// Converts a stored reference.
pub fn buffer_ref(it: &layout::BufferRef) -> BufferRef<u64> {
    BufferRef {
        binding: match it.buffer_id.get() {
            0 => Binding::Slot(it.buffer_slot.get()),
            id => Binding::Direct(id),
        },
        offset: it.offset.get(),
        length: it.length.get(),
    }
}

/// Converts a stored timepoint.
pub(crate) fn timepoint(it: &layout::SemaphoreTimepoint) -> Timepoint<u64> {
    Timepoint { semaphore: it.semaphore_id.get(), value: it.value.get() }
}

/// Converts a stored event.
pub(crate) fn event(id: &U64) -> u64 {
    id.get()
}

/// Converts a stored barrier.
pub(crate) fn memory_barrier(it: &layout::MemoryBarrier) -> MemoryBarrier {
    MemoryBarrier {
        source_scope: AccessScope::from_bits_retain(it.source_scope.get()),
        target_scope: AccessScope::from_bits_retain(it.target_scope.get()),
    }
}

/// Converts a stored buffer barrier.
pub(crate) fn buffer_barrier(it: &layout::BufferBarrier) -> BufferBarrier<u64> {
    let layout::BufferBarrier { source_scope, target_scope, .. } = *it;
    let barrier = memory_barrier(&layout::MemoryBarrier { source_scope, target_scope });
    BufferBarrier { barrier, buffer: buffer_ref(&it.buffer_ref) }
}

fn direct(it: &layout::BufferRef) -> Result<u64> {
    match it.buffer_id.get() {
        0 => Err(crate::arguments::no_table()),
        id => Ok(id),
    }
}

fn not_replayable(code: Code) -> Error {
    match code {
        Code::DEVICE_QUEUE_HOST_CALL => refuse("host calls cannot be replayed"),
        Code::DEVICE_CREATE_CHANNEL | Code::COMMAND_BUFFER_COLLECTIVE => {
            refuse("channels and collectives communicate with devices outside the capture")
        }
        Code::ALLOCATOR_EXPORT_BUFFER => {
            refuse("exported memory cannot be replayed: writes by others are not in the capture")
        }
        code if code.is_known() => refuse(format!("{code} cannot be replayed")),
        code => refuse(format!("{code}: the operation is from a newer release")),
    }
}
