//! Every capture that the reference replays, redacted: it replays that too, and dumps the same as we do.

use crate::replays::arguments;
use crate::{Outcome, Pair, ensure, per_capture};
use libtest_mimic::Trial;
use oracle::captures::Capture;
use oracle::tool;

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    let short = capture.short_name();
    // Crashes end the process.
    if !short.starts_with("crash.") || short.contains("-ok.") {
        per_capture(trials, "redacted", capture, redacted);
    }
}

fn redacted(capture: &Capture) -> Outcome {
    let run = Pair::find("iree-run-replay")?;
    let mut arguments = arguments(capture);
    if !tool::run(&run.theirs, &arguments, &capture.directory)?.succeeded() {
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("redacted.ireereplay").display().to_string();
    let mut redact = vec!["redact".to_owned(), format!("--output={path}"), "--names=hash".to_owned()];
    // Types that names of functions do not tell.
    redact.push("--keep=all".to_owned());
    redact.extend(arguments.clone());
    let ended = tool::run(&tool::ours("rehal")?, &redact, &capture.directory)?;
    ensure(ended.succeeded(), || {
        format!("redact ends with {}\n{}", ended.summary(), String::from_utf8_lossy(&ended.stderr))
    })?;
    let own = capture.path.display().to_string();
    // Files are part of it.
    arguments.retain(|it| *it != own && !it.starts_with("--replay_file_remap="));
    arguments.push(path.clone());
    let theirs = tool::run(&run.theirs, &arguments, scratch.path())?;
    ensure(theirs.succeeded(), || format!("their replay ends with {}", theirs.summary()))?;
    let (ours, theirs) = Pair::find("iree-dump-replay")?.run(&[path], scratch.path())?;
    ensure(theirs.succeeded(), || format!("their dump ends with {}", theirs.summary()))?;
    ensure(ours.stdout == theirs.stdout, || "the dumps differ".into())
}
