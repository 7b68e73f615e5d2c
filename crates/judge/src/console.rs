use std::io::{self, Write};

use rehal_base::{Align, TextWriter, padded};

use crate::{
    Context, Counters, Reporter, Run,
    number::{general, human_readable, scientific},
};

/// A human-readable table: one line per run, in fixed-width columns that scripts can cut.
pub struct ConsoleReporter<'a> {
    out: TextWriter<'a>,
    context_out: Option<Box<dyn Write + 'a>>,
    tabular: bool,
    color: bool,
    name_width: usize,
    /// The counter names under the last header; `None` before the first.
    head: Option<Vec<String>>,
}

/// The sequences of ANSI colours.
type Ink = &'static str;
const RED: Ink = "\x1b[0;31m";
const GREEN: Ink = "\x1b[0;32m";
const YELLOW: Ink = "\x1b[0;33m";
const CYAN: Ink = "\x1b[0;36m";
const PLAIN: Ink = "\x1b[m";

impl<'a> ConsoleReporter<'a> {
    /// Writes the table to `out` and the context to `context_out`, or to `out` if that is `None`.
    pub fn new(out: TextWriter<'a>, context_out: Option<Box<dyn Write + 'a>>) -> Self {
        Self { out, context_out, tabular: false, color: false, name_width: 10, head: None }
    }

    /// Whether counters are columns, with a new header when their names change.
    pub fn tabular(self, tabular: bool) -> Self {
        Self { tabular, ..self }
    }

    /// Whether lines are coloured.
    pub fn color(self, color: bool) -> Self {
        Self { color, ..self }
    }

    fn write_head(&mut self, counters: &Counters) -> io::Result<()> {
        let width = self.name_width;
        let name = padded("Benchmark", width, Align::Left);
        let mut head = format!("{name} {:>13} {:>15} {:>12}", "Time", "CPU", "Iterations");
        if self.tabular {
            head.extend(counters.keys().map(|name| format!(" {name:>10}")));
        } else if !counters.is_empty() {
            head += " UserCounters...";
        }
        let rule = "-".repeat(head.chars().count());
        writeln!(self.out, "{rule}\n{head}\n{rule}")
    }

    /// The parts of a line, with their colours.
    fn line(&self, run: &Run) -> Vec<(Option<Ink>, String)> {
        let name = padded(&run.name(), self.name_width, Align::Left) + " ";
        let mut line = vec![(Some(GREEN), name)];
        match &run.error {
            Some(message) => line.push((Some(RED), format!("ERROR OCCURRED: '{message}'"))),
            None => {
                line.push((Some(YELLOW), times(run)));
                line.push((Some(CYAN), format!("{:>10}", run.iterations)));
                line.extend(self.counters(run).map(|text| (None, text)));
                if !run.label.is_empty() {
                    line.push((None, format!(" {}", run.label)));
                }
            }
        }
        line.push((None, "\n".into()));
        line
    }

    fn write_line(&mut self, run: &Run) -> io::Result<()> {
        let line = self.line(run);
        if !self.color {
            let text: String = line.into_iter().map(|(_, text)| text).collect();
            return self.out.write_all(text.as_bytes());
        }
        for (ink, text) in line {
            ink.map_or(Ok(()), |ink| self.out.style(ink))?;
            self.out.write_all(text.as_bytes())?;
            self.out.style(PLAIN)?;
        }
        Ok(())
    }

    fn counters(&self, run: &Run) -> impl Iterator<Item = String> {
        run.counters.iter().map(|(name, counter)| {
            let (value, unit) = if run.is_percentage() {
                (fixed(100.0 * counter.value, 2), "%")
            } else {
                (human_readable(counter.value), counter.unit())
            };
            if self.tabular {
                let width = name.chars().count().max(10) - unit.len();
                format!(" {}{unit}", padded(&value, width, Align::Right))
            } else {
                format!(" {name}={value}{unit}")
            }
        })
    }
}

