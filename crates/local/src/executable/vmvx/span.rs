//! Operands of microkernels: checked ranges of buffers, and access to their elements.

#![allow(unsafe_code, reason = "borrows the bytes of a dispatch's bindings; see docs/unsafe.md")]

use std::marker::PhantomData;

use rehal_base::{Error, Range, Result, StatusCode};
use rehal_hal::HostMemory;

/// An operand as a program passes it: unchecked; offset and strides are in elements.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    /// Its name in errors.
    pub(super) name: &'static str,
    pub(super) memory: &'a HostMemory,
    /// Whether the program may write to the memory.
    pub(super) is_mutable: bool,
    pub(super) offset: i64,
    pub(super) strides: [i64; 2],
}

/// A checked operand: `sizes` elements in two dimensions, all in bounds of the buffer.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    memory: &'a HostMemory,
    element_bytes: usize,
    /// From the first element to the last.
    range: Range,
    pub(super) strides: [usize; 2],
    pub(super) sizes: [usize; 2],
}

/// The elements of an input, of type `[u8; N]`.
///
/// Only elements are lent, never what is between them: other workgroups may write there at the same time.
pub(super) struct Elements<'a, T> {
    shape: Shape,
    first: *const T,
    lifetime: PhantomData<&'a [T]>,
}

/// The elements of an output. The same as [`Elements`], and distinct.
pub(super) struct ElementsMut<'a, T> {
    shape: Shape,
    first: *mut T,
    lifetime: PhantomData<&'a mut [T]>,
}

/// Strides and sizes of elements that are in bounds.
#[derive(Clone, Copy)]
struct Shape {
    strides: [usize; 2],
    sizes: [usize; 2],
}

/// Memory of a thread's kernels. Reused, so that calls do not allocate.
#[derive(Default)]
pub(super) struct Scratch {
    /// Copies of inputs that overlap the output, made before it is written.
    copies: [Vec<u8>; 2],
    /// A left operand that was widened for a multiplication; of bounded size.
    pub(super) wide: Vec<[i16; 2]>,
}

/// Capacity beyond this is freed after a call.
const KEPT_SCRATCH_BYTES: usize = 1 << 20;

impl Scratch {
    /// Without an allocation.
    pub(super) const NEW: Self = Self { copies: [Vec::new(), Vec::new()], wide: Vec::new() };

    /// Frees capacity beyond [`KEPT_SCRATCH_BYTES`].
    pub(super) fn shrink(&mut self) {
        self.copies.iter_mut().for_each(|copy| {
            copy.clear();
            copy.shrink_to(KEPT_SCRATCH_BYTES);
        });
    }
}

