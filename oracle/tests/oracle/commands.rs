//! The command lines that `rehal kernels --export` writes run unchanged with our tool and with the
//! reference's, and both report the same benchmark.

use crate::benchmarks::{json, rows};
use crate::replays::arguments;
use crate::{Outcome, Pair, ensure, per_capture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::tool;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Commands of a capture that run: the first, the last, and others between them.
const MAX_COMMANDS: usize = 12;

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    per_capture(trials, "commands", capture, commands);
}

fn commands(capture: &Capture) -> Outcome {
    let replay = Pair::find("iree-run-replay")?;
    if !tool::run(&replay.theirs, &arguments(capture), &capture.directory)?.succeeded() {
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    let directory = scratch.path().join("kernels");
    let mut export = vec!["kernels".to_owned(), format!("--export={}", directory.display())];
    export.extend(arguments(capture));
    let ended = tool::run(&tool::ours("rehal")?, &export, &capture.directory)?;
    if !ended.succeeded() {
        let has_none = String::from_utf8_lossy(&ended.stderr).contains("no kernel to export");
        return ensure(has_none, || ended.summary());
    }
    let index: Value = serde_json::from_str(&fs::read_to_string(directory.join("index.json"))?)?;
    let kernels = index["kernels"].as_array().ok_or("no list of kernels")?;
    let tools = Pair::find("iree-benchmark-executable")?;
    let steps = kernels.len().min(MAX_COMMANDS);
    for step in 0..steps {
        let kernel = &kernels[step * (kernels.len() - 1) / (steps - 1).max(1)];
        runs(&tools, kernel, &directory)
            .map_err(|error| format!("{}: {}", kernel["command"], error.message().unwrap_or_default()))?;
    }
    Ok(())
}

fn runs(tools: &Pair, kernel: &Value, directory: &Path) -> Result<(), Failed> {
    let command = kernel["command"].as_str().ok_or("no command")?;
    let mut words = command.split(' ').map(ToOwned::to_owned);
    ensure(words.next().as_deref() == Some("iree-benchmark-executable"), || "another tool".to_owned())?;
    let once = ["--benchmark_min_time=1x", "--batch_size=2", "--benchmark_format=json"];
    let arguments: Vec<String> = words.chain(once.map(ToOwned::to_owned)).collect();
    let (ours, theirs) = tools.run(&arguments, directory)?;
    for ended in [&ours, &theirs] {
        ensure(ended.succeeded(), || ended.summary())?;
        let report = json(ended)?;
        let row = &report["benchmarks"][0];
        let count: Vec<String> =
            kernel["workgroup_count"].as_array().into_iter().flatten().map(Value::to_string).collect();
        let name = format!("BM_dispatch_{}/process_time/real_time", count.join("x"));
        let is_good = row["name"] == name && row["iterations"] == 2 && row["error_occurred"].is_null();
        ensure(is_good, || format!("not {name}: {row}"))?;
    }
    let (ours, theirs) = (rows(&json(&ours)?)?, rows(&json(&theirs)?)?);
    ensure(ours == theirs, || format!("rows differ\nours:   {ours:?}\ntheirs: {theirs:?}"))
}
