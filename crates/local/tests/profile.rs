//! The reports of a device to a profile, of work that fails, runs for long, or is shared by threads.
#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rehal_base::StatusCode;
use rehal_hal::profile::{
    HostExecution, ProfileData, ProfileFilter, ProfileRequest, ProfileSink, QueueOpKind,
};
use rehal_hal::{
    BufferParams, BufferRef, Command, CommandBuffer, CommandBufferParams, Device, QUEUE_AFFINITY_ANY,
    SemaphoreFlags,
};
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions};
use support::commands::{barrier, dispatch, load};
use support::{Link, compile};

/// Receives host executions.
#[derive(Default)]
struct Sink {
    executions: Mutex<Vec<HostExecution>>,
}

impl Sink {
    /// Takes the host executions so far.
    fn take(&self) -> Vec<HostExecution> {
        std::mem::take(&mut self.executions.lock().unwrap())
    }
}

impl ProfileSink for Sink {
    fn host_execution(&self, event: &HostExecution) {
        self.executions.lock().unwrap().push(*event);
    }
}

/// A command buffer that is being recorded.
fn command_buffer(device: &Device) -> CommandBuffer {
    let params = CommandBufferParams::default();
    let commands = device.create_command_buffer(params).unwrap();
    commands.begin().unwrap();
    commands
}

fn begin(device: &Device, data: ProfileData, sink: &Arc<Sink>) {
    let request =
        ProfileRequest { data, filter: ProfileFilter::default(), counters: Vec::new(), sink: sink.clone() };
    device.begin_profiling(&request).unwrap();
}

/// Host executions of a command buffer that is executed three times: a fill and `passing` dispatches, each
/// behind a barrier, and then one that fails.
fn executions(device: &Device, data: ProfileData, passing: usize) -> Vec<HostExecution> {
    let executable = load(device, &compile("library.c", Link::Embedded, &[]));
    let words = device.allocate_buffer(BufferParams::default(), 4).unwrap();
    let bindings = [BufferRef::whole(&words)];
    let sink = Arc::new(Sink::default());
    begin(device, data, &sink);
    let commands = command_buffer(device);
    commands.record(&Command::Fill { target: bindings[0], pattern: &[0], flags: 0 }).unwrap();
    for workgroups in (0..passing).map(|_| 1).chain([3, 1]) {
        barrier(&commands);
        let dispatch = dispatch(&executable, "fails", [workgroups, 1, 1], &[], &bindings);
        commands.record(&Command::Dispatch(dispatch)).unwrap();
    }
    commands.end().unwrap();
    for _ in 0..3 {
        let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
        let executed = device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&commands, &[], 0);
        assert_eq!(executed.unwrap_err().code(), StatusCode::Internal);
        assert_eq!(done.query().unwrap_err().code(), StatusCode::Internal);
        let mut word = [0; 4];
        words.read(0, &mut word).unwrap();
        assert_eq!(u32::from_le_bytes(word) as usize, passing + 2);
    }
    device.end_profiling().unwrap();
    // After its end, a session receives nothing.
    assert!(device.queue(QUEUE_AFFINITY_ANY).execute(&commands, &[], 0).is_err());
    std::mem::take(&mut *sink.executions.lock().unwrap())
}

#[test]
fn a_command_that_fails_ends_its_submission() {
    let device = LocalSync::create(Default::default());
    for passing in [0, 1, 2, 3, 30] {
        for other in [ProfileData::empty(), ProfileData::COMMAND_REGIONS, ProfileData::QUEUE_EVENTS] {
            let events = executions(&device, ProfileData::HOST_EXECUTION | other, passing);
            let commands = passing + 2;
            assert_eq!(events.len(), 3 * (commands + 1), "{other:?}");
            for (submission, events) in (1..).zip(events.chunks(commands + 1)) {
                let (whole, commands) = events.split_last().unwrap();
                assert!(events.iter().all(|it| it.operation.submission_id == submission));
                assert!(events.iter().all(|it| it.start_ns <= it.end_ns && !it.was_deferred));
                assert_eq!((whole.operation.kind, whole.command_index), (QueueOpKind::Execute, None));
                // With the dispatch that is never executed, and the barriers.
                assert_eq!(whole.operation.operation_count as usize, 2 * (passing + 2) + 1);
                let (failed, passed) = commands.split_last().unwrap();
                assert_eq!((whole.status, failed.status), (StatusCode::Internal, StatusCode::Internal));
                assert_eq!(failed.dispatch.unwrap().workgroup_count, [3, 1, 1]);
                assert!(passed.iter().all(|it| it.status == StatusCode::Ok));
                assert_eq!(
                    (passed[0].operation.kind, passed[0].operation.payload_bytes),
                    (QueueOpKind::Fill, 4)
                );
                let indices: Vec<_> = commands.iter().map(|it| it.command_index.unwrap()).collect();
                assert_eq!(indices, (0..commands.len() as u32).map(|it| 2 * it).collect::<Vec<_>>());
                assert!(commands.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
                assert!(whole.start_ns <= commands[0].start_ns && failed.end_ns <= whole.end_ns);
            }
        }
    }
}

#[test]
fn commands_that_have_ended_are_kept_while_the_next_one_runs() {
    let device = LocalSync::create(Default::default());
    let executable = load(&device, &compile("library.c", Link::Embedded, &["-DCONCURRENT"]));
    let words = device.allocate_buffer(BufferParams::default(), 4).unwrap();
    let bindings = [BufferRef::whole(&words)];
    let commands = command_buffer(&device);
    commands.record(&Command::Fill { target: bindings[0], pattern: &[0], flags: 0 }).unwrap();
    barrier(&commands);
    // It waits for the other thread.
    let two = 2_u32.to_le_bytes();
    let meet = dispatch(&executable, "meet", [1, 1, 1], &two, &bindings);
    commands.record(&Command::Dispatch(meet)).unwrap();
    commands.end().unwrap();
    let sink = Arc::new(Sink::default());
    begin(&device, ProfileData::HOST_EXECUTION, &sink);
    for submission in 1..4 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let seen = loop {
                    let seen = sink.take();
                    // The kernel fails after a while, so that the other events are seen, too.
                    if !seen.is_empty() {
                        break seen;
                    }
                    std::thread::yield_now();
                };
                words.write(0, &two).unwrap();
                let seen: Vec<_> =
                    seen.iter().map(|it| (it.operation.kind, it.operation.submission_id)).collect();
                assert_eq!(seen, [(QueueOpKind::Fill, submission)]);
            });
            device.queue(QUEUE_AFFINITY_ANY).execute(&commands, &[], 0).unwrap();
        });
        let rest: Vec<_> = sink.take().iter().map(|it| (it.operation.kind, it.command_index)).collect();
        assert_eq!(rest, [(QueueOpKind::Dispatch, Some(2)), (QueueOpKind::Execute, None)]);
    }
    device.end_profiling().unwrap();
}

