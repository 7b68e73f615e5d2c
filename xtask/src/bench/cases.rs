//! The rows: what is run, and what is promised of it.
//!
//! A row shows what a user waits or pays for, and what no other row shows: its readers would act on it.
//! What a change of code costs is counted instead, by `instructions.rs`.

use super::materials::{INPUT_BYTES, USED_PARAMETER_BYTES};
use super::measure::{Invocation, Metric, Output};
use super::plan::{Case, Plan, Prepared, Without, case};
use super::prepare::Workplace;
use super::report::Target;
use super::{compare, compile, diff, vulkan};
use std::path::Path;

const MATMUL: &str = include_str!("programs/matmul.mlir");

const SYNC: &str = "--device=local-sync";

/// Every case, in table order. Without the corpus, those that need it are absent.
pub fn all(workplace: &Workplace) -> Vec<Case> {
    let mut all = replays();
    all.extend(files());
    all.extend(compile::all());
    all.extend(programs());
    all.extend(vulkan::all());
    if workplace.has_corpus() {
        all.extend(of_corpus());
    }
    all
}

/// Replays of captures.
fn replays() -> Vec<Case> {
    let iteration = |name: &'static str, capture: &'static str| {
        case(name, move |it| Ok(replay(it, &it.capture(capture), &[]).row(Metric::Time, Target::Ratio(0.5))))
    };
    vec![
        iteration("iteration.simple_abs", "simple_abs.abs.local-sync"),
        iteration("iteration.mlp", "mlp.mlp.local-sync"),
        case("overhead.chain", |it| {
            let capture = it.capture("chain.chain.local-sync");
            // Most of the time is that of the kernels: other processes must not count.
            let plan = replay(it, &capture, &[]).row(Metric::ProcessorPerCall, Target::Ratio(0.5)).runs(3);
            let capture = capture.display().to_string();
            let kernels = it.ours(&["kernels", SYNC, "--format=json", &capture]);
            Ok(Plan { without: Without::Kernels(kernels), ..plan })
        }),
        case("task.iteration.chain", |it| {
            let plan = replay(it, &it.capture("chain.chain.local-sync"), &[]);
            Ok(plan.row(Metric::Time, Target::Ratio(0.5)).on_workers())
        }),
        case("scope.add4.200", |it| scope(it, &it.capture("bench.add4.200.local-sync"))),
        // Of large buffers, which take most of the time themselves.
        case("scope.large_add", |it| scope(it, &it.large_capture()?)),
        case("captured.two_chains", |it| {
            let plan = replay(it, &it.example_capture("two_chains")?, &[]).on_workers();
            Ok(in_order(plan).row(Metric::Time, Target::Ratio(1.0 / 1.5)))
        }),
        case("captured.records", |it| {
            let plan = process(it, "iree-run-replay", &[SYNC], &it.long_capture()?);
            Ok(in_order(plan).row(Metric::Wall, Target::Ratio(1.02)))
        }),
        // Repetitions of a scope that is a hundredth of its capture, compared with those of the whole.
        case("fast_forward.small_scope", |it| {
            let flags = ["--replay_scope=execute", "--benchmark_min_time=200x", SYNC];
            let plan = process(it, "iree-benchmark-replay", &flags, &it.example_capture("small_scope")?);
            Ok(with(plan, "--replay_fast_forward").row(Metric::Wall, Target::Ratio(1.0 / 20.0)))
        }),
    ]
}

