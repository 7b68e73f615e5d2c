//! The `hal` module: devices as programs see them.
//!
//! [`HalModule`] is what a program imports; [`Handle`] is how handles of the HAL go in and out of a program. Each file
//! below is one family of exports (source: `iree/modules/hal/exports.inl` and the compiler's `hal.imports.mlir` of
//! release 3.13.0; this is version 7).
//!
//! ```
//! use rehal_hal::DeviceGroup;
//! use rehal_modules::hal::HalModule;
//! use rehal_vm::{Context, Module, Value};
//! # fn devices() -> DeviceGroup {
//! #     DeviceGroup::new(vec![rehal_local::LocalSync::create(Default::default())]).unwrap()
//! # }
//!
//! let hal = Module::native(HalModule::new(devices()))?;
//! let context = Context::new(&[hal])?;
//! let results = context.function("hal.devices.count")?.call(&[])?;
//! assert!(matches!(results[..], [Value::I32(1)]));
//! # Ok::<(), rehal_base::Error>(())
//! ```

mod allocator;
mod arguments;
mod assert;
mod buffer;
mod buffer_view;
mod channel;
mod command_buffer;
mod device;
mod dispatch;
mod executable;
mod exports;
mod fence;
mod file;
mod handle;
mod queue;
mod scratch;
mod trace;

use std::sync::Arc;

use rehal_base::{Error, Result};
use rehal_hal::{BufferView, Device, DeviceGroup};
use rehal_vm::{Call, Export, Flow, NativeModule, Ref, Signal, State};

pub use handle::{Allocator, Handle, Kind};
pub use trace::trace_text;

/// What `hal.buffer_view.trace` gives a program's values to: the key that the program names them by, and the values.
pub type TraceSink = Arc<dyn Fn(&str, &[&BufferView]) -> Result<()> + Send + Sync>;

/// The `hal` module over a group of devices.
pub struct HalModule {
    devices: DeviceGroup,
    lead: Option<usize>,
    retains_profile_metadata: bool,
    trace: Option<TraceSink>,
}

/// The version that programs ask for (source: `iree/modules/hal/module.c`).
const VERSION: u32 = 7;

/// What the module keeps for one context.
struct HalState {
    devices: Vec<StateDevice>,
    lead: Option<usize>,
    retains_profile_metadata: bool,
    trace: Option<TraceSink>,
}

/// A device with the references that programs get to it, so that asking for them makes nothing new.
struct StateDevice {
    device: Device,
    reference: Ref,
    allocator: Ref,
}

impl HalModule {
    /// The module over these devices; programs number them in this order.
    pub fn new(devices: DeviceGroup) -> Self {
        Self { devices, lead: None, retains_profile_metadata: false, trace: None }
    }

    /// Has the device of this number hold what several devices use, where it is one of those that the program lets
    /// choose from; otherwise, or where none leads, the first of them does. Fails with `OutOfRange` where there is no such device.
    pub fn lead(mut self, index: usize) -> Result<Self> {
        let count = self.devices.devices().len();
        if index >= count {
            return Err(Error::out_of_range(format!("device {index} is to lead, and there are {count}")));
        }
        self.lead = Some(index);
        Ok(self)
    }

    /// Has command buffers keep what a profile needs to name their commands.
    pub fn retain_profile_metadata(mut self) -> Self {
        self.retains_profile_metadata = true;
        self
    }

    /// Gives what programs trace to `sink`; without one it is dropped.
    pub fn trace_to(mut self, sink: TraceSink) -> Self {
        self.trace = Some(sink);
        self
    }

    /// The devices.
    pub fn devices(&self) -> &DeviceGroup {
        &self.devices
    }
}

impl NativeModule for HalModule {
    fn name(&self) -> &str {
        "hal"
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn exports(&self) -> &[Export] {
        exports::EXPORTS
    }

    fn new_state(&self) -> Result<State> {
        let mut devices = Vec::new();
        for device in self.devices.devices() {
            device.create_executable_cache("")?;
            devices.push(StateDevice {
                device: device.clone(),
                reference: Handle::reference(device.clone()),
                allocator: Handle::reference(Allocator(device.clone())),
            });
        }
        Ok(Box::new(HalState {
            devices,
            lead: self.lead,
            retains_profile_metadata: self.retains_profile_metadata,
            trace: self.trace.clone(),
        }))
    }

    fn notify(&self, _state: &State, signal: Signal) -> Result<()> {
        match signal {
            Signal::Suspend | Signal::LowMemory => self.devices.devices().iter().try_for_each(Device::trim),
            Signal::Resume | Signal::Fork => Ok(()),
        }
    }

    fn call(&self, state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        let state: &HalState = state.downcast_ref().ok_or_else(foreign_state)?;
        match exports::FUNCTIONS.get(ordinal) {
            Some(function) => function(state, call),
            None => Err(Error::not_found(format!("the hal module has no function {ordinal}"))),
        }
    }
}

impl HalState {
    /// The entry of a device of the group; of one that is there twice, the first.
    fn entry(&self, device: &Device) -> Option<&StateDevice> {
        self.devices.iter().find(|entry| entry.device.is_same(device))
    }
}

#[cold]
fn foreign_state() -> Error {
    Error::new(rehal_base::StatusCode::Internal, "the state of a call to the hal module is another module's")
}
