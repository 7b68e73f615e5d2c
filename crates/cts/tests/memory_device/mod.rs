//! A device of host memory and Rust functions, which executes work on the thread that makes it ready. It is
//! as small as the suite allows, and can be given a single fault.

mod kernels;
mod step;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rehal_base::{Error, Result};
use rehal_hal::profile::{ProfileData, ProfileRequest};
use rehal_hal::*;

use kernels::MemoryExecutable;
use step::{BufferSlice, Step};

pub use kernels::{FORMAT, code};

/// The device's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    DropsSignals,
    SignalsOnlyTheFirst,
    IgnoresWaits,
    RunsAfterFailedWaits,
    SwallowsFailures,
    TimelinesTakeAnyValue,
    SkipsFills,
    FillsFromTheStart,
    CopiesTheWrongWay,
    ReadsFilesFromTheStart,
    RunsOnlyTheFirstCommand,
    IgnoresOffsetsInSlots,
    RunsOneWorkgroup,
    IgnoresCountsInBuffers,
    KeepsDeallocatedBuffers,
    LosesArguments,
    TakesAnyCode,
}

/// The device.
pub struct MemoryDevice {
    info: DeviceInfo,
    fault: Fault,
}

impl MemoryDevice {
    /// A device with this fault.
    pub fn create(fault: Fault) -> Device {
        let info = DeviceInfo {
            driver: "memory".into(),
            formats: &[],
            name: "memory".into(),
            is_synchronous: false,
            uses_host_memory: false,
            zeroes_memory: true,
            can_be_lost: false,
            is_emulated: false,
            uuid: None,
            limits: None,
        };
        Device::new(Self { info, fault })
    }
}

