use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use rehal_base::{Context as _, Error, Result, TextWriter};

use crate::stats::Interval;
#[cfg(doc)]
use crate::stats::MIN_INTERVAL_SAMPLES;
use crate::{ConsoleReporter, Context, Counters, CsvReporter, Format, JsonReporter, Options, TimeUnit};

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
    /// What the samples of a repetition say beyond their mean; `None` unless [`Options::summary`] is set.
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

/// The outputs of a [`crate::Runner`].
pub struct Reporters<'a> {
    /// Names for `--benchmark_list_tests`; otherwise unused, since reporters write themselves.
    pub list: Box<dyn io::Write + 'a>,
    /// The report on standard output.
    pub display: Box<dyn Reporter + 'a>,
    /// The report file, `--benchmark_out`.
    pub file: Option<Box<dyn Reporter + 'a>>,
    /// Notes outside any report: an unmatched filter, logs.
    pub notes: Box<dyn io::Write + 'a>,
}

impl Reporters<'static> {
    /// Reports to standard output and the file that the options name; notes go to standard error.
    ///
    /// Creates the file; fails if that fails.
    pub fn from_options(options: &Options) -> Result<Self> {
        let file = |path: &PathBuf| -> Result<Box<dyn io::Write>> {
            let file = File::create(path)
                .map_err(|error| Error::io(format!("creating '{}'", path.display()), &error))
                .advise(|| "name a writable file with --benchmark_out".to_string())?;
            Ok(Box::new(io::BufWriter::new(file)))
        };
        let file = options.out.as_ref().map(file).transpose()?;
        let stdout = || Ok(TextWriter::new(io::stdout(), io::stdout().is_terminal()));
        Self::with_output(options, stdout, file)
    }

    /// Like [`Reporters::from_options`], with `out` as the source of writers to standard output, and `file`
    /// as the writer of the report file, if there is one.
    pub fn with_output(
        options: &Options,
        mut out: impl FnMut() -> Result<TextWriter<'static>>,
        file: Option<Box<dyn io::Write>>,
    ) -> Result<Self> {
        let file = file.map(|out| {
            let out = TextWriter::new(out, false);
            reporter(options.out_format, options.counters_tabular, false, out, None)
        });
        let display = reporter(
            options.format,
            options.counters_tabular,
            options.color.on_stdout(),
            out()?,
            Some(Box::new(notes())),
        );
        Ok(Self { list: Box::new(out()?), display, file, notes: Box::new(notes()) })
    }
}

/// Standard error: names in it cannot control a terminal.
fn notes() -> TextWriter<'static> {
    TextWriter::new(Notes(io::stderr()), true)
}

/// A writer that ignores failures: there is nowhere to report those of standard error.
struct Notes<W>(W);

impl<W: io::Write> io::Write for Notes<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// A reporter of the given format on `out`. `context_out` takes the context of console and CSV reports, to
/// keep it out of the results.
fn reporter(
    format: Format,
    tabular: bool,
    color: bool,
    out: TextWriter<'static>,
    context_out: Option<Box<dyn io::Write>>,
) -> Box<dyn Reporter> {
    match format {
        Format::Console => Box::new(ConsoleReporter::new(out, context_out).tabular(tabular).color(color)),
        Format::Json => Box::new(JsonReporter::new(Box::new(out))),
        Format::Csv => Box::new(CsvReporter::new(Box::new(out), context_out)),
    }
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

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{context::samples::context, report::samples::replay_run};

    #[test]
    fn the_file_has_the_requested_format() {
        let directory = tempfile::tempdir().unwrap();
        for (out_format, first, lines) in [
            (Format::Console, "2026-11-21T11:17:28+00:00", 10 + 4),
            (Format::Csv, "2026-11-21T11:17:28+00:00", 10 + 2),
            (Format::Json, "{", 58),
        ] {
            let path = directory.path().join("report");
            let options = Options { out: Some(path.clone()), out_format, ..Options::default() };
            let mut file = Reporters::from_options(&options).unwrap().file.unwrap();
            file.begin(&context()).unwrap();
            file.runs(&[replay_run()]).unwrap();
            file.finish().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!((text.lines().next(), text.lines().count()), (Some(first), lines), "{text}");
            assert!(!text.contains('\x1b'), "files have no colours");
        }
    }

    #[test]
    fn the_error_names_a_file_that_cannot_be_created() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing").join("report.json");
        let options = Options { out: Some(path.clone()), ..Options::default() };
        let error = Reporters::from_options(&options).err().unwrap();
        assert_eq!(
            error.report(),
            format!(
                "NOT_FOUND; creating '{}': No such file or directory\n  try: name a writable file with \
                 --benchmark_out",
                path.display()
            )
        );
    }
}
