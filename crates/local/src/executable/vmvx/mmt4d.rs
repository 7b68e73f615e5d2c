//! Matrix multiplication of packed operands, the right one transposed.

use std::ops::Range;

use rehal_base::{Error, Result};

use super::span::{Elements, ElementsMut, Operand, Scratch, with_elements};
use crate::platform::{self, VectorWork};

/// Bits of the flags (source: `iree/builtins/ukernel/exported_bits.h`).
const TYPE_MASK: u32 = 0xFF;
const TYPE_F32: u32 = 1;
const TYPE_I8: u32 = 2;
const ACCUMULATE: u32 = 0x100;
/// Two more have no effect: every tile size is supported here, with or without a specialized kernel (0x200),
/// and no type has intermediate rounding (0x400).
const KNOWN_FLAGS: u32 = TYPE_MASK | ACCUMULATE | 0x200 | 0x400;

/// A multiplication as a program passes it: unchecked.
///
/// Left operand `[m][k][m0][k0]`, right operand `[n][k][n0][k0]`, output `[m][n][m0][n0]`. The operands have
/// a stride in elements for the outermost dimension; the others are contiguous.
pub(super) struct Mmt4d<'a> {
    pub(super) lhs: Operand<'a>,
    pub(super) rhs: Operand<'a>,
    pub(super) out: Operand<'a>,
    /// Numbers of tiles: m, n, k.
    pub(super) tiles: [i64; 3],
    /// Size of a tile: m0, n0, k0.
    pub(super) tile: [i32; 3],
    pub(super) flags: u32,
}

impl Mmt4d<'_> {
    /// `out = lhs * transpose(rhs)`, or `+=` if the flags say so: all `f32`, or `i8` operands with wrapping
    /// `i32` sums.
    ///
    /// Floating-point sums accumulate in the order of k, as in the reference, with fused multiply-add if the
    /// reference has a kernel for this CPU and tile that uses it, otherwise with separate roundings.
    pub(super) fn run(self, scratch: &mut Scratch) -> Result<()> {
        let Self { lhs, rhs, out, tiles, tile, flags } = self;
        let is_f32 = match flags & TYPE_MASK {
            TYPE_F32 => true,
            TYPE_I8 => false,
            _ => return Err(unknown_flags(flags)),
        };
        if flags & !KNOWN_FLAGS != 0 {
            return Err(unknown_flags(flags));
        }
        let [m, n, k] = counts(tiles.map(|count| u64::try_from(count).ok()), u64::from(u32::MAX >> 1))?;
        let [m0, n0, k0] = counts(tile.map(|size| u64::try_from(size).ok()), 0x7FFF)?;
        // Below 2^31 * 2^30.
        let row = |tiles: u64, tile: u64| [0, (tiles * tile) as i64];
        let rows = |count: u64, [_, columns]: [i64; 2]| [count as i64, columns];
        let element_bytes = if is_f32 { 4 } else { 1 };
        let lhs = lhs.input(element_bytes, rows(m, row(k, m0 * k0)))?;
        let rhs = rhs.input(element_bytes, rows(n, row(k, n0 * k0)))?;
        let out = out.output(4, rows(m, row(n, m0 * n0)))?;
        if out.is_empty() {
            return Ok(());
        }
        let shape = Shape {
            tiles: [m, n, k].map(|count| count as usize),
            tile: [m0, n0, k0].map(|size| size as usize),
            accumulates: flags & ACCUMULATE != 0,
        };
        let mut wide = std::mem::take(&mut scratch.wide);
        let result = match is_f32 {
            true => with_elements([lhs, rhs], out, scratch, |operands, out| {
                shape.multiply::<f32>(operands, out, &mut wide);
                Ok(())
            }),
            false => with_elements([lhs, rhs], out, scratch, |operands, out| {
                shape.multiply::<i8>(operands, out, &mut wide);
                Ok(())
            }),
        };
        scratch.wide = wide;
        result
    }
}

fn unknown_flags(flags: u32) -> Error {
    Error::invalid_argument(format!("unknown multiplication (flags 0x{flags:x})"))
}

