use std::io::Cursor;

use rehal_capture::layout::*;
use rehal_capture::payload::{self as view, View};
use rehal_capture::{ObjectType, OperationCode as Op, PayloadType, RecordFields, RecordType, Writer};
use rehal_hal::FunctionInfo;
use rehal_replay::RecordLocation;
use zerocopy::little_endian::{U16, U32, U64};

use super::payloads::{FileSpec, allocation, metadata, timepoints};
use super::{FAKE_FORMAT, FakeCode, Id, whole};

/// Builds a capture record by record, valid or malformed. Calls that create an object return its id.
///
/// It has its own semaphore: each queue operation waits for the previous one's signal and signals the next
/// value, unless [`CaptureBuilder::order`] overrides this for it.
#[derive(Clone)]
pub struct CaptureBuilder {
    /// The records so far: fields and payload of each.
    pub records: Vec<(RecordFields, Vec<u8>)>,
    /// 2, or 1 for a capture without function names.
    pub version_major: u16,
    /// The device of the next operations.
    pub device: Id,
    /// The allocator of the next buffers.
    pub allocator: Id,
    /// The semaphore that orders queue operations, and its current value.
    pub timeline: Id,
    pub now: u64,
    /// The id of the next object.
    pub next_id: Id,
    next_order: Option<(Vec<SemaphoreTimepoint>, Vec<SemaphoreTimepoint>)>,
}

impl CaptureBuilder {
    /// A capture of a session without any records.
    pub fn empty() -> Self {
        let mut this = Self {
            records: Vec::new(),
            version_major: 2,
            device: 0,
            allocator: 0,
            timeline: 0,
            now: 0,
            next_id: 1,
            next_order: None,
        };
        this.push(RecordFields { record_type: RecordType::SESSION, ..RecordFields::default() }, &[]);
        this
    }

    /// A capture with a device, its allocator and a semaphore that orders queue operations.
    pub fn new() -> Self {
        let mut this = Self::empty();
        this.device = this.device();
        this.allocator = this.allocator(this.device);
        this.timeline = this.semaphore(0);
        this
    }

    /// Closes the capture and returns its bytes.
    pub fn finish(&self) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut bytes).unwrap();
        for (fields, payload) in &self.records {
            // The writer rejects records that no reader could skip; their type is patched below.
            let unknown = !fields.record_type.is_known() && !fields.optional;
            let written =
                if unknown { RecordFields { record_type: RecordType::BLOB, ..*fields } } else { *fields };
            writer.append(&written, &[payload]).unwrap();
        }
        writer.close().unwrap();
        let mut bytes = bytes.into_inner();
        bytes[4] = self.version_major as u8;
        let mut at = size_of::<FileHeader>();
        for (fields, _) in &self.records {
            let record_type = at + std::mem::offset_of!(RecordHeader, record_type);
            bytes[record_type..record_type + 2].copy_from_slice(&fields.record_type.0.to_le_bytes());
            // The length of the record, which may be aligned.
            at += u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        }
        bytes
    }

    /// The location of the last record.
    pub fn place(&self) -> RecordLocation {
        let index = self.records.len() - 1;
        let before: usize =
            self.records[..index].iter().map(|(_, payload)| size_of::<RecordHeader>() + payload.len()).sum();
        RecordLocation { ordinal: index as u32, offset: (size_of::<FileHeader>() + before) as u64 }
    }

    /// The fields of the last record, for modification.
    pub fn last(&mut self) -> &mut RecordFields {
        &mut self.records.last_mut().unwrap().0
    }

    /// The payload of the last record, for modification.
    pub fn last_payload(&mut self) -> &mut Vec<u8> {
        &mut self.records.last_mut().unwrap().1
    }

    /// Sets the waits and signals of the next queue operation.
    pub fn order(&mut self, waits: &[(Id, u64)], signals: &[(Id, u64)]) -> &mut Self {
        self.next_order = Some((timepoints(waits), timepoints(signals)));
        self
    }

    fn take_order(&mut self) -> (Vec<SemaphoreTimepoint>, Vec<SemaphoreTimepoint>) {
        if let Some(order) = self.next_order.take() {
            return order;
        }
        self.now += 1;
        let waits = if self.now > 1 { timepoints(&[(self.timeline, self.now - 1)]) } else { Vec::new() };
        (waits, timepoints(&[(self.timeline, self.now)]))
    }

    /// Allocates an object id.
    pub fn new_id(&mut self) -> Id {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Appends an arbitrary record.
    pub fn push(&mut self, fields: RecordFields, payload: &[u8]) {
        self.records.push((fields, payload.to_vec()));
    }

    /// Appends an operation on an object, with a payload.
    pub fn call(&mut self, operation: Op, on: Id, created: Id, view: &impl View) {
        let payload = view.with_parts(|parts| parts.concat());
        self.push(
            RecordFields { payload_type: type_of(view), ..self.fields(operation, on, created) },
            &payload,
        );
    }

    /// Appends an operation on an object, without a payload.
    pub fn bare_call(&mut self, operation: Op, on: Id) {
        self.push(self.fields(operation, on, 0), &[]);
    }

    /// Appends the record of an object without a payload.
    pub fn object(&mut self, object_type: ObjectType, id: Id, device: Id) {
        let record_type = RecordType::OBJECT;
        let fields = RecordFields {
            record_type,
            object_type,
            object_id: id,
            device_id: device,
            ..RecordFields::default()
        };
        self.push(fields, &[]);
    }

    fn fields(&self, operation: Op, on: Id, created: Id) -> RecordFields {
        RecordFields {
            record_type: RecordType::OPERATION,
            device_id: self.device,
            object_id: on,
            related_object_id: created,
            object_type: operation.object_type().unwrap_or_default(),
            operation,
            ..RecordFields::default()
        }
    }
}

