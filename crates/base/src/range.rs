/// A byte range, `offset` and `length`, whose end does not overflow 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Range {
    /// The range, or `None` if its end overflows.
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        offset.checked_add(length)?;
        Some(Self { offset, length })
    }

    /// One past the last byte.
    pub fn end(self) -> u64 {
        self.offset + self.length
    }

    /// Whether it is contained in `0..size`.
    pub fn fits(self, size: u64) -> bool {
        self.end() <= size
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// `count * element_bytes`, or `None` if that overflows or exceeds `available` bytes.
///
/// Checked before a list is allocated, so that a crafted count cannot cause an allocation out of proportion
/// to the file's size.
pub fn checked_array_bytes(count: u64, element_bytes: usize, available: usize) -> Option<usize> {
    let bytes = usize::try_from(count).ok()?.checked_mul(element_bytes)?;
    (bytes <= available).then_some(bytes)
}
