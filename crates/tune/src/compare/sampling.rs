//! The statistics of pairs of times: when to stop, and what they say.

mod coarse;

use std::time::Duration;

use rehal_bench::Conditions;
use rehal_bench::stats::{self, Interval, MIN_INTERVAL_SAMPLES};

pub(super) use self::coarse::LONGEST_STEP_NS;
use self::coarse::{Steps, is_coarse, limited_mean, undisturbed_mean};
use super::{CacheState, ComparedShape};

/// The times of the captured kernel and of the replacement, one directly after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub captured_ns: f64,
    pub replaced_ns: f64,
}

impl From<[f64; 2]> for Pair {
    fn from([captured_ns, replaced_ns]: [f64; 2]) -> Self {
        Self { captured_ns, replaced_ns }
    }
}

/// Whether a replacement is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingVerdict {
    /// The whole interval of the ratio is below 1, by more than the [margin](Timing::margin).
    Faster,
    /// It is above 1, by more than the margin.
    Slower,
    /// It contains 1 or is within the margin, or the medians say the opposite.
    NoDifference,
    /// There are too few pairs for an interval, or for one that says more than that they are few.
    Inconclusive,
}

/// What ended the sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The interval is narrow enough.
    Precise,
    /// The replacement is so much slower that more precision is of no use.
    FarSlower,
    /// The time is up.
    OutOfTime,
}

/// How long a replacement takes, compared with the captured kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timing {
    /// What the CPU's caches contained.
    pub cache: CacheState,
    /// The time of all dispatches of the function with the replacement, as a fraction of the captured.
    pub ratio: f64,
    /// Its interval; `None` with too few pairs. At 99 %, so that at least 95 % of all comparisons have no interval without the
    /// ratio: two states of the caches, each of which is sampled until its interval is narrow.
    pub interval: Option<Interval>,
    /// A difference of the ratio from 1 that is not told, as a fraction: half the precision.
    pub margin: f64,
    /// The same from the medians of pairs, which include what disturbs most dispatches. With a coarse clock ([`Timing::is_averaged`]),
    /// medians are whole steps too: then it is from the means of all dispatches, where one of more than twice the median counts as that.
    pub median_ratio: f64,
    /// Its interval, of either.
    pub median_interval: Option<Interval>,
    /// By shape, as they were given.
    pub shapes: Vec<ShapeTiming>,
    /// Number of pairs, of all shapes.
    pub pair_count: u64,
    /// Number of batches. Each has buffers and executables of its own.
    pub batch_count: u64,
    /// Whether times are those that the devices report, without the time of submission.
    pub is_device_time: bool,
    /// The steps in which the clock of the times advances, in nanoseconds.
    pub resolution_ns: f64,
    /// Whether times are means of pairs instead of the shortest, since the kernels take so few steps of the clock that the shortest
    /// times of different kernels are the same.
    pub is_averaged: bool,
    /// Half of the narrowest interval that so many pairs can have with this clock, as a fraction of the ratio.
    pub clock_error: f64,
    /// The part of it that more pairs do not reduce: the steps of shortest times.
    pub clock_difference: f64,
    /// What ended the sampling.
    pub stopped: Stopped,
    /// The time of the measurement.
    pub elapsed: Duration,
    /// What the machine did meanwhile.
    pub conditions: Conditions,
}

/// The times of one shape.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShapeTiming {
    /// The dispatches.
    pub shape: ComparedShape,
    /// Time of a dispatch of the captured kernel in nanoseconds: the median over batches of the shortest, or of their means
    /// ([`Timing::is_averaged`]).
    pub captured_ns: f64,
    /// Time of a dispatch of the replacement in nanoseconds, likewise.
    pub replaced_ns: f64,
    /// The mean over batches of the ratio of these times.
    pub ratio: f64,
    /// Its interval, at 99 %.
    pub interval: Option<Interval>,
    /// The bindings that had fresh values in each pair. Without one, a replacement that remembers its results is not found.
    pub varied_bindings: Vec<u32>,
}

