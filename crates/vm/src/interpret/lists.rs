//! List instructions.

use rehal_base::Result;

use crate::list::ElementKind;
use crate::registers::{MOVE_BIT, Number, Window, look, put, take};
use crate::{List, NamedObject, Ref, Value};

use super::activation::Activation;
use super::refs::is_of;

/// Size of an element of a list of variants.
const ELEMENT_BYTES: u64 = 16;

/// Bytes that `list.alloc`, `list.reserve` and `list.resize` may allocate.
pub(super) fn bytes([_, count, ..]: [u16; 6], window: &Window) -> u64 {
    u64::from(u32::get(window, count)) * ELEMENT_BYTES
}

fn list(refs: &[Ref], register: u16) -> Result<&List> {
    let object = look(refs, register);
    object.list().ok_or_else(|| object.mismatch(List::TYPE_NAME))
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
    list(activation.refs, source)?.reserve(index(activation, capacity))
}

/// `list.size`
pub(super) fn size([source, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let size = list(activation.refs, source)?.len() as u32;
    activation.put(result, size);
    Ok(())
}

/// `list.resize`
pub(super) fn resize([source, size, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    list(activation.refs, source)?.resize(index(activation, size))
}

/// `list.get.*` of numbers
pub(super) fn get<T: Number>(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [source, at, result, ..] = operands;
    match list(activation.refs, source)?.get_value(index(activation, at), T::KIND)? {
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
    list(activation.refs, target)?.set(index(activation, at), activation.get::<T>(value).into())
}

/// `list.get.ref`
pub(super) fn get_ref(
    activation: &mut Activation<'_>,
    [source, at, type_id, result]: [u16; 4],
) -> Result<()> {
    let list = list(activation.refs, source)?;
    let at = index(activation, at);
    let object = if result & MOVE_BIT == 0 { list.get_ref(at)? } else { list.take_ref(at)? };
    // An object of another type reads as null.
    let is_expected = is_of(&object, activation.element_kind(type_id));
    put(activation.refs, result, if is_expected { object } else { Ref::NULL });
    Ok(())
}

/// `list.get.ref` of a buffer.
#[inline(never)]
pub(super) fn get_buffer([source, at, result]: [u16; 3], window: &Window, refs: &mut [Ref]) -> Result<()> {
    // A clone, because the result may overwrite the last reference to the list.
    let mut buffer = Ref::NULL;
    let (list, at) = (list(refs, source)?, u32::get(window, at) as usize);
    match list.original(at) {
        Some(object) => object.clone_buffer_to(&mut buffer),
        None => list.get_ref(at)?.clone_buffer_to(&mut buffer),
    }
    put(refs, result, buffer);
    Ok(())
}

/// `list.set.ref`
pub(super) fn set_ref(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [target, at, value, ..] = operands;
    let object = look(activation.refs, value).clone();
    list(activation.refs, target)?.set(index(activation, at), Value::Ref(object))?;
    // Moved only after the list has stored it, so that the register keeps it on failure.
    if value & MOVE_BIT != 0 {
        drop(take(activation.refs, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;

    use super::*;
    use crate::Buffer;
    use crate::registers::WINDOW_BYTES;

    #[test]
    fn only_buffers_are_read_as_buffers() {
        let mut window: Box<Window> = vec![0; WINDOW_BYTES].into_boxed_slice().try_into().unwrap();
        let buffer = Ref::new(Buffer::allocate(1, 0).unwrap());
        let other = Ref::new(List::from_variants(Vec::new()));
        let list = List::from_variants(vec![buffer.clone().into(), other.clone().into(), Value::NULL]);
        let mut refs = [Ref::new(list), other, buffer.clone()];
        for (index, is_buffer) in [(0_u32, true), (1, false), (2, false)] {
            index.put(&mut window, 5);
            get_buffer([0, 5, 1], &window, &mut refs).unwrap();
            assert_eq!((refs[1].is_same(&buffer), refs[1].is_null()), (is_buffer, !is_buffer), "{index}");
        }
        3_u32.put(&mut window, 5);
        assert_eq!(get_buffer([0, 5, 1], &window, &mut refs).unwrap_err().code(), StatusCode::OutOfRange);
        let error = get_buffer([2, 5, 1], &window, &mut refs).unwrap_err();
        assert!(error.to_string().contains("expected a reference to vm.list, found vm.buffer"), "{error}");
        // The result may replace the list.
        0_u32.put(&mut window, 5);
        get_buffer([0, 5, 0], &window, &mut refs).unwrap();
        assert!(refs[0].is_same(&buffer));
    }
}
