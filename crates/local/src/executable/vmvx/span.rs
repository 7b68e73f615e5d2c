//! Operands of microkernels: checked ranges of buffers, and slices over their bytes.

#![allow(unsafe_code, reason = "borrows the bytes of a dispatch's bindings; see docs/unsafe.md")]

use rehal_base::{Error, Range, Result};
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

/// A checked operand: `sizes` elements in two dimensions, all in bounds of `region`.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    /// From the first element to the last.
    pub(super) region: Region<'a>,
    pub(super) strides: [usize; 2],
    pub(super) sizes: [usize; 2],
}

/// A checked range of host memory.
#[derive(Clone, Copy)]
pub(super) struct Region<'a> {
    memory: &'a HostMemory,
    range: Range,
}

/// Copies of inputs that overlap the output, made before it is written. Reused, so that calls do not allocate.
#[derive(Default)]
pub(super) struct Scratch([Vec<u8>; 2]);

/// Capacity beyond this is freed after a call.
const KEPT_SCRATCH_BYTES: usize = 1 << 20;

impl Scratch {
    /// Without an allocation.
    pub(super) const NEW: Self = Self([Vec::new(), Vec::new()]);

    /// Frees capacity beyond [`KEPT_SCRATCH_BYTES`].
    pub(super) fn shrink(&mut self) {
        self.0.iter_mut().for_each(|copy| {
            copy.clear();
            copy.shrink_to(KEPT_SCRATCH_BYTES);
        });
    }
}

impl<'a> Operand<'a> {
    /// The elements to read: `sizes` of `element_bytes` each. Fails with `InvalidArgument` if a number is negative
    /// or overflows, with `OutOfRange` if they are out of bounds of the buffer.
    pub(super) fn input(self, element_bytes: usize, sizes: [i64; 2]) -> Result<Grid<'a>> {
        let unsigned = |what: &str, value: i64| {
            usize::try_from(value).map_err(|_| {
                Error::invalid_argument(format!("{what} {value} of operand '{}' is negative", self.name))
            })
        };
        let offset = unsigned("offset", self.offset)?;
        let strides = [unsigned("stride", self.strides[0])?, unsigned("stride", self.strides[1])?];
        let sizes = [unsigned("size", sizes[0])?, unsigned("size", sizes[1])?];
        if sizes.contains(&0) {
            let region = Region { memory: self.memory, range: Range::default() };
            return Ok(Grid { region, strides, sizes });
        }
        let range = self.range(element_bytes, offset, strides, sizes)?;
        let region = Region { memory: self.memory, range };
        Ok(Grid { region, strides, sizes })
    }

    /// The elements to write. In addition to the checks of [`Operand::input`], the buffer must be writable, and
    /// elements must be distinct, which bounds the work of a call by the memory.
    pub(super) fn output(self, element_bytes: usize, sizes: [i64; 2]) -> Result<Grid<'a>> {
        if !self.is_mutable {
            return Err(Error::new(
                rehal_base::StatusCode::PermissionDenied,
                format!("operand '{}' is read-only", self.name),
            ));
        }
        let grid = self.input(element_bytes, sizes)?;
        if grid.is_empty() {
            return Ok(grid);
        }
        let ([size0, size1], [stride0, stride1]) = (grid.sizes, grid.strides);
        // Disjoint rows, or disjoint columns. `range` has checked that the products do not overflow.
        let by_rows = (size1 < 2 || stride1 > 0) && stride0 > (size1 - 1) * stride1;
        let by_columns = (size0 < 2 || stride0 > 0) && stride1 > (size0 - 1) * stride0;
        let single = (size0 < 2 && (size1 < 2 || stride1 > 0)) || (size1 < 2 && (size0 < 2 || stride0 > 0));
        if single || by_rows || by_columns {
            return Ok(grid);
        }
        Err(Error::invalid_argument(format!(
            "elements of operand '{}' overlap: strides {stride0} and {stride1} for {size0} by {size1} elements",
            self.name
        )))
    }

    fn range(
        &self,
        element_bytes: usize,
        offset: usize,
        strides: [usize; 2],
        sizes: [usize; 2],
    ) -> Result<Range> {
        let of_elements = || {
            let rows = (sizes[0] - 1).checked_mul(strides[0])?;
            let columns = (sizes[1] - 1).checked_mul(strides[1])?;
            let elements = rows.checked_add(columns)?.checked_add(1)?;
            let start = offset.checked_mul(element_bytes)?;
            Range::new(start as u64, elements.checked_mul(element_bytes)? as u64)
        };
        let Some(range) = of_elements() else {
            return Err(Error::invalid_argument(format!(
                "operand '{}' overflows: {} by {} elements with strides {} and {} from element {offset}",
                self.name, sizes[0], sizes[1], strides[0], strides[1]
            )));
        };
        if !range.fits(self.memory.length()) {
            return Err(Error::out_of_range(format!(
                "operand '{}' needs {} bytes at offset {} of a buffer of {} bytes",
                self.name,
                range.length,
                range.offset,
                self.memory.length()
            )));
        }
        Ok(range)
    }
}

