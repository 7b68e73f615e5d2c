//! The benchmark tools report the same benchmarks in the same formats.

use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::tool::Ended;
use serde_json::Value;
use std::collections::BTreeSet;

const CAPTURES: [&str; 4] =
    ["simple_abs.abs.local-sync", "add4.add.local-sync", "mlp.mlp.local-sync", "bench.abs.20.local-sync"];

/// Cases for the module benchmark tool: a name, and arguments in which module and inputs are fixtures.
const MODULES: [(&str, &[&str]); 8] = [
    ("one", &["--module=modules/simple_abs.vmfb", "--function=abs", "--input=f32=-2"]),
    ("several", &["--module=modules/multi.vmfb"]),
    ("batches", &["--module=modules/multi.vmfb", "--function=nothing", "--batch_size=5", "--time_unit=us"]),
    ("no_input", &["--module=modules/simple_abs.vmfb", "--function=abs"]),
    ("no_function", &["--module=modules/simple_abs.vmfb", "--function=zzz"]),
    ("wrong_batch", &["--module=modules/multi.vmfb", "--batch_size=0"]),
    ("mlp", &["--module=modules/mlp.vmfb", "--function=mlp"]),
    (
        "async",
        &["--module=modules/mlp.async.vmfb", "--function=mlp", "--batch_size=5", "--batch_concurrency=2"],
    ),
];

/// Cases for the executable benchmark tool, with `cts/affine` in each format: arguments.
const EXECUTABLES: [(&str, &[&str]); 14] = [
    ("one", &["--workgroup_count=1,1,1"]),
    ("several", &["--workgroup_count=1,1,1", "--workgroup_count=2,3,4", "--workgroup_count=0,1,1"]),
    ("same", &["--workgroup_count=1,1,1", "--workgroup_count=1,1,1"]),
    ("numbers", &["--workgroup_count=0x10,010,+1", "--batch_size=7"]),
    ("npy", &["--workgroup_count=1,1,1", "--binding=@inputs/mlp_x.npy", "--batch_size=1"]),
    ("no_count", &[]),
    ("wrong_count", &["--workgroup_count=1,1"]),
    ("wrong_constant", &["--workgroup_count=1,1,1", "--constant=x"]),
    ("wrong_binding", &["--workgroup_count=1,1,1", "--binding=3"]),
    ("wrong_format", &["--workgroup_count=1,1,1", "--executable_format=other"]),
    ("negative", &["--workgroup_count=1,1,1", "--entry_point=-1"]),
    ("executable_constant", &["--workgroup_count=1,1,1", "--executable_constant=1"]),
    ("no_file", &["--workgroup_count=1,1,1", "--executable_file=cts/missing.so"]),
    ("text", &["--workgroup_count=1,1,1", "--executable_file=cts/affine.mlir"]),
];

/// The file of `cts/affine` in each format.
const FORMATS: [(&str, &str); 3] = [
    ("embedded-elf-x86_64", "cts/affine.embedded.elf"),
    ("system-elf-x86_64", "cts/affine.system.so"),
    ("vmvx-bytecode-fb", "cts/affine.vmvx.vmfb"),
];

const MLP_INPUTS: [&str; 4] = ["mlp_x", "mlp_w0", "mlp_w1", "mlp_w2"];

