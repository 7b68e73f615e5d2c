//! Times two sides by turns that are measured elsewhere, such as replays of a whole capture.
//!
//! Only the statistics are here, so that tests run on simulated machines.

use std::time::{Duration, Instant};

use rehal_base::Result;
use rehal_bench::{Measuring, Monitor, Pulse};
use rehal_hal::profile::resolution_ns;

use super::sampling::{Pair, Sampler, ShapeBatch, Stopped};
use super::timing::Switches;
use super::{CacheState, ComparedShape, Timing};

/// Maximum number of pairs of a batch.
const MAX_PAIRS: usize = 20;
/// Batches for which there should be time, and that parts need: their intervals are wider than that of the
/// whole, since there are many.
const WANTED_BATCHES: u32 = 32;

/// Options of [`time_pairs`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PairOptions {
    /// Sampling stops once half of the interval of the whole is at most this fraction of the ratio.
    pub precision: f64,
    /// By which fraction of the captured time the other side may be slower.
    pub margin: f64,
    /// Sampling stops after this time, and once there is a pair.
    pub max_time: Duration,
    /// Seed of the order of the sides.
    pub seed: u64,
    /// Called after each pair; it may end the sampling.
    pub pulse: Pulse,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self {
            precision: 0.01,
            margin: 0.05,
            max_time: Duration::from_secs(60),
            seed: 0,
            pulse: Pulse::default(),
        }
    }
}

/// A side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairSide {
    /// What is compared with.
    Captured,
    /// What is compared.
    Replaced,
}

/// What is timed of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairPart {
    /// A time, of all of it.
    Whole,
    /// A time for each part.
    Parts,
}

/// The times of two sides.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PairTimings {
    /// All of it.
    pub whole: Timing,
    /// The parts, as the shapes of a timing. Each interval is wide enough that with 95 %, all of them contain
    /// their ratios.
    pub parts: Timing,
}

/// Times both sides by turns, in random order, until the interval of the whole is narrow enough. `measure`
/// returns times in nanoseconds: one, or as many as there are parts, each of which is so many dispatches.
pub fn time_pairs(
    dispatch_counts: &[u64],
    options: &PairOptions,
    mut measure: impl FnMut(PairSide, PairPart) -> Result<Vec<f64>>,
) -> Result<PairTimings> {
    let begun = Instant::now();
    let mut random = fastrand::Rng::with_seed(options.seed);
    // Memory is mapped, and caches are filled.
    for side in [PairSide::Captured, PairSide::Replaced] {
        measure(side, PairPart::Whole)?;
    }
    let switches = Switches::for_threads()?;
    let mut monitor = Monitor::begin();
    let whole = [ComparedShape { count: 1, ..ComparedShape::default() }];
    let parts: Vec<_> =
        dispatch_counts.iter().map(|_| ComparedShape { count: 1, ..ComparedShape::default() }).collect();
    let limits = [options.precision, options.margin];
    let mut whole = Sampler::new(&whole, limits, resolution_ns());
    let outside = 0.05 / parts.len().max(1) as f64;
    let mut all_parts = Sampler::new(&parts, limits, resolution_ns()).with_shapes_outside(outside);
    let batch_time = options.max_time / WANTED_BATCHES;
    let (mut batch_count, mut pair_count, mut is_interrupted) = (0, 0, false);
    let stopped = loop {
        let batch_begun = Instant::now();
        let mut batch = ShapeBatch::default();
        let mut part_batches = vec![ShapeBatch::default(); parts.len()];
        while batch.pairs.len() < MAX_PAIRS
            && !is_interrupted
            && (batch.pairs.is_empty()
                || batch_begun.elapsed() < batch_time && begun.elapsed() < options.max_time)
        {
            batch.pairs.extend(pair(PairPart::Whole, &mut random, &switches, &mut measure)?);
            if !parts.is_empty() {
                let timed = pair(PairPart::Parts, &mut random, &switches, &mut measure)?;
                part_batches.iter_mut().zip(timed).for_each(|(batch, pair)| batch.pairs.push(pair));
            }
            pair_count += 1;
            let time = (begun.elapsed(), Some(options.max_time));
            is_interrupted = options.pulse.beat(Measuring::from_limits((pair_count, None), time)).is_break();
        }
        monitor.sample();
        if !parts.is_empty() {
            all_parts.add(&part_batches, false);
        }
        batch_count += 1;
        // Also if one side is far slower: the parts have no interval with few batches.
        let stopped = whole.add(&[batch], false);
        if let Some(stopped) = stopped.filter(|_| parts.is_empty() || batch_count >= WANTED_BATCHES) {
            break stopped;
        }
        if is_interrupted {
            break Stopped::Interrupted;
        }
        if begun.elapsed() >= options.max_time {
            break Stopped::OutOfTime;
        }
    };
    let mut whole = whole.finish(CacheState::Warm, stopped);
    (whole.conditions, whole.elapsed) = (monitor.end(), begun.elapsed());
    let mut parts = all_parts.finish(CacheState::Warm, stopped);
    for (shape, count) in parts.shapes.iter_mut().zip(dispatch_counts) {
        shape.shape.count = *count;
    }
    Ok(PairTimings { whole, parts })
}

