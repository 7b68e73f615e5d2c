//! `iree-benchmark-replay`: replays a capture repeatedly and reports how long it takes.

use std::time::Instant;

use rehal_base::{Context, Error, Result};
use rehal_bench::{Benchmark, Reporters, Runner, State, TimeUnit};
use rehal_local::executable::guard;
use rehal_replay::{Observer, Place, Plan, Replay, Scope};

use super::benchmark_flags::{self, BENCHMARK};
use super::replay_flags;
use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
use crate::{Invocation, Operands, Tool, devices, input};

/// See the [module](self).
pub const BENCHMARK_REPLAY: Tool = Tool {
    name: "iree-benchmark-replay",
    verb: "benchmark",
    summary: "measures how long a replay of a capture takes",
    about: "Plans the capture once, then replays all of it in each iteration and reports in Google \
            Benchmark's formats. BM_replay is the time of a whole replay; with --replay_scope=NAME only that \
            scope is timed, although the whole capture runs.\n\n\
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
    flags: &[&SCOPE, &replay_flags::FILE_REMAP, &replay_flags::SUBSTITUTION, &replay_flags::RECOVER],
};

/// What to replay, and how to measure it.
struct Options {
    replay: replay_flags::Options,
    scope: Option<String>,
    bench: rehal_bench::Options,
}

fn run(invocation: &Invocation) -> Result<()> {
    measure(Options {
        replay: replay_flags::Options::of(invocation),
        scope: invocation.flags.get(&SCOPE),
        bench: benchmark_flags::options(&invocation.flags, &invocation.program)?,
    })
}

fn measure(options: Options) -> Result<()> {
    let file = input::map(&options.replay.path)?;
    if let Some(out) = &options.bench.out {
        input::check_output(&file, "benchmark_out", out)?;
    }
    let plan = replay_flags::compile(&file, options.replay.recover)?;
    let scope = options.scope.as_deref();
    if let Some(name) = scope {
        check_scope(&plan, name).context(|| input::place(&file))?;
    }
    let replay = replay_flags::prepare(&options.replay, &file, plan)?;
    // What cannot run here is an error, not a report of a failed benchmark.
    replay.check_executables().context(|| input::place(&file))?;
    let benchmark = match scope {
        None => Benchmark::new("BM_replay", |state| whole(&replay, state)).use_real_time(),
        Some(name) => Benchmark::new(format!("BM_replay/scope:{name}"), |state| scoped(&replay, name, state))
            .use_manual_time(),
    };
    let mut benchmarks = [benchmark.measure_process_cpu_time().unit(TimeUnit::Millisecond)];
    let mut reporters = Reporters::from_options(&options.bench)?;
    let outcome = Runner::new(options.bench).run(&mut benchmarks, &mut reporters);
    let outcome = outcome.context(|| input::place(&file))?;
    match outcome.failed {
        0 => Ok(()),
        count => Err(Error::new(rehal_base::StatusCode::Unknown, format!("{count} repetitions failed"))),
    }
}

fn check_scope(plan: &Plan, name: &str) -> Result<()> {
    if plan.scopes().any(|(scope, _)| scope == name.as_bytes()) {
        return Ok(());
    }
    let scopes: Vec<_> = plan
        .scopes()
        .map(|(scope, count)| {
            format!(
                "{} (entered {count} {})",
                scope.escape_ascii(),
                if count == 1 { "time" } else { "times" }
            )
        })
        .collect();
    let has = if scopes.is_empty() { "no scopes".into() } else { scopes.join(", ") };
    Err(Error::not_found(format!("unknown scope '{name}': the capture has {has}"))
        .advise("name one of them with --replay_scope=NAME, or omit the flag to time whole replays"))
}

fn whole(replay: &Replay, state: &mut State<'_>) -> Result<()> {
    while state.keep_running() {
        replay.run(&mut [&mut Steps])?;
    }
    state.set_items_processed(state.iterations());
    Ok(())
}

fn scoped(replay: &Replay, name: &str, state: &mut State<'_>) -> Result<()> {
    while state.keep_running() {
        let mut watch = ScopeWatch::new(name);
        replay.run(&mut [&mut watch])?;
        state.set_iteration_time_ns(watch.finish()?);
    }
    state.set_items_processed(state.iterations());
    Ok(())
}

/// Sets the record for crash reports.
struct Steps;

impl Observer for Steps {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, place: Place) -> Result<()> {
        guard::set_context(place.ordinal.into(), place.offset);
        Ok(())
    }
}

/// Sums the time in scopes of one name; a nested scope of the same name is not counted twice.
struct ScopeWatch<'n> {
    name: &'n str,
    depth: u64,
    since: Instant,
    total_ns: u64,
}

impl<'n> ScopeWatch<'n> {
    fn new(name: &'n str) -> Self {
        Self { name, depth: 0, since: Instant::now(), total_ns: 0 }
    }

    fn finish(self) -> Result<u64> {
        match self.depth {
            0 => Ok(self.total_ns),
            _ => Err(Error::failed_precondition(format!("scope '{}' does not end", self.name))),
        }
    }
}

impl Observer for ScopeWatch<'_> {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, place: Place) -> Result<()> {
        Steps.step(place)
    }

    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        if scope.name == self.name.as_bytes() {
            self.depth += 1;
            if self.depth == 1 {
                self.since = Instant::now();
            }
        }
        Ok(())
    }

    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        // Read first: what follows does not belong to the scope.
        let now = Instant::now();
        if scope.name == self.name.as_bytes() {
            let Some(depth) = self.depth.checked_sub(1) else {
                return Err(Error::failed_precondition(format!(
                    "scope '{}' ends before it begins",
                    self.name
                ))
                .context(scope.place.to_string()));
            };
            self.depth = depth;
            if depth == 0 {
                self.total_ns += now.duration_since(self.since).as_nanos() as u64;
            }
        }
        Ok(())
    }
}
