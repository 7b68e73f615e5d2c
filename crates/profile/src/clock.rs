//! Device ticks as nanoseconds of the host.

use crate::layout::{self, CLOCK_DEVICE_TICK, CLOCK_DEVICE_TICK_UNALIGNED, CLOCK_HOST_CPU_TIMESTAMP};

/// The clock samples of a device: the first and the last, between which time is taken to be linear.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockSamples {
    /// The first sample.
    pub first: layout::ClockCorrelation,
    /// The last sample.
    pub last: layout::ClockCorrelation,
    /// Number of samples.
    pub count: u64,
    /// Samples whose device tick is not of the clock that times events.
    pub unaligned_count: u64,
}

/// A linear map from device ticks to nanoseconds of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockFit {
    /// Id of the first sample.
    pub first_sample_id: u64,
    /// Id of the last sample.
    pub last_sample_id: u64,
    first_tick: u64,
    first_ns: i64,
    tick_span: u64,
    ns_span: u64,
}

/// The host's clock that a fit maps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostClock {
    /// The clock that the driver sampled together with the device's clock.
    Driver,
    /// The midpoint of two readings of the host's monotonic clock.
    Bracket,
}

impl ClockSamples {
    /// Adds a sample.
    pub fn add(&mut self, sample: &layout::ClockCorrelation) {
        self.unaligned_count += u64::from(sample.flags.get() & CLOCK_DEVICE_TICK_UNALIGNED != 0);
        if self.count == 0 {
            self.first = *sample;
        }
        self.last = *sample;
        self.count += 1;
    }

    /// Whether the first and the last sample have ticks of the clock that times events.
    pub fn have_aligned_ticks(&self) -> bool {
        let flags = [self.first.flags.get(), self.last.flags.get()];
        self.unaligned_count == 0 && flags.iter().all(|flags| flags & CLOCK_DEVICE_TICK != 0)
    }

    /// The map to the clock that the driver samples, unless two samples do not define one.
    pub fn fit(&self) -> Option<ClockFit> {
        self.fit_to(HostClock::Driver)
    }

    /// [`ClockSamples::fit`], or else the map to the host's monotonic clock.
    pub fn fit_any(&self) -> Option<ClockFit> {
        // Only samples without the driver's clock fall back: one that runs backward fits nothing.
        match (host_ns(&self.first, HostClock::Driver), host_ns(&self.last, HostClock::Driver)) {
            (Some(_), Some(_)) => self.fit_to(HostClock::Driver),
            _ => self.fit_to(HostClock::Bracket),
        }
    }

    fn fit_to(&self, clock: HostClock) -> Option<ClockFit> {
        if self.count < 2 || !self.have_aligned_ticks() {
            return None;
        }
        let (first_ns, last_ns) = (host_ns(&self.first, clock)?, host_ns(&self.last, clock)?);
        let tick_span = self.last.device_tick.get().checked_sub(self.first.device_tick.get())?;
        let ns_span = u64::try_from(last_ns.checked_sub(first_ns)?).ok()?;
        (tick_span > 0 && ns_span > 0).then(|| ClockFit {
            first_sample_id: self.first.sample_id.get(),
            last_sample_id: self.last.sample_id.get(),
            first_tick: self.first.device_tick.get(),
            first_ns,
            tick_span,
            ns_span,
        })
    }
}

fn host_ns(sample: &layout::ClockCorrelation, clock: HostClock) -> Option<i64> {
    let flags = sample.flags.get();
    match clock {
        HostClock::Driver => {
            let ns = i64::try_from(sample.host_cpu_timestamp_ns.get()).ok()?;
            (flags & CLOCK_HOST_CPU_TIMESTAMP != 0).then_some(ns)
        }
        HostClock::Bracket => {
            let (begin, end) = (sample.host_time_begin_ns.get(), sample.host_time_end_ns.get());
            let is_valid = flags & layout::CLOCK_HOST_TIME_BRACKET != 0 && (0..=end).contains(&begin);
            is_valid.then(|| begin + (end - begin) / 2)
        }
    }
}

impl ClockFit {
    /// The length of `ticks`, rounded to the nearest nanosecond, unless it has more than 63 bits.
    pub fn duration_ns(&self, ticks: u64) -> Option<i64> {
        i64::try_from(self.duration_unsigned_ns(ticks)?).ok()
    }

