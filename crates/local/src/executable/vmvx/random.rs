//! Random shapes, strides and contents for the tests of kernels.

use std::sync::Arc;

use rehal_hal::HostMemory;

use super::span::Operand;

/// A seeded generator: every run has the same cases.
pub(super) struct Random(fastrand::Rng);

/// An operand in memory of its own.
#[derive(Clone)]
pub(super) struct Memory {
    pub(super) memory: Arc<HostMemory>,
    /// Index of the first element.
    pub(super) offset: usize,
    pub(super) strides: [usize; 2],
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill(&mut bytes);
        bytes
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit)
    }

    /// Mostly small sizes, including 0; some long rows.
    pub(super) fn sizes(&mut self) -> [i64; 2] {
        let mut size = || match self.below(8) {
            0 => self.below(100) as i64,
            _ => self.below(9) as i64,
        };
        [size(), size()]
    }

    /// Edge cases of integers and of floating-point numbers, and random bits.
    pub(super) fn element(&mut self) -> u32 {
        const SPECIAL: [u32; 10] = [
            0,
            1,
            0x8000_0000,
            u32::MAX,
            0x3F80_0000,
            0x7F80_0000,
            0xFF80_0000,
            0x7FC0_0001,
            31,
            0x0080_0000,
        ];
        match self.below(4) {
            0 => SPECIAL[self.below(SPECIAL.len())],
            1 => (self.below(2000) as f32 / 16.0 - 40.0).to_bits(),
            _ => self.0.u32(..),
        }
    }

    /// An operand of `sizes` elements of `width` bytes: contiguous, strided, transposed or, if `repeats` is
    /// set, broadcast (with a stride of 0).
    pub(super) fn memory(&mut self, width: usize, sizes: [i64; 2], repeats: bool) -> Memory {
        let [rows, columns] = sizes.map(|size| size as usize);
        let (gap, step) = (self.below(3), 1 + self.below(3));
        let strides = match self.below(if repeats { 7 } else { 4 }) {
            0 => [columns.max(1), 1],
            1 => [columns * step + gap, step],
            2 => [1, rows.max(1)],
            3 => [step, rows * step + gap],
            4 => [0, 1],
            5 => [1, 0],
            _ => [0, 0],
        };
        let offset = self.below(4);
        let reach = rows.saturating_sub(1) * strides[0] + columns.saturating_sub(1) * strides[1] + 1;
        let length = ((offset + reach + self.below(3)) * width).next_multiple_of(4);
        let memory = HostMemory::allocate(length as u64).unwrap();
        for at in (0..length).step_by(4) {
            memory.write(at as u64, &self.element().to_ne_bytes()).unwrap();
        }
        Memory { memory: Arc::new(memory), offset, strides }
    }
}

impl Memory {
    pub(super) fn of_u32(elements: &[u32], strides: [usize; 2], offset: usize) -> Self {
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
        Self::from_bytes(&bytes, strides, offset)
    }

    pub(super) fn from_bytes(bytes: &[u8], strides: [usize; 2], offset: usize) -> Self {
        let memory = HostMemory::allocate(bytes.len() as u64).unwrap();
        memory.write(0, bytes).unwrap();
        Self { memory: Arc::new(memory), offset, strides }
    }

    pub(super) fn operand(&self, name: &'static str) -> Operand<'_> {
        let strides = self.strides.map(|stride| stride as i64);
        Operand { name, memory: &self.memory, is_mutable: true, offset: self.offset as i64, strides }
    }

    /// The index of an element in memory.
    pub(super) fn index(&self, at: [usize; 2]) -> usize {
        self.offset + at[0] * self.strides[0] + at[1] * self.strides[1]
    }

    /// Calls `each` with the coordinates and the index in memory of every element.
    pub(super) fn for_each(&self, sizes: [i64; 2], mut each: impl FnMut([usize; 2], usize)) {
        for row in 0..sizes[0] as usize {
            for column in 0..sizes[1] as usize {
                each([row, column], self.index([row, column]));
            }
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.memory.bytes(self.memory.whole()).unwrap().into_owned()
    }

    pub(super) fn elements(&self) -> Vec<u32> {
        self.bytes().as_chunks().0.iter().map(|chunk| u32::from_ne_bytes(*chunk)).collect()
    }

    pub(super) fn u32(&self, index: usize) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read(index as u64 * 4, &mut bytes).unwrap();
        u32::from_ne_bytes(bytes)
    }
}
