//! The statistics of pairs of times: when to stop, and what they say.

use std::time::Duration;

use rehal_bench::Conditions;
use rehal_bench::stats::{self, Interval, MIN_INTERVAL_SAMPLES};

use super::{CacheState, ComparedShape};

/// The times of the captured kernel and of the replacement, one directly after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub captured_ns: f64,
    pub replaced_ns: f64,
}

/// Whether a replacement is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingVerdict {
    /// The whole interval of the ratio is below 1.
    Faster,
    /// It is above 1.
    Slower,
    /// It contains 1, or there are too few batches for an interval, or the medians say the opposite.
    NoDifference,
}

/// What ended the sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The interval is narrow enough.
    Precise,
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
    /// Its interval, at 95 % or more; `None` with too few batches.
    pub interval: Option<Interval>,
    /// The same from the medians of pairs, which include what disturbs most dispatches.
    pub median_ratio: f64,
    /// Its interval.
    pub median_interval: Option<Interval>,
    /// By shape, as they were given.
    pub shapes: Vec<ShapeTiming>,
    /// Number of pairs, of all shapes.
    pub pair_count: u64,
    /// Number of batches. Each has buffers and executables of its own.
    pub batch_count: u64,
    /// Whether times are those that the devices report, without the time of submission.
    pub is_device_time: bool,
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
    /// Time of a dispatch of the captured kernel in nanoseconds: the median over batches of the shortest.
    pub captured_ns: f64,
    /// Time of a dispatch of the replacement in nanoseconds, likewise.
    pub replaced_ns: f64,
    /// The mean over batches of the ratio of the shortest times.
    pub ratio: f64,
    /// Its interval, at 95 % or more.
    pub interval: Option<Interval>,
}

impl Timing {
    /// Whether the replacement is faster.
    pub fn verdict(&self) -> TimingVerdict {
        let verdict = verdict_of(self.interval);
        if self.is_contradicted() { TimingVerdict::NoDifference } else { verdict }
    }

    /// Whether one kernel has the shorter shortest times and the other the shorter medians.
    pub fn is_contradicted(&self) -> bool {
        use TimingVerdict::{Faster, Slower};
        let both = (verdict_of(self.interval), verdict_of(self.median_interval));
        matches!(both, (Faster, Slower) | (Slower, Faster))
    }
}

fn verdict_of(interval: Option<Interval>) -> TimingVerdict {
    match interval {
        Some(Interval { high, .. }) if high < 1.0 => TimingVerdict::Faster,
        Some(Interval { low, .. }) if low > 1.0 => TimingVerdict::Slower,
        _ => TimingVerdict::NoDifference,
    }
}

/// Collects pairs in batches.
///
/// The pairs of a batch share buffers and executables, and so their placement in memory, which can make one side faster.
/// Therefore batches are the samples: the interval is that of the mean of their ratios (as logarithms, so that a ratio and its inverse
/// weigh the same).
///
/// The ratio of a batch is that of the shortest times of both sides. What else the machine does only lengthens a dispatch, on some
/// machines most of them, and by more than kernels differ: there the medians need a hundred times as many pairs.
pub(super) struct Sampler<'s> {
    shapes: &'s [ComparedShape],
    precision: f64,
    /// The logarithm of the ratio of all dispatches, by batch.
    batches: Vec<f64>,
    /// The same from the medians of pairs.
    medians: Vec<f64>,
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
}

impl<'s> Sampler<'s> {
    pub(super) fn new(shapes: &'s [ComparedShape], precision: f64) -> Self {
        let samples = shapes.iter().map(|_| Samples::default()).collect();
        Self {
            shapes,
            precision,
            batches: Vec::new(),
            medians: Vec::new(),
            samples,
            interval: None,
            next_look: MIN_INTERVAL_SAMPLES,
        }
    }