impl DeviceBackend for MemoryDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        match category {
            "hal.device.id" => Ok((key == "*" || key == self.info.name).into()),
            "hal.executable.format" => Ok((key == FORMAT).into()),
            _ => Err(Error::not_found(format!("no value for '{category} :: {key}'"))),
        }
    }

    fn grant(&self, params: BufferParams) -> Result<BufferParams> {
        let all = MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD;
        Ok(BufferParams { access: if params.access.is_empty() { all } else { params.access }, ..params })
    }

    fn allocate_buffer(&self, params: BufferParams, size: u64) -> Result<Buffer> {
        Ok(Buffer::new(self.grant(params)?, size, PlainBuffer::allocate_with(&params, size)?))
    }

    fn import_buffer(&self, params: BufferParams, memory: HostMemory) -> Result<Buffer> {
        Ok(Buffer::new(self.grant(params)?, memory.length(), PlainBuffer::over(memory)))
    }

    fn create_semaphore(&self, _: QueueAffinity, initial_value: u64, _: SemaphoreFlags) -> Result<Semaphore> {
        let timeline = Timeline::new(initial_value);
        Ok(match self.fault {
            Fault::TimelinesTakeAnyValue => Semaphore::new(Careless(timeline)),
            _ => Semaphore::new(timeline),
        })
    }

    fn create_command_buffer(&self, params: CommandBufferParams) -> Result<CommandBuffer> {
        let backend = Commands { fault: self.fault, steps: Mutex::default(), ready: OnceLock::new() };
        Ok(CommandBuffer::new(params, backend))
    }

    fn create_event(&self, _: QueueAffinity, _: u32) -> Result<Event> {
        Ok(Event::new(Mark))
    }

    fn create_executable_cache(&self, _identifier: &str) -> Result<()> {
        Ok(())
    }

    fn infer_executable_format(&self, data: &[u8]) -> Option<&'static str> {
        kernels::find(data).map(|_| FORMAT)
    }

    fn can_prepare_executable(&self, format: &str) -> bool {
        format == FORMAT
    }

    unsafe fn prepare_executable(&self, params: &ExecutableParams<'_>) -> Result<Executable> {
        if params.format != FORMAT {
            return Err(Error::not_found(format!("no format '{}'", params.format)));
        }
        let data = if self.fault == Fault::TakesAnyCode { &code("affine") } else { params.data };
        MemoryExecutable::prepare(data).map(Executable::new)
    }

    fn import_file(&self, _affinity: QueueAffinity, access: MemoryAccess, file: HostFile) -> Result<File> {
        file.into_file(access)
    }

    fn submit(&self, submission: &Submission<Live<'_>>) -> Result<Option<Buffer>> {
        let created = match &submission.op {
            QueueOp::Alloca { params, size, .. } => Some(self.allocate_buffer(*params, *size)?),
            _ => None,
        };
        let keep = |timepoints: &[Timepoint<&Semaphore>]| {
            timepoints.iter().map(|point| (point.semaphore.clone(), point.value)).collect()
        };
        let job = Job {
            fault: self.fault,
            step: Step::from_queue_op(&submission.op, self.fault)?,
            waits: keep(submission.waits),
            signals: keep(submission.signals),
        };
        job.wait();
        Ok(created)
    }

    fn refused(&self, _submission: &Submission<Live<'_>>, _error: &Error) {}

    fn trim(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self, _: QueueAffinity) -> Result<()> {
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

/// A submission in flight.
struct Job {
    fault: Fault,
    step: Step,
    waits: Vec<(Semaphore, u64)>,
    signals: Vec<(Semaphore, u64)>,
}

impl Job {
    fn wait(mut self) {
        if self.fault == Fault::IgnoresWaits {
            self.waits.clear();
        }
        let Some((semaphore, value)) = self.waits.pop() else {
            return self.run();
        };
        let resume = move |outcome: Result<()>| match outcome {
            Err(error) if self.fault != Fault::RunsAfterFailedWaits => self.settle(&Err(error)),
            _ => self.wait(),
        };
        semaphore.on_reached(value, Box::new(resume)).detach();
    }

    fn run(self) {
        if self.step.is_non_blocking() {
            self.settle(&Ok(()));
            let _ = self.step.run(&[]);
            return;
        }
        let outcome = self.step.run(&[]);
        if !self.step.is_deferred(&outcome) {
            self.settle(&outcome);
        }
    }

    fn settle(&self, outcome: &Result<()>) {
        let count = match self.fault {
            Fault::DropsSignals => 0,
            Fault::SignalsOnlyTheFirst => 1,
            _ => usize::MAX,
        };
        for (semaphore, value) in self.signals.iter().take(count) {
            let settled = match outcome {
                Err(error) if self.fault != Fault::SwallowsFailures => Err(error.clone()),
                _ => semaphore.signal(*value),
            };
            if let Err(error) = settled {
                semaphore.fail(error);
            }
        }
    }
}

/// A command buffer.
struct Commands {
    fault: Fault,
    steps: Mutex<Vec<Step>>,
    ready: OnceLock<Vec<Step>>,
}

impl Commands {
    fn run(&self, table: &[Option<BufferSlice>]) -> Result<()> {
        let steps = self.ready.get().map(Vec::as_slice).unwrap_or_default();
        let count = if self.fault == Fault::RunsOnlyTheFirstCommand { 1 } else { steps.len() };
        steps.iter().take(count).try_for_each(|step| step.run(table))
    }
}

impl CommandBufferBackend for Commands {
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        let step = Step::from_command(command, self.fault)?;
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).extend(step);
        Ok(())
    }

    fn refused(&self, _command: &Command<Live<'_>>, _error: &Error) {}

    fn end(&self) -> Result<()> {
        let steps = std::mem::take(&mut *self.steps.lock().unwrap_or_else(PoisonError::into_inner));
        self.ready.set(steps).map_err(|_| Error::failed_precondition("ended twice"))
    }
}

struct Mark;

impl EventBackend for Mark {}

/// A timeline that accepts a signal which does not increase its payload.
struct Careless(Timeline);

impl SemaphoreBackend for Careless {
    fn query(&self) -> Result<u64> {
        self.0.query()
    }
    fn signal(&self, value: u64) -> Result<()> {
        let _ = self.0.signal(value);
        Ok(())
    }
    fn fail(&self, error: Error) {
        self.0.fail(error);
    }
    fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        self.0.wait(value, timeout)
    }
    fn on_reached(&self, value: u64, callback: WaitCallback) -> Registration {
        self.0.on_reached(value, callback)
    }
}