/// Times both sides, in random order.
fn pair(
    part: PairPart,
    random: &mut fastrand::Rng,
    switches: &Switches,
    measure: &mut impl FnMut(PairSide, PairPart) -> Result<Vec<f64>>,
) -> Result<Vec<Pair>> {
    let before = switches.count();
    let (captured_ns, replaced_ns) = match random.bool() {
        true => {
            let captured_ns = measure(PairSide::Captured, part)?;
            (captured_ns, measure(PairSide::Replaced, part)?)
        }
        false => {
            let replaced_ns = measure(PairSide::Replaced, part)?;
            (measure(PairSide::Captured, part)?, replaced_ns)
        }
    };
    let is_preempted = switches.count() != before;
    let pair = |(captured_ns, replaced_ns)| Pair { captured_ns, replaced_ns, is_preempted };
    Ok(captured_ns.into_iter().zip(replaced_ns).map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::super::TimingVerdict;
    use super::*;

    /// Times of a simulated machine: the whole, and three parts.
    fn timed(seed: u64, ratios: [f64; 4]) -> PairTimings {
        let mut random = fastrand::Rng::with_seed(seed);
        let options = PairOptions { max_time: Duration::from_secs(3600), seed, ..PairOptions::default() };
        time_pairs(&[1, 2, 3], &options, |side, part| {
            let mut of = |center_ns: f64, ratio: f64| {
                let ratio = if side == PairSide::Replaced { ratio } else { 1.0 };
                // Load only lengthens a time.
                center_ns * ratio * (1.0 + 0.02 * random.f64() + 0.5 * random.f64().powi(8))
            };
            Ok(match part {
                PairPart::Whole => vec![of(1e6, ratios[0])],
                PairPart::Parts => (1..4).map(|index| of(1e5 * index as f64, ratios[index])).collect(),
            })
        })
        .unwrap()
    }

    #[test]
    fn the_whole_and_each_part_have_verdicts() {
        let PairTimings { whole, parts } = timed(1, [1.1, 0.5, 1.0, 2.0]);
        assert_eq!((whole.verdict(), whole.stopped), (TimingVerdict::Slower, Stopped::Precise));
        assert!((whole.ratio - 1.1).abs() < 0.01, "{}", whole.ratio);
        let verdicts: Vec<_> = parts.shapes.iter().map(|it| it.verdict(parts.margin)).collect();
        assert_eq!(verdicts, [TimingVerdict::Faster, TimingVerdict::NotSlower, TimingVerdict::Slower]);
        let counts: Vec<_> = parts.shapes.iter().map(|it| it.shape.count).collect();
        assert_eq!(counts, [1, 2, 3]);
        assert!((parts.shapes[2].captured_ns - 3e5).abs() < 5e3);
    }

    #[test]
    fn equal_sides_are_rarely_different() {
        let is_different =
            |it: Option<super::super::Interval>| it.is_some_and(|it| it.low > 1.0 || it.high < 1.0);
        let all: Vec<_> = (0..100).map(|seed| timed(seed, [1.0; 4])).collect();
        let wholes = all.iter().filter(|it| is_different(it.whole.interval)).count();
        let parts =
            all.iter().filter(|it| it.parts.shapes.iter().any(|it| is_different(it.interval))).count();
        assert!(wholes <= 5 && parts <= 9, "{wholes} {parts}");
    }

    #[test]
    fn a_pulse_ends_it() {
        let pulse = Pulse::new(|it| match it.sample_count {
            30.. => std::ops::ControlFlow::Break(()),
            _ => std::ops::ControlFlow::Continue(()),
        });
        let options = PairOptions { max_time: Duration::from_secs(3600), pulse, ..PairOptions::default() };
        let mut random = fastrand::Rng::with_seed(1);
        // Too noisy for an end.
        let PairTimings { whole, .. } =
            time_pairs(&[], &options, |_, _| Ok(vec![1e6 * (1.0 + random.f64())])).unwrap();
        assert_eq!((whole.stopped, whole.batch_count), (Stopped::Interrupted, 2));
        // Pairs of a thread that was preempted do not count.
        assert!((1..=30).contains(&whole.pair_count), "{}", whole.pair_count);
    }

    #[test]
    fn an_error_ends_it() {
        let failed = time_pairs(&[], &PairOptions::default(), |_, _| {
            Err(rehal_base::Error::failed_precondition("no"))
        });
        assert_eq!(failed.unwrap_err().message(), "no");
    }
}
