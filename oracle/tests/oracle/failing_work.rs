//! Programs whose work is out of range or misaligned: they end with the same status in both, captures of both
//! contain the status that the program saw, and replays skip what had failed or fail alike.

use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::tool::{self, Ended};
use std::path::Path;

/// The reference's device whose calls return before the work has run. Its other CPU device waits in the call,
/// which deadlocks if the host signals later.
const ASYNCHRONOUS: &str = "local-task";

/// Arguments of the functions: offset and length of a transfer to a buffer of 16 bytes.
const RANGES: [(&str, [&str; 2]); 3] =
    [("whole", ["0", "16"]), ("out_of_range", ["8", "16"]), ("misaligned", ["2", "2"])];

/// Functions of the program, and whether their work runs only when the host signals. Captures have no record
/// of that signal, so neither tool replays such work unless it had failed.
const FUNCTIONS: [(&str, bool); 6] = [
    ("fill", false),
    ("fill_binding", false),
    ("copy", false),
    ("queue_fill", false),
    ("queue_copy", false),
    ("fill_binding_later", true),
];

pub fn add(trials: &mut Vec<Trial>) {
    for (function, is_later) in FUNCTIONS {
        for (range, arguments) in
            RANGES.into_iter().filter(|(range, _)| !is_later || *range == "out_of_range")
        {
            let mut add = |by: &str, test: fn(&str, [&str; 2]) -> Outcome| {
                let name = format!("failing_work::{by}::{function}::{range}");
                trials.push(Trial::test(name, move || test(function, arguments)));
            };
            add("recorded_by_ours", if is_later { recorded_by_ours } else { recorded_by_both });
            add("recorded_by_local_task", recorded_by_local_task);
        }
    }
    for device in ["local-sync", ASYNCHRONOUS] {
        trials.push(Trial::test(format!("failing_work::kernel::{device}"), move || kernel(device)));
    }
}

/// A kernel that fails, on each CPU device: both end alike, and both tools replay each capture alike, which
/// fails unless the record says that the work had failed. It does in ours; the reference's does not say it of
/// work on the threads of [`ASYNCHRONOUS`].
fn kernel(device: &str) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let pair = Pair::find("iree-run-module")?;
    let mut found = Vec::new();
    for (name, program) in [("ours", &pair.ours), ("theirs", &pair.theirs)] {
        let capture = scratch.path().join(format!("{name}.ireereplay"));
        let arguments = [
            format!("--device={device}"),
            format!("--module={}", fixture("modules/gather.vmvx.vmfb").display()),
            "--function=gather".into(),
            "--input=4xf32=1 2 3 4".into(),
            "--input=3xi32=0 1 1000000".into(),
            format!("--device_replay_output={}", capture.display()),
        ];
        let ended = tool::run(program, &arguments, scratch.path())?;
        ensure(ended.code == Some(1) && ended.status_name().as_deref() == Some("OUT_OF_RANGE"), || {
            ended.summary()
        })?;
        found.push(replays_alike(&capture, device, true)?);
    }
    let theirs_says_it = device != ASYNCHRONOUS;
    let is_said = |statuses: &[String]| statuses == ["OUT_OF_RANGE"];
    ensure(
        is_said(&found[0]) && if theirs_says_it { is_said(&found[1]) } else { found[1].is_empty() },
        || format!("recorded {found:?}"),
    )
}

/// Both end alike on `local-sync`, and all tools agree about both captures.
fn recorded_by_both(function: &str, range: [&str; 2]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let pair = Pair::find("iree-run-module")?;
    let theirs = record(&pair.theirs, "local-sync", function, range, scratch.path())?;
    replays_alike(&scratch.path().join("capture.ireereplay"), "local-sync", false)?;
    let ours = record(&pair.ours, "local-sync", function, range, scratch.path())?;
    ensure(ours.code == theirs.code && ours.status_name() == theirs.status_name(), || {
        format!("ours {}\ntheirs {}", ours.summary(), theirs.summary())
    })?;
    recorded_by_ours(function, range)
}