fn counts(counts: [Option<u64>; 3], limit: u64) -> Result<[u64; 3]> {
    match counts {
        [Some(m), Some(n), Some(k)] if m <= limit && n <= limit && k <= limit => Ok([m, n, k]),
        _ => {
            Err(Error::invalid_argument(format!("a size of the multiplication is negative or above {limit}")))
        }
    }
}

/// A checked multiplication.
struct Shape {
    tiles: [usize; 3],
    tile: [usize; 3],
    accumulates: bool,
}

impl Shape {
    fn multiply<T: Number>(
        &self,
        operands: [Elements<'_, T::Bytes>; 2],
        out: ElementsMut<'_, [u8; 4]>,
        wide: &mut Vec<[i16; 2]>,
    ) {
        platform::with_vectors(Multiply::<T> { shape: self, operands, out, wide });
    }

    /// Whether the reference has a kernel with fused multiply-add for this tile of `f32`.
    fn is_fused(&self) -> bool {
        let [m0, n0, k0] = self.tile;
        let rows = m0.is_power_of_two() && m0 <= n0;
        k0 == 1 && rows && (n0 == 8 || n0 == 16) && platform::has_fused_vectors(n0)
    }
}

/// The element type of a multiplication.
trait Number: Copy {
    /// An element in memory.
    type Bytes: Copy;
    /// The type of products and sums.
    type Wide: Copy + Default;

    fn widen(element: Self::Bytes) -> Self::Wide;
    fn from_bytes(sum: [u8; 4]) -> Self::Wide;
    fn to_bytes(sum: Self::Wide) -> [u8; 4];
    /// `sum + lhs * rhs`, rounded once if `fused`.
    fn add_product(sum: Self::Wide, lhs: Self::Wide, rhs: Self::Wide, fused: bool) -> Self::Wide;
    /// Multiplies with register blocking; false if there is no kernel for the tile size on this CPU.
    fn multiply_blocks(work: &mut Multiply<'_, Self>, fused: bool) -> bool;
}

impl Number for f32 {
    type Bytes = [u8; 4];
    type Wide = f32;

    #[inline(always)]
    fn widen(element: [u8; 4]) -> f32 {
        f32::from_ne_bytes(element)
    }

    #[inline(always)]
    fn from_bytes(sum: [u8; 4]) -> f32 {
        f32::from_ne_bytes(sum)
    }

    #[inline(always)]
    fn to_bytes(sum: f32) -> [u8; 4] {
        sum.to_ne_bytes()
    }

    #[inline(always)]
    fn add_product(sum: f32, lhs: f32, rhs: f32, fused: bool) -> f32 {
        if fused { lhs.mul_add(rhs, sum) } else { sum + lhs * rhs }
    }

    #[inline(always)]
    fn multiply_blocks(work: &mut Multiply<'_, Self>, fused: bool) -> bool {
        match (work.shape.tile, fused) {
            ([16, 16, 1], true) => work.multiply_blocks::<Fused8, 4, 16, 8>(),
            ([8, 8, 1], true) => work.multiply_blocks::<Fused4, 4, 8, 4>(),
            _ => false,
        }
    }
}

impl Number for i8 {
    type Bytes = [u8; 1];
    type Wide = i32;

    #[inline(always)]
    fn widen([element]: [u8; 1]) -> i32 {
        (element as i8).into()
    }

    #[inline(always)]
    fn from_bytes(sum: [u8; 4]) -> i32 {
        i32::from_ne_bytes(sum)
    }

    #[inline(always)]
    fn to_bytes(sum: i32) -> [u8; 4] {
        sum.to_ne_bytes()
    }

    #[inline(always)]
    fn add_product(sum: i32, lhs: i32, rhs: i32, _fused: bool) -> i32 {
        sum.wrapping_add(lhs.wrapping_mul(rhs))
    }

