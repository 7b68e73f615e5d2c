//! The `hal` module: the device API of programs.
//!
//! [`HalModule`] is the module that programs import; [`Handle`] passes HAL handles in and out of a program.
//! Each file below is a family of exports (source: `iree/modules/hal/exports.inl` and the compiler's
//! `hal.imports.mlir` of release 3.13.0; this is version 7).
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

use std::sync::Arc;

use rehal_base::{Error, Result};
use rehal_hal::{BufferView, Device, DeviceGroup};
use rehal_vm::{Call, Export, Flow, NativeModule, Ref, Signal, State};

pub use executable::{ProgramExecutable, Substitute};
pub use handle::{Allocator, Handle, HandleType};

/// The sink of `hal.buffer_view.trace`: receives the key and the values.
pub type TraceSink = Arc<dyn Fn(&str, &[&BufferView]) -> Result<()> + Send + Sync>;

/// The `hal` module over a group of devices.
pub struct HalModule {
    devices: DeviceGroup,
    lead: Option<usize>,
    trace: Option<TraceSink>,
    substitute: Option<Substitute>,
}

/// The version that programs require (source: `iree/modules/hal/module.c`).
const VERSION: u32 = 7;

/// The module's state in one context.
struct HalState {
    devices: Vec<StateDevice>,
    lead: Option<usize>,
    trace: Option<TraceSink>,
    substitute: Option<Substitute>,
}

/// A device with its references for programs, created once.
struct StateDevice {
    device: Device,
    reference: Ref,
    allocator: Ref,
}

impl HalModule {
    /// The module over these devices; programs number them in this order.
    pub fn new(devices: DeviceGroup) -> Self {
        Self { devices, lead: None, trace: None, substitute: None }
    }

    /// Makes the device with this index the lead: `hal.allocator.select` prefers it for allocations shared by
    /// several devices; without a lead, or if it is not among the candidates, it selects the first candidate.
    /// Fails with `OutOfRange` if the index is out of bounds.
    pub fn lead(mut self, index: usize) -> Result<Self> {
        let count = self.devices.devices().len();
        if index >= count {
            return Err(Error::out_of_range(format!("lead device {index} is out of bounds of {count}")));
        }
        self.lead = Some(index);
        Ok(self)
    }

    /// Sends the values that programs trace to `sink`; without a sink they are dropped.
    pub fn trace_to(mut self, sink: TraceSink) -> Self {
        self.trace = Some(sink);
        self
    }

    /// Asks `substitute` for each executable that programs create.
    pub fn substitute_with(mut self, substitute: Substitute) -> Self {
        self.substitute = Some(substitute);
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
            trace: self.trace.clone(),
            substitute: self.substitute.clone(),
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
            None => Err(Error::not_found(format!("module hal has no function {ordinal}"))),
        }
    }
}

impl HalState {
    /// The entry of a device of the group; the first one if it is listed twice.
    fn entry(&self, device: &Device) -> Option<&StateDevice> {
        self.devices.iter().find(|entry| entry.device.is_same(device))
    }
}

#[cold]
fn foreign_state() -> Error {
    Error::new(rehal_base::StatusCode::Internal, "the state belongs to another module")
}
