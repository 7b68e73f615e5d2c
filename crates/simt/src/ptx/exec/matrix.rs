//! Matrices in the registers of a warp.
//!
//! Source: the PTX ISA, "Matrix Fragments for mma". The layouts of all shapes follow one rule: with `e`
//! elements in a register, lane `4 g + t` has in register `r` of A the elements of row `g + 8 (r mod 2)`,
//! from column `e t + 4 e (r / 2)`; in register `r` of B those of column `g`, from row `e t + 4 e r`; and in
//! element `i` of C and D row `g + 8 (i / 2)`, column `2 t + i mod 2`.
//!
//! Products are exact or rounded to `f32`, and summed in `f32` in the order of `k`; the sum is then added to
//! the accumulator. Hardware sums in another order, which the vendor does not document.

use super::super::op::{Matrix, Place};
use super::super::types::Type;
use super::lanes::{LANES, Step, Warp};
use crate::engine::BlockMemory;
use crate::numbers::{F16, Rounding, canonical, from_bf16, from_f16};

/// Rows of A and columns of A or rows of B, at most.
const M: usize = 16;
const K: usize = 32;
const N: usize = 8;

/// Registers of each operand in the list: d, a, b and c.
struct Fragments<'a> {
    d: &'a [u32],
    a: &'a [u32],
    b: &'a [u32],
    c: &'a [u32],
}

impl Warp {
    pub(super) fn mma(&mut self, matrix: &Matrix, step: Step<'_>) {
        let [d, a, b, c] = matrix.registers().map(|it| it.1);
        let list = step.list(d + a + b + c);
        let (d, rest) = list.split_at(d);
        let (a, rest) = rest.split_at(a);
        let (b, c) = rest.split_at(b);
        let fragments = Fragments { d, a, b, c };
        match matrix.a {
            Type::F64 => self.mma_double(matrix, &fragments),
            Type::S8 | Type::U8 => self.mma_bytes(matrix, &fragments),
            _ => self.mma_single(matrix, &fragments),
        }
    }

    /// Calls `f` with row, column and register bits of each element of A (or of B, whose rows are columns),
    /// and the element's place in them.
    fn elements(
        &self,
        registers: &[u32],
        per: usize,
        is_a: bool,
        mut f: impl FnMut(usize, usize, u32, usize),
    ) {
        for (index, reg) in registers.iter().enumerate() {
            let values = &self.short[*reg as usize];
            for (lane, value) in values.iter().enumerate() {
                let (g, t) = (lane / 4, lane % 4);
                let (row, block) = if is_a { (g + 8 * (index % 2), index / 2) } else { (g, index) };
                for element in 0..per {
                    f(row, per * t + 4 * per * block + element, *value, element);
                }
            }
        }
    }

