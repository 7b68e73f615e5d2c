//! Floating-point formats narrower than 32 bits, to and from `f32`.

use half::{bf16, f16};

/// A format of 8 or 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NarrowFloat {
    /// f16 (IEEE 754 binary16).
    F16,
    /// bfloat16: the upper half of an `f32`.
    BF16,
    /// An 8-bit format, which the `half` crate lacks.
    F8(Layout),
}

/// The bit layout after the sign: exponent, then mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
}

/// Which codes are not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// The largest exponent: infinity with mantissa 0, else NaN.
    Ieee,
    /// NaN if all bits of exponent and mantissa are set; no infinity (`FN`).
    OneNan,
    /// The bits of negative zero are NaN; no infinity, no negative zero (`FNUZ`).
    NegativeZero,
}

pub(crate) const F16: NarrowFloat = NarrowFloat::F16;
pub(crate) const BF16: NarrowFloat = NarrowFloat::BF16;
/// `f8E5M2` of arXiv 2209.05433.
pub(crate) const F8_E5M2: NarrowFloat = NarrowFloat::F8(ieee(5, 2));
/// `f8E4M3FN` of arXiv 2209.05433.
pub(crate) const F8_E4M3_FN: NarrowFloat = f8(4, 3, 7, Specials::OneNan);
/// `f8E5M2FNUZ` of arXiv 2206.02915.
pub(crate) const F8_E5M2_FNUZ: NarrowFloat = f8(5, 2, 16, Specials::NegativeZero);
/// `f8E4M3FNUZ` of arXiv 2206.02915.
pub(crate) const F8_E4M3_FNUZ: NarrowFloat = f8(4, 3, 8, Specials::NegativeZero);

const fn f8(exponent_bits: u32, mantissa_bits: u32, bias: i32, specials: Specials) -> NarrowFloat {
    NarrowFloat::F8(Layout { exponent_bits, mantissa_bits, bias, specials })
}

const fn ieee(exponent_bits: u32, mantissa_bits: u32) -> Layout {
    let bias = (1 << (exponent_bits - 1)) - 1;
    Layout { exponent_bits, mantissa_bits, bias, specials: Specials::Ieee }
}

impl NarrowFloat {
    /// The value of a code in the low bits. All NaN codes map to one NaN, regardless of sign and payload.
    pub(crate) fn to_f32(self, code: u32) -> f32 {
        let value = match self {
            Self::F16 => f16::from_bits(code as u16).to_f32(),
            Self::BF16 => bf16::from_bits(code as u16).to_f32(),
            Self::F8(layout) => layout.to_f32(code),
        };
        if value.is_nan() { f32::NAN } else { value }
    }

    /// The code of the nearest value, ties to even. Overflow gives infinity, or NaN if the format has no
    /// infinity. A NaN becomes the code with all bits of exponent and mantissa set, with the same sign.
    pub(crate) fn code_of(self, value: f32) -> u32 {
        let nan = |bits: u16| u32::from(bits | 0x7fff);
        match self {
            Self::F16 if value.is_nan() => nan(f16::from_f32(value).to_bits()),
            Self::F16 => f16::from_f32(value).to_bits().into(),
            Self::BF16 if value.is_nan() => nan(bf16::from_f32(value).to_bits()),
            Self::BF16 => bf16::from_f32(value).to_bits().into(),
            Self::F8(layout) => layout.code_of(value),
        }
    }
}

impl Layout {
    fn to_f32(self, code: u32) -> f32 {
        let magnitude = code & (self.sign() - 1);
        let negative = code & self.sign() != 0;
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let mantissa = magnitude & self.mantissa_mask();
        let special = match self.specials {
            Specials::Ieee if magnitude >> self.mantissa_bits == self.exponent_mask() => {
                Some(if mantissa == 0 { f32::INFINITY } else { f32::NAN })
            }
            Specials::OneNan if magnitude == self.sign() - 1 => Some(f32::NAN),
            Specials::NegativeZero if negative && magnitude == 0 => Some(f32::NAN),
            _ => None,
        };
        let value = special.unwrap_or_else(|| {
            // A subnormal has exponent 1 and no implied leading bit. All formats here fit f64 with room to
            // spare, and the product with a power of two is exact.
            let (exponent, mantissa) = match exponent {
                0 => (1, mantissa),
                _ => (exponent, mantissa | 1 << self.mantissa_bits),
            };
            (f64::from(mantissa) * 2f64.powi(exponent - self.bias - self.mantissa_bits as i32)) as f32
        });
        if negative && !value.is_nan() { -value } else { value }
    }

    fn code_of(self, value: f32) -> u32 {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        if value.is_nan() {
            return self.nan(sign);
        }
        if value.is_infinite() {
            return self.overflow(sign);
        }
        let magnitude = self.round(f64::from(value.abs()));
        let largest = match self.specials {
            Specials::Ieee => (self.exponent_mask() << self.mantissa_bits) - 1,
            Specials::OneNan => self.sign() - 2,
            Specials::NegativeZero => self.sign() - 1,
        };
        match magnitude {
            _ if magnitude > largest => self.overflow(sign),
            0 if self.specials == Specials::NegativeZero => 0,
            _ => sign | magnitude,
        }
    }

    /// The code of a magnitude if the exponent were unbounded. Codes are consecutive through subnormals,
    /// normals and across exponents, so rounding up to the next code is an increment.
    fn round(self, magnitude: f64) -> u32 {
        if magnitude == 0.0 {
            return 0;
        }
        let bits = magnitude.to_bits();
        // Each f32, subnormal or not, is a normal f64.
        let exponent = (bits >> 52) as i32 - 1023;
        let exponent = exponent.max(1 - self.bias);
        let units = magnitude * 2f64.powi(self.mantissa_bits as i32 - exponent);
        let base = ((exponent + self.bias - 1) as u32) << self.mantissa_bits;
        base + units.round_ties_even() as u32
    }

