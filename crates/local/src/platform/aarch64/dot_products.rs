//! Register-blocked products of `i8` matrices with SDOT, for which stable Rust has no function.

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Whether tiles of 8 by 8 by 4 have a kernel.
pub(crate) fn has_quad_products() -> bool {
    is_aarch64_feature_detected!("dotprod")
}

/// Multiplies `ROWS` rows of a panel of the left operand, from `ROWS * block`, with two panels of the right
/// operand, and adds the products to `sums`, wrapping. The elements of a panel are four along k.
///
/// # Panics
/// If [`has_quad_products`] is false, `N` is not 8, or the rows are out of bounds.
pub(crate) fn add_quad_products<const N: usize, const ROWS: usize>(
    lhs: &[[[u8; 4]; N]],
    block: usize,
    rhs: [&[[[u8; 4]; N]]; 2],
    sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
) {
    let is_supported = has_quad_products() && N == 8 && (block + 1) * ROWS <= N;
    assert!(is_supported, "no kernel for tiles of {N} on this CPU, or rows out of bounds");
    // SAFETY: the CPU has the features that the function enables, `N` is 8 and the rows are in bounds.
    unsafe { multiply(lhs, block, rhs, sums) }
}

/// # Safety
/// `N` is 8, and `ROWS * (block + 1)` at most that.
#[target_feature(enable = "neon,dotprod")]
unsafe fn multiply<const N: usize, const ROWS: usize>(
    lhs: &[[[u8; 4]; N]],
    block: usize,
    rhs: [&[[[u8; 4]; N]]; 2],
    sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
) {
    let mut totals = [[[vdupq_n_s32(0); 2]; ROWS]; 2];
    for (panel, row, half) in (0..2 * ROWS * 2).map(|at| (at / 2 / ROWS, at / 2 % ROWS, at % 2)) {
        // SAFETY: a row has 8 sums of 4 bytes.
        totals[panel][row][half] =
            unsafe { vld1q_s32(sums[panel][row].as_ptr().cast::<i32>().add(4 * half)) };
    }
    for ((left, first), second) in lhs.iter().zip(rhs[0]).zip(rhs[1]) {
        let mut right = [[vdupq_n_s8(0); 2]; 2];
        for (right, step) in right.iter_mut().zip([first, second]) {
            for (half, right) in right.iter_mut().enumerate() {
                // SAFETY: a step has 8 elements of 4 bytes.
                *right = unsafe { vld1q_s8(step.as_ptr().cast::<i8>().add(16 * half)) };
            }
        }
        for (row, left) in left[block * ROWS..][..ROWS].iter().enumerate() {
            let left = vreinterpretq_s8_s32(vdupq_n_s32(i32::from_ne_bytes(*left)));
            for (panel, half) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                // SAFETY: it accesses three registers only, and the function has the feature.
                unsafe {
                    asm!("sdot {total:v}.4s, {right:v}.16b, {left:v}.16b",
                        total = inout(vreg) totals[panel][row][half],
                        right = in(vreg) right[panel][half], left = in(vreg) left,
                        options(pure, nomem, nostack, preserves_flags));
                }
            }
        }
    }
    for (panel, row, half) in (0..2 * ROWS * 2).map(|at| (at / 2 / ROWS, at / 2 % ROWS, at % 2)) {
        // SAFETY: as for the loads.
        unsafe {
            vst1q_s32(sums[panel][row].as_mut_ptr().cast::<i32>().add(4 * half), totals[panel][row][half])
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a plain loop, on random bytes and for every block of rows.
    #[test]
    fn kernels_match_a_plain_loop() {
        if !has_quad_products() {
            return;
        }
        let mut random = fastrand::Rng::with_seed(8);
        for (depth, block) in [0, 1, 2, 7, 64].into_iter().flat_map(|depth| [(depth, 0), (depth, 1)]) {
            let mut panel = || -> Vec<[[u8; 4]; 8]> {
                // The first step has the products of largest magnitude.
                let mut quad = |at| if at == 0 { [0x80; 4] } else { [(); 4].map(|()| random.u8(..)) };
                (0..depth).map(|at| [(); 8].map(|()| quad(at))).collect()
            };
            let (left, right) = (panel(), [panel(), panel()]);
            let mut found = [[[[7_u8, 0, 0, 0]; 8]; 4]; 2];
            let mut expected = found;
            for (tile, right) in expected.iter_mut().zip(&right) {
                for (row, sums) in tile.iter_mut().enumerate() {
                    for (column, sum) in sums.iter_mut().enumerate() {
                        let pairs = left.iter().zip(right).flat_map(|(left, right)| {
                            (0..4).map(|at| (left[block * 4 + row][at] as i8, right[column][at] as i8))
                        });
                        let total: i32 = pairs.map(|(left, right)| i32::from(left) * i32::from(right)).sum();
                        *sum = (7 + total).to_ne_bytes();
                    }
                }
            }
            let [first, second] = &mut found;
            add_quad_products(&left, block, [&right[0], &right[1]], [first, second]);
            assert_eq!(found, expected, "depth {depth}, block {block}");
        }
    }
}
