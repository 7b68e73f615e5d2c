//! Records of a capture as operations: the one place where a payload's fields become an operation's.

use rehal_base::{Error, Result};
use rehal_capture::{ObjectType, OperationCode as Code, Payload, Record, RecordType, layout, payload};
use rehal_hal::{
    AccessScope, Binding, BufferBarrier, BufferParams, BufferRef, BufferUsage, CachingMode, Command,
    CommandBufferMode, CommandBufferParams, CommandCategories, Dispatch, DispatchFlags, ExecutionStage,
    HostOp, MappingMode, MemoryAccess, MemoryBarrier, MemoryType, Op, Query, QueueOp, RangeOp,
    SemaphoreFlags, Submission, Timepoint, WorkgroupCount,
};

use crate::ids::{Ids, refuse};

/// What a record asks of a replay.
pub(crate) enum Decoded<'a> {
    /// Nothing: it informs, or the call that it records had failed.
    Nothing,
    /// The next device of the group gets this id.
    Device(u64),
    /// The allocator of device `device` gets this id.
    Allocator { id: u64, device: u64 },
    /// An executable cache of device `device` gets this id.
    Cache { id: u64, device: u64 },
    /// An operation.
    Op(Op<Ids<'a>>),
    /// A read of file `file` whose bytes are in the capture: the submission is an update.
    CapturedRead { file: u64, submission: Submission<Ids<'a>> },
    /// An executable, with what its device said of it at capture.
    Executable(HostOp<Ids<'a>>, payload::ExecutablePrepare<'a>),
    /// A file, with where its bytes are.
    File(HostOp<Ids<'a>>, payload::FileObject<'a>),
}

/// What `record` asks for. Fails where the payload is wrong, and where the record holds work that
/// cannot be reproduced.
pub(crate) fn decode<'a>(record: &Record<'a>) -> Result<Decoded<'a>> {
    match record.record_type() {
        RecordType::SESSION => Ok(Decoded::Nothing),
        RecordType::OBJECT => decode_object(record),
        // A call that failed made nothing; what the program did instead follows in the capture.
        RecordType::OPERATION | RecordType::UNSUPPORTED if record.header.status_code.get() != 0 => {
            Ok(Decoded::Nothing)
        }
        RecordType::OPERATION => decode_operation(record),
        RecordType::UNSUPPORTED => {
            Err(refuse("the program did here what a capture cannot hold, so nothing after it can be trusted"))
        }
        _ if record.is_skippable() => Ok(Decoded::Nothing),
        other => Err(refuse(format!("a record of type {other} cannot be replayed"))),
    }
}

fn decode_object<'a>(record: &Record<'a>) -> Result<Decoded<'a>> {
    // Checked even where it is not used: a capture with a broken record is broken.
    record.payload()?;
    let id = record.header.object_id.get();
    Ok(match record.object_type() {
        ObjectType::DEVICE => Decoded::Device(id),
        ObjectType::ALLOCATOR => Decoded::Allocator { id, device: record.header.device_id.get() },
        _ => Decoded::Nothing,
    })
}

fn decode_operation<'a>(record: &Record<'a>) -> Result<Decoded<'a>> {
    let on = record.header.object_id.get();
    let created = record.header.related_object_id.get();
    let payload = record.payload()?;
    if let Some(query) = query(record.operation()) {
        return Ok(Decoded::Op(Op::Host(HostOp::Query(query))));
    }
    let op = match (record.operation(), payload) {
        (Code::DEVICE_CREATE_EXECUTABLE_CACHE, Payload::ExecutableCacheObject(_)) => {
            return Ok(Decoded::Cache { id: created, device: on });
        }
        (Code::EXECUTABLE_CACHE_PREPARE_EXECUTABLE, Payload::ExecutablePrepare(it)) => {
            let op = HostOp::PrepareExecutable {
                device: on,
                affinity: it.queue_affinity.get(),
                caching_mode: CachingMode::from_bits_retain(it.caching_mode.get())
                    - CachingMode::ALIAS_PROVIDED_DATA,
                format: it.format,
                data: it.data,
                constants: zerocopy::IntoBytes::as_bytes(it.constants),
                created,
            };
            return Ok(Decoded::Executable(op, it));
        }
        (Code::DEVICE_IMPORT_FILE, Payload::FileObject(it)) => {
            let op = HostOp::ImportFile {
                device: on,
                affinity: it.queue_affinity.get(),
                access: MemoryAccess::from_bits_retain(it.access.get() as u16),
                length: it.file_length.get(),
                created,
            };
            return Ok(Decoded::File(op, it));
        }
        (Code::DEVICE_QUEUE_READ, Payload::QueueRead(it)) => return queue_read(on, &it),
        (code, payload) if is_command(code) => {
            return Ok(Decoded::Op(match code {
                Code::COMMAND_BUFFER_BEGIN => Op::Host(HostOp::BeginCommandBuffer { command_buffer: on }),
                Code::COMMAND_BUFFER_END => Op::Host(HostOp::EndCommandBuffer { command_buffer: on }),
                _ => Op::Command { into: on, command: command(code, payload)? },
            }));
        }
        (code, payload) => match host_op(code, on, created, payload) {
            Some(op) => Op::Host(op?),
            None => Op::Queue(submission(code, on, created, payload)?),
        },
    };
    Ok(Decoded::Op(op))
}

