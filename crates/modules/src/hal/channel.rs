use rehal_base::Result;
use rehal_hal::{Channel, ChannelParams, Device};
use rehal_vm::Call;

use super::HalState;
use super::arguments::{handle, optional_bytes};
use super::handle::Handle;

/// `(device, affinity, flags, id, group, rank, count) -> channel`
pub(super) fn create(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device: &Device = handle(call, 0)?;
    let (id, group) = (optional_bytes(call, 3)?, optional_bytes(call, 4)?);
    let params = ChannelParams {
        flags: call.u64(2)?,
        id: &id,
        group: &group,
        rank: call.i32(5)?,
        count: call.i32(6)?,
    };
    let channel = device.create_channel(call.u64(1)?, &params)?;
    drop((id, group));
    call.push(Handle::reference(channel));
    Ok(())
}

/// `(channel, color, key, flags) -> channel`
pub(super) fn split(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let channel: &Channel = handle(call, 0)?;
    let part = channel.backend().split(call.i32(1)?, call.i32(2)?, call.u64(3)?)?;
    call.push(Handle::reference(part));
    Ok(())
}

/// `(channel) -> rank, count`
pub(super) fn rank_and_count(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let (rank, count) = handle::<Channel>(call, 0)?.backend().rank_and_count();
    call.push(rank);
    call.push(count);
    Ok(())
}
