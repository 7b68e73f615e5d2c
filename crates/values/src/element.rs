//! Parsing and printing of one element that occupies whole bytes.

use std::fmt::Write;

use rehal_base::{Error, Result};

use crate::narrow_float::{f8_e8m0_fnu_from_f32, f8_e8m0_fnu_to_f32};
use crate::number::{general_upper, parse_f32, parse_f64, parse_integer};
use crate::representation::{Representation, Signs};

/// Appends the bytes of the element written as `text`.
///
/// A signless integer accepts any value that fits its bits as signed or unsigned: an `i8` may be 255 or -1. A
/// boolean is `true`, `false`, `1`, `0`, or two hexadecimal digits. A complex number is `1+2i`, or its bytes
/// in hexadecimal as printed. Extends the reference: words for booleans, and complex numbers other than
/// bytes.
pub(crate) fn parse(kind: Representation, text: &str, bytes: &mut Vec<u8>) -> Result<()> {
    match kind {
        Representation::Integer { bits, signs } => {
            let value = parse_bits(text, bits, signs)?;
            bytes.extend_from_slice(&value.to_le_bytes()[..bits as usize / 8]);
        }
        Representation::Boolean => bytes.push(parse_boolean(text)?),
        Representation::Narrow { format, bytes: size } => {
            let code = format.code_of(parse_f32(text)?);
            bytes.extend_from_slice(&code.to_le_bytes()[..size]);
        }
        Representation::PowerOfTwo => bytes.push(f8_e8m0_fnu_from_f32(parse_f32(text)?)),
        Representation::F32 => bytes.extend_from_slice(&parse_f32(text)?.to_le_bytes()),
        Representation::F64 => bytes.extend_from_slice(&parse_f64(text)?.to_le_bytes()),
        Representation::Complex { bytes: size } => match hexadecimal(text, size) {
            Some(raw) => bytes.extend_from_slice(&raw),
            None => parse_complex(text, size, bytes)?,
        },
        Representation::Raw { bytes: size } => {
            let raw = hexadecimal(text, size).ok_or_else(|| {
                let digits = 2 * size;
                Error::invalid_argument(format!(
                    "invalid element '{text}': expected {digits} hexadecimal digits"
                ))
            })?;
            bytes.extend_from_slice(&raw);
        }
        Representation::PackedInteger { .. } | Representation::PackedRaw { .. } => {
            unreachable!("packed elements are parsed in packed.rs")
        }
    }
    Ok(())
}

/// Appends the text of the element in `bytes`, which has the element's size.
pub(crate) fn format(kind: Representation, bytes: &[u8], text: &mut String) {
    let word = |bytes: &[u8]| {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    };
    match kind {
        Representation::Integer { bits, signs } => format_bits(word(bytes), bits, signs, text),
        Representation::Narrow { format, .. } => {
            text.push_str(&general_upper(format.to_f32(word(bytes) as u32).into()))
        }
        Representation::PowerOfTwo => text.push_str(&general_upper(f8_e8m0_fnu_to_f32(bytes[0]).into())),
        Representation::F32 => text.push_str(&general_upper(f32::from_bits(word(bytes) as u32).into())),
        Representation::F64 => text.push_str(&general_upper(f64::from_bits(word(bytes)))),
        Representation::Boolean | Representation::Complex { .. } | Representation::Raw { .. } => {
            for byte in bytes {
                let _ = write!(text, "{byte:02X}");
            }
        }
        Representation::PackedInteger { .. } | Representation::PackedRaw { .. } => {
            unreachable!("packed elements are printed in packed.rs")
        }
    }
}

/// An integer as two's complement in the low `bits`.
pub(crate) fn parse_bits(text: &str, bits: u32, signs: Signs) -> Result<u64> {
    let value = parse_integer(text)?;
    let (all, half) = (1i128 << bits, 1i128 << (bits - 1));
    let fits = match signs {
        Signs::Signless => -half <= value && value < all,
        Signs::Signed => -half <= value && value < half,
        // C accepts a minus here and means two's complement; the reference does so for the two large types.
        Signs::Unsigned => (if bits >= 32 { -half } else { 0 }) <= value && value < all,
    };
    match fits {
        true => Ok(value as u64 & (u64::MAX >> (64 - bits))),
        false => Err(Error::out_of_range(format!("'{text}' does not fit in {bits} bits"))),
    }
}

/// Appends the integer in the low `bits` of `value`.
pub(crate) fn format_bits(value: u64, bits: u32, signs: Signs, text: &mut String) {
    let unused = 64 - bits;
    let _ = match signs {
        Signs::Unsigned => write!(text, "{value}"),
        Signs::Signless | Signs::Signed => write!(text, "{}", ((value << unused) as i64) >> unused),
    };
}

