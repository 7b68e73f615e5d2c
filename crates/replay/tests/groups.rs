//! Two devices of different drivers, or of one, that use timelines and buffers of each other: bare and
//! recorded. What is recorded replays on new devices, and reads the same bytes.

#[path = "record/memory.rs"]
mod memory;
mod reads;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed};
use rehal_base::{Error, Result, StatusCode};
use rehal_cts::{GroupSubject, GroupTest, group_tests};
use rehal_hal::{
    BufferParams, BufferUsage, Device, DeviceGroup, Driver, MemoryType, OptionSet, QUEUE_AFFINITY_ANY,
    SemaphoreFlags, transfer,
};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions, Topology};
use rehal_replay::{Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions, ReplayOrder};
use rehal_vulkan::emulation::{EmulatedMemory, Emulation};
use rehal_vulkan::{DebugMessage, VulkanDriver, VulkanDriverOptions};
use testing::Case;

use memory::Memory;
use reads::Reads;

/// A device of a group.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sync,
    Task,
    Vulkan,
    /// A GPU with memory that the host cannot map, and a queue for transfers.
    Separate,
    /// A GPU that is not coherent with the host, and imports no memory.
    Incoherent,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Sync => "local-sync",
            Self::Task => "local-task",
            Self::Vulkan => "vulkan",
            Self::Separate => "separate",
            Self::Incoherent => "incoherent",
        }
    }
}

const GROUPS: [[Kind; 2]; 7] = [
    [Kind::Vulkan, Kind::Sync],
    [Kind::Task, Kind::Vulkan],
    [Kind::Vulkan, Kind::Vulkan],
    [Kind::Sync, Kind::Task],
    [Kind::Separate, Kind::Task],
    [Kind::Incoherent, Kind::Task],
    [Kind::Separate, Kind::Incoherent],
];

/// The messages of the validation layer that no test has failed with yet.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn vulkan(kind: Kind) -> Result<Device> {
    static DRIVERS: [OnceLock<Driver>; 3] = [const { OnceLock::new() }; 3];
    let (index, emulation) = match kind {
        Kind::Separate => {
            let memory = Some(EmulatedMemory::Separate);
            (1, Emulation { memory, has_transfer_family: true, ..Emulation::default() })
        }
        Kind::Incoherent => {
            let memory = Some(EmulatedMemory::Incoherent);
            let missing_extensions = &["VK_EXT_external_memory_host"];
            (2, Emulation { memory, missing_extensions, ..Emulation::default() })
        }
        _ => (0, Emulation::default()),
    };
    let driver = DRIVERS[index].get_or_init(|| {
        let mut options = VulkanDriverOptions::default();
        options.validation = true;
        options.messages =
            Some(Arc::new(|message: &DebugMessage| MESSAGES.lock().unwrap().push(message.text.clone())));
        Driver::new(VulkanDriver::emulating(options, emulation))
    });
    driver.create_device("", &OptionSet::default())
}

fn device(kind: Kind) -> Result<Device> {
    match kind {
        Kind::Sync => Ok(LocalSync::create(Plugins::default())),
        Kind::Task => {
            let mut options = LocalTaskOptions::default();
            options.topology = Some(Topology::with_workers(2)?);
            LocalTask::create(options)
        }
        kind => vulkan(kind),
    }
}

fn group(kinds: [Kind; 2]) -> Result<DeviceGroup> {
    DeviceGroup::new(kinds.into_iter().map(device).collect::<Result<_>>()?)
}

/// A group, recorded if there is a recorder, and the bytes that the test read.
struct Subject {
    kinds: [Kind; 2],
    recorder: Option<Recorder>,
    saw: Mutex<Vec<Vec<u8>>>,
}

impl GroupSubject for Subject {
    fn group(&self) -> Result<DeviceGroup> {
        let bare = group(self.kinds)?;
        match &self.recorder {
            Some(recorder) => recorder.wrap(&bare),
            None => Ok(bare),
        }
    }

    fn saw(&self, bytes: &[u8]) {
        self.saw.lock().unwrap().push(bytes.to_vec());
    }

    fn imports(&self, device: usize) -> bool {
        self.kinds[device] != Kind::Incoherent
    }
}

/// Runs a test; if it is recorded, replays the capture, which must read what the test read.
fn run(test: &GroupTest, kinds: [Kind; 2], is_recorded: bool) -> Result<(), Failed> {
    let memory = Memory::default();
    let recorder = is_recorded.then(|| Recorder::to(memory.clone(), RecordOptions::default()));
    let recorder = recorder.transpose().map_err(failed)?;
    let subject = Subject { kinds, recorder, saw: Mutex::default() };
    test.run(&subject).map_err(failed)?;
    let Some(recorder) = &subject.recorder else { return Ok(()) };
    recorder.close().map_err(failed)?;
    let bytes = memory.bytes();
    let saw = subject.saw.into_inner().unwrap();
    for order in [ReplayOrder::Serialized, ReplayOrder::Captured] {
        let mut replayed = reads_of(&bytes, kinds, order).map_err(failed)?;
        for bytes in &saw {
            let at = replayed.iter().position(|read| read == bytes);
            replayed
                .swap_remove(at.ok_or_else(|| format!("{order:?}: no read of the replay is {bytes:02x?}"))?);
        }
    }
    Ok(())
}

