//! Files that programs read and write: external, inline, and as captured ranges.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rehal_base::{Error, Remedy, StatusCode, fnv};
use rehal_capture::CaptureBytes;
use rehal_hal::DeviceGroup;
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{FileRemap, FileWrites, Plan, PlanOptions, Replay, ReplayOptions};
use tempfile::NamedTempFile;

use crate::common::{CaptureBuilder, FileSpec, Observed, range, replay, run, run_with, whole};
use crate::memory::peak_bytes;

const BYTES: &[u8] = b"0123456789abcdefghijklmnopqrstuv";

/// A directory with a file in it.
struct Scratch {
    directory: tempfile::TempDir,
    file: PathBuf,
}

fn scratch() -> Scratch {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("parameters.bin");
    std::fs::write(&file, BYTES).unwrap();
    Scratch { directory, file }
}

/// A capture that reads bytes 4 to 20 of a file.
fn reads(spec: &FileSpec) -> CaptureBuilder {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(16);
    let file = capture.file(spec);
    capture.file_read(file, 4, whole(buffer), b"");
    capture.read(buffer, 0, 16);
    capture
}

fn external(path: &Path) -> FileSpec {
    FileSpec::external(path, BYTES.len() as u64)
}

fn identity(path: &Path) -> [u64; 3] {
    let metadata = std::fs::metadata(path).unwrap();
    let mtime_ns = metadata.mtime() as u64 * 1_000_000_000 + metadata.mtime_nsec() as u64;
    [metadata.dev(), metadata.ino(), mtime_ns]
}

fn remap(captured: &Path, here: &Path) -> ReplayOptions {
    let [captured, here] = [captured, here].map(|path| path.as_os_str().to_os_string());
    ReplayOptions::default().file_remaps(vec![FileRemap { captured, here }])
}

#[track_caller]
fn reads_its_part(observed: rehal_base::Result<Observed>) {
    assert_eq!(observed.unwrap().bytes(), [&BYTES[4..20]]);
}

#[test]
fn inline_bytes_are_read() {
    reads_its_part(run(&reads(&FileSpec::inline(BYTES)).finish()));
    // An empty file is valid.
    let mut capture = CaptureBuilder::new();
    capture.file(&FileSpec::inline(b""));
    run(&capture.finish()).unwrap();
}

/// An inline file of a mapped capture that is only read is zero-copy.
#[test]
fn inline_files_of_a_mapped_capture_are_zero_copy() {
    const FILE_BYTES: usize = 8 << 20;
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    let file = capture.file(&FileSpec::inline(&vec![7; FILE_BYTES]));
    capture.file_read(file, FILE_BYTES as u64 - 4, whole(buffer), b"");
    capture.read(buffer, 0, 4);
    let mut written = NamedTempFile::new().unwrap();
    written.write_all(&capture.finish()).unwrap();
    let (bytes, peak) = peak_bytes(|| {
        let mapped = CaptureBytes::map(written.path()).unwrap();
        let plan = Plan::compile(mapped, PlanOptions::default()).unwrap();
        assert!(plan.files().all(|file| file.check(&[]).is_ok()));
        let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
        let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
        let mut observed = Observed::default();
        replay.run(&mut [&mut observed]).unwrap();
        observed.bytes().concat()
    });
    assert_eq!(bytes, [7; 4]);
    assert!(peak < FILE_BYTES / 8, "{peak}");
}

#[test]
fn captured_ranges_need_no_file() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(16);
    let file = capture.file(&FileSpec::ranges("/gone/long ago", 1 << 40));
    capture.file_read(file, 1 << 39, whole(buffer), &BYTES[4..20]);
    capture.file_read(file, 0, range(buffer, 2, 3), b"XYZ");
    capture.read(buffer, 0, 16);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"45XYZ9abcdefghij"]);
    // Captured bytes take precedence even if the file could be read.
    let scratch = scratch();
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(3);
    let file = capture.file(&external(&scratch.file));
    capture.file_read(file, 0, whole(buffer), b"XYZ");
    capture.read(buffer, 0, 3);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"XYZ"]);
}

#[test]
fn external_files_are_read_from_their_path() {
    let scratch = scratch();
    let plain = external(&scratch.file);
    let same = plain.clone().identity(identity(&scratch.file));
    let digest = plain.clone().digest(fnv::fnv1a64(BYTES));
    for spec in [plain, same, digest] {
        reads_its_part(run(&reads(&spec).finish()));
    }
    // A recorder on a platform without file identities writes zeros; only the length is checked.
    reads_its_part(run(&reads(&external(&scratch.file).identity([0; 3])).finish()));
}

