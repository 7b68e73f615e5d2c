//! Packing of matrices into tiles, and unpacking.

use std::ops::Range;

use rehal_base::{Error, Result};

use super::span::{Elements, ElementsMut, Grid, Operand, Scratch, with_elements};
use crate::platform::{self, VectorWork};

/// Bits of the flags (source: `iree/builtins/ukernel/exported_bits.h`).
const TYPE_MASK: u32 = 0xFF;
const TYPE_F32: u32 = 1;
const TYPE_I8: u32 = 2;
const TYPE_I32: u32 = 3;
const TRANSPOSE_INNER: u32 = 0x100;
const TRANSPOSE_OUTER: u32 = 0x200;

/// A matrix and its packed form, as a program passes them: unchecked.
///
/// The packed form is `[outer0][outer1][tile0][tile1]`, with a stride for its first dimension and the
/// others contiguous. Tile `(i, j)` covers rows `i * tile0..` and columns `j * tile1..` of the matrix;
/// one flag transposes the two outer dimensions, another the two inner ones.
///
/// If a matrix has more whole tiles than the outer sizes declare, these are packed or unpacked too, beyond
/// the declared packed form, if they are in bounds of the buffer. The reference does so without the bounds
/// check (source: `iree/builtins/ukernel/pack.c`, `unpack.c`), and results of compiled programs that pass the
/// outer sizes in the wrong order depend on it.
pub(super) struct Tiling<'a> {
    /// With a stride for each dimension.
    pub(super) matrix: Operand<'a>,
    /// With a stride for the first dimension; the second is ignored.
    pub(super) tiled: Operand<'a>,
    /// Rows and columns of the matrix.
    pub(super) sizes: [i64; 2],
    pub(super) tiled_sizes: [i64; 4],
    pub(super) flags: u32,
}

impl Tiling<'_> {
    /// Writes the packed form. Elements of tiles outside the matrix are set to the low bytes of `padding`.
    pub(super) fn pack(self, padding: u64, scratch: &mut Scratch) -> Result<()> {
        let width = match self.flags & TYPE_MASK {
            TYPE_F32 | TYPE_I32 => 4,
            TYPE_I8 => 1,
            _ => return Err(unknown_flags(self.flags)),
        };
        let (layout, tiled_sizes) = self.layout()?;
        let matrix = self.matrix.input(width, self.sizes)?;
        let mut tiled = self.tiled.output(width, tiled_sizes)?;
        if tiled.is_empty() {
            return Ok(());
        }
        let beyond = layout.exceeds_declared().then(|| layout.steps(tiled.strides[0]));
        if let Some(steps) = beyond {
            let reach = layout.reach(steps)?;
            tiled = self.beyond().output(width, [1, reach])?;
            if layout.element_count().is_none_or(|count| count > reach as u64) {
                // Overlapping tiles: the work of a call would not be bounded by the memory.
                return Err(Error::invalid_argument(format!(
                    "a matrix of {} by {} elements has more tiles than {:?}, which do not fit into the buffer",
                    layout.sizes[0], layout.sizes[1], self.tiled_sizes
                )));
            }
        }
        let layout = Layout { beyond, ..layout };
        match width {
            4 => layout.pack::<4>(matrix, tiled, padding, scratch),
            _ => layout.pack::<1>(matrix, tiled, padding, scratch),
        }
    }

    /// Writes the matrix from its packed form.
    pub(super) fn unpack(self, scratch: &mut Scratch) -> Result<()> {
        if !matches!(self.flags & TYPE_MASK, TYPE_F32 | TYPE_I32) {
            return Err(unknown_flags(self.flags));
        }
        let (layout, tiled_sizes) = self.layout()?;
        let mut tiled = self.tiled.input(4, tiled_sizes)?;
        let matrix = self.matrix.output(4, self.sizes)?;
        if matrix.is_empty() {
            return Ok(());
        }
        if layout.tile.contains(&0) {
            return Err(Error::invalid_argument("cannot unpack a matrix from empty tiles"));
        }
        let beyond = layout.exceeds_declared().then(|| layout.steps(tiled.strides[0]));
        if let Some(steps) = beyond {
            tiled = self.beyond().input(4, [1, layout.reach(steps)?])?;
        }
        Layout { beyond, ..layout }.unpack(tiled, matrix, scratch)
    }

    /// The layout, and the sizes of the packed form in two dimensions. Fails if a number is negative or
    /// overflows.
    fn layout(&self) -> Result<(Layout, [i64; 2])> {
        if self.flags & !(TYPE_MASK | TRANSPOSE_INNER | TRANSPOSE_OUTER) != 0 {
            return Err(unknown_flags(self.flags));
        }
        if self.sizes.iter().chain(&self.tiled_sizes).any(|size| *size < 0) {
            return Err(Error::invalid_argument(format!(
                "a size is negative: {:?}, tiled {:?}",
                self.sizes, self.tiled_sizes
            )));
        }
        let [outer0, outer1, tile0, tile1] = self.tiled_sizes;
        // A column of elements has the layout of the transposed row, which has longer lines.
        let is_column = tile1 == 1;
        let tile = if is_column { [tile1, tile0] } else { [tile0, tile1] };
        let layout = Layout {
            sizes: self.sizes.map(|size| size as usize),
            outer: [outer0, outer1].map(|size| size as usize),
            tile: tile.map(|size| size as usize),
            transposes_inner: (self.flags & TRANSPOSE_INNER != 0) != is_column,
            transposes_outer: self.flags & TRANSPOSE_OUTER != 0,
            beyond: None,
        };
        let row = tile0.checked_mul(tile1).and_then(|tile| tile.checked_mul(outer1));
        let row = row
            .ok_or_else(|| Error::invalid_argument(format!("tiled sizes {:?} overflow", self.tiled_sizes)))?;
        Ok((layout, [outer0, row]))
    }

    /// The packed form as one row, if it is larger than declared.
    fn beyond(&self) -> Operand<'_> {
        Operand { strides: [0, 1], ..self.tiled }
    }
}

