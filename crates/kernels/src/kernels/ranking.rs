//! How often a capture is replayed until the order of its kernels is known.

use std::time::{Duration, Instant};

use rehal_judge::Measuring;
use rehal_judge::stats::{self, Interval};

use super::KernelOptions;

/// Kernels whose order matters.
const RANKED: usize = 10;
/// The order of two kernels is of no interest if their times differ by at most this fraction.
const EQUAL: f64 = 0.05;
/// The probability that the ratio of two kernels is outside of its interval. It is small, since many pairs
/// are compared, again and again.
const OUTSIDE: f64 = 0.01;
/// Fewer replays have no interval of [`typical_time`].
pub(super) const MIN_SAMPLES: usize = 13;

/// Decides when enough replays are timed.
pub(super) struct Rounds {
    begun: Instant,
    next_look: usize,
    pub is_stable: bool,
    /// The pulse of the options ended it.
    pub is_interrupted: bool,
}

impl Rounds {
    pub(super) fn begin() -> Self {
        Self { begun: Instant::now(), next_look: MIN_SAMPLES, is_stable: false, is_interrupted: false }
    }

    /// Whether another replay is to be timed. `times` has those of each kernel that is listed.
    pub(super) fn continues(&mut self, times: &[&[f64]], options: &KernelOptions) -> bool {
        let count = times.first().map_or(0, |it| it.len());
        let elapsed = self.begun.elapsed();
        let max_time = Some(options.max_time).filter(|limit| *limit != Duration::MAX);
        let measuring = Measuring::from_limits((count as u64, options.repetitions), (elapsed, max_time));
        self.is_interrupted = options.pulse.beat(measuring).is_break();
        let is_late = elapsed >= options.max_time || self.is_interrupted;
        let is_last = is_late || options.repetitions.is_some_and(|wanted| count as u64 >= wanted);
        if is_last || count >= self.next_look {
            self.is_stable = is_stable(times);
            self.next_look = count + (count / 8).max(1);
        }
        !is_last && !times.is_empty() && (options.repetitions.is_some() || !self.is_stable)
    }
}

/// The part of the times that is shorter than the [`typical_time`].
const SHORTER: f64 = 0.25;

/// The time of a kernel if little disturbs it, from its times in several replays: their lower quartile. Other
/// work evicts caches, which makes times longer, never shorter, so that a median grows with the load.
pub(super) fn typical_time(times: &[f64]) -> f64 {
    stats::quantile(times, SHORTER)
}

/// The 95 % interval of the [`typical_time`].
pub(super) fn typical_interval(times: &[f64]) -> Option<Interval> {
    stats::quantile_interval(times, SHORTER, 0.05)
}

/// Whether each of the first kernels takes longer than the next, or as long. A sample of all of them is of
/// one replay, so that a slow phase of the machine is in both sides of a ratio.
fn is_stable(times: &[&[f64]]) -> bool {
    // One kernel has no order.
    if times.len() > 1 && times[0].len() < MIN_SAMPLES {
        return false;
    }
    let mut ranked: Vec<_> = times.iter().map(|it| (typical_time(it), *it)).collect();
    ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    ranked.truncate(RANKED + 1);
    ranked.windows(2).all(|pair| {
        let sides = pair[0].1.iter().zip(pair[1].1);
        // A time below a step of the clock is 0.
        let ratios: Vec<f64> = sides.map(|(one, other)| one.max(1.0) / other.max(1.0)).collect();
        let Some(Interval { low, high }) = stats::median_interval(&ratios, OUTSIDE) else { return false };
        low > 1.0 || (low >= 1.0 - EQUAL && high <= 1.0 + EQUAL)
    })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use rehal_judge::Pulse;

    use super::*;

    /// Times of `count` replays around a center, with a spread of a fraction of it.
    fn times(random: &mut fastrand::Rng, count: usize, center: f64, spread: f64) -> Vec<f64> {
        (0..count).map(|_| center * (1.0 + spread * (random.f64() - 0.5))).collect()
    }

    fn is_stable_of(kernels: &[Vec<f64>]) -> bool {
        is_stable(&kernels.iter().map(|it| &it[..]).collect::<Vec<_>>())
    }

    #[test]
    fn an_order_is_stable_if_kernels_differ_or_are_equal() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut of = |count, center, spread| times(&mut random, count, center, spread);
        let apart = [of(13, 1000.0, 0.1), of(13, 100.0, 0.1), of(13, 500.0, 0.1)];
        assert!(is_stable_of(&apart));
        assert!(!is_stable_of(&apart.clone().map(|it| it[..12].to_vec())), "too few samples");
        let equal = [of(13, 1000.0, 0.02), of(13, 1000.0, 0.02)];
        assert!(is_stable_of(&equal));
        let noisy = [of(13, 1000.0, 0.8), of(13, 1050.0, 0.8)];
        assert!(!is_stable_of(&noisy));
        assert!(is_stable_of(&[of(2000, 1000.0, 0.8), of(2000, 1200.0, 0.8)]), "more samples tell");
        // What is below the first ten and their next does not matter.
        let mut many: Vec<_> = (0..11).map(|index| of(13, 1e6 / f64::from(1 << index), 0.1)).collect();
        many.extend([of(13, 10.0, 0.8), of(13, 10.5, 0.8)]);
        assert!(is_stable_of(&many));
        assert!(is_stable_of(&[of(1, 1000.0, 0.8)]), "one kernel has no order");
    }

    #[test]
    fn repetitions_and_time_end_it() {
        let kernel = [5.0; 13];
        let continues = |count: usize, max_time, repetitions| {
            let options = KernelOptions { max_time, repetitions, ..KernelOptions::default() };
            Rounds::begin().continues(&[&kernel[..count]], &options)
        };
        let long = Duration::from_secs(3600);
        assert!(!continues(1, Duration::ZERO, None));
        assert!(continues(1, long, None) && continues(12, long, None) && !continues(13, long, None));
        assert!(continues(2, long, Some(3)) && !continues(3, long, Some(3)) && continues(13, long, Some(14)));
        let pulse = Pulse::new(|_| ControlFlow::Break(()));
        let options = KernelOptions { max_time: long, pulse, ..KernelOptions::default() };
        let mut rounds = Rounds::begin();
        assert!(!rounds.continues(&[&kernel[..1]], &options) && rounds.is_interrupted);
        assert!(
            !Rounds::begin().continues(&[], &KernelOptions { max_time: long, ..KernelOptions::default() })
        );
    }
}
