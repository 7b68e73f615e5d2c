//! The conformance suite over a recorded `local-sync` device, over a recorded discrete device on top of it,
//! and over recorded `local-task` and Vulkan devices. Each test must pass as on the bare device; then its
//! captures are replayed on a fresh device and must read the same bytes, in serialized and in captured order.
//! Tests that cannot be replayed are listed with the error.

#[path = "record/memory.rs"]
mod memory;
mod reads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};

use libtest_mimic::{Arguments, Failed};
use rehal_base::{Error, Result, glob};
use rehal_capture::{Capture, OpenOptions};
use rehal_cts::discrete::DiscreteDevice;
use rehal_cts::{Capability, Expected, Kernel, Subject};
use rehal_hal::{Device, DeviceGroup, Driver, Executable, ExecutableParams, OptionSet};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions, Topology};
use rehal_replay::{
    FilePolicy, Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions, ReplayOrder,
};
use rehal_vulkan::VulkanDriver;
use testing::Case;

use memory::Memory;
use reads::Reads;

const EMBEDDED: &str = "embedded-elf-x86_64";
const SYSTEM: &str = "system-elf-x86_64";
const VMVX: &str = "vmvx-bytecode-fb";
const DESCRIPTORS: &str = "vulkan-spirv-fb";
const ADDRESSES: &str = "vulkan-spirv-bda-v1";

/// The device that is recorded, and replayed on.
#[derive(Clone, Copy, Default, PartialEq)]
enum Base {
    #[default]
    Sync,
    Discrete,
    Task,
    Vulkan,
}

impl Base {
    /// The formats of its executables.
    fn formats(self) -> &'static [&'static str] {
        match self {
            Self::Vulkan => &[DESCRIPTORS, ADDRESSES],
            _ => &[EMBEDDED, SYSTEM, VMVX],
        }
    }
}

/// The Vulkan driver, whose instance all devices share.
fn vulkan() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::new(VulkanDriver::default()))
}

fn device(base: Base) -> Result<Device> {
    let sync = LocalSync::create(Plugins::default());
    match base {
        Base::Sync => Ok(sync),
        Base::Discrete => Ok(DiscreteDevice::over(sync)),
        Base::Task => {
            let mut options = LocalTaskOptions::default();
            options.topology = Some(Topology::with_workers(2)?);
            LocalTask::create(options)
        }
        Base::Vulkan => vulkan().create_device("", &OptionSet::default()),
    }
}

/// The subject of one test: its devices, each recorded into its own capture, and the bytes that the test
/// read.
#[derive(Default)]
struct RecordedSubject {
    base: Base,
    recorders: Mutex<Vec<(Recorder, Memory)>>,
    saw: Mutex<Vec<Vec<u8>>>,
}

impl Subject for RecordedSubject {
    fn device(&self) -> Result<Device> {
        let memory = Memory::default();
        // Captures include files: those of the tests are deleted before the replay.
        let options = RecordOptions::default().file_policy(FilePolicy::CaptureAll);
        let recorder = Recorder::to(memory.clone(), options)?;
        let group = recorder.wrap(&DeviceGroup::new(vec![device(self.base)?])?)?;
        self.recorders.lock().unwrap().push((recorder, memory));
        Ok(group.devices()[0].clone())
    }

    fn kernel(&self, kernel: Kernel, format: &str) -> Result<Vec<u8>> {
        let name = match (kernel, format) {
            (Kernel::Native, EMBEDDED | SYSTEM) => "native.so".to_string(),
            (_, EMBEDDED) => format!("{}.embedded.elf", kernel.name()),
            (_, SYSTEM) => format!("{}.system.so", kernel.name()),
            (Kernel::Native, _) => return Err(Error::not_found(format!("no kernels in C for {format}"))),
            (_, VMVX) => format!("{}.vmvx.vmfb", kernel.name()),
            (_, DESCRIPTORS) => format!("../vulkan/executables/{}.descriptors.vk1", kernel.name()),
            (_, ADDRESSES) => format!("../vulkan/executables/{}.addresses.vk1", kernel.name()),
            _ => return Err(Error::not_found(format!("no kernel '{}' for {format}", kernel.name()))),
        };
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cts").join(name);
        std::fs::read(&path).map_err(|error| Error::io(format!("reading '{}'", path.display()), &error))
    }

