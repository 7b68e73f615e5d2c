//! Transposition of blocks with the CPU's permutations of two vectors, which the compiler does not derive
//! from a loop.

use std::arch::x86_64::*;

use super::vectors::has_fused_vectors;
use crate::platform::{BLOCK_ROW_BYTES, BLOCK_ROWS, Block};

/// Whether [`transpose_block`] is supported on this machine.
pub(crate) fn has_transpositions() -> bool {
    has_fused_vectors(16)
}

/// Writes the columns of 16 rows one after another. Elements have `E` bytes.
///
/// # Panics
/// If `E` is not 2 or 4, or [`has_transpositions`] is false.
pub(crate) fn transpose_block<const E: usize>(
    rows: [&[u8; BLOCK_ROW_BYTES]; BLOCK_ROWS],
    columns: &mut Block,
) {
    const { assert!(E == 2 || E == 4, "only elements of 2 and 4 bytes are supported") };
    assert!(has_transpositions(), "no permutations of two vectors on this CPU");
    // SAFETY: the CPU has the features that the function enables.
    unsafe { with_avx512::<E>(rows, columns) };
}

#[target_feature(enable = "avx512f")]
fn with_avx512<const E: usize>(rows: [&[u8; BLOCK_ROW_BYTES]; BLOCK_ROWS], columns: &mut Block) {
    // Loops and not `array::map`, which lacks the target features and would pass vectors in memory.
    let mut vectors = [_mm512_setzero_si512(); BLOCK_ROWS];
    for (vector, row) in vectors.iter_mut().zip(rows) {
        // SAFETY: a row has the size of a vector.
        *vector = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
    }
    // Interleaving each row of the upper half with its counterpart in the lower half rotates the bits of an
    // element's position (row, column) by one. There are four of each, so four times exchanges row and
    // column.
    let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    for _ in 0..4 {
        let before = vectors;
        for row in 0..BLOCK_ROWS / 2 {
            let (upper, lower) = (before[row], before[row + BLOCK_ROWS / 2]);
            vectors[2 * row] = _mm512_permutex2var_epi32(upper, first, lower);
            vectors[2 * row + 1] = _mm512_permutex2var_epi32(upper, second, lower);
        }
    }
    for (vector, columns) in vectors.iter().zip(columns.as_chunks_mut::<64>().0) {
        // SAFETY: the pointers are of arrays of 64 bytes: one vector, or two of half the size.
        unsafe {
            if E == 4 {
                _mm512_storeu_si512(columns.as_mut_ptr().cast(), *vector);
            } else {
                // Each 32-bit element is a pair: the elements of one row in two columns.
                let columns = columns.as_mut_ptr().cast::<__m256i>();
                _mm256_storeu_si256(columns, _mm512_cvtepi32_epi16(*vector));
                let upper = _mm512_srli_epi32::<16>(*vector);
                _mm256_storeu_si256(columns.add(1), _mm512_cvtepi32_epi16(upper));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const E: usize>() {
        let mut random = fastrand::Rng::with_seed(E as u64);
        let mut rows = [[0; BLOCK_ROW_BYTES]; BLOCK_ROWS];
        random.fill(rows.as_flattened_mut());
        let mut columns = [0; BLOCK_ROWS * BLOCK_ROW_BYTES];
        transpose_block::<E>(rows.each_ref(), &mut columns);
        for (column, elements) in columns.chunks_exact(BLOCK_ROWS * E).enumerate() {
            for (row, element) in elements.chunks_exact(E).enumerate() {
                assert_eq!(*element, rows[row][column * E..][..E], "row {row}, column {column}");
            }
        }
    }

    #[test]
    fn columns_are_written_one_after_another() {
        if has_transpositions() {
            check::<2>();
            check::<4>();
        }
    }
}
