//! Events as rows of a bundle.

use rehal_hal::profile::{
    ClockSample, CommandRegion, DeviceQueueEvent, DispatchEvent, HostExecution, MemoryEvent, MemoryEventKind,
    ProcessorTime, ProfiledCommand, ProfiledCommandKind, ProfiledDispatch, ProfiledOperation, ProfiledThread,
    QueueEvent, QueueOpKind, WorkerSpan,
};
use rehal_hal::{CommandBufferParams, FunctionInfo, Timepoint};
use rehal_profile::layout::{self, HAS_IDENTITY, NONE};
use rehal_profile::{
    CommandOperationType, DependencyStrategy, EndpointType, MemoryEventType, QueueEventType, RecordFields,
};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{I32, I64, U32, U64};

/// Where all rows of a sink come from.
pub(super) struct Origin {
    pub(super) device_ordinal: u32,
    pub(super) device_uuid: Option<[u8; 16]>,
}

const QUEUE_SOFTWARE_DEFERRED: u32 = 1 << 0;
const IN_COMMAND_BUFFER: u32 = 1 << 0;
const INDIRECT: u32 = 1 << 1;
const HOST_EXECUTION_DEFERRED: u32 = 1 << 2;
const REGION_TERMINAL: u32 = 1 << 2;
const REGION_HAS_NEXT: u32 = 1 << 3;
const OPERATION_BARRIER: u32 = 1 << 0;
const OPERATION_INDIRECT: u32 = 1 << 1;
const OPERATION_DYNAMIC_BINDINGS: u32 = 1 << 2;
const OPERATION_STATIC_BINDINGS: u32 = 1 << 3;
const MEMORY_QUEUE_OPERATION: u32 = 1 << 0;
const MEMORY_POOL_RESERVATION: u32 = 1 << 3;
const MEMORY_EXTERNALLY_OWNED: u32 = 1 << 5;

impl Origin {
    fn stream(&self, queue_ordinal: u32) -> U64 {
        U64::new(u64::from(self.device_ordinal) << 32 | u64::from(queue_ordinal))
    }

    fn device_u32(&self) -> U32 {
        U32::new(self.device_ordinal)
    }

    /// The row of the device.
    pub(super) fn device(&self) -> Vec<u8> {
        let row = layout::Device {
            physical_device_ordinal: self.device_u32(),
            queue_count: U32::new(1),
            flags: U32::new(if self.device_uuid.is_some() { HAS_IDENTITY } else { 0 }),
            physical_device_uuid: self.device_uuid.unwrap_or_default(),
            ..Default::default()
        };
        row.sized().as_bytes().to_vec()
    }

    /// The row of its queue.
    pub(super) fn queue(&self) -> Vec<u8> {
        let row = layout::Queue {
            physical_device_ordinal: self.device_u32(),
            stream_id: self.stream(0),
            ..Default::default()
        };
        row.sized().as_bytes().to_vec()
    }

    /// The fields of a chunk whose rows have neither device nor queue.
    pub(super) fn of_queue<'a>(&self, fields: RecordFields<'a>) -> RecordFields<'a> {
        RecordFields {
            physical_device_ordinal: self.device_ordinal,
            queue_ordinal: 0,
            stream_id: self.stream(0).get(),
            ..fields
        }
    }
}

fn event_type(kind: QueueOpKind) -> U32 {
    U32::new(
        match kind {
            QueueOpKind::Alloca => QueueEventType::ALLOCA,
            QueueOpKind::Dealloca => QueueEventType::DEALLOCA,
            QueueOpKind::Fill => QueueEventType::FILL,
            QueueOpKind::Update => QueueEventType::UPDATE,
            QueueOpKind::Copy => QueueEventType::COPY,
            QueueOpKind::Read => QueueEventType::READ,
            QueueOpKind::Write => QueueEventType::WRITE,
            QueueOpKind::Dispatch => QueueEventType::DISPATCH,
            QueueOpKind::Execute => QueueEventType::EXECUTE,
            QueueOpKind::Barrier => QueueEventType::BARRIER,
            QueueOpKind::HostCall => QueueEventType::HOST_CALL,
        }
        .0,
    )
}

