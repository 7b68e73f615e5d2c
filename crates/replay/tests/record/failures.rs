//! The status of a submission is recorded as the program saw it, so that a replay skips failed submissions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rehal_base::{Error, StatusCode};
use rehal_capture::OperationCode as Code;
use rehal_hal::{
    BufferParams, BufferRef, Command, CommandBuffer, CommandBufferParams, CommandCategories, HostCallFlags,
    QUEUE_AFFINITY_ANY, QueueOp,
};
use rehal_replay::RecordOptions;

use crate::program::{Program, Reads, host_call, local_task, operations, replay, watched};

/// The status of each submission, in order.
#[track_caller]
fn statuses(capture: &[u8]) -> Vec<(Code, u32)> {
    let mut operations = operations(capture);
    operations.retain(|(code, _)| code.to_string().starts_with("device.queue_"));
    operations
}

/// Commands that fail when executed: the binding is too short.
fn failing_commands(program: &Program) -> CommandBuffer {
    let params = CommandBufferParams {
        categories: CommandCategories::TRANSFER,
        ..CommandBufferParams::default().slots(1)
    };
    let commands = program.device().create_command_buffer(params).unwrap();
    commands.begin().unwrap();
    let target = BufferRef::slot(0, 0, 8);
    commands.record(&Command::Fill { target, pattern: &[9], flags: 0 }).unwrap();
    commands.end().unwrap();
    commands
}

const OUT_OF_RANGE: u32 = StatusCode::OutOfRange as u32;
const ABORTED: u32 = StatusCode::Aborted as u32;

#[test]
fn a_failure_is_recorded_for_the_submission_and_its_waiters() {
    // Watched work fails the same.
    [RecordOptions::default(), watched()].into_iter().for_each(failure);
}

fn failure(options: RecordOptions) {
    let program = Program::new(options);
    let (buffer, commands) = (program.buffer(&[1; 4]), failing_commands(&program));
    let (failed, after, fine) = (program.semaphore(), program.semaphore(), program.semaphore());
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    let error = queue.signal(&[failed.at(1)]).execute(&commands, &[(&buffer).into()], 0).unwrap_err();
    assert_eq!(error.code(), StatusCode::OutOfRange);
    assert_eq!(failed.query().unwrap_err().code(), StatusCode::OutOfRange);
    queue.wait(&[failed.at(1)]).signal(&[after.at(1)]).fill(&buffer, &[2], 0).unwrap_err();
    queue.wait(&[after.at(1)]).alloca(BufferParams::default(), 4, 0).map(drop).unwrap_err();
    // Signalling a semaphore that has already failed does not fail a submission with other signals.
    queue.signal(&[failed.at(2), fine.at(1)]).fill(&buffer, &[3], 0).unwrap();
    queue.wait(&[fine.at(1)]).signal(&[fine.at(2), failed.at(3)]).fill(&buffer, &[4], 0).unwrap();
    queue.wait(&[fine.at(2)]).signal(&[fine.at(3)]).barrier(0).unwrap();
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [4; 4]);

    let capture = program.capture();
    let expected = [
        (Code::DEVICE_QUEUE_EXECUTE, OUT_OF_RANGE),
        (Code::DEVICE_QUEUE_FILL, OUT_OF_RANGE),
        (Code::DEVICE_QUEUE_ALLOCA, OUT_OF_RANGE),
        (Code::DEVICE_QUEUE_FILL, 0),
        (Code::DEVICE_QUEUE_FILL, 0),
        (Code::DEVICE_QUEUE_EXECUTE, 0),
    ];
    assert_eq!(statuses(&capture), expected);
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0, [[4; 4]]);
}

#[test]
fn a_later_failure_is_recorded_from_the_signals() {
    // Watched work fails the same.
    [RecordOptions::default(), watched()].into_iter().for_each(later_failure);
}

fn later_failure(options: RecordOptions) {
    let program = Program::new(options);
    let (buffer, commands) = (program.buffer(&[1; 4]), failing_commands(&program));
    let [gate, never, ran, waited] = std::array::from_fn(|_| program.semaphore());
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    // One fails when it executes, one because the host fails its wait; both calls succeed.
    queue.wait(&[gate.at(1)]).signal(&[ran.at(1)]).execute(&commands, &[(&buffer).into()], 0).unwrap();
    queue.wait(&[never.at(1)]).signal(&[waited.at(1)]).fill(&buffer, &[2], 0).unwrap();
    queue.signal(&[gate.at(1)]).barrier(0).unwrap();
    assert_eq!(ran.query().unwrap_err().code(), StatusCode::OutOfRange);
    never.fail(Error::new(StatusCode::Aborted, "failed by the host"));
    assert_eq!(waited.query().unwrap_err().code(), StatusCode::Aborted);

    let capture = program.capture();
    let expected = [
        (Code::DEVICE_QUEUE_EXECUTE, OUT_OF_RANGE),
        (Code::DEVICE_QUEUE_FILL, ABORTED),
        (Code::DEVICE_QUEUE_EXECUTE, 0),
    ];
    assert_eq!(statuses(&capture), expected);
    replay(&capture, &mut Reads::default()).unwrap();
}

