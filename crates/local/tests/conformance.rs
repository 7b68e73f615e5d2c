//! The conformance suite over the `local-sync` device, one test of the harness for each of its own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use rehal_base::{Error, Result};
use rehal_cts::{Expected, Kernel, Subject};
use rehal_hal::{Device, Executable, ExecutableParams};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;

const EMBEDDED: &str = "embedded-elf-x86_64";
const SYSTEM: &str = "system-elf-x86_64";
const VMVX: &str = "vmvx-bytecode-fb";

struct Local;

impl Subject for Local {
    fn device(&self) -> Result<Device> {
        Ok(LocalSync::create(Plugins::default()))
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
        &[Expected::Fails("native/vmvx-bytecode-fb/*", "kernels in C are machine code")]
    }
}

fn main() -> ExitCode {
    let subject: Arc<dyn Subject> = Arc::new(Local);
    let trial = |test: rehal_cts::Test| {
        let subject = subject.clone();
        let name = test.name().to_string();
        Trial::test(name, move || test.judge(&*subject).map_err(Into::into))
    };
    let trials = rehal_cts::tests(&[EMBEDDED, SYSTEM, VMVX]).into_iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
