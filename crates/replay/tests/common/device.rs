//! A synchronous device over host memory that keeps a log, so that a test can see the calls of a replay. It
//! grants exactly what is requested and is strict: waits must be reached, events signalled, formats known.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::profile::{ProfileData, ProfileRequest};
use rehal_hal::{
    Binding, Buffer, BufferBarrier, BufferParams, BufferRef, Command, CommandBuffer, CommandBufferBackend,
    CommandBufferParams, Device, DeviceBackend, DeviceInfo, Dispatch, Event, EventBackend, Executable,
    ExecutableBackend, ExecutableParams, File, FunctionInfo, HostFile, HostMemory, Indexed, Live,
    MemoryAccess, MemoryBarrier, MemoryStatistics, PlainBuffer, QueueAffinity, QueueOp, Semaphore,
    SemaphoreFlags, Span, Store, Submission, Timeline, WHOLE_BUFFER, WorkgroupCount, unsupported,
};
use serde_json::{Value, json};

/// The format that the device infers from the bytes.
pub const FAKE_FORMAT: &str = "fake";
/// A format for the same bytes that is never inferred and must be given.
pub const FAKE_RAW_FORMAT: &str = "fake-raw";
const MAGIC: &[u8] = b"FAKE";

/// The rendezvous of two functions named `meets`.
static MEETING: std::sync::Barrier = std::sync::Barrier::new(2);

/// An action of the device.
#[derive(Clone, Debug, PartialEq)]
pub enum Ran {
    /// An executable with this name and format was prepared.
    Prepared {
        name: String,
        format: String,
    },
    /// A dispatch ran.
    Dispatch {
        executable: String,
        function: String,
        constants: Vec<u8>,
        bindings: Vec<Bound>,
        workgroup_count: [u32; 3],
        workgroup_size: [u32; 3],
        local_memory: u32,
    },
    /// A barrier in a command buffer, with its memory barrier and buffer ranges.
    Barrier {
        memory: Vec<MemoryBarrier>,
        buffers: Vec<(u64, u64)>,
    },
    /// An event was signalled or reset.
    Signalled,
    Reset,
    /// This number of events was waited for.
    Waited {
        events: usize,
        memory: Vec<MemoryBarrier>,
        buffers: Vec<(u64, u64)>,
    },
    /// Another queue operation completed.
    Queue(&'static str),
    /// The queues with this affinity were flushed.
    Flushed(QueueAffinity),
    /// The device's caches were trimmed.
    Trimmed,
}

/// All queues were flushed.
pub const FLUSHED: Ran = Ran::Flushed(rehal_hal::QUEUE_AFFINITY_ANY);

/// A binding of a dispatch: its range in the buffer, and its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// An executable of the device: functions that add a number to each byte of their first binding. A function
/// named `fails` fails instead; `meets` first waits until another one runs; `resumes` fills the binding with
/// 5s, or with 9s if its first byte is 0, and then sets that to 1.
#[derive(Clone, Debug)]
pub struct FakeCode {
    pub name: String,
    pub adds: u8,
    pub functions: Vec<FunctionInfo>,
}

/// An executable with these functions.
pub fn code(name: &str, adds: u8, functions: &[FunctionInfo]) -> FakeCode {
    FakeCode { name: name.into(), adds, functions: functions.to_vec() }
}

/// A function with these counts of constants and bindings and a workgroup size of one.
pub fn function(name: &str, constant_count: u16, binding_count: u16) -> FunctionInfo {
    FunctionInfo {
        name: name.into(),
        workgroup_size: [1, 1, 1],
        constant_count,
        binding_count,
        ..FunctionInfo::default()
    }
}

impl FakeCode {
    /// The bytes of an executable.
    pub fn encode(&self) -> Vec<u8> {
        let functions: Vec<_> = self.functions.iter().map(encode_function).collect();
        let text = json!({ "name": self.name, "adds": self.adds, "functions": functions }).to_string();
        [MAGIC, text.as_bytes()].concat()
    }

