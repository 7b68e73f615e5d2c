//! Buffer instructions, except loads and stores of elements.

use rehal_base::{Error, Result};

use crate::registers::{Number, Window, look, put};
use crate::{Buffer, Ref};

use super::activation::Activation;

/// The buffer in a register.
#[inline]
fn buffer(refs: &[Ref], register: u16) -> Result<&Buffer> {
    look(refs, register).object()
}

/// The byte offset of an element; saturates on overflow, which is out of bounds of any buffer.
#[inline]
fn byte_offset(element: u64, size: u64) -> u64 {
    element.saturating_mul(size)
}

/// Bytes that an instruction allocates or accesses: the element count in operand `OPERAND` times `SIZE`.
pub(super) fn bytes<const OPERAND: usize, const SIZE: u64>(operands: [u16; 6], window: &Window) -> u64 {
    byte_offset(u64::get(window, operands[OPERAND]), SIZE)
}

/// `buffer.fill.*`: fills a range of elements of `N` bytes each.
fn fill<const N: usize>(operands: [u16; 6], value: [u8; N], activation: &Activation<'_>) -> Result<()> {
    let [target, offset, length, ..] = operands;
    let scaled = |register| byte_offset(activation.get(register), N as u64);
    buffer(activation.refs, target)?.fill(scaled(offset), scaled(length), &value)
}

/// `buffer.fill.i8`
pub(super) fn fill_8(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    fill(operands, (activation.get::<u32>(operands[3]) as u8).to_le_bytes(), activation)
}

/// `buffer.fill.i16`
pub(super) fn fill_16(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    fill(operands, (activation.get::<u32>(operands[3]) as u16).to_le_bytes(), activation)
}

/// `buffer.fill.i32` and `.f32`
pub(super) fn fill_32(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    fill(operands, activation.get::<u32>(operands[3]).to_le_bytes(), activation)
}

/// `buffer.fill.i64` and `.f64`
pub(super) fn fill_64(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    fill(operands, activation.get::<u64>(operands[3]).to_le_bytes(), activation)
}

/// The alignment that a program requests: 0, or a power of two.
fn alignment(value: i32) -> Result<u64> {
    match u64::try_from(value) {
        // More than the page size would waste memory.
        Ok(alignment) if alignment == 0 || alignment.is_power_of_two() => Ok(alignment.min(1 << 16)),
        _ => Err(Error::invalid_argument(format!("alignment {value} is not a power of two"))),
    }
}

/// `buffer.alloc`
pub(super) fn allocate(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [length, align, result, ..] = operands;
    let buffer = Buffer::allocate(activation.get(length), alignment(activation.get(align))?)?;
    put(activation.refs, result, Ref::new(buffer));
    Ok(())
}

/// `buffer.clone`
pub(super) fn clone(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [source, offset, length, align, result, _] = operands;
    let source = buffer(activation.refs, source)?;
    let alignment = alignment(activation.get(align))?;
    let copy = source.clone_range(activation.get(offset), activation.get(length), alignment)?;
    put(activation.refs, result, Ref::new(copy));
    Ok(())
}

/// `buffer.length`
pub(super) fn length([source, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let length = buffer(activation.refs, source)?.length();
    activation.put(result, length);
    Ok(())
}

/// `buffer.copy`
pub(super) fn copy(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [source, source_offset, target, target_offset, length, _] = operands;
    let [source_offset, target_offset, length] =
        [source_offset, target_offset, length].map(|register| activation.get(register));
    let source = buffer(activation.refs, source);
    buffer(activation.refs, target)?.copy_from(target_offset, source?, source_offset, length)
}

/// `buffer.compare`
pub(super) fn compare(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [left, left_offset, right, right_offset, length, result] = operands;
    let [left_offset, right_offset, length] =
        [left_offset, right_offset, length].map(|register| activation.get(register));
    let right = buffer(activation.refs, right);
    let is_equal = buffer(activation.refs, left)?.compare(left_offset, right?, right_offset, length)?;
    activation.put(result, i32::from(is_equal));
    Ok(())
}

/// `buffer.hash`
pub(super) fn hash(
    [source, offset, length, result, ..]: [u16; 6],
    activation: &mut Activation<'_>,
) -> Result<()> {
    let [offset, length] = [offset, length].map(|register| activation.get(register));
    let hash = buffer(activation.refs, source)?.hash(offset, length)?;
    activation.put(result, hash);
    Ok(())
}
