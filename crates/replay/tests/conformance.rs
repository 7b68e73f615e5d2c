//! The conformance suite over a recorded `local-sync` device, over a recorded device with memory of its own that
//! `local-sync` does the work of, and over a recorded `local-task` device. It passes as on the bare one; then each capture that it left is replayed on a fresh
//! device, and everything that the test had read is read again. Tests that do what no replay in call order can do are
//! listed, each with the words of the refusal.

use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use rehal_base::{Error, Result, glob};
use rehal_capture::{Capture, OpenOptions};
use rehal_cts::discrete::DiscreteDevice;
use rehal_cts::{Capability, Expected, Kernel, Subject};
use rehal_hal::{Device, DeviceGroup, Executable, ExecutableParams};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions, Topology};
use rehal_replay::{
    FilePolicy, HostRead, Observer, Plan, PlanOptions, RecordOptions, Recorder, Replay, ReplayOptions,
};

const EMBEDDED: &str = "embedded-elf-x86_64";
const SYSTEM: &str = "system-elf-x86_64";
const VMVX: &str = "vmvx-bytecode-fb";

/// Memory that a capture is written to, and that can be looked at afterwards.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.lock().unwrap().seek(to)
    }
}

/// What is recorded, and replayed on.
#[derive(Clone, Copy, Default, PartialEq)]
enum Base {
    #[default]
    Sync,
    Discrete,
    Task,
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
    }
}

/// The devices of one test, each on a record of its own, and what the test read from them.
#[derive(Default)]
struct Recorded {
    base: Base,
    recorders: Mutex<Vec<(Recorder, Memory)>>,
    saw: Mutex<Vec<Vec<u8>>>,
}

impl Subject for Recorded {
    fn device(&self) -> Result<Device> {
        let memory = Memory::default();
        // The files of the tests are gone when their captures are replayed.
        let options = RecordOptions { file_policy: FilePolicy::CaptureAll, ..RecordOptions::default() };
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
            (Kernel::Native, _) => return Err(Error::not_found(format!("kernels in C are not of {format}"))),
            (_, VMVX) => format!("{}.vmvx.vmfb", kernel.name()),
            _ => return Err(Error::not_found(format!("no kernel '{}' for {format}", kernel.name()))),
        };
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cts").join(name);
        std::fs::read(&path).map_err(|error| Error::io(format!("reading '{}'", path.display()), &error))
    }

    #[allow(unsafe_code, reason = "the suite's kernels are fixtures of ours")]
    fn prepare(&self, device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: the suite hands over kernels of `fixtures/cts`, which this repository holds and
        // which touch nothing but their bindings, and damaged copies that must be refused.
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
        if self.base == Base::Discrete { DISCRETE } else { &[VMVX_IS_NOT_MACHINE_CODE] }
    }
}

impl Recorded {
    /// Replays what was recorded and compares; a test in [`NOT_REPLAYABLE`] has to fail for the reason given there.
    fn judge(self, test: &str) -> Result<(), Failed> {
        let declared = NOT_REPLAYABLE.iter().find(|(pattern, _)| glob::matches(pattern, test));
        match (self.replay(), declared.and_then(|(_, reason)| *reason)) {
            (Ok(()), None) => Ok(()),
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(reason)) if error.contains(reason) => Ok(()),
            (Err(error), Some(reason)) => Err(format!("fails, but not for {reason:?}: {error}").into()),
            (Ok(()), Some(reason)) => Err(format!("replays, though it is declared not to: {reason}").into()),
        }
    }

    fn replay(self) -> Result<(), String> {
        let mut replayed = Vec::new();
        for (recorder, memory) in self.recorders.into_inner().unwrap() {
            let reads = recorder.close().and_then(|()| {
                let bytes = memory.0.lock().unwrap().get_ref().clone();
                let capture = Capture::open(&bytes, OpenOptions::default())?;
                for record in capture.records() {
                    record?.payload()?;
                }
                reads_of(bytes, self.base)
            });
            replayed.extend(reads.map_err(|error| error.report())?);
        }
        compare(self.saw.into_inner().unwrap(), replayed)
    }
}

/// What a replay on a fresh device reads back.
fn reads_of(bytes: Vec<u8>, base: Base) -> Result<Vec<Vec<u8>>> {
    let plan = Plan::compile(bytes, PlanOptions::default())?;
    let devices = (0..plan.device_count()).map(|_| device(base)).collect::<Result<_>>()?;
    let mut reads = Reads::default();
    let group = DeviceGroup::new(devices)?;
    Replay::new(plan, &group, &ReplayOptions::default())?.run(&mut [&mut reads])?;
    Ok(reads.0)
}

/// The bytes of host reads.
#[derive(Default)]
struct Reads(Vec<Vec<u8>>);

impl Observer for Reads {
    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.0.push(read.to_vec());
        Ok(())
    }
}

/// Everything that the test saw, the replay reads: threads of a test may have read in another order.
fn compare(saw: Vec<Vec<u8>>, mut replayed: Vec<Vec<u8>>) -> Result<(), String> {
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

/// Functions of the program, and what they did.
const NOT_HELD: Option<&str> = Some("the program did here what a capture cannot hold");

/// Tests whose capture does not replay, by patterns of their names, and words of the error; those that do replay have
/// none. The first that matches counts.
const NOT_REPLAYABLE: &[(&str, Option<&str>)] = &[
    // A host call that failed is skipped, as every submission that did.
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
    ("native/*-elf-x86_64/queue/nothing_runs_after_a_failure", None),
    // What a command buffer did before one of its commands failed is skipped with it.
    ("native/*-elf-x86_64/*/nothing_runs_after_a_failure", Some("is in no read of the replay")),
];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for (prefix, base) in [("", Base::Sync), ("discrete/", Base::Discrete), ("task/", Base::Task)] {
        trials.extend(rehal_cts::tests(&[EMBEDDED, SYSTEM, VMVX]).into_iter().map(|test| {
            let name = format!("{prefix}{}", test.name());
            Trial::test(name, move || {
                let subject = Recorded { base, ..Recorded::default() };
                test.judge(&subject)?;
                subject.judge(test.name())
            })
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
