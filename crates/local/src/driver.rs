use rehal_base::Result;
use rehal_hal::{
    CommonOptions, CompilerTarget, Device, DeviceDescription, DeviceParameter, DriverBackend,
    ExecutableFormat, OptionSet, SystemFiles,
};

use crate::device::{LocalSync, LocalTask};
use crate::executable::format::{self, COMPILER_TARGET, FORMATS};
use crate::options::{LOCAL_SYNC, LOCAL_TASK, LocalSyncOptions, LocalTaskOptions};
use crate::parameters::{SYNC_PARAMETERS, TASK_PARAMETERS};

/// The driver of [`LocalSync`]: one device, on any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSyncDriver;

/// The driver of [`LocalTask`]: one device, on any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalTaskDriver;

macro_rules! driver {
    ($driver:ident($name:ident, $description:literal, $parameters:ident, $options:ident) => $create:expr, $workers:expr) => {
        impl DriverBackend for $driver {
            fn name(&self) -> &str {
                $name
            }

            fn description(&self) -> &str {
                $description
            }

            fn availability(&self) -> Result<()> {
                Ok(())
            }

            fn formats(&self) -> &'static [ExecutableFormat] {
                &FORMATS
            }

            fn check_format(&self, name: &str) -> Result<()> {
                format::check(name)
            }

            fn compiler_target(&self) -> Option<CompilerTarget> {
                Some(COMPILER_TARGET)
            }

            fn parameters(&self) -> &'static [DeviceParameter] {
                &$parameters
            }

            fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
                Ok(vec![DeviceDescription { name: "default".into(), ..DeviceDescription::default() }])
            }

            fn emulated(&self) -> &'static [&'static str] {
                &[]
            }

            fn create_device(&self, _path: &str, options: &OptionSet, group: &[Device]) -> Result<Device> {
                let common: CommonOptions = options.get();
                let mut own: $options = options.get();
                own.plugins.append(options.get());
                own.timeout = own.timeout.or(common.timeout);
                own.guards_buffers |= common.guards_buffers;
                own.perf_map = own.perf_map.or(common.perf_map);
                ($create)(own, group)
            }

            fn system_files(&self) -> SystemFiles {
                SystemFiles::NONE
            }

            fn describe_workers(&self, options: &OptionSet) -> Option<Result<String>> {
                ($workers)(options.get::<$options>())
            }
        }
    };
}

driver!(LocalTaskDriver(
    LOCAL_TASK, "CPU; runs work on a pool of threads", TASK_PARAMETERS, LocalTaskOptions
) => LocalTask::create_in, |own: LocalTaskOptions| Some(own.selection.describe()));

driver!(LocalSyncDriver(
    LOCAL_SYNC, "CPU; runs work on the thread that makes it ready", SYNC_PARAMETERS, LocalSyncOptions
) => |own, _: &[Device]| LocalSync::create_with(own), |_| None);

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;
    use rehal_hal::{Driver, DriverRegistry};

    use super::*;

    #[test]
    fn the_one_device_is_named_by_the_driver_or_by_its_index() {
        let mut registry = DriverRegistry::default();
        registry.register(Driver::new(LocalSyncDriver)).unwrap();
        let driver = registry.find(LOCAL_SYNC).unwrap();
        let uris: Vec<_> = driver.enumerate().unwrap().iter().map(|device| driver.uri(device)).collect();
        assert_eq!(uris, ["local-sync://"]);
        let options = OptionSet::default().with(LocalSyncOptions::default());
        for which in ["", "0"] {
            let device = driver.create_device(which, &options).unwrap();
            assert_eq!(
                (device.info().driver.as_str(), device.info().name.as_str()),
                (LOCAL_SYNC, LOCAL_SYNC)
            );
        }
        let error = driver.create_device("1", &options).err().unwrap();
        assert_eq!(error.code(), StatusCode::NotFound);
    }
}
