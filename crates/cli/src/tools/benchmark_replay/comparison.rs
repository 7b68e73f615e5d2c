//! `rehal benchmark --with`: replays with and without replacements, by turns.

use std::fmt::Write;

use rehal_base::{Context, Error, Result};
use rehal_devices::find_scope;
use rehal_judge::{
    Clock, Conditions, Interval, JudgeOptions, Judgment, Pulse, Side, Stopped, TimingVerdict, time,
};
use rehal_kernels::{FunctionNames, FunctionTiming, ReplayComparison, compare_replays};
use rehal_replay::{Code, Substitution};
use serde::Serialize;

use super::{CACHE, Cache, FAST_FORWARD, ORDER, Orders, SCOPE, scope_of_slice, times_dispatch};
use crate::flags::{Access, Flag, Flags, Group, List, NamedFile};
use crate::kernel_recording::Recording;
use crate::output::escaped;
use crate::report::{Format, Report, Subject};
use crate::sandbox::Reach;
use crate::table::{Column, Layout, Table};
use crate::tools::processes::PROCESSES;
use crate::tools::{compare, history, kernels, replay_flags, report_format};
use crate::{Invocation, advice, captures, interrupts, profiling, progress};

pub(super) const WITH: List<Substitution> = List::parsed(
    "with",
    "WHICH[@FORMAT]=PATH",
    "WHICH[@FORMAT]=PATH",
    |value| Ok(Substitution::parse(value)?),
    "Measures replays with this replacement and without it, by turns, instead of a benchmark: the ratio of the scope of \
     --replay_scope, by default execute if there is one, else of whole replays, without the loading of executables; and of each \
     function, with intervals. What it computes is not checked: rehal verify does that. WHICH and PATH are \
     those of --replay_executable_substitution, whose replacements are on both sides; WHICH may also be a part of a name that no \
     other function has, or a pattern that only one matches. --baseline names replacements of the other side. May be repeated. Exit \
     status 0 if it is \
     proved to be not slower than --fail_if_slower allows, 3 if it is slower, 4 if that cannot be told.",
)
.files(read);

pub(super) const BASELINE: List<Substitution> = List::parsed(
    "baseline",
    "WHICH[@FORMAT]=PATH",
    "WHICH[@FORMAT]=PATH",
    |value| Ok(Substitution::parse(value)?),
    "With --with, what it is compared with has this replacement instead of the captured code: two replacements of a function are \
     compared with each other. WHICH and PATH are those of --with. May be repeated.",
)
.files(read);

fn read(substitution: &Substitution, _: &Flags) -> Vec<NamedFile> {
    match &substitution.replacement.code {
        Code::File(path) => vec![Access::Read.to(path)],
        Code::Bytes(_) => Vec::new(),
    }
}

const FORMAT: Flag<Format> = report_format::flag(
    "text: a screen. json: an object. Only with --with; --benchmark_format is that of benchmarks.",
);

pub(super) const FAIL_IF_SLOWER: Flag<f64> = compare::margin_flag(
    "With --with, replays are not slower if the interval of their ratio ends below 1 plus this percentage. With --against, a \
     benchmark is slower if the interval of the ratio is above 1 plus this percentage.",
);

pub(super) const COMPARISON: Group = Group {
    title: "Before and after",
    flags: &[
        &WITH,
        &BASELINE,
        &FAIL_IF_SLOWER,
        &compare::PRECISION,
        &compare::MAX_TIME,
        &compare::SEED,
        &FORMAT,
    ],
};

/// The scope of the calls of a program, as IREE's tools and ours name it: the default.
const CALLS: &str = "execute";

/// The flags of [`COMPARISON`] that say how to compare.
const OF_COMPARISON: [&str; 5] = ["baseline", "precision", "max_time", "seed", "format"];

/// Refuses flags that would have no effect.
pub(super) fn check(flags: &Flags) -> Result<()> {
    if flags.list(&WITH).is_empty() {
        let has_margin = flags.changed(|name| name == FAIL_IF_SLOWER.name()).is_some();
        if has_margin && flags.get(&history::AGAINST).is_none() {
            return Err(Error::invalid_argument("--fail_if_slower needs --with or --against")
                .advise("name what to compare with, or leave it out"));
        }
        return match flags.changed(|name| OF_COMPARISON.contains(&name)) {
            Some(name) => Err(Error::invalid_argument(format!("--{name} needs --with"))
                .advise("name a replacement with --with=NAME=PATH, or leave it out")),
            None => Ok(()),
        };
    }
    let refuse = |what: &str, advice: &str| {
        Err(Error::invalid_argument(format!("{what} has no effect with --with")).advise(advice))
    };
    if let Some(name) = flags.changed(|name| name == PROCESSES.name() || name.starts_with("benchmark_")) {
        return refuse(
            &format!("--{name}"),
            "leave it out: --max_time and --precision say how long to measure",
        );
    }
    if history::is_asked(flags) {
        return refuse("--history or --against", "leave it out: both sides are measured");
    }
    if flags.get(&FAST_FORWARD) {
        return refuse("--replay_fast_forward", "leave it out: whole replays are measured");
    }
    if flags.get(&CACHE) == Cache::Cold {
        return refuse("--replay_cache=cold", "rehal compare measures a kernel with cold caches");
    }
    if flags.get(&ORDER) == Orders::Both {
        return refuse("--replay_order=both", "name one order");
    }
    match profiling::Options::from_flags(flags)? {
        Some(_) => refuse("--device_profiling_mode", "leave it out: profiles slow down what is measured"),
        None => Ok(()),
    }
}

