//! `iree-benchmark-replay`: benchmarks replays of a capture.

mod comparison;

use std::cell::RefCell;
use std::sync::Arc;

use rehal::capture::CaptureFile;
use rehal_base::{Context, Error, Result, plural};
use rehal_devices::{CrashReports, ScopeTimer, dispatch_scope, find_scope};
use rehal_hal::profile::process_cpu_ns;
use rehal_judge::stats::{self, Interval};
use rehal_judge::{Benchmark, Clock, Counter, State, TimeUnit};
use rehal_kernels::dispatch_clock;
use rehal_replay::{FastForward, Plan, Replay, ReplayOrder};
use serde::Serialize;

use super::benchmark_flags::{self, BENCHMARK};
use super::compiler_flags::{COMPILING, WORKGROUPS};
use super::history::{self, History};
use super::processes::{self, OtherTimes};
use super::replay_flags;
use crate::flags::{Flag, Group, with_devices};
use crate::kernel_recording::{self, KERNEL_RECORDING};
use crate::profiling::{self, PROFILING};
use crate::report::{Report, Subject};
use crate::sandbox::Reach;
use crate::table::{Layout, quoted};
use crate::{Invocation, Operands, Tool, captures, devices, output};

/// See the [module](self).
pub const BENCHMARK_REPLAY: Tool = Tool {
    name: "iree-benchmark-replay",
    verb: "benchmark",
    summary: "benchmarks replays of a capture",
    about: "Benchmarks deterministic execution of an IREE HAL replay file.\n\n\
            Plans the capture once, then replays all of it in each iteration and reports in Google \
            Benchmark's formats. BM_replay is the time of a whole replay; with --replay_scope=NAME only that \
            scope is timed, although the whole capture runs: for at most 10 times --benchmark_min_time, or for the \
            number of iterations that it names (20x).\n\n\
            A capture contains machine code, which runs confined (--sandbox) as far as the system can: it cannot access \
            other files, processes or the network. Its numbers and outputs are still its word.",
    operands: Operands::One { what: "capture", form: "CAPTURE.ireereplay" },
    groups: with_devices![&REPLAY, &BENCHMARK, &comparison::COMPARISON, &history::REPORTS, &COMPILING; &PROFILING, &KERNEL_RECORDING],
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
            "Compare both orders in one run, by turns",
            "{tool} --replay_order=both --benchmark_repetitions=20 --benchmark_min_time=0.1s model.ireereplay",
        ),
        (
            "Measure a scope that is a small part of the capture, without repeating the rest",
            "{tool} --replay_scope=execute --replay_fast_forward model.ireereplay",
        ),
        (
            "Tell whether a replacement of a kernel makes the whole faster",
            "{tool} --with=matmul_0=kernel.c --replay_scope=execute model.ireereplay",
        ),
        (
            "Compare two replacements with each other",
            "{tool} --baseline=matmul_0=first.c --with=matmul_0=second.c model.ireereplay",
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

const SCOPE: Flag<Option<String>> = Flag::text(
    "replay_scope",
    "NAME",
    "Times only the scopes of this name. rehal benchmark of a slice of a dispatch times the scope of its function by default; \
     iree-benchmark-replay does not.",
);

const FAST_FORWARD: Flag<bool> = Flag::switch(
    "replay_fast_forward",
    false,
    "Repeats the scope of --replay_scope without what is outside of it: runs the capture once to the end of the scope; \
     before each iteration, restores the bytes that the scope changes, outside of the timed region. Standard error says how \
     many bytes these are. A scope that cannot be repeated by itself is an error. Host reads within the scope are compared \
     with the first.",
);

/// The orders to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Orders {
    One(ReplayOrder),
    Both,
}

const ORDER: Flag<Orders> = Flag::choice(
    "replay_order",
    "serialized",
    &[
        ("serialized", Orders::One(ReplayOrder::Serialized)),
        ("captured", Orders::One(ReplayOrder::Captured)),
        ("both", Orders::Both),
    ],
    "serialized: waits for each submission before the next operation, as the reference does. captured: submits as the \
     program did and lets the captured semaphores order the work; the host waits only before it accesses bytes that \
     work in flight accesses, before a submission that only a wait of the program's host can have ordered after such \
     work, and at the end of the timed scope. both: measures the two in one process, their repetitions in random order, and says \
     how they compare.",
);

/// The contents of the CPU's caches when a timed region begins.
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
     and of the capture that the region touches, outside of the timed region. Code stays warm.",
);

const REPLAY: Group = Group {
    title: "Replay",
    flags: &[
        &SCOPE,
        &FAST_FORWARD,
        &CACHE,
        &ORDER,
        &replay_flags::FILE_REMAP,
        &replay_flags::FILE_WRITES,
        &replay_flags::SUBSTITUTION,
        &WORKGROUPS,
        &replay_flags::RECOVER,
    ],
};