    fn decode(data: &[u8]) -> Result<Self> {
        let wrong = || Error::invalid_argument("not an executable of the test device");
        let text = data.strip_prefix(MAGIC).ok_or_else(wrong)?;
        let value: Value = serde_json::from_slice(text).map_err(|_| wrong())?;
        let functions = value["functions"].as_array().ok_or_else(wrong)?;
        Ok(Self {
            name: value["name"].as_str().ok_or_else(wrong)?.into(),
            adds: number(&value["adds"]) as u8,
            functions: functions.iter().map(decode_function).collect(),
        })
    }
}

fn encode_function(it: &FunctionInfo) -> Value {
    let parameters: Vec<_> =
        it.parameters.iter().map(|p| json!([p.kind, p.size, p.flags, p.offset])).collect();
    let [x, y, z] = it.workgroup_size;
    json!({
        "name": it.name,
        "shape": [it.flags, it.constant_count, it.binding_count, x, y, z],
        "parameters": parameters,
        "parameter_count": parameters.len().max(usize::from(it.parameter_count)),
    })
}

fn decode_function(value: &Value) -> FunctionInfo {
    let shape = |index: usize| number(&value["shape"][index]);
    let parameters = value["parameters"].as_array().into_iter().flatten();
    FunctionInfo {
        name: value["name"].as_str().unwrap_or_default().into(),
        flags: shape(0),
        constant_count: shape(1) as u16,
        binding_count: shape(2) as u16,
        workgroup_size: [shape(3) as u32, shape(4) as u32, shape(5) as u32],
        parameter_count: number(&value["parameter_count"]) as u16,
        parameters: parameters
            .map(|p| rehal_hal::FunctionParameter {
                kind: number(&p[0]) as u8,
                size: number(&p[1]) as u8,
                flags: number(&p[2]) as u16,
                offset: number(&p[3]) as u16,
                name: String::new(),
            })
            .collect(),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// The device.
pub struct TestDevice {
    info: DeviceInfo,
    log: Arc<Log>,
}

type Log = Mutex<Vec<Ran>>;

impl TestDevice {
    /// Creates the device and its log.
    pub fn create() -> (Device, Arc<Log>) {
        let log = Arc::new(Log::default());
        let info = DeviceInfo {
            driver: "test".into(),
            formats: &[],
            name: "test".into(),
            is_synchronous: false,
            uses_host_memory: false,
            zeroes_memory: true,
            can_be_lost: false,
            is_emulated: false,
            uuid: None,
            limits: None,
        };
        (Device::new(Self { info, log: log.clone() }), log)
    }

    fn run(&self, op: &QueueOp<Live<'_>>) -> Result<()> {
        let mut store = Store::default();
        let kept = op.rename(&mut store)?;
        Stored { store: &store, table: &[], log: &self.log }.run(&kept)?;
        if !matches!(op, QueueOp::Dispatch(_)) {
            self.log.lock().unwrap().push(Ran::Queue(op.name()));
        }
        Ok(())
    }
}

impl DeviceBackend for TestDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        Err(Error::not_found(format!("{category} :: {key}")))
    }

    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        Ok(params)
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        Ok(Buffer::new(params, size, PlainBuffer::allocate(size)?))
    }

    fn create_semaphore(
        &self,
        _affinity: QueueAffinity,
        initial_value: u64,
        _flags: SemaphoreFlags,
    ) -> Result<Semaphore> {
        Ok(Semaphore::new(Timeline::new(initial_value)))
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        Ok(CommandBuffer::new(params, Commands::default()))
    }

    fn create_event(&self, _affinity: QueueAffinity, _flags: u32) -> Result<Event> {
        Ok(Event::new(TestEvent::default()))
    }

    fn import_buffer(&self, _params: BufferParams, _memory: HostMemory) -> Result<Buffer> {
        Err(unsupported(&self.info, "host memory"))
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<()> {
        Ok(())
    }

    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        data.starts_with(MAGIC).then_some(FAKE_FORMAT)
    }

    fn can_prepare_executable(&self, format: &str) -> bool {
        matches!(format, FAKE_FORMAT | FAKE_RAW_FORMAT)
    }

    #[allow(unsafe_code, reason = "required by the trait; the bytes are not executed")]
    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        if !self.can_prepare_executable(params.format) {
            return Err(Error::incompatible(format!("no executables of format '{}'", params.format)));
        }
        let code = FakeCode::decode(params.data)?;
        let (name, format) = (code.name.clone(), params.format.to_string());
        self.log.lock().unwrap().push(Ran::Prepared { name, format });
        Ok(Executable::new(code))
    }

    fn import_file(&self, _affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        file.into_file(access)
    }

    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let created = match &submission.op {
            QueueOp::Alloca { params, size, .. } => Some(self.allocate_buffer(*params, *size)?),
            _ => None,
        };
        for wait in submission.waits {
            assert!(wait.semaphore.query()? >= wait.value, "a serialized replay waits for each submission");
        }
        let outcome = self.run(&submission.op);
        for signal in submission.signals {
            match &outcome {
                Ok(()) => signal.semaphore.signal(signal.value)?,
                Err(error) => signal.semaphore.fail(error.clone()),
            }
        }
        match outcome {
            Err(error) if submission.signals.is_empty() => Err(error),
            _ => Ok(created),
        }
    }

    fn flush(&self, affinity: QueueAffinity) -> Result<()> {
        self.log.lock().unwrap().push(Ran::Flushed(affinity));
        Ok(())
    }

    fn refused(&self, _submission: &Submission<Live<'_>>, _error: &Error) {}

    fn trim(&self) -> Result<()> {
        self.log.lock().unwrap().push(Ran::Trimmed);
        Ok(())
    }

    fn profile_data(&self) -> ProfileData {
        ProfileData::empty()
    }

    fn begin_profiling(&self, request: &ProfileRequest) -> Result<()> {
        request.check(self.info(), self.profile_data())
    }

    fn flush_profiling(&self) -> Result<()> {
        Ok(())
    }

    fn sample_profiling_clock(&self) -> Result<()> {
        Ok(())
    }

    fn end_profiling(&self) -> Result<()> {
        Ok(())
    }

    fn memory_statistics(&self) -> Option<MemoryStatistics> {
        None
    }
}

