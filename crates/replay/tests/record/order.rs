//! One stream for all devices and threads: a capture is ordered by causality.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rehal_capture::{Capture, OpenOptions, OperationCode as Code, Payload};
use rehal_cts::late::LateDevice;
use rehal_hal::{
    BufferRef, Command, CommandBufferMode, CommandBufferParams, CommandCategories, HostCallFlags,
    MemoryAccess, QUEUE_AFFINITY_ANY, SemaphoreFlags,
};
use rehal_replay::{RecordOptions, ReplayOrder};

use crate::program::{
    Program, Reads, each_operation, host_call, local_sync, mappable, operations, replay, replay_in, watched,
};

/// Work that executes inside its submit call signals before the call returns; calls triggered by the signal
/// are recorded after the submission.
#[test]
fn calls_triggered_by_a_submission_are_recorded_after_it() {
    [RecordOptions::default(), watched()].into_iter().for_each(triggered_calls);
}

fn triggered_calls(options: RecordOptions) {
    let program = Program::new(options);
    let buffer = program.buffer(&[0; 4]);
    let done = program.semaphore();
    let seen = Arc::new(AtomicU32::new(0));
    let read = {
        let (buffer, seen) = (buffer.clone(), seen.clone());
        move |outcome: rehal_base::Result<()>| {
            outcome.unwrap();
            let mut bytes = [0; 4];
            buffer.read(0, &mut bytes).unwrap();
            seen.store(u32::from_le_bytes(bytes), Ordering::Relaxed);
        }
    };
    let _registration = done.on_reached(1, Box::new(read));
    let signals = [done.at(1)];
    program.device().queue(QUEUE_AFFINITY_ANY).signal(&signals).fill(&buffer, &[5], 0).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 0x0505_0505);

    let capture = program.capture();
    let codes: Vec<_> = operations(&capture).iter().map(|(code, _)| *code).collect();
    let fill = codes.iter().position(|code| *code == Code::DEVICE_QUEUE_FILL).unwrap();
    assert_eq!(codes[fill + 1..], [Code::BUFFER_MAP_RANGE, Code::BUFFER_UNMAP_RANGE]);
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0, [[5; 4]]);
}

#[test]
fn a_submission_that_fails_is_recorded_with_its_status() {
    let program = Program::new(RecordOptions::default());
    let fail = host_call(|| Err(rehal_base::Error::data_loss("gone")));
    // Without a semaphore to carry it, the call returns the error.
    let failed = program
        .device()
        .queue(QUEUE_AFFINITY_ANY)
        .host_call(&fail, [0; 4], HostCallFlags::empty())
        .unwrap_err();
    assert_eq!(failed.message(), "gone");
    let capture = program.capture();
    assert_eq!(operations(&capture), [(Code::DEVICE_QUEUE_HOST_CALL, failed.code() as u32)]);
    // A failed call has no effect, so a replay skips it.
    replay(&capture, &mut Reads::default()).unwrap();
}

/// As in the reference's captures.
#[test]
fn empty_transfers_are_not_recorded() {
    let program = Program::new(RecordOptions::default());
    let buffer = program.buffer(&[1; 4]);
    let commands = program
        .device()
        .create_command_buffer(CommandBufferParams {
            categories: CommandCategories::TRANSFER,
            ..CommandBufferParams::default().one_shot(true)
        })
        .unwrap();
    let nothing = BufferRef { length: 0, ..BufferRef::whole(&buffer) };
    commands.begin().unwrap();
    commands.record(&Command::Fill { target: nothing, pattern: &[7], flags: 0 }).unwrap();
    commands.record(&Command::Copy { source: nothing, target: nothing, flags: 0 }).unwrap();
    commands.record(&Command::Update { source: &[], target: nothing, flags: 0 }).unwrap();
    commands.end().unwrap();
    let codes: Vec<_> = operations(&program.capture()).iter().map(|(code, _)| *code).collect();
    assert!(codes.ends_with(&[Code::COMMAND_BUFFER_BEGIN, Code::COMMAND_BUFFER_END]), "{codes:?}");
}