/// Bounds the total time of a scope benchmark, as a multiple of the minimum time; matters if the scope is a
/// small part of the capture.
const SCOPE_TIME_LIMIT: f64 = 10.0;

/// The capture to replay, and how to measure it.
struct Options {
    replay: replay_flags::Options,
    orders: Orders,
    scope: Option<String>,
    /// Whether a slice of a dispatch has a scope by default.
    times_dispatch: bool,
    fast_forward: bool,
    cache: Cache,
    profiling: Option<profiling::Options>,
    kernels: Option<kernel_recording::Recording>,
    bench: rehal_judge::Options,
    history: History,
}

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let orders = flags.get(&ORDER);
    comparison::check(flags)?;
    let with = flags.list(&comparison::WITH);
    if !with.is_empty() {
        let all = [with, flags.list(&comparison::BASELINE)].concat();
        let replay = replay_flags::Options::in_order_with(invocation, orders.all()[0], &all)?;
        return comparison::run(invocation, &replay);
    }
    let options = Options {
        replay: replay_flags::Options::in_order(invocation, orders.all()[0])?,
        orders,
        scope: flags.get(&SCOPE),
        times_dispatch: times_dispatch(invocation),
        fast_forward: flags.get(&FAST_FORWARD),
        cache: flags.get(&CACHE),
        profiling: profiling::Options::from_flags(flags)?.map(profiling::Options::measured),
        kernels: kernel_recording::Recording::checked(flags)?,
        bench: benchmark_flags::options(flags, &invocation.program)?,
        history: History::open(invocation)?,
    };
    measure(invocation, options)
}

/// Whether the scope of a slice is the default. The reference's tool has no such default.
fn times_dispatch(invocation: &Invocation) -> bool {
    invocation.name != BENCHMARK_REPLAY.name && invocation.flags.get(&SCOPE).is_none()
}

/// The scope of a slice of a dispatch, which is that to time by default.
fn scope_of_slice(plan: &Plan) -> Result<Option<String>> {
    let scope = dispatch_scope(plan)?;
    if let Some(name) = &scope {
        let shown = quoted(name);
        output::note(&format!(
            "note: a slice of a dispatch: this times its scope, as --replay_scope={shown} does; iree-benchmark-replay times whole replays"
        ));
    }
    Ok(scope)
}

fn measure(invocation: &Invocation, mut options: Options) -> Result<()> {
    let capture = captures::open(&options.replay.path, &options.replay.capture)?;
    let plan = replay_flags::compile(&capture)?;
    if options.times_dispatch {
        options.scope = scope_of_slice(&plan)?;
    }
    if options.fast_forward && options.scope.is_none() {
        return Err(Error::invalid_argument("--replay_fast_forward needs the scope that it repeats")
            .advise("name it with --replay_scope=NAME"));
    }
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
    replay_flags::resolve(&mut options.replay, invocation, &plan)?;
    let others = processes::measure(invocation)?;
    let devices = options.replay.devices.clone();
    let mut reach = Reach::of_replay(&plan, &devices);
    reach.directories.extend(options.kernels.as_ref().map(kernel_recording::Recording::directory));
    let plan = plan.clone();
    invocation.confined(&reach, || measure_confined(invocation, options, &capture, plan, &others))
}

