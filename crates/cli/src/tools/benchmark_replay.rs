//! `iree-benchmark-replay`: replays a capture again and again, and reports how long it takes.

use std::time::Instant;

use rehal_base::{Context, Error, Result};
use rehal_bench::{Benchmark, Reporters, Runner, State, TimeUnit};
use rehal_local::executable::guard;
use rehal_replay::{Observer, RecordLocation, Plan, Replay, Scope};

use super::benchmark_flags::{self, BENCHMARK};
use super::replay_flags;
use crate::flags::{DEVICES, Flag, Group, LOCAL, OTHER_DRIVERS, PROFILING, TASK};
use crate::{Invocation, Tool, devices, input};

/// See the [module](self).
pub const BENCHMARK_REPLAY: Tool = Tool {
    name: "iree-benchmark-replay",
    verb: "benchmark",
    summary: "measures how long the replay of a capture takes",
    about: "Plans the capture once, then replays all of it in each iteration and reports in Google \
            Benchmark's shapes. BM_replay is the time of a whole replay; with --replay_scope=NAME only what \
            lies in that scope is timed, though all of the capture runs.\n\n\
            A capture holds machine code, and replaying it runs that code with your rights: replay what \
            you would also execute.",
    operands: "CAPTURE.ireereplay",
    groups: &[&REPLAY, &BENCHMARK, &DEVICES, &LOCAL, &TASK, &OTHER_DRIVERS, &PROFILING],
    examples: &[
        ("Measure whole replays", "{tool} --device=local-sync --benchmark_min_time=20x model.ireereplay"),
        (
            "Measure what the program did between set-up and clean-up",
            "{tool} --replay_scope=execute --benchmark_min_time=20x model.ireereplay",
        ),
        (
            "Keep results for Google Benchmark's compare.py",
            "{tool} --benchmark_repetitions=9 --benchmark_out=before.json model.ireereplay",
        ),
    ],
    guide: include_str!("../guides/benchmark_replay.md"),
    answer: devices::answer,
    run,
};

const REPLAY: Group = Group {
    title: "Replay",
    flags: &[
        Flag::text("replay_scope", "NAME", "", "Times only what lies in scopes of this name."),
        replay_flags::FILE_REMAP,
        replay_flags::SUBSTITUTION,
        replay_flags::RECOVER,
    ],
};

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let path = invocation.capture_path()?;
    let bench_options = benchmark_flags::options(flags, &invocation.program)?;
    let options = replay_flags::options(flags)?;
    let file = input::map(path)?;
    if let Some(out) = &bench_options.out {
        input::check_output(&file, "benchmark_out", &out.to_string_lossy())?;
    }
    let plan = replay_flags::compile(&file, flags.switch("recover"))?;
    let scope = flags.given_text("replay_scope");
    if let Some(name) = scope {
        check_scope(&plan, name).context(|| input::place(&file))?;
    }
    let replay = replay_flags::prepare(flags, &file, plan, &options)?;
    // What cannot run here shall be an error, not a report of a failed benchmark.
    replay.check_executables().context(|| input::place(&file))?;
    let benchmark = match scope {
        None => Benchmark::new("BM_replay", |state| whole(&replay, state)).use_real_time(),
        Some(name) => Benchmark::new(format!("BM_replay/scope:{name}"), |state| scoped(&replay, name, state))
            .use_manual_time(),
    };
    let mut benchmarks = [benchmark.measure_process_cpu_time().unit(TimeUnit::Millisecond)];
    let mut reporters = Reporters::from_options(&bench_options)?;
    let outcome = Runner::new(bench_options).run(&mut benchmarks, &mut reporters);
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
    Err(Error::not_found(format!("there is no scope '{name}' in the capture, which has: {has}"))
        .advise("name one of them with --replay_scope=NAME, or leave it out to time whole replays"))
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

/// Tells the crash guard which record runs.
struct Steps;

impl Observer for Steps {
    fn wants_steps(&self) -> bool {
        true
    }

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        guard::set_context(location.ordinal.into(), location.offset);
        Ok(())
    }
}

/// Adds up the time in scopes of one name; one that is open in another of the same name is part of it.
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

    fn step(&mut self, location: RecordLocation) -> Result<()> {
        Steps.step(location)
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
        // Read first: what follows is not the scope's.
        let now = Instant::now();
        if scope.name == self.name.as_bytes() {
            let Some(depth) = self.depth.checked_sub(1) else {
                return Err(Error::failed_precondition(format!(
                    "scope '{}' ends before it begins",
                    self.name
                ))
                .context(scope.location.to_string()));
            };
            self.depth = depth;
            if depth == 0 {
                self.total_ns += now.duration_since(self.since).as_nanos() as u64;
            }
        }
        Ok(())
    }
}
