//! Captures: opening, surveys, verdicts, plans and dumps, and their errors.

use std::io;

use rehal::capture::{CaptureFile, CaptureOptions, DumpError, Survey};
use rehal::work::ReplaySetup;
use rehal_base::{Remedy, StatusCode};
use rehal_devices::{DeviceOptions, DeviceSpec};
use rehal_replay::{Replay, ReplayOptions, dump::Format};

use crate::capture;

fn strict() -> CaptureOptions {
    CaptureOptions::default()
}

fn recovering() -> CaptureOptions {
    let mut options = CaptureOptions::default();
    options.recover = true;
    options
}

const fn is_send_sync_and_static<T: Send + Sync + 'static>() {}

const _: () = {
    is_send_sync_and_static::<CaptureFile>();
    is_send_sync_and_static::<Survey>();
    is_send_sync_and_static::<rehal::capture::Verdict>();
    is_send_sync_and_static::<Replay>();
    is_send_sync_and_static::<DeviceOptions>();
};

#[test]
fn files_that_are_not_captures() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"hello").unwrap();
    let error = CaptureFile::open(&path, &strict()).err().unwrap();
    assert_eq!(error.message(), format!("'{}' is a text file, not a capture", path.display()));
    assert_eq!(error.advice(), Some(&Remedy::NameCapture.into()), "{}", error.report());
    for missing in [directory.path().join("missing"), directory.path().to_path_buf()] {
        let error = CaptureFile::open(&missing, &recovering()).err().unwrap();
        assert!(error.message().contains(&missing.display().to_string()), "{}", error.report());
        assert_eq!(error.advice(), Some(&Remedy::NameCapture.into()));
    }
    // Captures in memory have no file name.
    let error = CaptureFile::from_bytes(b"hello".to_vec(), &strict()).err().unwrap();
    assert_eq!(error.message(), "it is a text file, not a capture");
}

#[test]
fn a_truncated_capture_is_refused_or_recovered() {
    let mut bytes = std::fs::read(capture("add4.add.local-sync")).unwrap();
    bytes.truncate(bytes.len() - 1);
    let error = CaptureFile::from_bytes(bytes.clone(), &strict()).err().unwrap();
    assert_eq!(error.code(), StatusCode::DataLoss);
    let cut = CaptureFile::from_bytes(bytes.clone(), &recovering()).unwrap();
    let tear = cut.tear().unwrap();
    assert_eq!(cut.length_bytes(), tear.offset);
    assert_eq!(cut.total_bytes(), bytes.len() as u64);
    assert_eq!(cut.survey().unwrap().record_count, tear.record_count);
    assert_eq!(cut.plan().unwrap().tear(), Some(tear));
    let verdict = cut.verdict(&DeviceOptions::default().open().unwrap(), &[]);
    assert!(!verdict.is_replayable());
    assert!(verdict.reasons[0].message().contains("truncated at offset"), "{:?}", verdict.reasons);
}

#[test]
fn damage_is_found_by_plans_surveys_and_dumps() {
    let path = capture("add4.add.local-sync");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 96;
    // The ordinal of a record in the second half.
    let at = (last / 2..last).rev().find(|at| bytes[*at..].starts_with(b"\x60\0\0\0\0\0\0\0")).unwrap();
    bytes[at + 16] ^= 0xff;
    let damaged = CaptureFile::from_bytes(bytes, &strict()).unwrap();
    let errors = [damaged.survey().err(), damaged.plan().err(), Some(dump_error(&damaged))];
    for error in errors {
        let error = error.unwrap();
        assert_eq!(error.code(), StatusCode::DataLoss);
        assert!(error.advice().unwrap().to_string().starts_with("the file is damaged"), "{}", error.report());
    }
    let verdict = damaged.verdict(&DeviceOptions::default().open().unwrap(), &[]);
    assert_eq!((verdict.is_replayable(), verdict.files.len()), (false, 0));
}

/// Without this test, work in another process could replay another capture than that of its plan.
#[test]
fn work_on_a_plan_reads_its_file_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("it.ireereplay");
    let bytes = std::fs::read(capture("add4.add.local-sync")).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let plan = |options| CaptureFile::open(&path, &options).unwrap().plan();
    let setup = ReplaySetup::of_plan(&plan(strict()).unwrap()).unwrap();
    assert_eq!(setup.plan().unwrap().step_count(), plan(strict()).unwrap().step_count());
    let change = || {
        let error = setup.plan().err().unwrap();
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        error.message().strip_prefix(&format!("'{}' has been ", path.display())).unwrap().to_owned()
    };
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(change(), "modified since it was planned");
    file.set_modified(modified).unwrap();
    assert!(setup.plan().is_ok());
    file.set_len(bytes.len() as u64 + 1).unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(change(), "modified since it was planned");
    std::fs::rename(&path, directory.path().join("other")).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(change(), "replaced by another file since it was planned");

    // A byte that a plan reads and verifies, and does without.
    let recorded = directory.path().join("recorded.ireereplay");
    crate::programs::record_add(&recorded);
    let bytes = std::fs::read(recorded).unwrap();
    let damaged = (bytes.len() / 2..bytes.len()).find_map(|at| {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let [strict, recovering] = [strict(), recovering()]
            .map(|options| CaptureFile::from_bytes(damaged.clone(), &options).and_then(|it| it.plan()));
        (strict.is_err() && recovering.is_ok_and(|it| it.tear().is_none())).then_some(damaged)
    });
    std::fs::write(&path, damaged.unwrap()).unwrap();
    assert_eq!(plan(strict()).err().unwrap().code(), StatusCode::DataLoss);
    let recovered = plan(recovering()).unwrap();
    assert_eq!(recovered.tear(), None);
    let again = ReplaySetup::of_plan(&recovered).unwrap().plan().unwrap();
    assert_eq!(again.step_count(), recovered.step_count());
}