/// With its waiter, whose wait no record signals otherwise.
#[test]
fn work_that_is_not_valid_on_a_worker_has_its_status() {
    [RecordOptions::default(), watched()].into_iter().for_each(failure_on_a_worker);
}

fn failure_on_a_worker(options: RecordOptions) {
    let program = Program::on(vec![local_task()], options);
    let (buffer, commands) = (program.buffer(&[1; 4]), failing_commands(&program));
    let (ran, waited) = (program.semaphore(), program.semaphore());
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    // Submitted before its wait has failed, so that its call succeeds.
    queue.wait(&[ran.at(1)]).signal(&[waited.at(1)]).execute(&commands, &[(&buffer).into()], 0).unwrap();
    queue.signal(&[ran.at(1)]).execute(&commands, &[(&buffer).into()], 0).unwrap();
    assert_eq!(waited.wait(1, None).unwrap_err().code(), StatusCode::OutOfRange);

    let capture = program.capture();
    assert_eq!(statuses(&capture), [(Code::DEVICE_QUEUE_EXECUTE, OUT_OF_RANGE); 2]);
    replay(&capture, &mut Reads::default()).unwrap();
}

/// A fill of a buffer whose memory was returned: a plan refuses the capture unless its record has failed.
#[test]
fn a_fill_after_a_dealloca_on_a_worker_has_its_status() {
    let program = Program::on(vec![local_task()], RecordOptions::default());
    let kept = program.buffer(&[1; 4]);
    let [made, returned, filled, fine] = std::array::from_fn(|_| program.semaphore());
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    let buffer = queue.signal(&[made.at(1)]).alloca(*kept.params(), 4, 0).unwrap();
    queue.wait(&[made.at(1)]).signal(&[returned.at(1)]).dealloca(&buffer, 0).unwrap();
    queue.wait(&[returned.at(1)]).signal(&[filled.at(1)]).fill(&buffer, &[2], 0).unwrap();
    queue.signal(&[fine.at(1)]).fill(&kept, &[4], 0).unwrap();
    let error = filled.wait(1, None).unwrap_err();
    assert_eq!(error.code(), StatusCode::FailedPrecondition, "{}", error.report());
    fine.wait(1, None).unwrap();
    let mut bytes = [0; 4];
    kept.read(0, &mut bytes).unwrap();
    let capture = program.capture();
    let fills: Vec<_> = statuses(&capture).into_iter().filter(|it| it.0 == Code::DEVICE_QUEUE_FILL).collect();
    let failed = StatusCode::FailedPrecondition as u32;
    assert_eq!(fills, [(Code::DEVICE_QUEUE_FILL, failed), (Code::DEVICE_QUEUE_FILL, 0)]);
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0, [[4; 4]]);
}

#[test]
fn what_fails_on_a_worker_because_of_the_host_has_its_status() {
    let program = Program::on(vec![local_task()], RecordOptions::default());
    let buffer = program.buffer(&[1; 4]);
    let [never, waited, after, fine] = std::array::from_fn(|_| program.semaphore());
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    queue.wait(&[never.at(1)]).signal(&[waited.at(1)]).fill(&buffer, &[2], 0).unwrap();
    queue.wait(&[waited.at(1)]).signal(&[after.at(1)]).fill(&buffer, &[3], 0).unwrap();
    queue.signal(&[fine.at(1)]).fill(&buffer, &[4], 0).unwrap();
    never.fail(Error::new(StatusCode::Aborted, "failed by the host"));
    assert_eq!(after.wait(1, None).unwrap_err().code(), StatusCode::Aborted);
    fine.wait(1, None).unwrap();
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();

    let capture = program.capture();
    let fill = Code::DEVICE_QUEUE_FILL;
    assert_eq!(statuses(&capture), [(fill, ABORTED), (fill, ABORTED), (fill, 0)]);
    let mut reads = Reads::default();
    replay(&capture, &mut reads).unwrap();
    assert_eq!(reads.0, [[4; 4]]);
}