impl Timing {
    /// Number of pairs with which the steps of the clock would allow for the precision, if those that were measured do not, and any
    /// number would ([`Timing::is_precision_possible`]).
    pub fn wanted_pairs(&self) -> Option<u64> {
        let precision = 2.0 * self.margin;
        let wanted = self.clock_error > precision && self.is_precision_possible();
        // What is left for the deviation of means, which is less by the root of their number.
        let deviation = self.clock_error - self.clock_difference;
        let times = (deviation / (precision - self.clock_difference)).powi(2);
        wanted.then(|| (self.pair_count as f64 * times).ceil() as u64)
    }

    /// Whether the steps of the clock allow for the precision with enough pairs.
    pub fn is_precision_possible(&self) -> bool {
        self.clock_difference < 2.0 * self.margin
    }

    /// Whether the replacement is faster.
    pub fn verdict(&self) -> TimingVerdict {
        match (self.interval, verdict_of(self.interval, self.margin)) {
            _ if self.is_contradicted() => TimingVerdict::NoDifference,
            (None, _) => TimingVerdict::Inconclusive,
            (_, TimingVerdict::NoDifference) if self.batch_count < MIN_INTERVAL_SAMPLES as u64 => {
                TimingVerdict::Inconclusive
            }
            (_, verdict) => verdict,
        }
    }

    /// Whether one kernel has the shorter shortest times and the other the shorter medians.
    pub fn is_contradicted(&self) -> bool {
        use TimingVerdict::{Faster, Slower};
        let of = |interval| verdict_of(interval, self.margin);
        matches!((of(self.interval), of(self.median_interval)), (Faster, Slower) | (Slower, Faster))
    }
}

fn verdict_of(interval: Option<Interval>, margin: f64) -> TimingVerdict {
    match interval {
        Some(Interval { high, .. }) if high < 1.0 / (1.0 + margin) => TimingVerdict::Faster,
        Some(Interval { low, .. }) if low > 1.0 + margin => TimingVerdict::Slower,
        _ => TimingVerdict::NoDifference,
    }
}

/// The probability of a ratio outside of an interval.
const OUTSIDE: f64 = 0.01;
/// The same with fewer batches than [`MIN_INTERVAL_SAMPLES`], about whose distribution nothing is known.
const OUTSIDE_OF_FEW: f64 = 0.001;
/// Fewer samples have no interval at all.
const MIN_FEW_SAMPLES: usize = 3;
/// Sampling does not stop with fewer batches because their interval is narrow: a few may resemble each other by chance.
const MIN_BATCHES: usize = 16;
/// A ratio that is recognized by a few pairs, and beyond which more precision is of no use.
pub(super) const FAR: f64 = 2.0;

/// What is timed of a shape, with the same buffers and executables.
#[derive(Clone, Debug, Default)]
pub(super) struct ShapeBatch {
    /// At least one.
    pub pairs: Vec<Pair>,
    /// Dispatches with other states of the caches, such as the first. They only tell that one kernel takes many times as long.
    pub others: Vec<Pair>,
}

/// Collects pairs in batches.
///
/// The pairs of a batch share buffers and executables, and so their placement in memory, which can make one side faster.
/// Therefore batches are the samples: the interval is that of the mean of their ratios (as logarithms, so that a ratio and its inverse
/// weigh the same).
///
/// The ratio of a batch is that of the shortest times of both sides. What else the machine does only lengthens a dispatch, on some
/// machines most of them, and by more than kernels differ: there the medians need a hundred times as many pairs. Only of kernels that
/// take few steps of the clock, it is that of [means](coarse). No interval is narrower than these steps allow.
pub(super) struct Sampler<'s> {
    shapes: &'s [ComparedShape],
    precision: f64,
    /// The steps of the clock.
    resolution_ns: f64,
    /// The logarithm of the ratio of all dispatches, by batch.
    batches: Vec<f64>,
    /// The same from the medians of pairs, or from the means of all.
    medians: Vec<f64>,
    /// The logarithm of the ratio of all dispatches of pairs, and of other dispatches, of the first batches.
    few: Vec<f64>,
    samples: Vec<Samples>,
    interval: Option<Interval>,
    /// Number of batches at which the interval is computed again.
    next_look: usize,
}

