//! The structures of a profile bundle, byte for byte (source: IREE's `hal/profile_schema.h` and
//! `hal/utils/profile_file.h`, 1.6).
//!
//! Fields are little-endian and every structure has alignment 1, because records in real bundles start at
//! unaligned offsets. The number before a field is its offset and the number after a name is the size, both
//! in bytes and asserted at compile time. A 32-bit ordinal or index is `u32::MAX` if there is none; 64-bit
//! ids are zero.

#![allow(missing_docs, reason = "what a field is called says what it is, unless it has a comment")]

use rehal_base::layouts;
use zerocopy::little_endian::{I32, I64, U16, U32, U64};

/// The magic of every bundle: `IRPF` as a little-endian integer.
pub const FILE_MAGIC: u32 = 0x4650_5249;

/// The version that the writer writes.
pub const VERSION: (u16, u16) = (1, 6);

/// The flag in [`RecordHeader::chunk_flags`] of a chunk whose producer dropped rows.
pub const CHUNK_TRUNCATED: u64 = 1;

/// [`Device::flags`], [`Executable::flags`], [`CodeObject::flags`] and [`Function::flags`]: it has the UUID
/// or hash.
pub const HAS_IDENTITY: u32 = 1;

/// [`CommandOperation::flags`]: the command is in a block, and has block ordinals.
pub const OPERATION_BLOCK_STRUCTURE: u32 = 1 << 6;

/// [`ClockCorrelation::flags`]: it has a device tick.
pub const CLOCK_DEVICE_TICK: u32 = 1;
/// [`ClockCorrelation::flags`]: it has the processor's timestamp that the driver sampled.
pub const CLOCK_HOST_CPU_TIMESTAMP: u32 = 1 << 1;
/// [`ClockCorrelation::flags`]: it has the system's timestamp that the driver sampled.
pub const CLOCK_HOST_SYSTEM_TIMESTAMP: u32 = 1 << 2;
/// [`ClockCorrelation::flags`]: it has the host's clock before and after the sample.
pub const CLOCK_HOST_TIME_BRACKET: u32 = 1 << 3;
/// [`ClockCorrelation::flags`]: the device tick is not of the clock that times events.
pub const CLOCK_DEVICE_TICK_UNALIGNED: u32 = 1 << 4;

/// [`EventRelationship::relationship_type`] of our tools, which the reference does not define: the source, a
/// submission or a command, replays a record of a capture; the target is an artifact, whose id is the
/// record's ordinal. `rehl` as a little-endian integer, so that no later release defines it.
pub const RELATIONSHIP_REPLAYS_RECORD: u32 = 0x6c68_6572;

/// [`EventRelationship::relationship_type`] of our tools, which the reference does not define: the source, a
/// submission, waits for a value of a semaphore; the target is an artifact, whose ids are those of the
/// semaphore and the value. `rehw` as a little-endian integer, so that no later release defines it.
pub const RELATIONSHIP_WAITS: u32 = 0x7768_6572;

/// As [`RELATIONSHIP_WAITS`], for a value that the submission signals: `rehs`.
pub const RELATIONSHIP_SIGNALS: u32 = 0x7368_6572;

/// The worker of spans of threads that execute while they wait.
pub const WAITING_THREAD: u32 = NONE;

/// The worker of spans of threads that submit work or make it ready, and execute it at once.
pub const SUBMITTING_THREAD: u32 = NONE - 1;

/// [`EventRelationship::relationship_type`] of our tools: `rehx`. A worker, the upper half of
/// `source_secondary_id`, executed work of a command, the lower half, of the command buffer or submission
/// that is the source. `target_id` is when it began and `target_secondary_id` when it ended, in nanoseconds
/// of the host.
pub const RELATIONSHIP_WORKER: u32 = 0x7868_6572;

/// [`EventRelationship::relationship_type`] of our tools: `rehp`. The processor spent `target_id` nanoseconds
/// of CPU time on the dispatch whose host execution event is the source, in `source_secondary_id` threads, of
/// which one spent `target_secondary_id`, the most. The event has their wall time (`tile_duration_sum_ns`).
pub const RELATIONSHIP_PROCESSOR: u32 = 0x7068_6572;