/// Objects.
impl CaptureBuilder {
    pub fn device(&mut self) -> Id {
        let id = self.new_id();
        self.object(ObjectType::DEVICE, id, id);
        id
    }

    pub fn allocator(&mut self, device: Id) -> Id {
        let id = self.new_id();
        self.object(ObjectType::ALLOCATOR, id, device);
        id
    }

    pub fn semaphore(&mut self, initial_value: u64) -> Id {
        let id = self.new_id();
        let header = SemaphoreObject {
            queue_affinity: U64::new(u64::MAX),
            initial_value: U64::new(initial_value),
            ..SemaphoreObject::default()
        };
        self.call(Op::DEVICE_CREATE_SEMAPHORE, self.device, id, &view::SemaphoreObject { header: &header });
        id
    }

    pub fn event(&mut self) -> Id {
        let id = self.new_id();
        let header = EventObject { queue_affinity: U64::new(u64::MAX), ..EventObject::default() };
        self.call(Op::DEVICE_CREATE_EVENT, self.device, id, &view::EventObject { header: &header });
        id
    }

    /// A mappable buffer that allows every use.
    pub fn buffer(&mut self, size: u64) -> Id {
        self.buffer_with(allocation(size))
    }

    pub fn buffer_with(&mut self, allocation: AllocateBuffer) -> Id {
        let id = self.new_id();
        let view = view::AllocateBuffer { header: &allocation };
        self.call(Op::ALLOCATOR_ALLOCATE_BUFFER, self.allocator, id, &view);
        id
    }

    /// A buffer imported from memory of type `external_type`; 1 is a host allocation.
    pub fn import_buffer(&mut self, external_type: u32, size: u64, data: &[u8]) -> Id {
        let id = self.new_id();
        let header = ImportBuffer {
            allocation: allocation(size),
            external_type: U32::new(external_type),
            external_flags: U32::ZERO,
            data_length: U64::new(data.len() as u64),
        };
        let view = view::ImportBuffer { header: &header, data };
        self.call(Op::ALLOCATOR_IMPORT_BUFFER, self.allocator, id, &view);
        id
    }

    pub fn file(&mut self, spec: &FileSpec) -> Id {
        let id = self.new_id();
        let mut header = spec.header;
        header.reference_length = U64::new(spec.reference.len() as u64);
        let view = view::FileObject { header: &header, reference: &spec.reference };
        self.call(Op::DEVICE_IMPORT_FILE, self.device, id, &view);
        id
    }

    pub fn cache(&mut self) -> Id {
        let id = self.new_id();
        let header = ExecutableCacheObject::default();
        let view = view::ExecutableCacheObject { header: &header, identifier: b"" };
        self.call(Op::DEVICE_CREATE_EXECUTABLE_CACHE, self.device, id, &view);
        id
    }