pub fn add(trials: &mut Vec<Trial>) {
    for capture in CAPTURES {
        let arguments =
            move || vec![fixture(&format!("captures/{capture}.ireereplay")).display().to_string()];
        add_shapes(trials, capture, "iree-benchmark-replay", &arguments());
    }
    trials.push(Trial::test("benchmark::scope", || {
        let capture = fixture("captures/bench.abs.20.local-sync.ireereplay").display().to_string();
        same_rows("iree-benchmark-replay", &[capture, "--replay_scope=execute".into()], &[])
    }));
    for (name, arguments) in MODULES {
        let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        if arguments[0].contains("mlp") {
            arguments.extend(MLP_INPUTS.map(|input| format!("--input=@inputs/{input}.npy")));
        }
        add_shapes(trials, &format!("module.{name}"), "iree-benchmark-module", &arguments);
    }
    trials.push(Trial::test("benchmark::module.recorded", recorded));
    for (format, file) in FORMATS {
        let of = |more: &[&str]| -> Vec<String> {
            let (format, file) =
                (format!("--executable_format={format}"), format!("--executable_file={file}"));
            let arguments = ["--entry_point=0", "--constant=3", "--constant=-4", "--binding=16xi32=5"];
            let given = more.iter().filter(|it| it.starts_with("--binding=@")).count();
            let second = ["--binding=16xi32"].iter().skip(given);
            arguments
                .iter()
                .chain(second)
                .chain(more)
                .map(ToString::to_string)
                .chain([format, file])
                .collect()
        };
        for (name, arguments) in EXECUTABLES {
            // The last flag counts.
            let mut all = of(arguments);
            all.rotate_right(2);
            add_shapes(trials, &format!("executable.{format}.{name}"), "iree-benchmark-executable", &all);
        }
        for (name, flag) in [
            ("constants", "--constant=5"),
            ("bindings", "--binding=16xi32"),
            ("entry_point", "--entry_point=1"),
        ] {
            let arguments = of(&["--workgroup_count=1,1,1", flag]);
            let test = move || refused_rows(&arguments, name == "entry_point");
            trials.push(Trial::test(format!("benchmark::executable.{format}.{name}"), test));
        }
    }
}

/// The comparisons of each case.
fn add_shapes(trials: &mut Vec<Trial>, name: &str, tool: &'static str, arguments: &[String]) {
    let mut add = |what: &str, test: fn(&'static str, &[String]) -> Outcome| {
        let arguments = arguments.to_vec();
        trials.push(Trial::test(format!("benchmark::{what}::{name}"), move || test(tool, &arguments)));
    };
    add("json", |tool, arguments| same_rows(tool, arguments, &[]));
    add("repetitions", |tool, arguments| same_rows(tool, arguments, &["--benchmark_repetitions=3"]));
    add("aggregates", |tool, arguments| {
        let flags = ["--benchmark_repetitions=3", "--benchmark_report_aggregates_only=true"];
        same_rows(tool, arguments, &flags)
    });
    add("csv", same_csv);
    add("list", |tool, arguments| {
        let (ours, theirs) = run(tool, arguments, &["--benchmark_list_tests=true"])?;
        ensure(ours.stdout == theirs.stdout && ours.code == theirs.code, || {
            format!("ours lists {}", String::from_utf8_lossy(&ours.stdout))
        })
    });
}

/// Our capture of a benchmark has a scope per call, which the reference can measure.
fn recorded() -> Outcome {
    let scratch = tempfile::tempdir()?;
    let capture = scratch.path().join("abs.ireereplay").display().to_string();
    let arguments = ["modules/simple_abs.vmfb", "abs", "f32=-2", &capture]
        .into_iter()
        .zip(["--module", "--function", "--input", "--device_replay_output"])
        .map(|(value, flag)| format!("{flag}={value}"));
    let arguments: Vec<String> =
        arguments.chain(["--device=local-sync".into(), "--benchmark_min_time=4x".into()]).collect();
    let made = Pair::find("iree-benchmark-module")?.run_ours(&arguments, &fixture(""))?;
    ensure(made.succeeded(), || made.summary())?;
    same_rows("iree-benchmark-replay", &[capture.clone(), "--replay_scope=execute".into()], &[])?;
    let (_, dump) = Pair::find("iree-dump-replay")?.run(&[capture], &fixture(""))?;
    let dump = String::from_utf8_lossy(&dump.stdout).into_owned();
    let scopes = dump.matches("scope_begin").count();
    ensure(dump.matches("execute").count() >= 8 && scopes >= 5, || format!("{scopes} scopes in\n{dump}"))
}

fn run(tool: &str, arguments: &[String], flags: &[&str]) -> Result<(Ended, Ended), Failed> {
    let mut all = vec!["--device=local-sync".to_owned(), "--benchmark_min_time=3x".to_owned()];
    all.extend(flags.iter().map(ToString::to_string));
    all.extend(arguments.iter().cloned());
    Pair::find(tool)?.run(&all, &fixture(""))
}

