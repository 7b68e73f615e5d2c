//! Replays that perform operations one by one. The helpers compare every hand-built capture of these tests
//! with such a replay of it; here are what its observers see, and where it may end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use rehal_base::{Result, StatusCode};
use rehal_capture::OperationCode as Op;
use rehal_cts::late::LateDevice;
use rehal_hal::profile::QueueOpKind;
use rehal_hal::{CommandBufferMode, DeviceGroup};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{
    AccessKind, HostRead, Observer, Operation, Plan, PlanOptions, RecordLocation, Replay, ReplayOptions,
    ReplayOrder,
};
use zerocopy::little_endian::U32;

use crate::captured::{RandomProgram, expected};
use crate::common::{
    CaptureBuilder, FileSpec, Observed, ObservedOperation, Ran, Stepped, code, function, range, slot,
    stepped, whole,
};

fn plan(capture: &CaptureBuilder) -> Arc<Plan> {
    Arc::new(Plan::compile(capture.finish(), PlanOptions::default()).unwrap())
}

fn step_with(
    capture: &CaptureBuilder,
    mut operations: Stepped,
) -> (Result<Observed>, Vec<ObservedOperation>) {
    let observed = stepped(&plan(capture), &ReplayOptions::default(), &mut operations);
    (observed, operations.operations)
}

fn step(capture: &CaptureBuilder) -> Vec<ObservedOperation> {
    let (observed, operations) = step_with(capture, Stepped::default());
    observed.unwrap();
    operations
}

fn records(operations: &[ObservedOperation]) -> Vec<u32> {
    operations.iter().map(|it| it.record).collect()
}

#[test]
fn each_execution_of_a_command_is_an_operation() {
    let mut capture = CaptureBuilder::new();
    let (source, target) = (capture.buffer(8), capture.buffer(16));
    let mut records = Vec::new();
    let commands = capture.commands(1, |it, commands| {
        it.command_fill(commands, slot(0, 2, u64::MAX), &[7]);
        records.push(it.place().ordinal);
        it.command_barrier(commands, &[], &[]);
        it.command_copy(commands, range(source, 4, 2), slot(0, 1, 2));
        records.push(it.place().ordinal);
    });
    capture.scope_begin("first");
    capture.execute(commands, &[range(target, 8, 6)]);
    let first = capture.place().ordinal;
    capture.scope_end("first");
    capture.execute(commands, &[whole(target)]);
    let second = capture.place().ordinal;
    let seen = |submission, record: usize, occurrence, kind, ranges: &[_]| ObservedOperation {
        submission,
        record: records[record],
        occurrence,
        scope: (occurrence == 0).then(|| "first".to_string()),
        kind,
        ranges: ranges.to_vec(),
        ranges_after: ranges.to_vec(),
        is_complete: true,
    };
    let read = (AccessKind::Reads, source, 4, 2);
    let writes = |offset, length| (AccessKind::Writes, target, offset, length);
    let expected = [
        seen(first, 0, 0, QueueOpKind::Fill, &[writes(10, 4)]),
        seen(first, 1, 0, QueueOpKind::Copy, &[read, writes(9, 2)]),
        seen(second, 0, 1, QueueOpKind::Fill, &[writes(2, 14)]),
        seen(second, 1, 1, QueueOpKind::Copy, &[read, writes(1, 2)]),
    ];
    assert_eq!(step(&capture), expected);
}

#[test]
fn queue_operations_are_operations() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let file = capture.file(&FileSpec::inline(b"contents"));
    let transient = capture.alloca(8);
    capture.update(range(transient, 0, 4), b"1234");
    capture.file_read(file, 4, range(buffer, 2, 4), b"");
    capture.execute(0, &[]);
    capture.dealloca(transient);
    let operations = step(&capture);
    let kinds: Vec<_> = operations.iter().map(|it| it.kind).collect();
    use QueueOpKind::{Alloca, Barrier, Dealloca, Read, Update};
    assert_eq!(kinds, [Alloca, Update, Read, Barrier, Dealloca]);
    // The buffer of an allocation exists only afterwards.
    let whole = [(AccessKind::Writes, transient, 0, 8)];
    assert_eq!(
        (operations[0].ranges.as_slice(), operations[0].ranges_after.as_slice()),
        (&[][..], &whole[..])
    );
    assert_eq!(operations[1].ranges, [(AccessKind::Writes, transient, 0, 4)]);
    assert_eq!(operations[2].ranges, [(AccessKind::Writes, buffer, 2, 4)]);
    assert_eq!(operations[4].ranges, whole);
}

