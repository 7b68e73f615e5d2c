//! Statistics of samples: those that reports print over repetitions, and robust ones for comparing two
//! programs on a noisy machine.

use serde::Serialize;

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
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "[f64; 2]")]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl From<Interval> for [f64; 2] {
    fn from(it: Interval) -> Self {
        [it.low, it.high]
    }
}

/// Fewer samples say nothing about their distribution: they have no interval.
pub const MIN_INTERVAL_SAMPLES: usize = 8;

/// A statistic of resamples.
fn resampled(samples: &[f64], statistic: fn(&[f64]) -> f64, seed: u64) -> Vec<f64> {
    let count = samples.len();
    let block = (count as f64).cbrt().round().max(1.0) as usize;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut resample = Vec::with_capacity(count);
    (0..RESAMPLES)
        .map(|_| {
            resample.clear();
            while resample.len() < count {
                let first = random.usize(..count);
                let length = block.min(count - resample.len());
                resample.extend((first..first + length).map(|index| samples[index % count]));
            }
            statistic(&resample)
        })
        .collect()
}

/// The range of the middle 95 %.
fn central(statistics: Vec<f64>) -> Interval {
    let ordered = sorted(&statistics);
    let at = |quantile: f64| ordered[((ordered.len() - 1) as f64 * quantile).round() as usize];
    Interval { low: at(0.025), high: at(0.975) }
}

/// Our time as a fraction of another program's, from alternating runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// The median of ours / theirs over the pairs: below 1 is faster.
    pub ratio: f64,
    /// The confidence interval of the median ratio at 95 % or more; the extremes if fewer than six pairs
    /// cannot reach that.
    pub interval: (f64, f64),
    /// The confidence of the interval, 0 to 1, from the binomial distribution.
    pub confidence: f64,
    /// The median absolute deviation of the ratios.
    pub mad: f64,
    /// The number of outlier ratios: a sign that the machine was busy.
    pub outliers: usize,
    /// The median of our times, in the unit of the input.
    pub ours: f64,
    /// The median of their times.
    pub theirs: f64,
    /// The number of pairs.
    pub pairs: usize,
}

/// Compares times of alternating runs: `ours[i]` directly next to `theirs[i]`, so that a slow phase of the
/// machine affects both. Makes no assumption about their distribution: the interval is that of the sign test.
///
/// Fails with `InvalidArgument` unless both have the same, nonzero number of samples, all finite and
/// positive.
pub fn paired_ratio(ours: &[f64], theirs: &[f64]) -> Result<PairedRatio> {
    if ours.len() != theirs.len() || ours.is_empty() {
        return Err(Error::invalid_argument(format!(
            "a paired ratio needs equally many samples of both, found {} and {}",
            ours.len(),
            theirs.len()
        )));
    }
    if let Some(wrong) = ours.iter().chain(theirs).find(|time| !(time.is_finite() && **time > 0.0)) {
        return Err(Error::invalid_argument(format!(
            "{wrong} is not a valid time (expected a finite, positive number)"
        )));
    }
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ordered = sorted(&ratios);
    let (trim, confidence) = sign_test_interval(ordered.len());
    Ok(PairedRatio {
        ratio: median_of_sorted(&ordered),
        interval: (ordered[trim], ordered[ordered.len() - 1 - trim]),
        confidence,
        mad: mad(&ratios),
        outliers: outliers(&ratios),
        ours: median(ours),
        theirs: median(theirs),
        pairs: ratios.len(),
    })
}

/// How many of `count` ordered samples can be dropped at each end so that the rest still encloses the median
/// with at least 95 %, and the confidence: 1 - 2 P(B <= trim) of a fair binomial B.
fn sign_test_interval(count: usize) -> (usize, f64) {
    let ln_all = count as f64 * std::f64::consts::LN_2;
    // ln C(count, k), iteratively; logarithms, because C itself overflows beyond 1029.
    let mut ln_choose = 0.0;
    let mut tail = (-ln_all).exp();
    let mut trim = 0;
    // At least two samples remain: `trim + 1 < count - 1 - (trim + 1)`.
    while 2 * (trim + 1) + 1 < count {
        ln_choose += ((count - trim) as f64 / (trim + 1) as f64).ln();
        let next = tail + (ln_choose - ln_all).exp();
        if next > 0.025 {
            break;
        }
        (tail, trim) = (next, trim + 1);
    }
    (trim, (1.0 - 2.0 * tail).max(0.0))
}

/// The confidence interval of the median: see [`quantile_interval`].
pub fn median_interval(samples: &[f64], outside: f64) -> Option<Interval> {
    quantile_interval(samples, 0.5, outside)
}

/// The confidence interval of the time below which this fraction of all times is, of which `outside` is the
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
    // The probability that `rank` samples are below the quantile, from that of none.
    let mut probability = (1.0 - fraction).powi(i32::try_from(count).ok()?);
    let (mut below, mut rank) = (probability, 0);
    if probability == 0.0 {
        // Too small for a number: the normal distribution is exact enough.
        let deviation = (count as f64 * fraction * (1.0 - fraction)).sqrt();
        let place = count as f64 * fraction - t_quantile(count, outside) * deviation;
        return Some(place.floor().max(0.0) as usize);
    }
    if below > outside {
        return None;
    }
    loop {
        probability *= (count - rank) as f64 / (rank + 1) as f64 * fraction / (1.0 - fraction);
        if below + probability > outside {
            return Some(rank);
        }
        below += probability;
        rank += 1;
    }
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
        // Samples that are mostly as their neighbours say as little as eleven.
        let slow: Vec<f64> = (0..200).map(|it| f64::from(it / 25 % 2)).collect();
        assert_eq!(median_interval(&slow, 0.01).map(|it| (it.low, it.high)), Some((0.0, 1.0)));
    }
}