    /// An executable of the test device, with the device's description of its functions.
    pub fn executable(&mut self, cache: Id, code: &FakeCode) -> Id {
        self.executable_with(cache, FAKE_FORMAT, &code.encode(), &code.functions)
    }

    pub fn executable_with(
        &mut self,
        cache: Id,
        format: &str,
        data: &[u8],
        functions: &[FunctionInfo],
    ) -> Id {
        let id = self.new_id();
        let metadata = metadata(functions, self.version_major > 1);
        self.prepare(cache, id, format, data, &metadata);
        id
    }

    pub fn prepare(&mut self, cache: Id, id: Id, format: &str, data: &[u8], metadata: &[u8]) {
        let header = ExecutablePrepare {
            queue_affinity: U64::new(u64::MAX),
            executable_data_length: U64::new(data.len() as u64),
            executable_format_length: U32::new(format.len() as u32),
            executable_metadata_length: U32::new(metadata.len() as u32),
            ..ExecutablePrepare::default()
        };
        let view = view::ExecutablePrepare {
            header: &header,
            format: format.as_bytes(),
            data,
            constants: &[],
            metadata_bytes: metadata,
        };
        self.call(Op::EXECUTABLE_CACHE_PREPARE_EXECUTABLE, cache, id, &view);
    }
}

/// Host operations.
impl CaptureBuilder {
    pub fn scope_begin(&mut self, name: &str) {
        self.scope(Op::REPLAY_SCOPE_BEGIN, name.as_bytes());
    }

    pub fn scope_end(&mut self, name: &str) {
        self.scope(Op::REPLAY_SCOPE_END, name.as_bytes());
    }

    pub fn scope(&mut self, operation: Op, name: &[u8]) {
        let header = Scope { name_length: U64::new(name.len() as u64), ..Scope::default() };
        self.call(operation, 0, 0, &view::Scope { header: &header, name });
    }

    /// Map, unmap, invalidate or flush, without bytes. `mode` is 1 for scoped and 2 for persistent; `access`
    /// is 1 for reads and 2 for writes.
    pub fn range(&mut self, operation: Op, buffer: Id, offset: u64, length: u64, mode: u32, access: u16) {
        let header = BufferRange {
            byte_offset: U64::new(offset),
            byte_length: U64::new(length),
            mapping_mode: U32::new(mode),
            memory_access: U16::new(access),
            ..BufferRange::default()
        };
        self.call(operation, buffer, 0, &view::BufferRange { header: &header });
    }

    /// Unmap or flush of a range of `length` bytes with its written bytes.
    pub fn written(&mut self, operation: Op, buffer: Id, offset: u64, length: u64, data: &[u8]) {
        let header = BufferRangeData {
            byte_offset: U64::new(offset),
            byte_length: U64::new(length),
            data_length: U64::new(data.len() as u64),
            mapping_mode: U32::new(1),
            memory_access: U16::new(6),
            ..BufferRangeData::default()
        };
        self.call(operation, buffer, 0, &view::BufferRangeData { header: &header, data });
    }

    /// Writes to a buffer like a program: map, then unmap with the bytes.
    pub fn write(&mut self, buffer: Id, offset: u64, data: &[u8]) {
        let length = data.len() as u64;
        self.range(Op::BUFFER_MAP_RANGE, buffer, offset, length, 1, 6);
        self.written(Op::BUFFER_UNMAP_RANGE, buffer, offset, length, data);
    }

    /// Reads a buffer like a program: map, then unmap.
    pub fn read(&mut self, buffer: Id, offset: u64, length: u64) {
        self.range(Op::BUFFER_MAP_RANGE, buffer, offset, length, 1, 1);
        self.range(Op::BUFFER_UNMAP_RANGE, buffer, offset, length, 0, 1);
    }
}

/// Command buffers.
impl CaptureBuilder {
    /// A command buffer with `binding_capacity` slots that accepts all commands.
    pub fn command_buffer(&mut self, binding_capacity: u64) -> Id {
        let id = self.new_id();
        let header = CommandBufferObject {
            mode: U32::ZERO,
            command_categories: U32::new(3),
            queue_affinity: U64::new(u64::MAX),
            binding_capacity: U64::new(binding_capacity),
        };
        let view = view::CommandBufferObject { header: &header };
        self.call(Op::DEVICE_CREATE_COMMAND_BUFFER, self.device, id, &view);
        id
    }