fn unknown_flags(flags: u32) -> Error {
    Error::invalid_argument(format!("unknown tiling (flags 0x{flags:x})"))
}

/// The checked layout of a packed matrix.
struct Layout {
    sizes: [usize; 2],
    outer: [usize; 2],
    tile: [usize; 2],
    transposes_inner: bool,
    transposes_outer: bool,
    /// If there are more tiles than declared, the packed form is one row of elements, and these are the
    /// strides of the tiles along rows and columns of the matrix.
    beyond: Option<[usize; 2]>,
}

/// A line of a tile: `tile1` contiguous elements of the packed form, and their elements in the matrix, which
/// has a row for each line (it is transposed if the tiles are).
struct Line {
    /// Position of its first element in the packed form.
    tiled: [usize; 2],
    /// Position of its first element in the matrix.
    matrix: [usize; 2],
    /// Number of its elements inside the matrix.
    count: usize,
}

impl Layout {
    /// Size of a tile along rows and columns of the matrix.
    fn tile_of_matrix(&self) -> [usize; 2] {
        let [first, second] = self.tile;
        if self.transposes_inner { [second, first] } else { [first, second] }
    }

    /// Numbers of tiles along rows and columns of the matrix, as declared.
    fn declared(&self) -> [usize; 2] {
        let [first, second] = self.outer;
        if self.transposes_outer { [second, first] } else { [first, second] }
    }

    /// Numbers of whole tiles in the matrix. Along columns, the reference rounds the tile size up to a power
    /// of two.
    fn whole(&self) -> [usize; 2] {
        let [rows, columns] = self.tile_of_matrix();
        let columns = columns.checked_next_power_of_two();
        [self.sizes[0].checked_div(rows), columns.and_then(|columns| self.sizes[1].checked_div(columns))]
            .map(Option::unwrap_or_default)
    }

    /// Whether there are more whole tiles than declared.
    fn exceeds_declared(&self) -> bool {
        let (whole, declared) = (self.whole(), self.declared());
        whole[0] > declared[0] || (whole[0] > 0 && whole[1] > declared[1])
    }