    #[allow(unsafe_code, reason = "the suite's kernels are fixtures of ours")]
    fn prepare(&self, device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: the suite passes kernels of `fixtures/cts`, which are part of this repository and
        // access only their bindings, and damaged copies, which must be rejected.
        unsafe { device.backend().prepare_executable(params) }
    }

    fn saw(&self, bytes: &[u8]) {
        self.saw.lock().unwrap().push(bytes.to_vec());
    }

    fn expected(&self) -> &[Expected] {
        const VMVX_IS_NOT_MACHINE_CODE: Expected =
            Expected::Fails("native/vmvx-bytecode-fb/*", "kernels in C are machine code");
        const DISCRETE: &[Expected] = &[
            VMVX_IS_NOT_MACHINE_CODE,
            Expected::Lacks(Capability::HostMemory, "its memory is separate from the host's"),
        ];
        const VULKAN: &[Expected] = &[
            Expected::Lacks(Capability::SelectedWorkgroups, "Vulkan dispatches all workgroups"),
            Expected::Fails("native/vulkan-spirv-fb/*", "kernels in C are machine code"),
            Expected::Fails("native/vulkan-spirv-bda-v1/*", "kernels in C are machine code"),
        ];
        match self.base {
            Base::Discrete => DISCRETE,
            Base::Vulkan => VULKAN,
            Base::Sync | Base::Task => &[VMVX_IS_NOT_MACHINE_CODE],
        }
    }
}

impl RecordedSubject {
    /// Replays the captures in both orders and compares the reads; a test in [`NOT_REPLAYABLE`] must fail
    /// with the error given there.
    fn judge(self, test: &str) -> Result<(), Failed> {
        let fails_later = match self.base {
            Base::Sync | Base::Discrete | Base::Vulkan => &[][..],
            Base::Task => FAILS_ON_WORKERS,
        };
        let mut all = fails_later.iter().chain(NOT_REPLAYABLE);
        let declared = all.find(|(pattern, _)| glob::matches(pattern, test));
        let reason = declared.and_then(|(_, reason)| *reason);
        let (base, saw) = (self.base, self.saw.into_inner().unwrap());
        let captures = captures(self.recorders.into_inner().unwrap())?;
        for order in [ReplayOrder::Serialized, ReplayOrder::Captured] {
            let name = order.name();
            match (replay(&captures, base, order, &saw), reason) {
                (Ok(()), None) => {}
                (Err(error), None) => return Err(format!("{name}: {error}").into()),
                (Err(error), Some(reason)) if error.contains(reason) => {}
                (Err(error), Some(reason)) => {
                    return Err(format!("{name}: fails, but not for {reason:?}: {error}").into());
                }
                (Ok(()), Some(reason)) => {
                    return Err(format!("{name}: replays, though it is declared not to: {reason}").into());
                }
            }
        }
        Ok(())
    }
}

/// The finished captures of a test, whose records are all valid.
fn captures(recorders: Vec<(Recorder, Memory)>) -> Result<Vec<Vec<u8>>, Failed> {
    let finish = |(recorder, memory): (Recorder, Memory)| {
        recorder.close()?;
        let bytes = memory.bytes();
        let capture = Capture::open(&bytes, OpenOptions::default())?;
        for record in capture.records() {
            record?.payload()?;
        }
        Ok(bytes)
    };
    let finished: Result<_> = recorders.into_iter().map(finish).collect();
    finished.map_err(|error| error.report().into())
}

/// Replays the captures, and compares the reads with those of the test.
fn replay(captures: &[Vec<u8>], base: Base, order: ReplayOrder, saw: &[Vec<u8>]) -> Result<(), String> {
    let mut replayed = Vec::new();
    for bytes in captures {
        replayed.extend(reads_of(bytes.clone(), base, order).map_err(|error| error.report())?);
    }
    compare(saw, replayed)
}

