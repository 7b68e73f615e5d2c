//! Every capture, redacted: it performs the same dispatches, replays, and has none of the original's data.

use std::collections::HashSet;
use std::io::Cursor;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use rehal_edit::{
    RedactDecision, RedactOptions, RedactRule, RedactedNames, Redaction, check_redacted, redact,
};
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    DataPlace, FileRemap, HostReadLog, NameKind, Plan, PlanOptions, Replay, ReplayOptions, RewriteOptions,
    Rewriter, rewrite,
};

fn main() -> ExitCode {
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(testing::on_both_sets("nothing_of_the_data_is_left", nothing_of_the_data_is_left));
    trials.extend(testing::on_both_sets("a_copy_is_the_same", a_copy_is_the_same));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The plans of the captures of a set, except for those of crashes and those that cannot be replayed.
fn plans(set: &Path) -> impl Iterator<Item = (String, Arc<Plan>)> {
    let of = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_crash = name.starts_with("crash.") && !name.contains("-ok.");
        let plan = Plan::compile(std::fs::read(&path).unwrap(), PlanOptions::default()).ok()?;
        (!is_crash).then(|| (name, Arc::new(plan)))
    };
    testing::captures(set).into_iter().filter_map(of)
}

/// Where the captures of the sets expect their parameters.
fn remaps(set: &Path) -> Vec<FileRemap> {
    const PLACES: [(&str, &str); 3] =
        [("/tmp/rehal-fixtures/", ""), ("/models/data/", "params/"), ("/models/onnx/", "models/")];
    PLACES
        .map(|(captured, here)| FileRemap { captured: captured.into(), here: set.join(here).into() })
        .to_vec()
}

fn replay(plan: &Arc<Plan>, remaps: &[FileRemap]) -> rehal_base::Result<Vec<u8>> {
    let devices = (0..plan.device_count()).map(|_| LocalSync::create(Plugins::default())).collect();
    let options = ReplayOptions::default().file_remaps(remaps.to_vec());
    let mut reads = HostReadLog::new(Vec::new(), 64);
    Replay::new(plan.clone(), &DeviceGroup::new(devices)?, &options)?.run(&mut [&mut reads])?;
    reads.finish()
}

/// Runs of this many bytes are searched for.
const RUN_BYTES: usize = 16;
/// Runs with fewer distinct bytes may be there by chance, such as those of zeros and ones.
const DISTINCT_BYTES: usize = 9;

/// Copies a capture, and collects the runs of its data.
#[derive(Default)]
struct Runs {
    runs: HashSet<[u8; RUN_BYTES]>,
    bytes: u64,
}

impl Runs {
    fn add(&mut self, data: &[u8]) {
        self.bytes += data.len() as u64;
        // All of small data; of large data, those that any run of some more bytes contains.
        let step = if data.len() > 1 << 16 { 8 } else { 1 };
        let runs = data.windows(RUN_BYTES).step_by(step);
        self.runs.extend(runs.filter(|run| is_telling(run)).map(|run| *run.first_chunk().unwrap()));
    }
}

impl Runs {
    /// Where one of the runs is in bytes.
    fn find_in(&self, bytes: &[u8]) -> Option<usize> {
        // Most bytes need no look-up.
        let slot = |run: &[u8]| {
            let start = run.first_chunk().map_or(0, |start| u64::from_le_bytes(*start));
            (start.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 42) as usize
        };
        let mut slots = vec![false; 1 << 22];
        self.runs.iter().for_each(|run| slots[slot(run)] = true);
        let mut runs = bytes.windows(RUN_BYTES);
        runs.position(|run| slots[slot(run)] && self.runs.contains(run))
    }
}

impl Rewriter for Runs {
    fn name(&mut self, _kind: NameKind, name: &[u8]) -> Vec<u8> {
        name.to_vec()
    }

    fn begin(&mut self, _place: &DataPlace, data: &[u8]) {
        self.add(data);
    }

    fn fill(&mut self, data: &[u8], at: u64, target: &mut [u8]) {
        target.copy_from_slice(&data[at as usize..][..target.len()]);
    }
}

fn is_telling(run: &[u8]) -> bool {
    (0..run.len()).filter(|index| !run[..*index].contains(&run[*index])).count() >= DISTINCT_BYTES
}

