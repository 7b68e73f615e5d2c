//! Times two sides by turns, batch after batch.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rehal_base::Result;

use super::sampler::{FAR, Limits, OUTSIDE, Pair, PartBatch, Sampler};
use super::{Clock, Judgment, Sample, Stopped};
use crate::{Measuring, Monitor, Pulse};

/// Number of pairs of a batch that count, so that neither side is disturbed in all of them: fewer if the
/// shortest times agree, and of long work.
const MIN_PAIRS: usize = 20;
/// Maximum number of such pairs of a batch.
const MAX_PAIRS: usize = 100;
/// Maximum number of pairs of a batch.
const MAX_TRIALS: usize = 400;
/// Batches for which there should be time. Those of long work have fewer pairs.
const WANTED_BATCHES: u32 = 32;
/// The part of the time after which a side that is far slower is not timed any longer.
const LATE: u32 = 8;

/// A side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that is compared with.
    Captured,
    /// The side that is compared.
    Replaced,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Captured => Self::Replaced,
            Self::Replaced => Self::Captured,
        }
    }

    /// Both sides, the one named first.
    fn first_of_both(self) -> [Self; 2] {
        [self, self.other()]
    }
}

/// Options of [`measure`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JudgeOptions {
    /// Sampling stops once half the interval is at most this fraction of the ratio, or half of a difference
    /// that it proves; a fourth of this fraction, unless it proves that the replaced side is not slower.
    pub precision: f64,
    /// By which fraction of the captured time the replaced side may be slower.
    pub margin: f64,
    /// Sampling stops after this time, and once there is a pair.
    pub max_time: Duration,
    /// A ratio beyond which more precision is of no use: a side that is proved to be slower than that is not
    /// timed any longer.
    pub far: f64,
    /// Seed of the order of the sides.
    pub seed: u64,
    /// Called after each pair; it may end the sampling.
    pub pulse: Pulse,
}

impl Default for JudgeOptions {
    fn default() -> Self {
        Self {
            precision: 0.01,
            margin: 0.05,
            max_time: Duration::from_secs(60),
            far: FAR,
            seed: 0,
            pulse: Pulse::default(),
        }
    }
}

/// The outcome of a step of a [`Subject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The times are good.
    Continue,
    /// The batch does not count, and is repeated.
    Repeat,
    /// There is nothing to compare.
    End,
}

/// Pairs of times of what was placed in memory together.
#[derive(Debug, Default)]
pub struct Batch {
    parts: Vec<PartBatch>,
}

impl Batch {
    /// Adds a pair of times of a part: of the captured and of the replaced side.
    pub fn add(&mut self, part: usize, [captured, replaced]: [Sample; 2]) {
        self.parts[part].pairs.push([captured, replaced]);
    }

    /// Adds a pair of times that were measured under other conditions, such as the first. They only tell that
    /// one side takes many times as long.
    pub fn add_other(&mut self, part: usize, [captured, replaced]: [Sample; 2]) {
        self.parts[part].others.push([captured, replaced]);
    }
}

/// The work that is timed.
pub trait Subject {
    /// Number of groups of parts. Those of a group are placed together.
    fn group_count(&self) -> usize;

    /// The part by which it is known when a group has enough pairs.
    fn main_part(&self, group: usize) -> usize;

    /// Places both sides of a group in memory, at other places than before, and `first` before the other one.
    fn place(&mut self, group: usize, first: Side, batch: &mut Batch) -> Result<Flow>;

    /// Takes a pair of times of each part of the group that was placed last, in this order.
    fn pair(&mut self, order: [Side; 2], batch: &mut Batch) -> Result<Flow>;

    /// Checks what was timed since the group was placed.
    fn check(&mut self) -> Result<Flow>;

    /// The clock of the times that were taken.
    fn clock(&self) -> Clock;

    /// The steps in which this clock advances, in nanoseconds, as far as it is known.
    fn resolution_ns(&self) -> f64;
}

/// Parts that are judged together. The first of several decides when sampling stops.
#[derive(Clone, Debug)]
pub struct Parts {
    /// How often each part counts.
    pub counts: Vec<u64>,
    /// Whether all intervals of the parts contain their ratios with 95 %, instead of each with 99 %.
    pub are_judged: bool,
}

