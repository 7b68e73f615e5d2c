//! A device that counts the calls of every function, with minimal behaviour.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rehal_base::{Error, Range, Result};
use rehal_hal::profile::{ProfileData, ProfileRequest};
use rehal_hal::*;

/// How often each function of the backends was called, by `Trait::function`.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Calls {
    fn count(&self, function: &'static str) {
        *self.0.lock().unwrap().entry(function).or_default() += 1;
    }

    /// How often `function` was called.
    pub fn of(&self, function: &str) -> usize {
        self.0.lock().unwrap().get(function).copied().unwrap_or(0)
    }
}

/// The device.
pub fn device(calls: &Calls) -> Device {
    let info = DeviceInfo {
        driver: "counting".into(),
        formats: &[],
        name: "counting".into(),
        is_synchronous: false,
        uses_host_memory: false,
        zeroes_memory: true,
        can_be_lost: false,
        is_emulated: false,
        uuid: None,
        limits: None,
    };
    Device::new(Counting { info, calls: calls.clone() })
}

/// Prepares an executable on any device: the counting one accepts all bytes and executes none.
#[allow(unsafe_code, reason = "the bytes are not executed")]
pub fn prepare(device: &Device) -> Result<Executable> {
    let params = ExecutableParams::new("counting", &[1, 2, 3]);
    // SAFETY: the device is a recorder over the counting one, which runs no code.
    unsafe { device.backend().prepare_executable(&params) }
}

/// Implements a backend whose functions count their calls. A second block has functions that count for
/// themselves.
macro_rules! counting {
    ($trait:ident for $type:ident {
        $(fn $name:ident(&$self:ident $(, $argument:tt: $of:ty)*) $(-> $result:ty)? $body:block)*
    } $({ $($other:tt)* })?) => {
        impl $trait for $type {
            $(fn $name(&$self $(, $argument: $of)*) $(-> $result)? {
                $self.calls.count(concat!(stringify!($trait), "::", stringify!($name)));
                $body
            })*
            $($($other)*)?
        }
    };
}

struct Counting {
    info: DeviceInfo,
    calls: Calls,
}

counting! { DeviceBackend for Counting {
    fn info(&self) -> &DeviceInfo { &self.info }
    fn query_i64(&self, _category: &str, _key: &str) -> Result<i64> { Ok(42) }
    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        Ok(BufferParams { min_alignment: 64, ..params })
    }
    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        let memory = HostMemory::allocate(size)?;
        Ok(Buffer::new(params, size, CountingBuffer { memory, calls: self.calls.clone() }))
    }
    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer> {
        Ok(Buffer::new(params, memory.length(), PlainBuffer::over(memory)))
    }
    fn create_semaphore(&self, _: QueueAffinity, initial_value: u64, _: SemaphoreFlags) -> Result<Semaphore> {
        let timeline = Timeline::new(initial_value);
        Ok(Semaphore::new(CountingSemaphore { timeline, calls: self.calls.clone() }))
    }
    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        Ok(CommandBuffer::new(params, CountingCommands { calls: self.calls.clone() }))
    }
    fn create_event(&self, _: QueueAffinity, _: u32) -> Result<Event> { Ok(Event::new(Mark)) }
    fn create_executable_cache(&self, _: &str) -> Result<()> { Ok(()) }
    fn infer_executable_format(&self, _: &[u8]) -> Option<&'static str> { Some("counting") }
    fn can_prepare_executable(&self, format: &str) -> bool { format == "counting" }
    fn import_file(&self, _: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        let file = file.into_file(access)?;
        let length = file.length();
        Ok(File::new(access, length, CountingFile { file, calls: self.calls.clone() }))
    }
    fn submit(&self, _: &Submission<Live<'_>>) -> Result<Option<Buffer>> { Ok(None) }
    fn refused(&self, _: &Submission<Live<'_>>, _: &Error) {}
    fn trim(&self) -> Result<()> { Err(Error::resource_exhausted("nothing to free")) }
    fn flush(&self, _: QueueAffinity) -> Result<()> { Ok(()) }
    fn profile_data(&self) -> ProfileData { ProfileData::QUEUE_EVENTS }
    fn begin_profiling(&self, _request: &ProfileRequest) -> Result<()> { Ok(()) }
    fn flush_profiling(&self) -> Result<()> { Ok(()) }
    fn sample_profiling_clock(&self) -> Result<()> { Ok(()) }
    fn end_profiling(&self) -> Result<()> { Ok(()) }
    fn memory_statistics(&self) -> Option<MemoryStatistics> { Some(MemoryStatistics::default()) }
} {
    #[allow(unsafe_code, reason = "the trait's; nothing here runs the bytes")]
    unsafe fn prepare_executable(&self, _: &ExecutableParams<'_>) -> Result<Executable> {
        self.calls.count("DeviceBackend::prepare_executable");
        let function =
            FunctionInfo { name: "only".into(), workgroup_size: [1; 3], ..FunctionInfo::default() };
        Ok(Executable::new(CountingExecutable { functions: vec![function], calls: self.calls.clone() }))
    }
} }

