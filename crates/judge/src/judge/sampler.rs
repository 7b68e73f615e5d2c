//! The statistics of pairs of times: when to stop, and what they say.

use std::time::Duration;

use super::coarse::{Steps, is_coarse, limited_mean, undisturbed_mean};
use super::{
    Clock, Judgment, Modes, PartTiming, Preemption, Sample, SideTiming, Statistic, Stopped, TimingVerdict,
    modes,
};
use crate::Conditions;
use crate::stats::{self, Interval};

/// The probability of a ratio outside of the interval of the first look. That of others is less by as much as
/// there are more batches, so that all looks together are wrong with at most 2.5 %: 1 + 1/2 + 1/3 + 2/9 + ...
pub(super) const OUTSIDE: f64 = 0.01;
/// Number of batches at the first look, the fewest that have an interval. The next look is at twice as many,
/// and each after it at half as many more: looks must not depend on what was seen.
const FIRST_LOOK: usize = 8;
/// Number of samples that suffice to tell that one side takes many times as long.
const MIN_FEW_SAMPLES: usize = 3;
/// Number of pairs of a batch whose shortest times say what nothing disturbed.
const FEWEST: usize = 5;
/// A ratio that is recognized by a few pairs, and beyond which more precision is usually of no use.
pub const FAR: f64 = 2.0;

/// A pair of times: of the captured side and of the replaced one, one directly after the other.
pub(super) type Pair = [Sample; 2];

/// The times of a part in one placement.
#[derive(Clone, Debug, Default)]
pub(super) struct PartBatch {
    pub pairs: Vec<Pair>,
    /// Times with other states of the caches, such as the first. They only tell that one side takes many
    /// times as long.
    pub others: Vec<Pair>,
}

fn is_included(sample: &Sample) -> bool {
    sample.preemption == Preemption::Included
}

/// Whether neither time of a pair includes a preemption.
pub(super) fn counts(pair: &Pair) -> bool {
    !pair.iter().any(is_included)
}

/// The times of a side that say most: those without a preemption if there are any, else those that exclude
/// it. What a preemption leaves in the caches makes a time longer.
fn least_disturbed(pairs: &[Pair], side: usize) -> Vec<f64> {
    let samples = || pairs.iter().map(|pair| pair[side]);
    let least = samples().map(|it| it.preemption).min().unwrap_or_default();
    samples().filter(|it| it.preemption == least && !is_included(it)).map(|it| it.ns).collect()
}

/// All times of a side that exclude preemptions: a longer one is preempted more often, so that choosing those
/// without would choose short ones.
fn all_of(pairs: &[Pair], side: usize) -> Vec<f64> {
    pairs.iter().map(|pair| pair[side]).filter(|it| !is_included(it)).map(|it| it.ns).collect()
}

/// Whether the shortest times of both sides are those of the work, and not of what disturbs all of these
/// pairs: two of each side agree.
pub(super) fn is_settled(pairs: &[Pair], resolution_ns: f64, precision: f64) -> bool {
    /// As a part of the precision.
    const AGREEING: f64 = 1.0 / 4.0;
    (0..2).all(|side| {
        let times = least_disturbed(pairs, side);
        let (shortest, next) = times.iter().fold((f64::INFINITY, f64::INFINITY), |(first, second), it| {
            (first.min(*it), second.min(it.max(first)))
        });
        let is_near = next - shortest <= AGREEING * precision * shortest;
        times.len() >= FEWEST && is_near && !is_coarse(shortest, resolution_ns, precision)
    })
}

