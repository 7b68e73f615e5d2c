//! Large reads of files, whose pages buffers share with the file: replays see the bytes of a copy, whatever
//! happens to the file, or fail.

use std::fs::{self, File as OpenFile};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rehal_base::{Result, StatusCode, mapped_file_at};
use rehal_hal::{BufferRef, Device, DeviceGroup, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY};
use rehal_replay::{
    FileValidation, FileWrites, HostRead, Observer, Plan, PlanOptions, RecordOptions, Replay, ReplayOptions,
    Scope,
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
    let program = Program::new(RecordOptions::default().file_validation(FileValidation::Digest));
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
    let plan = Plan::compile(capture.to_vec(), PlanOptions::default())?;
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
