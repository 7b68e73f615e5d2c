//! Reference instructions.

use rehal_base::{Error, Result};

use crate::Ref;
use crate::list::ElementKind;
use crate::registers::{MOVE_BIT, look, put, take};

use super::activation::Activation;

/// Whether a reference is of type `kind`; null is of every type.
pub(super) fn is_of(object: &Ref, kind: &ElementKind) -> bool {
    match (object.type_name(), kind) {
        (None, _) | (_, ElementKind::AnyRef) => true,
        (Some(found), ElementKind::Ref(name)) => found == &**name,
        _ => false,
    }
}

/// Fails if a reference is not of the type that the program expects.
pub(super) fn check(object: &Ref, kind: &ElementKind) -> Result<()> {
    if is_of(object, kind) {
        return Ok(());
    }
    let found = object.type_name().unwrap_or("null");
    Err(Error::invalid_argument(match kind {
        ElementKind::Ref(name) => {
            format!("expected a reference to {name}, found {found}")
        }
        kind => format!("expected a value of type {kind:?}, found a reference to {found}"),
    }))
}

/// `const.ref.zero`
pub(super) fn null([result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    put(activation.refs, result, Ref::NULL);
    Ok(())
}

/// `select.ref`
pub(super) fn select(operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let [condition, type_id, yes, no, result, _] = operands;
    let (selected, other) = if activation.get::<i32>(condition) != 0 { (yes, no) } else { (no, yes) };
    check(look(activation.refs, selected), activation.element_kind(type_id))?;
    let object = take(activation.refs, selected);
    // The other operand is moved from as well, if its move bit is set.
    if other & MOVE_BIT != 0 {
        drop(take(activation.refs, other));
    }
    put(activation.refs, result, object);
    Ok(())
}

/// `cast.any.ref`
pub(super) fn cast([source, type_id, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    check(look(activation.refs, source), activation.element_kind(type_id))?;
    let object = take(activation.refs, source);
    put(activation.refs, result, object);
    Ok(())
}

/// `cmp.eq.ref`
pub(super) fn compare_eq([a, b, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let is_same = look(activation.refs, a).is_same(look(activation.refs, b));
    activation.put(result, i32::from(is_same));
    Ok(())
}

/// `cmp.ne.ref`
pub(super) fn compare_ne([a, b, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let is_same = look(activation.refs, a).is_same(look(activation.refs, b));
    activation.put(result, i32::from(!is_same));
    Ok(())
}

/// `cmp.nz.ref`
pub(super) fn compare_nz([source, result, ..]: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
    let is_null = look(activation.refs, source).is_null();
    activation.put(result, i32::from(!is_null));
    Ok(())
}