/// A copy without a length between a subspan and a whole buffer: a replay compares the recorded lengths.
#[test]
fn copies_of_subspans_have_equal_lengths() {
    let program = Program::new(RecordOptions::default());
    let (source, target) = (program.buffer(&[1, 2, 3, 4, 5, 6, 7, 8]), program.buffer(&[0; 4]));
    let part = source.subspan(2, 4).unwrap();
    let (part, whole) = (BufferRef::whole(&part), BufferRef::whole(&target));
    let device = program.device();
    device.queue(QUEUE_AFFINITY_ANY).copy(part, whole, 0).unwrap();
    let commands = device
        .create_command_buffer(CommandBufferParams {
            mode: CommandBufferMode::ONE_SHOT,
            categories: CommandCategories::TRANSFER,
            affinity: QUEUE_AFFINITY_ANY,
            binding_capacity: 1,
        })
        .unwrap();
    commands.begin().unwrap();
    let slot = BufferRef::slot(0, 0, part.length);
    commands.record(&Command::Copy { source: whole, target: part, flags: 0 }).unwrap();
    commands.record(&Command::Copy { source: part, target: slot, flags: 0 }).unwrap();
    commands.end().unwrap();
    device.queue(QUEUE_AFFINITY_ANY).execute(&commands, &[whole], 0).unwrap();
    let mut bytes = [0; 4];
    target.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [3, 4, 5, 6]);

    let capture = program.capture();
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0, [[3, 4, 5, 6]]);
    let mut bindings = Vec::new();
    each_operation(&capture, |record| {
        if let Payload::QueueExecute(it) = record.payload().unwrap() {
            bindings.extend(it.bindings.iter().map(|binding| binding.length.get()));
        }
    });
    assert_eq!(bindings, [4], "the reference does not support the whole-buffer value in a binding table");
}

#[test]
fn devices_of_a_group_write_one_stream() {
    let program = Program::on(vec![local_sync(), local_sync()], RecordOptions::default());
    let shared = program.semaphore();
    for (value, device) in program.devices.iter().enumerate() {
        let (waits, signals) = ([shared.at(value as u64)], [shared.at(value as u64 + 1)]);
        device.queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals).barrier(0).unwrap();
    }
    let capture = program.capture();
    let mut submitted = Vec::new();
    each_operation(&capture, |record| {
        if record.operation() == Code::DEVICE_QUEUE_EXECUTE {
            submitted.push((record.header.device_id.get(), record.header.object_id.get()));
        }
    });
    // Each device is followed by its allocator.
    assert_eq!(submitted, [(1, 1), (3, 3)]);
    replay(&capture, &mut Reads::default()).unwrap();
}

/// A submission waits for a value that only the host signals: without a barrier in the capture, a replay
/// would deadlock.
#[test]
fn host_signals_that_submissions_wait_for_are_recorded() {
    let program = Program::new(RecordOptions::default());
    let (gate, unused) = (program.semaphore(), program.semaphore());
    unused.signal(1).unwrap();
    gate.signal(3).unwrap();
    let waits = [gate.at(2)];
    program.device().queue(QUEUE_AFFINITY_ANY).wait(&waits).barrier(0).unwrap();
    gate.signal(4).unwrap();
    let waits = [gate.at(3)];
    program.device().queue(QUEUE_AFFINITY_ANY).wait(&waits).barrier(0).unwrap();
    let capture = program.capture();
    let mut barriers = Vec::new();
    each_operation(&capture, |record| {
        if let Payload::QueueExecute(it) = record.payload().unwrap() {
            let values = |list: &[rehal_capture::layout::SemaphoreTimepoint]| {
                list.iter().map(|it| it.value.get()).collect::<Vec<_>>()
            };
            barriers.push((values(it.waits), values(it.signals)));
        }
    });
    assert_eq!(barriers, [(vec![], vec![3]), (vec![2], vec![]), (vec![3], vec![])]);
    replay(&capture, &mut Reads::default()).unwrap();
}

/// A rejected submission signals nothing: if the host signals in its place, the capture has that signal.
#[test]
fn host_signals_in_place_of_a_rejected_submission_are_recorded() {
    let program = Program::new(RecordOptions::default());
    let gate = program.semaphore();
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    let refused = queue.signal(&[gate.at(1)]).alloca(mappable(), u64::MAX, 0);
    assert!(refused.is_err() && gate.query().unwrap() == 0);
    gate.signal(1).unwrap();
    queue.wait(&[gate.at(1)]).barrier(0).unwrap();
    replay(&program.capture(), &mut Reads::default()).unwrap();
}

#[test]
fn a_later_host_signal_is_recorded_after_the_work() {
    let program = Program::new(RecordOptions::default());
    let gate = program.semaphore();
    let waits = [gate.at(1)];
    program.device().queue(QUEUE_AFFINITY_ANY).wait(&waits).barrier(0).unwrap();
    gate.signal(1).unwrap();
    let mut lists = Vec::new();
    each_operation(&program.capture(), |record| {
        if let Payload::QueueExecute(it) = record.payload().unwrap() {
            lists.push((it.waits.len(), it.signals.len()));
        }
    });
    assert_eq!(lists, [(1, 0), (0, 1)]);
}

