//! The workers that flags select, as both tools dump them: on invented machines, and on this one.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use testing::machines::{self, Machine, Named};

use crate::{Outcome, Pair, ensure};

const TOOLS: [&str; 4] =
    ["iree-run-module", "iree-benchmark-module", "iree-run-replay", "iree-benchmark-replay"];

pub fn add(trials: &mut Vec<Trial>) {
    type Kind = (&'static str, fn() -> Named, &'static [&'static str]);
    let kinds: [Kind; 6] = [
        ("regular", machines::regular, &SELECTIONS),
        ("large", machines::large, &FEW_SELECTIONS),
        ("irregular", machines::irregular, &SELECTIONS),
        ("incomplete", machines::incomplete, &FEW_SELECTIONS),
        ("malformed", machines::malformed, &FEW_SELECTIONS),
        ("at_the_limits", machines::at_the_limits, &FEW_SELECTIONS),
    ];
    for (kind, machines, selections) in kinds {
        let name = format!("topologies::invented_machines::{kind}");
        trials.push(Trial::test(name, move || invented_machines(machines(), selections)));
    }
    trials.push(Trial::test("topologies::this_machine", this_machine));
    trials.push(Trial::test("topologies::refused_alike", refused_alike));
    for tool in TOOLS {
        trials.push(Trial::test(format!("topologies::printed_alike::{tool}"), move || printed_alike(tool)));
    }
}

/// Values of the flags in combinations.
const SELECTIONS: [&str; 24] = [
    "",
    "nodes=all",
    "nodes=numa",
    "nodes=0",
    "nodes=1,0,",
    "nodes=0,2,300",
    "nodes=7,3",
    "nodes=all distribution=compact",
    "nodes=numa distribution=compact max_group_count=3",
    "nodes=all performance_level=high",
    "nodes=all performance_level=low",
    "nodes=numa performance_level=high max_group_count=5",
    "nodes=numa performance_level=efficiency distribution=compact",
    "performance_level=performance distribution=compact",
    "performance_level=low max_group_count=1",
    "nodes=all max_group_count=1",
    "nodes=all max_group_count=6",
    "nodes=all max_group_count=300",
    "nodes=all max_group_count=256 distribution=compact",
    "max_group_count=0",
    "nodes=all favor=latency distribution=scatter",
    "nodes=all favor=throughput performance_level=low",
    "nodes=all favor=efficiency",
    "nodes=numa group_count=3",
];

const FEW_SELECTIONS: [&str; 8] = [
    "",
    "nodes=all",
    "nodes=numa",
    "nodes=1",
    "nodes=all distribution=compact max_group_count=300",
    "nodes=numa max_group_count=5",
    "nodes=all performance_level=high",
    "nodes=all group_count=2",
];

fn invented_machines(machines: Named, selections: &[&str]) -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let scratch = tempfile::tempdir()?;
    let (mut compared, mut failed) = (0, Vec::new());
    let mut previous = Machine::default();
    for (name, machine) in machines {
        machine.write_over(&previous, scratch.path())?;
        previous = machine;
        for selection in selections {
            let snapshot = format!("--task_topology_snapshot={}", scratch.path().display());
            let arguments = [vec![snapshot], flags(selection)].concat();
            if let Err(error) = dumped_alike(&pair, &arguments, scratch.path()) {
                failed.push(format!("{name}, {selection}: {}", error.message().unwrap_or_default()));
            }
            compared += 1;
        }
    }
    ensure(failed.is_empty(), || {
        format!("{} of {compared} differ\n{}", failed.len(), failed[..failed.len().min(5)].join("\n"))
    })
}

/// On the CPUs on which this process may run, then on one of them: both tools run on it, and select it.
fn this_machine() -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let few = format!("cpu_ids={}", "0,".repeat(256));
    for selection in [
        "group_count=1",
        "group_count=1000",
        "cpu_ids=0",
        "cpu_ids=0,0x0,0,",
        "cpu_ids=0 cpu_ids=0,0",
        "cpu_ids=0 nodes=77 group_count=9 snapshot=/does/not/exist",
        &few,
    ] {
        same(&pair, selection)?;
    }
    let allowed = sched_getaffinity(None)?;
    // The reference ignores CPU quotas.
    let has_quota = std::thread::available_parallelism()?.get() < allowed.count() as usize;
    let selections =
        ["nodes=all", "nodes=numa", "nodes=0", "nodes=all distribution=compact performance_level=high"];
    if !has_quota {
        selections.iter().try_for_each(|selection| same(&pair, selection).map(drop))?;
    }
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).ok_or("no CPU is allowed")?;
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one)?;
    let dumped = same(&pair, "")?;
    ensure(dumped.contains(&format!("id={last}, ")), || format!("CPU {last} is not selected\n{dumped}"))?;
    selections
        .iter()
        .chain(&["group_count=3 nodes=all"])
        .try_for_each(|selection| same(&pair, selection).map(drop))
}

