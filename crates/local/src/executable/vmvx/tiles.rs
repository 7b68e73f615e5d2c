//! Packing of matrices into tiles, and back.

use rehal_base::{Error, Result};

use super::span::{Operand, Scratch, with_bytes};

/// What the flags say (source: `iree/builtins/ukernel/exported_bits.h`).
const TYPE_MASK: u32 = 0xFF;
const TYPE_F32: u32 = 1;
const TYPE_I8: u32 = 2;
const TYPE_I32: u32 = 3;
const TRANSPOSE_INNER: u32 = 0x100;
const TRANSPOSE_OUTER: u32 = 0x200;

/// A matrix and its tiled form, as a program names them; nothing is checked yet.
///
/// The tiled side is `[outer0][outer1][tile0][tile1]`, with a stride for its first dimension and the
/// others contiguous. Tile `(i, j)` covers rows `i * tile0..` and columns `j * tile1..` of the matrix;
/// one flag exchanges the meaning of the two outer dimensions, another that of the inner ones.
pub(super) struct Tiling<'a> {
    /// With a stride for each dimension.
    pub(super) matrix: Operand<'a>,
    /// With a stride for the first dimension; the second is not looked at.
    pub(super) tiled: Operand<'a>,
    /// Rows and columns of the matrix.
    pub(super) sizes: [i64; 2],
    pub(super) tiled_sizes: [i64; 4],
    pub(super) flags: u32,
}

impl Tiling<'_> {
    /// Writes the tiled form. Where tiles go beyond the matrix they get `padding`, of which the low
    /// bytes count.
    pub(super) fn pack(self, padding: u64, scratch: &mut Scratch) -> Result<()> {
        let width = match self.flags & TYPE_MASK {
            TYPE_F32 | TYPE_I32 => 4,
            TYPE_I8 => 1,
            _ => return Err(unknown_flags(self.flags)),
        };
        let (layout, tiled_sizes) = self.layout()?;
        let matrix = self.matrix.input(width, self.sizes)?;
        let tiled = self.tiled.output(width, tiled_sizes)?;
        if tiled.is_empty() {
            return Ok(());
        }
        let strides = (matrix.strides, tiled.strides[0]);
        with_bytes([matrix.region, tiled.region.empty()], tiled.region, scratch, |[matrix, _], tiled| {
            match width {
                4 => layout.pack::<4>(strides, matrix, tiled, padding),
                _ => layout.pack::<1>(strides, matrix, tiled, padding),
            }
            Ok(())
        })
    }

    /// Writes the matrix from its tiled form.
    pub(super) fn unpack(self, scratch: &mut Scratch) -> Result<()> {
        if !matches!(self.flags & TYPE_MASK, TYPE_F32 | TYPE_I32) {
            return Err(unknown_flags(self.flags));
        }
        let (layout, tiled_sizes) = self.layout()?;
        let tiled = self.tiled.input(4, tiled_sizes)?;
        let matrix = self.matrix.output(4, self.sizes)?;
        if matrix.is_empty() || tiled.is_empty() {
            return Ok(());
        }
        let strides = (matrix.strides, tiled.strides[0]);
        with_bytes([tiled.region, matrix.region.empty()], matrix.region, scratch, |[tiled, _], matrix| {
            layout.unpack(strides, tiled, matrix);
            Ok(())
        })
    }

    /// The layout, and the sizes of the tiled side in two dimensions. Fails where a number is
    /// negative or overflows, and where the tiles do not cover the matrix.
    fn layout(&self) -> Result<(Layout, [i64; 2])> {
        if self.flags & !(TYPE_MASK | TRANSPOSE_INNER | TRANSPOSE_OUTER) != 0 {
            return Err(unknown_flags(self.flags));
        }
        let [outer0, outer1, tile0, tile1] = self.tiled_sizes;
        let layout = Layout {
            sizes: self.sizes.map(|size| usize::try_from(size).unwrap_or_default()),
            outer: [outer0, outer1].map(|size| usize::try_from(size).unwrap_or_default()),
            tile: [tile0, tile1].map(|size| usize::try_from(size).unwrap_or_default()),
            transposes_inner: self.flags & TRANSPOSE_INNER != 0,
            transposes_outer: self.flags & TRANSPOSE_OUTER != 0,
        };
        let row = outer1.checked_mul(tile0).and_then(|row| row.checked_mul(tile1));
        let (outer, tile) = (layout.outer_of_matrix(), layout.tile_of_matrix());
        let covered = |at: usize| outer[at].checked_mul(tile[at]);
        let (Some(row), Some(rows), Some(columns)) = (row, covered(0), covered(1)) else {
            return Err(Error::invalid_argument(format!("tiled sizes {:?} overflow", self.tiled_sizes)));
        };
        if self.sizes.iter().chain(&self.tiled_sizes).any(|size| *size < 0) {
            return Err(Error::invalid_argument(format!(
                "a size is negative: {:?}, tiled {:?}",
                self.sizes, self.tiled_sizes
            )));
        }
        if rows < layout.sizes[0] || columns < layout.sizes[1] {
            return Err(Error::invalid_argument(format!(
                "tiles of {rows} by {columns} elements do not cover a matrix of {} by {}",
                layout.sizes[0], layout.sizes[1]
            )));
        }
        Ok((layout, [outer0, row]))
    }
}