impl<'a> Operand<'a> {
    /// The elements to read: `sizes` of `element_bytes` each. Fails with `InvalidArgument` if a number is
    /// negative or overflows, with `OutOfRange` if they are out of bounds of the buffer.
    ///
    /// Inlined, as is [`Operand::output`]: a call would return the grid in memory, and short kernels would
    /// wait for it.
    #[inline(always)]
    pub(super) fn input(self, element_bytes: usize, sizes: [i64; 2]) -> Result<Grid<'a>> {
        let numbers = [self.offset, self.strides[0], self.strides[1], sizes[0], sizes[1]];
        if numbers.iter().fold(0, |all, number| all | number) < 0 {
            return Err(self.negative(sizes));
        }
        let (offset, strides) = (self.offset as usize, self.strides.map(|stride| stride as usize));
        let sizes = sizes.map(|size| size as usize);
        let range = match range_of(element_bytes, offset, strides, sizes) {
            _ if sizes.contains(&0) => Range::default(),
            Some(range) if range.fits(self.memory.length()) => range,
            Some(range) => return Err(self.exceeds(range)),
            None => return Err(self.overflows(sizes)),
        };
        Ok(Grid { memory: self.memory, element_bytes, range, strides, sizes })
    }

    /// The elements to write. In addition to the checks of [`Operand::input`], the buffer must be writable,
    /// and elements must be distinct, which bounds the work of a call by the memory.
    #[inline(always)]
    pub(super) fn output(self, element_bytes: usize, sizes: [i64; 2]) -> Result<Grid<'a>> {
        if !self.is_mutable || !self.memory.is_writable() {
            return Err(self.read_only());
        }
        let grid = self.input(element_bytes, sizes)?;
        if grid.is_empty() {
            return Ok(grid);
        }
        let ([size0, size1], [stride0, stride1]) = (grid.sizes, grid.strides);
        // Disjoint rows, or disjoint columns. `range_of` has checked that the products do not overflow.
        let by_rows = (size1 < 2 || stride1 > 0) && stride0 > (size1 - 1) * stride1;
        let by_columns = (size0 < 2 || stride0 > 0) && stride1 > (size0 - 1) * stride0;
        let single = (size0 < 2 && (size1 < 2 || stride1 > 0)) || (size1 < 2 && (size0 < 2 || stride0 > 0));
        if single || by_rows || by_columns { Ok(grid) } else { Err(self.overlaps_itself(grid.sizes)) }
    }

    /// The error for the first number that is negative.
    #[cold]
    fn negative(&self, sizes: [i64; 2]) -> Error {
        let [stride0, stride1] = self.strides;
        let numbers = [("offset", self.offset), ("stride", stride0), ("stride", stride1)];
        let mut numbers = numbers.into_iter().chain(sizes.map(|size| ("size", size)));
        let (what, value) = numbers.find(|(_, value)| *value < 0).unwrap_or_default();
        Error::invalid_argument(format!("{what} {value} of operand '{}' is negative", self.name))
    }

    #[cold]
    fn overflows(&self, sizes: [usize; 2]) -> Error {
        Error::invalid_argument(format!(
            "operand '{}' overflows: {} by {} elements with strides {} and {} from element {}",
            self.name, sizes[0], sizes[1], self.strides[0], self.strides[1], self.offset
        ))
    }

    #[cold]
    fn exceeds(&self, range: Range) -> Error {
        Error::out_of_range(format!(
            "operand '{}' needs {} bytes at offset {} of a buffer of {} bytes",
            self.name,
            range.length,
            range.offset,
            self.memory.length()
        ))
    }

    #[cold]
    fn read_only(&self) -> Error {
        Error::new(StatusCode::PermissionDenied, format!("operand '{}' is read-only", self.name))
    }

    #[cold]
    fn overlaps_itself(&self, [size0, size1]: [usize; 2]) -> Error {
        Error::invalid_argument(format!(
            "elements of operand '{}' overlap: strides {} and {} for {size0} by {size1} elements",
            self.name, self.strides[0], self.strides[1]
        ))
    }
}

/// The bytes from the first element to the last. `None` if it overflows, or if there are no elements.
#[inline(always)]
fn range_of(element_bytes: usize, offset: usize, strides: [usize; 2], sizes: [usize; 2]) -> Option<Range> {
    let rows = sizes[0].checked_sub(1)?.checked_mul(strides[0])?;
    let columns = sizes[1].checked_sub(1)?.checked_mul(strides[1])?;
    let elements = rows.checked_add(columns)?.checked_add(1)?;
    let start = offset.checked_mul(element_bytes)?;
    Range::new(start as u64, elements.checked_mul(element_bytes)? as u64)
}