fn refused_alike() -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let many = format!("cpu_ids={}", "0,".repeat(257));
    for selection in [
        &many,
        "cpu_ids=65000",
        "cpu_ids=0,x",
        "cpu_ids=0,,0",
        "cpu_ids=",
        "nodes=77",
        "nodes=0,77",
        "nodes=x",
        "nodes=,0",
        "mode=cores",
        "performance_level=medium",
        "distribution=wide",
        "snapshot=/does/not/exist",
        "snapshot=/does/not/exist group_count=2",
    ] {
        let dumped = same(&pair, selection)?;
        ensure(dumped.is_empty(), || format!("{selection} is accepted\n{dumped}"))?;
    }
    Ok(())
}

fn flags(selection: &str) -> Vec<String> {
    selection.split_whitespace().map(|flag| format!("--task_topology_{flag}")).collect()
}

/// The dump of both tools for a selection.
fn same(pair: &Pair, selection: &str) -> Result<String, Failed> {
    let dumped = dumped_alike(pair, &flags(selection), Path::new("/"));
    dumped.map_err(|error| format!("{selection}: {}", error.message().unwrap_or_default()).into())
}

/// Equal output and exit status; equal status codes of errors.
fn dumped_alike(pair: &Pair, flags: &[String], directory: &Path) -> Result<String, Failed> {
    let arguments: Vec<_> = flags.iter().cloned().chain(["--dump_task_topologies".into()]).collect();
    let (ours, theirs) = pair.run(&arguments, directory)?;
    ensure(ours.code == theirs.code && ours.status_name() == theirs.status_name(), || {
        format!("ours ended with {}\ntheirs with {}", ours.summary(), theirs.summary())
    })?;
    ensure(!ours.succeeded() || ours.stdout == theirs.stdout, || {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (ours, theirs) = (text(&ours.stdout), text(&theirs.stdout));
        let lines = ours.lines().zip(theirs.lines()).enumerate().find(|(_, (ours, theirs))| ours != theirs);
        match lines {
            Some((line, (ours, theirs))) => format!("line {}:\n  ours   {ours}\n  theirs {theirs}", line + 1),
            None => format!("ours has {} lines, theirs {}", ours.lines().count(), theirs.lines().count()),
        }
    })?;
    Ok(String::from_utf8_lossy(&ours.stdout).into_owned())
}

/// A query uses the flags before it, and the flags after it are not parsed.
fn printed_alike(tool: &str) -> Outcome {
    let pair = Pair::find(tool)?;
    for arguments in [
        &["--dump_task_topologies", "--task_topology_group_count=1", "--no_such_flag"][..],
        &["--task_topology_group_count=1", "--dump_task_topologies"],
        &["--task_topology_group_count=1", "--device=local-sync", "--dump_task_topologies=true"],
        &["--task_topology_snapshot=/does/not/exist", "--dump_task_topologies"],
        &["--dump_task_topologies", "--help"],
    ] {
        let arguments: Vec<_> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let (ours, theirs) = pair.run(&arguments, Path::new("/"))?;
        ensure(ours.code == theirs.code && ours.stdout == theirs.stdout, || {
            format!("{arguments:?}: ours ended with {}\ntheirs with {}", ours.summary(), theirs.summary())
        })?;
    }
    Ok(())
}
