//! A synthetic capture with every payload type and every edge case that the format allows.
//!
//! It cannot be replayed. It is a fixture for tests of readers and a fuzzing seed, because captures of real
//! programs cover only a small part of the format.

use std::io::Cursor;

use rehal_base::Result;
use zerocopy::little_endian::{U16, U32, U64};

use crate::layout::*;
use crate::payload::{self as view, View};
use crate::{ObjectType, OperationCode as Op, PayloadType, RecordFields, RecordType, Writer};

/// The bytes of the capture, closed.
pub fn capture() -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    Writer::new(&mut bytes).and_then(|writer| Sample { writer }.write()).expect(INFALLIBLE);
    bytes.into_inner()
}

const INFALLIBLE: &str = "writing to memory cannot fail, and every count matches its list";

struct Sample<'a> {
    writer: Writer<&'a mut Cursor<Vec<u8>>>,
}

impl Sample<'_> {
    fn write(mut self) -> Result<()> {
        self.writer.append(&RecordFields { record_type: RecordType::SESSION, ..Default::default() }, &[])?;
        self.objects()?;
        self.files()?;
        self.host_calls()?;
        self.executables()?;
        self.commands()?;
        self.transfers()?;
        self.file_transfers()?;
        self.submissions()?;
        self.scopes()?;
        self.failures()?;
        self.oddities()?;
        self.writer.close()
    }

    fn objects(&mut self) -> Result<()> {
        for (id, object_type) in
            [(1, ObjectType::DEVICE), (2, ObjectType::ALLOCATOR), (9, ObjectType::EXECUTABLE)]
        {
            let fields = RecordFields { record_type: RecordType::OBJECT, object_id: id, object_type, ..CALL };
            self.writer.append(&fields, &[])?;
        }
        let buffer = BufferObject {
            allocation_size: U64::new(4096),
            byte_offset: U64::new(64),
            byte_length: U64::new(1 << 40),
            queue_affinity: U64::new(u64::MAX),
            placement_flags: U32::new(1),
            memory_type: U32::new(0x30),
            allowed_usage: U32::new(0xABCD_EF01),
            allowed_access: U16::new(0xFFFF),
            ..Default::default()
        };
        self.object(3, ObjectType::BUFFER, &view::BufferObject { header: &buffer })?;
        let commands = CommandBufferObject {
            mode: U32::new(17),
            command_categories: U32::new(3),
            queue_affinity: U64::new(1),
            binding_capacity: U64::new(5),
        };
        self.object(4, ObjectType::COMMAND_BUFFER, &view::CommandBufferObject { header: &commands })?;
        let semaphore = SemaphoreObject {
            queue_affinity: U64::new(2),
            initial_value: U64::new(41),
            flags: U64::new(0xFEDC_BA98_7654_3210),
            ..Default::default()
        };
        self.object(5, ObjectType::SEMAPHORE, &view::SemaphoreObject { header: &semaphore })?;
        let event = EventObject { queue_affinity: U64::new(3), flags: U32::new(0x80), ..Default::default() };
        self.object(6, ObjectType::EVENT, &view::EventObject { header: &event })?;
        let cache = ExecutableCacheObject { identifier_length: U64::new(7), ..Default::default() };
        let cache = view::ExecutableCacheObject { header: &cache, identifier: b"default" };
        self.object(7, ObjectType::EXECUTABLE_CACHE, &cache)
    }

    /// One file for each reference type and validation type, including unknown ones.
    fn files(&mut self) -> Result<()> {
        let kinds: [(u32, u32, &[u8]); 6] = [
            (1, 1, b"/models/with \"quotes\".irpa"),
            (1, 2, b"/models/digest.irpa"),
            (2, 0, b"all the bytes"),
            (3, 0, b""),
            (0, 0, b""),
            (77, 78, b"?"),
        ];
        for (kind, id) in kinds.into_iter().zip(20..) {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&0x0123_4567_89AB_CDEFu64.to_le_bytes());
            let file = FileObject {
                queue_affinity: U64::new(u64::MAX),
                file_length: U64::new(1000 + id),
                file_device: U64::new(66306),
                file_inode: U64::new(12_345_678),
                file_mtime_ns: U64::new(1_785_000_000_123_456_789),
                reference_length: U64::new(kind.2.len() as u64),
                access: U32::new(3),
                flags: U32::new(4),
                handle_type: U32::new(1),
                reference_type: U32::new(kind.0),
                validation_type: U32::new(kind.1),
                digest_type: U16::new(1),
                digest,
                ..Default::default()
            };
            self.object(id, ObjectType::FILE, &view::FileObject { header: &file, reference: kind.2 })?;
        }
        Ok(())
    }

    fn host_calls(&mut self) -> Result<()> {
        self.call(Op::ALLOCATOR_ALLOCATE_BUFFER, 2, &view::AllocateBuffer { header: &allocation() })?;
        let import = ImportBuffer {
            allocation: allocation(),
            external_type: U32::new(1),
            external_flags: U32::new(2),
            data_length: U64::new(5),
        };
        self.call(Op::ALLOCATOR_IMPORT_BUFFER, 2, &view::ImportBuffer { header: &import, data: b"hello" })?;
        let range = BufferRange {
            byte_offset: U64::new(16),
            byte_length: U64::new(32),
            mapping_mode: U32::new(2),
            memory_access: U16::new(1),
            ..Default::default()
        };
        for operation in [Op::BUFFER_MAP_RANGE, Op::BUFFER_INVALIDATE_RANGE, Op::BUFFER_UNMAP_RANGE] {
            self.call(operation, 3, &view::BufferRange { header: &range })?;
        }
        let data = BufferRangeData {
            byte_offset: U64::new(16),
            byte_length: U64::new(32),
            data_length: U64::new(3),
            mapping_mode: U32::new(1),
            memory_access: U16::new(6),
            ..Default::default()
        };
        self.call(Op::BUFFER_FLUSH_RANGE, 3, &view::BufferRangeData { header: &data, data: &[1, 2, 3] })
    }

    fn executables(&mut self) -> Result<()> {
        let functions = [("first", 1), ("", 0), ("zw\u{f6}lf \"\\\n", 2)];
        let names: String = functions.iter().map(|(name, _)| *name).collect();
        let mut metadata = zerocopy::IntoBytes::as_bytes(&ExecutableMetadataHeader {
            function_count: U64::new(3),
            parameter_count: U64::new(3),
            function_name_storage_length: U64::new(names.len() as u64),
            reserved1: U64::ZERO,
        })
        .to_vec();
        for (name, parameter_count) in functions {
            let function = FunctionMetadata {
                flags: U64::new(1),
                workgroup_size: [U32::new(8), U32::new(4), U32::new(1)],
                constant_count: U16::new(2),
                binding_count: U16::new(3),
                parameter_count: U16::new(parameter_count),
                name_length: U16::new(name.len() as u16),
                ..Default::default()
            };
            metadata.extend_from_slice(zerocopy::IntoBytes::as_bytes(&function));
        }
        metadata.extend_from_slice(&[0; 3 * size_of::<ParameterMetadata>()]);
        metadata.extend_from_slice(names.as_bytes());
        for metadata_bytes in [&metadata[..], &[]] {
            let prepare = ExecutablePrepare {
                queue_affinity: U64::new(1),
                executable_data_length: U64::new(11),
                constant_count: U64::new(2),
                caching_mode: U32::new(0x12),
                executable_format_length: U32::new(6),
                executable_metadata_length: U32::new(metadata_bytes.len() as u32),
                ..Default::default()
            };
            let prepare = view::ExecutablePrepare {
                header: &prepare,
                format: b"format",
                data: b"executable!",
                constants: &[U32::new(7), U32::new(8)],
                metadata_bytes,
            };
            self.call(Op::EXECUTABLE_CACHE_PREPARE_EXECUTABLE, 7, &prepare)?;
        }
        Ok(())
    }

    fn commands(&mut self) -> Result<()> {
        self.bare_call(Op::COMMAND_BUFFER_BEGIN, 4)?;
        let memory_barriers = [MemoryBarrier { source_scope: U32::new(1), target_scope: U32::new(2) }; 2];
        let buffer_barriers = [BufferBarrier { buffer_ref: range(3, 4), ..Default::default() }];
        let barrier = CommandBarrier {
            source_stage_mask: U64::new(0x10),
            target_stage_mask: U64::new(0x20),
            flags: U64::new(0x30),
            memory_barrier_count: U64::new(2),
            buffer_barrier_count: U64::new(1),
        };
        let (memory, buffer) = (&memory_barriers[..], &buffer_barriers[..]);
        let barrier =
            view::CommandBarrier { header: &barrier, memory_barriers: memory, buffer_barriers: buffer };
        self.call(Op::COMMAND_BUFFER_EXECUTION_BARRIER, 4, &barrier)?;
        let event = CommandEvent { event_id: U64::new(6), source_stage_mask: U64::new(0x40) };
        self.call(Op::COMMAND_BUFFER_SIGNAL_EVENT, 4, &view::CommandEvent { header: &event })?;
        self.call(Op::COMMAND_BUFFER_RESET_EVENT, 4, &view::CommandEvent { header: &event })?;
        let events = [U64::new(6), U64::new(60)];
        let wait = CommandWaitEvents {
            source_stage_mask: U64::new(1),
            target_stage_mask: U64::new(2),
            event_count: U64::new(2),
            memory_barrier_count: U64::new(2),
            buffer_barrier_count: U64::new(1),
            ..Default::default()
        };
        let wait = view::CommandWaitEvents {
            header: &wait,
            events: &events,
            memory_barriers: memory,
            buffer_barriers: buffer,
        };
        self.call(Op::COMMAND_BUFFER_WAIT_EVENTS, 4, &wait)?;
        self.command_transfers()?;
        self.call(Op::COMMAND_BUFFER_DISPATCH, 4, &dispatch(&header_of_dispatch(0, 0)))?;
        self.bare_call(Op::COMMAND_BUFFER_END, 4)
    }

    fn command_transfers(&mut self) -> Result<()> {
        let fill = CommandFill {
            target_ref: range(0, 2),
            flags: U32::new(1),
            pattern_length: U64::new(4),
            ..Default::default()
        };
        self.call(
            Op::COMMAND_BUFFER_FILL_BUFFER,
            4,
            &view::CommandFill { header: &fill, pattern: &[1, 2, 3, 4] },
        )?;
        let update = CommandUpdate {
            target_ref: range(3, 0),
            flags: U32::new(2),
            source_offset: U64::new(100),
            data_length: U64::new(1),
            ..Default::default()
        };
        self.call(Op::COMMAND_BUFFER_UPDATE_BUFFER, 4, &view::CommandUpdate { header: &update, data: b"u" })?;
        let copy = CommandCopy {
            source_ref: range(3, 0),
            target_ref: range(0, 1),
            flags: U32::new(3),
            ..Default::default()
        };
        self.call(Op::COMMAND_BUFFER_COPY_BUFFER, 4, &view::CommandCopy { header: &copy })
    }

    fn transfers(&mut self) -> Result<()> {
        let waits = timepoints();
        let fill = QueueFill {
            target_ref: range(3, 0),
            queue_affinity: U64::new(1),
            flags: U64::new(2),
            wait_semaphore_count: U64::new(2),
            signal_semaphore_count: U64::new(1),
            pattern_length: U64::new(2),
        };
        let fill =
            view::QueueFill { header: &fill, waits: &waits, signals: &waits[..1], pattern: &[0xAA, 0xBB] };
        self.call(Op::DEVICE_QUEUE_FILL, 1, &fill)?;
        let update = QueueUpdate {
            target_ref: range(3, 0),
            queue_affinity: U64::new(1),
            flags: U64::new(2),
            source_offset: U64::new(9),
            data_length: U64::new(6),
            wait_semaphore_count: U64::ZERO,
            signal_semaphore_count: U64::new(2),
        };
        let update = view::QueueUpdate { header: &update, waits: &[], signals: &waits, data: b"update" };
        self.call(Op::DEVICE_QUEUE_UPDATE, 1, &update)?;
        let copy = QueueCopy {
            source_ref: range(3, 0),
            target_ref: range(33, 0),
            queue_affinity: U64::new(4),
            flags: U64::new(5),
            wait_semaphore_count: U64::new(1),
            signal_semaphore_count: U64::ZERO,
        };
        let copy = view::QueueCopy { header: &copy, waits: &waits[1..], signals: &[] };
        self.call(Op::DEVICE_QUEUE_COPY, 1, &copy)
    }

    fn file_transfers(&mut self) -> Result<()> {
        let waits = timepoints();
        for captured_data in [&b"twelve bytes"[..], b""] {
            let read = QueueRead {
                source_file_id: U64::new(20),
                source_offset: U64::new(512),
                target_ref: range(3, 0),
                queue_affinity: U64::new(1),
                flags: U64::new(7),
                captured_data_length: U64::new(captured_data.len() as u64),
                wait_semaphore_count: U64::new(1),
                signal_semaphore_count: U64::new(1),
            };
            let (wait, signal) = (&waits[..1], &waits[1..]);
            let read = view::QueueRead { header: &read, waits: wait, signals: signal, captured_data };
            self.call(Op::DEVICE_QUEUE_READ, 1, &read)?;
        }
        let write = QueueWrite {
            source_ref: range(3, 0),
            target_file_id: U64::new(22),
            target_offset: U64::new(1024),
            queue_affinity: U64::new(1),
            flags: U64::new(8),
            wait_semaphore_count: U64::new(2),
            signal_semaphore_count: U64::ZERO,
        };
        let write = view::QueueWrite { header: &write, waits: &waits, signals: &[] };
        self.call(Op::DEVICE_QUEUE_WRITE, 1, &write)
    }

    fn submissions(&mut self) -> Result<()> {
        let waits = timepoints();
        let alloca = QueueAlloca {
            allocation: allocation(),
            queue_affinity: U64::new(11),
            flags: U64::new(12),
            wait_semaphore_count: U64::new(1),
            signal_semaphore_count: U64::new(2),
        };
        let alloca = view::QueueAlloca { header: &alloca, waits: &waits[..1], signals: &waits };
        self.call(Op::DEVICE_QUEUE_ALLOCA, 1, &alloca)?;
        let dealloca = QueueDealloca {
            buffer_ref: range(3, 0),
            queue_affinity: U64::new(11),
            flags: U64::new(12),
            wait_semaphore_count: U64::ZERO,
            signal_semaphore_count: U64::ZERO,
        };
        let dealloca = view::QueueDealloca { header: &dealloca, waits: &[], signals: &[] };
        self.call(Op::DEVICE_QUEUE_DEALLOCA, 1, &dealloca)?;
        let header = header_of_dispatch(2, 1);
        let queued = view::Dispatch { waits: &waits, signals: &waits[..1], ..dispatch(&header) };
        self.call(Op::DEVICE_QUEUE_DISPATCH, 1, &queued)?;
        for bindings in [&BINDINGS[..], &[]] {
            let execute = QueueExecute {
                command_buffer_id: U64::new(4),
                queue_affinity: U64::new(1),
                flags: U64::new(0x100),
                wait_semaphore_count: U64::new(2),
                signal_semaphore_count: U64::new(bindings.len() as u64 / 2),
                binding_count: U64::new(bindings.len() as u64),
            };
            let signals = &waits[..bindings.len() / 2];
            let execute = view::QueueExecute { header: &execute, waits: &waits, signals, bindings };
            self.call(Op::DEVICE_QUEUE_EXECUTE, 1, &execute)?;
        }
        Ok(())
    }

    fn scopes(&mut self) -> Result<()> {
        let names: [&[u8]; 5] = [
            b"execute",
            b"quote \" and backslash \\ and /",
            b"\x00\x01\x08\x09\x0a\x0b\x0c\x0d\x1b\x1f\x7f",
            "gr\u{fc}n \u{2713} \u{1f600}".as_bytes(),
            b"not UTF-8: \xff\xfe\x80",
        ];
        for name in names {
            for operation in [Op::REPLAY_SCOPE_BEGIN, Op::REPLAY_SCOPE_END] {
                let scope = Scope { name_length: U64::new(name.len() as u64), ..Default::default() };
                let fields =
                    RecordFields { record_type: RecordType::OPERATION, operation, ..Default::default() };
                self.writer.append_view(&fields, &view::Scope { header: &scope, name })?;
            }
        }
        Ok(())
    }

    /// Failed calls, with and without payload, and calls that could not be captured.
    fn failures(&mut self) -> Result<()> {
        let fields = RecordFields {
            operation: Op::ALLOCATOR_ALLOCATE_BUFFER,
            object_type: ObjectType::ALLOCATOR,
            object_id: 2,
            status_code: 8,
            ..CALL
        };
        self.writer.append_view(&fields, &view::AllocateBuffer { header: &allocation() })?;
        self.writer.append(&RecordFields { status_code: 18, ..fields }, &[])?;
        self.writer.append(&RecordFields { status_code: 17, ..fields }, &[])?;
        for operation in
            [Op::DEVICE_QUEUE_HOST_CALL, Op::DEVICE_CREATE_CHANNEL, Op::COMMAND_BUFFER_COLLECTIVE]
        {
            let object_type = operation.object_type().unwrap_or_default();
            let record_type = RecordType::UNSUPPORTED;
            let fields =
                RecordFields { record_type, operation, object_type, object_id: 1, status_code: 12, ..CALL };
            self.writer.append(&fields, &[])?;
        }
        Ok(())
    }

    /// Unknown values that a reader must tolerate.
    fn oddities(&mut self) -> Result<()> {
        let plain = RecordFields::default();
        let blob = RecordFields { record_type: RecordType::BLOB, ..plain };
        self.writer.append(&blob, &[b"blob", b"", b" in parts"])?;
        let optional = RecordFields { record_type: RecordType(900), optional: true, ..plain };
        self.writer.append(&optional, &[])?;
        self.writer.append(&RecordFields { object_id: u64::MAX, ..optional }, &[b"note"])?;
        self.writer
            .append(&RecordFields { payload_type: PayloadType(9000), ..optional }, &[b"typed note"])?;
        let flagged = RecordFields { record_type: RecordType::SESSION, optional: true, ..plain };
        self.writer.append(&flagged, &[])?;
        let codes = RecordFields {
            operation: Op(29),
            object_type: ObjectType(13),
            payload_type: PayloadType(28),
            thread_id: u64::MAX,
            related_object_id: 44,
            ..CALL
        };
        self.writer.append(&codes, &[b"?"])
    }

    fn object(&mut self, object_id: u64, object_type: ObjectType, view: &impl View) -> Result<()> {
        let fields = RecordFields { record_type: RecordType::OBJECT, object_id, object_type, ..CALL };
        self.writer.append_view(&fields, view)
    }

    fn call(&mut self, operation: Op, object_id: u64, view: &impl View) -> Result<()> {
        let object_type = operation.object_type().unwrap_or_default();
        let fields = RecordFields { operation, object_id, object_type, related_object_id: 8, ..CALL };
        self.writer.append_view(&fields, view)
    }

    fn bare_call(&mut self, operation: Op, object_id: u64) -> Result<()> {
        let object_type = operation.object_type().unwrap_or_default();
        self.writer.append(&RecordFields { operation, object_id, object_type, ..CALL }, &[])
    }
}

