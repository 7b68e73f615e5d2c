use std::fmt;

use crate::{Error, Result};

/// The interpretation of an element's bits.
///
/// The values are the upper byte of an element type (`iree/hal/buffer_view.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numerical(pub u8);

impl Numerical {
    /// Opaque bits.
    pub const OPAQUE: Self = Self(0x00);
    /// A signless integer.
    pub const INTEGER: Self = Self(0x10);
    /// A signed integer.
    pub const SIGNED: Self = Self(0x11);
    /// An unsigned integer.
    pub const UNSIGNED: Self = Self(0x12);
    /// A boolean: an integer of which one bit counts.
    pub const BOOLEAN: Self = Self(0x13);
    /// IEEE 754 binary floating point.
    pub const FLOAT_IEEE: Self = Self(0x21);
    /// bf16: the upper half of an f32.
    pub const FLOAT_BRAIN: Self = Self(0x22);
    /// A pair of IEEE numbers, real and imaginary.
    pub const FLOAT_COMPLEX: Self = Self(0x23);
    /// 8 bits, 5 of exponent.
    pub const FLOAT_8_E5M2: Self = Self(0x24);
    /// 8 bits, 4 of exponent, no infinities.
    pub const FLOAT_8_E4M3FN: Self = Self(0x25);
    /// 8 bits, 5 of exponent, one zero and one NaN, no infinities.
    pub const FLOAT_8_E5M2_FNUZ: Self = Self(0x26);
    /// 8 bits, 4 of exponent, one zero and one NaN, no infinities.
    pub const FLOAT_8_E4M3_FNUZ: Self = Self(0x27);
    /// 8 bits, all of exponent: a power of two.
    pub const FLOAT_8_E8M0_FNU: Self = Self(0x28);

    /// Whether it is an integer or a boolean.
    pub fn is_integer(self) -> bool {
        self.0 & 0xf0 == Self::INTEGER.0
    }

    /// Whether it is a floating-point number of any kind.
    pub fn is_float(self) -> bool {
        self.0 & 0xf0 == 0x20
    }
}

/// The element type of a tensor as encoded in formats and programs: interpretation in the upper byte, bits in
/// the lower.
///
/// Source: `iree_hal_element_type_t`, `iree/hal/buffer_view.h`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ElementType(pub u32);

impl ElementType {
    /// An element type from its parts.
    pub const fn from_parts(numerical: Numerical, bits: u8) -> Self {
        Self((numerical.0 as u32) << 24 | bits as u32)
    }

    /// The interpretation of the bits.
    pub const fn numerical(self) -> Numerical {
        Numerical((self.0 >> 24) as u8)
    }

    /// Bits of one element; 0 if it has no size.
    pub const fn bits(self) -> u32 {
        self.0 & 0xff
    }

    /// Bytes of one element if it occupies whole bytes.
    pub const fn whole_bytes(self) -> Option<u64> {
        let bits = self.bits();
        if bits != 0 && bits.is_multiple_of(8) { Some((bits / 8) as u64) } else { None }
    }

    /// Bytes of a dense tensor; sub-byte elements are packed and the last byte is padded. Fails if the size
    /// overflows 64 bits.
    pub fn dense_bytes(self, shape: &[u64]) -> Result<u64> {
        let count = shape.iter().try_fold(1_u64, |count, size| count.checked_mul(*size));
        count
            .and_then(|count| count.checked_mul(u64::from(self.bits())))
            .map(|bits| bits.div_ceil(8))
            .ok_or_else(|| Error::out_of_range(format!("the size of shape {shape:?} overflows 64 bits")))
    }
}

impl fmt::Debug for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ElementType({:#010x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_matches_the_reference() {
        assert_eq!(ElementType::from_parts(Numerical::FLOAT_IEEE, 32).0, 0x2100_0020);
        let boolean = ElementType(0x1300_0008);
        assert_eq!((boolean.numerical(), boolean.bits()), (Numerical::BOOLEAN, 8));
        assert!(boolean.numerical().is_integer() && !boolean.numerical().is_float());
        assert_eq!(ElementType::from_parts(Numerical::INTEGER, 4).whole_bytes(), None);
    }
}