fn is_command(code: Code) -> bool {
    code.object_type() == Some(ObjectType::COMMAND_BUFFER)
}

/// Operations that ask or hint, and change nothing that later work depends on.
fn query(code: Code) -> Option<Query> {
    Some(match code {
        Code::DEVICE_QUERY_I64 => Query::DeviceQueryI64,
        Code::DEVICE_QUERY_CAPABILITIES => Query::DeviceQueryCapabilities,
        Code::DEVICE_ASSIGN_TOPOLOGY_INFO => Query::DeviceAssignTopology,
        Code::DEVICE_QUERY_QUEUE_POOL_BACKEND => Query::DeviceQueryPool,
        Code::DEVICE_PROFILING_BEGIN => Query::ProfilingBegin,
        Code::DEVICE_PROFILING_FLUSH => Query::ProfilingFlush,
        Code::DEVICE_PROFILING_END => Query::ProfilingEnd,
        Code::DEVICE_EXTERNAL_CAPTURE_BEGIN => Query::ExternalCaptureBegin,
        Code::DEVICE_EXTERNAL_CAPTURE_END => Query::ExternalCaptureEnd,
        Code::ALLOCATOR_QUERY_MEMORY_HEAPS => Query::AllocatorQueryHeaps,
        Code::EXECUTABLE_FUNCTION_COUNT => Query::ExecutableFunctionCount,
        Code::EXECUTABLE_FUNCTION_INFO => Query::ExecutableFunctionInfo,
        Code::EXECUTABLE_FUNCTION_PARAMETERS => Query::ExecutableFunctionParameters,
        Code::EXECUTABLE_LOOKUP_FUNCTION_BY_NAME => Query::ExecutableLookupFunction,
        _ => return None,
    })
}

/// The host operation that `code` is, or `None` where it is one of a queue.
fn host_op<'a>(code: Code, on: u64, created: u64, payload: Payload<'a>) -> Option<Result<HostOp<Ids<'a>>>> {
    Some(Ok(match (code, payload) {
        (Code::REPLAY_SCOPE_BEGIN, Payload::Scope(it)) => HostOp::ScopeBegin { name: it.name },
        (Code::REPLAY_SCOPE_END, Payload::Scope(it)) => HostOp::ScopeEnd { name: it.name },
        (Code::DEVICE_CREATE_COMMAND_BUFFER, Payload::CommandBufferObject(it)) => {
            let params = CommandBufferParams {
                mode: CommandBufferMode::from_bits_retain(it.mode.get()),
                categories: CommandCategories::from_bits_retain(it.command_categories.get()),
                affinity: it.queue_affinity.get(),
                binding_capacity: it.binding_capacity.get(),
            };
            HostOp::CreateCommandBuffer { device: on, params, created }
        }
        (Code::DEVICE_CREATE_SEMAPHORE, Payload::SemaphoreObject(it)) => HostOp::CreateSemaphore {
            device: on,
            affinity: it.queue_affinity.get(),
            initial_value: it.initial_value.get(),
            flags: SemaphoreFlags::from_bits_retain(it.flags.get()),
            created,
        },
        (Code::DEVICE_CREATE_EVENT, Payload::EventObject(it)) => HostOp::CreateEvent {
            device: on,
            affinity: it.queue_affinity.get(),
            flags: it.flags.get(),
            created,
        },
        (Code::ALLOCATOR_ALLOCATE_BUFFER, Payload::AllocateBuffer(it)) => HostOp::AllocateBuffer {
            device: on,
            params: buffer_params(it.header),
            size: it.allocation_size.get(),
            created,
        },
        (Code::ALLOCATOR_IMPORT_BUFFER, Payload::ImportBuffer(it)) => {
            return Some(import_buffer(on, created, &it));
        }
        (Code::BUFFER_MAP_RANGE, Payload::BufferRange(it)) => return Some(map(on, &it)),
        (Code::BUFFER_INVALIDATE_RANGE, Payload::BufferRange(it)) => HostOp::Invalidate(range(on, &it)),
        (Code::BUFFER_UNMAP_RANGE, Payload::BufferRange(it)) => HostOp::Unmap(range(on, &it), None),
        (Code::BUFFER_FLUSH_RANGE, Payload::BufferRange(it)) => HostOp::Flush(range(on, &it), None),
        (Code::BUFFER_UNMAP_RANGE | Code::BUFFER_FLUSH_RANGE, Payload::BufferRangeData(it)) => {
            if it.data_length.get() > it.byte_length.get() {
                return Some(Err(Error::data_loss(format!(
                    "{} bytes were written to a range of {}",
                    it.data_length, it.byte_length
                ))));
            }
            let range = RangeOp {
                buffer: on,
                offset: it.byte_offset.get(),
                length: it.byte_length.get(),
                mode: MappingMode::from_bits_retain(it.mapping_mode.get()),
                access: MemoryAccess::from_bits_retain(it.memory_access.get()),
            };
            match code {
                Code::BUFFER_UNMAP_RANGE => HostOp::Unmap(range, Some(it.data)),
                _ => HostOp::Flush(range, Some(it.data)),
            }
        }
        (Code::DEVICE_QUEUE_FLUSH, _) => HostOp::FlushQueue { device: on },
        (Code::DEVICE_TRIM, _) => HostOp::Trim { device: on },
        (Code::ALLOCATOR_TRIM, _) => HostOp::TrimAllocator { device: on },
        _ => return None,
    }))
}