/// The ordinal or index of nothing.
pub const NONE: u32 = u32::MAX;

layouts! {
    /// At byte 0 of every bundle.
    pub FileHeader = 24 {
        /// [`FILE_MAGIC`].
        0 magic: U32,
        /// Major version: 1.
        4 version_major: U16,
        /// Minor version.
        6 version_minor: U16,
        /// Size of this header in bytes: the offset of the first record.
        8 header_length: U32,
        /// Zero.
        12 flags: U32,
        /// Size of the bundle in bytes up to the end of the last session that ended, or zero if none has.
        16 file_length: U64,
    }

    /// Precedes the content type, the name and the payload of every record.
    pub RecordHeader = 104 {
        /// Bytes of this header, the two strings and the payload.
        0 record_length: U64,
        /// Bytes of the payload.
        8 payload_length: U64,
        /// The session.
        16 session_id: U64,
        /// Stream of all rows, or zero.
        24 stream_id: U64,
        /// An event, or zero.
        32 event_id: U64,
        /// An executable, or zero.
        40 executable_id: U64,
        /// A command buffer, or zero.
        48 command_buffer_id: U64,
        /// Bytes of this header.
        56 header_length: U32,
        /// Bytes of the content type.
        60 content_type_length: U32,
        /// Bytes of the name.
        64 name_length: U32,
        /// Physical device of all rows, or [`NONE`].
        68 physical_device_ordinal: U32,
        /// Queue of all rows, or [`NONE`].
        72 queue_ordinal: U32,
        /// Arbitrary.
        76 padding: U32,
        /// Of a chunk: zero or [`CHUNK_TRUNCATED`].
        80 chunk_flags: U64,
        /// Of a chunk: rows that its producer dropped.
        88 dropped_record_count: U64,
        /// Of a session's end: the status code with which it ended.
        96 session_status_code: U32,
        /// A [`RecordType`](crate::RecordType).
        100 record_type: U16,
        /// Zero.
        102 flags: U16,
    }

    /// A physical device.
    pub Device = 32 {
        0 record_length: U32,
        /// Bit 0: it has a UUID.
        4 flags: U32,
        8 physical_device_ordinal: U32,
        12 queue_count: U32,
        16 physical_device_uuid: [u8; 16],
    }

    /// A queue of a physical device.
    pub Queue = 24 {
        0 record_length: U32,
        4 physical_device_ordinal: U32,
        8 queue_ordinal: U32,
        /// Zero.
        12 reserved0: U32,
        16 stream_id: U64,
    }

    /// An executable.
    pub Executable = 40 {
        0 record_length: U32,
        /// Bit 0: it has a hash.
        4 flags: U32,
        8 executable_id: U64,
        16 function_count: U32,
        /// Zero.
        20 reserved0: U32,
        24 code_object_hash: [U64; 2],
    }

    /// The code of an executable; the image follows.
    pub CodeObject = 48 {
        0 record_length: U32,
        /// Bit 0: it has a hash.
        4 flags: U32,
        8 executable_id: U64,
        16 code_object_id: U64,
        24 data_length: U64,
        32 code_object_hash: [U64; 2],
    }

    /// Where a device has loaded a code object.
    pub CodeObjectLoad = 40 {
        0 record_length: U32,
        4 physical_device_ordinal: U32,
        8 executable_id: U64,
        16 code_object_id: U64,
        24 load_delta: I64,
        32 load_size: U64,
    }

    /// A function of an executable; its name follows.
    pub Function = 64 {
        0 record_length: U32,
        /// Bit 0: it has a hash.
        4 flags: U32,
        8 executable_id: U64,
        16 function_ordinal: U32,
        20 constant_count: U32,
        24 binding_count: U32,
        28 parameter_count: U32,
        32 workgroup_size: [U32; 3],
        44 name_length: U32,
        48 function_hash: [U64; 2],
    }

    /// A command buffer.
    pub CommandBuffer = 48 {
        0 record_length: U32,
        4 flags: U32,
        8 command_buffer_id: U64,
        16 mode: U64,
        24 command_categories: U64,
        32 queue_affinity: U64,
        40 physical_device_ordinal: U32,
        /// Zero.
        44 reserved0: U32,
    }

    /// A command of a command buffer.
    pub CommandOperation = 120 {
        0 record_length: U32,
        /// A [`CommandOperationType`](crate::CommandOperationType).
        4 operation_type: U32,
        8 flags: U32,
        12 command_index: U32,
        16 command_buffer_id: U64,
        24 block_ordinal: U32,
        28 block_command_ordinal: U32,
        32 executable_id: U64,
        40 function_ordinal: U32,
        44 binding_count: U32,
        48 workgroup_count: [U32; 3],
        60 workgroup_size: [U32; 3],
        72 source_offset: U64,
        80 target_offset: U64,
        88 length: U64,
        96 source_ordinal: U32,
        100 target_ordinal: U32,
        104 target_block_ordinal: U32,
        108 alternate_block_ordinal: U32,
        /// Zero.
        112 reserved0: U32,
        /// Arbitrary.
        116 padding: U32,
    }

    /// The clocks of a device and of the host at one moment.
    pub ClockCorrelation = 72 {
        0 record_length: U32,
        /// `CLOCK_*` bits: which clocks it has.
        4 flags: U32,
        8 physical_device_ordinal: U32,
        /// Zero.
        12 reserved0: U32,
        16 sample_id: U64,
        24 device_tick: U64,
        32 host_cpu_timestamp_ns: U64,
        40 host_system_timestamp: U64,
        48 host_system_frequency_hz: U64,
        56 host_time_begin_ns: I64,
        64 host_time_end_ns: I64,
    }

    /// A dispatch, timed by the device; device and queue are those of its chunk.
    pub DispatchEvent = 88 {
        0 record_length: U32,
        4 flags: U32,
        8 event_id: U64,
        16 submission_id: U64,
        24 command_buffer_id: U64,
        32 executable_id: U64,
        40 command_index: U32,
        44 function_ordinal: U32,
        48 workgroup_count: [U32; 3],
        60 workgroup_size: [U32; 3],
        72 start_tick: U64,
        80 end_tick: U64,
    }

    /// A submission to a queue.
    pub QueueEvent = 104 {
        0 record_length: U32,
        /// A [`QueueEventType`](crate::QueueEventType).
        4 event_type: U32,
        8 flags: U32,
        /// A [`DependencyStrategy`](crate::DependencyStrategy).
        12 dependency_strategy: U32,
        16 event_id: U64,
        24 host_time_ns: I64,
        32 submission_id: U64,
        40 command_buffer_id: U64,
        48 allocation_id: U64,
        56 stream_id: U64,
        64 physical_device_ordinal: U32,
        68 queue_ordinal: U32,
        72 wait_count: U32,
        76 signal_count: U32,
        80 barrier_count: U32,
        84 operation_count: U32,
        88 payload_length: U64,
        96 ready_host_time_ns: I64,
    }

    /// A queue operation, timed by the device.
    pub QueueDeviceEvent = 96 {
        0 record_length: U32,
        /// A [`QueueEventType`](crate::QueueEventType).
        4 event_type: U32,
        8 flags: U32,
        /// Zero.
        12 reserved0: U32,
        16 event_id: U64,
        24 submission_id: U64,
        32 command_buffer_id: U64,
        40 allocation_id: U64,
        48 stream_id: U64,
        56 payload_length: U64,
        64 physical_device_ordinal: U32,
        68 queue_ordinal: U32,
        72 operation_count: U32,
        /// Zero.
        76 reserved1: U32,
        80 start_tick: U64,
        88 end_tick: U64,
    }

    /// A queue operation or dispatch that the host executed.
    pub HostExecutionEvent = 152 {
        0 record_length: U32,
        /// A [`QueueEventType`](crate::QueueEventType).
        4 event_type: U32,
        8 flags: U32,
        12 status_code: U32,
        16 event_id: U64,
        24 submission_id: U64,
        32 command_buffer_id: U64,
        40 executable_id: U64,
        48 allocation_id: U64,
        56 stream_id: U64,
        64 physical_device_ordinal: U32,
        68 queue_ordinal: U32,
        72 command_index: U32,
        76 function_ordinal: U32,
        80 workgroup_count: [U32; 3],
        92 workgroup_size: [U32; 3],
        104 start_host_time_ns: I64,
        112 end_host_time_ns: I64,
        120 payload_length: U64,
        128 tile_count: U64,
        136 tile_duration_sum_ns: I64,
        144 operation_count: U32,
        /// Zero.
        148 reserved0: U32,
    }

    /// A region of a command buffer: what one barrier ends.
    pub CommandRegionEvent = 248 {
        0 record_length: U32,
        4 flags: U32,
        8 event_id: U64,
        16 submission_id: U64,
        24 command_buffer_id: U64,
        32 stream_id: U64,
        40 physical_device_ordinal: U32,
        44 queue_ordinal: U32,
        48 block_sequence: U32,
        52 epoch: U32,
        56 index: I32,
        60 dispatch_count: U32,
        64 tile_count: U32,
        68 width_bucket: U32,
        72 lookahead_width_bucket: U32,
        76 useful_drain_count: U32,
        80 no_work_drain_count: U32,
        /// Arbitrary.
        84 padding0: U32,
        88 tail_no_work_count: U32,
        92 remaining_tiles_min: U32,
        96 remaining_tiles_max: U32,
        100 remaining_tiles_bucket_counts: [U32; 8],
        /// Arbitrary.
        132 padding1: U32,
        136 tail_first_start_host_time_ns: I64,
        144 tail_last_end_host_time_ns: I64,
        152 tail_start_offset_ns: I64,
        160 tail_drain_duration_ns: I64,
        168 first_useful_drain_start_host_time_ns: I64,
        176 last_useful_drain_end_host_time_ns: I64,
        184 start_host_time_ns: I64,
        192 end_host_time_ns: I64,
        200 next_index: I32,
        204 next_tile_count: U32,
        208 next_width_bucket: U32,
        212 next_lookahead_width_bucket: U32,
        216 worker_count: U32,
        220 old_wake_budget: I32,
        224 new_wake_budget: I32,
        228 wake_delta: I32,
        232 keep_active_count: U32,
        236 publish_keep_active_count: U32,
        240 keep_warm_count: U32,
        /// Arbitrary.
        244 padding2: U32,
    }

    /// A step in the life of an allocation.
    pub MemoryEvent = 160 {
        0 record_length: U32,
        /// A [`MemoryEventType`](crate::MemoryEventType).
        4 event_type: U32,
        /// `MEMORY_*` bits.
        8 flags: U32,
        12 result: U32,
        16 event_id: U64,
        24 host_time_ns: I64,
        32 allocation_id: U64,
        40 pool_id: U64,
        48 backing_id: U64,
        56 submission_id: U64,
        64 physical_device_ordinal: U32,
        68 queue_ordinal: U32,
        72 frontier_entry_count: U32,
        /// Zero.
        76 reserved0: U32,
        80 memory_type: U64,
        88 buffer_usage: U64,
        96 offset: U64,
        104 length: U64,
        112 alignment: U64,
        120 pool_bytes_reserved: U64,
        128 pool_bytes_free: U64,
        136 pool_bytes_committed: U64,
        144 pool_budget_limit: U64,
        152 pool_reservation_count: U32,
        156 pool_slab_count: U32,
    }

    /// Two events that belong together.
    pub EventRelationship = 72 {
        0 record_length: U32,
        /// A [`RelationshipType`](crate::RelationshipType).
        4 relationship_type: U32,
        8 relationship_id: U64,
        /// An [`EndpointType`](crate::EndpointType).
        16 source_type: U32,
        /// An [`EndpointType`](crate::EndpointType).
        20 target_type: U32,
        24 physical_device_ordinal: U32,
        28 queue_ordinal: U32,
        32 stream_id: U64,
        40 source_id: U64,
        48 source_secondary_id: U64,
        56 target_id: U64,
        64 target_secondary_id: U64,
    }

    /// Hardware counters that are sampled together; the name follows.
    pub CounterSet = 32 {
        0 record_length: U32,
        4 flags: U32,
        8 counter_set_id: U64,
        16 physical_device_ordinal: U32,
        20 counter_count: U32,
        24 sample_value_count: U32,
        28 name_length: U32,
    }

    /// A hardware counter; block name, name and description follow.
    pub Counter = 48 {
        0 record_length: U32,
        4 flags: U32,
        /// A [`CounterUnit`](crate::CounterUnit).
        8 unit: U32,
        12 physical_device_ordinal: U32,
        16 counter_set_id: U64,
        24 counter_ordinal: U32,
        28 sample_value_offset: U32,
        32 sample_value_count: U32,
        36 block_name_length: U32,
        40 name_length: U32,
        44 description_length: U32,
    }

    /// A sample of a counter set; its values follow.
    pub CounterSample = 112 {
        0 record_length: U32,
        /// `SAMPLE_*` bits.
        4 flags: U32,
        /// A [`CounterSampleScope`](crate::CounterSampleScope).
        8 scope: U32,
        /// Zero.
        12 reserved0: U32,
        16 sample_id: U64,
        24 counter_set_id: U64,
        32 dispatch_event_id: U64,
        40 submission_id: U64,
        48 command_buffer_id: U64,
        56 executable_id: U64,
        64 stream_id: U64,
        72 start_tick: U64,
        80 end_tick: U64,
        88 command_index: U32,
        92 function_ordinal: U32,
        96 physical_device_ordinal: U32,
        100 queue_ordinal: U32,
        104 sample_value_count: U32,
        /// Zero.
        108 reserved1: U32,
    }

    /// A source of device metrics; the name follows.
    pub MetricSource = 40 {
        0 record_length: U32,
        4 flags: U32,
        8 source_id: U64,
        16 physical_device_ordinal: U32,
        /// A [`DeviceClass`](crate::DeviceClass).
        20 device_class: U32,
        24 source_kind: U32,
        28 source_revision: U32,
        32 metric_count: U32,
        36 name_length: U32,
    }

    /// A metric of a source; name and description follow.
    pub MetricDescriptor = 48 {
        0 record_length: U32,
        4 flags: U32,
        8 source_id: U64,
        16 metric_id: U64,
        /// A [`MetricUnit`](crate::MetricUnit).
        24 unit: U32,
        /// A [`MetricValueKind`](crate::MetricValueKind).
        28 value_kind: U32,
        /// A [`MetricSemantic`](crate::MetricSemantic).
        32 semantic: U32,
        /// A [`MetricPlotHint`](crate::MetricPlotHint).
        36 plot_hint: U32,
        40 name_length: U32,
        44 description_length: U32,
    }

    /// A value of a metric sample.
    pub MetricValue = 24 {
        0 metric_id: U64,
        8 value_bits: U64,
        16 flags: U32,
        /// Zero.
        20 reserved0: U32,
    }

    /// A sample of a metric source; its values follow.
    pub MetricSample = 64 {
        0 record_length: U32,
        4 flags: U32,
        8 sample_id: U64,
        16 source_id: U64,
        24 host_time_begin_ns: I64,
        32 host_time_end_ns: I64,
        40 source_timestamp: U64,
        48 source_timestamp_frequency_hz: U64,
        56 physical_device_ordinal: U32,
        60 value_count: U32,
    }

    /// A hardware trace; its bytes are the rest of the chunk.
    pub ExecutableTrace = 88 {
        0 record_length: U32,
        4 format: U32,
        8 flags: U32,
        12 shader_engine: U32,
        16 trace_id: U64,
        24 dispatch_event_id: U64,
        32 submission_id: U64,
        40 command_buffer_id: U64,
        48 executable_id: U64,
        56 stream_id: U64,
        64 command_index: U32,
        68 function_ordinal: U32,
        72 physical_device_ordinal: U32,
        76 queue_ordinal: U32,
        80 data_length: U64,
    }
}
