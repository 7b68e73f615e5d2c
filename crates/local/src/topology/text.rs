//! Numbers and lists of CPUs as the kernel writes them.
//!
//! Malformed text is read as the reference reads it, through C's `strtoul` with base 0: a prefix selects
//! hexadecimal or octal, a sign is accepted, and whatever follows the digits is ignored. A snapshot thus
//! gives the same topology in both, however it was edited.

use std::ops::Range;

/// Numbers with more bytes than this are refused, as in the reference.
const U32_BYTES: usize = 15;
const U64_BYTES: usize = 31;

/// An unsigned number, wrapped to 32 bits.
pub(super) fn number(text: &[u8]) -> Option<u32> {
    if text.len() > U32_BYTES { None } else { Some(strtoul(text)? as u32) }
}

/// A size in bytes, which may end in `K`.
pub(super) fn size(text: &[u8]) -> Option<u64> {
    let text = trim(text);
    let (digits, scale) = match text.strip_suffix(b"K").or_else(|| text.strip_suffix(b"k")) {
        Some(digits) => (trim(digits), 1024),
        None => (text, 1),
    };
    if digits.len() > U64_BYTES { None } else { strtoul(digits)?.checked_mul(scale) }
}

/// The ranges of a list such as `0-3,8`; `None` if a part of it is malformed.
pub(super) fn ranges(text: &[u8]) -> Option<Vec<Range<u32>>> {
    let parts = trim(text).split(|byte| *byte == b',').map(trim).filter(|part| !part.is_empty());
    parts.map(range).collect()
}

fn range(part: &[u8]) -> Option<Range<u32>> {
    let (first, last) = match part.iter().position(|byte| *byte == b'-') {
        Some(dash) => (number(&part[..dash])?, number(&part[dash + 1..])?),
        None => (number(part)?, number(part)?),
    };
    if last < first { None } else { Some(first..last.checked_add(1)?) }
}

pub(super) fn trim(text: &[u8]) -> &[u8] {
    let Some(first) = text.iter().position(|byte| !is_space(*byte)) else { return &[] };
    let last = text.iter().rposition(|byte| !is_space(*byte)).unwrap_or(first);
    &text[first..=last]
}

/// Unlike [`u8::is_ascii_whitespace`], C's `isspace` includes the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// `strtoul` with base 0; `None` without digits or if the number exceeds 64 bits.
fn strtoul(text: &[u8]) -> Option<u64> {
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let (is_negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, rest),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let mut values = digits.iter().map_while(|byte| char::from(*byte).to_digit(radix)).peekable();
    values.peek()?;
    let value =
        values.try_fold(0u64, |value, digit| value.checked_mul(radix.into())?.checked_add(digit.into()))?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtoul_reads_them() {
        let cases: [(&str, Option<u32>); 20] = [
            ("0", Some(0)),
            ("17", Some(17)),
            ("  \x0b 17", Some(17)),
            ("+5", Some(5)),
            ("-1", Some(u32::MAX)),
            ("0x1F", Some(31)),
            ("0X1f", Some(31)),
            ("0x", Some(0)),
            ("010", Some(8)),
            ("08", Some(0)),
            ("5 cores", Some(5)),
            ("4294967296", Some(0)),
            ("4294967301", Some(5)),
            ("", None),
            ("   ", None),
            ("x", None),
            ("- 1", None),
            ("--1", None),
            ("123456789012345", Some(123_456_789_012_345u64 as u32)),
            ("1234567890123456", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes_may_be_in_kibibytes_only() {
        let cases = [
            ("48K\n", Some(48 << 10)),
            ("48 k", Some(48 << 10)),
            ("48", Some(48)),
            ("2M", Some(2)),
            ("K", None),
            ("", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("18446744073709551615K", None),
            ("00000000000000000000000000000001", None),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_list_is_malformed_as_a_whole() {
        let list = |text: &str| ranges(text.as_bytes());
        assert_eq!(list("0-3,8\n"), Some(vec![0..4, 8..9]));
        assert_eq!(list(" 5 , ,7-7,"), Some(vec![5..6, 7..8]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!(list("0-3:1/2,9"), Some(vec![0..4, 9..10]));
        for text in ["3-1", "-5", "1-", "a", "0,b", "4294967295", "0-4294967295", "0,1;2,x"] {
            assert_eq!(list(text), None, "{text:?}");
        }
    }
}