    /// Rows of tiles, and tiles per row: first of the whole rows, then of the others.
    fn counts(&self) -> [[usize; 2]; 2] {
        let ([whole_rows, whole_columns], [rows, columns]) = (self.whole(), self.declared());
        [[whole_rows, columns.max(whole_columns)], [rows.saturating_sub(whole_rows), columns]]
    }

    /// Strides of the tiles along rows and columns of the matrix, in the packed form.
    fn steps(&self, stride: usize) -> [usize; 2] {
        let tile = self.tile[0] * self.tile[1];
        if self.transposes_outer { [tile, stride] } else { [stride, tile] }
    }

    /// Number of elements from the first to the last of the packed form. Fails if it overflows.
    fn reach(&self, steps: [usize; 2]) -> Result<i64> {
        let [[whole_rows, whole_columns], [other_rows, other_columns]] = self.counts();
        let end = |rows: usize, columns: usize| {
            let (Some(row), Some(column)) = (rows.checked_sub(1), columns.checked_sub(1)) else {
                return Some(0);
            };
            let start = row.checked_mul(steps[0])?.checked_add(column.checked_mul(steps[1])?)?;
            start.checked_add(self.tile[0] * self.tile[1])
        };
        let others = if other_rows == 0 { Some(0) } else { end(whole_rows + other_rows, other_columns) };
        let ends = end(whole_rows, whole_columns).zip(others);
        ends.and_then(|(whole, others)| i64::try_from(whole.max(others)).ok())
            .ok_or_else(|| Error::invalid_argument("offsets of tiles overflow"))
    }

    /// Number of elements of all tiles, `None` if it overflows.
    fn element_count(&self) -> Option<u64> {
        let tiles = self.counts().map(|[rows, columns]| rows.checked_mul(columns));
        let tiles = tiles[0]?.checked_add(tiles[1]?)?;
        Some(tiles.checked_mul(self.tile[0] * self.tile[1])? as u64)
    }

    fn pack<const N: usize>(
        &self,
        matrix: Grid<'_>,
        tiled: Grid<'_>,
        padding: u64,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut padding_bytes = [0; N];
        padding_bytes.copy_from_slice(&padding.to_le_bytes()[..N]);
        with_elements::<N, N, _>([matrix, tiled.nothing::<N>()], tiled, scratch, |[matrix, _], mut tiled| {
            let matrix = if self.transposes_inner { matrix.transposed() } else { matrix };
            let step = matrix.strides()[1];
            let pack = |run: &Run, tiled: &mut _| platform::with_vectors(PackRun { run, matrix, tiled });
            let merged = self.merged_tiles().filter(|run| pack(run, &mut tiled));
            self.each_row([usize::MAX; 2], |row, columns| {
                let done = match (&merged, self.whole_tiles(row, columns)) {
                    (Some(merged), _) if row < merged.tile[0] => merged.count,
                    (_, Some(run)) if pack(&run, &mut tiled) => run.count,
                    _ => 0,
                };
                for line in self.lines(row, done..columns) {
                    let (inside, outside) = tiled.line(line.tiled, self.tile[1]).split_at_mut(line.count);
                    outside.fill(padding_bytes);
                    match step {
                        _ if line.count == 0 => {}
                        1 => inside.copy_from_slice(matrix.line(line.matrix, line.count)),
                        0 => inside.fill(matrix.get(line.matrix)),
                        _ => {
                            let places = line.places();
                            inside.iter_mut().zip(places).for_each(|(inside, at)| *inside = matrix.get(at));
                        }
                    }
                }
            });
            Ok(())
        })
    }

    fn unpack(&self, tiled: Grid<'_>, matrix: Grid<'_>, scratch: &mut Scratch) -> Result<()> {
        let tile_of_matrix = self.tile_of_matrix();
        let needed = [0, 1].map(|at| self.sizes[at].div_ceil(tile_of_matrix[at]));
        with_elements::<4, 4, _>([tiled, matrix.nothing::<4>()], matrix, scratch, |[tiled, _], matrix| {
            let mut matrix = if self.transposes_inner { matrix.transposed() } else { matrix };
            let step = matrix.strides()[1];
            self.each_row(needed, |row, columns| {
                let whole = self
                    .whole_tiles(row, columns)
                    .filter(|run| platform::with_vectors(UnpackRun { run, tiled, matrix: &mut matrix }));
                let done = whole.map_or(0, |run| run.count);
                for line in self.lines(row, done..columns).filter(|line| line.count > 0) {
                    let inside = tiled.line(line.tiled, line.count);
                    match step {
                        1 => matrix.line(line.matrix, line.count).copy_from_slice(inside),
                        _ => line.places().zip(inside).for_each(|(at, inside)| matrix.set(at, *inside)),
                    }
                }
            });
            Ok(())
        })
    }

