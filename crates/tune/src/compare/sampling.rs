//! The statistics of pairs of times: when to stop, and what they say.

mod coarse;

use std::time::Duration;

use rehal_bench::Conditions;
use rehal_bench::stats::{self, Interval};

pub(super) use self::coarse::LONGEST_STEP_NS;
use self::coarse::{Steps, is_coarse, limited_mean, undisturbed_mean};
use super::{CacheState, ComparedShape};

/// The times of the captured kernel and of the replacement, one directly after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub captured_ns: f64,
    pub replaced_ns: f64,
    /// Whether a thread was preempted meanwhile.
    pub is_preempted: bool,
}

/// What a comparison of times proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingVerdict {
    /// The interval of the ratio ends below 1.
    Faster,
    /// The interval ends at or above 1, and below 1 plus the [margin](Timing::margin).
    NotSlower,
    /// The interval begins above 1, and ends at or above 1 plus the margin.
    Slower,
    /// The interval begins at or below 1 and ends at or above 1 plus the margin, or there is no interval.
    CannotTell,
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
    /// [`PairOptions::pulse`](super::PairOptions::pulse) ended it.
    Interrupted,
}

/// How long a replacement takes, compared with the captured kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timing {
    /// What the CPU's caches contained.
    pub cache: CacheState,
    /// The time of all dispatches of the function with the replacement, as a fraction of the captured.
    pub ratio: f64,
    /// Its interval; `None` with too few batches. With 97.5 %, all intervals of a state of the caches contain
    /// the ratio, however many times it is looked at; so at least 95 % of all comparisons have only intervals
    /// that do.
    pub interval: Option<Interval>,
    /// By which fraction of the captured time a replacement may be slower.
    pub margin: f64,
    /// By shape, as they were given.
    pub shapes: Vec<ShapeTiming>,
    /// Number of pairs, of all shapes, without those in which a thread was preempted.
    pub pair_count: u64,
    /// Number of pairs in which a thread was preempted. They count only if there are no others in a batch.
    pub preempted_count: u64,
    /// Number of batches. Each has buffers and executables of its own.
    pub batch_count: u64,
    /// Whether times are those that the devices report, without the time of submission.
    pub is_device_time: bool,
    /// The steps in which the clock of the times advances, in nanoseconds.
    pub resolution_ns: f64,
    /// Whether times are means of pairs instead of the shortest, since the kernels take so few steps of the
    /// clock that the shortest times of different kernels are the same.
    pub is_averaged: bool,
    /// Half of the narrowest interval that so many pairs can have with this clock, as a fraction of the
    /// ratio.
    pub clock_error: f64,
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
    /// Time of a dispatch of the captured kernel in nanoseconds: the median over batches of the shortest, or
    /// of their means ([`Timing::is_averaged`]).
    pub captured_ns: f64,
    /// Time of a dispatch of the replacement in nanoseconds, likewise.
    pub replaced_ns: f64,
    /// The median over batches of the ratio of these times.
    pub ratio: f64,
    /// Its interval, at 99 %, or as the sampler was told for many shapes.
    pub interval: Option<Interval>,
    /// The bindings that had fresh values in each pair. Without one, a replacement that remembers its results
    /// is not found.
    pub varied_bindings: Vec<u32>,
}

impl ShapeTiming {
    /// What the times of the shape prove, with this [margin](Timing::margin).
    pub fn verdict(&self, margin: f64) -> TimingVerdict {
        verdict_of(self.interval, margin)
    }
}

impl Timing {
    /// What the times prove.
    pub fn verdict(&self) -> TimingVerdict {
        verdict_of(self.interval, self.margin)
    }
}

fn verdict_of(interval: Option<Interval>, margin: f64) -> TimingVerdict {
    match interval {
        Some(Interval { high, .. }) if high < 1.0 => TimingVerdict::Faster,
        Some(Interval { high, .. }) if high < 1.0 + margin => TimingVerdict::NotSlower,
        Some(Interval { low, .. }) if low > 1.0 => TimingVerdict::Slower,
        _ => TimingVerdict::CannotTell,
    }
}

