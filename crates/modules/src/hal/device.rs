use rehal_base::Result;
use rehal_hal::Device;
use rehal_vm::{Call, Ref};

use super::HalState;
use super::arguments::{handle, text};
use super::handle::{Allocator, Handle};

/// `(device) -> allocator`
pub(super) fn allocator(state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device: &Device = handle(call, 0)?;
    let allocator = match state.entry(device) {
        Some(entry) => entry.allocator.clone(),
        None => Handle::reference(Allocator(device.clone())),
    };
    call.push(allocator);
    Ok(())
}

/// `(device, category, key) -> known, value`
pub(super) fn query_i64(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device: &Device = handle(call, 0)?;
    let value = device.query_i64(&text(call, 1)?, &text(call, 2)?).ok();
    call.push(value.is_some());
    call.push(value.unwrap_or(0));
    Ok(())
}

/// `() -> count`
pub(super) fn count(state: &HalState, call: &mut Call<'_>) -> Result<()> {
    call.push(state.devices.len() as i32);
    Ok(())
}

/// `(index) -> device`, or null if out of bounds.
pub(super) fn get(state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device = usize::try_from(call.i32(0)?).ok().and_then(|index| state.devices.get(index));
    call.push(device.map_or(Ref::NULL, |entry| entry.reference.clone()));
    Ok(())
}