/// Tools on files.
fn files() -> Vec<Case> {
    let start = |name, tool: &'static str, flags: &'static [&'static str]| {
        // Time of the processor: a run waits for its copy, whose start the system schedules.
        case(name, move |it| {
            let plan = process(it, tool, flags, &it.capture("multi_func.noop.local-sync"));
            Ok(plan.row(Metric::Processor, Target::Ratio(1.5)).runs(20))
        })
    };
    let dump = |it: &Workplace, format: &str| -> Prepared {
        let format = format!("--format={format}");
        let plan = process(it, "iree-dump-replay", &[&format], &it.long_capture()?);
        Ok(plan.row(Metric::Wall, Target::Ratio(0.3)))
    };
    let parameters = |it: &Workplace, validation: &str| -> Prepared {
        let plan = process(it, "iree-run-replay", &[SYNC], &it.parameter_capture(validation)?);
        Ok(plan.row(Metric::Wall, Target::Ratio(0.8)))
    };
    vec![
        start("start.run", "iree-run-replay", &[SYNC]),
        start("start.dump", "iree-dump-replay", &[]),
        case("run.long", |it| {
            let plan = process(it, "iree-run-replay", &[SYNC], &it.long_capture()?);
            let plan = plan.row(Metric::Wall, Target::Ratio(0.5));
            Ok(plan.suffixed(".memory", Metric::PeakBeyond(0), Target::Ratio(0.4)))
        }),
        case("dump.text", move |it| {
            let file = std::fs::metadata(it.long_capture()?)?.len();
            Ok(dump(it, "text")?.suffixed(".memory", Metric::PeakBeyond(file), Target::Bytes(16 << 20)))
        }),
        case("dump.jsonl", move |it| dump(it, "jsonl")),
        case("info", |it| {
            let ours = it.ours(&["info", &it.long_capture()?.display().to_string()]);
            Ok(Plan::new(None, ours).suffixed(".memory", Metric::PeakBeyond(0), Target::Bytes(48 << 20)))
        }),
        case("diff.changed", diff::changed),
        case("params.identity", move |it| {
            let plan = parameters(it, "identity")?;
            Ok(plan.suffixed(".memory", Metric::PeakBeyond(0), Target::Ratio(1.0)))
        }),
        case("params.digest", move |it| parameters(it, "digest")),
        case("parameters.memory", |it| {
            let theirs = run(it, it.large_parameters("file")?).theirs;
            // The pinned release does not map parameters; it is run in its default mode.
            let plan = Plan { theirs, ..run(it, it.large_parameters("mmap")?) };
            Ok(plan.row(Metric::PeakBeyond(USED_PARAMETER_BYTES), Target::Bytes(32 << 20)))
        }),
        case("compare.slowdown", compare::slowdown),
    ]
}

