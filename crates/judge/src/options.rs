use std::{collections::BTreeMap, io::IsTerminal, str::FromStr};

use rehal_base::{Error, Result};

use crate::{Filter, Pulse};

/// Limit on the iterations of one run, the same as in Google Benchmark 1.9.5.
pub const MAX_ITERATIONS: u64 = 1_000_000_000_000;

/// The `--benchmark_*` flags, one field per flag. The defaults are the flags' defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// `argv[0]`, printed in the context; omitted if `None`.
    pub executable: Option<String>,
    /// `--benchmark_list_tests`: print names and run nothing.
    pub list_tests: bool,
    /// `--benchmark_filter`.
    pub filter: Filter,
    /// `--benchmark_min_time`, parsed by [`MinTime::from_str`].
    pub min_time: MinTime,
    /// `--benchmark_min_warmup_time` in seconds, parsed by [`parse_min_warmup_time`].
    pub min_warmup_time_s: f64,
    /// `--benchmark_repetitions`, from 1 to `i32::MAX`.
    pub repetitions: u32,
    /// `--benchmark_dry_run`: one iteration and one repetition, overriding all else.
    pub dry_run: bool,
    /// `--benchmark_enable_random_interleaving`: repetitions of all benchmarks in random order.
    pub random_interleaving: bool,
    /// `--benchmark_report_aggregates_only`: omit repetitions from all reports.
    pub report_aggregates_only: bool,
    /// `--benchmark_display_aggregates_only`: omit repetitions from standard output.
    pub display_aggregates_only: bool,
    /// `--benchmark_format`: the format of standard output.
    pub format: Format,
    /// `--benchmark_out`: an additional report file.
    pub out: Option<std::path::PathBuf>,
    /// `--benchmark_out_format`.
    pub out_format: Format,
    /// `--benchmark_color`.
    pub color: Color,
    /// `--benchmark_counters_tabular`: counters as columns instead of `name=value`.
    pub counters_tabular: bool,
    /// `--benchmark_perf_counters`: hardware counters, none of which is supported (nor by the pinned
    /// release's build); naming one prints a note.
    pub perf_counters: Vec<String>,
    /// `--benchmark_context`, parsed by [`parse_context`]: printed with the context, sorted by key.
    pub context: BTreeMap<String, String>,
    /// `--benchmark_time_unit`: for benchmarks without a fixed unit.
    pub time_unit: Option<TimeUnit>,
    /// `--benchmark_summary`: statistics of each benchmark's samples as notes, after its last repetition.
    pub summary: bool,
    /// `--v`: 2 logs each run on standard error, 3 each prediction too.
    pub verbosity: i32,
    /// Called after a sample, and after each repetition, of which it tells how far it is. If it ends the
    /// measurement, reports have what was measured until then.
    pub pulse: Pulse,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            executable: None,
            list_tests: false,
            filter: Filter::default(),
            min_time: MinTime::default(),
            min_warmup_time_s: 0.0,
            repetitions: 1,
            dry_run: false,
            random_interleaving: false,
            report_aggregates_only: false,
            display_aggregates_only: false,
            format: Format::Console,
            out: None,
            out_format: Format::Json,
            color: Color::Auto,
            counters_tabular: false,
            perf_counters: Vec::new(),
            context: BTreeMap::new(),
            time_unit: None,
            summary: false,
            verbosity: 0,
            pulse: Pulse::default(),
        }
    }
}

/// Duration of one repetition: `20x` iterations, or at least `0.5s`. The `s` is optional.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MinTime {
    /// This many iterations, 1 to [`MAX_ITERATIONS`].
    Iterations(u64),
    /// At least this many seconds, finite and not negative.
    Seconds(f64),
}

impl Default for MinTime {
    fn default() -> Self {
        Self::Seconds(0.5)
    }
}

impl FromStr for MinTime {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = match text.strip_suffix('x') {
            Some(count) => digits(count).filter(|n| (1..=MAX_ITERATIONS).contains(n)).map(Self::Iterations),
            None => seconds(text.strip_suffix('s').unwrap_or(text)).map(Self::Seconds),
        };
        parsed.ok_or_else(|| {
            Error::invalid_argument(format!("'{text}' is not a number of iterations or seconds")).advise(
                format!(
                    "write iterations as '20x' (1 to {MAX_ITERATIONS}) or seconds as '0.5s' (not negative)"
                ),
            )
        })
    }
}

