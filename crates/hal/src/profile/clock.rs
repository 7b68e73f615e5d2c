//! The clock of events.

use std::sync::LazyLock;

/// The host's clock of profiles: monotonic nanoseconds, the same for all processes of a machine.
#[inline]
pub fn now_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

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
    use super::*;

    #[test]
    fn a_clock_may_advance_by_several_nanoseconds_at_a_time() {
        assert_eq!(step(&[-26, 26, 26, 130, 156]), 26);
        assert_eq!(step(&[5, 57, 110]), 1);
        assert_eq!(step(&[7, 7]), 1);
    }
}
