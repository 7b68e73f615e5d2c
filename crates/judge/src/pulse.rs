use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// How far a measurement is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measuring {
    /// Number of samples so far.
    pub sample_count: u64,
    /// The part of its limit, from 0 to 1; it may end before, once it knows enough.
    pub done: f64,
}

impl Measuring {
    /// After so many samples and so much time. The limit that is reached first counts; `None` for no limit.
    pub fn from_limits(samples: (u64, Option<u64>), time: (Duration, Option<Duration>)) -> Self {
        let of_samples = samples.1.map_or(0.0, |limit| samples.0 as f64 / limit.max(1) as f64);
        let of_time = time.1.map_or(0.0, |limit| time.0.as_secs_f64() / limit.as_secs_f64().max(1e-9));
        Self { sample_count: samples.0, done: of_samples.max(of_time).min(1.0) }
    }
}

type Beat = dyn Fn(Measuring) -> ControlFlow<()> + Send + Sync;

/// The function that a program calls between the samples of a measurement, such as to show how far it is; it
/// may end the measurement, which then tells what it knows. Does nothing by default.
#[derive(Clone, Default)]
pub struct Pulse(Option<Arc<Beat>>);

impl Pulse {
    /// Calls this function.
    pub fn new(beat: impl Fn(Measuring) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(beat)))
    }

    /// Called after a sample; whether to go on.
    pub fn beat(&self, measuring: Measuring) -> ControlFlow<()> {
        self.0.as_ref().map_or(ControlFlow::Continue(()), |beat| beat(measuring))
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Pulse").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_reached_first_counts() {
        let of = |limit, limit_s: Option<u64>| {
            let elapsed = Duration::from_secs(3);
            Measuring::from_limits((5, limit), (elapsed, limit_s.map(Duration::from_secs))).done
        };
        assert_eq!([of(None, None), of(Some(10), None), of(None, Some(4))], [0.0, 0.5, 0.75]);
        assert_eq!([of(Some(10), Some(4)), of(Some(2), Some(4)), of(Some(0), Some(0))], [0.75, 1.0, 1.0]);
    }

    #[test]
    fn a_pulse_may_end_a_measurement() {
        let measuring = Measuring::from_limits((1, None), (Duration::ZERO, None));
        assert!(Pulse::default().beat(measuring).is_continue());
        assert!(Pulse::new(|_| ControlFlow::Break(())).beat(measuring).is_break());
    }
}
