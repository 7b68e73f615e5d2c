//! Statistics of samples: those that reports print over repetitions, and robust ones for comparing two
//! programs on a noisy machine.

use serde::{Deserialize, Serialize};

/// The arithmetic mean; 0 without samples.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The middle sample, or the mean of the middle two; 0 without samples.
pub fn median(samples: &[f64]) -> f64 {
    median_of_sorted(&sorted(samples))
}

/// The sample below which a fraction of the samples is, between two if no sample is there; 0 without samples.
pub fn quantile(samples: &[f64], fraction: f64) -> f64 {
    let (sorted, place) = (sorted(samples), samples.len().saturating_sub(1) as f64 * fraction);
    let at = |index: f64| sorted.get(index as usize).copied().unwrap_or(0.0);
    let (below, above) = (at(place.floor()), at(place.ceil()));
    below + (above - below) * place.fract()
}

/// The sample standard deviation (divided by n - 1); 0 for fewer than two samples.
pub fn stddev(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return 0.0;
    }
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// The coefficient of variation: standard deviation over mean; 0 if undefined.
pub fn cv(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    if samples.len() < 2 || mean == 0.0 { 0.0 } else { stddev(samples) / mean }
}

/// The median absolute deviation from the median: a spread that is robust against outliers.
pub fn mad(samples: &[f64]) -> f64 {
    let center = median(samples);
    median(&samples.iter().map(|sample| (sample - center).abs()).collect::<Vec<_>>())
}

/// The number of outliers: samples with a modified z-score above 3.5 (Iglewicz and Hoaglin, 1993), more than
/// about 5.2 median absolute deviations from the median.
///
/// If more than half of the samples are equal, every other one is an outlier.
pub fn outliers(samples: &[f64]) -> usize {
    outlier_indices(samples).len()
}

/// The indices of the samples that [`outliers`] counts.
pub fn outlier_indices(samples: &[f64]) -> Vec<usize> {
    const MODIFIED_Z: f64 = 3.5;
    const MAD_TO_SIGMA: f64 = 0.6745;
    let (center, spread) = (median(samples), mad(samples));
    let is_outlier = |sample: f64| MAD_TO_SIGMA * (sample - center).abs() > MODIFIED_Z * spread;
    (0..samples.len()).filter(|index| is_outlier(samples[*index])).collect()
}

/// A confidence interval, in the unit of the samples. As JSON, it is `[low, high]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "[f64; 2]", from = "[Option<f64>; 2]")]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl From<[Option<f64>; 2]> for Interval {
    fn from(ends: [Option<f64>; 2]) -> Self {
        // JSON has no infinities and no NaN.
        let [low, high] = ends.map(|end| end.unwrap_or(f64::NAN));
        Self { low, high }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(it: Interval) -> Self {
        [it.low, it.high]
    }
}

/// Fewer samples say nothing about their distribution: they have no interval.
pub const MIN_INTERVAL_SAMPLES: usize = 8;

/// The confidence interval of the median: see [`quantile_interval`]. With 95 %, fewer than six samples have
/// none; with 99 %, fewer than eight.
pub fn median_interval(samples: &[f64], outside: f64) -> Option<Interval> {
    quantile_interval(samples, 0.5, outside)
}

/// The confidence interval of the sample below which this fraction of all would be, of which `outside` is the
/// error probability. Its ends are samples, chosen by rank: the number of samples below the quantile is
/// binomial, whatever their distribution. `None` with too few samples.
///
/// Samples that resemble their neighbours say less than independent ones. The interval is that of the number
/// of independent samples that would say as much.
pub fn quantile_interval(samples: &[f64], fraction: f64, outside: f64) -> Option<Interval> {
    let independent = samples.len() as f64 * independence(samples);
    let count = (independent.round() as usize).min(samples.len());
    let sorted = sorted(samples);
    // The same part of all samples.
    let rank = |fraction| Some(rank_below(count, fraction, outside / 2.0)? * samples.len() / count.max(1));
    let (low, high) = (rank(fraction)?, rank(1.0 - fraction)?);
    Some(Interval { low: *sorted.get(low)?, high: *sorted.get(samples.len() - 1 - high)? })
}

/// The highest rank of one of `count` samples that is above the quantile with probability `outside` at most.
fn rank_below(count: usize, fraction: f64, outside: f64) -> Option<usize> {
    // By logarithms, since the probability that so many samples are below may be too small for a number.
    let mut logarithm = count as f64 * (1.0 - fraction).ln();
    let (mut below, mut ranks) = (0.0, 0_usize);
    while ranks < count && below + logarithm.exp() <= outside {
        below += logarithm.exp();
        logarithm += ((count - ranks) as f64 / (ranks + 1) as f64 * fraction / (1.0 - fraction)).ln();
        ranks += 1;
    }
    ranks.checked_sub(1)
}

