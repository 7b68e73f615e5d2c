//! A replay succeeds if the reference's does, and its host reads contain the program's output.

use crate::{Outcome, Pair, ensure, per_capture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::printed::{self, Printed};
use oracle::reads::{self, HostRead};
use oracle::tool::{self, Ended};

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    let short = capture.short_name();
    if short.starts_with("crash.") && !short.contains("-ok.") {
        per_capture(trials, "replay_crash", capture, crashes);
        per_capture(trials, "replay_crash_on_workers", capture, crashes_on_workers);
    } else {
        per_capture(trials, "replay", capture, replays);
        per_capture(trials, "replay_on_workers", capture, replays_on_workers);
    }
}

/// The same arguments with `local-task` on two workers.
pub fn on_workers(arguments: Vec<String>) -> Vec<String> {
    let on_task = |argument: String| match argument.as_str() {
        "--device=local-sync" => "--device=local-task".to_owned(),
        _ => argument,
    };
    let mut arguments: Vec<_> = arguments.into_iter().map(on_task).collect();
    arguments.insert(0, "--task_topology_group_count=2".to_owned());
    arguments
}

/// Whichever CPU device a capture was made on: on `local-task` it succeeds as on `local-sync`, and reads the
/// same bytes.
fn replays_on_workers(capture: &Capture) -> Outcome {
    let pair = Pair::find("iree-run-replay")?;
    let (alone, expected) = run_with_reads(&pair, capture, arguments(capture))?;
    let (ours, reads) = run_with_reads(&pair, capture, on_workers(arguments(capture)))?;
    ensure(ours.succeeded() == alone.succeeded(), || {
        format!("on workers it ends with {}\nalone with {}", ours.summary(), alone.summary())
    })?;
    if !ours.succeeded() {
        return refuses_well(&ours);
    }
    let brief = |reads: &[HostRead]| -> Vec<_> {
        reads.iter().map(|read| (read.ordinal, read.length, read.fnv1a64.clone())).collect()
    };
    ensure(reads == expected, || {
        format!("on workers it reads {:?}\nalone {:?}", brief(&reads), brief(&expected))
    })
}

fn crashes_on_workers(capture: &Capture) -> Outcome {
    let pair = Pair::find("iree-run-replay")?;
    let ours = tool::run(&pair.ours, &on_workers(arguments(capture)), &capture.directory)?;
    let (signal, function) = expected_crash(capture);
    says_where(&ours, signal, function)
}

/// The signal and the function of a capture that crashes.
fn expected_crash(capture: &Capture) -> (&'static str, &'static str) {
    match capture.short_name() {
        name if name.contains("divide") => ("SIGFPE", "divide_dispatch_0"),
        _ => ("SIGSEGV", "gather_dispatch_0"),
    }
}

/// The arguments of both tools for a capture.
pub fn arguments(capture: &Capture) -> Vec<String> {
    let mut arguments = vec!["--device=local-sync".to_owned(); capture.device_count()];
    arguments.extend(capture.remaps.iter().map(|remap| format!("--replay_file_remap={remap}")));
    arguments.push(capture.path.display().to_string());
    arguments
}

fn replays(capture: &Capture) -> Outcome {
    let pair = Pair::find("iree-run-replay")?;
    let arguments = arguments(capture);
    let theirs = tool::run(&pair.theirs, &arguments, &capture.directory)?;
    let (ours, reads) = run_with_reads(&pair, capture, arguments)?;
    ensure(ours.succeeded() == theirs.succeeded(), || {
        format!("ours ends with {}\ntheirs with {}", ours.summary(), theirs.summary())
    })?;
    if !theirs.succeeded() {
        return refuses_well(&ours);
    }
    let Some(path) = &capture.printed else { return Ok(()) };
    let printed = printed::parse(&std::fs::read_to_string(path)?).map_err(|error| error.to_string())?;
    holds_what_was_printed(&reads, &printed)
}

/// Runs ours with `--replay_host_reads` to a scratch file and parses that.
pub fn run_with_reads(
    pair: &Pair,
    capture: &Capture,
    mut arguments: Vec<String>,
) -> Result<(Ended, Vec<HostRead>), Failed> {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("reads.jsonl");
    arguments.insert(0, format!("--replay_host_reads={}", path.display()));
    let ended = tool::run(&pair.ours, &arguments, &capture.directory)?;
    let reads = match std::fs::read_to_string(&path) {
        Ok(text) => reads::parse(&text)?,
        Err(_) if !ended.succeeded() => Vec::new(),
        Err(error) => return Err(format!("no host reads were written: {error}").into()),
    };
    Ok((ended, reads))
}

/// Every printed array is among the reads, in print order.
pub fn holds_what_was_printed(reads: &[HostRead], printed: &Printed) -> Outcome {
    let mut rest = reads;
    for (index, array) in printed.arrays.iter().enumerate() {
        let at = rest.iter().position(|read| array.is_in(read));
        match at {
            Some(at) => rest = &rest[at..],
            None => {
                let seen: Vec<_> = reads.iter().map(|read| (read.ordinal, read.length)).collect();
                let values: Vec<_> = array.values.iter().take(8).collect();
                return Err(format!(
                    "result {index} ({values:?}…) is not in the reads; (ordinal, length): {seen:?}"
                )
                .into());
            }
        }
    }
    Ok(())
}

/// An error has a status and a message, and leaves standard output empty.
pub fn refuses_well(ours: &Ended) -> Outcome {
    ensure(ours.code == Some(1), || format!("ours ends with {}", ours.summary()))?;
    ensure(ours.stdout.is_empty(), || "ours wrote to stdout despite an error".to_owned())?;
    ensure(!ours.stderr.is_empty(), || "ours failed without a message".to_owned())?;
    let said = String::from_utf8_lossy(&ours.stderr);
    ensure(!said.contains("panicked"), || format!("ours panics: {said}"))
}

/// The reference is killed by the kernel's signal; ours reports the location and exits with a dedicated
/// status.
fn crashes(capture: &Capture) -> Outcome {
    let (ours, theirs) = Pair::find("iree-run-replay")?.run(&arguments(capture), &capture.directory)?;
    let (signal, function) = expected_crash(capture);
    ensure(theirs.signal.is_some(), || format!("theirs did not crash: {}", theirs.summary()))?;
    says_where(&ours, signal, function)
}

/// A crash exits with a dedicated status and a message that names the crashed code.
pub fn says_where(ours: &Ended, signal: &str, function: &str) -> Outcome {
    ensure(ours.code.is_some_and(|code| code > 1), || format!("ours ends with {}", ours.summary()))?;
    let said = String::from_utf8_lossy(&ours.stderr).into_owned();
    for word in [signal, function, "record", "workgroup"] {
        ensure(said.contains(word), || format!("the message has no {word:?}: {said}"))?;
    }
    Ok(())
}
