//! Mathematical functions that differ between `std` and glibc, which the reference is linked with.
//!
//! VMVX executables run with denormals-are-zero. Functions that inspect bits first do an operation for which
//! the processor flushes denormals.

/// Ceiling. Adds zero first to flush denormals: the compiler's own function inspects bits.
pub(crate) fn ceil_f32(value: f32) -> f32 {
    (value + 0.0).ceil().copysign(value)
}

/// Floor; see [`ceil_f32`].
pub(crate) fn floor_f32(value: f32) -> f32 {
    (value + 0.0).floor().copysign(value)
}

/// See [`ceil_f32`].
pub(crate) fn ceil_f64(value: f64) -> f64 {
    (value + 0.0).ceil().copysign(value)
}

/// See [`floor_f32`].
pub(crate) fn floor_f64(value: f64) -> f64 {
    (value + 0.0).floor().copysign(value)
}

/// The logarithm; positive NaN for a negative number, as glibc's old interface, which the reference uses.
pub(crate) fn ln_f64(value: f64) -> f64 {
    logarithm(value, f64::ln)
}

/// See [`ln_f64`].
pub(crate) fn log2_f64(value: f64) -> f64 {
    logarithm(value, f64::log2)
}

fn logarithm(value: f64, of: impl Fn(f64) -> f64) -> f64 {
    if value < 0.0 {
        f64::NAN
    } else if value == 0.0 {
        f64::NEG_INFINITY
    } else {
        of(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few thousand numbers of all magnitudes, and the special values.
    fn numbers() -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(1);
        let mut numbers =
            vec![0.0, 0.5, 1.0, 1.5, 2.5, 3.0, f32::MAX, f32::MIN_POSITIVE, 1e-40, f32::INFINITY, f32::NAN];
        numbers.extend((0..3000).map(|_| f32::from_bits(random.u32(..))));
        numbers.extend(numbers.clone().iter().map(|number| -number));
        numbers
    }

    fn same(found: f64, expected: f64) -> bool {
        found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan())
    }

    #[test]
    fn rounding_matches_the_definition() {
        for a in numbers() {
            assert!(
                same(ceil_f32(a).into(), f64::from(a).ceil())
                    && same(floor_f32(a).into(), f64::from(a).floor())
            );
            let wide = f64::from(a) * 1e-9;
            assert!(same(ceil_f64(wide), wide.ceil()) && same(floor_f64(wide), wide.floor()));
        }
    }

    #[test]
    fn logarithms_of_zero_and_negative_numbers() {
        for of in [ln_f64, log2_f64] {
            assert_eq!(of(-1.0).to_bits(), f64::NAN.to_bits());
            assert_eq!(of(-0.0), f64::NEG_INFINITY);
            assert_eq!(of(1.0), 0.0);
            assert!(of(f64::NAN).is_nan());
        }
    }
}