/// The confidence interval of the factor between two sets of independent, positive samples that are otherwise
/// distributed alike, `after` as a fraction of `before`; `outside` is the error probability. Its ends are
/// ratios of two samples, chosen by rank (Hodges and Lehmann, 1963, "Estimates of location based on rank
/// tests"): the number of pairs of which the sample before is the larger one has the distribution of Mann and
/// Whitney, whatever that of the samples. `None` with too few samples: with 95 %, fewer than four of each.
pub fn ratio_interval(before: &[f64], after: &[f64], outside: f64) -> Option<Interval> {
    let probabilities = mann_whitney(before.len(), after.len())?;
    let mut below = 0.0;
    let is_outside = |probability: &&f64| {
        below += **probability;
        2.0 * below <= outside
    };
    let ranks = probabilities.iter().take_while(is_outside).count();
    let ratios: Vec<f64> =
        before.iter().flat_map(|before| after.iter().map(move |after| after / before)).collect();
    let sorted = sorted(&ratios);
    let rank = ranks.checked_sub(1)?;
    let (low, high) = (*sorted.get(rank)?, *sorted.get(sorted.len() - 1 - rank)?);
    // A sample that is 0 has no ratio.
    (low > 0.0 && high.is_finite()).then_some(Interval { low, high })
}

/// The probability of each number of pairs, up to half of them, of which the first of two alike sets has the
/// larger sample; `None` without samples.
fn mann_whitney(first: usize, second: usize) -> Option<Vec<f64>> {
    let half = first * second / 2;
    // The number of orders with so many such pairs is a coefficient of a Gaussian binomial, the product of
    // (1 - x^(second + i)) / (1 - x^i) for i from 1 to `first`; each factor is divided by the number of all
    // its orders.
    let mut orders = vec![0.0; half + 1];
    orders[0] = 1.0;
    for index in 1..=first {
        for pairs in (second + index..=half).rev() {
            orders[pairs] -= orders[pairs - second - index];
        }
        for pairs in index..=half {
            orders[pairs] += orders[pairs - index];
        }
        let share = index as f64 / (second + index) as f64;
        orders.iter_mut().for_each(|it| *it *= share);
    }
    (first > 0 && second > 0).then_some(orders)
}

/// How much samples in a row say, as a fraction of what independent ones would: by how often neighbours are
/// on the same side of the median.
fn independence(samples: &[f64]) -> f64 {
    /// Of fewer, chance makes too much.
    const LEAST: usize = 16;
    if samples.len() < LEAST {
        return 1.0;
    }
    let center = median(samples);
    let side = |sample: &f64| f64::from(i8::from(*sample > center) - i8::from(*sample < center));
    let sides: Vec<f64> = samples.iter().map(side).collect();
    let count = (sides.len() - 1) as f64;
    let correlation = sides.windows(2).map(|it| it[0] * it[1]).sum::<f64>() / count;
    let correlation = (correlation - 0.5 / count.sqrt()).clamp(0.0, 0.9);
    (1.0 - correlation) / (1.0 + correlation)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut ordered = samples.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered
}

