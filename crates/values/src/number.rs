//! Numbers as C parses (<https://en.cppreference.com/w/c/string/byte/strtol>) and prints them
//! (<https://en.cppreference.com/w/c/io/fprintf>): the syntax of `--input` and of printed results.

use rehal_base::printf::General;
use rehal_base::{Error, Result};

/// An integer as C's `strtol` with base 0 accepts it: a sign, then decimal, `0x` hexadecimal, or octal after
/// a `0`. Unlike `strtol`, the whole text must be the number, and overflow is an error.
pub(crate) fn parse_integer(text: &str) -> Result<i128> {
    let (negative, digits) = split_sign(text);
    let lower = digits.as_bytes();
    let (radix, digits) = match lower {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // `from_str_radix` would accept a second sign.
    let magnitude = match digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => u64::from_str_radix(digits, radix).map_err(|error| *error.kind()),
        false => Err(std::num::IntErrorKind::InvalidDigit),
    };
    match magnitude {
        Ok(magnitude) if negative => Ok(-i128::from(magnitude)),
        Ok(magnitude) => Ok(i128::from(magnitude)),
        Err(std::num::IntErrorKind::PosOverflow) => {
            Err(Error::out_of_range(format!("'{text}' does not fit in 64 bits")))
        }
        Err(_) => Err(Error::invalid_argument(format!("'{text}' is not an integer"))),
    }
}

/// A number as C's `strtof` accepts it, including infinity, `nan` and hexadecimal. Overflow gives infinity;
/// underflow to 0 is an error, as in the reference.
pub(crate) fn parse_f32(text: &str) -> Result<f32> {
    let value = match parse_hexadecimal(text, 24, -149) {
        Some(value) => value.map(|value| value as f32),
        None => text.parse().ok(),
    };
    checked(value, text, |value| value == 0.0)
}

/// Like [`parse_f32`], for 64 bits.
pub(crate) fn parse_f64(text: &str) -> Result<f64> {
    let value = match parse_hexadecimal(text, 53, -1074) {
        Some(value) => value,
        None => text.parse().ok(),
    };
    checked(value, text, |value| value == 0.0)
}

fn checked<T: Copy>(value: Option<T>, text: &str, is_zero: impl Fn(T) -> bool) -> Result<T> {
    match value {
        Some(value) if is_zero(value) && has_nonzero_digit(text) => {
            Err(Error::out_of_range(format!("'{text}' is too small: it underflows to 0")))
        }
        Some(value) => Ok(value),
        None => Err(Error::invalid_argument(format!("'{text}' is not a number"))),
    }
}

/// Whether any digit before the exponent is nonzero.
fn has_nonzero_digit(text: &str) -> bool {
    let (_, digits) = split_sign(text);
    let hexadecimal = has_hexadecimal_prefix(digits);
    let exponent = if hexadecimal { ['p', 'P'] } else { ['e', 'E'] };
    let digits = digits.split(exponent).next().unwrap_or_default();
    digits.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0')
}

fn has_hexadecimal_prefix(text: &str) -> bool {
    text.starts_with("0x") || text.starts_with("0X")
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    }
}

/// `0x1.8p3`: `None` without the prefix, `Some(None)` if a malformed number follows it.
///
/// The value is rounded to `precision` bits, none below `2^min_exponent`, so that it is exact both in the
/// format with these limits and in `f64`; overflow of `f64` gives infinity.
fn parse_hexadecimal(text: &str, precision: i32, min_exponent: i32) -> Option<Option<f64>> {
    let (negative, digits) = split_sign(text);
    if !has_hexadecimal_prefix(digits) {
        return None;
    }
    let magnitude = parse_hexadecimal_digits(&digits[2..], precision, min_exponent);
    Some(magnitude.map(|value| if negative { -value } else { value }))
}