/// Of one shape, by batch.
#[derive(Default)]
struct Samples {
    ratios: Vec<f64>,
    captured_ns: Vec<f64>,
    replaced_ns: Vec<f64>,
    pair_count: u64,
    /// Whether times are means, as the first batch decides.
    is_averaged: bool,
    /// The number of times of both sides that means are of.
    averaged: [u64; 2],
}

impl Samples {
    /// Adds a batch. Returns the times of both sides, and their ratio from the medians of pairs.
    fn add(&mut self, pairs: &[Pair], resolution_ns: f64, precision: f64) -> ([f64; 2], f64) {
        // Less than a step may be 0, which has no ratio and no logarithm.
        let least = (resolution_ns / 2.0).max(f64::MIN_POSITIVE);
        let captured = || pairs.iter().map(|pair| pair.captured_ns);
        let replaced = || pairs.iter().map(|pair| pair.replaced_ns);
        let shortest = [captured().fold(f64::INFINITY, f64::min), replaced().fold(f64::INFINITY, f64::min)];
        if self.ratios.is_empty() {
            self.is_averaged = is_coarse(shortest[0].min(shortest[1]), resolution_ns, precision);
        }
        let (times, median) = if self.is_averaged {
            let (captured_ns, captured_count) = undisturbed_mean(captured(), resolution_ns);
            let (replaced_ns, replaced_count) = undisturbed_mean(replaced(), resolution_ns);
            self.averaged[0] += captured_count as u64;
            self.averaged[1] += replaced_count as u64;
            // Medians are whole steps too.
            let median = limited_mean(replaced(), resolution_ns) / limited_mean(captured(), resolution_ns);
            ([captured_ns, replaced_ns], median)
        } else {
            let ratios: Vec<f64> =
                pairs.iter().map(|it| it.replaced_ns.max(least) / it.captured_ns.max(least)).collect();
            (shortest.map(|it| it.max(least)), stats::median(&ratios))
        };
        self.ratios.push((times[1] / times[0]).ln());
        self.captured_ns.push(times[0]);
        self.replaced_ns.push(times[1]);
        self.pair_count += pairs.len() as u64;
        (times, median)
    }

    /// Adds what the clock leaves open of a shape that counts so often.
    fn add_steps(&self, steps: &mut Steps, resolution_ns: f64, weight: f64) {
        let times = [stats::mean(&self.captured_ns), stats::mean(&self.replaced_ns)];
        match self.is_averaged {
            true => steps.add_means(times, self.averaged, resolution_ns, weight),
            false => steps.add_shortest(times, resolution_ns, weight),
        }
    }
}

impl<'s> Sampler<'s> {
    /// Of times by a clock that advances in steps of `resolution_ns`.
    pub(super) fn new(shapes: &'s [ComparedShape], precision: f64, resolution_ns: f64) -> Self {
        let samples = shapes.iter().map(|_| Samples::default()).collect();
        Self {
            shapes,
            precision,
            resolution_ns,
            batches: Vec::new(),
            medians: Vec::new(),
            few: Vec::new(),
            samples,
            interval: None,
            next_look: MIN_BATCHES,
        }
    }

    /// Some clocks are only known by the times that they have measured: the more, the shorter their steps turn out to be.
    pub(super) fn know_resolution(&mut self, resolution_ns: f64) {
        self.resolution_ns = resolution_ns;
    }