/// A copy of a capture, and the runs of its data.
fn copy(plan: &Plan, remaps: &[FileRemap]) -> rehal_base::Result<(Vec<u8>, Runs)> {
    let mut options = RewriteOptions::default();
    options.file_remaps = remaps.to_vec();
    let (mut runs, mut sink) = (Runs::default(), Vec::new());
    rewrite(plan, Cursor::new(&mut sink), &options, &mut runs)?;
    Ok((sink, runs))
}

/// States a type of each range whose type is unknown. With words of 32 bits, indices stay valid.
fn decisions(redaction: &Redaction) -> Vec<RedactRule> {
    let decision = |length: u64| {
        let name = if length.is_multiple_of(4) { "i32" } else { "i8" };
        RedactDecision::Elements(name.parse().unwrap())
    };
    let rule = |place: rehal_edit::DataRange| {
        RedactRule::parse(&place.to_string(), decision(place.range.length)).unwrap()
    };
    redaction.undecided().map(|(it, _)| rule(it.place)).collect()
}

fn nothing_of_the_data_is_left(set: &Path) {
    let remaps = remaps(set);
    let (mut count, mut searched, mut replayed) = (0, 0, 0);
    for (name, plan) in plans(set) {
        let Ok((_, mut original)) = copy(&plan, &remaps) else { continue };
        let mut options = RedactOptions::default();
        options.names = RedactedNames::Hash;
        options.file_remaps.clone_from(&remaps);
        let mut bytes = Vec::new();
        let redaction = redact(&plan, Cursor::new(&mut bytes), &options).unwrap();
        options.rules = decisions(&redaction);
        bytes.clear();
        let redaction = redact(&plan, Cursor::new(&mut bytes), &options).unwrap();
        assert_eq!(redaction.undecided().count(), 0, "{name}");
        let total: u64 = redaction.data.values().map(|data| data.bytes).sum();
        let divided: u64 = redaction.ranges.iter().map(|it| it.place.range.length).sum();
        assert_eq!((total, divided), (original.bytes, original.bytes), "{name}");
        // What is kept.
        for executable in plan.executables() {
            executable.data.windows(RUN_BYTES).for_each(|run| {
                original.runs.remove(run);
            });
        }
        let found = original.find_in(&bytes);
        assert_eq!(found, None, "{name}");
        for (scope, _) in plan.scopes().filter(|(scope, _)| scope.len() > 6) {
            assert!(!bytes.windows(scope.len()).any(|it| it == scope), "{name}");
        }
        let redacted = Arc::new(Plan::compile(bytes, PlanOptions::default()).unwrap());
        check_redacted(&plan, &redacted).unwrap();
        // Some captures are of devices or plugins that are not here.
        if replay(&plan, &remaps).is_ok() {
            replay(&redacted, &[]).unwrap_or_else(|error| panic!("{name}: {}", error.report()));
            replayed += 1;
        }
        count += 1;
        searched += original.runs.len();
    }
    assert!(count > 50 && replayed > 50 && searched > 10_000, "{count} {replayed} {searched}");
}

fn a_copy_is_the_same(set: &Path) {
    let remaps = remaps(set);
    let mut count = 0;
    for (name, plan) in plans(set) {
        let (Ok(expected), Ok((bytes, _))) = (replay(&plan, &remaps), copy(&plan, &remaps)) else { continue };
        let again = Arc::new(Plan::compile(bytes.clone(), PlanOptions::default()).unwrap());
        check_redacted(&plan, &again).unwrap();
        // Reads of files have become parts of the capture.
        assert!(!without_ordinals(&expected).is_empty() || expected.is_empty(), "{name}");
        assert_eq!(without_ordinals(&replay(&again, &[]).unwrap()), without_ordinals(&expected), "{name}");
        assert_eq!(copy(&again, &[]).unwrap().0, bytes, "{name}: a copy of the copy differs");
        count += 1;
    }
    assert!(count > 50, "{count}");
}

/// The lines of a log of host reads without the ordinals of records, which move with the records of
/// checksums.
fn without_ordinals(log: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(log).into_owned();
    text.lines().map(|line| line.split_once(',').unwrap().1.to_owned()).collect()
}