impl Grid<'_> {
    /// Whether it has no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.sizes.contains(&0)
    }
}

impl Region<'_> {
    /// An empty region, in place of an operand that an operation lacks.
    pub(super) fn empty(self) -> Self {
        Self { range: Range { length: 0, ..self.range }, ..self }
    }

    /// Whether the two share a byte, even through different `HostMemory` handles.
    fn overlaps(&self, other: &Self) -> bool {
        let place = |region: &Self| {
            let start = region.memory.as_ptr().addr() as u64 + region.range.offset;
            Range { offset: start, length: region.range.length }
        };
        place(self).overlaps(place(other))
    }

    /// The bytes.
    ///
    /// # Safety
    /// As for [`HostMemory::unraced_bytes`].
    unsafe fn bytes(&self) -> Result<&[u8]> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.memory.unraced_bytes(self.range) }
    }
}

/// Calls `compute` with the bytes of the inputs and of the output. Inputs that overlap the output are copied first.
pub(super) fn with_bytes<R>(
    inputs: [Region<'_>; 2],
    output: Region<'_>,
    scratch: &mut Scratch,
    compute: impl FnOnce([&[u8]; 2], &mut [u8]) -> Result<R>,
) -> Result<R> {
    for (input, copy) in inputs.iter().zip(&mut scratch.0) {
        copy.clear();
        if input.overlaps(&output) {
            copy.resize(input.range.length as usize, 0);
            input.memory.read(input.range.offset, copy)?;
        }
    }
    // A copied input is not borrowed: its slice would alias the output's.
    let [first_copy, second_copy] = &scratch.0;
    let direct = [direct(inputs[0], first_copy), direct(inputs[1], second_copy)];
    // SAFETY: on this thread, nothing else accesses the bytes while the slices live: only `compute` has them, and the
    // inputs do not overlap the output. Other threads do not write what a dispatch reads or access what it writes:
    // the caller of the unsafe function that prepared the executable guarantees it, as for native code.
    let (first, second, output) =
        unsafe { (direct[0].bytes()?, direct[1].bytes()?, output.memory.unraced_bytes_mut(output.range)?) };
    compute([chosen(first_copy, first), chosen(second_copy, second)], output)
}

fn direct<'a>(input: Region<'a>, copy: &[u8]) -> Region<'a> {
    if copy.is_empty() { input } else { input.empty() }
}

fn chosen<'a>(copy: &'a [u8], bytes: &'a [u8]) -> &'a [u8] {
    if copy.is_empty() { bytes } else { copy }
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
        assert_eq!(grid.region.range, Range { offset: 8, length: 48 });
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
        assert_eq!(error.code(), rehal_base::StatusCode::PermissionDenied);
        assert!(constant.input(1, [1, 1]).is_ok());
    }

    #[test]
    fn inputs_that_overlap_the_output_are_copied_first() -> Result<()> {
        let memory = Arc::new(HostMemory::allocate(80)?);
        memory.fill(0, 80, &[7])?;
        let part = HostMemory::part(&memory, Range { offset: 8, length: 72 })?;
        let other = HostMemory::allocate(80)?;
        let region = |memory, offset| {
            operand(memory, offset, [16, 1]).input(1, [1, 16]).map(|grid: Grid<'_>| grid.region)
        };
        let mut scratch = Scratch::default();
        let (shared, apart, output) = (region(&memory, 8)?, region(&other, 0)?, region(&part, 8)?);
        with_bytes([shared, apart], output, &mut scratch, |[first, second], out| {
            out.fill(9);
            assert!(first.iter().all(|byte| *byte == 7) && second.iter().all(|byte| *byte == 0));
            Ok(())
        })?;
        assert_eq!((scratch.0[0].len(), scratch.0[1].len()), (16, 0));
        Ok(())
    }
}