/// Times both sides of a subject by turns, in random order, in batches of which each has a placement of its
/// own, until the interval of the first of `sets` is narrow enough. The parts of the subject are those of all
/// sets, in this order. Returns a judgment for each set; `None` if the subject ended it.
pub fn measure(
    subject: &mut dyn Subject,
    sets: &[Parts],
    options: &JudgeOptions,
) -> Result<Option<Vec<Judgment>>> {
    let begun = Instant::now();
    let mut monitor = Monitor::begin();
    let limits = Limits {
        precision: options.precision,
        margin: options.margin,
        far: options.far,
        parts_outside: OUTSIDE,
    };
    let samplers = sets.iter().map(|set| {
        let of_each = 0.05 / set.counts.len().max(1) as f64;
        let parts_outside = if set.are_judged { of_each } else { limits.parts_outside };
        Sampler::new(&set.counts, Limits { parts_outside, ..limits }, subject.resolution_ns())
    });
    let mut turns = Turns {
        samplers: samplers.collect(),
        options,
        begun,
        random: fastrand::Rng::with_seed(options.seed),
        placed_first: None,
        pair_count: 0,
        is_interrupted: false,
    };
    let part_count = sets.iter().map(|it| it.counts.len()).sum();
    // Many intervals are wider than one.
    let least = if sets.iter().any(|it| it.are_judged && !it.counts.is_empty()) { WANTED_BATCHES } else { 0 };
    let mut batch_count = 0;
    let stopped = loop {
        let mut batch = Batch { parts: (0..part_count).map(|_| PartBatch::default()).collect() };
        let has_time = match turns.batch(subject, &mut batch)? {
            ControlFlow::Continue(has_time) => has_time,
            ControlFlow::Break(Flow::End) => return Ok(None),
            // A subject may not be able to repeat what it did.
            ControlFlow::Break(_) if turns.is_interrupted => break Stopped::Interrupted,
            ControlFlow::Break(_) if turns.is_out_of_time() && turns.pair_count > 0 => {
                break Stopped::OutOfTime;
            }
            ControlFlow::Break(_) => continue,
        };
        if has_time {
            monitor.sample();
            batch_count += 1;
            let is_late = begun.elapsed() >= options.max_time / LATE;
            let mut parts = &batch.parts[..];
            let mut stopped = None;
            for (index, sampler) in turns.samplers.iter_mut().enumerate() {
                sampler.know_resolution(subject.resolution_ns());
                let (of_set, rest) = parts.split_at(sets[index].counts.len());
                parts = rest;
                if !of_set.is_empty() {
                    let of_set = sampler.add(of_set, is_late);
                    stopped = if index == 0 { of_set } else { stopped };
                }
            }
            if let Some(stopped) = stopped.filter(|_| batch_count >= least) {
                break stopped;
            }
        }
        if turns.is_interrupted {
            break Stopped::Interrupted;
        }
        if !has_time || turns.may_end() && turns.is_out_of_time() {
            break Stopped::OutOfTime;
        }
    };
    let (conditions, elapsed, clock) = (monitor.end(), begun.elapsed(), subject.clock());
    let judgments = turns.samplers.into_iter().map(|sampler| {
        let judgment = sampler.finish(clock, stopped);
        Judgment { conditions: conditions.clone(), elapsed, ..judgment }
    });
    Ok(Some(judgments.collect()))
}

struct Turns<'o> {
    samplers: Vec<Sampler>,
    options: &'o JudgeOptions,
    begun: Instant,
    random: fastrand::Rng,
    /// The side that was placed first in the last batch, if the next one has the opposite.
    placed_first: Option<Side>,
    pair_count: u64,
    is_interrupted: bool,
}

