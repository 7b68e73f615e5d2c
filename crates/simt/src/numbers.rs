//! Arithmetic of narrow floats and with directed rounding, from that of `f64`.
//!
//! A sum or a product of narrower floats is computed in `f64`, rounded to odd: if it is inexact, its last bit
//! is set. Rounding that to a format with at least two bits less gives the correctly rounded result in every
//! mode (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).

words! {
    /// How a result is rounded ("Rounding Modifiers"). Nearest is with ties to even.
    Rounding { Nearest = "rn", Zero = "rz", Down = "rm", Up = "rp" }
}

/// A binary float format of at most 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the mantissa that are stored.
    pub mantissa: u32,
    pub exponent: u32,
}

pub(crate) const F16: Format = Format { mantissa: 10, exponent: 5 };
pub(crate) const BF16: Format = Format { mantissa: 7, exponent: 8 };
pub(crate) const F32: Format = Format { mantissa: 23, exponent: 8 };
pub(crate) const TF32: Format = Format { mantissa: 10, exponent: 8 };

/// The NaN that GPUs return ("Floating Point Instructions").
pub(crate) const NAN: u32 = 0x7fff_ffff;
pub(crate) const NAN_16: u32 = 0x7fff;
pub(crate) const NAN_64: u64 = 0x7fff_ffff_ffff_ffff;

impl Format {
    /// The bits of `value` rounded to this format.
    pub(crate) fn round(self, value: f64, mode: Rounding) -> u32 {
        let bits = value.to_bits();
        let is_negative = bits >> 63 != 0;
        let sign = u32::from(is_negative) << (self.mantissa + self.exponent);
        let infinity = ((1 << self.exponent) - 1) << self.mantissa;
        if value.is_nan() {
            return (1 << (self.mantissa + self.exponent)) - 1;
        }
        if value.is_infinite() {
            return sign | infinity;
        }
        let (exponent, significand) = parts(bits);
        let least = 2 - (1 << (self.exponent - 1));
        let shift = (52 - self.mantissa) as i32 + (least - exponent).max(0);
        let shift = shift.min(60) as u32;
        let rest = significand & ((1 << shift) - 1);
        let half = 1_u64 << (shift - 1);
        let quotient = significand >> shift;
        let is_up = match mode {
            Rounding::Nearest => rest > half || (rest == half && quotient & 1 != 0),
            Rounding::Zero => false,
            Rounding::Down => is_negative && rest != 0,
            Rounding::Up => !is_negative && rest != 0,
        };
        let above = (exponent.max(least) - least) as u64;
        let result = (above << self.mantissa) + quotient + u64::from(is_up);
        if result < u64::from(infinity) {
            return sign | result as u32;
        }
        let is_infinite = match mode {
            Rounding::Nearest => true,
            Rounding::Zero => false,
            Rounding::Down => is_negative,
            Rounding::Up => !is_negative,
        };
        sign | if is_infinite { infinity } else { infinity - 1 }
    }
}

/// The exponent and the significand of the bits of a finite `f64`, with 52 bits after the point.
fn parts(bits: u64) -> (i32, u64) {
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52) as i32 & 0x7ff {
        0 => (-1022, fraction),
        exponent => (exponent - 1023, fraction | 1 << 52),
    }
}

/// The value of a half.
#[inline(always)]
pub(crate) fn from_f16(bits: u32) -> f32 {
    let magnitude = (bits & 0x7fff) << 13;
    // Multiplied, so that subnormal ones need no case of their own; infinity and NaN keep the largest
    // exponent.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (bits & 0x8000) << 16)
}

#[inline(always)]
pub(crate) fn from_bf16(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

/// The difference between the exact sum and the rounded one.
#[inline(always)]
pub(crate) fn sum_error(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}

/// The bits of a result, of which each NaN is the same.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> u32 {
    if value.is_nan() { NAN } else { value.to_bits() }
}

#[inline(always)]
pub(crate) fn canonical_double(value: f64) -> u64 {
    if value.is_nan() { NAN_64 } else { value.to_bits() }
}

/// The sum, rounded to odd.
#[inline(always)]
pub(crate) fn odd_sum(a: f64, b: f64) -> f64 {
    let (sum, error) = (a + b, sum_error(a, b));
    // One up or down in magnitude, towards the exact sum, if its last bit is even. The error of a sum that is
    // infinite or NaN is NaN, which is neither.
    let away = (i64::from(error > 0.0) - i64::from(error < 0.0)) as u64;
    let away = if sum < 0.0 { away.wrapping_neg() } else { away };
    let bits = sum.to_bits();
    f64::from_bits(bits.wrapping_add(away & (bits & 1).wrapping_sub(1)))
}

/// `a * b + c` with one rounding.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    // The product of two `f32` has at most 48 bits: it is exact.
    odd_sum(f64::from(a) * f64::from(b), f64::from(c)) as f32
}

/// `value`, which is `exact` plus an error of the sign of `error` and below one unit of the last place, in
/// another rounding mode than to nearest.
pub(crate) fn redirected(value: f64, error: f64, mode: Rounding) -> f64 {
    match mode {
        // A finite result that overflowed has an error that is infinite, and is handled by the caller.
        _ if value.is_infinite() => value,
        Rounding::Down if error < 0.0 => value.next_down(),
        Rounding::Up if error > 0.0 => value.next_up(),
        Rounding::Zero if value > 0.0 && error < 0.0 => value.next_down(),
        Rounding::Zero if value < 0.0 && error > 0.0 => value.next_up(),
        _ => value,
    }
}

/// An infinite result of finite operands in a rounding mode.
pub(crate) fn overflowed(value: f64, mode: Rounding) -> f64 {
    match mode {
        Rounding::Zero => f64::MAX.copysign(value),
        Rounding::Down if value > 0.0 => f64::MAX,
        Rounding::Up if value < 0.0 => f64::MIN,
        _ => value,
    }
}

/// Rounded to an integer.
#[inline(always)]
pub(crate) fn to_integer(value: f64, mode: Rounding) -> f64 {
    match mode {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Zero with its sign in place of a subnormal `f32`.
#[inline(always)]
pub(crate) fn flushed(value: f32) -> f32 {
    let bits = value.to_bits();
    if bits & 0x7f80_0000 == 0 { f32::from_bits(bits & 1 << 31) } else { value }
}
