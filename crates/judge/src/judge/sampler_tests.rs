//! Simulated machines.

use super::*;

/// How a simulated machine disturbs measurements.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// The spread of times by the placement of code and buffers, of each side.
    placement: f64,
    /// How much the placement of a batch resembles that of the batch before: memory is used again.
    same_placement: f64,
    /// The spread of the times of repetitions.
    repetition: f64,
    /// The fraction of repetitions that something interrupts.
    interrupted: f64,
    /// By how much it becomes slower from each batch to the next.
    drift: f64,
    /// The spread of a speed that changes slowly: half of what it is comes from 14 dispatches before.
    wander: f64,
    /// The fraction of dispatches at which a burst of other work begins, which lasts for 30 of them and makes
    /// each up to three times as long.
    bursts: f64,
    /// The fraction of dispatches at which the clock frequency steps to another one, of up to a third less.
    steps: f64,
    /// The fraction of dispatches in which another process preempts a thread.
    preempted: f64,
}

const SILENT: Noise = Noise {
    placement: 0.0,
    same_placement: 0.0,
    repetition: 0.0,
    interrupted: 0.0,
    drift: 0.0,
    wander: 0.0,
    bursts: 0.0,
    steps: 0.0,
    preempted: 0.0,
};
const QUIET: Noise = Noise { placement: 0.002, repetition: 0.005, interrupted: 0.01, ..SILENT };
const PLACED: Noise = Noise { placement: 0.02, ..QUIET };
const DRIFTING: Noise =
    Noise { placement: 0.005, repetition: 0.01, interrupted: 0.05, drift: 0.01, ..SILENT };
const NOISY: Noise = Noise { placement: 0.01, repetition: 0.05, interrupted: 0.2, ..SILENT };
const BURSTS: Noise = Noise { placement: 0.005, bursts: 0.01, ..QUIET };
const WANDERING: Noise = Noise { placement: 0.005, wander: 0.1, ..QUIET };
const STEPPING: Noise = Noise { placement: 0.005, steps: 0.005, ..QUIET };
const REUSED: Noise = Noise { placement: 0.008, same_placement: 0.5, ..QUIET };
const LOADED: Noise = Noise { wander: 0.05, bursts: 0.02, steps: 0.002, interrupted: 0.1, ..REUSED };
/// Beside processes that use all CPUs.
const BUSY: Noise = Noise { preempted: 0.2, ..LOADED };
const ALL: [Noise; 10] = [QUIET, PLACED, DRIFTING, NOISY, BURSTS, WANDERING, STEPPING, REUSED, LOADED, BUSY];

/// A simulated machine.
struct Machine {
    random: fastrand::Rng,
    noise: Noise,
    wandered: f64,
    /// Dispatches until a burst ends.
    burst: u32,
    frequency: f64,
    /// Steps of the clock.
    resolution_ns: f64,
    margin: f64,
}