/// Fields common to all calls.
const CALL: RecordFields = RecordFields {
    record_type: RecordType::OPERATION,
    optional: false,
    thread_id: 4711,
    device_id: 1,
    object_id: 0,
    related_object_id: 0,
    payload_type: PayloadType::NONE,
    object_type: ObjectType::NONE,
    operation: Op::NONE,
    status_code: 0,
};

const BINDINGS: [BufferRef; 2] = [range(3, 0), range(0, 7)];

const fn range(buffer_id: u64, buffer_slot: u32) -> BufferRef {
    BufferRef {
        buffer_id: U64::new(buffer_id),
        offset: U64::new(128),
        length: U64::new(u64::MAX),
        buffer_slot: U32::new(buffer_slot),
        reserved0: U32::ZERO,
    }
}

fn allocation() -> AllocateBuffer {
    AllocateBuffer {
        allocation_size: U64::new(4096),
        queue_affinity: U64::new(u64::MAX),
        min_alignment: U64::new(64),
        usage: U32::new(0xF003),
        memory_type: U32::new(0x32),
        access: U16::new(7),
        ..Default::default()
    }
}

fn timepoints() -> [SemaphoreTimepoint; 2] {
    [(5, 1), (50, u64::MAX)]
        .map(|(id, value)| SemaphoreTimepoint { semaphore_id: U64::new(id), value: U64::new(value) })
}

fn header_of_dispatch(waits: u64, signals: u64) -> Dispatch {
    Dispatch {
        executable_id: U64::new(9),
        queue_affinity: U64::new(1),
        function_ordinal: U32::new(2),
        flags: U32::new(0x11),
        workgroup_size: [U32::new(1), U32::new(2), U32::new(3)],
        workgroup_count: [U32::new(4), U32::new(5), U32::new(6)],
        workgroup_count_ref: range(3, 0),
        dynamic_workgroup_local_memory: U32::new(65536),
        wait_semaphore_count: U64::new(waits),
        signal_semaphore_count: U64::new(signals),
        constants_length: U64::new(8),
        binding_count: U64::new(2),
        ..Default::default()
    }
}

fn dispatch(header: &Dispatch) -> view::Dispatch<'_> {
    view::Dispatch {
        header,
        waits: &[],
        signals: &[],
        constants: &[9, 0, 0, 0, 8, 0, 0, 0],
        bindings: &BINDINGS,
    }
}
