use crate::SampleStatistics;
use crate::stats::{self, Interval, MIN_INTERVAL_SAMPLES};

/// The most samples that one run is divided into: enough for an interval, few enough that reading the clock
/// between them costs nothing.
pub(crate) const MAX_SAMPLES_PER_RUN: u64 = 100;

/// Consecutive iterations of a run, and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) iterations: u64,
    pub(crate) time_ns: u64,
}

/// Statistics of the samples of a benchmark, over all of its repetitions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Seconds per iteration of each sample, in the order of measurement.
    times_s: Vec<f64>,
    /// Iterations of the largest sample.
    iterations: u64,
    pub(crate) mean_s: f64,
    pub(crate) median_s: f64,
    /// 95 % interval of the median; `None` with fewer than [`MIN_INTERVAL_SAMPLES`].
    pub(crate) interval_s: Option<Interval>,
    /// Median absolute deviation as a fraction of the median.
    pub(crate) spread: f64,
    /// Indices of the outliers, slowest first.
    pub(crate) outliers: Vec<usize>,
}

impl Summary {
    /// `None` without samples, or if none of them took any time.
    pub(crate) fn from_samples(samples: &[Sample]) -> Option<Self> {
        let measured = samples.iter().filter(|sample| sample.iterations > 0);
        let times_s: Vec<f64> =
            measured.map(|sample| sample.time_ns as f64 / 1e9 / sample.iterations as f64).collect();
        let median_s = stats::median(&times_s);
        if median_s <= 0.0 {
            return None;
        }
        let total = |of: fn(&Sample) -> u64| samples.iter().map(of).sum::<u64>() as f64;
        let mut outliers = stats::outlier_indices(&times_s);
        outliers.sort_by(|left, right| times_s[*right].total_cmp(&times_s[*left]));
        Some(Self {
            iterations: samples.iter().map(|sample| sample.iterations).max().unwrap_or_default(),
            // Per iteration, as in the report, not per sample: the last sample may be shorter.
            mean_s: total(|sample| sample.time_ns) / 1e9 / total(|sample| sample.iterations),
            median_s,
            interval_s: stats::median_interval(&times_s, 0.05)
                .filter(|_| times_s.len() >= MIN_INTERVAL_SAMPLES),
            spread: stats::mad(&times_s) / median_s,
            outliers,
            times_s,
        })
    }

    /// The part of it that reports have.
    pub(crate) fn statistics(&self) -> SampleStatistics {
        let (count, median_s, interval_s) = (self.count(), self.median_s, self.interval_s);
        SampleStatistics { count, median_s, interval_s, mad_s: self.spread * median_s }
    }

    /// The number of samples.
    pub(crate) fn count(&self) -> usize {
        self.times_s.len()
    }

    /// The most iterations that a sample has.
    pub(crate) fn iterations_per_sample(&self) -> u64 {
        self.iterations
    }

    /// Seconds per iteration of a sample.
    pub(crate) fn time_s(&self, index: usize) -> f64 {
        self.times_s[index]
    }

    /// If the first samples are slower than the rest: their number and by what factor. They belong to the
    /// warm-up, which was too short.
    pub(crate) fn slow_start(&self) -> Option<(usize, f64)> {
        let (first, rest) = self.times_s.split_at_checked(self.count().div_ceil(10))?;
        if rest.len() < MIN_INTERVAL_SAMPLES {
            return None;
        }
        let (center, spread) = (stats::median(rest), stats::mad(rest));
        let limit = (center * SLOW_START).max(center + SLOW_START_DEVIATIONS * spread);
        let slow = first.iter().take_while(|time| **time > limit).count();
        (slow > 0).then(|| (slow, stats::median(&first[..slow]) / center))
    }
}

/// Factor from which the first samples are called slow.
const SLOW_START: f64 = 1.1;
/// Median absolute deviations from which they are called slow.
const SLOW_START_DEVIATIONS: f64 = 5.2;

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times_ns: impl IntoIterator<Item = u64>) -> Vec<Sample> {
        times_ns.into_iter().map(|time_ns| Sample { iterations: 2, time_ns }).collect()
    }

    /// 40 samples of 2 iterations that take 1000 to 1004 ns.
    fn quiet() -> Vec<u64> {
        (0..40).map(|index| 2000 + 2 * (index * 7 % 5)).collect()
    }

    #[test]
    fn times_are_per_iteration() {
        let mut all = samples([2000; 9]);
        all.push(Sample { iterations: 1, time_ns: 3000 });
        let summary = Summary::from_samples(&all).unwrap();
        assert_eq!((summary.count(), summary.iterations_per_sample()), (10, 2));
        assert!((summary.median_s - 1e-6).abs() < 1e-15);
        assert!((summary.mean_s - 21e-6 / 19.0).abs() < 1e-12, "{}", summary.mean_s);
        assert_eq!(summary.outliers, [9]);
        assert!((summary.time_s(9) - 3e-6).abs() < 1e-15);
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        assert_eq!(Summary::from_samples(&[]), None);
        assert_eq!(Summary::from_samples(&samples([0, 0])), None);
        assert_eq!(Summary::from_samples(&samples([7; 7])).unwrap().interval_s, None);
        assert!(Summary::from_samples(&samples([7; 8])).unwrap().interval_s.is_some());
    }

    #[test]
    fn outliers_are_listed_slowest_first() {
        let mut times = quiet();
        (times[5], times[30]) = (4000, 9000);
        assert_eq!(Summary::from_samples(&samples(times)).unwrap().outliers, [30, 5]);
        assert!(Summary::from_samples(&samples(quiet())).unwrap().outliers.is_empty());
    }

    #[test]
    fn a_cold_start_is_reported_unless_it_is_noise() {
        assert_eq!(Summary::from_samples(&samples(quiet())).unwrap().slow_start(), None);
        let mut times = quiet();
        times[..2].fill(3000);
        let (count, factor) = Summary::from_samples(&samples(times)).unwrap().slow_start().unwrap();
        assert_eq!(count, 2);
        assert!((1.49..1.51).contains(&factor), "{factor}");
        // One in four samples is slow anyway: not a property of the start.
        let noisy = (0..40).map(|index| 2000 + 500 * (index * 7 % 4));
        assert_eq!(Summary::from_samples(&samples(noisy)).unwrap().slow_start(), None);
    }
}