impl Turns<'_> {
    fn is_out_of_time(&self) -> bool {
        self.begun.elapsed() >= self.options.max_time
    }

    /// Whether it is known whether one side takes many times as long.
    fn may_end(&self) -> bool {
        self.samplers.first().is_none_or(Sampler::has_few)
    }

    fn side(&mut self) -> Side {
        if self.random.bool() { Side::Captured } else { Side::Replaced }
    }

    /// Times pairs of all groups. Breaks if they do not count; otherwise, whether there was time for all.
    fn batch(&mut self, subject: &mut dyn Subject, batch: &mut Batch) -> Result<ControlFlow<Flow, bool>> {
        // The side that is placed first may have the better place, so that either is in half of the batches.
        let first = match self.placed_first.take() {
            Some(side) => side.other(),
            None => {
                let side = self.side();
                self.placed_first = Some(side);
                side
            }
        };
        let group_count = subject.group_count();
        let time = self.options.max_time / WANTED_BATCHES / group_count.max(1) as u32;
        for group in 0..group_count {
            let begun = Instant::now();
            let flow = subject.place(group, first, batch)?;
            if flow != Flow::Continue {
                return Ok(ControlFlow::Break(flow));
            }
            let (main, prepared) = (subject.main_part(group), begun.elapsed());
            // As long as preparing at least, which is not for the sake of a pair.
            let longest = time.saturating_sub(prepared).max(prepared);
            let begun = Instant::now();
            let pairs = |batch: &Batch| batch.parts[main].pairs.len();
            let mut counted = 0;
            while counted < MAX_PAIRS && pairs(batch) < MAX_TRIALS {
                let elapsed = begun.elapsed();
                let of_main: &[Pair] = &batch.parts[main].pairs;
                let is_enough = || counted >= MIN_PAIRS || self.samplers[0].is_settled(main, of_main);
                if !of_main.is_empty() && (elapsed >= longest || elapsed >= prepared && is_enough()) {
                    break;
                }
                if self.is_interrupted || self.is_out_of_time() {
                    if self.may_end() {
                        return Ok(ControlFlow::Continue(false));
                    }
                    if !of_main.is_empty() {
                        break;
                    }
                }
                let order = self.side().first_of_both();
                let flow = subject.pair(order, batch)?;
                if flow != Flow::Continue {
                    return Ok(ControlFlow::Break(flow));
                }
                counted += usize::from(batch.parts[main].pairs.last().is_some_and(super::sampler::counts));
                self.beat();
            }
            let flow = subject.check()?;
            if flow != Flow::Continue {
                return Ok(ControlFlow::Break(flow));
            }
        }
        Ok(ControlFlow::Continue(true))
    }

    fn beat(&mut self) {
        self.pair_count += 1;
        let time = (self.begun.elapsed(), Some(self.options.max_time));
        let measuring = Measuring::from_limits((self.pair_count, None), time);
        self.is_interrupted |= self.options.pulse.beat(measuring).is_break();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Preemption, TimingVerdict};
    use super::*;

    /// A simulated machine: a whole and three parts of it, or three parts of a group each.
    struct Machine {
        random: fastrand::Rng,
        ratios: Vec<f64>,
        /// The effect of the placement on the times of each side of each part.
        placed: Vec<[f64; 2]>,
        has_groups: bool,
        group: usize,
        preempted: f64,
        placements: usize,
        ends_after: usize,
    }

    impl Machine {
        fn new(seed: u64, ratios: &[f64], has_groups: bool) -> Self {
            Self {
                random: fastrand::Rng::with_seed(seed),
                ratios: ratios.to_vec(),
                placed: vec![[1.0; 2]; ratios.len()],
                has_groups,
                group: 0,
                preempted: 0.0,
                placements: 0,
                ends_after: usize::MAX,
            }
        }

        fn time(&mut self, part: usize, side: Side) -> Sample {
            let factor = if side == Side::Replaced { self.ratios[part] } else { 1.0 };
            let placed = self.placed[part][usize::from(side == Side::Replaced)];
            // Load only lengthens a time.
            let noise = 1.0 + 0.02 * self.random.f64() + 0.5 * self.random.f64().powi(8);
            let ns = 1e5 * (part + 1) as f64 * factor * placed * noise;
            match self.random.f64() < self.preempted {
                true => Sample { ns: ns + 3e6 * self.random.f64(), preemption: Preemption::Included },
                false => Sample::clean(ns),
            }
        }
    }

    impl Subject for Machine {
        fn group_count(&self) -> usize {
            if self.has_groups { self.ratios.len() } else { 1 }
        }

        fn main_part(&self, group: usize) -> usize {
            group
        }

        fn place(&mut self, group: usize, _: Side, _: &mut Batch) -> Result<Flow> {
            self.group = group;
            self.placements += 1;
            let random = &mut self.random;
            self.placed.iter_mut().flatten().for_each(|it| *it = 1.0 + 0.02 * random.f64());
            Ok(if self.placements > self.ends_after { Flow::End } else { Flow::Continue })
        }

        fn pair(&mut self, order: [Side; 2], batch: &mut Batch) -> Result<Flow> {
            let parts = if self.has_groups { self.group..self.group + 1 } else { 0..self.ratios.len() };
            for part in parts {
                let mut pair = [Sample::default(); 2];
                for side in order {
                    pair[usize::from(side == Side::Replaced)] = self.time(part, side);
                }
                batch.add(part, pair);
            }
            Ok(Flow::Continue)
        }

        fn check(&mut self) -> Result<Flow> {
            Ok(Flow::Continue)
        }

        fn clock(&self) -> Clock {
            Clock::Processor
        }

        fn resolution_ns(&self) -> f64 {
            1.0
        }
    }

    fn options(seed: u64) -> JudgeOptions {
        JudgeOptions { max_time: Duration::from_secs(3600), seed, ..JudgeOptions::default() }
    }

    /// The whole, and three parts.
    fn sets() -> [Parts; 2] {
        [Parts { counts: vec![1], are_judged: false }, Parts { counts: vec![1; 3], are_judged: true }]
    }

    fn judged(seed: u64, ratios: [f64; 4]) -> [Judgment; 2] {
        let mut machine = Machine::new(seed, &ratios, false);
        let judgments = measure(&mut machine, &sets(), &options(seed)).unwrap().unwrap();
        judgments.try_into().unwrap()
    }

    #[test]
    fn the_whole_and_each_part_have_verdicts() {
        let [whole, parts] = judged(1, [1.1, 0.5, 1.0, 2.0]);
        assert_eq!((whole.verdict(), whole.stopped), (TimingVerdict::Slower, Stopped::Precise));
        assert!((whole.ratio - 1.1).abs() < 0.01, "{}", whole.ratio);
        let verdicts: Vec<_> =
            parts.parts.iter().map(|it| TimingVerdict::of(it.interval, parts.margin)).collect();
        assert_eq!(verdicts, [TimingVerdict::Faster, TimingVerdict::NotSlower, TimingVerdict::Slower]);
        assert!((parts.parts[2].captured.ns - 4e5).abs() < 2e4, "{parts:?}");
        assert_eq!((whole.clock, whole.batch_count >= 32), (Clock::Processor, true));
    }

    #[test]
    fn groups_are_placed_by_themselves_and_weigh_by_their_counts() {
        let mut machine = Machine::new(3, &[2.0, 1.0], true);
        let set = Parts { counts: vec![4, 3], are_judged: false };
        let [judgment] = &measure(&mut machine, &[set], &options(3)).unwrap().unwrap()[..] else { panic!() };
        // 4 times 1e5 and 3 times 2e5: 14e5 instead of 10e5.
        assert!((judgment.ratio - 1.4).abs() < 0.01, "{judgment:?}");
        assert_eq!(machine.placements as u64, 2 * judgment.batch_count);
        assert_eq!(judgment.parts.iter().map(|it| it.count).collect::<Vec<_>>(), [4, 3]);
    }

    #[test]
    fn equal_sides_are_rarely_different() {
        let is_different =
            |it: Option<crate::stats::Interval>| it.is_some_and(|it| it.low > 1.0 || it.high < 1.0);
        let all: Vec<_> = (0..60).map(|seed| judged(seed, [1.0; 4])).collect();
        let wholes = all.iter().filter(|[whole, _]| is_different(whole.interval)).count();
        let parts =
            all.iter().filter(|[_, all]| all.parts.iter().any(|it| is_different(it.interval))).count();
        assert!(wholes <= 3 && parts <= 6, "{wholes} {parts}");
    }

    /// A machine on which each time includes a preemption says nothing.
    #[test]
    fn no_clean_sample_no_verdict() {
        let mut machine = Machine { preempted: 1.0, ..Machine::new(1, &[3.0], true) };
        let set = Parts { counts: vec![1], are_judged: false };
        let options = JudgeOptions { max_time: Duration::from_millis(50), ..options(1) };
        let [judgment] = &measure(&mut machine, &[set], &options).unwrap().unwrap()[..] else { panic!() };
        assert_eq!(
            (judgment.interval, judgment.verdict(), judgment.batch_count, judgment.pair_count),
            (None, TimingVerdict::CannotTell, 0, 0)
        );
        assert!(judgment.preempted_count > 0 && judgment.stopped == Stopped::OutOfTime);
    }

    #[test]
    fn a_pulse_a_subject_and_an_error_end_it() {
        let pulse = Pulse::new(|it| match it.sample_count {
            300.. => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        let set = || [Parts { counts: vec![1], are_judged: false }];
        let options = JudgeOptions { pulse, precision: 1e-9, ..options(1) };
        let judgments = measure(&mut Machine::new(1, &[1.0], true), &set(), &options).unwrap().unwrap();
        assert_eq!(judgments[0].stopped, Stopped::Interrupted);
        assert!((20..=300).contains(&judgments[0].pair_count), "{judgments:?}");
        let mut machine = Machine { ends_after: 3, ..Machine::new(1, &[1.0], true) };
        assert!(measure(&mut machine, &set(), &options).unwrap().is_none());
    }
}
