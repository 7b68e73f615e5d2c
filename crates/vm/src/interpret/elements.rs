//! Loads and stores of buffer elements, inlined into the dispatch loop: a type check, a bounds check and an
//! access each.

use rehal_base::Result;

use crate::registers::{Number, Window, look};
use crate::{Buffer, NamedObject, Ref};

/// The buffer in a register.
#[inline(always)]
pub(crate) fn element(refs: &[Ref], register: u16) -> Result<&Buffer> {
    let object = look(refs, register);
    object.buffer().ok_or_else(|| object.mismatch(Buffer::TYPE_NAME))
}

/// An element of the buffer in a register.
#[inline(always)]
pub(crate) fn load<const N: usize>(refs: &[Ref], buffer: u16, index: u64) -> Result<[u8; N]> {
    element(refs, buffer)?.load_element(index)
}

/// Stores an element of the buffer in a register.
#[inline(always)]
pub(crate) fn store<const N: usize>(refs: &[Ref], buffer: u16, index: u64, value: [u8; N]) -> Result<()> {
    element(refs, buffer)?.store_element(index, value)
}

/// `buffer.load.*`: reads an element of `N` bytes into a register, extended by `extend`.
#[inline(always)]
pub(super) fn load_into<const N: usize, T: Number>(
    [buffer, index, result]: [u16; 3],
    window: &mut Window,
    refs: &[Ref],
    extend: impl Fn([u8; N]) -> T,
) -> Result<()> {
    extend(load(refs, buffer, u64::get(window, index))?).put(window, result);
    Ok(())
}

/// `buffer.store.*`: writes a register to an element of `N` bytes, narrowed by `narrow`.
#[inline(always)]
pub(super) fn store_from<const N: usize, T: Number>(
    [buffer, index, value]: [u16; 3],
    window: &Window,
    refs: &[Ref],
    narrow: impl Fn(T) -> [u8; N],
) -> Result<()> {
    store(refs, buffer, u64::get(window, index), narrow(T::get(window, value)))
}
