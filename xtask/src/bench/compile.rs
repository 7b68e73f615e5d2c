//! The compiler: what it costs to run it through `rehal`, the time from an edited dispatch to a verdict, and
//! that of a search.

use super::measure::{Invocation, Metric};
use super::plan::{Case, Plan, Prepared, case};
use super::prepare::{Workplace, words};
use super::report::Target;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Of `fixtures/programs/models.mlir`.
const FUNCTION: &str = "classifier";
const INPUTS: [&str; 4] =
    ["1x34x34x3xf32=0.5", "3x3x3x16xf32=0.25", "3x3x16x32xf32=0.125", "1568x10xf32=0.01"];

/// The part of its name by which the dispatch of a product is found.
const DISPATCH: &str = "matmul";

/// The points of a product that a search tries: 20.
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

/// All cases.
pub fn all() -> Vec<Case> {
    vec![
        case("compile.program", program),
        case("compile.cached", cached),
        case("compare.source", source),
        case("tune.trials", trials),
    ]
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

/// `rehal compile`, compared with the compiler alone.
fn program(workplace: &Workplace) -> Prepared {
    let (compiler, _, flag) = compiler(workplace);
    let input = workplace.fixture("programs/models.mlir").display().to_string();
    let [theirs, ours] =
        ["compile.theirs.vmfb", "compile.ours.vmfb"].map(|it| workplace.scratch(it).display().to_string());
    let theirs = words(&[&TARGET[..], &[&input, "-o", &theirs]].concat());
    let ours = [&["compile", "--no_cache", &flag], &TARGET[..], &[&input, "-o", &ours]].concat();
    let plan = Plan::new(Invocation { program: compiler, arguments: theirs }, workplace.ours(&ours));
    Ok(plan.row(Metric::Wall, Target::Ratio(1.05)))
}

/// A source whose module is cached, run once, compared with the module, both ours.
fn cached(workplace: &Workplace) -> Prepared {
    let (compiler, rehal, flag) = compiler(workplace);
    let input = workplace.fixture("programs/models.mlir").display().to_string();
    let module = workplace.scratch("compile.cached.vmfb").display().to_string();
    let arguments = words(&[&TARGET[..], &[&input, "-o", &module]].concat());
    workplace.done(&Invocation { program: compiler, arguments })?;
    let run = |module: &str| {
        let mut arguments = words(&["run-module", "--device=local-sync", &flag]);
        arguments.extend([format!("--module={module}"), format!("--function={FUNCTION}")]);
        arguments.extend(INPUTS.iter().map(|it| format!("--input={it}")));
        Invocation { program: rehal.clone(), arguments }
    };
    workplace.done(&run(&input))?;
    Ok(Plan::new(run(&module), run(&input)).row(Metric::Wall, Target::Ratio(1.1)).runs(10))
}

/// The product of two square matrices: its capture, and its dispatch as the compiler dumps it.
struct Product {
    dispatch: String,
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
        let arguments = words(&[&TARGET[..], &[&dump, &program, "-o", &module]].concat());
        workplace.done(&Invocation { program: compiler(workplace).0, arguments })?;
        let call = words(&[
            "--device=local-sync",
            &format!("--module={module}"),
            "--function=product",
            &format!("--input={size}x{size}xf32=0.5"),
            &format!("--input={size}x{size}xf32=1.5"),
        ]);
        workplace.record("iree-run-module", call, Path::new(&capture))?;
        let dispatch = fs::read_dir(&dumped)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|it| it == "mlir"))
            .ok_or("the compiler has dumped no dispatch")?;
        Ok(Self { dispatch: dispatch.display().to_string(), capture })
    }
}

/// An edited dispatch, compared with its captured kernel, which takes about a millisecond. Each run edits it,
/// so that nothing is cached.
fn source(workplace: &Workplace) -> Prepared {
    let (_, rehal, flag) = compiler(workplace);
    let Product { dispatch, capture } = Product::new(workplace, "compare.product", 384, "sources")?;
    // Any verdict about speed will do: the code is the same.
    let script =
        r#"f=$1; shift; echo "// $(date +%s%N)" >> "$f"; "$@"; case $? in 0|3|4) exit 0;; esac; exit 1"#;
    let (with, function) = (format!("--with={dispatch}"), format!("--function={DISPATCH}"));
    let compare = ["compare", "--device=local-sync", &flag, &function, &with, &capture];
    let rehal = rehal.display().to_string();
    let arguments = words(&[&["-c", script, "sh", &dispatch, &rehal], &compare[..]].concat());
    let plan = Plan::new(None, Invocation { program: "/bin/sh".into(), arguments });
    Ok(plan.row(Metric::Wall, Target::Seconds(3.0)))
}

/// A search of 20 configurations of a dispatch. Each run compiles all candidates.
fn trials(workplace: &Workplace) -> Prepared {
    let (_, _, flag) = compiler(workplace);
    let Product { dispatch, capture } = Product::new(workplace, "tune.product", 128, "configurations")?;
    let space = workplace.scratch("tune.product.toml");
    fs::write(&space, format!("base = {dispatch:?}\n{AXES}"))?;
    let (space, function) = (format!("--space={}", space.display()), format!("--function={DISPATCH}"));
    let tune = ["tune", "--device=local-sync", "--no_cache", &flag, &function, &space, &capture];
    // Any verdict about the best will do.
    Ok(Plan::new(None, workplace.ours_ending("0|3|4", &tune)).row(Metric::Wall, Target::Seconds(30.0)))
}
