//! The placement of the bindings of a dispatch in one allocation.

use rehal_base::{Error, Range, Result};

/// Offsets in the allocation and in the captured buffer are the same modulo this, which is the alignment of
/// buffers.
const ALIGNMENT: u64 = 64;

/// Bytes of a captured buffer with their place in the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The index of a binding that has some of these bytes.
    pub binding: usize,
    /// The range of the buffer.
    pub range: Range,
    /// First byte in the allocation.
    pub offset: u64,
}

/// Where the bindings of a dispatch are in one allocation. Bytes that several bindings have are there once.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub regions: Vec<Region>,
    /// The offset of each binding.
    pub offsets: Vec<u64>,
    pub total_bytes: u64,
}

impl Layout {
    /// Places bindings, each with its buffer's id, offset and length.
    pub(super) fn for_bindings(bindings: &[(u64, u64, u64)]) -> Result<Self> {
        let mut order: Vec<usize> = (0..bindings.len()).collect();
        order.sort_by_key(|index| bindings[*index]);
        let mut this = Self { offsets: vec![0; bindings.len()], ..Self::default() };
        let mut last_buffer = None;
        for index in order {
            let (buffer, offset, length) = bindings[index];
            let end = offset.checked_add(length).ok_or_else(too_large)?;
            if length == 0 {
                continue;
            }
            match this.regions.last_mut() {
                // Those that only touch stay neighbours, as they are in the buffer.
                Some(last) if last_buffer == Some(buffer) && offset <= last.range.end() => {
                    last.range.length = last.range.end().max(end) - last.range.offset;
                    this.offsets[index] = last.offset + (offset - last.range.offset);
                }
                _ => {
                    let start = place(this.total_bytes, offset).ok_or_else(too_large)?;
                    let range = Range { offset, length };
                    this.regions.push(Region { binding: index, range, offset: start });
                    this.offsets[index] = start;
                }
            }
            last_buffer = Some(buffer);
            if let Some(last) = this.regions.last() {
                this.total_bytes = last.offset.checked_add(last.range.length).ok_or_else(too_large)?;
            }
        }
        Ok(this)
    }
}

/// The first offset from `from` on that is `like` modulo the alignment.
fn place(from: u64, like: u64) -> Option<u64> {
    let offset = (from / ALIGNMENT * ALIGNMENT).checked_add(like % ALIGNMENT)?;
    if offset >= from { Some(offset) } else { offset.checked_add(ALIGNMENT) }
}

fn too_large() -> Error {
    Error::out_of_range("the bindings have more bytes than 64 bits count")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(bindings: &[(u64, u64, u64)]) -> (Vec<u64>, u64) {
        let layout = Layout::for_bindings(bindings).unwrap();
        (layout.offsets, layout.total_bytes)
    }

    #[test]
    fn shared_bytes_are_placed_once() {
        assert_eq!(offsets(&[(7, 0, 16), (7, 0, 16)]), (vec![0, 0], 16));
        assert_eq!(offsets(&[(7, 8, 16), (7, 0, 16)]), (vec![8, 0], 24));
        assert_eq!(offsets(&[(7, 100, 50), (7, 64, 10), (7, 74, 26)]), (vec![36, 0, 10], 86));
        assert_eq!(offsets(&[(7, 0, 16), (7, 4, 4), (7, 12, 8)]), (vec![0, 4, 12], 20));
    }

    #[test]
    fn buffers_are_apart_and_keep_their_alignment() {
        assert_eq!(offsets(&[(7, 0, 16), (8, 0, 16)]), (vec![0, 64], 80));
        assert_eq!(offsets(&[(7, 4, 1), (8, 132, 16)]), (vec![4, 68], 84));
        assert_eq!(offsets(&[(7, 0, 16), (7, 20, 4)]), (vec![0, 20], 24));
        assert_eq!(offsets(&[(7, 0, 100), (7, 4096, 4)]), (vec![0, 128], 132));
    }

    #[test]
    fn empty_bindings_need_no_memory() {
        assert_eq!(offsets(&[]), (vec![], 0));
        assert_eq!(offsets(&[(7, 4096, 0), (7, 64, 4), (9, 9, 0)]), (vec![0, 0, 0], 4));
        assert!(Layout::for_bindings(&[(7, u64::MAX, 2)]).is_err());
    }

    #[test]
    fn random_bindings_overlap_exactly_where_they_did() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let bindings: Vec<_> = (0..random.usize(1..7))
                .map(|_| (random.u64(0..3), random.u64(0..300), random.u64(0..200)))
                .collect();
            let (offsets, total) = offsets(&bindings);
            for (one, at) in bindings.iter().zip(&offsets) {
                assert!(at + one.2 <= total && (one.2 == 0 || at % ALIGNMENT == one.1 % ALIGNMENT));
                for (other, other_at) in bindings.iter().zip(&offsets) {
                    let range = |it: &(u64, u64, u64)| Range { offset: it.1, length: it.2 };
                    let placed = |at: u64, it: &(u64, u64, u64)| Range { offset: at, length: it.2 };
                    let overlaps = one.0 == other.0 && range(one).overlaps(range(other));
                    assert_eq!(placed(*at, one).overlaps(placed(*other_at, other)), overlaps, "{bindings:?}");
                    if overlaps {
                        assert_eq!(at.wrapping_sub(*other_at), one.1.wrapping_sub(other.1), "{bindings:?}");
                    }
                }
            }
        }
    }
}
