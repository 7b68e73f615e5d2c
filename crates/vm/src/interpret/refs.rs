use rehal_base::{Error, Result};

use crate::Ref;
use crate::list::ElementKind;
use crate::verify::{MOVE_BIT, REF_MASK};

/// The reference in a register, where it stays.
#[inline]
pub(super) fn look(refs: &[Ref], register: u16) -> &Ref {
    static NULL: Ref = Ref::NULL;
    refs.get(usize::from(register & REF_MASK)).unwrap_or(&NULL)
}

/// A share of the reference in a register, or the reference itself where its move bit is set.
#[inline]
pub(super) fn take(refs: &mut [Ref], register: u16) -> Ref {
    match refs.get_mut(usize::from(register & REF_MASK)) {
        Some(object) if register & MOVE_BIT != 0 => object.take(),
        Some(object) => object.clone(),
        None => Ref::NULL,
    }
}

/// Puts a reference into a register.
#[inline]
pub(super) fn put(refs: &mut [Ref], register: u16, object: Ref) {
    if let Some(slot) = refs.get_mut(usize::from(register & REF_MASK)) {
        *slot = object;
    }
}

/// Whether a reference may stand where one to `kind` is said to; null may always.
pub(super) fn is_of(object: &Ref, kind: &ElementKind) -> bool {
    match (object.type_name(), kind) {
        (None, _) | (_, ElementKind::AnyRef) => true,
        (Some(found), ElementKind::Ref(name)) => found == &**name,
        _ => false,
    }
}

/// Fails where a reference is not of the type that the program says.
pub(super) fn check(object: &Ref, kind: &ElementKind) -> Result<()> {
    if is_of(object, kind) {
        return Ok(());
    }
    let found = object.type_name().unwrap_or("null");
    Err(Error::invalid_argument(match kind {
        ElementKind::Ref(name) => {
            format!("the program expects a reference to {name}, and this is one to {found}")
        }
        kind => format!("the program expects a value of type {kind:?}, and this is a reference to {found}"),
    }))
}
