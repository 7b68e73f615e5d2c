//! Kernels that take one of two times, such as one that works differently in every other call.

use serde::{Deserialize, Serialize};

use crate::stats;

/// The two times of which most calls take one, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Modes {
    /// The median of the shorter ones.
    pub fast_ns: f64,
    /// The median of the longer ones.
    pub slow_ns: f64,
    /// The part of the calls that take longer, from 0 to 1.
    pub slow_share: f64,
}

/// A rarer mode is what the machine does now and then.
const LEAST_SHARE: f64 = 0.15;
/// By how much the longer times are longer, at least.
const LEAST_RATIO: f64 = 1.04;
/// How far apart both are, at least, in half-widths of the wider one (median absolute deviations).
const LEAST_DISTANCE: f64 = 6.0;
/// The part of all times that may be in the middle half between both.
const MOST_BETWEEN: f64 = 0.04;
/// Fewer times do not tell.
const LEAST_TIMES: usize = 24;
/// More are not looked at.
const MOST_TIMES: usize = 1 << 12;

/// The two modes of times of one placement after another, by a clock with these steps; `None` if they have
/// one.
///
/// The slow phases of a machine last for more than a batch, so that times are taken as fractions of the
/// shortest of their own batch. A batch with few times may have those of one mode only, so that such batches
/// count as one.
pub(super) fn find<'t>(batches: impl Iterator<Item = &'t [f64]>, resolution_ns: f64) -> Option<Modes> {
    const IN_A_GROUP: usize = 8;
    let (mut all, mut group) = (Vec::new(), Vec::new());
    let mut shortest_of_groups = Vec::new();
    for times in batches {
        group.extend_from_slice(times);
        if group.len() >= IN_A_GROUP {
            let shortest = group.iter().copied().fold(f64::INFINITY, f64::min);
            // A time may be 0 by a coarse clock, which has no fractions.
            if shortest <= 0.0 {
                return None;
            }
            shortest_of_groups.push(shortest);
            all.extend(group.drain(..).map(|it| (it / shortest).ln()));
        }
    }
    let step = all.len().div_ceil(MOST_TIMES).max(1);
    let mut times: Vec<f64> = all.into_iter().step_by(step).collect();
    times.sort_by(f64::total_cmp);
    let (low, high) = times.split_at(split(&times)?);
    let (fast, slow) = (stats::median(low), stats::median(high));
    let spread = stats::mad(low).max(stats::mad(high));
    let (distance, shortest) = (slow - fast, stats::median(&shortest_of_groups));
    let modes = Modes {
        fast_ns: shortest * fast.exp(),
        slow_ns: shortest * slow.exp(),
        slow_share: times.iter().filter(|it| **it > (fast + slow) / 2.0).count() as f64 / times.len() as f64,
    };
    let is_between = |it: &&f64| (fast + distance / 4.0..slow - distance / 4.0).contains(*it);
    let is_apart = distance >= LEAST_RATIO.ln()
        && (LEAST_SHARE..1.0 - LEAST_SHARE).contains(&modes.slow_share)
        && distance >= LEAST_DISTANCE * spread
        && times.iter().filter(is_between).count() as f64 <= MOST_BETWEEN * times.len() as f64
        // By a clock with few steps, all times are one of two or three.
        && modes.slow_ns - modes.fast_ns > 3.0 * resolution_ns;
    is_apart.then_some(modes)
}

/// Where sorted times are best divided into two groups: with the largest variance between both (Otsu, 1979,
/// "A threshold selection method from gray-level histograms"). `None` if no division leaves enough on both
/// sides.
fn split(times: &[f64]) -> Option<usize> {
    let count = times.len();
    let least = (count as f64 * LEAST_SHARE).ceil() as usize;
    if count < LEAST_TIMES {
        return None;
    }
    let total: f64 = times.iter().sum();
    let (mut below, mut best) = (0.0, (0.0, None));
    for (index, time) in times.iter().enumerate() {
        let (low, high) = (index as f64, (count - index) as f64);
        if index >= least && count - index >= least {
            let between = low * high * ((total - below) / high - below / low).powi(2);
            if between > best.0 {
                best = (between, Some(index));
            }
        }
        below += time;
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of times of a simulated kernel: each is `slow` times as long in a part of the calls.
    fn found(share: f64, slow: f64, noise: f64, in_batch: usize, resolution_ns: f64) -> Option<Modes> {
        let mut random = fastrand::Rng::with_seed(7);
        let batches: Vec<Vec<f64>> = (0..240 / in_batch)
            .map(|batch| {
                let speed = 1.0 + 0.2 * (batch as f64 / 3.0).sin();
                let time = |random: &mut fastrand::Rng| {
                    let mode = if random.f64() < share { slow } else { 1.0 };
                    // Load only lengthens a time.
                    let time = 1000.0 * mode * speed * (1.0 + noise * random.f64().powi(3));
                    if resolution_ns == 0.0 { time } else { (time / resolution_ns).floor() * resolution_ns }
                };
                (0..in_batch).map(|_| time(&mut random)).collect()
            })
            .collect();
        find(batches.iter().map(|it| &it[..]), resolution_ns)
    }

    #[test]
    fn two_times_are_two_modes() {
        for (share, slow, noise) in [(0.5, 1.5, 0.02), (0.2, 1.5, 0.05), (0.8, 3.0, 0.2), (0.5, 1.06, 0.005)]
        {
            let modes = found(share, slow, noise, 20, 0.0).unwrap();
            assert!((modes.slow_share - share).abs() < 0.06, "{modes:?}");
            assert!((modes.slow_ns / modes.fast_ns / slow - 1.0).abs() < 0.02, "{modes:?}");
            assert!((modes.fast_ns / 1000.0 - 1.0).abs() < 0.25, "{modes:?}");
        }
    }

    /// Such as those of long kernels.
    #[test]
    fn batches_of_one_time_have_modes_together() {
        let modes = found(0.5, 3.0, 0.02, 1, 0.0).unwrap();
        assert!((modes.slow_share - 0.5).abs() < 0.15, "{modes:?}");
    }

    #[test]
    fn noise_has_one_mode() {
        for noise in [0.01, 0.3, 2.0] {
            assert_eq!(found(0.0, 1.0, noise, 20, 0.0), None, "{noise}");
        }
        // The machine interrupts one call in ten.
        assert_eq!(found(0.1, 1.5, 0.02, 20, 0.0), None);
        assert_eq!(found(0.5, 1.02, 0.001, 20, 0.0), None, "a small difference");
        assert_eq!(found(0.5, 1.5, 0.02, 20, 400.0), None, "steps of the clock");
        assert_eq!(find(std::iter::repeat_n(&[0.0; 9][..], 9), 10.0), None);
        assert_eq!(find(std::iter::once(&[1.0, 2.0][..]), 0.0), None);
    }
}
