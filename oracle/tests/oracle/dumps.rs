//! A dump is byte for byte what the reference prints.

use crate::{Outcome, Pair, ensure, per_capture};
use libtest_mimic::Trial;
use oracle::captures::Capture;

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    per_capture(trials, "dump_text", capture, |capture| same_dump(capture, "text"));
    per_capture(trials, "dump_jsonl", capture, |capture| same_dump(capture, "jsonl"));
}

fn same_dump(capture: &Capture, format: &str) -> Outcome {
    let arguments = [format!("--format={format}"), capture.path.display().to_string()];
    let (ours, theirs) = Pair::find("iree-dump-replay")?.run(&arguments, &capture.folder)?;
    ensure(ours.succeeded() == theirs.succeeded(), || {
        format!("ours ends with {}\ntheirs with {}", ours.summary(), theirs.summary())
    })?;
    if !theirs.succeeded() {
        // What the reference prints before it meets the damage is not a contract; that it fails is.
        return ensure(!ours.stderr.is_empty(), || "ours says nothing of why it failed".to_owned());
    }
    same_bytes(&ours.stdout, &theirs.stdout)
}

/// Compares line by line, to name the first that differs.
pub fn same_bytes(ours: &[u8], theirs: &[u8]) -> Outcome {
    if ours == theirs {
        return Ok(());
    }
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (a, b) = (lines(ours), lines(theirs));
    let at = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let show = |lines: &[Vec<u8>]| {
        lines.get(at).map_or("(end)".into(), |line| String::from_utf8_lossy(line).into_owned())
    };
    Err(format!("line {} differs\nours:   {}\ntheirs: {}", at + 1, show(&a), show(&b)).into())
}
