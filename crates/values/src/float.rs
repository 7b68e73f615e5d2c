use rehal_base::ElementType;

use crate::narrow_float::{f8_e8m0_fnu_from_f32, f8_e8m0_fnu_to_f32};
use crate::representation::Representation;

/// Reads and writes floating-point elements as `f64`, which represents every value of every supported type
/// exactly.
#[derive(Clone, Copy, Debug)]
pub struct Floats(Representation);

impl Floats {
    /// For a type with one real number per element; `None` for others.
    pub fn for_type(element_type: ElementType) -> Option<Self> {
        match Representation::for_type(element_type) {
            kind @ (Representation::Narrow { .. }
            | Representation::PowerOfTwo
            | Representation::F32
            | Representation::F64) => Some(Self(kind)),
            _ => None,
        }
    }

    /// The number at `index` of dense `bytes`; `None` if out of bounds.
    pub fn at(self, bytes: &[u8], index: usize) -> Option<f64> {
        fn part<const N: usize>(bytes: &[u8], index: usize) -> Option<[u8; N]> {
            bytes.get(index.checked_mul(N)?..)?.first_chunk().copied()
        }
        Some(match self.0 {
            Representation::Narrow { format, bytes: 2 } => {
                format.to_f32(u16::from_le_bytes(part(bytes, index)?).into()).into()
            }
            Representation::Narrow { format, .. } => format.to_f32((*bytes.get(index)?).into()).into(),
            Representation::PowerOfTwo => f8_e8m0_fnu_to_f32(*bytes.get(index)?).into(),
            Representation::F32 => f32::from_le_bytes(part(bytes, index)?).into(),
            _ => f64::from_le_bytes(part(bytes, index)?),
        })
    }

    /// Writes the element nearest to `value` to `target`, which has the size of an element. Does not decrease
    /// if `value` increases.
    pub fn put(self, value: f64, target: &mut [u8]) {
        let narrow = value as f32;
        match self.0 {
            Representation::Narrow { format, bytes } => {
                target.copy_from_slice(&format.code_of(narrow).to_le_bytes()[..bytes]);
            }
            Representation::PowerOfTwo => target.copy_from_slice(&[f8_e8m0_fnu_from_f32(narrow)]),
            Representation::F32 => target.copy_from_slice(&narrow.to_le_bytes()),
            _ => target.copy_from_slice(&value.to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_tensor;

    #[test]
    fn every_float_is_read_and_written() {
        for (text, expected) in [
            ("2xf16=1.5 -0.25", [1.5, -0.25]),
            ("2xbf16=1.5 -0.25", [1.5, -0.25]),
            ("2xf32=1.5 1e-40", [1.5, f64::from(1e-40_f32)]),
            ("2xf64=1.5 1e-300", [1.5, 1e-300]),
            ("2xf8E5M2=1.5 -0.25", [1.5, -0.25]),
            ("2xf8E4M3FN=1.5 -0.25", [1.5, -0.25]),
            ("2xf8E4M3FNUZ=1.5 -0.25", [1.5, -0.25]),
            ("2xf8E8M0FNU=2 0.25", [2.0, 0.25]),
        ] {
            let (tensor_type, contents) = parse_tensor(text).unwrap();
            let bytes = contents.to_bytes(tensor_type.size_bytes().unwrap());
            let floats = Floats::for_type(tensor_type.element_type).unwrap();
            assert_eq!([0, 1].map(|index| floats.at(&bytes, index).unwrap()), expected, "{text}");
            assert_eq!((floats.at(&bytes, 2), floats.at(&bytes, usize::MAX)), (None, None));
            let mut written = vec![0; bytes.len()];
            for (element, value) in written.chunks_mut(bytes.len() / 2).zip(expected) {
                floats.put(value, element);
            }
            assert_eq!(written, bytes, "{text}");
        }
        for text in ["i8", "i1", "i4"] {
            assert!(Floats::for_type(text.parse().unwrap()).is_none());
        }
    }
}
