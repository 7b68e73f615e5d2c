//! Programs recorded by both: the captures say the same, and each tool takes ours.

use crate::run_module::command;
use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::tool::{self, Ended};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Commands that we can do and the reference refuses.
const WIDER: [&str; 1] = ["corpus/dtypes.i1.local-sync"];

/// Ours is this part of theirs at most where a program's constants are most of its capture.
const MOSTLY_CONSTANTS: [(&str, f64); 1] = [("corpus/model.magika.local-sync", 0.4)];

pub fn add(captures: &[Capture], trials: &mut Vec<Trial>) {
    for capture in captures {
        let Some(arguments) = command(capture) else { continue };
        // Kernels that crash end the process, and with it the recording.
        let crashes = ["crash.", "torn."].iter().any(|start| capture.short_name().starts_with(start));
        if crashes || WIDER.contains(&capture.name.as_str()) {
            continue;
        }
        let capture = capture.clone();
        let name = format!("recorded::{}", capture.name);
        trials.push(Trial::test(name, move || recorded_alike(&capture, &arguments)));
    }
}

fn recorded_alike(capture: &Capture, arguments: &[String]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let (ours, theirs) = (scratch.path().join("ours.ireereplay"), scratch.path().join("theirs.ireereplay"));
    let record = |program: &Path, into: &Path| -> Result<Ended, Failed> {
        let mut arguments = arguments.to_vec();
        arguments.retain(|argument| !argument.starts_with("--device_replay_output="));
        arguments.push(format!("--device_replay_output={}", into.display()));
        tool::run(program, &arguments, &capture.folder).map_err(Failed::from)
    };
    let run = Pair::find("iree-run-module")?;
    let (ended, _) = (record(&run.ours, &ours)?, record(&run.theirs, &theirs)?);
    ensure(ours.exists(), || format!("nothing recorded: {}", ended.summary()))?;

    let dump = Pair::find("iree-dump-replay")?;
    let ours_dumped = printed(&dump.theirs, &[text(&ours)])?;
    ensure(ours_dumped == printed(&dump.ours, &[text(&ours)])?, || "the dumps of ours differ".into())?;
    said_alike(&ours_dumped, &printed(&dump.theirs, &[text(&theirs)])?)?;
    let (ours_bytes, theirs_bytes) = (fs::metadata(&ours)?.len(), fs::metadata(&theirs)?.len());
    let allowed =
        MOSTLY_CONSTANTS.iter().find(|(name, _)| *name == capture.name).map_or(1.01, |(_, part)| *part);
    ensure(ours_bytes as f64 <= theirs_bytes as f64 * allowed, || {
        format!("ours has {ours_bytes} bytes, theirs {theirs_bytes}")
    })?;

    let devices = arguments.iter().filter(|argument| argument.starts_with("--device=")).cloned();
    let replay: Vec<String> = devices.chain([text(&ours)]).collect();
    for replayer in ["iree-run-replay", "iree-benchmark-replay"] {
        let pair = Pair::find(replayer)?;
        let mut arguments = replay.clone();
        if replayer == "iree-benchmark-replay" {
            arguments.insert(0, "--benchmark_min_time=1x".into());
        }
        printed(&pair.theirs, &arguments)?;
        printed(&pair.ours, &arguments)?;
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// What a tool that has to succeed prints.
fn printed(program: &Path, arguments: &[String]) -> Result<String, Failed> {
    let ended = tool::run(program, arguments, Path::new("/"))?;
    ensure(ended.succeeded(), || format!("{} {arguments:?}: {}", program.display(), ended.summary()))?;
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// Compares the records of two dumps, but for what is of chance and what docs/formats.md lists.
fn said_alike(ours: &str, theirs: &str) -> Outcome {
    let (ours, theirs) = (records(ours), records(theirs));
    if let Some((ours, theirs)) = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
        return Err(format!("ours:   {ours}\ntheirs: {theirs}").into());
    }
    ensure(ours.len() == theirs.len(), || format!("ours has {} records, theirs {}", ours.len(), theirs.len()))
}

/// The records of a dump, without thread, place in the file, identity of files and length of what is stored once
/// instead of twice; without how constants came to the device; and with objects numbered as they come.
fn records(dump: &str) -> Vec<String> {
    const CHANCE: [&str; 6] = ["@", "#", "thread=", "file_device=", "file_inode=", "file_mtime_ns="];
    let lines: Vec<&str> = dump.lines().filter(|line| line.starts_with("  @")).collect();
    let mut numbers = HashMap::new();
    let mut records = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let passed = constants(&lines[at..]);
        at += passed;
        let Some(line) = lines.get(at).filter(|_| passed == 0) else { continue };
        at += 1;
        let is_inline_object = line.contains(" object ") && line.contains("reference_type=inline_bytes");
        let words = line.split_whitespace().filter(|word| !CHANCE.iter().any(|it| word.starts_with(it)));
        // With `range=[PLACE, +LENGTH]` in two words.
        let words =
            words.filter(|word| !(is_inline_object && (word.contains("range=") || word.starts_with('+'))));
        let words: Vec<_> = words.map(|word| renumbered(&without_place(word), &mut numbers)).collect();
        records.push(words.join(" "));
    }
    records
}

/// `range=[PLACE,` says where in the file something is.
fn without_place(word: &str) -> String {
    match word.split_once("range=[") {
        Some((name, _)) => format!("{name}range"),
        None => word.to_owned(),
    }
}

/// How many records bring a constant to the device. It is imported where it lies in memory, or, where that is not
/// aligned (which an address of chance decides), read into a buffer as a file.
fn constants(lines: &[&str]) -> usize {
    let names = |at: usize, operation: &str| lines.get(at).is_some_and(|line| line.contains(operation));
    if !names(0, "op=allocator.import_buffer") {
        return 0;
    }
    if !names(0, "status=OUT_OF_RANGE") {
        return 2;
    }
    let read = (1..lines.len()).find(|at| names(*at, "op=device.queue_read"));
    read.map_or(1, |at| at + 1)
}

/// Numbers the objects that `word` names in the order in which they come.
fn renumbered(word: &str, numbers: &mut HashMap<String, usize>) -> String {
    let mut result = String::new();
    let mut rest = word;
    while let Some((name, at)) = ["dev=", "obj=", "rel=", "_id="]
        .iter()
        .filter_map(|name| rest.find(name).map(|at| (name, at)))
        .min_by_key(|(_, at)| *at)
    {
        let (head, tail) = rest.split_at(at + name.len());
        let digits = tail.find(|it: char| !it.is_ascii_digit()).unwrap_or(tail.len());
        let next = numbers.len() + 1;
        let number = match &tail[..digits] {
            "0" => 0,
            id => *numbers.entry(id.to_owned()).or_insert(next),
        };
        result.push_str(head);
        result.push_str(&number.to_string());
        rest = &tail[digits..];
    }
    result + rest
}
