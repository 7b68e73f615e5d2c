//! The clocks of events. A submission has few events, but a call of a short kernel takes little longer than to ask the system for the
//! time a few times. Where the system's own clock is the time-stamp counter of the processor, a thread reads the counter, and asks
//! the system for the time only about every 0.2 ms, to relate the counter to it.

use std::cell::Cell;
use std::sync::LazyLock;

use rehal_base::counter;

/// The host's clock of profiles: monotonic nanoseconds, the same for all processes of a machine.
pub fn now_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// The time of an event: [`now_ns`] to about 0.1 us, at less than half of its cost. In one thread it never goes back.
///
/// It may be that of a moment some nanoseconds earlier, when instructions before the call were not complete; see [`completed_ns`].
#[inline]
pub fn event_ns() -> i64 {
    time_at(counter::ticks())
}

/// The same once the instructions before the call are complete: for the times when work begins and ends that may be as short as a
/// kernel. It takes longer.
#[inline]
pub fn completed_ns() -> i64 {
    time_at(counter::completed_ticks())
}

/// The steps in which the times of events advance, in nanoseconds: whole ones, unless the counter or the system's clock has larger
/// steps. A span is wrong by less than a step.
pub fn resolution_ns() -> f64 {
    static RESOLUTION_NS: LazyLock<f64> = LazyLock::new(|| {
        let ns = counter::step_ticks().and_then(|step| Some(step as f64 * ns_per_tick()?));
        ns.unwrap_or_else(system_step_ns).max(1.0)
    });
    *RESOLUTION_NS
}

/// The rate of the counter, unless the system's clock takes so long to read that no event uses the counter.
fn ns_per_tick() -> Option<f64> {
    rate(std::iter::repeat_with(read_clocks))
}

/// The rate of the counter from readings of it and of the system's clock. `None` if the value of the counter is unknown in too many.
fn rate(mut readings: impl Iterator<Item = (Option<u64>, i64)>) -> Option<f64> {
    /// Two readings are wrong by [`MAX_READING_TICKS`] together at most: less than 0.1 % of this.
    const MEASURED_NS: i64 = 1_000_000;
    /// An interrupted thread discards a few.
    const MAX_DISCARDED: usize = 1000;
    let mut discarded = 0;
    let mut next = || {
        loop {
            match readings.next()? {
                (Some(ticks), ns) => return Some((ticks, ns)),
                (None, _) if discarded == MAX_DISCARDED => return None,
                (None, _) => discarded += 1,
            }
        }
    };
    let begun = next()?;
    loop {
        let (ticks, ns) = next()?;
        if ns - begun.1 >= MEASURED_NS {
            return Some((ns - begun.1) as f64 / ticks.wrapping_sub(begun.0).max(1) as f64);
        }
    }
}

/// The system's time and the value of the counter that belongs to it: `None` if the thread was interrupted, so that it is unknown.
fn read_clocks() -> (Option<u64>, i64) {
    let before = counter::completed_ticks();
    let ns = now_ns();
    let took = counter::completed_ticks().wrapping_sub(before);
    ((took < MAX_READING_TICKS).then(|| before.wrapping_add(took / 2)), ns)
}

/// The smallest step of the system's clock, which may be as long as to ask for the time.
fn system_step_ns() -> f64 {
    const READINGS: usize = 1000;
    let readings: Vec<i64> = (0..READINGS).map(|_| now_ns()).collect();
    let steps = readings.windows(2).map(|pair| pair[1] - pair[0]);
    steps.filter(|step| *step > 0).min().unwrap_or(1) as f64
}

thread_local! {
    static LINE: Cell<Line> = const { Cell::new(Line::NONE) };
}

#[inline]
fn time_at(ticks: u64) -> i64 {
    LINE.with(|line| line.get().at(ticks).unwrap_or_else(|| renew(line)))
}

/// Asks the system for the time, and relates the counter to it.
#[cold]
fn renew(line: &Cell<Line>) -> i64 {
    if !counter::is_usable() {
        return now_ns();
    }
    let (ticks, ns) = read_clocks();
    let renewed = line.get().renewed(ticks, ns);
    line.set(renewed);
    renewed.start_ns
}