/// The probability of a ratio outside of the interval of the first look. That of others is less by as much as
/// there are more batches, so that all looks together are wrong with at most 2.5 %: 1 + 1/2 + 1/3 + 2/9 + ...
const OUTSIDE: f64 = 0.01;
/// Number of batches at the first look, the fewest that have an interval. The next look is at twice as many,
/// and each after it at half as many more: looks must not depend on what was seen.
const FIRST_LOOK: usize = 8;
/// Number of dispatches that suffice to tell that one kernel takes many times as long.
const MIN_FEW_SAMPLES: usize = 3;
/// A ratio that is recognized by a few pairs, and beyond which more precision is usually of no use.
pub(super) const FAR: f64 = 2.0;

/// What is timed of a shape, with the same buffers and executables.
#[derive(Clone, Debug, Default)]
pub(super) struct ShapeBatch {
    /// At least one.
    pub pairs: Vec<Pair>,
    /// Dispatches with other states of the caches, such as the first. They only tell that one kernel takes
    /// many times as long.
    pub others: Vec<Pair>,
}

/// Whether the shortest times of both sides are those of the kernels, and not of what disturbs all of these
/// pairs: two of each side agree.
pub(super) fn is_settled(pairs: &[Pair], resolution_ns: f64, precision: f64) -> bool {
    const FEWEST: usize = 5;
    /// As a part of the precision.
    const AGREEING: f64 = 1.0 / 4.0;
    let clean = || pairs.iter().filter(|it| !it.is_preempted);
    let agrees = |of: fn(&Pair) -> f64| {
        let (shortest, next) = clean().map(of).fold((f64::INFINITY, f64::INFINITY), |(first, second), it| {
            (first.min(it), second.min(it.max(first)))
        });
        let is_near = next - shortest <= AGREEING * precision * shortest;
        is_near && !is_coarse(shortest, resolution_ns, precision)
    };
    clean().count() >= FEWEST && agrees(|it| it.captured_ns) && agrees(|it| it.replaced_ns)
}

/// Collects pairs in batches.
///
/// The pairs of a batch share buffers and executables, and so their placement in memory, which can make one
/// side faster. Therefore batches are the samples.
///
/// The ratio of a batch is that of the shortest times of both sides, of pairs in which no thread was
/// preempted: what else the machine does only lengthens a dispatch. Only of kernels that take few steps of
/// the clock, it is that of [means](coarse). Under load, the shortest time of some batches is not the
/// kernel's either, and how these batches are distributed is unknown. Therefore the estimate is the median of
/// the batches, whose interval follows from their order alone.
pub(super) struct Sampler<'s> {
    shapes: &'s [ComparedShape],
    precision: f64,
    margin: f64,
    /// A ratio beyond which more precision is of no use.
    far: f64,
    /// The steps of the clock.
    resolution_ns: f64,
    /// The logarithm of the ratio of all dispatches, by batch.
    batches: Vec<f64>,
    /// The same with what disturbs dispatches, if the clock is coarse.
    disturbed: Vec<f64>,
    /// The logarithm of the ratio of all dispatches of pairs, and of other dispatches, of the first batches.
    few: Vec<f64>,
    samples: Vec<Samples>,
    /// The probability of a ratio of a shape outside of its interval.
    shapes_outside: f64,
    interval: Option<Interval>,
    /// Number of batches at which the interval is computed.
    next_look: usize,
    /// Number of batches of the interval.
    looked_at: usize,
}

/// Of one shape, by batch.
#[derive(Default)]
struct Samples {
    ratios: Vec<f64>,
    captured_ns: Vec<f64>,
    replaced_ns: Vec<f64>,
    pair_count: u64,
    preempted_count: u64,
    /// Whether times are means, as the first batch decides.
    is_averaged: bool,
    /// The number of times of both sides that means are of.
    averaged: [u64; 2],
}

