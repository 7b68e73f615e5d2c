/// A range of bytes, `offset` and `length` in bytes, whose end is known to fit in 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Range {
    /// The range, or `None` where its end overflows.
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        offset.checked_add(length)?;
        Some(Self { offset, length })
    }

    /// One past the last byte.
    pub fn end(self) -> u64 {
        self.offset + self.length
    }

    /// Whether all of it lies in `0..size`.
    pub fn fits(self, size: u64) -> bool {
        self.end() <= size
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// `count * element_bytes`, or `None` where that overflows or exceeds `available` bytes.
///
/// Asked before a list is allocated, it keeps a crafted count from costing memory that the file's
/// own size does not explain.
pub fn checked_array_bytes(count: u64, element_bytes: usize, available: usize) -> Option<usize> {
    let bytes = usize::try_from(count).ok()?.checked_mul(element_bytes)?;
    (bytes <= available).then_some(bytes)
}
