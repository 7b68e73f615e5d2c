//! Large reads of files, whose pages buffers share with the file: replays see the bytes of a copy, whatever
//! happens to the file, or fail.

use std::fs::{self, File as OpenFile};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rehal_base::{HostMemory, Result, StatusCode, mapped_file_at};
use rehal_capture::{CaptureBytes, OpenOptions};
use rehal_hal::{BufferRef, Device, DeviceGroup, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY, SemaphoreFlags};
use rehal_replay::{
    FilePolicy, FileValidation, FileWrites, HostRead, Observer, Plan, PlanCheck, PlanOptions, RecordOptions,
    Replay, ReplayOptions, Scope,
};
use tempfile::NamedTempFile;

use crate::program::{Program, local_sync, local_task, mappable};

const FILE_BYTES: usize = 6 << 20;
const BUFFER_BYTES: u64 = (4 << 20) + 333;

fn contents() -> Vec<u8> {
    (0..FILE_BYTES as u32 / 4).flat_map(|at| at.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect()
}

fn on_disk() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&contents()).unwrap();
    file
}

/// The offset in the file, the offset in the buffer, and the length of a read.
type Read = (u64, u64, u64);

/// Records a program that reads parts of a file into a buffer, enters the scope `act`, writes other bytes to
/// the file if it is one that `writes`, and maps the buffer.
fn record(path: &Path, reads: &[Read], writes: bool) -> Vec<u8> {
    record_with(FilePolicy::Reference, path, reads, writes)
}

fn record_with(policy: FilePolicy, path: &Path, reads: &[Read], writes: bool) -> Vec<u8> {
    let options = RecordOptions::default().file_validation(FileValidation::Digest).file_policy(policy);
    let program = Program::new(options);
    let device = program.device();
    let import =
        |access, opened| device.import_file(QUEUE_AFFINITY_ANY, access, HostFile::Disk(opened)).unwrap();
    let file = import(MemoryAccess::READ, OpenFile::open(path).unwrap());
    let buffer = device.allocate_buffer(mappable(), BUFFER_BYTES).unwrap();
    for (from, at, length) in reads {
        let target = BufferRef::range(&buffer, *at, *length);
        device.queue(QUEUE_AFFINITY_ANY).read(&file, *from, target, 0).unwrap();
    }
    program.recorder.scope("act").unwrap();
    if writes {
        let opened = OpenFile::options().read(true).write(true).open(path).unwrap();
        let written = import(MemoryAccess::READ | MemoryAccess::WRITE, opened);
        let zeros = program.buffer(&[0; 64 << 10]);
        device.queue(QUEUE_AFFINITY_ANY).write(&zeros, &written, 1 << 20, 0).unwrap();
    }
    let mut bytes = vec![0; BUFFER_BYTES as usize];
    buffer.read(0, &mut bytes).unwrap();
    assert!(bytes == expected(reads));
    fs::write(path, contents()).unwrap();
    program.capture()
}

fn expected(reads: &[Read]) -> Vec<u8> {
    let (file, mut buffer) = (contents(), vec![0; BUFFER_BYTES as usize]);
    for (from, at, length) in
        reads.iter().map(|&(from, at, length)| (from as usize, at as usize, length as usize))
    {
        buffer[at..at + length].copy_from_slice(&file[from..from + length]);
    }
    buffer
}

/// Acts in the scope of that name, and keeps the host read.
struct Actor<'a> {
    act: &'a dyn Fn(),
    bytes: Vec<u8>,
    /// Whether the middle of the buffer is the file's.
    is_mapped: bool,
}

impl Observer for Actor<'_> {
    fn scope_begin(&mut self, _scope: &Scope<'_>) -> Result<()> {
        (self.act)();
        Ok(())
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let middle = read.memory.as_ptr().addr() + read.memory.length() as usize / 2;
        self.is_mapped = mapped_file_at(middle, |_, _| ()).is_some();
        self.bytes = read.memory.bytes(read.memory.whole())?.into_owned();
        Ok(())
    }
}

