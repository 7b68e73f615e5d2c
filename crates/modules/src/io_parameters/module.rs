use std::sync::Arc;

use rehal_base::{Error, Result};
use rehal_hal::{Buffer, BufferParams, BufferUsage, Device, Fence, MemoryAccess, MemoryType};
use rehal_params::Scopes;
use rehal_vm::{Call, ElementKind, Export, Flow, List, NativeModule, Ref, Signal, State};

use super::{Provider, Request, arguments};
use crate::hal::{Handle, HandleType};

/// The `io_parameters` module over the parameters of several scopes.
///
/// A program that requests a missing scope or key fails; the error suggests the nearest ones.
pub struct IoParameters(Arc<Provider>);

const EXPORTS: &[Export] = &[
    Export::new("gather", "0rIrrrrrrr_v"),
    Export::new("load", "0rIrrrIiirrr_r"),
    Export::new("scatter", "0rIrrrrrrr_v"),
];

impl IoParameters {
    /// The module over these parameters.
    pub fn new(scopes: Scopes) -> Self {
        Self(Arc::new(Provider::new(scopes)))
    }

    /// Its provider.
    pub fn provider(&self) -> &Arc<Provider> {
        &self.0
    }

    /// `(device, affinity, waits, signals, scope, target affinity, memory type, usage, keys…) -> buffers`
    fn load(&self, call: &mut Call<'_>) -> Result<()> {
        let scope = arguments::scope(call, 4)?;
        let params = BufferParams {
            usage: BufferUsage::from_bits_retain(call.u32(7)?),
            access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD,
            memory_type: MemoryType::from_bits_retain(call.u32(6)?),
            affinity: any_if_none(call.u64(5)?),
            min_alignment: 0,
            file_offset: None,
        };
        let spans = arguments::spans(call, 8)?;
        let buffers = self.0.load(&request(call, &scope)?, params, &spans)?;
        let list = List::new(ElementKind::Ref(Buffer::NAME.into()), buffers.len())?;
        for buffer in buffers {
            list.push(Handle::reference(buffer).into())?;
        }
        call.push(Ref::new(list));
        Ok(())
    }

    /// `(device, affinity, waits, signals, scope, target, keys…)`
    fn gather(&self, call: &Call<'_>) -> Result<()> {
        let scope = arguments::scope(call, 4)?;
        let target: &Handle<Buffer> = call.object(5)?;
        self.0.gather(&request(call, &scope)?, &target.0, &arguments::spans(call, 6)?)
    }

    /// `(device, affinity, waits, signals, source, scope, keys…)`
    fn scatter(&self, call: &Call<'_>) -> Result<()> {
        let _: &Handle<Buffer> = call.object(4)?;
        let scope = arguments::scope(call, 5)?;
        self.0.scatter(&request(call, &scope)?, &arguments::spans(call, 6)?)
    }
}

impl NativeModule for IoParameters {
    fn name(&self) -> &str {
        "io_parameters"
    }

    fn version(&self) -> u32 {
        0
    }

    fn exports(&self) -> &[Export] {
        EXPORTS
    }

    fn new_state(&self) -> Result<State> {
        Ok(Box::new(()))
    }

    fn call(&self, _state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        match ordinal {
            0 => self.gather(call)?,
            1 => self.load(call)?,
            2 => self.scatter(call)?,
            _ => return Err(Error::not_found(format!("io_parameters has no function {ordinal}"))),
        }
        Ok(Flow::Return)
    }

    fn notify(&self, _state: &State, signal: Signal) -> Result<()> {
        if matches!(signal, Signal::Suspend | Signal::LowMemory) {
            self.0.trim();
        }
        Ok(())
    }
}

/// The arguments that all three functions start with.
fn request<'c>(call: &'c Call<'_>, scope: &'c str) -> Result<Request<'c>> {
    let fence = |index| -> Result<_> { Ok(call.optional::<Handle<Fence>>(index)?.map(|handle| &handle.0)) };
    Ok(Request {
        device: &call.object::<Handle<Device>>(0)?.0,
        affinity: any_if_none(call.u64(1)?),
        waits: fence(2)?,
        signals: fence(3)?,
        scope,
    })
}

/// An empty affinity means any queue (as everywhere in the HAL).
fn any_if_none(affinity: u64) -> u64 {
    if affinity == 0 { rehal_hal::QUEUE_AFFINITY_ANY } else { affinity }
}
