//! Profiles of programs and replays on Vulkan: the reference's reader prints of ours what our reader prints,
//! and they have the chunks and counts of the reference's own.

use super::{find, program};
use crate::profiles::{command_lines, compare};
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::tool;
use std::collections::BTreeMap;
use std::path::Path;

/// The modes that the reference's driver has.
const MODES: [&str; 5] =
    ["queue-events", "device-queue-events", "dispatch-events", "memory-events", "executable-metadata"];
/// Modes that it lacks.
const REFUSED_MODES: [&str; 3] = ["host-execution", "command-region-events", "executable-traces"];
const TOOLS: [&str; 4] =
    ["iree-run-module", "iree-benchmark-module", "iree-run-replay", "iree-benchmark-replay"];

/// Counts that depend on the program alone. Events of memory also count what happens inside of pools.
const COUNTS: [&str; 7] = [
    "queue_events",
    "queue_device_events",
    "executables",
    "executable_functions",
    "command_buffers",
    "command_operations",
    "invalid_command_region_events",
];

pub fn add(trials: &mut Vec<Trial>) {
    for tool in TOOLS {
        let all = MODES.join(",");
        for mode in MODES.iter().map(ToString::to_string).chain([all]) {
            let name = if mode.contains(',') { "all".to_owned() } else { mode.clone() };
            let test = move || same_profile(tool, &mode);
            trials.push(Trial::test(format!("vulkan::profile::{tool}::{name}"), test));
        }
    }
    for tool in TOOLS {
        trials.push(Trial::test(format!("vulkan::profile::{tool}::statistics"), move || statistics(tool)));
    }
    trials.push(Trial::test("vulkan::profile::dispatch_statistics", dispatch_statistics));
    for mode in REFUSED_MODES {
        trials.push(Trial::test(format!("vulkan::profile::refused::{mode}"), move || refused(mode)));
    }
}

/// A run with several dispatches.
fn line(tool: &str) -> Result<Vec<String>, Failed> {
    let capture = find("mlp.mlp")?;
    let mut line = match tool {
        "iree-run-module" | "iree-benchmark-module" => program(&capture)?,
        _ => vec!["--device=vulkan".to_owned(), capture.path.display().to_string()],
    };
    if tool.starts_with("iree-benchmark") {
        line.push("--benchmark_min_time=3x".into());
    }
    Ok(line)
}

fn profiled(program: &Path, line: &[String], mode: &str, path: &Path) -> Result<tool::Ended, Failed> {
    let flags =
        [format!("--device_profiling_mode={mode}"), format!("--device_profiling_output={}", path.display())];
    Ok(tool::run(program, &[line, &flags].concat(), &fixture(""))?)
}

/// The counts of a kind (`chunks`, `metadata_records`, `event_records`) that the reference's reader prints of
/// a profile.
fn counts(path: &Path, kind: &str) -> Result<BTreeMap<String, u64>, Failed> {
    let reader = Pair::find("iree-profile")?.theirs;
    let summary = tool::run(&reader, &["summary".to_owned(), path.display().to_string()], &fixture(""))?;
    ensure(summary.succeeded(), || summary.summary())?;
    let text = String::from_utf8_lossy(&summary.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{kind}: ")));
    let words = line.ok_or_else(|| format!("no {kind} in\n{text}"))?.split(' ');
    let count = |word: &str| -> Option<(String, u64)> {
        let (name, count) = word.split_once('=')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    Ok(words.filter_map(count).collect())
}

fn same_profile(tool: &str, mode: &str) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let (ours, theirs) = (scratch.path().join("ours.ireeprof"), scratch.path().join("theirs.ireeprof"));
    let (pair, line) = (Pair::find(tool)?, line(tool)?);
    for (program, path) in [(&pair.ours, &ours), (&pair.theirs, &theirs)] {
        let ended = profiled(program, &line, mode, path)?;
        ensure(ended.succeeded(), || format!("{}: {}", program.display(), ended.summary()))?;
    }
    let (mine, wanted) = (counts(&ours, "chunks")?, counts(&theirs, "chunks")?);
    let lacks = |(name, count): &(&String, &u64)| **count != 0 && mine.get(*name).is_none_or(|it| *it == 0);
    let missing: Vec<_> = wanted.iter().filter(lacks).collect();
    ensure(missing.is_empty(), || format!("ours lacks chunks: {missing:?}"))?;
    ensure(
        ["unknown", "truncated", "dropped_records"].iter().all(|name| mine.get(*name) == Some(&0)),
        || format!("{mine:?}"),
    )?;
    for kind in ["metadata_records", "event_records"] {
        let (mine, wanted) = (counts(&ours, kind)?, counts(&theirs, kind)?);
        for name in COUNTS {
            ensure(mine.get(name) == wanted.get(name), || {
                format!("{kind} {name}: ours {:?}, theirs {:?}", mine.get(name), wanted.get(name))
            })?;
        }
    }
    ensure(dispatches(&ours)? == dispatches(&theirs)?, || {
        format!("ours {:?}\ntheirs {:?}", dispatches(&ours), dispatches(&theirs))
    })?;
    let reader = Pair::find("iree-profile")?;
    // All command lines for the richest of the profiles.
    let lines = if mode.contains(',') { command_lines(&["1"], &["*mlp*"]) } else { command_lines(&[], &[]) };
    lines.iter().try_for_each(|line| compare(&reader, line, &ours))
}

/// A dispatch by the values of its row that do not vary from run to run.
type Dispatched = Vec<(String, String)>;

/// The dispatches of a profile: functions, counts of workgroups, and whether there are times, and of which
/// clock.
fn dispatches(path: &Path) -> Result<Vec<Dispatched>, Failed> {
    let reader = Pair::find("iree-profile")?.theirs;
    let line = ["dispatch", "--format=jsonl", "--dispatch_events", &path.display().to_string()];
    let ended = tool::run(&reader, &line, &fixture(""))?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let mut rows = Vec::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if row["type"] != "dispatch_event" {
            continue;
        }
        let fields = row.as_object().ok_or("a row is not an object")?.iter();
        let fixed = fields.filter(|(name, value)| {
            value.is_boolean() || ["key", "workgroup_count", "workgroup_size"].contains(&name.as_str())
        });
        rows.push(fixed.map(|(name, value)| (name.clone(), value.to_string())).collect());
    }
    rows.sort();
    Ok(rows)
}

