//! `iree-benchmark-replay`: benchmarks replays of a capture.

use rehal_base::{Context, Error, Result};
use rehal_bench::{Benchmark, Counter, State, TimeUnit};
use rehal_session::{CaptureFile, CrashReports, FastForward, Replay, ReplayOrder, ScopeTimer, find_scope};

use super::benchmark_flags::{self, BENCHMARK};
use super::replay_flags;
use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, TASK, VULKAN};
use crate::kernel_recording::{self, KERNEL_RECORDING};
use crate::profiling::{self, PROFILING};
use crate::{Invocation, Operands, Tool, captures, devices, output};

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
    groups: &[
        &REPLAY,
        &BENCHMARK,
        &DEVICES,
        &LOCAL,
        &TASK,
        &VULKAN,
        &OTHER_DRIVERS,
        &PROFILING,
        &KERNEL_RECORDING,
    ],
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
            "Measure a scope that is a small part of the capture, without repeating the rest",
            "{tool} --replay_scope=execute --replay_fast_forward model.ireereplay",
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

const FAST_FORWARD: Flag<bool> = Flag::switch(
    "replay_fast_forward",
    false,
    "Repeats the scope of --replay_scope without what is outside of it: runs the capture once to the end of the scope; \
     before each iteration, restores the bytes that the scope changes, outside of the timed region. Standard error says how \
     many bytes these are. A scope that cannot be repeated by itself is an error. Host reads within the scope are compared \
     with the first.",
);

/// What the CPU's caches contain when a timed region begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    Warm,
    Cold,
}

const CACHE: Flag<Cache> = Flag::choice(
    "replay_cache",
    "warm",
    &[("warm", Cache::Warm), ("cold", Cache::Cold)],
    "warm: the CPU's caches contain what earlier work left there. cold: before each timed region, evicts the bytes of buffers \
     and of the capture that the region touches, outside of the timed region (x86-64 only). Code stays warm.",
);

