//! Invalid input: both tools fail; ours with status 1, a message on stderr and empty stdout.

use crate::replays::refuses_well;
use crate::{Outcome, Pair, ensure, fixture, words};
use libtest_mimic::{Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};

const TOOLS: [&str; 3] = ["iree-run-replay", "iree-dump-replay", "iree-benchmark-replay"];
const GOOD: &str = "captures/add4.add.local-sync.ireereplay";

/// Creates the input in a scratch directory and returns the arguments that name it.
type Case = fn(&Path) -> Result<Vec<String>, Failed>;

const FILES: [(&str, Case); 8] = [
    ("no_such_file", |directory| Ok(vec![directory.join("nothing.ireereplay").display().to_string()])),
    ("directory", |directory| Ok(vec![directory.display().to_string()])),
    ("empty_file", |directory| write(directory, &[])),
    ("not_a_capture", |directory| {
        write(
            directory,
            b"this is a text that is longer than any header, and no capture at all. ".repeat(4).as_slice(),
        )
    }),
    ("newer_version", |directory| edit(directory, |bytes| bytes[4] = 99)),
    ("truncated_in_header", |directory| edit(directory, |bytes| bytes.truncate(20))),
    ("truncated_in_middle", |directory| edit(directory, |bytes| bytes.truncate(bytes.len() / 2))),
    ("truncated_at_end", |directory| edit(directory, |bytes| bytes.truncate(bytes.len() - 1))),
];

pub fn add(trials: &mut Vec<Trial>) {
    for tool in TOOLS {
        for (name, case) in FILES {
            trials.push(Trial::test(format!("wrong_input::{tool}::{name}"), move || {
                let scratch = tempfile::tempdir()?;
                both_refuse(tool, case(scratch.path())?)
            }));
        }
        trials.push(Trial::test(format!("wrong_input::{tool}::unknown_flag"), move || {
            both_refuse(tool, vec!["--no_such_flag=1".to_owned(), fixture(GOOD).display().to_string()])
        }));
        trials.push(Trial::test(format!("wrong_input::{tool}::no_capture"), move || {
            both_refuse(tool, Vec::new())
        }));
        trials.push(Trial::test(format!("wrong_input::{tool}::two_captures"), move || {
            both_refuse(tool, vec![fixture(GOOD).display().to_string(); 2])
        }));
    }
    for tool in ["iree-run-replay", "iree-benchmark-replay"] {
        trials.push(Trial::test(format!("wrong_input::{tool}::unknown_device"), move || {
            both_refuse(tool, vec!["--device=local-nothing".to_owned(), fixture(GOOD).display().to_string()])
        }));
        trials.push(Trial::test(format!("wrong_input::{tool}::too_few_devices"), move || {
            let capture = fixture("captures/two_devices.ss.ireereplay").display().to_string();
            both_refuse(tool, vec!["--device=local-sync".to_owned(), capture])
        }));
    }
    trials.push(Trial::test("wrong_input::iree-dump-replay::unknown_format", || {
        both_refuse("iree-dump-replay", vec!["--format=yaml".to_owned(), fixture(GOOD).display().to_string()])
    }));
    trials.push(Trial::test("wrong_input::iree-benchmark-replay::unknown_scope", || {
        let arguments = words(["--device=local-sync", "--replay_scope=nothing", "--benchmark_min_time=1x"]);
        both_refuse("iree-benchmark-replay", [arguments, vec![fixture(GOOD).display().to_string()]].concat())
    }));
}

fn both_refuse(tool: &str, mut arguments: Vec<String>) -> Outcome {
    if tool != "iree-dump-replay" && !arguments.iter().any(|argument| argument.starts_with("--device")) {
        arguments.insert(0, "--device=local-sync".to_owned());
    }
    let (ours, theirs) = Pair::find(tool)?.run(&arguments, &fixture(""))?;
    ensure(!theirs.succeeded(), || format!("the reference accepts it: {}", theirs.summary()))?;
    refuses_well(&ours)
}

fn write(directory: &Path, bytes: &[u8]) -> Result<Vec<String>, Failed> {
    let path: PathBuf = directory.join("input.ireereplay");
    fs::write(&path, bytes)?;
    Ok(vec![path.display().to_string()])
}

fn edit(directory: &Path, change: fn(&mut Vec<u8>)) -> Result<Vec<String>, Failed> {
    let mut bytes = fs::read(fixture(GOOD))?;
    change(&mut bytes);
    write(directory, &bytes)
}