/// Collects pairs in batches.
///
/// The pairs of a batch share buffers and executables, and so their placement in memory, which can make one
/// side faster. Therefore batches are the samples.
///
/// The ratio of a batch is that of the shortest times of both sides: what else the machine does only
/// lengthens a time. Only of work that takes few steps of the clock, or one of two times, it is that of
/// means ([`Statistic`]). Under load, the shortest time of some batches is not that of the work either, and
/// how these batches are distributed is unknown. Therefore the estimate is the median of the batches, whose
/// interval follows from their order alone.
pub(super) struct Sampler {
    parts: Vec<Samples>,
    precision: f64,
    margin: f64,
    /// A ratio beyond which more precision is of no use.
    far: f64,
    /// The steps of the clock.
    resolution_ns: f64,
    /// The probability of a ratio of a part outside of its interval.
    parts_outside: f64,
    /// The logarithm of the ratio of all parts, by batch.
    batches: Vec<f64>,
    /// The same with what disturbs times, if the clock is coarse.
    disturbed: Vec<f64>,
    /// The logarithm of the ratio of all parts, of pairs and of other times, of the first batches.
    few: Vec<f64>,
    /// Number of pairs and others that were to tell what `few` tells.
    few_count: usize,
    interval: Option<Interval>,
    /// Number of batches at which the interval is computed.
    next_look: usize,
    /// Number of batches of the interval.
    looked_at: usize,
}

/// Of one part, by batch.
#[derive(Default)]
struct Samples {
    /// How often it counts.
    count: u64,
    statistic: Statistic,
    /// Two modes of either side.
    modes: [Option<Modes>; 2],
    /// All times that count, of both sides.
    times: Vec<[Vec<f64>; 2]>,
    ratios: Vec<f64>,
    /// The same with what disturbs times, if the clock is coarse.
    disturbed: Vec<f64>,
    /// The statistic of both sides.
    sides: [Vec<f64>; 2],
    pair_count: u64,
    preempted_count: u64,
    /// The number of times of both sides that means are of.
    averaged: [u64; 2],
    /// The means of the times of batches that no longer count, and of those that never did.
    before: [f64; 2],
}

impl Samples {
    /// Adds a batch. Returns the times of both sides, and those with what disturbs a coarse clock.
    fn add(&mut self, pairs: &[Pair], resolution_ns: f64, precision: f64) -> [[f64; 2]; 2] {
        // Less than a step may be 0, which has no ratio and no logarithm.
        let least = (resolution_ns / 2.0).max(f64::MIN_POSITIVE);
        let undisturbed = [0, 1].map(|side| least_disturbed(pairs, side));
        let all = [0, 1].map(|side| all_of(pairs, side));
        let shortest =
            undisturbed.each_ref().map(|times| times.iter().copied().fold(f64::INFINITY, f64::min));
        let is_first = self.ratios.is_empty() && self.statistic == Statistic::Shortest;
        if is_first && is_coarse(shortest[0].min(shortest[1]), resolution_ns, precision) {
            self.statistic = Statistic::MeanOfShortest;
        }
        let mut average = |means: [(f64, usize); 2]| {
            for (averaged, (_, count)) in self.averaged.iter_mut().zip(means) {
                *averaged += count as u64;
            }
            means.map(|(mean_ns, _)| mean_ns)
        };
        let (times, disturbed) = match self.statistic {
            // Of so few, the shortest is that of the faster of two modes.
            Statistic::Shortest if pairs.len() < FEWEST => {
                let times = undisturbed.each_ref().map(|times| limited_mean(times, 2.0, resolution_ns));
                (times, times)
            }
            Statistic::Shortest => {
                let times = shortest.map(|it| it.max(least));
                (times, times)
            }
            Statistic::MeanOfShortest => (
                average(undisturbed.each_ref().map(|times| undisturbed_mean(times, resolution_ns))),
                undisturbed.each_ref().map(|times| limited_mean(times, 2.0, resolution_ns)),
            ),
            Statistic::Mean => {
                // What interrupts a call of the slow mode does not count.
                let mean = |side: usize| {
                    let slowest = self.modes[side].map_or(1.0, |it| it.slow_ns / it.fast_ns);
                    (limited_mean(&all[side], 2.0 * slowest, resolution_ns), all[side].len())
                };
                let times = average([mean(0), mean(1)]);
                (times, times)
            }
        };
        self.ratios.push((times[1] / times[0]).ln());
        self.disturbed.push((disturbed[1] / disturbed[0]).ln());
        for (side, time) in self.sides.iter_mut().zip(times) {
            side.push(time);
        }
        self.times.push(all);
        [times, disturbed]
    }

