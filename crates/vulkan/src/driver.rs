use std::iter::repeat_n;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rehal_base::platform::OsStrExt;
use rehal_base::{Error, Result};
use rehal_hal::{
    CommonOptions, CompilerTarget, Device, DeviceDescription, DeviceParameter, DriverBackend,
    ExecutableFormat, OptionSet, SystemFiles,
};

use crate::describe::describe;
use crate::emulation::Emulation;
use crate::executable::FORMATS;
use crate::instance::Instance;
use crate::parameters::VULKAN_PARAMETERS;
use crate::physical::Physical;
use crate::{VULKAN, VulkanDriverOptions, VulkanOptions, device, loader, physical};

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
        // Every other device has the UUID of another driver, if there is one.
        let drivers = usize::from(self.emulation.other_drivers) + 1;
        let handles = instance.physical_devices()?.into_iter().flat_map(|it| repeat_n(it, drivers));
        let mut found = usable(handles.map(|handle| Physical::query(instance, handle, &self.emulation)))?;
        (0..).zip(&mut found).for_each(|(index, device)| device.driver_uuid[0] ^= (index % drivers) as u8);
        let uuids: Vec<_> = found.iter().map(Physical::uuids).collect();
        for (device, path) in found.iter_mut().zip(physical::paths(&uuids)) {
            device.path = path;
        }
        Ok(found)
    }
}

/// The values of the calls that succeeded: a driver that fails does not hide the devices of others. Fails if
/// all did.
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

    fn emulated(&self) -> &'static [&'static str] {
        &[]
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

    fn system_files(&self) -> SystemFiles {
        system_files()
    }

    fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
        None
    }
}

/// Files that the Vulkan loader and drivers use. Found by trial for Mesa's driver for processors; of others,
/// those that they are known to open.
fn system_files() -> SystemFiles {
    const READS: &[&str] = &[
        "/dev/dri",
        "/dev/kfd",
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-modeset",
        "/dev/nvidia-uvm",
        "/dev/udmabuf",
        "/etc/vulkan",
        "/etc/drirc",
        "/proc/driver",
        "/sys",
        "/usr/local/share/vulkan",
        "/usr/share/drirc.d",
        "/usr/share/glvnd",
        "/usr/share/libdrm",
        "/usr/share/nvidia",
        "/usr/share/vulkan",
    ];
    // Those variables select drivers by their descriptions.
    let names = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].into_iter().find_map(std::env::var_os);
    let names = names.unwrap_or_default();
    let mut named = std::env::split_paths(&names).peekable();
    let is_mesas =
        |path: PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"lvp_icd"));
    let are_proved = named.peek().is_some() && named.all(is_mesas);
    SystemFiles { reads: READS, caches: &["mesa_shader_cache", "mesa_shader_cache_db", "nvidia"], are_proved }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DispatchAbis;

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
