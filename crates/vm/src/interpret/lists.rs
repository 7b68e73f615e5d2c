//! List instructions.

use rehal_base::Result;

use crate::list::ElementKind;
use crate::registers::{Number, Window};
use crate::verify::MOVE_BIT;
use crate::{List, Ref, Value};

use super::out_of_line::Activation;
use super::refs::{is_of, look, put, take};

/// Size of an element of a list of variants.
const ELEMENT_BYTES: u64 = 16;

/// Bytes that `list.alloc`, `list.reserve` and `list.resize` may allocate.
pub(super) fn bytes([_, count, ..]: [u16; 6], window: &Window) -> u64 {
    u64::from(u32::get(window, count)) * ELEMENT_BYTES
}

fn list<'a>(activation: &'a Activation<'_>, register: u16) -> Result<&'a List> {
    look(activation.refs, register).object()
}

fn index(activation: &Activation<'_>, register: u16) -> usize {
    activation.get::<u32>(register) as usize
}

/// `list.alloc`
pub(super) fn allocate(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [type_id, capacity, result, ..] = operands;
    let element = activation.program.tables.types.get(usize::from(type_id));
    let element = element.cloned().unwrap_or(ElementKind::Variant);
    let list = List::new(element, index(activation, capacity))?;
    put(activation.refs, result, Ref::new(list));
    Ok(())
}

/// `list.reserve`
pub(super) fn reserve([source, capacity, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    list(activation, source)?.reserve(index(activation, capacity))
}

/// `list.size`
pub(super) fn size([source, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let size = list(activation, source)?.len() as u32;
    activation.put(result, size);
    Ok(())
}

/// `list.resize`
pub(super) fn resize([source, size, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    list(activation, source)?.resize(index(activation, size))
}

/// `list.get.*` of numbers
pub(super) fn get<T: Number>(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [source, at, result, ..] = operands;
    match list(activation, source)?.get_value(index(activation, at), T::KIND)? {
        Value::I32(value) => activation.put(result, value),
        Value::I64(value) => activation.put(result, value),
        Value::F32(value) => activation.put(result, value),
        Value::F64(value) => activation.put(result, value),
        // Unreachable: `get_value` converts to the requested kind, which is one of the above.
        Value::I8(_) | Value::I16(_) | Value::Ref(_) => {}
    }
    Ok(())
}

/// `list.set.*` of numbers
pub(super) fn set<T: Number + Into<Value>>(
    operands: [u16; 6],
    activation: &mut Activation<'_>,
) -> Result<()> {
    let [target, at, value, ..] = operands;
    list(activation, target)?.set(index(activation, at), activation.get::<T>(value).into())
}

/// `list.get.ref`
pub(super) fn get_ref(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [source, at, type_id, result, ..] = operands;
    let list = list(activation, source)?;
    let at = index(activation, at);
    let object = if result & MOVE_BIT == 0 { list.get_ref(at)? } else { list.take_ref(at)? };
    // An object of another type reads as null.
    let kind = activation.program.tables.types.get(usize::from(type_id));
    let is_expected = kind.is_some_and(|kind| is_of(&object, kind));
    put(activation.refs, result, if is_expected { object } else { Ref::NULL });
    Ok(())
}

/// `list.set.ref`
pub(super) fn set_ref(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [target, at, value, ..] = operands;
    let object = look(activation.refs, value).clone();
    list(activation, target)?.set(index(activation, at), Value::Ref(object))?;
    // Moved only after the list has stored it, so that the register keeps it on failure.
    if value & MOVE_BIT != 0 {
        drop(take(activation.refs, value));
    }
    Ok(())
}