impl Machine {
    fn new(seed: u64, noise: Noise) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { random, noise, wandered: 0.0, burst: 0, frequency: 1.0, resolution_ns: 1.0, margin: 0.05 }
    }

    fn with_clock(resolution_ns: f64, seed: u64, noise: Noise) -> Self {
        Self { resolution_ns, ..Self::new(seed, noise) }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    fn time(&mut self, mean_ns: f64) -> f64 {
        let Noise { repetition, interrupted, wander, bursts, steps, .. } = self.noise;
        self.wandered = 0.95 * self.wandered + wander * 0.3 * self.normal();
        let mut disturbed = 0.0;
        if self.random.f64() < interrupted {
            disturbed += 0.5 * -(1.0 - self.random.f64()).ln();
        }
        if self.random.f64() < bursts {
            self.burst = 30;
        }
        if self.burst != 0 {
            self.burst -= 1;
            disturbed += 2.0 * self.random.f64();
        }
        if self.random.f64() < steps {
            self.frequency = 1.0 - self.random.f64() / 3.0;
        }
        let speed = self.frequency * self.wandered.exp();
        // The clock advances while it runs, and the kernel begins anywhere between two steps.
        let time_ns = mean_ns * ((repetition * self.normal()).exp() + disturbed) / speed;
        (time_ns / self.resolution_ns + self.random.f64()).floor() * self.resolution_ns
    }

    /// Samples a replacement that takes `factor` times as long, for at most that many batches of that many
    /// pairs.
    fn compare_batches(&mut self, factor: f64, pairs: usize, batches: usize) -> Judgment {
        self.compare_times([50_000.0, 8_000.0], factor, pairs, batches)
    }

    /// The same with two shapes that take this long.
    fn compare_times(&mut self, times: [f64; 2], factor: f64, pairs: usize, batches: usize) -> Judgment {
        let Noise { placement, same_placement, drift, .. } = self.noise;
        let resolution_ns = self.resolution_ns;
        let mut sampler = Sampler::new(&[1, 10], limits(self.margin), self.resolution_ns);
        let mut stopped = None;
        let fresh = (1.0 - same_placement * same_placement).sqrt();
        let mut placed = [0.0; 4].map(|_: f64| placement * self.normal());
        while sampler.batch_count() < batches && stopped.is_none() {
            let slower = (1.0 + drift).powi(sampler.batch_count() as i32);
            placed = placed.map(|it| same_placement * it + fresh * placement * self.normal());
            let batch = [(times[0], 0), (times[1], 2)].map(|(mean_ns, side)| {
                let mut next = || {
                    let first = self.random.bool();
                    let (mut times, mut is_preempted) = ([0.0; 2], false);
                    for which in [usize::from(first), usize::from(!first)] {
                        let factor = if which == 1 { factor } else { 1.0 };
                        let time_ns = mean_ns * slower * placed[side + which].exp() * factor;
                        times[which] = self.time(time_ns);
                        // As long as the time slice of another process.
                        if self.random.f64() < self.noise.preempted {
                            times[which] += 3e6;
                            is_preempted = true;
                        }
                    }
                    pair(times, is_preempted)
                };
                let mut batch = PartBatch::default();
                while batch.pairs.len() < pairs && !is_settled(&batch.pairs, resolution_ns, 0.01) {
                    batch.pairs.push(next());
                }
                batch
            });
            stopped = sampler.add(&batch, false);
        }
        sampler.finish(Clock::Processor, stopped.unwrap_or(Stopped::OutOfTime))
    }

    fn compare(&mut self, factor: f64) -> Judgment {
        self.compare_batches(factor, 10, 200)
    }
}

fn limits(margin: f64) -> Limits {
    Limits { precision: 0.01, margin, far: FAR, parts_outside: OUTSIDE }
}

/// Of one part, by a clock without steps.
fn one_part() -> Sampler {
    Sampler::new(&[1], limits(0.05), 0.0)
}

fn pair(times: [f64; 2], is_preempted: bool) -> Pair {
    let preemption = if is_preempted { Preemption::Included } else { Preemption::None };
    times.map(|ns| Sample { ns, preemption })
}

/// A batch of a part with these times.
fn batch(times: &[(f64, f64)]) -> PartBatch {
    let pairs = times.iter().map(|(captured_ns, replaced_ns)| pair([*captured_ns, *replaced_ns], false));
    PartBatch { pairs: pairs.collect(), others: Vec::new() }
}

fn is_proved(verdict: TimingVerdict) -> bool {
    matches!(verdict, TimingVerdict::Faster | TimingVerdict::Slower)
}

#[test]
fn a_slowdown_beyond_the_margin_is_found_under_load() {
    for noise in ALL {
        let verdicts = |factor: f64, expected: &[TimingVerdict]| {
            (0..50)
                .filter(|run| {
                    expected.contains(&Machine::new(*run, noise).compare_batches(factor, 20, 100).verdict())
                })
                .count()
        };
        let slower = verdicts(1.08, &[TimingVerdict::Slower]);
        let faster = verdicts(1.0 / 1.08, &[TimingVerdict::Faster]);
        let not_slower = verdicts(1.0, &[TimingVerdict::NotSlower, TimingVerdict::Faster]);
        assert!(slower >= 45 && faster >= 45, "{noise:?}: {slower} and {faster} of 50");
        assert!(not_slower >= 45, "{noise:?}: {not_slower} of 50");
    }
}