    #[inline(always)]
    fn multiply_blocks(work: &mut Multiply<'_, Self>, _fused: bool) -> bool {
        match work.shape.tile {
            [16, 16, 2] if platform::has_dot_products(16) => work.multiply_blocks::<DotProducts, 2, 16, 8>(),
            [8, 8, 2] if platform::has_dot_products(8) => work.multiply_blocks::<DotProducts, 2, 8, 4>(),
            [8, 8, 4] if platform::has_quad_products() => work.multiply_blocks::<QuadProducts, 4, 8, 4>(),
            _ => false,
        }
    }
}

struct Multiply<'a, T: Number> {
    shape: &'a Shape,
    operands: [Elements<'a, T::Bytes>; 2],
    out: ElementsMut<'a, [u8; 4]>,
    /// Scratch memory for widened elements.
    wide: &'a mut Vec<[i16; 2]>,
}

impl<T: Number> VectorWork for Multiply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(mut self, fuses: bool) {
        let fused = fuses && self.shape.is_fused();
        if self.shape.tiles[2] > 0 && T::multiply_blocks(&mut self, fused) {
            return;
        }
        let Self { shape, operands, mut out, .. } = self;
        let [m, n, k] = shape.tiles;
        let [m0, n0, k0] = shape.tile;
        let (lhs_panel, rhs_panel, out_tile) = (k * m0 * k0, k * n0 * k0, m0 * n0);
        let [lhs, rhs] = operands;
        for i in 0..m {
            for (j, out) in out.line([i, 0], n * out_tile).chunks_exact_mut(out_tile).enumerate() {
                let panels = Panels::<T> {
                    lhs: lhs.line([i, 0], lhs_panel),
                    rhs: rhs.line([j, 0], rhs_panel),
                    tile: shape.tile,
                    accumulates: shape.accumulates,
                };
                // The tile sizes of `tile_sizes` as constants. The others have kernels with register blocking
                // on each processor that selects them, but for 8x8x8, of aarch64 with i8mm.
                match (m0, n0, k0) {
                    (8, 4, 1) => panels.fixed::<8, 4, 1>(out),
                    (8, 4, 2) => panels.fixed::<8, 4, 2>(out),
                    (8, 8, 4) => panels.fixed::<8, 8, 4>(out),
                    _ => panels.any(out, fused),
                }
            }
        }
    }
}

/// Depth of a block along k: two right panels and one left panel of this depth fit into the L1 cache.
const DEPTH: usize = 256;
/// Left panels of that depth that are multiplied with two right panels before the next two: they fit into the
/// L2 cache.
const PANELS: usize = 16;

/// A kernel with register blocking: it keeps `ROWS` rows of two adjacent tiles of the output in registers.
/// Tiles are `N` by `N`; a panel is `[k][N]`, with elements of `E` bytes.
///
/// A trait and not a closure, so that the loop is compiled with its caller's target features.
trait Block<const E: usize, const N: usize, const ROWS: usize> {
    /// An element of the left panel in the form that the kernel reads.
    type Left;
    /// Whether left panels are converted to that form first.
    const WIDENS: bool;

    /// Converts a left panel.
    fn widen(panel: &[[[u8; E]; N]], wide: &mut [[i16; 2]]);

    /// A left panel in the form that the kernel reads, given the panel and its conversion.
    fn left<'a>(panel: &'a [[[u8; E]; N]], wide: &'a [[i16; 2]]) -> &'a [[Self::Left; N]];

