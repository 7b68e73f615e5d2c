//! The flags of Google Benchmark, as the pinned release's benchmark tools take them.
//!
//! As there, a flag that is not given may be given by an environment variable: `BENCHMARK_FORMAT` for
//! `--benchmark_format`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;

use rehal_base::{Context, Error, Result};
use rehal_bench::{Filter, Options, parse_context, parse_min_warmup_time, parse_repetitions};

use crate::flags::{Flag, Flags, Group};

/// The flags, with Google Benchmark's names and defaults.
pub(crate) const BENCHMARK: Group = Group {
    title: "Benchmark",
    flags: &[
        Flag::text(
            "benchmark_min_time",
            "Nx|SECONDS",
            "0.5s",
            "How long to measure: 20x for 20 iterations, 0.5s for as many as fill half a second.",
        ),
        Flag::text("benchmark_min_warmup_time", "SECONDS", "0", "How long to run before measuring."),
        Flag::text(
            "benchmark_repetitions",
            "COUNT",
            "1",
            "How often to repeat the measurement. With more than one, mean, median, standard deviation and \
             coefficient of variation are reported too.",
        ),
        Flag::text("benchmark_filter", "REGEX", "", "Runs benchmarks whose name matches; -REGEX the others."),
        Flag::benchmark_switch("benchmark_list_tests", false, "Prints the names of benchmarks, runs none."),
        Flag::benchmark_switch("benchmark_dry_run", false, "Runs each benchmark once."),
        Flag::text("benchmark_format", "FORMAT", "console", "What is printed: console, json or csv."),
        Flag::text("benchmark_out", "PATH", "", "Writes the report to a file too."),
        Flag::text("benchmark_out_format", "FORMAT", "json", "The file's format: console, json or csv."),
        Flag::benchmark_switch(
            "benchmark_report_aggregates_only",
            false,
            "Reports statistics over repetitions, not the repetitions.",
        ),
        Flag::benchmark_switch(
            "benchmark_display_aggregates_only",
            false,
            "The same for what is printed; the file has all.",
        ),
        Flag::text("benchmark_time_unit", "UNIT", "", "Unit of times: ns, us, ms or s."),
        Flag::text("benchmark_color", "WHEN", "auto", "Colours: auto, true or false."),
        Flag::benchmark_switch("benchmark_counters_tabular", false, "Prints counters as columns."),
        Flag::list("benchmark_context", "KEY=VALUE,...", "Adds facts to the report's context."),
        Flag::benchmark_switch(
            "benchmark_enable_random_interleaving",
            false,
            "Runs repetitions of all benchmarks in random order.",
        ),
        Flag::text("benchmark_perf_counters", "NAME,...", "", "Hardware counters; none is supported."),
        Flag::integer("v", 0, "How much to say of the runs on standard error."),
    ],
};

/// What the flags and the environment say. `program` is named in reports.
pub(crate) fn options(flags: &Flags, program: &OsStr) -> Result<Options> {
    let from = Source(flags);
    let mut options = Options {
        executable: Some(program.to_string_lossy().into_owned()),
        list_tests: from.switch("benchmark_list_tests")?,
        filter: from.parse("benchmark_filter", Filter::new)?,
        min_time: from.parse("benchmark_min_time", str::parse)?,
        min_warmup_time_s: from.parse("benchmark_min_warmup_time", parse_min_warmup_time)?,
        repetitions: from.parse("benchmark_repetitions", parse_repetitions)?,
        dry_run: from.switch("benchmark_dry_run")?,
        random_interleaving: from.switch("benchmark_enable_random_interleaving")?,
        report_aggregates_only: from.switch("benchmark_report_aggregates_only")?,
        display_aggregates_only: from.switch("benchmark_display_aggregates_only")?,
        format: from.parse("benchmark_format", str::parse)?,
        out: from.parse("benchmark_out", |path| Ok((!path.is_empty()).then(|| path.into())))?,
        out_format: from.parse("benchmark_out_format", str::parse)?,
        color: from.parse("benchmark_color", str::parse)?,
        counters_tabular: from.switch("benchmark_counters_tabular")?,
        perf_counters: from.parse("benchmark_perf_counters", names)?,
        time_unit: from.parse("benchmark_time_unit", |unit| {
            if unit.is_empty() { Ok(None) } else { unit.parse().map(Some) }
        })?,
        verbosity: i32::try_from(flags.integer("v")).unwrap_or(i32::MAX),
        context: BTreeMap::new(),
    };
    for pairs in from.list("benchmark_context") {
        parse_context(&pairs, &mut options.context).context(|| "--benchmark_context".into())?;
    }
    Ok(options)
}

fn names(list: &str) -> Result<Vec<String>> {
    Ok(list.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect())
}

/// Flags, and environment variables behind them.
struct Source<'f>(&'f Flags);

impl Source<'_> {
    fn parse<T>(&self, name: &'static str, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
        match self.variable(name) {
            Some((variable, text)) => parse(&text).context(|| format!("environment variable {variable}")),
            None => parse(self.0.text(name)).context(|| format!("--{name}")),
        }
    }

    fn switch(&self, name: &'static str) -> Result<bool> {
        match self.variable(name) {
            Some((variable, text)) => crate::flags::parse_benchmark_switch(&text).ok_or_else(|| {
                Error::invalid_argument(format!("'{text}': expected true or false"))
                    .context(format!("environment variable {variable}"))
            }),
            None => Ok(self.0.switch(name)),
        }
    }

    fn list(&self, name: &'static str) -> Vec<String> {
        match self.variable(name) {
            Some((_, text)) => vec![text],
            None => self.0.list(name).map(str::to_string).collect(),
        }
    }

    fn variable(&self, name: &'static str) -> Option<(String, String)> {
        let variable = name.to_ascii_uppercase();
        let text = env::var(&variable).ok().filter(|_| !self.0.is_given(name))?;
        Some((variable, text))
    }
}
