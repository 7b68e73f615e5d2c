//! Queue-ordered buffers: alloca to dealloca.

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{Buffer, BufferParams, BufferRef, BufferUsage, CommandBufferMode, MemoryAccess, Semaphore};

use crate::check::{ARGUMENT, equal, holds, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::live::{Command, QueueOp};
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("transient/alloca_use_dealloca", &[], alloca_use_dealloca);
    list.add("transient/is_described_at_once", &[], is_described_at_once);
    list.add("transient/no_access_named_means_all", &[], no_access_named_means_all);
    list.add("transient/zero_size", &[], zero_size);
    list.add("transient/too_much_memory_fails", &[], too_much_memory_fails);
    list.add("transient/wrong_alignment_is_refused", &[], wrong_alignment_is_refused);
    list.add("transient/named_before_it_is_there", &[], named_before_it_is_there);
    list.add("transient/recorded_before_it_is_there", &[], recorded_before_it_is_there);
    list.add("transient/bound_before_it_is_there", &[], bound_before_it_is_there);
    list.add("transient/use_after_dealloca_fails", &[], use_after_dealloca_fails);
    list.add("transient/second_dealloca_fails", &[], second_dealloca_fails);
    list.add("transient/failed_dealloca_leaves_it", &[], failed_dealloca_leaves_it);
    list.add("transient/commands_after_dealloca_fail", &[], commands_after_dealloca_fail);
    list.add("transient/handle_dropped_before_dealloca_runs", &[], handle_dropped_before_dealloca_runs);
    list.add("transient/never_deallocated", &[], never_deallocated);
    list.add("transient/many_cycles", &[], many_cycles);
    list.add("transient/pipelined_cycles_keep_apart", &[], pipelined_cycles_keep_apart);
    list.add("transient/command_buffer_transfers", &[], command_buffer_transfers);
}

const AFTER_DEALLOCA: &[StatusCode] = &[StatusCode::FailedPrecondition, StatusCode::InvalidArgument];

fn fill(harness: &Harness<'_>, buffer: &Buffer, value: u8) -> Result<()> {
    harness.run(|queue| queue.fill(buffer, &[value], 0))
}

fn dealloca(harness: &Harness<'_>, buffer: &Buffer) -> Result<()> {
    harness.run(|queue| queue.dealloca(buffer, 0))
}

fn alloca(
    harness: &Harness<'_>,
    wait: (&Semaphore, u64),
    signal: (&Semaphore, u64),
    size: u64,
) -> Result<Buffer> {
    let (waits, signals) = ([wait.0.at(wait.1)], [signal.0.at(signal.1)]);
    harness.queue().wait(&waits).signal(&signals).alloca(BufferParams::default(), size, 0)
}

fn alloca_use_dealloca(harness: &Harness<'_>) -> Result<()> {
    for size in [1, 64, 1000, 1 << 20] {
        let bytes = noise(size, 4);
        let buffer = harness.transient(&bytes)?;
        same_bytes("written by an update", &harness.read(&buffer)?, &bytes)?;
        fill(harness, &buffer, 0xab)?;
        same_bytes("written by a fill", &harness.read(&buffer)?, &vec![0xab; size])?;
        dealloca(harness, &buffer)?;
    }
    Ok(())
}

fn is_described_at_once(harness: &Harness<'_>) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    let buffer = alloca(harness, (&gate, 1), (&done, 1), 4096)?;
    equal("size", buffer.size(), 4096)?;
    let usage = BufferUsage::TRANSFER_SOURCE
        | BufferUsage::TRANSFER_TARGET
        | BufferUsage::DISPATCH_STORAGE_READ
        | BufferUsage::DISPATCH_STORAGE_WRITE;
    holds("it has the usage", buffer.params().usage.contains(usage))?;
    equal("not allocated yet", done.query()?, 0)?;
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    dealloca(harness, &buffer)
}

fn no_access_named_means_all(harness: &Harness<'_>) -> Result<()> {
    let done = harness.semaphore()?;
    let params = BufferParams { access: MemoryAccess::empty(), ..BufferParams::default() };
    let buffer = harness.queue().signal(&[done.at(1)]).alloca(params, 16, 0)?;
    harness.wait(&done, 1)?;
    fill(harness, &buffer, 7)?;
    same_bytes("the buffer", &harness.read(&buffer)?, &[7; 16])
}

fn zero_size(harness: &Harness<'_>) -> Result<()> {
    let done = harness.semaphore()?;
    let buffer = alloca(harness, (&done, 0), (&done, 1), 0)?;
    harness.wait(&done, 1)?;
    equal("size", buffer.size(), 0)?;
    dealloca(harness, &buffer)
}

fn too_much_memory_fails(harness: &Harness<'_>) -> Result<()> {
    let codes = &[StatusCode::ResourceExhausted, StatusCode::OutOfRange, StatusCode::InvalidArgument];
    for size in [u64::MAX, 1 << 60] {
        let done = harness.semaphore()?;
        let outcome = match alloca(harness, (&done, 0), (&done, 1), size) {
            Ok(_) => harness.wait(&done, 1),
            Err(error) => Err(error),
        };
        refused("an alloca larger than any memory", outcome, codes)?;
    }
    harness.settle()
}

