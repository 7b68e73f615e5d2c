use std::collections::{BTreeMap, BTreeSet};

/// The free ranges of a block of memory: allocation takes the smallest that fits, freeing merges neighbours.
#[derive(Debug)]
pub(crate) struct Ranges {
    length: u64,
    /// Length by offset.
    by_offset: BTreeMap<u64, u64>,
    /// The same ranges, by length and offset.
    by_length: BTreeSet<(u64, u64)>,
}

/// Where an allocation may begin: `(offset + phase)` is a multiple of `alignment`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alignment {
    /// A power of two.
    pub(crate) alignment: u64,
    /// The address of the block modulo the alignment.
    pub(crate) phase: u64,
}

impl Alignment {
    /// The first offset from `offset` on that is aligned.
    fn after(self, offset: u64) -> Option<u64> {
        let mask = self.alignment - 1;
        let past = offset.wrapping_add(self.phase) & mask;
        if past == 0 { Some(offset) } else { offset.checked_add(self.alignment - past) }
    }
}

impl Ranges {
    /// All of `length` bytes.
    pub(crate) fn new(length: u64) -> Self {
        let mut ranges = Self { length, by_offset: BTreeMap::new(), by_length: BTreeSet::new() };
        ranges.insert(0, length);
        ranges
    }

    /// Whether nothing is allocated.
    pub(crate) fn is_whole(&self) -> bool {
        self.by_offset.get(&0) == Some(&self.length)
    }

    /// Takes `length` bytes; `None` if no range is large enough. `length` is not 0.
    pub(crate) fn take(&mut self, length: u64, alignment: Alignment) -> Option<u64> {
        let fits = |(free, start): &(u64, u64)| {
            let offset = alignment.after(*start)?;
            let end = offset.checked_add(length)?;
            (end <= start + free).then_some((*start, *free, offset, end))
        };
        let (start, free, offset, end) = self.by_length.range((length, 0)..).find_map(fits)?;
        self.remove(start, free);
        self.insert(start, offset - start);
        self.insert(end, start + free - end);
        Some(offset)
    }

    /// Returns a range that was taken.
    pub(crate) fn give(&mut self, offset: u64, length: u64) {
        let (mut start, mut end) = (offset, offset + length);
        if let Some((before, free)) =
            self.by_offset.range(..offset).next_back().map(|(at, free)| (*at, *free))
            && before + free == offset
        {
            self.remove(before, free);
            start = before;
        }
        if let Some(free) = self.by_offset.get(&end).copied() {
            self.remove(end, free);
            end += free;
        }
        self.insert(start, end - start);
    }

    fn insert(&mut self, offset: u64, length: u64) {
        if length != 0 {
            self.by_offset.insert(offset, length);
            self.by_length.insert((length, offset));
        }
    }

    fn remove(&mut self, offset: u64, length: u64) {
        self.by_offset.remove(&offset);
        self.by_length.remove(&(length, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Alignment = Alignment { alignment: 1, phase: 0 };

    #[test]
    fn the_smallest_range_that_fits_is_taken_and_neighbours_merge() {
        let mut ranges = Ranges::new(100);
        let taken: Vec<_> = [10, 20, 30, 40].iter().map(|it| ranges.take(*it, BYTES).unwrap()).collect();
        assert_eq!(taken, [0, 10, 30, 60]);
        assert_eq!(ranges.take(1, BYTES), None);
        ranges.give(60, 40);
        ranges.give(10, 20);
        assert_eq!(ranges.take(15, BYTES), Some(10), "20 bytes fit better than 40");
        ranges.give(10, 15);
        ranges.give(0, 10);
        ranges.give(30, 30);
        assert!(ranges.is_whole());
    }

    #[test]
    fn offsets_are_aligned_to_the_address() {
        let mut ranges = Ranges::new(1 << 16);
        let alignment = Alignment { alignment: 4096, phase: 64 };
        let offset = ranges.take(100, alignment).unwrap();
        assert_eq!((offset + 64) % 4096, 0);
        assert_eq!(ranges.take(64, BYTES), Some(0), "the bytes before it are free");
        ranges.give(0, 64);
        ranges.give(offset, 100);
        assert!(ranges.is_whole());
        assert_eq!(ranges.take(u64::MAX, BYTES), None);
    }

    #[test]
    fn random_allocations_never_overlap() {
        let mut random = 1_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut ranges = Ranges::new(10_000);
        let mut live: Vec<(u64, u64)> = Vec::new();
        for _ in 0..20_000 {
            if next(2) == 0 && !live.is_empty() {
                let (offset, length) = live.swap_remove(next(live.len() as u64) as usize);
                ranges.give(offset, length);
            } else {
                let (length, alignment) = (1 + next(500), 1 << next(8));
                if let Some(offset) = ranges.take(length, Alignment { alignment, phase: 0 }) {
                    assert!(offset % alignment == 0 && offset + length <= 10_000);
                    assert!(live.iter().all(|(at, size)| offset + length <= *at || at + size <= offset));
                    live.push((offset, length));
                }
            }
        }
        for (offset, length) in live {
            ranges.give(offset, length);
        }
        assert!(ranges.is_whole());
    }
}
