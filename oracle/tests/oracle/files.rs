//! Files named in a capture: found through a remap, and rejected if they changed.

use crate::replays::{refuses_well, run_with_reads};
use crate::substitution::find;
use crate::{Outcome, Pair, ensure, fixture};
use libtest_mimic::{Failed, Trial};
use oracle::captures::Capture;
use oracle::{printed, tool};
use std::fs;
use std::path::Path;

/// The modification of the copied parameters, the only copy that the replay can reach.
type Change = fn(&Path) -> Result<(), Failed>;

/// Name, capture, modification, the remaps (`{}` is the copy's directory), and whether both accept it.
const CASES: [(&str, &str, Change, &[&str], bool); 9] = [
    ("remapped", "params.reference.digest.local-sync", untouched, &["/tmp/rehal-fixtures/params/={}/"], true),
    (
        "remapped_whole_path",
        "params.reference.digest.local-sync",
        untouched,
        &["/tmp/rehal-fixtures/params/model.irpa={}/model.irpa"],
        true,
    ),
    (
        "longest_prefix_wins",
        "params.reference.digest.local-sync",
        untouched,
        &["/tmp/=/nothing/", "/tmp/rehal-fixtures/params/model={}/model"],
        true,
    ),
    ("missing", "params.reference.digest.local-sync", untouched, &["/tmp/rehal-fixtures/=/nothing/"], false),
    ("changed", "params.reference.digest.local-sync", changed, &["/tmp/rehal-fixtures/params/={}/"], false),
    ("shorter", "params.reference.digest.local-sync", shorter, &["/tmp/rehal-fixtures/params/={}/"], false),
    (
        "other_identity",
        "params.reference.identity.local-sync",
        untouched,
        &["/tmp/rehal-fixtures/params/={}/"],
        false,
    ),
    ("inline_needs_no_file", "params.capture-all.identity.local-sync", untouched, &[], true),
    ("ranges_need_no_file", "params.capture-ranges.identity.local-sync", untouched, &[], true),
];

pub fn add(trials: &mut Vec<Trial>) {
    for (name, capture, change, remaps, accepted) in CASES {
        trials.push(Trial::test(format!("files::{name}"), move || check(capture, change, remaps, accepted)));
    }
}

fn check(name: &str, change: Change, remaps: &[&str], accepted: bool) -> Outcome {
    let scratch = tempfile::tempdir()?;
    let copy = scratch.path().join("model.irpa");
    fs::copy(fixture("params/model.irpa"), &copy)?;
    change(&copy)?;
    // Run in the scratch directory, so that the path in the capture does not resolve without a remap.
    let capture = Capture { directory: scratch.path().to_path_buf(), ..find(name)? };
    let mut arguments = vec!["--device=local-sync".to_owned()];
    let here = scratch.path().display().to_string();
    arguments
        .extend(remaps.iter().map(|remap| format!("--replay_file_remap={}", remap.replace("{}", &here))));
    arguments.push(capture.path.display().to_string());
    let pair = Pair::find("iree-run-replay")?;
    let theirs = tool::run(&pair.theirs, &arguments, &capture.directory)?;
    ensure(theirs.succeeded() == accepted, || format!("theirs ends with {}", theirs.summary()))?;
    let (ours, reads) = run_with_reads(&pair, &capture, arguments)?;
    if !accepted {
        refuses_well(&ours)?;
        let said = String::from_utf8_lossy(&ours.stderr).into_owned();
        return ensure(said.contains("model.irpa"), || format!("the file is not named: {said}"));
    }
    ensure(ours.succeeded(), || format!("ours ends with {}", ours.summary()))?;
    let path = capture.printed.ok_or("the program's output was not recorded")?;
    let printed = printed::parse(&fs::read_to_string(path)?).map_err(|error| error.to_string())?;
    let array = printed.arrays.first().ok_or("the program printed no array")?;
    ensure(reads.iter().any(|read| array.is_in(read)), || "the result is in no read".to_owned())
}

fn untouched(_: &Path) -> Result<(), Failed> {
    Ok(())
}

fn changed(path: &Path) -> Result<(), Failed> {
    let mut bytes = fs::read(path)?;
    let last = bytes.last_mut().ok_or("an empty file")?;
    *last ^= 1;
    Ok(fs::write(path, bytes)?)
}

fn shorter(path: &Path) -> Result<(), Failed> {
    let bytes = fs::read(path)?;
    Ok(fs::write(path, &bytes[..bytes.len() - 1])?)
}