/// Both refuse a kind of data that a device cannot report, before the program runs.
fn refused(mode: &str) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let (pair, line) = (Pair::find("iree-run-module")?, line("iree-run-module")?);
    let ours = profiled(&pair.ours, &line, mode, &scratch.path().join("ours"))?;
    let theirs = profiled(&pair.theirs, &line, mode, &scratch.path().join("theirs"))?;
    ensure(ours.code == Some(1) && ours.status_name() == theirs.status_name(), || {
        format!("ours: {}\ntheirs: {}", ours.summary(), theirs.summary())
    })?;
    let said = String::from_utf8_lossy(&ours.stderr).into_owned();
    ensure(said.contains(mode), || format!("the mode is not named: {said}"))
}

/// Both print statistics of the same operations and functions, with the same counts.
fn statistics(tool: &str) -> Outcome {
    let (pair, mut line) = (Pair::find(tool)?, line(tool)?);
    line.push("--print_device_statistics".into());
    for mode in [None, Some("queue-events,device-queue-events,dispatch-events,memory-events")] {
        let is_default = mode.is_none();
        let mode = mode.map(|mode| format!("--device_profiling_mode={mode}"));
        let line: Vec<_> = line.iter().cloned().chain(mode).collect();
        let (ours, theirs) = pair.run(&line, &fixture(""))?;
        ensure(ours.succeeded() && theirs.succeeded(), || {
            format!("{} and {}", ours.summary(), theirs.summary())
        })?;
        let (mut mine, wanted) = (counted(&ours), counted(&theirs));
        if is_default {
            // The reference has no times of functions then.
            let dispatches = mine.extract_if(.., |row| row.starts_with("dispatch ")).count();
            ensure(dispatches > 0, || format!("no functions: {mine:?}"))?;
        }
        let has = |kind: &str| wanted.iter().any(|row| row.starts_with(kind));
        ensure(has("memory ") && has("host_queue "), || format!("{wanted:?}"))?;
        ensure(mine == wanted, || format!("{line:?}\nours {mine:#?}\ntheirs {wanted:#?}"))?;
    }
    Ok(())
}

/// The rows of printed statistics with what depends on the program alone: kinds, names and counts, and the
/// bytes that queues allocate. Queues, commands per execution and the bytes inside of pools are the driver's.
fn counted(ended: &tool::Ended) -> Vec<String> {
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    let lines = text.lines().skip_while(|line| *line != "IREE HAL device statistics:");
    let rows = lines.filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["memory", _, _, "queue_alloca", ..] => Some(words.join(" ")),
            // What the host frees has no queue, and the reference does not report it.
            ["memory", _, "q=0", name, count, ..] => Some(["memory", name, count].join(" ")),
            [kind @ ("host_queue" | "device_queue"), _, _, name, count, ..] => {
                Some([kind, name, count].join(" "))
            }
            ["dispatch", name, count, ..] => Some(["dispatch", name, count].join(" ")),
            _ => None,
        }
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

/// The functions that the device times, below the benchmark.
fn dispatch_statistics() -> Outcome {
    let mut line = line("iree-benchmark-module")?;
    line.extend(["--dispatch_statistics", "--benchmark_format=json"].map(ToOwned::to_owned));
    let ended = Pair::find("iree-benchmark-module")?.run_ours(&line, &fixture(""))?;
    ensure(ended.succeeded(), || ended.summary())?;
    let report = crate::benchmarks::json(&ended)?;
    let rows = report["benchmarks"].as_array().ok_or("no rows")?;
    let of_functions = rows.iter().filter(|row| row["name"].to_string().contains("/mlp_dispatch_"));
    let times: Vec<_> = of_functions.map(|row| (row["real_time"].as_f64(), row["calls"].as_f64())).collect();
    let is_timed =
        |(time, calls): &(Option<f64>, Option<f64>)| time.is_some_and(|it| it > 0.0) && *calls == Some(1.0);
    ensure(times.len() == 5 && times.iter().all(is_timed), || format!("{rows:?}"))
}
