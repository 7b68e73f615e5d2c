use rehal_base::Result;
use rehal_hal::gpu_formats::CUDA;
use rehal_hal::{
    CompilerTarget, Device, DeviceDescription, DeviceParameter, DriverBackend, ExecutableFormat, OptionSet,
    SystemFiles,
};
use rehal_local::create_emulated;
use rehal_local::emulator::{CUDA_DRIVER, EMULATOR, EMULATOR_PARAMETERS, no_hardware};

/// The driver of NVIDIA GPUs, which joins its sources of devices: an emulated one, on any machine.
pub(crate) struct CudaDriver;

impl DriverBackend for CudaDriver {
    fn name(&self) -> &str {
        CUDA_DRIVER
    }

    fn description(&self) -> &str {
        "NVIDIA GPUs, through the CUDA driver"
    }

    fn availability(&self) -> Result<()> {
        Err(no_hardware(CUDA_DRIVER))
    }

    fn formats(&self) -> &'static [ExecutableFormat] {
        &[CUDA]
    }

    fn compiler_target(&self) -> Option<CompilerTarget> {
        Some(gpu_target("cuda", "--iree-cuda-target"))
    }

    fn check_format(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn parameters(&self) -> &'static [DeviceParameter] {
        EMULATOR_PARAMETERS.parameters
    }

    fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
        self.availability().map(|()| Vec::new())
    }

    fn emulated(&self) -> &'static [&'static str] {
        &[EMULATOR]
    }

    fn create_device(&self, path: &str, options: &OptionSet, group: &[Device]) -> Result<Device> {
        match path {
            EMULATOR => create_emulated(options, group),
            _ => Err(no_hardware(CUDA_DRIVER)),
        }
    }

    fn system_files(&self) -> SystemFiles {
        SystemFiles::NONE
    }

    fn describe_workers(&self, _options: &OptionSet) -> Option<Result<String>> {
        None
    }
}

/// How programs are compiled for GPUs that the compiler calls `name`.
pub(crate) const fn gpu_target(name: &'static str, chip_flag: &'static str) -> CompilerTarget {
    CompilerTarget { name, device: name, flags: "", chip_flag, own_chip: None, chips: &[] }
}
