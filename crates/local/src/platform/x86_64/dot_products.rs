//! Register-blocked products of `i8` matrices with the CPU's dot product instructions, which the compiler
//! does not derive from a loop.

use std::arch::x86_64::*;

use super::vectors::has_fused_vectors;

/// Whether [`dot_products`] supports tiles of this width on this machine: 16 with AVX-512 VNNI, 8 with AVX2.
pub(crate) fn has_dot_products(width: usize) -> bool {
    match width {
        8 => has_fused_vectors(8),
        16 => has_fused_vectors(16) && is_x86_feature_detected!("avx512vnni"),
        _ => false,
    }
}

/// Multiplies `ROWS` rows of a panel of the left operand, from `ROWS * block`, with two panels of the right
/// operand, and adds the products to `sums`, wrapping. The elements of a panel are pairs along k; those of
/// the left one are widened.
///
/// # Panics
/// If [`has_dot_products`] is false for `N`, or the rows are out of bounds.
pub(crate) fn add_dot_products<const N: usize, const ROWS: usize>(
    lhs: &[[[i16; 2]; N]],
    block: usize,
    rhs: [&[[[u8; 2]; N]]; 2],
    sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
) {
    let is_supported = has_dot_products(N) && (block + 1) * ROWS <= N;
    assert!(is_supported, "no kernel for tiles of {N} on this CPU, or rows out of bounds");
    // SAFETY: the CPU has the features that the function enables; it accesses 16 elements per step of each
    // panel, as `N` is 16, or 8 if `N` is 8, and rows that are in bounds.
    unsafe {
        match N {
            16 => multiply_with_avx512(lhs, block, rhs, sums),
            _ => multiply_with_avx2(lhs, block, rhs, sums),
        }
    }
}

/// Tiles with four elements along k are those of other processors.
pub(crate) fn has_quad_products() -> bool {
    false
}

/// Not called, as [`has_quad_products`] is false.
pub(crate) fn add_quad_products<const N: usize, const ROWS: usize>(
    _lhs: &[[[u8; 4]; N]],
    _block: usize,
    _rhs: [&[[[u8; 4]; N]]; 2],
    _sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
) {
    unreachable!("a tile without a kernel for dot products");
}

/// Expands to the body of a kernel for vectors of one width.
macro_rules! kernel {
    ($lhs:ident, $block:ident, $rhs:ident, $sums:ident,
     $vector:ty, $half:ty, $zero:ident, $load:ident, $store:ident, $load_half:ident, $widen:ident, $broadcast:ident, $add:expr) => {{
        let [first_out, second_out] = $sums;
        // Loops and not `array::map`, which lacks the target features and would pass vectors in memory.
        let (mut first, mut second) = ([$zero(); ROWS], [$zero(); ROWS]);
        // SAFETY: each row of the output has `N` elements of 4 bytes, the size of a vector; the pointers are
        // of live arrays.
        unsafe {
            for row in 0..ROWS {
                first[row] = $load(first_out[row].as_ptr().cast::<$vector>());
                second[row] = $load(second_out[row].as_ptr().cast::<$vector>());
            }
        }
        for ((left, right0), right1) in $lhs.iter().zip($rhs[0]).zip($rhs[1]) {
            // SAFETY: each step of a right panel has `N` pairs of bytes, the size of half a vector.
            let (right0, right1) = unsafe {
                (
                    $widen($load_half(right0.as_ptr().cast::<$half>())),
                    $widen($load_half(right1.as_ptr().cast::<$half>())),
                )
            };
            let left = &left[$block * ROWS..][..ROWS];
            for row in 0..ROWS {
                // A pair as one 32-bit integer, the first element in the low half.
                let pair = i32::from(left[row][0]) & 0xFFFF | i32::from(left[row][1]) << 16;
                let pair = $broadcast(pair);
                first[row] = $add(first[row], right0, pair);
                second[row] = $add(second[row], right1, pair);
            }
        }
        // SAFETY: as for the loads.
        unsafe {
            for row in 0..ROWS {
                $store(first_out[row].as_mut_ptr().cast::<$vector>(), first[row]);
                $store(second_out[row].as_mut_ptr().cast::<$vector>(), second[row]);
            }
        }
    }};
}