#[test]
fn bindings_of_read_only_memory_are_read() {
    let mut capture = CaptureBuilder::new();
    let (counts, cache) = (capture.buffer(16), capture.cache());
    let mut allocation = crate::common::allocation(8);
    allocation.access.set(1);
    let constant = capture.buffer_with(allocation);
    let executable = capture.executable(cache, &code("module", 1, &[function("kernel", 0, 2)]));
    capture.write(counts, 4, &[3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
    let mut header = CaptureBuilder::kernel(executable, 0, [0; 3]);
    header.flags = U32::new(1);
    header.workgroup_count_ref = range(counts, 4, 12);
    capture.dispatch(&header, b"", &[range(counts, 0, 4), range(constant, 4, 4)]);
    let mut operations = Stepped::default();
    stepped(&plan(&capture), &ReplayOptions::default(), &mut operations).unwrap();
    let ranges = [
        (AccessKind::Binds, counts, 0, 4),
        (AccessKind::Reads, constant, 4, 4),
        (AccessKind::Reads, counts, 4, 12),
    ];
    assert_eq!(operations.operations[0].ranges, ranges);
    let [Ran::Dispatch { workgroup_count, .. }] = operations.dispatches[..] else { panic!() };
    assert_eq!(workgroup_count, [3, 2, 1]);
}

#[test]
fn deferred_submissions_are_performed_when_they_can_run() {
    let mut capture = CaptureBuilder::new();
    let (buffer, late) = (capture.buffer(4), capture.semaphore(0));
    let commands = capture.commands(0, |it, commands| it.command_fill(commands, whole(buffer), &[2]));
    let inside = capture.place().ordinal - 1;
    let done = capture.semaphore(0);
    // Issued first, performed last.
    capture.order(&[(late, 2)], &[(done, 1)]).copy(range(buffer, 0, 2), range(buffer, 2, 2));
    let last = capture.place().ordinal;
    capture.order(&[(late, 1)], &[(late, 2)]).execute(commands, &[]);
    let transient_ready = capture.semaphore(0);
    let transient = capture.order(&[(late, 2)], &[(transient_ready, 1)]).alloca(4);
    let allocated = capture.place().ordinal;
    capture.order(&[(transient_ready, 1)], &[]).fill(whole(transient), &[9]);
    let filled = capture.place().ordinal;
    capture.order(&[], &[(late, 1)]).fill(whole(buffer), &[1]);
    let first = capture.place().ordinal;
    capture.read(buffer, 0, 4);
    // The test device runs nothing late.
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let replay = Replay::new(plan(&capture), &devices, &ReplayOptions::default()).unwrap();
    let mut stepped = Stepped::default();
    replay.run(&mut [&mut stepped]).unwrap();
    assert_eq!(stepped.observed.bytes(), [[2; 4]]);
    let operations = stepped.operations;
    assert!(operations.iter().all(|it| it.is_complete));
    let mut order = records(&operations);
    assert_eq!(order[..2], [first, inside]);
    assert!(order.iter().position(|it| *it == allocated) < order.iter().position(|it| *it == filled));
    order.sort_unstable();
    let mut all = [first, inside, last, allocated, filled];
    all.sort_unstable();
    assert_eq!(order, all);
}

#[test]
fn submissions_that_are_not_wanted_are_performed_as_a_whole() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    let commands = capture.commands(0, |it, commands| it.command_fill(commands, whole(buffer), &[1]));
    let executions = [0; 3].map(|_| {
        capture.execute(commands, &[]);
        capture.place().ordinal
    });
    capture.read(buffer, 0, 4);
    let whole = vec![executions[0], executions[2]];
    let (observed, operations) = step_with(&capture, Stepped { whole, ..Stepped::default() });
    assert_eq!(observed.unwrap().bytes(), [[1; 4]]);
    let seen: Vec<_> = operations.iter().map(|it| (it.submission, it.occurrence)).collect();
    assert_eq!(seen, [(executions[1], 1)]);
}

#[test]
fn a_run_ends_where_an_observer_stops_it() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    let commands = capture.commands(0, |it, commands| {
        it.command_fill(commands, range(buffer, 0, 2), &[1]);
        it.command_fill(commands, range(buffer, 2, 2), &[2]);
    });
    capture.execute(commands, &[]);
    capture.read(buffer, 0, 4);
    let fills =
        |observed: &Observed| observed.ran.iter().filter(|it| **it == Ran::Queue("queue_execute")).count();
    let before = Stepped { stop_before: Some(1), ..Stepped::default() };
    let (observed, operations) = step_with(&capture, before);
    let observed = observed.unwrap();
    assert_eq!((operations.len(), fills(&observed), observed.reads.len()), (1, 1, 0));
    let after = Stepped { stop_after: Some(1), ..Stepped::default() };
    let (observed, operations) = step_with(&capture, after);
    let observed = observed.unwrap();
    assert_eq!((operations.len(), fills(&observed), observed.reads.len()), (2, 2, 0));
}

