use std::fmt;

/// A number as C prints it with `%.9g` or `%.17g`: the given number of significant digits, no trailing zeros,
/// and an exponent if it is below -4 or at least the number of digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct General {
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
        let scientific = format!("{value:.*e}", digits - 1);
        let Some((mantissa, exponent)) = scientific.split_once('e') else { return Ok(()) };
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..digits as i32).contains(&exponent) {
            let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
            return f.write_str(without_zeros(&format!("{value:.decimals$}")));
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs())
    }
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_printf() {
        let f32s = |value: f32| General { value: value.into(), digits: 9 }.to_string();
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.100000001"),
            (123456789.0, "123456792"),
            (1e9, "1e+09"),
            (1e-4, "9.99999975e-05"),
            (0.00025, "0.000250000012"),
            (3.4028235e38, "3.40282347e+38"),
            (1e-45, "1.40129846e-45"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (f32::NAN, "nan"),
            (-f32::NAN, "-nan"),
        ] {
            assert_eq!(f32s(value), text);
        }
        let f64s = |value: f64| General { value, digits: 17 }.to_string();
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e300, "1.0000000000000001e+300"),
            (123.456, "123.456"),
        ] {
            assert_eq!(f64s(value), text);
        }
    }
}
