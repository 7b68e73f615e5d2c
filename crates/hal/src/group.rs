use rehal_base::{Error, Result};

use crate::Device;

/// The devices that a program uses together, in the order of its topology.
#[derive(Clone)]
pub struct DeviceGroup(Vec<Device>);

impl DeviceGroup {
    /// A group of these devices; there must be one at least.
    pub fn new(devices: Vec<Device>) -> Result<Self> {
        if devices.is_empty() {
            return Err(Error::invalid_argument("a device group needs a device"));
        }
        Ok(Self(devices))
    }

    /// The devices in order.
    pub fn devices(&self) -> &[Device] {
        &self.0
    }
}
