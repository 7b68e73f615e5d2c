//! Functions of numbers that `std` does not have, or has otherwise than the mathematical library that the
//! reference is linked with (glibc).
//!
//! VMVX executables run with denormals taken as zero. What here looks at bits first does an operation that the
//! processor takes them as zero for.

use std::cmp::Ordering;

/// The integer at or above. Added to zero first, since the compiler's own function looks at bits.
pub(crate) fn ceil_f32(value: f32) -> f32 {
    (value + 0.0).ceil().copysign(value)
}

/// The integer at or below; see [`ceil_f32`].
pub(crate) fn floor_f32(value: f32) -> f32 {
    (value + 0.0).floor().copysign(value)
}

/// As [`ceil_f32`].
pub(crate) fn ceil_f64(value: f64) -> f64 {
    (value + 0.0).ceil().copysign(value)
}

/// As [`floor_f32`].
pub(crate) fn floor_f64(value: f64) -> f64 {
    (value + 0.0).floor().copysign(value)
}

/// Makes a function for the remainder of IEEE 754, whose quotient is rounded to the nearest integer, ties to even:
/// from the remainder of a quotient by twice the divisor that is rounded to zero, which `%` is. Comparisons and
/// differences are the processor's.
macro_rules! remainder {
    ($name:ident, $type:ty) => {
        /// The remainder of IEEE 754.
        pub(crate) fn $name(dividend: $type, divisor: $type) -> $type {
            if divisor == 0.0 || !dividend.is_finite() || divisor.is_nan() {
                return (dividend * divisor) / (dividend * divisor);
            }
            let divisor = divisor.abs();
            if dividend.abs().to_bits() == divisor.to_bits() {
                return 0.0 * dividend;
            }
            let fits_twice = divisor <= <$type>::MAX / 2.0;
            let mut rest = if fits_twice { dividend.abs() % (divisor + divisor) } else { dividend.abs() };
            // Half of a divisor that is small may not be a number, the double of one that is large.
            let is_small = divisor < 2.0 * <$type>::MIN_POSITIVE;
            let reaches_half = |rest: $type| match is_small {
                true => (rest + rest).partial_cmp(&divisor),
                false => rest.partial_cmp(&(0.5 * divisor)),
            };
            if reaches_half(rest) == Some(Ordering::Greater) {
                rest -= divisor;
                if matches!(reaches_half(rest), Some(Ordering::Greater | Ordering::Equal)) {
                    rest -= divisor;
                }
            }
            if dividend.is_sign_negative() { -rest } else { rest }
        }
    };
}
remainder!(remainder_f32, f32);
remainder!(remainder_f64, f64);

/// The logarithm; of a negative number the positive NaN, which the library's older interface gives and the
/// reference asks for.
pub(crate) fn ln_f64(value: f64) -> f64 {
    logarithm(value, f64::ln)
}

/// As [`ln_f64`].
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

/// The error function: the rational approximations of FDLIBM with the exponential function of the system's
/// library, as glibc has it before 2.41. The crate `libm` brings an exponential function of its own.
pub(crate) fn erf_f32(value: f32) -> f32 {
    let x = value.abs();
    if x.is_nan() || x.is_infinite() {
        return 1.0_f32.copysign(value) + 1.0 / value;
    }
    if x.to_bits() < 0x0400_0000 {
        return 0.0625 * (16.0 * value + (16.0 * NEAR_ZERO) * value);
    }
    if x.to_bits() < 0x3180_0000 {
        return value + NEAR_ZERO * value;
    }
    if x.to_bits() < 0x3F58_0000 {
        let z = value * value;
        return value + value * (polynomial(z, &P) / polynomial(z, &Q));
    }
    let positive = if x.to_bits() < 0x3FA0_0000 {
        let s = x - 1.0;
        AT_ONE + polynomial(s, &PA) / polynomial(s, &QA)
    } else if x < 6.0 {
        1.0 - complement(x)
    } else {
        1.0
    };
    positive.copysign(value)
}

/// `1 - erf(x)` for `x` from 1.25 to 6.
fn complement(x: f32) -> f32 {
    let s = 1.0 / (x * x);
    let ratio = match x.to_bits() < 0x4036_DB6E {
        true => polynomial(s, &RA) / polynomial(s, &SA),
        false => polynomial(s, &RB) / polynomial(s, &SB),
    };
    // Its upper bits, of which the square is exact.
    let z = f32::from_bits(x.to_bits() & 0xFFFF_F000);
    (-z * z - 0.5625).exp() * ((z - x) * (z + x) + ratio).exp() / x
}

/// Horner's scheme, from the constant term on.
fn polynomial(x: f32, coefficients: &[f32]) -> f32 {
    let Some((last, others)) = coefficients.split_last() else { return 0.0 };
    others.iter().rev().fold(*last, |sum, coefficient| coefficient + x * sum)
}

// The coefficients of FDLIBM (Sun Microsystems 1993, in binary32), as the crate `libm` has them.

/// `2 / sqrt(pi) - 1`.
const NEAR_ZERO: f32 = 1.283_791_7e-1;
/// `erf(1)`, rounded to few bits.
const AT_ONE: f32 = 8.450_629e-1;

/// Below 0.84375.
const P: [f32; 5] = [1.283_791_7e-1, -3.250_421e-1, -2.848_175e-2, -5.770_270_2e-3, -2.376_301_7e-5];
const Q: [f32; 6] = [1.0, 3.979_172e-1, 6.502_225e-2, 5.081_306e-3, 1.324_947_4e-4, -3.960_228_2e-6];

