use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rehal_hal::DeviceOptions;

/// The name of the driver.
pub const VULKAN: &str = "vulkan";

/// How the driver finds devices: the loader, its layers and messages.
#[derive(Clone)]
#[non_exhaustive]
pub struct VulkanDriverOptions {
    /// Where the loader is looked for first: directories, or files. Default: none, so that the system finds
    /// it.
    pub search_paths: Vec<PathBuf>,
    /// Whether calls are checked by the Khronos validation layer, which has to be installed. Default: no.
    pub validation: bool,
    /// Whether the validation layer also looks for accesses that no barrier orders, which takes longer.
    /// Default: no.
    pub synchronization_validation: bool,
    /// Whether objects and commands have names for debuggers, and messages of the driver are received.
    /// Default: no.
    pub debug_utils: bool,
    /// The least severe messages that are received. Default: warnings.
    pub least_severity: DebugSeverity,
    /// Receives messages, and warnings of this driver about kernels. Default: they are printed to standard
    /// error.
    pub messages: Option<DebugSink>,
}

impl Default for VulkanDriverOptions {
    fn default() -> Self {
        Self {
            search_paths: Vec::new(),
            validation: false,
            synchronization_validation: false,
            debug_utils: false,
            least_severity: DebugSeverity::Warning,
            messages: None,
        }
    }
}

impl DeviceOptions for VulkanDriverOptions {}

/// The severity of a message of Vulkan, from the most severe to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DebugSeverity {
    /// Invalid usage.
    Error,
    /// Usage that may be wrong.
    Warning,
    /// Information.
    Info,
    /// Diagnostics.
    Verbose,
}

/// A message of a layer or a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugMessage {
    /// How severe it is.
    pub severity: DebugSeverity,
    /// Its identifier, or empty.
    pub id: String,
    /// The text.
    pub text: String,
}

/// Receives messages, from any thread, in the middle of calls of Vulkan: it must not call the driver.
pub type DebugSink = Arc<dyn Fn(&DebugMessage) + Send + Sync>;

/// The ways in which kernels receive their buffers that a device accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchAbis {
    /// All that the device supports.
    #[default]
    All,
    /// Descriptor sets.
    Descriptor,
    /// Buffer device addresses, in a table whose address is a push constant.
    BufferDeviceAddress,
}

/// Options of a `vulkan` device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VulkanOptions {
    /// The kinds of executables that it prepares. Default: all.
    pub dispatch_abis: DispatchAbis,
    /// Whether kernels and descriptors may use buffer device addresses. Default: if the device has them.
    pub buffer_device_addresses: bool,
    /// Whether descriptors are pushed into command buffers where the device can. Default: yes.
    pub push_descriptors: bool,
    /// Whether accesses of kernels outside of their bindings are bounded by the driver. Default: no.
    pub robust_buffer_access: bool,
    /// Whether a queue family without graphics is preferred. Default: yes.
    pub prefers_dedicated_queue: bool,
    /// Whether the host maps device-local memory where it can, and reads and writes files there without
    /// staging. Default: yes.
    pub maps_device_memory: bool,
    /// Whether kernels fail whose code is made for subgroups of another size than the device has, instead of
    /// a warning that their results are wrong. Default: no.
    pub refuses_subgroup_mismatches: bool,
    /// Fails the device if a submission executes for longer. Default: never.
    pub timeout: Option<Duration>,
    /// Whether `spirv-val`, which has to be installed, validates each module before the driver gets it.
    /// Default: no.
    pub validates_spirv: bool,
}

impl Default for VulkanOptions {
    fn default() -> Self {
        Self {
            dispatch_abis: DispatchAbis::All,
            buffer_device_addresses: true,
            push_descriptors: true,
            robust_buffer_access: false,
            prefers_dedicated_queue: true,
            maps_device_memory: true,
            refuses_subgroup_mismatches: false,
            timeout: None,
            validates_spirv: false,
        }
    }
}

impl DeviceOptions for VulkanOptions {}
