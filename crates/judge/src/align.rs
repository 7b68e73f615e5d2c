//! Alignment of two sequences of tokens by a longest common subsequence, in bounded time and linear space.
//!
//! The greedy algorithm of Myers (An O(ND) Difference Algorithm and Its Variations, 1986) is exact as long as
//! few tokens differ. Where many do, it stops after a number of edits, the furthest point is accepted, and
//! the search continues from there. Tokens that occur once on each side divide the sequences before that.
//! Crates for diffs are exact, so quadratic, or take minutes for millions of tokens of few kinds, or stop by
//! the clock, which is not reproducible.

use std::ops::Range;

/// An index without a partner.
pub const NONE: u32 = u32::MAX;

/// Maximum number of edits of one search, which then has a trace of 2 MiB.
const MAX_EDITS: usize = 1024;
/// A search that makes little progress is followed by shorter ones, at least this long.
const MIN_EDITS: usize = 32;
/// Maximum depth of the recursion over unique tokens.
const MAX_DEPTH: u32 = 8;
/// Smaller ranges are searched without dividing them.
const SMALL: usize = 64;

/// Occurrences of a token in the ranges that are divided.
#[derive(Clone, Copy, Default)]
struct Count {
    before: u32,
    after: u32,
    /// The last position in `after`.
    position: u32,
}

/// Two sequences of tokens, and the partners found so far.
pub struct Aligner<'t> {
    before: &'t [u32],
    after: &'t [u32],
    /// The partner in `after` of each token of `before`, or [`NONE`]. Partners are equal tokens.
    pub partners: Vec<u32>,
    /// By token; zeros between two uses.
    counts: Vec<Count>,
    /// The furthest points of each number of edits, by diagonal.
    trace: Vec<u32>,
    furthest: Vec<u32>,
    max_edits: usize,
}

impl<'t> Aligner<'t> {
    /// Of tokens less than `token_count`.
    pub fn new(before: &'t [u32], after: &'t [u32], token_count: usize) -> Self {
        Self {
            before,
            after,
            partners: vec![NONE; before.len()],
            counts: vec![Count::default(); token_count],
            trace: Vec::new(),
            furthest: Vec::new(),
            max_edits: MAX_EDITS,
        }
    }

    /// Aligns two ranges. Partners within them increase.
    pub fn align(&mut self, before: Range<usize>, after: Range<usize>) {
        self.divide(before, after, MAX_DEPTH);
    }

    /// Aligns two ranges: at tokens that occur once in each, and between them.
    fn divide(&mut self, mut before: Range<usize>, mut after: Range<usize>, depth: u32) {
        self.strip(&mut before, &mut after);
        if before.start == before.end || after.start == after.end {
            return;
        }
        if depth == 0 || before.len().min(after.len()) <= SMALL {
            return self.search_common(before, after);
        }
        let anchors = self.unique_pairs(&before, &after);
        if anchors.is_empty() {
            return self.search_common(before, after);
        }
        let (mut first, mut second) = (before.start, after.start);
        for (x, y) in anchors {
            self.partners[x] = y as u32;
            self.divide(first..x, second..y, depth - 1);
            (first, second) = (x + 1, y + 1);
        }
        self.divide(first..before.end, second..after.end, depth - 1);
    }

    /// Pairs what the ranges begin and end with.
    fn strip(&mut self, before: &mut Range<usize>, after: &mut Range<usize>) {
        while before.start < before.end
            && after.start < after.end
            && self.before[before.start] == self.after[after.start]
        {
            self.partners[before.start] = after.start as u32;
            (before.start, after.start) = (before.start + 1, after.start + 1);
        }
        while before.start < before.end
            && after.start < after.end
            && self.before[before.end - 1] == self.after[after.end - 1]
        {
            (before.end, after.end) = (before.end - 1, after.end - 1);
            self.partners[before.end] = after.end as u32;
        }
    }

