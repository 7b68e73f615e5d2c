//! Times of two sets of processes.

use rehal_base::{Error, Result};

use super::TimingVerdict;
use crate::stats::{self, Interval};

/// How the times of two sets of processes compare.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProcessJudgment {
    /// The median of the ratios of each process after to each before; not a number if there is none.
    pub ratio: f64,
    /// Its interval; `None` with too few processes: with one comparison, fewer than four on each side.
    pub interval: Option<Interval>,
    /// The verdict that it proves.
    pub verdict: TimingVerdict,
}

/// Compares the times of processes `after` with those `before`. What is slower or faster is proved to be so
/// by more than the `margin`: one side is often measured after the other, and the machine changes by some
/// percent within a minute. `comparisons` is the number of such comparisons in a report, such as one for each
/// function: with 95 %, all of their intervals contain their ratios.
///
/// A process has one placement in memory, which may make it slower by some percent. So the difference of one
/// process before and one after proves nothing, however many times each took: without an interval, it cannot
/// be told, nor if a time is not above 0.
pub fn judge_processes(before: &[f64], after: &[f64], margin: f64, comparisons: usize) -> ProcessJudgment {
    if !before.iter().chain(after).all(|it| it.is_finite() && *it > 0.0) {
        return ProcessJudgment { ratio: f64::NAN, interval: None, verdict: TimingVerdict::CannotTell };
    }
    let outside = 0.05 / comparisons.max(1) as f64;
    let interval = stats::ratio_interval(before, after, outside);
    let verdict = match interval {
        Some(Interval { low, .. }) if low > 1.0 + margin => TimingVerdict::Slower,
        Some(Interval { high, .. }) if high < 1.0 / (1.0 + margin) => TimingVerdict::Faster,
        Some(Interval { high, .. }) if high < 1.0 + margin => TimingVerdict::NotSlower,
        _ => TimingVerdict::CannotTell,
    };
    let ratios: Vec<f64> = before.iter().flat_map(|it| after.iter().map(move |after| after / it)).collect();
    let ratio = if ratios.is_empty() { f64::NAN } else { stats::median(&ratios) };
    ProcessJudgment { ratio, interval, verdict }
}

/// Checks what a user gives to [`judge_processes`]: times above 0, from one to a thousand on each side, and a
/// margin of at least 0.
pub fn check_times(before: &[f64], after: &[f64], margin: f64) -> Result<()> {
    /// More would take long to judge.
    const MOST: usize = 1000;
    for (times, side) in [(before, "before"), (after, "after")] {
        if times.len() > MOST {
            let message = format!("{} times {side} are more than {MOST}", times.len());
            return Err(Error::invalid_argument(message).advise("give the median time of each process"));
        }
        if times.is_empty() || !times.iter().all(|it| it.is_finite() && *it > 0.0) {
            let message = format!("times {side} are numbers above 0, and at least one");
            return Err(Error::invalid_argument(message).advise("give the median time of each process"));
        }
    }
    match margin.is_finite() && margin >= 0.0 {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!("invalid margin {margin} (expected at least 0)"))),
    }
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
        (0..200).map(|_| judge_processes(&times(1.0), &times(factor), 0.05, comparisons).verdict).collect()
    }

    fn count(verdicts: &[TimingVerdict], of: &[TimingVerdict]) -> usize {
        verdicts.iter().filter(|it| of.contains(it)).count()
    }

    #[test]
    fn a_process_on_each_side_proves_nothing() {
        let one = judge_processes(&[1.0], &[3.0], 0.05, 1);
        let cannot_tell = TimingVerdict::CannotTell;
        assert_eq!(one, ProcessJudgment { ratio: 3.0, interval: None, verdict: cannot_tell });
        for before in [&[][..], &[1.0, 1.0, 1.0, 0.0], &[1.0, 1.0, 1.0, f64::NAN]] {
            let judgment = judge_processes(before, &[3.0; 4], 0.05, 1);
            assert!(judgment.ratio.is_nan(), "{judgment:?}");
            assert_eq!((judgment.interval, judgment.verdict), (None, cannot_tell));
        }
        assert_eq!(judge_processes(&[1.0; 4], &[3.0; 4], 0.05, 1).verdict, TimingVerdict::Slower);
    }

    #[test]
    fn a_drift_within_the_margin_proves_nothing() {
        use TimingVerdict::{CannotTell, Faster, NotSlower, Slower};
        let verdict = |after: [f64; 5], margin| judge_processes(&[1.0; 5], &after, margin, 1).verdict;
        let (drift, up) = ([1.02, 1.03, 1.03, 1.03, 1.04], [1.02, 1.03, 1.04, 1.06, 1.07]);
        assert_eq!(
            [verdict(drift, 0.05), verdict(drift, 0.0), verdict(up, 0.05)],
            [NotSlower, Slower, CannotTell]
        );
        assert_eq!(
            [verdict([0.97; 5], 0.05), verdict([0.97; 5], 0.0), verdict([0.9; 5], 0.05)],
            [NotSlower, Faster, Faster]
        );
    }

    #[test]
    fn equal_processes_are_rarely_different_and_slower_ones_are_found() {
        use TimingVerdict::{Faster, Slower};
        let equal = verdicts(1.0, 8, 1);
        assert!(count(&equal, &[Faster, Slower]) <= 10, "{equal:?}");
        assert!(count(&verdicts(1.2, 8, 1), &[Slower]) >= 190);
        // Of thirty functions, and so with a wider interval.
        let of_many = verdicts(1.2, 8, 30);
        assert!(count(&of_many, &[Slower]) >= 150, "{of_many:?}");
        assert_eq!(count(&verdicts(1.0, 8, 30), &[Faster, Slower]), 0);
    }
}
