//! Statistics of samples: those that reports print over repetitions, and robust ones for comparing two
//! programs on a noisy machine.

use rehal_base::{Error, Result};
use serde::Serialize;

/// The arithmetic mean; 0 without samples.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The middle sample, or the mean of the middle two; 0 without samples.
pub fn median(samples: &[f64]) -> f64 {
    median_of_sorted(&sorted(samples))
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

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;

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

/// The 95 % confidence interval of a statistic, by the percentile method over 2,000 resamples. `samples` is
/// not empty and in the order of measurement.
///
/// Neighbouring samples resemble each other (a slow phase of the machine affects several), and resampling
/// them one by one would yield too narrow an interval. Therefore blocks of about the cube root of their
/// number are resampled (circular block bootstrap; Politis and Romano, 1992). The same samples always yield
/// the same interval.
pub fn bootstrap(samples: &[f64], statistic: fn(&[f64]) -> f64) -> Interval {
    central(resampled(samples, statistic, 0x7265_6861_6c00_0001))
}

/// The 95 % confidence interval of a statistic of `after` as a fraction of that of `before`, by the
/// percentile method over resamples of both, which are independent of each other; see [`bootstrap`]. Neither
/// is empty.
pub fn bootstrap_ratio(before: &[f64], after: &[f64], statistic: fn(&[f64]) -> f64) -> Interval {
    let before = resampled(before, statistic, 0x7265_6861_6c00_0002);
    let after = resampled(after, statistic, 0x7265_6861_6c00_0003);
    central(before.iter().zip(after).map(|(before, after)| after / before).collect())
}

/// The confidence interval of the mean of samples in the order of measurement, of which there are at least
/// two: the wider of two, neither of which is narrow enough for all samples.
///
/// - By the percentile method over 4,000 resamples, for skewed samples. The quantiles are wider for few
///   samples, as those of a t distribution are wider than those of a normal one (Hesterberg, 2015, "What
///   teachers should know about the bootstrap").
/// - By the t distribution, with the standard error of samples that resemble their neighbours: that of
///   independent ones times `sqrt((1 + r) / (1 - r))` for an autocorrelation `r` above 0. Resampling one by
///   one does not see it.
///
/// `outside` is the two-sided probability of a mean outside of it. Below 0.001, resamples say nothing about
/// it, and the interval is that of the t distribution, or wider. The same samples always yield the same
/// interval.
pub fn mean_interval(samples: &[f64], outside: f64) -> Interval {
    const RESAMPLES: usize = 4000;
    let count = samples.len();
    let mut random = fastrand::Rng::with_seed(0x7265_6861_6c00_0004);
    let resample = |_| (0..count).map(|_| samples[random.usize(..count)]).sum::<f64>() / count as f64;
    let means: Vec<f64> = (0..RESAMPLES).map(resample).collect();
    let means = sorted(&means);
    let t = t_quantile(count - 1, outside / 2.0);
    // Resamples spread as the samples do, which is less than their distribution: by n - 1 instead of n.
    let tail = normal_tail(t * (count as f64 / (count as f64 - 1.0)).sqrt());
    let at = |quantile: f64| means[((RESAMPLES - 1) as f64 * quantile).round() as usize];
    let mean = mean(samples);
    let correlation = autocorrelation(samples).clamp(0.0, 0.9);
    let error = stddev(samples) * ((1.0 + correlation) / (1.0 - correlation) / count as f64).sqrt();
    Interval { low: at(tail).min(mean - t * error), high: at(1.0 - tail).max(mean + t * error) }
}

/// The confidence interval of the mean of times in the order of measurement, of which there are at least
/// [`MIN_INTERVAL_SAMPLES`]. `outside` is the probability of a mean outside of it.
///
/// The phases of a machine may last for many short times, which are then no independent samples, and neither
/// are short blocks of them. So each sixth of the run counts as one sample of [`mean_interval`], its mean
/// (batch means; Law and Carson, 1979): phases up to about that length are in the interval. That no time is
/// below the smallest one bounds it. What differs between runs is not in it.
pub fn run_mean_interval(times: &[f64], outside: f64) -> Interval {
    let count = times.len();
    let batches: Vec<f64> = (0..BATCHES)
        .map(|index| &times[index * count / BATCHES..(index + 1) * count / BATCHES])
        .map(mean)
        .collect();
    let Interval { low, high } = mean_interval(&batches, outside);
    let smallest = times.iter().copied().fold(f64::INFINITY, f64::min);
    // Batches may differ by one time in length.
    let (mean, shift) = (mean(times), mean(times) - mean(&batches));
    Interval { low: (low + shift).max(smallest).min(mean), high: (high + shift).max(mean) }
}

/// The confidence interval of the mean of `after` as a fraction of that of `before`, from the intervals of
/// both by [`run_mean_interval`]: the distances of their ends, as logarithms, add up like errors that are
/// independent of each other (Donner and Zou, 2012, "Closed-form confidence intervals for functions of the
/// normal mean and standard deviation"). An end may be infinite if a time is 0.
pub fn run_ratio_interval(before: &[f64], after: &[f64], outside: f64) -> Interval {
    let of = |times: &[f64]| {
        let (center, interval) = (mean(times).ln(), run_mean_interval(times, outside));
        (center, center - interval.low.ln(), interval.high.ln() - center)
    };
    let ((before, before_below, before_above), (after, after_below, after_above)) = (of(before), of(after));
    let ratio = after - before;
    Interval {
        low: (ratio - after_below.hypot(before_above)).exp(),
        high: (ratio + after_above.hypot(before_below)).exp(),
    }
}

/// How much samples resemble the one before: from about -1 to 1, 0 for equal ones. It is corrected for their
/// number, since that of few samples is too small (Marriott and Pope, 1954).
fn autocorrelation(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let products: f64 = samples.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares == 0.0 {
        return 0.0;
    }
    let found = products / squares;
    found + (1.0 + 3.0 * found) / samples.len() as f64
}

/// The number above which a fraction `tail` of a t distribution is, by bisection of [`t_tail`].
fn t_quantile(degrees: usize, tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    // As near as an `f64` can be.
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if t_tail(degrees, middle) > tail { low = middle } else { high = middle }
    }
    high
}