#[test]
fn an_unsettled_submission_is_recorded_as_ok() {
    let program = Program::new(RecordOptions::default());
    let buffer = program.buffer(&[1; 4]);
    let (never, after) = (program.semaphore(), program.semaphore());
    let queue = program.device().queue(QUEUE_AFFINITY_ANY);
    queue.wait(&[never.at(1)]).signal(&[after.at(1)]).fill(&buffer, &[2], 0).unwrap();
    let capture = program.capture();
    assert_eq!(statuses(&capture), [(Code::DEVICE_QUEUE_FILL, 0)]);
    // The program continues after the capture is closed.
    never.fail(Error::new(StatusCode::Aborted, "too late for the capture"));
    assert_eq!(after.query().unwrap_err().code(), StatusCode::Aborted);
}

#[test]
fn calls_rejected_by_handles_are_recorded_with_their_status() {
    let program = Program::new(RecordOptions::default());
    let (buffer, commands) = (program.buffer(&[1; 4]), failing_commands(&program));
    let recording = program.device().create_command_buffer(*commands.params()).unwrap();
    recording.begin().unwrap();
    let beyond = BufferRef::range(&buffer, 2, 4);
    recording.record(&Command::Fill { target: beyond, pattern: &[9], flags: 0 }).unwrap_err();
    let done = program.semaphore();
    let signals = [done.at(1)];
    let queue = program.device().queue(QUEUE_AFFINITY_ANY).signal(&signals);
    queue.fill(beyond, &[9], 0).unwrap_err();
    queue
        .submit(QueueOp::Execute { command_buffer: &recording, bindings: &[], flags: 0 })
        .map(drop)
        .unwrap_err();
    // The rejected submission signals nothing: another one does.
    queue.fill(&buffer, &[3], 0).unwrap();

    let capture = program.capture();
    let failed: Vec<_> = operations(&capture).into_iter().filter(|(_, status)| *status != 0).collect();
    let expected = [
        (Code::COMMAND_BUFFER_FILL_BUFFER, OUT_OF_RANGE),
        (Code::DEVICE_QUEUE_FILL, OUT_OF_RANGE),
        (Code::DEVICE_QUEUE_EXECUTE, StatusCode::FailedPrecondition as u32),
    ];
    assert_eq!(failed, expected);
    assert_eq!(statuses(&capture).last(), Some(&(Code::DEVICE_QUEUE_FILL, 0)));
    replay(&capture, &mut Reads::default()).unwrap();
}

#[test]
fn a_panic_fails_only_the_record_of_the_work_that_panicked() {
    let panics = host_call(|| panic!("the program's own"));
    // The host call executes in its own submission, in a later one that signals its wait, or in a signal of
    // the host.
    for (waits_for, expected) in [
        (None, vec![(Code::DEVICE_QUEUE_HOST_CALL, StatusCode::Internal as u32)]),
        (
            Some(true),
            vec![(Code::DEVICE_QUEUE_HOST_CALL, StatusCode::Internal as u32), (Code::DEVICE_QUEUE_FILL, 0)],
        ),
        (
            Some(false),
            vec![
                (Code::DEVICE_QUEUE_HOST_CALL, StatusCode::Internal as u32),
                // The call waits for a signal of the host.
                (Code::DEVICE_QUEUE_EXECUTE, 0),
            ],
        ),
    ] {
        for signal_count in [0, 1] {
            if waits_for.is_some() && signal_count == 0 {
                // The outcome is not observable.
                continue;
            }
            let program = Program::new(RecordOptions::default());
            let buffer = program.buffer(&[1; 4]);
            let (go, done) = (program.semaphore(), program.semaphore());
            let (gate, signals) = ([go.at(1)], vec![done.at(1); signal_count]);
            let run = || {
                let queue = program.device().queue(QUEUE_AFFINITY_ANY);
                let waiting = if waits_for.is_some() { queue.wait(&gate) } else { queue };
                waiting.signal(&signals).host_call(&panics, [0; 4], HostCallFlags::empty()).unwrap();
                match waits_for {
                    Some(true) => queue.signal(&gate).fill(&buffer, &[2], 0).unwrap(),
                    _ => go.signal(1).unwrap(),
                }
            };
            catch_unwind(AssertUnwindSafe(run)).unwrap_err();
            let capture = program.capture();
            assert_eq!(statuses(&capture), expected);
            replay(&capture, &mut Reads::default()).unwrap();
        }
    }
}