/// Replays a capture; returns the bytes that its host reads, and whether they are the file's.
fn replay_on(device: Device, capture: &[u8], writes: FileWrites, act: &dyn Fn()) -> Result<(Vec<u8>, bool)> {
    replay_bytes(device, capture.to_vec().into(), writes, act)
}

fn replay_bytes(
    device: Device,
    capture: CaptureBytes,
    writes: FileWrites,
    act: &dyn Fn(),
) -> Result<(Vec<u8>, bool)> {
    let plan = Plan::compile(capture, PlanOptions::default())?;
    let options = ReplayOptions::default().file_writes(writes);
    let mut actor = Actor { act, bytes: Vec::new(), is_mapped: false };
    Replay::new(plan, &DeviceGroup::new(vec![device])?, &options)?.run(&mut [&mut actor])?;
    Ok((actor.bytes, actor.is_mapped))
}

fn replay(capture: &[u8], act: &dyn Fn()) -> Result<(Vec<u8>, bool)> {
    let first = replay_on(local_sync(), capture, FileWrites::Copy, act)?;
    assert!(first == replay_on(local_task(), capture, FileWrites::Copy, act)?, "the devices differ");
    Ok(first)
}

#[test]
fn what_is_read_is_the_same_at_any_offset() {
    const MIB: u64 = 1 << 20;
    let cases: [(&[Read], bool); 9] = [
        (&[(0, 0, BUFFER_BYTES)], true),
        (&[(64, 0, BUFFER_BYTES)], true),
        (&[(4096 + 64, 64, 4 * MIB)], true),
        (&[(4, 0, BUFFER_BYTES)], false),
        (&[(1, 0, BUFFER_BYTES)], false),
        // They overlap: at other places in a page, what is read last is copied over.
        (&[(64, 0, 3 * MIB), (8 * 4096 + 128, MIB, 2 * MIB + 5)], true),
        (&[(64, 0, 3 * MIB), (8 * 4096 + 64, MIB, 3 * MIB)], true),
        (&[(64, 0, 3 * MIB), (0, 2 * MIB + 100, 5000)], true),
        (&[(0, 0, MIB / 2), (MIB, MIB, MIB / 2)], false),
    ];
    for (reads, is_mapped) in cases {
        let file = on_disk();
        let capture = record(file.path(), reads, false);
        let (bytes, is_files) = replay(&capture, &|| ()).unwrap();
        assert!(bytes == expected(reads), "{reads:?}");
        assert_eq!(is_files, is_mapped && cfg!(target_os = "linux"), "{reads:?}");
        assert!(fs::read(file.path()).unwrap() == contents());
    }
}

/// Captures in files: what they contain is mapped from them, at any offset in a buffer.
#[test]
fn what_a_capture_contains_is_mapped_from_it() {
    const MIB: u64 = 1 << 20;
    let cases: [(FilePolicy, &[Read], bool); 7] = [
        (FilePolicy::CaptureRanges, &[(4, 0, BUFFER_BYTES)], true),
        (FilePolicy::CaptureRanges, &[(1, 64, 4 * MIB)], true),
        (FilePolicy::CaptureRanges, &[(0, 0, 2 * MIB), (77, 2 * MIB, 2 * MIB)], true),
        (FilePolicy::CaptureRanges, &[(64, 4, 4 * MIB)], false),
        (FilePolicy::CaptureRanges, &[(0, 0, MIB / 2), (MIB, MIB, MIB / 2)], false),
        (FilePolicy::CaptureAll, &[(64, 0, BUFFER_BYTES)], true),
        (FilePolicy::CaptureAll, &[(4, 0, BUFFER_BYTES)], false),
    ];
    for (policy, reads, is_mapped) in cases {
        let file = on_disk();
        let capture = record_with(policy, file.path(), reads, false);
        file.close().unwrap();
        is_mapped_from_its_file(&capture, &expected(reads), is_mapped);
    }
}