/// The host reads of a replay on a fresh device.
fn reads_of(bytes: Vec<u8>, base: Base, order: ReplayOrder) -> Result<Vec<Vec<u8>>> {
    let plan = Plan::compile(bytes, PlanOptions::default())?;
    let devices = (0..plan.device_count()).map(|_| device(base)).collect::<Result<_>>()?;
    let mut reads = Reads::default();
    let group = DeviceGroup::new(devices)?;
    let options = ReplayOptions::default().order(order);
    Replay::new(plan, &group, &options)?.run(&mut [&mut reads])?;
    Ok(reads.0)
}

/// Every read of the test must be among those of the replay, in any order: a test may read from several
/// threads.
fn compare(saw: &[Vec<u8>], mut replayed: Vec<Vec<u8>>) -> Result<(), String> {
    for (index, bytes) in saw.iter().enumerate() {
        let Some(at) = replayed.iter().position(|read| read == bytes) else {
            let start = &bytes[..bytes.len().min(64)];
            return Err(format!(
                "read {index} of {} bytes, {start:02x?}, is in no read of the replay",
                bytes.len()
            ));
        };
        replayed.swap_remove(at);
    }
    Ok(())
}

/// Host calls, and the calls that these made.
const NOT_HELD: Option<&str> = Some("the program made a call that captures cannot represent");

/// Tests whose captures cannot be replayed, by name pattern, with part of the error; `None` if they can. The
/// first matching pattern applies.
const NOT_REPLAYABLE: &[(&str, Option<&str>)] = &[
    // A failed host call is skipped, like every failed submission.
    ("queue/host_call/*fail*", None),
    ("host_call/failure_*", None),
    ("host_call/deferred_may_fail_later", None),
    ("queue/host_call/*", NOT_HELD),
    ("host_call/*", NOT_HELD),
    ("ordering/chain_in_reverse_order", NOT_HELD),
    ("ordering/diamond", NOT_HELD),
    ("ordering/fork", NOT_HELD),
    ("ordering/join", NOT_HELD),
    ("stress/random_graph_from_several_threads", NOT_HELD),
    ("stress/a_failure_reaches_only_what_depends_on_it", NOT_HELD),
    ("native/*-elf-x86_64/queue*/nothing_runs_after_a_failure", None),
    // A command buffer with a failed command is skipped as a whole, including the commands before it.
    ("native/*-elf-x86_64/*/nothing_runs_after_a_failure", Some("is in no read of the replay")),
    // Captures do not contain which workgroups ran.
    ("dispatch/*-elf-x86_64/*/selected_workgroups", Some("is in no read of the replay")),
    ("dispatch/vmvx-bytecode-fb/*/selected_workgroups", Some("is in no read of the replay")),
];

/// The same for kernels that fail on a worker, after the call that submits them: the record has the status of
/// the call, as in the reference's captures, and the replay fails as the program did.
const FAILS_ON_WORKERS: &[(&str, Option<&str>)] = &[
    ("native/*-elf-x86_64/*/failing_kernel", KERNEL_FAILS),
    ("native/*-elf-x86_64/*/nothing_runs_after_a_failure", KERNEL_FAILS),
];

const KERNEL_FAILS: Option<&str> = Some("function 'fails' failed in workgroup");

fn main() -> ExitCode {
    let mut cases = Vec::new();
    let bases =
        [("", Base::Sync), ("discrete/", Base::Discrete), ("task/", Base::Task), ("vulkan/", Base::Vulkan)];
    for (prefix, base) in bases {
        cases.extend(rehal_cts::tests(base.formats()).into_iter().map(|test| {
            let name = format!("{prefix}{}", test.name());
            let run = move || {
                let subject = RecordedSubject { base, ..RecordedSubject::default() };
                test.judge(&subject)?;
                subject.judge(test.name())
            };
            Case { name, run: Box::new(run) }
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), testing::trials(cases)).exit_code()
}
