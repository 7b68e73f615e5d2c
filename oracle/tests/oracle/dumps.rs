//! A dump matches the reference's byte for byte.

use crate::{Outcome, Pair, ensure, per_capture};
use libtest_mimic::Trial;
use oracle::captures::Capture;

pub fn add(capture: &Capture, trials: &mut Vec<Trial>) {
    per_capture(trials, "dump_text", capture, |capture| same_dump(capture, "text"));
    per_capture(trials, "dump_jsonl", capture, |capture| same_dump(capture, "jsonl"));
}

pub fn same_dump(capture: &Capture, format: &str) -> Outcome {
    let arguments = [format!("--format={format}"), capture.path.display().to_string()];
    let (ours, theirs) = Pair::find("iree-dump-replay")?.run(&arguments, &capture.directory)?;
    ensure(ours.succeeded() == theirs.succeeded(), || {
        format!("ours ends with {}\ntheirs with {}", ours.summary(), theirs.summary())
    })?;
    if !theirs.succeeded() {
        // The reference's output before an error is not specified; that it fails is.
        return ensure(!ours.stderr.is_empty(), || "ours failed without a message".to_owned());
    }
    same_bytes(&ours.stdout, &theirs.stdout)
}

/// Compares line by line, to report the first difference.
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
