//! The flags of the tools and their defaults are exactly those of the reference's tools plus the listed
//! additions.

use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures::repository;
use oracle::help::Declared;
use oracle::tool;
use std::collections::BTreeMap;
use std::path::Path;

/// Flags of ours that the reference's help lacks, and why.
type Added = (&'static [&'static str], &'static str);

const VERSION: Added = (&["version"], "the reference's tools do not print a version");
const GUIDE: Added = (&["agents_md"], "the reference's tool has no guide");
const RECOVER: Added = (&["recover"], "the reference's tool rejects a capture that was never closed");
const PERF_COUNTERS: Added =
    (&["benchmark_perf_counters"], "Google Benchmark's usage message names it in builds with libpfm only");
const TIME_UNIT: Added =
    (&["time_unit"], "the reference's help sets it only if the flag was given before --help");
const HOST_READS: Added = (
    &["replay_host_reads", "replay_host_reads_limit_bytes"],
    "the reference's tool cannot write a replay's host reads",
);
const REPLAY_ORDER: Added = (&["replay_order"], "the reference replays in serialized order only");
const FILE_WRITES: Added = (&["replay_file_writes"], "the reference writes to the files");
const EXTERNAL_PATHS: Added =
    (&["allow_external_paths"], "the reference reads no external files of archives");
const FAST_FORWARD: Added = (&["replay_fast_forward"], "the reference repeats the whole capture");
const CACHE: Added = (&["replay_cache"], "the reference does not evict caches");
const SUMMARY: Added = (&["benchmark_summary"], "the reference prints no statistics of samples");
const COMPARISON: Added = (
    &["with", "baseline", "fail_if_slower", "max_time", "precision", "seed", "format"],
    "the reference compares no replays",
);
const MERGE_EXECUTABLES: Added = (&["merge_executables"], "the reference totals each loaded executable");
const JSON: Added = (&["format"], "the reference prints text only");
const PROCESSES: Added = (&["processes"], "the reference measures in one process");
const HISTORY: Added = (&["history", "against"], "the reference keeps no history");
const SUBSTITUTION: Added =
    (&["executable_substitution"], "the reference replaces executables in replays only");
const WORKGROUPS: Added =
    (&["workgroup_count"], "the reference does not ask how many workgroups a replacement needs");
const RECORDING: Added = (&["device_replay_output"], "the reference's tool for executables does not record");
const RECORDED_LEDGER: Added = (&["device_replay_ledger", "element_type"], "the reference records no ledger");
const COMPILER: Added = (
    &["compiler", "compiler_flag", "no_cache", "compiler_timeout", "compiler_memory"],
    "the reference's tools compile no sources",
);
const LEDGER: Added = (
    &["replay_ledger", "replay_ledger_contents", "replay_ledger_kept_bytes", "element_type"],
    "the reference cannot write a ledger of a replay",
);

/// Additions of every tool that runs work: the watchdog, the files for profilers, the confinement, the
/// validator, and the flags with the names of environment variables.
const OF_DEVICES: [&str; 16] = [
    "emulator_checks",
    "device_timeout",
    "perf_map",
    "rehal_kernel_record",
    "rehal_kernel_record_dir",
    "rehal_kernel_record_force",
    "rehal_kernel_record_memsize",
    "rehal_kernel_record_output",
    "rehal_kernel_record_report",
    "rehal_kernel_record_report_filename",
    "sandbox",
    "sandbox_core_dumps",
    "sandbox_file_size",
    "sandbox_memory",
    "sandbox_threads",
    "vulkan_validate_spirv",
];

/// The tools with the reference's names, and our additions.
const TOOLS: [(&str, &[Added]); 11] = [
    (
        "iree-run-replay",
        &[VERSION, RECOVER, REPLAY_ORDER, FILE_WRITES, HOST_READS, LEDGER, WORKGROUPS, COMPILER, JSON],
    ),
    ("iree-dump-replay", &[VERSION, RECOVER]),
    (
        "iree-benchmark-replay",
        &[
            VERSION,
            RECOVER,
            REPLAY_ORDER,
            FILE_WRITES,
            FAST_FORWARD,
            CACHE,
            PERF_COUNTERS,
            SUMMARY,
            COMPARISON,
            HISTORY,
            PROCESSES,
            WORKGROUPS,
            COMPILER,
        ],
    ),
    (
        "iree-run-module",
        &[VERSION, SUBSTITUTION, WORKGROUPS, EXTERNAL_PATHS, RECORDED_LEDGER, COMPILER, JSON],
    ),
    (
        "iree-benchmark-module",
        &[
            VERSION,
            SUBSTITUTION,
            WORKGROUPS,
            EXTERNAL_PATHS,
            RECORDED_LEDGER,
            PERF_COUNTERS,
            TIME_UNIT,
            SUMMARY,
            PROCESSES,
            COMPILER,
        ],
    ),
    ("iree-benchmark-executable", &[VERSION, GUIDE, RECORDING, PERF_COUNTERS, SUMMARY, PROCESSES]),
    ("iree-dump-module", &[VERSION, GUIDE]),
    ("iree-dump-parameters", &[VERSION, GUIDE, EXTERNAL_PATHS]),
    ("iree-create-parameters", &[VERSION, GUIDE]),
    ("iree-convert-parameters", &[VERSION, GUIDE, EXTERNAL_PATHS]),
    ("iree-profile", &[VERSION, MERGE_EXECUTABLES]),
];