/// Programs, not captures.
fn programs() -> Vec<Case> {
    let host = |name, function: &'static str, target| {
        case(name, move |it| {
            let arguments = [format!("--module={}", it.program("host_speed")?.display())];
            let plan = benchmark(it, [&arguments[..], &[format!("--function={function}")]].concat());
            Ok(plan.row(Metric::Time, Target::Ratio(target)))
        })
    };
    let vmvx = |name, module: &'static str, function: &'static str, inputs: &'static [&'static str]| {
        case(name, move |it| {
            let plan = benchmark(it, it.call(module, function, inputs));
            Ok(plan.row(Metric::Time, Target::Ratio(1.0)))
        })
    };
    let abs = |it: &Workplace| it.call("simple_abs", "abs", &["f32=-7.25"]);
    vec![
        host("host.nothing", "nothing", 0.7),
        host("host.sum", "sum", 0.8),
        host("host.calls", "calls", 0.6),
        vmvx("vmvx.matmul", "vmvx_speed.vmvx", "matmul", &["128x128xf32=0.5", "128x128xf32=1.5"]),
        vmvx("vmvx.softmax", "vmvx_speed.vmvx", "softmax", &["64x256xf32=0.5"]),
        vmvx(
            "vmvx.microkernels.matmul",
            "vmvx_speed.microkernels.vmvx",
            "matmul",
            &["128x128xf32=0.5", "128x128xf32=1.5"],
        ),
        vmvx(
            "vmvx.microkernels.product_i8",
            "vmvx_speed.microkernels.vmvx",
            "product_i8",
            &["256x256xi8=5", "256x256xi8=3"],
        ),
        case("call.simple_abs", move |it| Ok(benchmark(it, abs(it)).row(Metric::Time, Target::Ratio(0.8)))),
        case("task.call.simple_abs", move |it| Ok(on_task(benchmark(it, abs(it)), Target::Ratio(0.7)))),
        case("replayed.matmul", |it| replayed(it, "matmul", matmul(it)?)),
        case("task.two_workers.matmul", |it| {
            let Plan { ours, .. } = matmul(it)?;
            let plan = Plan::new(on(1, &ours), on(2, &ours)).row(Metric::Time, Target::Ratio(1.0 / 1.85));
            Ok(Plan { output: Output::Json, ..plan })
        }),
        case("first.simple_abs", move |it| {
            Ok(run(it, abs(it)).row(Metric::Processor, Target::Ratio(1.5)).runs(20))
        }),
        case("record.call", move |it| {
            let shared = [SYNC, "--benchmark_min_time=100000x", "--benchmark_format=json"];
            let arguments = [&abs(it)[..], &shared.map(ToOwned::to_owned)].concat();
            let plain = Plan::for_tool(it, "iree-benchmark-module", arguments);
            let plan = recorded(it, plain, "--device_replay_output", "record.call.ireereplay");
            Ok(Plan { output: Output::Json, ..plan }.row(Metric::Time, Target::Ratio(0.5)))
        }),
        // Compared with a program that writes as many bytes.
        case("record.inputs", |it| {
            let plain = run(it, it.large_input()?);
            let Plan { ours, without, .. } =
                recorded(it, plain, "--device_replay_output", "record.inputs.ireereplay");
            let written = it.scratch("written.bin");
            let count = INPUT_BYTES >> 20;
            let of = [format!("of={}", written.display()), "bs=1M".into(), format!("count={count}")];
            let arguments = [&["if=/dev/zero".to_owned()][..], &of].concat();
            let without = match without {
                Without::Runs(_, ours) => Without::Runs(None, ours),
                other => other,
            };
            let plan = Plan::new(Invocation { program: "dd".into(), arguments }, ours);
            Ok(Plan { without, ..plan }.row(Metric::Wall, Target::Ratio(1.2)))
        }),
    ]
}

/// Real models, and captures of many calls.
fn of_corpus() -> Vec<Case> {
    let capture = |name, capture: &'static str| case(name, move |it| scope(it, &it.capture(capture)));
    let model = |name: &'static str, model: &'static str| {
        case(name, move |it| {
            Ok(replay(it, &it.model_capture(model)?, &[]).row(Metric::Time, Target::Ratio(1.0)))
        })
    };
    let task = |name, model: &'static str| {
        case(name, move |it| Ok(on_task(benchmark(it, it.call_of(model)?), Target::Ratio(1.0))))
    };
    // A profile adds less to the models than the noise of the rest.
    let added = |name, family: &'static str| {
        case(name, move |it| {
            let flags = ["--benchmark_min_time=0.05s"];
            let mut plain = replay(it, &it.capture("bench.abs.2000"), &flags);
            let mode = format!("--device_profiling_mode={family}");
            plain = recorded(it, plain, "--device_profiling_output", "profile.ireeprof");
            plain.ours.arguments.push(mode.clone());
            if let Some(theirs) = &mut plain.theirs {
                theirs.arguments.push(mode);
            }
            Ok(plain.row(Metric::Time, Target::Ratio(1.0)).runs(20))
        })
    };
    let digests = |name, model: &'static str, ledger: &'static str, target| {
        case(name, move |it| {
            let capture = it.scratch(&format!("{name}.ireereplay"));
            let mut plan = run(it, it.call_of(model)?);
            plan.ours.arguments.push(format!("--device_replay_output={}", capture.display()));
            plan = with(plan, &format!("--device_replay_ledger={ledger}"));
            if let Some(theirs) = &mut plan.theirs {
                theirs.arguments.push("--device_replay_ledger=off".to_owned());
            }
            Ok(plan.row(Metric::Wall, Target::Ratio(target)).runs(3))
        })
    };
    vec![
        capture("scope.abs.2000", "bench.abs.2000"),
        capture("scope.control.20", "bench.control.20"),
        capture("scope.mlp.20", "bench.mlp.20"),
        model("model.basic_pitch", "basic_pitch"),
        model("model.magika", "magika"),
        model("model.ppocr_cls", "ppocr_cls"),
        model("model.silero_vad", "silero_vad"),
        case("call.silero_vad", |it| {
            Ok(benchmark(it, it.call_of("silero_vad")?).row(Metric::Time, Target::Ratio(1.0)))
        }),
        task("task.call.basic_pitch", "basic_pitch"),
        task("task.call.ppocr_cls", "ppocr_cls"),
        task("task.call.silero_vad", "silero_vad"),
        case("replayed.magika", |it| replayed(it, "magika", benchmark(it, it.call_of("magika")?))),
        case("first.silero_vad", |workplace| {
            let call = workplace.call_of("silero_vad")?.into_iter();
            // With all weights in a file.
            let call = call.map(|word| word.replace("/m.vmfb", "/ext.vmfb").replace("/m.irpa", "/ext.irpa"));
            Ok(run(workplace, call.collect()).row(Metric::Processor, Target::Ratio(1.5)).runs(10))
        }),
        added("profile.queue-events.added", "queue-events"),
        added("profile.host-execution.added", "host-execution"),
        case("slice.magika", slice),
        case("verify.basic_pitch", verify),
        digests("record.reads.magika", "magika", "reads", 1.05),
        digests("record.dispatches.basic_pitch", "basic_pitch", "dispatches", 2.0),
    ]
}

