use rehal_base::Result;
use rehal_hal::{Device, DeviceDescription, DeviceOptions, DriverBackend, OptionSet};

use crate::LocalSync;
use crate::executable::Plugins;

/// The name of the driver, and of its one device.
pub const LOCAL_SYNC: &str = "local-sync";

/// The driver of [`LocalSync`]: one device, on any machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSyncDriver;

/// What a `local-sync` device is created with.
#[derive(Clone, Default)]
pub struct LocalSyncOptions {
    /// The libraries that executables resolve their imports from.
    pub plugins: Plugins,
}

impl DeviceOptions for LocalSyncOptions {}

impl DriverBackend for LocalSyncDriver {
    fn name(&self) -> &str {
        LOCAL_SYNC
    }

    fn description(&self) -> &str {
        "The CPU, on the thread that makes work ready"
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