/// Same names in the same order, and the same fields per row.
fn same_rows(tool: &str, arguments: &[String], flags: &[&str]) -> Outcome {
    let (ours, theirs) = run(tool, arguments, &[flags, &["--benchmark_format=json"]].concat())?;
    ensure(ours.succeeded() == theirs.succeeded(), || {
        format!("ours ends with {}\ntheirs with {}", ours.summary(), theirs.summary())
    })?;
    // A failure before the first measurement produces no report on either side; a later one does.
    if !String::from_utf8_lossy(&theirs.stdout).contains('{') {
        return ensure(!String::from_utf8_lossy(&ours.stdout).contains('{'), || ours.summary());
    }
    let (ours, theirs) = (json(&ours)?, json(&theirs)?);
    let (a, b) = (rows(&ours)?, rows(&theirs)?);
    ensure(a == b, || format!("rows differ\nours:   {a:?}\ntheirs: {b:?}"))?;
    let (a, b) = (keys(&ours["context"]), keys(&theirs["context"]));
    let missing: Vec<_> = b.difference(&a).collect();
    ensure(missing.is_empty(), || format!("the context lacks {missing:?}"))
}

/// A dispatch that is refused: the reference reports it in the row and succeeds, ours fails as well. An entry
/// point is looked up by ours before anything is measured.
fn refused_rows(arguments: &[String], is_looked_up: bool) -> Outcome {
    let (ours, theirs) = run("iree-benchmark-executable", arguments, &["--benchmark_format=json"])?;
    ensure(theirs.succeeded() && ours.code == Some(1), || {
        format!("{}\n{}", ours.summary(), theirs.summary())
    })?;
    let theirs = json(&theirs)?;
    ensure(theirs["benchmarks"][0]["error_occurred"] == true, || theirs.to_string())?;
    if is_looked_up {
        return ensure(ours.stdout.is_empty(), || ours.summary());
    }
    let (a, b) = (rows(&json(&ours)?)?, rows(&theirs)?);
    ensure(a == b, || format!("rows differ\nours:   {a:?}\ntheirs: {b:?}"))
}

pub fn json(ended: &Ended) -> Result<Value, Failed> {
    let text = String::from_utf8_lossy(&ended.stdout);
    // The reference may print a line before the report.
    let start = text.find('{').ok_or("no JSON on standard output")?;
    Ok(serde_json::from_str(&text[start..]).map_err(|error| error.to_string())?)
}

/// Statistics that our reports have besides the fields of Google Benchmark.
const OUR_FIELDS: [&str; 5] =
    ["sample_median", "sample_median_low", "sample_median_high", "sample_mad", "sample_count"];

/// The rows of a report: their names, and the names of their fields.
pub fn rows(report: &Value) -> Result<Vec<(String, BTreeSet<String>)>, Failed> {
    let benchmarks = report["benchmarks"].as_array().ok_or("no list of benchmarks")?;
    Ok(benchmarks
        .iter()
        .map(|row| {
            let mut keys = keys(row);
            keys.retain(|key| !OUR_FIELDS.contains(&key.as_str()));
            (row["name"].as_str().unwrap_or_default().to_owned(), keys)
        })
        .collect())
}

fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

/// Same header and same names in the first column.
fn same_csv(tool: &'static str, arguments: &[String]) -> Outcome {
    let (ours, theirs) = run(tool, arguments, &["--benchmark_format=csv"])?;
    let table = |ended: &Ended| -> Vec<String> {
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let lines = text.lines().skip_while(|line| !line.starts_with("name,"));
        lines
            .enumerate()
            .map(|(at, line)| {
                if at == 0 { line.to_owned() } else { line.split(',').next().unwrap_or_default().to_owned() }
            })
            .collect()
    };
    let (a, b) = (table(&ours), table(&theirs));
    ensure(a == b, || format!("tables differ\nours:   {a:?}\ntheirs: {b:?}"))
}
