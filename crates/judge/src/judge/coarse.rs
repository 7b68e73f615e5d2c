//! Times of a few steps of the clock.
//!
//! A clock that advances in steps makes most times of a short kernel equal: one that takes 34 ns takes 30 or
//! 40 by a clock with steps of 10 ns, and the shortest is 30 for all kernels from 30 to 40 ns, however often
//! it is repeated. But if the kernel begins anywhere within a step, with the same probability, then 40 % of
//! its times are 40 ns, and their mean is 34 ns (time interval averaging, as frequency counters do it).
//! Timing delays each dispatch by a random time for that.

use crate::stats;

/// A clock whose steps are at most this part of the precision, as a fraction of a kernel's time, leaves at
/// least half of it to what is not the clock's: the shortest times of both sides are each wrong by less than
/// a step. The interval of the mean of all dispatches, which counts too if steps are longer, is far wider on
/// a machine that is shared.
const FINE: f64 = 1.0 / 4.0;

/// Longer steps, in nanoseconds, are not averaged, since what is timed cannot be delayed for several of them.
pub const LONGEST_STEP_NS: f64 = 250_000.0;

/// Quantile of the normal distribution for intervals of 99 %.
const NORMAL_99: f64 = 2.576;

/// Whether the steps of the clock decide on the shortest time.
pub(super) fn is_coarse(shortest_ns: f64, resolution_ns: f64, precision: f64) -> bool {
    resolution_ns > FINE * precision * shortest_ns && resolution_ns <= LONGEST_STEP_NS
}

/// The mean of the times that nothing has disturbed, and their number: of those that are near the shortest,
/// where near is as far as the lower quartile spreads. One beside the shortest may be a step longer, or two.
pub(super) fn undisturbed_mean(times: &[f64], resolution_ns: f64) -> (f64, usize) {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let Some(shortest) = times.first() else { return (0.0, 0) };
    let quartile = times[times.len() / 4];
    let limit = shortest + 2.0 * resolution_ns + 2.0 * (quartile - shortest);
    let kept = times.partition_point(|it| *it <= limit);
    // All may be 0 if the kernel takes much less than a step.
    let least = resolution_ns / (2 * kept) as f64;
    (stats::mean(&times[..kept]).max(least), kept)
}

/// The mean of all times, where those of more than `most` times the median count as that.
pub(super) fn limited_mean(times: &[f64], most: f64, resolution_ns: f64) -> f64 {
    let limit = most * stats::median(times) + resolution_ns;
    let limited: Vec<f64> = times.iter().map(|it| it.min(limit)).collect();
    stats::mean(&limited).max(resolution_ns / (2 * times.len().max(1)) as f64)
}

/// How far the logarithm of the ratio of two sums of times may be from the true one because the clock
/// advances in steps: the sums of the captured kernel and of the replacement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps([Sum; 2]);

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    time_ns: f64,
    /// The variance of its means, in ns^2.
    variance: f64,
    /// The largest difference of its shortest times, in ns.
    difference_ns: f64,
}

impl Steps {
    /// Adds times that are means of `counts`: the difference of a time from its true one has a standard
    /// deviation of at most half a step, wherever between two steps it is.
    pub(super) fn add_means(&mut self, times: [f64; 2], counts: [u64; 2], resolution_ns: f64, weight: f64) {
        for ((sum, time_ns), count) in self.0.iter_mut().zip(times).zip(counts) {
            sum.time_ns += weight * time_ns;
            sum.variance += (weight * resolution_ns / 2.0).powi(2) / count.max(1) as f64;
        }
    }

    /// Adds shortest times. They are wrong by less than a step.
    pub(super) fn add_shortest(&mut self, times: [f64; 2], resolution_ns: f64, weight: f64) {
        for (sum, time_ns) in self.0.iter_mut().zip(times) {
            sum.time_ns += weight * time_ns;
            sum.difference_ns += weight * resolution_ns;
        }
    }

    /// The half of an interval of 99 %, if batches did not differ: of the means.
    pub(super) fn deviation(&self) -> f64 {
        let of = |sum: &Sum| sum.variance / sum.time_ns.powi(2).max(f64::MIN_POSITIVE);
        NORMAL_99 * self.0.iter().map(of).sum::<f64>().sqrt()
    }

    /// The largest difference that repetitions do not average out: of the shortest times.
    pub(super) fn difference(&self) -> f64 {
        self.0.iter().map(|sum| sum.difference_ns / sum.time_ns.max(f64::MIN_POSITIVE)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this test, disturbed times may be in a mean, or a mean be that of other times than counted.
    #[test]
    fn means_are_those_of_times_worked_out_by_hand() {
        // Within two steps of the shortest, since the quartile is the shortest.
        assert_eq!(undisturbed_mean(&[1000.0, 40.0, 30.0, 30.0, 40.0], 10.0), (35.0, 4));
        // The quartile, 18, is 8 above the shortest: up to 10 + 2 + 16.
        let spread = [34.0, 10.0, 28.0, 14.0, 22.0, 18.0, 29.0, 38.0];
        assert_eq!(undisturbed_mean(&spread, 1.0), (18.4, 5));
        assert_eq!(undisturbed_mean(&[0.0; 4], 30.0), (3.75, 4));
        assert_eq!(undisturbed_mean(&[], 30.0), (0.0, 0));
        // At most 3 * 10 + 1 counts.
        assert_eq!(limited_mean(&[10.0, 100.0, 10.0, 10.0], 3.0, 1.0), 15.25);
        assert_eq!(limited_mean(&[0.0; 2], 3.0, 8.0), 2.0);
    }

    /// Without this test, a clock may be called coarse that is not, whose shortest times then do not count.
    #[test]
    fn a_clock_is_coarse_from_a_quarter_of_the_precision() {
        assert!(is_coarse(100.0, 2.6, 0.1) && !is_coarse(100.0, 2.5, 0.1));
        assert!(is_coarse(1.0, LONGEST_STEP_NS, 0.1) && !is_coarse(1.0, LONGEST_STEP_NS + 1.0, 0.1));
    }

    /// Without this test, an interval may be narrower than what the steps of the clock explain.
    #[test]
    fn steps_widen_by_what_is_worked_out_by_hand() {
        let mut steps = Steps::default();
        assert_eq!((steps.deviation(), steps.difference()), (0.0, 0.0));
        steps.add_means([100.0, 200.0], [4, 0], 10.0, 2.0);
        steps.add_shortest([50.0, 50.0], 10.0, 1.0);
        // Variances of 10^2 / 4 and 10^2 of sums of 250 and 450.
        assert!((steps.deviation() - 0.077014523434).abs() < 1e-11, "{}", steps.deviation());
        assert_eq!(steps.difference(), 10.0 / 250.0 + 10.0 / 450.0);
        steps.add_shortest([50.0, 50.0], 10.0, 3.0);
        assert_eq!(steps.difference(), 40.0 / 400.0 + 40.0 / 600.0);
    }
}