fn unknown_flags(flags: u32) -> Error {
    Error::invalid_argument(format!("a tiling of unknown kind (flags 0x{flags:x})"))
}

/// Where the elements of a matrix are in its tiled form; checked.
struct Layout {
    sizes: [usize; 2],
    outer: [usize; 2],
    tile: [usize; 2],
    transposes_inner: bool,
    transposes_outer: bool,
}

/// A line of a tile: `tile1` neighbours there, and where they are in the matrix.
struct Line {
    /// Place of its first element in the tiled form.
    tiled: usize,
    /// Place of its first element in the matrix.
    matrix: usize,
    /// Number of its elements that are in the matrix.
    count: usize,
}

impl Layout {
    /// Numbers of tiles along rows and columns of the matrix.
    fn outer_of_matrix(&self) -> [usize; 2] {
        let [first, second] = self.outer;
        if self.transposes_outer { [second, first] } else { [first, second] }
    }

    /// Size of a tile along rows and columns of the matrix.
    fn tile_of_matrix(&self) -> [usize; 2] {
        let [first, second] = self.tile;
        if self.transposes_inner { [second, first] } else { [first, second] }
    }

    fn pack<const N: usize>(
        &self,
        strides: ([usize; 2], usize),
        matrix: &[u8],
        tiled: &mut [u8],
        padding: u64,
    ) {
        let (matrix, tiled) = (matrix.as_chunks::<N>().0, tiled.as_chunks_mut::<N>().0);
        let mut padding_bytes = [0; N];
        padding_bytes.copy_from_slice(&padding.to_le_bytes()[..N]);
        let step = self.step(strides.0);
        self.each_line(strides, |line| {
            let (inside, outside) = tiled[line.tiled..][..self.tile[1]].split_at_mut(line.count);
            outside.fill(padding_bytes);
            match step {
                1 if line.count > 0 => inside.copy_from_slice(&matrix[line.matrix..][..line.count]),
                _ => inside
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, element)| *element = matrix[line.matrix + at * step]),
            }
        });
    }

    fn unpack(&self, strides: ([usize; 2], usize), tiled: &[u8], matrix: &mut [u8]) {
        let (tiled, matrix) = (tiled.as_chunks::<4>().0, matrix.as_chunks_mut::<4>().0);
        let step = self.step(strides.0);
        self.each_line(strides, |line| {
            let inside = &tiled[line.tiled..][..line.count];
            match step {
                1 if line.count > 0 => matrix[line.matrix..][..line.count].copy_from_slice(inside),
                _ => inside
                    .iter()
                    .enumerate()
                    .for_each(|(at, element)| matrix[line.matrix + at * step] = *element),
            }
        });
    }

    /// How far neighbours in a line of a tile are apart in the matrix.
    fn step(&self, [row, column]: [usize; 2]) -> usize {
        if self.transposes_inner { row } else { column }
    }

    /// Calls `each` for every line of every tile.
    fn each_line(&self, (matrix, tiled): ([usize; 2], usize), mut each: impl FnMut(Line)) {
        let ([outer0, outer1], [tile0, tile1]) = (self.outer, self.tile);
        let [tile_rows, tile_columns] = self.tile_of_matrix();
        for o0 in 0..outer0 {
            for o1 in 0..outer1 {
                let (i, j) = if self.transposes_outer { (o1, o0) } else { (o0, o1) };
                for t0 in 0..tile0 {
                    let [row, column] = match self.transposes_inner {
                        true => [i * tile_rows, j * tile_columns + t0],
                        false => [i * tile_rows + t0, j * tile_columns],
                    };
                    let is_inside = row < self.sizes[0] && column < self.sizes[1];
                    let left = match self.transposes_inner {
                        true => self.sizes[0].saturating_sub(row),
                        false => self.sizes[1].saturating_sub(column),
                    };
                    each(Line {
                        tiled: o0 * tiled + (o1 * tile0 + t0) * tile1,
                        // Places outside of the matrix may overflow; nobody goes there.
                        matrix: if is_inside { row * matrix[0] + column * matrix[1] } else { 0 },
                        count: if is_inside { left.min(tile1) } else { 0 },
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::{Memory, Random};
    use super::*;

    struct Case {
        matrix: Memory,
        tiled: Memory,
        sizes: [i64; 2],
        tiled_sizes: [i64; 4],
        flags: u32,
    }

    impl Case {
        /// Tiles that cover a matrix, with up to one tile too many in each dimension.
        fn random(random: &mut Random, width: usize, flags: u32) -> Self {
            let sizes = random.sizes();
            let matrix = random.memory(width, sizes, false);
            let tile = [1 + random.below(9), 1 + random.below(9)];
            let flags = flags | (random.below(4) as u32) << 8;
            let swap = |flag: u32, [a, b]: [usize; 2]| if flags & flag != 0 { [b, a] } else { [a, b] };
            let tile_of_matrix = swap(TRANSPOSE_INNER, tile);
            let outer = [0, 1].map(|at| (sizes[at] as usize).div_ceil(tile_of_matrix[at]) + random.below(2));
            let outer = swap(TRANSPOSE_OUTER, outer);
            let stride = outer[1] * tile[0] * tile[1] + random.below(3);
            let bytes = 0..(outer[0] * stride * width).next_multiple_of(4) + 4;
            let bytes: Vec<u8> = bytes.map(|_| random.next() as u8).collect();
            let tiled = Memory::of_bytes(&bytes, [stride, 1], random.below(2) * (4 / width));
            let tiled_sizes = [outer[0], outer[1], tile[0], tile[1]].map(|size| size as i64);
            Self { matrix, tiled, sizes, tiled_sizes, flags }
        }

        fn tiling(&self) -> Tiling<'_> {
            Tiling {
                matrix: self.matrix.operand("matrix"),
                tiled: self.tiled.operand("tiled"),
                sizes: self.sizes,
                tiled_sizes: self.tiled_sizes,
                flags: self.flags,
            }
        }

        /// For every element of the tiled form, its place there and its row and column.
        fn each(&self, mut each: impl FnMut(usize, [usize; 2])) {
            let [outer0, outer1, tile0, tile1] = self.tiled_sizes.map(|size| size as usize);
            for (o0, o1) in (0..outer0 * outer1).map(|at| (at / outer1, at % outer1)) {
                for (t0, t1) in (0..tile0 * tile1).map(|at| (at / tile1, at % tile1)) {
                    let (i, j) = if self.flags & TRANSPOSE_OUTER != 0 { (o1, o0) } else { (o0, o1) };
                    let at = match self.flags & TRANSPOSE_INNER != 0 {
                        true => [i * tile1 + t1, j * tile0 + t0],
                        false => [i * tile0 + t0, j * tile1 + t1],
                    };
                    let place = self.tiled.index([o0, 0]) + (o1 * tile0 + t0) * tile1 + t1;
                    each(place, at);
                }
            }
        }

        fn is_inside(&self, at: [usize; 2]) -> bool {
            (at[0] as i64) < self.sizes[0] && (at[1] as i64) < self.sizes[1]
        }
    }

    #[test]
    fn packing_is_its_definition_on_any_shape() {
        let mut random = Random::new(8);
        for (width, flags) in [(4, TYPE_F32), (4, TYPE_I32), (1, TYPE_I8)] {
            for _ in 0..150 {
                let case = Case::random(&mut random, width, flags);
                let (matrix, mut expected) = (case.matrix.bytes(), case.tiled.bytes());
                let padding: [u8; 8] = [0xA1, 0xB2, 0xC3, 0xD4, 0xE5, 0xF6, 0x07, 0x18];
                case.each(|place, at| {
                    let from = case.matrix.index(at) * width;
                    let value =
                        if case.is_inside(at) { &matrix[from..from + width] } else { &padding[..width] };
                    expected[place * width..(place + 1) * width].copy_from_slice(value);
                });
                case.tiling().pack(u64::from_le_bytes(padding), &mut Scratch::default()).unwrap();
                assert_eq!(case.tiled.bytes(), expected);
            }
        }
    }

    #[test]
    fn unpacking_is_its_definition_on_any_shape() {
        let mut random = Random::new(9);
        for flags in [TYPE_F32, TYPE_I32] {
            for _ in 0..150 {
                let case = Case::random(&mut random, 4, flags);
                let (tiled, mut expected) = (case.tiled.elements(), case.matrix.elements());
                case.each(|place, at| {
                    if case.is_inside(at) {
                        expected[case.matrix.index(at)] = tiled[place];
                    }
                });
                case.tiling().unpack(&mut Scratch::default()).unwrap();
                assert_eq!(case.matrix.elements(), expected);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let memory = Memory::of_bytes(&[0; 256], [4, 1], 0);
        let refusal = |sizes, tiled_sizes, flags| {
            let tiling = || {
                let (matrix, tiled) = (memory.operand("matrix"), memory.operand("tiled"));
                Tiling { matrix, tiled, sizes, tiled_sizes, flags }
            };
            let text = |refused: Result<()>| refused.err().map(|error| error.to_string()).unwrap_or_default();
            let mut scratch = Scratch::default();
            (text(tiling().pack(0, &mut scratch)), text(tiling().unpack(&mut scratch)))
        };
        let both = |(pack, unpack): (String, String), why: &str| {
            assert!(
                pack.contains(why) && unpack.contains(why),
                "{pack:?} or {unpack:?} says nothing of {why:?}"
            );
        };
        both(refusal([4, 4], [2, 2, 2, 2], 0), "unknown kind");
        both(refusal([4, 4], [2, 2, 2, 2], TYPE_F32 | 0x400), "unknown kind");
        assert!(refusal([4, 4], [1, 1, 4, 4], TYPE_I8).1.contains("unknown kind"), "no unpacking of bytes");
        both(refusal([5, 4], [2, 2, 2, 2], TYPE_F32), "do not cover");
        both(refusal([4, -4], [2, 2, 2, 2], TYPE_F32), "negative");
        both(refusal([0, 0], [-1, 2, 2, 2], TYPE_F32), "negative");
        both(refusal([0, 0], [2, i64::MAX, 2, 2], TYPE_F32), "overflow");
        both(refusal([4, 4], [1 << 40, 1, 4, 4], TYPE_F32), "operand 'tiled' needs");
        both(refusal([40, 4], [1, 1, 40, 4], TYPE_F32), "needs 640 bytes");
        // Tiles of no size cover no matrix but an empty one.
        both(refusal([1, 1], [i64::MAX, 1, 0, 4], TYPE_F32), "do not cover");
        assert_eq!(refusal([0, 4], [0, 1, 4, 4], TYPE_F32), Default::default());
    }
}