    fn nan(self, sign: u32) -> u32 {
        match self.specials {
            Specials::NegativeZero => self.sign(),
            _ => sign | (self.sign() - 1),
        }
    }

    fn overflow(self, sign: u32) -> u32 {
        match self.specials {
            Specials::Ieee => sign | self.exponent_mask() << self.mantissa_bits,
            _ => self.nan(sign),
        }
    }

    fn sign(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    fn exponent_mask(self) -> u32 {
        (1 << self.exponent_bits) - 1
    }

    fn mantissa_mask(self) -> u32 {
        (1 << self.mantissa_bits) - 1
    }
}

/// The value of an `f8E8M0FNU`: a power of two; 255 is NaN.
pub(crate) fn f8_e8m0_fnu_to_f32(code: u8) -> f32 {
    if code == 0xff { f32::NAN } else { 2f64.powi(i32::from(code) - 127) as f32 }
}

/// The nearest `f8E8M0FNU`. Non-positive numbers give the smallest value; non-finite numbers and overflow
/// give NaN.
pub(crate) fn f8_e8m0_fnu_from_f32(value: f32) -> u8 {
    if !value.is_finite() {
        return 0xff;
    }
    if value <= 0.0 {
        return 0;
    }
    let bits = f64::from(value).to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    // From 1.5 times a power of two, the next one is at least as near.
    let rounds_up = bits >> 51 & 1;
    (exponent + 127 + rounds_up as i32).clamp(0, 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(NarrowFloat, u32); 6] =
        [(F16, 16), (BF16, 16), (F8_E5M2, 8), (F8_E4M3_FN, 8), (F8_E5M2_FNUZ, 8), (F8_E4M3_FNUZ, 8)];

    #[test]
    fn every_code_round_trips() {
        for (format, bits) in ALL {
            for code in 0..1u32 << bits {
                let value = format.to_f32(code);
                if value.is_nan() {
                    assert!(format.to_f32(format.code_of(value)).is_nan(), "{format:?} {code:#x}");
                } else {
                    assert_eq!(format.code_of(value), code, "{format:?} {value}");
                }
            }
        }
        for code in 0..=255u8 {
            assert_eq!(f8_e8m0_fnu_from_f32(f8_e8m0_fnu_to_f32(code)), code);
        }
    }

    /// A tie rounds to the even code; slightly more or less rounds to the nearer one.
    #[test]
    fn rounding_is_to_nearest_even() {
        for (format, bits) in ALL {
            for code in 0..(1u32 << (bits - 1)) - 1 {
                let (low, high) = (format.to_f32(code), format.to_f32(code + 1));
                if !(low.is_finite() && high.is_finite()) {
                    continue;
                }
                let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
                let even = code + (code & 1);
                assert_eq!(format.code_of(middle), even, "{format:?} between {low} and {high}");
                assert_eq!(format.code_of(middle.next_down()), code, "{format:?} {low}");
                assert_eq!(format.code_of(middle.next_up()), code + 1, "{format:?} {high}");
            }
        }
    }

    /// The conversions of `half` match the definitions of the formats bit for bit.
    #[test]
    fn formats_of_16_bits_are_as_defined() {
        let mut random = fastrand::Rng::with_seed(16);
        for (format, layout) in [(F16, ieee(5, 10)), (BF16, ieee(8, 7))] {
            for code in 0..1 << 16 {
                let (value, defined) = (format.to_f32(code), layout.to_f32(code));
                assert_eq!(value.to_bits(), defined.to_bits(), "{format:?} {code:#x}");
            }
            let special =
                [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN];
            let numbers = (0..1_000_000).map(|_| f32::from_bits(random.u32(..)));
            for value in numbers.chain(special) {
                let bits = value.to_bits();
                assert_eq!(format.code_of(value), layout.code_of(value), "{format:?} {value} {bits:#x}");
            }
        }
    }

    #[test]
    fn overflow_gives_infinity_or_nan() {
        assert_eq!(F16.code_of(65504.0), 0x7bff);
        assert_eq!(F16.code_of(65519.9), 0x7bff);
        assert_eq!(F16.code_of(65520.0), 0x7c00);
        assert_eq!(F16.code_of(-1e30), 0xfc00);
        assert_eq!(F8_E4M3_FN.code_of(448.0), 0x7e);
        assert_eq!(F8_E4M3_FN.code_of(464.0), 0x7e);
        assert_eq!(F8_E4M3_FN.code_of(465.0), 0x7f);
        assert_eq!(F8_E4M3_FN.code_of(f32::NEG_INFINITY), 0xff);
        assert_eq!(F8_E5M2.code_of(f32::INFINITY), 0x7c);
        assert_eq!(F8_E4M3_FNUZ.code_of(240.0), 0x7f);
        assert_eq!(F8_E4M3_FNUZ.code_of(-260.0), 0x80);
        assert_eq!(F8_E5M2_FNUZ.code_of(-0.0), 0);
        assert_eq!(f8_e8m0_fnu_from_f32(f32::MAX), 0xff);
        assert_eq!(f8_e8m0_fnu_from_f32(-1.0), 0);
        assert_eq!((f8_e8m0_fnu_from_f32(1.49), f8_e8m0_fnu_from_f32(1.5)), (127, 128));
    }
}
