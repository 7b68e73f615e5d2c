//! The conformance suite on a Vulkan device, under the validation layer: with all that the device has, with
//! memory that the host does not map, with descriptors from pools, and as if it were other hardware; and
//! without the layer, since threads wait in another way then. Any message of the layer fails a test.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::Arguments;
use parking_lot::Mutex;
use rehal_base::{Error, Result, StatusCode};
use rehal_cts::{Capability, Expected, Kernel, Subject};
use rehal_hal::{Device, Driver, Executable, ExecutableParams, OptionSet};
use rehal_vulkan::emulation::{EmulatedMemory, Emulation};
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
    emulated: Option<Emulated>,
}

/// Hardware that the machine does not have.
#[derive(Clone, Copy)]
enum Emulated {
    /// A GPU with memory of its own that the host cannot map, and a queue for transfers.
    Separate,
    /// A GPU that shares the memory of the host without coherence, and cannot import memory.
    Incoherent,
    /// Vulkan 1.2 without any feature, extension or timestamp that the driver can do without.
    Minimal,
}

const ALL: Vulkan =
    Vulkan { is_validated: true, maps_device_memory: true, push_descriptors: true, emulated: None };

/// The devices that run the suite, by prefix of the tests' names.
const SUBJECTS: [(&str, Vulkan); 7] = [
    ("", ALL),
    ("discrete/", Vulkan { maps_device_memory: false, ..ALL }),
    ("pools/", Vulkan { push_descriptors: false, ..ALL }),
    ("unvalidated/", Vulkan { is_validated: false, ..ALL }),
    ("separate/", Vulkan { emulated: Some(Emulated::Separate), ..ALL }),
    ("incoherent/", Vulkan { emulated: Some(Emulated::Incoherent), ..ALL }),
    ("minimal/", Vulkan { emulated: Some(Emulated::Minimal), ..ALL }),
];

impl Emulated {
    fn emulation(self) -> Emulation {
        match self {
            Self::Separate => Emulation {
                memory: Some(EmulatedMemory::Separate),
                has_transfer_family: true,
                has_narrow_limits: true,
                ..Emulation::default()
            },
            Self::Incoherent => Emulation {
                memory: Some(EmulatedMemory::Incoherent),
                has_narrow_limits: true,
                missing_extensions: &["VK_EXT_external_memory_host"],
                ..Emulation::default()
            },
            Self::Minimal => Emulation {
                is_vulkan_1_2: true,
                has_no_features: true,
                has_no_timestamps: true,
                has_no_events: true,
                missing_extensions: &[
                    "VK_KHR_push_descriptor",
                    "VK_EXT_external_memory_host",
                    "VK_EXT_calibrated_timestamps",
                    "VK_EXT_subgroup_size_control",
                    "VK_KHR_shader_integer_dot_product",
                    "VK_KHR_shader_non_semantic_info",
                ],
                ..Emulation::default()
            },
        }
    }
}

/// Drivers with the layer and one without; all devices of a driver share its instance.
fn driver(is_validated: bool, emulated: Option<Emulated>) -> &'static Driver {
    static DRIVERS: [OnceLock<Driver>; 5] = [const { OnceLock::new() }; 5];
    let index = emulated.map_or(usize::from(is_validated), |emulated| 2 + emulated as usize);
    DRIVERS[index].get_or_init(|| {
        let mut options = VulkanDriverOptions::default();
        options.validation = is_validated;
        options.synchronization_validation = is_validated;
        options.messages =
            Some(Arc::new(|message: &DebugMessage| MESSAGES.lock().push(message.text.clone())));
        let emulation = emulated.map(Emulated::emulation).unwrap_or_default();
        Driver::new(VulkanDriver::emulating(options, emulation))
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
        driver(self.is_validated, self.emulated).create_device("", &OptionSet::default().with(options))
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
        // SAFETY: the suite passes kernels of `fixtures/vulkan`, which are in this repository and access only
        // their bindings, and corrupt copies that must be rejected.
        unsafe { device.backend().prepare_executable(params) }
    }

    fn expected(&self) -> &[Expected] {
        const NATIVE: [Expected; 3] = [
            Expected::Lacks(Capability::SelectedWorkgroups, "Vulkan dispatches all workgroups"),
            Expected::Fails("native/vulkan-spirv-fb/*", "kernels in C are machine code"),
            Expected::Fails("native/vulkan-spirv-bda-v1/*", "kernels in C are machine code"),
        ];
        const NO_IMPORT: Expected =
            Expected::Lacks(Capability::HostMemory, "the device has no VK_EXT_external_memory_host");
        const INCOHERENT: [Expected; 4] = [NATIVE[0], NATIVE[1], NATIVE[2], NO_IMPORT];
        const MINIMAL: [Expected; 3] = [NATIVE[0], NATIVE[1], NO_IMPORT];
        match self.emulated {
            Some(Emulated::Incoherent) => &INCOHERENT,
            Some(Emulated::Minimal) => &MINIMAL,
            Some(Emulated::Separate) | None => &NATIVE,
        }
    }
}

fn main() -> ExitCode {
    let mut cases = Vec::new();
    for (prefix, subject) in SUBJECTS {
        // Without features, there are no addresses.
        let is_minimal = matches!(subject.emulated, Some(Emulated::Minimal));
        let formats = if is_minimal { &[DESCRIPTORS][..] } else { &[DESCRIPTORS, ADDRESSES] };
        let subject: Arc<dyn Subject> = Arc::new(subject);
        cases.extend(rehal_cts::tests(formats).into_iter().map(|test| {
            let subject = subject.clone();
            let name = format!("{prefix}{}", test.name());
            let run = move || {
                let (outcome, messages) = (test.judge(&*subject), check_messages());
                outcome?;
                messages.map_err(|error| error.report().into())
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