impl Plan {
    /// Both on `local-task` with two workers.
    fn on_workers(mut self) -> Self {
        self.theirs = self.theirs.map(|it| on(2, &it));
        self.ours = on(2, &self.ours);
        self
    }
}

/// The same run on `local-task` with `workers` workers.
fn on(workers: u32, invocation: &Invocation) -> Invocation {
    let arguments = invocation.arguments.iter().flat_map(|argument| match argument.as_str() {
        SYNC => vec!["--device=local-task".to_owned(), format!("--task_topology_group_count={workers}")],
        _ => vec![argument.clone()],
    });
    Invocation { program: invocation.program.clone(), arguments: arguments.collect() }
}

/// On `local-task`, the time of a call, and that of the processors: waiting threads may spin.
fn on_task(plan: Plan, time: Target) -> Plan {
    let plan = plan.on_workers().row(Metric::Time, time);
    plan.suffixed(".processor", Metric::ProcessorPerCall, Target::Ratio(1.0))
}

/// Ours with another flag, compared with ours without.
fn with(plan: Plan, flag: &str) -> Plan {
    let theirs = plan.ours.clone();
    let mut ours = plan.ours;
    ours.arguments.push(flag.to_owned());
    Plan { theirs: Some(theirs), ours, ..plan }
}

/// Our replay in captured order, compared with ours in serialized order.
fn in_order(plan: Plan) -> Plan {
    with(plan, "--replay_order=captured")
}

fn scope(workplace: &Workplace, capture: &Path) -> Prepared {
    let plan = replay(workplace, capture, &["--replay_scope=execute"]);
    Ok(plan.row(Metric::Time, Target::Ratio(1.0)))
}

/// Both benchmark tools on a capture.
fn replay(workplace: &Workplace, capture: &Path, flags: &[&str]) -> Plan {
    let shared = [SYNC, "--benchmark_min_time=0.2s", "--benchmark_format=json"];
    let plan = process(workplace, "iree-benchmark-replay", &[&shared, flags].concat(), capture);
    Plan { output: Output::Json, ..plan }
}

/// Both benchmark tools on a call of a program.
fn benchmark(workplace: &Workplace, arguments: Vec<String>) -> Plan {
    let shared = [SYNC, "--benchmark_min_time=0.2s", "--benchmark_format=json"];
    let arguments = shared.iter().map(ToString::to_string).chain(arguments).collect();
    Plan { output: Output::Json, ..Plan::for_tool(workplace, "iree-benchmark-module", arguments) }
}

/// Both run tools with the same arguments.
fn run(workplace: &Workplace, mut arguments: Vec<String>) -> Plan {
    arguments.insert(0, SYNC.to_owned());
    Plan::for_tool(workplace, "iree-run-module", arguments)
}

