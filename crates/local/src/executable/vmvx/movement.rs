//! Copies and fills in two dimensions.

use rehal_base::{Error, Result};

use super::span::{Elements, ElementsMut, Grid, Operand, Scratch, with_elements};
use crate::platform::{self, VectorWork};

/// Copies `sizes` elements of `element_bytes` (1, 2, 4 or 8): `out[i][j] = input[i][j]`.
pub(super) fn copy(
    element_bytes: usize,
    input: Operand<'_>,
    out: Operand<'_>,
    sizes: [i64; 2],
    scratch: &mut Scratch,
) -> Result<()> {
    let (input, out) = (input.input(element_bytes, sizes)?, out.output(element_bytes, sizes)?);
    if out.is_empty() {
        return Ok(());
    }
    match element_bytes {
        1 => copy_elements::<1>(input, out, scratch),
        2 => copy_elements::<2>(input, out, scratch),
        4 => copy_elements::<4>(input, out, scratch),
        8 => copy_elements::<8>(input, out, scratch),
        _ => {
            Err(Error::invalid_argument(format!("unsupported element size in a copy: {element_bytes} bytes")))
        }
    }
}

/// Sets `sizes` 4-byte elements to `value`.
pub(super) fn fill(value: [u8; 4], out: Operand<'_>, sizes: [i64; 2], scratch: &mut Scratch) -> Result<()> {
    let out = out.output(4, sizes)?;
    if out.is_empty() {
        return Ok(());
    }
    with_elements::<4, 4, _>([out.nothing::<4>(); 2], out, scratch, |_, mut elements| {
        let [rows, columns] = out.sizes;
        for row in 0..rows {
            match out.strides[1] {
                1 => elements.line([row, 0], columns).fill(value),
                _ => (0..columns).for_each(|column| elements.set([row, column], value)),
            }
        }
        Ok(())
    })
}

fn copy_elements<const N: usize>(input: Grid<'_>, out: Grid<'_>, scratch: &mut Scratch) -> Result<()> {
    with_elements::<N, N, _>([input, out.nothing::<N>()], out, scratch, |[from, _], to| {
        let [rows, columns] = out.sizes;
        // Rows of the output are written in one piece if possible.
        if out.strides[0] == 1 && out.strides[1] != 1 {
            copy_rows(from.transposed(), to.transposed(), [columns, rows]);
        } else {
            copy_rows(from, to, [rows, columns]);
        }
        Ok(())
    })
}

fn copy_rows<T: Copy>(from: Elements<'_, T>, mut to: ElementsMut<'_, T>, [rows, columns]: [usize; 2]) {
    if from.strides()[0] == 1 && from.strides()[1] > 1 && to.strides()[1] == 1 {
        return transpose(from.transposed(), to, [rows, columns]);
    }
    if from.strides()[1] == 1 && to.strides()[1] == 1 {
        // Rows of a microkernel's tile, usually.
        return match columns {
            16 => platform::with_vectors(CopyRows::<_, 16> { from, to, rows }),
            32 => platform::with_vectors(CopyRows::<_, 32> { from, to, rows }),
            64 => platform::with_vectors(CopyRows::<_, 64> { from, to, rows }),
            _ => (0..rows)
                .for_each(|row| to.line([row, 0], columns).copy_from_slice(from.line([row, 0], columns))),
        };
    }
    for row in 0..rows {
        let at = [row, 0];
        match (from.strides()[1], to.strides()[1]) {
            (0, 1) => to.line(at, columns).fill(from.get(at)),
            _ => (0..columns).for_each(|column| to.set([row, column], from.get([row, column]))),
        }
    }
}

/// Copies rows of `N` contiguous elements: no call per row.
struct CopyRows<'a, T, const N: usize> {
    from: Elements<'a, T>,
    to: ElementsMut<'a, T>,
    rows: usize,
}

impl<T: Copy, const N: usize> VectorWork for CopyRows<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(mut self, _fuses: bool) {
        let from = self.from.block::<N>([0, 0], self.rows);
        self.to.block::<N>([0, 0], self.rows).zip(from).for_each(|(to, from)| *to = *from);
    }
}

/// Rows and columns of the blocks of a transposition. A cache line of the input, of which a block reads a
/// part, stays in the cache until the block is done: a row of the output reads as many lines as it has
/// elements.
const BLOCK: usize = 16;