    /// Multiplies the rows of a left panel from `ROWS * block` with two right panels, and adds the products
    /// to `sums`.
    fn multiply(
        lhs: &[[Self::Left; N]],
        block: usize,
        rhs: [&[[[u8; E]; N]]; 2],
        sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
    );
}

impl<const I: usize, T: Number<Bytes = [u8; I]>> Multiply<'_, T> {
    /// Multiplies with two right panels per element of the left one, so that arithmetic and not loads bound
    /// the loop. An odd last column of tiles is paired with itself. Returns true.
    #[inline(always)]
    fn multiply_blocks<B: Block<E, N, ROWS>, const E: usize, const N: usize, const ROWS: usize>(
        &mut self,
    ) -> bool {
        let Self { shape, operands: [lhs, rhs], out, wide } = self;
        let [m, n, k] = shape.tiles;
        let line = k * N * (E / I);
        let mut unused = [[[0; 4]; N]; N];
        let parts = (0..k).step_by(DEPTH).flat_map(|start| (0..m).step_by(PANELS).map(move |i| (start, i)));
        for (start, first_panel) in parts {
            let depth = DEPTH.min(k - start);
            let range = start * N * E..(start + depth) * N * E;
            let left = |i: usize| panel::<E, N>(lhs.line([i, 0], line).as_flattened(), range.clone());
            let panels = first_panel..m.min(first_panel + PANELS);
            let wide_panel = if B::WIDENS { depth * N } else { 0 };
            if wide.len() < wide_panel * panels.len() {
                wide.resize(wide_panel * panels.len(), [0; 2]);
            }
            for (i, wide) in panels.clone().zip(wide.chunks_exact_mut(wide_panel.max(1))) {
                B::widen(left(i), wide);
            }
            for j in (0..n).step_by(2) {
                let columns = [j, (j + 1).min(n - 1)];
                let right =
                    columns.map(|j| panel::<E, N>(rhs.line([j, 0], line).as_flattened(), range.clone()));
                for i in panels.clone() {
                    let left = B::left(left(i), &wide[(i - first_panel) * wide_panel..][..wide_panel]);
                    let tiles = (n - j).min(2);
                    let out = out.line([i, j * N * N], tiles * N * N).as_chunks_mut::<N>().0;
                    let (first, second) = out.split_at_mut(N);
                    let second = if tiles == 2 { second } else { &mut unused };
                    // The kernel always loads its sums: initialized in two ways, they would not stay in
                    // registers.
                    if start == 0 && !shape.accumulates {
                        first.as_flattened_mut().fill([0; 4]);
                        second.as_flattened_mut().fill([0; 4]);
                    }
                    let blocks =
                        first.as_chunks_mut::<ROWS>().0.iter_mut().zip(second.as_chunks_mut::<ROWS>().0);
                    for (block, (first, second)) in blocks.enumerate() {
                        B::multiply(left, block, right, [first, second]);
                    }
                }
            }
        }
        true
    }
}

/// The steps of a panel in a range of its bytes.
#[inline(always)]
fn panel<const E: usize, const N: usize>(operand: &[u8], range: Range<usize>) -> &[[[u8; E]; N]] {
    operand[range].as_chunks::<E>().0.as_chunks::<N>().0
}

/// Defines a [`Block`] of `f32` with fused multiply-add. The sums are separate variables, so that they stay
/// in registers: for an array, the compiler would vectorize over rows.
macro_rules! fused_block {
    ($name:ident, $rows:literal: $($row:literal $first:ident $second:ident),*) => {
        struct $name;

        impl<const N: usize> Block<4, N, $rows> for $name {
            type Left = [u8; 4];
            const WIDENS: bool = false;

            #[inline(always)]
            fn widen(_panel: &[[[u8; 4]; N]], _wide: &mut [[i16; 2]]) {}

            #[inline(always)]
            fn left<'a>(panel: &'a [[[u8; 4]; N]], _wide: &'a [[i16; 2]]) -> &'a [[[u8; 4]; N]] {
                panel
            }

            #[inline(always)]
            fn multiply(
                lhs: &[[[u8; 4]; N]],
                block: usize,
                rhs: [&[[[u8; 4]; N]]; 2],
                [first_out, second_out]: [&mut [[[u8; 4]; N]; $rows]; 2],
            ) {
                $(
                    let mut $first = first_out[$row].map(f32::from_ne_bytes);
                    let mut $second = second_out[$row].map(f32::from_ne_bytes);
                )*
                for ((left, first), second) in lhs.iter().zip(rhs[0]).zip(rhs[1]) {
                    let left = left.as_chunks::<$rows>().0[block];
                    let (first, second) = (first.map(f32::from_ne_bytes), second.map(f32::from_ne_bytes));
                    $(
                        add_products::<f32, N, true>(&mut $first, left[$row], &first);
                        add_products::<f32, N, true>(&mut $second, left[$row], &second);
                    )*
                }
                $(
                    first_out[$row] = $first.map(f32::to_ne_bytes);
                    second_out[$row] = $second.map(f32::to_ne_bytes);
                )*
            }
        }
    };
}

fused_block!(Fused8, 8: 0 a0 b0, 1 a1 b1, 2 a2 b2, 3 a3 b3, 4 a4 b4, 5 a5 b5, 6 a6 b6, 7 a7 b7);
fused_block!(Fused4, 4: 0 a0 b0, 1 a1 b1, 2 a2 b2, 3 a3 b3);

/// The [`Block`] of `i8`, whose elements are pairs along k: the left ones are sign-extended once, the right
/// ones in the kernel.
struct DotProducts;