/// Seconds of warm-up: a finite, non-negative number with an optional trailing `s`.
pub fn parse_min_warmup_time(text: &str) -> Result<f64> {
    seconds(text.strip_suffix('s').unwrap_or(text)).ok_or_else(|| {
        Error::invalid_argument(format!("'{text}' is not a time in seconds"))
            .advise("write seconds as '0.5' (not negative)")
    })
}

/// Adds the pairs of `key=value,key=value` to `context`. A value may contain `=` but no comma; a duplicate
/// key is an error.
pub fn parse_context(text: &str, context: &mut BTreeMap<String, String>) -> Result<()> {
    for pair in text.split(',') {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Error::invalid_argument(format!(
                "'{pair}' in '{text}' is not of the form key=value"
            ))
            .advise("write key=value,key=value"));
        };
        if let Some(before) = context.insert(key.to_string(), value.to_string()) {
            return Err(Error::invalid_argument(format!(
                "duplicate context key '{key}': '{before}' and '{value}'"
            )));
        }
    }
    Ok(())
}

/// The unit of reported times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// `ns`
    #[default]
    Nanosecond,
    /// `us`
    Microsecond,
    /// `ms`
    Millisecond,
    /// `s`
    Second,
}

impl TimeUnit {
    /// Its name in reports: `ns`, `us`, `ms`, `s`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanosecond => "ns",
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
            Self::Second => "s",
        }
    }

    /// Units per second.
    pub fn per_second(self) -> f64 {
        match self {
            Self::Nanosecond => 1e9,
            Self::Microsecond => 1e6,
            Self::Millisecond => 1e3,
            Self::Second => 1.0,
        }
    }
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A human-readable table.
    Console,
    /// One JSON object, schema version 1.
    Json,
    /// One line per run.
    Csv,
}

/// When the console table is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// On a terminal that is not `TERM=dumb`, unless `NO_COLOR` is set.
    Auto,
    /// Always, even into a pipe.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether a table on standard output is coloured.
    pub fn on_stdout(self) -> bool {
        let env = |name| std::env::var(name).unwrap_or_default();
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                std::io::stdout().is_terminal()
                    && !matches!(env("TERM").as_str(), "" | "dumb")
                    && env("NO_COLOR").is_empty()
            }
        }
    }
}

/// Decimal digits only: `u64::from_str` would accept a sign too.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A finite, non-negative number; `f64::from_str` alone would accept `inf` and `nan`.
fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|s: &f64| s.is_finite() && !s.is_sign_negative())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_time_is_iterations_or_seconds() {
        for (text, want) in [
            ("20x", MinTime::Iterations(20)),
            ("1x", MinTime::Iterations(1)),
            ("1000000000000x", MinTime::Iterations(MAX_ITERATIONS)),
            ("0.5s", MinTime::Seconds(0.5)),
            ("2", MinTime::Seconds(2.0)),
            ("0", MinTime::Seconds(0.0)),
            ("1e-3s", MinTime::Seconds(0.001)),
            (".25s", MinTime::Seconds(0.25)),
        ] {
            assert_eq!(text.parse::<MinTime>().unwrap(), want, "{text}");
        }
    }

    #[test]
    fn malformed_min_times_are_errors() {
        for text in [
            "",
            "x",
            "s",
            "zz",
            "0x",
            "-5x",
            "+5x",
            "1.5x",
            "1e1x",
            "5X",
            " 5x",
            "5 x",
            "1000000000001x",
            "99999999999999999999x",
            "-1",
            "-1s",
            "-0s",
            "0.1ss",
            "infs",
            "nan",
            "NaNs",
            "1ms",
            "0x10",
        ] {
            let error = text.parse::<MinTime>().unwrap_err();
            assert_eq!(
                error.report(),
                format!(
                    "INVALID_ARGUMENT; '{text}' is not a number of iterations or seconds\n  try: write iterations \
                     as '20x' (1 to 1000000000000) or seconds as '0.5s' (not negative)"
                )
            );
        }
    }

    #[test]
    fn warmup_is_seconds() {
        assert_eq!(parse_min_warmup_time("0").unwrap(), 0.0);
        assert_eq!(parse_min_warmup_time("0.25s").unwrap(), 0.25);
        for text in ["", "-1", "inf", "1x", "nan"] {
            assert!(parse_min_warmup_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn context_pairs() {
        let mut context = BTreeMap::new();
        parse_context("b=1,a=x=y", &mut context).unwrap();
        parse_context("c=", &mut context).unwrap();
        let pairs: Vec<_> = context.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "x=y"), ("b", "1"), ("c", "")]);
        for text in ["", "ab", "=v", "d=1,", "b=2"] {
            assert!(parse_context(text, &mut context).is_err(), "{text}");
        }
    }
}