#[test]
fn remapped_files_are_read_from_the_new_path() {
    let scratch = scratch();
    let captured = Path::new("/captured/on/another/machine");
    let digest = external(&captured.join("parameters.bin")).digest(fnv::fnv1a64(BYTES));
    let capture = reads(&digest).finish();
    assert_eq!(run(&capture).unwrap_err().code(), StatusCode::NotFound);
    reads_its_part(run_with(&capture, &remap(captured, scratch.directory.path())));
    reads_its_part(run_with(&capture, &remap(&captured.join("parameters.bin"), &scratch.file)));
    // The longest prefix wins, regardless of order; other paths are unchanged.
    let to = |captured: &str, here: &Path| FileRemap { captured: captured.into(), here: here.into() };
    let nowhere = Path::new("/nowhere");
    let mut remaps = vec![
        to("/captured/on/another", nowhere),
        to("/captured/on/another/machine/", &scratch.directory.path().join("")),
    ];
    remaps.push(to("/captured/on/another/machine/q", nowhere));
    for _ in 0..3 {
        remaps.rotate_left(1);
        let options = ReplayOptions::default().file_remaps(remaps.clone());
        reads_its_part(run_with(&capture, &options));
    }
}

/// The error of a capture whose file cannot be used; it must name the record and both paths.
#[track_caller]
fn refused(spec: &FileSpec, options: &ReplayOptions, code: StatusCode, words: &[&str]) -> Error {
    let capture = reads(spec);
    let error = run_with(&capture.finish(), options).unwrap_err();
    assert_eq!(error.code(), code, "{error:?}");
    let report = error.report();
    let captured = String::from_utf8_lossy(&spec.reference).replace('\0', "\\u{0}");
    let place = "operation(3) device.import_file(10), device 1, object 1, related object 5";
    for word in [place, "record #5, offset ", captured.as_str()].iter().chain(words) {
        assert!(report.contains(word), "'{word}' is not in: {report}");
    }
    error
}

#[test]
fn a_copy_passes_the_digest_but_not_the_identity() {
    let (original, copy) = (scratch(), scratch());
    let captured = identity(&original.file);
    let [device, inode, mtime_ns] = captured;
    let was = format!("captured=(dev={device}, inode={inode}, mtime_ns={mtime_ns})");
    let [device, inode, mtime_ns] = identity(&copy.file);
    let is = format!("current=(dev={device}, inode={inode}, mtime_ns={mtime_ns})");
    let options = remap(&original.file, &copy.file);
    let by_identity = external(&original.file).identity(captured);
    let here = copy.file.display().to_string();
    let words = [was.as_str(), &is, &here];
    let error = refused(&by_identity, &options, StatusCode::FailedPrecondition, &words);
    assert_eq!(error.advice(), Some(&Remedy::ValidateByDigest.into()), "{error:?}");
    let by_digest = external(&original.file).digest(fnv::fnv1a64(BYTES));
    reads_its_part(run_with(&reads(&by_digest).finish(), &options));
}

#[test]
fn a_rewritten_file_fails_the_identity() {
    let scratch = scratch();
    let [device, inode, mtime_ns] = identity(&scratch.file);
    for changed in
        [[device + 1, inode, mtime_ns], [device, inode ^ 1, mtime_ns], [device, inode, mtime_ns - 1]]
    {
        let spec = external(&scratch.file).identity(changed);
        let words = ["captured=(dev=", "current=(dev="];
        refused(&spec, &ReplayOptions::default(), StatusCode::FailedPrecondition, &words);
    }
}

#[test]
fn modified_contents_fail_the_digest() {
    let scratch = scratch();
    let spec = external(&scratch.file).digest(fnv::fnv1a64(BYTES));
    let mut changed = BYTES.to_vec();
    changed[7] ^= 0xFF;
    std::fs::write(&scratch.file, &changed).unwrap();
    let was = format!("captured digest={:#018x}", fnv::fnv1a64(BYTES));
    let is = format!("current={:#018x}", fnv::fnv1a64(&changed));
    refused(&spec, &ReplayOptions::default(), StatusCode::FailedPrecondition, &[&was, &is]);
}

#[test]
fn another_length_fails_every_validation() {
    let scratch = scratch();
    let path = &scratch.file;
    for spec in [FileSpec::external(path, 33), FileSpec::external(path, 31)] {
        let captured = format!("captured={} current=32", spec.header.file_length);
        let by_identity = spec.clone().identity(identity(path));
        let by_digest = spec.clone().digest(fnv::fnv1a64(BYTES));
        for spec in [spec, by_identity, by_digest] {
            let error =
                refused(&spec, &ReplayOptions::default(), StatusCode::FailedPrecondition, &[&captured]);
            assert_eq!(error.advice(), Some(&Remedy::RemapFile.into()), "{error:?}");
        }
    }
}

