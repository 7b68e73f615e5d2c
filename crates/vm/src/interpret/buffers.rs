use rehal_base::{Error, Result};

use crate::code::Width;
use crate::registers::{Number, Window};
use crate::{Buffer, Ref};

use super::refs::look;

/// The buffer in a register.
#[inline]
pub(super) fn buffer(refs: &[Ref], register: u16) -> Result<&Buffer> {
    look(refs, register).object()
}

/// Where an element lies, in bytes; out of any buffer where that is beyond all counting.
#[inline]
fn byte_offset(element: u64, size: u64) -> u64 {
    element.saturating_mul(size)
}

/// `buffer.load.*`: reads an element into a register.
#[inline]
pub(super) fn load(width: Width, registers: [u16; 3], window: &mut Window, refs: &[Ref]) -> Result<()> {
    let [source, offset, result] = registers;
    let source = buffer(refs, source)?;
    let offset = u64::get(window, offset);
    match width {
        Width::U8 => u32::from(u8::from_le_bytes(source.load(offset)?)).put(window, result),
        Width::I8 => i32::from(i8::from_le_bytes(source.load(offset)?)).put(window, result),
        Width::U16 => {
            u32::from(u16::from_le_bytes(source.load(byte_offset(offset, 2))?)).put(window, result);
        }
        Width::I16 => {
            i32::from(i16::from_le_bytes(source.load(byte_offset(offset, 2))?)).put(window, result);
        }
        Width::B32 => u32::from_le_bytes(source.load(byte_offset(offset, 4))?).put(window, result),
        Width::B64 => u64::from_le_bytes(source.load(byte_offset(offset, 8))?).put(window, result),
    }
    Ok(())
}

/// `buffer.store.*`: writes a register to an element.
#[inline]
pub(super) fn store(width: Width, registers: [u16; 3], window: &Window, refs: &[Ref]) -> Result<()> {
    let [target, offset, value] = registers;
    let target = buffer(refs, target)?;
    let offset = u64::get(window, offset);
    match width {
        Width::U8 | Width::I8 => target.store(offset, (u32::get(window, value) as u8).to_le_bytes()),
        Width::U16 | Width::I16 => {
            target.store(byte_offset(offset, 2), (u32::get(window, value) as u16).to_le_bytes())
        }
        Width::B32 => target.store(byte_offset(offset, 4), u32::get(window, value).to_le_bytes()),
        Width::B64 => target.store(byte_offset(offset, 8), u64::get(window, value).to_le_bytes()),
    }
}

/// `buffer.fill.*`: writes `N` bytes over a range counted in so many.
pub(super) fn fill<const N: usize>(
    operands: [u16; 6],
    value: [u8; N],
    window: &Window,
    refs: &[Ref],
) -> Result<()> {
    let [target, offset, length, ..] = operands;
    let scaled = |register| byte_offset(u64::get(window, register), N as u64);
    buffer(refs, target)?.fill(scaled(offset), scaled(length), &value)
}

/// What a program says of where a buffer is to lie: 0, or a power of two.
pub(super) fn alignment(value: i32) -> Result<u64> {
    match u64::try_from(value) {
        // The machine's pages are as far as anyone needs, and what is more would be memory for nothing.
        Ok(alignment) if alignment == 0 || alignment.is_power_of_two() => Ok(alignment.min(1 << 16)),
        _ => Err(Error::invalid_argument(format!("an alignment of {value} bytes is not a power of two"))),
    }
}

/// `buffer.alloc`
pub(super) fn allocate(operands: [u16; 6], window: &Window) -> Result<Ref> {
    let [length, align, ..] = operands;
    let buffer = Buffer::allocate(u64::get(window, length), alignment(i32::get(window, align))?)?;
    Ok(Ref::new(buffer))
}

/// `buffer.clone`
pub(super) fn clone(operands: [u16; 6], window: &Window, refs: &[Ref]) -> Result<Ref> {
    let [source, offset, length, align, ..] = operands;
    let source = buffer(refs, source)?;
    let alignment = alignment(i32::get(window, align))?;
    let copy = source.clone_range(u64::get(window, offset), u64::get(window, length), alignment)?;
    Ok(Ref::new(copy))
}

/// `buffer.copy`
pub(super) fn copy(operands: [u16; 6], window: &Window, refs: &[Ref]) -> Result<()> {
    let [source, source_offset, target, target_offset, length, _] = operands;
    let [source_offset, target_offset, length] =
        [source_offset, target_offset, length].map(|register| u64::get(window, register));
    buffer(refs, target)?.copy_from(target_offset, buffer(refs, source)?, source_offset, length)
}

/// `buffer.compare`
pub(super) fn compare(operands: [u16; 6], window: &Window, refs: &[Ref]) -> Result<bool> {
    let [left, left_offset, right, right_offset, length, _] = operands;
    let [left_offset, right_offset, length] =
        [left_offset, right_offset, length].map(|register| u64::get(window, register));
    buffer(refs, left)?.compare(left_offset, buffer(refs, right)?, right_offset, length)
}