fn parse_hexadecimal_digits(text: &str, precision: i32, min_exponent: i32) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The leading 64 bits or more, and everything below them as one sticky bit.
    let (mut mantissa, mut exponent) = (0u128, exponent);
    for (index, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u128::from(digit.to_digit(16)?);
        if mantissa >> 100 == 0 {
            mantissa = mantissa << 4 | digit;
            exponent -= if index >= whole.len() { 4 } else { 0 };
        } else {
            mantissa |= u128::from(digit != 0);
            exponent += if index < whole.len() { 4 } else { 0 };
        }
    }
    if mantissa == 0 {
        return Some(0.0);
    }
    let top = 128 - mantissa.leading_zeros() as i32;
    let drop = (top - precision).max((i64::from(min_exponent) - exponent).min(200) as i32);
    let rounded = match drop {
        ..=0 => mantissa,
        1..=127 => round_to_even(mantissa, drop as u32),
        _ => 0,
    };
    let exponent = if drop > 0 { exponent + i64::from(drop) } else { exponent };
    // At most 53 bits are left, so these products are exact or infinite.
    let exponent = exponent.clamp(-2000, 2000) as i32;
    let halves = (exponent / 2, exponent - exponent / 2);
    Some(rounded as f64 * 2f64.powi(halves.0) * 2f64.powi(halves.1))
}

fn round_to_even(mantissa: u128, drop: u32) -> u128 {
    let kept = mantissa >> drop;
    let rest = mantissa & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    kept + u128::from(rest > half || rest == half && kept & 1 == 1)
}

/// An exponent of any length, saturated far beyond the range of any format.
fn parse_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40);
    Some(if negative { -magnitude } else { magnitude })
}

/// A number with at most six digits, as C's `%G` prints it: `1`, `0.1`, `1E-05`, `-INF`, `NAN`.
pub(crate) fn general_upper(value: f64) -> String {
    general_lower(value).to_uppercase()
}

/// Like [`general_upper`], as `%g` prints it: `1e-05`, `inf`.
pub fn general_lower(value: f64) -> String {
    General { value, digits: 6 }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_parsed_strictly() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("+7", 7),
            ("-128", -128),
            ("0x1F", 31),
            ("-0Xff", -255),
            ("010", 8),
            ("18446744073709551615", i128::from(u64::MAX)),
            ("-9223372036854775808", i128::from(i64::MIN)),
        ] {
            assert_eq!(parse_integer(text).unwrap(), value, "{text}");
        }
        for text in ["", "-", "+", "0x", "1.5", "1x", "--1", "+-1", "0x-1", "08", "1_0", "ten", "١"] {
            assert!(parse_integer(text).unwrap_err().message().contains("not an integer"), "{text}");
        }
        assert!(parse_integer("18446744073709551616").unwrap_err().message().contains("64 bits"));
    }

    #[test]
    fn floats_are_parsed_like_strtof() {
        for (text, value) in [
            ("1", 1.0),
            ("-.5", -0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("+2.5E-1", 0.25),
            ("inf", f32::INFINITY),
            ("-Infinity", f32::NEG_INFINITY),
            ("1e40", f32::INFINITY),
            ("0e-400", 0.0),
            ("0x1.8p3", 12.0),
            ("-0x.8", -0.5),
            ("0x1p-149", f32::from_bits(1)),
            ("0x1.000001p0", 1.0),
            ("0x1.000003p0", 1.0 + 2.0 * f32::EPSILON),
            ("0x1.0000010000000000000000000000000000001p0", 1.0 + f32::EPSILON),
            ("0x10000000000000000000000000000000000000000p-160", 1.0),
        ] {
            assert_eq!(parse_f32(text).unwrap(), value, "{text}");
        }
        assert!(parse_f32("NaN").unwrap().is_nan());
        for text in ["", ".", "e5", "0x", "0x.p1", "0x1p", "0xg", "1.5x", "1,5", "true", "1 2"] {
            assert!(parse_f32(text).is_err(), "{text}");
            assert!(parse_f64(text).is_err(), "{text}");
        }
        for text in ["1e-50", "0x1p-200", "0x1p-99999999999999999999"] {
            assert!(parse_f32(text).unwrap_err().message().contains("too small"), "{text}");
        }
        assert_eq!(parse_f64("0x1.fffffffffffffp1023").unwrap(), f64::MAX);
        assert_eq!(parse_f64("0x1p-1074").unwrap(), f64::from_bits(1));
        assert_eq!(parse_f64("0x1p99999999999999999999").unwrap(), f64::INFINITY);
    }
}