    /// The length of `ticks`, rounded to the nearest nanosecond, unless it has more than 64 bits.
    pub fn duration_unsigned_ns(&self, ticks: u64) -> Option<u64> {
        let product = u128::from(ticks) * u128::from(self.ns_span) + u128::from(self.tick_span / 2);
        // Zero ticks are zero: half a span rounds down.
        u64::try_from(product / u128::from(self.tick_span)).ok()
    }

    /// The time of a tick.
    pub fn time_ns(&self, tick: u64) -> Option<i64> {
        if tick >= self.first_tick {
            self.first_ns.checked_add(self.duration_ns(tick - self.first_tick)?)
        } else {
            self.first_ns.checked_sub(self.duration_ns(self.first_tick - tick)?)
        }
    }

    /// Nanoseconds per tick.
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_span as f64 / self.tick_span as f64
    }

    /// Ticks per second.
    pub fn frequency_hz(&self) -> f64 {
        1e9 / self.ns_per_tick()
    }

    /// Ticks of the device between the samples.
    pub fn tick_span(&self) -> u64 {
        self.tick_span
    }

    /// Nanoseconds of the host between the samples.
    pub fn ns_span(&self) -> u64 {
        self.ns_span
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::little_endian::{I64, U32, U64};

    use super::*;

    fn sample(tick: u64, cpu_ns: u64, bracket: (i64, i64)) -> layout::ClockCorrelation {
        layout::ClockCorrelation {
            flags: U32::new(CLOCK_DEVICE_TICK | CLOCK_HOST_CPU_TIMESTAMP | layout::CLOCK_HOST_TIME_BRACKET),
            sample_id: U64::new(tick),
            device_tick: U64::new(tick),
            host_cpu_timestamp_ns: U64::new(cpu_ns),
            host_time_begin_ns: I64::new(bracket.0),
            host_time_end_ns: I64::new(bracket.1),
            ..Default::default()
        }
    }

    fn samples(all: &[layout::ClockCorrelation]) -> ClockSamples {
        let mut samples = ClockSamples::default();
        all.iter().for_each(|sample| samples.add(sample));
        samples
    }

    #[test]
    fn ticks_are_scaled_and_mapped_to_the_nearest_nanosecond() {
        let fit = samples(&[sample(100, 5_000, (0, 2)), sample(103, 5_010, (9, 13))]).fit().unwrap();
        assert_eq!((fit.duration_ns(0), fit.duration_ns(1), fit.duration_ns(2)), (Some(0), Some(3), Some(7)));
        assert_eq!((fit.time_ns(99), fit.time_ns(103)), (Some(4_997), Some(5_010)));
        assert_eq!(fit.duration_ns(u64::MAX), None);
        assert!((fit.ns_per_tick() - 10.0 / 3.0).abs() < 1e-12 && (fit.frequency_hz() - 3e8).abs() < 1.0);
    }

    #[test]
    fn samples_that_define_no_clock_fit_nothing() {
        let first = sample(100, 5_000, (0, 2));
        assert_eq!(samples(&[first]).fit(), None);
        assert_eq!(samples(&[first, sample(100, 6_000, (3, 5))]).fit(), None, "no ticks between them");
        assert_eq!(samples(&[first, sample(90, 6_000, (3, 5))]).fit(), None, "ticks run backward");
        assert_eq!(samples(&[first, sample(110, 4_000, (3, 5))]).fit(), None, "time runs backward");
        let mut unaligned = sample(105, 5_500, (3, 5));
        unaligned.flags = U32::new(unaligned.flags.get() | CLOCK_DEVICE_TICK_UNALIGNED);
        assert_eq!(samples(&[first, unaligned, sample(110, 6_000, (3, 5))]).fit(), None);
        let wild = sample(110, u64::MAX, (i64::MIN, i64::MAX));
        assert_eq!(samples(&[first, wild]).fit(), None);
        assert_eq!(samples(&[first, wild]).fit_any(), None);
    }

    #[test]
    fn without_the_drivers_clock_the_middle_of_the_bracket_counts() {
        let mut all = [sample(100, 5_000, (0, 2)), sample(103, 5_010, (9, 13))];
        all[1].flags = U32::new(all[1].flags.get() & !CLOCK_HOST_CPU_TIMESTAMP);
        assert_eq!(samples(&all).fit(), None);
        assert_eq!(samples(&all).fit_any().unwrap().ns_span(), 10);
        assert_eq!(samples(&all).fit_any().unwrap().tick_span(), 3);
    }
}