    /// Forgets the batches: their pairs were not all taken, or not summed up as they will be.
    fn begin_again(&mut self) {
        let mean = |side: usize| {
            let times: Vec<f64> = self.times.iter().flat_map(|it| it[side].iter().copied()).collect();
            stats::mean(&times)
        };
        let before = [mean(0), mean(1)];
        *self = Self {
            count: self.count,
            statistic: self.statistic,
            modes: self.modes,
            pair_count: self.pair_count,
            preempted_count: self.preempted_count,
            before,
            ..Self::default()
        };
    }

    /// Adds what the clock leaves open of a part that counts so often.
    fn add_steps(&self, steps: &mut Steps, resolution_ns: f64, weight: f64) {
        let times = self.sides.each_ref().map(|it| stats::mean(it));
        match self.statistic {
            Statistic::Shortest => steps.add_shortest(times, resolution_ns, weight),
            Statistic::MeanOfShortest | Statistic::Mean => {
                steps.add_means(times, self.averaged, resolution_ns, weight)
            }
        }
    }

    /// Whether a side has modes, and not all of its times were summed up.
    fn has_undecided_modes(&self) -> bool {
        self.statistic != Statistic::Mean && self.modes.iter().any(Option::is_some)
    }

    fn find_modes(&self, resolution_ns: f64) -> [Option<Modes>; 2] {
        [0, 1].map(|side| modes::find(self.times.iter().map(|it| &it[side][..]), resolution_ns))
    }

    fn side(&self, side: usize) -> SideTiming {
        let mut times: Vec<f64> = self.times.iter().flat_map(|it| it[side].iter().copied()).collect();
        times.sort_by(f64::total_cmp);
        SideTiming {
            ns: stats::median(&self.sides[side]),
            median_ns: stats::median(&times),
            mean_ns: stats::mean(&times),
            upper_quartile_ns: times.get(times.len() * 3 / 4).copied().unwrap_or_default(),
            modes: self.modes[side],
        }
    }
}

/// Limits of a [`Sampler`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub precision: f64,
    pub margin: f64,
    /// A ratio beyond which more precision is of no use.
    pub far: f64,
    /// The probability of a ratio of a part outside of its interval.
    pub parts_outside: f64,
}

impl Sampler {
    /// Of parts that count so often, by a clock that advances in steps of `resolution_ns`.
    pub(super) fn new(counts: &[u64], limits: Limits, resolution_ns: f64) -> Self {
        Self {
            parts: counts.iter().map(|count| Samples { count: *count, ..Samples::default() }).collect(),
            precision: limits.precision,
            margin: limits.margin,
            far: limits.far,
            resolution_ns,
            parts_outside: limits.parts_outside,
            batches: Vec::new(),
            disturbed: Vec::new(),
            few: Vec::new(),
            few_count: 0,
            interval: None,
            next_look: FIRST_LOOK,
            looked_at: 0,
        }
    }

    /// Some clocks are only known by the times that they have measured: the more, the shorter their steps
    /// turn out to be.
    pub(super) fn know_resolution(&mut self, resolution_ns: f64) {
        self.resolution_ns = resolution_ns;
    }

