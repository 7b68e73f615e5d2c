//! Replays and recordings on the Vulkan driver of this machine, the same for both.

use super::measure::{Invocation, Metric, Output};
use super::plan::{Case, Plan, Without, case};
use super::prepare::{Made, Workplace, words};
use super::report::Target;
use std::fs;
use std::path::Path;

/// Number of dispatches of a chain, each of which needs the one before.
const LINKS: u32 = 100;

/// Number of calls that are recorded: enough for what recording adds to be more than the noise of the rest.
const RECORDED_CALLS: u32 = 4000;

const TRANSFORMER: &[&str] = &[
    "64x64xf32=0.5",
    "64x64xf32=0.01",
    "64x64xf32=0.02",
    "64x64xf32=0.03",
    "64x256xf32=0.04",
    "256x64xf32=0.05",
];

const ADD4: &[&str] = &["4xf32=1 2 3 4", "4xf32=10 20 30 40"];

/// All cases.
pub fn all() -> Vec<Case> {
    let iteration = |name, capture: &'static str| {
        case(
            name,
            move |it| Ok(replay(it, &it.vulkan_capture(capture)).row(Metric::Time, Target::Ratio(0.7))),
        )
    };
    vec![
        iteration("vulkan.iteration.mlp", "mlp.mlp"),
        iteration("vulkan.iteration.chain", "chain.chain"),
        // Our replay in captured order, beside the reference's.
        case("vulkan.captured.loop", |it| {
            let mut plan = replay(it, &submissions(it)?);
            plan.ours.arguments.insert(0, "--replay_order=captured".to_owned());
            Ok(plan.row(Metric::Time, Target::Ratio(0.7)))
        }),
        case("vulkan.model.transformer", |it| {
            let text = fs::read_to_string(it.fixture("programs/models.mlir"))?;
            let module = compile(it, "models", &text)?;
            let path = it.scratch("vulkan.model.transformer.ireereplay");
            it.record("iree-run-module", on_vulkan(call(&module, "transformer", TRANSFORMER)), &path)?;
            Ok(replay(it, &path).row(Metric::Time, Target::Ratio(1.0)))
        }),
        case("vulkan.record.add4", |it| {
            let module = it.fixture("vulkan/modules/add4.vmfb");
            Ok(recorded(it, call(&module, "add", ADD4)).row(Metric::Time, Target::Ratio(0.5)))
        }),
    ]
}

/// A capture of a chain of small dispatches, in a submission each, compiled and recorded by the reference.
fn submissions(workplace: &Workplace) -> Made {
    let text = format!(
        "func.func @links(%x: tensor<24x24xf32>) -> tensor<24x24xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<24x24xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<24x24xf32>) -> tensor<24x24xf32>
  %first = arith.constant 0 : index
  %step = arith.constant 1 : index
  %links = arith.constant {LINKS} : index
  %last = scf.for %i = %first to %links step %step iter_args(%m = %x) -> tensor<24x24xf32> {{
    %next = linalg.matmul ins(%m, %x : tensor<24x24xf32>, tensor<24x24xf32>)
        outs(%start : tensor<24x24xf32>) -> tensor<24x24xf32>
    scf.yield %next : tensor<24x24xf32>
  }}
  return %last : tensor<24x24xf32>
}}
"
    );
    let module = compile(workplace, "vulkan.loop", &text)?;
    let path = workplace.scratch("vulkan.loop.ireereplay");
    // Products of a matrix of the same numbers stay finite.
    let call = on_vulkan(call(&module, "links", &["24x24xf32=0.04"]));
    workplace.record("iree-run-module", call, &path)?;
    Ok(path)
}

fn compile(workplace: &Workplace, name: &str, text: &str) -> Made {
    workplace.compile_with(&format!("{name}.vulkan"), text, &["--iree-hal-target-device=vulkan"])
}

fn on_vulkan(mut call: Vec<String>) -> Vec<String> {
    call.push("--device=vulkan".to_owned());
    call
}

fn call(module: &Path, function: &str, inputs: &[&str]) -> Vec<String> {
    let module = [format!("--module={}", module.display()), format!("--function={function}")];
    module.into_iter().chain(inputs.iter().map(|input| format!("--input={input}"))).collect()
}

/// Both benchmark tools on the same capture.
fn replay(workplace: &Workplace, capture: &Path) -> Plan {
    let arguments = ["--device=vulkan", "--benchmark_min_time=0.2s", "--benchmark_format=json"];
    let arguments = [&words(&arguments)[..], &[capture.display().to_string()]].concat();
    Plan { output: Output::Json, ..Plan::for_tool(workplace, "iree-benchmark-replay", arguments) }
}

/// Both module benchmark tools with and without recording.
fn recorded(workplace: &Workplace, call: Vec<String>) -> Plan {
    let (theirs, ours) = workplace.pair("iree-benchmark-module");
    let shared = [
        "--device=vulkan".to_owned(),
        format!("--benchmark_min_time={RECORDED_CALLS}x"),
        "--benchmark_format=json".to_owned(),
    ];
    let arguments: Vec<_> = shared.into_iter().chain(call).collect();
    let with = |arguments: &[String], whose: &str| {
        let path = workplace.scratch(&format!("vulkan.record.{whose}.ireereplay"));
        [arguments, &[format!("--device_replay_output={}", path.display())]].concat()
    };
    // It crashes when it ends, after its report: only that counts as success.
    let shell = words(&["-c", "\"$0\" \"$@\" || test $? = 139", &theirs.display().to_string()]);
    let recording = [shell, with(&arguments, "theirs")].concat();
    let plan = Plan::new(
        Invocation { program: "sh".into(), arguments: recording },
        Invocation { program: ours.clone(), arguments: with(&arguments, "ours") },
    );
    let theirs = Invocation { program: theirs, arguments: arguments.clone() };
    let without = Without::Runs(Some(theirs), Invocation { program: ours, arguments });
    Plan { without, output: Output::Json, ..plan.runs(3) }
}