/// Google Benchmark's defaults from its documentation: the usage message has none.
/// A flag without a default may be repeated.
const BENCHMARK_DEFAULTS: [(&str, Option<&str>); 17] = [
    ("benchmark_list_tests", Some("false")),
    ("benchmark_filter", Some("")),
    ("benchmark_min_time", Some("0.5s")),
    ("benchmark_min_warmup_time", Some("0")),
    ("benchmark_repetitions", Some("1")),
    ("benchmark_dry_run", Some("false")),
    ("benchmark_enable_random_interleaving", Some("false")),
    ("benchmark_report_aggregates_only", Some("false")),
    ("benchmark_display_aggregates_only", Some("false")),
    ("benchmark_format", Some("console")),
    ("benchmark_out", Some("")),
    ("benchmark_out_format", Some("json")),
    ("benchmark_color", Some("auto")),
    ("benchmark_counters_tabular", Some("false")),
    ("benchmark_context", None),
    ("benchmark_time_unit", Some("")),
    ("v", Some("0")),
];

pub fn add(trials: &mut Vec<Trial>) {
    for (tool, added) in TOOLS {
        trials.push(Trial::test(format!("flags::{tool}"), move || same_flags(tool, added)));
    }
}

fn same_flags(tool: &str, added: &[Added]) -> Outcome {
    let pair = Pair::find(tool)?;
    // Our `--help` lists the flags that work here, the reference's all of them.
    let (mut ours, mut theirs) = (flags_of(&pair.ours, "--help=all")?, flags_of(&pair.theirs, "--help")?);
    if tool == "iree-benchmark-executable" {
        // It takes Google Benchmark's flags, but prints its help without their usage message.
        theirs.extend(BENCHMARK_DEFAULTS.iter().map(|(name, _)| ((*name).to_owned(), Declared::Usage)));
    }
    ensure(theirs.len() > 3, || format!("the reference's help has only {theirs:?}"))?;
    for (flag, declared) in &mut theirs {
        if *declared == Declared::Usage {
            let known = BENCHMARK_DEFAULTS.iter().find(|(name, _)| name == flag);
            let (_, default) = known.ok_or_else(|| format!("no default is known of --{flag}"))?;
            *declared = default.map_or(Declared::Repeated, |value| Declared::Default(value.to_owned()));
        }
    }
    if ours.contains_key("device") {
        for flag in OF_DEVICES {
            ensure(!theirs.contains_key(flag), || format!("--{flag} is the reference's too"))?;
            ensure(ours.remove(flag).is_some(), || format!("our help lacks --{flag}"))?;
        }
    }
    for (flag, reason) in added.iter().flat_map(|(flags, reason)| flags.iter().map(move |it| (it, reason))) {
        ensure(!theirs.contains_key(*flag), || format!("--{flag} is the reference's too, but: {reason}"))?;
        ensure(ours.remove(*flag).is_some(), || format!("our help lacks --{flag}, an addition: {reason}"))?;
    }
    // Decision 003: files are mapped where theirs are read.
    if let Some(mode) = theirs.get_mut("parameter_mode") {
        let their_default = std::mem::replace(mode, Declared::Default("map".to_owned()));
        ensure(their_default == Declared::Default("file".to_owned()), || format!("{their_default:?}"))?;
    }
    let differ = differences(&ours, &theirs);
    ensure(differ.is_empty(), || differ.join("\n"))
}

fn flags_of(program: &Path, help: &str) -> Result<BTreeMap<String, Declared>, Failed> {
    let ended = tool::run(program, &[help], &repository())?;
    ensure(ended.succeeded(), || ended.summary())?;
    let text = String::from_utf8_lossy(&ended.stdout);
    // The usage message of the reference's iree-profile describes flags that the sections behind it declare.
    let is_described_twice = program.ends_with("iree-profile");
    let declared = text.split_once("\n# ===---").filter(|_| is_described_twice).map(|(_, sections)| sections);
    Ok(oracle::help::parse(declared.unwrap_or(&text))?)
}

fn differences(ours: &BTreeMap<String, Declared>, theirs: &BTreeMap<String, Declared>) -> Vec<String> {
    let missing = theirs.iter().filter(|(flag, declared)| ours.get(*flag) != Some(*declared));
    let missing = missing.map(|(flag, theirs)| match ours.get(flag) {
        Some(ours) => format!("--{flag}: ours is {ours:?}, theirs {theirs:?}"),
        None => format!("--{flag}: ours lacks it"),
    });
    let extra = ours.keys().filter(|flag| !theirs.contains_key(*flag));
    missing
        .chain(extra.map(|flag| format!("--{flag}: theirs lacks it, and it is not a listed addition")))
        .collect()
}
