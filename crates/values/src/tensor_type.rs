use std::fmt;

use rehal_base::{Context, ElementType, Error, Result};

use crate::number::parse_integer;

/// Limit on dimensions, the same as the reference's.
pub const MAX_RANK: usize = 128;

/// The shape and element type of a tensor, written `2x3xf32`; a scalar has an empty shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Size of each dimension, outermost first.
    pub shape: Vec<u64>,
    /// The type of the elements.
    pub element_type: ElementType,
}

impl TensorType {
    /// Parses `2x3xf32` or `f32`. Dimensions use C's integer syntax: `010` is 8.
    pub fn parse(text: &str) -> Result<Self> {
        // `complex64`, a name of NumPy, has an x.
        let named = text.rfind("complex").filter(|at| *at == 0 || text[..*at].ends_with('x'));
        let (shape, element_type) = match named {
            Some(at) => (text[..at].strip_suffix('x').unwrap_or(""), &text[at..]),
            None => text.rsplit_once('x').unwrap_or(("", text)),
        };
        let parsed = Self { shape: parse_shape(shape)?, element_type: element_type.parse()? };
        parsed.size_bytes()?;
        Ok(parsed)
    }

    /// Number of elements. Fails if it overflows 64 bits.
    pub fn element_count(&self) -> Result<u64> {
        // Checks bytes rather than elements, so that every tensor that passes can be indexed.
        self.size_bytes()?;
        Ok(self.shape.iter().product())
    }

    /// Bytes of the dense tensor; sub-byte elements are packed. Fails if the number of bits overflows 64
    /// bits, or if the element type has no size.
    pub fn size_bytes(&self) -> Result<u64> {
        if self.element_type.bits() == 0 {
            return Err(Error::invalid_argument(format!("element type {} has no size", self.element_type)));
        }
        self.element_type.dense_bytes(&self.shape)
    }

    /// Fails unless the dense tensor has this many bytes.
    pub fn check_length(&self, bytes: u64) -> Result<()> {
        match self.size_bytes()? {
            size if size == bytes => Ok(()),
            size => {
                Err(Error::invalid_argument(format!("expected {size} bytes for the tensor, found {bytes}")))
            }
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for size in &self.shape {
            write!(f, "{size}x")?;
        }
        write!(f, "{}", self.element_type)
    }
}

fn parse_shape(text: &str) -> Result<Vec<u64>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rank = text.matches('x').count() + 1;
    if rank > MAX_RANK {
        return Err(Error::resource_exhausted(format!(
            "shape of {rank} dimensions exceeds the limit of {MAX_RANK}"
        )));
    }
    let size = |text: &str| {
        u64::try_from(parse_integer(text)?)
            .map_err(|_| Error::invalid_argument(format!("dimension '{text}' is negative")))
    };
    text.split('x').map(size).collect::<Result<_>>().context(|| format!("shape '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_types() {
        for text in ["f32", "4xf32", "2x3x5xi8", "0xbf16", "1x0x7xi1", "8xi4", "3x*16"] {
            assert_eq!(TensorType::parse(text).unwrap().to_string(), text);
        }
        for (named, text) in [
            ("2x3xfloat32", "2x3xf32"),
            ("bfloat16", "bf16"),
            ("complex64", "cf64"),
            ("2x3xcomplex128", "2x3xcf128"),
            ("4xint8", "4xsi8"),
        ] {
            assert_eq!(TensorType::parse(named).unwrap().to_string(), text);
        }
        let tensor = TensorType::parse("3x5xi4").unwrap();
        assert_eq!((tensor.element_count().unwrap(), tensor.size_bytes().unwrap()), (15, 8));
        assert_eq!(TensorType::parse("010xf32").unwrap().shape, [8]);
        assert_eq!(TensorType::parse("xf32").unwrap().shape, [0; 0]);
    }

    #[test]
    fn malformed_shapes_are_rejected() {
        for (text, expected) in [
            ("", "not an element type"),
            ("4", "not an element type"),
            ("4x", "not an element type"),
            ("-1xf32", "is negative"),
            ("4xxf32", "not an integer"),
            ("4.5xf32", "not an integer"),
            ("?xf32", "not an integer"),
            ("4xi0", "1 to 255"),
            ("2complex64", "not an integer"),
            ("x2xcomplex64", "not an integer"),
            ("2xcomplex", "not an element type"),
            ("1152921504606846976x16xf32", "overflows 64 bits"),
            ("18446744073709551616xi8", "64 bits"),
        ] {
            let error = TensorType::parse(text).unwrap_err();
            assert!(error.message().contains(expected), "{text}: {error}");
        }
        assert!(
            TensorType::parse(&("1x".repeat(129) + "f32"))
                .unwrap_err()
                .message()
                .contains("exceeds the limit of 128")
        );
    }
}