fn parse_boolean(text: &str) -> Result<u8> {
    match text {
        "0" | "false" => Ok(0),
        "1" | "true" => Ok(1),
        _ => hexadecimal(text, 1).map(|bytes| bytes[0]).ok_or_else(|| {
            Error::invalid_argument(format!(
                "invalid boolean '{text}' (expected true, false, 1, 0, 01 or 00)"
            ))
        }),
    }
}

/// `size` bytes in hexadecimal, in memory order.
pub(crate) fn hexadecimal(text: &str, size: usize) -> Option<Vec<u8>> {
    if text.len() == 2 * size { hex::decode(text).ok() } else { None }
}

/// `1.5-2i`, `3`, `-4i`.
fn parse_complex(text: &str, size: usize, bytes: &mut Vec<u8>) -> Result<()> {
    let (real, imaginary) = match text.strip_suffix(['i', 'j']) {
        None => (text, "0"),
        Some(pair) => {
            // The sign between the two parts, not the sign of an exponent.
            let mut signs = pair.bytes().enumerate().skip(1).filter(|(at, byte)| {
                matches!(byte, b'+' | b'-') && !matches!(pair.as_bytes()[at - 1], b'e' | b'E' | b'p' | b'P')
            });
            match signs.next_back() {
                Some((at, _)) => pair.split_at(at),
                None => ("0", pair),
            }
        }
    };
    for part in [real, imaginary] {
        match size {
            8 => bytes.extend_from_slice(&parse_f32(part)?.to_le_bytes()),
            _ => bytes.extend_from_slice(&parse_f64(part)?.to_le_bytes()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rehal_base::ElementType;

    use super::*;

    fn bytes(element_type: &str, text: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let kind = Representation::for_type(element_type.parse::<ElementType>().unwrap());
        parse(kind, text, &mut bytes).map(|()| bytes)
    }

    fn printed(element_type: &str, text: &str) -> String {
        let mut printed = String::new();
        let kind = Representation::for_type(element_type.parse::<ElementType>().unwrap());
        format(kind, &bytes(element_type, text).unwrap(), &mut printed);
        printed
    }

    #[test]
    fn elements_of_every_type() {
        for (element_type, text, expected) in [
            ("i8", "-128", "-128"),
            ("i8", "255", "-1"),
            ("si8", "127", "127"),
            ("ui8", "0xff", "255"),
            ("i16", "65535", "-1"),
            ("ui16", "65535", "65535"),
            ("i32", "4294967295", "-1"),
            ("ui32", "-1", "4294967295"),
            ("i64", "-9223372036854775808", "-9223372036854775808"),
            ("ui64", "18446744073709551615", "18446744073709551615"),
            ("i1", "true", "01"),
            ("i1", "0", "00"),
            ("i1", "01", "01"),
            ("f16", "1.0009", "1.00098"),
            ("f16", "1e9", "INF"),
            ("bf16", "300", "300"),
            ("f8E4M3FN", "449", "448"),
            ("f8E4M3FN", "1e9", "NAN"),
            ("f8E5M2", "-inf", "-INF"),
            ("f8E5M2FNUZ", "0.3", "0.3125"),
            ("f8E4M3FNUZ", "-240", "-240"),
            ("f8E8M0FNU", "1", "1"),
            ("f8E8M0FNU", "0", "5.87747E-39"),
            ("f32", "3.14159274", "3.14159"),
            ("f64", "-1e300", "-1E+300"),
            ("cf64", "1-2i", "0000803F000000C0"),
            ("cf64", "0000803F000000C0", "0000803F000000C0"),
            ("cf128", "-1e-1j", "00000000000000009A9999999999B9BF"),
            ("cf64", "1e-1+1e+1i", "CDCCCC3D00002041"),
            ("cf64", "2", "0000004000000000"),
            ("*16", "beEF", "BEEF"),
            ("i128", "000102030405060708090a0b0c0d0e0f", "000102030405060708090A0B0C0D0E0F"),
            ("i24", "010203", "010203"),
        ] {
            assert_eq!(printed(element_type, text), expected, "{element_type} {text}");
        }
    }

    #[test]
    fn out_of_range_elements_are_rejected() {
        for (element_type, text) in [
            ("i8", "256"),
            ("i8", "-129"),
            ("si8", "128"),
            ("ui8", "-1"),
            ("ui16", "65536"),
            ("i32", "4294967296"),
            ("si32", "2147483648"),
            ("si64", "9223372036854775808"),
            ("i1", "2"),
            ("i1", "yes"),
            ("i1", "0x1"),
            ("f32", "true"),
            ("cf64", "1+i2"),
            ("cf64", "i"),
            ("*8", "f"),
            ("*8", "0xf"),
            ("*8", "+f"),
        ] {
            assert!(bytes(element_type, text).is_err(), "{element_type} {text}");
        }
    }
}