/// A read whose offset does not agree with that of the first one is copied: a plan knows that before a run.
#[test]
fn memory_needs_count_what_is_mapped() {
    const MIB: u64 = 1 << 20;
    let cases: [(&[Read], u64); 5] = [
        (&[(0, 0, 4 * MIB)], 4 * MIB),
        (&[(64, 0, 4 * MIB)], 4 * MIB),
        (&[(0, 0, 2 * MIB), (2 * MIB, 2 * MIB, 2 * MIB)], 4 * MIB),
        (&[(0, 0, 2 * MIB), (64, 2 * MIB, 2 * MIB)], 2 * MIB),
        (&[(4, 0, 4 * MIB)], 0),
    ];
    for (reads, mapped) in cases {
        let file = on_disk();
        let capture = record(file.path(), reads, false);
        let bytes = CaptureBytes::from(capture.clone());
        let opened = bytes.open(OpenOptions::default()).unwrap();
        let mut check = PlanCheck::new(&bytes);
        opened.records().for_each(|record| check.add(&record.unwrap()).unwrap());
        let of_check = check.finish(&bytes, &opened).unwrap().memory();
        for needs in [Plan::compile(capture, PlanOptions::default()).unwrap().memory(), of_check] {
            assert_eq!((needs.mapped_bytes, needs.own_bytes), (mapped, BUFFER_BYTES - mapped), "{reads:?}");
        }
    }
}

fn is_mapped_from_its_file(capture: &[u8], expected: &[u8], is_mapped: bool) {
    let (bytes, is_files) = replay(capture, &|| ()).unwrap();
    assert!(bytes == expected && !is_files, "bytes in memory are copied");
    let mut on_disk = NamedTempFile::new().unwrap();
    on_disk.write_all(capture).unwrap();
    let is_mapped = is_mapped && cfg!(target_os = "linux");
    let replay = |device, act: &dyn Fn()| {
        replay_bytes(device, CaptureBytes::map(on_disk.path())?, FileWrites::Copy, act)
    };
    for device in [local_sync(), local_task()] {
        let (bytes, is_files) = replay(device, &|| ()).unwrap();
        assert!(bytes == expected);
        assert_eq!(is_files, is_mapped);
    }
    assert!(fs::read(on_disk.path()).unwrap() == capture);
    let grown = replay(local_sync(), &|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        OpenFile::options().append(true).open(on_disk.path()).unwrap().write_all(&[0]).unwrap();
    });
    match (grown, is_mapped) {
        (Ok((bytes, _)), false) => assert!(bytes == expected, "what was copied stays"),
        (Err(error), true) => {
            assert!(error.to_string().contains("the file was changed while it was in use"), "{error}");
            assert!(error.context_lines().contains(&format!("'{}'", on_disk.path().display())));
        }
        (outcome, _) => panic!("{:?}", outcome.map(|(_, is_files)| is_files)),
    }
}

/// The capture of a program that fills a buffer, maps it in a scope for the second time, and reads it.
fn record_host(fill: impl FnOnce(&Program) -> rehal_hal::Buffer) -> Vec<u8> {
    let program = Program::new(RecordOptions::default());
    let buffer = fill(&program);
    program.recorder.scope("act").unwrap();
    let mut bytes = vec![0; buffer.size() as usize];
    buffer.read(0, &mut bytes).unwrap();
    program.capture()
}

#[test]
fn host_writes_and_imported_memory_are_mapped_from_the_capture() {
    let all = contents();
    let written = record_host(|program| program.buffer(&all));
    is_mapped_from_its_file(&written, &all, true);
    let behind = record_host(|program| {
        let buffer = program.buffer(&vec![0; all.len() + 100]);
        buffer.write(100, &all).unwrap();
        buffer
    });
    is_mapped_from_its_file(&behind, &[&[0; 100], &all[..]].concat(), true);
    let imported = record_host(|program| {
        let memory = Arc::new(HostMemory::allocate(all.len() as u64).unwrap());
        memory.write(0, &all).unwrap();
        program.device().import_buffer(mappable(), &memory, memory.whole()).unwrap()
    });
    is_mapped_from_its_file(&imported, &all, true);
}