impl ExecutableBackend for FakeCode {
    fn name(&self) -> &str {
        &self.name
    }

    fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    fn lookup(&self, name: &str) -> Option<u32> {
        FunctionInfo::find(&self.functions, name)
    }
}

#[derive(Default)]
struct TestEvent {
    signalled: AtomicBool,
}

impl TestEvent {
    fn of(event: &Event) -> &Self {
        (event.backend() as &dyn Any).downcast_ref().unwrap()
    }
}

impl EventBackend for TestEvent {}

#[derive(Default)]
struct Commands {
    recording: Mutex<Recording>,
}

/// Commands with the objects they use, kept alive.
#[derive(Default)]
struct Recording {
    store: Store,
    commands: Vec<Command<Indexed>>,
}

impl CommandBufferBackend for Commands {
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        let Recording { store, commands } = &mut *self.recording.lock().unwrap();
        commands.push(command.rename(store)?);
        Ok(())
    }

    fn refused(&self, _command: &Command<Live<'_>>, _error: &Error) {}

    fn end(&self) -> Result<()> {
        Ok(())
    }
}

/// Executes stored operations.
struct Stored<'a> {
    store: &'a Store,
    /// The binding table; `None` is an empty slot.
    table: &'a [Option<BufferSlice>],
    log: &'a Log,
}

