//! Reports of device profiles are those of the reference's tool, byte for byte: of the profiles of the
//! corpus, of one with rows of every kind, and of changed ones.

use std::path::{Path, PathBuf};

use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures::{corpus, repository};
use oracle::tool;

/// A bundle with rows of every kind, of two devices.
pub const SAMPLE: &str = "crates/profile/tests/data/sample.ireeprof";

/// The commands that print totals of dispatches, or each of them.
const PROJECTIONS: [&str; 4] = ["executable", "dispatch", "command", "queue"];

/// The commands without filters.
const PLAIN: [&str; 3] = ["summary", "statistics", "cat"];

pub fn add(trials: &mut Vec<Trial>) {
    let whole = ["*mat*", "cop?", "dispatch", "queue_*", "unattributed", "SQ", "zzz"];
    trials.push(Trial::test("profiles::every_kind_of_row", move || {
        reports(&repository().join(SAMPLE), &["0", "1", "2", "5", "70", "999"], &whole)
    }));
    trials.push(Trial::test("profiles::changed", changed));
    trials.push(Trial::test("profiles::truncated", truncated));
    trials.push(Trial::test("profiles::refused_options", refused_options));
    for tool in ["iree-run-module", "iree-benchmark-module", "iree-run-replay", "iree-benchmark-replay"] {
        for device in ["local-sync", "local-task"] {
            trials.push(Trial::test(format!("profiles::produced/{tool}/{device}"), move || {
                produced(tool, device)
            }));
        }
    }
    trials.push(Trial::test("profiles::statistics_of_a_run", statistics_of_a_run));
    for path in bundles() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        trials.push(Trial::test(format!("profiles::corpus/{name}"), move || {
            reports(&path, &["1", "3"], &["*matmul*", "queue_*", "execute"])
        }));
    }
}

/// The profiles of the corpus.
pub fn bundles() -> Vec<PathBuf> {
    let entries = corpus().and_then(|corpus| std::fs::read_dir(corpus.join("profiles")).ok());
    let mut paths: Vec<_> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireeprof"));
    paths.sort();
    paths
}

/// All command lines for a profile, without its path.
pub fn command_lines(ids: &[&str], filters: &[&str]) -> Vec<Vec<String>> {
    let mut lines = vec![vec![], words("export --format=ireeperf-jsonl")];
    let filtered: Vec<_> = PROJECTIONS.iter().chain(&["explain", "counter", "memory"]).collect();
    for format in ["text", "jsonl"] {
        for command in PLAIN.iter().chain(filtered.iter().copied()) {
            lines.push(words(&format!("{command} --format={format}")));
        }
        for command in &filtered {
            lines.extend(ids.iter().map(|id| words(&format!("{command} --format={format} --id={id}"))));
            lines.extend(
                filters.iter().map(|it| words(&format!("{command} --format={format} --filter={it}"))),
            );
        }
    }
    for command in PROJECTIONS {
        let events = format!("{command} --format=jsonl --dispatch_events");
        lines.push(words(&events));
        lines.extend(ids.iter().map(|id| words(&format!("{events} --id={id}"))));
        lines.extend(filters.iter().map(|it| words(&format!("{events} --filter={it}"))));
    }
    lines.extend(ids.iter().map(|id| words(&format!("counter --format=jsonl --counter_samples --id={id}"))));
    lines.push(words("counter --format=jsonl --counter_samples"));
    lines
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(ToOwned::to_owned).collect()
}

fn reports(path: &Path, ids: &[&str], filters: &[&str]) -> Outcome {
    let pair = Pair::find("iree-profile")?;
    for line in command_lines(ids, filters) {
        compare(&pair, &line, path)?;
    }
    Ok(())
}

