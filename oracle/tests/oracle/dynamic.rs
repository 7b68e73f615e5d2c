//! Dispatches whose workgroup counts depend on sizes that only the running program knows. Variants of the
//! compiler's own configurations divide the work otherwise: what replaces a dispatch in a program and in a
//! replay computes what the compiler's own substitution computes on the reference.

use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures;
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program with dynamic sizes: name, arguments of its function, its inputs, and its body with `$m`, `$n`
/// and `$zero` for two sizes of its first argument and 0.
struct Program {
    name: &'static str,
    arguments: &'static str,
    inputs: &'static [&'static str],
    result: &'static str,
    body: &'static str,
}

const PROGRAMS: [Program; 8] = [
    Program {
        name: "columns",
        arguments: "%a: tensor<24x?xf32>, %b: tensor<24x?xf32>",
        inputs: &["24x413xf32=2", "24x413xf32=3"],
        result: "tensor<24x?xf32>",
        body: "%r = arith.addf %a, %b : tensor<24x?xf32>",
    },
    Program {
        name: "batch",
        arguments: "%a: tensor<?x16x64xf32>, %b: tensor<?x64x32xf32>",
        inputs: &["5x16x64xf32=1", "5x64x32xf32=2"],
        result: "tensor<?x16x32xf32>",
        body: "%e = tensor.empty($m) : tensor<?x16x32xf32>
  %s = linalg.fill ins($zero : f32) outs(%e : tensor<?x16x32xf32>) -> tensor<?x16x32xf32>
  %r = linalg.batch_matmul ins(%a, %b : tensor<?x16x64xf32>, tensor<?x64x32xf32>) outs(%s : tensor<?x16x32xf32>) -> tensor<?x16x32xf32>",
    },
    Program {
        name: "both",
        arguments: "%a: tensor<?x?xf32>, %b: tensor<?x?xf32>",
        inputs: &["37x21xf32=1", "21x45xf32=2"],
        result: "tensor<?x?xf32>",
        body: "%k = tensor.dim %b, %c1 : tensor<?x?xf32>
  %e = tensor.empty($m, %k) : tensor<?x?xf32>
  %s = linalg.fill ins($zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%s : tensor<?x?xf32>) -> tensor<?x?xf32>",
    },
    Program {
        name: "reduction",
        arguments: "%a: tensor<?x?xf32>",
        inputs: &["137x45xf32=2"],
        result: "tensor<?xf32>",
        body: "%e = tensor.empty($m) : tensor<?xf32>
  %s = linalg.fill ins($zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.reduce ins(%a : tensor<?x?xf32>) outs(%s : tensor<?xf32>) dimensions = [1] (%x: f32, %y: f32) {
    %z = arith.addf %x, %y : f32
    linalg.yield %z : f32
  }",
    },
    Program {
        name: "softmax",
        arguments: "%a: tensor<?x128xf32>",
        inputs: &["137x128xf32=1"],
        result: "tensor<?x128xf32>",
        body: "%e = tensor.empty($m) : tensor<?x128xf32>
  %r = linalg.softmax dimension(1) ins(%a : tensor<?x128xf32>) outs(%e : tensor<?x128xf32>) -> tensor<?x128xf32>",
    },
    Program {
        name: "convolution",
        arguments: "%a: tensor<?x18x18x8xf32>, %b: tensor<3x3x8x16xf32>",
        inputs: &["3x18x18x8xf32=1", "3x3x8x16xf32=2"],
        result: "tensor<?x16x16x16xf32>",
        body: "%e = tensor.empty($m) : tensor<?x16x16x16xf32>
  %s = linalg.fill ins($zero : f32) outs(%e : tensor<?x16x16x16xf32>) -> tensor<?x16x16x16xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%a, %b : tensor<?x18x18x8xf32>, tensor<3x3x8x16xf32>) outs(%s : tensor<?x16x16x16xf32>) -> tensor<?x16x16x16xf32>",
    },
    Program {
        name: "transposition",
        arguments: "%a: tensor<?x?xf32>",
        inputs: &["137x145xf32=2"],
        result: "tensor<?x?xf32>",
        body: "%e = tensor.empty($n, $m) : tensor<?x?xf32>
  %r = linalg.transpose ins(%a : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) permutation = [1, 0]",
    },
    // Two dispatches.
    Program {
        name: "chain",
        arguments: "%a: tensor<?x?xf32>, %b: tensor<?x32xf32>",
        inputs: &["137x21xf32=1", "21x32xf32=2"],
        result: "tensor<?x32xf32>",
        body: "%e = tensor.empty($m) : tensor<?x32xf32>
  %s = linalg.fill ins($zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %p = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x32xf32>) outs(%s : tensor<?x32xf32>) -> tensor<?x32xf32>
  %r = linalg.softmax dimension(1) ins(%p : tensor<?x32xf32>) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>",
    },
];

const FLAGS: [&str; 4] = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-hal-link-executables=false",
];

/// How the sizes of the parts of the work are changed: multiplied and divided.
const SCALES: [(u64, u64); 4] = [(1, 4), (1, 2), (2, 1), (4, 1)];

/// A compiler on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

pub fn add(trials: &mut Vec<Trial>) {
    for program in &PROGRAMS {
        trials.push(Trial::test(format!("dynamic::{}", program.name), || check(program)));
    }
}