    /// A command buffer with the commands recorded by `record`.
    pub fn commands(&mut self, binding_capacity: u64, record: impl FnOnce(&mut Self, Id)) -> Id {
        let id = self.command_buffer(binding_capacity);
        self.bare_call(Op::COMMAND_BUFFER_BEGIN, id);
        record(self, id);
        self.bare_call(Op::COMMAND_BUFFER_END, id);
        id
    }

    pub fn command_fill(&mut self, into: Id, target: BufferRef, pattern: &[u8]) {
        let header = CommandFill {
            target_ref: target,
            pattern_length: U64::new(pattern.len() as u64),
            ..CommandFill::default()
        };
        self.call(Op::COMMAND_BUFFER_FILL_BUFFER, into, 0, &view::CommandFill { header: &header, pattern });
    }

    pub fn command_update(&mut self, into: Id, target: BufferRef, data: &[u8]) {
        let header = CommandUpdate {
            target_ref: target,
            data_length: U64::new(data.len() as u64),
            ..CommandUpdate::default()
        };
        self.call(Op::COMMAND_BUFFER_UPDATE_BUFFER, into, 0, &view::CommandUpdate { header: &header, data });
    }

    pub fn command_copy(&mut self, into: Id, source: BufferRef, target: BufferRef) {
        let header = CommandCopy { source_ref: source, target_ref: target, ..CommandCopy::default() };
        self.call(Op::COMMAND_BUFFER_COPY_BUFFER, into, 0, &view::CommandCopy { header: &header });
    }

    /// A barrier for all memory and for buffer ranges.
    pub fn command_barrier(&mut self, into: Id, memory: &[MemoryBarrier], buffers: &[BufferBarrier]) {
        let header = CommandBarrier {
            source_stage_mask: U64::new(4),
            target_stage_mask: U64::new(8),
            flags: U64::ZERO,
            memory_barrier_count: U64::new(memory.len() as u64),
            buffer_barrier_count: U64::new(buffers.len() as u64),
        };
        let view =
            view::CommandBarrier { header: &header, memory_barriers: memory, buffer_barriers: buffers };
        self.call(Op::COMMAND_BUFFER_EXECUTION_BARRIER, into, 0, &view);
    }

    pub fn command_event(&mut self, operation: Op, into: Id, event: Id) {
        let header = CommandEvent { event_id: U64::new(event), source_stage_mask: U64::new(16) };
        self.call(operation, into, 0, &view::CommandEvent { header: &header });
    }

    pub fn command_wait_events(
        &mut self,
        into: Id,
        events: &[Id],
        memory: &[MemoryBarrier],
        buffers: &[BufferBarrier],
    ) {
        let events: Vec<_> = events.iter().map(|id| U64::new(*id)).collect();
        let header = CommandWaitEvents {
            source_stage_mask: U64::new(16),
            target_stage_mask: U64::new(1),
            event_count: U64::new(events.len() as u64),
            memory_barrier_count: U64::new(memory.len() as u64),
            buffer_barrier_count: U64::new(buffers.len() as u64),
            reserved0: U64::ZERO,
        };
        let view = view::CommandWaitEvents {
            header: &header,
            events: &events,
            memory_barriers: memory,
            buffer_barriers: buffers,
        };
        self.call(Op::COMMAND_BUFFER_WAIT_EVENTS, into, 0, &view);
    }

    pub fn command_dispatch(
        &mut self,
        into: Id,
        header: &Dispatch,
        constants: &[u8],
        bindings: &[BufferRef],
    ) {
        let header = dispatch_header(header, constants, bindings);
        let view = view::Dispatch { header: &header, waits: &[], signals: &[], constants, bindings };
        self.call(Op::COMMAND_BUFFER_DISPATCH, into, 0, &view);
    }
}

/// Appends a queue operation on any queue, with the builder's order: its code, the object that it creates,
/// the fields of its header that are not zero, and the parts that follow the header.
macro_rules! queue {
    ($self:ident, $code:ident, $created:expr, $name:ident { $($field:ident $(: $value:expr)?),* $(,)? }
        $(, $part:ident)*) => {{
        let (waits, signals) = $self.take_order();
        let header = $name {
            queue_affinity: U64::new(u64::MAX),
            wait_semaphore_count: U64::new(waits.len() as u64),
            signal_semaphore_count: U64::new(signals.len() as u64),
            $($field $(: $value)?,)*
            ..$name::default()
        };
        let view = view::$name { header: &header, waits: &waits, signals: &signals $(, $part)* };
        $self.call(Op::$code, $self.device, $created, &view);
    }};
}