/// The fraction of a t distribution above `t`, which is not negative (Abramowitz and Stegun, 26.7.3 and
/// 26.7.4).
fn t_tail(degrees: usize, t: f64) -> f64 {
    let angle = (t / (degrees as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = degrees % 2 == 1;
    // 1 + 1/2 cos^2 + (1 3)/(2 4) cos^4 ... for an even number, cos + 2/3 cos^3 ... for an odd one.
    let (mut term, mut sum) = if is_odd { (cosine, 0.0) } else { (1.0, 0.0) };
    let mut power = if is_odd { 1 } else { 0 };
    while power + 2 <= degrees {
        sum += term;
        term *= (power + 1) as f64 / (power + 2) as f64 * cosine * cosine;
        power += 2;
    }
    let within = if is_odd { (angle + sine * sum) * 2.0 / std::f64::consts::PI } else { sine * sum };
    (1.0 - within) / 2.0
}

/// The fraction of a normal distribution above `z`, which is not negative (Abramowitz and Stegun, 26.2.17).
fn normal_tail(z: f64) -> f64 {
    const FACTORS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = FACTORS.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    series * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Parts of a run: more of them are shorter, and resemble each other more.
const BATCHES: usize = 6;

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

/// The confidence interval of the median, of which `outside` is the error probability. Its ends are samples,
/// chosen by rank: the number of samples below the median is binomial, whatever their distribution. `None`
/// with too few samples.
///
/// Samples that resemble their neighbours say less than independent ones. The interval is that of the number
/// of independent samples that would say as much.
pub fn median_interval(samples: &[f64], outside: f64) -> Option<Interval> {
    let independent = samples.len() as f64 * independence(samples);
    let count = (independent.round() as usize).min(samples.len());
    // The probability of fewer than `rank + 1` samples below the median, from that of none.
    let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
    let (mut below, mut rank) = (probability, 0);
    if probability == 0.0 {
        // Too small for a number: the normal distribution is exact enough.
        rank = ((count as f64 - t_quantile(count, outside / 2.0) * (count as f64).sqrt()) / 2.0)
            .floor()
            .max(0.0) as usize;
    } else {
        if 2.0 * below > outside {
            return None;
        }
        loop {
            probability *= (count - rank) as f64 / (rank + 1) as f64;
            if 2.0 * (below + probability) > outside {
                break;
            }
            below += probability;
            rank += 1;
        }
    }
    let sorted = sorted(samples);
    // The same part of all samples.
    let rank = rank * samples.len() / count.max(1);
    Some(Interval { low: *sorted.get(rank)?, high: *sorted.get(samples.len() - 1 - rank)? })
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

    #[test]
    fn the_bootstrap_covers_the_median_as_often_as_it_claims() {
        let mut random = fastrand::Rng::with_seed(7);
        // Exponential with median ln 2: skewed, as times are.
        let covered = (0..200).filter(|_| {
            let samples: Vec<f64> = (0..60).map(|_| -(1.0 - random.f64()).ln()).collect();
            let Interval { low, high } = bootstrap(&samples, median);
            low <= std::f64::consts::LN_2 && std::f64::consts::LN_2 <= high
        });
        let covered = covered.count();
        assert!((176..=200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn the_bootstrap_is_wider_for_samples_that_resemble_their_neighbours() {
        let mut random = fastrand::Rng::with_seed(8);
        let independent: Vec<f64> = (0..120).map(|_| random.f64()).collect();
        let mut slow_phases = independent.clone();
        // The same values, in runs.
        slow_phases.sort_by(f64::total_cmp);
        let width = |samples: &[f64]| {
            let Interval { low, high } = bootstrap(samples, mean);
            high - low
        };
        assert!(width(&slow_phases) > 1.5 * width(&independent));
        assert_eq!(bootstrap(&[3.0], median), Interval { low: 3.0, high: 3.0 });
        assert_eq!(bootstrap(&independent, median), bootstrap(&independent, median));
    }

    #[test]
    fn the_ratio_of_two_programs_is_covered_as_often_as_claimed() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut samples =
            |scale: f64| -> Vec<f64> { (0..60).map(|_| scale * (1.0 - (1.0 - random.f64()).ln())).collect() };
        let covered = (0..200).filter(|_| {
            let Interval { low, high } = bootstrap_ratio(&samples(2.0), &samples(3.0), mean);
            low <= 1.5 && 1.5 <= high
        });
        let covered = covered.count();
        assert!((176..=200).contains(&covered), "{covered} of 200");
        // Equal samples do not have equal resamples: that would hide what noise there is.
        let noisy = samples(1.0);
        let Interval { low, high } = bootstrap_ratio(&noisy, &noisy, mean);
        assert!(low < 0.95 && high > 1.05, "{low} to {high}");
    }

    #[test]
    fn the_quantiles_for_few_samples_are_those_of_tables() {
        for (z, tail) in [(0.0, 0.5), (1.0, 0.158_655), (1.959_964, 0.025), (3.0, 0.001_349_9)] {
            assert!((normal_tail(z) - tail).abs() < 1e-6, "{z}: {}", normal_tail(z));
        }
    }

    #[test]
    fn quantiles_of_the_t_distribution_are_those_of_tables() {
        for (degrees, tail, expected) in [
            (1, 0.025, 12.706),
            (2, 0.0005, 31.599),
            (3, 0.0005, 12.924),
            (7, 0.005, 3.4995),
            (7, 0.01, 2.998),
            (30, 0.01, 2.457),
            (1 << 12, 0.025, 1.9605),
        ] {
            let found = t_quantile(degrees, tail);
            assert!((found / expected - 1.0).abs() < 3e-4, "{degrees} {tail}: {found} instead of {expected}");
        }
    }

    /// A against A, of times that resemble their neighbours, in phases of up to a fifth of the run, and of
    /// which some are much longer.
    #[test]
    fn runs_of_times_that_resemble_their_neighbours_differ_in_at_most_5_percent() {
        const CASES: usize = 400;
        let mut random = fastrand::Rng::with_seed(11);
        let mut run = |count: usize, persistence: f64| -> Vec<f64> {
            let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            let mut phase = normal();
            let mut next = || {
                phase = persistence * phase + (1.0 - persistence * persistence).sqrt() * normal();
                100.0 * (0.1 * phase + 0.05 * normal()).exp() + 20.0 * (normal() - 2.0).max(0.0)
            };
            (0..count).map(|_| next()).collect()
        };
        for (count, persistence) in [(100, 0.0), (100, 0.5), (100, 0.9), (400, 0.9), (1000, 0.97)] {
            let mut differs = || {
                let (before, after) = (run(count, persistence), run(count, persistence));
                let Interval { low, high } = run_ratio_interval(&before, &after, 0.05);
                high < 1.0 || low > 1.0
            };
            let different = (0..CASES).filter(|_| differs()).count();
            assert!(different * 20 <= CASES, "{different} of {CASES}: {count} times, {persistence}");
        }
        // Differences that are larger are found.
        let (before, after) =
            (run(400, 0.9), run(400, 0.9).iter().map(|time| time * 1.3).collect::<Vec<_>>());
        let found = run_ratio_interval(&before, &after, 0.05);
        assert!(found.low > 1.0 && found.low < 1.3 && found.high > 1.3, "{found:?}");
    }

    #[test]
    fn intervals_of_runs_are_bounded_by_the_smallest_time() {
        let times: Vec<f64> = (0..16).map(|at| if at == 9 { 1_000.0 } else { 10.0 }).collect();
        let interval = run_mean_interval(&times, 0.05);
        assert!(interval.low == 10.0 && interval.high > mean(&times), "{interval:?}");
        let same = Interval { low: 2.0, high: 2.0 };
        assert_eq!(run_mean_interval(&[2.0; 8], 0.05), same);
        let ratio = run_ratio_interval(&[2.0; 9], &[4.0; 30], 0.05);
        assert!((ratio.low - 2.0).abs() < 1e-9 && (ratio.high - 2.0).abs() < 1e-9, "{ratio:?}");
        assert!(run_ratio_interval(&[&[0.0][..], &times].concat(), &times, 0.05).high.is_infinite());
    }

    #[test]
    fn the_interval_of_a_mean_covers_it_with_few_samples() {
        let mut random = fastrand::Rng::with_seed(11);
        // About normal: a sum of 12 uniform numbers.
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        // Independent, and such that neighbours resemble each other.
        for (count, correlation, at_least) in
            [(3, 0.0, 196), (8, 0.0, 196), (12, 0.0, 196), (40, 0.0, 196), (40, 0.5, 192)]
        {
            let covered = (0..200).filter(|_| {
                let mut last = 0.0;
                let next = |_| {
                    last = correlation * last + normal();
                    last
                };
                let samples: Vec<f64> = (0..count + 20).map(next).collect();
                let Interval { low, high } = mean_interval(&samples[20..], 0.01);
                low <= 0.0 && 0.0 <= high
            });
            let covered = covered.count();
            assert!(covered >= at_least, "{covered} of 200 with {count} samples");
        }
        assert_eq!(mean_interval(&[2.0, 2.0], 0.01), Interval { low: 2.0, high: 2.0 });
    }

    #[test]
    fn the_interval_matches_the_sign_test() {
        // Tables of the sign test: n = 6 trims none (1 - 2/64), 9 trims 1 (1 - 20/512), 10 trims 1
        // (1 - 22/1024), 20 trims 5 (95.86 %).
        for (count, trim, confidence) in [
            (1, 0, 0.0),
            (2, 0, 0.5),
            (5, 0, 1.0 - 2.0 / 32.0),
            (6, 0, 1.0 - 2.0 / 64.0),
            (9, 1, 1.0 - 20.0 / 512.0),
            (10, 1, 1.0 - 22.0 / 1024.0),
            (20, 5, 1.0 - 2.0 * 21700.0 / 1048576.0),
        ] {
            let (got_trim, got_confidence) = sign_test_interval(count);
            assert_eq!(got_trim, trim, "{count}");
            near(got_confidence, confidence);
        }
        let (trim, confidence) = sign_test_interval(10_000);
        // Normal approximation: 5000 - 1.96 * 50 = 4902 less the continuity correction.
        assert!((4898..=4903).contains(&trim), "{trim}");
        assert!((0.95..0.952).contains(&confidence), "{confidence}");
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // The machine halves its speed halfway; every pair still has a ratio of one half.
        let theirs = [10.0, 10.0, 10.0, 20.0, 20.0, 20.0, 20.0];
        let ours: Vec<f64> = theirs.iter().map(|time| time / 2.0).collect();
        let ratio = paired_ratio(&ours, &theirs).unwrap();
        let want = PairedRatio {
            ratio: 0.5,
            interval: (0.5, 0.5),
            confidence: 1.0 - 2.0 / 128.0,
            mad: 0.0,
            outliers: 0,
            ours: 10.0,
            theirs: 20.0,
            pairs: 7,
        };
        assert_eq!(ratio, want);
    }

    #[test]
    fn an_outlier_pair_does_not_move_the_ratio() {
        let theirs = [10.0; 9];
        let ours = [5.0, 5.1, 4.9, 5.0, 500.0, 5.2, 4.8, 5.1, 4.9];
        let ratio = paired_ratio(&ours, &theirs).unwrap();
        near(ratio.ratio, 0.5);
        near(ratio.interval.0, 0.49);
        near(ratio.interval.1, 0.52);
        assert_eq!(ratio.outliers, 1);
    }

    #[test]
    fn invalid_samples_are_errors() {
        for (ours, theirs) in [
            (vec![], vec![]),
            (vec![1.0], vec![1.0, 2.0]),
            (vec![0.0], vec![1.0]),
            (vec![1.0], vec![-1.0]),
            (vec![f64::NAN], vec![1.0]),
            (vec![1.0], vec![f64::INFINITY]),
        ] {
            assert!(paired_ratio(&ours, &theirs).is_err(), "{ours:?} {theirs:?}");
        }
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