/// The device's memory. A mapping is a copy, and the device immediately overwrites bytes that are flushed.
struct CountingBuffer {
    memory: HostMemory,
    calls: Calls,
}

/// The byte that the device writes over flushed bytes.
pub const OVERWRITTEN: u8 = 0xee;

counting! { BufferBackend for CountingBuffer {
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        let copy = HostMemory::allocate(mapped.range.length)?;
        copy.copy_from(0, &self.memory, mapped.range.offset, mapped.range.length)?;
        Ok(copy)
    }
    fn unmap(&self, mapped: &MappedRange, _: &HostMemory) -> Result<()> {
        self.memory.fill(mapped.range.offset, mapped.range.length, &[OVERWRITTEN])
    }
    fn flush(&self, mapped: &MappedRange, _: &HostMemory, range: Range) -> Result<()> {
        self.memory.fill(mapped.range.offset + range.offset, range.length, &[OVERWRITTEN])
    }
    fn invalidate(&self, _: &MappedRange, _: &HostMemory, _: Range) -> Result<()> { Ok(()) }
    fn is_queue_ordered(&self) -> bool { true }
    fn deallocate(&self) -> Result<()> { Ok(()) }
} }

struct CountingSemaphore {
    timeline: Timeline,
    calls: Calls,
}

counting! { SemaphoreBackend for CountingSemaphore {
    fn query(&self) -> Result<u64> { self.timeline.query() }
    fn signal(&self, value: u64) -> Result<()> { self.timeline.signal(value) }
    fn fail(&self, error: Error) { self.timeline.fail(error); }
    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> { self.timeline.wait(value, timeout) }
    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.timeline.on_reached(value, callback)
    }
} }

struct CountingCommands {
    calls: Calls,
}

counting! { CommandBufferBackend for CountingCommands {
    fn begin(&self) -> Result<()> { Ok(()) }
    fn record(&self, _: &Command<Live<'_>>) -> Result<()> { Ok(()) }
    fn refused(&self, _: &Command<Live<'_>>, _: &Error) {}
    fn end(&self) -> Result<()> { Ok(()) }
} }

/// An event, which has no functions to count.
struct Mark;

impl EventBackend for Mark {}

struct CountingExecutable {
    functions: Vec<FunctionInfo>,
    calls: Calls,
}

counting! { ExecutableBackend for CountingExecutable {
    fn name(&self) -> &str { "counted" }
    fn functions(&self) -> &[FunctionInfo] { &self.functions }
    fn lookup(&self, name: &str) -> Option<u32> { FunctionInfo::find(&self.functions, name) }
} }

struct CountingFile {
    file: File,
    calls: Calls,
}

counting! { FileBackend for CountingFile {
    fn read_at(&self, offset: u64, target: &HostMemory, range: Range) -> Result<()> {
        self.file.backend().read_at(offset, target, range)
    }
    fn write_at(&self, offset: u64, source: &HostMemory, range: Range) -> Result<()> {
        self.file.backend().write_at(offset, source, range)
    }
    fn check_unchanged(&self) -> Result<()> {
        self.file.backend().check_unchanged()
    }
} }