#[test]
fn a_failing_command_is_the_last_and_is_named() {
    let mut capture = CaptureBuilder::new();
    let (buffer, cache) = (capture.buffer(4), capture.cache());
    let executable = capture.executable(cache, &code("module", 1, &[function("fails", 0, 1)]));
    let mut failing = 0;
    let commands = capture.commands(0, |it, commands| {
        it.command_fill(commands, whole(buffer), &[1]);
        it.command_dispatch(commands, &CaptureBuilder::kernel(executable, 0, [1; 3]), b"", &[whole(buffer)]);
        failing = it.place().ordinal;
        it.command_fill(commands, whole(buffer), &[2]);
    });
    capture.execute(commands, &[]);
    let (observed, operations) = step_with(&capture, Stepped::default());
    let error = observed.unwrap_err();
    assert_eq!(error.code(), StatusCode::Internal);
    assert!(error.report().contains(&format!("record #{failing}")), "{}", error.report());
    let seen: Vec<_> = operations.iter().map(|it| (it.record, it.is_complete)).collect();
    assert_eq!(seen, [(failing - 1, true), (failing, false)]);
}

/// Counts operations, and keeps host reads.
#[derive(Default)]
struct Counter {
    operations: usize,
    reads: Vec<Vec<u8>>,
}

impl Observer for Counter {
    fn wants_operations(&self) -> bool {
        true
    }

    fn before_operation(&mut self, _operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.operations += 1;
        Ok(ControlFlow::Continue(()))
    }

    fn wants_host_reads(&self) -> bool {
        true
    }

    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.reads.push(read.to_vec());
        Ok(())
    }
}

#[test]
fn inline_commands_are_performed_once_in_either_order() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    capture.write(buffer, 0, b"abcdefgh");
    let commands = capture.command_buffer(0);
    let mode = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
    capture.last_payload()[..4].copy_from_slice(&mode.bits().to_le_bytes());
    capture.bare_call(Op::COMMAND_BUFFER_BEGIN, commands);
    // A second time would shift the bytes again.
    capture.command_copy(commands, range(buffer, 4, 2), range(buffer, 6, 2));
    capture.command_copy(commands, range(buffer, 0, 2), range(buffer, 4, 2));
    capture.bare_call(Op::COMMAND_BUFFER_END, commands);
    capture.execute(commands, &[]);
    capture.read(buffer, 0, 8);
    for order in [ReplayOrder::Serialized, ReplayOrder::Captured] {
        let options = ReplayOptions::default().order(order);
        let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
        let mut counter = Counter::default();
        Replay::new(plan(&capture), &devices, &options).unwrap().run(&mut [&mut counter]).unwrap();
        assert_eq!((counter.operations, counter.reads), (2, vec![b"abcdabef".to_vec()]));
    }
}

