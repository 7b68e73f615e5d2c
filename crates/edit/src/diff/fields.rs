//! The fields of operations: one pass over the vocabulary, with which operations are both hashed and
//! compared.

use std::fmt::Debug;

use rehal_capture::layout;
use rehal_hal::{
    Binding, BufferParams, BufferRef, Command, CreateOp, Dispatch, FileSource, HostOp, InfoOp, MemoryBarrier,
    Op, QueueOp, RangeOp, WorkgroupCount,
};
use rehal_replay::{Ids, buffer_ref};
use serde::{Serialize, Serializer};

/// Bits of a type of bit fields, with their names.
macro_rules! flags {
    ($value:expr, $type:ty) => {
        Value::Flags(u64::from($value.bits()), |bits| names(<$type>::from_bits_retain(bits as _)))
    };
}

/// The name of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    /// The name of the field, or of the list that it is in.
    pub base: &'static str,
    /// The index in the list.
    pub index: Option<u32>,
    /// The part of a field, such as an offset; empty if it is the whole.
    pub part: &'static str,
}

/// The value of a field.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    /// Bits, and their names.
    Flags(u64, fn(u64) -> String),
    Triple([u32; 3]),
    /// A name.
    Text(&'a [u8]),
    /// The number of elements of a list.
    Count(u64),
    Object(ObjectKind, u64),
    /// A function, by executable and ordinal.
    Function(u64, u32),
    /// The program's data.
    Data(&'a [u8]),
    /// The timepoints that a submission waits for.
    Waits(&'a [layout::SemaphoreTimepoint]),
    /// The timepoints that a submission signals.
    Signals(&'a [layout::SemaphoreTimepoint]),
    /// The source of a file's bytes.
    Source(FileSource<&'a [u8]>),
    /// The bytes that were read from a file at an offset, if they were captured.
    FileRead {
        file: u64,
        offset: u64,
        captured: &'a [u8],
    },
    /// An object that the operation creates.
    Created(ObjectKind, u64),
}

/// Receives fields.
pub(super) trait Fields<'a> {
    fn field(&mut self, name: Name, value: Value<'a>);
}

/// Receives fields of parts of an operation.
struct Out<'f, F>(&'f mut F);

/// Passes the fields of `op` to `out`. Operations with the same operation code have the same fields, except
/// for the length of lists.
pub(super) fn write<'a, F: Fields<'a>>(op: &Op<Ids<'a>>, out: &mut F) {
    let mut out = Out(out);
    match op {
        Op::Host(op) => host(op, &mut out),
        Op::Info(op) => info(op, &mut out),
        Op::Command { into, command: op } => {
            out.object("command buffer", ObjectKind::CommandBuffer, *into);
            command(op, &mut out);
        }
        Op::Queue(it) => {
            out.object("device", ObjectKind::Device, it.device);
            out.number("queue affinity", it.affinity);
            queue(&it.op, &mut out);
            out.put("waits", Value::Waits(it.waits));
            out.put("signals", Value::Signals(it.signals));
        }
    }
}

/// The executable and the function that an operation dispatches.
pub(super) fn dispatched(op: &Op<Ids<'_>>) -> Option<(u64, u32)> {
    let op = match op {
        Op::Command { command, .. } => command.as_queue_op()?,
        Op::Queue(submission) => submission.op,
        Op::Host(_) | Op::Info(_) => return None,
    };
    match op {
        QueueOp::Dispatch(it) => Some((it.executable, it.function)),
        _ => None,
    }
}

impl<'a, F: Fields<'a>> Out<'_, F> {
    fn put(&mut self, base: &'static str, value: Value<'a>) {
        self.0.field(Name { base, index: None, part: "" }, value);
    }

    fn part(&mut self, base: &'static str, index: Option<u32>, part: &'static str, value: Value<'a>) {
        self.0.field(Name { base, index, part }, value);
    }

    fn number(&mut self, base: &'static str, value: u64) {
        self.put(base, Value::Number(value));
    }

    fn object(&mut self, base: &'static str, kind: ObjectKind, id: u64) {
        self.put(base, Value::Object(kind, id));
    }

    fn created(&mut self, kind: ObjectKind, id: u64) {
        self.put(kind.name(), Value::Created(kind, id));
    }

    fn range(&mut self, base: &'static str, index: Option<u32>, range: &BufferRef<u64>) {
        match range.binding {
            Binding::Direct(id) => self.part(base, index, "", Value::Object(ObjectKind::Buffer, id)),
            Binding::Slot(slot) => self.part(base, index, "slot", Value::Number(slot.into())),
        }
        self.part(base, index, "offset", Value::Number(range.offset));
        self.part(base, index, "length", Value::Number(range.length));
    }

    fn ranges(&mut self, base: &'static str, list: &[layout::BufferRef]) {
        self.put(base, Value::Count(list.len() as u64));
        for (index, it) in (0..).zip(list) {
            self.range(base, Some(index), &buffer_ref(it));
        }
    }

    /// 32-bit words, and what is left of them.
    fn words(&mut self, base: &'static str, bytes: &[u8]) {
        self.put(base, Value::Count((bytes.len() / 4) as u64));
        let (words, rest) = bytes.as_chunks::<4>();
        for (index, word) in (0..).zip(words) {
            let value = Value::Number(u32::from_le_bytes(*word).into());
            self.part(base, Some(index), "", value);
        }
        for (index, byte) in (0..).zip(rest) {
            self.part(base, Some(index), "byte after the last word", Value::Number((*byte).into()));
        }
    }

    fn params(&mut self, params: &BufferParams, size: u64) {
        self.number("size", size);
        self.put("usage", flags!(params.usage, rehal_hal::BufferUsage));
        self.put("access", flags!(params.access, rehal_hal::MemoryAccess));
        self.put("memory type", flags!(params.memory_type, rehal_hal::MemoryType));
        self.number("affinity", params.affinity);
        self.number("alignment", params.min_alignment);
    }

    fn barriers(&mut self, memory: &[layout::MemoryBarrier], buffers: &[layout::BufferBarrier]) {
        self.put("memory barriers", Value::Count(memory.len() as u64));
        for (index, it) in (0..).zip(memory) {
            self.scopes("memory barrier", index, it.source_scope.get(), it.target_scope.get());
        }
        self.put("buffer barriers", Value::Count(buffers.len() as u64));
        for (index, it) in (0..).zip(buffers) {
            self.scopes("buffer barrier", index, it.source_scope.get(), it.target_scope.get());
            self.range("buffer barrier", Some(index), &buffer_ref(&it.buffer_ref));
        }
    }

    fn scopes(&mut self, base: &'static str, index: u32, source: u32, target: u32) {
        let barrier = MemoryBarrier {
            source_scope: rehal_hal::AccessScope::from_bits_retain(source),
            target_scope: rehal_hal::AccessScope::from_bits_retain(target),
        };
        self.part(base, Some(index), "source", flags!(barrier.source_scope, rehal_hal::AccessScope));
        self.part(base, Some(index), "target", flags!(barrier.target_scope, rehal_hal::AccessScope));
    }
}

/// The names of bits, without the name of their type.
fn names(flags: impl Debug) -> String {
    let text = format!("{flags:?}");
    match text.split_once('(') {
        Some((_, rest)) => rest.trim_end_matches(')').to_string(),
        None => text,
    }
}

fn hexadecimal(bits: u64) -> String {
    format!("{bits:#x}")
}

fn host<'a, F: Fields<'a>>(op: &HostOp<Ids<'a>>, out: &mut Out<'_, F>) {
    match *op {
        HostOp::Create(ref op) => create(op, out),
        HostOp::BeginCommandBuffer { command_buffer } | HostOp::EndCommandBuffer { command_buffer } => {
            out.object("command buffer", ObjectKind::CommandBuffer, command_buffer);
        }
        HostOp::Map(ref range) | HostOp::Invalidate(ref range) => mapped(range, None, out),
        HostOp::Unmap(ref range, data) | HostOp::Flush(ref range, data) => mapped(range, data, out),
        HostOp::FlushQueue { device } | HostOp::Trim { device } => {
            out.object("device", ObjectKind::Device, device);
        }
        HostOp::TrimAllocator { allocator } => out.object("allocator", ObjectKind::Allocator, allocator),
        HostOp::ScopeBegin { name } | HostOp::ScopeEnd { name } => out.put("name", Value::Text(name)),
    }
}

fn mapped<'a, F: Fields<'a>>(range: &RangeOp<Ids<'a>>, data: Option<&'a [u8]>, out: &mut Out<'_, F>) {
    let RangeOp { buffer, offset, length, mode, access } = *range;
    out.object("buffer", ObjectKind::Buffer, buffer);
    out.number("offset", offset);
    out.number("length", length);
    out.put("mode", flags!(mode, rehal_hal::MappingMode));
    out.put("access", flags!(access, rehal_hal::MemoryAccess));
    out.put("data", Value::Data(data.unwrap_or_default()));
}

fn info<'a, F: Fields<'a>>(op: &InfoOp<Ids<'a>>, out: &mut Out<'_, F>) {
    match *op {
        InfoOp::AssignTopology { device }
        | InfoOp::BeginProfiling { device }
        | InfoOp::FlushProfiling { device }
        | InfoOp::EndProfiling { device }
        | InfoOp::BeginExternalCapture { device }
        | InfoOp::EndExternalCapture { device }
        | InfoOp::QueryDevice { device, .. } => out.object("device", ObjectKind::Device, device),
        InfoOp::QueryMemoryHeaps { allocator } => out.object("allocator", ObjectKind::Allocator, allocator),
        InfoOp::QueryExecutable { executable, .. } => {
            out.object("executable", ObjectKind::Executable, executable);
        }
    }
}

fn create<'a, F: Fields<'a>>(op: &CreateOp<Ids<'a>>, out: &mut Out<'_, F>) {
    match *op {
        CreateOp::Device { created } => out.created(ObjectKind::Device, created),
        CreateOp::Allocator { device, created } => {
            out.object("device", ObjectKind::Device, device);
            out.created(ObjectKind::Allocator, created);
        }
        CreateOp::Semaphore { device, affinity, initial_value, flags, created } => {
            out.object("device", ObjectKind::Device, device);
            out.number("affinity", affinity);
            out.number("initial value", initial_value);
            out.put("flags", flags!(flags, rehal_hal::SemaphoreFlags));
            out.created(ObjectKind::Semaphore, created);
        }
        CreateOp::CommandBuffer { device, params, created } => {
            out.object("device", ObjectKind::Device, device);
            out.put("mode", flags!(params.mode, rehal_hal::CommandBufferMode));
            out.put("categories", flags!(params.categories, rehal_hal::CommandCategories));
            out.number("affinity", params.affinity);
            out.number("binding capacity", params.binding_capacity);
            out.created(ObjectKind::CommandBuffer, created);
        }
        CreateOp::Event { device, affinity, flags, created } => {
            out.object("device", ObjectKind::Device, device);
            out.number("affinity", affinity);
            out.put("flags", Value::Flags(flags.into(), hexadecimal));
            out.created(ObjectKind::Event, created);
        }
        CreateOp::ExecutableCache { device, identifier, created } => {
            out.object("device", ObjectKind::Device, device);
            out.put("identifier", Value::Text(identifier));
            out.created(ObjectKind::ExecutableCache, created);
        }
        CreateOp::Executable(ref it) => {
            out.object("executable cache", ObjectKind::ExecutableCache, it.cache);
            out.number("affinity", it.affinity);
            out.put("caching mode", flags!(it.caching_mode, rehal_hal::CachingMode));
            out.put("format", Value::Text(it.format));
            out.put("code", Value::Data(it.data));
            out.words("constant", it.constants);
            // Functions are compared by name: see `executables.rs`.
            out.put("functions", Value::Data(it.metadata));
            out.created(ObjectKind::Executable, it.created);
        }
        CreateOp::File(ref it) => {
            out.object("device", ObjectKind::Device, it.device);
            out.number("affinity", it.affinity);
            out.put("access", flags!(it.access, rehal_hal::MemoryAccess));
            out.number("length", it.length);
            out.put("contents", Value::Source(it.source));
            out.created(ObjectKind::File, it.created);
        }
        CreateOp::Buffer { allocator, params, size, created } => {
            out.object("allocator", ObjectKind::Allocator, allocator);
            out.params(&params, size);
            out.created(ObjectKind::Buffer, created);
        }
        CreateOp::ImportedBuffer { allocator, params, size, flags, data, created } => {
            out.object("allocator", ObjectKind::Allocator, allocator);
            out.params(&params, size);
            out.put("flags", Value::Flags(flags.into(), hexadecimal));
            out.put("data", Value::Data(data));
            out.created(ObjectKind::Buffer, created);
        }
    }
}

fn command<'a, F: Fields<'a>>(op: &Command<Ids<'a>>, out: &mut Out<'_, F>) {
    let stages = |bits| Value::Flags(bits, |bits| names(rehal_hal::ExecutionStage::from_bits_retain(bits)));
    match *op {
        Command::ExecutionBarrier {
            source_stages,
            target_stages,
            flags,
            memory_barriers,
            buffer_barriers,
        } => {
            out.put("source stages", stages(source_stages.bits()));
            out.put("target stages", stages(target_stages.bits()));
            out.put("flags", Value::Flags(flags, hexadecimal));
            out.barriers(memory_barriers, buffer_barriers);
        }
        Command::SignalEvent { event, source_stages } | Command::ResetEvent { event, source_stages } => {
            out.object("event", ObjectKind::Event, event);
            out.put("source stages", stages(source_stages.bits()));
        }
        Command::WaitEvents { events, source_stages, target_stages, memory_barriers, buffer_barriers } => {
            out.put("events", Value::Count(events.len() as u64));
            for (index, event) in (0..).zip(events) {
                out.part("event", Some(index), "", Value::Object(ObjectKind::Event, event.get()));
            }
            out.put("source stages", stages(source_stages.bits()));
            out.put("target stages", stages(target_stages.bits()));
            out.barriers(memory_barriers, buffer_barriers);
        }
        Command::Advise { ref buffer, flags, arguments } => {
            out.range("buffer", None, buffer);
            out.put("flags", Value::Flags(flags, hexadecimal));
            arguments.into_iter().for_each(|argument| out.number("argument", argument));
        }
        Command::Fill { ref target, pattern, flags } => fill(target, pattern, flags, out),
        Command::Update { source, ref target, flags } => update(source, target, flags, out),
        Command::Copy { ref source, ref target, flags } => copy(source, target, flags, out),
        Command::Dispatch(ref it) => dispatch(it, out),
        Command::BeginDebugGroup { label, color } => {
            out.put("label", Value::Text(label));
            out.number("color", color.into());
        }
        Command::EndDebugGroup => {}
    }
}

fn queue<'a, F: Fields<'a>>(op: &QueueOp<Ids<'a>>, out: &mut Out<'_, F>) {
    match *op {
        QueueOp::Alloca { ref params, size, flags, created } => {
            out.params(params, size);
            out.put("flags", Value::Flags(flags, hexadecimal));
            out.created(ObjectKind::Buffer, created);
        }
        QueueOp::Dealloca { buffer, size, flags } => {
            out.object("buffer", ObjectKind::Buffer, buffer);
            out.number("size", size);
            out.put("flags", Value::Flags(flags, hexadecimal));
        }
        QueueOp::Fill { ref target, pattern, flags } => fill(target, pattern, flags, out),
        QueueOp::Update { source, ref target, flags } => update(source, target, flags, out),
        QueueOp::Copy { ref source, ref target, flags } => copy(source, target, flags, out),
        QueueOp::Read { file, file_offset, ref target, captured, flags } => {
            out.object("file", ObjectKind::File, file);
            out.number("file offset", file_offset);
            out.range("target", None, target);
            out.put("data", Value::FileRead { file, offset: file_offset, captured });
            out.put("flags", Value::Flags(flags, hexadecimal));
        }
        QueueOp::Write { ref source, file, file_offset, flags } => {
            out.range("source", None, source);
            out.object("file", ObjectKind::File, file);
            out.number("file offset", file_offset);
            out.put("flags", Value::Flags(flags, hexadecimal));
        }
        QueueOp::Dispatch(ref it) => dispatch(it, out),
        QueueOp::Execute { command_buffer, bindings, flags } => {
            out.object("command buffer", ObjectKind::CommandBuffer, command_buffer);
            out.ranges("binding", bindings);
            out.put("flags", Value::Flags(flags, hexadecimal));
        }
        QueueOp::Barrier { flags } => out.put("flags", Value::Flags(flags, hexadecimal)),
        QueueOp::HostCall { call, arguments, flags } => {
            out.number("call", call);
            for (index, argument) in (0..).zip(arguments) {
                out.part("argument", Some(index), "", Value::Number(argument));
            }
            out.put("flags", flags!(flags, rehal_hal::HostCallFlags));
        }
    }
}

fn fill<'a, F: Fields<'a>>(target: &BufferRef<u64>, pattern: &'a [u8], flags: u64, out: &mut Out<'_, F>) {
    out.range("target", None, target);
    out.number("pattern length", pattern.len() as u64);
    let pattern = pattern.iter().rev().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
    out.put("pattern", Value::Flags(pattern, hexadecimal));
    out.put("flags", Value::Flags(flags, hexadecimal));
}

fn update<'a, F: Fields<'a>>(source: &'a [u8], target: &BufferRef<u64>, flags: u64, out: &mut Out<'_, F>) {
    out.range("target", None, target);
    out.put("data", Value::Data(source));
    out.put("flags", Value::Flags(flags, hexadecimal));
}

fn copy<'a, F: Fields<'a>>(
    source: &BufferRef<u64>,
    target: &BufferRef<u64>,
    flags: u64,
    out: &mut Out<'_, F>,
) {
    out.range("source", None, source);
    out.range("target", None, target);
    out.put("flags", Value::Flags(flags, hexadecimal));
}

fn dispatch<'a, F: Fields<'a>>(it: &Dispatch<Ids<'a>>, out: &mut Out<'_, F>) {
    out.put("function", Value::Function(it.executable, it.function));
    out.put("workgroup size", Value::Triple(it.workgroup_size));
    match &it.workgroup_count {
        WorkgroupCount::Static(count) => out.put("workgroup count", Value::Triple(*count)),
        WorkgroupCount::Indirect(range) => out.range("workgroup count", None, range),
    }
    out.number("dynamic local memory", it.dynamic_local_memory.into());
    out.words("constant", it.constants);
    out.ranges("binding", it.bindings);
    out.put("flags", flags!(it.flags, rehal_hal::DispatchFlags));
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the HAL")]
pub enum ObjectKind {
    Device,
    Allocator,
    Buffer,
    Semaphore,
    CommandBuffer,
    ExecutableCache,
    Executable,
    File,
    Event,
}

impl Serialize for ObjectKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Device,
        Self::Allocator,
        Self::Buffer,
        Self::Semaphore,
        Self::CommandBuffer,
        Self::ExecutableCache,
        Self::Executable,
        Self::File,
        Self::Event,
    ];

    /// Its name, such as `command buffer`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Allocator => "allocator",
            Self::Buffer => "buffer",
            Self::Semaphore => "semaphore",
            Self::CommandBuffer => "command buffer",
            Self::ExecutableCache => "executable cache",
            Self::Executable => "executable",
            Self::File => "file",
            Self::Event => "event",
        }
    }
}
