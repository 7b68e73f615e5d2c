use crate::TensorType;

/// How the elements of an array are laid out in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In Fortran order: the first index changes fastest.
    pub is_column_major: bool,
    /// The bytes of a number if they are in big-endian order; 1 otherwise. An element is one such number, or
    /// two if it is complex.
    pub swapped_bytes: usize,
}

impl Layout {
    /// Whether a tensor of this type has the same bytes in memory.
    pub fn is_dense(&self, tensor_type: &TensorType) -> bool {
        // With at most one index, both orders are the same.
        let is_transposed =
            self.is_column_major && tensor_type.shape.iter().filter(|size| **size > 1).count() > 1;
        self.swapped_bytes == 1 && !is_transposed
    }

    /// The bytes of a tensor of this type from the `bytes` of an array, which are as many.
    pub fn to_dense(&self, tensor_type: &TensorType, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.swapped_bytes > 1 {
            bytes.chunks_exact_mut(self.swapped_bytes).for_each(<[u8]>::reverse);
        }
        match self.is_column_major {
            true => transposed(tensor_type, &bytes),
            false => bytes,
        }
    }
}

/// The elements of a column-major array in row-major order.
fn transposed(tensor_type: &TensorType, bytes: &[u8]) -> Vec<u8> {
    let element_bytes = tensor_type.element_type.whole_bytes().unwrap_or(1) as usize;
    // Size and distance in bytes of the elements that differ in one index, for each dimension, the innermost
    // first.
    let mut distance = element_bytes;
    let mut dimensions: Vec<(usize, usize)> = Vec::new();
    for size in &tensor_type.shape {
        dimensions.push((*size as usize, distance));
        distance = distance.saturating_mul(*size as usize);
    }
    dimensions.reverse();
    let mut indices = vec![0; dimensions.len()];
    let mut at = 0;
    let mut dense = Vec::with_capacity(bytes.len());
    while dense.len() < bytes.len() {
        dense.extend_from_slice(&bytes[at..][..element_bytes]);
        for (index, (size, distance)) in indices.iter_mut().zip(&dimensions) {
            *index += 1;
            at += distance;
            if *index < *size {
                break;
            }
            at -= *index * distance;
            *index = 0;
        }
    }
    dense
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(text: &str, layout: Layout, bytes: &[u8]) -> Vec<u8> {
        let tensor_type = TensorType::parse(text).unwrap();
        assert_eq!(tensor_type.size_bytes().unwrap(), bytes.len() as u64);
        let dense = layout.to_dense(&tensor_type, bytes.to_vec());
        assert!(!layout.is_dense(&tensor_type) || dense == bytes, "{text}");
        dense
    }

    #[test]
    fn fortran_order_is_transposed() {
        let layout = Layout { is_column_major: true, swapped_bytes: 1 };
        assert_eq!(dense("2x3xi8", layout, &[1, 4, 2, 5, 3, 6]), [1, 2, 3, 4, 5, 6]);
        assert_eq!(dense("2x2xi16", layout, &[1, 2, 5, 6, 3, 4, 7, 8]), [1, 2, 3, 4, 5, 6, 7, 8]);
        // numpy.arange(24, dtype='i1').reshape(2, 3, 4).tobytes('F')
        let bytes = [0, 12, 4, 16, 8, 20, 1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22, 3, 15, 7, 19, 11, 23];
        assert_eq!(dense("2x3x4xi8", layout, &bytes), (0..24).collect::<Vec<u8>>());
        for same in ["i8", "1xi8", "1x1x1xi8"] {
            assert_eq!(dense(same, layout, &[7]), [7], "{same}");
        }
        assert_eq!(dense("1x4x1xi8", layout, &[1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(dense("0x3xi8", layout, &[]), []);
        assert_eq!(dense("3x0x2xf32", layout, &[]), []);
    }

    #[test]
    fn numbers_in_big_endian_order_are_reversed() {
        let swapped = |swapped_bytes| Layout { is_column_major: false, swapped_bytes };
        assert_eq!(dense("2xi16", swapped(2), &[1, 2, 3, 4]), [2, 1, 4, 3]);
        assert_eq!(dense("f64", swapped(8), &[1, 2, 3, 4, 5, 6, 7, 8]), [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(dense("1xcf64", swapped(4), &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(dense("1xi24", swapped(3), &[1, 2, 3]), [3, 2, 1]);
        let both = Layout { is_column_major: true, swapped_bytes: 2 };
        assert_eq!(dense("2x2xi16", both, &[1, 2, 5, 6, 3, 4, 7, 8]), [2, 1, 4, 3, 6, 5, 8, 7]);
    }
}