    /// The first tiles of a row of `columns` tiles that are inside the matrix, if any.
    fn whole_tiles(&self, row: usize, columns: usize) -> Option<Run> {
        let [tile_rows, tile_columns] = self.tile_of_matrix();
        let first = row.checked_mul(tile_rows)?;
        let is_whole = self.sizes[0].checked_sub(first)? >= tile_rows && tile_rows > 0;
        let count = self.sizes[1].checked_div(tile_columns)?.min(columns);
        let [tiled, next] = [0, 1].map(|column| self.place_of_tile([row, column]));
        (is_whole && count > 0).then(|| Run {
            count,
            tile: self.tile,
            tiled,
            tiled_step: [next[0] - tiled[0], next[1] - tiled[1]],
            matrix: self.oriented([first, 0]),
            matrix_step: self.oriented([0, tile_columns]),
        })
    }

    /// If a tile is one row of the matrix, and the tiles of a column are contiguous in the packed form: those
    /// inside the matrix, merged to one tile per column.
    fn merged_tiles(&self) -> Option<Run> {
        let [height, width] = self.tile;
        let [[rows, columns], _] = self.counts();
        let count = self.sizes[1].checked_div(width)?.min(columns);
        let is_contiguous = self.transposes_outer && self.beyond.is_none();
        let is_mergeable = is_contiguous && !self.transposes_inner && height == 1 && rows > 0 && count > 0;
        is_mergeable.then_some(Run {
            count,
            tile: [rows, width],
            tiled: [0, 0],
            tiled_step: [1, 0],
            matrix: [0, 0],
            matrix_step: [0, width],
        })
    }

    /// A position in the matrix, as one with a row for each line of a tile.
    fn oriented(&self, [row, column]: [usize; 2]) -> [usize; 2] {
        if self.transposes_inner { [column, row] } else { [row, column] }
    }

    /// Position of the first element of a tile in the packed form.
    fn place_of_tile(&self, [i, j]: [usize; 2]) -> [usize; 2] {
        match self.beyond {
            Some([row_step, column_step]) => [0, i * row_step + j * column_step],
            None => {
                let [row, column] = if self.transposes_outer { [j, i] } else { [i, j] };
                [row, column * (self.tile[0] * self.tile[1])]
            }
        }
    }

    /// The lines of the tiles of a row.
    fn lines(&self, row: usize, columns: Range<usize>) -> impl Iterator<Item = Line> {
        let tiles = columns.map(move |column| [row, column]);
        tiles.flat_map(move |tile| (0..self.tile[0]).map(move |line| self.line(tile, line)))
    }

    /// Calls `each` with every row of tiles and its number of tiles, within `limits`.
    fn each_row(&self, limits: [usize; 2], mut each: impl FnMut(usize, usize)) {
        let [[whole_rows, whole_columns], [other_rows, other_columns]] = self.counts();
        for row in 0..(whole_rows + other_rows).min(limits[0]) {
            let columns = if row < whole_rows { whole_columns } else { other_columns };
            each(row, columns.min(limits[1]));
        }
    }

