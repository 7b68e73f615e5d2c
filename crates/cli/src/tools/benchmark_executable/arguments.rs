//! The values of flags for the arguments of a dispatch.

use std::ffi::OsStr;

use rehal_devices::ValueText;
use rehal_kernels::EntryPoint;

use crate::flags::{Refusal, text};

/// The expected form of a number, for errors.
pub(super) const NUMBER: &str = "a 32-bit number, such as 7, -1 or 0x1F";

/// A number of 32 bits, signed or not. As in C, `0x` is hexadecimal and a leading 0 octal.
pub(super) fn number(value: &OsStr) -> Result<u32, Refusal> {
    parse(&text(value)?).ok_or(Refusal::Unexpected)
}

/// `X,Y,Z`.
pub(super) fn workgroup_count(value: &OsStr) -> Result<[u32; 3], Refusal> {
    let text = text(value)?;
    let numbers: Option<Vec<u32>> = text.split(',').map(parse).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or(Refusal::Unexpected)
}

/// An ordinal, or a name.
pub(super) fn entry_point(value: &OsStr) -> Result<EntryPoint, Refusal> {
    let text = text(value)?;
    let text = text.trim();
    if text.is_empty() {
        return Err(Refusal::Unexpected);
    }
    if !text.starts_with(|it: char| it.is_ascii_digit() || "+-".contains(it)) {
        return Ok(EntryPoint::Name(text.into()));
    }
    // Negative ordinals and those with trailing text are mistakes, not names.
    let ordinal = parse(text).filter(|_| !text.starts_with('-'));
    ordinal.map(EntryPoint::Ordinal).ok_or(Refusal::Unexpected)
}

/// A tensor, or arrays of a file.
pub(super) fn binding(value: &OsStr) -> Result<ValueText, Refusal> {
    Ok(ValueText::new(value)?)
}

fn parse(text: &str) -> Option<u32> {
    let text = text.trim();
    let (digits, is_negative) = match text.as_bytes() {
        [b'-', ..] => (&text[1..], true),
        [b'+', ..] => (&text[1..], false),
        _ => (text, false),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (&*lower, 10),
    };
    // Of the standard library's parser, which accepts a sign.
    if !digits.starts_with(|it: char| it.is_ascii_hexdigit()) {
        return None;
    }
    let number = u32::from_str_radix(digits, radix).ok()?;
    match is_negative {
        false => Some(number),
        true => (number <= i32::MIN.unsigned_abs()).then(|| number.wrapping_neg()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(texts: &[&str]) -> Vec<Option<u32>> {
        texts.iter().map(|text| number(OsStr::new(text)).ok()).collect()
    }

    #[test]
    fn numbers_are_those_of_c() {
        assert_eq!(
            numbers(&["7", " 7 ", "+7", "0", "0x1F", "0XfF", "017", "-1", "-2147483648", "4294967295"]),
            [7, 7, 7, 0, 31, 255, 15, u32::MAX, 1 << 31, u32::MAX].map(Some)
        );
        let wrong = ["", "-", "x", "1x", "1.5", "08", "0x", "4294967296", "-2147483649", "--1", "+-1", "1,2"];
        assert_eq!(numbers(&wrong), [None; 12]);
    }

    #[test]
    fn workgroup_counts_have_three_numbers() {
        let count = |text: &str| workgroup_count(OsStr::new(text)).ok();
        assert_eq!((count("1,2,3"), count("0x10, 2 ,0")), (Some([1, 2, 3]), Some([16, 2, 0])));
        assert_eq!(["", "1", "1,2", "1,2,3,4", "1,,2", "1;2;3"].map(count), [None; 6]);
    }

    #[test]
    fn entry_points_are_ordinals_or_names() {
        let entry = |text: &str| entry_point(OsStr::new(text)).ok();
        assert_eq!((entry("3"), entry("0x3")), (Some(EntryPoint::Ordinal(3)), Some(EntryPoint::Ordinal(3))));
        assert_eq!(entry("mul$2"), Some(EntryPoint::Name("mul$2".into())));
        assert_eq!(["", "-1", "1x"].map(entry), [None, None, None]);
    }
}
