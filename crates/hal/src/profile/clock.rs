//! The clock of events.

use std::sync::LazyLock;

use rehal_base::platform::{monotonic_ns, thread_cpu_ns};

pub use rehal_base::platform::process_cpu_ns;

/// The host's clock of profiles: monotonic nanoseconds, the same for all processes of a machine.
#[inline]
pub fn now_ns() -> i64 {
    monotonic_ns()
}

/// CPU time and wall time of a thread, in a section or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionTime {
    /// CPU time of the thread.
    pub cpu_ns: u64,
    /// Wall time.
    pub elapsed_ns: u64,
}

/// The clocks at the begin of a section that one thread executes. The CPU clock is read before the wall clock
/// here and after it at the end, so that no system call is within the wall time.
#[derive(Clone, Copy, Debug)]
pub struct SectionClock {
    cpu_ns: Option<i64>,
    /// The wall clock, as [`now_ns`].
    pub start_ns: i64,
}

impl SectionClock {
    /// The section begins. `has_cpu` says whether its CPU time is measured.
    #[inline]
    pub fn start(has_cpu: bool) -> Self {
        // In this order.
        let cpu_ns = has_cpu.then(thread_cpu_ns);
        Self { cpu_ns, start_ns: now_ns() }
    }

    /// The section ends, on the thread that began it. Returns when, by the wall clock, and its times if its
    /// CPU time is measured.
    #[inline]
    pub fn stop(self) -> (i64, Option<SectionTime>) {
        let end_ns = now_ns();
        let time = self.cpu_ns.map(|begun_ns| {
            let cpu_ns = thread_cpu_ns().saturating_sub(begun_ns).saturating_sub(*READING_NS);
            let unsigned = |ns: i64| u64::try_from(ns).unwrap_or(0);
            SectionTime { cpu_ns: unsigned(cpu_ns), elapsed_ns: unsigned(end_ns - self.start_ns) }
        });
        (end_ns, time)
    }

    /// Measures the costs of reading the clocks, so that the first section does not.
    pub fn prepare() {
        LazyLock::force(&READING_NS);
    }
}

/// The least CPU time of a section without work: what reading the clocks costs.
static READING_NS: LazyLock<i64> = LazyLock::new(|| {
    /// Number of empty sections: some are free of interrupts and of cache misses.
    const SECTIONS: usize = 1000;
    let empty = || {
        let begun_ns = thread_cpu_ns();
        let (_start_ns, _end_ns) = (now_ns(), now_ns());
        thread_cpu_ns().saturating_sub(begun_ns)
    };
    (0..SECTIONS).map(|_| empty()).min().unwrap_or(0).max(0)
});

/// The steps in which the clock advances, in nanoseconds; at least 1. A span is wrong by less than a step.
pub fn resolution_ns() -> f64 {
    /// Number of readings. The differences of fewer may have a larger common divisor than the step.
    const READINGS: usize = 1000;
    static RESOLUTION_NS: LazyLock<f64> = LazyLock::new(|| {
        let readings: Vec<i64> = (0..READINGS).map(|_| now_ns()).collect();
        step(&readings) as f64
    });
    *RESOLUTION_NS
}

/// The greatest common divisor of the differences of readings, at least 1.
fn step(readings: &[i64]) -> u64 {
    let differences = readings.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
    differences.fold(0, greatest_common_divisor).max(1)
}

/// The greatest common divisor of two numbers; the other one if one is 0.
pub fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    /// The wall clock counts time in which the thread does not run, the CPU clock does not.
    #[test]
    fn a_section_has_the_time_of_its_thread() {
        SectionClock::prepare();
        assert_eq!(SectionClock::start(false).stop().1, None);
        let empty = (0..1000).filter_map(|_| SectionClock::start(true).stop().1);
        let least = empty.min_by_key(|it| it.cpu_ns).unwrap();
        assert!(least.cpu_ns < 100, "reading the clocks is subtracted: {least:?}");
        // The clock of the thread that is read around both bounds their time, however busy the machine is.
        let around_ns = thread_cpu_ns();
        let (clock, begun_ns) = (SectionClock::start(true), now_ns());
        sleep(Duration::from_millis(20));
        let (end_ns, time) = clock.stop();
        let time = time.unwrap();
        assert_eq!(time.elapsed_ns, (end_ns - clock.start_ns) as u64);
        assert!(
            time.elapsed_ns >= 20_000_000 && time.cpu_ns <= (thread_cpu_ns() - around_ns) as u64,
            "{time:?}"
        );
        assert!(clock.start_ns <= begun_ns && begun_ns < end_ns);
        let around_ns = thread_cpu_ns();
        let (clock, begun_ns) = (SectionClock::start(true), thread_cpu_ns());
        while thread_cpu_ns() < begun_ns + 5_000_000 {}
        let time = clock.stop().1.unwrap();
        let most_ns = (thread_cpu_ns() - around_ns) as u64;
        assert!((4_990_000..=most_ns).contains(&time.cpu_ns) && time.elapsed_ns >= 4_990_000, "{time:?}");
    }

    #[test]
    fn a_clock_may_advance_by_several_nanoseconds_at_a_time() {
        assert_eq!(step(&[-26, 26, 26, 130, 156]), 26);
        assert_eq!(step(&[5, 57, 110]), 1);
        assert_eq!(step(&[7, 7]), 1);
    }
}