/// The times of a range of values of the counter, as a straight line.
#[derive(Clone, Copy)]
struct Line {
    start_ticks: u64,
    start_ns: i64,
    /// In 2^-32 ns.
    ns_per_tick: u64,
    /// How long the line is; 0 until the rate is known.
    length_ticks: u64,
    /// A value of the counter from which the rate is measured, and its time.
    first: (u64, i64),
}

/// After so many ticks, 0.1 to 0.5 ms, the system is asked again. It changes the rate of its clock by 0.05 % at most, so that
/// events differ from it by less than 0.3 us even then.
const LINE_TICKS: u64 = 1 << 19;
/// So many ticks the rate is measured at least: each time may be wrong by some 10 ns.
const MIN_RATE_TICKS: u64 = 1 << 22;
/// And at most, so that the rate is that of the system now. Time while the machine sleeps is longer, and is in no rate.
const MAX_RATE_TICKS: u64 = 1 << 32;
/// So many ticks it takes at most to ask the system for the time: below 1 us.
const MAX_READING_TICKS: u64 = 1 << 10;

impl Line {
    const NONE: Self = Self { start_ticks: 0, start_ns: 0, ns_per_tick: 0, length_ticks: 0, first: (0, 0) };

    /// The time when the counter has this value, unless the line is too short.
    #[inline]
    fn at(&self, ticks: u64) -> Option<i64> {
        let passed = ticks.wrapping_sub(self.start_ticks);
        (passed < self.length_ticks).then(|| self.after(passed))
    }

    #[inline]
    fn after(&self, passed: u64) -> i64 {
        self.start_ns + ((passed * self.ns_per_tick) >> 32) as i64
    }

