//! Captures of devices that this machine does not have.

use rehal_base::Result;
use rehal_hal::{Device, DeviceGroup, DriverRegistry, ExecutableFormat, gpu_formats};
use rehal_local::emulator::check_code;
use rehal_local::executable::format::FORMATS;
use rehal_local::{LocalSync, LocalSyncOptions};
use rehal_replay::Plan;

use crate::{driver_of_format, find_format};

/// A format of executables that no driver runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignFormat {
    /// Its name, such as `cuda-nvptx-fb`.
    pub name: String,
    /// The processor that the executable is compiled for, if that is known.
    pub target: Option<String>,
}

/// The format of the first executable of a capture that none of the drivers runs on this machine; `None` if
/// there is a driver for each.
pub fn foreign_format(registry: &DriverRegistry, plan: &Plan) -> Option<ForeignFormat> {
    plan.executables().find_map(|executable| {
        let name = String::from_utf8_lossy(executable.format);
        let driver = driver_of_format(registry, &name).ok().flatten();
        let found = driver.and_then(|driver| registry.find(driver).ok());
        if found.is_some_and(|driver| driver.availability().is_ok()) {
            return None;
        }
        let target = find_format(registry, &name).and_then(|it| (it.target)(&name, executable.data));
        Some(ForeignFormat { name: name.into_owned(), target })
    })
}

/// Devices for a plan that perform everything but its dispatches, which do nothing: executables of formats
/// that can be read are data to them, and nothing of the capture is executed. They refuse replacements that
/// the emulated devices of this build do not take.
pub fn idle_devices(registry: &DriverRegistry, plan: &Plan) -> Result<DeviceGroup> {
    let format = plan.executables().next().map(|it| String::from_utf8_lossy(it.format).into_owned());
    let device = || idle_device_of(CHECKED, registry, format.as_deref().unwrap_or_default());
    DeviceGroup::new((0..plan.device_count()).map(|_| device()).collect::<Result<_>>()?)
}

/// Such a device for executables of a format, and of all others that this workspace knows. It takes what
/// hardware may take.
pub fn idle_device(registry: &DriverRegistry, format: &str) -> Result<Device> {
    idle_device_of(KNOWN, registry, format)
}

fn idle_device_of(
    known: &'static [ExecutableFormat],
    registry: &DriverRegistry,
    format: &str,
) -> Result<Device> {
    let is_known = ExecutableFormat::find(known, format).is_some();
    let driver = registry.drivers().iter().find(|it| !is_known && it.has_format(format));
    let described = Some(driver.map_or(known, |it| it.backend().formats()));
    LocalSync::create_with(LocalSyncOptions { described, ..LocalSyncOptions::default() })
}

/// The formats of all drivers that exist.
const KNOWN: &[ExecutableFormat] = &known(gpu_formats::CUDA);
/// The same, with the checks of emulated devices.
const CHECKED: &[ExecutableFormat] =
    &known(ExecutableFormat { check_emulated: Some(check_code), ..gpu_formats::CUDA });

const fn known(cuda: ExecutableFormat) -> [ExecutableFormat; 9] {
    let [embedded, system, vmvx] = FORMATS;
    let others = [ExecutableFormat::of_gpu("metal-"), ExecutableFormat::of_gpu("webgpu-")];
    let [metal, webgpu] = others;
    let gpu = [gpu_formats::VULKAN, gpu_formats::HIP, gpu_formats::AMDGPU];
    let [vulkan, hip, amdgpu] = gpu;
    [embedded, system, vmvx, vulkan, cuda, hip, amdgpu, metal, webgpu]
}
