use serde::{Deserialize, Serialize};

/// A byte range, `offset` and `length`, whose end does not overflow 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

    /// Whether it is contained in `0..size`. A range that was not made by [`Range::new`], and whose end
    /// overflows, is not.
    pub fn fits(self, size: u64) -> bool {
        self.offset <= size && self.length <= size - self.offset
    }

    /// Whether it contains all bytes of the other.
    pub fn covers(self, other: Self) -> bool {
        self.offset <= other.offset && other.end() <= self.end()
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        self.offset.max(other.offset) < self.end().min(other.end())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflowing_ranges_do_not_fit() {
        assert!(Range { offset: 2, length: 3 }.fits(5) && Range { offset: 5, length: 0 }.fits(5));
        assert!(!Range { offset: 2, length: 4 }.fits(5) && !Range { offset: 6, length: 0 }.fits(5));
        assert!(!Range { offset: u64::MAX, length: 2 }.fits(5));
        assert!(!Range { offset: 2, length: u64::MAX }.fits(u64::MAX));
        assert_eq!(Range::new(u64::MAX, 1), None);
    }

    #[test]
    fn overlapping_ranges_share_a_byte() {
        let range = |offset, length| Range { offset, length };
        let whole = range(2, 4);
        for other in [range(0, 3), range(5, 9), range(3, 1), range(0, 99), whole] {
            assert!(whole.overlaps(other) && other.overlaps(whole), "{other:?}");
        }
        for other in [range(0, 2), range(6, 1), range(4, 0), range(2, 0), range(0, 0)] {
            assert!(!whole.overlaps(other) && !other.overlaps(whole), "{other:?}");
        }
    }
}
