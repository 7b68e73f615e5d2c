//! Which ranges are the first to overlap others, in a time that is not quadratic for any capture.

/// The first range, by index, that overlaps each of them; `None` if no earlier one does. Ranges are a buffer,
/// an offset and a length.
pub(super) fn first(ranges: &[(u64, u64, u64)]) -> Vec<Option<u32>> {
    let mut sorted: Vec<usize> = (0..ranges.len()).collect();
    sorted.sort_unstable_by_key(|index| ranges[*index]);
    let mut places = vec![0; ranges.len()];
    sorted.iter().enumerate().for_each(|(place, index)| places[*index] = place);
    let mut open = Ends::from_positions(sorted.iter().map(|index| end(ranges[*index])));
    let mut first = vec![None; ranges.len()];
    // Each takes the later ones that it overlaps and that no earlier one has taken.
    for (index, &range) in ranges.iter().enumerate() {
        open.remove(places[index]);
        let (buffer, offset, length) = range;
        if length == 0 {
            continue;
        }
        let (begin, limit) = ((buffer, offset), end(range));
        let before_end = sorted.partition_point(|it| (ranges[*it].0, ranges[*it].1) < limit);
        let mut after = 0;
        while let Some(place) = open.next_after(begin, after, before_end) {
            // An empty range has no bytes, wherever it is.
            if ranges[sorted[place]].2 != 0 {
                first[sorted[place]] = Some(index as u32);
                open.remove(place);
            }
            after = place + 1;
        }
    }
    first
}

/// A position: a buffer, and a byte of it.
type Position = (u64, u64);

fn end((buffer, offset, length): (u64, u64, u64)) -> Position {
    (buffer, offset.saturating_add(length))
}

/// A tree of the largest ends of ranges.
struct Ends {
    /// The root is the first; the children of `n` are `2 n` and `2 n + 1`.
    nodes: Vec<Position>,
    leaf_count: usize,
}

impl Ends {
    fn from_positions(ends: impl ExactSizeIterator<Item = Position>) -> Self {
        let leaf_count = ends.len().next_power_of_two();
        let mut nodes = vec![(0, 0); 2 * leaf_count];
        ends.enumerate().for_each(|(place, end)| nodes[leaf_count + place] = end);
        (1..leaf_count).rev().for_each(|node| nodes[node] = nodes[2 * node].max(nodes[2 * node + 1]));
        Self { nodes, leaf_count }
    }

    fn remove(&mut self, place: usize) {
        let mut node = self.leaf_count + place;
        self.nodes[node] = (0, 0);
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
        }
    }

    /// The first place from `from` and before `to` that ends after a position.
    fn next_after(&self, position: Position, from: usize, to: usize) -> Option<usize> {
        let mut node = self.leaf_count + from;
        if from >= to {
            return None;
        }
        // Up to the first subtree, to the right, that has one.
        while self.nodes[node] <= position {
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < self.leaf_count {
            node *= 2;
            node += usize::from(self.nodes[node] <= position);
        }
        Some(node - self.leaf_count).filter(|place| *place < to)
    }
}

#[cfg(test)]
mod tests {
    use rehal_base::Range;

    use super::*;

    #[test]
    fn the_first_overlap_is_that_of_all_pairs() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let count = random.usize(0..9);
            let ranges: Vec<_> =
                (0..count).map(|_| (random.u64(0..3), random.u64(0..20), random.u64(0..8))).collect();
            let overlap = |one: &(u64, u64, u64), other: &(u64, u64, u64)| {
                let range = |it: &(u64, u64, u64)| Range { offset: it.1, length: it.2 };
                one.0 == other.0 && one.2 != 0 && other.2 != 0 && range(one).overlaps(range(other))
            };
            let of = |(at, it): (usize, _)| {
                ranges[..at].iter().position(|other| overlap(other, it)).map(|first| first as u32)
            };
            let expected: Vec<_> = ranges.iter().enumerate().map(of).collect();
            assert_eq!(first(&ranges), expected, "{ranges:?}");
        }
    }
}
