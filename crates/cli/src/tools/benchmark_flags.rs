//! Google Benchmark's flags, as the benchmark tools of the reference release accept them.
//!
//! As there, an environment variable supplies a flag that is not given: `BENCHMARK_FORMAT` for
//! `--benchmark_format`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use rehal_base::{Context, Result};
use rehal_judge::{
    Benchmark, Clock, Color, Filter, Format, MeasuredTime, MinTime, Options, Pulse, Reporters, RunOutcome,
    Runner, SampleStatistics, TimeUnit, parse_context, parse_min_warmup_time,
};

use super::processes::{self, OtherTimes, PROCESSES};
use crate::flags::{Effect, Flag, Flags, Group, List, Refusal, Words, streamed, text};
use crate::output::{self, ReaderLeft};
use crate::output_file::OutputFile;
use crate::report::{Origin, Subject};
use crate::{Invocation, devices, interrupts, progress};

const LIST_TESTS: Flag<bool> =
    switch("benchmark_list_tests", "Prints the names of the benchmarks instead of running them.");

const FILTER: Flag<Filter> = Flag::parsed(
    "benchmark_filter",
    "REGEX",
    "",
    "a regular expression",
    |value| Ok(Filter::new(&text(value)?)?),
    "Runs only benchmarks whose name matches; with -REGEX, only those whose name does not match.",
)
.variable();

const MIN_TIME: Flag<MinTime> = Flag::parsed(
    "benchmark_min_time",
    "Nx|SECONDS",
    "0.5s",
    "iterations such as 20x, or seconds such as 0.5s",
    |value| text(value)?.parse().map_err(|_| Refusal::Unexpected),
    "How long to measure: 20x for 20 iterations, 0.5s for as many iterations as take half a second.",
)
.variable();

const MIN_WARMUP_TIME: Flag<f64> = Flag::parsed(
    "benchmark_min_warmup_time",
    "SECONDS",
    "0",
    "seconds, 0 or more",
    |value| parse_min_warmup_time(&text(value)?).map_err(|_| Refusal::Unexpected),
    "How long to run before measuring.",
)
.variable();

const REPETITIONS: Flag<u32> = Flag::number(
    "benchmark_repetitions",
    1,
    (1, i32::MAX as i64),
    |count| count as u32,
    "How often to repeat the measurement. If more than once, mean, median, standard deviation and coefficient \
     of variation are reported too.",
)
.variable();

const DRY_RUN: Flag<bool> = switch("benchmark_dry_run", "Runs each benchmark for one iteration.");

const FORMATS: &[(&str, Format)] =
    &[("console", Format::Console), ("json", Format::Json), ("csv", Format::Csv)];

const FORMAT: Flag<Format> =
    Flag::choice("benchmark_format", "console", FORMATS, "Format of the report: console, json or csv.")
        .variable();

const OUT: Flag<Option<PathBuf>> = Flag::path(
    "benchmark_out",
    "Also writes the report to a file, once it is complete; - is standard output.",
)
.variable()
.files(streamed);

const OUT_FORMAT: Flag<Format> = Flag::choice(
    "benchmark_out_format",
    "json",
    FORMATS,
    "Format of the --benchmark_out file: console, json or csv.",
)
.variable();

const REPORT_AGGREGATES_ONLY: Flag<bool> =
    switch("benchmark_report_aggregates_only", "Reports only statistics over the repetitions.");

const DISPLAY_AGGREGATES_ONLY: Flag<bool> = switch(
    "benchmark_display_aggregates_only",
    "Prints only statistics over the repetitions; the file contains each repetition as well.",
);

const COLOR: Flag<Color> = Flag::choice(
    "benchmark_color",
    "auto",
    &[("auto", Color::Auto), ("true", Color::Always), ("false", Color::Never)],
    "Colors: auto, true or false.",
)
.aliases(&[
    ("t", Color::Always),
    ("yes", Color::Always),
    ("y", Color::Always),
    ("on", Color::Always),
    ("1", Color::Always),
    ("f", Color::Never),
    ("no", Color::Never),
    ("n", Color::Never),
    ("off", Color::Never),
    ("0", Color::Never),
])
.variable();

const COUNTERS_TABULAR: Flag<bool> = switch("benchmark_counters_tabular", "Prints counters as columns.");

