use crate::narrow_float::{BF16, F16};
use crate::representation::Representation;
use crate::{TensorType, element, packed};

/// When two tensors count as equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Equality {
    /// Equal byte for byte.
    Exact,
    /// Like NumPy's `isclose`: floats may differ by `atol + rtol * |expected|`, with an `atol` per type; NaNs
    /// are equal. All other types are compared byte for byte.
    Approximate {
        /// Absolute tolerance of `f16`.
        f16: f64,
        /// Absolute tolerance of `f32`.
        f32: f64,
        /// Absolute tolerance of `f64`.
        f64: f64,
        /// Absolute tolerance of `bf16`.
        bf16: f64,
        /// Relative tolerance of all types.
        relative: f64,
    },
}

impl Default for Equality {
    /// The default tolerances of the reference's tools.
    fn default() -> Self {
        Self::Approximate {
            f16: f64::from(0.001_f32),
            f32: f64::from(0.0001_f32),
            f64: 0.0001,
            bf16: f64::from(0.01_f32),
            relative: 1e-5,
        }
    }
}

/// The float at an index.
type Load = fn(&[u8], usize) -> f64;

impl Equality {
    /// Why the tensors differ, in the reference's words; `None` if they are equal. The slices are at least as
    /// long as the types require.
    pub fn mismatch(&self, expected: (&TensorType, &[u8]), actual: (&TensorType, &[u8])) -> Option<String> {
        let ((expected_type, expected), (actual_type, actual)) = (expected, actual);
        if expected_type != actual_type {
            return Some(format!(
                "metadata is {actual_type}; expected that the view matches {expected_type}; \
                 expected that the view is equal to contents of a view of {expected_type}"
            ));
        }
        let index = self.first_difference(expected_type, expected, actual)?;
        let kind = Representation::for_type(expected_type.element_type);
        let (expected, actual) =
            (format_at(kind, expected_type, expected, index), format_at(kind, expected_type, actual, index));
        Some(format!(
            "element at index {index} ({actual}) does not match the expected ({expected}); \
             expected that the view is equal to contents of a view of {expected_type}"
        ))
    }

    /// The first element that differs; a missing byte differs from every value.
    fn first_difference(&self, tensor_type: &TensorType, expected: &[u8], actual: &[u8]) -> Option<u64> {
        let size = tensor_type.size_bytes().ok().and_then(|size| usize::try_from(size).ok());
        let bytes = size.and_then(|size| Some((expected.get(..size)?, actual.get(..size)?)));
        let Some((expected, actual)) = bytes else { return Some(0) };
        if expected == actual {
            return None;
        }
        let kind = Representation::for_type(tensor_type.element_type);
        if let Some((bytes, load, absolute, relative)) = self.tolerance(kind) {
            let count = expected.len() / bytes;
            let differs =
                |index: &usize| !is_close(load(actual, *index), load(expected, *index), absolute, relative);
            return (0..count).find(differs).map(|index| index as u64);
        }
        let byte = expected.iter().zip(actual).position(|(expected, actual)| expected != actual)?;
        let bits = u64::from(tensor_type.element_type.bits());
        if !packed::is_packed(kind) {
            return Some(byte as u64 * 8 / bits);
        }
        let bit = (expected[byte] ^ actual[byte]).trailing_zeros();
        // Bits after the last element are ignored.
        let index = (byte as u64 * 8 + u64::from(bit)) / bits;
        Some(index).filter(|index| tensor_type.element_count().is_ok_and(|count| *index < count))
    }

    /// For floats with a tolerance: bytes per element, a loader, and the tolerances.
    fn tolerance(&self, kind: Representation) -> Option<(usize, Load, f64, f64)> {
        let Self::Approximate { f16, f32, f64, bf16, relative } = *self else { return None };
        match kind {
            Representation::Narrow { format, .. } if format == F16 => {
                Some((2, |bytes, at| F16.to_f32(word(bytes, at)).into(), f16, relative))
            }
            Representation::Narrow { format, .. } if format == BF16 => {
                Some((2, |bytes, at| BF16.to_f32(word(bytes, at)).into(), bf16, relative))
            }
            Representation::F32 => {
                Some((4, |bytes, at| f32::from_le_bytes(part(bytes, at)).into(), f32, relative))
            }
            Representation::F64 => Some((8, |bytes, at| f64::from_le_bytes(part(bytes, at)), f64, relative)),
            _ => None,
        }
    }
}