impl<'a> Grid<'a> {
    /// Whether it has no elements.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.sizes.contains(&0)
    }

    /// No elements, in place of an operand that an operation lacks.
    pub(super) fn nothing<const N: usize>(self) -> Self {
        Self { element_bytes: N, range: Range::default(), sizes: [0; 2], ..self }
    }

    /// Whether the ranges share a byte, even through different `HostMemory` handles.
    fn overlaps(&self, other: &Self) -> bool {
        let place = |grid: &Self| {
            let start = grid.memory.as_ptr().addr() as u64 + grid.range.offset;
            Range { offset: start, length: grid.range.length }
        };
        place(self).overlaps(place(other))
    }

    /// Copies the elements to the same places of `copy`, which becomes as long as the range.
    fn copy_to(&self, copy: &mut Vec<u8>) -> Result<()> {
        copy.resize(self.range.length as usize, 0);
        let ([size0, size1], [stride0, stride1]) = (self.sizes, self.strides);
        let (size0, size1) = (if stride0 == 0 { 1 } else { size0 }, if stride1 == 0 { 1 } else { size1 });
        let mut read = |element: usize, count: usize| {
            let (start, bytes) = (element * self.element_bytes, count * self.element_bytes);
            self.memory.read(self.range.offset + start as u64, &mut copy[start..][..bytes])
        };
        let is_dense = |size: usize, stride: usize, other: usize| stride == 1 && other <= size;
        if is_dense(size1, stride1, stride0) || is_dense(size0, stride0, stride1) {
            return read(0, self.range.length as usize / self.element_bytes);
        }
        for row in 0..size0 {
            match stride1 {
                0 | 1 => read(row * stride0, size1)?,
                _ => (0..size1).try_for_each(|column| read(row * stride0 + column * stride1, 1))?,
            }
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        Shape { strides: self.strides, sizes: self.sizes }
    }

    /// The elements, or those of `copy` unless it is empty.
    fn elements<const N: usize>(&self, copy: &'a [u8]) -> Elements<'a, [u8; N]> {
        assert_eq!(self.element_bytes, N, "an element has the size that was checked");
        let first = if copy.is_empty() { self.first().cast_const() } else { copy.as_ptr() };
        Elements { shape: self.shape(), first: first.cast(), lifetime: PhantomData }
    }

    fn elements_mut<const N: usize>(&self) -> ElementsMut<'a, [u8; N]> {
        assert_eq!(self.element_bytes, N, "an element has the size that was checked");
        ElementsMut { shape: self.shape(), first: self.first().cast(), lifetime: PhantomData }
    }

    fn first(&self) -> *mut u8 {
        self.memory.as_ptr().wrapping_add(self.range.offset as usize)
    }
}

impl Shape {
    /// The index of an element. Panics if there is no such element.
    #[inline(always)]
    fn index(&self, [row, column]: [usize; 2]) -> usize {
        assert!(row < self.sizes[0] && column < self.sizes[1], "no element ({row}, {column})");
        row * self.strides[0] + column * self.strides[1]
    }

    /// The index of the first of `count` elements of a row, not 0. Panics unless they exist and are
    /// contiguous.
    #[inline(always)]
    fn line(&self, [row, column]: [usize; 2], count: usize) -> usize {
        let [rows, columns] = self.sizes;
        let is_inside = row < rows && column < columns && count <= columns - column;
        assert!(is_inside && (self.strides[1] == 1 || count == 1), "no line of {count} at ({row}, {column})");
        row * self.strides[0] + column * self.strides[1]
    }

    /// The index of the first element of a block, not empty. Panics unless it is inside, and its rows are
    /// contiguous.
    #[inline(always)]
    fn block(&self, [row, column]: [usize; 2], [rows, columns]: [usize; 2]) -> usize {
        let is_inside = row < self.sizes[0] && rows <= self.sizes[0] - row;
        assert!(is_inside, "no block of {rows} rows at ({row}, {column})");
        self.line([row, column], columns)
    }

    fn transposed(self) -> Self {
        let ([size0, size1], [stride0, stride1]) = (self.sizes, self.strides);
        Self { strides: [stride1, stride0], sizes: [size1, size0] }
    }
}

impl<'a, T: Copy> Elements<'a, T> {
    /// `sizes` elements, all with the same value.
    pub(super) fn repeated(value: &'a T, sizes: [usize; 2]) -> Self {
        Self { shape: Shape { strides: [0; 2], sizes }, first: value, lifetime: PhantomData }
    }

    /// Exchanges rows and columns.
    pub(super) fn transposed(self) -> Self {
        Self { shape: self.shape.transposed(), ..self }
    }

    /// Strides of rows and columns.
    pub(super) fn strides(&self) -> [usize; 2] {
        self.shape.strides
    }

    /// An element.
    #[inline(always)]
    pub(super) fn get(&self, at: [usize; 2]) -> T {
        // SAFETY: the element is in bounds, by the check of the grid. Nothing writes it meanwhile; see
        // `with_elements`.
        unsafe { *self.first.add(self.shape.index(at)) }
    }

