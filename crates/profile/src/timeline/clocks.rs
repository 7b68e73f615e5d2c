//! Ticks of devices as times of the host, from all clock samples: the clock of a device drifts, so time is
//! linear only between neighbouring samples.

use std::collections::HashMap;

use crate::layout::{
    self, CLOCK_DEVICE_TICK, CLOCK_DEVICE_TICK_UNALIGNED, CLOCK_HOST_CPU_TIMESTAMP, CLOCK_HOST_TIME_BRACKET,
};

/// The clocks of all devices.
#[derive(Debug, Default)]
pub struct Clocks {
    devices: HashMap<u32, Clock>,
}

/// The clock of a device.
#[derive(Debug, Default)]
struct Clock {
    /// Tick and time by the host's own clock.
    by_host: Vec<(u64, i64)>,
    /// Tick and time by the clock that the driver samples, which may have another origin.
    by_driver: Vec<(u64, i64)>,
    /// Whether a sample is not of the clock that times events.
    is_unaligned: bool,
    /// The first tick of an event.
    first_tick: Option<u64>,
}

impl Clocks {
    /// Adds a clock sample.
    pub fn add(&mut self, sample: &layout::ClockCorrelation) {
        let clock = self.devices.entry(sample.physical_device_ordinal.get()).or_default();
        let (flags, tick) = (sample.flags.get(), sample.device_tick.get());
        clock.is_unaligned |= flags & CLOCK_DEVICE_TICK_UNALIGNED != 0;
        if flags & CLOCK_DEVICE_TICK == 0 {
            return;
        }
        let (begin, end) = (sample.host_time_begin_ns.get(), sample.host_time_end_ns.get());
        if flags & CLOCK_HOST_TIME_BRACKET != 0 && (0..=end).contains(&begin) {
            add_point(&mut clock.by_host, (tick, begin + (end - begin) / 2));
        }
        if flags & CLOCK_HOST_CPU_TIMESTAMP != 0
            && let Ok(ns) = i64::try_from(sample.host_cpu_timestamp_ns.get())
        {
            add_point(&mut clock.by_driver, (tick, ns));
        }
    }

    /// Notes that a device has an event at a tick.
    pub fn note(&mut self, device: u32, tick: u64) {
        let first = &mut self.devices.entry(device).or_default().first_tick;
        *first = Some(first.map_or(tick, |it| it.min(tick)));
    }

    /// The host's time of a tick. Without two samples, ticks count as nanoseconds, and the first event of the
    /// device is at `origin_ns`.
    pub fn time_ns(&self, device: u32, tick: u64, origin_ns: i64) -> Option<i64> {
        let clock = self.devices.get(&device)?;
        match clock.points() {
            Some(points) => time_of(points, tick),
            None => {
                let ticks = tick.checked_sub(clock.first_tick?)?;
                origin_ns.checked_add(i64::try_from(ticks).ok()?)
            }
        }
    }

    /// Whether the events of a device can be placed among those of the host.
    pub fn is_correlated(&self, device: u32) -> bool {
        self.devices.get(&device).is_some_and(|clock| clock.points().is_some())
    }
}

impl Clock {
    fn points(&self) -> Option<&[(u64, i64)]> {
        let points = if self.by_host.len() > 1 { &self.by_host } else { &self.by_driver };
        (points.len() > 1 && !self.is_unaligned).then_some(points)
    }
}

/// Adds a point, unless a clock does not advance.
fn add_point(points: &mut Vec<(u64, i64)>, point: (u64, i64)) {
    if points.last().is_none_or(|last| last.0 < point.0 && last.1 < point.1) {
        points.push(point);
    }
}

/// Interpolates between the neighbours of a tick. Beyond the ends, the rate is that between the first and the
/// last point: two neighbours may be so close that their distance is mostly error.
fn time_of(points: &[(u64, i64)], tick: u64) -> Option<i64> {
    let (first, last) = (*points.first()?, *points.last()?);
    let after = points.partition_point(|point| point.0 <= tick);
    let (from, to, base) = match after {
        0 => (first, last, first),
        _ if after == points.len() => (first, last, last),
        _ => (points[after - 1], points[after], points[after - 1]),
    };
    let (ticks, ns) = (i128::from(to.0) - i128::from(from.0), i128::from(to.1) - i128::from(from.1));
    let distance = i128::from(tick) - i128::from(base.0);
    // Points increase, so the divisor is positive; products of two 65-bit numbers could overflow 128 bits.
    let offset = distance.checked_mul(ns)?.checked_add(ticks / 2)?.div_euclid(ticks);
    i64::try_from(i128::from(base.1) + offset).ok()
}

#[cfg(test)]
mod tests {
    use zerocopy::little_endian::{I64, U32, U64};

    use super::*;

    fn sample(tick: u64, cpu_ns: u64, bracket: Option<(i64, i64)>) -> layout::ClockCorrelation {
        let bracket_flag = if bracket.is_some() { CLOCK_HOST_TIME_BRACKET } else { 0 };
        let (begin, end) = bracket.unwrap_or_default();
        layout::ClockCorrelation {
            flags: U32::new(CLOCK_DEVICE_TICK | CLOCK_HOST_CPU_TIMESTAMP | bracket_flag),
            device_tick: U64::new(tick),
            host_cpu_timestamp_ns: U64::new(cpu_ns),
            host_time_begin_ns: I64::new(begin),
            host_time_end_ns: I64::new(end),
            ..Default::default()
        }
    }

    fn clocks(samples: &[layout::ClockCorrelation]) -> Clocks {
        let mut clocks = Clocks::default();
        samples.iter().for_each(|sample| clocks.add(sample));
        clocks
    }

    #[test]
    fn a_drifting_clock_is_followed_from_sample_to_sample() {
        // 10 ns per tick, then 20.
        let it = clocks(&[
            sample(100, 7, Some((990, 1_010))),
            sample(200, 7, Some((2_000, 2_000))),
            sample(300, 7, Some((4_000, 4_000))),
        ]);
        let time = |tick| it.time_ns(0, tick, 0);
        assert_eq!([100, 150, 200, 250, 300].map(time), [1_000, 1_500, 2_000, 3_000, 4_000].map(Some));
        // Beyond the ends at the mean rate of 15.
        assert_eq!([90, 310].map(time), [850, 4_150].map(Some));
        assert_eq!(time(u64::MAX), None);
    }

    #[test]
    fn without_brackets_the_clock_of_the_driver_counts() {
        let it = clocks(&[sample(0, 500, None), sample(10, 600, None)]);
        assert_eq!(it.time_ns(0, 5, 0), Some(550));
        assert!(it.is_correlated(0) && !it.is_correlated(1));
    }

    #[test]
    fn a_device_without_a_clock_starts_at_the_origin() {
        let still = sample(100, 500, Some((5, 5)));
        let mut unaligned = sample(200, 600, Some((6, 6)));
        unaligned.flags = U32::new(unaligned.flags.get() | CLOCK_DEVICE_TICK_UNALIGNED);
        for samples in [&[][..], &[still], &[still, sample(90, 600, Some((6, 6)))], &[still, unaligned]] {
            let mut it = clocks(samples);
            [70, 60, 90].into_iter().for_each(|tick| it.note(0, tick));
            assert!(!it.is_correlated(0));
            assert_eq!(it.time_ns(0, 90, 1_000), Some(1_030));
            assert_eq!(it.time_ns(0, u64::MAX, 1_000), None);
        }
    }
}