/// Our capture has the status that the program ended with, and each tool replays it.
fn recorded_by_ours(function: &str, range: [&str; 2]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let program = tool::ours("iree-run-module")?;
    let ended = record(&program, "local-sync", function, range, scratch.path())?;
    let failed = replays_alike(&scratch.path().join("capture.ireereplay"), ASYNCHRONOUS, false)?;
    let expected: Vec<String> = ended.status_name().into_iter().collect();
    ensure(failed == expected, || format!("recorded {failed:?}, ended with {}", ended.summary()))
}

/// A capture of work whose failure the reference's recorder does not see: its replay fails in both.
fn recorded_by_local_task(function: &str, range: [&str; 2]) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let program = Pair::find("iree-run-module")?.theirs;
    let ended = record(&program, ASYNCHRONOUS, function, range, scratch.path())?;
    let failed = replays_alike(&scratch.path().join("capture.ireereplay"), ASYNCHRONOUS, true)?;
    ensure(failed.is_empty() || failed.len() == 1 && failed.first() == ended.status_name().as_ref(), || {
        format!("recorded {failed:?}, ended with {}", ended.summary())
    })
}

/// Records the program into `capture.ireereplay`; it succeeds or fails with a status.
fn record(
    program: &Path,
    device: &str,
    function: &str,
    range: [&str; 2],
    directory: &Path,
) -> Result<Ended, Failed> {
    let capture = directory.join("capture.ireereplay");
    let [offset, length] = range.map(|value| format!("--input={value}"));
    let arguments = [
        format!("--device={device}"),
        format!("--module={}", fixture("modules/out_of_range.vmfb").display()),
        format!("--function={function}"),
        offset,
        length,
        format!("--device_replay_output={}", capture.display()),
    ];
    let ended = tool::run(program, &arguments, directory)?;
    let is_expected = if ended.succeeded() {
        String::from_utf8_lossy(&ended.stdout).contains("i32=0")
    } else {
        ended.code == Some(1) && ended.status_name().is_some()
    };
    ensure(is_expected, || ended.summary())?;
    Ok(ended)
}

/// The dumps of both tools are the same, and the replays succeed: ours on `local-sync`, theirs on `device`.
/// With `may_fail`, both may also fail, with the same status. Returns the statuses of the operations that had
/// failed at capture.
fn replays_alike(capture: &Path, device: &str, may_fail: bool) -> Result<Vec<String>, Failed> {
    let path = capture.display().to_string();
    let (ours, theirs) = Pair::find("iree-dump-replay")?.run(std::slice::from_ref(&path), Path::new("/"))?;
    ensure(ours.succeeded() && theirs.succeeded() && ours.stdout == theirs.stdout, || {
        format!("the dumps differ: {}; {}", ours.summary(), theirs.summary())
    })?;
    let dump = String::from_utf8_lossy(&ours.stdout);
    let statuses = dump.split_whitespace().filter_map(|word| word.strip_prefix("status="));
    let failed = statuses.filter(|status| *status != "OK").map(ToOwned::to_owned).collect();
    for name in ["iree-run-replay", "iree-benchmark-replay"] {
        let pair = Pair::find(name)?;
        let run = |program: &Path, device: &str| {
            let mut arguments = vec![format!("--device={device}"), path.clone()];
            if name == "iree-benchmark-replay" {
                arguments.insert(0, "--benchmark_min_time=1x".into());
            }
            tool::run(program, &arguments, Path::new("/"))
        };
        let (ours, theirs) = (run(&pair.ours, "local-sync")?, run(&pair.theirs, device)?);
        let is_same = match ours.status_name() {
            None => ours.succeeded() && theirs.succeeded(),
            // The reference's benchmark aborts.
            Some(status) => {
                may_fail
                    && ours.code == Some(1)
                    && !theirs.succeeded()
                    && String::from_utf8_lossy(&theirs.stderr).contains(&status)
            }
        };
        ensure(is_same, || format!("{name}: ours {}\ntheirs {}", ours.summary(), theirs.summary()))?;
    }
    Ok(failed)
}
