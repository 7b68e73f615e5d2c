//! The benchmark cases and their targets.

use super::compare::Compared;
use super::compile::{self, Compiled};
use super::diff;
use super::measure::{Invocation, Metric, Output};
use super::orders::InBothOrders;
use super::prepare::{Made, Workplace};
use super::profiles::{self, Profiled};
use super::programs::{self, Program};
use super::report::{Row, Target};
use super::slices;
use super::verify::{self, Verified};
use super::vulkan::{self, OnVulkan};
use std::error::Error;
use std::path::{Path, PathBuf};

/// A pair of programs to run, and the figures to extract.
pub struct Case {
    pub name: String,
    kind: Workload,
}

/// The workload of a case; captures are made or found on demand.
enum Workload {
    /// A full replay iteration of the capture, corpus name before fixture name.
    Iteration { corpus: &'static str, fixture: &'static str },
    /// The scope `execute` of a capture of many calls.
    Scope(PathBuf),
    /// The scope `execute` of a capture that allocates and writes buffers of 16 MiB.
    LargeScope,
    /// A full replay iteration of a real model.
    Model { name: &'static str, function: &'static str },
    /// Our replay of a capture in captured order, compared with our own in serialized order, on a device.
    Order { capture: OrderCapture, device: &'static str, target: f64 },
    /// Our run tool on the long capture in captured order, compared with our own in serialized order: both
    /// plan and run it once.
    RecordsInOrder,
    /// Repetitions of a scope that is a hundredth of its capture, compared with ours of the whole capture.
    FastForward,
    /// A slice of a dispatch, compared with a replay of its capture, ours.
    Slice,
    /// A comparison of a kernel with a source.
    Compare(Compared),
    /// The compiler.
    Compiled(Compiled),
    /// A comparison of captures.
    Diff(diff::Compared),
    /// A replay of a call of a program, compared with the program, both ours, on `local-task` with two
    /// workers.
    Replayed(Program),
    /// The run tool on the long capture.
    RunLong,
    /// The dump tool on the long capture.
    DumpLong(&'static str),
    /// The run tool on 1 GiB of parameters.
    Parameters(&'static str),
    /// A tool on the smallest capture.
    Start(&'static str),
    /// A program, not a capture.
    Program(Program),
    /// A replay of a real model with a profile and without.
    Profile(Profiled),
    /// A verification of a real model, or a recording for one.
    Verify(Verified),
    /// Any of these on `local-task` with two workers, and its target.
    Task(Box<Workload>, f64),
    /// A replay or a recording on Vulkan.
    Vulkan(OnVulkan),
    /// The same program of ours on two workers, compared with one.
    Workers(Program),
}

/// The capture of a [`Workload::Order`].
#[derive(Clone, Copy)]
enum OrderCapture {
    /// By its name in the corpus and in the fixtures.
    Named(&'static str, &'static str),
    /// Calls of the corpus or the fixtures, by name.
    Calls(&'static str),
    /// Two independent chains on two queues.
    TwoChains,
}

/// A prepared case.
pub struct Plan {
    pub theirs: Invocation,
    pub ours: Invocation,
    /// The baseline runs, theirs (if it has one) and ours: figures are the differences.
    pub without: Option<(Option<Invocation>, Invocation)>,
    pub output: Output,
    /// Runs of each program per round: more for short ones.
    pub runs_per_round: u32,
    pub figures: Vec<Figure>,
}

impl Plan {
    /// A comparison of two programs, each of which runs once per round.
    pub fn new(theirs: Invocation, ours: Invocation, figures: Vec<Figure>) -> Self {
        Self { theirs, ours, without: None, output: Output::Discard, runs_per_round: 1, figures }
    }

    /// A comparison of both programs of a tool, with the same arguments.
    pub fn for_tool(workplace: &Workplace, tool: &str, arguments: Vec<String>, figures: Vec<Figure>) -> Self {
        let (theirs, ours) = workplace.pair(tool);
        let theirs = Invocation { program: theirs, arguments: arguments.clone() };
        Self::new(theirs, Invocation { program: ours, arguments }, figures)
    }
}

/// One figure: a row of the table.
pub struct Figure {
    pub name: String,
    pub metric: Metric,
    pub target: Target,
}

const ITERATIONS: [(&str, &str, &str); 4] = [
    ("simple_abs", "simple_abs.abs.local-sync", "simple_abs.abs.local-sync"),
    ("add4", "add4.add.local-sync", "add4.add.local-sync"),
    ("mlp", "mlp.mlp.local-sync", "mlp.mlp.local-sync"),
    ("chain", "chain.chain.local-sync", "chain.chain.local-sync"),
];

/// Targets for scopes: of many short calls, and of large buffers, which take most of the time themselves.
const SCOPE: Target = Target::Ratio(0.8);
const LARGE_SCOPE: Target = Target::Ratio(1.0);

/// Target for two workers: time as a fraction of that with one.
const TWO_WORKERS: f64 = 1.0 / 1.85;

/// Every case, in table order.
pub fn all(workplace: &Workplace) -> Result<Vec<Case>, Box<dyn Error>> {
    let mut cases: Vec<Case> = ITERATIONS
        .iter()
        .map(|&(name, corpus, fixture)| Case {
            name: format!("iteration.{name}"),
            kind: Workload::Iteration { corpus, fixture },
        })
        .collect();
    for (name, path) in workplace.bench_captures()? {
        cases.push(Case { name: format!("scope.{name}"), kind: Workload::Scope(path) });
    }
    cases.push(Case { name: "scope.large_add".to_owned(), kind: Workload::LargeScope });
    for (name, function) in workplace.models() {
        cases.push(Case { name: format!("model.{name}"), kind: Workload::Model { name, function } });
    }
    for (name, corpus, fixture) in ITERATIONS {
        let capture = OrderCapture::Named(corpus, fixture);
        let kind = Workload::Order { capture, device: "local-sync", target: 1.02 };
        cases.push(Case { name: format!("captured.{name}"), kind });
    }
    let (capture, target) = (OrderCapture::TwoChains, 1.0 / 1.5);
    let kind = Workload::Order { capture, device: "local-task", target };
    cases.push(Case { name: "captured.two_chains".to_owned(), kind });
    cases.push(Case { name: "captured.records".to_owned(), kind: Workload::RecordsInOrder });
    cases.push(Case { name: "fast_forward.small_scope".to_owned(), kind: Workload::FastForward });
    if !workplace.models().is_empty() {
        cases.push(Case { name: "slice.largest_model".to_owned(), kind: Workload::Slice });
        cases.push(Case { name: "compare.verdict".to_owned(), kind: Workload::Compare(Compared::Verdict) });
    }
    cases.push(Case { name: "compare.slowdown".to_owned(), kind: Workload::Compare(Compared::Slowdown) });
    let compiled = compile::all().into_iter();
    cases.extend(compiled.map(|(name, it)| Case { name: name.to_owned(), kind: Workload::Compiled(it) }));
    for (name, program) in programs::replayed(!workplace.models().is_empty()) {
        cases.push(Case { name, kind: Workload::Replayed(program) });
    }
    cases.push(Case { name: "run.long".to_owned(), kind: Workload::RunLong });
    for format in ["text", "jsonl"] {
        cases.push(Case { name: format!("dump.{format}"), kind: Workload::DumpLong(format) });
    }
    let diffs = diff::all().into_iter();
    cases.extend(diffs.map(|(name, it)| Case { name: name.to_owned(), kind: Workload::Diff(it) }));
    for validation in ["identity", "digest"] {
        cases.push(Case { name: format!("params.{validation}"), kind: Workload::Parameters(validation) });
    }
    for (name, tool) in [("run", "iree-run-replay"), ("dump", "iree-dump-replay")] {
        cases.push(Case { name: format!("start.{name}"), kind: Workload::Start(tool) });
    }
    cases.extend(
        programs::all(!workplace.models().is_empty())
            .into_iter()
            .map(|(name, program)| Case { name, kind: Workload::Program(program) }),
    );
    let profiles = profiles::all(workplace)?.into_iter();
    cases.extend(profiles.map(|(name, profiled)| Case { name, kind: Workload::Profile(profiled) }));
    let verified = verify::all(workplace).into_iter();
    cases.extend(verified.map(|(name, verified)| Case { name, kind: Workload::Verify(verified) }));
    cases.extend(on_workers(workplace)?);
    let on_vulkan = vulkan::all().into_iter();
    cases.extend(on_vulkan.map(|(name, it)| Case { name, kind: Workload::Vulkan(it) }));
    Ok(cases)
}

/// The cases on `local-task`.
fn on_workers(workplace: &Workplace) -> Result<Vec<Case>, Box<dyn Error>> {
    let models = workplace.models();
    let mut cases = Vec::new();
    for (name, corpus, fixture) in ITERATIONS.into_iter().filter(|(name, ..)| *name == "chain") {
        let kind = Box::new(Workload::Iteration { corpus, fixture });
        cases.push(Case { name: format!("task.iteration.{name}"), kind: Workload::Task(kind, 0.5) });
    }
    for (name, function) in &models {
        let kind = Box::new(Workload::Model { name, function });
        cases.push(Case { name: format!("task.model.{name}"), kind: Workload::Task(kind, 1.0) });
    }
    let mut in_order = |name: &str, capture| {
        let kind = Workload::Order { capture, device: "local-task", target: 1.02 };
        cases.push(Case { name: format!("task.captured.{name}"), kind });
    };
    for (name, corpus, fixture) in ITERATIONS {
        in_order(name, OrderCapture::Named(corpus, fixture));
    }
    if workplace.bench_captures()?.iter().any(|(name, _)| name == "mlp.20") {
        in_order("mlp.20", OrderCapture::Calls("mlp.20"));
    }
    for (name, program, target) in programs::on_workers(!models.is_empty()) {
        let kind = Workload::Task(Box::new(Workload::Program(program)), target);
        cases.push(Case { name: format!("task.{name}"), kind });
    }
    cases
        .push(Case { name: "task.two_workers.matmul".to_owned(), kind: Workload::Workers(programs::MATMUL) });
    Ok(cases)
}

impl Case {
    /// Finds or makes the inputs, and measures it.
    pub fn measure(&self, rounds: u32, workplace: &Workplace) -> Result<Vec<Row>, Box<dyn Error>> {
        let Workload::Order { capture, device, target } = &self.kind else {
            return self.prepare(workplace)?.measure(rounds);
        };
        let capture = capture.path(workplace)?;
        let orders = InBothOrders::new(&self.name, workplace, &capture, device, Target::Ratio(*target));
        Ok(vec![orders.measure(rounds)?])
    }

    /// Finds or makes the inputs.
    fn prepare(&self, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let figure =
            |suffix: &str, metric, target| Figure { name: format!("{}{suffix}", self.name), metric, target };
        let full = || Metric::Benchmark("BM_replay/process_time/real_time".to_owned());
        Ok(match &self.kind {
            Workload::Iteration { corpus, fixture } => {
                let figures = vec![figure("", full(), Target::Ratio(0.5))];
                benchmark(workplace, &workplace.capture(corpus, fixture), &[], figures)
            }
            Workload::Scope(path) => scope(workplace, path, figure("", Metric::OnlyBenchmark, SCOPE)),
            Workload::LargeScope => {
                scope(workplace, &workplace.large_capture()?, figure("", Metric::OnlyBenchmark, LARGE_SCOPE))
            }
            Workload::Model { name, function } => {
                let figures = vec![figure("", full(), Target::Ratio(1.0))];
                benchmark(workplace, &workplace.model_capture(name, function)?, &[], figures)
            }
            Workload::Order { .. } => {
                return Err(format!("case '{}' is measured in one process", self.name).into());
            }
            Workload::RecordsInOrder => {
                records_in_order(workplace, figure("", Metric::Wall, Target::Ratio(1.02)))?
            }
            Workload::FastForward => {
                fast_forward(workplace, figure("", Metric::Wall, Target::Ratio(1.0 / 20.0)))?
            }
            Workload::Slice => slices::prepare(workplace, figure("", Metric::Wall, Target::Ratio(4.0)))?,
            Workload::Compare(compared) => compared.prepare(&self.name, workplace)?,
            Workload::Compiled(compiled) => compiled.prepare(&self.name, workplace)?,
            Workload::Diff(compared) => compared.prepare(&self.name, workplace)?,
            Workload::Replayed(program) => {
                let plan = program.prepare(&self.name, workplace)?;
                replayed(workplace, plan, vec![figure("", Metric::OnlyBenchmark, Target::Within(0.03))])?
            }
            Workload::RunLong => {
                let time = figure("", Metric::Wall, Target::Ratio(0.5));
                let memory = figure(".memory", Metric::PeakBeyond(0), Target::Ratio(0.4));
                process(
                    workplace,
                    "iree-run-replay",
                    &["--device=local-sync"],
                    &workplace.long_capture()?,
                    vec![time, memory],
                )
            }
            Workload::DumpLong(format) => {
                let path = workplace.long_capture()?;
                let file = std::fs::metadata(&path)?.len();
                let time = figure("", Metric::Wall, Target::Ratio(0.3));
                let memory = figure(".memory", Metric::PeakBeyond(file), Target::Bytes(16 << 20));
                process(
                    workplace,
                    "iree-dump-replay",
                    &[&format!("--format={format}")],
                    &path,
                    vec![time, memory],
                )
            }
            Workload::Parameters(validation) => {
                let time = figure("", Metric::Wall, Target::Ratio(0.8));
                let memory = figure(".memory", Metric::PeakBeyond(0), Target::Ratio(1.0));
                let path = workplace.parameter_capture(validation)?;
                process(workplace, "iree-run-replay", &["--device=local-sync"], &path, vec![time, memory])
            }
            Workload::Start(tool) => {
                let path = workplace.capture("multi_func.noop.local-sync", "multi.nothing.local-sync");
                let device: &[&str] = if *tool == "iree-run-replay" { &["--device=local-sync"] } else { &[] };
                let time = figure("", Metric::Wall, Target::Ratio(1.0));
                Plan { runs_per_round: 20, ..process(workplace, tool, device, &path, vec![time]) }
            }
            Workload::Program(program) => program.prepare(&self.name, workplace)?,
            Workload::Profile(profiled) => profiled.prepare(&self.name, workplace)?,
            Workload::Verify(verified) => verified.prepare(&self.name, workplace)?,
            Workload::Task(kind, target) => {
                let mut plan = match &**kind {
                    Workload::Program(program) => program.prepare(&self.name, workplace)?,
                    Workload::Iteration { corpus, fixture } => {
                        let figures = vec![figure("", full(), Target::Ratio(*target))];
                        benchmark(workplace, &workplace.capture(corpus, fixture), &[], figures)
                    }
                    Workload::Model { name, function } => {
                        let figures = vec![figure("", full(), Target::Ratio(*target))];
                        benchmark(workplace, &workplace.model_capture(name, function)?, &[], figures)
                    }
                    _ => return Err(format!("case '{}' has no form on local-task", self.name).into()),
                };
                plan.figures.iter_mut().for_each(|figure| figure.target = Target::Ratio(*target));
                (plan.theirs, plan.ours) = (on(2, &plan.theirs), on(2, &plan.ours));
                plan
            }
            Workload::Vulkan(on_vulkan) => on_vulkan.prepare(&self.name, workplace)?,
            Workload::Workers(program) => {
                let mut plan = program.prepare(&self.name, workplace)?;
                plan.figures.iter_mut().for_each(|figure| figure.target = Target::Ratio(TWO_WORKERS));
                (plan.theirs, plan.ours) = (on(1, &plan.ours), on(2, &plan.ours));
                plan
            }
        })
    }
}

impl OrderCapture {
    fn path(self, workplace: &Workplace) -> Made {
        match self {
            Self::Named(corpus, fixture) => Ok(workplace.capture(corpus, fixture)),
            Self::Calls(name) => {
                let mut captures = workplace.bench_captures()?.into_iter();
                let found = captures.find(|(found, _)| found == name);
                found.map(|(_, path)| path).ok_or_else(|| format!("no capture of calls '{name}'").into())
            }
            Self::TwoChains => workplace.example_capture("two_chains"),
        }
    }
}

/// The same run on `local-task` with `workers` workers.
fn on(workers: u32, invocation: &Invocation) -> Invocation {
    let arguments = invocation.arguments.iter().flat_map(|argument| match argument.as_str() {
        "--device=local-sync" => {
            vec!["--device=local-task".to_owned(), format!("--task_topology_group_count={workers}")]
        }
        _ => vec![argument.clone()],
    });
    Invocation { program: invocation.program.clone(), arguments: arguments.collect() }
}

fn scope(workplace: &Workplace, capture: &Path, figure: Figure) -> Plan {
    benchmark(workplace, capture, &["--replay_scope=execute"], vec![figure])
}

fn benchmark(workplace: &Workplace, capture: &Path, flags: &[&str], figures: Vec<Figure>) -> Plan {
    let shared = ["--device=local-sync", "--benchmark_min_time=0.2s", "--benchmark_format=json"];
    let plan = process(workplace, "iree-benchmark-replay", &[&shared, flags].concat(), capture, figures);
    Plan { output: Output::Json, ..plan }
}

/// One run of the long capture in both orders, ours: the serialized one is the baseline.
fn records_in_order(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let capture = workplace.long_capture()?;
    let mut plan = process(workplace, "iree-run-replay", &["--device=local-sync"], &capture, vec![figure]);
    plan.theirs = plan.ours.clone();
    plan.ours.arguments.push("--replay_order=captured".to_owned());
    Ok(plan)
}

/// A replay of the calls of a program, in captured order and without what is outside of them.
fn replayed(workplace: &Workplace, program: Plan, figures: Vec<Figure>) -> Result<Plan, Box<dyn Error>> {
    let module = on(2, &program.ours);
    let name = &program.figures.first().ok_or("the program has no figure")?.name;
    let path = workplace.scratch(&format!("{name}.ireereplay"));
    let once = |argument: &String| match argument.starts_with("--benchmark_min_time") {
        true => "--benchmark_min_time=1x".to_owned(),
        false => argument.clone(),
    };
    workplace.record("iree-benchmark-module", module.arguments.iter().map(once).collect(), &path)?;
    let flags = ["--replay_order=captured", "--replay_scope=execute", "--replay_fast_forward"];
    let replay = on(2, &benchmark(workplace, &path, &flags, Vec::new()).ours);
    Ok(Plan { theirs: module, ours: replay, figures, ..program })
}

/// The same number of repetitions of a scope, with all of the capture and without.
fn fast_forward(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let capture = workplace.example_capture("small_scope")?;
    let flags = ["--replay_scope=execute", "--benchmark_min_time=200x", "--device=local-sync"];
    let mut plan = process(workplace, "iree-benchmark-replay", &flags, &capture, vec![figure]);
    plan.theirs = plan.ours.clone();
    plan.ours.arguments.push("--replay_fast_forward".to_owned());
    Ok(plan)
}

fn process(workplace: &Workplace, tool: &str, flags: &[&str], capture: &Path, figures: Vec<Figure>) -> Plan {
    let arguments = flags.iter().map(ToString::to_string).chain([capture.display().to_string()]);
    Plan::for_tool(workplace, tool, arguments.collect(), figures)
}
