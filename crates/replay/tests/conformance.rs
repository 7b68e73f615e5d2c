//! The conformance suite over a recorded `local-sync` device, and over a recorded device with memory of its own that
//! `local-sync` does the work of. It passes as on the bare one, and the captures that it
//! leaves can be read to their end; those that hold nothing but what a capture can hold replay.

use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use rehal_base::{Error, Result};
use rehal_capture::{Capture, OpenOptions};
use rehal_cts::discrete::DiscreteDevice;
use rehal_cts::{Capability, Expected, Kernel, Subject};
use rehal_hal::{Device, DeviceGroup, Executable, ExecutableParams};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{Plan, PlanOptions, RecordOptions, Recorder};

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

/// The devices of one test, each on a record of its own.
#[derive(Default)]
struct Recorded {
    is_discrete: bool,
    captures: Mutex<Vec<(Recorder, Memory)>>,
}

impl Subject for Recorded {
    fn device(&self) -> Result<Device> {
        let memory = Memory::default();
        let recorder = Recorder::to(memory.clone(), RecordOptions::default())?;
        let device = LocalSync::create(Plugins::default());
        let device = if self.is_discrete { DiscreteDevice::over(device) } else { device };
        let group = recorder.wrap(&DeviceGroup::new(vec![device])?)?;
        self.captures.lock().unwrap().push((recorder, memory));
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

    fn expected(&self) -> &[Expected] {
        const VMVX_IS_NO_MACHINE: Expected =
            Expected::Fails("native/vmvx-bytecode-fb/*", "kernels in C are machine code");
        const DISCRETE: &[Expected] = &[
            VMVX_IS_NO_MACHINE,
            Expected::Lacks(Capability::HostMemory, "its memory is apart from the host's"),
        ];
        if self.is_discrete { DISCRETE } else { &[VMVX_IS_NO_MACHINE] }
    }
}

impl Recorded {
    fn check_captures(self) -> Result<()> {
        for (recorder, memory) in self.captures.into_inner().unwrap() {
            recorder.close()?;
            let bytes = memory.0.lock().unwrap().get_ref().clone();
            let capture = Capture::open(&bytes, OpenOptions::default())?;
            for record in capture.records() {
                record?.payload()?;
            }
            plan(bytes)?;
        }
        Ok(())
    }
}

/// What the suite does that no replay in call order can do: each is refused by name.
const NOT_REPLAYABLE: [&str; 3] = [
    "the program did here what a capture cannot hold",
    "which nothing before it in the capture signals",
    "which is at",
];

fn plan(bytes: Vec<u8>) -> Result<()> {
    match Plan::compile(bytes, PlanOptions::default()) {
        Err(error) if !NOT_REPLAYABLE.iter().any(|reason| error.message().contains(reason)) => Err(error),
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for (prefix, is_discrete) in [("", false), ("discrete/", true)] {
        trials.extend(rehal_cts::tests(&[EMBEDDED, SYSTEM, VMVX]).into_iter().map(|test| {
            let name = format!("{prefix}{}", test.name());
            Trial::test(name, move || {
                let subject = Recorded { is_discrete, ..Recorded::default() };
                test.judge(&subject)?;
                subject.check_captures().map_err(Failed::from)
            })
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
