//! The program cases: calls, models, startup, memory with large parameters, and recording overhead.

use super::cases::{Figure, Plan};
use super::measure::{Invocation, Metric, Output};
use super::prepare::Workplace;
use super::report::Target;
use std::error::Error;
use std::path::Path;

/// The kinds of program cases.
pub enum Program {
    /// A function of `host_speed`, which submits no device work.
    Host { function: &'static str, target: f64 },
    /// A call of a program whose executables are interpreted: function and inputs of `vmvx_speed`.
    Vmvx { function: &'static str, inputs: &'static [&'static str], microkernels: bool },
    /// A call of a small program: module, function and inputs.
    Call { module: &'static str, function: &'static str, inputs: &'static [&'static str] },
    /// A call of a real model.
    Model { name: &'static str },
    /// A product of 1024 by 1024 matrices, compiled on demand.
    Matmul,
    /// Startup to the result in the run tool, with a fixture module.
    StartSmall,
    /// The same for the largest models: with weights in the module, and with weights in a file.
    StartModel { name: &'static str, external: bool },
    /// Memory of a program with a 2 GiB parameter file, minus the program's own 64 MiB.
    ParameterMemory { mode: &'static str },
    /// Recording overhead of a call.
    RecordedCall,
    /// Recording overhead of a run with 1 GiB of inputs, compared with writing as many bytes.
    RecordedInputs,
}

/// See [`Program::Matmul`].
pub const MATMUL: Program = Program::Matmul;

const MATMUL_SOURCE: &str = "\
func.func @matmul(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1024x1024xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %result = linalg.matmul ins(%a, %b : tensor<1024x1024xf32>, tensor<1024x1024xf32>)
      outs(%init : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %result : tensor<1024x1024xf32>
}
";

/// Inputs of the `add4` fixture.
const ADD4: &[&str] = &["4xf32=1 2 3 4", "4xf32=10 20 30 40"];

/// The programs that run on `local-task` too, with their targets.
pub fn on_workers(has_corpus: bool) -> Vec<(String, Program, f64)> {
    let call = |module, inputs| Program::Call { module, function: function_of(module), inputs };
    let mut cases = vec![
        ("call.simple_abs".to_owned(), call("simple_abs", &["f32=-7.25"]), 0.7),
        ("call.add4".to_owned(), call("add4", ADD4), 0.7),
        ("call.mlp".to_owned(), call("mlp", MLP), 0.7),
        ("call.matmul".to_owned(), MATMUL, 1.0),
    ];
    if has_corpus {
        let models = MODELS.map(|name| (format!("call.{name}"), Program::Model { name }, 1.0));
        cases.extend(models);
    }
    cases
}

/// The programs that are captured and replayed. Most of their time is device work: a replay does nothing
/// else.
pub fn replayed(has_corpus: bool) -> Vec<(String, Program)> {
    let mut cases = vec![("replayed.matmul".to_owned(), MATMUL)];
    if has_corpus {
        cases.extend(MODELS.map(|name| (format!("replayed.{name}"), Program::Model { name })));
    }
    cases
}

/// The function of a small program that is called.
fn function_of(module: &str) -> &'static str {
    match module {
        "simple_abs" => "abs",
        "add4" => "add",
        _ => "mlp",
    }
}

const MODELS: [&str; 4] = ["basic_pitch", "magika", "ppocr_cls", "silero_vad"];

/// Inputs of the `mlp` fixture.
const MLP: &[&str] = &["@mlp_x.npy", "@mlp_w0.npy", "@mlp_w1.npy", "@mlp_w2.npy"];

/// Functions of `vmvx_speed`, whose time does not depend on their inputs.
const VMVX: [(&str, &[&str]); 10] = [
    ("sort", &["2000xi32=5"]),
    ("matmul", &["128x128xf32=0.5", "128x128xf32=1.5"]),
    ("reduction", &["512x512xf32=0.5"]),
    ("conv", &["1x34x34x8xf32=0.5", "3x3x8x8xf32=1.5"]),
    ("softmax", &["64x256xf32=0.5"]),
    ("add", &["512x512xf32=0.5", "512x512xf32=1.5"]),
    ("relu", &["256x256xi8=5"]),
    ("pool", &["1x64x64x16xf32=0.5"]),
    ("gather", &["1000x64xf32=0.5", "256xi32=7"]),
    ("layer_norm", &["128x256xf32=0.5", "256xf32=1.5", "256xf32=2.5"]),
];

/// The same for the module with microkernels.
const VMVX_MICROKERNELS: [(&str, &[&str]); 6] = [
    ("large_matmul", &["512x512xf32=0.5", "512x512xf32=1.5"]),
    ("matmul", &["128x128xf32=0.5", "128x128xf32=1.5"]),
    ("product_i8", &["256x256xi8=5", "256x256xi8=3"]),
    ("add", &["512x512xf32=0.5", "512x512xf32=1.5"]),
    ("conv", &["1x34x34x8xf32=0.5", "3x3x8x8xf32=1.5"]),
    ("transpose", &["256x512xf32=0.5"]),
];

/// All program cases, by name. Models require the corpus.
pub fn all(has_corpus: bool) -> Vec<(String, Program)> {
    let mut cases: Vec<(String, Program)> = Vec::new();
    for (function, target) in [("nothing", 0.7), ("fib", 0.8), ("sum", 0.8), ("floats", 0.8), ("calls", 0.6)]
    {
        cases.push((format!("host.{function}"), Program::Host { function, target }));
    }
    for (function, inputs) in VMVX {
        let program = Program::Vmvx { function, inputs, microkernels: false };
        cases.push((format!("vmvx.{function}"), program));
    }
    for (function, inputs) in VMVX_MICROKERNELS {
        let program = Program::Vmvx { function, inputs, microkernels: true };
        cases.push((format!("vmvx.microkernels.{function}"), program));
    }
    cases.push((
        "call.simple_abs".into(),
        Program::Call { module: "simple_abs", function: "abs", inputs: &["f32=-7.25"] },
    ));
    cases.push(("call.mlp".into(), Program::Call { module: "mlp", function: "mlp", inputs: MLP }));
    if has_corpus {
        cases.extend(MODELS.map(|name| (format!("call.{name}"), Program::Model { name })));
    }
    cases.push(("first.simple_abs".into(), Program::StartSmall));
    if has_corpus {
        cases.push(("first.magika".into(), Program::StartModel { name: "magika", external: false }));
        cases.push(("first.silero_vad".into(), Program::StartModel { name: "silero_vad", external: true }));
    }
    for mode in ["file", "mmap"] {
        cases.push((format!("memory.parameters.{mode}"), Program::ParameterMemory { mode }));
    }
    cases.push(("record.call".into(), Program::RecordedCall));
    cases.push(("record.inputs".into(), Program::RecordedInputs));
    cases
}

/// Bytes of the parameter used from the large file.
pub const USED_PARAMETER_BYTES: u64 = 64 << 20;

/// Bytes of the recorded inputs.
pub const INPUT_BYTES: u64 = 1 << 30;

impl Program {
    /// Finds or makes the inputs.
    pub fn prepare(&self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let figure = |metric, target| vec![Figure { name: name.to_owned(), metric, target }];
        let row = |function: &str| Metric::Benchmark(format!("BM_{function}/process_time/real_time"));
        Ok(match self {
            Self::Host { function, target } => {
                let module = workplace.program("host_speed")?;
                let arguments =
                    vec![format!("--module={}", module.display()), format!("--function={function}")];
                benchmark(workplace, arguments, figure(row(function), Target::Ratio(*target)))
            }
            Self::Vmvx { function, inputs, microkernels } => {
                let module = if *microkernels { "vmvx_speed.microkernels.vmvx" } else { "vmvx_speed.vmvx" };
                let arguments = workplace.call(module, function, inputs);
                benchmark(workplace, arguments, figure(row(function), Target::Ratio(1.0)))
            }
            Self::Call { module, function, inputs } => {
                let arguments = workplace.call(module, function, inputs);
                benchmark(workplace, arguments, figure(row(function), Target::Ratio(0.8)))
            }
            Self::Model { name } => {
                let function = workplace.model_function(name);
                let mut arguments = workplace.model_arguments(name, false)?;
                arguments.push(format!("--function={function}"));
                benchmark(workplace, arguments, figure(row(function), Target::Ratio(1.0)))
            }
            Self::Matmul => {
                let module = workplace.compile("matmul_1024", MATMUL_SOURCE)?;
                let mut arguments =
                    vec![format!("--module={}", module.display()), "--function=matmul".to_owned()];
                arguments.extend(["0.5", "1.5"].map(|value| format!("--input=1024x1024xf32={value}")));
                benchmark(workplace, arguments, figure(row("matmul"), Target::Ratio(1.0)))
            }
            Self::StartSmall => {
                let arguments = workplace.call("simple_abs", "abs", &["f32=-7.25"]);
                let plan = run(workplace, arguments, figure(Metric::Wall, Target::Ratio(1.0)));
                Plan { runs_per_round: 20, ..plan }
            }
            Self::StartModel { name, external } => {
                let mut arguments = workplace.model_arguments(name, *external)?;
                arguments.push(format!("--function={}", workplace.model_function(name)));
                let plan = run(workplace, arguments, figure(Metric::Wall, Target::Ratio(1.0)));
                Plan { runs_per_round: 10, ..plan }
            }
            Self::ParameterMemory { mode } => {
                let beyond = figure(Metric::PeakBeyond(USED_PARAMETER_BYTES), Target::Bytes(32 << 20));
                let theirs = run(workplace, workplace.large_parameters("file")?, Vec::new()).theirs;
                // The pinned release does not map parameters; it is run in its default mode.
                Plan { theirs, ..run(workplace, workplace.large_parameters(mode)?, beyond) }
            }
            Self::RecordedCall => recorded_call(workplace, figure(row("abs"), Target::Ratio(0.5))),
            Self::RecordedInputs => recorded_inputs(workplace, figure(Metric::Wall, Target::Ratio(1.2)))?,
        })
    }
}

/// Both benchmark tools with the same arguments.
fn benchmark(workplace: &Workplace, arguments: Vec<String>, figures: Vec<Figure>) -> Plan {
    let shared = ["--device=local-sync", "--benchmark_min_time=0.2s", "--benchmark_format=json"];
    let arguments = shared.iter().map(ToString::to_string).chain(arguments).collect();
    Plan { output: Output::Json, ..Plan::for_tool(workplace, "iree-benchmark-module", arguments, figures) }
}

/// Both run tools with the same arguments.
fn run(workplace: &Workplace, mut arguments: Vec<String>, figures: Vec<Figure>) -> Plan {
    arguments.insert(0, "--device=local-sync".into());
    Plan::for_tool(workplace, "iree-run-module", arguments, figures)
}

/// Enough calls for a capture of at most a few hundred megabytes, with and without recording.
fn recorded_call(workplace: &Workplace, figures: Vec<Figure>) -> Plan {
    let mut arguments = workplace.call("simple_abs", "abs", &["f32=-7.25"]);
    arguments.extend(
        ["--device=local-sync", "--benchmark_min_time=100000x", "--benchmark_format=json"]
            .map(ToOwned::to_owned),
    );
    let plain = Plan::for_tool(workplace, "iree-benchmark-module", arguments, figures);
    let recorded = |invocation: &Invocation, whose: &str| {
        let mut invocation = invocation.clone();
        let path = workplace.scratch(&format!("recorded.{whose}.ireereplay"));
        invocation.arguments.push(format!("--device_replay_output={}", path.display()));
        invocation
    };
    Plan {
        theirs: recorded(&plain.theirs, "theirs"),
        ours: recorded(&plain.ours, "ours"),
        without: Some((Some(plain.theirs), plain.ours)),
        output: Output::Json,
        ..Plan {
            figures: plain.figures,
            ..Plan::for_tool(workplace, "iree-benchmark-module", Vec::new(), Vec::new())
        }
    }
}

/// Ours with and without recording, compared with a program that writes as many bytes.
fn recorded_inputs(workplace: &Workplace, figures: Vec<Figure>) -> Result<Plan, Box<dyn Error>> {
    let arguments = workplace.large_input()?;
    let plain = run(workplace, arguments, figures);
    let mut recorded = plain.ours.clone();
    let capture = workplace.scratch("recorded.inputs.ireereplay");
    recorded.arguments.push(format!("--device_replay_output={}", capture.display()));
    let written = workplace.scratch("written.bin");
    let write = Invocation {
        program: Path::new("dd").to_path_buf(),
        arguments: vec![
            "if=/dev/zero".into(),
            format!("of={}", written.display()),
            "bs=1M".into(),
            format!("count={}", INPUT_BYTES >> 20),
        ],
    };
    Ok(Plan {
        theirs: write,
        ours: recorded,
        without: Some((None, plain.ours)),
        ..run(workplace, Vec::new(), plain.figures)
    })
}
