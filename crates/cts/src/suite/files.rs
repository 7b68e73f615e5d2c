//! Files that queues read and write.

use std::fs::File as DiskFile;
use std::io::Write;

use rehal_base::platform::FileExt;
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{BufferRef, BufferUsage, File, HostFile, MemoryAccess, QUEUE_AFFINITY_ANY, WHOLE_BUFFER};

use crate::Capability;
use crate::check::{PERMISSION, RANGE, enforced, equal, holds, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::live::QueueOp;
use crate::test::List;

pub(super) fn add(list: &mut List) {
    for backing in [Backing::Memory, Backing::Disk] {
        let (needs, name) = match backing {
            Backing::Memory => (&[Capability::MemoryFiles], "memory"),
            Backing::Disk => (&[Capability::DiskFiles], "disk"),
        };
        let name = |what: &str| format!("file/{name}/{what}");
        list.add(name("is_described"), needs, move |it| is_described(it, backing));
        list.add(name("read_whole"), needs, move |it| read_whole(it, backing));
        list.add(name("read_every_range"), needs, move |it| read_every_range(it, backing));
        list.add(name("write_ranges"), needs, move |it| write_ranges(it, backing));
        list.add(name("write_then_read"), needs, move |it| write_then_read(it, backing));
        list.add(name("large_round_trip"), needs, move |it| large_round_trip(it, backing));
        list.add(name("empty"), needs, move |it| empty(it, backing));
        list.add(name("ranges_outside_are_refused"), needs, move |it| ranges_outside(it, backing));
        list.add(name("access_is_enforced"), needs, move |it| access_is_enforced(it, backing));
        list.add(name("usage_is_enforced"), needs, move |it| usage_is_enforced(it, backing));
        list.add(name("chained_by_timepoints"), needs, move |it| chained_by_timepoints(it, backing));
        list.add(name("device_local_buffers"), needs, move |it| device_local_buffers(it, backing));
    }
    let disk = &[Capability::DiskFiles];
    list.add("file/disk/writes_reach_the_disk", disk, writes_reach_the_disk);
    list.add("file/disk/opened_for_reading_only", disk, opened_for_reading_only);
    list.add("file/disk/truncated_after_import_fails", disk, truncated_after_import_fails);
}

#[derive(Clone, Copy)]
enum Backing {
    Memory,
    Disk,
}

const BOTH: MemoryAccess = MemoryAccess::READ.union(MemoryAccess::WRITE);

fn io(error: std::io::Error) -> Error {
    Error::io("a scratch file", &error)
}

fn on_disk(bytes: &[u8]) -> Result<DiskFile> {
    let mut file = tempfile::tempfile().map_err(io)?;
    file.write_all(bytes).map_err(io)?;
    Ok(file)
}

fn import(harness: &Harness<'_>, backing: Backing, access: MemoryAccess, bytes: &[u8]) -> Result<File> {
    let file = match backing {
        Backing::Memory => HostFile::from_bytes(bytes)?,
        Backing::Disk => HostFile::Disk(on_disk(bytes)?),
    };
    harness.device.import_file(QUEUE_AFFINITY_ANY, access, file)
}

fn read(harness: &Harness<'_>, file: &File, offset: u64, length: u64) -> Result<Vec<u8>> {
    let buffer = harness.buffer(&vec![0xee; length as usize])?;
    let target = BufferRef::whole(&buffer);
    harness.run(|queue| queue.read(file, offset, target, 0))?;
    harness.read(&buffer)
}

fn is_described(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let file = import(harness, backing, MemoryAccess::READ, &[0; 100])?;
    equal("length", file.length(), 100)?;
    equal("access", file.access(), MemoryAccess::READ)?;
    holds("a file equals its clone", file.is_same(&file.clone()))
}

fn read_whole(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let bytes = noise(1000, 1);
    let file = import(harness, backing, MemoryAccess::READ, &bytes)?;
    same_bytes("the buffer", &read(harness, &file, 0, 1000)?, &bytes)
}

fn read_every_range(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let bytes = noise(16, 1);
    let file = import(harness, backing, MemoryAccess::READ, &bytes)?;
    for file_offset in 0..=16_usize {
        for length in 0..=16 - file_offset {
            let buffer = harness.buffer(&[0xee; 20])?;
            let offset = (file_offset * 7) % (21 - length);
            let target = BufferRef::range(&buffer, offset as u64, length as u64);
            let file_offset_bytes = file_offset as u64;
            harness.run(|queue| queue.read(&file, file_offset_bytes, target, 0))?;
            let mut expected = [0xee; 20];
            expected[offset..offset + length].copy_from_slice(&bytes[file_offset..file_offset + length]);
            let what = format!("{length} bytes from {file_offset} to {offset}");
            same_bytes(&what, &harness.read(&buffer)?, &expected)?;
        }
    }
    Ok(())
}

fn write_ranges(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let (initial, bytes) = (noise(32, 1), noise(32, 2));
    let buffer = harness.buffer(&bytes)?;
    for (from, to, length) in
        [(0_usize, 0_usize, 32_usize), (0, 5, 7), (9, 0, 1), (31, 31, 1), (8, 16, 16), (3, 3, 0)]
    {
        let file = import(harness, backing, BOTH, &initial)?;
        let source = BufferRef::range(&buffer, from as u64, length as u64);
        harness.run(|queue| queue.write(source, &file, to as u64, 0))?;
        let mut expected = initial.clone();
        expected[to..to + length].copy_from_slice(&bytes[from..from + length]);
        let what = format!("{length} bytes from {from} to {to}");
        same_bytes(&what, &read(harness, &file, 0, 32)?, &expected)?;
    }
    Ok(())
}

fn write_then_read(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let file = import(harness, backing, BOTH, &[0; 64])?;
    for round in 1..4_u8 {
        let buffer = harness.buffer(&[round; 16])?;
        let source = BufferRef::whole(&buffer);
        let file_offset = 16 * u64::from(round);
        harness.run(|queue| queue.write(source, &file, file_offset, 0))?;
    }
    let expected = [[0; 16], [1; 16], [2; 16], [3; 16]].concat();
    same_bytes("all rounds", &read(harness, &file, 0, 64)?, &expected)
}

fn large_round_trip(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    const SIZE: usize = (5 << 20) + 333;
    let bytes = noise(SIZE, 3);
    let from = import(harness, backing, MemoryAccess::READ, &bytes)?;
    let to = import(harness, backing, BOTH, &vec![0; SIZE])?;
    let buffer = harness.buffer(&vec![0; SIZE])?;
    harness.run(|queue| queue.read(&from, 0, &buffer, 0))?;
    same_bytes("what was read", &harness.read(&buffer)?, &bytes)?;
    harness.run(|queue| queue.write(&buffer, &to, 0, 0))?;
    same_bytes("what was written", &read(harness, &to, 0, SIZE as u64)?, &bytes)
}

fn empty(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let file = import(harness, backing, BOTH, &[])?;
    equal("length", file.length(), 0)?;
    same_bytes("nothing", &read(harness, &file, 0, 0)?, &[])?;
    refused("a byte of an empty file", read(harness, &file, 0, 1), RANGE)
}

fn ranges_outside(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let file = import(harness, backing, BOTH, &[7; 16])?;
    let buffer = harness.buffer(&[8; 16])?;
    for (file_offset, length) in [(9, 8), (16, 1), (17, 0), (u64::MAX, 1), (u64::MAX - 7, 8)] {
        refused(
            "a read out of bounds of the file",
            harness.run(|queue| queue.read(&file, file_offset, BufferRef::range(&buffer, 0, length), 0)),
            RANGE,
        )?;
        refused(
            "a write out of bounds of the file",
            harness.run(|queue| queue.write(BufferRef::range(&buffer, 0, length), &file, file_offset, 0)),
            RANGE,
        )?;
    }
    for (offset, length) in [(9, 8), (16, 1), (17, WHOLE_BUFFER), (u64::MAX - 3, 8)] {
        refused(
            "a read out of bounds of the buffer",
            harness.run(|queue| queue.read(&file, 0, BufferRef::range(&buffer, offset, length), 0)),
            RANGE,
        )?;
        refused(
            "a write out of bounds of the buffer",
            harness.run(|queue| queue.write(BufferRef::range(&buffer, offset, length), &file, 0, 0)),
            RANGE,
        )?;
    }
    same_bytes("the buffer", &harness.read(&buffer)?, &[8; 16])?;
    same_bytes("the file", &read(harness, &file, 0, 16)?, &[7; 16])
}

fn access_is_enforced(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let buffer = harness.buffer(&[8; 16])?;
    let read_only = import(harness, backing, MemoryAccess::READ, &[7; 16])?;
    refused(
        "a write to a read-only file",
        harness.run(|queue| queue.write(&buffer, &read_only, 0, 0)),
        PERMISSION,
    )?;
    let write_only = import(harness, backing, MemoryAccess::WRITE, &[7; 16])?;
    refused(
        "a read of a write-only file",
        harness.run(|queue| queue.read(&write_only, 0, &buffer, 0)),
        PERMISSION,
    )?;
    same_bytes("the buffer", &harness.read(&buffer)?, &[8; 16])
}

fn usage_is_enforced(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let file = import(harness, backing, BOTH, &[7; 16])?;
    let with = |usage| {
        let params = rehal_hal::BufferParams { usage, ..Harness::mappable() };
        harness.device.allocate_buffer(params, 16)
    };
    let source = with(BufferUsage::TRANSFER_SOURCE)?;
    let usage = BufferUsage::TRANSFER_TARGET;
    enforced(
        "a read into a buffer without TRANSFER_TARGET usage",
        &source,
        usage,
        harness.run(|queue| queue.read(&file, 0, &source, 0)),
    )?;
    let target = with(BufferUsage::TRANSFER_TARGET)?;
    let usage = BufferUsage::TRANSFER_SOURCE;
    enforced(
        "a write from a buffer without TRANSFER_SOURCE usage",
        &target,
        usage,
        harness.run(|queue| queue.write(&target, &file, 0, 0)),
    )
}

/// Reads, changes, writes and reads back: all submitted without a wait in between.
fn chained_by_timepoints(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let bytes = noise(64, 3);
    let file = import(harness, backing, BOTH, &bytes)?;
    let first = harness.buffer(&[0; 64])?;
    let second = harness.buffer(&[0; 64])?;
    let timeline = harness.semaphore()?;
    let points: Vec<_> = (1..=5).map(|value| timeline.at(value)).collect();
    let ops = [
        QueueOp::Read {
            file: &file,
            file_offset: 0,
            target: BufferRef::whole(&first),
            captured: (),
            flags: 0,
        },
        QueueOp::Fill { target: BufferRef::range(&first, 16, 16), pattern: &[1, 2], flags: 0 },
        QueueOp::Write { source: BufferRef::whole(&first), file: &file, file_offset: 0, flags: 0 },
        QueueOp::Read {
            file: &file,
            file_offset: 0,
            target: BufferRef::whole(&second),
            captured: (),
            flags: 0,
        },
    ];
    for (pair, op) in points.windows(2).zip(ops) {
        harness.queue().wait(&pair[..1]).signal(&pair[1..]).submit(op)?;
    }
    harness.settle()?;
    same_bytes("before", &harness.read(&first)?, &[0; 64])?;
    timeline.signal(1)?;
    harness.wait(&timeline, 5)?;
    let mut expected = bytes;
    expected[16..32].copy_from_slice(&[1, 2].repeat(8));
    same_bytes("read back", &harness.read(&second)?, &expected)
}

fn device_local_buffers(harness: &Harness<'_>, backing: Backing) -> Result<()> {
    let bytes = noise(100, 3);
    let from = import(harness, backing, MemoryAccess::READ, &bytes)?;
    let to = import(harness, backing, BOTH, &[0; 100])?;
    let buffer = harness.device.allocate_buffer(rehal_hal::BufferParams::default(), 100)?;
    harness.run(|queue| queue.read(&from, 0, &buffer, 0))?;
    same_bytes("what was read", &harness.read(&buffer)?, &bytes)?;
    harness.run(|queue| queue.write(&buffer, &to, 0, 0))?;
    same_bytes("what was written", &read(harness, &to, 0, 100)?, &bytes)
}

fn writes_reach_the_disk(harness: &Harness<'_>) -> Result<()> {
    let disk = on_disk(&[0; 32])?;
    let same = disk.try_clone().map_err(io)?;
    let file = harness.device.import_file(QUEUE_AFFINITY_ANY, BOTH, HostFile::Disk(disk))?;
    let buffer = harness.buffer(&noise(16, 8))?;
    harness.run(|queue| queue.write(&buffer, &file, 8, 0))?;
    let mut found = [0; 32];
    same.read_exact_at(&mut found, 0).map_err(io)?;
    same_bytes("on disk", &found, &[&[0; 8], &noise(16, 8)[..], &[0; 8]].concat())
}

fn opened_for_reading_only(harness: &Harness<'_>) -> Result<()> {
    let mut named = tempfile::NamedTempFile::new().map_err(io)?;
    named.write_all(&[5; 16]).map_err(io)?;
    let disk = DiskFile::open(named.path()).map_err(io)?;
    let file = harness.device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, HostFile::Disk(disk))?;
    same_bytes("the bytes", &read(harness, &file, 0, 16)?, &[5; 16])?;
    // Imported for more access than the file descriptor allows: fails at import or at the write.
    let disk = DiskFile::open(named.path()).map_err(io)?;
    let buffer = harness.buffer(&[6; 16])?;
    let outcome =
        harness.device.import_file(QUEUE_AFFINITY_ANY, BOTH, HostFile::Disk(disk)).and_then(|file| {
            let source = BufferRef::whole(&buffer);
            harness.run(|queue| queue.write(source, &file, 0, 0))
        });
    holds("a write to a read-only descriptor fails", outcome.is_err())?;
    same_bytes("on disk", &std::fs::read(named.path()).map_err(io)?, &[5; 16])
}

fn truncated_after_import_fails(harness: &Harness<'_>) -> Result<()> {
    let disk = on_disk(&[5; 64])?;
    let same = disk.try_clone().map_err(io)?;
    let file = harness.device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ, HostFile::Disk(disk))?;
    same.set_len(10).map_err(io)?;
    let codes = &[StatusCode::DataLoss, StatusCode::OutOfRange, StatusCode::Unavailable];
    refused("a read beyond the end", read(harness, &file, 0, 64), codes)?;
    same_bytes("the remaining bytes", &read(harness, &file, 0, 10)?, &[5; 10])
}