impl Program {
    fn text(&self) -> String {
        let Self { name, arguments, result, body, .. } = self;
        let first = arguments.split([':', ',']).nth(1).unwrap_or_default().trim();
        // Sizes that are not needed are removed by the compiler.
        let body = body.replace("$m", "%m").replace("$n", "%n").replace("$zero", "%zero");
        format!(
            "func.func @{name}({arguments}) -> {result} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : {first}
  %n = tensor.dim %a, %c1 : {first}
  {body}
  return %r : {result}
}}
"
        )
    }
}

struct Work {
    directory: tempfile::TempDir,
    compiler: PathBuf,
    ours: PathBuf,
    run_module: Pair,
}

impl Work {
    fn new() -> Result<Self, Failed> {
        let compiler = Reference::find(&captures::repository())?.tool("iree-compile");
        let run_module = Pair::find("iree-run-module")?;
        Ok(Self { directory: tempfile::tempdir()?, compiler, ours: tool::ours("rehal")?, run_module })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, program: &Path, words: &[&str]) -> Result<Ended, Failed> {
        Ok(tool::run_within(LIMIT, program, words, self.directory.path())?)
    }

    fn succeed(&self, program: &Path, words: &[&str]) -> Result<String, Failed> {
        let ended = self.run(program, words)?;
        ensure(ended.succeeded(), || format!("{words:?}: {}", ended.summary()))?;
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }
}

fn check(program: &Program) -> Outcome {
    let work = Work::new()?;
    fs::write(work.path("p.mlir"), program.text())?;
    let dump = ["--iree-hal-dump-executable-configurations-to=c", "p.mlir", "-o", "p.vmfb"];
    work.succeed(&work.compiler, &[&FLAGS[..], &dump].concat())?;
    let inputs: Vec<_> = program.inputs.iter().map(|it| format!("--input={it}")).collect();
    let function = format!("--function={}", program.name);
    let call = ["--device=local-sync", &function].into_iter().chain(inputs.iter().map(String::as_str));
    let call: Vec<_> = call.collect();
    let compiler = format!("--compiler={}", work.compiler.display());
    let results = |tool: &Path, words: &[&str]| {
        let printed = work.succeed(tool, &[&call[..], words].concat())?;
        let at = printed.find("result[0]").ok_or_else(|| format!("{words:?} prints no result: {printed}"))?;
        Ok::<_, Failed>(printed[at..].to_owned())
    };
    let expected =
        results(&work.run_module.ours, &["--module=p.vmfb", "--device_replay_output=c.ireereplay"])?;
    let mut count = 0;
    for entry in fs::read_dir(work.path("c"))? {
        let file = entry?.path();
        let stem = file.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
        let Some(name) = stem.strip_prefix("configured_module_") else { continue };
        let text = fs::read_to_string(&file)?;
        // The module computes the same count as its own source.
        let own = format!("--executable={name}={}", file.display());
        work.succeed(&work.ours, &["substitute", "p.vmfb", &own, &compiler, "-o", "own.vmfb"])?;
        let rewritten = results(&work.run_module.theirs, &["--module=own.vmfb"])?;
        ensure(rewritten == expected, || format!("{name} by itself: {rewritten}"))?;
        for (times, by) in SCALES {
            let (from, to) = scaled(&text, times, by).ok_or_else(|| format!("{name} has no distribution"))?;
            fs::write(work.path("v.mlir"), text.replace(&from, &to))?;
            let flag = format!("{name}=v.mlir");
            let whole = format!("--substitute={flag}");
            let compile = ["compile", &compiler, &whole, "p.mlir", "-o", "whole.vmfb"];
            work.succeed(&work.ours, &[&compile[..], &FLAGS].concat())?;
            let theirs = results(&work.run_module.theirs, &["--module=whole.vmfb"])?;
            let in_program = format!("--executable_substitution={flag}");
            let ours = results(&work.run_module.ours, &["--module=p.vmfb", &in_program, &compiler])?;
            ensure(ours == theirs, || format!("{name}, {to}: {ours}\ninstead of {theirs}"))?;
            let in_replay = format!("--replay_executable_substitution={flag}");
            let tolerance = "--tolerance=*:f32:rel=1e-5";
            let verify = ["verify", "--device=local-sync", tolerance, &in_replay, &compiler, "c.ireereplay"];
            work.succeed(&work.ours, &verify)?;
            // A module keeps its count.
            let executable = format!("--executable={flag}");
            let words = ["substitute", "p.vmfb", &executable, &compiler, "-o", "new.vmfb"];
            let ended = work.run(&work.ours, &words)?;
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            let is_refused = ended.code == Some(1) && said.contains("rehal compile --substitute=");
            ensure(is_refused, || format!("{name}, {to}: {}", ended.summary()))?;
            count += 1;
        }
    }
    ensure(count >= SCALES.len(), || "no dispatch is dumped".to_owned())
}

/// The sizes of the parts of the work in the text of a dispatch, and others.
fn scaled(text: &str, times: u64, by: u64) -> Option<(String, String)> {
    const START: &str = "distribution = [";
    let at = text.find(START)?;
    let from = &text[at..=at + text[at..].find(']')?];
    let sizes = from.strip_prefix(START)?.strip_suffix(']')?;
    let sizes: Option<Vec<u64>> = sizes.split(", ").map(|it| it.parse().ok()).collect();
    let scaled = sizes?.into_iter().map(|it| if it == 0 { 0 } else { (it * times / by).max(1) });
    let scaled: Vec<_> = scaled.map(|it| it.to_string()).collect();
    Some((from.to_owned(), format!("{START}{}]", scaled.join(", "))))
}
