//! Numbers that depend on the processor: those of the reference, as clang compiles it.

/// Whether it fuses a multiplication and an addition. The baseline of x86-64 cannot.
const FUSES: bool = cfg!(target_arch = "aarch64");
/// Whether a conversion to an integer that is out of range yields the nearest one, and 0 for NaN.
const SATURATES: bool = cfg!(target_arch = "aarch64");

pub(crate) fn multiply_add_f32(a: f32, b: f32, c: f32) -> f32 {
    if FUSES { a.mul_add(b, c) } else { a * b + c }
}

pub(crate) fn multiply_add_f64(a: f64, b: f64, c: f64) -> f64 {
    if FUSES { a.mul_add(b, c) } else { a * b + c }
}

/// Converts a float without a fraction to an integer; on x86-64, `i64::MIN` if out of range or NaN, as
/// `cvttsd2si`.
pub(crate) fn round_to_i64(value: f64) -> i64 {
    // 2^63 is the first float that does not fit; -2^63 fits.
    if SATURATES || (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// Converts a float without a fraction to the bits of an unsigned integer; on x86-64, negative numbers wrap.
pub(crate) fn rounded_f32_to_u64(value: f32) -> i64 {
    if SATURATES {
        return (value as u64).cast_signed();
    }
    let low = round_to_i64(value.into());
    let high = round_to_i64((value - 9_223_372_036_854_775_808.0).into());
    low | (high & (low >> 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_processor() {
        let (tiny, here) = (f32::EPSILON / 2.0, |x86: i64, arm: i64| if SATURATES { arm } else { x86 });
        // The product is 1 - 2^-48, which rounds to 1.
        let product = multiply_add_f32(1.0 + tiny * 2.0, 1.0 - tiny * 2.0, -1.0);
        assert_eq!(product, if FUSES { -tiny * tiny * 4.0 } else { 0.0 });
        assert_eq!(round_to_i64(f64::NAN), here(i64::MIN, 0));
        assert_eq!(round_to_i64(1e300), here(i64::MIN, i64::MAX));
        assert_eq!(round_to_i64(-9_223_372_036_854_775_808.0), i64::MIN);
        assert_eq!(rounded_f32_to_u64(-1.0), here(-1, 0));
        assert_eq!(rounded_f32_to_u64(1.0e19) as u64, 9_999_999_980_506_447_872);
    }
}
