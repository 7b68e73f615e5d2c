//! A device over host memory that runs everything at once and keeps a log, so that a test can see
//! what a replay asked of it. It grants exactly what it is asked for and forgives nothing: waits
//! must be reached, events signalled, formats known.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::{
    Binding, Buffer, BufferBarrier, BufferParams, BufferRef, Channel, ChannelParams, Command, CommandBuffer,
    CommandBufferBackend, CommandBufferParams, Device, DeviceBackend, DeviceInfo, Dispatch, Event,
    EventBackend, Executable, ExecutableBackend, ExecutableParams, File, FunctionInfo, HostFile, HostMemory,
    Live, MemoryAccess, MemoryBarrier, MemoryStatistics, PlainBuffer, QueueAffinity, QueueOp, Semaphore,
    SemaphoreFlags, Submission, Timeline, WHOLE_BUFFER, WorkgroupCount, unsupported,
};
use serde_json::{Value, json};

/// The format that the device tells from the bytes.
pub const FAKE_FORMAT: &str = "fake";
/// A format of the same bytes that it only believes.
pub const FAKE_RAW_FORMAT: &str = "fake-raw";
const MAGIC: &[u8] = b"FAKE";

/// What the device did.
#[derive(Clone, Debug, PartialEq)]
pub enum Ran {
    /// An executable was prepared: its name, format and constants.
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
    /// A barrier in a command buffer, with the memory and the ranges that it is for.
    Barrier {
        memory: Vec<MemoryBarrier>,
        buffers: Vec<(u64, u64)>,
    },
    /// An event was signalled, or reset.
    Signalled,
    Reset,
    /// So many events were waited for.
    Waited {
        events: usize,
        memory: Vec<MemoryBarrier>,
        buffers: Vec<(u64, u64)>,
    },
    /// Another operation of a queue ran to its end.
    Queue(&'static str),
    /// The queues with this affinity were flushed.
    Flushed(QueueAffinity),
    /// What the device keeps was freed.
    Trimmed,
}

/// All queues were flushed.
pub const FLUSHED: Ran = Ran::Flushed(rehal_hal::QUEUE_AFFINITY_ANY);

/// A binding of a dispatch: where it is in its buffer, and what was there.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// What the device runs: functions that add a number to each byte of their first binding. One that
/// is called `fails` fails instead.
#[derive(Clone, Debug)]
pub struct FakeCode {
    pub name: String,
    pub adds: u8,
    pub functions: Vec<FunctionInfo>,
}

/// Code with these functions.
pub fn code(name: &str, adds: u8, functions: &[FunctionInfo]) -> FakeCode {
    FakeCode { name: name.into(), adds, functions: functions.to_vec() }
}

/// A function with so many constants and bindings and a workgroup of one.
pub fn function(name: &str, constant_count: u16, binding_count: u16) -> FunctionInfo {
    FunctionInfo {
        name: name.into(),
        flags: 0,
        workgroup_size: [1, 1, 1],
        constant_count,
        binding_count,
        parameter_count: 0,
        parameters: Vec::new(),
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
    /// The device and its log.
    pub fn create() -> (Device, Arc<Log>) {
        let log = Arc::new(Log::default());
        let info = DeviceInfo { driver: "test".into(), name: "test".into() };
        (Device::new(Self { info, log: log.clone() }), log)
    }

    fn run(&self, op: &QueueOp<Live<'_>>, created: Option<&Buffer>) -> Result<()> {
        let done = self.run_op(op, created);
        if done.is_ok() && !matches!(op, QueueOp::Dispatch(_)) {
            self.log.lock().unwrap().push(Ran::Queue(op.name()));
        }
        done
    }

    fn run_op(&self, op: &QueueOp<Live<'_>>, created: Option<&Buffer>) -> Result<()> {
        let place = |reference: &BufferRef<&Buffer>| Held::of(reference).place(&[]);
        match op {
            QueueOp::Alloca { .. } => {
                assert!(created.is_some());
                Ok(())
            }
            QueueOp::Barrier { .. } => Ok(()),
            QueueOp::Dealloca { buffer, .. } => buffer.backend().deallocate(),
            QueueOp::Fill { target, pattern, .. } => place(target)?.fill(pattern),
            QueueOp::Update { source, target, .. } => place(target)?.write(source),
            QueueOp::Copy { source, target, .. } => place(target)?.write(&place(source)?.bytes()?),
            QueueOp::Read { file, file_offset, target, .. } => {
                let target = place(target)?;
                file.backend().read_at(*file_offset, PlainBuffer::memory_of(&target.buffer)?, target.range())
            }
            QueueOp::Write { source, file, file_offset, .. } => {
                let source = place(source)?;
                file.backend().write_at(*file_offset, PlainBuffer::memory_of(&source.buffer)?, source.range())
            }
            QueueOp::Dispatch(dispatch) => Work::dispatch(dispatch)?.run(&[], &self.log),
            QueueOp::Execute { command_buffer, bindings, .. } => {
                let table: Vec<_> = bindings.iter().map(Held::of).collect();
                let commands: &Commands = command_buffer.backend().as_any().downcast_ref().unwrap();
                commands.work.lock().unwrap().iter().try_for_each(|work| work.run(&table, &self.log))
            }
            QueueOp::HostCall { .. } => Err(Error::unimplemented("host calls")),
        }
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

    fn create_channel(&self, _affinity: QueueAffinity, _params: &ChannelParams<'_>) -> Result<Channel> {
        Err(unsupported(&self.info, "channels"))
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

    #[allow(unsafe_code, reason = "the trait's; nothing here runs the bytes")]
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
            assert!(wait.semaphore.query()? >= wait.value, "a serialized replay waits for everything");
        }
        let outcome = self.run(&submission.op, created.as_ref());
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

    fn memory_statistics(&self) -> Option<MemoryStatistics> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Default)]
struct TestEvent {
    signalled: AtomicBool,
}

impl TestEvent {
    fn of(event: &Event) -> &Self {
        event.backend().as_any().downcast_ref().unwrap()
    }
}

impl EventBackend for TestEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Default)]
struct Commands {
    work: Mutex<Vec<Work>>,
}