/// Measures and reports.
pub(super) fn run(invocation: &Invocation, options: &replay_flags::Options) -> Result<()> {
    let flags = &invocation.flags;
    rehal_base::keep_freed_memory();
    let capture = captures::open(&options.path, &options.capture)?;
    let plan = replay_flags::compile(&capture)?;
    let scope = match flags.get(&SCOPE) {
        None if times_dispatch(invocation) => scope_of_slice(&plan)?,
        scope => scope,
    };
    // What a program does before its calls is of no interest.
    let scope = scope.or_else(|| find_scope(&plan, CALLS).is_ok().then(|| CALLS.to_owned()));
    if let Some(name) = &scope {
        find_scope(&plan, name)
            .context(|| captures::place(&capture))
            .advise(|| "name one of them with --replay_scope=NAME, or omit the flag to time whole replays")?;
    }
    let recording = Recording::checked(flags)?;
    let (mut with, mut baseline) = (flags.list(&WITH), flags.list(&BASELINE));
    let names = FunctionNames::from_plan(&plan)?;
    let unresolved = [("with", names.resolve(&mut with)), ("baseline", names.resolve(&mut baseline))];
    let unresolved = unresolved.iter().flat_map(|(flag, errors)| errors.iter().map(move |it| (flag, it)));
    let resolved = replay_flags::resolve_sides(options, invocation, &plan, [&baseline, &with]);
    // An executable may have the name.
    let resolved = unresolved.fold(resolved, |resolved, (flag, error)| {
        let advice = advice::of(error).map(|it| format!("; {it}")).unwrap_or_default();
        resolved.context(|| format!("--{flag}: {}{advice}", error.message()))
    })?;
    let mut reach = Reach::of_replay(&plan, &options.devices);
    reach.directories.extend(recording.as_ref().map(Recording::directory));
    invocation.confined(&reach, || {
        let (sides, _reports) = replay_flags::prepare_sides(options, plan.clone(), resolved)?;
        let mut judging = JudgeOptions::default();
        judging.precision = flags.get(&compare::PRECISION);
        judging.margin = flags.get(&FAIL_IF_SLOWER);
        judging.max_time = flags.get(&compare::MAX_TIME);
        judging.seed = flags.get(&compare::SEED);
        judging.pulse = progress::pulse("comparing", interrupts::flag()?);
        let comparison = compare_replays(&|side| sides.replay(side), scope.as_deref(), &judging);
        // The report is printed in its place.
        judging.pulse = Pulse::default();
        let comparison = comparison.context(|| captures::place(&capture))?;
        let subject = Subject { capture: Some(capture.bytes()), devices: Some(&sides.devices) };
        let compared = Compared::new(&comparison, [&baseline, &with], scope.as_deref());
        invocation.print(&compared, flags.get(&FORMAT), subject)?;
        invocation.set_status(comparison.whole.verdict().status());
        Recording::of_capture(recording.as_ref(), None, || sides.replay(Side::Captured))
    })
}

/// A comparison. What is not known is null.
#[derive(Serialize)]
struct Compared<'a> {
    with: Vec<String>,
    /// Code that the other side has instead of the captured code.
    baseline: Vec<String>,
    /// The scope that is timed; null for whole replays.
    scope: Option<&'a str>,
    #[serde(flatten)]
    whole: Ratio,
    margin: f64,
    pair_count: u64,
    preempted_pair_count: u64,
    batch_count: u64,
    stopped: Stopped,
    elapsed_ns: u64,
    /// The clock of the whole.
    clock: Clock,
    /// Whether results are checked, which they are not.
    is_checked: bool,
    timed_by: Option<Clock>,
    functions: Vec<Function<'a>>,
    machine: &'a Conditions,
    #[serde(skip)]
    judgment: &'a Judgment,
}

/// How long the replaced side takes, compared with the captured one.
#[derive(Serialize)]
struct Ratio {
    /// `None` of a function whose code is the same on both sides.
    verdict: Option<TimingVerdict>,
    ratio: f64,
    ratio_interval: Option<Interval>,
    captured_ns: f64,
    replaced_ns: f64,
}