impl<const N: usize, const ROWS: usize> Block<2, N, ROWS> for DotProducts {
    type Left = [i16; 2];
    const WIDENS: bool = true;

    #[inline(always)]
    fn widen(panel: &[[[u8; 2]; N]], wide: &mut [[i16; 2]]) {
        let elements = panel.as_flattened().as_flattened();
        for (wide, element) in wide.as_flattened_mut().iter_mut().zip(elements) {
            *wide = (*element as i8).into();
        }
    }

    #[inline(always)]
    fn left<'a>(_panel: &'a [[[u8; 2]; N]], wide: &'a [[i16; 2]]) -> &'a [[[i16; 2]; N]] {
        wide.as_chunks().0
    }

    #[inline(always)]
    fn multiply(
        lhs: &[[[i16; 2]; N]],
        block: usize,
        rhs: [&[[[u8; 2]; N]]; 2],
        sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
    ) {
        platform::add_dot_products(lhs, block, rhs, sums);
    }
}

/// The [`Block`] of `i8`, whose elements are four along k.
struct QuadProducts;

impl<const N: usize, const ROWS: usize> Block<4, N, ROWS> for QuadProducts {
    type Left = [u8; 4];
    const WIDENS: bool = false;

    #[inline(always)]
    fn widen(_panel: &[[[u8; 4]; N]], _wide: &mut [[i16; 2]]) {}

    #[inline(always)]
    fn left<'a>(panel: &'a [[[u8; 4]; N]], _wide: &'a [[i16; 2]]) -> &'a [[[u8; 4]; N]] {
        panel
    }

    #[inline(always)]
    fn multiply(
        lhs: &[[[u8; 4]; N]],
        block: usize,
        rhs: [&[[[u8; 4]; N]]; 2],
        sums: [&mut [[[u8; 4]; N]; ROWS]; 2],
    ) {
        platform::add_quad_products(lhs, block, rhs, sums);
    }
}

/// The initial value of sums.
#[inline(always)]
fn start<T: Number, const N0: usize>(accumulates: bool, out: [[u8; 4]; N0]) -> [T::Wide; N0] {
    if accumulates { out.map(T::from_bytes) } else { [T::Wide::default(); N0] }
}

/// The operands of one tile of the output: `[k][m0][k0]` and `[k][n0][k0]`.
struct Panels<'a, T: Number> {
    lhs: &'a [T::Bytes],
    rhs: &'a [T::Bytes],
    tile: [usize; 3],
    accumulates: bool,
}

impl<T: Number> Panels<'_, T> {
    /// A tile of constant size, without fused multiply-add, four rows at a time, whose sums stay in
    /// registers.
    #[inline(always)]
    fn fixed<const M0: usize, const N0: usize, const K0: usize>(&self, out: &mut [[u8; 4]]) {
        let lhs = self.lhs.as_chunks::<K0>().0.as_chunks::<M0>().0;
        let rhs = self.rhs.as_chunks::<K0>().0.as_chunks::<N0>().0;
        for (rows, out) in out.as_chunks_mut::<N0>().0.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let [mut sums0, mut sums1, mut sums2, mut sums3] =
                out.map(|row| start::<T, N0>(self.accumulates, row));
            for (lhs, rhs) in lhs.iter().zip(rhs) {
                let [left0, left1, left2, left3] = lhs.as_chunks::<4>().0[rows];
                for k0 in 0..K0 {
                    let right: [T::Wide; N0] = std::array::from_fn(|j0| T::widen(rhs[j0][k0]));
                    // Unrolled by hand: the compiler would vectorize a loop over rows instead of the columns.
                    add_products::<T, N0, false>(&mut sums0, left0[k0], &right);
                    add_products::<T, N0, false>(&mut sums1, left1[k0], &right);
                    add_products::<T, N0, false>(&mut sums2, left2[k0], &right);
                    add_products::<T, N0, false>(&mut sums3, left3[k0], &right);
                }
            }
            *out = [sums0, sums1, sums2, sums3].map(|sums| sums.map(T::to_bytes));
        }
    }

    /// A tile of any size, one sum after another.
    #[inline(always)]
    fn any(&self, out: &mut [[u8; 4]], fused: bool) {
        let [m0, n0, k0] = self.tile;
        for i0 in 0..m0 {
            for j0 in 0..n0 {
                let out = &mut out[i0 * n0 + j0];
                let [mut sum] = start::<T, 1>(self.accumulates, [*out]);
                if k0 > 0 {
                    let panels = self.lhs.chunks_exact(m0 * k0).zip(self.rhs.chunks_exact(n0 * k0));
                    for (lhs, rhs) in panels {
                        let (lhs, rhs) = (&lhs[i0 * k0..][..k0], &rhs[j0 * k0..][..k0]);
                        for (left, right) in lhs.iter().zip(rhs) {
                            sum = T::add_product(sum, T::widen(*left), T::widen(*right), fused);
                        }
                    }
                }
                *out = T::to_bytes(sum);
            }
        }
    }
}