/// From there to 1.25, around 1.
const PA: [f32; 7] = [
    -2.362_118_6e-3,
    4.148_561e-1,
    -3.722_078_8e-1,
    3.183_466_2e-1,
    -1.108_946_95e-1,
    3.547_830_5e-2,
    -2.166_375_5e-3,
];
const QA: [f32; 7] =
    [1.0, 1.064_208_8e-1, 5.403_979_4e-1, 7.182_865_6e-2, 1.261_712_2e-1, 1.363_708_4e-2, 1.198_45e-2];

/// From there to 1 / 0.35.
const RA: [f32; 8] = [
    -9.864_944e-3,
    -6.938_585_6e-1,
    -1.055_862_6e1,
    -6.237_533e1,
    -1.623_966_7e2,
    -1.846_050_9e2,
    -8.128_744e1,
    -9.814_329,
];
const SA: [f32; 9] = [
    1.0,
    1.965_127_2e1,
    1.376_577_6e2,
    4.345_659e2,
    6.453_872_7e2,
    4.290_081_5e2,
    1.086_35e2,
    6.570_249_6,
    -6.042_441_4e-2,
];

/// From there to 6.
const RB: [f32; 7] = [
    -9.864_943e-3,
    -7.992_832_7e-1,
    -1.775_795_6e1,
    -1.606_363_8e2,
    -6.375_664_7e2,
    -1.025_095_1e3,
    -4.835_192e2,
];
const SB: [f32; 8] = [
    1.0,
    3.033_806e1,
    3.257_925e2,
    1.536_729_6e3,
    3.199_858_2e3,
    2.553_050_3e3,
    4.745_285_3e2,
    -2.244_095_2e1,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A few thousand numbers of all magnitudes, and what is special.
    fn numbers() -> Vec<f32> {
        let mut state = 1_u32;
        let mut numbers =
            vec![0.0, 0.5, 1.0, 1.5, 2.5, 3.0, f32::MAX, f32::MIN_POSITIVE, 1e-40, f32::INFINITY, f32::NAN];
        numbers.extend((0..3000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(state)
        }));
        numbers.extend(numbers.clone().iter().map(|number| -number));
        numbers
    }

    fn same(found: f64, expected: f64) -> bool {
        found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan())
    }

    #[test]
    fn remainders_are_those_of_the_definition() {
        let numbers = numbers();
        for (index, a) in numbers.iter().enumerate() {
            for b in [numbers[numbers.len() - 1 - index], 3.0, a * 0.4, a * 2.0, f32::MAX, f32::MIN_POSITIVE]
            {
                let found = remainder_f32(*a, b);
                assert!(same(found.into(), libm::remainderf(*a, b).into()), "{a:e} {b:e}: {found:e}");
                let (a, b) = (f64::from(*a).powi(7), f64::from(b));
                assert!(same(remainder_f64(a, b), libm::remainder(a, b)), "{a:e} {b:e}");
            }
        }
        assert_eq!((remainder_f32(5.0, 2.0), remainder_f32(7.0, 2.0)), (1.0, -1.0));
        assert_eq!((remainder_f32(1.0, 2.0), remainder_f32(3.0, 2.0)), (1.0, -1.0));
    }

    #[test]
    fn rounded_numbers_are_those_of_the_definition() {
        for a in numbers() {
            assert!(
                same(ceil_f32(a).into(), f64::from(a).ceil())
                    && same(floor_f32(a).into(), f64::from(a).floor())
            );
            let wide = f64::from(a) * 1e-9;
            assert!(same(ceil_f64(wide), libm::ceil(wide)) && same(floor_f64(wide), libm::floor(wide)));
        }
    }

    #[test]
    fn the_error_function_is_within_a_rounding_of_the_one_in_binary64() {
        for step in -80_000..=80_000 {
            let x = step as f32 / 10_000.0;
            let (found, expected) = (erf_f32(x), libm::erf(x.into()));
            let unit = f32::from_bits((expected.abs() as f32).to_bits() + 1) - expected.abs() as f32;
            assert!(
                (f64::from(found) - expected).abs() <= f64::from(unit),
                "erf({x}) = {found}, not {expected}"
            );
        }
        for (x, erf) in
            [(f32::INFINITY, 1.0), (f32::NEG_INFINITY, -1.0), (0.0, 0.0), (1e-44, 1.1e-44), (7.0, 1.0)]
        {
            assert_eq!(erf_f32(x), erf);
        }
        assert!(erf_f32(f32::NAN).is_nan() && erf_f32(-0.0).is_sign_negative());
        // One of those that the crate rounds otherwise; this is what the reference prints.
        assert_eq!(
            erf_f32(f32::from_bits(0x3FB0_B5F2)).to_bits(),
            libm::erff(f32::from_bits(0x3FB0_B5F2)).to_bits() + 1
        );
    }

    #[test]
    fn logarithms_of_what_is_not_positive() {
        for of in [ln_f64, log2_f64] {
            assert_eq!(of(-1.0).to_bits(), f64::NAN.to_bits());
            assert_eq!(of(-0.0), f64::NEG_INFINITY);
            assert_eq!(of(1.0), 0.0);
            assert!(of(f64::NAN).is_nan());
        }
    }
}
