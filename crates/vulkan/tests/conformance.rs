//! The conformance suite on a Vulkan device, under the validation layer: with all that the device has, with memory that the host
//! does not map, and with descriptors from pools; and without the layer, since threads wait in another way then. Any message of the
//! layer fails a test.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::Arguments;
use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rehal_cts::{Expected, Kernel, Subject};
use rehal_hal::{Device, Driver, Executable, ExecutableParams, OptionSet};
use rehal_vulkan::{DebugMessage, VulkanDriver, VulkanDriverOptions, VulkanOptions};
use testing::Case;

const DESCRIPTORS: &str = "vulkan-spirv-fb";
const ADDRESSES: &str = "vulkan-spirv-bda-v1";

/// The messages of the validation layer that no test has failed with yet.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Vulkan {
    is_validated: bool,
    maps_device_memory: bool,
    push_descriptors: bool,
}

/// What runs the suite, by prefix of the tests' names.
const SUBJECTS: [(&str, Vulkan); 4] = [
    ("", Vulkan { is_validated: true, maps_device_memory: true, push_descriptors: true }),
    ("discrete/", Vulkan { is_validated: true, maps_device_memory: false, push_descriptors: true }),
    ("pools/", Vulkan { is_validated: true, maps_device_memory: true, push_descriptors: false }),
    ("unvalidated/", Vulkan { is_validated: false, maps_device_memory: true, push_descriptors: true }),
];

/// A driver with the layer and one without; all devices share their instances.
fn driver(is_validated: bool) -> &'static Driver {
    static DRIVERS: [OnceLock<Driver>; 2] = [OnceLock::new(), OnceLock::new()];
    DRIVERS[usize::from(is_validated)].get_or_init(|| {
        let mut options = VulkanDriverOptions::default();
        options.validation = is_validated;
        options.messages =
            Some(Arc::new(|message: &DebugMessage| MESSAGES.lock().push(message.text.clone())));
        Driver::new(VulkanDriver::new(options))
    })
}

/// Fails with the messages so far.
fn check_messages() -> Result<()> {
    let messages = std::mem::take(&mut *MESSAGES.lock());
    if messages.is_empty() {
        return Ok(());
    }
    Err(Error::new(StatusCode::Internal, format!("the validation layer says:\n{}", messages.join("\n"))))
}

impl Subject for Vulkan {
    fn device(&self) -> Result<Device> {
        let mut options = VulkanOptions::default();
        options.maps_device_memory = self.maps_device_memory;
        options.push_descriptors = self.push_descriptors;
        driver(self.is_validated).create_device("", &OptionSet::default().with(options))
    }

    fn kernel(&self, kernel: Kernel, format: &str) -> Result<Vec<u8>> {
        let suffix = match (kernel, format) {
            (Kernel::Native, _) => return Err(Error::not_found(format!("kernels in C are not of {format}"))),
            (_, DESCRIPTORS) => "descriptors",
            (_, ADDRESSES) => "addresses",
            _ => return Err(Error::not_found(format!("no kernel '{}' for {format}", kernel.name()))),
        };
        let name = format!("{}.{suffix}.vk1", kernel.name());
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vulkan/executables").join(name);
        std::fs::read(&path).map_err(|error| Error::io(format!("reading '{}'", path.display()), &error))
    }

    #[allow(unsafe_code, reason = "the suite's kernels are our fixtures")]
    fn prepare(&self, device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
        // SAFETY: the suite passes kernels of `fixtures/vulkan`, which are in this repository and access only their
        // bindings, and corrupt copies that must be rejected.
        unsafe { device.backend().prepare_executable(params) }
    }

    fn expected(&self) -> &[Expected] {
        const NATIVE: [Expected; 2] = [
            Expected::Fails("native/vulkan-spirv-fb/*", "kernels in C are machine code"),
            Expected::Fails("native/vulkan-spirv-bda-v1/*", "kernels in C are machine code"),
        ];
        &NATIVE
    }
}

fn main() -> ExitCode {
    let mut cases = Vec::new();
    for (prefix, subject) in SUBJECTS {
        let subject: Arc<dyn Subject> = Arc::new(subject);
        cases.extend(rehal_cts::tests(&[DESCRIPTORS, ADDRESSES]).into_iter().map(|test| {
            let subject = subject.clone();
            let name = format!("{prefix}{}", test.name());
            let run = move || {
                test.judge(&*subject)?;
                check_messages().map_err(|error| error.report().into())
            };
            Case { name, run: Box::new(run) }
        }));
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), testing::trials(cases));
    match check_messages() {
        Ok(()) => conclusion.exit_code(),
        Err(error) => {
            eprintln!("{}", error.report());
            ExitCode::FAILURE
        }
    }
}