#[test]
fn threads_share_a_command_buffer() {
    let device = LocalSync::create(Default::default());
    let executable = load(&device, &compile("library.c", Link::Embedded, &[]));
    let words = device.allocate_buffer(BufferParams::default(), 4).unwrap();
    let bindings = [BufferRef::whole(&words)];
    let commands = command_buffer(&device);
    commands.record(&Command::Dispatch(dispatch(&executable, "fails", [1, 1, 1], &[], &bindings))).unwrap();
    commands.end().unwrap();
    // The second session does not know what the first one was told.
    for _ in 0..2 {
        let sink = Arc::new(Sink::default());
        begin(&device, ProfileData::HOST_EXECUTION, &sink);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        device.queue(QUEUE_AFFINITY_ANY).execute(&commands, &[], 0).unwrap();
                    }
                });
            }
        });
        device.end_profiling().unwrap();
        let events = std::mem::take(&mut *sink.executions.lock().unwrap());
        assert_eq!(events.len(), 2 * 600);
        let mut by_submission: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for event in &events {
            by_submission.entry(event.operation.submission_id).or_default().push(event.command_index);
        }
        assert!(by_submission.keys().copied().eq(1..=600));
        assert!(by_submission.values().all(|of| *of == [Some(0), None]));
    }
}

/// CPU time is reported if it is asked for, and is that of the threads that ran workgroups.
#[test]
fn dispatches_have_the_cpu_time_of_their_threads() {
    let mut options = LocalTaskOptions::default();
    options.selection.worker_count = Some(2);
    let task = LocalTask::create(options).unwrap();
    for (device, most_threads) in [(LocalSync::create(Default::default()), 1), (task, 2)] {
        let executable = load(&device, &compile("library.c", Link::Embedded, &["-DCONCURRENT"]));
        let words = device.allocate_buffer(BufferParams::default(), 4).unwrap();
        let (sink, bindings) = (Arc::new(Sink::default()), [BufferRef::whole(&words)]);
        let run = |function: &str, workgroups: u32, constants: &[u8]| {
            let commands = command_buffer(&device);
            commands.record(&Command::Fill { target: bindings[0], pattern: &[0], flags: 0 }).unwrap();
            barrier(&commands);
            let dispatch = dispatch(&executable, function, [workgroups, 1, 1], constants, &bindings);
            commands.record(&Command::Dispatch(dispatch)).unwrap();
            commands.end().unwrap();
            let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
            device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&commands, &[], 0).unwrap();
            done.wait(1, None).unwrap();
            sink.take()
        };
        let meet = |workgroups: u32| run("meet", workgroups, &workgroups.to_le_bytes());
        // It includes the spans.
        begin(&device, ProfileData::PROCESSOR_TIME, &sink);
        // As many workgroups as threads, each of which waits for the others; and none.
        for workgroups in [most_threads, 0] {
            let events = meet(workgroups);
            let (dispatches, others): (Vec<&HostExecution>, Vec<&HostExecution>) =
                events.iter().partition(|it| it.dispatch.is_some());
            assert!(others.iter().all(|it| it.processor.is_none()));
            let [it] = dispatches[..] else { panic!("{events:?}") };
            let time = it.processor.unwrap();
            assert_eq!(time.thread_count, workgroups);
            let wall_ns = (it.end_ns - it.start_ns) as u64;
            if workgroups == 1 {
                assert_eq!(time.elapsed_ns, wall_ns);
            }
            assert!(time.longest_elapsed_ns <= wall_ns && time.elapsed_ns <= 2 * wall_ns, "{it:?}");
            assert!(time.longest_cpu_ns <= time.cpu_ns && time.cpu_ns <= 2 * time.longest_cpu_ns, "{it:?}");
            // The costs of reading clocks vary.
            assert!(time.cpu_ns <= time.elapsed_ns + 100_000, "{it:?}");
        }
        device.end_profiling().unwrap();
        begin(&device, ProfileData::HOST_EXECUTION, &sink);
        assert!(meet(1).iter().all(|it| it.processor.is_none()));
        device.end_profiling().unwrap();
    }
}
