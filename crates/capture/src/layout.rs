//! The structures of a capture file, byte for byte (source: IREE's `hal/replay/format.h`, 2.0).
//!
//! Fields are little-endian and every structure has alignment 1, because records in real captures start at
//! unaligned offsets. The number before a field is its offset and the number after a name is the size, both
//! in bytes and asserted at compile time. `reserved` fields are zero in every valid file; `padding` is what C
//! compilers insert between fields and has arbitrary contents.

use rehal_base::layouts;
use zerocopy::little_endian::{U16, U32, U64};

/// The magic of every capture: `IRRP` as a little-endian integer.
pub const FILE_MAGIC: u32 = 0x5052_5249;

/// The flag in [`RecordHeader::record_flags`] that allows readers to skip a record of unknown type.
pub const RECORD_FLAG_OPTIONAL: u16 = 1;

layouts! {
    /// At byte 0 of every capture.
    pub FileHeader = 24 {
        /// [`FILE_MAGIC`].
        0 magic: U32,
        /// Major version: 1 or 2.
        4 version_major: U16,
        /// Minor version: 0.
        6 version_minor: U16,
        /// Size of this header in bytes: the offset of the first record.
        8 header_length: U32,
        /// Zero.
        12 flags: U32,
        /// Size of the whole capture in bytes, or zero until its writer closes it.
        16 file_length: U64,
    }

    /// Precedes every record's payload.
    pub RecordHeader = 96 {
        /// Bytes of this header and the payload.
        0 record_length: U64,
        /// Bytes of the payload.
        8 payload_length: U64,
        /// Sequence number in file order, from 0.
        16 sequence_ordinal: U64,
        /// Thread that made the call, or zero if unknown.
        24 thread_id: U64,
        /// Device the record belongs to, or zero.
        32 device_id: U64,
        /// The object of the record, or zero.
        40 object_id: U64,
        /// A related object, such as the one that an operation creates, or zero.
        48 related_object_id: U64,
        /// Bytes of this header.
        56 header_length: U32,
        /// A [`RecordType`](crate::RecordType).
        60 record_type: U16,
        /// Zero or [`RECORD_FLAG_OPTIONAL`].
        62 record_flags: U16,
        /// A [`PayloadType`](crate::PayloadType).
        64 payload_type: U32,
        /// An [`ObjectType`](crate::ObjectType).
        68 object_type: U32,
        /// An [`OperationCode`](crate::OperationCode), or zero for other records.
        72 operation_code: U32,
        /// IREE status code of the captured call; zero is OK.
        76 status_code: U32,
        /// Zero.
        80 reserved0: U32,
        /// Arbitrary.
        84 padding: [u8; 4],
        /// Zero.
        88 reserved1: U64,
    }

    /// Follows the checksums in a [`PayloadType::CHECKSUMS`](crate::PayloadType::CHECKSUMS) record: the last
    /// bytes of the file.
    pub ChecksumFooter = 12 {
        /// File offset of the record.
        0 record_offset: U64,
        /// CRC-32 of the record up to this field.
        8 checksum: U32,
    }

    /// The payload of a [`PayloadType::READ_DIGEST`](crate::PayloadType::READ_DIGEST) record: what the
    /// program mapped for reading, with the call before this record.
    pub ReadDigest = 40 {
        /// The buffer.
        0 buffer_id: U64,
        /// First byte in the buffer.
        8 offset: U64,
        /// Number of bytes.
        16 length: U64,
        /// The first 16 bytes of their BLAKE3.
        24 digest: [u8; 16],
    }

    /// A buffer.
    pub BufferObject = 56 {
        /// Size of the whole allocation in bytes.
        0 allocation_size: U64,
        /// Offset of this view in the allocation.
        8 byte_offset: U64,
        /// Size of this view in bytes.
        16 byte_length: U64,
        /// Queues it is placed on.
        24 queue_affinity: U64,
        /// HAL buffer placement flags.
        32 placement_flags: U32,
        /// HAL memory type bits.
        36 memory_type: U32,
        /// HAL buffer usage bits.
        40 allowed_usage: U32,
        /// HAL memory access bits.
        44 allowed_access: U16,
        /// Zero.
        46 reserved0: U16,
        /// Zero.
        48 reserved1: U32,
        /// Arbitrary.
        52 padding: [u8; 4],
    }

    /// A request for a buffer.
    pub AllocateBuffer = 40 {
        /// Requested size in bytes.
        0 allocation_size: U64,
        /// Queues that will use it.
        8 queue_affinity: U64,
        /// Minimum alignment in bytes.
        16 min_alignment: U64,
        /// HAL buffer usage bits.
        24 usage: U32,
        /// HAL memory type bits.
        28 memory_type: U32,
        /// HAL memory access bits.
        32 access: U16,
        /// Zero.
        34 reserved0: U16,
        /// Zero.
        36 reserved1: U32,
    }

    /// Host memory imported as a buffer; its bytes follow.
    pub ImportBuffer = 56 {
        /// The buffer to create at replay.
        0 allocation: AllocateBuffer,
        /// HAL external buffer type.
        40 external_type: U32,
        /// HAL external buffer flags.
        44 external_flags: U32,
        /// Bytes that follow.
        48 data_length: U64,
    }

    /// A range of a buffer's allocation, for map, unmap, invalidate and flush.
    pub BufferRange = 32 {
        /// Offset in the allocation.
        0 byte_offset: U64,
        /// Bytes of the range.
        8 byte_length: U64,
        /// HAL mapping mode bits of a map, otherwise zero.
        16 mapping_mode: U32,
        /// HAL memory access bits.
        20 memory_access: U16,
        /// Zero.
        22 reserved0: U16,
        /// Zero.
        24 reserved1: U32,
        /// Arbitrary.
        28 padding: [u8; 4],
    }

    /// A range of a buffer's allocation that the host wrote; the bytes follow.
    pub BufferRangeData = 40 {
        /// Offset in the allocation.
        0 byte_offset: U64,
        /// Bytes of the range.
        8 byte_length: U64,
        /// Bytes that follow.
        16 data_length: U64,
        /// HAL mapping mode bits.
        24 mapping_mode: U32,
        /// HAL memory access bits.
        28 memory_access: U16,
        /// Zero.
        30 reserved0: U16,
        /// Zero.
        32 reserved1: U32,
        /// Arbitrary.
        36 padding: [u8; 4],
    }

    /// A command buffer.
    pub CommandBufferObject = 24 {
        /// HAL command buffer mode bits.
        0 mode: U32,
        /// HAL command category bits.
        4 command_categories: U32,
        /// Queues it may be submitted to.
        8 queue_affinity: U64,
        /// Capacity of its binding table.
        16 binding_capacity: U64,
    }

    /// An executable cache; its identifier follows.
    pub ExecutableCacheObject = 16 {
        /// Bytes that follow.
        0 identifier_length: U64,
        /// Zero.
        8 reserved0: U64,
    }

    /// A request to prepare an executable; format, data, constants and metadata follow.
    pub ExecutablePrepare = 40 {
        /// Queues it will be used on.
        0 queue_affinity: U64,
        /// Bytes of the executable.
        8 executable_data_length: U64,
        /// Specialization constants of 32 bits.
        16 constant_count: U64,
        /// HAL executable caching mode bits.
        24 caching_mode: U32,
        /// Bytes of the format's name.
        28 executable_format_length: U32,
        /// Bytes of the metadata, or zero if the executable was not prepared.
        32 executable_metadata_length: U32,
        /// Zero.
        36 reserved1: U32,
    }

    /// Header of an executable's metadata; functions, parameters and names follow.
    pub ExecutableMetadataHeader = 32 {
        /// Number of [`FunctionMetadata`] that follow.
        0 function_count: U64,
        /// Number of [`ParameterMetadata`] that follow the functions.
        8 parameter_count: U64,
        /// Bytes of names that follow the parameters. Reserved, so zero, in 1.0.
        16 function_name_storage_length: U64,
        /// Zero.
        24 reserved1: U64,
    }

    /// Reflection of one function of a captured executable.
    pub FunctionMetadata = 32 {
        /// HAL executable function flags.
        0 flags: U64,
        /// Static or minimum workgroup size: x, y, z.
        8 workgroup_size: [U32; 3],
        /// Number of 32-bit constants that a dispatch passes.
        20 constant_count: U16,
        /// Number of bindings that a dispatch passes.
        22 binding_count: U16,
        /// Number of parameters; those of function 0 come first.
        24 parameter_count: U16,
        /// Bytes of its name; that of function 0 comes first. Reserved, so zero, in 1.0.
        26 name_length: U16,
        /// Arbitrary.
        28 padding: [u8; 4],
    }

    /// Reflection of one parameter of a function.
    pub ParameterMetadata = 8 {
        /// Offset in bytes or ordinal of a binding, depending on `parameter_type`.
        0 offset: U16,
        /// HAL executable function parameter flags.
        2 flags: U16,
        /// HAL executable function parameter type.
        4 parameter_type: u8,
        /// Bytes of the parameter.
        5 size: u8,
        /// Zero.
        6 reserved0: U16,
    }

    /// A semaphore.
    pub SemaphoreObject = 32 {
        /// Queues it is used on.
        0 queue_affinity: U64,
        /// Initial payload value.
        8 initial_value: U64,
        /// HAL semaphore flags.
        16 flags: U64,
        /// Zero.
        24 reserved0: U64,
    }

    /// A file; its reference (a path, its bytes, or nothing) follows.
    pub FileObject = 112 {
        /// Queues it is used on.
        0 queue_affinity: U64,
        /// Accessible size of the file in bytes.
        8 file_length: U64,
        /// Device number of the file system, or zero.
        16 file_device: U64,
        /// Inode number, or zero.
        24 file_inode: U64,
        /// Modification time in nanoseconds, or zero.
        32 file_mtime_ns: U64,
        /// Bytes that follow.
        40 reference_length: U64,
        /// HAL memory access bits.
        48 access: U32,
        /// HAL external file flags.
        52 flags: U32,
        /// IREE I/O file handle type that it was imported from.
        56 handle_type: U32,
        /// A [`FileReferenceType`](crate::FileReferenceType).
        60 reference_type: U32,
        /// A [`FileValidationType`](crate::FileValidationType).
        64 validation_type: U32,
        /// A [`DigestType`](crate::DigestType).
        68 digest_type: U16,
        /// Zero.
        70 reserved0: U16,
        /// Zero.
        72 reserved1: U32,
        /// Digest of the contents; FNV-1a-64 fills the first eight bytes.
        76 digest: [u8; 32],
        /// Arbitrary.
        108 padding: [u8; 4],
    }

    /// An event.
    pub EventObject = 24 {
        /// Queues it is used on.
        0 queue_affinity: U64,
        /// HAL event flags.
        8 flags: U32,
        /// Zero.
        12 reserved0: U32,
        /// Zero.
        16 reserved1: U64,
    }

    /// Begins or ends a named scope; the name follows.
    pub Scope = 24 {
        /// Bytes that follow; at least one.
        0 name_length: U64,
        /// Zero.
        8 flags: U32,
        /// Zero.
        12 reserved0: U32,
        /// Zero.
        16 reserved1: U64,
    }

    /// A timepoint: a semaphore and a payload value.
    pub SemaphoreTimepoint = 16 {
        /// The semaphore.
        0 semaphore_id: U64,
        /// Its payload value.
        8 value: U64,
    }

    /// A range of a buffer, direct or by a slot of a binding table.
    pub BufferRef = 32 {
        /// The buffer, or zero to use the slot.
        0 buffer_id: U64,
        /// First byte.
        8 offset: U64,
        /// Size in bytes; all ones means up to the end.
        16 length: U64,
        /// The slot, used if `buffer_id` is zero.
        24 buffer_slot: U32,
        /// Zero.
        28 reserved0: U32,
    }

    /// A global memory barrier.
    pub MemoryBarrier = 8 {
        /// HAL access scope bits before it.
        0 source_scope: U32,
        /// HAL access scope bits after it.
        4 target_scope: U32,
    }

    /// A memory barrier for a range of a buffer.
    pub BufferBarrier = 40 {
        /// HAL access scope bits before it.
        0 source_scope: U32,
        /// HAL access scope bits after it.
        4 target_scope: U32,
        /// The range.
        8 buffer_ref: BufferRef,
    }

    /// Signals or resets an event.
    pub CommandEvent = 16 {
        /// The event.
        0 event_id: U64,
        /// HAL execution stage bits.
        8 source_stage_mask: U64,
    }

    /// Waits for events; their ids, memory barriers and buffer barriers follow.
    pub CommandWaitEvents = 48 {
        /// HAL execution stage bits before.
        0 source_stage_mask: U64,
        /// HAL execution stage bits after.
        8 target_stage_mask: U64,
        /// Ids that follow.
        16 event_count: U64,
        /// [`MemoryBarrier`]s that follow the ids.
        24 memory_barrier_count: U64,
        /// [`BufferBarrier`]s that follow the memory barriers.
        32 buffer_barrier_count: U64,
        /// Zero.
        40 reserved0: U64,
    }

    /// An execution barrier; memory barriers and buffer barriers follow.
    pub CommandBarrier = 40 {
        /// HAL execution stage bits before.
        0 source_stage_mask: U64,
        /// HAL execution stage bits after.
        8 target_stage_mask: U64,
        /// HAL execution barrier flags.
        16 flags: U64,
        /// [`MemoryBarrier`]s that follow.
        24 memory_barrier_count: U64,
        /// [`BufferBarrier`]s that follow the memory barriers.
        32 buffer_barrier_count: U64,
    }

    /// A dispatch, in a command buffer or on a queue; waits, signals, constants and bindings follow.
    pub Dispatch = 120 {
        /// The executable.
        0 executable_id: U64,
        /// Queue of a queue dispatch, otherwise zero.
        8 queue_affinity: U64,
        /// Ordinal of the function.
        16 function_ordinal: U32,
        /// HAL dispatch flags.
        20 flags: U32,
        /// Static or minimum workgroup size: x, y, z.
        24 workgroup_size: [U32; 3],
        /// Static workgroup count: x, y, z.
        36 workgroup_count: [U32; 3],
        /// The buffer range from which an indirect dispatch reads the workgroup count.
        48 workgroup_count_ref: BufferRef,
        /// Dynamic workgroup local memory in bytes, in addition to the function's static requirement.
        80 dynamic_workgroup_local_memory: U32,
        /// Zero.
        84 reserved0: U32,
        /// [`SemaphoreTimepoint`]s to wait for; none in a command buffer.
        88 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal; none in a command buffer.
        96 signal_semaphore_count: U64,
        /// Bytes of constants that follow the semaphores.
        104 constants_length: U64,
        /// [`BufferRef`]s that follow the constants.
        112 binding_count: U64,
    }

    /// Executes a command buffer; waits, signals and the binding table follow.
    pub QueueExecute = 48 {
        /// The command buffer, or zero for a queue barrier.
        0 command_buffer_id: U64,
        /// Queue affinity.
        8 queue_affinity: U64,
        /// HAL execute flags.
        16 flags: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        24 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        32 signal_semaphore_count: U64,
        /// [`BufferRef`]s that follow the semaphores.
        40 binding_count: U64,
    }

    /// Allocates a buffer in queue order; waits and signals follow.
    pub QueueAlloca = 72 {
        /// The requested buffer.
        0 allocation: AllocateBuffer,
        /// Queue affinity.
        40 queue_affinity: U64,
        /// HAL alloca flags.
        48 flags: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        56 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        64 signal_semaphore_count: U64,
    }

    /// Frees a buffer in queue order; waits and signals follow.
    pub QueueDealloca = 64 {
        /// The buffer.
        0 buffer_ref: BufferRef,
        /// Queue affinity.
        32 queue_affinity: U64,
        /// HAL dealloca flags.
        40 flags: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        48 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        56 signal_semaphore_count: U64,
    }

    /// Fills a range on a queue; waits, signals and the pattern follow.
    pub QueueFill = 72 {
        /// The target.
        0 target_ref: BufferRef,
        /// Queue affinity.
        32 queue_affinity: U64,
        /// HAL fill flags.
        40 flags: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        48 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        56 signal_semaphore_count: U64,
        /// Bytes of the pattern.
        64 pattern_length: U64,
    }

    /// Writes host bytes to a range on a queue; waits, signals and the bytes follow.
    pub QueueUpdate = 80 {
        /// The target.
        0 target_ref: BufferRef,
        /// Queue affinity.
        32 queue_affinity: U64,
        /// HAL update flags.
        40 flags: U64,
        /// Offset in the program's source buffer; the bytes that follow already start there.
        48 source_offset: U64,
        /// Bytes that follow the semaphores.
        56 data_length: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        64 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        72 signal_semaphore_count: U64,
    }

    /// Copies a range on a queue; waits and signals follow.
    pub QueueCopy = 96 {
        /// The source.
        0 source_ref: BufferRef,
        /// The target.
        32 target_ref: BufferRef,
        /// Queue affinity.
        64 queue_affinity: U64,
        /// HAL copy flags.
        72 flags: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        80 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        88 signal_semaphore_count: U64,
    }

    /// Reads from a file on a queue; waits, signals and the bytes read (if captured) follow.
    pub QueueRead = 88 {
        /// The file.
        0 source_file_id: U64,
        /// Offset in the file.
        8 source_offset: U64,
        /// The target.
        16 target_ref: BufferRef,
        /// Queue affinity.
        48 queue_affinity: U64,
        /// HAL read flags.
        56 flags: U64,
        /// Bytes that follow the semaphores.
        64 captured_data_length: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        72 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        80 signal_semaphore_count: U64,
    }

    /// Writes to a file on a queue; waits and signals follow.
    pub QueueWrite = 80 {
        /// The source.
        0 source_ref: BufferRef,
        /// The file.
        32 target_file_id: U64,
        /// Offset in the file.
        40 target_offset: U64,
        /// Queue affinity.
        48 queue_affinity: U64,
        /// HAL write flags.
        56 flags: U64,
        /// [`SemaphoreTimepoint`]s to wait for.
        64 wait_semaphore_count: U64,
        /// [`SemaphoreTimepoint`]s to signal.
        72 signal_semaphore_count: U64,
    }

    /// Fills a range in a command buffer; the pattern follows.
    pub CommandFill = 48 {
        /// The target.
        0 target_ref: BufferRef,
        /// HAL fill flags.
        32 flags: U32,
        /// Zero.
        36 reserved0: U32,
        /// Bytes of the pattern.
        40 pattern_length: U64,
    }

    /// Writes host bytes to a range in a command buffer; the bytes follow.
    pub CommandUpdate = 56 {
        /// The target.
        0 target_ref: BufferRef,
        /// HAL update flags.
        32 flags: U32,
        /// Zero.
        36 reserved0: U32,
        /// Offset in the program's source buffer; the bytes that follow already start there.
        40 source_offset: U64,
        /// Bytes that follow.
        48 data_length: U64,
    }

    /// Copies a range in a command buffer.
    pub CommandCopy = 80 {
        /// The source.
        0 source_ref: BufferRef,
        /// The target.
        32 target_ref: BufferRef,
        /// HAL copy flags.
        64 flags: U32,
        /// Zero.
        68 reserved0: U32,
        /// Zero.
        72 reserved1: U64,
    }
}
