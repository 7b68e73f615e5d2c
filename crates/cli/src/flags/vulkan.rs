//! Flags of the Vulkan driver, with the names and defaults of the pinned release.

use std::path::PathBuf;
use std::sync::Arc;

use rehal_session::{DebugSeverity, DispatchAbis, DriverOptions, VulkanOptions};

use super::catalog::DEVICE_TIMEOUT;
use super::flag::{Effect, Flag, Group, List};
use super::parse::Flags;

const DRIVER: Effect = Effect::OfDriver("vulkan");
const NO_SPARSE: Effect = Effect::Ignored("buffers are never sparse: each is one allocation");
const NO_CACHE: Effect = Effect::Ignored("command buffers are prepared once, without a cache of instances");

const SEARCH_PATH: List<PathBuf> = List::paths(
    "vulkan_libvulkan_search_path",
    "PATH",
    "Directory of the Vulkan loader, or the loader itself. Repeat it for several, which are tried in order before the system's.",
);

const VALIDATION_LAYERS: Flag<bool> = Flag::switch(
    "vulkan_validation_layers",
    false,
    "Checks calls of the driver with the Khronos validation layer, which has to be installed. It prints to standard error.",
);

const DEBUG_UTILS: Flag<bool> = Flag::switch(
    "vulkan_debug_utils",
    false,
    "Names objects for debuggers, and prints messages of the driver to standard error.",
);

/// A cutoff: the reference accepts any number.
const DEBUG_VERBOSITY: Flag<Option<DebugSeverity>> = Flag::number(
    "vulkan_debug_verbosity",
    2,
    (i32::MIN as i64, i32::MAX as i64),
    |verbosity| match verbosity {
        ..=0 => None,
        1 => Some(DebugSeverity::Error),
        2 => Some(DebugSeverity::Warning),
        3 => Some(DebugSeverity::Info),
        4.. => Some(DebugSeverity::Verbose),
    },
    "Which messages are printed: 0 or less none, 1 errors, 2 also warnings, 3 also information, 4 or more all.",
);

const TRACING: Flag<bool> = Flag::switch("vulkan_tracing", true, "Reports Vulkan events to profiles.")
    .effect(Effect::Ignored("what a profile has is chosen by --device_profiling_mode"));

const ROBUST_BUFFER_ACCESS: Flag<bool> = Flag::switch(
    "vulkan_robust_buffer_access",
    false,
    "Bounds accesses of kernels outside of what is bound to them.",
)
.effect(DRIVER);

const SPARSE_BINDING: Flag<bool> =
    Flag::switch("vulkan_sparse_binding", false, "Uses sparse binding for large buffers.").effect(NO_SPARSE);

const SPARSE_RESIDENCY: Flag<bool> =
    Flag::switch("vulkan_sparse_residency", false, "Uses sparse residency and aliased sparse buffers.")
        .effect(NO_SPARSE);

const BUFFER_DEVICE_ADDRESSES: Flag<bool> = Flag::switch(
    "vulkan_buffer_device_addresses",
    true,
    "Uses buffer device addresses where the device has them.",
)
.effect(DRIVER);

const DISPATCH_ABI: Flag<DispatchAbis> = Flag::choice(
    "vulkan_dispatch_abi",
    "all",
    &[
        ("descriptor", DispatchAbis::Descriptor),
        ("bda", DispatchAbis::BufferDeviceAddress),
        ("all", DispatchAbis::All),
    ],
    "Which executables are prepared: descriptor, those that take descriptors; bda, those that take buffer device \
     addresses; all.",
)
.aliases(&[
    ("descriptors", DispatchAbis::Descriptor),
    ("buffer-device-address", DispatchAbis::BufferDeviceAddress),
])
.effect(DRIVER);

const CACHED_INSTANCES: Flag<u32> = Flag::number(
    "vulkan_cached_bda_replay_instances",
    16,
    (0, i32::MAX as i64),
    |count| count as u32,
    "Maximum number of prepared command buffers that a queue lane caches; 0 disables the cache.",
)
.effect(NO_CACHE);

const CACHED_BYTES: Flag<u64> = Flag::number(
    "vulkan_cached_bda_replay_publication_bytes",
    67108864,
    (0, i64::MAX),
    |bytes| bytes as u64,
    "Maximum number of bytes that the cached command buffers publish per queue lane.",
)
.effect(NO_CACHE);

const RETAINED_INSTANCES: Flag<u32> = Flag::number(
    "vulkan_retained_cached_bda_replay_instances",
    1,
    (0, i32::MAX as i64),
    |count| count as u32,
    "Number of idle instances of each command buffer that a trim retains.",
)
.effect(NO_CACHE);

const VALIDATE_SPIRV: Flag<bool> = Flag::switch(
    "vulkan_validate_spirv",
    false,
    "Validates each SPIR-V module with spirv-val, which has to be installed, before the driver gets it.",
)
.effect(DRIVER);

