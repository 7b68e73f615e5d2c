//! Delta debugging over a list: leaves out ever smaller runs of its items.

use std::ops::Range;

use rehal_base::Result;

/// Tests what remains of a list.
pub(super) trait Trials<T> {
    /// Tests the list without each of these ranges, given what remains; returns the first one that passes.
    /// Tests after that one are not counted on.
    fn first_passing(&mut self, items: &[T], without: &[Range<usize>]) -> Result<Option<usize>>;

    /// How many ranges to pass at once.
    fn width(&self) -> usize;

    /// Whether to stop.
    fn is_over(&mut self) -> bool;
}

/// Leaves items out of a list, from its end to its begin, until no single one can be left out. Starts with
/// runs of `first` items. Returns whether any was left out.
pub(super) fn reduce<T>(items: &mut Vec<T>, first: usize, trials: &mut impl Trials<T>) -> Result<bool> {
    let mut has_changed = false;
    let mut size = first.min(items.len());
    while size > 0 {
        let changed = one_pass(items, size, trials)?;
        has_changed |= changed;
        if trials.is_over() {
            break;
        }
        size = match size {
            // What was left out may allow that what comes later is.
            1 if changed => 1,
            1 => 0,
            _ => (size / 2).min(items.len()),
        };
    }
    Ok(has_changed)
}

fn one_pass<T>(items: &mut Vec<T>, size: usize, trials: &mut impl Trials<T>) -> Result<bool> {
    let mut changed = false;
    let mut end = items.len();
    while end > 0 && !trials.is_over() {
        let mut batch = Vec::new();
        let mut at = end;
        while at > 0 && batch.len() < trials.width().max(1) {
            let start = at.saturating_sub(size);
            batch.push(start..at);
            at = start;
        }
        match trials.first_passing(items, &batch)? {
            Some(index) => {
                let range = batch[index].clone();
                end = range.start;
                drop(items.drain(range));
                changed = true;
            }
            None => end = at,
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Needs<F> {
        is_needed: F,
        width: usize,
        tests: usize,
    }

    impl<F: Fn(&[u32]) -> bool> Trials<u32> for Needs<F> {
        fn first_passing(&mut self, items: &[u32], without: &[Range<usize>]) -> Result<Option<usize>> {
            let passes = |range: &Range<usize>| {
                let rest: Vec<u32> =
                    items[..range.start].iter().chain(&items[range.end..]).copied().collect();
                (self.is_needed)(&rest)
            };
            let found = without.iter().position(passes);
            self.tests += found.map_or(without.len(), |at| at + 1);
            Ok(found)
        }

        fn width(&self) -> usize {
            self.width
        }

        fn is_over(&mut self) -> bool {
            self.tests > 100_000
        }
    }

    fn reduced(count: u32, width: usize, is_needed: impl Fn(&[u32]) -> bool) -> (Vec<u32>, usize) {
        let mut items: Vec<u32> = (0..count).collect();
        let mut trials = Needs { is_needed, width, tests: 0 };
        reduce(&mut items, usize::MAX, &mut trials).unwrap();
        (items, trials.tests)
    }

    #[test]
    fn what_is_needed_remains_whatever_the_width() {
        for width in [1, 2, 7] {
            let (items, tests) = reduced(1000, width, |rest| rest.contains(&17) && rest.contains(&803));
            assert_eq!(items, [17, 803]);
            assert!(tests < 120, "{tests}");
            assert!(reduced(1000, width, |_| true).0.is_empty());
            assert_eq!(reduced(5, width, |rest| rest.len() == 5).0, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn the_result_is_minimal_if_later_items_depend_on_earlier_ones() {
        // Each item can be left out only after the one before it.
        let (items, _) = reduced(20, 1, |rest| {
            let first = rest.first().copied().unwrap_or(20);
            rest.iter().copied().eq(first..20)
        });
        assert!(items.is_empty(), "{items:?}");
    }

    #[test]
    fn no_single_item_of_a_result_can_be_left_out() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let groups: Vec<Vec<u32>> = (0..3).map(|_| (0..3).map(|_| random.u32(..40)).collect()).collect();
            let is_needed =
                |rest: &[u32]| groups.iter().any(|group| group.iter().all(|it| rest.contains(it)));
            let (items, _) = reduced(40, 3, is_needed);
            for at in 0..items.len() {
                let mut rest = items.clone();
                rest.remove(at);
                assert!(is_needed(&items) && !is_needed(&rest), "{groups:?}: {items:?}");
            }
        }
    }
}