#[test]
fn a_slowdown_of_two_percent_is_found_without_load() {
    for (noise, resolution_ns) in [(QUIET, 1.0), (QUIET, 10.0), (BURSTS, 1.0), (STEPPING, 1.0)] {
        let is_found = |run: &u64| {
            let timing = Machine::with_clock(resolution_ns, *run, noise).compare(1.02);
            timing.interval.is_some_and(|it| it.low > 1.0)
        };
        let count = (0..50).filter(is_found).count();
        assert!(count >= 48, "{noise:?}: {count} of 50");
    }
}

/// The margin says what a difference means.
#[test]
fn verdicts_follow_from_the_interval() {
    use TimingVerdict::{CannotTell, Faster, NotSlower, Slower};
    for (low, high, expected) in [
        (0.90, 0.99, Faster),
        (0.97, 1.02, NotSlower),
        (1.01, 1.04, NotSlower),
        (1.01, 1.06, Slower),
        (1.06, 1.07, Slower),
        (0.99, 1.06, CannotTell),
        (0.56, 1.63, CannotTell),
    ] {
        assert_eq!(TimingVerdict::of(Some(Interval { low, high }), 0.05), expected, "{low} {high}");
    }
    assert_eq!(TimingVerdict::of(None, 0.05), CannotTell);
    assert_eq!(TimingVerdict::of(Some(Interval { low: 1.01, high: 1.04 }), 0.0), Slower);
}

/// A time that includes a preemption never counts; one that excludes it counts in a batch without others.
#[test]
fn preempted_pairs_count_by_what_is_known_of_them() {
    use Preemption::{Excluded, Included};
    for (preemption, has_clean, ratio, counts) in [
        (Included, true, 1.2, (8, 8, 8)),
        (Included, false, f64::NAN, (0, 8, 0)),
        (Excluded, true, 1.2, (16, 0, 8)),
        (Excluded, false, 0.5, (8, 0, 8)),
    ] {
        let mut sampler = one_part();
        for _ in 0..8 {
            let mut pairs = batch(&[(100.0, 120.0), (100.0, 50.0)]);
            pairs.pairs[1].iter_mut().for_each(|it| it.preemption = preemption);
            pairs.pairs.drain(..usize::from(!has_clean));
            sampler.add(&[pairs], false);
        }
        let judgment = sampler.finish(Clock::Processor, Stopped::OutOfTime);
        assert!(
            (judgment.ratio - ratio).abs() < 1e-9 || ratio.is_nan() && judgment.ratio.is_nan(),
            "{judgment:?}"
        );
        assert_eq!((judgment.pair_count, judgment.preempted_count, judgment.batch_count), counts);
        assert_eq!(judgment.interval.is_some(), counts.2 != 0);
    }
}

/// A kernel that takes 1.5 times as long in half of its calls: the shortest times do not tell.
#[test]
fn the_means_of_two_modes_decide() {
    for noise in [QUIET, PLACED, DRIFTING, REUSED] {
        let is_found = |run: &u64| {
            let mut machine = Machine::new(*run, noise);
            let mut sampler = Sampler::new(&[1], limits(0.05), 1.0);
            let mut stopped = None;
            for _ in 0..400 {
                let mut pairs = Vec::new();
                while pairs.len() < 20 && !sampler.is_settled(0, &pairs) {
                    let mode = if machine.random.bool() { 1.5 } else { 1.0 };
                    pairs.push(pair([machine.time(20_000.0), machine.time(20_000.0 * mode)], false));
                }
                stopped = sampler.add(&[PartBatch { pairs, others: Vec::new() }], false);
                if stopped.is_some() {
                    break;
                }
            }
            let judgment = sampler.finish(Clock::Processor, stopped.unwrap_or(Stopped::OutOfTime));
            let Some(Interval { low, high }) = judgment.interval else { return false };
            let part = &judgment.parts[0];
            part.replaced.modes.is_some_and(|it| (it.slow_share - 0.5).abs() < 0.15)
                && part.captured.modes.is_none()
                && low <= 1.25
                && 1.25 <= high
                && judgment.verdict() == TimingVerdict::Slower
        };
        let count = (0..40).filter(is_found).count();
        assert!(count >= 36, "{noise:?}: {count} of 40");
    }
}

