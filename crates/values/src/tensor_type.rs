use std::fmt;

use rehal_base::{Context, ElementType, Error, Result};

use crate::number::parse_integer;

/// More dimensions than this are a mistake; the reference draws the line there too.
pub const MAX_RANK: usize = 128;

/// The shape of a tensor and the type of its elements, written `2x3xf32`; the shape of a scalar is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Elements in each dimension, the slowest first.
    pub shape: Vec<u64>,
    /// The type of the elements.
    pub element_type: ElementType,
}

impl TensorType {
    /// Reads `2x3xf32` or `f32`. Dimensions are whole numbers as C reads them: `010` is 8.
    pub fn parse(text: &str) -> Result<Self> {
        let (shape, element_type) = text.rsplit_once('x').unwrap_or(("", text));
        let parsed = Self { shape: parse_shape(shape)?, element_type: element_type.parse()? };
        parsed.size_bytes()?;
        Ok(parsed)
    }

    /// Number of elements. Fails where 64 bits do not count them.
    pub fn element_count(&self) -> Result<u64> {
        // In bytes rather than elements, so that what fits here can be indexed.
        self.size_bytes()?;
        Ok(self.shape.iter().product())
    }

    /// Bytes of the dense tensor; elements of less than a byte are packed. Fails where 64 bits do not
    /// count the bits, or an element has none.
    pub fn size_bytes(&self) -> Result<u64> {
        if self.element_type.bits() == 0 {
            return Err(Error::invalid_argument(format!(
                "elements of type {} have no size",
                self.element_type
            )));
        }
        self.element_type.dense_bytes(&self.shape)
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
            "a shape of {rank} dimensions; at most {MAX_RANK} are taken"
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
        let tensor = TensorType::parse("3x5xi4").unwrap();
        assert_eq!((tensor.element_count().unwrap(), tensor.size_bytes().unwrap()), (15, 8));
        assert_eq!(TensorType::parse("010xf32").unwrap().shape, [8]);
        assert_eq!(TensorType::parse("xf32").unwrap().shape, [0; 0]);
    }

    #[test]
    fn what_is_no_shape() {
        for (text, expected) in [
            ("", "no element type"),
            ("4", "no element type"),
            ("4x", "no element type"),
            ("-1xf32", "is negative"),
            ("4xxf32", "not a whole number"),
            ("4.5xf32", "not a whole number"),
            ("?xf32", "not a whole number"),
            ("4xi0", "1 to 255"),
            ("1152921504606846976x16xf32", "more bytes than 64 bits count"),
            ("18446744073709551616xi8", "64 bits"),
        ] {
            let error = TensorType::parse(text).unwrap_err();
            assert!(error.message().contains(expected), "{text}: {error}");
        }
        assert!(
            TensorType::parse(&("1x".repeat(129) + "f32")).unwrap_err().message().contains("at most 128")
        );
    }
}
