//! Advice never loops: what refusals of a program for another processor advise is tried, and works.

use crate::{Outcome, ensure};
use libtest_mimic::Trial;
use oracle::captures;
use oracle::reference::Reference;
use oracle::tool;
use std::time::Duration;
use testing::fixtures;

/// A compiler on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The tools that refuse a module for another processor.
const TOOLS: [&str; 2] = ["run-module", "benchmark-module"];

pub fn add(trials: &mut Vec<Trial>) {
    for verb in TOOLS {
        trials.push(Trial::test(format!("advice::{verb}"), move || works(verb)));
    }
}

/// Compiles the program as each line of the refusal says, and runs it.
fn works(verb: &str) -> Outcome {
    let (reference, rehal) = (Reference::find(&captures::repository())?, tool::ours("rehal")?);
    let directory = tempfile::tempdir()?;
    let module = fixtures().join("modules/simple_abs.aarch64.vmfb");
    let (module, program) =
        (format!("--module={}", module.display()), ["--function=abs", "--input=f32=-7.25"]);
    let arguments = [verb, "--device=local-sync", &module, program[0], program[1]];
    let refused = tool::run_within(LIMIT, &rehal, &arguments, directory.path())?;
    let said = [&refused.stdout[..], &refused.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let advised: Vec<_> = said.lines().filter_map(|line| Some(line.split_once("iree-compile ")?.1)).collect();
    ensure(!refused.succeeded() && !advised.is_empty(), || format!("no advice: {}", refused.summary()))?;
    for flags in advised {
        let source = fixtures().join("programs/simple_abs.mlir").display().to_string();
        let flags = flags.split([' ', ',', ';']).filter(|flag| flag.starts_with("--"));
        let arguments: Vec<_> = flags.chain([&*source, "-o", "here.vmfb"]).collect();
        let compiled =
            tool::run_within(LIMIT, &reference.tool("iree-compile"), &arguments, directory.path())?;
        ensure(compiled.succeeded(), || format!("{arguments:?}: {}", compiled.summary()))?;
        let run = ["run-module", "--device=local-sync", "--module=here.vmfb", program[0], program[1]];
        let ran = tool::run_within(LIMIT, &rehal, &run, directory.path())?;
        let is_right = ran.succeeded() && String::from_utf8_lossy(&ran.stdout).contains("f32=7.25");
        ensure(is_right, || format!("{arguments:?}: {}", ran.summary()))?;
    }
    Ok(())
}