/// As long as there are few batches, nothing is recognized but a kernel that takes many times as long.
#[test]
fn few_pairs_tell_little() {
    for (times, expected) in [
        (&[(1.0, 2.0), (1.0, 2.0)][..], TimingVerdict::CannotTell),
        (&[(1.0, 1.1), (1.0, 1.2), (1.0, 1.15)], TimingVerdict::CannotTell),
        (&[(1.0, 30.0), (1.0, 31.0), (1.0, 30.5)], TimingVerdict::Slower),
        (&[(30.0, 1.0), (31.0, 1.0), (30.5, 1.0)], TimingVerdict::Faster),
        // Something else interrupted them.
        (&[(1.0, 30.0), (1.0, 1.1), (1.0, 30.5)], TimingVerdict::CannotTell),
    ] {
        let mut sampler = one_part();
        for times in times {
            assert_eq!(sampler.add(&[batch(&[*times])], false), None);
        }
        let timing = sampler.finish(Clock::Processor, Stopped::OutOfTime);
        assert_eq!(timing.verdict(), expected, "{timing:?}");
    }
}

/// Both states of the caches count, as a comparison has one outcome.
#[test]
fn a_kernel_is_rarely_different_from_itself() {
    // Batches of long kernels have one pair, and there are few.
    let long = [QUIET, LOADED].map(|noise| (noise, 1, 30));
    let cases = ALL.map(|noise| (noise, 10, 80));
    for (number, (noise, pairs, batches)) in (0..).zip(cases.into_iter().chain(long)) {
        for margin in [0.05, 0.0] {
            let is_different = |run: &u64| {
                let mut machine = Machine { margin, ..Machine::new(1000 * number + run, noise) };
                let mut verdict = || machine.compare_batches(1.0, pairs, batches).verdict();
                (0..2).any(|_| is_proved(verdict()))
            };
            let count = (0..200).filter(is_different).count();
            assert!(count <= 10, "{noise:?} with {pairs} pairs, margin {margin}: {count} of 200");
        }
    }
}

#[test]
fn the_interval_contains_the_ratio() {
    // If batches resemble their neighbours, they say less of how much they do than of the ratio.
    for (noise, at_least) in [(PLACED, 190), (DRIFTING, 190), (BURSTS, 190), (STEPPING, 190), (REUSED, 180)] {
        let contains = |run: &u64| {
            let mut machine = Machine::new(*run, noise);
            (0..2).all(|_| {
                let Interval { low, high } = machine.compare(1.3).interval.unwrap();
                low <= 1.3 && 1.3 <= high
            })
        };
        let count = (0..200).filter(contains).count();
        assert!((at_least..=200).contains(&count), "{noise:?}: {count} of 200");
    }
}

/// Kernels of 30 to 300 ns, by a clock that advances in steps of 1 or 10 ns.
const SHORT: [f64; 5] = [30.0, 33.0, 47.3, 120.0, 300.0];

#[test]
fn a_short_kernel_is_rarely_different_from_itself_by_a_coarse_clock() {
    for resolution_ns in [1.0, 10.0] {
        for (number, noise) in (0..).zip([SILENT, QUIET, PLACED, NOISY, LOADED]) {
            let is_different = |run: &usize| {
                let seed = 1000 * number + *run as u64;
                let mut machine = Machine::with_clock(resolution_ns, seed, noise);
                let time_ns = SHORT[run % SHORT.len()];
                let mut verdict = || machine.compare_times([time_ns; 2], 1.0, 100, 60).verdict();
                (0..2).any(|_| is_proved(verdict()))
            };
            let count = (0..60).filter(is_different).count();
            assert!(count <= 3, "{noise:?} in steps of {resolution_ns} ns: {count} of 60");
        }
    }
}

