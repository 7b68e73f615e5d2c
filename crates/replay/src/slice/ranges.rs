use rehal_base::Range;

/// A set of bytes: sorted ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

impl Ranges {
    /// Adds a range; returns the parts of it that are new, in order.
    pub(super) fn add(&mut self, range: Range) -> Vec<Range> {
        if range.length == 0 {
            return Vec::new();
        }
        let first = self.0.partition_point(|it| it.end() < range.offset);
        let last = self.0.partition_point(|it| it.offset <= range.end());
        let (mut new, mut at) = (Vec::new(), range.offset);
        for old in &self.0[first..last] {
            push(&mut new, at, old.offset.min(range.end()));
            at = at.max(old.end());
        }
        push(&mut new, at, range.end());
        let (mut start, mut end) = (range.offset, range.end());
        if first < last {
            start = start.min(self.0[first].offset);
            end = end.max(self.0[last - 1].end());
        }
        self.0.splice(first..last, [Range { offset: start, length: end - start }]);
        new
    }

    /// Whether it contains all bytes of a range.
    pub(super) fn covers(&self, range: Range) -> bool {
        let at = self.0.partition_point(|it| it.end() < range.end());
        self.0.get(at).is_some_and(|it| it.offset <= range.offset)
    }

    /// The ranges, joined over the gaps that `joins` accepts.
    pub(super) fn joined(&self, joins: impl Fn(Range) -> bool) -> Vec<Range> {
        let mut joined: Vec<Range> = Vec::new();
        for range in &self.0 {
            let gap = |last: &Range| Range { offset: last.end(), length: range.offset - last.end() };
            match joined.last_mut() {
                Some(last) if joins(gap(last)) => last.length = range.end() - last.offset,
                _ => joined.push(*range),
            }
        }
        joined
    }

    /// At most `count` ranges, joined over gaps below a size, which grows until there are no more.
    pub(super) fn joined_to(&self, mut gap_bytes: u64, count: usize) -> Vec<Range> {
        loop {
            let joined = self.joined(|gap| gap.length < gap_bytes);
            if joined.len() <= count {
                return joined;
            }
            gap_bytes = gap_bytes.saturating_mul(4);
        }
    }

    /// The ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range> {
        self.0.iter().copied()
    }
}

/// Unit of [`changes`]: a multiple of the size of every element, so that no element is split.
pub const CHANGE_BYTES: usize = 16;
/// Bytes that are compared at once while nothing differs.
const STRIDE_BYTES: usize = 4 << 10;

/// The ranges in which two slices of the same length differ, in units of [`CHANGE_BYTES`]; ranges that touch are one.
pub fn changes(before: &[u8], after: &[u8]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut add = |offset: usize, length: usize| {
        let (offset, length) = (offset as u64, length as u64);
        match ranges.last_mut() {
            Some(last) if last.end() == offset => last.length += length,
            _ => ranges.push(Range { offset, length }),
        }
    };
    let strides = before.chunks(STRIDE_BYTES).zip(after.chunks(STRIDE_BYTES));
    for (number, (old, new)) in strides.enumerate().filter(|(_, (old, new))| old != new) {
        let start = number * STRIDE_BYTES;
        // Of constant length, so that they are compared in a register and not by a call each.
        let ((old, old_rest), (new, new_rest)) = (old.as_chunks(), new.as_chunks());
        for (grain, _) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| is_changed(old, new)) {
            add(start + grain * CHANGE_BYTES, CHANGE_BYTES);
        }
        if old_rest != new_rest {
            add(start + old.len() * CHANGE_BYTES, new_rest.len());
        }
    }
    ranges
}

fn is_changed(old: &[u8; CHANGE_BYTES], new: &[u8; CHANGE_BYTES]) -> bool {
    u128::from_ne_bytes(*old) != u128::from_ne_bytes(*new)
}

fn push(list: &mut Vec<Range>, start: u64, end: u64) {
    if start < end {
        list.push(Range { offset: start, length: end - start });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_equal_those_of_single_bytes() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 40]);
            for _ in 0..8 {
                let offset = random.u64(0..30);
                let range = Range { offset, length: random.u64(0..10) };
                let span = offset as usize..range.end() as usize;
                let expected: Vec<u64> = (offset..range.end()).filter(|at| !bytes[*at as usize]).collect();
                let new: Vec<u64> = ranges.add(range).iter().flat_map(|it| it.offset..it.end()).collect();
                assert_eq!(new, expected);
                bytes[span].fill(true);
                let all: Vec<u64> = ranges.iter().flat_map(|it| it.offset..it.end()).collect();
                assert_eq!(all, (0..40).filter(|at| bytes[*at as usize]).collect::<Vec<_>>());
                assert!(ranges.0.windows(2).all(|pair| pair[0].end() < pair[1].offset));
            }
        }
    }

    #[test]
    fn ranges_are_joined_over_accepted_gaps() {
        let mut ranges = Ranges::default();
        for (offset, length) in [(0, 10), (12, 8), (30, 10), (100, 1)] {
            ranges.add(Range { offset, length });
        }
        let pairs = |ranges: Vec<Range>| ranges.iter().map(|it| (it.offset, it.end())).collect::<Vec<_>>();
        assert_eq!(pairs(ranges.joined(|gap| gap.length <= 2)), [(0, 20), (30, 40), (100, 101)]);
        assert_eq!(pairs(ranges.joined(|gap| gap.offset == 20)), [(0, 10), (12, 40), (100, 101)]);
        assert_eq!(pairs(ranges.joined_to(1, 2)), [(0, 40), (100, 101)]);
        assert_eq!(pairs(ranges.joined_to(1, 1)), [(0, 101)]);
        let covers = |offset, length| ranges.covers(Range { offset, length });
        assert!(covers(0, 10) && covers(12, 8) && covers(13, 1) && covers(100, 1));
        assert!(!covers(9, 4) && !covers(10, 2) && !covers(99, 2) && !covers(200, 1));
    }

    #[test]
    fn changes_are_whole_units() {
        let before = vec![0; 10_005];
        let mut after = before.clone();
        assert!(changes(&before, &after).is_empty());
        for at in [5, 40, 4095, 4096, 9_999, 10_003] {
            after[at] = 1;
        }
        let pairs: Vec<_> = changes(&before, &after).iter().map(|it| (it.offset, it.length)).collect();
        assert_eq!(pairs, [(0, 16), (32, 16), (4080, 32), (9984, 21)]);
    }
}