fn process(workplace: &Workplace, tool: &str, flags: &[&str], capture: &Path) -> Plan {
    let arguments = flags.iter().map(ToString::to_string).chain([capture.display().to_string()]);
    Plan::for_tool(workplace, tool, arguments.collect())
}

fn matmul(workplace: &Workplace) -> Prepared {
    let module = workplace.compile("matmul_1024", MATMUL)?;
    let mut arguments = vec![format!("--module={}", module.display()), "--function=matmul".to_owned()];
    arguments.extend(["0.5", "1.5"].map(|value| format!("--input=1024x1024xf32={value}")));
    Ok(benchmark(workplace, arguments))
}

/// The cost of writing a file, whose path is the value of `flag`.
fn recorded(workplace: &Workplace, plain: Plan, flag: &str, file: &str) -> Plan {
    let recorded = |invocation: &Invocation, whose: &str| {
        let mut invocation = invocation.clone();
        let path = workplace.scratch(&format!("{whose}.{file}"));
        invocation.arguments.push(format!("{flag}={}", path.display()));
        invocation
    };
    let theirs = plain.theirs.as_ref().map(|it| recorded(it, "theirs"));
    let ours = recorded(&plain.ours, "ours");
    Plan { theirs, ours, without: Without::Runs(plain.theirs, plain.ours), ..plain }
}

/// A replay of the calls of a program, in captured order and without what is outside of them, compared with
/// the program, both ours, with two workers. Most of the time is device work: a replay does nothing else.
fn replayed(workplace: &Workplace, name: &str, program: Plan) -> Prepared {
    let module = on(2, &program.ours);
    let path = workplace.scratch(&format!("replayed.{name}.ireereplay"));
    let once = |argument: &String| match argument.starts_with("--benchmark_min_time") {
        true => "--benchmark_min_time=1x".to_owned(),
        false => argument.clone(),
    };
    workplace.record("iree-benchmark-module", module.arguments.iter().map(once).collect(), &path)?;
    let flags = ["--replay_order=captured", "--replay_scope=execute", "--replay_fast_forward"];
    let replay = on(2, &replay(workplace, &path, &flags).ours);
    let plan = Plan::new(module, replay).row(Metric::Time, Target::Within(0.05));
    Ok(Plan { output: Output::Json, ..plan })
}

/// A slice of the dispatch that takes the most time, compared with a replay of its capture.
fn slice(workplace: &Workplace) -> Prepared {
    let capture = workplace.model_capture("magika")?.display().to_string();
    let kernels = workplace.ours(&["kernels", SYNC, "--format=json", &capture]);
    let listed = workplace.done(&kernels)?;
    let report: serde_json::Value = serde_json::from_slice(&listed)?;
    let longest = &report["kernels"][0];
    let output = workplace.scratch("slice.ireereplay").display().to_string();
    let (dispatch, occurrence) =
        (format!("--dispatch={}", longest["record"]), format!("--occurrence={}", longest["occurrence"]));
    let cut = workplace.ours(&["slice", SYNC, &dispatch, &occurrence, &capture, "-o", &output]);
    let plan = Plan::new(workplace.ours(&["run", SYNC, &capture]), cut);
    Ok(plan.row(Metric::Wall, Target::Ratio(4.0)))
}

/// A verification against a ledger of dispatches, compared with a replay.
fn verify(workplace: &Workplace) -> Prepared {
    let capture = workplace.model_capture("basic_pitch")?.display().to_string();
    let ledger = workplace.scratch("verify.ledger").display().to_string();
    workplace.done(&workplace.ours(&["run", &format!("--replay_ledger={ledger}"), SYNC, &capture]))?;
    let verified = workplace.ours(&["verify", &format!("--against={ledger}"), SYNC, &capture]);
    let plan = Plan::new(workplace.ours(&["run", SYNC, &capture]), verified);
    Ok(plan.row(Metric::Wall, Target::Ratio(2.0)).runs(3))
}