    /// The line that begins now: the system's time is `ns`, and the counter was at `ticks`, if that is known.
    fn renewed(&self, ticks: Option<u64>, ns: i64) -> Self {
        let start_ns = ns.max(self.after(self.length_ticks));
        let without_rate = |first| Self { start_ns, first, ..Self::NONE };
        let Some(start_ticks) = ticks else { return without_rate(self.first) };
        let measured = start_ticks.wrapping_sub(self.first.0);
        if measured > MAX_RATE_TICKS {
            return without_rate((start_ticks, ns));
        }
        if measured < MIN_RATE_TICKS {
            return without_rate(self.first);
        }
        let rate = (ns - self.first.1) as f64 / measured as f64;
        // If the last line was ahead of the system, this one loses that.
        let lost = (start_ns - ns) as f64 / LINE_TICKS as f64;
        let ns_per_tick = ((rate - lost) * (1_u64 << 32) as f64) as u64;
        Self { start_ticks, start_ns, ns_per_tick, length_ticks: LINE_TICKS, first: self.first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolution_is_that_of_the_counter() {
        let ns = resolution_ns();
        assert!((1.0..1e6).contains(&ns), "{ns}");
    }

    /// Readings of a counter with 2 ticks per nanosecond, each 1 us after the one before.
    fn readings() -> impl Iterator<Item = (Option<u64>, i64)> {
        (0..).map(|us: i64| (Some((us as u64 * 2000).wrapping_sub(1 << 20)), 1_000_000_000 + us * 1000))
    }

    #[test]
    fn the_rate_is_that_of_the_readings_that_are_known() {
        assert_eq!(rate(readings()), Some(0.5));
        // The first ones are interrupted, and so are those after a millisecond.
        let is_interrupted = |index: usize| index < 20 || (1000..1040).contains(&index);
        let interrupted = readings().enumerate().map(|(index, (ticks, ns))| match is_interrupted(index) {
            true => (None, ns + 5_000_000),
            false => (ticks, ns),
        });
        assert_eq!(rate(interrupted), Some(0.5));
        // The thread does not run for a while between two readings.
        let stopped = readings().enumerate().filter(|(index, _)| !(500..90_000).contains(index));
        assert_eq!(rate(stopped.map(|(_, reading)| reading)), Some(0.5));
    }

    #[test]
    fn a_clock_that_is_slow_to_read_has_no_rate() {
        assert_eq!(rate(readings().map(|(_, ns)| (None, ns))), None);
        assert_eq!(rate(std::iter::empty()), None);
    }

    #[test]
    fn events_have_the_time_of_the_system() {
        let read = if cfg!(miri) { 10 } else { 100_000 };
        for (count, event) in [event_ns, completed_ns].iter().cycle().take(read).enumerate() {
            let before = now_ns();
            let time = event();
            let after = now_ns();
            // Whatever interrupts this thread is between the readings too. A clock that the system adjusts is further away for a moment.
            assert!(before - 20_000 <= time && time <= after + 20_000, "{count}: {before} {time} {after}");
        }
    }

    /// Reads a simulated clock, with this many ns per tick at the time; returns the largest difference.
    fn simulate(rate: impl Fn(f64) -> f64, noise_ns: i64, ticks_between: u64, readings: usize) -> i64 {
        let mut random = 1_u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let (mut line, mut ticks, mut system_ns) = (Line::NONE, u64::MAX - (1 << 25), 1e15);
        let (mut last_ns, mut worst_ns, mut lines) = (0, 0, 0);
        for _ in 0..readings {
            let passed = next(2 * ticks_between);
            ticks = ticks.wrapping_add(passed);
            system_ns += passed as f64 * rate(system_ns - 1e15);
            let time = line.at(ticks).unwrap_or_else(|| {
                let ns = system_ns as i64 + next(2 * noise_ns as u64 + 1) as i64 - noise_ns;
                // Some readings are interrupted.
                line = line.renewed((next(10) != 0).then_some(ticks), ns);
                lines += usize::from(line.length_ticks != 0);
                line.start_ns
            });
            assert!(time >= last_ns, "it goes back from {last_ns} to {time}");
            last_ns = time;
            worst_ns = worst_ns.max((time - system_ns as i64).abs());
        }
        assert!(lines > readings / 10_000, "{lines} lines");
        worst_ns
    }

    #[test]
    fn lines_follow_the_clock_of_the_system() {
        assert!(simulate(|_| 0.385, 20, 500, 200_000) < 60, "a constant rate");
        assert!(simulate(|_| 0.385, 20, 1 << 18, 20_000) < 60, "few readings");
        // The rate changes by 0.05 % and back.
        let adjusted = |ns: f64| if (20e6..60e6).contains(&ns) { 0.385 * 1.0005 } else { 0.385 };
        assert!(simulate(adjusted, 20, 500, 500_000) < 300, "an adjusted rate");
        let adjusted = |ns: f64| if (20e6..60e6).contains(&ns) { 0.385 * 0.9995 } else { 0.385 };
        assert!(simulate(adjusted, 20, 500, 500_000) < 300, "an adjusted rate");
    }

    #[test]
    fn time_asleep_is_in_no_rate() {
        let mut line = Line::NONE;
        let (mut ticks, mut ns) = (1 << 40, 1 << 40);
        for _ in 0..100 {
            (ticks, ns) = (ticks + LINE_TICKS, ns + (LINE_TICKS / 2) as i64);
            line = line.renewed(Some(ticks), ns);
        }
        assert_eq!((line.length_ticks, line.ns_per_tick), (LINE_TICKS, 1 << 31));
        // The counter continues, the clock does not.
        ticks += MAX_RATE_TICKS + 1;
        line = line.renewed(Some(ticks), ns);
        assert_eq!(line.length_ticks, 0);
        assert!(line.at(ticks).is_none() && line.start_ns >= ns);
        for _ in 0..100 {
            (ticks, ns) = (ticks + LINE_TICKS, ns + (LINE_TICKS / 2) as i64);
            line = line.renewed(Some(ticks), ns);
        }
        assert_eq!((line.length_ticks, line.ns_per_tick, line.start_ns), (LINE_TICKS, 1 << 31, ns));
    }
}