fn import_buffer<'a>(on: u64, created: u64, it: &payload::ImportBuffer<'a>) -> Result<HostOp<Ids<'a>>> {
    /// `IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION`.
    const HOST_ALLOCATION: u32 = 1;
    if it.external_type.get() != HOST_ALLOCATION {
        return Err(refuse(format!(
            "memory of external type {} was imported; only host allocations can be made again",
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
    let mut params = buffer_params(&it.allocation);
    params.memory_type |= MemoryType::HOST_VISIBLE;
    params.access |= MemoryAccess::WRITE;
    params.usage |= BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_ACCESS_RANDOM;
    Ok(HostOp::ImportBuffer { device: on, params, size, data: it.data, created })
}

fn map<'a>(on: u64, it: &payload::BufferRange<'a>) -> Result<HostOp<Ids<'a>>> {
    let range = range(on, it);
    if range.mode.contains(MappingMode::PERSISTENT) && range.access.contains(MemoryAccess::WRITE) {
        return Err(refuse(
            "the program kept a range mapped for writing, so what it wrote and when is not in the capture",
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
            // Captures hold that there was a hint, not which.
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
                    "a dispatch in a command buffer names semaphores, which belong to queues",
                ));
            }
            Command::Dispatch(dispatch(&it))
        }
        _ => return Err(not_replayable(code)),
    })
}

fn submission<'a>(code: Code, on: u64, created: u64, payload: Payload<'a>) -> Result<Submission<Ids<'a>>> {
    let submission = |affinity, waits, signals, op| Submission { device: on, affinity, waits, signals, op };
    Ok(match (code, payload) {
        (Code::DEVICE_QUEUE_ALLOCA, Payload::QueueAlloca(it)) => {
            let params = buffer_params(&it.allocation);
            let size = it.allocation.allocation_size.get();
            let op = QueueOp::Alloca { params, size, flags: it.flags.get(), created };
            submission(it.queue_affinity.get(), it.waits, it.signals, op)
        }
        (Code::DEVICE_QUEUE_DEALLOCA, Payload::QueueDealloca(it)) => {
            let buffer = direct(&it.buffer_ref)?;
            let op = QueueOp::Dealloca { buffer, flags: it.flags.get() };
            submission(it.queue_affinity.get(), it.waits, it.signals, op)
        }
        (Code::DEVICE_QUEUE_FILL, Payload::QueueFill(it)) => {
            let target = buffer_ref(&it.target_ref);
            let op = QueueOp::Fill { target, pattern: it.pattern, flags: it.flags.get() };
            submission(it.queue_affinity.get(), it.waits, it.signals, op)
        }
        (Code::DEVICE_QUEUE_UPDATE, Payload::QueueUpdate(it)) => {
            let target = buffer_ref(&it.target_ref);
            let op = QueueOp::Update { source: it.data, target, flags: it.flags.get() };
            submission(it.queue_affinity.get(), it.waits, it.signals, op)
        }
        (Code::DEVICE_QUEUE_COPY, Payload::QueueCopy(it)) => {
            let (source, target) = (buffer_ref(&it.source_ref), buffer_ref(&it.target_ref));
            let op = QueueOp::Copy { source, target, flags: it.flags.get() };
            submission(it.queue_affinity.get(), it.waits, it.signals, op)
        }
        (Code::DEVICE_QUEUE_WRITE, Payload::QueueWrite(it)) => {
            let op = QueueOp::Write {
                source: buffer_ref(&it.source_ref),
                file: it.target_file_id.get(),
                file_offset: it.target_offset.get(),
                flags: it.flags.get(),
            };
            submission(it.queue_affinity.get(), it.waits, it.signals, op)
        }
        (Code::DEVICE_QUEUE_DISPATCH, Payload::Dispatch(it)) => {
            submission(it.queue_affinity.get(), it.waits, it.signals, QueueOp::Dispatch(dispatch(&it)))
        }
        (Code::DEVICE_QUEUE_EXECUTE, Payload::QueueExecute(it)) => {
            submission(it.queue_affinity.get(), it.waits, it.signals, execute(&it)?)
        }
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

fn queue_read<'a>(on: u64, it: &payload::QueueRead<'a>) -> Result<Decoded<'a>> {
    let (file, target) = (it.source_file_id.get(), buffer_ref(&it.target_ref));
    let submission = |op| Submission {
        device: on,
        affinity: it.queue_affinity.get(),
        waits: it.waits,
        signals: it.signals,
        op,
    };
    if it.captured_data.is_empty() {
        let file_offset = it.source_offset.get();
        let op = QueueOp::Read { file, file_offset, target, flags: it.flags.get() };
        return Ok(Decoded::Op(Op::Queue(submission(op))));
    }
    let op = QueueOp::Update { source: it.captured_data, target, flags: 0 };
    Ok(Decoded::CapturedRead { file, submission: submission(op) })
}