    pub(super) fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Adds a batch: the pairs of each shape, at least one. Returns whether the interval is narrow enough.
    pub(super) fn add(&mut self, batch: &[Vec<Pair>]) -> bool {
        let (mut captured_total, mut replaced_total, mut median_total) = (0.0, 0.0, 0.0);
        for ((pairs, samples), shape) in batch.iter().zip(&mut self.samples).zip(self.shapes) {
            let shortest = |of: fn(&Pair) -> f64| pairs.iter().map(of).fold(f64::INFINITY, f64::min);
            let (captured_ns, replaced_ns) =
                (shortest(|pair| pair.captured_ns), shortest(|pair| pair.replaced_ns));
            let ratios: Vec<f64> = pairs.iter().map(|pair| pair.replaced_ns / pair.captured_ns).collect();
            samples.ratios.push((replaced_ns / captured_ns).ln());
            samples.captured_ns.push(captured_ns);
            samples.replaced_ns.push(replaced_ns);
            samples.pair_count += pairs.len() as u64;
            captured_total += captured_ns * shape.count as f64;
            replaced_total += replaced_ns * shape.count as f64;
            median_total += captured_ns * stats::median(&ratios) * shape.count as f64;
        }
        self.batches.push((replaced_total / captured_total).ln());
        self.medians.push((median_total / captured_total).ln());
        if self.batches.len() >= self.next_look {
            self.next_look = self.batches.len() + (self.batches.len() / 8).max(1);
            self.look();
            return self.interval.is_some_and(|it| (it.high - it.low) / (it.high + it.low) <= self.precision);
        }
        false
    }

    fn look(&mut self) {
        self.interval = interval_of(&self.batches);
    }