pub(super) fn executable(rows: &mut Vec<u8>, id: u64, function_count: usize) {
    let row = layout::Executable {
        executable_id: U64::new(id),
        function_count: U32::new(function_count as u32),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

/// The rows of the functions of an executable.
pub(super) fn functions(rows: &mut Vec<u8>, id: u64, functions: &[FunctionInfo]) {
    for (ordinal, function) in functions.iter().enumerate() {
        let name = function.name.as_bytes();
        let row = layout::Function {
            executable_id: U64::new(id),
            function_ordinal: U32::new(ordinal as u32),
            constant_count: U32::new(function.constant_count.into()),
            binding_count: U32::new(function.binding_count.into()),
            parameter_count: U32::new(function.parameter_count.into()),
            workgroup_size: function.workgroup_size.map(U32::new),
            ..Default::default()
        };
        rows.extend_from_slice(row.sized(name).as_bytes());
        rows.extend_from_slice(name);
    }
}

pub(super) fn command_buffer(rows: &mut Vec<u8>, origin: &Origin, id: u64, params: &CommandBufferParams) {
    let row = layout::CommandBuffer {
        command_buffer_id: U64::new(id),
        mode: U64::new(params.mode.bits().into()),
        command_categories: U64::new(params.categories.bits().into()),
        queue_affinity: U64::new(params.affinity),
        physical_device_ordinal: origin.device_u32(),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

/// The rows of the commands of a command buffer.
pub(super) fn operations(rows: &mut Vec<u8>, command_buffer: u64, commands: &[ProfiledCommand]) {
    for (index, command) in commands.iter().enumerate() {
        rows.extend_from_slice(operation(command_buffer, index as u32, command).sized().as_bytes());
    }
}

fn operation(command_buffer: u64, index: u32, command: &ProfiledCommand) -> layout::CommandOperation {
    let none = U32::new(NONE);
    let slot = |slot: Option<u32>| U32::new(slot.unwrap_or(NONE));
    let (operation_type, mut flags) = match command.kind {
        ProfiledCommandKind::Barrier => (CommandOperationType::BARRIER, OPERATION_BARRIER),
        ProfiledCommandKind::Dispatch { dispatch, .. } => {
            (CommandOperationType::DISPATCH, if dispatch.is_indirect { OPERATION_INDIRECT } else { 0 })
        }
        ProfiledCommandKind::Fill { .. } => (CommandOperationType::FILL, 0),
        ProfiledCommandKind::Update { .. } => (CommandOperationType::UPDATE, 0),
        ProfiledCommandKind::Copy { .. } => (CommandOperationType::COPY, 0),
    };
    flags |= match command.kind {
        ProfiledCommandKind::Barrier => 0,
        _ if command.uses_binding_table => OPERATION_DYNAMIC_BINDINGS,
        _ => OPERATION_STATIC_BINDINGS,
    };
    let row = layout::CommandOperation {
        operation_type: U32::new(operation_type.0),
        flags: U32::new(flags),
        command_index: U32::new(index),
        command_buffer_id: U64::new(command_buffer),
        block_ordinal: none,
        block_command_ordinal: none,
        function_ordinal: none,
        source_ordinal: none,
        target_ordinal: none,
        target_block_ordinal: none,
        alternate_block_ordinal: none,
        ..Default::default()
    };
    match command.kind {
        ProfiledCommandKind::Barrier => row,
        ProfiledCommandKind::Dispatch { dispatch, binding_count } => layout::CommandOperation {
            executable_id: U64::new(dispatch.executable_id),
            function_ordinal: U32::new(dispatch.function),
            binding_count: U32::new(binding_count),
            workgroup_count: dispatch.workgroup_count.map(U32::new),
            workgroup_size: dispatch.workgroup_size.map(U32::new),
            ..row
        },
        ProfiledCommandKind::Fill { target_slot, target_offset, length }
        | ProfiledCommandKind::Update { target_slot, target_offset, length } => layout::CommandOperation {
            target_ordinal: slot(target_slot),
            target_offset: U64::new(target_offset),
            length: U64::new(length),
            ..row
        },
        ProfiledCommandKind::Copy { source_slot, source_offset, target_slot, target_offset, length } => {
            layout::CommandOperation {
                source_ordinal: slot(source_slot),
                source_offset: U64::new(source_offset),
                target_ordinal: slot(target_slot),
                target_offset: U64::new(target_offset),
                length: U64::new(length),
                ..row
            }
        }
    }
}

pub(super) fn queue_event(rows: &mut Vec<u8>, origin: &Origin, id: u64, event: &QueueEvent<'_>) {
    let operation = &event.operation;
    let strategy = match (event.waits.len(), event.was_deferred) {
        (0, _) => DependencyStrategy::NONE,
        (_, false) => DependencyStrategy::INLINE,
        (_, true) => DependencyStrategy::SOFTWARE_DEFER,
    };
    let row = layout::QueueEvent {
        event_type: event_type(operation.kind),
        flags: U32::new(if event.was_deferred { QUEUE_SOFTWARE_DEFERRED } else { 0 }),
        dependency_strategy: U32::new(strategy.0),
        event_id: U64::new(id),
        host_time_ns: I64::new(event.submitted_ns),
        submission_id: U64::new(operation.submission_id),
        command_buffer_id: U64::new(operation.command_buffer_id),
        allocation_id: U64::new(operation.allocation_id),
        stream_id: origin.stream(operation.queue_ordinal),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(operation.queue_ordinal),
        wait_count: U32::new(event.waits.len() as u32),
        signal_count: U32::new(event.signals.len() as u32),
        operation_count: U32::new(operation.operation_count),
        payload_length: U64::new(operation.payload_bytes),
        ready_host_time_ns: I64::new(event.ready_ns),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

pub(super) fn host_execution(rows: &mut Vec<u8>, origin: &Origin, id: u64, event: &HostExecution) {
    let operation = &event.operation;
    let dispatch = event.dispatch.as_ref();
    let mut flags = if operation.command_buffer_id != 0 { IN_COMMAND_BUFFER } else { 0 };
    flags |= if event.was_deferred { HOST_EXECUTION_DEFERRED } else { 0 };
    flags |= if dispatch.is_some_and(|dispatch| dispatch.is_indirect) { INDIRECT } else { 0 };
    let (workgroup_count, workgroup_size) = workgroups(dispatch);
    let row = layout::HostExecutionEvent {
        event_type: event_type(operation.kind),
        flags: U32::new(flags),
        status_code: U32::new(event.status as u32),
        event_id: U64::new(id),
        submission_id: U64::new(operation.submission_id),
        command_buffer_id: U64::new(operation.command_buffer_id),
        executable_id: U64::new(dispatch.map_or(0, |dispatch| dispatch.executable_id)),
        allocation_id: U64::new(operation.allocation_id),
        stream_id: origin.stream(operation.queue_ordinal),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(operation.queue_ordinal),
        command_index: U32::new(event.command_index.unwrap_or(NONE)),
        function_ordinal: U32::new(dispatch.map_or(NONE, |dispatch| dispatch.function)),
        workgroup_count,
        workgroup_size,
        start_host_time_ns: I64::new(event.start_ns),
        end_host_time_ns: I64::new(event.end_ns),
        payload_length: U64::new(operation.payload_bytes),
        tile_count: U64::new(dispatch.map_or(0, ProfiledDispatch::workgroup_total)),
        tile_duration_sum_ns: I64::new(event.thread_time_ns),
        operation_count: U32::new(operation.operation_count),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

fn workgroups(dispatch: Option<&ProfiledDispatch>) -> ([U32; 3], [U32; 3]) {
    let numbers = |of: fn(&ProfiledDispatch) -> [u32; 3]| dispatch.map_or([0; 3], of).map(U32::new);
    (numbers(|dispatch| dispatch.workgroup_count), numbers(|dispatch| dispatch.workgroup_size))
}

pub(super) fn memory_event(rows: &mut Vec<u8>, origin: &Origin, id: u64, event: &MemoryEvent) {
    let (event_type, mut flags) = match event.kind {
        MemoryEventKind::QueueAlloca => (MemoryEventType::QUEUE_ALLOCA, 0),
        MemoryEventKind::QueueDealloca => (MemoryEventType::QUEUE_DEALLOCA, 0),
        MemoryEventKind::PoolReserve => (MemoryEventType::POOL_RESERVE, 0),
        MemoryEventKind::PoolMaterialize => (MemoryEventType::POOL_MATERIALIZE, 0),
        MemoryEventKind::PoolRelease => (MemoryEventType::POOL_RELEASE, 0),
        MemoryEventKind::Allocate => (MemoryEventType::BUFFER_ALLOCATE, 0),
        MemoryEventKind::Free => (MemoryEventType::BUFFER_FREE, 0),
        MemoryEventKind::Import => (MemoryEventType::BUFFER_IMPORT, MEMORY_EXTERNALLY_OWNED),
        MemoryEventKind::Release => (MemoryEventType::BUFFER_UNIMPORT, MEMORY_EXTERNALLY_OWNED),
    };
    flags |= if event.queue_ordinal.is_some() { MEMORY_QUEUE_OPERATION } else { 0 };
    flags |= if event.reservation.is_some() { MEMORY_POOL_RESERVATION } else { 0 };
    let reservation = event.reservation.unwrap_or_default();
    let row = layout::MemoryEvent {
        event_type: U32::new(event_type.0),
        flags: U32::new(flags),
        result: U32::new(NONE),
        event_id: U64::new(id),
        host_time_ns: I64::new(event.time_ns),
        allocation_id: U64::new(event.allocation_id),
        submission_id: U64::new(event.submission_id),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(event.queue_ordinal.unwrap_or(NONE)),
        memory_type: U64::new(event.memory_type.bits().into()),
        buffer_usage: U64::new(event.usage.bits().into()),
        pool_id: U64::new(reservation.pool_id),
        backing_id: U64::new(reservation.backing_id),
        offset: U64::new(reservation.offset),
        length: U64::new(event.size_bytes),
        alignment: U64::new(event.alignment),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

pub(super) fn command_region(rows: &mut Vec<u8>, origin: &Origin, id: u64, event: &CommandRegion) {
    let operation = &event.operation;
    let width = |tiles: u32| U32::new(tiles.clamp(1, 1 << 31).next_power_of_two());
    let next = event.next_tile_count;
    let row = layout::CommandRegionEvent {
        flags: U32::new(IN_COMMAND_BUFFER | if next.is_some() { REGION_HAS_NEXT } else { REGION_TERMINAL }),
        event_id: U64::new(id),
        submission_id: U64::new(operation.submission_id),
        command_buffer_id: U64::new(operation.command_buffer_id),
        stream_id: origin.stream(operation.queue_ordinal),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(operation.queue_ordinal),
        block_sequence: U32::new(1),
        epoch: U32::new(event.index.saturating_add(1)),
        index: I32::new(i32::try_from(event.index).unwrap_or(i32::MAX)),
        dispatch_count: U32::new(event.command_count),
        tile_count: U32::new(event.tile_count),
        width_bucket: width(event.tile_count),
        lookahead_width_bucket: next.map_or_else(U32::default, width),
        useful_drain_count: U32::new(event.useful_drain_count),
        first_useful_drain_start_host_time_ns: I64::new(event.first_tile_ns),
        last_useful_drain_end_host_time_ns: I64::new(event.last_tile_ns),
        start_host_time_ns: I64::new(event.start_ns),
        end_host_time_ns: I64::new(event.end_ns),
        next_index: I32::new(next.map_or(-1, |_| i32::try_from(event.index).map_or(i32::MAX, |it| it + 1))),
        next_tile_count: U32::new(next.unwrap_or(0)),
        next_width_bucket: next.map_or_else(U32::default, width),
        worker_count: U32::new(event.worker_count),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

pub(super) fn device_queue_event(rows: &mut Vec<u8>, origin: &Origin, id: u64, event: &DeviceQueueEvent) {
    let operation = &event.operation;
    let row = layout::QueueDeviceEvent {
        event_type: event_type(operation.kind),
        event_id: U64::new(id),
        submission_id: U64::new(operation.submission_id),
        command_buffer_id: U64::new(operation.command_buffer_id),
        allocation_id: U64::new(operation.allocation_id),
        stream_id: origin.stream(operation.queue_ordinal),
        payload_length: U64::new(operation.payload_bytes),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(operation.queue_ordinal),
        operation_count: U32::new(operation.operation_count),
        start_tick: U64::new(event.start_tick),
        end_tick: U64::new(event.end_tick),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

pub(super) fn dispatch_event(rows: &mut Vec<u8>, id: u64, event: &DispatchEvent) {
    let operation = &event.operation;
    let mut flags = if operation.command_buffer_id != 0 { IN_COMMAND_BUFFER } else { 0 };
    flags |= if event.dispatch.is_indirect { INDIRECT } else { 0 };
    let (workgroup_count, workgroup_size) = workgroups(Some(&event.dispatch));
    let row = layout::DispatchEvent {
        flags: U32::new(flags),
        event_id: U64::new(id),
        submission_id: U64::new(operation.submission_id),
        command_buffer_id: U64::new(operation.command_buffer_id),
        executable_id: U64::new(event.dispatch.executable_id),
        command_index: U32::new(event.command_index.unwrap_or(NONE)),
        function_ordinal: U32::new(event.dispatch.function),
        workgroup_count,
        workgroup_size,
        start_tick: U64::new(event.start_tick),
        end_tick: U64::new(event.end_tick),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

/// The processor's time for a dispatch, whose host execution event has the id `event`.
pub(super) fn processor_time(
    rows: &mut Vec<u8>,
    origin: &Origin,
    id: u64,
    (event, operation): (u64, &ProfiledOperation),
    time: &ProcessorTime,
) {
    let row = layout::EventRelationship {
        relationship_type: U32::new(layout::RELATIONSHIP_PROCESSOR),
        relationship_id: U64::new(id),
        source_type: U32::new(EndpointType::HOST_EXECUTION_EVENT.0),
        target_type: U32::new(EndpointType::ARTIFACT.0),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(operation.queue_ordinal),
        stream_id: origin.stream(operation.queue_ordinal),
        source_id: U64::new(event),
        source_secondary_id: U64::new(time.thread_count.into()),
        target_id: U64::new(time.cpu_ns),
        target_secondary_id: U64::new(time.longest_cpu_ns),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

/// The span of a worker on a command, or on a submission without a command buffer.
pub(super) fn worker_span(rows: &mut Vec<u8>, origin: &Origin, id: u64, span: &WorkerSpan) {
    let operation = &span.operation;
    let (source_type, source_id) = match operation.command_buffer_id {
        0 => (EndpointType::QUEUE_SUBMISSION, operation.submission_id),
        command_buffer => (EndpointType::COMMAND_OPERATION, command_buffer),
    };
    let what = match operation.command_buffer_id {
        0 => event_type(operation.kind).get(),
        _ => span.command_index.unwrap_or(NONE),
    };
    let thread = match span.thread {
        ProfiledThread::Worker(index) => index,
        ProfiledThread::Waiting => layout::WAITING_THREAD,
        ProfiledThread::Submitting => layout::SUBMITTING_THREAD,
    };
    let secondary = u64::from(thread) << 32 | u64::from(what);
    let row = layout::EventRelationship {
        relationship_type: U32::new(layout::RELATIONSHIP_WORKER),
        relationship_id: U64::new(id),
        source_type: U32::new(source_type.0),
        target_type: U32::new(EndpointType::ARTIFACT.0),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(operation.queue_ordinal),
        stream_id: origin.stream(operation.queue_ordinal),
        source_id: U64::new(source_id),
        source_secondary_id: U64::new(secondary),
        target_id: U64::new(u64::try_from(span.start_ns).unwrap_or(0)),
        target_secondary_id: U64::new(u64::try_from(span.end_ns).unwrap_or(0)),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

/// Relates a submission to its timepoints, and to the record that it replays.
pub(super) fn relationships(
    rows: &mut Vec<u8>,
    origin: &Origin,
    mut next_id: impl FnMut() -> u64,
    event: &QueueEvent<'_>,
) {
    let waits = event.waits.iter().map(|it| (layout::RELATIONSHIP_WAITS, it));
    let signals = event.signals.iter().map(|it| (layout::RELATIONSHIP_SIGNALS, it));
    for (kind, it) in waits.chain(signals) {
        timepoint(rows, origin, next_id(), kind, event, it);
    }
    if let Some(record) = event.replayed_record {
        replayed_submission(rows, origin, next_id(), &event.operation, record);
    }
}

/// A semaphore's value is an artifact, with the ids of the semaphore and the value.
fn timepoint(
    rows: &mut Vec<u8>,
    origin: &Origin,
    id: u64,
    relationship_type: u32,
    event: &QueueEvent<'_>,
    timepoint: &Timepoint<u64>,
) {
    let operation = &event.operation;
    let row = layout::EventRelationship {
        relationship_type: U32::new(relationship_type),
        relationship_id: U64::new(id),
        source_type: U32::new(EndpointType::QUEUE_SUBMISSION.0),
        target_type: U32::new(EndpointType::ARTIFACT.0),
        physical_device_ordinal: origin.device_u32(),
        queue_ordinal: U32::new(operation.queue_ordinal),
        stream_id: origin.stream(operation.queue_ordinal),
        source_id: U64::new(operation.submission_id),
        target_id: U64::new(timepoint.semaphore),
        target_secondary_id: U64::new(timepoint.value),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

/// The record of a capture is an artifact, whose id is the record's ordinal.
fn replayed(origin: &Origin, id: u64, record: u64) -> layout::EventRelationship {
    layout::EventRelationship {
        relationship_type: U32::new(layout::RELATIONSHIP_REPLAYS_RECORD),
        relationship_id: U64::new(id),
        target_type: U32::new(EndpointType::ARTIFACT.0),
        physical_device_ordinal: origin.device_u32(),
        target_id: U64::new(record),
        ..Default::default()
    }
}

/// Relates a submission to the record that it replays.
pub(super) fn replayed_submission(
    rows: &mut Vec<u8>,
    origin: &Origin,
    id: u64,
    operation: &ProfiledOperation,
    record: u64,
) {
    let row = layout::EventRelationship {
        source_type: U32::new(EndpointType::QUEUE_SUBMISSION.0),
        queue_ordinal: U32::new(operation.queue_ordinal),
        stream_id: origin.stream(operation.queue_ordinal),
        source_id: U64::new(operation.submission_id),
        ..replayed(origin, id, record)
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

/// Relates a command, by command buffer and index, to the record that it replays.
pub(super) fn replayed_command(
    rows: &mut Vec<u8>,
    origin: &Origin,
    id: u64,
    (command_buffer, index): (u64, u32),
    record: u64,
) {
    let row = layout::EventRelationship {
        source_type: U32::new(EndpointType::COMMAND_OPERATION.0),
        queue_ordinal: U32::new(NONE),
        source_id: U64::new(command_buffer),
        source_secondary_id: U64::new(index.into()),
        ..replayed(origin, id, record)
    };
    rows.extend_from_slice(row.sized().as_bytes());
}

pub(super) fn clock_sample(rows: &mut Vec<u8>, origin: &Origin, id: u64, sample: &ClockSample) {
    let middle = sample.host_before_ns + (sample.host_after_ns - sample.host_before_ns) / 2;
    let row = layout::ClockCorrelation {
        flags: U32::new(
            layout::CLOCK_DEVICE_TICK | layout::CLOCK_HOST_CPU_TIMESTAMP | layout::CLOCK_HOST_TIME_BRACKET,
        ),
        physical_device_ordinal: origin.device_u32(),
        sample_id: U64::new(id),
        device_tick: U64::new(sample.device_tick),
        host_cpu_timestamp_ns: U64::new(u64::try_from(middle).unwrap_or(0)),
        host_time_begin_ns: I64::new(sample.host_before_ns),
        host_time_end_ns: I64::new(sample.host_after_ns),
        ..Default::default()
    };
    rows.extend_from_slice(row.sized().as_bytes());
}