/// NumPy's `isclose`: equal, both NaN, or a difference of at most `absolute + relative * |expected|` with a
/// finite `expected`.
pub fn is_close(actual: f64, expected: f64, absolute: f64, relative: f64) -> bool {
    actual == expected
        || actual.is_nan() && expected.is_nan()
        || expected.is_finite() && (actual - expected).abs() <= absolute + relative * expected.abs()
}

fn part<const N: usize>(bytes: &[u8], index: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[index * N..][..N]);
    part
}

fn word(bytes: &[u8], index: usize) -> u32 {
    u16::from_le_bytes(part(bytes, index)).into()
}

fn format_at(kind: Representation, tensor_type: &TensorType, bytes: &[u8], index: u64) -> String {
    let mut text = String::new();
    match tensor_type.element_type.whole_bytes() {
        Some(size) => {
            let at = (index * size) as usize;
            match bytes.get(at..at + size as usize) {
                Some(bytes) => element::format(kind, bytes, &mut text),
                None => text.push_str("missing"),
            }
        }
        None => packed::format(kind, bytes, index, &mut text),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_tensor;

    fn mismatch(equality: Equality, expected: &str, actual: &str) -> Option<String> {
        let tensor = |text| {
            let (tensor_type, contents) = parse_tensor(text).unwrap();
            let mut bytes = vec![0; tensor_type.size_bytes().unwrap() as usize];
            contents.fill(&mut bytes);
            (tensor_type, bytes)
        };
        let (expected, actual) = (tensor(expected), tensor(actual));
        equality.mismatch((&expected.0, &expected.1), (&actual.0, &actual.1))
    }

    #[test]
    fn close_is_equal() {
        for (expected, actual) in [
            ("2xf32=1 100", "2xf32=1.00005 100.001"),
            ("f32=nan", "f32=-nan"),
            ("f32=inf", "f32=inf"),
            ("f64=-0", "f64=0"),
            ("f16=1", "f16=1.0009"),
            ("bf16=1", "bf16=1.0078"),
            ("3xi4=1 2 3", "3xi4=1 2 3"),
            ("0xf32=", "0xf32="),
        ] {
            assert_eq!(mismatch(Equality::default(), expected, actual), None, "{expected} {actual}");
        }
    }

    #[test]
    fn what_differs_is_named() {
        for (expected, actual, words) in [
            (
                "8xf32=3",
                "4xf32=3",
                "metadata is 4xf32; expected that the view matches 8xf32; expected that the view is equal to contents of a view of 8xf32",
            ),
            (
                "2xf32=3 4",
                "2xf32=3 3",
                "element at index 1 (3) does not match the expected (4); expected that the view is equal to contents of a view of 2xf32",
            ),
            ("f32=inf", "f32=1", "element at index 0 (1) does not match the expected (INF)"),
            ("f32=nan", "f32=1", "element at index 0 (1) does not match the expected (NAN)"),
            ("f32=1", "f32=nan", "element at index 0 (NAN) does not match the expected (1)"),
            ("2xi8=1 2", "2xi8=1 3", "element at index 1 (3) does not match the expected (2)"),
            ("2xi1=1 1", "2xi1=1 0", "element at index 1 (00) does not match the expected (01)"),
            ("4xi4=1 2 3 4", "4xi4=1 2 -3 4", "element at index 2 (-3) does not match the expected (3)"),
        ] {
            let found = mismatch(Equality::default(), expected, actual).unwrap();
            assert!(found.starts_with(words), "{found}");
        }
        let exact = mismatch(Equality::Exact, "f32=1", "f32=1.0000001").unwrap();
        assert!(exact.starts_with("element at index 0 (1) does not match the expected (1)"), "{exact}");
        assert!(mismatch(Equality::Exact, "f32=nan", "f32=nan").is_none());
    }
}