fn wrong_alignment_is_refused(harness: &Harness<'_>) -> Result<()> {
    let params = BufferParams { min_alignment: 12, ..BufferParams::default() };
    let done = harness.semaphore()?;
    let signals = [done.at(1)];
    refused("an alignment", harness.queue().signal(&signals).alloca(params, 16, 0), ARGUMENT)
}

/// The whole lifetime is submitted before any of it executes.
fn named_before_it_is_there(harness: &Harness<'_>) -> Result<()> {
    let timeline = harness.semaphore()?;
    let target = harness.buffer(&[0; 8])?;
    let buffer = alloca(harness, (&timeline, 1), (&timeline, 2), 8)?;
    let points: Vec<_> = (2..=5).map(|value| timeline.at(value)).collect();
    let ops = [
        QueueOp::Fill { target: BufferRef::whole(&buffer), pattern: &[1, 2, 3, 4], flags: 0 },
        QueueOp::Copy { source: BufferRef::whole(&buffer), target: BufferRef::whole(&target), flags: 0 },
        QueueOp::Dealloca { buffer: &buffer, size: (), flags: 0 },
    ];
    for (pair, op) in points.windows(2).zip(ops) {
        harness.queue().wait(&pair[..1]).signal(&pair[1..]).submit(op)?;
    }
    harness.settle()?;
    equal("before", timeline.query()?, 0)?;
    timeline.signal(1)?;
    harness.wait(&timeline, 5)?;
    same_bytes("what was copied out", &harness.read(&target)?, &[1, 2, 3, 4, 1, 2, 3, 4])
}

fn recorded_before_it_is_there(harness: &Harness<'_>) -> Result<()> {
    let timeline = harness.semaphore()?;
    let target = harness.buffer(&[0; 8])?;
    let buffer = alloca(harness, (&timeline, 1), (&timeline, 2), 8)?;
    let commands = harness.begin(CommandBufferMode::ONE_SHOT, 0)?;
    commands.fill(&buffer, &[6])?;
    commands.barrier()?;
    let (source, to) = (BufferRef::whole(&buffer), BufferRef::whole(&target));
    commands.copy(source, to)?;
    commands.end()?;
    harness.queue().wait(&[timeline.at(2)]).signal(&[timeline.at(3)]).execute(&commands, &[], 0)?;
    timeline.signal(1)?;
    harness.wait(&timeline, 3)?;
    same_bytes("what was copied out", &harness.read(&target)?, &[6; 8])
}

fn bound_before_it_is_there(harness: &Harness<'_>) -> Result<()> {
    let timeline = harness.semaphore()?;
    let commands = harness.begin(CommandBufferMode::empty(), 1)?;
    // All of it: bytes that nothing writes have no value that a replay could read again.
    for (offset, length, pattern) in [(0, 2, &[5][..]), (2, 4, &[6, 7]), (6, 2, &[5])] {
        commands.fill(BufferRef::slot(0, offset, length), pattern)?;
    }
    commands.end()?;
    let buffer = alloca(harness, (&timeline, 1), (&timeline, 2), 8)?;
    {
        let bindings = [BufferRef::whole(&buffer)];
        harness.queue().wait(&[timeline.at(2)]).signal(&[timeline.at(3)]).execute(&commands, &bindings, 0)?;
    }
    timeline.signal(1)?;
    harness.wait(&timeline, 3)?;
    same_bytes("the whole", &harness.read(&buffer)?, &[5, 5, 6, 7, 6, 7, 5, 5])
}

fn use_after_dealloca_fails(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.transient(&[1; 16])?;
    let other = harness.buffer(&[2; 16])?;
    dealloca(harness, &buffer)?;
    refused("a fill", fill(harness, &buffer, 1), AFTER_DEALLOCA)?;
    refused("an update", harness.run(|queue| queue.update(&[1; 16], &buffer, 0)), AFTER_DEALLOCA)?;
    refused("a copy to it", harness.run(|queue| queue.copy(&other, &buffer, 0)), AFTER_DEALLOCA)?;
    refused("a copy from it", harness.run(|queue| queue.copy(&buffer, &other, 0)), AFTER_DEALLOCA)?;
    refused("a read by the host", harness.read(&buffer).map(drop), AFTER_DEALLOCA)?;
    same_bytes("nothing was copied", &harness.read(&other)?, &[2; 16])
}

fn second_dealloca_fails(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.transient(&[1; 16])?;
    dealloca(harness, &buffer)?;
    refused("a second dealloca", dealloca(harness, &buffer), AFTER_DEALLOCA)?;
    harness.settle()
}

fn failed_dealloca_leaves_it(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.transient(&[1; 16])?;
    let (gate, done) = harness.two_semaphores()?;
    harness.queue().wait(&[gate.at(1)]).signal(&[done.at(1)]).dealloca(&buffer, 0)?;
    gate.fail(Error::new(StatusCode::Cancelled, "no dealloca"));
    harness.expect_failure("the dealloca", &done, StatusCode::Cancelled)?;
    fill(harness, &buffer, 0xcd)?;
    same_bytes("it still works", &harness.read(&buffer)?, &[0xcd; 16])?;
    dealloca(harness, &buffer)
}