fn measure_confined(
    invocation: &Invocation,
    mut options: Options,
    capture: &CaptureFile,
    plan: Arc<Plan>,
    others: &OtherTimes,
) -> Result<()> {
    let scope = options.scope.clone();
    let scope = scope.as_deref();
    let is_cold = options.cache == Cache::Cold;
    let orders = options.orders.all();
    let (replays, reports) = replay_flags::prepare_each(&options.replay, plan, orders)?;
    let replays: Vec<_> = replays.into_iter().map(Arc::new).collect();
    // A capture that cannot be replayed here is an error, not a report of a failed benchmark.
    replays[0].check_executables()?;
    if is_cold {
        replays[0].evict().context(|| "--replay_cache=cold".into())?;
    }
    let is_repeated = processes::count(&invocation.flags) > 1;
    let has_processor = is_repeated && dispatch_clock(replays[0].devices()) == Clock::Processor;
    let processor: Vec<_> = orders.iter().map(|_| ProcessorTimes::new(has_processor)).collect();
    let profiling = replay_flags::begin_profiling(options.profiling.as_ref(), &replays[0])?;
    options.describe_context();
    let subject = Subject { capture: Some(capture.bytes()), devices: Some(replays[0].devices()) };
    benchmark_flags::describe(&mut options.bench, &invocation.origin, subject);
    let mut fast: Vec<Option<FastForward>> = orders.iter().map(|_| None).collect();
    let (mut benchmarks, mut names) = (Vec::new(), Vec::new());
    for (((order, replay), fast), processor) in orders.iter().zip(&replays).zip(&mut fast).zip(&processor) {
        options.describe_waits(*order, replay)?;
        let name = options.name(*order);
        names.push(name.clone());
        // The loop has ended when it flushes, so the flush is not measured.
        let profiling = &profiling;
        let benchmark = match scope {
            None => Benchmark::new(name, move |state| {
                whole(replay, reports, is_cold, profiling, processor, state)?;
                profiling.flush()
            })
            .use_real_time(),
            Some(scope) if options.fast_forward => Benchmark::new(name, move |state| {
                repeated(replay, reports, scope, fast, profiling, processor, state)?;
                profiling.flush()
            })
            .use_manual_time()
            .real_time_limit(SCOPE_TIME_LIMIT),
            Some(scope) => Benchmark::new(name, move |state| {
                scoped(replay, reports, scope, profiling, processor, state)?;
                profiling.flush()
            })
            .use_manual_time()
            .real_time_limit(SCOPE_TIME_LIMIT),
        };
        benchmarks.push(benchmark.measure_process_cpu_time().unit(TimeUnit::Millisecond));
    }
    let processor_ns = |name: &str| {
        // One name may begin with another one.
        let of = (0..names.len()).filter(|index| name.starts_with(&*names[*index]));
        let index = of.max_by_key(|index| names[*index].len())?;
        processor[index].median_ns()
    };
    let outcome = benchmark_flags::run(invocation, options.bench, &mut benchmarks, &processor_ns, others);
    drop(benchmarks);
    let outcome = outcome.context(|| captures::place(capture));
    let outcome = outcome.and_then(|outcome| {
        fast.into_iter().flatten().try_for_each(FastForward::finish)?;
        Ok(outcome)
    });
    let outcome = outcome.and_then(|(outcome, measured)| {
        note_ratio(&outcome.real_times_s);
        // What was interrupted may have been the warm-up.
        if !outcome.is_interrupted {
            let margin = invocation.flags.get(&comparison::FAIL_IF_SLOWER);
            options.history.keep(invocation, &Medians {}, measured, margin, subject)?;
        }
        Ok(outcome)
    });
    let outcome =
        profiling.end(outcome.as_ref().map(drop).map_err(Clone::clone)).and(outcome).and_then(|outcome| {
            match outcome.failed {
                0 => Ok(()),
                count => {
                    Err(Error::new(rehal_base::StatusCode::Unknown, format!("{count} repetitions failed")))
                }
            }
        });
    kernel_recording::Recording::after(options.kernels.as_ref(), &replays[0], outcome)
}

/// The medians, for a history. The report that is printed is Google Benchmark's.
#[derive(Serialize)]
struct Medians {}

impl Report for Medians {
    const SCHEMA: &'static str = "rehal.benchmark/1";
    const IS_ON_A_LINE: bool = true;

    fn text(&self, _layout: Layout) -> String {
        String::new()
    }
}

impl Orders {
    /// The orders that are measured.
    fn all(self) -> &'static [ReplayOrder] {
        match self {
            Self::One(ReplayOrder::Serialized) => &[ReplayOrder::Serialized],
            Self::One(ReplayOrder::Captured) => &[ReplayOrder::Captured],
            Self::Both => &[ReplayOrder::Serialized, ReplayOrder::Captured],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::One(order) => order.name(),
            Self::Both => "both",
        }
    }
}

/// Says how the times of captured order compare with those of serialized order, if both were measured.
fn note_ratio(times: &[Vec<f64>]) {
    let [serialized, captured] = times else { return };
    if serialized.is_empty() || captured.is_empty() {
        return;
    }
    let ratio = stats::median(captured) / stats::median(serialized);
    let interval = match stats::ratio_interval(serialized, captured, 0.05) {
        None => "too few repetitions for an interval: --benchmark_repetitions=20".to_owned(),
        Some(Interval { low, high }) => {
            let count = serialized.len().min(captured.len());
            format!("95 % interval {low:.3} to {high:.3}, {count} repetitions of each")
        }
    };
    output::note(&format!(
        "note: captured order takes {ratio:.3} times as long as serialized order ({interval})"
    ));
}

impl Options {
    /// Adds how it measures to the context of reports.
    fn describe_context(&mut self) {
        let mut context = |key: &str, value: &str| {
            self.bench.context.entry(key.into()).or_insert_with(|| value.into());
        };
        context("replay_order", self.orders.name());
        if self.cache == Cache::Cold {
            context("replay_cache", "cold");
        }
        if self.fast_forward {
            context("replay_fast_forward", "true");
        }
        // One order after the other would compare the states of the machine.
        self.bench.random_interleaving |= self.orders == Orders::Both;
    }