#[test]
fn a_repeated_scope_has_no_operations() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(4);
    capture.scope_begin("scope");
    capture.fill(whole(buffer), &[1]);
    capture.scope_end("scope");
    let devices = DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap();
    let replay = Arc::new(Replay::new(plan(&capture), &devices, &ReplayOptions::default()).unwrap());
    let error = replay.fast_forward(b"scope", &mut [&mut Counter::default()]).map(drop).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented);
}

/// With all operations, and with those of half of the submissions.
#[test]
fn random_programs_read_the_same() {
    for seed in 0..80 {
        let bytes = RandomProgram::capture(seed);
        let expected = expected(&bytes);
        let plan = Arc::new(Plan::compile(bytes, PlanOptions::default()).unwrap());
        let mut random = fastrand::Rng::with_seed(seed);
        let mut half = expected.steps.clone();
        half.retain(|_| random.bool());
        for whole in [Vec::new(), half] {
            let device =
                LateDevice::over(LocalSync::create(Plugins::default()), seed, Duration::from_micros(300));
            let devices = DeviceGroup::new(vec![device]).unwrap();
            let replay = Replay::new(plan.clone(), &devices, &ReplayOptions::default()).unwrap();
            let mut stepped = Stepped { whole, ..Stepped::default() };
            replay.run(&mut [&mut stepped]).unwrap();
            assert_eq!(stepped.observed.reads, expected.reads, "program {seed}");
            assert!(stepped.operations.iter().all(|it| it.is_complete));
        }
    }
}

/// Wants some commands, by record, and collects those that it receives.
struct Wanting<'w>(&'w [u32], Vec<u32>);

impl Observer for Wanting<'_> {
    fn wants_operations(&self) -> bool {
        true
    }

    fn wants_command(&mut self, location: RecordLocation, occurrence: u64) -> bool {
        occurrence == 1 && self.0.contains(&location.ordinal)
    }

    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        self.1.push(operation.location.ordinal);
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn commands_that_no_observer_wants_are_executed_together() {
    let mut capture = CaptureBuilder::new();
    let buffer = capture.buffer(8);
    let mut records = Vec::new();
    let commands = capture.commands(1, |it, commands| {
        for offset in 0..5 {
            it.command_fill(commands, slot(0, offset, 4), &[offset as u8 + 1]);
            records.push(it.place().ordinal);
            it.command_barrier(commands, &[], &[]);
        }
    });
    capture.execute(commands, &[whole(buffer)]);
    capture.execute(commands, &[whole(buffer)]);
    capture.read(buffer, 0, 8);
    // The fills of the first execution are one, and those of the second have the wanted ones apart.
    for (wanted, executions) in
        [(vec![], 2), (vec![0], 3), (vec![2], 4), (vec![4], 3), (vec![1, 2], 5), (vec![0, 1, 2, 3, 4], 6)]
    {
        let wanted: Vec<u32> = wanted.into_iter().map(|index: usize| records[index]).collect();
        let (device, log) = crate::common::TestDevice::create();
        let devices = DeviceGroup::new(vec![device]).unwrap();
        let replay = Replay::new(plan(&capture), &devices, &ReplayOptions::default()).unwrap();
        let (mut observer, mut observed) = (Wanting(&wanted, Vec::new()), Observed::default());
        replay.run(&mut [&mut observer, &mut observed]).unwrap();
        assert_eq!(observer.1, wanted);
        assert_eq!(observed.bytes(), [[1, 2, 3, 4, 5, 5, 5, 5]]);
        let log = log.lock().unwrap();
        let count = log.iter().filter(|it| matches!(it, Ran::Queue("queue_execute"))).count();
        assert_eq!(count, executions, "{wanted:?} {log:?}");
    }
}
