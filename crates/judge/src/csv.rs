use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use crate::{Context, Reporter, Run, number::general};

/// One line per run below a header line; names and text are quoted.
pub struct CsvReporter<'a> {
    out: Box<dyn Write + 'a>,
    context_out: Option<Box<dyn Write + 'a>>,
    /// Counters that the first runs may lack.
    known: BTreeSet<String>,
    /// The counters with columns of their own after the fixed ones; `None` before the header.
    counters: Option<BTreeSet<String>>,
}

const COLUMNS: &str = "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message";

/// Counters with fixed columns.
const FIXED_COUNTERS: [&str; 2] = ["bytes_per_second", "items_per_second"];

impl<'a> CsvReporter<'a> {
    /// Writes the lines to `out` and the context to `context_out`, or to `out` if that is `None`.
    pub fn new(out: Box<dyn Write + 'a>, context_out: Option<Box<dyn Write + 'a>>) -> Self {
        Self { out, context_out, known: BTreeSet::new(), counters: None }
    }

    fn line(run: &Run, own_counters: &BTreeSet<String>) -> String {
        let name = quoted(&run.name());
        match &run.error {
            Some(message) => format!("{name},,,,,,,,true,{}", quoted(message)),
            None => format!("{name},{}", Self::measured(run, own_counters)),
        }
    }

    fn measured(run: &Run, own_counters: &BTreeSet<String>) -> String {
        let counter = |name: &str| run.counters.get(name).map_or(String::new(), |c| general(c.value));
        let (real, cpu) = run.times();
        let unit = if run.is_percentage() { "" } else { run.unit.name() };
        let label = if run.label.is_empty() { String::new() } else { quoted(&run.label) };
        let [bytes, items] = FIXED_COUNTERS.map(counter);
        let (real, cpu) = (general(real), general(cpu));
        let mut line = format!("{},{real},{cpu},{unit},{bytes},{items},{label},,", run.iterations);
        for name in own_counters {
            line += &format!(",{}", counter(name));
        }
        line
    }
}

impl Reporter for CsvReporter<'_> {
    fn begin(&mut self, context: &Context) -> io::Result<()> {
        self.counters = None;
        self.known = own(context.counters.iter());
        let out = self.context_out.as_mut().unwrap_or(&mut self.out);
        context.write(out)?;
        out.flush()
    }

    fn runs(&mut self, runs: &[Run]) -> io::Result<()> {
        let mut names = own(runs.iter().flat_map(|run| run.counters.keys()));
        if self.counters.is_none() {
            names.extend(self.known.iter().cloned());
            let own: String = names.iter().map(|name| format!(",{}", quoted(name))).collect();
            writeln!(self.out, "{COLUMNS}{own}")?;
        }
        let columns = self.counters.get_or_insert_with(|| names.clone());
        if let Some(name) = names.difference(columns).next() {
            // The header is written; omitting the value would lose it silently.
            return Err(io::Error::other(format!(
                "counter '{name}' has no column, because the first benchmark did not report it; use JSON"
            )));
        }
        for run in runs {
            writeln!(self.out, "{}", Self::line(run, columns))?;
        }
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn own<'n>(names: impl Iterator<Item = &'n String>) -> BTreeSet<String> {
    names.filter(|name| !FIXED_COUNTERS.contains(&name.as_str())).cloned().collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Counter, Counters,
        context::samples::context,
        report::samples::{Shared, replay_cv, replay_run},
    };

    fn report(batches: &[&[Run]]) -> io::Result<String> {
        let out = Shared::default();
        let mut reporter = CsvReporter::new(Box::new(out.clone()), Some(Box::new(io::sink())));
        reporter.begin(&context())?;
        for runs in batches {
            reporter.runs(runs)?;
        }
        reporter.finish()?;
        Ok(out.text())
    }

    #[test]
    fn the_lines_match_the_reference() {
        // Captured from the pinned release with --benchmark_format=csv.
        let run = Run {
            real_time_s: 0.0689178e-3,
            cpu_time_s: 0.0691986e-3,
            counters: Counters::from([("items_per_second".into(), Counter::rate(14510.0))]),
            ..replay_run()
        };
        assert_eq!(
            report(&[&[run], &[replay_cv()]]).unwrap(),
            "\
name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message
\"BM_replay/process_time/real_time\",20,0.0689178,0.0691986,ms,,14510,,,
\"BM_replay/process_time/real_time_cv\",3,0.00803441,0.00519584,,,0.00806161,,,
"
        );
    }

    #[test]
    fn other_counters_get_columns_and_text_is_quoted() {
        let counters = |names: &[&str]| {
            names.iter().map(|name| (name.to_string(), Counter::new(2.5))).collect::<Counters>()
        };
        let run = |names: &[&str]| Run { run_name: "a\"b".into(), counters: counters(names), ..replay_run() };
        let labelled = Run { label: "x,y".into(), ..run(&["b", "bytes_per_second"]) };
        let failed = Run { error: Some("no, \"x\"".into()), ..run(&[]) };
        let text = report(&[&[run(&["a", "b"]), labelled], &[failed]]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "\"a\"\"b\",20,0.0697803,0.0700417,ms,,,,,,2.5,2.5",
                "\"a\"\"b\",20,0.0697803,0.0700417,ms,2.5,,\"x,y\",,,,2.5",
                "\"a\"\"b\",,,,,,,,true,\"no, \"\"x\"\"\"",
            ]
        );
        assert!(lines[0].ends_with("error_message,\"a\",\"b\""));
    }

    #[test]
    fn a_counter_without_a_column_is_an_error() {
        let late = Run { counters: Counters::from([("late".into(), Counter::new(1.0))]), ..replay_run() };
        let error = report(&[&[replay_run()], &[late]]).unwrap_err();
        assert!(error.to_string().starts_with("counter 'late' has no column"));
    }
}