    /// The name of a benchmark. The defaults have the reference's names.
    fn name(&self, order: ReplayOrder) -> String {
        let mut name = "BM_replay".to_string();
        if order != ReplayOrder::Serialized {
            name += &format!("/order:{}", order.name());
        }
        if self.cache == Cache::Cold {
            name += "/cache:cold";
        }
        if self.fast_forward {
            name += "/fast_forward";
        }
        if let Some(scope) = &self.scope {
            name += &format!("/scope:{scope}");
        }
        name
    }

    /// Adds to the context of reports how many waits a run in captured order has that the capture lacks, and
    /// tells the user.
    fn describe_waits(&mut self, order: ReplayOrder, replay: &Replay) -> Result<()> {
        if order != ReplayOrder::Captured {
            return Ok(());
        }
        let count = replay.inserted_wait_count(self.scope.as_deref().map(str::as_bytes))?;
        self.bench.context.entry("replay_inserted_waits".into()).or_insert_with(|| count.to_string());
        if count != 0 {
            let place = if self.scope.is_some() { " in the scope" } else { "" };
            output::note(&format!(
                "note: --replay_order=captured inserts {} of the host{place} between operations that may access the same bytes and that \
                 no semaphore orders: less work overlaps than in the program, unless its host waited there, too (rehal races \
                 --strict lists such operations)",
                plural(count, "wait")
            ));
        }
        Ok(())
    }
}

/// The processor's times of iterations, by which processes are compared: what others do on the machine is not
/// in them. They are not measured otherwise, since each takes two system calls.
struct ProcessorTimes {
    is_measured: bool,
    times_ns: RefCell<Vec<f64>>,
}

impl ProcessorTimes {
    fn new(is_measured: bool) -> Self {
        Self { is_measured, times_ns: RefCell::default() }
    }

    /// Runs a scope with the observer that measures it.
    fn scope<'n>(
        &self,
        name: &'n str,
        run: impl FnOnce(Option<&mut ScopeTimer<'n>>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_measured {
            return run(None);
        }
        let mut timer = ScopeTimer::of_processor(name);
        run(Some(&mut timer))?;
        self.times_ns.borrow_mut().push(timer.finish()? as f64);
        Ok(())
    }

    /// Runs a whole replay.
    fn whole(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.is_measured {
            return run();
        }
        let begun = process_cpu_ns();
        run()?;
        self.times_ns.borrow_mut().push((process_cpu_ns() - begun) as f64);
        Ok(())
    }

    fn median_ns(&self) -> Option<f64> {
        Some(stats::median(&self.times_ns.borrow())).filter(|it| *it > 0.0)
    }
}

fn whole(
    replay: &Replay,
    mut reports: CrashReports,
    is_cold: bool,
    profiling: &profiling::Session,
    processor: &ProcessorTimes,
    state: &mut State<'_>,
) -> Result<()> {
    let mut records = profiling.records();
    while state.keep_running() {
        if is_cold {
            state.pause_timing();
            replay.evict()?;
            state.resume_timing();
        }
        processor.whole(|| replay.run(&mut [&mut reports, &mut records]))?;
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
    processor: &ProcessorTimes,
    state: &mut State<'_>,
) -> Result<()> {
    let mut records = profiling.records();
    while state.keep_running() {
        let mut timer = ScopeTimer::new(name);
        processor.scope(name, |processor| match processor {
            None => replay.run(&mut [&mut reports, &mut records, &mut timer]),
            Some(processor) => replay.run(&mut [&mut reports, &mut records, processor, &mut timer]),
        })?;
        state.set_iteration_time_ns(timer.finish()?);
        profiling.flush_if_due(state)?;
    }
    state.set_items_processed(state.iterations());
    Ok(())
}

/// Like [`scoped`], without what is outside of the scope. `fast` is created by the first call.
fn repeated(
    replay: &Arc<Replay>,
    mut reports: CrashReports,
    name: &str,
    fast: &mut Option<FastForward>,
    profiling: &profiling::Session,
    processor: &ProcessorTimes,
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
        processor.scope(name, |processor| match processor {
            None => fast.repeat(&mut [&mut reports, &mut records, &mut timer]),
            Some(processor) => fast.repeat(&mut [&mut reports, &mut records, processor, &mut timer]),
        })?;
        state.set_iteration_time_ns(timer.finish()?);
        profiling.flush_if_due(state)?;
    }
    state.set_items_processed(state.iterations());
    state.set_counter("restored_bytes", Counter::new(fast.restored_bytes() as f64));
    Ok(())
}
