use rehal_base::{ElementType, Error, Result};
use smallvec::SmallVec;

use crate::Buffer;

/// The encoding of a tensor's elements in a buffer (`iree_hal_encoding_type_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding(pub u32);

impl Encoding {
    /// Opaque: the bytes are not interpreted.
    pub const OPAQUE: Self = Self(0);
    /// Dense, row-major.
    pub const DENSE_ROW_MAJOR: Self = Self(1);
}

/// A buffer with a shape and an element type: the form in which programs take and return tensors.
#[derive(Clone, Debug)]
pub struct BufferView {
    buffer: Buffer,
    element_type: ElementType,
    encoding: Encoding,
    shape: SmallVec<[u64; 4]>,
}

impl BufferView {
    /// A view of all of `buffer`. Fails if a dense tensor of this shape and type exceeds it.
    pub fn new(buffer: Buffer, shape: &[u64], element_type: ElementType, encoding: Encoding) -> Result<Self> {
        if encoding == Encoding::DENSE_ROW_MAJOR {
            let needed = dense_size(shape, element_type)?;
            if needed > buffer.size() {
                return Err(Error::out_of_range(format!(
                    "a view of shape {shape:?} needs {needed} bytes, the buffer has {}",
                    buffer.size()
                )));
            }
        }
        Ok(Self { buffer, element_type, encoding, shape: SmallVec::from_slice(shape) })
    }

    /// The bytes.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The type of its elements.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The encoding of the elements.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Size of each dimension, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Number of elements: the product of the shape, which the constructor has checked for overflow.
    pub fn element_count(&self) -> u64 {
        self.shape.iter().fold(1, |count, size| count.saturating_mul(*size))
    }
}

/// Bytes of a dense tensor, see [`ElementType::dense_bytes`].
pub fn dense_size(shape: &[u64], element_type: ElementType) -> Result<u64> {
    element_type.dense_bytes(shape)
}
