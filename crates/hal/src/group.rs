use rehal_base::{Error, Result};

use crate::Device;

/// The devices that a program uses together, in topology order.
#[derive(Clone)]
pub struct DeviceGroup(Vec<Device>);

impl DeviceGroup {
    /// A group of these devices; must not be empty.
    pub fn new(devices: Vec<Device>) -> Result<Self> {
        if devices.is_empty() {
            return Err(Error::invalid_argument("the device group is empty"));
        }
        Ok(Self(devices))
    }

    /// The devices in order.
    pub fn devices(&self) -> &[Device] {
        &self.0
    }
}
