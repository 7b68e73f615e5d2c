//! Numbers as C's `printf` prints them (<https://en.cppreference.com/w/c/io/fprintf>).

use std::fmt;

/// A number as `%g` prints it: with this number of significant digits, without trailing zeros, and with an
/// exponent if it is below -4 or at least the number of digits.
#[derive(Clone, Copy, Debug)]
pub struct General {
    /// The number.
    pub value: f64,
    /// Significant digits, at least 1.
    pub digits: usize,
}

impl fmt::Display for General {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, digits } = *self;
        let sign = if value.is_sign_negative() { "-" } else { "" };
        if value.is_nan() {
            return write!(f, "{sign}nan");
        }
        if value.is_infinite() {
            return write!(f, "{sign}inf");
        }
        let text = format!("{value:.*e}", digits - 1);
        let (mantissa, exponent) = split_exponent(&text);
        match usize::try_from(digits as i32 - 1 - exponent) {
            Ok(decimals) if exponent >= -4 => f.write_str(without_zeros(&format!("{value:.decimals$}"))),
            _ => f.write_str(&with_exponent(without_zeros(mantissa), exponent)),
        }
    }
}

/// A number as `%e` prints it: with this number of decimals, and an exponent of at least two digits.
pub fn scientific(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return General { value, digits: 1 }.to_string();
    }
    let text = format!("{value:.decimals$e}");
    let (mantissa, exponent) = split_exponent(&text);
    with_exponent(mantissa, exponent)
}

fn split_exponent(text: &str) -> (&str, i32) {
    let (mantissa, exponent) = text.split_once('e').expect("`{:e}` writes an exponent");
    (mantissa, exponent.parse().expect("the exponent of an f64 is a small integer"))
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are the output of C.
    #[test]
    fn numbers_match_printf() {
        for (value, digits, text) in [
            (0.0, 6, "0"),
            (-0.0, 6, "-0"),
            (1.0, 6, "1"),
            (0.1, 6, "0.1"),
            (100000.0, 6, "100000"),
            (1000000.0, 6, "1e+06"),
            (999999.5, 6, "1e+06"),
            (999998.5, 6, "999998"),
            (123456.5, 6, "123456"),
            (123457.5, 6, "123458"),
            (0.0001, 6, "0.0001"),
            (0.00001, 6, "1e-05"),
            (0.000099999999, 6, "0.0001"),
            (0.00009999994, 6, "9.99999e-05"),
            (-2.5e-7, 6, "-2.5e-07"),
            (2299.998, 6, "2300"),
            (1e100, 6, "1e+100"),
            (1.25e-300, 6, "1.25e-300"),
            (f64::MAX, 6, "1.79769e+308"),
            (f64::from_bits(1), 6, "4.94066e-324"),
            (f64::INFINITY, 6, "inf"),
            (f64::NEG_INFINITY, 17, "-inf"),
            (f64::NAN, 17, "nan"),
            (-f64::NAN, 6, "-nan"),
            (0.1_f32.into(), 9, "0.100000001"),
            (123456789.0_f32.into(), 9, "123456792"),
            (1e9, 9, "1e+09"),
            (1e-4_f32.into(), 9, "9.99999975e-05"),
            (0.00025_f32.into(), 9, "0.000250000012"),
            (f32::MAX.into(), 9, "3.40282347e+38"),
            (f32::from_bits(1).into(), 9, "1.40129846e-45"),
            (0.1, 17, "0.10000000000000001"),
            (1e16, 17, "10000000000000000"),
            (1e17, 17, "1e+17"),
            (1e300, 17, "1.0000000000000001e+300"),
            (123.456, 17, "123.456"),
            (1e-4, 17, "0.0001"),
            (1e-5, 17, "1.0000000000000001e-05"),
        ] {
            assert_eq!(General { value, digits }.to_string(), text);
        }
        for (value, text) in
            [(-0.001, "-1.000e-03"), (2.0, "2.000e+00"), (1e100, "1.000e+100"), (f64::NAN, "nan")]
        {
            assert_eq!(scientific(value, 3), text);
        }
    }
}