const REPLAY: Group = Group {
    title: "Replay",
    flags: &[
        &SCOPE,
        &FAST_FORWARD,
        &CACHE,
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
    fast_forward: bool,
    cache: Cache,
    profiling: Option<profiling::Options>,
    kernels: Option<kernel_recording::Recording>,
    bench: rehal_bench::Options,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let options = Options {
        replay: replay_flags::Options::of(invocation)?,
        scope: flags.get(&SCOPE),
        fast_forward: flags.get(&FAST_FORWARD),
        cache: flags.get(&CACHE),
        profiling: profiling::Options::from_flags(flags)?.map(profiling::Options::measured),
        kernels: kernel_recording::Recording::checked(flags)?,
        bench: benchmark_flags::options(flags, &invocation.program)?,
    };
    if options.fast_forward && options.scope.is_none() {
        return Err(Error::invalid_argument("--replay_fast_forward needs the scope that it repeats")
            .advise("name it with --replay_scope=NAME"));
    }
    measure(options)
}

fn measure(mut options: Options) -> Result<()> {
    let capture = CaptureFile::open(&options.replay.path, &options.replay.capture)?;
    let plan = replay_flags::compile(&capture)?;
    let scope = options.scope.clone();
    let scope = scope.as_deref();
    if let Some(name) = scope {
        find_scope(&plan, name)
            .context(|| captures::place(&capture))
            .advise(|| "name one of them with --replay_scope=NAME, or omit the flag to time whole replays")?;
    }
    let is_cold = options.cache == Cache::Cold;
    if is_cold {
        options.replay.replay.cold_scope = scope.map(|name| name.as_bytes().to_vec());
    }
    let (replay, reports) = replay_flags::prepare(&options.replay, plan)?;
    // A capture that cannot be replayed here is an error, not a report of a failed benchmark.
    replay.check_executables()?;
    if is_cold {
        replay.evict().context(|| "--replay_cache=cold".into())?;
    }
    let profiling = replay_flags::begin_profiling(options.profiling.as_ref(), &replay)?;
    options.describe_waits(replay.inserted_wait_count(scope.map(str::as_bytes))?);
    let name = options.describe();
    let mut fast = None;
    // The loop has ended when it flushes, so the flush is not measured.
    let benchmark = match scope {
        None => Benchmark::new(name, |state| {
            whole(&replay, reports, is_cold, &profiling, state)?;
            profiling.flush()
        })
        .use_real_time(),
        Some(scope) if options.fast_forward => Benchmark::new(name, |state| {
            repeated(&replay, reports, scope, &mut fast, &profiling, state)?;
            profiling.flush()
        })
        .use_manual_time()
        .real_time_limit(SCOPE_TIME_LIMIT),
        Some(scope) => Benchmark::new(name, |state| {
            scoped(&replay, reports, scope, &profiling, state)?;
            profiling.flush()
        })
        .use_manual_time()
        .real_time_limit(SCOPE_TIME_LIMIT),
    };
    let mut benchmarks = [benchmark.measure_process_cpu_time().unit(TimeUnit::Millisecond)];
    let outcome = benchmark_flags::run(options.bench, &mut benchmarks);
    drop(benchmarks);
    let outcome = outcome.context(|| captures::place(&capture));
    let outcome = outcome.and_then(|outcome| {
        fast.map_or(Ok(()), FastForward::finish)?;
        Ok(outcome)
    });
    let (outcome, failure) = match outcome {
        Ok(outcome) => (Some(outcome), Ok(())),
        Err(error) => (None, Err(error)),
    };
    let outcome = profiling.end(failure).and_then(|()| match outcome.map_or(0, |outcome| outcome.failed) {
        0 => Ok(()),
        count => Err(Error::new(rehal_base::StatusCode::Unknown, format!("{count} repetitions failed"))),
    });
    kernel_recording::Recording::after(options.kernels.as_ref(), &replay, outcome)
}

impl Options {
    /// Adds how it measures to the context of reports; returns the name of the benchmark. The defaults have the
    /// reference's names.
    fn describe(&mut self) -> String {
        let order = self.replay.replay.order;
        let mut context = |key: &str, value: &str| {
            self.bench.context.entry(key.into()).or_insert_with(|| value.into());
        };
        context("replay_order", order.name());
        let mut name = "BM_replay".to_string();
        if order != ReplayOrder::Serialized {
            name += &format!("/order:{}", order.name());
        }
        if self.cache == Cache::Cold {
            context("replay_cache", "cold");
            name += "/cache:cold";
        }
        if self.fast_forward {
            context("replay_fast_forward", "true");
            name += "/fast_forward";
        }
        if let Some(scope) = &self.scope {
            name += &format!("/scope:{scope}");
        }
        name
    }
}

impl Options {
    /// Adds to the context of reports how many waits a run in captured order has that the capture lacks, and tells the user.
    fn describe_waits(&mut self, count: u64) {
        if self.replay.replay.order != ReplayOrder::Captured {
            return;
        }
        self.bench.context.entry("replay_inserted_waits".into()).or_insert_with(|| count.to_string());
        if count != 0 {
            let place = if self.scope.is_some() { " in the scope" } else { "" };
            output::note(&format!(
                "note: --replay_order=captured inserts {} of the host{place} between operations that may access the same bytes and that \
                 no semaphore orders: less work overlaps than in the program, unless its host waited there, too (rehal races \
                 --strict lists such operations)",
                output::plural(count, "wait")
            ));
        }
    }
}

fn whole(
    replay: &Replay,
    mut reports: CrashReports,
    is_cold: bool,
    profiling: &profiling::Session,
    state: &mut State<'_>,
) -> Result<()> {
    let mut records = profiling.records();
    while state.keep_running() {
        if is_cold {
            state.pause_timing();
            replay.evict()?;
            state.resume_timing();
        }
        replay.run(&mut [&mut reports, &mut records])?;
        profiling.flush_if_due(state)?;
    }
    state.set_items_processed(state.iterations());
    Ok(())
}

fn scoped(
    replay: &Replay,
    mut reports: CrashReports,
    name: &str,
    profiling: &profiling::Session,
    state: &mut State<'_>,
) -> Result<()> {
    let mut records = profiling.records();
    while state.keep_running() {
        let mut timer = ScopeTimer::new(name);
        replay.run(&mut [&mut reports, &mut records, &mut timer])?;
        state.set_iteration_time_ns(timer.finish()?);
        profiling.flush_if_due(state)?;
    }
    state.set_items_processed(state.iterations());
    Ok(())
}

/// Like [`scoped`], without what is outside of the scope. `fast` is created by the first call.
fn repeated<'r>(
    replay: &'r Replay,
    mut reports: CrashReports,
    name: &str,
    fast: &mut Option<FastForward<'r>>,
    profiling: &profiling::Session,
    state: &mut State<'_>,
) -> Result<()> {
    let mut records = profiling.records();
    let fast = match fast {
        Some(fast) => fast,
        None => {
            let first = replay.fast_forward(name.as_bytes(), &mut [&mut reports, &mut records])?;
            output::note(&format!(
                "note: --replay_fast_forward restores {} bytes before each iteration",
                first.restored_bytes()
            ));
            fast.insert(first)
        }
    };
    while state.keep_running() {
        fast.restore()?;
        let mut timer = ScopeTimer::new(name);
        fast.repeat(&mut [&mut reports, &mut records, &mut timer])?;
        state.set_iteration_time_ns(timer.finish()?);
        profiling.flush_if_due(state)?;
    }
    state.set_items_processed(state.iterations());
    state.set_counter("restored_bytes", Counter::new(fast.restored_bytes() as f64));
    Ok(())
}