    fn line(&self, tile: [usize; 2], line: usize) -> Line {
        let [tile_rows, tile_columns] = self.tile_of_matrix();
        // Saturates only outside the matrix, where no element is accessed.
        let (row, column) = (tile[0].saturating_mul(tile_rows), tile[1].saturating_mul(tile_columns));
        let [row, column] = match self.transposes_inner {
            true => [row, column.saturating_add(line)],
            false => [row.saturating_add(line), column],
        };
        let is_inside = row < self.sizes[0] && column < self.sizes[1];
        let left = match self.transposes_inner {
            true => self.sizes[0].saturating_sub(row),
            false => self.sizes[1].saturating_sub(column),
        };
        let [tiled_row, tiled_column] = self.place_of_tile(tile);
        Line {
            tiled: [tiled_row, tiled_column + line * self.tile[1]],
            matrix: self.oriented([row, column]),
            count: if is_inside { left.min(self.tile[1]) } else { 0 },
        }
    }
}

impl Line {
    /// Positions of its elements in the matrix.
    fn places(&self) -> impl Iterator<Item = [usize; 2]> {
        let [line, first] = self.matrix;
        (first..first + self.count).map(move |element| [line, element])
    }
}

/// Tiles in a row that are inside the matrix, of the sizes of [`Layout::tile`]. Positions are those of a
/// [`Line`].
struct Run {
    count: usize,
    tile: [usize; 2],
    /// Position of the first tile in the packed form, and the step to the next.
    tiled: [usize; 2],
    tiled_step: [usize; 2],
    /// Likewise in the matrix.
    matrix: [usize; 2],
    matrix_step: [usize; 2],
}

impl Run {
    /// Positions of the tiles in the packed form and in the matrix.
    fn tiles(&self) -> impl Iterator<Item = ([usize; 2], [usize; 2])> {
        let place =
            |first: [usize; 2], step: [usize; 2], at| [first[0] + at * step[0], first[1] + at * step[1]];
        (0..self.count)
            .map(move |at| (place(self.tiled, self.tiled_step, at), place(self.matrix, self.matrix_step, at)))
    }
}

/// Packs a run of tiles. Returns `false` if no loop is specialized for tiles of this size and the strides of
/// the matrix.
struct PackRun<'a, 'b, const W: usize> {
    run: &'a Run,
    matrix: Elements<'a, [u8; W]>,
    tiled: &'a mut ElementsMut<'b, [u8; W]>,
}

impl<const W: usize> VectorWork for PackRun<'_, '_, W> {
    type Output = bool;

    #[inline(always)]
    fn run(self, _fuses: bool) -> bool {
        let Self { run, matrix, tiled } = self;
        let [line_step, step] = matrix.strides();
        let is_transposed = line_step == 1 && run.matrix_step == [1, 0];
        match run.tile {
            [_, 16] if step == 1 => pack_lines::<_, 16>(run, matrix, tiled),
            [_, 8] if step == 1 => pack_lines::<_, 8>(run, matrix, tiled),
            [_, 4] if step == 1 => pack_lines::<_, 4>(run, matrix, tiled),
            [16, 2] if step == 1 && run.matrix_step == [0, 2] && W == 1 => {
                transpose_pairs::<_, 16>(run, matrix, tiled);
            }
            [_, 2] if step == 1 => pack_lines::<_, 2>(run, matrix, tiled),
            [16, 2] if line_step == 1 => interleave::<_, 16>(run, matrix, tiled),
            [8, 2] if line_step == 1 => interleave::<_, 8>(run, matrix, tiled),
            [1, 16] if is_transposed => transpose::<_, 16>(run, matrix, tiled),
            [1, 8] if is_transposed => transpose::<_, 8>(run, matrix, tiled),
            _ => return false,
        }
        true
    }
}

/// Unpacks a run of tiles, as [`PackRun`] packs it.
struct UnpackRun<'a, 'b, T> {
    run: &'a Run,
    tiled: Elements<'a, T>,
    matrix: &'a mut ElementsMut<'b, T>,
}

impl<T: Copy> VectorWork for UnpackRun<'_, '_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self, _fuses: bool) -> bool {
        let Self { run, tiled, matrix } = self;
        match (run.tile[1], matrix.strides()[1]) {
            (16, 1) => unpack_lines::<T, 16>(run, tiled, matrix),
            (8, 1) => unpack_lines::<T, 8>(run, tiled, matrix),
            (4, 1) => unpack_lines::<T, 4>(run, tiled, matrix),
            _ => return false,
        }
        true
    }
}

