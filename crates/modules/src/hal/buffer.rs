use rehal_base::{Error, Result};
use rehal_hal::{Buffer, MemoryAccess, transfer};
use rehal_vm::Call;

use super::HalState;
use super::arguments::handle;
use super::handle::Handle;

/// `(buffer) -> was last`: drops one owner of the allocation.
pub(super) fn discard(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let was_last = handle::<Buffer>(call, 0)?.discard();
    call.push(was_last);
    Ok(())
}

/// `(buffer) -> is last`: whether the allocation has one owner.
pub(super) fn is_terminal(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let is_last = handle::<Buffer>(call, 0)?.has_one_owner();
    call.push(is_last);
    Ok(())
}

/// `(buffer)`: adds an owner of the allocation.
pub(super) fn preserve(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    handle::<Buffer>(call, 0)?.preserve();
    Ok(())
}

/// `(buffer) -> size`
pub(super) fn length(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let size = handle::<Buffer>(call, 0)?.size();
    call.push(size as i64);
    Ok(())
}

/// `(buffer, offset, length) -> value`: up to four bytes, the rest zero.
pub(super) fn load(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let buffer: &Buffer = handle(call, 0)?;
    let (offset, length) = (call.u64(1)?, call.u32(2)?);
    let mut value = [0; 4];
    let Some(bytes) = value.get_mut(..length as usize) else {
        return Err(Error::invalid_argument(format!("load length byte count {} exceeds max", length as i32)));
    };
    if length != 0 {
        transfer::read(buffer, offset, bytes)?;
    }
    call.push(i32::from_le_bytes(value));
    Ok(())
}

/// `(value, buffer, offset, length)`: up to four bytes of the value.
pub(super) fn store(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let value = call.i32(0)?.to_le_bytes();
    let buffer: &Buffer = handle(call, 1)?;
    let (offset, length) = (call.u64(2)?, call.u32(3)?);
    let Some(bytes) = value.get(..length as usize) else {
        return Err(Error::invalid_argument(format!(
            "store length byte count {} exceeds max",
            length as i32
        )));
    };
    if offset.checked_add(length.into()).is_none_or(|end| end > buffer.size()) {
        return Err(Error::out_of_range(format!(
            "store out of bounds (target_offset={}, length={length} into max {})",
            offset as i64,
            buffer.size()
        )));
    }
    if length != 0 {
        // The whole mapping is overwritten: discards its contents if the buffer allows that access.
        let access = MemoryAccess::WRITE | (MemoryAccess::DISCARD & buffer.params().access);
        transfer::write_as(buffer, access, offset, length.into(), bytes)?;
    }
    Ok(())
}

/// `(buffer, offset, length) -> buffer`: a subspan that shares the memory.
pub(super) fn subspan(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let part = part_of(handle(call, 0)?, call.u64(1)?, call.u64(2)?)?;
    call.push(Handle::reference(part));
    Ok(())
}

/// A subspan of a buffer; an error names the requested range.
pub(super) fn part_of(buffer: &Buffer, offset: u64, length: u64) -> Result<Buffer> {
    buffer.subspan(offset, length).map_err(|error| {
        error.context(format!(
            "invalid subspan of an existing buffer (source_offset={}, length={})",
            offset as i64, length as i64
        ))
    })
}