/// # Safety
/// `N` is 16, and `ROWS * (block + 1)` at most that.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn multiply_with_avx512<const N: usize, const ROWS: usize>(
    lhs: &[[[i16; 2]; N]],
    block: usize,
    rhs: [&[[[u8; 2]; N]]; 2],
    sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
) {
    kernel!(
        lhs,
        block,
        rhs,
        sums,
        __m512i,
        __m256i,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm256_loadu_si256,
        _mm512_cvtepi8_epi16,
        _mm512_set1_epi32,
        _mm512_dpwssd_epi32
    );
}

/// # Safety
/// `N` is 8, and `ROWS * (block + 1)` at most that.
#[target_feature(enable = "avx2")]
unsafe fn multiply_with_avx2<const N: usize, const ROWS: usize>(
    lhs: &[[[i16; 2]; N]],
    block: usize,
    rhs: [&[[[u8; 2]; N]]; 2],
    sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
) {
    kernel!(
        lhs,
        block,
        rhs,
        sums,
        __m256i,
        __m128i,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm_loadu_si128,
        _mm256_cvtepi8_epi16,
        _mm256_set1_epi32,
        |sum, right, pair| _mm256_add_epi32(sum, _mm256_madd_epi16(right, pair))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a kernel with a plain loop, on random bytes and for every block of rows.
    fn check<const N: usize, const ROWS: usize>() {
        if !has_dot_products(N) {
            return;
        }
        let mut random = fastrand::Rng::with_seed(N as u64);
        for depth in [0, 1, 2, 7, 64] {
            for block in 0..N / ROWS {
                let mut pair =
                    |extreme: bool| if extreme { [0x80; 2] } else { [random.u8(..), random.u8(..)] };
                // The first step has the products of largest magnitude.
                let mut panel = || (0..depth).map(|at| [(); N].map(|()| pair(at == 0))).collect::<Vec<_>>();
                let (left, right) = (panel(), [panel(), panel()]);
                let mut found = [[[[0; 4]; N]; ROWS]; 2];
                found
                    .as_flattened_mut()
                    .as_flattened_mut()
                    .iter_mut()
                    .for_each(|sum| *sum = random.u32(..).to_ne_bytes());
                let mut expected = found;
                for (tile, right) in expected.iter_mut().zip(&right) {
                    for (row, sums) in tile.iter_mut().enumerate() {
                        for (column, sum) in sums.iter_mut().enumerate() {
                            let steps = left.iter().zip(right);
                            let pairs = steps.map(|(left, right)| (left[block * ROWS + row], right[column]));
                            let products = pairs.flat_map(|(left, right)| {
                                [0, 1].map(|at| i64::from(left[at] as i8) * i64::from(right[at] as i8))
                            });
                            let total = i64::from(i32::from_ne_bytes(*sum)) + products.sum::<i64>();
                            *sum = (total as i32).to_ne_bytes();
                        }
                    }
                }
                let wide: Vec<_> =
                    left.iter().map(|step| step.map(|pair| pair.map(|byte| i16::from(byte as i8)))).collect();
                let [first, second] = &mut found;
                add_dot_products(&wide, block, [&right[0], &right[1]], [first, second]);
                assert_eq!(found, expected, "depth {depth}, block {block}");
            }
        }
    }

    #[test]
    fn kernels_match_a_plain_loop() {
        check::<16, 8>();
        check::<16, 4>();
        check::<8, 4>();
        check::<8, 8>();
    }

    #[test]
    #[should_panic(expected = "rows out of bounds")]
    fn rows_out_of_bounds_are_rejected() {
        let (mut first, mut second) = ([[[0; 4]; 8]; 4], [[[0; 4]; 8]; 4]);
        add_dot_products::<8, 4>(&[], 2, [&[], &[]], [&mut first, &mut second]);
    }
}
