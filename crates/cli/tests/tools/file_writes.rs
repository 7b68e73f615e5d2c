//! Captures that write files of the user: no tool changes one, except by a flag.

use std::fs;
use std::path::Path;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_devices::DeviceOptions;
use rehal_hal::{BufferParams, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY, SemaphoreFlags};
use rehal_replay::{FileValidation, RecordOptions, Recorder, Replay, ReplayOptions};
use serde_json::Value;

use crate::common::{Scratch, capture, print, run, write_kernel};

const ORIGINAL: &[u8] = &[7; 64];

/// Records queue operations that read the file and overwrite it with zeros, and then the dispatch of a
/// fixture.
fn record(path: &Path, victim: &Path) {
    fs::write(victim, ORIGINAL).unwrap();
    let options = RecordOptions::default().file_validation(FileValidation::Digest);
    let recorder = Recorder::create(path, options).unwrap();
    let devices = recorder.wrap(&DeviceOptions::default().open().unwrap()).unwrap();
    let device = &devices.devices()[0];
    let opened = fs::File::options().read(true).write(true).open(victim).unwrap();
    let access = MemoryAccess::READ | MemoryAccess::WRITE;
    let file = device.import_file(QUEUE_AFFINITY_ANY, access, HostFile::Disk(opened)).unwrap();
    let buffer = device.allocate_buffer(BufferParams::default(), 64).unwrap();
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
    let step = |value| [done.at(value)];
    device.queue(QUEUE_AFFINITY_ANY).signal(&step(1)).read(&file, 0, &buffer, 0).unwrap();
    device.queue(QUEUE_AFFINITY_ANY).wait(&step(1)).signal(&step(2)).fill(&buffer, &[0], 0).unwrap();
    device.queue(QUEUE_AFFINITY_ANY).wait(&step(2)).signal(&step(3)).write(&buffer, &file, 0, 0).unwrap();
    done.wait(3, None).unwrap();
    let add = CaptureFile::open(capture("add4.add.local-sync").as_ref(), &CaptureOptions::default()).unwrap();
    Replay::new(add.plan().unwrap(), &devices, &ReplayOptions::default()).unwrap().run(&mut []).unwrap();
    recorder.close().unwrap();
    assert_eq!(fs::read(victim).unwrap(), [0; 64]);
    fs::write(victim, ORIGINAL).unwrap();
}

/// The verbs that replay a capture, with `{}` for the path of the scratch directory, and their status.
const VERBS: [(&[&str], i32); 13] = [
    (&["iree-run-replay"], 0),
    (&["rehal", "run", "--replay_order=captured"], 0),
    (&["rehal", "run", "--replay_ledger={}/ledger"], 0),
    (&["rehal", "verify", "--against={}/ledger"], 0),
    (&["iree-benchmark-replay", "--benchmark_min_time=3x"], 0),
    (&["rehal", "kernels"], 0),
    (&["rehal", "kernels", "--export={}/slices"], 0),
    (&["rehal", "slice", "--function=add_dispatch_0_elementwise_4_f32", "--output={}/slice.ireereplay"], 0),
    (
        &[
            "rehal",
            "compare",
            "--function=add_dispatch_0_elementwise_4_f32",
            "--with={}/kernel.c",
            "--max_time=1s",
        ],
        2,
    ),
    (&["rehal", "reduce", "--check=crash", "--output={}/reduced.ireereplay"], 1),
    (&["rehal", "redact", "--zero=all", "--output={}/redacted.ireereplay"], 0),
    (&["rehal", "kernel", "stub", "--function=add_dispatch_0_elementwise_4_f32", "--output={}/stub.c"], 0),
    (&["rehal", "kernel", "record", "--directory={}/records"], 0),
];

/// A capture that writes `victim`, in a directory with what the verbs need.
fn prepare(scratch: &Scratch) -> String {
    let (path, victim) = (scratch.path("writes.ireereplay"), scratch.path("victim"));
    record(&path, &victim);
    let path = path.to_str().unwrap().to_owned();
    write_kernel(&scratch.path("kernel.c"), &path, "add_dispatch_0_elementwise_4_f32", "binding_2[i] = 0;");
    fs::create_dir(scratch.path("records")).unwrap();
    path
}

fn words(verb: &[&str], more: &[&str], scratch: &Scratch) -> Vec<String> {
    let directory = scratch.path("");
    let directory = directory.to_str().unwrap().trim_end_matches('/');
    verb.iter().chain(more).map(|word| word.replace("{}", directory)).collect()
}

#[test]
fn no_verb_changes_a_file_that_a_capture_writes() {
    let scratch = Scratch::new();
    let path = prepare(&scratch);
    for (verb, status) in VERBS {
        let words = words(verb, &[&path], &scratch);
        let ran = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.status, Some(status), "{words:?}: {ran:?}");
        assert_eq!(fs::read(scratch.path("victim")).unwrap(), ORIGINAL, "{words:?}");
    }
}

#[test]
fn a_flag_of_every_verb_decides() {
    let scratch = Scratch::new();
    let path = prepare(&scratch);
    // What is redacted has no file.
    for (verb, _) in VERBS.into_iter().filter(|(verb, _)| !verb.contains(&"redact")) {
        let clean = || {
            fs::write(scratch.path("victim"), ORIGINAL).unwrap();
            let _ = fs::remove_dir_all(scratch.path("slices"));
            let _ = fs::remove_file(scratch.path("stub.c"));
            let _ = fs::remove_dir_all(scratch.path("records"));
            fs::create_dir(scratch.path("records")).unwrap();
        };
        clean();
        let in_place = words(verb, &["--replay_file_writes=in-place", &path], &scratch);
        run(&in_place.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(fs::read(scratch.path("victim")).unwrap(), [0; 64], "{in_place:?}");
        clean();
        let refused = words(verb, &["--replay_file_writes=fail", &path], &scratch);
        let ran = run(&refused.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.status, Some(1), "{refused:?}: {ran:?}");
        let is_named =
            ran.stderr.contains("the capture writes to the file '") && ran.stderr.contains("victim'");
        assert!(is_named, "{refused:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("--replay_file_writes=copy"), "{}", ran.stderr);
        assert_eq!(fs::read(scratch.path("victim")).unwrap(), ORIGINAL, "{refused:?}");
    }
}

#[test]
fn info_lists_the_files_that_a_capture_writes() {
    let scratch = Scratch::new();
    let (path, victim) = (scratch.path("writes.ireereplay"), scratch.path("victim"));
    record(&path, &victim);
    let (path, victim) = (path.to_str().unwrap(), victim.to_str().unwrap());
    let report = print(&["rehal", "info", path]);
    let line = report.lines().find(|line| line.contains(victim)).unwrap();
    assert!(line.ends_with("WRITES"), "{report}");
    assert!(report.contains("--replay_file_writes"), "{report}");
    let report: Value = serde_json::from_str(&print(&["rehal", "info", "--format=json", path])).unwrap();
    assert_eq!(report["external_files"][0]["path"], victim);
    assert_eq!(report["external_files"][0]["writes"], true);
    // One that is only read.
    let reads = capture("params.reference.identity.local-sync");
    assert!(!run(&["rehal", "info", &reads]).stdout.contains("WRITES"));
    let report: Value =
        serde_json::from_str(&run(&["rehal", "info", "--format=json", &reads]).stdout).unwrap();
    assert_eq!(report["external_files"][0]["writes"], false);
}