#[test]
fn paths_other_than_regular_files_are_rejected_without_blocking() {
    let scratch = scratch();
    let directory = scratch.directory.path();
    let default = ReplayOptions::default();
    let missing =
        refused(&external(&directory.join("missing")), &default, StatusCode::NotFound, &["No such file"]);
    assert_eq!(missing.advice(), Some(&Remedy::RemapFile.into()));
    refused(&external(directory), &default, StatusCode::InvalidArgument, &["is a directory"]);
    refused(&external(&directory.join("parameters.bin/below")), &default, StatusCode::InvalidArgument, &[]);
    // Opening a pipe without a writer would block forever.
    let pipe = directory.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    refused(&external(&pipe), &default, StatusCode::InvalidArgument, &["is not a regular file"]);
    refused(&external(Path::new("/dev/null")), &default, StatusCode::InvalidArgument, &["is not a regular"]);
    refused(&FileSpec::new(1, b"/with\0nul", 32), &default, StatusCode::InvalidArgument, &[]);
    refused(&FileSpec::new(1, b"", 32), &default, StatusCode::NotFound, &[]);
}

#[test]
fn files_are_checked_before_anything_runs() {
    let scratch = scratch();
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    let output = capture.file(&external(&scratch.file).writable());
    capture.fill(whole(buffer), b"!");
    capture.file_write(whole(buffer), output, 0);
    capture.file(&external(Path::new("/missing")));
    run(&capture.finish()).unwrap_err();
    assert_eq!(std::fs::read(&scratch.file).unwrap(), BYTES);
}

/// A capture that reads bytes 8 to 16 of `reader`, writes 6 bytes to `writer`, and reads again.
fn writes(writer: &FileSpec, reader: &FileSpec) -> Vec<u8> {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let (writer, reader) = (capture.file(writer), capture.file(reader));
    capture.file_read(reader, 8, whole(buffer), b"");
    capture.read(buffer, 0, 8);
    capture.write(buffer, 0, b"[writes]");
    capture.file_write(range(buffer, 1, 6), writer, 10);
    capture.file_read(reader, 8, whole(buffer), b"");
    capture.read(buffer, 0, 8);
    capture.finish()
}

fn writing(file_writes: FileWrites) -> ReplayOptions {
    ReplayOptions::default().file_writes(file_writes)
}

#[test]
fn writes_change_a_private_copy_that_each_run_begins_with_the_bytes_of_the_file() {
    let scratch = scratch();
    let [link, soft] = ["link", "soft"].map(|name| scratch.directory.path().join(name));
    std::fs::hard_link(&scratch.file, &link).unwrap();
    std::os::unix::fs::symlink(&scratch.file, &soft).unwrap();
    // Never opened for writing, so that permission to read is enough.
    std::fs::set_permissions(&scratch.file, Permissions::from_mode(0o400)).unwrap();
    let before = identity(&scratch.file);
    let spec = external(&scratch.file).writable();
    // One file has one copy, by whichever path, and whatever a capture knows of it.
    let writers = [spec.clone(), spec.clone().identity(before), spec.digest(fnv::fnv1a64(BYTES))];
    let readers = [&scratch.file, &link, &soft].map(|path| external(path));
    // A link is followed that the user names.
    let error = run(&writes(&writers[0], &readers[2])).unwrap_err();
    assert!(error.message().contains("it is a symbolic link"), "{error:?}");
    let options = remap(&soft, &soft);
    for (writer, reader) in writers.iter().flat_map(|writer| readers.iter().map(move |it| (writer, it))) {
        for observed in replay(&writes(writer, reader), &options, 2).unwrap() {
            assert_eq!(observed.bytes(), [b"89abcdef", b"89writes"]);
        }
    }
    assert_eq!(std::fs::read(&scratch.file).unwrap(), BYTES);
    assert_eq!(identity(&scratch.file), before);
}

/// Other tests replay on several devices, of which the first one would change the file.
fn in_place(capture: Vec<u8>) -> Replay {
    let plan = Plan::compile(capture, PlanOptions::default()).unwrap();
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    Replay::new(plan, &devices, &writing(FileWrites::InPlace)).unwrap()
}

