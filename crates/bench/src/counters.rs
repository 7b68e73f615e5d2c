use std::collections::BTreeMap;

/// Counters of a run by name, in the order that reports print them.
pub type Counters = BTreeMap<String, Counter>;

/// A value that a benchmark reports beside its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// What the benchmark set; in a finished [`crate::Run`] what is reported.
    pub value: f64,
    /// Divide by the seconds that were measured; printed with `/s` behind it.
    pub is_rate: bool,
    /// The value holds for one iteration: multiply by their number.
    pub is_iteration_invariant: bool,
    /// The value is a sum over the iterations: divide by their number.
    pub is_iteration_average: bool,
    /// Report the reciprocal, after all else; a rate is then printed with `s` behind it.
    pub is_inverted: bool,
    /// What `k` stands for on the console.
    pub one_k: OneK,
}

/// What `k` stands for on the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OneK {
    /// `k`, `M`, `G` … in steps of 1000.
    #[default]
    Is1000,
    /// `Ki`, `Mi`, `Gi` … in steps of 1024.
    Is1024,
}

impl Counter {
    /// A value that is reported as it is.
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

    /// A value of every iteration whose total is reported.
    pub fn per_iteration(value: f64) -> Self {
        Self { is_iteration_invariant: true, ..Self::new(value) }
    }

    /// The same in steps of 1024, for bytes.
    pub fn binary(self) -> Self {
        Self { one_k: OneK::Is1024, ..self }
    }

    /// The reciprocal, for seconds per item.
    pub fn inverted(self) -> Self {
        Self { is_inverted: true, ..self }
    }

    /// What stands behind the value on the console.
    pub(crate) fn unit(&self) -> &'static str {
        match (self.is_rate, self.is_inverted) {
            (true, false) => "/s",
            (true, true) => "s",
            (false, _) => "",
        }
    }

    /// The value that is reported for a run of `iterations` iterations that took `measured_s` seconds by
    /// the clock that the benchmark is measured with.
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
    fn finishes_by_what_it_means() {
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
