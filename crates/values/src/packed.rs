//! Elements that do not occupy whole bytes: contiguous bits, the first element in the low bits.

use std::fmt::Write;

use rehal_base::{Error, Result};

use crate::Contents;
use crate::element::{format_bits, hexadecimal, parse_bits};
use crate::representation::Representation;

/// Parses all elements of a packed type: one token per element, or one token for all.
///
/// Also accepts bytes in hexadecimal, one token per byte of the packed tensor: the only syntax of the
/// reference. If both apply, as for `2xi4=10`, the text is bytes.
pub(crate) fn parse(
    kind: Representation,
    tokens: &[&str],
    element_count: u64,
    size_bytes: u64,
) -> Result<Contents> {
    let count = tokens.len() as u64;
    let raw = if count == size_bytes || count == 1 {
        tokens.iter().map(|token| hexadecimal(token, 1).map(|byte| byte[0])).collect::<Option<Vec<u8>>>()
    } else {
        None
    };
    if let Some(raw) = raw {
        return Ok(if count == size_bytes { Contents::Bytes(raw) } else { Contents::Splat(raw) });
    }
    let bits = bits(kind);
    let values = tokens.iter().map(|token| parse_element(kind, token)).collect::<Result<Vec<u64>>>()?;
    match &values[..] {
        [value] if element_count > 1 => Ok(Contents::Splat(pack(&[*value; 8], bits))),
        values if count == element_count => Ok(Contents::Bytes(pack(values, bits))),
        _ => Err(Error::out_of_range(format!("expected {element_count} elements, found {count}"))),
    }
}

/// Appends element `index` of `bytes`, which must be in bounds.
pub(crate) fn format(kind: Representation, bytes: &[u8], index: u64, text: &mut String) {
    let bits = bits(kind);
    let first = index * u64::from(bits);
    let mut value = 0u64;
    // Elements wider than 64 bits print their low bits; no such packed type exists.
    for bit in 0..bits.min(64) {
        let at = first + u64::from(bit);
        let byte = bytes[(at / 8) as usize];
        value |= u64::from(byte >> (at % 8) & 1) << bit;
    }
    match kind {
        Representation::PackedInteger { signs, .. } => format_bits(value, bits, signs, text),
        _ => {
            let _ = write!(text, "{value:0digits$X}", digits = bits.div_ceil(4) as usize);
        }
    }
}

fn parse_element(kind: Representation, token: &str) -> Result<u64> {
    match kind {
        Representation::PackedInteger { bits, signs } => parse_bits(token, bits, signs),
        Representation::PackedRaw { bits } if bits < 64 => {
            let digits = bits.div_ceil(4) as usize;
            let value = match token.len() == digits && token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                true => u64::from_str_radix(token, 16).ok(),
                false => None,
            };
            value.filter(|value| value >> bits == 0).ok_or_else(|| {
                Error::invalid_argument(format!(
                    "invalid element '{token}': expected {bits} bits in {digits} hexadecimal digits"
                ))
            })
        }
        _ => Err(Error::unimplemented("packed elements wider than 64 bits are not supported")),
    }
}

fn bits(kind: Representation) -> u32 {
    match kind {
        Representation::PackedInteger { bits, .. } | Representation::PackedRaw { bits } => bits,
        _ => unreachable!("only packed kinds are passed"),
    }
}

fn pack(values: &[u64], bits: u32) -> Vec<u8> {
    let mut bytes = vec![0u8; (values.len() * bits as usize).div_ceil(8)];
    for (index, value) in values.iter().enumerate() {
        for bit in 0..bits as usize {
            let at = index * bits as usize + bit;
            bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
        }
    }
    bytes
}

/// Whether elements of this kind are packed.
pub(crate) fn is_packed(kind: Representation) -> bool {
    matches!(kind, Representation::PackedInteger { .. } | Representation::PackedRaw { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::representation::Signs;

    const I4: Representation = Representation::PackedInteger { bits: 4, signs: Signs::Signless };

    fn bytes(kind: Representation, text: &str, element_count: u64) -> Result<Vec<u8>> {
        let size_bytes = (element_count * u64::from(bits(kind))).div_ceil(8);
        let tokens: Vec<_> = text.split(' ').collect();
        let mut bytes = vec![0; size_bytes as usize];
        parse(kind, &tokens, element_count, size_bytes)?.fill(&mut bytes);
        Ok(bytes)
    }

    #[test]
    fn numbers_are_packed_from_the_low_bits() {
        assert_eq!(bytes(I4, "1 2 -1 7", 4).unwrap(), [0x21, 0x7f]);
        assert_eq!(bytes(I4, "1 2 3", 3).unwrap(), [0x21, 0x03]);
        assert_eq!(bytes(I4, "-8", 4).unwrap(), [0x88, 0x88]);
        let i3 = Representation::PackedInteger { bits: 3, signs: Signs::Unsigned };
        assert_eq!(bytes(i3, "1 2 3 4", 4).unwrap(), [0b1101_0001, 0b1000]);
        assert_eq!(bytes(i3, "5", 9).unwrap(), [0b0110_1101, 0b1101_1011, 0b1011_0110, 0b0110_1101]);
        let i12 = Representation::PackedInteger { bits: 12, signs: Signs::Signed };
        assert_eq!(bytes(i12, "-1 2", 2).unwrap(), [0xff, 0x2f, 0x00]);
    }

    #[test]
    fn hexadecimal_bytes_are_accepted() {
        assert_eq!(bytes(I4, "21 7f", 4).unwrap(), [0x21, 0x7f]);
        assert_eq!(bytes(I4, "21", 8).unwrap(), [0x21; 4]);
        let f6 = Representation::PackedRaw { bits: 6 };
        assert_eq!(bytes(f6, "3F 00 01 20", 4).unwrap(), [0x3f, 0x10, 0x80]);
    }

    #[test]
    fn malformed_packed_elements_are_rejected() {
        for (text, count) in [("1 2 3", 4), ("1 2 3 4 5", 4), ("16 1", 2), ("x", 2), ("1 x", 2)] {
            assert!(bytes(I4, text, count).is_err(), "{text}");
        }
        assert!(bytes(Representation::PackedRaw { bits: 6 }, "7F 00 00 00 00", 5).is_err());
        assert!(bytes(Representation::PackedRaw { bits: 100 }, "0 0 0", 3).is_err());
    }

    #[test]
    fn packed_elements_round_trip() {
        let packed = bytes(I4, "1 -2 7 -8 0", 5).unwrap();
        let texts: Vec<String> = (0..5)
            .map(|index| {
                let mut text = String::new();
                format(I4, &packed, index, &mut text);
                text
            })
            .collect();
        assert_eq!(texts, ["1", "-2", "7", "-8", "0"]);
    }
}