impl Stored<'_> {
    fn run(&self, op: &QueueOp<Indexed>) -> Result<()> {
        let store = self.store;
        match op {
            QueueOp::Alloca { .. } | QueueOp::Barrier { .. } => Ok(()),
            QueueOp::Dealloca { buffer, .. } => store.buffers[*buffer as usize].backend().deallocate(),
            QueueOp::Fill { target, pattern, .. } => self.slice(target)?.fill(pattern.of(&store.bytes)),
            QueueOp::Update { source, target, .. } => self.slice(target)?.write(source.of(&store.bytes)),
            QueueOp::Copy { source, target, .. } => self.slice(target)?.write(&self.slice(source)?.bytes()?),
            QueueOp::Read { file, file_offset, target, .. } => {
                let target = self.slice(target)?;
                let file = store.files[*file as usize].backend();
                file.read_at(*file_offset, PlainBuffer::memory_of(&target.buffer)?, target.range)
            }
            QueueOp::Write { source, file, file_offset, .. } => {
                let source = self.slice(source)?;
                let file = store.files[*file as usize].backend();
                file.write_at(*file_offset, PlainBuffer::memory_of(&source.buffer)?, source.range)
            }
            QueueOp::Dispatch(dispatch) => self.dispatch(dispatch),
            QueueOp::Execute { command_buffer, bindings, .. } => {
                let entry = |it: &BufferRef<u32>| match it.binding {
                    Binding::Direct(_) => self.slice(it).map(Some),
                    Binding::Slot(_) => Ok(None),
                };
                let table =
                    bindings.of(&store.lists.buffer_refs).iter().map(entry).collect::<Result<Vec<_>>>()?;
                let commands: &dyn Any = store.command_buffers[*command_buffer as usize].backend();
                let commands = commands.downcast_ref::<Commands>().unwrap();
                let Recording { store, commands } = &*commands.recording.lock().unwrap();
                let stored = Stored { store, table: &table, log: self.log };
                commands.iter().try_for_each(|command| stored.run_command(command))
            }
            QueueOp::HostCall { .. } => Err(Error::unimplemented("host calls")),
        }
    }

    fn run_command(&self, command: &Command<Indexed>) -> Result<()> {
        if let Some(op) = command.as_queue_op() {
            return self.run(&op);
        }
        let Store { lists, events, .. } = self.store;
        let event = |index: u32| &TestEvent::of(&events[index as usize]).signalled;
        let ran = match command {
            Command::ExecutionBarrier { memory_barriers, buffer_barriers, .. } => Ran::Barrier {
                memory: memory_barriers.of(&lists.memory_barriers).to_vec(),
                buffers: self.ranges(*buffer_barriers)?,
            },
            Command::SignalEvent { event: it, .. } => {
                event(*it).store(true, Ordering::Relaxed);
                Ran::Signalled
            }
            Command::ResetEvent { event: it, .. } => {
                event(*it).store(false, Ordering::Relaxed);
                Ran::Reset
            }
            Command::WaitEvents { events, memory_barriers, buffer_barriers, .. } => {
                let events = events.of(&lists.events);
                if !events.iter().all(|it| event(*it).load(Ordering::Relaxed)) {
                    return Err(Error::new(StatusCode::Aborted, "an event is waited for before its signal"));
                }
                Ran::Waited {
                    events: events.len(),
                    memory: memory_barriers.of(&lists.memory_barriers).to_vec(),
                    buffers: self.ranges(*buffer_barriers)?,
                }
            }
            _ => return Err(Error::unimplemented("a command that captures cannot represent")),
        };
        self.log.lock().unwrap().push(ran);
        Ok(())
    }

    fn dispatch(&self, dispatch: &Dispatch<Indexed>) -> Result<()> {
        let Store { lists, bytes, executables, .. } = self.store;
        let workgroup_count = match &dispatch.workgroup_count {
            WorkgroupCount::Static(count) => *count,
            WorkgroupCount::Indirect(buffer) => read_count(&self.slice(buffer)?)?,
        };
        let executable: &dyn Any = executables[dispatch.executable as usize].backend();
        let code: &FakeCode = executable.downcast_ref().unwrap();
        let function = &code.functions[dispatch.function as usize];
        if function.name == "fails" {
            return Err(Error::new(StatusCode::Internal, "the kernel failed"));
        }
        if function.name == "meets" {
            MEETING.wait();
        }
        let slices = dispatch.bindings.of(&lists.buffer_refs).iter().map(|it| self.slice(it));
        let slices = slices.collect::<Result<Vec<_>>>()?;
        let bindings = slices
            .iter()
            .map(|it| Ok(Bound { offset: it.range.offset, bytes: it.bytes()? }))
            .collect::<Result<_>>()?;
        if let Some(first) = slices.first() {
            let mut written = first.bytes()?;
            match function.name.as_str() {
                "resumes" => {
                    let byte = if written[0] == 0 { 9 } else { 5 };
                    written.fill(byte);
                    written[0] = 1;
                }
                _ => written.iter_mut().for_each(|byte| *byte = byte.wrapping_add(code.adds)),
            }
            first.write(&written)?;
        }
        self.log.lock().unwrap().push(Ran::Dispatch {
            executable: code.name.clone(),
            function: function.name.clone(),
            constants: dispatch.constants.of(bytes).to_vec(),
            bindings,
            workgroup_count,
            workgroup_size: dispatch.workgroup_size,
            local_memory: dispatch.dynamic_local_memory,
        });
        Ok(())
    }

    /// The ranges of buffer barriers, as offset and length.
    fn ranges(&self, barriers: Span<BufferBarrier<u32>>) -> Result<Vec<(u64, u64)>> {
        let barriers = barriers.of(&self.store.lists.buffer_barriers).iter();
        barriers.map(|it| self.slice(&it.buffer).map(|at| (at.range.offset, at.range.length))).collect()
    }

    fn slice(&self, reference: &BufferRef<u32>) -> Result<BufferSlice> {
        let BufferRef { binding, offset, length } = *reference;
        let slot = match binding {
            Binding::Slot(slot) => slot,
            Binding::Direct(buffer) => {
                let buffer = &self.store.buffers[buffer as usize];
                return Ok(BufferSlice { buffer: buffer.clone(), range: buffer.resolve(offset, length)? });
            }
        };
        let Some(Some(bound)) = self.table.get(slot as usize) else {
            return Err(Error::invalid_argument(format!("binding slot {slot} is empty")));
        };
        let length = if length == WHOLE_BUFFER { bound.range.length - offset } else { length };
        if offset + length > bound.range.length {
            return Err(Error::out_of_range("the range exceeds the binding"));
        }
        let range = Range { offset: bound.range.offset + offset, length };
        Ok(BufferSlice { buffer: bound.buffer.clone(), range })
    }
}

fn read_count(slice: &BufferSlice) -> Result<[u32; 3]> {
    let bytes = slice.bytes()?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    Ok([word(0), word(4), word(8)])
}

/// Reads bytes of a buffer.
struct BufferSlice {
    buffer: Buffer,
    range: Range,
}

impl BufferSlice {
    fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.range.length as usize];
        PlainBuffer::memory_of(&self.buffer)?.read(self.range.offset, &mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len() as u64, self.range.length);
        PlainBuffer::memory_of(&self.buffer)?.write(self.range.offset, bytes)
    }

    fn fill(&self, pattern: &[u8]) -> Result<()> {
        PlainBuffer::memory_of(&self.buffer)?.fill(self.range.offset, self.range.length, pattern)
    }
}
