//! Programs of tests: a recorder over memory, one or more recorded devices, and small buffers.

use rehal_base::Result;
use rehal_capture::{Capture, OpenOptions, OperationCode, Record, RecordType};
use rehal_hal::{
    Buffer, BufferParams, BufferUsage, Device, DeviceGroup, HostCallFn, MemoryType, QUEUE_AFFINITY_ANY,
    Semaphore, SemaphoreFlags,
};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions, Topology};
use rehal_replay::{
    ChangeTracker, DispatchWatcher, LedgerRecording, Observer, Plan, PlanOptions, RecordOptions, Recorder,
    Replay, ReplayOptions, ReplayOrder, WatchedDispatch,
};

use crate::memory::Memory;
pub use crate::reads::Reads;

pub fn local_sync() -> Device {
    LocalSync::create(Plugins::default())
}

/// A `local-task` device with two workers.
pub fn local_task() -> Device {
    let mut options = LocalTaskOptions::default();
    options.topology = Some(Topology::with_workers(2).unwrap());
    LocalTask::create(options).unwrap()
}

/// A watcher whose records are empty, for programs that are recorded with [`LedgerRecording::Dispatches`].
struct EmptyDigests;

impl DispatchWatcher for EmptyDigests {
    fn dispatched(&mut self, _dispatch: &WatchedDispatch<'_>, _changes: &ChangeTracker) -> Result<&[u8]> {
        Ok(&[])
    }
}

/// The options of a program whose dispatches are watched.
pub fn watched() -> RecordOptions {
    RecordOptions::default().ledger(LedgerRecording::Dispatches)
}

/// A recorded program.
pub struct Program {
    pub recorder: Recorder,
    pub devices: Vec<Device>,
    memory: Memory,
}

impl Program {
    pub fn new(options: RecordOptions) -> Self {
        Self::on(vec![local_sync()], options)
    }

    pub fn on(devices: Vec<Device>, options: RecordOptions) -> Self {
        let memory = Memory::default();
        let recorder = Recorder::to(memory.clone(), options).unwrap().watch(EmptyDigests);
        let group = recorder.wrap(&DeviceGroup::new(devices).unwrap()).unwrap();
        Self { recorder, devices: group.devices().to_vec(), memory }
    }

    pub fn device(&self) -> &Device {
        &self.devices[0]
    }

    pub fn buffer(&self, bytes: &[u8]) -> Buffer {
        let buffer = self.device().allocate_buffer(mappable(), bytes.len() as u64).unwrap();
        buffer.write(0, bytes).unwrap();
        buffer
    }

    pub fn semaphore(&self) -> Semaphore {
        self.device().create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
    }

    /// Closes the recorder and returns the capture.
    pub fn capture(&self) -> Vec<u8> {
        self.recorder.close().unwrap();
        self.memory.bytes()
    }
}

pub fn mappable() -> BufferParams {
    BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    }
}

/// A host call.
pub fn host_call(call: impl Fn() -> Result<()> + Send + Sync + 'static) -> rehal_hal::HostCall {
    let call: std::sync::Arc<HostCallFn> = std::sync::Arc::new(move |_| call());
    rehal_hal::HostCall(call)
}

/// Calls `look` with each operation of a capture, including unsupported ones.
pub fn each_operation(bytes: &[u8], mut look: impl FnMut(&Record<'_>)) {
    let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
    for record in capture.records().map(|record| record.unwrap()) {
        if matches!(record.record_type(), RecordType::OPERATION | RecordType::UNSUPPORTED) {
            look(&record);
        }
    }
}

/// The operations of a capture with their status, without the preamble of every capture.
pub fn operations(bytes: &[u8]) -> Vec<(OperationCode, u32)> {
    let mut operations = Vec::new();
    each_operation(bytes, |record| operations.push((record.operation(), record.header.status_code.get())));
    operations.retain(|(operation, _)| *operation != OperationCode::DEVICE_ASSIGN_TOPOLOGY_INFO);
    operations
}

/// Replays a capture on bare devices.
pub fn replay(bytes: &[u8], observer: &mut dyn Observer) -> Result<()> {
    replay_in(bytes, ReplayOrder::Serialized, &local_sync, observer)
}

/// Replays a capture in an order, on devices that `device` creates.
pub fn replay_in(
    bytes: &[u8],
    order: ReplayOrder,
    device: &dyn Fn() -> Device,
    observer: &mut dyn Observer,
) -> Result<()> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
    let devices = DeviceGroup::new((0..plan.device_count()).map(|_| device()).collect())?;
    let options = ReplayOptions::default().order(order);
    Replay::new(plan, &devices, &options)?.run(&mut [observer])
}