/// Adds the products of one left element with a row of right elements.
#[inline(always)]
fn add_products<T: Number, const N0: usize, const FUSED: bool>(
    sums: &mut [T::Wide; N0],
    left: T::Bytes,
    right: &[T::Wide; N0],
) {
    for (sum, right) in sums.iter_mut().zip(right) {
        *sum = T::add_product(*sum, T::widen(left), *right, FUSED);
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{Memory, Random};
    use super::*;

    struct Case {
        tiles: [usize; 3],
        tile: [usize; 3],
        /// Elements between the rows of the operands.
        gaps: [usize; 3],
        flags: u32,
    }

    impl Case {
        fn random(random: &mut Random, kind: u32) -> Self {
            const TILES: [[usize; 3]; 10] = [
                [16, 16, 1],
                [8, 8, 1],
                [8, 4, 1],
                [16, 16, 2],
                [8, 8, 2],
                [8, 4, 2],
                [8, 8, 4],
                [1, 16, 1],
                [3, 5, 7],
                [4, 8, 1],
            ];
            let accumulate = if random.below(2) == 0 { 0 } else { ACCUMULATE };
            Self {
                tiles: [
                    random.below(4) + random.below(8) / 7 * 16,
                    random.below(5),
                    random.below(6) + random.below(8) / 7 * 255,
                ],
                tile: TILES[random.below(TILES.len())],
                gaps: [random.below(3), random.below(3), random.below(3)],
                flags: kind | accumulate | 0x600,
            }
        }

        fn strides(&self) -> [usize; 3] {
            let ([_, n, k], [m0, n0, k0]) = (self.tiles, self.tile);
            let rows = [k * m0 * k0, k * n0 * k0, n * m0 * n0];
            [0, 1, 2].map(|at| rows[at] + self.gaps[at])
        }

        fn run(&self, memory: &[Memory; 3]) -> Result<()> {
            let [lhs, rhs, out] =
                [memory[0].operand("lhs"), memory[1].operand("rhs"), memory[2].operand("out")];
            Mmt4d {
                lhs,
                rhs,
                out,
                tiles: self.tiles.map(|count| count as i64),
                tile: self.tile.map(|size| size as i32),
                flags: self.flags,
            }
            .run(&mut Scratch::default())
        }

        /// Calls `each` with the index of every output and those of the operands of its products, in order.
        fn each_sum(&self, mut each: impl FnMut(usize, &[(usize, usize)])) {
            let ([m, n, k], [m0, n0, k0], [ls, rs, os]) = (self.tiles, self.tile, self.strides());
            let mut products = Vec::new();
            for (i, j, i0, j0) in
                (0..m * n * m0 * n0).map(|at| (at / (n * m0 * n0), at / (m0 * n0) % n, at / n0 % m0, at % n0))
            {
                products.clear();
                for (d, d0) in (0..k * k0).map(|at| (at / k0, at % k0)) {
                    let left = i * ls + (d * m0 + i0) * k0 + d0;
                    products.push((left, j * rs + (d * n0 + j0) * k0 + d0));
                }
                each(i * os + (j * m0 + i0) * n0 + j0, &products);
            }
        }

        fn memory(&self, contents: &mut impl FnMut(usize) -> Vec<u8>) -> [Memory; 3] {
            let counts = [self.tiles[0], self.tiles[1], self.tiles[0]];
            let strides = self.strides();
            [0, 1, 2]
                .map(|at| Memory::from_bytes(&contents(counts[at] * strides[at] + 4), [strides[at], 1], 0))
        }
    }

    #[test]
    fn products_of_f32_match_a_plain_loop_bit_by_bit() {
        let mut random = Random::new(5);
        for _ in 0..150 {
            let case = Case::random(&mut random, TYPE_F32);
            let mut values = |count: usize| {
                (0..count).flat_map(|_| (random.below(2000) as f32 / 7.0 - 140.0).to_ne_bytes()).collect()
            };
            let memory = case.memory(&mut values);
            let before = memory[2].elements();
            let (lhs, rhs) = (memory[0].elements(), memory[1].elements());
            let mut expected = before.clone();
            let [m0, n0, k0] = case.tile;
            let has_kernel = k0 == 1 && [1, 2, 4, 8, 16].contains(&m0) && m0 <= n0 && [8, 16].contains(&n0);
            let fused = has_kernel && platform::has_fused_vectors(n0);
            case.each_sum(|out, products| {
                let mut sum = if case.flags & ACCUMULATE != 0 { f32::from_bits(before[out]) } else { 0.0 };
                for (left, right) in products {
                    let (left, right) = (f32::from_bits(lhs[*left]), f32::from_bits(rhs[*right]));
                    sum = if fused { left.mul_add(right, sum) } else { left * right + sum };
                }
                expected[out] = sum.to_bits();
            });
            case.run(&memory).unwrap();
            assert_eq!(memory[2].elements(), expected, "{:?} {:?}", case.tiles, case.tile);
        }
    }

    #[test]
    fn products_of_i8_match_a_plain_loop() {
        let mut random = Random::new(6);
        for _ in 0..150 {
            let case = Case::random(&mut random, TYPE_I8);
            let mut bytes = |count: usize| random.bytes(4 * count);
            let memory = case.memory(&mut bytes);
            let (lhs, rhs, before) = (memory[0].bytes(), memory[1].bytes(), memory[2].elements());
            let mut expected = before.clone();
            case.each_sum(|out, products| {
                let start = if case.flags & ACCUMULATE != 0 { i64::from(before[out]) } else { 0 };
                let product = |(l, r): &(usize, usize)| i64::from(lhs[*l] as i8) * i64::from(rhs[*r] as i8);
                expected[out] = (start + products.iter().map(product).sum::<i64>()) as u32;
            });
            case.run(&memory).unwrap();
            assert_eq!(memory[2].elements(), expected, "{:?} {:?}", case.tiles, case.tile);
        }
    }

    #[test]
    fn malformed_multiplications_are_rejected() {
        let mut random = Random::new(7);
        let case = |tiles, tile, flags| Case { tiles, tile, gaps: [0; 3], flags };
        let good = case([2, 2, 2], [8, 8, 1], TYPE_F32);
        let mut values = |count: usize| random.bytes(4 * count);
        let memory = good.memory(&mut values);
        assert!(good.run(&memory).is_ok());
        for (bad, why) in [
            (case([2, 2, 2], [8, 8, 1], 0), "unknown multiplication"),
            (case([2, 2, 2], [8, 8, 1], 3), "unknown multiplication"),
            (case([2, 2, 2], [8, 8, 1], TYPE_F32 | 0x800), "unknown multiplication"),
            (case([2, 2, 3], [8, 8, 1], TYPE_F32), "operand 'lhs' needs"),
            (case([2, 3, 2], [8, 8, 1], TYPE_F32), "operand 'rhs' needs"),
            (case([2, 2, 0], [8, 18, 1], TYPE_F32), "operand 'out' needs"),
            (case([2, 2, 2], [8, 8, 0x8000], TYPE_F32), "above 32767"),
            (case([1 << 31, 2, 2], [0, 8, 1], TYPE_F32), "above 2147483647"),
            (case([usize::MAX, 0, 0], [8, 8, 1], TYPE_F32), "negative"),
        ] {
            let error = bad.run(&memory).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(why), "{error:?} does not contain {why:?}");
        }
        // Without products, the output is zero or unchanged.
        case([2, 2, 0], [8, 8, 1], TYPE_F32 | ACCUMULATE).run(&memory).unwrap();
        case([2, 2, 0], [8, 8, 1], TYPE_F32).run(&memory).unwrap();
        assert!(memory[2].elements()[..256].iter().all(|element| *element == 0));
    }
}