/// So do those of repeated comparisons: they are not disjoint.
#[test]
fn the_interval_contains_the_ratio_by_a_coarse_clock() {
    for resolution_ns in [1.0, 10.0] {
        for (noise, at_least) in [(SILENT, 96), (QUIET, 96), (PLACED, 94), (NOISY, 94)] {
            let contains = |run: &usize| {
                let mut machine = Machine::with_clock(resolution_ns, *run as u64, noise);
                let factor = [1.02, 1.22, 1.0 / 1.3, 1.7][run % 4];
                let timing = machine.compare_times([SHORT[run % SHORT.len()]; 2], factor, 100, 60);
                let Interval { low, high } = timing.interval.unwrap();
                assert!(low < high, "{timing:?}");
                low <= factor && factor <= high
            };
            let count = (0..100).filter(contains).count();
            assert!(count >= at_least, "{noise:?} in steps of {resolution_ns} ns: {count} of 100");
        }
    }
}

#[test]
fn sampling_stops_once_the_interval_is_narrow() {
    let quiet = Machine::new(1, QUIET).compare(1.0);
    assert_eq!((quiet.stopped, quiet.batch_count), (Stopped::Precise, 8));
    assert!((8 * 5 * 2..8 * 10 * 2).contains(&quiet.pair_count), "{quiet:?}");
    let placed = Machine::new(1, PLACED).compare(1.0);
    assert!(placed.stopped == Stopped::Precise && placed.batch_count > 16, "{placed:?}");
    let Interval { low, high } = placed.interval.unwrap();
    assert!(high - low <= 0.02 * 1.01, "{placed:?}");
    let very_noisy = Machine::new(1, Noise { placement: 0.3, ..SILENT }).compare(1.0);
    assert_eq!((very_noisy.stopped, very_noisy.batch_count), (Stopped::OutOfTime, 200));
}

/// A pair in which a thread was preempted says nothing, and a coarse clock makes all times agree.
#[test]
fn a_batch_ends_once_the_shortest_times_agree() {
    let times = [(100.2, 70.0), (100.0, 50.0), (130.0, 50.1), (110.0, 60.0), (120.0, 80.0)];
    let mut pairs = batch(&times).pairs;
    assert!(is_settled(&pairs, 0.0, 0.01));
    assert!(!is_settled(&pairs[..4], 0.0, 0.01), "they are too few");
    assert!(!is_settled(&pairs, 1.0, 0.01));
    assert!(!is_settled(&pairs, 0.0, 0.001));
    pairs.extend(batch(&[(99.0, 50.0)]).pairs);
    assert!(!is_settled(&pairs, 0.0, 0.01));
    pairs.extend(batch(&[(99.0, 90.0)]).pairs);
    assert!(is_settled(&pairs, 0.0, 0.01));
    pairs[1] = pair([100.0, 50.0], true);
    assert!(is_settled(&pairs, 0.0, 0.01));
    pairs[6] = pair([99.0, 90.0], true);
    assert!(!is_settled(&pairs, 0.0, 0.01));
}

/// As many batches as it takes to know half of it.
#[test]
fn a_large_difference_takes_few_batches() {
    let counts = |noise: Noise, factor: f64| {
        let mut counts: Vec<u64> = (0..50)
            .map(|run| Machine::new(run, noise).compare_batches(factor, 20, 1000))
            .inspect(|it| assert_eq!(it.stopped, Stopped::Precise))
            .map(|it| it.batch_count)
            .collect();
        counts.sort_unstable();
        counts[25]
    };
    for (noise, factor, at_most) in [(QUIET, 1.08, 8), (NOISY, 1.5, 8), (BUSY, 1.08, 36), (BUSY, 1.3, 16)] {
        let count = counts(noise, factor);
        assert!(count <= at_most, "{noise:?} {factor}: {count}");
    }
}