/// Lines of `N` elements that are contiguous in the matrix too.
#[inline(always)]
fn pack_lines<T: Copy, const N: usize>(run: &Run, matrix: Elements<'_, T>, tiled: &mut ElementsMut<'_, T>) {
    for (tile, at) in run.tiles() {
        let tile = tiled.line(tile, run.tile[0] * N).as_chunks_mut::<N>().0;
        for (to, from) in tile.iter_mut().zip(matrix.block(at, run.tile[0])) {
            *to = *from;
        }
    }
}

/// Tiles of `N` lines of two elements: two runs of the matrix, interleaved.
#[inline(always)]
fn interleave<T: Copy, const N: usize>(run: &Run, matrix: Elements<'_, T>, tiled: &mut ElementsMut<'_, T>) {
    let matrix = matrix.transposed();
    for (tile, [line, element]) in run.tiles() {
        let mut rows = matrix.block::<N>([element, line], 2);
        let (tiles, _) = tiled.line(tile, 2 * N).as_chunks_mut::<2>().0.as_chunks_mut::<N>();
        if let (Some(first), Some(second), [tile]) = (rows.next(), rows.next(), tiles) {
            // From copies, which vectors can hold.
            let (first, second) = (*first, *second);
            *tile = std::array::from_fn(|at| [first[at], second[at]]);
        }
    }
}

/// Tiles of one line of `N` elements: the columns of `N` rows of the matrix.
#[inline(always)]
fn transpose<T: Copy, const N: usize>(run: &Run, matrix: Elements<'_, T>, tiled: &mut ElementsMut<'_, T>) {
    let (matrix, [line, element]) = (matrix.transposed(), run.matrix);
    let rows: [&[T]; N] = std::array::from_fn(|row| matrix.line([element + row, line], run.count));
    for (column, (tile, _)) in run.tiles().enumerate() {
        for (element, row) in tiled.line(tile, N).iter_mut().zip(&rows) {
            *element = row[column];
        }
    }
}

/// Tiles of `N` lines of two elements: pairs of columns of `N` rows of the matrix.
#[inline(always)]
fn transpose_pairs<T: Copy, const N: usize>(
    run: &Run,
    matrix: Elements<'_, T>,
    tiled: &mut ElementsMut<'_, T>,
) {
    let [line, element] = run.matrix;
    let row = |row: usize| matrix.line([line + row, element], 2 * run.count).as_chunks::<2>().0;
    let rows: [&[[T; 2]]; N] = std::array::from_fn(row);
    for (column, (tile, _)) in run.tiles().enumerate() {
        for (pair, row) in tiled.line(tile, 2 * N).as_chunks_mut().0.iter_mut().zip(&rows) {
            *pair = row[column];
        }
    }
}