/// Copies the columns of the input to the rows of the output, which has these sizes. Rows of both are
/// contiguous.
fn transpose<T: Copy>(from: Elements<'_, T>, mut to: ElementsMut<'_, T>, [rows, columns]: [usize; 2]) {
    for first_row in (0..rows).step_by(BLOCK) {
        for first in (0..columns).step_by(BLOCK) {
            let (height, width) = (BLOCK.min(rows - first_row), BLOCK.min(columns - first));
            let source = |at: usize| from.line([first + at.min(width - 1), first_row], height);
            let sources: [&[T]; BLOCK] = std::array::from_fn(source);
            for row in 0..height {
                let line = to.line([first_row + row, first], width);
                for (element, source) in line.iter_mut().zip(&sources) {
                    *element = source[row];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{Memory, Random};
    use super::*;

    #[test]
    fn copies_match_a_plain_loop_for_any_shape_and_width() {
        let mut random = Random::new(3);
        let mut scratch = Scratch::default();
        for width in [1, 2, 4, 8] {
            for _ in 0..60 {
                let sizes = random.sizes();
                let memory = [random.memory(width, sizes, true), random.memory(width, sizes, false)];
                let mut expected = memory[1].bytes();
                memory[0].for_each(sizes, |at, index| {
                    let (from, to) = (index * width, memory[1].index(at) * width);
                    expected[to..to + width].copy_from_slice(&memory[0].bytes()[from..from + width]);
                });
                copy(width, memory[0].operand("in"), memory[1].operand("out"), sizes, &mut scratch).unwrap();
                assert_eq!(memory[1].bytes(), expected);
            }
        }
        let memory = random.memory(4, [2, 2], false);
        assert!(copy(3, memory.operand("in"), memory.operand("out"), [2, 2], &mut scratch).is_err());
    }

    #[test]
    fn fills_match_a_plain_loop_for_any_shape() {
        let mut random = Random::new(4);
        let mut scratch = Scratch::default();
        for _ in 0..60 {
            let sizes = random.sizes();
            let memory = random.memory(4, sizes, false);
            let mut expected = memory.elements();
            memory.for_each(sizes, |_, index| expected[index] = 0x0403_0201);
            fill([1, 2, 3, 4], memory.operand("out"), sizes, &mut scratch).unwrap();
            assert_eq!(memory.elements(), expected);
        }
    }

    /// Copies columns of matrices with 16 columns on one thread each: the first column of the source and of
    /// the target.
    fn copy_columns_concurrently(copies: [[(&Memory, usize); 2]; 2]) {
        std::thread::scope(|scope| {
            for [(source, from), (target, to)] in copies {
                scope.spawn(move || {
                    let [source, target] =
                        [(source, from), (target, to)].map(|(it, offset)| Memory { offset, ..it.clone() });
                    let mut scratch = Scratch::default();
                    copy(4, source.operand("in"), target.operand("out"), [3, 4], &mut scratch).unwrap();
                });
            }
        });
    }

    #[test]
    fn threads_access_interleaved_operands_without_a_data_race() {
        // Under Miri, a slice with elements of the other thread would be reported.
        let matrix = |first| Memory::of_u32(&Vec::from_iter(first..first + 48), [16, 1], 0);
        let (one, other) = (matrix(0), matrix(100));
        copy_columns_concurrently([[(&one, 0), (&other, 0)], [(&other, 4), (&one, 4)]]);
        copy_columns_concurrently([[(&one, 8), (&one, 12)], [(&one, 0), (&other, 12)]]);
        for row in 0..3 {
            let rows = [&one, &other].map(|it| it.elements()[16 * row..][..16].to_vec());
            let at = |first: u32| (first..first + 4).map(|element| element + 16 * row as u32);
            let expected =
                [[0, 104, 8, 8], [0, 104, 108, 0]].map(|it| Vec::from_iter(it.into_iter().flat_map(at)));
            assert_eq!(rows, expected);
        }
    }

    #[test]
    fn overlapping_copies_read_before_they_write() {
        let memory = Memory::of_u32(&[1, 2, 3, 4], [4, 1], 0);
        let shifted = Memory { offset: 1, ..memory.clone() };
        let mut scratch = Scratch::default();
        copy(4, memory.operand("in"), shifted.operand("out"), [1, 3], &mut scratch).unwrap();
        assert_eq!(memory.elements(), [1, 1, 2, 3]);
    }
}
