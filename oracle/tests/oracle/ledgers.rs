//! Every capture verifies against its own ledger, on both CPU devices, and has no memory errors. The
//! reference skips the digests of a recording.

use crate::replays::{arguments, on_workers};
use crate::run_module::command;
use crate::{Outcome, Pair, ensure, per_capture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::tool::{self, Ended};
use std::path::Path;

/// The output of a verification that has nothing to compare.
const NOTHING: &str = "inconclusive: 0 dispatches and 0 host reads compared\n  nothing was compared: ";

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    let short = capture.short_name();
    // Crashes end the process.
    if !short.starts_with("crash.") || short.contains("-ok.") {
        per_capture(trials, "ledger", capture, ledgers);
        if command(capture).is_some() {
            per_capture(trials, "ledger_recorded", capture, |it| recorded(it, "reads"));
            per_capture(trials, "ledger_recorded_dispatches", capture, |it| recorded(it, "dispatches"));
        }
    }
}

/// A program recorded with digests of what it reads, or also of what its dispatches write: the reference
/// replays and dumps the capture, and a replay of ours verifies.
fn recorded(capture: &Capture, ledger: &str) -> Outcome {
    let Some(mut arguments) = command(capture) else { return Ok(()) };
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("recorded.ireereplay").display().to_string();
    arguments.retain(|argument| !argument.starts_with("--device_replay_output="));
    arguments.push(format!("--device_replay_output={path}"));
    arguments.push(format!("--device_replay_ledger={ledger}"));
    let program = Pair::find("iree-run-module")?.ours;
    let ended = tool::run(&program, &arguments, &capture.directory)?;
    if !ended.succeeded() {
        // A program that fails, also without digests.
        arguments.retain(|argument| !argument.starts_with("--device_replay_ledger="));
        let plain = tool::run(&program, &arguments, &capture.directory)?;
        return ensure(!plain.succeeded(), || {
            format!("the recording with digests ends with {}", ended.summary())
        });
    }
    let dump = Pair::find("iree-dump-replay")?;
    let (ours, theirs) = dump.run(std::slice::from_ref(&path), scratch.path())?;
    ensure(theirs.succeeded(), || format!("their dump ends with {}", theirs.summary()))?;
    ensure(ours.stdout == theirs.stdout, || "the dumps differ".into())?;
    let devices = arguments.iter().filter(|argument| argument.starts_with("--device=")).cloned();
    let replay: Vec<String> = devices.chain([path]).collect();
    let theirs = tool::run(&Pair::find("iree-run-replay")?.theirs, &replay, scratch.path())?;
    ensure(theirs.succeeded(), || format!("their replay ends with {}", theirs.summary()))?;
    // The payload types of digests.
    let dump = String::from_utf8_lossy(&ours.stdout);
    let has_digests =
        [1919248387, 1919248388].iter().any(|it| dump.contains(&format!(" payload=unknown({it}) ")));
    let verify = [vec!["verify".to_owned()], replay].concat();
    let ended = tool::run(&tool::ours("rehal")?, &verify, scratch.path())?;
    ensure(ended.succeeded() == has_digests, || {
        format!("the verification ends with {}\n{}", ended.summary(), String::from_utf8_lossy(&ended.stdout))
    })?;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    // As many as the program has, counted by a replay of the capture that makes a ledger of its own.
    let kept = scratch.path().join("ledger").display().to_string();
    let contents = format!("--replay_ledger_contents={ledger}");
    let words = ["run".to_owned(), format!("--replay_ledger={kept}"), contents];
    let ran = tool::run(&tool::ours("rehal")?, &[&words[..], &verify[1..]].concat(), scratch.path())?;
    ensure(ran.succeeded(), || format!("writing a ledger ends with {}", ran.summary()))?;
    let against = ["verify".to_owned(), format!("--against={kept}")];
    let counted = tool::run(&tool::ours("rehal")?, &[&against[..], &verify[1..]].concat(), scratch.path())?;
    let counted = String::from_utf8_lossy(&counted.stdout).into_owned();
    ensure(said == counted || counted.starts_with(NOTHING) && !has_digests, || {
        format!("the digests of the recording say: {said}those of a replay: {counted}")
    })
}

fn run(tool: &Path, words: &[&str], arguments: Vec<String>, capture: &Capture) -> Result<Ended, Failed> {
    let words = words.iter().map(|word| (*word).to_owned());
    Ok(tool::run(tool, &words.chain(arguments).collect::<Vec<_>>(), &capture.directory)?)
}

fn ledgers(capture: &Capture) -> Outcome {
    let tool = tool::ours("rehal")?;
    if !run(&tool, &["run"], arguments(capture), capture)?.succeeded() {
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    let ledger = scratch.path().join("ledger").display().to_string();
    let written = run(&tool, &["run", &format!("--replay_ledger={ledger}")], arguments(capture), capture)?;
    ensure(written.succeeded(), || format!("writing the ledger ends with {}", written.summary()))?;
    let against = format!("--against={ledger}");
    for (words, arguments) in [
        (["verify", &against], arguments(capture)),
        (["verify", &against], on_workers(arguments(capture))),
        (["verify", "--watch_memory"], arguments(capture)),
    ] {
        let shown = format!("{words:?} {arguments:?}");
        let ended = run(&tool, &words, arguments, capture)?;
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        // A program may have no dispatches and read nothing.
        let is_nothing = words[1] == against.as_str() && said.starts_with(NOTHING) && ended.code == Some(1);
        ensure(ended.succeeded() || is_nothing, || format!("{shown} ends with {}\n{said}", ended.summary()))?;
    }
    Ok(())
}