    fn count(&mut self, before: &Range<usize>, after: &Range<usize>) {
        for token in &self.before[before.clone()] {
            self.counts[*token as usize].before += 1;
        }
        for (position, token) in (after.start as u32..).zip(&self.after[after.clone()]) {
            let count = &mut self.counts[*token as usize];
            (count.after, count.position) = (count.after + 1, position);
        }
    }

    fn forget_counts(&mut self, before: &Range<usize>, after: &Range<usize>) {
        let tokens = self.before[before.clone()].iter().chain(&self.after[after.clone()]);
        tokens.for_each(|token| self.counts[*token as usize] = Count::default());
    }

    /// The longest increasing sequence of pairs of tokens that occur once in each range.
    fn unique_pairs(&mut self, before: &Range<usize>, after: &Range<usize>) -> Vec<(usize, usize)> {
        self.count(before, after);
        let pairs: Vec<(u32, u32)> = before
            .clone()
            .filter_map(|x| match self.counts[self.before[x] as usize] {
                Count { before: 1, after: 1, position } => Some((x as u32, position)),
                _ => None,
            })
            .collect();
        self.forget_counts(before, after);
        longest_increasing(&pairs).into_iter().map(|(x, y)| (x as usize, y as usize)).collect()
    }

    /// Searches among the tokens that occur in both ranges.
    fn search_common(&mut self, before: Range<usize>, after: Range<usize>) {
        self.count(&before, &after);
        let is_common = |token: &u32| {
            let count = self.counts[*token as usize];
            count.before != 0 && count.after != 0
        };
        let common = |range: &Range<usize>, tokens: &[u32]| -> Vec<u32> {
            let positions = range.clone().filter(|at| is_common(&tokens[*at]));
            positions.map(|at| at as u32).collect()
        };
        let (first, second) = (common(&before, self.before), common(&after, self.after));
        self.forget_counts(&before, &after);
        self.search(&first, &second);
    }

    /// Aligns the tokens at these positions, a number of edits at a time.
    fn search(&mut self, mut before: &[u32], mut after: &[u32]) {
        while !before.is_empty() && !after.is_empty() {
            let same = before.iter().zip(after).take_while(|(x, y)| self.is_same(**x, **y)).count();
            self.pair(&before[..same], &after[..same]);
            (before, after) = (&before[same..], &after[same..]);
            let (x, y) = self.advance(before, after);
            (before, after) = (&before[x..], &after[y..]);
        }
    }

    fn is_same(&self, before: u32, after: u32) -> bool {
        self.before[before as usize] == self.after[after as usize]
    }

    fn pair(&mut self, before: &[u32], after: &[u32]) {
        before.iter().zip(after).for_each(|(x, y)| self.partners[*x as usize] = *y);
    }

    /// Searches from the start up to the end, or up to the maximum number of edits; pairs what is on the way,
    /// and returns how far it came.
    fn advance(&mut self, before: &[u32], after: &[u32]) -> (usize, usize) {
        let (n, m) = (before.len(), after.len());
        let max_edits = self.max_edits.min(n + m);
        self.trace.clear();
        // The furthest x by diagonal x - y, from -max_edits - 1 to max_edits + 1. Points beyond the end of a
        // sequence do no harm: no path leads back from there.
        self.furthest.clear();
        self.furthest.resize(2 * max_edits + 3, 0);
        let mut edits = 0;
        loop {
            let (x, y, diagonal) = self.extend(before, after, edits, max_edits);
            if (x, y) == (n, m) || edits == max_edits {
                self.adapt(x + y, edits);
                self.trace_back(before, after, edits, diagonal);
                return (x, y);
            }
            edits += 1;
        }
    }