#[derive(Serialize)]
struct Function<'a> {
    function: &'a str,
    dispatches: u64,
    #[serde(flatten)]
    ratio: Ratio,
}

/// The verdict as text.
fn told(verdict: Option<TimingVerdict>) -> &'static str {
    verdict.map_or(compare::SAME_CODE, TimingVerdict::told)
}

impl<'a> Compared<'a> {
    fn new(
        comparison: &'a ReplayComparison,
        [baseline, with]: [&[Substitution]; 2],
        scope: Option<&'a str>,
    ) -> Self {
        let whole = &comparison.whole;
        let [captured_ns, replaced_ns] =
            whole.parts.first().map_or([0.0; 2], |it| [it.captured.ns, it.replaced.ns]);
        let of_function = |it: &'a FunctionTiming| Function {
            function: &it.name,
            dispatches: it.dispatch_count,
            ratio: Ratio {
                verdict: (!it.has_same_code).then(|| TimingVerdict::of(it.timing.interval, whole.margin)),
                ratio: it.timing.ratio,
                ratio_interval: it.timing.interval,
                captured_ns: it.timing.captured.ns,
                replaced_ns: it.timing.replaced.ns,
            },
        };
        Self {
            with: with.iter().map(described).collect(),
            baseline: baseline.iter().map(described).collect(),
            scope,
            whole: Ratio {
                verdict: Some(whole.verdict()),
                ratio: whole.ratio,
                ratio_interval: whole.interval,
                captured_ns,
                replaced_ns,
            },
            margin: whole.margin,
            pair_count: whole.pair_count,
            preempted_pair_count: whole.preempted_count,
            batch_count: whole.batch_count,
            stopped: whole.stopped,
            elapsed_ns: whole.elapsed.as_nanos() as u64,
            clock: whole.clock,
            is_checked: false,
            timed_by: comparison.times,
            functions: comparison.functions.iter().map(of_function).collect(),
            machine: &whole.conditions,
            judgment: whole,
        }
    }
}

/// A replacement, as a flag names it.
fn described(it: &Substitution) -> String {
    let path = match &it.replacement.code {
        Code::File(path) => path.display().to_string(),
        Code::Bytes(_) => String::new(),
    };
    format!("{}: {path}", it.selector)
}

impl Report for Compared<'_> {
    const SCHEMA: &'static str = "rehal.benchmark.with/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let mut text = String::new();
        for with in &self.with {
            let _ = writeln!(text, "{}", escaped(with));
        }
        for baseline in &self.baseline {
            let _ = writeln!(text, "compared with {}", escaped(baseline));
        }
        let what = self.scope.map_or_else(|| "replay".into(), |scope| format!("scope {}", escaped(scope)));
        let _ = writeln!(
            text,
            "{what}: {}",
            compare::ratio(self.judgment, self.judgment.verdict().told(), self.base())
        );
        for line in compare::measured(self.judgment) {
            let _ = writeln!(text, "  {line}");
        }
        let _ = writeln!(text, "  {}", compare::machine(&self.judgment.conditions));
        for warning in &self.machine.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
        self.add_functions(&mut text, layout);
        text.push_str("\nwhat the replacement computes is not checked: rehal verify --replay_executable_substitution does that\n");
        text
    }
}

impl Compared<'_> {
    /// The side that is compared with.
    fn base(&self) -> &'static str {
        if self.baseline.is_empty() { "captured" } else { "baseline" }
    }

    fn add_functions(&self, text: &mut String, layout: Layout) {
        let Some(timed_by) = self.timed_by else { return };
        let columns = [
            Column::right("ratio"),
            Column::right("95 % interval"),
            Column::right("time"),
            Column::right(self.base()),
            Column::right("count").optional(1),
            Column::left("verdict"),
            Column::names("function"),
        ];
        let mut table = Table::new("", columns);
        for Function { function, dispatches, ratio } in &self.functions {
            let interval = ratio.ratio_interval;
            let interval =
                interval.map_or_else(|| "-".into(), |it| format!("{:.3} to {:.3}", it.low, it.high));
            table.row([
                format!("{:.3}", ratio.ratio),
                interval,
                time(ratio.replaced_ns),
                time(ratio.captured_ns),
                dispatches.to_string(),
                told(ratio.verdict).to_owned(),
                escaped(function),
            ]);
        }
        let how = kernels::described(timed_by);
        let _ = writeln!(text, "\nall dispatches of a function in a replay, one operation at a time, {how}:");
        text.push_str(&table.text(layout));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proof_is_a_success() {
        let all = [
            TimingVerdict::Faster,
            TimingVerdict::NotSlower,
            TimingVerdict::Slower,
            TimingVerdict::CannotTell,
        ];
        assert_eq!(all.map(TimingVerdict::status), [0, 0, 3, 4]);
    }
}
