//! The recorded output of a program: `.run.txt` in the corpus and the fixtures.

use crate::reads::HostRead;
use std::fmt;

/// The parts of a `.run.txt` that a replay is compared with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Printed {
    /// The arrays that the program returned, in order, without scalars: no device memory contains them.
    pub arrays: Vec<Array>,
    /// Whether the program exited with status 0.
    pub succeeded: bool,
}

/// A printed array: possibly only its first elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The element type.
    pub element: Element,
    /// The number of elements in the shape.
    pub count: usize,
    /// The printed elements, as text.
    pub values: Vec<String>,
}

/// Alignment of results in a buffer that contains several.
const PACKED_ALIGNMENT_BYTES: usize = 64;

/// Element types that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// One bit, stored in a byte, printed as two hex digits.
    I1,
    /// Signed integers of 8 to 64 bits.
    Int(u8),
    /// f16.
    F16,
    /// bf16.
    Bf16,
    /// f32.
    F32,
    /// f64.
    F64,
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "i1" => Self::I1,
            "i8" => Self::Int(8),
            "i16" => Self::Int(16),
            "i32" => Self::Int(32),
            "i64" => Self::Int(64),
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Bytes per element.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::I1 => 1,
            Self::Int(bits) => usize::from(bits) / 8,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Whether `bytes` (of one element) are printed as `text`.
    fn prints_as(self, bytes: &[u8], text: &str) -> bool {
        match self {
            Self::I1 => u8::from_str_radix(text, 16) == Ok(bytes[0]),
            Self::Int(_) => text.parse() == Ok(signed(bytes)),
            Self::F16 => same_digits(half::f16::from_le_bytes([bytes[0], bytes[1]]).into(), text),
            Self::Bf16 => same_digits(half::bf16::from_le_bytes([bytes[0], bytes[1]]).into(), text),
            Self::F32 => {
                same_digits(f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])), text)
            }
            Self::F64 => bytes.try_into().is_ok_and(|bytes| same_digits(f64::from_le_bytes(bytes), text)),
        }
    }
}

fn signed(bytes: &[u8]) -> i64 {
    let mut wide = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { [0xFF; 8] } else { [0; 8] };
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}

/// Floats are printed with six significant digits: equal if both round to the same six.
fn same_digits(value: f64, text: &str) -> bool {
    let printed = match text {
        "INF" | "inf" => f64::INFINITY,
        "-INF" | "-inf" => f64::NEG_INFINITY,
        "NAN" | "nan" | "-NAN" | "-nan" => return value.is_nan(),
        number => match number.parse::<f64>() {
            Ok(number) => number,
            Err(_) => return false,
        },
    };
    value == printed || format!("{value:.5e}") == format!("{printed:.5e}")
}

impl Array {
    /// Whether `read` contains this array, as far as both are known: alone, or among results packed into one
    /// buffer, each aligned to 64 bytes.
    pub fn is_in(&self, read: &HostRead) -> bool {
        let length = self.count * self.element.size_bytes();
        if read.length == length as u64 {
            return self.starts(&read.bytes);
        }
        let starts = (0..read.bytes.len()).step_by(PACKED_ALIGNMENT_BYTES);
        let mut whole = starts.filter_map(|start| read.bytes.get(start..start + length));
        whole.any(|bytes| self.starts(bytes))
    }

    fn starts(&self, bytes: &[u8]) -> bool {
        let size = self.element.size_bytes();
        bytes.chunks_exact(size).zip(&self.values).all(|(bytes, text)| self.element.prints_as(bytes, text))
    }
}

/// Why a `.run.txt` is unusable.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a `.run.txt`.
pub fn parse(text: &str) -> Result<Printed, Unreadable> {
    let mut printed = Printed::default();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("result[") && line.ends_with(": hal.buffer_view") {
            let array = lines.next().ok_or_else(|| Unreadable(format!("nothing after {line:?}")))?;
            printed.arrays.push(parse_array(array)?);
        } else if line == "[rc=0]" || line == "[status 0]" {
            printed.succeeded = true;
        }
    }
    Ok(printed)
}

