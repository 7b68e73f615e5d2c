//! What a device reports to a profile of work that fails, whether it is reported at once or as it goes.
#![allow(unsafe_code, reason = "prepares the library that it compiled")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod support;

use std::sync::{Arc, Mutex};

use rehal_base::StatusCode;
use rehal_hal::profile::{
    ClockSample, CommandRegion, DeviceQueueEvent, DispatchEvent, EventCounts, HostExecution, KeptEvents,
    MemoryEvent, ProfileData, ProfileFilter, ProfileRequest, ProfileSink, ProfiledCommand, ProfiledOperation,
    QueueEvent, QueueOpKind, WorkerSpan,
};
use rehal_hal::{
    BufferParams, BufferRef, CachingMode, Command, CommandBufferMode, CommandBufferParams, CommandCategories,
    Device, Dispatch, DispatchFlags, ExecutableParams, ExecutionStage, FunctionInfo, Live,
    QUEUE_AFFINITY_ANY, SemaphoreFlags, WorkgroupCount,
};
use rehal_local::LocalSync;
use support::{Link, compile};

/// Keeps host executions.
#[derive(Default)]
struct Sink {
    executions: Mutex<Vec<HostExecution>>,
}

impl ProfileSink for Sink {
    fn executable(&self, _id: u64, _functions: &[FunctionInfo]) {}
    fn command_buffer(
        &self,
        _id: u64,
        _params: &CommandBufferParams,
        _commands: &[ProfiledCommand],
        _records: &[(u32, u64)],
    ) {
    }
    fn session_begins(&self, _kept: KeptEvents) {}
    fn events_kept(&self, _counts: EventCounts) {}
    fn queue_event(&self, _event: &QueueEvent<'_>) {}
    fn host_execution(&self, event: &HostExecution) {
        self.executions.lock().unwrap().push(*event);
    }
    fn memory_event(&self, _event: &MemoryEvent) {}
    fn command_region(&self, _event: &CommandRegion) {}
    fn worker_span(&self, _span: &WorkerSpan) {}
    fn device_queue_event(&self, _event: &DeviceQueueEvent) {}
    fn dispatch_event(&self, _event: &DispatchEvent) {}
    fn replayed(&self, _operation: &ProfiledOperation, _record: u64) {}
    fn clock_sample(&self, _sample: &ClockSample) {}
}

/// Host executions of a command buffer that is executed three times: a fill and `passing` dispatches, each behind a barrier, and then
/// one that fails.
fn executions(device: &Device, data: ProfileData, passing: usize) -> Vec<HostExecution> {
    let bytes = compile("library.c", Link::Embedded, &[]);
    let params = ExecutableParams {
        label: "",
        affinity: QUEUE_AFFINITY_ANY,
        caching_mode: CachingMode::empty(),
        format: "embedded-elf-x86_64",
        data: &bytes,
        constants: &[],
    };
    // SAFETY: the test's own code.
    let executable = unsafe { device.backend().prepare_executable(&params) }.unwrap();
    let words = device.allocate_buffer(BufferParams::default(), 4).unwrap();
    let bindings = [BufferRef::whole(&words)];
    let dispatch = |workgroups| {
        Command::Dispatch(Dispatch {
            executable: &executable,
            function: executable.lookup("fails").unwrap(),
            workgroup_size: [0; 3],
            workgroup_count: WorkgroupCount::Static([workgroups, 1, 1]),
            dynamic_local_memory: 0,
            constants: &[][..],
            bindings: &bindings[..],
            flags: DispatchFlags::empty(),
        })
    };
    let params = CommandBufferParams {
        mode: CommandBufferMode::empty(),
        categories: CommandCategories::all(),
        affinity: QUEUE_AFFINITY_ANY,
        binding_capacity: 0,
    };
    let sink = Arc::new(Sink::default());
    let request =
        ProfileRequest { data, filter: ProfileFilter::default(), counters: Vec::new(), sink: sink.clone() };
    device.begin_profiling(&request).unwrap();
    let commands = device.create_command_buffer(params).unwrap();
    commands.begin().unwrap();
    commands.record(&Command::Fill { target: bindings[0], pattern: &[0], flags: 0 }).unwrap();
    for workgroups in (0..passing).map(|_| 1).chain([3, 1]) {
        let stages = ExecutionStage::empty();
        let barrier = Command::<Live<'_>>::ExecutionBarrier {
            source_stages: stages,
            target_stages: stages,
            flags: 0,
            memory_barriers: &[],
            buffer_barriers: &[],
        };
        commands.record(&barrier).unwrap();
        commands.record(&dispatch(workgroups)).unwrap();
    }
    commands.end().unwrap();
    for _ in 0..3 {
        let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
        let queue = device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).execute(&commands, &[], 0);
        assert_eq!(queue.unwrap_err().code(), StatusCode::Internal);
        assert_eq!(done.query().unwrap_err().code(), StatusCode::Internal);
        let mut word = [0; 4];
        words.read(0, &mut word).unwrap();
        assert_eq!(u32::from_le_bytes(word) as usize, passing + 2);
    }
    device.end_profiling().unwrap();
    // After its end, a session receives nothing.
    let queue = device.queue(QUEUE_AFFINITY_ANY);
    assert!(queue.execute(&commands, &[], 0).is_err());
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