/// Runs both tools; fails unless output and status are the same.
pub fn compare(pair: &Pair, line: &[String], path: &Path) -> Outcome {
    let arguments = [line, &[path.display().to_string()]].concat();
    let (ours, theirs) = pair.run(&arguments, &repository())?;
    let said = || format!("{}: ours {}, theirs {}", arguments.join(" "), ours.summary(), theirs.summary());
    ensure(ours.code == theirs.code && ours.status_name() == theirs.status_name(), said)?;
    ensure(ours.stdout == theirs.stdout, || {
        let (a, b) = (String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
        let pair = a.lines().zip(b.lines()).find(|(a, b)| a != b);
        format!("{}: {:?}", said(), pair.unwrap_or_default())
    })
}

/// Changes bytes of the sample. What both tools read, they print alike; what only one rejects is ours to
/// reject.
fn changed() -> Outcome {
    let pair = Pair::find("iree-profile")?;
    let seed = std::fs::read(repository().join(SAMPLE))?;
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("changed.ireeprof");
    let lines: Vec<_> = command_lines(&[], &[]);
    let mut state = 1_u64;
    let mut next = |bound: usize| {
        // A linear congruential generator: the same changes in every run.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut same = 0;
    for round in 0..60 {
        let mut bytes = seed.clone();
        for _ in 0..3 {
            bytes[next(seed.len())] ^= 1 << next(8);
        }
        std::fs::write(&path, &bytes)?;
        let line = &lines[round % lines.len()];
        let arguments = [&line[..], &[path.display().to_string()]].concat();
        let (ours, theirs) = pair.run(&arguments, &repository())?;
        let said =
            || format!("round {round}, {}: {} and {}", line.join(" "), ours.summary(), theirs.summary());
        ensure(ours.signal.is_none() && ours.code.is_some_and(|code| code < 2), said)?;
        if ours.succeeded() && !String::from_utf8_lossy(&ours.stderr).contains("is truncated") {
            ensure(theirs.succeeded() && ours.stdout == theirs.stdout, said)?;
            same += 1;
        }
    }
    ensure(same > 20, || format!("only {same} changed profiles were read"))
}

/// The reference's tool reads the profiles of our tools, and prints the same of them as ours.
fn produced(tool: &str, device: &str) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("run.ireeprof");
    let pair = Pair::find(tool)?;
    let mut line = run_line(tool, device);
    line.push(
        "--device_profiling_mode=queue-events,host-execution,memory-events,command-region-events".into(),
    );
    line.push(format!("--device_profiling_output={}", path.display()));
    let ran = pair.run_ours(&line, &repository())?;
    ensure(ran.succeeded(), || ran.summary())?;
    let reader = Pair::find("iree-profile")?;
    for line in command_lines(&["1"], &["*mlp*"]) {
        compare(&reader, &line, &path)?;
    }
    let (_, theirs) =
        reader.run(&[words("summary"), vec![path.display().to_string()]].concat(), &repository())?;
    let summary = String::from_utf8_lossy(&theirs.stdout).into_owned();
    let counts = summary.lines().find(|line| line.starts_with("event_records: ")).unwrap_or_default();
    let has = |name: &str| {
        let count = counts.split(&format!(" {name}=")).nth(1).and_then(|rest| rest.split(' ').next());
        count.is_some_and(|count| count != "0")
    };
    let all = [
        "queue_events",
        "host_execution_events",
        "command_region_events",
        "memory_events",
        "event_relationships",
    ];
    ensure(all.into_iter().all(has), || summary.clone())?;
    ensure(summary.contains(" unknown=0 truncated=0 "), || summary.clone())
}

/// A run with several dispatches.
fn run_line(tool: &str, device: &str) -> Vec<String> {
    let mut line = words(&format!("--device={device}"));
    match tool {
        "iree-run-module" | "iree-benchmark-module" => {
            line.extend(words("--module=fixtures/modules/mlp.vmfb --function=mlp"));
            line.extend(["8x32", "32x48", "48x48", "48x10"].map(|shape| format!("--input={shape}xf32=1")));
        }
        _ => line.push("fixtures/captures/mlp.mlp.local-sync.ireereplay".into()),
    }
    if tool.starts_with("iree-benchmark") {
        line.push("--benchmark_min_time=3x".into());
    }
    line
}

/// Both print statistics of the same operations and functions, with the same counts.
fn statistics_of_a_run() -> Outcome {
    let pair = Pair::find("iree-run-module")?;
    let mut line = run_line("iree-run-module", "local-sync");
    line.push("--print_device_statistics".into());
    let (ours, theirs) = pair.run(&line, &repository())?;
    ensure(ours.succeeded() && theirs.succeeded(), || {
        format!("{} and {}", ours.summary(), theirs.summary())
    })?;
    let rows = |outcome: &tool::Ended| -> Vec<String> {
        let text = String::from_utf8_lossy(&outcome.stderr).into_owned();
        let functions = text.lines().filter(|line| line.starts_with("  host_execute "));
        functions.map(|line| line.split(" total=").next().unwrap_or(line).to_owned()).collect()
    };
    ensure(!rows(&ours).is_empty() && rows(&ours) == rows(&theirs), || {
        format!("{:?} and {:?}", rows(&ours), rows(&theirs))
    })
}

/// Of a truncated profile, ours prints what the reference prints of its complete records.
fn truncated() -> Outcome {
    let pair = Pair::find("iree-profile")?;
    let bytes = std::fs::read(repository().join(SAMPLE))?;
    let scratch = tempfile::tempdir()?;
    let (torn, whole) = (scratch.path().join("torn.ireeprof"), scratch.path().join("whole.ireeprof"));
    let mut starts = vec![24_usize];
    while let Some(length) = starts.last().and_then(|start| bytes.get(*start..start + 8)) {
        starts.push(starts[starts.len() - 1] + u64::from_le_bytes(length.try_into()?) as usize);
    }
    for cut in starts.iter().copied().chain((24..bytes.len()).step_by(333)) {
        let end = starts.iter().copied().filter(|start| *start <= cut).max().unwrap_or_default();
        std::fs::write(&torn, &bytes[..cut])?;
        std::fs::write(&whole, [&bytes[..16], &(end as u64).to_le_bytes(), &bytes[24..end]].concat())?;
        for line in ["summary", "export --format=ireeperf-jsonl"] {
            let of = |path: &Path| [words(line), vec![path.display().to_string()]].concat();
            let ours = tool::run(&pair.ours, &of(&torn), &repository())?;
            let theirs = tool::run(&pair.theirs, &of(&whole), &repository())?;
            let said = || format!("{cut} bytes, {line}: {} and {}", ours.summary(), theirs.summary());
            ensure(ours.code == theirs.code && ours.stdout == theirs.stdout, said)?;
            let warns = String::from_utf8_lossy(&ours.stderr).contains("is truncated");
            ensure(warns == (cut < bytes.len()), said)?;
        }
    }
    Ok(())
}

fn refused_options() -> Outcome {
    let pair = Pair::find("iree-profile")?;
    let sample = repository().join(SAMPLE);
    for line in [
        "summary --filter=x",
        "cat --id=1",
        "export",
        "export --format=jsonl",
        "memory --format=ireeperf-jsonl",
        "memory --format=jsonl --dispatch_events",
        "queue --dispatch_events",
        "counter --counter_samples",
        "queue --format=jsonl --counter_samples",
        "queue --output=x.jsonl",
        "nothing",
    ] {
        compare(&pair, &words(line), &sample)?;
    }
    // The reference has no command att in builds without support of AMD devices.
    let (ours, theirs) =
        pair.run(&[words("att"), vec![sample.display().to_string()]].concat(), &repository())?;
    let is_refused = ours.code == theirs.code && ours.status_name().as_deref() == Some("UNIMPLEMENTED");
    ensure(is_refused, || format!("{} and {}", ours.summary(), theirs.summary()))?;
    let missing: Result<_, Failed> = pair.run_ours(&words("cat no.ireeprof"), &repository());
    ensure(missing?.status_name().as_deref() == Some("NOT_FOUND"), || "a missing file".to_owned())
}
