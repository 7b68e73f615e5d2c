//! Replays and recordings on the Vulkan driver of this machine, the same for both.

use super::cases::{Figure, Plan};
use super::measure::{Invocation, Metric, Output};
use super::prepare::{Made, Workplace};
use super::report::Target;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A case on Vulkan.
#[derive(Clone, Copy)]
pub enum OnVulkan {
    /// A full replay iteration of a capture of the fixtures.
    Iteration(&'static str),
    /// The scope `execute` of a capture of the fixtures.
    Scope(&'static str),
    /// Our replay in captured order, beside the reference's.
    Captured(Chain),
    /// A full replay iteration of a function of `programs/models.mlir`.
    Model(&'static str, &'static [&'static str]),
    /// What recording adds to a call: module, function and inputs.
    Recorded(&'static str, &'static str, &'static [&'static str]),
}

/// A hundred small dispatches, each of which needs the one before.
#[derive(Clone, Copy)]
pub enum Chain {
    /// In one command buffer.
    Commands,
    /// In a submission each.
    Submissions,
}

/// Number of dispatches of a chain.
const LINKS: u32 = 100;

/// Number of calls that are recorded: enough for what recording adds to be more than the noise of the rest.
const RECORDED_CALLS: u32 = 4000;

const ITERATIONS: [(&str, &str); 5] = [
    ("simple_abs", "simple_abs.abs"),
    ("add4", "add4.add"),
    ("add4.addresses", "add4.addresses"),
    ("mlp", "mlp.mlp"),
    ("chain", "chain.chain"),
];

const MODELS: [(&str, &[&str]); 2] = [
    ("classifier", &["1x34x34x3xf32=0.5", "3x3x3x16xf32=0.01", "3x3x16x32xf32=0.02", "1568x10xf32=0.03"]),
    (
        "transformer",
        &[
            "64x64xf32=0.5",
            "64x64xf32=0.01",
            "64x64xf32=0.02",
            "64x64xf32=0.03",
            "64x256xf32=0.04",
            "256x64xf32=0.05",
        ],
    ),
];

const ADD4: &[&str] = &["4xf32=1 2 3 4", "4xf32=10 20 30 40"];
const MLP: &[&str] = &["@mlp_x.npy", "@mlp_w0.npy", "@mlp_w1.npy", "@mlp_w2.npy"];

/// All cases, by name.
pub fn all() -> Vec<(String, OnVulkan)> {
    let mut cases: Vec<_> = ITERATIONS
        .iter()
        .map(|(name, capture)| (format!("vulkan.iteration.{name}"), OnVulkan::Iteration(capture)))
        .collect();
    cases.push(("vulkan.scope.add4.20".into(), OnVulkan::Scope("bench.add4.20")));
    cases.push(("vulkan.captured.chain".into(), OnVulkan::Captured(Chain::Commands)));
    cases.push(("vulkan.captured.loop".into(), OnVulkan::Captured(Chain::Submissions)));
    let models = MODELS.iter();
    cases.extend(
        models.map(|&(name, inputs)| (format!("vulkan.model.{name}"), OnVulkan::Model(name, inputs))),
    );
    for (module, function, inputs) in [("add4", "add", ADD4), ("mlp", "mlp", MLP)] {
        cases.push((format!("vulkan.record.{module}"), OnVulkan::Recorded(module, function, inputs)));
    }
    cases
}

impl OnVulkan {
    /// Finds or makes the inputs.
    pub fn prepare(self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let full = "BM_replay/process_time/real_time";
        let scope = "BM_replay/scope:execute/process_time/manual_time";
        let figure =
            |metric, target| vec![Figure { name: name.to_owned(), metric, target: Target::Ratio(target) }];
        let row = |row: &str, target| figure(Metric::Benchmark(row.to_owned()), target);
        Ok(match self {
            Self::Iteration(capture) => {
                replay(workplace, &workplace.vulkan_capture(capture), &[], row(full, 0.7))
            }
            Self::Scope(capture) => {
                let flags = ["--replay_scope=execute"];
                replay(workplace, &workplace.vulkan_capture(capture), &flags, row(scope, 0.9))
            }
            Self::Captured(chain) => {
                let capture = chain.capture(workplace)?;
                // The names of the rows tell the order.
                let mut plan = replay(workplace, &capture, &[], figure(Metric::OnlyBenchmark, 0.7));
                plan.ours.arguments.insert(0, "--replay_order=captured".to_owned());
                plan
            }
            Self::Model(function, inputs) => {
                let text = fs::read_to_string(workplace.fixture("programs/models.mlir"))?;
                let module = compile(workplace, "models", &text)?;
                let path = workplace.scratch(&format!("{name}.ireereplay"));
                workplace.record_on_vulkan("iree-run-module", call(&module, function, inputs), &path)?;
                replay(workplace, &path, &[], row(full, 1.0))
            }
            Self::Recorded(module, function, inputs) => {
                let module = workplace.fixture(&format!("vulkan/modules/{module}.vmfb"));
                let inputs: Vec<_> = inputs
                    .iter()
                    .map(|input| match input.strip_prefix('@') {
                        Some(file) => format!("@{}", workplace.fixture(&format!("inputs/{file}")).display()),
                        None => (*input).to_owned(),
                    })
                    .collect();
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                recorded(
                    name,
                    workplace,
                    call(&module, function, &inputs),
                    figure(Metric::OnlyBenchmark, 0.5),
                )
            }
        })
    }
}

impl Chain {
    /// Compiled and recorded by the reference.
    fn capture(self, workplace: &Workplace) -> Made {
        let (name, body) = match self {
            Self::Commands => ("vulkan.chain", unrolled()),
            Self::Submissions => ("vulkan.loop", looped()),
        };
        let text = format!(
            "func.func @links(%x: tensor<24x24xf32>) -> tensor<24x24xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<24x24xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<24x24xf32>) -> tensor<24x24xf32>
{body}}}
"
        );
        let module = compile(workplace, name, &text)?;
        let path = workplace.scratch(&format!("{name}.ireereplay"));
        // Products of a matrix of the same numbers stay finite.
        workplace.record_on_vulkan("iree-run-module", call(&module, "links", &["24x24xf32=0.04"]), &path)?;
        Ok(path)
    }
}

fn product(of: &str, result: &str) -> String {
    format!(
        "  {result} = linalg.matmul ins({of}, %x : tensor<24x24xf32>, tensor<24x24xf32>) \
         outs(%start : tensor<24x24xf32>) -> tensor<24x24xf32>\n"
    )
}

fn unrolled() -> String {
    let mut body = product("%x", "%m0");
    for link in 1..LINKS {
        body += &product(&format!("%m{}", link - 1), &format!("%m{link}"));
    }
    // Writing to a string does not fail.
    let _ = writeln!(body, "  return %m{} : tensor<24x24xf32>", LINKS - 1);
    body
}

fn looped() -> String {
    let product = product("%m", "%next");
    format!(
        "  %first = arith.constant 0 : index
  %step = arith.constant 1 : index
  %links = arith.constant {LINKS} : index
  %last = scf.for %i = %first to %links step %step iter_args(%m = %x) -> tensor<24x24xf32> {{
{product}    scf.yield %next : tensor<24x24xf32>
  }}
  return %last : tensor<24x24xf32>
"
    )
}

fn compile(workplace: &Workplace, name: &str, text: &str) -> Made {
    workplace.compile_with(&format!("{name}.vulkan"), text, &["--iree-hal-target-device=vulkan"])
}

fn call(module: &Path, function: &str, inputs: &[&str]) -> Vec<String> {
    let module = [format!("--module={}", module.display()), format!("--function={function}")];
    module.into_iter().chain(inputs.iter().map(|input| format!("--input={input}"))).collect()
}

/// Both benchmark tools on the same capture.
fn replay(workplace: &Workplace, capture: &Path, flags: &[&str], figures: Vec<Figure>) -> Plan {
    let shared = ["--device=vulkan", "--benchmark_min_time=0.2s", "--benchmark_format=json"];
    let arguments = shared.iter().chain(flags).map(ToString::to_string);
    let arguments = arguments.chain([capture.display().to_string()]).collect();
    Plan { output: Output::Json, ..Plan::for_tool(workplace, "iree-benchmark-replay", arguments, figures) }
}

/// Both module benchmark tools with and without recording.
fn recorded(name: &str, workplace: &Workplace, call: Vec<String>, figures: Vec<Figure>) -> Plan {
    let (theirs, ours) = workplace.pair("iree-benchmark-module");
    let shared = [
        "--device=vulkan".to_owned(),
        format!("--benchmark_min_time={RECORDED_CALLS}x"),
        "--benchmark_format=json".to_owned(),
    ];
    let arguments: Vec<_> = shared.into_iter().chain(call).collect();
    let with = |arguments: &[String], whose: &str| {
        let path = workplace.scratch(&format!("{name}.{whose}.ireereplay"));
        [arguments, &[format!("--device_replay_output={}", path.display())]].concat()
    };
    // It crashes when it ends, after its report: only that counts as success.
    let shell = "\"$0\" \"$@\" || test $? = 139";
    let recording = ["-c".to_owned(), shell.to_owned(), theirs.display().to_string()];
    Plan {
        theirs: Invocation {
            program: "sh".into(),
            arguments: [&recording[..], &with(&arguments, "theirs")].concat(),
        },
        ours: Invocation { program: ours.clone(), arguments: with(&arguments, "ours") },
        without: Some((
            Some(Invocation { program: theirs, arguments: arguments.clone() }),
            Invocation { program: ours, arguments },
        )),
        output: Output::Json,
        runs_per_round: 3,
        figures,
    }
}