#[test]
fn writes_in_place_change_the_file() {
    let scratch = scratch();
    let spec = external(&scratch.file).writable().digest(fnv::fnv1a64(BYTES));
    let replay = in_place(writes(&spec, &spec));
    for before in [b"89abcdef", b"89writes"] {
        let mut observed = Observed::default();
        replay.run(&mut [&mut observed]).unwrap();
        assert_eq!(observed.bytes(), [before, b"89writes"]);
    }
    assert_eq!(std::fs::read(&scratch.file).unwrap(), b"0123456789writesghijklmnopqrstuv");
    let spec = external(&scratch.file).writable().identity(identity(&scratch.file));
    in_place(writes(&spec, &spec)).run(&mut []).unwrap();
}

#[test]
fn a_file_of_which_only_the_length_is_known_is_not_written_in_place() {
    let scratch = scratch();
    let spec = external(&scratch.file).writable();
    for spec in [spec.clone(), spec.identity([0; 3])] {
        let error = run_with(&writes(&spec, &spec), &writing(FileWrites::InPlace)).unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition, "{error:?}");
        assert_eq!(error.advice(), Some(&Remedy::CopyFileWrites.into()));
        assert!(error.report().contains(&scratch.file.display().to_string()), "{error:?}");
        assert_eq!(std::fs::read(&scratch.file).unwrap(), BYTES);
        // One that is only read has no such requirement, whatever access it was imported with.
        reads_its_part(run_with(&reads(&spec).finish(), &writing(FileWrites::InPlace)));
    }
}

#[test]
fn captures_that_write_files_can_be_refused() {
    let scratch = scratch();
    let spec = external(&scratch.file).writable().digest(fnv::fnv1a64(BYTES));
    let error = run_with(&writes(&spec, &spec), &writing(FileWrites::Fail)).unwrap_err();
    assert_eq!(error.advice(), Some(&Remedy::CopyFileWrites.into()));
    let report = error.report();
    assert!(report.contains(&format!("writes to the file '{}'", scratch.file.display())), "{report}");
    reads_its_part(run_with(&reads(&spec).finish(), &writing(FileWrites::Fail)));
    // The bytes in the capture are not a file of the user.
    let inline = FileSpec::inline(BYTES).writable();
    run_with(&writes(&inline, &inline), &writing(FileWrites::Fail)).unwrap();
}

/// A copy takes the memory of what is written, not that of the file.
#[test]
fn a_file_larger_than_memory_is_written_to_a_copy() {
    const FILE_BYTES: u64 = 1 << 40;
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(FILE_BYTES).unwrap();
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let written = capture.file(&FileSpec::external(file.path(), FILE_BYTES).writable());
    capture.write(buffer, 0, b"[writes]");
    capture.file_write(whole(buffer), written, FILE_BYTES - 9);
    capture.fill(whole(buffer), b"x");
    capture.file_read(written, FILE_BYTES - 8, whole(buffer), b"");
    capture.read(buffer, 0, 8);
    assert_eq!(run(&capture.finish()).unwrap().bytes(), [b"writes]\0"]);
    assert_eq!(file.as_file().metadata().unwrap().blocks(), 0);
}

#[test]
fn writes_to_an_inline_file_are_private_to_a_run() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let file = capture.file(&FileSpec::inline(b"original").writable());
    capture.file_read(file, 0, whole(buffer), b"");
    capture.read(buffer, 0, 8);
    capture.fill(whole(buffer), b"x");
    capture.file_write(range(buffer, 0, 4), file, 2);
    capture.file_read(file, 0, whole(buffer), b"");
    capture.read(buffer, 0, 8);
    for observed in replay(&capture.finish(), &ReplayOptions::default(), 3).unwrap() {
        assert_eq!(observed.bytes(), [b"original", b"orxxxxal"]);
    }
}

#[test]
fn accesses_beyond_a_file_are_rejected() {
    let read = |spec: &FileSpec, offset, length| {
        let mut capture = CaptureBuilder::new();
        let (buffer, file) = (capture.buffer(8), capture.file(spec));
        capture.file_read(file, offset, range(buffer, 0, length), b"");
        run(&capture.finish())
    };
    let file = FileSpec::inline(b"12345678");
    read(&file, 3, 5).unwrap();
    for (offset, length) in [(4, 5), (8, 1), (u64::MAX, 1), (u64::MAX - 3, 8)] {
        assert_eq!(read(&file, offset, length).unwrap_err().code(), StatusCode::OutOfRange);
    }
    // A file imported for reading cannot be written.
    let mut capture = CaptureBuilder::new();
    let (buffer, file) = (capture.buffer(8), capture.file(&file));
    capture.file_write(whole(buffer), file, 0);
    let error = run(&capture.finish()).unwrap_err();
    assert_eq!(error.code(), StatusCode::PermissionDenied);
    assert!(error.report().contains("device.queue_write(19)"), "{error:?}");
}