const CONTEXT: List<BTreeMap<String, String>> = List::parsed(
    "benchmark_context",
    "KEY=VALUE,...",
    "KEY=VALUE,...",
    |value| {
        let mut context = BTreeMap::new();
        parse_context(&text(value)?, &mut context)?;
        Ok(context)
    },
    "Adds key-value pairs to the context of the report.",
)
.variable();

const RANDOM_INTERLEAVING: Flag<bool> = switch(
    "benchmark_enable_random_interleaving",
    "Interleaves the repetitions of all benchmarks in random order.",
);

const PERF_COUNTERS: Flag<Vec<String>> = Flag::parsed(
    "benchmark_perf_counters",
    "NAME,...",
    "",
    "NAME,...",
    |value| Ok(text(value)?.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect()),
    "Hardware performance counters; none are supported.",
)
.variable();

const TIME_UNIT: Flag<Option<TimeUnit>> = Flag::choice(
    "benchmark_time_unit",
    "",
    &[
        ("", None),
        ("ns", Some(TimeUnit::Nanosecond)),
        ("us", Some(TimeUnit::Microsecond)),
        ("ms", Some(TimeUnit::Millisecond)),
        ("s", Some(TimeUnit::Second)),
    ],
    "Unit of benchmarks that do not set their own: ns, us, ms or s.",
)
.effect(Effect::Ignored("the tool's benchmarks set their own time unit, as in the reference"))
.variable();

const SUMMARY: Flag<bool> = Flag::switch(
    "benchmark_summary",
    true,
    "Prints on standard error, for each benchmark, the median with its 95 % interval, the spread, outliers, the \
     warm-up, and warnings about other load on the machine. JSON reports have the median, the interval and the spread \
     of each repetition, too: sample_median, sample_median_low, sample_median_high, sample_mad, sample_count.",
)
.words(Words::Benchmark)
.variable();

const VERBOSITY: Flag<i32> = Flag::number(
    "v",
    0,
    (i32::MIN as i64, i32::MAX as i64),
    |level| level as i32,
    "Verbosity of the log on standard error.",
);

/// The flags, with Google Benchmark's names and defaults.
pub(crate) const BENCHMARK: Group = Group {
    title: "Benchmark",
    flags: &[
        &MIN_TIME,
        &MIN_WARMUP_TIME,
        &REPETITIONS,
        &FILTER,
        &LIST_TESTS,
        &DRY_RUN,
        &FORMAT,
        &OUT,
        &OUT_FORMAT,
        &REPORT_AGGREGATES_ONLY,
        &DISPLAY_AGGREGATES_ONLY,
        &TIME_UNIT,
        &COLOR,
        &COUNTERS_TABULAR,
        &CONTEXT,
        &RANDOM_INTERLEAVING,
        &PERF_COUNTERS,
        &SUMMARY,
        &VERBOSITY,
        &PROCESSES,
    ],
};

/// The options set by flags and environment variables. Reports name `program`.
pub(crate) fn options(flags: &Flags, program: &OsStr) -> Result<Options> {
    processes::check(flags)?;
    let out = flags.get(&OUT);
    if let Some(path) = &out {
        // Nothing is measured in vain.
        OutputFile::new(OUT.name(), path.clone())?;
    }
    Ok(Options {
        executable: Some(program.to_string_lossy().into_owned()),
        list_tests: flags.get(&LIST_TESTS),
        filter: flags.get(&FILTER),
        min_time: flags.get(&MIN_TIME),
        min_warmup_time_s: flags.get(&MIN_WARMUP_TIME),
        repetitions: flags.get(&REPETITIONS),
        dry_run: flags.get(&DRY_RUN),
        random_interleaving: flags.get(&RANDOM_INTERLEAVING),
        report_aggregates_only: flags.get(&REPORT_AGGREGATES_ONLY),
        display_aggregates_only: flags.get(&DISPLAY_AGGREGATES_ONLY),
        format: flags.get(&FORMAT),
        out,
        out_format: flags.get(&OUT_FORMAT),
        color: flags.get(&COLOR),
        counters_tabular: flags.get(&COUNTERS_TABULAR),
        perf_counters: flags.get(&PERF_COUNTERS),
        time_unit: flags.get(&TIME_UNIT),
        summary: flags.get(&SUMMARY),
        verbosity: flags.get(&VERBOSITY),
        context: context(flags).context(|| "--benchmark_context".into())?,
        pulse: Pulse::default(),
    })
}

