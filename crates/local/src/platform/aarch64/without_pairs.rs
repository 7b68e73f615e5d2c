//! Tiles with pairs along k, which the reference selects on other processors.

/// Loops are compiled to vectors.
pub(crate) fn has_dot_products(_width: usize) -> bool {
    false
}

/// Not called, as [`has_dot_products`] is false.
pub(crate) fn add_dot_products<const N: usize, const ROWS: usize>(
    _lhs: &[[[i16; 2]; N]],
    _block: usize,
    _rhs: [&[[[u8; 2]; N]]; 2],
    _sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
) {
    unreachable!("a tile without a kernel for dot products");
}
