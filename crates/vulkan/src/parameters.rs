//! The parameters of the driver, with the names and defaults of the pinned release.

use std::path::Path;
use std::sync::Arc;

use rehal_hal::{DeviceParameter, OptionSet, ParameterGroup, ParameterScope, ParameterValue};

use crate::{DebugSeverity, DispatchAbis, VULKAN, VulkanDriverOptions, VulkanOptions};

/// The parameters of the driver and of its devices.
pub const PARAMETERS: ParameterGroup = ParameterGroup { title: "Vulkan", parameters: &VULKAN_PARAMETERS };

const DEVICE: ParameterScope = ParameterScope::Device(VULKAN);
const NO_SPARSE: ParameterScope = ParameterScope::Ignored("buffers are never sparse: each is one allocation");
const NO_CACHE: ParameterScope =
    ParameterScope::Ignored("command buffers are prepared once, without a cache of instances");

pub(crate) const VULKAN_PARAMETERS: [DeviceParameter; 15] = [
    DeviceParameter {
        keys: &["vulkan_libvulkan_search_path"],
        scope: ParameterScope::Driver,
        value: ParameterValue::Paths(|options, paths| {
            set_driver(options, |it| it.search_paths = paths.iter().copied().map(Path::to_owned).collect());
        }),
        default: "",
        help: "Directory of the Vulkan loader, or the loader itself. Repeat it for several, which are tried in order \
               before the system's.",
    },
    DeviceParameter {
        keys: &["vulkan_validation_layers"],
        scope: ParameterScope::Driver,
        value: ParameterValue::Boolean(|options, value| set_driver(options, |it| it.validation = value)),
        default: "false",
        help: "Checks calls of the driver with the Khronos validation layer, which has to be installed. It prints to \
               standard error.",
    },
    DeviceParameter {
        keys: &["vulkan_debug_utils"],
        scope: ParameterScope::Driver,
        value: ParameterValue::Boolean(|options, value| set_driver(options, |it| it.debug_utils = value)),
        default: "false",
        help: "Names objects for debuggers, and prints messages of the driver to standard error.",
    },
    DeviceParameter {
        keys: &["vulkan_debug_verbosity"],
        scope: ParameterScope::Driver,
        // A cutoff: the reference accepts any number.
        value: ParameterValue::Integer {
            min: i32::MIN as i128,
            max: i32::MAX as i128,
            set: |options, verbosity| {
                let severity = match verbosity {
                    ..=0 => return set_driver(options, |it| it.messages = Some(Arc::new(|_| {}))),
                    1 => DebugSeverity::Error,
                    2 => DebugSeverity::Warning,
                    3 => DebugSeverity::Info,
                    4.. => DebugSeverity::Verbose,
                };
                set_driver(options, |it| (it.least_severity, it.messages) = (severity, None));
            },
        },
        default: "2",
        help: "Which messages are printed: 0 or less none, 1 errors, 2 also warnings, 3 also information, 4 or more \
               all.",
    },
    DeviceParameter {
        keys: &["tracing", "vulkan_tracing"],
        scope: ParameterScope::Ignored("what a profile has is chosen by --device_profiling_mode"),
        value: ParameterValue::Boolean(|_, _| {}),
        default: "true",
        help: "Reports Vulkan events to profiles.",
    },
    DeviceParameter {
        keys: &["robust_buffer_access", "vulkan_robust_buffer_access"],
        scope: DEVICE,
        value: ParameterValue::Boolean(|options, value| set(options, |it| it.robust_buffer_access = value)),
        default: "false",
        help: "Bounds accesses of kernels outside of what is bound to them.",
    },
    DeviceParameter {
        keys: &["sparse_binding", "vulkan_sparse_binding"],
        scope: NO_SPARSE,
        value: ParameterValue::Boolean(|_, _| {}),
        default: "false",
        help: "Uses sparse binding for large buffers.",
    },
    DeviceParameter {
        keys: &["sparse_residency", "vulkan_sparse_residency"],
        scope: NO_SPARSE,
        value: ParameterValue::Boolean(|_, _| {}),
        default: "false",
        help: "Uses sparse residency and aliased sparse buffers.",
    },
    DeviceParameter {
        keys: &["buffer_device_addresses", "vulkan_buffer_device_addresses"],
        scope: DEVICE,
        value: ParameterValue::Boolean(|options, value| {
            set(options, |it| it.buffer_device_addresses = value)
        }),
        default: "true",
        help: "Uses buffer device addresses where the device has them.",
    },
    DeviceParameter {
        keys: &["dispatch_abi", "vulkan_dispatch_abi"],
        scope: DEVICE,
        value: ParameterValue::Choice {
            words: &["descriptor", "bda", "all"],
            aliases: &["descriptors", "buffer-device-address"],
            set: |options, word| {
                let abis = match word {
                    "descriptor" | "descriptors" => DispatchAbis::Descriptor,
                    "bda" | "buffer-device-address" => DispatchAbis::BufferDeviceAddress,
                    _ => DispatchAbis::All,
                };
                set(options, |it| it.dispatch_abis = abis);
            },
        },
        default: "all",
        help: "Which executables are prepared: descriptor, those that take descriptors; bda, those that take buffer \
               device addresses; all.",
    },
    DeviceParameter {
        keys: &["cached_bda_replay_instances", "vulkan_cached_bda_replay_instances"],
        scope: NO_CACHE,
        value: ParameterValue::Integer { min: 0, max: u32::MAX as i128, set: |_, _| {} },
        default: "16",
        help: "Maximum number of prepared command buffers that a queue lane caches; 0 disables the cache.",
    },
    DeviceParameter {
        keys: &["cached_bda_replay_publication_bytes", "vulkan_cached_bda_replay_publication_bytes"],
        scope: NO_CACHE,
        value: ParameterValue::Integer { min: 0, max: u64::MAX as i128, set: |_, _| {} },
        default: "67108864",
        help: "Maximum number of bytes that the cached command buffers publish per queue lane.",
    },
    DeviceParameter {
        keys: &["retained_cached_bda_replay_instances", "vulkan_retained_cached_bda_replay_instances"],
        scope: NO_CACHE,
        value: ParameterValue::Integer { min: 0, max: u32::MAX as i128, set: |_, _| {} },
        default: "1",
        help: "Number of idle instances of each command buffer that a trim retains.",
    },
    DeviceParameter {
        keys: &["validate_spirv", "vulkan_validate_spirv"],
        scope: DEVICE,
        value: ParameterValue::Boolean(|options, value| set(options, |it| it.validates_spirv = value)),
        default: "false",
        help: "Validates each SPIR-V module with spirv-val, which has to be installed, before the driver gets it.",
    },
    DeviceParameter {
        keys: &["dedicated_compute_queue", "vulkan_dedicated_compute_queue"],
        scope: DEVICE,
        value: ParameterValue::Boolean(|options, value| {
            set(options, |it| it.prefers_dedicated_queue = value)
        }),
        default: "true",
        help: "Prefers a queue family for compute without graphics.",
    },
];

