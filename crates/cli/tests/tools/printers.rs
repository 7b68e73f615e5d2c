//! The reports of the tools, on mutated files and on names and lists of any length.

use std::io::Cursor;

use fastrand::Rng;
use rehal_capture::layout::Scope;
use rehal_capture::{Capture, OpenOptions, Payload, RecordFields, Writer, payload};
use rehal_cli::tools::fuzzing::{exercise_capture, exercise_parameters, exercise_profile};
use rehal_devices::DeviceOptions;
use rehal_hal::DeviceGroup;
use testing::mutate;

use crate::common::{Scratch, capture, fixture, print};

fn devices() -> DeviceGroup {
    DeviceOptions::default().open().unwrap()
}

/// A capture with its scopes renamed.
fn renamed(bytes: &[u8], name: &[u8]) -> Vec<u8> {
    let capture = Capture::open(bytes, OpenOptions::default()).unwrap();
    let mut copy = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut copy).unwrap();
    for record in capture.records() {
        let record = record.unwrap();
        let fields = RecordFields::from(record.header);
        match record.payload().unwrap() {
            Payload::Scope(scope) => {
                let header = Scope { name_length: (name.len() as u64).into(), ..*scope.header };
                writer.append_view(&fields, &payload::Scope { header: &header, name }).unwrap();
            }
            other => other.with_parts(|parts| writer.append(&fields, parts)).unwrap(),
        }
    }
    writer.close().unwrap();
    copy.into_inner()
}

#[test]
fn mutated_captures_are_printed() {
    let (devices, mut random) = (devices(), Rng::with_seed(28));
    let mut printed = 0;
    for name in ["add4.add.local-sync", "two_devices.ss", "crash.gather-ok.local-sync"] {
        let seed = std::fs::read(capture(name)).unwrap();
        assert!(exercise_capture(&seed, &devices) > 1000, "{name}");
        for _ in 0..60 {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &mut random);
            printed += usize::from(exercise_capture(&bytes, &devices) > 0);
        }
    }
    assert!(printed > 60, "{printed}");
}

#[test]
fn mutated_profiles_and_parameters_are_printed() {
    let sample =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/data/sample.ireeprof");
    let (profile, archive) =
        (std::fs::read(sample).unwrap(), std::fs::read(fixture("params/model.irpa")).unwrap());
    assert!(
        exercise_profile(&profile).unwrap() > 100 && exercise_parameters(&archive, ".irpa").unwrap() > 100
    );
    let mut random = Rng::with_seed(28);
    for _ in 0..200 {
        let (mut profile, mut archive) = (profile.clone(), archive.clone());
        mutate(&mut profile, &mut random);
        mutate(&mut archive, &mut random);
        let _ = (exercise_profile(&profile), exercise_parameters(&archive, ".irpa"));
    }
}

#[test]
fn names_of_any_length_are_printed() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(capture("add4.add.local-sync")).unwrap();
    for length in [1000, 1001, 65_535, 65_536, 300_000] {
        let long = renamed(&bytes, "s".repeat(length).as_bytes());
        assert!(exercise_capture(&long, &devices()) > length);
        let text = print(&["rehal", "info", &scratch.file("long.ireereplay", &long)]);
        let line = text.lines().find(|line| line.starts_with("  sss")).unwrap();
        let left_out = format!("s[... {} characters ...]s", length.saturating_sub(960));
        assert_eq!(line.contains(&left_out), length > 1000, "{length}");
        assert!(line.ends_with("s  entered 3 times") && line.len() < 1100, "{length}: {}", line.len());
    }
}