/// Adds to the context of JSON what the headers of other reports say. Values are text, as those of Google
/// Benchmark.
pub(crate) fn describe(options: &mut Options, origin: &Origin, subject: Subject<'_>) {
    let has_json =
        options.format == Format::Json || (options.out.is_some() && options.out_format == Format::Json);
    if has_json {
        for (key, value) in origin.context(subject) {
            options.context.entry(key.into()).or_insert(value);
        }
    }
}

/// Runs benchmarks and reports them, in as many processes as flags say. A closed pipe ends the run without an
/// error. Processes are compared by the processor's time of the benchmark of a name, if that is known. The
/// times are not those of a report if the run was interrupted.
pub(crate) fn run(
    invocation: &Invocation,
    mut options: Options,
    benchmarks: &mut [Benchmark<'_>],
    processor_ns: &dyn Fn(&str) -> Option<f64>,
    others: &OtherTimes,
) -> Result<(RunOutcome, Vec<MeasuredTime>)> {
    if devices::are_emulated(&invocation.flags) {
        let told = "times say nothing about the device that is emulated";
        options.context.entry("emulated".into()).or_insert_with(|| told.into());
    }
    let outcome = run_here(invocation, options, benchmarks)?;
    let of = |(name, it): &(String, SampleStatistics)| match processor_ns(name) {
        Some(time_ns) => MeasuredTime::new(name.clone(), time_ns, Clock::Processor),
        None => MeasuredTime::new(name.clone(), it.median_s * 1e9, Clock::Wall),
    };
    let mut measured: Vec<_> = outcome.samples.iter().map(of).collect();
    if !outcome.is_interrupted && outcome.failed == 0 {
        processes::add(invocation, others, &mut measured)?;
        processes::note(&measured);
    }
    Ok((outcome, measured))
}

fn run_here(
    invocation: &Invocation,
    mut options: Options,
    benchmarks: &mut [Benchmark<'_>],
) -> Result<RunOutcome> {
    rehal_base::keep_freed_memory();
    // Without a terminal, a signal ends a benchmark, as with the reference.
    if io::stderr().is_terminal() {
        options.pulse = progress::pulse("measuring", interrupts::flag()?);
    }
    // The first process writes it.
    options.out = options.out.filter(|_| invocation.worker.is_none());
    let reader_left = ReaderLeft::default();
    let out = options.out.clone().map(|path| OutputFile::new(OUT.name(), path)?.begin()).transpose()?;
    let file = match &out {
        Some(out) => Some(Box::new(BufWriter::new(out.sink()?)) as Box<dyn Write>),
        None => None,
    };
    let mut reporters = Reporters::with_output(&options, || output::stdout_for(&reader_left), file)?;
    let outcome = match Runner::new(options).run(benchmarks, &mut reporters) {
        Err(_) if reader_left.get() => Ok(RunOutcome { matched: benchmarks.len(), ..RunOutcome::default() }),
        outcome => outcome,
    };
    drop(reporters);
    if outcome.as_ref().is_ok_and(|outcome| outcome.is_interrupted) {
        output::note("note: interrupted: the report is of what was measured until then");
    }
    match (outcome, out) {
        (outcome, None) => outcome,
        (Err(error), Some(out)) if out.is_lost() => out.finish(Err(error)).map(|()| RunOutcome::default()),
        // A benchmark that fails is in the report, which is then complete.
        (outcome, Some(out)) => {
            let written = out.finish(Ok(()));
            outcome.and_then(|outcome| written.map(|()| outcome))
        }
    }
}

/// The pairs of all `--benchmark_context` flags; a key with two values is an error.
fn context(flags: &Flags) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for (key, value) in flags.list(&CONTEXT).into_iter().flatten() {
        parse_context(&format!("{key}={value}"), &mut all)?;
    }
    Ok(all)
}

/// A Google Benchmark boolean, false by default.
const fn switch(name: &'static str, help: &'static str) -> Flag<bool> {
    Flag::switch(name, false, help).words(Words::Benchmark).variable()
}