impl CommandBufferBackend for Commands {
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        self.work.lock().unwrap().push(Work::of(command)?);
        Ok(())
    }

    fn refused(&self, _command: &Command<Live<'_>>, _error: &Error) {}

    fn end(&self) -> Result<()> {
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A command with all that it names.
enum Work {
    Fill { target: Held, pattern: Vec<u8> },
    Update { target: Held, data: Vec<u8> },
    Copy { source: Held, target: Held },
    Barrier { memory: Vec<MemoryBarrier>, buffers: Vec<Held> },
    Signal(Event),
    Reset(Event),
    Wait { events: Vec<Event>, memory: Vec<MemoryBarrier>, buffers: Vec<Held> },
    Dispatch { executable: Executable, count: Count, held: HeldDispatch },
}

enum Count {
    Static([u32; 3]),
    Indirect(Held),
}

struct HeldDispatch {
    function: u32,
    constants: Vec<u8>,
    bindings: Vec<Held>,
    workgroup_size: [u32; 3],
    local_memory: u32,
}

impl Work {
    fn of(command: &Command<Live<'_>>) -> Result<Self> {
        let held = |list: &[BufferBarrier<&Buffer>]| list.iter().map(|it| Held::of(&it.buffer)).collect();
        Ok(match command {
            Command::ExecutionBarrier { memory_barriers, buffer_barriers, .. } => {
                Self::Barrier { memory: memory_barriers.to_vec(), buffers: held(buffer_barriers) }
            }
            Command::SignalEvent { event, .. } => Self::Signal((*event).clone()),
            Command::ResetEvent { event, .. } => Self::Reset((*event).clone()),
            Command::WaitEvents { events, memory_barriers, buffer_barriers, .. } => Self::Wait {
                events: events.iter().map(|it| (*it).clone()).collect(),
                memory: memory_barriers.to_vec(),
                buffers: held(buffer_barriers),
            },
            Command::Fill { target, pattern, .. } => {
                Self::Fill { target: Held::of(target), pattern: pattern.to_vec() }
            }
            Command::Update { source, target, .. } => {
                Self::Update { target: Held::of(target), data: source.to_vec() }
            }
            Command::Copy { source, target, .. } => {
                Self::Copy { source: Held::of(source), target: Held::of(target) }
            }
            Command::Dispatch(dispatch) => Self::dispatch(dispatch)?,
            _ => return Err(Error::unimplemented("a command that no capture holds")),
        })
    }

    fn dispatch(dispatch: &Dispatch<Live<'_>>) -> Result<Self> {
        Ok(Self::Dispatch {
            executable: dispatch.executable.clone(),
            count: match &dispatch.workgroup_count {
                WorkgroupCount::Static(count) => Count::Static(*count),
                WorkgroupCount::Indirect(buffer) => Count::Indirect(Held::of(buffer)),
            },
            held: HeldDispatch {
                function: dispatch.function,
                constants: dispatch.constants.to_vec(),
                bindings: dispatch.bindings.iter().map(Held::of).collect(),
                workgroup_size: dispatch.workgroup_size,
                local_memory: dispatch.dynamic_local_memory,
            },
        })
    }

    fn run(&self, table: &[Held], log: &Log) -> Result<()> {
        let ranges = |list: &[Held]| -> Result<Vec<_>> {
            list.iter().map(|it| it.place(table).map(|at| (at.offset, at.length))).collect()
        };
        let ran = match self {
            Self::Fill { target, pattern } => return target.place(table)?.fill(pattern),
            Self::Update { target, data } => return target.place(table)?.write(data),
            Self::Copy { source, target } => {
                return target.place(table)?.write(&source.place(table)?.bytes()?);
            }
            Self::Barrier { memory, buffers } => {
                Ran::Barrier { memory: memory.clone(), buffers: ranges(buffers)? }
            }
            Self::Signal(event) => {
                TestEvent::of(event).signalled.store(true, Ordering::Relaxed);
                Ran::Signalled
            }
            Self::Reset(event) => {
                TestEvent::of(event).signalled.store(false, Ordering::Relaxed);
                Ran::Reset
            }
            Self::Wait { events, memory, buffers } => {
                if !events.iter().all(|event| TestEvent::of(event).signalled.load(Ordering::Relaxed)) {
                    return Err(Error::new(StatusCode::Aborted, "an event is waited for before its signal"));
                }
                Ran::Waited { events: events.len(), memory: memory.clone(), buffers: ranges(buffers)? }
            }
            Self::Dispatch { executable, count, held } => {
                let count = match count {
                    Count::Static(count) => *count,
                    Count::Indirect(held) => read_count(&held.place(table)?)?,
                };
                held.run(executable, count, table)?
            }
        };
        log.lock().unwrap().push(ran);
        Ok(())
    }
}

fn read_count(place: &Place) -> Result<[u32; 3]> {
    let bytes = place.bytes()?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    Ok([word(0), word(4), word(8)])
}

impl HeldDispatch {
    fn run(&self, executable: &Executable, workgroup_count: [u32; 3], table: &[Held]) -> Result<Ran> {
        let code: &FakeCode = executable.backend().as_any().downcast_ref().unwrap();
        let function = &code.functions[self.function as usize];
        if function.name == "fails" {
            return Err(Error::new(StatusCode::Internal, "the kernel gave up"));
        }
        let places: Vec<_> = self.bindings.iter().map(|it| it.place(table)).collect::<Result<_>>()?;
        let bindings = places
            .iter()
            .map(|it| Ok(Bound { offset: it.offset, bytes: it.bytes()? }))
            .collect::<Result<_>>()?;
        if let Some(first) = places.first() {
            let sums: Vec<_> = first.bytes()?.iter().map(|byte| byte.wrapping_add(code.adds)).collect();
            first.write(&sums)?;
        }
        Ok(Ran::Dispatch {
            executable: code.name.clone(),
            function: function.name.clone(),
            constants: self.constants.clone(),
            bindings,
            workgroup_count,
            workgroup_size: self.workgroup_size,
            local_memory: self.local_memory,
        })
    }
}

/// A range of a buffer or of a slot, kept.
#[derive(Clone)]
struct Held {
    buffer: Option<Buffer>,
    slot: u32,
    offset: u64,
    length: u64,
}

/// Bytes of a buffer.
struct Place {
    buffer: Buffer,
    offset: u64,
    length: u64,
}

impl Held {
    fn of(reference: &BufferRef<&Buffer>) -> Self {
        let (buffer, slot) = match reference.binding {
            Binding::Direct(buffer) => (Some(buffer.clone()), 0),
            Binding::Slot(slot) => (None, slot),
        };
        Self { buffer, slot, offset: reference.offset, length: reference.length }
    }

    fn place(&self, table: &[Self]) -> Result<Place> {
        if let Some(buffer) = &self.buffer {
            let range = buffer.resolve(self.offset, self.length)?;
            return Ok(Place { buffer: buffer.clone(), offset: range.offset, length: range.length });
        }
        let Some(bound) = table.get(self.slot as usize).filter(|it| it.buffer.is_some()) else {
            return Err(Error::invalid_argument(format!("nothing is bound to slot {}", self.slot)));
        };
        let bound = bound.place(&[])?;
        let length = if self.length == WHOLE_BUFFER { bound.length - self.offset } else { self.length };
        if self.offset + length > bound.length {
            return Err(Error::out_of_range("beyond what is bound"));
        }
        Ok(Place { buffer: bound.buffer, offset: bound.offset + self.offset, length })
    }
}

impl Place {
    fn range(&self) -> Range {
        Range { offset: self.offset, length: self.length }
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.length as usize];
        PlainBuffer::memory_of(&self.buffer)?.read(self.offset, &mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len() as u64, self.length);
        PlainBuffer::memory_of(&self.buffer)?.write(self.offset, bytes)
    }

    fn fill(&self, pattern: &[u8]) -> Result<()> {
        PlainBuffer::memory_of(&self.buffer)?.fill(self.offset, self.length, pattern)
    }
}
