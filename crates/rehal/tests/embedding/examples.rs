//! Runs the examples.

#[path = "../../examples/drive.rs"]
mod drive;
#[path = "../../examples/host_reads.rs"]
mod host_reads;
#[path = "../../examples/keep.rs"]
mod keep;
#[path = "../../examples/record.rs"]
mod record;
#[path = "../../examples/small_scope.rs"]
mod small_scope;
#[path = "../../examples/substitute.rs"]
mod substitute;
#[path = "../../examples/survey.rs"]
mod survey;
#[path = "../../examples/threads.rs"]
mod threads;
#[path = "../../examples/two_chains.rs"]
mod two_chains;

use std::sync::Arc;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal_devices::DeviceOptions;
use rehal_replay::{HostReadLog, RaceOptions, Replay, ReplayOptions, ReplayOrder};

use crate::{capture, fixture};

#[test]
fn a_capture_is_surveyed() {
    let mut out = Vec::new();
    survey::survey(&capture("add4.add.local-sync"), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(" dispatches\nexecutable "), "{text}");
    assert!(text.ends_with("embedded-elf-x86_64, 2 functions\ncan be replayed on local-task\n"), "{text}");
}

#[test]
fn host_reads_equal_the_program_output() {
    let reads = host_reads::host_reads(&capture("add4.add.local-sync")).unwrap();
    let bytes: Vec<u8> = [11.0_f32, 22.0, 33.0, 44.0].into_iter().flat_map(f32::to_le_bytes).collect();
    assert!(reads.0.contains(&("execute".to_string(), bytes)), "{:?}", reads.0);
}

#[test]
fn threads_replay_a_capture_concurrently() {
    let times = threads::replay_on_threads(&capture("mlp.mlp.local-sync"), 4).unwrap();
    assert_eq!(times.len(), 4);
    assert!(times.iter().all(|time| !time.is_zero()));
}

/// Neither chain waits for the other, and both orders of a replay read what the program read.
#[test]
fn two_chains_do_not_depend_on_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("two_chains.ireereplay");
    assert_eq!(two_chains::record(&path).unwrap(), [[0, 255, 0, 255], [1, 255, 1, 255]]);
    let plan = CaptureFile::open(&path, &CaptureOptions::default()).unwrap().plan().unwrap();
    let races = plan.races(RaceOptions { strict: true });
    assert_eq!((races.count, races.incomplete), (0, None));
    let devices = DeviceOptions::default().open().unwrap();
    let [serialized, captured] = [ReplayOrder::Serialized, ReplayOrder::Captured].map(|order| {
        let options = ReplayOptions::default().order(order);
        let mut reads = HostReadLog::new(Vec::new(), 4);
        Replay::new(plan.clone(), &devices, &options).unwrap().run(&mut [&mut reads]).unwrap();
        reads.finish().unwrap()
    });
    assert!(!serialized.is_empty() && serialized == captured);
}

/// The scope of the example is repeated by itself, from the state that the steps before it leave.
#[test]
fn a_small_scope_is_repeated_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small_scope.ireereplay");
    assert_eq!(small_scope::record(&path).unwrap(), [50; 4]);
    let plan = CaptureFile::open(&path, &CaptureOptions::default()).unwrap().plan().unwrap();
    let devices = DeviceOptions::default().open().unwrap();
    let replay = Arc::new(Replay::new(plan, &devices, &ReplayOptions::default()).unwrap());
    let mut fast = replay.fast_forward(b"execute", &mut []).unwrap();
    assert_eq!(fast.restored_bytes(), 4 << 20);
    for _ in 0..2 {
        let mut reads = HostReadLog::new(Vec::new(), 4);
        fast.restore().unwrap();
        fast.repeat(&mut [&mut reads]).unwrap();
        assert!(String::from_utf8(reads.finish().unwrap()).unwrap().contains("\"bytes\":\"32323232\""));
    }
    fast.finish().unwrap();
}

#[test]
fn replays_are_kept() {
    let replays = keep::Replays::default();
    for name in ["add4.add.local-sync", "mlp.mlp.local-sync", "add4.add.local-sync"] {
        assert!(replays.time_scope(&capture(name), "execute").unwrap() > 0);
    }
    assert_eq!(replays.time_scope(&capture("mlp.mlp.local-sync"), "no such scope").unwrap(), 0);
}

#[test]
fn a_program_is_recorded_and_its_capture_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("add4.ireereplay");
    let inputs = ["4xf32=1 2 3 4", "4xf32=10 20 30 40"];
    let results = record::record(&fixture("modules/add4.vmfb"), "add", &inputs, &path).unwrap();
    assert_eq!(results, ["hal.buffer_view\n4xf32=11 22 33 44"]);
    record::replay(&path).unwrap();
    // The host read is the result.
    let reads = host_reads::host_reads(&path).unwrap();
    let bytes: Vec<u8> = [11.0_f32, 22.0, 33.0, 44.0].into_iter().flat_map(f32::to_le_bytes).collect();
    assert!(reads.0.contains(&("execute".to_string(), bytes)), "{:?}", reads.0);
}

#[test]
fn a_program_that_drives_a_device_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.ireereplay");
    let bytes = drive::drive(&path).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4].repeat(4));
    let reads = String::from_utf8(drive::replay(&path).unwrap()).unwrap();
    assert!(reads.contains("01020304010203040102030401020304") && reads.contains("execute"), "{reads}");
}

#[test]
fn executables_are_chosen_by_a_function() {
    let kernel = std::fs::read(fixture("modules/add4_swapped.elf")).unwrap();
    let capture = capture("add4.add.local-sync");
    let text = |numbers: [f32; 4]| -> String {
        numbers.into_iter().flat_map(f32::to_le_bytes).map(|byte| format!("{byte:02x}")).collect()
    };
    let replay = |function| {
        let (reads, replaced) = substitute::replay_with(&capture, function, kernel.clone()).unwrap();
        (String::from_utf8(reads).unwrap(), replaced)
    };
    let (reads, replaced) = replay("add_dispatch_0_elementwise_4_f32");
    assert!(reads.contains(&text([1100.0, 2200.0, 3300.0, 4400.0])), "{reads}");
    assert_eq!(replaced, [4]);
    let (reads, replaced) = replay("another");
    assert!(reads.contains(&text([11.0, 22.0, 33.0, 44.0])), "{reads}");
    assert!(replaced.is_empty());
}

/// A program that embeds rehal depends on one crate.
#[test]
fn examples_use_no_other_crate_of_rehal() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("rehal_"), "{}", path.display());
        count += 1;
    }
    assert!(count >= 7);
}