#[test]
fn parts_weigh_by_their_time() {
    let mut sampler = Sampler::new(&[1, 3], limits(0.05), 0.0);
    for _ in 0..8 {
        sampler.add(&[batch(&[(100.0, 200.0)]), batch(&[(100.0, 100.0)])], false);
    }
    let judgment = sampler.finish(Clock::Device, Stopped::Precise);
    // 500 instead of 400.
    assert!((judgment.ratio - 1.25).abs() < 1e-9, "{judgment:?}");
    assert_eq!((judgment.verdict(), judgment.clock), (TimingVerdict::Slower, Clock::Device));
    let ratios: Vec<f64> = judgment.parts.iter().map(|it| it.ratio).collect();
    assert!((ratios[0] - 2.0).abs() < 1e-9 && (ratios[1] - 1.0).abs() < 1e-9, "{ratios:?}");
    let [captured, replaced] = [judgment.parts[0].captured, judgment.parts[0].replaced];
    assert_eq!((captured.ns, replaced.ns), (100.0, 200.0));
    assert_eq!([replaced.median_ns, replaced.mean_ns, replaced.upper_quartile_ns], [200.0; 3]);
}

/// Something that takes as long as the kernel interrupts a third of the batches of one side or the other.
#[test]
fn a_few_interrupted_batches_do_not_decide() {
    let mut machine = Machine::new(5, QUIET);
    let mut sampler = one_part();
    for number in 0..60 {
        let mut times = [10_000.0, 10_200.0].map(|mean_ns| machine.time(mean_ns));
        match number % 6 {
            2 => times[0] *= 1.9,
            5 => times[1] *= 2.1,
            _ => {}
        }
        sampler.add(&[batch(&[times.into()])], false);
    }
    let timing = sampler.finish(Clock::Processor, Stopped::OutOfTime);
    let Interval { low, high } = timing.interval.unwrap();
    assert!(low > 1.005 && high < 1.035, "{timing:?}");
}

/// The clock has few ticks while a kernel runs, so that most batches have the same ratio.
#[test]
fn batches_that_are_mostly_the_same_still_have_an_interval() {
    let mut sampler = one_part();
    for number in 0..8 {
        let replaced_ns = if number < 5 { 41.0 } else { 39.0 };
        sampler.add(&[batch(&[(40.0, replaced_ns)])], false);
    }
    let timing = sampler.finish(Clock::Processor, Stopped::OutOfTime);
    let Interval { low, high } = timing.interval.unwrap();
    assert!(low < 1.0 && 1.0 < high, "{timing:?}");
    assert!(!is_proved(timing.verdict()));
}

/// The first dispatch and one with warm caches count too.
#[test]
fn a_kernel_that_is_far_slower_is_recognized_by_a_batch() {
    let others = batch(&[(1.2, 900.0), (1.1, 800.0)]).pairs;
    let batch = PartBatch { others, ..batch(&[(1.0, 850.0)]) };
    let mut sampler = one_part();
    assert_eq!(sampler.add(std::slice::from_ref(&batch), false), None);
    let mut sampler = one_part();
    assert_eq!(sampler.add(&[batch], true), Some(Stopped::FarSlower));
    let timing = sampler.finish(Clock::Processor, Stopped::FarSlower);
    assert_eq!(
        (timing.verdict(), timing.batch_count, timing.ratio.round()),
        (TimingVerdict::Slower, 1, 850.0)
    );
}

/// A search stops timing candidates that are slower than the best.
#[test]
fn a_ratio_beyond_which_precision_is_useless_is_an_option() {
    for (far, stopped) in [(FAR, Stopped::Precise), (1.05, Stopped::FarSlower)] {
        let mut sampler = Sampler::new(&[1], Limits { far, ..limits(0.05) }, 0.0);
        let slower = batch(&[(100.0, 150.0)]);
        let found: Vec<_> = (0..8).map(|_| sampler.add(std::slice::from_ref(&slower), true)).collect();
        assert_eq!(found.last(), Some(&Some(stopped)), "{found:?}");
        assert_eq!(found[..7], [None; 7], "an interval needs more batches");
    }
}

