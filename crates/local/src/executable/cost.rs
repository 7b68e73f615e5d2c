use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The measured cost of a workgroup of a function: a moving average over its dispatches.
///
/// Measurements err upwards, by orders of magnitude if the thread is preempted. So the average falls at once
/// and rises slowly, however high a single measurement is.
#[derive(Default)]
pub(crate) struct Cost {
    /// In units of 1/[`UNITS`] ns, plus one; 0 until it is known.
    average: AtomicU64,
    dispatches: AtomicU64,
}

/// The costs of the functions of an executable, by ordinal.
pub(crate) type Costs = Arc<[Cost]>;

const UNITS: u64 = 64;

/// Reading the clock costs as much as a small dispatch, so after the first dispatches only every 16th is
/// measured.
const MEASURED_EVERY: u64 = 16;

impl Cost {
    /// The cost of `workgroups` in nanoseconds, if any was measured.
    pub(crate) fn of(&self, workgroups: u64) -> Option<u64> {
        let average = self.average.load(Ordering::Relaxed).checked_sub(1)?;
        Some(
            (u128::from(average) * u128::from(workgroups) / u128::from(UNITS)).try_into().unwrap_or(u64::MAX),
        )
    }

    /// How many workgroups take `nanoseconds`, if known; at least one.
    pub(crate) fn workgroups_in(&self, nanoseconds: u64) -> Option<u64> {
        let average = self.average.load(Ordering::Relaxed).checked_sub(1)?;
        Some((nanoseconds * UNITS / average.max(1)).max(1))
    }

    /// Whether the next dispatch is to be measured.
    pub(crate) fn is_due(&self) -> bool {
        let dispatches = self.dispatches.load(Ordering::Relaxed);
        // Concurrent dispatches may count as one: any of them will do.
        self.dispatches.store(dispatches.wrapping_add(1), Ordering::Relaxed);
        dispatches < MEASURED_EVERY || dispatches.is_multiple_of(MEASURED_EVERY)
    }

    /// Adds a measurement.
    pub(crate) fn add(&self, workgroups: u64, elapsed: Duration) {
        if workgroups == 0 {
            return;
        }
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let measured = nanoseconds.saturating_mul(UNITS) / workgroups;
        let average = match self.average.load(Ordering::Relaxed).checked_sub(1) {
            None => measured,
            Some(average) if measured < average => average / 2 + measured / 2,
            Some(average) => average + (measured - average).min(average) / 8 + 1,
        };
        // Of concurrent measurements one may be lost.
        self.average.store(average.saturating_add(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_what_is_measured() {
        let cost = Cost::default();
        assert_eq!((cost.of(5), cost.workgroups_in(1000)), (None, None));
        cost.add(0, Duration::from_nanos(77));
        assert_eq!(cost.of(5), None);
        cost.add(10, Duration::from_nanos(1000));
        assert_eq!(
            (cost.of(5), cost.workgroups_in(1000), cost.workgroups_in(1)),
            (Some(500), Some(10), Some(1))
        );
        cost.add(1, Duration::from_secs(10));
        assert!(cost.of(1).unwrap() <= 113, "an outlier counts little");
        for _ in 0..100 {
            cost.add(1, Duration::from_micros(10));
        }
        let of_one = cost.of(1).unwrap();
        assert!((9_900..=10_000).contains(&of_one), "{of_one}");
        for _ in 0..10 {
            cost.add(1, Duration::from_nanos(64));
        }
        let of_one = cost.of(1).unwrap();
        assert!((64..=80).contains(&of_one), "{of_one}");
        assert_eq!(cost.of(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn the_first_dispatches_and_some_of_the_others_are_measured() {
        let cost = Cost::default();
        assert_eq!((0..16).filter(|_| cost.is_due()).count(), 16);
        assert_eq!((0..160).filter(|_| cost.is_due()).count(), 10);
    }
}