/// Work that reads and writes a buffer before and after its pages are exchanged, all of it in flight.
#[test]
fn reads_into_a_buffer_with_work_in_flight_are_in_order() {
    let file = on_disk();
    for device in [local_sync(), local_task()] {
        let queue = || device.queue(QUEUE_AFFINITY_ANY);
        let opened = HostFile::Disk(OpenFile::open(file.path()).unwrap());
        let file = device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, opened).unwrap();
        let params = rehal_hal::BufferParams { file_offset: Some(64), ..mappable() };
        let (buffer, copies) = (
            device.allocate_buffer(params, BUFFER_BYTES).unwrap(),
            (0..4).map(|_| device.allocate_buffer(mappable(), BUFFER_BYTES).unwrap()).collect::<Vec<_>>(),
        );
        let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
        let whole = || BufferRef::whole(&buffer);
        let mut step = 1;
        let mut next = |issue: &dyn Fn(rehal_hal::Queue<'_>) -> Result<()>| {
            let (waits, signals) = ([done.at(step)], [done.at(step + 1)]);
            issue(queue().wait(&waits).signal(&signals)).unwrap();
            step += 1;
        };
        for (round, copy) in copies.iter().enumerate() {
            next(&|queue| queue.fill(BufferRef::range(&buffer, 0, BUFFER_BYTES - 1), &[round as u8 + 1], 0));
            next(&|queue| queue.read(&file, 64, BufferRef::range(&buffer, 0, 3 << 20), 0));
            next(&|queue| queue.copy(whole(), BufferRef::whole(copy), 0));
        }
        done.signal(1).unwrap();
        device.flush(QUEUE_AFFINITY_ANY).unwrap();
        done.wait(step, None).unwrap();
        for (round, copy) in copies.iter().enumerate() {
            let mut bytes = vec![0; BUFFER_BYTES as usize];
            copy.read(0, &mut bytes).unwrap();
            let (read, filled) = bytes.split_at(3 << 20);
            assert!(*read == contents()[64..][..3 << 20], "round {round}");
            assert!(filled[..filled.len() - 1].iter().all(|byte| *byte == round as u8 + 1), "round {round}");
        }
        file.backend().check_unchanged().unwrap();
    }
    assert!(fs::read(file.path()).unwrap() == contents());
}

/// Lengths and offsets of more than 32 bits: a sparse file, mapped.
#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn reads_of_more_than_4_gib_are_mapped() {
    const LENGTH: u64 = (4 << 30) + (3 << 20) + 5;
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(LENGTH + (5 << 30)).unwrap();
    let offset = (4 << 30) + 128;
    for at in [0, 1 << 32, LENGTH - 7] {
        file.as_file().write_all_at(&at.to_le_bytes()[..7], offset + at).unwrap();
    }
    let device = local_sync();
    let opened = HostFile::Disk(OpenFile::open(file.path()).unwrap());
    let file = device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, opened).unwrap();
    let params = rehal_hal::BufferParams { file_offset: Some(offset), ..mappable() };
    let buffer = device.allocate_buffer(params, LENGTH).unwrap();
    device.queue(QUEUE_AFFINITY_ANY).read(&file, offset, BufferRef::whole(&buffer), 0).unwrap();
    for at in [0, 1 << 32, LENGTH - 7] {
        let mut bytes = [0; 7];
        buffer.read(at, &mut bytes).unwrap();
        assert_eq!(bytes, at.to_le_bytes()[..7]);
    }
    let map = buffer.map(MemoryAccess::READ, 0, LENGTH).unwrap();
    let middle = map.source().unwrap().as_ptr().addr() + (2 << 30);
    assert!(mapped_file_at(middle, |_, _| ()).is_some(), "mapped, or the machine would need the memory");
    map.unmap().unwrap();
}

const WHOLE: &[Read] = &[(64, 0, BUFFER_BYTES)];

