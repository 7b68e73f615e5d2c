//! Registers: their numbers, and how they are accessed. The register window is the part of the register file
//! that a frame can address, an array of bytes in which every u16 is in bounds, so that accesses need no
//! bounds check.

use crate::{Ref, ValueKind};

/// The bit of a register number that marks a reference register.
pub(crate) const REF_BIT: u16 = 0x8000;
/// The move bit of a reference register number: the reference is moved out.
pub(crate) const MOVE_BIT: u16 = 0x4000;
/// The index bits of a reference register number.
pub(crate) const REF_MASK: u16 = 0x3FFF;

/// Bytes of a window: 65536 registers of 4 bytes, and the upper half of a register pair that starts at the
/// last.
pub(crate) const WINDOW_BYTES: usize = (1 << 16) * 4 + 4;

/// A register window: the registers of a frame, followed by those of the frame it calls.
pub(crate) type Window = [u8; WINDOW_BYTES];

/// A number held by one register or a pair.
pub(crate) trait Number: Copy {
    /// The kind of register that holds it: integers are signless.
    const KIND: ValueKind;
    /// The number at `register`.
    fn get(window: &Window, register: u16) -> Self;
    /// Stores the number at `register`.
    fn put(self, window: &mut Window, register: u16);
}

macro_rules! number {
    ($type:ty, $size:literal, $kind:ident) => {
        impl Number for $type {
            const KIND: ValueKind = ValueKind::$kind;

            #[inline(always)]
            fn get(window: &Window, register: u16) -> Self {
                let at = usize::from(register) * 4;
                let mut bytes = [0; $size];
                bytes.copy_from_slice(&window[at..at + $size]);
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn put(self, window: &mut Window, register: u16) {
                let at = usize::from(register) * 4;
                window[at..at + $size].copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

number!(i32, 4, I32);
number!(u32, 4, I32);
number!(f32, 4, F32);
number!(i64, 8, I64);
number!(u64, 8, I64);
number!(f64, 8, F64);

/// The number of registers that a number occupies.
pub(crate) fn words(kind: ValueKind) -> u16 {
    match kind {
        ValueKind::I64 | ValueKind::F64 => 2,
        ValueKind::I32 | ValueKind::F32 | ValueKind::Ref => 1,
    }
}

/// Borrows the reference in a register.
#[inline]
pub(crate) fn look(refs: &[Ref], register: u16) -> &Ref {
    static NULL: Ref = Ref::NULL;
    refs.get(usize::from(register & REF_MASK)).unwrap_or(&NULL)
}

/// Clones the reference in a register, or moves it out if the move bit is set.
#[inline]
pub(crate) fn take(refs: &mut [Ref], register: u16) -> Ref {
    match refs.get_mut(usize::from(register & REF_MASK)) {
        Some(object) if register & MOVE_BIT != 0 => object.take(),
        Some(object) => object.clone(),
        None => Ref::NULL,
    }
}

/// Sets a register to a reference.
#[inline]
pub(crate) fn put(refs: &mut [Ref], register: u16, object: Ref) {
    if let Some(slot) = refs.get_mut(usize::from(register & REF_MASK)) {
        *slot = object;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_number_is_in_bounds() {
        let mut window: Box<Window> = vec![0; WINDOW_BYTES].into_boxed_slice().try_into().unwrap();
        (-2_i64).put(&mut window, u16::MAX);
        assert_eq!(i64::get(&window, u16::MAX), -2);
        7_i32.put(&mut window, 3);
        assert_eq!(u64::get(&window, 2), 7 << 32);
        assert_eq!(f32::get(&window, 4), 0.0);
    }
}