impl Reporter for ConsoleReporter<'_> {
    fn begin(&mut self, context: &Context) -> io::Result<()> {
        self.name_width = context.name_width;
        self.head = None;
        let out: &mut dyn Write = match &mut self.context_out {
            Some(out) => out,
            None => &mut self.out,
        };
        context.write(out)?;
        out.flush()
    }

    fn runs(&mut self, runs: &[Run]) -> io::Result<()> {
        for run in runs {
            let names: Vec<String> = run.counters.keys().cloned().collect();
            if self.head.as_ref().is_none_or(|head| self.tabular && *head != names) {
                self.write_head(&run.counters)?;
                self.head = Some(names);
            }
            self.write_line(run)?;
        }
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Both times with their unit, or both fractions in percent.
fn times(run: &Run) -> String {
    let (real, cpu) = run.times();
    if run.is_percentage() {
        let percent = |share: f64| format!("{:>10} {:<4} ", fixed(100.0 * share, 2), "%");
        return percent(real) + &percent(cpu);
    }
    let time = |time: f64| format!("{} {:<4} ", time_column(time), run.unit.name());
    time(real) + &time(cpu)
}

/// A time in ten columns: the larger, the fewer decimals; if it does not fit, an exponent.
fn time_column(time: f64) -> String {
    let digits = match time {
        time if time < 1.0 => 3,
        time if time < 10.0 => 2,
        time if time < 100.0 => 1,
        time if time > 9_999_999_999.0 => return scientific(time, 4),
        _ => 0,
    };
    format!("{:>10}", fixed(time, digits))
}

/// A number with the given number of decimals; infinity and NaN as C prints them.
fn fixed(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { general(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AggregateUnit, Counter, RunKind, TimeUnit,
        context::samples::context,
        report::samples::{Shared, replay_cv, replay_run},
    };

    struct Report {
        out: Shared,
        notes: Shared,
        reporter: ConsoleReporter<'static>,
    }

    fn report(name_width: usize) -> Report {
        let (out, notes) = (Shared::default(), Shared::default());
        let mut reporter =
            ConsoleReporter::new(TextWriter::new(out.clone(), false), Some(Box::new(notes.clone())));
        reporter.begin(&Context { name_width, ..context() }).unwrap();
        Report { out, notes, reporter }
    }

    fn items(per_second: f64) -> Counters {
        Counters::from([("items_per_second".into(), Counter::rate(per_second))])
    }

    #[test]
    fn the_table_matches_the_reference() {
        // Captured from the pinned release: iree-benchmark-replay --benchmark_min_time=20x.
        let mut report = report(32);
        let run =
            Run { real_time_s: 0.000123, cpu_time_s: 0.0001231, counters: items(8120.15), ..replay_run() };
        report.reporter.runs(&[run]).unwrap();
        assert_eq!(
            report.out.text(),
            "\
-------------------------------------------------------------------------------------------
Benchmark                                 Time             CPU   Iterations UserCounters...
-------------------------------------------------------------------------------------------
BM_replay/process_time/real_time      0.123 ms        0.123 ms           20 items_per_second=8.12015k/s
"
        );
        assert!(report.notes.text().starts_with("2026-11-21T11:17:28+00:00\nRunning bin/"));
    }

    #[test]
    fn aggregates_match_the_reference() {
        // Captured with --benchmark_repetitions=3 --benchmark_min_time=0.01s.
        let mut report = report(39);
        let aggregate = |name, real: f64, cpu: f64, rate| Run {
            kind: RunKind::Aggregate { name, unit: AggregateUnit::Time },
            iterations: 3,
            real_time_s: real,
            cpu_time_s: cpu,
            counters: items(rate),
            ..replay_run()
        };
        let cv = Run { real_time_s: 0.0067, cpu_time_s: 0.0066, counters: items(0.0067), ..replay_cv() };
        report
            .reporter
            .runs(&[
                Run {
                    iterations: 207,
                    real_time_s: 6.7e-5,
                    cpu_time_s: 6.7e-5,
                    counters: items(14850.8),
                    ..replay_run()
                },
                aggregate("mean", 6.7e-5, 6.7e-5, 14944.1),
                aggregate("stddev", 1e-7, 1e-7, 99.94),
                cv,
            ])
            .unwrap();
        assert_eq!(
            report.out.text(),
            "\
--------------------------------------------------------------------------------------------------
Benchmark                                        Time             CPU   Iterations UserCounters...
--------------------------------------------------------------------------------------------------
BM_replay/process_time/real_time             0.067 ms        0.067 ms          207 items_per_second=14.8508k/s
BM_replay/process_time/real_time_mean        0.067 ms        0.067 ms            3 items_per_second=14.9441k/s
BM_replay/process_time/real_time_stddev      0.000 ms        0.000 ms            3 items_per_second=99.94/s
BM_replay/process_time/real_time_cv           0.67 %          0.66 %             3 items_per_second=0.67%
"
        );
    }

    #[test]
    fn tabular_counters_match_the_reference() {
        // Captured with --benchmark_counters_tabular=true --benchmark_repetitions=2.
        let mut report = report(39);
        report.reporter = report.reporter.tabular(true);
        let cv = Run {
            iterations: 2,
            real_time_s: 0.0948,
            cpu_time_s: 0.0927,
            counters: items(0.0948),
            ..replay_cv()
        };
        let run = Run { real_time_s: 7.8e-5, cpu_time_s: 7.6e-5, counters: items(12764.3), ..replay_run() };
        let bare = Run { counters: Counters::new(), ..run.clone() };
        report.reporter.runs(&[run, cv, bare]).unwrap();
        // The second header, without counters, is ours: the first three columns of the first.
        let (wide, narrow) = ("-".repeat(99), "-".repeat(82));
        let want = format!(
            "\
{wide}
Benchmark                                        Time             CPU   Iterations items_per_second
{wide}
BM_replay/process_time/real_time             0.078 ms        0.076 ms           20       12.7643k/s
BM_replay/process_time/real_time_cv           9.48 %          9.27 %             2            9.48%
{narrow}
Benchmark                                        Time             CPU   Iterations
{narrow}
BM_replay/process_time/real_time             0.078 ms        0.076 ms           20
"
        );
        assert_eq!(report.out.text(), want);
    }

    #[test]
    fn colours_match_the_reference() {
        // Captured with --benchmark_color=true.
        let mut report = report(39);
        report.reporter = report.reporter.color(true);
        let run = Run {
            iterations: 5,
            real_time_s: 0.000115,
            cpu_time_s: 0.000115,
            counters: items(8725.53),
            ..replay_run()
        };
        report.reporter.runs(&[run]).unwrap();
        let text = report.out.text();
        assert_eq!(
            text.lines().skip(3).collect::<Vec<_>>(),
            [
                "\x1b[0;32mBM_replay/process_time/real_time        \x1b[m\x1b[0;33m     0.115 ms        \
                 0.115 ms   \x1b[m\x1b[0;36m         5\x1b[m items_per_second=8.72553k/s\x1b[m",
                "\x1b[m",
            ]
        );
    }

    #[test]
    fn failed_runs_say_why() {
        let mut report = report(10);
        let run = Run { run_name: "BM_x".into(), label: "label".into(), ..replay_run() };
        let error = Run { error: Some("no 'device'".into()), counters: Counters::new(), ..run.clone() };
        report.reporter.runs(&[error, run]).unwrap();
        let text = report.out.text();
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "BM_x       ERROR OCCURRED: 'no 'device''",
                "BM_x            0.070 ms        0.070 ms           20 items_per_second=14.3307k/s label",
            ]
        );
    }

    #[test]
    fn times_fit_their_column() {
        for (time, want) in [
            (0.0, "     0.000"),
            (0.9994, "     0.999"),
            (0.9999, "     1.000"),
            (1.0, "      1.00"),
            (10.0, "      10.0"),
            (99.96, "     100.0"),
            (123.456, "       123"),
            (9999999999.0, "9999999999"),
            (12345678901.0, "1.2346e+10"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "       nan"),
        ] {
            assert_eq!(time_column(time), want);
        }
        let seconds = Run { unit: TimeUnit::Second, real_time_s: 2.5, ..replay_run() };
        assert_eq!(times(&seconds), "      2.50 s         0.000 s    ");
    }

    #[test]
    fn without_a_second_stream_the_context_comes_first() {
        let out = Shared::default();
        let mut reporter = ConsoleReporter::new(TextWriter::new(out.clone(), false), None);
        reporter.begin(&context()).unwrap();
        reporter.runs(&[replay_run()]).unwrap();
        reporter.finish().unwrap();
        let text = out.text();
        assert!(text.starts_with("2026-11-21"));
        assert_eq!(text.lines().count(), 10 + 4);
    }
}
