use std::io::{self, Write};

use rehal_base::{Error, Result};

use crate::stats::Interval;
#[cfg(doc)]
use crate::stats::MIN_INTERVAL_SAMPLES;
use crate::{Context, Counters, TimeUnit};

/// One line of a report: a repetition of a benchmark, or a statistic over its repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The benchmark's full name.
    pub run_name: String,
    /// The index among the selected benchmarks, from 0.
    pub family_index: usize,
    /// The number of repetitions requested.
    pub repetitions: u32,
    /// The kind of line.
    pub kind: RunKind,
    /// Iterations run; for an aggregate, the number of repetitions it covers.
    pub iterations: u64,
    /// Seconds of wall-clock or manual time per iteration (a fraction for [`AggregateUnit::Percentage`]).
    pub real_time_s: f64,
    /// Seconds of CPU time per iteration, likewise.
    pub cpu_time_s: f64,
    /// The unit of printed times.
    pub unit: TimeUnit,
    /// Finished counters.
    pub counters: Counters,
    /// Text after the line, often empty.
    pub label: String,
    /// Why the run failed and has no times.
    pub error: Option<String>,
    /// More statistics of a repetition's samples than the mean; `None` unless [`Options::summary`] is set.
    pub samples: Option<SampleStatistics>,
}

/// Statistics of the samples of a repetition: consecutive iterations, by the clock of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleStatistics {
    /// The number of samples.
    pub count: usize,
    /// The median in seconds per iteration.
    pub median_s: f64,
    /// Its 95 % interval; `None` with fewer than [`MIN_INTERVAL_SAMPLES`] samples.
    pub interval_s: Option<Interval>,
    /// The median absolute deviation in seconds per iteration.
    pub mad_s: f64,
}

/// The kind of a report line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// One repetition, counted from 0.
    Iteration {
        /// Its index.
        repetition_index: u32,
    },
    /// A statistic over all repetitions.
    Aggregate {
        /// `mean`, `median`, `stddev` or `cv`.
        name: &'static str,
        /// The unit of its numbers.
        unit: AggregateUnit,
    },
}

/// The unit of an aggregate's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateUnit {
    /// Times, like those of a repetition.
    Time,
    /// Fractions of 1, printed as percentages on the console.
    Percentage,
}

impl Run {
    /// The name of the line: that of the benchmark, with a suffix such as `_mean`.
    pub fn name(&self) -> String {
        match &self.kind {
            RunKind::Iteration { .. } => self.run_name.clone(),
            RunKind::Aggregate { name, .. } => format!("{}_{name}", self.run_name),
        }
    }

    /// Whether the numbers are fractions instead of times.
    pub fn is_percentage(&self) -> bool {
        matches!(self.kind, RunKind::Aggregate { unit: AggregateUnit::Percentage, .. })
    }

    /// Real and CPU time per iteration in the run's unit; fractions unchanged.
    pub fn times(&self) -> (f64, f64) {
        let factor = if self.is_percentage() { 1.0 } else { self.unit.per_second() };
        (self.real_time_s * factor, self.cpu_time_s * factor)
    }
}

/// Writes a report incrementally, run by run.
pub trait Reporter {
    /// Called before the first run.
    fn begin(&mut self, context: &Context) -> io::Result<()>;
    /// Reports at least one run, as soon as it is known.
    fn runs(&mut self, runs: &[Run]) -> io::Result<()>;
    /// Called after the last run, even if one failed.
    fn finish(&mut self) -> io::Result<()>;
}

pub(crate) fn write_to(out: &mut dyn Write, text: std::fmt::Arguments<'_>) -> Result<()> {
    out.write_fmt(text).and_then(|()| out.flush()).map_err(write_error)
}

pub(crate) fn write_error(error: io::Error) -> Error {
    Error::io("writing the benchmark report", &error)
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::Counter;

    /// A repetition with the numbers of a run of the pinned release.
    pub(crate) fn replay_run() -> Run {
        Run {
            run_name: "BM_replay/process_time/real_time".into(),
            family_index: 0,
            repetitions: 1,
            kind: RunKind::Iteration { repetition_index: 0 },
            iterations: 20,
            real_time_s: 6.978_034_998_610_383e-5,
            cpu_time_s: 7.004_165_000_000_008e-5,
            unit: TimeUnit::Millisecond,
            counters: Counters::from([("items_per_second".into(), Counter::rate(14330.681921187577))]),
            label: String::new(),
            error: None,
            samples: None,
        }
    }

    /// The `_cv` line of that run.
    pub(crate) fn replay_cv() -> Run {
        Run {
            kind: RunKind::Aggregate { name: "cv", unit: AggregateUnit::Percentage },
            repetitions: 3,
            iterations: 3,
            real_time_s: 8.034_409_487_544_079e-3,
            cpu_time_s: 5.195_844_479_667_596e-3,
            counters: Counters::from([("items_per_second".into(), Counter::rate(8.061_611_925_547_975e-3))]),
            ..replay_run()
        }
    }

    /// Memory that a test reads back from the reporter.
    #[derive(Clone, Default)]
    pub(crate) struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

    impl Shared {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
