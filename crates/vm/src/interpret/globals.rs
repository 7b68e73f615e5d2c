//! Global instructions executed out of line: references, and numbers at a computed offset.

use rehal_base::Result;

use super::activation::Activation;
use super::refs::check;
use crate::registers::{MOVE_BIT, look, put, take};

/// `global.load.indirect.i32` and `.f32`
pub(super) fn load_32([offset, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let value = activation.instance.globals.load_32(activation.get(offset))?;
    activation.put(result, value);
    Ok(())
}

/// `global.load.indirect.i64` and `.f64`
pub(super) fn load_64([offset, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let value = activation.instance.globals.load_64(activation.get(offset))?;
    activation.put(result, value);
    Ok(())
}

/// `global.store.indirect.i32` and `.f32`
pub(super) fn store_32([offset, value, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    activation.instance.globals.store_32(activation.get(offset), activation.get(value))
}

/// `global.store.indirect.i64` and `.f64`
pub(super) fn store_64([offset, value, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    activation.instance.globals.store_64(activation.get(offset), activation.get(value))
}

/// `global.load.indirect.ref`
pub(super) fn load_ref(
    [global, type_id, result, ..]: [u16; 6],
    activation: &mut Activation<'_>,
) -> Result<()> {
    load_ref_at(activation, activation.get(global), type_id, result)
}

/// `global.store.indirect.ref`
pub(super) fn store_ref(
    [global, type_id, value, ..]: [u16; 6],
    activation: &mut Activation<'_>,
) -> Result<()> {
    store_ref_at(activation, activation.get(global), type_id, value)
}

/// Loads a global reference into a register, or moves it out of the global.
pub(super) fn load_ref_at(
    activation: &mut Activation<'_>,
    global: u32,
    type_id: u16,
    result: u16,
) -> Result<()> {
    let object = {
        let mut global = activation.instance.globals.reference(global)?.lock();
        check(&global, activation.element_kind(type_id))?;
        if result & MOVE_BIT == 0 { global.clone() } else { global.take() }
    };
    put(activation.refs, result, object);
    Ok(())
}

/// Stores a register to a global reference.
pub(super) fn store_ref_at(
    activation: &mut Activation<'_>,
    global: u32,
    type_id: u16,
    value: u16,
) -> Result<()> {
    check(look(activation.refs, value), activation.element_kind(type_id))?;
    let object = take(activation.refs, value);
    // Releasing the old object may run any destructor, which must not happen under the lock.
    let _old = std::mem::replace(&mut *activation.instance.globals.reference(global)?.lock(), object);
    Ok(())
}