impl Samples {
    /// Adds a batch. Returns the times of both sides, and those with what disturbs a coarse clock.
    fn add(&mut self, pairs: &[Pair], resolution_ns: f64, precision: f64) -> [[f64; 2]; 2] {
        // Less than a step may be 0, which has no ratio and no logarithm.
        let least = (resolution_ns / 2.0).max(f64::MIN_POSITIVE);
        let has_clean = pairs.iter().any(|it| !it.is_preempted);
        let kept = || pairs.iter().filter(|it| !has_clean || !it.is_preempted);
        let sides = [|it: &Pair| it.captured_ns, |it: &Pair| it.replaced_ns];
        let shortest = sides.map(|of| kept().map(of).fold(f64::INFINITY, f64::min));
        if self.ratios.is_empty() {
            self.is_averaged = is_coarse(shortest[0].min(shortest[1]), resolution_ns, precision);
        }
        let times = match self.is_averaged {
            true => {
                let means = sides.map(|of| undisturbed_mean(kept().map(of), resolution_ns));
                for (averaged, (_, count)) in self.averaged.iter_mut().zip(means) {
                    *averaged += count as u64;
                }
                means.map(|(mean_ns, _)| mean_ns)
            }
            false => shortest.map(|it| it.max(least)),
        };
        self.ratios.push((times[1] / times[0]).ln());
        self.captured_ns.push(times[0]);
        self.replaced_ns.push(times[1]);
        let preempted = pairs.iter().filter(|it| it.is_preempted).count() as u64;
        self.pair_count += pairs.len() as u64 - preempted;
        self.preempted_count += preempted;
        match self.is_averaged {
            true => [times, sides.map(|of| limited_mean(kept().map(of), resolution_ns))],
            false => [times, times],
        }
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
    pub(super) fn new(
        shapes: &'s [ComparedShape],
        [precision, margin]: [f64; 2],
        resolution_ns: f64,
    ) -> Self {
        let samples = shapes.iter().map(|_| Samples::default()).collect();
        Self {
            shapes,
            precision,
            margin,
            far: FAR,
            resolution_ns,
            batches: Vec::new(),
            disturbed: Vec::new(),
            few: Vec::new(),
            samples,
            shapes_outside: OUTSIDE,
            interval: None,
            next_look: FIRST_LOOK,
            looked_at: 0,
        }
    }

    /// The same with another ratio beyond which more precision is of no use.
    pub(super) fn with_far(self, far: f64) -> Self {
        Self { far, ..self }
    }

    /// The same with another probability of a ratio of a shape outside of its interval.
    pub(super) fn with_shapes_outside(self, shapes_outside: f64) -> Self {
        Self { shapes_outside, ..self }
    }

    /// Some clocks are only known by the times that they have measured: the more, the shorter their steps
    /// turn out to be.
    pub(super) fn know_resolution(&mut self, resolution_ns: f64) {
        self.resolution_ns = resolution_ns;
    }

    #[cfg(test)]
    pub(super) fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Adds a batch: what was timed of each shape. Returns why sampling should stop. If it `is_late`, that
    /// the replacement is far slower is a reason.
    pub(super) fn add(&mut self, batch: &[ShapeBatch], is_late: bool) -> Option<Stopped> {
        let mut totals = [[0.0; 2]; 2];
        self.add_few(batch);
        for ((ShapeBatch { pairs, .. }, samples), shape) in
            batch.iter().zip(&mut self.samples).zip(self.shapes)
        {
            let times = samples.add(pairs, self.resolution_ns, self.precision);
            for (total, time_ns) in totals.iter_mut().flatten().zip(times.iter().flatten()) {
                *total += time_ns * shape.count as f64;
            }
        }
        let [ratio, disturbed] =
            totals.map(|[captured_ns, replaced_ns]: [f64; 2]| (replaced_ns / captured_ns).ln());
        self.batches.push(ratio);
        self.disturbed.push(disturbed);
        let count = self.batches.len();
        let is_due = count == self.next_look;
        if !(is_due || is_late && count < FIRST_LOOK) {
            return None;
        }
        self.look();
        if is_due {
            self.next_look = (2 * FIRST_LOOK).max(count + count / 2);
        }
        match self.interval {
            Some(it) if is_late && it.low > self.far => Some(Stopped::FarSlower),
            Some(it) if is_due && self.is_enough(it) => Some(Stopped::Precise),
            _ => None,
        }
    }

    /// Whether an interval is narrow enough, or tells half of a difference. If it does not prove that the
    /// replacement is not slower, narrow is a fourth.
    fn is_enough(&self, interval: Interval) -> bool {
        let Interval { low, high } = interval;
        let (half, difference) = ((high - low) / (high + low), (high + low - 2.0).abs() / (high + low));
        half <= match verdict_of(Some(interval), self.margin) {
            TimingVerdict::NotSlower => self.precision,
            _ => (self.precision / 4.0).max(difference / 2.0),
        }
    }

    /// Keeps the ratios of single dispatches, as long as there are few.
    fn add_few(&mut self, batch: &[ShapeBatch]) {
        if self.batches.len() >= FIRST_LOOK {
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

    /// Computes the interval, as of the next look.
    fn look(&mut self) {
        let outside = OUTSIDE * FIRST_LOOK as f64 / self.next_look as f64;
        // By a coarse clock, a disturbed time cannot be told from one that takes a step more, so that the
        // interval covers both results: with such times and without.
        let both = [&self.batches, &self.disturbed].map(|it| interval_of(it, outside));
        let interval = match both {
            [Some(one), Some(other)] => {
                Some(Interval { low: one.low.min(other.low), high: one.high.max(other.high) })
            }
            _ => self.interval_of_few(),
        };
        self.interval = interval.map(|it| widened(it, ratio_of(&self.batches), self.steps()));
        self.looked_at = self.batches.len();
    }

    /// What the clock leaves open.
    fn steps(&self) -> Steps {
        let mut steps = Steps::default();
        for (samples, shape) in self.samples.iter().zip(self.shapes) {
            samples.add_steps(&mut steps, self.resolution_ns, shape.count as f64);
        }
        steps
    }

    /// The interval with too few batches for a usual one: the range of single dispatches, if in each of them,
    /// one kernel takes many times as long.
    fn interval_of_few(&self) -> Option<Interval> {
        let range = |end: fn(f64, f64) -> f64| self.few.iter().copied().reduce(end).unwrap_or_default().exp();
        let interval = Interval { low: range(f64::min), high: range(f64::max) };
        let is_far = interval.low > FAR || interval.high < 1.0 / FAR;
        (self.has_few() && is_far).then_some(interval)
    }

    /// Whether there are enough dispatches to tell that one kernel takes many times as long.
    pub(super) fn has_few(&self) -> bool {
        self.few.len() >= MIN_FEW_SAMPLES
    }

    /// What the batches say, of which there is at least one.
    pub(super) fn finish(mut self, cache: CacheState, stopped: Stopped) -> Timing {
        if self.looked_at != self.batches.len() {
            self.look();
        }
        let (resolution_ns, outside) = (self.resolution_ns, self.shapes_outside);
        let of_shape = |(samples, shape): (&Samples, &ComparedShape)| {
            let mut steps = Steps::default();
            samples.add_steps(&mut steps, resolution_ns, 1.0);
            let ratio = ratio_of(&samples.ratios);
            ShapeTiming {
                shape: shape.clone(),
                captured_ns: stats::median(&samples.captured_ns),
                replaced_ns: stats::median(&samples.replaced_ns),
                ratio,
                interval: interval_of(&samples.ratios, outside).map(|it| widened(it, ratio, steps)),
                varied_bindings: Vec::new(),
            }
        };
        let steps = self.steps();
        Timing {
            cache,
            ratio: ratio_of(&self.batches),
            interval: self.interval,
            margin: self.margin,
            shapes: self.samples.iter().zip(self.shapes).map(of_shape).collect(),
            pair_count: self.samples.iter().map(|it| it.pair_count).sum(),
            preempted_count: self.samples.iter().map(|it| it.preempted_count).sum(),
            batch_count: self.batches.len() as u64,
            is_device_time: false,
            resolution_ns,
            is_averaged: self.samples.iter().any(|it| it.is_averaged),
            clock_error: steps.deviation() + steps.difference(),
            stopped,
            elapsed: Duration::ZERO,
            conditions: Conditions::default(),
        }
    }
}

/// The ratio, from the logarithms of batches.
fn ratio_of(logarithms: &[f64]) -> f64 {
    stats::median(logarithms).exp()
}

/// An interval that is not narrower than the steps of the clock allow: batches whose times are the same steps
/// do not differ.
fn widened(interval: Interval, ratio: f64, steps: Steps) -> Interval {
    let (deviation, difference) = (steps.deviation(), steps.difference());
    let low = interval.low.min(ratio * (-deviation).exp()) * (-difference).exp();
    let high = interval.high.max(ratio * deviation.exp()) * difference.exp();
    Interval { low, high }
}

/// The interval of a ratio, from the logarithms of batches.
fn interval_of(logarithms: &[f64], outside: f64) -> Option<Interval> {
    let Interval { low, high } = stats::median_interval(logarithms, outside)?;
    Some(Interval { low: low.exp(), high: high.exp() })
}

#[cfg(test)]
mod tests;
