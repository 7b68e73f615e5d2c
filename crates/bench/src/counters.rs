use std::collections::BTreeMap;

/// Counters of a run by name, in report order.
pub type Counters = BTreeMap<String, Counter>;

/// A value that a benchmark reports in addition to times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// The value set by the benchmark; in a finished [`crate::Run`] the value reported.
    pub value: f64,
    /// Divide by the measured seconds; printed with the suffix `/s`.
    pub is_rate: bool,
    /// The value is per iteration: multiply by the number of iterations.
    pub is_iteration_invariant: bool,
    /// The value is a sum over the iterations: divide by their number.
    pub is_iteration_average: bool,
    /// Report the reciprocal, after all other operations; a rate is then printed with the suffix `s`.
    pub is_inverted: bool,
    /// The value of `k` on the console.
    pub one_k: OneK,
}

/// The value of `k` on the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OneK {
    /// `k`, `M`, `G` … in steps of 1000.
    #[default]
    Is1000,
    /// `Ki`, `Mi`, `Gi` … in steps of 1024.
    Is1024,
}

impl Counter {
    /// A value that is reported unchanged.
    pub fn new(value: f64) -> Self {
        Self {
            value,
            is_rate: false,
            is_iteration_invariant: false,
            is_iteration_average: false,
            is_inverted: false,
            one_k: OneK::Is1000,
        }
    }

    /// A total over all iterations that is reported per second.
    pub fn rate(total: f64) -> Self {
        Self { is_rate: true, ..Self::new(total) }
    }

    /// A total over all iterations that is reported per iteration.
    pub fn average(total: f64) -> Self {
        Self { is_iteration_average: true, ..Self::new(total) }
    }

    /// A value per iteration whose total is reported.
    pub fn per_iteration(value: f64) -> Self {
        Self { is_iteration_invariant: true, ..Self::new(value) }
    }

    /// The same with steps of 1024, for bytes.
    pub fn binary(self) -> Self {
        Self { one_k: OneK::Is1024, ..self }
    }

    /// The reciprocal, for seconds per item.
    pub fn inverted(self) -> Self {
        Self { is_inverted: true, ..self }
    }

    /// The suffix of the value on the console.
    pub(crate) fn unit(&self) -> &'static str {
        match (self.is_rate, self.is_inverted) {
            (true, false) => "/s",
            (true, true) => "s",
            (false, _) => "",
        }
    }

    /// The value reported for a run of `iterations` iterations that took `measured_s` seconds by the
    /// benchmark's clock.
    pub(crate) fn finish(mut self, iterations: u64, measured_s: f64) -> Self {
        if self.is_rate {
            self.value /= measured_s;
        }
        if self.is_iteration_invariant {
            self.value *= iterations as f64;
        }
        if self.is_iteration_average {
            self.value /= iterations as f64;
        }
        if self.is_inverted {
            self.value = 1.0 / self.value;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_values_follow_the_flags() {
        let finish = |counter: Counter| counter.finish(4, 2.0).value;
        assert_eq!(finish(Counter::new(10.0)), 10.0);
        assert_eq!(finish(Counter::rate(10.0)), 5.0);
        assert_eq!(finish(Counter::rate(10.0).inverted()), 0.2);
        assert_eq!(finish(Counter::average(10.0)), 2.5);
        assert_eq!(finish(Counter::per_iteration(10.0)), 40.0);
        assert_eq!(finish(Counter { is_rate: true, ..Counter::per_iteration(10.0) }), 20.0);
    }

    #[test]
    fn units() {
        assert_eq!(Counter::new(1.0).unit(), "");
        assert_eq!(Counter::rate(1.0).unit(), "/s");
        assert_eq!(Counter::rate(1.0).inverted().unit(), "s");
        assert_eq!(Counter::new(1.0).inverted().unit(), "");
    }
}