fn dispatch<'a>(it: &payload::Dispatch<'a>) -> Dispatch<Ids<'a>> {
    let flags = DispatchFlags::from_bits_retain(u64::from(it.flags.get()));
    let indirect = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS;
    Dispatch {
        executable: it.executable_id.get(),
        function: it.function_ordinal.get(),
        workgroup_size: it.workgroup_size.map(|size| size.get()),
        workgroup_count: if flags.intersects(indirect) {
            WorkgroupCount::Indirect(buffer_ref(&it.workgroup_count_ref))
        } else {
            WorkgroupCount::Static(it.workgroup_count.map(|count| count.get()))
        },
        dynamic_local_memory: it.dynamic_workgroup_local_memory.get(),
        constants: it.constants,
        bindings: it.bindings,
        flags,
    }
}

fn buffer_params(it: &layout::AllocateBuffer) -> BufferParams {
    BufferParams {
        usage: BufferUsage::from_bits_retain(it.usage.get()),
        access: MemoryAccess::from_bits_retain(it.access.get()),
        memory_type: MemoryType::from_bits_retain(it.memory_type.get()),
        affinity: it.queue_affinity.get(),
        min_alignment: it.min_alignment.get(),
    }
}

/// A stored reference as an operation's.
pub(crate) fn buffer_ref<'a>(it: &layout::BufferRef) -> BufferRef<Ids<'a>> {
    BufferRef {
        binding: match it.buffer_id.get() {
            0 => Binding::Slot(it.buffer_slot.get()),
            id => Binding::Direct(id),
        },
        offset: it.offset.get(),
        length: it.length.get(),
    }
}

/// A stored timepoint as an operation's.
pub(crate) fn timepoint<'a>(it: &layout::SemaphoreTimepoint) -> Timepoint<Ids<'a>> {
    Timepoint { semaphore: it.semaphore_id.get(), value: it.value.get() }
}

/// A stored barrier as an operation's.
pub(crate) fn memory_barrier(source_scope: u32, target_scope: u32) -> MemoryBarrier {
    MemoryBarrier {
        source_scope: AccessScope::from_bits_retain(source_scope),
        target_scope: AccessScope::from_bits_retain(target_scope),
    }
}

/// A stored barrier of a buffer as an operation's.
pub(crate) fn buffer_barrier<'a>(it: &layout::BufferBarrier) -> BufferBarrier<Ids<'a>> {
    BufferBarrier {
        barrier: memory_barrier(it.source_scope.get(), it.target_scope.get()),
        buffer: buffer_ref(&it.buffer_ref),
    }
}

fn direct(it: &layout::BufferRef) -> Result<u64> {
    match it.buffer_id.get() {
        0 => Err(crate::shape::no_table()),
        id => Ok(id),
    }
}

fn not_replayable(code: Code) -> Error {
    match code {
        Code::DEVICE_QUEUE_HOST_CALL => refuse("a call back into the program cannot be reproduced"),
        Code::DEVICE_CREATE_CHANNEL | Code::COMMAND_BUFFER_COLLECTIVE => {
            refuse("channels and collectives reach devices outside of the capture")
        }
        Code::ALLOCATOR_EXPORT_BUFFER => {
            refuse("exported memory may have been changed outside of what the capture sees")
        }
        code if code.is_known() => refuse(format!("{code} has no replay")),
        code => refuse(format!("operation {code} is of a newer release")),
    }
}
