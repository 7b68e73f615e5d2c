use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rehal_base::{Error, FileKind, Result};
use rehal_hal::{
    CommonOptions, CompilerTarget, Device, DeviceDescription, DeviceOptions, DeviceParameter, DriverBackend,
    ExecutableFormat, OptionSet,
};

use crate::describe::describe;
use crate::emulation::Emulation;
use crate::executable::format::{Image, binds_addresses, written_bindings};
use crate::instance::{DebugSeverity, DebugSink, Instance};
use crate::parameters::VULKAN_PARAMETERS;
use crate::physical::Physical;
use crate::{device, loader, physical};

/// The name of the driver.
pub const VULKAN: &str = "vulkan";

/// The formats of the driver.
pub(crate) const FORMATS: [ExecutableFormat; 1] = [ExecutableFormat {
    prefix: "vulkan-",
    description: "SPIR-V",
    files: &[FileKind::VulkanExecutable, FileKind::SpirV],
    is_host_code: false,
    states_workgroup_sizes: true,
    functions: |format, bytes| Ok(Image::read(format, bytes)?.functions()),
    written_bindings: Some(written_bindings),
    binds_addresses: Some(binds_addresses),
    is_same_code: None,
}];

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

/// The driver of Vulkan devices. The loader is opened when it is first asked for its availability.
#[derive(Default)]
pub struct VulkanDriver {
    options: VulkanDriverOptions,
    emulation: Emulation,
    /// Shared by all devices.
    instance: OnceLock<Result<Arc<Instance>>>,
}

impl VulkanDriver {
    /// A driver with these options.
    pub fn new(options: VulkanDriverOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// A driver whose devices look like others, for tests.
    #[doc(hidden)]
    pub fn emulating(options: VulkanDriverOptions, emulation: Emulation) -> Self {
        Self { options, emulation, ..Self::default() }
    }

    /// A driver with an instance that is there already.
    #[cfg(test)]
    pub(crate) fn on(instance: Arc<Instance>, emulation: Emulation) -> Self {
        let instance = OnceLock::from(Ok(instance));
        Self { options: VulkanDriverOptions::default(), emulation, instance }
    }

    fn instance(&self) -> Result<&Arc<Instance>> {
        let create = || {
            let entry = loader::load(&self.options.search_paths)?;
            Instance::create(entry, &self.options).map(Arc::new)
        };
        self.instance.get_or_init(create).as_ref().map_err(Error::clone)
    }

    fn devices(&self) -> Result<Vec<Physical>> {
        let instance = self.instance()?;
        let handles = instance.physical_devices()?.into_iter();
        let handles = handles
            .flat_map(|handle| std::iter::repeat_n(handle, usize::from(self.emulation.other_drivers) + 1));
        let mut found = usable(handles.map(|handle| Physical::query(instance, handle, &self.emulation)))?;
        self.emulation.set_drivers(&mut found);
        let uuids: Vec<_> = found.iter().map(Physical::uuids).collect();
        for (device, path) in found.iter_mut().zip(physical::paths(&uuids)) {
            device.path = path;
        }
        Ok(found)
    }
}

/// What succeeded: a driver that fails does not hide the devices of others. Fails if all did.
fn usable<T>(outcomes: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let (mut found, mut first_error) = (Vec::new(), None);
    for outcome in outcomes {
        match outcome {
            Ok(device) => found.push(device),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

impl DriverBackend for VulkanDriver {
    fn name(&self) -> &str {
        VULKAN
    }

    fn description(&self) -> &str {
        "GPUs, through Vulkan"
    }

    fn availability(&self) -> Result<()> {
        // A loader without drivers of devices creates no instance.
        self.instance().map(drop)
    }

    fn formats(&self) -> &'static [ExecutableFormat] {
        &FORMATS
    }

    fn check_format(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn compiler_target(&self) -> Option<CompilerTarget> {
        Some(CompilerTarget {
            name: "vulkan",
            device: "vulkan",
            flags: "",
            chip_flag: "--iree-vulkan-target",
            own_chip: None,
            chips: &[],
        })
    }

    fn parameters(&self) -> &'static [DeviceParameter] {
        &VULKAN_PARAMETERS
    }

    fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
        Ok(self.devices()?.iter().map(describe).collect())
    }

    fn create_device(&self, path: &str, options: &OptionSet, _group: &[Device]) -> Result<Device> {
        let common: CommonOptions = options.get();
        let mut options: VulkanOptions = options.get();
        options.timeout = options.timeout.or(common.timeout);
        options.refuses_subgroup_mismatches |= common.refuses_wrong_results;
        let devices = self.devices()?;
        let mut found = devices.into_iter().filter(|it| path.is_empty() || it.path == path);
        let chosen = if path.is_empty() {
            // The first device that works, or else the first, for its error.
            let mut all: Vec<_> = found.collect();
            let index = all.iter().position(|it| it.missing().is_empty()).unwrap_or(0);
            (index < all.len()).then(|| all.swap_remove(index))
        } else {
            found.next()
        };
        let physical = chosen.ok_or_else(|| Error::not_found(format!("no Vulkan device '{path}'")))?;
        device::create(physical, &options)
    }

    fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_queried_does_not_hide_the_others() {
        let failed = |what: &str| Err(Error::not_found(what));
        assert_eq!(usable([failed("a"), Ok(1), failed("b"), Ok(2)].into_iter()).unwrap(), [1, 2]);
        assert_eq!(usable::<u32>([].into_iter()).unwrap(), []);
        let error = usable::<u32>([failed("a"), failed("b")].into_iter()).unwrap_err();
        assert_eq!(error.message(), "a");
    }

    fn configured(params: &[(&str, &str)]) -> Result<VulkanOptions> {
        let driver = rehal_hal::Driver::new(VulkanDriver::default());
        let options = VulkanOptions { dispatch_abis: DispatchAbis::Descriptor, ..VulkanOptions::default() };
        Ok(driver.configure(OptionSet::default().with(options), params)?.get())
    }

    #[test]
    fn parameters_of_uris_set_options() {
        for (value, expected) in [
            ("descriptor", DispatchAbis::Descriptor),
            ("descriptors", DispatchAbis::Descriptor),
            ("bda", DispatchAbis::BufferDeviceAddress),
            (" buffer-device-address ", DispatchAbis::BufferDeviceAddress),
            ("all", DispatchAbis::All),
        ] {
            for key in ["dispatch_abi", "vulkan_dispatch_abi"] {
                assert_eq!(configured(&[(key, value)]).unwrap().dispatch_abis, expected, "{key}={value}");
            }
        }
        assert_eq!(configured(&[]).unwrap().dispatch_abis, DispatchAbis::Descriptor);
        let cache = configured(&[
            ("cached_bda_replay_instances", "3"),
            ("vulkan_cached_bda_replay_publication_bytes", "18446744073709551615"),
            ("retained_cached_bda_replay_instances", "2"),
        ]);
        assert!(cache.is_ok(), "{cache:?}");
        for (key, value) in [
            ("dispatch_abi", "BDA"),
            ("dispatch_abi", ""),
            ("cached_bda_replay_instances", "-1"),
            ("cached_bda_replay_instances", "4294967296"),
            ("retained_cached_bda_replay_instances", ""),
            ("cached_bda_replay_publication_bytes", "1k"),
            ("cached_bda_replay", "1"),
        ] {
            assert!(configured(&[(key, value)]).is_err(), "{key}={value}");
        }
    }
}
