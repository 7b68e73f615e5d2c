//! Programs recorded by both: the captures are equivalent, and each tool accepts ours.
//!
//! Excluded: thread ids, and file offsets of data. We store the bytes of in-memory files once, the reference
//! twice, so the length of one record differs. The reference runs with `--module_mode=mmap`: with its default
//! mode, whether a constant is imported or copied through a file is nondeterministic.

use crate::run_module::command;
use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::tool::{self, Ended};
use std::fs;
use std::path::Path;

/// Commands that we support and the reference rejects.
const WIDER: [&str; 1] = ["corpus/dtypes.i1.local-sync"];

/// By default the reference reads modules to arbitrary addresses, imports the constants that happen to be
/// aligned, and copies the others through a file. Ours are always imported, as the reference's are with this
/// flag.
const MAPPED: [&str; 1] = ["--module_mode=mmap"];

/// Maximum size of ours as a fraction of theirs, if constants dominate the capture.
const MOSTLY_CONSTANTS: [(&str, f64); 1] = [("corpus/model.magika.local-sync", 0.4)];

pub fn add(captures: &[Capture], trials: &mut Vec<Trial>) {
    for capture in captures {
        let Some(arguments) = command(capture) else { continue };
        // Crashing kernels end the process and the recording.
        let crashes = ["crash.", "torn."].iter().any(|start| capture.short_name().starts_with(start));
        if crashes || WIDER.contains(&capture.name.as_str()) {
            continue;
        }
        for device in ["local-sync", "local-task"] {
            let (capture, arguments) = (capture.clone(), on_device(device, &arguments));
            let name = format!("recorded::{device}::{}", capture.name);
            trials.push(Trial::test(name, move || recorded_alike(&capture, &arguments)));
        }
        let (capture, arguments) = (capture.clone(), on_device("local-task", &arguments));
        let name = format!("recorded_with_files::{}", capture.name);
        trials.push(Trial::test(name, move || recorded_with_files(&capture, &arguments)));
    }
}

/// The arguments with their device replaced, or one added if there is none.
fn on_device(device: &str, arguments: &[String]) -> Vec<String> {
    let others = arguments.iter().filter(|argument| !argument.starts_with("--device=")).cloned();
    [format!("--device={device}")].into_iter().chain(others).collect()
}