/// Parses `2x3xf32=[1 2 3][4 5 6]`; a trailing ellipsis means that elements were omitted.
fn parse_array(line: &str) -> Result<Array, Unreadable> {
    let wrong = || Unreadable(format!("not an array: {:?}", line.chars().take(60).collect::<String>()));
    let (kind, values) = line.split_once('=').ok_or_else(wrong)?;
    let mut dimensions: Vec<&str> = kind.split('x').collect();
    let element = dimensions.pop().and_then(Element::parse).ok_or_else(wrong)?;
    let mut count = 1usize;
    for dimension in dimensions {
        count = dimension.parse().ok().and_then(|n| count.checked_mul(n)).ok_or_else(wrong)?;
    }
    let visible = values.split("...").next().unwrap_or(values);
    let words = visible.split([' ', '[', ']']).filter(|word| !word.is_empty());
    let values: Vec<String> = words.map(ToOwned::to_owned).collect();
    let all = visible.len() == line.len() - kind.len() - 1;
    if values.len() > count || (all && values.len() != count) {
        return Err(Unreadable(format!("{kind} printed with {} values", values.len())));
    }
    Ok(Array { element, count, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(line: &str) -> Array {
        parse_array(line).unwrap()
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn a_run_is_read() {
        let text =
            "$ tool\nEXEC @f\nresult[0]: hal.buffer_view\n2x2xf32=[1 2][3 4]\nresult[1]: i32=1\n[rc=0]\n";
        let printed = parse(text).unwrap();
        assert!(printed.succeeded);
        assert_eq!(printed.arrays.len(), 1);
        assert!(printed.arrays[0].starts(&f32s(&[1.0, 2.0, 3.0, 4.0])));
        assert!(!parse("$ tool\n[rc=1]\n").unwrap().succeeded);
    }

    #[test]
    fn a_wrong_value_or_length_does_not_match() {
        let read = |values: &[f32]| HostRead {
            ordinal: 0,
            scope: None,
            buffer_id: 0,
            length: 4 * values.len() as u64,
            fnv1a64: String::new(),
            blake3: String::new(),
            bytes: f32s(values),
        };
        let array = array("4xf32=11 22 33 44");
        assert!(array.is_in(&read(&[11.0, 22.0, 33.0, 44.0])));
        assert!(!array.is_in(&read(&[11.0, 22.0, 33.0, 45.0])));
        assert!(!array.is_in(&read(&[11.0, 22.0, 33.0])));
        let packed = |at: usize| [vec![0.0; at], vec![11.0, 22.0, 33.0, 44.0]].concat();
        assert!(array.is_in(&read(&packed(16))));
        assert!(!array.is_in(&read(&packed(15))));
    }

    #[test]
    fn floats_are_compared_to_six_digits() {
        let array = array("2xf32=0.268728 -1.4013e-45");
        assert!(array.starts(&f32s(&[0.268_728_1, -1e-45])));
        assert!(!array.starts(&f32s(&[0.268_73, -1e-45])));
    }

    #[test]
    fn the_printed_part_of_a_long_array_is_compared() {
        let array = array("2x3xi32=[1 2 3][4...");
        assert_eq!(array.values.len(), 4);
        let bytes: Vec<u8> = [1i32, 2, 3, 4, 9, 9].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(array.starts(&bytes));
    }

    #[test]
    fn every_element_type_is_read() {
        assert!(array("2xi1=01 00").starts(&[1, 0]));
        assert!(array("2xi8=-2 127").starts(&[0xFE, 127]));
        assert!(array("i64=-4").starts(&(-4i64).to_le_bytes()));
        assert!(array("3xf16=2.25 INF 5.96046e-08").starts(&[0x80, 0x40, 0x00, 0x7C, 0x01, 0x00]));
        assert!(array("bf16=90112").starts(&[0xB0, 0x47]));
        assert!(array("2xf64=2.25 NAN").starts(&[2.25f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat()));
    }

    #[test]
    fn malformed_arrays_are_errors() {
        for line in ["", "4xf32", "4xq7=1", "axf32=1", "4xf32=1 2 3", "2xf32=1 2 3"] {
            assert!(parse_array(line).is_err(), "{line}");
        }
    }
}