    #[cfg(test)]
    pub(super) fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Adds a batch: what was timed of each shape. Returns why sampling should stop. If it `is_late`, that one kernel is far slower
    /// is a reason.
    pub(super) fn add(&mut self, batch: &[ShapeBatch], is_late: bool) -> Option<Stopped> {
        let (mut captured_total, mut replaced_total, mut median_total) = (0.0, 0.0, 0.0);
        self.add_few(batch);
        for ((ShapeBatch { pairs, .. }, samples), shape) in
            batch.iter().zip(&mut self.samples).zip(self.shapes)
        {
            let ([captured_ns, replaced_ns], median) = samples.add(pairs, self.resolution_ns, self.precision);
            captured_total += captured_ns * shape.count as f64;
            replaced_total += replaced_ns * shape.count as f64;
            median_total += captured_ns * median * shape.count as f64;
        }
        self.batches.push((replaced_total / captured_total).ln());
        self.medians.push((median_total / captured_total).ln());
        let is_due = self.batches.len() >= self.next_look;
        if is_due || is_late {
            self.look();
        }
        if is_due {
            self.next_look = self.batches.len() + (self.batches.len() / 8).max(1);
            if self.is_precise() {
                return Some(Stopped::Precise);
            }
        }
        (is_late && self.interval.is_some_and(|it| it.low > FAR)).then_some(Stopped::FarSlower)
    }

    /// Whether the interval is narrow enough: also for a verdict, if it does not contain 1.
    fn is_precise(&self) -> bool {
        let Some(interval) = self.interval else { return false };
        let Interval { low, high } = interval;
        let half = (high - low) / (high + low);
        let is_clear = (low..=high).contains(&1.0)
            || verdict_of(Some(interval), self.margin()) != TimingVerdict::NoDifference;
        half <= if is_clear { self.precision } else { self.margin() }
    }

    fn margin(&self) -> f64 {
        self.precision / 2.0
    }

    /// Keeps the ratios of single dispatches, as long as there are few.
    fn add_few(&mut self, batch: &[ShapeBatch]) {
        if self.batches.len() >= MIN_INTERVAL_SAMPLES {
            return;
        }
        for of in [|it: &ShapeBatch| &it.others[..], |it: &ShapeBatch| &it.pairs[..]] as [fn(&_) -> &_; 2] {
            let count = batch.iter().map(|it| of(it).len()).min().unwrap_or(0);
            self.few.extend((0..count).map(|index| {
                let (mut captured_ns, mut replaced_ns, mut step_ns) = (0.0, 0.0, 0.0);
                for (it, shape) in batch.iter().zip(self.shapes) {
                    captured_ns += of(it)[index].captured_ns * shape.count as f64;
                    replaced_ns += of(it)[index].replaced_ns * shape.count as f64;
                    step_ns += self.resolution_ns * shape.count as f64;
                }
                // Not more than a step of the clock tells.
                ((replaced_ns + step_ns) / (captured_ns + step_ns)).ln()
            }));
        }
    }

    fn look(&mut self) {
        let mut interval = interval_of(&self.batches).or_else(|| self.interval_of_few());
        // By a coarse clock, a disturbed time cannot be told from one that takes a step more, so that the interval covers both results:
        // with such times and without.
        if self.samples.iter().any(|it| it.is_averaged)
            && let (Some(undisturbed), Some(all)) = (interval, interval_of(&self.medians))
        {
            let (low, high) = (undisturbed.low.min(all.low), undisturbed.high.max(all.high));
            interval = Some(Interval { low, high });
        }
        self.interval = interval.map(|it| widened(it, ratio_of(&self.batches), self.steps()));
    }

    /// What the clock leaves open.
    fn steps(&self) -> Steps {
        let mut steps = Steps::default();
        for (samples, shape) in self.samples.iter().zip(self.shapes) {
            samples.add_steps(&mut steps, self.resolution_ns, shape.count as f64);
        }
        steps
    }

    /// The interval with too few batches for a usual one: that of single dispatches, if one kernel takes many times as long, else that
    /// of the batches.
    fn interval_of_few(&self) -> Option<Interval> {
        let of = |logarithms: &[f64], outside| {
            let is_enough = logarithms.len() >= MIN_FEW_SAMPLES;
            is_enough.then(|| exponential(stats::mean_interval(logarithms, outside)))
        };
        let is_far = |it: &Interval| it.low > FAR || it.high < 1.0 / FAR;
        of(&self.few, OUTSIDE).filter(is_far).or_else(|| of(&self.batches, OUTSIDE_OF_FEW))
    }

    /// Whether there are enough dispatches to tell that one kernel takes many times as long.
    pub(super) fn has_few(&self) -> bool {
        self.few.len() >= MIN_FEW_SAMPLES
    }