/// Queue operations.
impl CaptureBuilder {
    pub fn fill(&mut self, target: BufferRef, pattern: &[u8]) {
        queue!(
            self,
            DEVICE_QUEUE_FILL,
            0,
            QueueFill { target_ref: target, pattern_length: U64::new(pattern.len() as u64) },
            pattern
        );
    }

    pub fn update(&mut self, target: BufferRef, data: &[u8]) {
        queue!(
            self,
            DEVICE_QUEUE_UPDATE,
            0,
            QueueUpdate { target_ref: target, data_length: U64::new(data.len() as u64) },
            data
        );
    }

    pub fn copy(&mut self, source: BufferRef, target: BufferRef) {
        queue!(self, DEVICE_QUEUE_COPY, 0, QueueCopy { source_ref: source, target_ref: target });
    }

    /// A read of a file, with its bytes if the policy was to capture them.
    pub fn file_read(&mut self, file: Id, file_offset: u64, target: BufferRef, captured_data: &[u8]) {
        queue!(
            self,
            DEVICE_QUEUE_READ,
            0,
            QueueRead {
                source_file_id: U64::new(file),
                source_offset: U64::new(file_offset),
                target_ref: target,
                captured_data_length: U64::new(captured_data.len() as u64),
            },
            captured_data
        );
    }

    pub fn file_write(&mut self, source: BufferRef, file: Id, file_offset: u64) {
        queue!(
            self,
            DEVICE_QUEUE_WRITE,
            0,
            QueueWrite {
                source_ref: source,
                target_file_id: U64::new(file),
                target_offset: U64::new(file_offset),
            }
        );
    }

    pub fn alloca(&mut self, size: u64) -> Id {
        let id = self.new_id();
        queue!(self, DEVICE_QUEUE_ALLOCA, id, QueueAlloca { allocation: allocation(size) });
        id
    }

    pub fn dealloca(&mut self, buffer: Id) {
        self.dealloca_ref(whole(buffer));
    }

    pub fn dealloca_ref(&mut self, buffer_ref: BufferRef) {
        queue!(self, DEVICE_QUEUE_DEALLOCA, 0, QueueDealloca { buffer_ref });
    }

    /// Executes a command buffer; 0 is a barrier.
    pub fn execute(&mut self, command_buffer: Id, bindings: &[BufferRef]) {
        queue!(
            self,
            DEVICE_QUEUE_EXECUTE,
            0,
            QueueExecute {
                command_buffer_id: U64::new(command_buffer),
                binding_count: U64::new(bindings.len() as u64),
            },
            bindings
        );
    }

    pub fn dispatch(&mut self, header: &Dispatch, constants: &[u8], bindings: &[BufferRef]) {
        let (waits, signals) = self.take_order();
        let header = Dispatch {
            queue_affinity: U64::new(u64::MAX),
            wait_semaphore_count: U64::new(waits.len() as u64),
            signal_semaphore_count: U64::new(signals.len() as u64),
            ..dispatch_header(header, constants, bindings)
        };
        let view = view::Dispatch { header: &header, waits: &waits, signals: &signals, constants, bindings };
        self.call(Op::DEVICE_QUEUE_DISPATCH, self.device, 0, &view);
    }

    /// A dispatch of `function` of `executable` with the given workgroup count.
    pub fn kernel(executable: Id, function: u32, workgroup_count: [u32; 3]) -> Dispatch {
        Dispatch {
            executable_id: U64::new(executable),
            function_ordinal: U32::new(function),
            workgroup_count: workgroup_count.map(U32::new),
            ..Dispatch::default()
        }
    }
}

fn dispatch_header(header: &Dispatch, constants: &[u8], bindings: &[BufferRef]) -> Dispatch {
    Dispatch {
        constants_length: U64::new(constants.len() as u64),
        binding_count: U64::new(bindings.len() as u64),
        ..*header
    }
}

fn type_of<V: View>(_: &V) -> PayloadType {
    V::TYPE
}