const DEDICATED_QUEUE: Flag<bool> = Flag::switch(
    "vulkan_dedicated_compute_queue",
    true,
    "Prefers a queue family for compute without graphics.",
)
.effect(DRIVER);

/// The Vulkan driver.
pub const VULKAN: Group = Group {
    title: "Vulkan",
    flags: &[
        &SEARCH_PATH,
        &VALIDATION_LAYERS,
        &DEBUG_UTILS,
        &DEBUG_VERBOSITY,
        &TRACING,
        &ROBUST_BUFFER_ACCESS,
        &SPARSE_BINDING,
        &SPARSE_RESIDENCY,
        &BUFFER_DEVICE_ADDRESSES,
        &DISPATCH_ABI,
        &CACHED_INSTANCES,
        &CACHED_BYTES,
        &RETAINED_INSTANCES,
        &VALIDATE_SPIRV,
        &DEDICATED_QUEUE,
    ],
};

/// How drivers find devices, by the flags.
pub(crate) fn driver_options(flags: &Flags) -> DriverOptions {
    let mut options = DriverOptions::default();
    options.vulkan.search_paths = flags.list(&SEARCH_PATH);
    options.vulkan.validation = flags.get(&VALIDATION_LAYERS);
    options.vulkan.debug_utils = flags.get(&DEBUG_UTILS);
    match flags.get(&DEBUG_VERBOSITY) {
        Some(severity) => options.vulkan.least_severity = severity,
        None => options.vulkan.messages = Some(Arc::new(|_| {})),
    }
    options
}

/// The options of `vulkan` devices set by the flags.
pub(crate) fn vulkan_options(flags: &Flags) -> VulkanOptions {
    let mut options = VulkanOptions::default();
    options.dispatch_abis = flags.get(&DISPATCH_ABI);
    options.buffer_device_addresses = flags.get(&BUFFER_DEVICE_ADDRESSES);
    options.robust_buffer_access = flags.get(&ROBUST_BUFFER_ACCESS);
    options.prefers_dedicated_queue = flags.get(&DEDICATED_QUEUE);
    options.timeout = flags.get(&DEVICE_TIMEOUT);
    options.validates_spirv = flags.get(&VALIDATE_SPIRV);
    options
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::time::Duration;

    use super::super::DEVICES;
    use super::*;

    fn flags(given: &[&str]) -> Flags {
        Flags::parse(&[&DEVICES, &VULKAN], given.iter().map(OsString::from)).unwrap()
    }

    #[test]
    fn no_flag_is_the_default() {
        let default = format!("{:?}", VulkanOptions::default());
        assert_eq!(format!("{:?}", vulkan_options(&flags(&[]))), default);
        let options = driver_options(&flags(&[])).vulkan;
        assert!(options.search_paths.is_empty() && options.messages.is_none());
        assert!(!options.validation && !options.debug_utils);
    }

    #[test]
    fn each_flag_sets_its_option() {
        let given = flags(&[
            "--vulkan_libvulkan_search_path=a",
            "--vulkan_libvulkan_search_path=b",
            "--vulkan_validation_layers",
            "--vulkan_debug_utils",
            "--vulkan_debug_verbosity=4",
            "--vulkan_robust_buffer_access",
            "--vulkan_buffer_device_addresses=false",
            "--vulkan_dispatch_abi=descriptors",
            "--vulkan_dedicated_compute_queue=false",
            "--device_timeout=1500ms",
            "--vulkan_validate_spirv",
            "--vulkan_cached_bda_replay_instances=4",
            "--vulkan_cached_bda_replay_publication_bytes=5",
            "--vulkan_retained_cached_bda_replay_instances=3",
        ]);
        let options = driver_options(&given).vulkan;
        assert_eq!(options.search_paths, [PathBuf::from("a"), PathBuf::from("b")]);
        assert!(options.validation && options.debug_utils && options.messages.is_none());
        assert_eq!(options.least_severity, DebugSeverity::Verbose);
        let options = vulkan_options(&given);
        assert!(options.robust_buffer_access && !options.buffer_device_addresses);
        assert!(!options.prefers_dedicated_queue);
        assert_eq!(options.dispatch_abis, DispatchAbis::Descriptor);
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert!(options.validates_spirv);
    }

    #[test]
    fn messages_can_be_silenced() {
        for verbosity in ["0", "-1", "-2147483648"] {
            let given = flags(&[&format!("--vulkan_debug_verbosity={verbosity}")]);
            assert!(driver_options(&given).vulkan.messages.is_some(), "{verbosity}");
        }
    }

    #[test]
    fn verbosity_above_the_last_level_is_the_last_level() {
        for verbosity in ["5", "100", "2147483647"] {
            let options = driver_options(&flags(&[&format!("--vulkan_debug_verbosity={verbosity}")])).vulkan;
            assert!(options.messages.is_none(), "{verbosity}");
            assert_eq!(options.least_severity, DebugSeverity::Verbose, "{verbosity}");
        }
    }
}
