//! The conformance suite on the devices `local-sync` and `local-task`, the latter with one worker and with
//! several, and on a discrete device that wraps the former.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;
use rehal_base::{Error, Result};
use rehal_cts::discrete::DiscreteDevice;
use rehal_cts::{Capability, Expected, Kernel, Subject};
use rehal_hal::{Device, Executable, ExecutableParams};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions, Topology};
use testing::Case;

const EMBEDDED: &str =
    if cfg!(target_arch = "aarch64") { "embedded-elf-arm_64" } else { "embedded-elf-x86_64" };
const SYSTEM: &str = if cfg!(target_arch = "aarch64") { "system-elf-arm_64" } else { "system-elf-x86_64" };
const VMVX: &str = "vmvx-bytecode-fb";

struct Local {
    /// Workers of a `local-task` device; `None` for `local-sync`.
    workers: Option<usize>,
    /// Whether the worker is pinned to the CPU of the creating thread, so that no other thread runs work.
    is_placed: bool,
    is_discrete: bool,
}

/// The devices that run the suite, by prefix of the tests' names.
const SUBJECTS: [(&str, Local); 5] = [
    ("", Local { workers: None, is_placed: false, is_discrete: false }),
    ("discrete/", Local { workers: None, is_placed: false, is_discrete: true }),
    ("task/", Local { workers: Some(3), is_placed: false, is_discrete: false }),
    ("task_of_one/", Local { workers: Some(1), is_placed: false, is_discrete: false }),
    ("task_placed/", Local { workers: Some(1), is_placed: true, is_discrete: false }),
];

impl Subject for Local {
    fn device(&self) -> Result<Device> {
        let device = match self.workers {
            None => LocalSync::create(Plugins::default()),
            Some(count) => {
                let mut options = LocalTaskOptions::default();
                if self.is_placed {
                    options.selection.max_workers = count;
                    options.topology = Some(Topology::merged(options.selection.select_pools()?)?);
                } else {
                    options.topology = Some(Topology::with_workers(count)?);
                }
                LocalTask::create(options)?
            }
        };
        Ok(if self.is_discrete { DiscreteDevice::over(device) } else { device })
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
        let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cts");
        // Fixtures are for x86-64. Where tests run on another processor, kernels are compiled before.
        let compiled = std::env::var_os("REHAL_TEST_KERNELS").filter(|_| format != VMVX);
        let path = compiled.map_or(fixtures, PathBuf::from).join(name);
        std::fs::read(&path).map_err(|error| Error::io(format!("reading '{}'", path.display()), &error))
    }

    #[allow(unsafe_code, reason = "the suite's kernels are our fixtures")]
    fn prepare(&self, device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: the suite passes kernels of `fixtures/cts`, which are in this repository and access only
        // their bindings, and corrupt copies that must be rejected.
        unsafe { device.backend().prepare_executable(params) }
    }

    fn expected(&self) -> &[Expected] {
        const VMVX_IS_NOT_MACHINE_CODE: Expected =
            Expected::Fails("native/vmvx-bytecode-fb/*", "kernels in C are machine code");
        const DISCRETE: &[Expected] = &[
            VMVX_IS_NOT_MACHINE_CODE,
            Expected::Lacks(Capability::HostMemory, "its memory is separate from the host's"),
        ];
        if self.is_discrete { DISCRETE } else { &[VMVX_IS_NOT_MACHINE_CODE] }
    }
}

fn main() -> ExitCode {
    let mut cases = Vec::new();
    for (prefix, subject) in SUBJECTS {
        let subject: Arc<dyn Subject> = Arc::new(subject);
        cases.extend(rehal_cts::tests(&[EMBEDDED, SYSTEM, VMVX]).into_iter().map(|test| {
            let subject = subject.clone();
            let name = format!("{prefix}{}", test.name());
            Case { name, run: Box::new(move || test.judge(&*subject).map_err(Into::into)) }
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), testing::trials(cases)).exit_code()
}