fn median_of_sorted(ordered: &[f64]) -> f64 {
    match ordered.len() {
        0 => 0.0,
        n if n % 2 == 1 => ordered[n / 2],
        n => (ordered[n / 2 - 1] + ordered[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) {
        assert!((left - right).abs() <= 1e-12 * right.abs().max(1.0), "{left} is not {right}");
    }

    #[test]
    fn few_samples() {
        for f in [mean, median, stddev, cv, mad] {
            assert_eq!(f(&[]), 0.0);
        }
        assert_eq!(
            (mean(&[7.0]), median(&[7.0]), stddev(&[7.0]), cv(&[7.0]), mad(&[7.0])),
            (7.0, 7.0, 0.0, 0.0, 0.0)
        );
        assert_eq!(cv(&[-1.0, 1.0]), 0.0);
    }

    #[test]
    fn by_hand() {
        // Sum 20, mean 5; squares 9+1+1+1+0+0+4+16 = 32; 32/7.
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        near(mean(&samples), 5.0);
        near(median(&samples), 4.5);
        near(stddev(&samples), (32.0f64 / 7.0).sqrt());
        near(cv(&samples), (32.0f64 / 7.0).sqrt() / 5.0);
        // Deviations from 4.5: 2.5 .5 .5 .5 .5 .5 2.5 4.5, the middle two of which are .5.
        near(mad(&samples), 0.5);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        let quantiles = [0.0, 0.1, 0.25, 0.5, 1.0].map(|fraction| quantile(&[9.0, 1.0, 5.0], fraction));
        assert_eq!(quantiles, [1.0, 1.8, 3.0, 5.0, 9.0]);
        assert_eq!((quantile(&[], 0.1), quantile(&[7.0], 0.1)), (0.0, 7.0));
    }

    #[test]
    fn a_large_offset_does_not_lose_the_spread() {
        near(stddev(&[1e9, 1e9 + 1.0, 1e9 + 2.0]), 1.0);
    }

    #[test]
    fn outliers_are_counted() {
        let quiet = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0, 10.02];
        assert_eq!(outliers(&quiet), 0);
        assert_eq!(outliers(&[quiet.as_slice(), &[30.0, 1.0]].concat()), 2);
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 2.0]), 1);
        assert_eq!(outliers(&[]), 0);
    }

    /// The numbers are those of tables of the test of Mann and Whitney.
    #[test]
    fn the_distribution_of_pairs_is_that_of_tables() {
        let exact = |first, second, counts: &[f64], all: f64| {
            for (found, count) in mann_whitney(first, second).unwrap().iter().zip(counts) {
                near(*found, count / all);
            }
        };
        exact(3, 3, &[1.0, 1.0, 2.0, 3.0, 3.0], 20.0);
        exact(2, 4, &[1.0, 1.0, 2.0, 2.0, 3.0], 15.0);
        exact(8, 8, &[1.0, 1.0, 2.0, 3.0, 5.0, 7.0, 11.0, 15.0, 22.0], 12870.0);
        // The sum of all is 1: of an even number of pairs, the middle one counts once.
        for (first, second) in [(6, 10), (64, 64)] {
            let half = mann_whitney(first, second).unwrap();
            let sum = 2.0 * half.iter().sum::<f64>() - half.last().unwrap();
            assert!((sum - 1.0).abs() < 1e-6, "{first} {second}: {sum}");
        }
        assert_eq!([mann_whitney(0, 3), mann_whitney(3, 0)], [None, None]);
    }

    #[test]
    fn the_ratio_of_two_sets_is_within_its_interval() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut samples = |count: usize, scale: f64| -> Vec<f64> {
            (0..count).map(|_| scale * (1.0 - 0.2 * (1.0 - random.f64()).ln())).collect()
        };
        for (before, after) in [(4, 4), (6, 12), (30, 30)] {
            let is_within = |_: &u32| {
                let Interval { low, high } =
                    ratio_interval(&samples(before, 2.0), &samples(after, 3.0), 0.05).unwrap();
                low <= 1.5 && 1.5 <= high
            };
            let count = (0..400).filter(is_within).count();
            assert!((372..=400).contains(&count), "{count} of 400 with {before} and {after}");
        }
        assert_eq!(ratio_interval(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 0.05), None);
        assert_eq!(ratio_interval(&[0.0; 5], &[1.0; 5], 0.05), None);
        // All four of one side are above those of the other: one order of seventy, on each side.
        let found = ratio_interval(&[1.0, 1.1, 1.2, 1.3], &[2.0, 2.1, 2.2, 2.3], 0.05).unwrap();
        assert_eq!(found, Interval { low: 2.0 / 1.3, high: 2.3 });
    }

    /// The ranks are those of tables of the sign test.
    #[test]
    fn intervals_of_the_median_are_from_one_sample_to_another() {
        let of = |count: u32, outside| {
            // In an order in which neighbours do not resemble each other.
            let step = if count > 1000 { 6181 } else { 7 };
            let samples: Vec<f64> = (0..count).map(|it| f64::from(it * step % count)).collect();
            median_interval(&samples, outside).map(|it| (it.low, it.high))
        };
        assert_eq!(of(5, 0.05), None);
        assert_eq!([of(6, 0.05), of(8, 0.01)], [Some((0.0, 5.0)), Some((0.0, 7.0))]);
        assert_eq!([of(20, 0.05), of(20, 0.01)], [Some((5.0, 14.0)), Some((3.0, 16.0))]);
        let (low, high) = of(10_000, 0.01).unwrap();
        assert!((4860.0..4880.0).contains(&low) && (5119.0..5140.0).contains(&high), "{low} {high}");
        // At most one of 20 is below the lower quartile with 2.4 %, and none of 12 with 3.2 %.
        let ranks = |count, fraction, outside| rank_below(count, fraction, outside);
        assert_eq!([ranks(20, 0.25, 0.025), ranks(20, 0.75, 0.025)], [Some(1), Some(10)]);
        assert_eq!([ranks(13, 0.25, 0.025), ranks(12, 0.25, 0.025)], [Some(0), None]);
        assert_eq!([ranks(0, 0.5, 0.025), ranks(5, 0.5, 1.0)], [None, Some(4)]);
        // Samples that are mostly as their neighbours say as little as eleven.
        let slow: Vec<f64> = (0..200).map(|it| f64::from(it / 25 % 2)).collect();
        assert_eq!(median_interval(&slow, 0.01).map(|it| (it.low, it.high)), Some((0.0, 1.0)));
    }
}