    #[cfg(test)]
    fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Adds a batch: what was timed of each part. Returns why sampling should stop. If it `is_late`, that
    /// the replaced side is far slower is a reason. It does not count if a part has no pair that does.
    pub(super) fn add(&mut self, batch: &[PartBatch], is_late: bool) -> Option<Stopped> {
        self.add_few(batch);
        let counted: Vec<Vec<Pair>> =
            batch.iter().map(|part| part.pairs.iter().filter(|it| counts(it)).copied().collect()).collect();
        for ((samples, all), counted) in self.parts.iter_mut().zip(batch).zip(&counted) {
            samples.preempted_count += (all.pairs.len() - counted.len()) as u64;
            samples.pair_count += counted.len() as u64;
        }
        let is_counted = !counted.iter().any(Vec::is_empty);
        if is_counted {
            let mut totals = [[0.0; 2]; 2];
            for (samples, pairs) in self.parts.iter_mut().zip(&counted) {
                let times = samples.add(pairs, self.resolution_ns, self.precision);
                for (total, time_ns) in totals.iter_mut().flatten().zip(times.iter().flatten()) {
                    *total += time_ns * samples.count as f64;
                }
            }
            let [ratio, disturbed] =
                totals.map(|[captured_ns, replaced_ns]: [f64; 2]| (replaced_ns / captured_ns).ln());
            self.batches.push(ratio);
            self.disturbed.push(disturbed);
        }
        let count = self.batches.len();
        let is_due = is_counted && count == self.next_look;
        if !(is_due || is_late && count < FIRST_LOOK) {
            return None;
        }
        if is_due && self.begins_again_with_modes() {
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

    /// Whether a side of a part was found to take one of two times: means decide then, of all pairs of a
    /// batch, so that the batches before do not count.
    fn begins_again_with_modes(&mut self) -> bool {
        let mut are_new = false;
        for part in self.parts.iter_mut().filter(|it| it.statistic != Statistic::Mean) {
            let modes = part.find_modes(self.resolution_ns);
            if modes.iter().any(Option::is_some) {
                (part.statistic, part.modes, are_new) = (Statistic::Mean, modes, true);
                part.begin_again();
            }
        }
        if are_new {
            self.batches.clear();
            self.disturbed.clear();
            (self.interval, self.next_look, self.looked_at) = (None, 2 * FIRST_LOOK, 0);
        }
        are_new
    }

    /// Whether more pairs of a batch of a part are of no use.
    pub(super) fn is_settled(&self, part: usize, pairs: &[Pair]) -> bool {
        let has_modes = self.parts.get(part).is_some_and(|it| it.statistic == Statistic::Mean);
        !has_modes && is_settled(pairs, self.resolution_ns, self.precision)
    }

    /// Whether an interval is narrow enough, or tells half of a difference. If it does not prove that the
    /// replaced side is not slower, narrow is a fourth.
    fn is_enough(&self, interval: Interval) -> bool {
        let Interval { low, high } = interval;
        let (half, difference) = ((high - low) / (high + low), (high + low - 2.0).abs() / (high + low));
        half <= match TimingVerdict::of(Some(interval), self.margin) {
            TimingVerdict::NotSlower => self.precision,
            _ => (self.precision / 4.0).max(difference / 2.0),
        }
    }

    /// Keeps the ratios of single times, as long as there are few.
    fn add_few(&mut self, batch: &[PartBatch]) {
        if self.batches.len() >= FIRST_LOOK {
            return;
        }
        for of in [|it: &PartBatch| &it.others[..], |it: &PartBatch| &it.pairs[..]] as [fn(&_) -> &_; 2] {
            let count = batch.iter().map(|it| of(it).len()).min().unwrap_or(0);
            self.few_count += count;
            for index in (0..count).filter(|index| batch.iter().all(|it| counts(&of(it)[*index]))) {
                // Not more than a step of the clock tells.
                let total = |side: usize| {
                    let times = batch.iter().zip(&self.parts);
                    times
                        .map(|(it, part)| (of(it)[index][side].ns + self.resolution_ns) * part.count as f64)
                        .sum::<f64>()
                };
                self.few.push((total(1) / total(0)).ln());
            }
        }
    }

    /// Computes the interval, as of the next look.
    fn look(&mut self) {
        let outside = OUTSIDE * FIRST_LOOK as f64 / self.next_look as f64;
        let (ratio, steps) = (self.ratio(), self.steps());
        let interval = wider(&self.batches, &self.disturbed, outside).map(|it| widened(it, ratio, steps));
        // It has a step of the clock in each time already.
        self.interval = interval.or_else(|| self.interval_of_few());
        self.looked_at = self.batches.len();
    }

    /// The steps that the clock leaves open.
    fn steps(&self) -> Steps {
        let mut steps = Steps::default();
        for samples in &self.parts {
            samples.add_steps(&mut steps, self.resolution_ns, samples.count as f64);
        }
        steps
    }

    /// The interval with too few batches for a usual one: the range of single times, if in each of them, one
    /// side takes many times as long.
    fn interval_of_few(&self) -> Option<Interval> {
        let range = |end: fn(f64, f64) -> f64| self.few.iter().copied().reduce(end).unwrap_or_default().exp();
        let interval = Interval { low: range(f64::min), high: range(f64::max) };
        let is_far = interval.low > FAR || interval.high < 1.0 / FAR;
        (self.few.len() >= MIN_FEW_SAMPLES && is_far).then_some(interval)
    }

    /// Whether there were enough times to tell that one side takes many times as long, if they counted.
    pub(super) fn has_few(&self) -> bool {
        self.few_count >= MIN_FEW_SAMPLES
    }

    /// The ratio of all parts. Without a batch that counts, that of the times before.
    fn ratio(&self) -> f64 {
        if !self.batches.is_empty() {
            return ratio_of(&self.batches);
        }
        let total = |side: usize| self.parts.iter().map(|it| it.before[side] * it.count as f64).sum::<f64>();
        total(1) / total(0)
    }

    /// The judgment by the batches.
    pub(super) fn finish(mut self, clock: Clock, stopped: Stopped) -> Judgment {
        if self.looked_at != self.batches.len() {
            self.look();
        }
        for part in &mut self.parts {
            let found = part.find_modes(self.resolution_ns);
            for (modes, found) in part.modes.iter_mut().zip(found) {
                *modes = found.or(*modes);
            }
        }
        // The shortest times of a side with modes, found at the end, say nothing.
        if self.parts.iter().any(Samples::has_undecided_modes) {
            self.interval = self.interval_of_few();
        }
        let (resolution_ns, outside) = (self.resolution_ns, self.parts_outside);
        let of_part = |samples: &Samples| {
            let mut steps = Steps::default();
            samples.add_steps(&mut steps, resolution_ns, 1.0);
            let ratio = match samples.ratios.is_empty() {
                true => samples.before[1] / samples.before[0],
                false => ratio_of(&samples.ratios),
            };
            PartTiming {
                count: samples.count,
                captured: samples.side(0),
                replaced: samples.side(1),
                ratio,
                interval: wider(&samples.ratios, &samples.disturbed, outside)
                    .map(|it| widened(it, ratio, steps))
                    .filter(|_| !samples.has_undecided_modes()),
            }
        };
        let steps = self.steps();
        Judgment {
            ratio: self.ratio(),
            interval: self.interval,
            margin: self.margin,
            clock,
            parts: self.parts.iter().map(of_part).collect(),
            pair_count: self.parts.iter().map(|it| it.pair_count).sum(),
            preempted_count: self.parts.iter().map(|it| it.preempted_count).sum(),
            batch_count: self.batches.len() as u64,
            resolution_ns,
            statistic: self.parts.iter().map(|it| it.statistic).max().unwrap_or_default(),
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

/// The interval of a ratio. By a coarse clock, a disturbed time cannot be told from one that takes a step
/// more, so that it covers both results: with such times and without.
fn wider(batches: &[f64], disturbed: &[f64], outside: f64) -> Option<Interval> {
    let (one, other) = (interval_of(batches, outside)?, interval_of(disturbed, outside)?);
    Some(Interval { low: one.low.min(other.low), high: one.high.max(other.high) })
}

/// The interval of a ratio, from the logarithms of batches.
fn interval_of(logarithms: &[f64], outside: f64) -> Option<Interval> {
    let Interval { low, high } = stats::median_interval(logarithms, outside)?;
    Some(Interval { low: low.exp(), high: high.exp() })
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