#[inline(always)]
fn unpack_lines<T: Copy, const N: usize>(run: &Run, tiled: Elements<'_, T>, matrix: &mut ElementsMut<'_, T>) {
    for (tile, at) in run.tiles() {
        let tile = tiled.line(tile, run.tile[0] * N).as_chunks::<N>().0;
        for (to, from) in matrix.block(at, run.tile[0]).zip(tile) {
            *to = *from;
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
        /// Tiles that cover a matrix, with up to one more in each dimension.
        fn random(random: &mut Random, width: usize, flags: u32) -> Self {
            const TILES: [[usize; 2]; 9] =
                [[16, 1], [16, 2], [16, 16], [8, 1], [8, 2], [8, 8], [4, 1], [4, 2], [8, 4]];
            let (sizes, tile) = match random.below(2) {
                0 => (random.sizes(), [1 + random.below(9), 1 + random.below(9)]),
                // Of `tile_sizes`, and matrices that contain whole ones.
                _ => ([0, 1].map(|_| random.below(80) as i64), TILES[random.below(TILES.len())]),
            };
            let matrix = random.memory(width, sizes, false);
            let flags = flags | (random.below(4) as u32) << 8;
            let swap = |flag: u32, [a, b]: [usize; 2]| if flags & flag != 0 { [b, a] } else { [a, b] };
            let tile_of_matrix = swap(TRANSPOSE_INNER, tile);
            let outer = [0, 1].map(|at| (sizes[at] as usize).div_ceil(tile_of_matrix[at]) + random.below(2));
            let outer = swap(TRANSPOSE_OUTER, outer);
            let stride = outer[1] * tile[0] * tile[1] + random.below(3);
            let bytes = random.bytes((outer[0] * stride * width).next_multiple_of(4) + 4);
            let tiled = Memory::from_bytes(&bytes, [stride, 1], random.below(2) * (4 / width));
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

        /// Calls `each` with the index of every element of the packed form, and its row and column.
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
    fn packing_matches_a_plain_loop_for_any_shape() {
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
    fn unpacking_matches_a_plain_loop_for_any_shape() {
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

    /// The elements that the reference packs, for any outer sizes: each row of tiles up to its last whole
    /// tile or its last declared tile, whichever is later; `None` if one is out of bounds of the packed
    /// form's buffer.
    fn each_as_the_reference(case: &Case, mut each: impl FnMut(usize, [usize; 2])) -> Option<()> {
        let [outer0, outer1, tile0, tile1] = case.tiled_sizes.map(|size| size as usize);
        let (size, stride, tile) =
            (case.sizes.map(|size| size as usize), case.tiled.strides[0], tile0 * tile1);
        let is = |flag: u32| case.flags & flag != 0;
        let (rows, columns) = if is(TRANSPOSE_OUTER) { (outer1, outer0) } else { (outer0, outer1) };
        let (row_step, column_step) = if is(TRANSPOSE_OUTER) { (tile, stride) } else { (stride, tile) };
        let (height, width) = if is(TRANSPOSE_INNER) { (tile1, tile0) } else { (tile0, tile1) };
        let elements = case.tiled.bytes().len() / if case.flags & TYPE_MASK == TYPE_I8 { 1 } else { 4 };
        let mut row = 0;
        while row < rows || (row + 1) * height <= size[0] {
            let is_whole = (row + 1) * height <= size[0];
            let mut column = 0;
            while column < columns || (is_whole && column < size[1] >> width.next_power_of_two().ilog2()) {
                let start = case.tiled.offset + row * row_step + column * column_step;
                if start + tile > elements {
                    return None;
                }
                for (t0, t1) in (0..tile).map(|at| (at / tile1, at % tile1)) {
                    let (r, c) = if is(TRANSPOSE_INNER) { (t1, t0) } else { (t0, t1) };
                    each(start + t0 * tile1 + t1, [row * height + r, column * width + c]);
                }
                column += 1;
            }
            row += 1;
        }
        Some(())
    }

    /// Replaces the outer sizes by others that fit into the buffer, although their whole tiles may not.
    fn with_other_outer_sizes(mut case: Case, random: &mut Random) -> Case {
        let swapped = random.below(3) == 0;
        let [outer0, outer1, ..] = case.tiled_sizes;
        let less = [0, 1].map(|_| random.below(2) as i64);
        let outer = if swapped { [outer1, outer0] } else { [outer0 - less[0], outer1 - less[1]] };
        case.tiled_sizes[..2].copy_from_slice(&outer.map(|size| size.max(1)));
        case
    }

    #[test]
    fn whole_tiles_beyond_the_declared_ones_are_packed() {
        let mut random = Random::new(10);
        let (mut done, mut rejected) = (0, 0);
        for (width, flags) in [(4, TYPE_F32), (1, TYPE_I8)] {
            for _ in 0..400 {
                let case = with_other_outer_sizes(Case::random(&mut random, width, flags), &mut random);
                let (matrix, mut expected) = (case.matrix.bytes(), case.tiled.bytes());
                let mut writes = 0;
                let fits = each_as_the_reference(&case, |place, at| {
                    let from = case.matrix.index(at) * width;
                    let value =
                        if case.is_inside(at) { &matrix[from..from + width] } else { &[7; 4][..width] };
                    expected[place * width..][..width].copy_from_slice(value);
                    writes += 1;
                });
                match case.tiling().pack(0x0707_0707, &mut Scratch::default()) {
                    Ok(()) => {
                        assert!(fits.is_some());
                        assert_eq!(case.tiled.bytes(), expected);
                        done += 1;
                    }
                    // Also rejected: tiles that would overlap, and sizes that exceed the stride.
                    Err(error) => {
                        let text = error.to_string();
                        let why = ["needs", "do not fit into the buffer", "overlap"];
                        assert!(why.iter().any(|why| text.contains(why)), "{text}");
                        assert!(fits.is_none() || !text.contains("needs"), "{text}");
                        rejected += 1;
                    }
                }
            }
        }
        assert!(done > 300 && rejected > 50, "{done} done, {rejected} rejected");
    }

    #[test]
    fn whole_tiles_beyond_the_declared_ones_are_unpacked() {
        let mut random = Random::new(11);
        let mut done = 0;
        for _ in 0..400 {
            let case = with_other_outer_sizes(Case::random(&mut random, 4, TYPE_F32), &mut random);
            let (tiled, mut expected) = (case.tiled.elements(), case.matrix.elements());
            let fits = each_as_the_reference(&case, |place, at| {
                if case.is_inside(at) {
                    expected[case.matrix.index(at)] = tiled[place];
                }
            });
            if case.sizes.contains(&0) {
                continue;
            }
            let unpacked = case.tiling().unpack(&mut Scratch::default());
            if let Err(error) = unpacked {
                assert!(fits.is_none() || error.to_string().contains("operand 'tiled' needs"), "{error}");
            } else {
                assert!(fits.is_some());
                assert_eq!(case.matrix.elements(), expected);
                done += 1;
            }
        }
        assert!(done > 150, "{done} done");
    }

    #[test]
    fn malformed_tilings_are_rejected() {
        let memory = Memory::from_bytes(&[0; 256], [4, 1], 0);
        let rejection = |sizes, tiled_sizes, flags| {
            let tiling = || {
                let (matrix, tiled) = (memory.operand("matrix"), memory.operand("tiled"));
                Tiling { matrix, tiled, sizes, tiled_sizes, flags }
            };
            let text =
                |rejected: Result<()>| rejected.err().map(|error| error.to_string()).unwrap_or_default();
            let mut scratch = Scratch::default();
            (text(tiling().pack(0, &mut scratch)), text(tiling().unpack(&mut scratch)))
        };
        let both = |(pack, unpack): (String, String), why: &str| {
            assert!(
                pack.contains(why) && unpack.contains(why),
                "{pack:?} or {unpack:?} does not contain {why:?}"
            );
        };
        both(rejection([4, 4], [2, 2, 2, 2], 0), "unknown tiling");
        both(rejection([4, 4], [2, 2, 2, 2], TYPE_F32 | 0x400), "unknown tiling");
        assert!(
            rejection([4, 4], [1, 1, 4, 4], TYPE_I8).1.contains("unknown tiling"),
            "bytes cannot be unpacked"
        );
        // Three tiles more than declared, which do not fit into the buffer; overlapping tiles.
        both(rejection([16, 4], [1, 1, 4, 5], TYPE_F32 | TRANSPOSE_OUTER), "operand 'tiled' needs 320 bytes");
        assert!(rejection([16, 4], [1, 1, 2, 2], TYPE_F32).0.contains("do not fit into the buffer"));
        both(rejection([4, -4], [2, 2, 2, 2], TYPE_F32), "negative");
        both(rejection([0, 0], [-1, 2, 2, 2], TYPE_F32), "negative");
        both(rejection([0, 0], [2, i64::MAX, 2, 2], TYPE_F32), "overflow");
        both(rejection([4, 4], [1 << 40, 1, 4, 4], TYPE_F32), "operand 'tiled' needs");
        both(rejection([40, 4], [1, 1, 40, 4], TYPE_F32), "needs 640 bytes");
        // Packing empty tiles writes nothing; there is nothing to unpack from them.
        let (pack, unpack) = rejection([1, 1], [i64::MAX, 1, 0, 4], TYPE_F32);
        assert!(pack.is_empty() && unpack.contains("from empty tiles"), "{pack:?} {unpack:?}");
        assert_eq!(rejection([0, 4], [0, 1, 4, 4], TYPE_F32), Default::default());
    }
}
