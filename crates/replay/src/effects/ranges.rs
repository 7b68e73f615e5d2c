use std::collections::BTreeMap;

use rehal_base::Range;

/// A set of bytes: sorted ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<Range>);

impl Ranges {
    /// Adds a range; returns the parts of it that are new, in order.
    pub(crate) fn add(&mut self, range: Range) -> Vec<Range> {
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
    pub(crate) fn covers(&self, range: Range) -> bool {
        let at = self.0.partition_point(|it| it.end() < range.end());
        self.0.get(at).is_some_and(|it| it.offset <= range.offset)
    }

    /// The ranges, joined over the gaps that `joins` accepts.
    pub(crate) fn joined(&self, joins: impl Fn(Range) -> bool) -> Vec<Range> {
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
    pub(crate) fn joined_to(&self, mut gap_bytes: u64, count: usize) -> Vec<Range> {
        loop {
            let joined = self.joined(|gap| gap.length < gap_bytes);
            if joined.len() <= count {
                return joined;
            }
            gap_bytes = gap_bytes.saturating_mul(4);
        }
    }

    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range> {
        self.0.iter().copied()
    }
}

/// The same bytes as ranges in order, without overlap.
pub fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.retain(|range| range.length != 0);
    ranges.sort_by_key(|range| range.offset);
    ranges.dedup_by(|next, last| {
        let is_merged = next.offset <= last.end();
        if is_merged {
            last.length = last.end().max(next.end()) - last.offset;
        }
        is_merged
    });
    ranges
}

/// The bytes that two ranges share, if there are any.
pub(crate) fn overlap(one: Range, other: Range) -> Option<Range> {
    let offset = one.offset.max(other.offset);
    let end = one.end().min(other.end());
    (offset < end).then(|| Range { offset, length: end - offset })
}

/// How many bytes are in ranges of buffers, which have ids; each byte counts once.
pub fn distinct_bytes(ranges: impl IntoIterator<Item = (u64, Range)>) -> u64 {
    let mut by_buffer: BTreeMap<u64, Vec<Range>> = BTreeMap::new();
    ranges.into_iter().for_each(|(buffer, range)| by_buffer.entry(buffer).or_default().push(range));
    by_buffer.into_values().flat_map(merged).map(|it| it.length).sum()
}

/// The parts of `ranges` that no range of `others` covers; both are in order and do not overlap themselves.
pub fn without(ranges: &[Range], others: impl Iterator<Item = Range>) -> Vec<Range> {
    let mut others = others.peekable();
    let mut rest = Vec::new();
    for range in ranges {
        let (mut start, end) = (range.offset, range.end());
        while start < end {
            match others.peek() {
                Some(other) if other.end() <= start => {
                    others.next();
                }
                Some(other) if other.offset < end => {
                    push(&mut rest, start, other.offset);
                    start = other.end();
                }
                _ => {
                    push(&mut rest, start, end);
                    start = end;
                }
            }
        }
    }
    rest
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

    fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.offset, range.length)).collect()
    }

    #[test]
    fn what_others_cover_is_left_out() {
        let range = |offset, length| Range { offset, length };
        let others = || [range(0, 10), range(20, 5), range(40, 100)].into_iter();
        assert_eq!(pairs(&without(&[range(0, 10), range(22, 2)], others())), []);
        assert_eq!(pairs(&without(&[range(5, 20), range(30, 20)], others())), [(10, 10), (30, 10)]);
        assert_eq!(pairs(&without(&[range(200, 3)], others())), [(200, 3)]);
        assert_eq!(pairs(&without(&[range(15, 30)], others())), [(15, 5), (25, 15)]);
    }

    #[test]
    fn ranges_are_merged() {
        let of = |ranges: &[(u64, u64)]| {
            let ranges = ranges.iter().map(|&(offset, length)| Range { offset, length });
            pairs(&merged(ranges.collect()))
        };
        assert_eq!(of(&[(10, 5), (0, 4), (15, 5), (3, 2), (40, 0)]), [(0, 5), (10, 10)]);
        assert_eq!(of(&[(0, 100), (10, 5)]), [(0, 100)]);
        let bound = [(1, (0, 10)), (2, (5, 10)), (1, (5, 10)), (2, (15, 1)), (1, (20, 1))];
        let bound = bound.map(|(buffer, (offset, length))| (buffer, Range { offset, length }));
        assert_eq!(distinct_bytes(bound), 15 + 1 + 11);
    }
}