fn failed(error: Error) -> Failed {
    error.report().into()
}

/// The host reads of a replay on new devices.
fn reads_of(bytes: &[u8], kinds: [Kind; 2], order: ReplayOrder) -> Result<Vec<Vec<u8>>> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default())?;
    let mut reads = Reads::default();
    let options = ReplayOptions::default().order(order);
    Replay::new(plan, &group(kinds)?, &options)?.run(&mut [&mut reads])?;
    Ok(reads.0)
}

/// A recorded device and a bare one, which do not form a group: each refuses the other's buffers, since the
/// recorder could not see what becomes of them, and the recorded one the other's semaphores.
fn recorded_beside_bare(kinds: [Kind; 2]) -> Result<()> {
    let recorder = Recorder::to(Memory::default(), RecordOptions::default())?;
    let (recorded, bare) = (recorder.wrap(&DeviceGroup::new(vec![device(kinds[0])?])?)?, device(kinds[1])?);
    let recorded = &recorded.devices()[0];
    let params = BufferParams {
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED | BufferUsage::MAPPING_PERSISTENT,
        memory_type: MemoryType::HOST_VISIBLE | MemoryType::HOST_COHERENT | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    let (first, second) = (recorded.allocate_buffer(params, 64)?, bare.allocate_buffer(params, 64)?);
    first.write(0, &[1; 64])?;
    second.write(0, &[2; 64])?;
    let semaphore = |device: &Device| device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty());
    let (theirs, mine) = (semaphore(recorded)?, semaphore(&bare)?);
    let refusals = [
        recorded.queue(QUEUE_AFFINITY_ANY).signal(&[theirs.at(1)]).copy(&second, &first, 0),
        recorded.queue(QUEUE_AFFINITY_ANY).wait(&[mine.at(1)]).barrier(0),
    ];
    for (refused, what) in refusals.into_iter().zip(["a buffer", "a semaphore"]) {
        let error = refused.err().ok_or_else(|| Error::new(StatusCode::Internal, "it is not refused"))?;
        let message = format!("cannot record {what} that this recorder did not create");
        let is_clear = error.code() == StatusCode::FailedPrecondition && error.message().contains(&message);
        if !is_clear {
            return Err(error);
        }
    }
    // What the bare device would write could not be recorded.
    let copied = bare.queue(QUEUE_AFFINITY_ANY).signal(&[mine.at(1)]).copy(&first, &second, 0);
    let copied = copied.and_then(|()| mine.wait(1, Some(Duration::from_secs(30))));
    let error = copied.err().ok_or_else(|| Error::new(StatusCode::Internal, "it is not refused"))?;
    if error.code() != StatusCode::InvalidArgument || !error.message().contains("does not share its memory") {
        return Err(error);
    }
    if transfer::to_vec(&second, 0, 64)? != [2; 64] {
        return Err(Error::new(StatusCode::Internal, "the target was written"));
    }
    recorder.close()
}

fn main() -> ExitCode {
    let mut cases = Vec::new();
    for kinds in GROUPS {
        let name = kinds.map(Kind::name).join("+");
        for is_recorded in [false, true] {
            for test in group_tests() {
                let how = if is_recorded { "recorded" } else { "bare" };
                let name = format!("{name}/{how}/{}", test.name());
                let run = move || {
                    let outcome = run(&test, kinds, is_recorded);
                    // Taken in any case: they are of this case.
                    let messages = std::mem::take(&mut *MESSAGES.lock().unwrap());
                    outcome?;
                    match messages.is_empty() {
                        true => Ok(()),
                        false => Err(format!("the validation layer says:\n{}", messages.join("\n")).into()),
                    }
                };
                cases.push(Case { name, run: Box::new(run) });
            }
        }
    }
    for kinds in [[Kind::Vulkan, Kind::Task], [Kind::Task, Kind::Vulkan], [Kind::Sync, Kind::Task]] {
        let name = format!("recorded_beside_bare/{}+{}", kinds[0].name(), kinds[1].name());
        cases.push(Case { name, run: Box::new(move || recorded_beside_bare(kinds).map_err(failed)) });
    }
    libtest_mimic::run(&Arguments::from_args(), testing::trials(cases)).exit_code()
}
