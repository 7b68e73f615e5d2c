//! The compiler: what it costs to run it through `rehal`, and the time from an edited dispatch to a verdict.

use super::cases::{Figure, Plan};
use super::compare::words;
use super::measure::{Invocation, Metric};
use super::prepare::Workplace;
use super::report::Target;
use crate::run;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Of `fixtures/programs/models.mlir`.
const FUNCTION: &str = "classifier";
const INPUTS: [&str; 4] =
    ["1x34x34x3xf32=0.5", "3x3x3x16xf32=0.25", "3x3x16x32xf32=0.125", "1568x10xf32=0.01"];

/// A program of a matrix product that takes about a millisecond.
const DISPATCH: &str = "matmul";
const PRODUCT: &str = r#"
func.func @product(%a: tensor<384x384xf32>, %b: tensor<384x384xf32>) -> tensor<384x384xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<384x384xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<384x384xf32>) -> tensor<384x384xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<384x384xf32>, tensor<384x384xf32>) outs(%fill : tensor<384x384xf32>) -> tensor<384x384xf32>
  return %0 : tensor<384x384xf32>
}
"#;

/// Runs of the program in the reference's column.
const RUNS: u32 = 320;

/// What is measured.
pub enum Compiled {
    /// `rehal compile`, compared with the compiler alone.
    Program,
    /// A source whose module is cached, run once, compared with the module, both ours.
    Cached,
    /// An edited dispatch, compared with its captured kernel.
    Source,
}

/// All, with their names.
pub fn all() -> [(&'static str, Compiled); 3] {
    [
        ("compile.program", Compiled::Program),
        ("compile.cached", Compiled::Cached),
        ("compare.source", Compiled::Source),
    ]
}

impl Compiled {
    pub fn prepare(&self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let figure = |target| Figure { name: name.to_owned(), metric: Metric::Wall, target };
        match self {
            Self::Program => program(workplace, figure(Target::Ratio(1.05))),
            Self::Cached => cached(workplace, figure(Target::Ratio(1.1))),
            Self::Source => source(workplace, figure(Target::Seconds(3.0))),
        }
    }
}

/// The compiler, and the flag with which ours finds it.
fn compiler(workplace: &Workplace) -> (PathBuf, PathBuf, String) {
    let (compiler, rehal) = (workplace.pair("iree-compile").0, workplace.pair("rehal").1);
    let flag = format!("--compiler={}", compiler.display());
    (compiler, rehal, flag)
}

const TARGET: [&str; 3] = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
];

fn program(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let (compiler, rehal, flag) = compiler(workplace);
    let input = workplace.fixture("programs/models.mlir").display().to_string();
    let [theirs, ours] =
        ["compile.theirs.vmfb", "compile.ours.vmfb"].map(|it| workplace.scratch(it).display().to_string());
    let theirs = [&TARGET[..], &[&input, "-o", &theirs]].concat();
    let ours = [&["compile", "--no_cache", &flag], &TARGET[..], &[&input, "-o", &ours]].concat();
    Ok(plan((compiler, words(&theirs)), (rehal, words(&ours)), 1, figure))
}

fn cached(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let (compiler, rehal, flag) = compiler(workplace);
    let input = workplace.fixture("programs/models.mlir").display().to_string();
    let module = workplace.scratch("compile.cached.vmfb").display().to_string();
    done(&compiler, &words(&[&TARGET[..], &[&input, "-o", &module]].concat()), workplace)?;
    let run = |module: &str| {
        let mut arguments = words(&["run-module", "--device=local-sync", &flag]);
        arguments.extend([format!("--module={module}"), format!("--function={FUNCTION}")]);
        arguments.extend(INPUTS.iter().map(|it| format!("--input={it}")));
        arguments
    };
    done(&rehal, &run(&input), workplace)?;
    Ok(plan((rehal.clone(), run(&module)), (rehal, run(&input)), 10, figure))
}

/// Each run edits the dispatch, and the program, so that nothing is cached.
fn source(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let (compiler, rehal, flag) = compiler(workplace);
    let input = workplace.scratch("compare.product.mlir");
    fs::write(&input, PRODUCT)?;
    let input = input.display().to_string();
    let [module, sources, capture] =
        ["compare.product.vmfb", "compare.sources", "compare.product.ireereplay"]
            .map(|it| workplace.scratch(it).display().to_string());
    let dump = format!("--iree-hal-dump-executable-sources-to={sources}");
    done(&compiler, &words(&[&TARGET[..], &[&dump, &input, "-o", &module]].concat()), workplace)?;
    let call = words(&[
        "--device=local-sync",
        &format!("--module={module}"),
        "--function=product",
        "--input=384x384xf32=0.5",
        "--input=384x384xf32=1.5",
    ]);
    workplace.record("iree-run-module", call.clone(), Path::new(&capture))?;
    let dispatch = fs::read_dir(&sources)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|it| it == "mlir"))
        .ok_or("the compiler has dumped no dispatch")?;
    let edit = r#"f=$1; shift; echo "// $(date +%s%N)" >> "$f"; "#;
    // Any verdict about speed will do: the code is the same.
    let script = format!(r#"{edit}"$@"; case $? in 0|3|4) exit 0;; esac; exit 1"#);
    let dispatch = dispatch.display().to_string();
    let with = format!("--with={dispatch}");
    let function = format!("--function={DISPATCH}");
    let compare = ["compare", "--device=local-sync", &flag, &function, &with, &capture];
    let rehal = rehal.display().to_string();
    let ours = words(&[&["-c", &script, "sh", &dispatch, &rehal], &compare[..]].concat());
    let script =
        format!(r#"{edit}c=$1; b=$2; shift 2; "$c" {} "$f" -o {module} && "$b" "$@""#, TARGET.join(" "));
    let benchmark = workplace.pair("iree-benchmark-module").0.display().to_string();
    let mut theirs = words(&["-c", &script, "sh", &input, &compiler.display().to_string(), &benchmark]);
    theirs.extend(call);
    theirs.push(format!("--benchmark_min_time={RUNS}x"));
    Ok(plan(("/bin/sh".into(), theirs), ("/bin/sh".into(), ours), 1, figure))
}

fn done(program: &Path, arguments: &[String], workplace: &Workplace) -> Result<(), Box<dyn Error>> {
    let ended = run::collect(program, arguments, workplace.made_directory())?;
    match ended.how.as_str() {
        "status 0" => Ok(()),
        how => {
            Err(format!("{arguments:?} ended with {how}: {}", String::from_utf8_lossy(&ended.stderr)).into())
        }
    }
}

fn plan(
    theirs: (PathBuf, Vec<String>),
    ours: (PathBuf, Vec<String>),
    runs_per_round: u32,
    figure: Figure,
) -> Plan {
    let invocation = |(program, arguments)| Invocation { program, arguments };
    Plan { runs_per_round, ..Plan::new(invocation(theirs), invocation(ours), vec![figure]) }
}