    /// Finds the furthest points after this number of edits; returns the one that is furthest within both
    /// sequences, with its diagonal.
    fn extend(
        &mut self,
        before: &[u32],
        after: &[u32],
        edits: usize,
        max_edits: usize,
    ) -> (usize, usize, isize) {
        let mut best = (0, 0, 0);
        let edits = edits as isize;
        for diagonal in (-edits..=edits).step_by(2) {
            let at = (diagonal + max_edits as isize + 1) as usize;
            let (below, above) = (self.furthest[at - 1], self.furthest[at + 1]);
            let mut x = match enters_from_above(edits, diagonal, below, above) {
                _ if edits == 0 => 0,
                true => above as usize,
                false => below as usize + 1,
            };
            let mut y = (x as isize - diagonal) as usize;
            while x < before.len() && y < after.len() && self.is_same(before[x], after[y]) {
                (x, y) = (x + 1, y + 1);
            }
            self.furthest[at] = x as u32;
            self.trace.push(x as u32);
            if x <= before.len() && y <= after.len() && x + y >= best.0 + best.1 {
                best = (x, y, diagonal);
            }
        }
        best
    }

    /// Searches less far where the sequences have little in common, so that the time stays in proportion to
    /// their length.
    fn adapt(&mut self, progress: usize, edits: usize) {
        if edits < self.max_edits {
            return;
        }
        let limit = if progress < 8 * edits { self.max_edits / 2 } else { self.max_edits * 2 };
        self.max_edits = limit.clamp(MIN_EDITS, MAX_EDITS);
    }

    /// Pairs the tokens on the path to the furthest point on `diagonal` after these edits.
    fn trace_back(&mut self, before: &[u32], after: &[u32], edits: usize, mut diagonal: isize) {
        for edits in (0..=edits as isize).rev() {
            let x = self.point(edits, diagonal);
            let (below, above) = (self.point(edits - 1, diagonal - 1), self.point(edits - 1, diagonal + 1));
            let is_down = enters_from_above(edits, diagonal, below, above);
            let start = match is_down {
                _ if edits == 0 => 0,
                true => above,
                false => below + 1,
            };
            let y = |x: u32| (x as isize - diagonal) as usize;
            self.pair(&before[start as usize..x as usize], &after[y(start)..y(x)]);
            diagonal += if is_down { 1 } else { -1 };
        }
    }

    /// The furthest x on `diagonal` after these edits; 0 if it has not been reached.
    fn point(&self, edits: isize, diagonal: isize) -> u32 {
        if diagonal.abs() > edits {
            return 0;
        }
        // The points after e edits follow those after 0 to e - 1: 1 + 2 + ... + e of them.
        self.trace[(edits * (edits + 1) / 2 + (diagonal + edits) / 2) as usize]
    }
}

/// Whether the furthest point on a diagonal is reached from the one above, by an insertion, or from the one
/// below it, by a removal.
fn enters_from_above(edits: isize, diagonal: isize, below: u32, above: u32) -> bool {
    diagonal == -edits || (diagonal != edits && below < above)
}