/// Submissions issued before their waits are signalled, on one timeline and across two, replay with the same
/// results.
#[test]
fn out_of_order_submissions_replay() {
    let program = Program::new(RecordOptions::default());
    let (timeline, other) = (program.semaphore(), program.semaphore());
    let (first, second) = (program.buffer(&[0; 4]), program.buffer(&[9; 4]));
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    // In reverse: the copy waits for the fill, which waits for the host.
    queue.wait(&[other.at(1)]).signal(&[timeline.at(5)]).copy(&first, &second, 0).unwrap();
    queue.wait(&[timeline.at(2)]).signal(&[other.at(1)]).fill(&first, &[7], 0).unwrap();
    let transient = queue.wait(&[timeline.at(5)]).signal(&[timeline.at(6)]).alloca(mappable(), 4, 0).unwrap();
    assert_eq!((timeline.query().unwrap(), other.query().unwrap()), (0, 0));
    timeline.signal(2).unwrap();
    assert_eq!(timeline.query().unwrap(), 6);
    // Signals of completed work count: this submission does not wait, and needs no signal of the host.
    queue.wait(&[timeline.at(6)]).signal(&[timeline.at(7)]).copy(&second, &transient, 0).unwrap();
    timeline.signal(8).unwrap();
    queue.wait(&[timeline.at(8)]).dealloca(&transient, 0).unwrap();
    let mut bytes = [0; 4];
    second.read(0, &mut bytes).unwrap();
    let mut reads = Reads::default();
    replay(&program.capture(), &mut reads).unwrap();
    assert_eq!(reads.0, [[7; 4]]);
}

/// Several threads: every record is complete, ordinals have no gaps, and each thread's calls keep their
/// order.
#[test]
fn threads_write_one_stream() {
    const THREADS: u8 = 4;
    const ROUNDS: u8 = 50;
    let program = Program::new(RecordOptions::default());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let device = program.device();
            let buffer = program.buffer(&[0; 8]);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let done =
                        device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
                    let signals = [done.at(1)];
                    let pattern = [thread * ROUNDS + round];
                    let target = BufferRef::whole(&buffer);
                    device.queue(QUEUE_AFFINITY_ANY).signal(&signals).fill(target, &pattern, 0).unwrap();
                    let mapping = buffer.map(MemoryAccess::READ, 0, 8).unwrap();
                    assert_eq!(mapping.source().unwrap().load(0).unwrap(), [pattern[0]; 8]);
                }
            });
        }
    });
    let capture = program.capture();
    let opened = Capture::open(&capture, OpenOptions::default()).unwrap();
    let mut fills = std::collections::HashMap::<u64, Vec<u8>>::new();
    for record in opened.records().map(|record| record.unwrap()) {
        if let Payload::QueueFill(it) = record.payload().unwrap() {
            fills.entry(record.header.thread_id.get()).or_default().push(it.pattern[0]);
        }
    }
    assert_eq!(fills.len(), usize::from(THREADS), "threads are distinguished");
    for fills in fills.values() {
        assert!(fills.len() == usize::from(ROUNDS) && fills.is_sorted());
    }
    replay(&capture, &mut Reads::default()).unwrap();
}

/// Each thread submits work that waits for what the other thread signals later: with a submission, or as the
/// host.
#[test]
fn threads_that_wait_for_each_other_replay_in_both_orders() {
    const ROUNDS: u64 = 20;
    let program = Program::new(RecordOptions::default());
    let (request, answer) = (program.semaphore(), program.semaphore());
    let buffers = [program.buffer(&[0; 4]), program.buffer(&[0; 4])];
    let [mine, other] = &buffers;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                let queue = program.device().queue(QUEUE_AFFINITY_ANY);
                // Issued at any time: the round's fill of the other thread is ordered before it.
                queue.wait(&[request.at(round)]).signal(&[answer.at(round)]).copy(mine, other, 0).unwrap();
            }
        });
        for round in 1..=ROUNDS {
            program.device().queue(QUEUE_AFFINITY_ANY).fill(mine, &[round as u8], 0).unwrap();
            match round % 2 {
                0 => request.signal(round).unwrap(),
                _ => {
                    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
                    queue.signal(&[request.at(round)]).barrier(0).unwrap();
                }
            }
            answer.wait(round, None).unwrap();
            let mapping = other.map(MemoryAccess::READ, 0, 4).unwrap();
            assert_eq!(mapping.source().unwrap().load(0).unwrap(), [round as u8; 4]);
        }
    });
    let capture = program.capture();
    let expected: Vec<_> = (1..=ROUNDS).map(|round| vec![round as u8; 4]).collect();
    for seed in 0..20 {
        for order in [ReplayOrder::Serialized, ReplayOrder::Captured] {
            let mut reads = Reads::default();
            let late = || LateDevice::over(local_sync(), seed, Duration::from_micros(200));
            replay_in(&capture, order, &late, &mut reads).unwrap();
            assert_eq!(reads.0, expected, "{} order, seed {seed}", order.name());
        }
    }
}
