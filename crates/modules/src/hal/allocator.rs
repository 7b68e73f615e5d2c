use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::{BufferParams, BufferUsage, Device, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY};
use rehal_vm::{Call, Ref, Value};

use super::HalState;
use super::arguments::{handle, tuple_handle};
use super::handle::{Allocator, Handle};

/// `(allocator, affinity, memory types, usage, size) -> buffer`
pub(super) fn allocate(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let Allocator(device) = handle(call, 0)?;
    let params = params(call.u64(1)?, call.u32(2)?, call.u32(3)?, MemoryAccess::empty());
    let size = call.u64(4)?;
    let buffer = device
        .allocate_buffer(params, size)
        .map_err(|error| error.context(format!("failed to allocate buffer of length {}", size as i64)))?;
    call.push(Handle::reference(buffer));
    Ok(())
}

/// `(allocator, try, affinity, memory types, usage, bytes, offset, length) -> buffer`: imports the program's
/// bytes as a buffer, zero-copy. A length of -1 means all of `bytes`. If the device cannot access them and
/// `try` is set, returns null and the program copies them.
pub(super) fn import(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let Allocator(device) = handle(call, 0)?;
    let is_try = call.i32(1)? != 0;
    let usage = BufferUsage::from_bits_retain(call.u32(4)?);
    let source: &rehal_vm::Buffer = call.object(5)?;
    let (offset, available) = (call.u64(6)?, source.length());
    let length = if call.i64(7)? == -1 { available } else { call.u64(7)? };
    let range = Range::new(offset, length).filter(|range| range.fits(available)).ok_or_else(|| {
        Error::invalid_argument(format!(
            "byte range out of bounds (requested {offset}-{} of available {available})",
            offset.wrapping_add(length).wrapping_sub(1)
        ))
    })?;
    let is_constant = usage.contains(BufferUsage::SHARING_IMMUTABLE);
    if !source.is_mutable() && !is_constant {
        return Err(Error::new(
            StatusCode::PermissionDenied,
            "source buffer is immutable and can only be imported for constant usage",
        ));
    }
    let access = if is_constant { MemoryAccess::READ } else { MemoryAccess::READ | MemoryAccess::WRITE };
    let params = params(call.u64(2)?, call.u32(3)?, usage.bits(), access);
    let reference = match device.import_buffer(params, source.memory(), range) {
        Ok(buffer) => Handle::reference(buffer),
        Err(_) if is_try => Ref::NULL,
        Err(error) => return Err(error),
    };
    call.push(reference);
    Ok(())
}

/// `(memory types, usage, flags, [device, affinity]) -> device, affinity`: where to allocate memory shared by
/// several devices: on the lead device if it is among them, else on the first. If others could not use its
/// memory, as GPUs that import none, it is the first whose memory all of them can use.
pub(super) fn select(state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let lead = state.lead.and_then(|index| state.devices.get(index));
    let pairs = call.span(3)?.tuples().map(|pair| Ok((tuple_handle::<Device>(pair, 0)?, pair)));
    let pairs: Vec<_> = pairs.collect::<Result<_>>()?;
    let is_lead = |device: &Device| lead.is_some_and(|lead| lead.device.is_same(device));
    // The first of the best.
    let rank = |device: &Device| {
        let uses = |other: &Device| other.is_same(device) || other.info().uses_host_memory;
        (pairs.iter().all(|(other, _)| uses(other)), is_lead(device))
    };
    let chosen = pairs.iter().rev().max_by_key(|(device, _)| rank(device));
    let Some((_, chosen)) = chosen else {
        return Err(Error::invalid_argument("at least one device/queue affinity pair must be provided"));
    };
    let (device, affinity) = (chosen.reference(0)?.clone(), chosen.i64(1)?);
    call.push(device);
    call.push(Value::I64(affinity));
    Ok(())
}

/// Completes parameters like the HAL's own calls: zero fields get their default.
pub(super) fn params(affinity: u64, memory_type: u32, usage: u32, access: MemoryAccess) -> BufferParams {
    let defaults = BufferParams::default();
    let memory_type = MemoryType::from_bits_retain(memory_type);
    let usage = BufferUsage::from_bits_retain(usage);
    BufferParams {
        usage: if usage.is_empty() { defaults.usage } else { usage },
        access: if access.is_empty() { defaults.access } else { access },
        memory_type: if memory_type.is_empty() { MemoryType::OPTIMAL } else { memory_type },
        affinity: if affinity == 0 { QUEUE_AFFINITY_ANY } else { affinity },
        min_alignment: 0,
        file_offset: None,
    }
}