#[test]
fn a_file_that_changes_during_a_run_is_an_error_that_names_it() {
    type Change = fn(&OpenFile);
    let changes: [(&str, Change); 3] = [
        ("rewritten", |file| file.write_all_at(&[0; 100], 5 << 20).unwrap()),
        ("extended", |file| file.set_len(FILE_BYTES as u64 + 1).unwrap()),
        ("cut after what is read", |file| file.set_len(FILE_BYTES as u64 - 1).unwrap()),
    ];
    for (what, change) in changes {
        let file = on_disk();
        let capture = record(file.path(), WHOLE, false);
        let act = || {
            // Times of files are coarse.
            std::thread::sleep(std::time::Duration::from_millis(20));
            change(&OpenFile::options().write(true).open(file.path()).unwrap());
        };
        let error = replay(&capture, &act).expect_err(what);
        assert_eq!(error.code(), StatusCode::DataLoss, "{what}: {error}");
        assert!(error.to_string().contains("the file was changed while it was in use"), "{error}");
        let places = error.context_lines();
        let file = format!("external file '{}'", file.path().display());
        assert!(places.contains(&file), "{places:?}");
        assert!(places.iter().any(|line| line.starts_with("record #")), "{places:?}");
    }
}

#[test]
fn a_file_that_is_shorter_than_captured_is_an_error_that_names_it() {
    for length in [0, 1 << 20, FILE_BYTES as u64 - 1] {
        let file = on_disk();
        let capture = record(file.path(), WHOLE, false);
        file.as_file().set_len(length).unwrap();
        let error = replay(&capture, &|| ()).unwrap_err();
        let places = error.context_lines();
        let path = file.path().display().to_string();
        assert!(error.to_string().contains(&path) || places.iter().any(|it| it.contains(&path)), "{error}");
        assert!(places.iter().any(|line| line.starts_with("record #")), "{places:?}");
    }
}

#[test]
fn a_file_that_is_replaced_or_removed_during_a_run_keeps_its_bytes() {
    let file = on_disk();
    let capture = record(file.path(), WHOLE, false);
    let act = || {
        let other = file.path().with_extension("other");
        fs::write(&other, vec![9; FILE_BYTES]).unwrap();
        fs::rename(&other, file.path()).unwrap();
    };
    let (bytes, _) = replay_on(local_sync(), &capture, FileWrites::Copy, &act).unwrap();
    assert!(bytes == expected(WHOLE));
    let other = replay(&capture, &act).unwrap_err();
    assert!(other.to_string().contains("contents have changed"), "{other}");
}

/// A run that writes the file by another name does not change what it has read.
#[test]
fn a_file_that_the_program_writes_is_copied() {
    for writes in [FileWrites::Copy, FileWrites::InPlace] {
        let file = on_disk();
        let capture = record(file.path(), WHOLE, true);
        let (bytes, is_mapped) = replay_on(local_sync(), &capture, writes, &|| ()).unwrap();
        assert!(bytes == expected(WHOLE) && !is_mapped);
        assert_eq!(fs::read(file.path()).unwrap() == contents(), writes == FileWrites::Copy);
    }
}

/// The system ends a process that accesses a page whose file has been truncated; the file is named.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_truncated_is_named() {
    const IS_CHILD: &str = "REHAL_TEST_TRUNCATED";
    if std::env::var_os(IS_CHILD).is_none() {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "large_files::a_file_that_is_truncated_is_named";
        let output = test.args(["--exact", name, "--nocapture"]).env(IS_CHILD, "1").output().unwrap();
        let (said, shown) =
            (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        let path = shown.lines().find_map(|line| line.strip_prefix("path: ")).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let expected = format!(
            "DATA_LOSS; '{path}' was truncated while it was mapped, or cannot be read (SIGBUS at offset "
        );
        return assert!(said.contains(&expected), "{said}");
    }
    rehal_crash::install();
    let file = on_disk();
    println!("\npath: {}", file.path().display());
    let capture = record(file.path(), WHOLE, false);
    let act = || OpenFile::options().write(true).open(file.path()).unwrap().set_len(1 << 20).unwrap();
    let _ = replay(&capture, &act);
}