    fn mma_single(&mut self, matrix: &Matrix, fragments: &Fragments<'_>) {
        let value = |bits: u32, element: usize| match matrix.a {
            Type::F16 => from_f16(bits >> (16 * element) & 0xffff),
            Type::Bf16 => from_bf16(bits >> (16 * element) & 0xffff),
            // The low bits of tf32 are not read.
            _ => f32::from_bits(bits & !0x1fff),
        };
        let per = if matrix.a == Type::Tf32 { 1 } else { 2 };
        let (mut a, mut b) = ([[0.0; K]; M], [[0.0; N]; K]);
        self.elements(fragments.a, per, true, |row, column, bits, it| a[row][column] = value(bits, it));
        self.elements(fragments.b, per, false, |column, row, bits, it| b[row][column] = value(bits, it));
        let mut sums = [[0.0_f32; N]; M];
        for (sums, a) in sums.iter_mut().zip(&a) {
            for (a, b) in a.iter().zip(&b).take(matrix.k.into()) {
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum += a * b;
                }
            }
        }
        // C may be in the registers of D, in another order.
        let c: Vec<_> = fragments.c.iter().map(|it| self.short[*it as usize]).collect();
        for (index, reg) in fragments.d.iter().enumerate() {
            let mut out = [0; LANES];
            for (lane, out) in out.iter_mut().enumerate() {
                let (g, t) = (lane / 4, lane % 4);
                let accumulator = |element: usize| match matrix.c {
                    Type::F16 => from_f16(c[element / 2][lane] >> (16 * (element % 2)) & 0xffff),
                    _ => f32::from_bits(c[element][lane]),
                };
                let result =
                    |element: usize| sums[g + 8 * (element / 2)][2 * t + element % 2] + accumulator(element);
                let half = |value: f32| F16.round(value.into(), Rounding::Nearest);
                *out = match matrix.d {
                    Type::F16 => half(result(2 * index)) | half(result(2 * index + 1)) << 16,
                    _ => canonical(result(index)),
                };
            }
            self.short[*reg as usize] = out;
        }
    }

    fn mma_bytes(&mut self, matrix: &Matrix, fragments: &Fragments<'_>) {
        let value = |kind: Type, bits: u32, element: usize| {
            let byte = (bits >> (8 * element)) as u8;
            if kind == Type::S8 { i32::from(byte as i8) } else { byte.into() }
        };
        let (of_a, of_b) = (|bits, it| value(matrix.a, bits, it), |bits, it| value(matrix.b, bits, it));
        let (mut a, mut b) = ([[0; K]; M], [[0; N]; K]);
        self.elements(fragments.a, 4, true, |row, column, bits, it| a[row][column] = of_a(bits, it));
        self.elements(fragments.b, 4, false, |column, row, bits, it| b[row][column] = of_b(bits, it));
        let c: Vec<_> = fragments.c.iter().map(|it| self.short[*it as usize]).collect();
        for (index, reg) in fragments.d.iter().enumerate() {
            for lane in 0..LANES {
                let (row, column) = (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2);
                let products =
                    (0..usize::from(matrix.k)).map(|k| i64::from(a[row][k]) * i64::from(b[k][column]));
                let sum = products.sum::<i64>() + i64::from(c[index][lane] as i32);
                let clamped = sum.clamp(i32::MIN.into(), i32::MAX.into());
                self.short[*reg as usize][lane] = if matrix.sat { clamped as u32 } else { sum as u32 };
            }
        }
    }

    fn mma_double(&mut self, matrix: &Matrix, fragments: &Fragments<'_>) {
        let of = |registers: &[u32]| registers.iter().map(|it| self.long[*it as usize]).collect::<Vec<_>>();
        let (a, b, c) = (of(fragments.a), of(fragments.b), of(fragments.c));
        let rows = usize::from(matrix.m) / 8;
        for (index, reg) in fragments.d.iter().enumerate() {
            for lane in 0..LANES {
                let (row, column) = (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2);
                let mut sum = f64::from_bits(c[index][lane]);
                for k in 0..usize::from(matrix.k) {
                    let from_a = a[k / 4 * rows + row / 8][row % 8 * 4 + k % 4];
                    let from_b = b[k / 4][column * 4 + k % 4];
                    sum = f64::from_bits(from_a).mul_add(f64::from_bits(from_b), sum);
                }
                self.long[*reg as usize][lane] = sum.to_bits();
            }
        }
    }

    /// "ldmatrix": lane `8 i + r` has the address of row `r` of matrix `i`.
    pub(super) fn load_matrix(
        &mut self,
        count: u8,
        transposed: bool,
        step: Step<'_>,
        memory: &mut BlockMemory<'_>,
    ) {
        for (index, reg) in step.list(2 + usize::from(count))[2..].iter().enumerate() {
            let mut rows = [[0; 16]; 8];
            for (row, bytes) in rows.iter_mut().enumerate() {
                let lane = 8 * index + row;
                *bytes = memory.load::<16>(Place::Shared, self.row_address(step, lane), step.site(lane));
            }
            self.short[*reg as usize] = std::array::from_fn(|lane| {
                let half = |element: usize| {
                    let (row, column) = place_of(lane, element, transposed);
                    u32::from(u16::from_le_bytes([rows[row][2 * column], rows[row][2 * column + 1]]))
                };
                half(0) | half(1) << 16
            });
        }
    }

    pub(super) fn store_matrix(
        &mut self,
        count: u8,
        transposed: bool,
        step: Step<'_>,
        memory: &mut BlockMemory<'_>,
    ) {
        for (index, reg) in step.list(2 + usize::from(count))[2..].iter().enumerate() {
            let mut rows = [[0; 16]; 8];
            for (lane, value) in self.short[*reg as usize].iter().enumerate() {
                for element in 0..2 {
                    let (row, column) = place_of(lane, element, transposed);
                    let half = (value >> (16 * element)) as u16;
                    rows[row][2 * column..][..2].copy_from_slice(&half.to_le_bytes());
                }
            }
            for (row, bytes) in rows.into_iter().enumerate() {
                let lane = 8 * index + row;
                memory.store(Place::Shared, self.row_address(step, lane), bytes, step.site(lane));
            }
        }
    }

    fn row_address(&self, step: Step<'_>, lane: usize) -> u64 {
        let [offset, is_short] = [0, 1].map(|it| step.list(2)[it]);
        let address = self.get(is_short == 0, step.inst.a, lane).wrapping_add(offset as i32 as u64);
        if is_short == 0 { address } else { (address as u32).into() }
    }

    /// The transpose of a matrix of 8 by 8 elements of 16 bits.
    pub(super) fn move_matrix(&mut self, step: Step<'_>) {
        let source = self.short[step.inst.a as usize];
        self.short[step.inst.d as usize] = std::array::from_fn(|lane| {
            let half = |element: usize| {
                let (row, column) = place_of(lane, element, true);
                source[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff
            };
            half(0) | half(1) << 16
        });
    }
}

/// The row and the column of an element of a lane's register, in a matrix of 8 by 8.
fn place_of(lane: usize, element: usize, transposed: bool) -> (usize, usize) {
    let (major, minor) = (lane / 4, 2 * (lane % 4) + element);
    if transposed { (minor, major) } else { (major, minor) }
}