/// The greatest common divisor of few times may be several steps.
#[test]
fn the_steps_of_a_clock_may_turn_out_to_be_shorter() {
    let mut sampler = one_part();
    for resolution_ns in [3_000.0, 1_000.0, 10.0] {
        sampler.know_resolution(resolution_ns);
        sampler.add(&[batch(&[(9_000.0, 9_000.0)])], false);
    }
    assert_eq!(sampler.finish(Clock::Processor, Stopped::OutOfTime).resolution_ns, 10.0);
}

/// A clock that does not advance during a kernel, although it did in the first batch, or whose steps are too
/// long to be averaged.
#[test]
fn a_time_of_zero_has_a_ratio() {
    for (resolution_ns, first) in [(10.0, 1e6), (1e6, 0.0)] {
        let mut sampler = Sampler::new(&[1], limits(0.05), resolution_ns);
        for times in [(first, first), (0.0, first), (first, 0.0), (0.0, 0.0)].repeat(2) {
            sampler.add(&[batch(&[times])], false);
        }
        let timing = sampler.finish(Clock::Processor, Stopped::OutOfTime);
        assert!(timing.statistic == Statistic::Shortest, "{timing:?}");
        assert!(timing.ratio.is_finite(), "{timing:?}");
        let Interval { low, high } = timing.interval.unwrap();
        assert!(low.is_finite() && !high.is_nan(), "{timing:?}");
        assert_ne!(timing.verdict(), TimingVerdict::Faster);
    }
}

/// Modes that are found at the end, by a clock with steps, leave the times as they are: nothing is proved but
/// what each pair says.
#[test]
fn modes_that_are_found_at_the_end_prove_nothing() {
    let judged = |slow: f64, batches: usize| {
        let mut sampler = Sampler::new(&[1], limits(0.05), 1.0);
        let mut stopped = None;
        for number in 0..batches {
            let time =
                |index: usize| if (number + index).is_multiple_of(2) { 1_000.0 } else { 1_000.0 * slow };
            let times: Vec<_> = (0..6).map(|index| (3_000.0, 9_000.0 / 2_000.0 * time(index))).collect();
            stopped = sampler.add(&[batch(&times)], true);
        }
        sampler.finish(Clock::Processor, stopped.unwrap_or(Stopped::OutOfTime))
    };
    for judgment in [judged(1.5, 5), judged(3.0, 5), judged(3.0, 7)] {
        let part = &judgment.parts[0];
        assert!(part.replaced.modes.is_some() && part.interval.is_none(), "{judgment:?}");
        assert!(part.captured.ns > 0.0 && part.replaced.ns > 0.0 && judgment.ratio > 1.0, "{judgment:?}");
        // Each pair of the first tells a ratio of more than 2.
        let verdict = if part.replaced.modes.unwrap().fast_ns > 2.0 * 3_000.0 {
            TimingVerdict::Slower
        } else {
            TimingVerdict::CannotTell
        };
        assert!([verdict, TimingVerdict::CannotTell].contains(&judgment.verdict()), "{judgment:?}");
        assert!(judgment.interval.is_none_or(|it| it.low > 2.0 && it.high < 10.0), "{judgment:?}");
    }
}

/// Two or three calls of a kernel that takes 1.5 times as long in half of them.
#[test]
fn the_shortest_of_few_does_not_decide() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut sampler = one_part();
    for _ in 0..40 {
        let mut slow = || if random.bool() { 150.0 } else { 100.0 };
        let times = [(100.0, slow()), (100.0, slow())];
        sampler.add(&[batch(&times)], false);
    }
    let judgment = sampler.finish(Clock::Processor, Stopped::OutOfTime);
    // 1.25; two pairs of a batch say little more.
    assert!((judgment.ratio - 1.25).abs() < 1e-9, "{judgment:?}");
    assert_ne!(judgment.verdict(), TimingVerdict::NotSlower);
}