    /// `count` elements of a row from `at`, which must be contiguous.
    #[inline(always)]
    pub(super) fn line(&self, at: [usize; 2], count: usize) -> &'a [T] {
        if count == 0 {
            return &[];
        }
        // SAFETY: as for `get`.
        unsafe { std::slice::from_raw_parts(self.first.add(self.shape.line(at, count)), count) }
    }

    /// The rows of a block of `rows` times `N` elements from `at`, each of which must be contiguous.
    #[inline(always)]
    pub(super) fn block<const N: usize>(
        &self,
        at: [usize; 2],
        rows: usize,
    ) -> impl Iterator<Item = &'a [T; N]> + use<'a, T, N> {
        const { assert!(N > 0, "a row has elements") };
        let first =
            if rows == 0 { self.first } else { self.first.wrapping_add(self.shape.block(at, [rows, N])) };
        let stride = self.shape.strides[0];
        // SAFETY: as for `get`: each row is in bounds.
        (0..rows).map(move |row| unsafe { &*first.add(row * stride).cast() })
    }
}

impl<T> Clone for Elements<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Elements<'_, T> {}

impl<T: Copy> ElementsMut<'_, T> {
    /// Exchanges rows and columns.
    pub(super) fn transposed(self) -> Self {
        Self { shape: self.shape.transposed(), ..self }
    }

    /// Strides of rows and columns.
    pub(super) fn strides(&self) -> [usize; 2] {
        self.shape.strides
    }

    /// Writes an element.
    #[inline(always)]
    pub(super) fn set(&mut self, at: [usize; 2], value: T) {
        // SAFETY: the element is in bounds, by the check of the grid. Nothing else accesses it meanwhile; see
        // `with_elements`.
        unsafe { *self.first.add(self.shape.index(at)) = value }
    }

    /// `count` elements of a row from `at`, which must be contiguous.
    #[inline(always)]
    pub(super) fn line(&mut self, at: [usize; 2], count: usize) -> &mut [T] {
        if count == 0 {
            return &mut [];
        }
        // SAFETY: as for `set`; the slice borrows `self`.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(self.shape.line(at, count)), count) }
    }

    /// The rows of a block of `rows` times `N` elements from `at`, each of which must be contiguous.
    #[inline(always)]
    pub(super) fn block<const N: usize>(
        &mut self,
        at: [usize; 2],
        rows: usize,
    ) -> impl Iterator<Item = &mut [T; N]> {
        const { assert!(N > 0, "a row has elements") };
        let first =
            if rows == 0 { self.first } else { self.first.wrapping_add(self.shape.block(at, [rows, N])) };
        let stride = self.shape.strides[0];
        // SAFETY: as for `set`: each row is in bounds, and the iterator borrows `self`. The rows do not
        // overlap: no two elements of an output do, by the check of the grid.
        (0..rows).map(move |row| unsafe { &mut *first.add(row * stride).cast() })
    }
}

