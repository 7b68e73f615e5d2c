//! The time-stamp counter of the processor, where it can serve as a clock.

pub use self::system::{completed_ticks, is_usable, ticks};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod system {
    #![allow(unsafe_code, reason = "the instructions have no safe functions")]

    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    use std::fs;
    use std::sync::LazyLock;

    /// Whether the counter can serve as a clock: the system's own clock is the counter, so the system has found that it has the same
    /// value on all processors, and always the same rate.
    pub fn is_usable() -> bool {
        static IS_USABLE: LazyLock<bool> = LazyLock::new(|| {
            let source = fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
            source.is_ok_and(|source| source.trim_ascii() == b"tsc")
        });
        *IS_USABLE
    }

    /// The value of the counter. It may be that of some nanoseconds earlier, when instructions before the call were not complete.
    #[inline]
    pub fn ticks() -> u64 {
        // SAFETY: all x86-64 processors have the instruction, which reads a register.
        unsafe { _rdtsc() }
    }

    /// The same once the instructions before the call are complete. It takes longer.
    #[inline]
    pub fn completed_ticks() -> u64 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_lfence() };
        ticks()
    }
}

/// Without a counter.
#[cfg(any(not(target_arch = "x86_64"), miri))]
mod system {
    pub fn is_usable() -> bool {
        false
    }

    #[inline]
    pub fn ticks() -> u64 {
        0
    }

    #[inline]
    pub fn completed_ticks() -> u64 {
        0
    }
}

/// The number of ticks by which the counter advances at a time: it may count a slower clock in ticks of a faster one, as those of AMD
/// processors do. `None` if it is not [usable](is_usable).
pub fn step_ticks() -> Option<u64> {
    /// So many readings differ by a common multiple of the step once in a lifetime.
    const READINGS: usize = 1000;
    if !is_usable() {
        return None;
    }
    let readings: Vec<u64> = (0..READINGS).map(|_| completed_ticks()).collect();
    Some(common_step(&readings))
}

/// The greatest common divisor of the differences of readings, at least 1.
fn common_step(readings: &[u64]) -> u64 {
    let differences = readings.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    differences.fold(0, greatest_common_divisor).max(1)
}

/// Of two numbers, or the other one if one is 0.
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
    fn it_may_advance_by_several_ticks_at_a_time() {
        assert_eq!(common_step(&[u64::MAX - 25, 26, 26, 130, 156]), 26);
        assert_eq!(common_step(&[5, 57, 110]), 1);
        assert_eq!(common_step(&[7, 7]), 1);
        assert_eq!(step_ticks().is_some(), is_usable());
    }

    #[test]
    fn it_counts() {
        let before = completed_ticks();
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 1 {}
        let passed = completed_ticks().wrapping_sub(before);
        // Above 100 MHz and below 100 GHz, unless the thread was interrupted.
        assert!(!is_usable() || passed > 100_000, "{passed}");
    }
}
