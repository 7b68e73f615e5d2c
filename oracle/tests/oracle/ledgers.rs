//! Every capture verifies against its own ledger, on both CPU devices, and has no memory errors.

use crate::replays::{arguments, on_workers};
use crate::{Outcome, ensure, per_capture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::tool::{self, Ended};
use std::path::Path;

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    let short = capture.short_name();
    // Crashes end the process.
    if !short.starts_with("crash.") || short.contains("-ok.") {
        per_capture(trials, "ledger", capture, ledgers);
    }
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
        ensure(ended.succeeded(), || {
            let said = String::from_utf8_lossy(&ended.stdout).into_owned();
            format!("{shown} ends with {}\n{said}", ended.summary())
        })?;
    }
    Ok(())
}