/// Calls `compute` with the elements of the inputs and of the output. Inputs whose range overlaps that of the
/// output are copied first.
///
/// Nothing else writes the elements of the inputs or accesses those of the output meanwhile: on this thread,
/// only `compute` has them, and inputs that overlap the output are copies. Other threads do not write what a
/// dispatch reads or access what it writes: the caller of the unsafe function that prepared the executable
/// guarantees it, as for native code.
#[inline(always)]
pub(super) fn with_elements<const I: usize, const O: usize, R>(
    inputs: [Grid<'_>; 2],
    output: Grid<'_>,
    scratch: &mut Scratch,
    compute: impl FnOnce([Elements<'_, [u8; I]>; 2], ElementsMut<'_, [u8; O]>) -> Result<R>,
) -> Result<R> {
    for (input, copy) in inputs.iter().zip(&mut scratch.copies) {
        copy.clear();
        if input.overlaps(&output) {
            input.copy_to(copy)?;
        }
    }
    let [first_copy, second_copy] = &scratch.copies;
    let inputs = [inputs[0].elements(first_copy), inputs[1].elements(second_copy)];
    compute(inputs, output.elements_mut())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn operand(memory: &HostMemory, offset: i64, strides: [i64; 2]) -> Operand<'_> {
        Operand { name: "out", memory, is_mutable: true, offset, strides }
    }

    #[test]
    fn operands_must_be_in_bounds() -> Result<()> {
        let memory = HostMemory::allocate(64)?;
        let grid = operand(&memory, 2, [4, 1]).input(4, [3, 4])?;
        assert_eq!(grid.range, Range { offset: 8, length: 48 });
        // The last row ends with its last element.
        operand(&memory, 0, [7, 1]).input(4, [3, 2])?;
        let rejection = |offset, strides, sizes| {
            let rejected = operand(&memory, offset, strides).input(4, sizes);
            rejected.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(rejection(0, [7, 1], [3, 3]).contains("needs 68 bytes at offset 0 of a buffer of 64 bytes"));
        assert!(rejection(16, [1, 1], [1, 1]).contains("needs 4 bytes at offset 64"));
        assert!(rejection(-1, [1, 1], [1, 1]).contains("offset -1 of operand 'out' is negative"));
        assert!(rejection(0, [-1, 1], [1, 1]).contains("stride -1"));
        assert!(rejection(0, [1, 1], [1, i64::MIN]).contains("size"));
        assert!(rejection(i64::MAX, [1, 1], [1, 1]).contains("overflows"));
        assert!(rejection(0, [i64::MAX, i64::MAX], [i64::MAX, i64::MAX]).contains("overflows"));
        assert!(rejection(0, [1, 1], [1 << 62, 1]).contains("overflows"));
        // An empty range is in bounds at any offset.
        assert!(operand(&memory, i64::MAX, [i64::MAX, 1]).output(4, [0, i64::MAX])?.is_empty());
        Ok(())
    }

    #[test]
    fn an_output_must_not_overlap_itself() {
        let memory = HostMemory::allocate(80).unwrap();
        let overlaps = |strides, sizes| {
            let rejected = operand(&memory, 0, strides).output(1, sizes).err();
            rejected.is_some_and(|error| error.to_string().contains("overlap"))
        };
        for (strides, sizes) in [([4, 1], [3, 4]), ([1, 4], [4, 3]), ([8, 2], [2, 4]), ([0, 0], [1, 1])] {
            assert!(!overlaps(strides, sizes), "{strides:?} {sizes:?}");
        }
        for (strides, sizes) in [([0, 1], [1, 9]), ([1, 0], [9, 1]), ([0, 0], [0, 5])] {
            assert!(!overlaps(strides, sizes), "{strides:?} {sizes:?}");
        }
        for (strides, sizes) in [([0, 1], [2, 4]), ([1, 0], [2, 2]), ([0, 0], [1, 2]), ([3, 1], [3, 4])] {
            assert!(overlaps(strides, sizes), "{strides:?} {sizes:?}");
        }
        // Otherwise the call would not end in any reasonable time.
        assert!(overlaps([0, 0], [i64::MAX, i64::MAX]));
    }

    #[test]
    fn a_read_only_buffer_is_rejected_as_an_output() {
        let memory = HostMemory::allocate(80).unwrap();
        let mut constant = operand(&memory, 0, [1, 1]);
        constant.is_mutable = false;
        let error = constant.output(1, [1, 1]).err().unwrap();
        assert_eq!(error.code(), StatusCode::PermissionDenied);
        assert!(constant.input(1, [1, 1]).is_ok());
    }

    #[test]
    fn inputs_that_overlap_the_output_are_copied_first() -> Result<()> {
        let memory = Arc::new(HostMemory::allocate(80)?);
        memory.fill(0, 80, &[7])?;
        let part = HostMemory::part(&memory, Range { offset: 8, length: 72 })?;
        let other = HostMemory::allocate(80)?;
        let grid = |memory, offset| operand(memory, offset, [16, 1]).input(1, [1, 16]);
        let mut scratch = Scratch::default();
        let (shared, apart, output) = (grid(&memory, 8)?, grid(&other, 0)?, grid(&part, 8)?);
        with_elements::<1, 1, _>([shared, apart], output, &mut scratch, |[first, second], mut out| {
            out.line([0, 0], 16).fill([9]);
            assert_eq!((first.line([0, 0], 16), second.line([0, 0], 16)), (&[[7]; 16][..], &[[0]; 16][..]));
            Ok(())
        })?;
        assert_eq!((scratch.copies[0].len(), scratch.copies[1].len()), (16, 0));
        Ok(())
    }
}