fn recorded_alike(capture: &Capture, arguments: &[String]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let place = |name: &str| scratch.path().join(name);
    let (ours, theirs, preloaded) =
        (place("ours.ireereplay"), place("theirs.ireereplay"), place("preloaded.ireereplay"));
    let run = Pair::find("iree-run-module")?;
    let ended = record(&run.ours, capture, arguments, &ours, &[])?;
    ensure(ours.exists(), || format!("nothing recorded: {}", ended.summary()))?;
    record(&run.theirs, capture, arguments, &theirs, &MAPPED)?;

    let dump = Pair::find("iree-dump-replay")?;
    let ours_dumped = printed(&dump.theirs, &[text(&ours)])?;
    ensure(ours_dumped == printed(&dump.ours, &[text(&ours)])?, || "the dumps of ours differ".into())?;
    let checksums = ours_dumped.lines().last().and_then(checksum_bytes).ok_or("ours has no checksums")?;
    said_alike(&ours_dumped, &printed(&dump.theirs, &[text(&theirs)])?)?;
    record(&run.theirs, capture, arguments, &preloaded, &[])?;
    let (ours_bytes, theirs_bytes) = (fs::metadata(&ours)?.len(), fs::metadata(&preloaded)?.len());
    let allowed =
        MOSTLY_CONSTANTS.iter().find(|(name, _)| *name == capture.name).map_or(1.01, |(_, part)| *part);
    ensure((ours_bytes - checksums) as f64 <= theirs_bytes as f64 * allowed, || {
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

/// Records a command into a capture, with `more` arguments.
fn record(
    program: &Path,
    capture: &Capture,
    arguments: &[String],
    into: &Path,
    more: &[&str],
) -> Result<Ended, Failed> {
    let mut arguments = arguments.to_vec();
    arguments.retain(|argument| !argument.starts_with("--device_replay_output="));
    arguments.push(format!("--device_replay_output={}", into.display()));
    arguments.extend(more.iter().map(ToString::to_string));
    tool::run(program, &arguments, &capture.directory).map_err(Failed::from)
}

/// The bytes of results that are written to files are read as the reference reads them, in each format of
/// files.
fn recorded_with_files(capture: &Capture, arguments: &[String]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let (ours, theirs) = (scratch.path().join("ours.ireereplay"), scratch.path().join("theirs.ireereplay"));
    let (run, dump) = (Pair::find("iree-run-module")?, Pair::find("iree-dump-replay")?);
    let arguments: Vec<String> = arguments
        .iter()
        .filter(|it| !it.starts_with("--output=") && !it.starts_with("--expected_output="))
        .cloned()
        .collect();
    let ended = record(&run.theirs, capture, &arguments, &theirs, &MAPPED)?;
    let printed_results =
        String::from_utf8_lossy(&ended.stdout).lines().filter(|it| it.starts_with("result[")).count();
    for format in ["npy", "bin"] {
        let outputs: Vec<String> = (0..printed_results)
            .map(|index| format!("--output=@{}", scratch.path().join(format!("{index}.{format}")).display()))
            .collect();
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let ended = record(&run.ours, capture, &arguments, &ours, &outputs)?;
        let reference = record(&run.theirs, capture, &arguments, &theirs, &[&MAPPED[..], &outputs].concat())?;
        // The reference does not write bf16 to .npy files.
        if format == "npy" && capture.name.contains("bf16") {
            ensure(ended.succeeded(), || ended.summary())?;
            continue;
        }
        ensure(ended.succeeded() == reference.succeeded(), || ended.summary())?;
        said_alike(&printed(&dump.theirs, &[text(&ours)])?, &printed(&dump.theirs, &[text(&theirs)])?)?;
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// The output of a tool that must succeed.
fn printed(program: &Path, arguments: &[String]) -> Result<String, Failed> {
    let ended = tool::run(program, arguments, Path::new("/"))?;
    ensure(ended.succeeded(), || format!("{} {arguments:?}: {}", program.display(), ended.summary()))?;
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// Record length in a line of a dump, if it is a checksum record.
fn checksum_bytes(line: &str) -> Option<u64> {
    let (_, range) = line.split_once(" payload=unknown(1919248386) range=[")?;
    let (_, length) = range.split_once(", +")?;
    Some(96 + length.strip_suffix(']')?.parse::<u64>().ok()?)
}

/// Compares two dumps line by line, after [`comparable`].
fn said_alike(ours: &str, theirs: &str) -> Outcome {
    let (ours, theirs) = (comparable(ours), comparable(theirs));
    ensure(ours.len() > 10, || format!("only {} lines are compared", ours.len()))?;
    if let Some((ours, theirs)) = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
        return Err(format!("ours:   {ours}\ntheirs: {theirs}").into());
    }
    ensure(ours.len() == theirs.len(), || format!("ours has {} lines, theirs {}", ours.len(), theirs.len()))
}

/// The lines of a dump without intended differences:
///
/// - `thread=`: the reference writes 0, we write the system's id of the thread.
/// - `@OFFSET`, `range=[OFFSET,` and `file_length:`: the reference writes the bytes of a file in memory
///   twice, into the operation that imports it and into the record of the object; we write them into the
///   first and refer to it. All later offsets differ, the record of the object (`object` with `inline_bytes`)
///   is shorter, and the summary's `file_bytes: inline=`, which counts what objects hold, is 0.
/// - Records of the session, and the total of records: ours has a second one, with checksums, which the first
///   announces.
fn comparable(dump: &str) -> Vec<String> {
    let is_kept = |line: &&str| !(line.starts_with("file_length: ") || line.contains(" session  "));
    let lines = dump.lines().filter(is_kept);
    lines.map(comparable_line).collect()
}

fn comparable_line(line: &str) -> String {
    let Some(record) = line.strip_prefix("  @") else {
        let is_counted = |word: &&str| match line.trim_start().split(' ').next() {
            Some("file_bytes:") => !word.starts_with("inline="),
            Some("records:") => !word.starts_with("total="),
            _ => true,
        };
        return line.split(' ').filter(is_counted).collect::<Vec<_>>().join(" ");
    };
    let refers = record.contains(" object ") && record.contains("reference_type=inline_bytes");
    let mut kept: Vec<&str> = Vec::new();
    let mut words = record.split_whitespace().skip(1);
    while let Some(word) = words.next() {
        match word.split_once("range=[") {
            // `NAME_range=[OFFSET, +LENGTH]` is two words.
            Some((name, _)) => {
                let length = words.next().unwrap_or_default();
                kept.extend([name, "range"]);
                kept.extend((!refers).then_some(length));
            }
            None if word.starts_with("thread=") => {}
            None => kept.push(word),
        }
    }
    kept.join(" ")
}
