//! `iree-benchmark-replay`: benchmarks replays of a capture.

use rehal_base::{Context, Error, Result};
use rehal_bench::{Benchmark, State, TimeUnit};
use rehal_session::{CaptureFile, CrashReports, Replay, ReplayOrder, ScopeTimer, find_scope};

use super::benchmark_flags::{self, BENCHMARK};
use super::replay_flags;
use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, TASK};
use crate::profiling::{self, PROFILING};
use crate::{Invocation, Operands, Tool, captures, devices};

/// See the [module](self).
pub const BENCHMARK_REPLAY: Tool = Tool {
    name: "iree-benchmark-replay",
    verb: "benchmark",
    summary: "benchmarks replays of a capture",
    about: "Plans the capture once, then replays all of it in each iteration and reports in Google \
            Benchmark's formats. BM_replay is the time of a whole replay; with --replay_scope=NAME only that \
            scope is timed, although the whole capture runs: for at most 10 times --benchmark_min_time, or for the \
            number of iterations that it names (20x).\n\n\
            A capture contains machine code, and replaying it runs that code with your privileges: replay only \
            what you would also execute.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: &[&REPLAY, &BENCHMARK, &DEVICES, &LOCAL, &TASK, &OTHER_DRIVERS, &PROFILING],
    examples: &[
        ("Measure whole replays", "{tool} --device=local-sync --benchmark_min_time=20x model.ireereplay"),
        (
            "Measure only the scope execute, without setup and teardown",
            "{tool} --replay_scope=execute --benchmark_min_time=20x model.ireereplay",
        ),
        (
            "Measure as the program ran, with its work overlapping",
            "{tool} --replay_order=captured --replay_scope=execute model.ireereplay",
        ),
        (
            "Save results for Google Benchmark's compare.py",
            "{tool} --benchmark_repetitions=9 --benchmark_out=before.json model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/benchmark_replay.md"),
    answer: devices::answer,
    run,
};

const SCOPE: Flag<Option<String>> = Flag::text("replay_scope", "NAME", "Times only the scopes of this name.");

const REPLAY: Group = Group {
    title: "Replay",
    flags: &[
        &SCOPE,
        &replay_flags::ORDER,
        &replay_flags::FILE_REMAP,
        &replay_flags::SUBSTITUTION,
        &replay_flags::RECOVER,
    ],
};

/// Bounds the total time of a scope benchmark, as a multiple of the minimum time; matters if the scope is a small
/// part of the capture.
const SCOPE_TIME_LIMIT: f64 = 10.0;

/// The capture to replay, and how to measure it.
struct Options {
    replay: replay_flags::Options,
    scope: Option<String>,
    profiling: Option<profiling::Options>,
    bench: rehal_bench::Options,
}

fn run(invocation: &Invocation) -> Result<()> {
    measure(Options {
        replay: replay_flags::Options::of(invocation)?,
        scope: invocation.flags.get(&SCOPE),
        profiling: profiling::Options::from_flags(&invocation.flags)?,
        bench: benchmark_flags::options(&invocation.flags, &invocation.program)?,
    })
}

fn measure(mut options: Options) -> Result<()> {
    let capture = CaptureFile::open(&options.replay.path, &options.replay.capture)?;
    if let Some(out) = &options.bench.out {
        captures::check_output(&capture, "benchmark_out", out)?;
    }
    let plan = replay_flags::compile(&capture)?;
    let scope = options.scope.as_deref();
    if let Some(name) = scope {
        find_scope(&plan, name)
            .context(|| captures::place(&capture))
            .advise(|| "name one of them with --replay_scope=NAME, or omit the flag to time whole replays")?;
    }
    let (replay, reports) = replay_flags::prepare(&options.replay, plan)?;
    // A capture that cannot be replayed here is an error, not a report of a failed benchmark.
    replay.check_executables()?;
    let profiling = replay_flags::begin_profiling(options.profiling.as_ref(), &capture, &replay)?;
    let order = options.replay.replay.order;
    options.bench.context.entry("replay_order".into()).or_insert_with(|| order.name().into());
    // The names of the default order are the reference's.
    let name = match order {
        ReplayOrder::Serialized => "BM_replay".to_string(),
        other => format!("BM_replay/order:{}", other.name()),
    };
    let benchmark = match scope {
        None => Benchmark::new(name, |state| {
            whole(&replay, reports, state)?;
            // The loop has ended, so this is not measured.
            profiling.flush()
        })
        .use_real_time(),
        Some(scope) => Benchmark::new(format!("{name}/scope:{scope}"), |state| {
            scoped(&replay, reports, scope, state)?;
            profiling.flush()
        })
        .use_manual_time()
        .real_time_limit(SCOPE_TIME_LIMIT),
    };
    let mut benchmarks = [benchmark.measure_process_cpu_time().unit(TimeUnit::Millisecond)];
    let outcome = benchmark_flags::run(options.bench, &mut benchmarks);
    let outcome = outcome.context(|| captures::place(&capture));
    drop(benchmarks);
    let (outcome, failure) = match outcome {
        Ok(outcome) => (Some(outcome), Ok(())),
        Err(error) => (None, Err(error)),
    };
    profiling.end(failure)?;
    match outcome.map_or(0, |outcome| outcome.failed) {
        0 => Ok(()),
        count => Err(Error::new(rehal_base::StatusCode::Unknown, format!("{count} repetitions failed"))),
    }
}

fn whole(replay: &Replay, mut reports: CrashReports, state: &mut State<'_>) -> Result<()> {
    while state.keep_running() {
        replay.run(&mut [&mut reports])?;
    }
    state.set_items_processed(state.iterations());
    Ok(())
}

fn scoped(replay: &Replay, mut reports: CrashReports, name: &str, state: &mut State<'_>) -> Result<()> {
    while state.keep_running() {
        let mut timer = ScopeTimer::new(name);
        replay.run(&mut [&mut reports, &mut timer])?;
        state.set_iteration_time_ns(timer.finish()?);
    }
    state.set_items_processed(state.iterations());
    Ok(())
}