/// The longest sequence of `pairs` whose second elements increase, as their first ones do.
fn longest_increasing(pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    // The last pair of the best sequence of each length, and the predecessor of each pair.
    let mut ends: Vec<u32> = Vec::new();
    let mut previous = vec![NONE; pairs.len()];
    for (index, (_, y)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end as usize].1 < *y);
        if length > 0 {
            previous[index] = ends[length - 1];
        }
        match ends.get_mut(length) {
            Some(end) => *end = index as u32,
            None => ends.push(index as u32),
        }
    }
    let mut chain = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(index) = at {
        chain.push(pairs[index as usize]);
        at = Some(previous[index as usize]).filter(|index| *index != NONE);
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &[u32], after: &[u32]) -> usize {
        let count = before.iter().chain(after).max().map_or(0, |max| *max as usize + 1);
        let mut aligner = Aligner::new(before, after, count);
        aligner.align(0..before.len(), 0..after.len());
        let partners = aligner.partners;
        let pairs: Vec<_> = before.iter().zip(&partners).filter(|(_, partner)| **partner != NONE).collect();
        assert!(pairs.iter().all(|(token, partner)| after[**partner as usize] == **token));
        assert!(pairs.windows(2).all(|it| it[0].1 < it[1].1), "partners increase");
        pairs.len()
    }

    /// The length of a longest common subsequence, by dynamic programming.
    fn longest(before: &[u32], after: &[u32]) -> usize {
        let mut row = vec![0; after.len() + 1];
        for x in before {
            let mut diagonal = 0;
            for (y, token) in after.iter().enumerate() {
                let above = row[y + 1];
                row[y + 1] = if x == token { diagonal + 1 } else { above.max(row[y]) };
                diagonal = above;
            }
        }
        row[after.len()]
    }

    #[test]
    fn short_sequences_are_aligned_exactly() {
        let mut random = fastrand::Rng::with_seed(1);
        for kinds in [1, 2, 3, 8, 40] {
            for _ in 0..400 {
                let mut sequence = || -> Vec<u32> {
                    let length = random.usize(0..40);
                    (0..length).map(|_| random.u32(0..kinds)).collect()
                };
                let (before, after) = (sequence(), sequence());
                let found = check(&before, &after);
                let best = longest(&before, &after);
                assert_eq!(found, best, "{before:?} {after:?}");
            }
        }
    }

    #[test]
    fn a_few_edits_of_a_long_sequence_are_found() {
        let mut random = fastrand::Rng::with_seed(2);
        for kinds in [3, 9, 100, 1_000_000] {
            let before: Vec<u32> = (0..20_000).map(|_| random.u32(0..kinds)).collect();
            let mut after = before.clone();
            for _ in 0..50 {
                let at = random.usize(0..after.len() - 20);
                match random.bool() {
                    true => drop(after.drain(at..at + random.usize(0..10))),
                    false => after.insert(at, random.u32(0..kinds)),
                }
            }
            let removed = before.len() - check(&before, &after);
            assert!(removed <= 500, "{kinds}: {removed}");
        }
    }

    #[test]
    fn a_long_block_between_unique_tokens_is_found() {
        let layer = |number: u32| (0..20).map(move |at| if at == 7 { 100 + number } else { at });
        let before: Vec<u32> = (0..1000).flat_map(layer).collect();
        let after: Vec<u32> = (0..200).chain(500..1000).flat_map(layer).collect();
        assert_eq!(check(&before, &after), after.len());
        assert_eq!(check(&after, &before), after.len());
    }

    #[test]
    fn sequences_that_differ_everywhere_take_little_time() {
        let mut random = fastrand::Rng::with_seed(3);
        for kinds in [2, 10, 1000] {
            let mut sequence = || -> Vec<u32> { (0..60_000).map(|_| random.u32(0..kinds)).collect() };
            let (before, after) = (sequence(), sequence());
            check(&before, &after);
        }
        let before: Vec<u32> = (0..60_000).collect();
        let after: Vec<u32> = (0..60_000).rev().collect();
        assert_eq!(check(&before, &after), 1);
    }

    /// Without this test, a search may stay long where little is common, and take quadratic time.
    #[test]
    fn searches_are_shorter_where_little_is_common() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut sequence = || -> Vec<u32> { (0..4000).map(|_| random.u32(0..1000)).collect() };
        let (before, after) = (sequence(), sequence());
        let mut aligner = Aligner::new(&before, &after, 1000);
        let all: Vec<u32> = (0..4000).collect();
        aligner.search(&all, &all);
        assert_eq!(aligner.max_edits, MIN_EDITS);
        for (progress, edits, expected) in
            [(8 * 32 - 1, 32, MIN_EDITS), (8 * 32, 32, 64), (0, 63, 64), (8 * 64 - 1, 64, 32)]
        {
            aligner.adapt(progress, edits);
            assert_eq!(aligner.max_edits, expected, "{progress} {edits}");
        }
        aligner.max_edits = MAX_EDITS;
        aligner.adapt(8 * MAX_EDITS, MAX_EDITS);
        assert_eq!(aligner.max_edits, MAX_EDITS);
    }
}
