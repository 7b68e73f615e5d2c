//! Times of two sets of processes.

use super::TimingVerdict;
use crate::stats::{self, Interval};

/// Compares the times of processes `after` with those `before`: the ratio, its interval, and what it proves
/// with this margin (see [`Judgment::margin`](super::Judgment::margin)). `comparisons` is the number of such
/// comparisons that are told together, such as one for each function: with 95 %, all of their intervals
/// contain their ratios.
///
/// A process has one placement in memory, which may make it slower by some percent. So the difference of one
/// process before and one after proves nothing, however many times each took: without an interval, nothing is
/// told.
pub fn judge_processes(
    before: &[f64],
    after: &[f64],
    margin: f64,
    comparisons: usize,
) -> (f64, Option<Interval>, TimingVerdict) {
    let outside = 0.05 / comparisons.max(1) as f64;
    let ratio = stats::median(after) / stats::median(before);
    let interval = stats::ratio_interval(before, after, outside);
    (ratio, interval, TimingVerdict::of(interval, margin))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process whose placement makes it up to 6 % slower.
    fn process(random: &mut fastrand::Rng, factor: f64) -> f64 {
        1000.0 * factor * (1.0 + 0.06 * random.f64()) * (1.0 + 0.01 * random.f64())
    }

    fn verdicts(factor: f64, count: usize, comparisons: usize) -> Vec<TimingVerdict> {
        let mut random = fastrand::Rng::with_seed(3);
        let mut times = |factor| (0..count).map(|_| process(&mut random, factor)).collect::<Vec<_>>();
        (0..200).map(|_| judge_processes(&times(1.0), &times(factor), 0.05, comparisons).2).collect()
    }

    fn count(verdicts: &[TimingVerdict], of: &[TimingVerdict]) -> usize {
        verdicts.iter().filter(|it| of.contains(it)).count()
    }

    #[test]
    fn a_process_on_each_side_proves_nothing() {
        assert_eq!(judge_processes(&[1.0], &[3.0], 0.05, 1), (3.0, None, TimingVerdict::CannotTell));
        assert_eq!(judge_processes(&[], &[3.0], 0.05, 1).1, None);
    }

    #[test]
    fn equal_processes_are_rarely_different_and_slower_ones_are_found() {
        use TimingVerdict::{Faster, Slower};
        let equal = verdicts(1.0, 8, 1);
        assert!(count(&equal, &[Faster, Slower]) <= 10, "{equal:?}");
        assert!(count(&verdicts(1.12, 8, 1), &[Slower]) >= 190);
        // Of thirty functions, and so with a wider interval.
        let of_many = verdicts(1.12, 8, 30);
        assert!(count(&of_many, &[Slower]) >= 150, "{of_many:?}");
        assert_eq!(count(&verdicts(1.0, 8, 30), &[Faster, Slower]), 0);
    }
}