    /// What the batches say, of which there is at least one.
    pub(super) fn finish(mut self, cache: CacheState, stopped: Stopped) -> Timing {
        self.look();
        let resolution_ns = self.resolution_ns;
        let of_shape = |(samples, shape): (&Samples, &ComparedShape)| {
            let mut steps = Steps::default();
            samples.add_steps(&mut steps, resolution_ns, 1.0);
            let ratio = ratio_of(&samples.ratios);
            ShapeTiming {
                shape: shape.clone(),
                captured_ns: stats::median(&samples.captured_ns),
                replaced_ns: stats::median(&samples.replaced_ns),
                ratio,
                interval: interval_of(&samples.ratios).map(|it| widened(it, ratio, steps)),
                varied_bindings: Vec::new(),
            }
        };
        let steps = self.steps();
        Timing {
            cache,
            ratio: ratio_of(&self.batches),
            interval: self.interval,
            margin: self.margin(),
            median_ratio: ratio_of(&self.medians),
            median_interval: interval_of(&self.medians),
            shapes: self.samples.iter().zip(self.shapes).map(of_shape).collect(),
            pair_count: self.samples.iter().map(|it| it.pair_count).sum(),
            batch_count: self.batches.len() as u64,
            is_device_time: false,
            resolution_ns,
            is_averaged: self.samples.iter().any(|it| it.is_averaged),
            clock_error: steps.deviation() + steps.difference(),
            clock_difference: steps.difference(),
            stopped,
            elapsed: Duration::ZERO,
            conditions: Conditions::default(),
        }
    }
}

/// The ratio, from the logarithms of batches.
fn ratio_of(logarithms: &[f64]) -> f64 {
    stats::mean(&clipped(logarithms)).exp()
}

/// Moves outliers to the limit beyond which they are: three standard deviations from the median, as the median absolute deviation
/// estimates them. Otherwise the batches that other processes interrupted would decide. That deviation is 0 if most batches have the
/// same ratio, as those of kernels do that take a few ticks of the clock: then it says nothing of the others, which stay.
fn clipped(logarithms: &[f64]) -> Vec<f64> {
    /// Standard deviations of a normal distribution in a median absolute deviation.
    const DEVIATIONS: f64 = 1.4826;
    let median = stats::median(logarithms);
    let distances: Vec<f64> = logarithms.iter().map(|it| (it - median).abs()).collect();
    let limit = 3.0 * DEVIATIONS * stats::median(&distances);
    if limit == 0.0 {
        return logarithms.to_vec();
    }
    logarithms.iter().map(|it| it.clamp(median - limit, median + limit)).collect()
}

/// An interval that is not narrower than the steps of the clock allow: batches whose times are the same steps do not differ.
fn widened(interval: Interval, ratio: f64, steps: Steps) -> Interval {
    let (deviation, difference) = (steps.deviation(), steps.difference());
    let low = interval.low.min(ratio * (-deviation).exp()) * (-difference).exp();
    let high = interval.high.max(ratio * deviation.exp()) * difference.exp();
    Interval { low, high }
}

/// The interval of a ratio, from the logarithms of batches.
fn interval_of(logarithms: &[f64]) -> Option<Interval> {
    if logarithms.len() < MIN_INTERVAL_SAMPLES {
        return None;
    }
    let clipped = clipped(logarithms);
    let Interval { low, high } = stats::mean_interval(&clipped, OUTSIDE);
    // What is clipped no longer moves the mean, and the spread of the rest is that much too small for it (Tukey and McLaughlin,
    // 1963).
    let kept = logarithms.iter().zip(&clipped).filter(|(it, clipped)| it == clipped).count();
    let (mean, widened) = (stats::mean(&clipped), logarithms.len() as f64 / kept.max(1) as f64);
    let (low, high) = (mean - (mean - low) * widened, mean + (high - mean) * widened);
    Some(exponential(Interval { low, high }))
}

fn exponential(Interval { low, high }: Interval) -> Interval {
    Interval { low: low.exp(), high: high.exp() }
}

#[cfg(test)]
mod tests;