    /// What the batches say, of which there is at least one.
    pub(super) fn finish(mut self, cache: CacheState, stopped: Stopped) -> Timing {
        self.look();
        let of_shape = |(samples, shape): (&Samples, &ComparedShape)| ShapeTiming {
            shape: shape.clone(),
            captured_ns: stats::median(&samples.captured_ns),
            replaced_ns: stats::median(&samples.replaced_ns),
            ratio: ratio_of(&samples.ratios),
            interval: interval_of(&samples.ratios),
        };
        Timing {
            cache,
            ratio: ratio_of(&self.batches),
            interval: self.interval,
            median_ratio: ratio_of(&self.medians),
            median_interval: interval_of(&self.medians),
            shapes: self.samples.iter().zip(self.shapes).map(of_shape).collect(),
            pair_count: self.samples.iter().map(|it| it.pair_count).sum(),
            batch_count: self.batches.len() as u64,
            is_device_time: false,
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

/// The interval of a ratio, from the logarithms of batches.
fn interval_of(logarithms: &[f64]) -> Option<Interval> {
    if logarithms.len() < MIN_INTERVAL_SAMPLES {
        return None;
    }
    let Interval { low, high } = stats::bootstrap_mean(&clipped(logarithms));
    Some(Interval { low: low.exp(), high: high.exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated machine.
    struct Machine {
        random: fastrand::Rng,
        /// The spread of times by the placement of code and buffers, of each side.
        placement: f64,
        /// The spread of the times of repetitions.
        noise: f64,
        /// The fraction of repetitions that something interrupts.
        interrupted: f64,
        /// By how much it becomes slower from each batch to the next.
        drift: f64,
    }

    const QUIET: [f64; 4] = [0.002, 0.005, 0.01, 0.0];
    const PLACED: [f64; 4] = [0.02, 0.005, 0.01, 0.0];
    const NOISY: [f64; 4] = [0.01, 0.05, 0.2, 0.0];
    const DRIFTING: [f64; 4] = [0.005, 0.01, 0.05, 0.01];

    impl Machine {
        fn new(seed: u64, [placement, noise, interrupted, drift]: [f64; 4]) -> Self {
            Self { random: fastrand::Rng::with_seed(seed), placement, noise, interrupted, drift }
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
        }

        fn time(&mut self, mean_ns: f64) -> f64 {
            let interruption = match self.random.f64() < self.interrupted {
                true => 0.5 * -(1.0 - self.random.f64()).ln(),
                false => 0.0,
            };
            // As clocks do, it counts nanoseconds.
            (mean_ns * ((self.noise * self.normal()).exp() + interruption)).round()
        }

        /// Samples a replacement that takes `factor` times as long, for at most 200 batches.
        fn compare(&mut self, factor: f64) -> Timing {
            let shapes = [shape(1), shape(10)];
            let mut sampler = Sampler::new(&shapes, 0.01);
            let mut stopped = Stopped::OutOfTime;
            while sampler.batch_count() < 200 {
                let slower = (1.0 + self.drift).powi(sampler.batch_count() as i32);
                let batch = [50_000.0, 8_000.0].map(|mean_ns| {
                    let placed = [self.normal(), self.normal()].map(|it| (self.placement * it).exp());
                    let pair = |_| Pair {
                        captured_ns: self.time(mean_ns * slower * placed[0]),
                        replaced_ns: self.time(mean_ns * slower * placed[1] * factor),
                    };
                    (0..10).map(pair).collect::<Vec<_>>()
                });
                if sampler.add(&batch) {
                    stopped = Stopped::Precise;
                    break;
                }
            }
            sampler.finish(CacheState::Warm, stopped)
        }
    }

    fn shape(count: u64) -> ComparedShape {
        ComparedShape { count, ..ComparedShape::default() }
    }

    #[test]
    fn a_kernel_is_rarely_different_from_itself() {
        for (number, noise) in [QUIET, PLACED, NOISY, DRIFTING].into_iter().enumerate() {
            let is_different = |run: &u64| {
                let timing = Machine::new(1000 * number as u64 + run, noise).compare(1.0);
                timing.verdict() != TimingVerdict::NoDifference
            };
            let count = (0..200).filter(is_different).count();
            assert!(count <= 10, "{noise:?}: {count} of 200");
        }
    }

    #[test]
    fn a_slowdown_of_two_percent_is_found() {
        for noise in [QUIET, PLACED, DRIFTING] {
            let verdicts = |factor: f64, expected: TimingVerdict| {
                (0..50).filter(|run| Machine::new(*run, noise).compare(factor).verdict() == expected).count()
            };
            let slower = verdicts(1.02, TimingVerdict::Slower);
            let faster = verdicts(1.0 / 1.02, TimingVerdict::Faster);
            assert!(slower >= 48 && faster >= 48, "{noise:?}: {slower} and {faster} of 50");
        }
    }

    #[test]
    fn the_interval_contains_the_ratio() {
        let contains = |run: &u64| {
            let Interval { low, high } = Machine::new(*run, PLACED).compare(1.3).interval.unwrap();
            low <= 1.3 && 1.3 <= high
        };
        let count = (0..200).filter(contains).count();
        assert!((190..=200).contains(&count), "{count} of 200");
    }

    #[test]
    fn sampling_stops_once_the_interval_is_narrow() {
        let quiet = Machine::new(1, QUIET).compare(1.0);
        assert_eq!((quiet.stopped, quiet.batch_count, quiet.pair_count), (Stopped::Precise, 8, 8 * 10 * 2));
        let placed = Machine::new(1, PLACED).compare(1.0);
        assert!(placed.stopped == Stopped::Precise && placed.batch_count > 8, "{placed:?}");
        let Interval { low, high } = placed.interval.unwrap();
        assert!(high - low <= 0.02 * 1.01, "{placed:?}");
        let very_noisy = Machine::new(1, [0.3, 0.0, 0.0, 0.0]).compare(1.0);
        assert_eq!((very_noisy.stopped, very_noisy.batch_count), (Stopped::OutOfTime, 200));
    }

    #[test]
    fn shapes_weigh_by_their_time() {
        let shapes = [shape(1), shape(3)];
        let mut sampler = Sampler::new(&shapes, 0.01);
        let pair = |captured_ns: f64, replaced_ns: f64| vec![Pair { captured_ns, replaced_ns }];
        for _ in 0..8 {
            sampler.add(&[pair(100.0, 200.0), pair(100.0, 100.0)]);
        }
        let timing = sampler.finish(CacheState::Cold, Stopped::Precise);
        // 500 instead of 400.
        assert!((timing.ratio - 1.25).abs() < 1e-9, "{timing:?}");
        assert_eq!(timing.verdict(), TimingVerdict::Slower);
        let ratios: Vec<f64> = timing.shapes.iter().map(|it| it.ratio).collect();
        assert!((ratios[0] - 2.0).abs() < 1e-9 && (ratios[1] - 1.0).abs() < 1e-9, "{ratios:?}");
        assert_eq!((timing.shapes[0].captured_ns, timing.shapes[0].replaced_ns), (100.0, 200.0));
    }

    /// Something that takes as long as the kernel interrupts a third of the batches of one side or the other.
    #[test]
    fn a_few_interrupted_batches_do_not_decide() {
        let mut machine = Machine::new(5, QUIET);
        let shapes = [shape(1)];
        let mut sampler = Sampler::new(&shapes, 0.01);
        for batch in 0..60 {
            let mut times = [10_000.0, 10_200.0].map(|mean_ns| machine.time(mean_ns));
            match batch % 6 {
                2 => times[0] *= 1.9,
                5 => times[1] *= 2.1,
                _ => {}
            }
            sampler.add(&[vec![Pair { captured_ns: times[0], replaced_ns: times[1] }]]);
        }
        let timing = sampler.finish(CacheState::Warm, Stopped::OutOfTime);
        let Interval { low, high } = timing.interval.unwrap();
        assert!(low > 1.005 && high < 1.035, "{timing:?}");
    }

    /// Something disturbs most dispatches, of both kernels, by more than these differ.
    #[test]
    fn the_shortest_times_decide_on_a_machine_that_is_shared() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut disturbed = |mean_ns: f64| match random.f64() {
            0.0..0.3 => mean_ns * (1.0 + 0.002 * random.f64()),
            _ => mean_ns * (1.5 + random.f64()),
        };
        let shapes = [shape(1)];
        let mut sampler = Sampler::new(&shapes, 0.01);
        let mut is_precise = false;
        while !is_precise && sampler.batch_count() < 200 {
            let pair = |_| Pair { captured_ns: disturbed(1_000_000.0), replaced_ns: disturbed(1_020_000.0) };
            is_precise = sampler.add(&[(0..10).map(pair).collect::<Vec<_>>()]);
        }
        let timing = sampler.finish(CacheState::Warm, Stopped::Precise);
        assert!(is_precise && timing.batch_count < 40, "{timing:?}");
        assert_eq!(timing.verdict(), TimingVerdict::Slower, "{timing:?}");
        let Interval { low, high } = timing.median_interval.unwrap();
        assert!(low < 1.0 && 1.02 < high, "the medians cannot tell: {timing:?}");
    }

    /// The replacement is faster at best and slower in most pairs.
    #[test]
    fn medians_that_say_the_opposite_make_no_verdict() {
        let shapes = [shape(1)];
        let mut sampler = Sampler::new(&shapes, 0.01);
        let pair = |replaced_ns| Pair { captured_ns: 1000.0, replaced_ns };
        for _ in 0..8 {
            sampler.add(&[vec![pair(900.0), pair(1200.0), pair(1200.0)]]);
        }
        let mut timing = sampler.finish(CacheState::Warm, Stopped::Precise);
        assert!((timing.ratio - 0.9).abs() < 1e-9 && (timing.median_ratio - 1.2).abs() < 1e-9, "{timing:?}");
        assert!(timing.is_contradicted());
        assert_eq!(timing.verdict(), TimingVerdict::NoDifference);
        timing.median_interval = Some(Interval { low: 0.99, high: 1.2 });
        assert_eq!(timing.verdict(), TimingVerdict::Faster);
    }

    /// The clock has few ticks while a kernel runs, so that most batches have the same ratio.
    #[test]
    fn batches_that_are_mostly_the_same_still_have_an_interval() {
        let shapes = [shape(1)];
        let mut sampler = Sampler::new(&shapes, 0.01);
        for batch in 0..8 {
            let replaced_ns = if batch < 5 { 41.0 } else { 39.0 };
            sampler.add(&[vec![Pair { captured_ns: 40.0, replaced_ns }]]);
        }
        let timing = sampler.finish(CacheState::Warm, Stopped::OutOfTime);
        let Interval { low, high } = timing.interval.unwrap();
        assert!(low < 1.0 && 1.0 < high, "{timing:?}");
        assert_eq!(timing.verdict(), TimingVerdict::NoDifference);
    }

    #[test]
    fn few_batches_tell_nothing() {
        let shapes = [shape(1)];
        let mut sampler = Sampler::new(&shapes, 0.01);
        for _ in 0..7 {
            assert!(!sampler.add(&[vec![Pair { captured_ns: 1.0, replaced_ns: 2.0 }]]));
        }
        let timing = sampler.finish(CacheState::Warm, Stopped::OutOfTime);
        assert_eq!((timing.interval, timing.verdict()), (None, TimingVerdict::NoDifference));
    }
}