fn commands_after_dealloca_fail(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.transient(&[1; 16])?;
    let witness = harness.buffer(&[0; 4])?;
    let commands = harness.begin(CommandBufferMode::empty(), 0)?;
    commands.fill(&buffer, &[6])?;
    commands.barrier()?;
    commands.fill(&witness, &[6])?;
    commands.end()?;
    harness.execute(&commands, &[])?;
    dealloca(harness, &buffer)?;
    witness.write(0, &[0; 4])?;
    refused("the second time", harness.execute(&commands, &[]), AFTER_DEALLOCA)?;
    same_bytes("commands after a failure do not execute", &harness.read(&witness)?, &[0; 4])
}

fn handle_dropped_before_dealloca_runs(harness: &Harness<'_>) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    {
        let buffer = harness.transient(&[1; 16])?;
        harness.queue().wait(&[gate.at(1)]).signal(&[done.at(1)]).dealloca(&buffer, 0)?;
    }
    gate.signal(1)?;
    harness.wait(&done, 1)
}

fn never_deallocated(harness: &Harness<'_>) -> Result<()> {
    for _ in 0..100 {
        // More than fits in memory unless dropping the handle frees it.
        drop(harness.transient(&[1; 1 << 16])?);
    }
    harness.settle()
}

fn many_cycles(harness: &Harness<'_>) -> Result<()> {
    const CYCLES: u64 = 200;
    let timeline = harness.semaphore()?;
    let sum = harness.buffer(&[0; CYCLES as usize])?;
    for cycle in 0..CYCLES {
        let start = 3 * cycle;
        let buffer = alloca(harness, (&timeline, start), (&timeline, start + 1), 4096)?;
        let pattern = [cycle as u8];
        let points: Vec<_> = (start + 1..=start + 3).map(|value| timeline.at(value)).collect();
        let target = BufferRef::range(&sum, cycle, 1);
        let ops = [
            QueueOp::Fill { target, pattern: &pattern, flags: 0 },
            QueueOp::Dealloca { buffer: &buffer, size: (), flags: 0 },
        ];
        for (pair, op) in points.windows(2).zip(ops) {
            harness.queue().wait(&pair[..1]).signal(&pair[1..]).submit(op)?;
        }
    }
    harness.wait(&timeline, 3 * CYCLES)?;
    let expected: Vec<_> = (0..CYCLES).map(|cycle| cycle as u8).collect();
    same_bytes("each cycle", &harness.read(&sum)?, &expected)
}

/// Several lifetimes overlap: none may get memory that another still uses.
fn pipelined_cycles_keep_apart(harness: &Harness<'_>) -> Result<()> {
    let gate = harness.semaphore()?;
    let mut lives = Vec::new();
    for life in 0..12_u8 {
        let (timeline, target) = (harness.semaphore()?, harness.buffer(&[0; 256])?);
        let buffer = alloca(harness, (&gate, 1), (&timeline, 1), 256)?;
        let pattern = [life + 1];
        let points: Vec<_> = (1..=5).map(|value| timeline.at(value)).collect();
        let whole = BufferRef::whole(&buffer);
        let ops = [
            QueueOp::Fill { target: whole, pattern: &pattern, flags: 0 },
            QueueOp::Barrier { flags: 0 },
            QueueOp::Copy { source: whole, target: BufferRef::whole(&target), flags: 0 },
            QueueOp::Dealloca { buffer: &buffer, size: (), flags: 0 },
        ];
        for (pair, op) in points.windows(2).zip(ops) {
            harness.queue().wait(&pair[..1]).signal(&pair[1..]).submit(op)?;
        }
        lives.push((timeline.clone(), target.clone()));
    }
    gate.signal(1)?;
    for (life, (timeline, target)) in (1..).zip(&lives) {
        harness.wait(timeline, 5)?;
        same_bytes("a lifetime", &harness.read(target)?, &[life; 256])?;
    }
    Ok(())
}

fn command_buffer_transfers(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.transient(&[0; 32])?;
    let target = harness.buffer(&[9; 32])?;
    let commands = harness.begin(CommandBufferMode::ONE_SHOT, 1)?;
    commands.fill(BufferRef::range(&buffer, 0, 16), &[1])?;
    let update = Command::Update { source: &[1, 2, 3], target: BufferRef::range(&buffer, 20, 3), flags: 0 };
    commands.record(&update)?;
    commands.barrier()?;
    let (source, to) = (BufferRef::range(&buffer, 0, 32), BufferRef::slot(0, 0, 32));
    commands.copy(source, to)?;
    commands.end()?;
    harness.execute(&commands, &[BufferRef::from(&target)])?;
    let mut expected = [0; 32];
    expected[..16].fill(1);
    expected[20..23].copy_from_slice(&[1, 2, 3]);
    same_bytes("what was copied out", &harness.read(&target)?, &expected)?;
    dealloca(harness, &buffer)
}
