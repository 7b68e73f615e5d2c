use rehal_base::Result;
use rehal_hal::{Device, unsupported};
use rehal_vm::Call;

use super::HalState;
use super::arguments::handle;
use super::handle::HandleType;

/// A group of devices for collectives. No driver has any, so programs pass only null.
enum Channel {}

impl HandleType for Channel {
    const NAME: &'static str = "hal.channel";
}

/// `(device, affinity, flags, id, group, rank, count) -> channel`
pub(super) fn create(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device: &Device = handle(call, 0)?;
    Err(unsupported(device.info(), "channels"))
}

/// `(channel, color, key, flags) -> channel`, and `(channel) -> rank, count`
pub(super) fn query(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    match *handle::<Channel>(call, 0)? {}
}

/// `(command buffer, channel, operation, param, send slot, recv slot, send, recv, send offset, send length,
/// recv offset, recv length, element count)`
pub(super) fn collective(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    match *handle::<Channel>(call, 1)? {}
}
