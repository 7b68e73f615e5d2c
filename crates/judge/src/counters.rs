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
}

impl Counter {
    /// A value that is reported unchanged.
    pub fn new(value: f64) -> Self {
        Self { value, is_rate: false }
    }

    /// A total over all iterations that is reported per second.
    pub fn rate(total: f64) -> Self {
        Self { value: total, is_rate: true }
    }

    /// The suffix of the value on the console.
    pub(crate) fn unit(&self) -> &'static str {
        if self.is_rate { "/s" } else { "" }
    }

    /// The value reported for a run whose iterations took `measured_s` seconds by the benchmark's clock.
    pub(crate) fn finish(mut self, measured_s: f64) -> Self {
        if self.is_rate {
            self.value /= measured_s;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second() {
        let finish = |counter: Counter| counter.finish(2.0);
        assert_eq!((finish(Counter::new(10.0)).value, Counter::new(1.0).unit()), (10.0, ""));
        assert_eq!((finish(Counter::rate(10.0)).value, Counter::rate(1.0).unit()), (5.0, "/s"));
    }
}
