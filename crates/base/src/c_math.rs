//! Math functions of the C library that `std` lacks. Programs must match the reference bit for bit, and the
//! reference uses these functions too.

#![allow(unsafe_code, reason = "declares functions of the C library; docs/unsafe.md says why")]

// SAFETY: these are the C library's functions with these names and types (C99, 7.12.8.1 and 7.12.10.2), which
// take and return only numbers and are defined for all of them.
unsafe extern "C" {
    /// The error function.
    pub safe fn erf(value: f64) -> f64;
    /// The error function.
    pub safe fn erff(value: f32) -> f32;
    /// The remainder of IEEE 754, whose quotient is rounded to the nearest integer, ties to even.
    pub safe fn remainder(dividend: f64, divisor: f64) -> f64;
    /// The remainder of IEEE 754, whose quotient is rounded to the nearest integer, ties to even.
    pub safe fn remainderf(dividend: f32, divisor: f32) -> f32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not support the C library's math functions")]
    fn functions_match_their_names() {
        assert_eq!((remainder(5.0, 2.0), remainder(7.0, 2.0)), (1.0, -1.0));
        assert_eq!((remainderf(1.0, 2.0), remainderf(3.0, 2.0)), (1.0, -1.0));
        assert!(remainder(1.0, 0.0).is_nan() && remainderf(f32::INFINITY, 1.0).is_nan());
        assert!((erf(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15 && erf(-9.0) == -1.0);
        assert!((erff(0.5) - 0.520_499_9).abs() < 1e-6 && erff(f32::INFINITY) == 1.0);
    }
}
