use rehal_base::{ElementType, Numerical};

use crate::narrow_float::{BF16, F8_E4M3_FN, F8_E4M3_FNUZ, F8_E5M2, F8_E5M2_FNUZ, F16, NarrowFloat};

/// How elements of a type are represented and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    /// An integer of 8, 16, 32 or 64 bits.
    Integer { bits: u32, signs: Signs },
    /// An integer of at most 63 bits that does not occupy whole bytes; stored packed.
    PackedInteger { bits: u32, signs: Signs },
    /// A boolean in a byte.
    Boolean,
    /// A float of 8 or 16 bits.
    Narrow { format: NarrowFloat, bytes: usize },
    /// A power of two in a byte.
    PowerOfTwo,
    /// f32.
    F32,
    /// f64.
    F64,
    /// Two numbers of half the size each.
    Complex { bytes: usize },
    /// Opaque bytes, written in hexadecimal.
    Raw { bytes: usize },
    /// Bits that do not occupy whole bytes, packed and written in hexadecimal.
    PackedRaw { bits: u32 },
}

/// Signedness of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signs {
    /// Numbers are printed with a sign; positive ones may use all bits.
    Signless,
    Signed,
    Unsigned,
}

impl Representation {
    pub(crate) fn for_type(element_type: ElementType) -> Self {
        let bits = element_type.bits();
        let whole = element_type.whole_bytes().map(|bytes| bytes as usize);
        let signs = match element_type.numerical() {
            Numerical::INTEGER => Some(Signs::Signless),
            Numerical::SIGNED => Some(Signs::Signed),
            Numerical::UNSIGNED => Some(Signs::Unsigned),
            _ => None,
        };
        match (element_type.numerical(), signs, whole) {
            (_, Some(signs), Some(1 | 2 | 4 | 8)) => Self::Integer { bits, signs },
            (_, Some(signs), None) if (1..64).contains(&bits) => Self::PackedInteger { bits, signs },
            (Numerical::BOOLEAN, _, Some(1)) => Self::Boolean,
            (Numerical::FLOAT_IEEE, _, Some(2)) => Self::Narrow { format: F16, bytes: 2 },
            (Numerical::FLOAT_IEEE, _, Some(4)) => Self::F32,
            (Numerical::FLOAT_IEEE, _, Some(8)) => Self::F64,
            (Numerical::FLOAT_BRAIN, _, Some(2)) => Self::Narrow { format: BF16, bytes: 2 },
            (Numerical::FLOAT_COMPLEX, _, Some(bytes @ (8 | 16))) => Self::Complex { bytes },
            (Numerical::FLOAT_8_E5M2, _, Some(1)) => Self::Narrow { format: F8_E5M2, bytes: 1 },
            (Numerical::FLOAT_8_E4M3FN, _, Some(1)) => Self::Narrow { format: F8_E4M3_FN, bytes: 1 },
            (Numerical::FLOAT_8_E5M2_FNUZ, _, Some(1)) => Self::Narrow { format: F8_E5M2_FNUZ, bytes: 1 },
            (Numerical::FLOAT_8_E4M3_FNUZ, _, Some(1)) => Self::Narrow { format: F8_E4M3_FNUZ, bytes: 1 },
            (Numerical::FLOAT_8_E8M0_FNU, _, Some(1)) => Self::PowerOfTwo,
            (_, _, Some(bytes)) => Self::Raw { bytes },
            (_, _, None) => Self::PackedRaw { bits },
        }
    }
}
