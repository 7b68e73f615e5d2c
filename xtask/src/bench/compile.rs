//! The compiler: what it costs to run it through `rehal`, the time from an edited dispatch to a verdict, and
//! that of a search.

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

/// The part of its name by which the dispatch of a product is found.
const DISPATCH: &str = "matmul";

/// What a search tries of a product: 20 points.
const AXES: &str = r#"
[[axis]]
config = "vector_common_parallel"
operation = "linalg.matmul"
values = [[1, 16, 0], [4, 32, 0], [8, 16, 0], [8, 32, 0], [16, 16, 0]]

[[axis]]
config = "vector_reduction[2]"
operation = "linalg.matmul"
values = [1, 4, 16, 32]
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
    /// A search of 20 configurations of a dispatch; the other column is a second.
    Trials,
}

/// All, with their names.
pub fn all() -> [(&'static str, Compiled); 4] {
    [
        ("compile.program", Compiled::Program),
        ("compile.cached", Compiled::Cached),
        ("compare.source", Compiled::Source),
        ("tune.trials", Compiled::Trials),
    ]
}

impl Compiled {
    pub fn prepare(&self, name: &str, workplace: &Workplace) -> Result<Plan, Box<dyn Error>> {
        let figure = |target| Figure { name: name.to_owned(), metric: Metric::Wall, target };
        match self {
            Self::Program => program(workplace, figure(Target::Ratio(1.05))),
            Self::Cached => cached(workplace, figure(Target::Ratio(1.1))),
            Self::Source => source(workplace, figure(Target::Seconds(3.0))),
            Self::Trials => trials(workplace, figure(Target::Seconds(30.0))),
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

/// The product of two square matrices: the program, its capture and its dispatch, as the compiler dumps it.
struct Product {
    program: String,
    module: String,
    dispatch: String,
    /// The arguments of `iree-run-module` and `iree-benchmark-module`.
    call: Vec<String>,
    capture: String,
}

impl Product {
    /// Of matrices with `size` rows. `dump` is the compiler's name of the phase whose output is the dispatch.
    fn new(workplace: &Workplace, name: &str, size: usize, dump: &str) -> Result<Self, Box<dyn Error>> {
        let path = |it: &str| workplace.scratch(&format!("{name}.{it}")).display().to_string();
        let [program, module, dumped, capture] = ["mlir", "vmfb", "dump", "ireereplay"].map(path);
        let matrix = format!("tensor<{size}x{size}xf32>");
        let text = format!(
            "func.func @product(%a: {matrix}, %b: {matrix}) -> {matrix} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {matrix}
  %fill = linalg.fill ins(%zero : f32) outs(%empty : {matrix}) -> {matrix}
  %0 = linalg.matmul ins(%a, %b : {matrix}, {matrix}) outs(%fill : {matrix}) -> {matrix}
  return %0 : {matrix}
}}
"
        );
        fs::write(&program, text)?;
        let dump = format!("--iree-hal-dump-executable-{dump}-to={dumped}");
        let compile = words(&[&TARGET[..], &[&dump, &program, "-o", &module]].concat());
        done(&compiler(workplace).0, &compile, workplace)?;
        let call = words(&[
            "--device=local-sync",
            &format!("--module={module}"),
            "--function=product",
            &format!("--input={size}x{size}xf32=0.5"),
            &format!("--input={size}x{size}xf32=1.5"),
        ]);
        workplace.record("iree-run-module", call.clone(), Path::new(&capture))?;
        let dispatch = fs::read_dir(&dumped)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|it| it == "mlir"))
            .ok_or("the compiler has dumped no dispatch")?;
        Ok(Self { program, module, dispatch: dispatch.display().to_string(), call, capture })
    }
}

/// Each run edits the dispatch, and the program, so that nothing is cached. The kernel takes about a
/// millisecond.
fn source(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let (compiler, rehal, flag) = compiler(workplace);
    let Product { program, module, dispatch, call, capture } =
        Product::new(workplace, "compare.product", 384, "sources")?;
    let edit = r#"f=$1; shift; echo "// $(date +%s%N)" >> "$f"; "#;
    // Any verdict about speed will do: the code is the same.
    let script = format!(r#"{edit}"$@"; case $? in 0|3|4) exit 0;; esac; exit 1"#);
    let with = format!("--with={dispatch}");
    let function = format!("--function={DISPATCH}");
    let compare = ["compare", "--device=local-sync", &flag, &function, &with, &capture];
    let rehal = rehal.display().to_string();
    let ours = words(&[&["-c", &script, "sh", &dispatch, &rehal], &compare[..]].concat());
    let script =
        format!(r#"{edit}c=$1; b=$2; shift 2; "$c" {} "$f" -o {module} && "$b" "$@""#, TARGET.join(" "));
    let benchmark = workplace.pair("iree-benchmark-module").0.display().to_string();
    let mut theirs = words(&["-c", &script, "sh", &program, &compiler.display().to_string(), &benchmark]);
    theirs.extend(call);
    theirs.push(format!("--benchmark_min_time={RUNS}x"));
    Ok(plan(("/bin/sh".into(), theirs), ("/bin/sh".into(), ours), 1, figure))
}

/// Each run compiles all candidates.
fn trials(workplace: &Workplace, figure: Figure) -> Result<Plan, Box<dyn Error>> {
    let (_, rehal, flag) = compiler(workplace);
    let Product { dispatch, capture, .. } = Product::new(workplace, "tune.product", 128, "configurations")?;
    let space = workplace.scratch("tune.product.toml");
    fs::write(&space, format!("base = {dispatch:?}\n{AXES}"))?;
    let (space, function) = (format!("--space={}", space.display()), format!("--function={DISPATCH}"));
    let tune = ["tune", "--device=local-sync", "--no_cache", &flag, &function, &space, &capture];
    // Any verdict about the best will do.
    let script = r#""$@"; case $? in 0|3|4) exit 0;; esac; exit 1"#;
    let rehal = rehal.display().to_string();
    let ours = words(&[&["-c", script, "sh", &rehal], &tune[..]].concat());
    Ok(plan(("/bin/sleep".into(), words(&["1"])), ("/bin/sh".into(), ours), 1, figure))
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