fn set(options: &mut OptionSet, set: impl FnOnce(&mut VulkanOptions)) {
    options.update(set);
}

fn set_driver(options: &mut OptionSet, set: impl FnOnce(&mut VulkanDriverOptions)) {
    options.update(set);
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::PathBuf;

    use super::*;

    fn options(given: &[(&str, &str)]) -> OptionSet {
        let mut options = OptionSet::default();
        let values = |parameter: &DeviceParameter| {
            let given = given.iter().filter(|(flag, _)| *flag == parameter.flag());
            given.map(|(_, value)| OsStr::new(*value)).collect()
        };
        PARAMETERS.set(&mut options, values).unwrap();
        options
    }

    #[test]
    fn defaults_change_nothing() {
        let given: Vec<_> = VULKAN_PARAMETERS.iter().filter(|it| !it.is_list()).collect();
        let given: Vec<_> = given.iter().map(|it| (it.flag(), it.default)).collect();
        let set = options(&given);
        let default = format!("{:?}", VulkanOptions::default());
        assert_eq!(format!("{:?}", set.get::<VulkanOptions>()), default);
        let driver: VulkanDriverOptions = set.get();
        assert!(driver.search_paths.is_empty() && driver.messages.is_none());
        assert!(!driver.validation && !driver.debug_utils);
        assert_eq!(driver.least_severity, DebugSeverity::Warning);
    }

    #[test]
    fn each_parameter_sets_its_option() {
        let set = options(&[
            ("vulkan_libvulkan_search_path", "a"),
            ("vulkan_libvulkan_search_path", "b"),
            ("vulkan_validation_layers", "true"),
            ("vulkan_debug_utils", "true"),
            ("vulkan_debug_verbosity", "4"),
            ("vulkan_robust_buffer_access", "true"),
            ("vulkan_buffer_device_addresses", "false"),
            ("vulkan_dispatch_abi", "descriptors"),
            ("vulkan_dedicated_compute_queue", "false"),
            ("vulkan_validate_spirv", "true"),
        ]);
        let driver: VulkanDriverOptions = set.get();
        assert_eq!(driver.search_paths, [PathBuf::from("a"), PathBuf::from("b")]);
        assert!(driver.validation && driver.debug_utils && driver.messages.is_none());
        assert_eq!(driver.least_severity, DebugSeverity::Verbose);
        let device: VulkanOptions = set.get();
        assert!(device.robust_buffer_access && !device.buffer_device_addresses);
        assert!(!device.prefers_dedicated_queue && device.validates_spirv);
        assert_eq!(device.dispatch_abis, DispatchAbis::Descriptor);
    }

    #[test]
    fn verbosity_is_a_cutoff() {
        let driver =
            |verbosity| options(&[("vulkan_debug_verbosity", verbosity)]).get::<VulkanDriverOptions>();
        for verbosity in ["0", "-1", "-2147483648"] {
            assert!(driver(verbosity).messages.is_some(), "{verbosity}");
        }
        for verbosity in ["5", "100", "2147483647"] {
            assert!(driver(verbosity).messages.is_none(), "{verbosity}");
            assert_eq!(driver(verbosity).least_severity, DebugSeverity::Verbose, "{verbosity}");
        }
    }
}
