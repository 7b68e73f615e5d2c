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

    /// The ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range> {
        self.0.iter().copied()
    }
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
}
