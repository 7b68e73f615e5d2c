use rehal_base::Result;
use rehal_hal::{Device, DeviceDescription, DeviceOptions, DriverBackend, OptionSet};

use crate::LocalSync;
use crate::executable::Plugins;

/// The name of the driver, and of its one device.
pub const LOCAL_SYNC: &str = "local-sync";

/// The driver of [`LocalSync`]: one device, on any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSyncDriver;

/// Options of a `local-sync` device.
#[derive(Clone, Default)]
pub struct LocalSyncOptions {
    /// Libraries that resolve the imports of executables.
    pub plugins: Plugins,
}

impl DeviceOptions for LocalSyncOptions {}

impl DriverBackend for LocalSyncDriver {
    fn name(&self) -> &str {
        LOCAL_SYNC
    }

    fn description(&self) -> &str {
        "CPU; runs work on the thread that makes it ready"
    }

    fn availability(&self) -> Result<()> {
        Ok(())
    }

    fn enumerate(&self) -> Result<Vec<DeviceDescription>> {
        Ok(vec![DeviceDescription { name: "default".into(), ..DeviceDescription::default() }])
    }

    fn create_device(&self, _path: &str, options: &OptionSet) -> Result<Device> {
        Ok(LocalSync::create(options.get::<LocalSyncOptions>().plugins))
    }
}

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