fn dump_error(capture: &CaptureFile) -> rehal_base::Error {
    let mut out = Vec::new();
    match capture.dump(Format::Text, &mut out, &mut |_| {}) {
        Err(DumpError::Capture(error)) if out.is_empty() => error,
        other => panic!("{other:?}, {} bytes written", out.len()),
    }
}

#[test]
fn a_dump_ends_when_its_writer_does() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let capture = CaptureFile::open(&capture("add4.add.local-sync"), &strict()).unwrap();
    let outcome = capture.dump(Format::Jsonl, &mut Full, &mut |_| {});
    assert!(matches!(&outcome, Err(DumpError::Write(error)) if error.kind() == io::ErrorKind::StorageFull));
    // The capture is still usable.
    let mut out = Vec::new();
    capture.dump(Format::Text, &mut out, &mut |_| {}).unwrap();
    assert!(out.len() > 1000);
}

#[test]
fn a_survey_counts_what_a_plan_runs() {
    for name in ["add4.add.local-sync", "mlp.mlp.local-sync", "two_devices.st", "bench.mlp.5.local-sync"] {
        let Ok(capture) = CaptureFile::open(&capture(name), &strict()) else { panic!("{name}") };
        let (survey, plan) = (capture.survey().unwrap(), capture.plan().unwrap());
        assert_eq!(survey.device_count, plan.device_count() as u64, "{name}");
        assert_eq!(survey.executables.len(), plan.executables().len(), "{name}");
        let scopes: Vec<_> = survey.scopes.iter().map(|scope| (&scope.name[..], scope.count)).collect();
        assert_eq!(scopes, plan.scopes().collect::<Vec<_>>(), "{name}");
        for (surveyed, planned) in survey.executables.iter().zip(plan.executables()) {
            assert_eq!((surveyed.id, &surveyed.format[..]), (planned.id, planned.format), "{name}");
            let names: Vec<_> = surveyed.functions.iter().map(|function| &function.name[..]).collect();
            assert_eq!(names, planned.function_names().collect::<Vec<_>>(), "{name}");
        }
        assert!(survey.bytes.total() < capture.length_bytes());
    }
}

#[test]
fn errors_of_a_replay_name_the_file() {
    let path = capture("two_devices.st");
    let plan = CaptureFile::open(&path, &strict()).unwrap().plan().unwrap();
    let one = DeviceOptions::default().open().unwrap();
    let error = Replay::new(plan, &one, &ReplayOptions::default()).err().unwrap();
    assert_eq!(error.code(), StatusCode::FailedPrecondition);
    assert_eq!(error.context_lines(), [format!("'{}'", path.display())]);
}

/// Needs a Vulkan device with buffer device addresses, as Mesa's software driver is.
#[test]
fn parameters_are_of_one_device() {
    let uris = ["vulkan://?dispatch_abi=bda", "vulkan://0?vulkan_dispatch_abi=descriptors", "vulkan"];
    let specs = uris.iter().map(|uri| DeviceSpec::find(uri).unwrap()).collect();
    let devices = DeviceOptions::for_devices(specs).open().unwrap();
    let supported: Vec<_> = devices
        .devices()
        .iter()
        .map(|device| {
            ["vulkan-spirv-bda-v1", "vulkan-spirv-fb"].map(|format| device.can_prepare_executable(format))
        })
        .collect();
    assert_eq!(supported, [[true, false], [false, true], [true, true]]);
    let error = DeviceSpec::find("vulkan://?retained_cached_bda_replay_instances=x").err().unwrap();
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert!(
        error.report().contains("unexpected value 'x' (expected an integer from 0 to 4294967295)"),
        "{}",
        error.report()
    );
    let error = DeviceSpec::find("vulkan://?dispatch=bda").err().unwrap();
    assert!(error.report().contains("did you mean 'dispatch_abi'?"), "{}", error.report());
}

#[test]
fn unknown_devices_are_errors() {
    for (uri, code, words) in [
        ("abacus", StatusCode::NotFound, "'abacus'"),
        ("local-snc", StatusCode::NotFound, "did you mean 'local-sync'?"),
        ("hip", StatusCode::Unimplemented, "available drivers: local-sync, local-task"),
        ("cuda", StatusCode::Unavailable, "cuda://emulator"),
        ("cuda://0", StatusCode::Unavailable, "cuda://emulator"),
        ("local-sync://7", StatusCode::NotFound, "local-sync"),
        ("local-sync://?x=1", StatusCode::InvalidArgument, "has no parameter 'x'"),
    ] {
        let error = DeviceSpec::find(uri).err().unwrap();
        assert_eq!(error.code(), code, "{}", error.report());
        assert!(error.report().contains(words), "{}", error.report());
    }
    assert_eq!(DeviceOptions::default().open().unwrap().devices().len(), 1);
    assert_eq!(DeviceOptions::for_devices(vec![DeviceSpec::default(); 3]).open().unwrap().devices().len(), 3);
}
