//! Every flag of the reference's tools is one of ours.

use crate::{Outcome, Pair, ensure};
use libtest_mimic::Trial;
use oracle::captures::repository;
use oracle::tool;
use std::collections::BTreeSet;

/// Flags of drivers and tracing back ends that rehal does not have: they configure what is not there.
const NOT_OURS: [&str; 8] = ["cuda_", "hip_", "vulkan_", "amdgpu_", "task_", "metal_", "webgpu_", "remote_"];

/// The tools that carry the reference's names.
#[rustfmt::skip]
const TOOLS: &[&str] = &[
    "iree-run-replay",
    "iree-dump-replay",
    "iree-benchmark-replay",
    "iree-run-module",
    "iree-benchmark-module",
    "iree-dump-module",
    "iree-dump-parameters",
    "iree-create-parameters",
    "iree-convert-parameters",
];

pub fn add(trials: &mut Vec<Trial>) {
    for tool in TOOLS {
        trials.push(Trial::test(format!("flags::{tool}"), move || all_are_ours(tool)));
    }
}

fn all_are_ours(tool: &str) -> Outcome {
    let pair = Pair::find(tool)?;
    // Our `--help` shows the flags that work here, the reference's all of them.
    let ours = tool::run(&pair.ours, &["--help=all".to_owned()], &repository())?;
    let theirs = tool::run(&pair.theirs, &["--help".to_owned()], &repository())?;
    let known = String::from_utf8_lossy(&ours.stdout).replace('-', "_");
    let missing: Vec<String> = flags(&String::from_utf8_lossy(&theirs.stdout))
        .into_iter()
        .filter(|flag| !NOT_OURS.iter().any(|prefix| flag.starts_with(prefix)))
        .filter(|flag| !known.contains(flag.as_str()))
        .collect();
    ensure(missing.is_empty(), || format!("our --help=all lacks {missing:?}"))
}

/// The flags that a help declares: lines that start with `--name` or `# --name`.
fn flags(help: &str) -> BTreeSet<String> {
    help.lines()
        .filter_map(|line| line.strip_prefix("# ").unwrap_or(line).strip_prefix("--"))
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>())
        .filter(|flag| !flag.is_empty())
        .collect()
}
