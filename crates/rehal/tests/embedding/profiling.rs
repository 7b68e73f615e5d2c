//! Profiles of programs and replays on both CPU drivers, read back.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::program::{ModuleSource, ModuleTests, Program, ProgramOptions};
use rehal_base::StatusCode;
use rehal_devices::{DeviceOptions, DeviceSpec, Profiling, ProfilingOptions, RequestedData, ValueText};
use rehal_hal::profile::ProfileData;
use rehal_hal::{BufferParams, QUEUE_AFFINITY_ANY, SemaphoreFlags};
use rehal_profile::{Bundle, ContentType, MemoryEventType, OpenOptions, QueueEventType, layout, rows};
use rehal_replay::{Replay, ReplayOptions};

use crate::{capture, fixture};

const DRIVERS: [&str; 2] = ["local-sync", "local-task"];

/// The data that CPU devices report.
fn everything() -> ProfileData {
    ProfileData::QUEUE_EVENTS
        | ProfileData::HOST_EXECUTION
        | ProfileData::MEMORY_EVENTS
        | ProfileData::EXECUTABLE_METADATA
        | ProfileData::COMMAND_REGIONS
        | ProfileData::PROCESSOR_TIME
}

/// The rows of a profile.
#[derive(Default)]
struct Rows {
    names: Vec<String>,
    /// Commands of each command buffer, by id.
    commands: Vec<(u64, u32)>,
    queue: Vec<layout::QueueEvent>,
    execution: Vec<layout::HostExecutionEvent>,
    memory: Vec<layout::MemoryEvent>,
    regions: Vec<layout::CommandRegionEvent>,
    device_operations: usize,
    /// Spans of threads: the thread, and the id and the command of what it executed.
    threads: Vec<(u32, u64, u32)>,
    sessions: (usize, usize),
}

fn read(path: &Path) -> Rows {
    read_with(path, OpenOptions::default())
}

/// The rows that a running program has written: the last record may be incomplete.
fn read_unfinished(path: &Path) -> Rows {
    read_with(path, OpenOptions { recover: true })
}

fn read_with(path: &Path, options: OpenOptions) -> Rows {
    let bytes = std::fs::read(path).unwrap();
    let bundle = Bundle::open(&bytes, options).unwrap();
    let mut all = Rows::default();
    for record in bundle.records() {
        let record = record.unwrap();
        match (record.header.record_type.get(), record.content()) {
            (1, _) => all.sessions.0 += 1,
            (3, _) => all.sessions.1 += 1,
            (_, Some(ContentType::Functions)) => all.names.extend(
                record
                    .rows::<rows::Function<'_>>()
                    .map(|row| String::from_utf8(row.unwrap().name.to_vec()).unwrap()),
            ),
            (_, Some(ContentType::CommandOperations)) => all.commands.extend(
                record
                    .rows::<rows::CommandOperation<'_>>()
                    .map(|row| row.unwrap())
                    .map(|row| (row.command_buffer_id.get(), row.command_index.get())),
            ),
            (_, Some(ContentType::QueueEvents)) => {
                all.queue.extend(record.rows::<rows::QueueEvent<'_>>().map(|row| *row.unwrap().header));
            }
            (_, Some(ContentType::HostExecutionEvents)) => all
                .execution
                .extend(record.rows::<rows::HostExecutionEvent<'_>>().map(|row| *row.unwrap().header)),
            (_, Some(ContentType::MemoryEvents)) => {
                all.memory.extend(record.rows::<rows::MemoryEvent<'_>>().map(|row| *row.unwrap().header));
            }
            (_, Some(ContentType::CommandRegionEvents)) => all
                .regions
                .extend(record.rows::<rows::CommandRegionEvent<'_>>().map(|row| *row.unwrap().header)),
            (_, Some(ContentType::QueueDeviceEvents)) => {
                all.device_operations += record.rows::<rows::QueueDeviceEvent<'_>>().count();
            }
            (_, Some(ContentType::EventRelationships)) => {
                let rows = record.rows::<rows::EventRelationship<'_>>().map(|row| *row.unwrap().header);
                let spans = rows.filter(|row| row.relationship_type.get() == layout::RELATIONSHIP_WORKER);
                all.threads.extend(spans.map(|row| {
                    let secondary = row.source_secondary_id.get();
                    ((secondary >> 32) as u32, row.source_id.get(), secondary as u32)
                }));
            }
            _ => {}
        }
    }
    all
}

/// Profiles `runs` replays of a capture.
fn profile(driver: &str, name: &str, runs: usize, edit: impl FnOnce(&mut ProfilingOptions)) -> Rows {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run.ireeprof");
    let plan = CaptureFile::open(&capture(name), &CaptureOptions::default()).unwrap().plan().unwrap();
    let devices = DeviceOptions::for_plan(&plan, DeviceSpec::find(driver).unwrap()).open().unwrap();
    let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
    let mut options = ProfilingOptions::new(&path, everything());
    edit(&mut options);
    let profiling = Profiling::begin(&devices, &options).unwrap();
    (0..runs).for_each(|_| replay.run(&mut []).unwrap());
    profiling.end().unwrap();
    // Another session may begin, and one that has ended reports nothing.
    replay.run(&mut []).unwrap();
    read(&path)
}

const MLP: &str = "mlp.mlp.local-sync";

fn dispatches(rows: &Rows) -> Vec<&layout::HostExecutionEvent> {
    rows.execution.iter().filter(|event| event.event_type.get() == 2).collect()
}

#[test]
fn every_submission_and_dispatch_of_a_replay_is_reported() {
    for driver in DRIVERS {
        let one = profile(driver, "add4.add.local-sync", 1, |_| {});
        let three = profile(driver, "add4.add.local-sync", 3, |_| {});
        assert_eq!((one.sessions, three.sessions), ((1, 1), (1, 1)), "{driver}");
        assert!(!one.queue.is_empty() && !dispatches(&one).is_empty(), "{driver}");
        assert_eq!(three.queue.len(), 3 * one.queue.len(), "{driver}");
        assert_eq!(dispatches(&three).len(), 3 * dispatches(&one).len(), "{driver}");
        for rows in [&one, &three] {
            let submissions: BTreeSet<_> = rows.queue.iter().map(|event| event.submission_id.get()).collect();
            assert_eq!(submissions, (1..=rows.queue.len() as u64).collect(), "{driver}");
            for event in &rows.queue {
                assert!(event.ready_host_time_ns.get() >= event.host_time_ns.get(), "{driver}");
            }
            for event in &rows.execution {
                assert!(submissions.contains(&event.submission_id.get()), "{driver}");
                assert!(event.end_host_time_ns.get() >= event.start_host_time_ns.get(), "{driver}");
                assert_eq!(event.status_code.get(), 0, "{driver}");
            }
            // Each dispatch is inside the execution of its submission.
            for dispatch in dispatches(rows) {
                let whole = rows.execution.iter().find(|event| {
                    event.event_type.get() == 3 && event.submission_id == dispatch.submission_id
                });
                let whole = whole.expect("its command buffer was executed");
                assert!(dispatch.start_host_time_ns.get() >= whole.start_host_time_ns.get(), "{driver}");
                assert!(dispatch.end_host_time_ns.get() <= whole.end_host_time_ns.get(), "{driver}");
                let command = (dispatch.command_buffer_id.get(), dispatch.command_index.get());
                assert!(rows.commands.contains(&command), "{driver}: {command:?}");
            }
            assert!(rows.names.iter().any(|name| name.contains("add")), "{driver}: {:?}", rows.names);
        }
    }
}

#[test]
fn host_executions_alone_are_those_of_a_profile_of_everything() {
    let names = [
        MLP,
        "add4.add.local-sync",
        "transfers.poke.local-sync",
        "control.collatz.local-sync",
        "dynamic.rows.local-sync",
        "microkernels.integers.vmvx.local-sync",
    ];
    let row = |event: &layout::HostExecutionEvent| {
        let of_submission = (event.submission_id.get(), event.event_type.get(), event.status_code.get());
        let of_command = (event.command_index.get(), event.function_ordinal.get(), event.workgroup_count);
        let sizes = (event.payload_length.get(), event.operation_count.get(), event.tile_count.get());
        (event.event_id.get(), event.flags.get(), of_submission, of_command, sizes)
    };
    let mut last_command = 0;
    for name in names {
        let everything = profile("local-sync", name, 3, |_| {});
        let alone = profile("local-sync", name, 3, |options| {
            options.data = RequestedData::Kinds(ProfileData::HOST_EXECUTION);
        });
        assert!(alone.queue.is_empty() && alone.commands.len() == everything.commands.len(), "{name}");
        let rows = |rows: &Rows| rows.execution.iter().map(row).collect::<Vec<_>>();
        assert_eq!(rows(&alone), rows(&everything), "{name}");
        for event in &alone.execution {
            assert!(event.start_host_time_ns.get() <= event.end_host_time_ns.get(), "{name}");
        }
        for pair in alone.execution.windows(2) {
            assert!(pair[0].end_host_time_ns.get() <= pair[1].end_host_time_ns.get(), "{name}");
        }
        last_command =
            dispatches(&alone).iter().map(|it| it.command_index.get()).fold(last_command, u32::max);
    }
    // Commands of a long command buffer are reported in several batches.
    assert!(last_command >= 8, "{last_command}");
}

#[test]
fn host_times_are_those_of_the_work() {
    let executions_only = RequestedData::Kinds(ProfileData::QUEUE_EVENTS | ProfileData::HOST_EXECUTION);
    for (driver, data) in DRIVERS
        .into_iter()
        .flat_map(|driver| [RequestedData::Kinds(everything()), executions_only].map(|data| (driver, data)))
    {
        let rows = profile(driver, MLP, 1, |options| options.data = data);
        let of = |kind: QueueEventType| {
            rows.execution
                .iter()
                .filter(move |event| event.event_type.get() == kind.0 && event.command_buffer_id.get() == 0)
        };
        let length = |event: &layout::HostExecutionEvent| {
            event.end_host_time_ns.get() - event.start_host_time_ns.get()
        };
        assert!(of(QueueEventType::ALLOCA).count() != 0, "{driver}");
        for alloca in of(QueueEventType::ALLOCA) {
            assert!(length(alloca) > 0, "{driver}: an allocation takes time");
            let is_its = |event: &&layout::QueueEvent| event.submission_id == alloca.submission_id;
            let event = rows.queue.iter().find(is_its).unwrap();
            assert!(
                event.host_time_ns.get() <= alloca.start_host_time_ns.get(),
                "{driver}: submitted before"
            );
        }
        // What precedes the workgroups of the first command is not part of its time.
        for dispatch in dispatches(&rows) {
            let is_whole = |event: &&layout::HostExecutionEvent| {
                event.event_type.get() == QueueEventType::EXECUTE.0
                    && event.submission_id == dispatch.submission_id
            };
            let whole = rows.execution.iter().find(is_whole).unwrap();
            assert!(dispatch.start_host_time_ns.get() > whole.start_host_time_ns.get(), "{driver}");
            assert!(length(dispatch) > 0, "{driver}");
        }
    }
}

#[test]
fn regions_cover_the_stages_of_each_command_buffer() {
    for driver in DRIVERS {
        let rows = profile(driver, MLP, 1, |_| {});
        let executions = rows.execution.iter().filter(|event| event.event_type.get() == 3).count();
        let last = rows.regions.iter().filter(|region| region.next_index.get() == -1).count();
        assert_eq!(last, executions, "{driver}: the last region of each execution has no next");
        let commands: u32 = rows.regions.iter().map(|region| region.dispatch_count.get()).sum();
        let barriers = rows.regions.len() - executions;
        assert_eq!(commands as usize + barriers, rows.commands.len(), "{driver}");
        for region in &rows.regions {
            assert!(region.end_host_time_ns.get() >= region.start_host_time_ns.get(), "{driver}");
            assert!(region.tile_count.get() >= region.dispatch_count.get(), "{driver}");
        }
    }
}

/// The rows of a running program, once events of queues are part of them.
fn read_with_queue_events(path: &Path) -> Rows {
    loop {
        let rows = read_unfinished(path);
        if !rows.queue.is_empty() {
            return rows;
        }
        std::thread::yield_now();
    }
}

#[test]
fn rows_of_a_measurement_that_takes_long_are_written_before_it_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("long.ireeprof");
    let plan = CaptureFile::open(&capture("add4.add.local-sync"), &CaptureOptions::default()).unwrap().plan();
    let plan = plan.unwrap();
    let devices = DeviceOptions::for_plan(&plan, DeviceSpec::find("local-sync").unwrap()).open().unwrap();
    let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
    let mut options = ProfilingOptions::new(&path, everything());
    options.is_measured = true;
    let profiling = Profiling::begin(&devices, &options).unwrap();
    replay.run(&mut []).unwrap();
    // The measurement has not ended, so the program has not flushed: what a kill leaves is what is in the
    // file, which has all rows of a profile that has ended, after a while.
    let counts = |rows: &Rows| (rows.queue.len(), rows.execution.len());
    let ended = profile("local-sync", "add4.add.local-sync", 1, |_| {});
    while counts(&read_unfinished(&path)) != counts(&ended) {
        std::thread::yield_now();
    }
    assert!(profiling.is_due(), "the program was asked to flush");
    profiling.end().unwrap();
    assert_eq!(counts(&read(&path)), counts(&ended));
}

#[test]
fn allocations_are_reported_until_they_are_freed() {
    const FROM_QUEUE: u32 = 1;
    // Of the first, programs drop all buffers of queues; of the second, they also deallocate some.
    let captures = ["add4.add.local-sync", "chain.chain.local-task"];
    for (driver, name) in DRIVERS.into_iter().flat_map(|driver| captures.map(|name| (driver, name))) {
        let rows = profile(driver, name, 2, |options| {
            options.data = RequestedData::Kinds(ProfileData::MEMORY_EVENTS)
        });
        assert!(rows.queue.is_empty() && rows.execution.is_empty(), "{name}");
        let of = |kind: MemoryEventType| -> Vec<u64> {
            let events = rows.memory.iter().filter(|event| event.event_type.get() == kind.0);
            let mut ids: Vec<_> = events.map(|event| event.allocation_id.get()).collect();
            ids.sort_unstable();
            ids
        };
        let allocated = of(MemoryEventType::BUFFER_ALLOCATE);
        assert!(!allocated.is_empty(), "{name}");
        assert_eq!(allocated, of(MemoryEventType::BUFFER_FREE), "{name}: a replay frees what it allocates");
        let allocated = of(MemoryEventType::QUEUE_ALLOCA);
        assert!(!allocated.is_empty(), "{name}");
        assert_eq!(
            allocated,
            of(MemoryEventType::QUEUE_DEALLOCA),
            "{name}: a replay frees what queues allocate"
        );
        for event in &rows.memory {
            let is_from_queue = event.flags.get() & FROM_QUEUE != 0;
            assert_eq!(is_from_queue, event.submission_id.get() != 0, "{name}: {event:?}");
            assert!(is_from_queue || event.event_type.get() != MemoryEventType::QUEUE_ALLOCA.0, "{name}");
        }
    }
}

#[test]
fn filters_select_what_is_reported_in_detail() {
    for driver in DRIVERS {
        let all = profile(driver, MLP, 1, |_| {});
        let mut names: Vec<_> = all.names.clone();
        names.sort_unstable();
        names.dedup();
        let wanted = names.first().unwrap().clone();
        let one = profile(driver, MLP, 1, |options| options.filter.function = Some(wanted.clone()));
        let ordinal = one.names.iter().position(|name| *name == wanted).unwrap() as u32;
        assert!(!one.execution.is_empty() && one.execution.len() < all.execution.len(), "{driver}");
        assert!(one.execution.iter().all(|event| event.function_ordinal.get() == ordinal), "{driver}");
        assert_eq!(one.queue.len(), all.queue.len(), "{driver}: queue events are complete");
        assert_eq!(one.regions.len(), one.execution.len(), "{driver}: regions of selected dispatches only");

        let first = profile(driver, MLP, 1, |options| options.filter.command_index = Some(0));
        assert!(!first.execution.is_empty(), "{driver}");
        assert!(first.execution.iter().all(|event| event.command_index.get() == 0), "{driver}");
        assert!(!first.regions.is_empty(), "{driver}");
        assert!(first.regions.iter().all(|region| region.index.get() == 0), "{driver}");

        for none in [
            profile(driver, MLP, 1, |options| options.filter.queue = Some(1)),
            profile(driver, MLP, 1, |options| options.filter.command_buffer = Some(u64::MAX)),
            profile(driver, MLP, 1, |options| options.device_filter = Some(1)),
        ] {
            assert!(none.execution.is_empty() && none.regions.is_empty(), "{driver}");
            assert_eq!(none.queue.len(), all.queue.len(), "{driver}");
        }
    }
}

#[test]
fn data_that_a_device_does_not_report_is_refused_by_name() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run.ireeprof");
    for driver in DRIVERS {
        let devices = DeviceOptions::for_devices(vec![DeviceSpec::find(driver).unwrap()]).open().unwrap();
        for (name, data) in ProfileData::NAMES {
            let begun = Profiling::begin(&devices, &ProfilingOptions::new(&path, data));
            match begun.err() {
                None => assert!(everything().contains(data), "{driver}: {name}"),
                Some(error) => {
                    assert!(!everything().contains(data), "{driver}: {name}");
                    assert_eq!(error.code(), StatusCode::Unimplemented);
                    assert_eq!(error.message(), format!("device '{driver}' cannot report {name}"));
                }
            }
        }
        let first = Profiling::begin(&devices, &ProfilingOptions::new(&path, everything())).unwrap();
        let second =
            Profiling::begin(&devices, &ProfilingOptions::new(scratch.path().join("2"), everything()));
        assert_eq!(second.err().unwrap().code(), StatusCode::FailedPrecondition);
        first.end().unwrap();
        let missing = ProfilingOptions::new(scratch.path().join("none/x.ireeprof"), everything());
        let error = Profiling::begin(&devices, &missing).err().unwrap();
        assert!(error.report().contains("none/x.ireeprof"), "{}", error.report());
    }
}

#[test]
fn programs_are_profiled_with_their_recording_and_flushed() {
    for driver in DRIVERS {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("run.ireeprof");
        let mut options = ProgramOptions::default();
        options.modules.push(ModuleSource::File(fixture("modules/add4.vmfb")));
        options.devices = DeviceOptions::for_devices(vec![DeviceSpec::find(driver).unwrap()]);
        let recording = scratch.path().join("run.ireereplay");
        options.recording = Some(rehal::program::RecordingOptions::new(&recording));
        let program = Program::load(&options).unwrap();
        let mut profiling = ProfilingOptions::new(&path, everything());
        profiling.flush_interval = Some(Duration::from_millis(1));
        let profiling = Profiling::begin(program.devices().unwrap(), &profiling).unwrap();
        let function = program.function("add").unwrap();
        let texts = ["4xf32=1 2 3 4", "4xf32=1"].map(|text| ValueText::new(text).unwrap());
        let inputs = program.inputs(&function, &texts).unwrap();
        drop(program.call(&function, inputs).unwrap());
        profiling.flush().unwrap();
        // Readable before the session ends, as after a kill.
        let flushed = read_unfinished(&path);
        assert_eq!(flushed.sessions, (1, 0), "{driver}");
        assert!(!flushed.queue.is_empty() && !dispatches(&flushed).is_empty(), "{driver}");
        profiling.end().unwrap();
        assert_eq!(read(&path).sessions, (1, 1), "{driver}");
        drop(function);
        program.close().unwrap();
        // The capture has the calls, and replays.
        let plan = CaptureFile::open(&recording, &CaptureOptions::default()).unwrap().plan().unwrap();
        let devices = options.devices.open().unwrap();
        Replay::new(plan, &devices, &ReplayOptions::default()).unwrap().run(&mut []).unwrap();
    }
}

#[test]
fn statistics_are_printed_without_a_bundle() {
    let plan = CaptureFile::open(&capture(MLP), &CaptureOptions::default()).unwrap().plan().unwrap();
    let devices = DeviceOptions::default().open().unwrap();
    let replay = Replay::new(plan, &devices, &ReplayOptions::default()).unwrap();
    let profiling = Profiling::begin(&devices, &ProfilingOptions::statistics(None)).unwrap();
    replay.run(&mut []).unwrap();
    let mut text = Vec::new();
    profiling.end_with_statistics(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("\nIREE HAL device statistics:\n  aggregate_rows="), "{text}");
    assert!(text.contains("  host_execute mlp_dispatch_"), "{text}");
    assert!(text.contains("  host_queue p=0 q=0 execute  count="), "{text}");
}

#[test]
fn each_test_of_a_module_has_its_profile() {
    let scratch = tempfile::tempdir().unwrap();
    let mut options = ProgramOptions::default();
    options.modules.push(ModuleSource::File(fixture("modules/checks.vmfb")));
    options.profiling =
        Some(ProfilingOptions::new(scratch.path().join("checks.ireeprof"), ProfileData::QUEUE_EVENTS));
    let tests = ModuleTests::load(&options).unwrap();
    for test in tests.tests() {
        // Some of them fail, and have a profile nevertheless.
        drop(tests.run(&test.name));
    }
    let written = std::fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(written, tests.tests().len());
}

/// The clock samples of a profile whose program has not ended it.
fn clock_samples(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let bundle = Bundle::open(&bytes, OpenOptions { recover: true }).unwrap();
    let records = bundle.records().map(Result::unwrap);
    let clocks = records.filter(|record| record.content() == Some(ContentType::ClockCorrelations));
    clocks.map(|record| record.rows::<rows::ClockCorrelation<'_>>().count()).sum()
}

#[test]
fn the_clocks_of_a_device_are_sampled_while_the_program_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let devices = DeviceOptions::for_devices(vec![DeviceSpec::find("vulkan").unwrap()]).open().unwrap();
    let path = scratch.path().join("run.ireeprof");
    let mut options = ProfilingOptions::new(&path, ProfileData::DISPATCH_EVENTS);
    let profiling = Profiling::begin(&devices, &options).unwrap();
    // As many as times need, and then those that follow drift.
    while clock_samples(&path) < 4 {
        std::thread::yield_now();
    }
    profiling.end().unwrap();

    // Not in what a benchmark measures: its own flushes sample them. What is reported is written.
    options.is_measured = true;
    options.data = RequestedData::Kinds(ProfileData::DISPATCH_EVENTS | ProfileData::QUEUE_EVENTS);
    let profiling = Profiling::begin(&devices, &options).unwrap();
    let device = &devices.devices()[0];
    let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::default()).unwrap();
    device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).barrier(0).unwrap();
    read_with_queue_events(&path);
    assert_eq!(clock_samples(&path), 1);
    profiling.flush().unwrap();
    assert_eq!(clock_samples(&path), 2);
    profiling.end().unwrap();
}

#[test]
fn each_command_is_on_the_track_of_the_thread_that_executed_it() {
    // Its dispatches are brief: threads that submit or wait execute some of them at once.
    for name in [MLP, "add4.add.local-sync"] {
        let rows = profile("local-task", name, 20, |_| {});
        let executed: BTreeSet<_> =
            dispatches(&rows).iter().map(|it| (it.command_buffer_id.get(), it.command_index.get())).collect();
        let spans = |command: &(u64, u32)| {
            rows.threads.iter().filter(|(_, id, index)| (*id, *index) == *command).count()
        };
        for command in &executed {
            let count = dispatches(&rows)
                .iter()
                .filter(|it| (it.command_buffer_id.get(), it.command_index.get()) == *command)
                .count();
            assert!(spans(command) >= count, "{name}: {command:?}: {} of {count}", spans(command));
        }
        assert!(executed.len() > 1 || name != MLP, "{executed:?}");
    }
    // The device without workers has no tracks of them.
    assert!(profile("local-sync", MLP, 1, |_| {}).threads.is_empty());
    let without = profile("local-task", MLP, 1, |options| {
        options.data = RequestedData::Kinds(everything() - ProfileData::COMMAND_REGIONS);
    });
    assert!(without.threads.is_empty() && !dispatches(&without).is_empty());
}

#[test]
fn a_refused_request_leaves_an_existing_file() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("good.ireeprof");
    std::fs::write(&path, "kept").unwrap();
    for driver in DRIVERS {
        let devices = DeviceOptions::for_devices(vec![DeviceSpec::find(driver).unwrap()]).open().unwrap();
        let options = ProfilingOptions::new(&path, ProfileData::DISPATCH_EVENTS);
        let error = Profiling::begin(&devices, &options).err().unwrap();
        assert_eq!(error.code(), StatusCode::Unimplemented);
        assert!(error.report().contains("cannot report dispatch-events"), "{}", error.report());
        assert!(error.report().contains("beginning the profile"), "{}", error.report());
        assert_eq!(std::fs::read(&path).unwrap(), b"kept", "{driver}");
    }
}

#[test]
fn filters_of_queues_and_devices_leave_the_events_of_queues_complete() {
    let scratch = tempfile::tempdir().unwrap();
    let devices = DeviceOptions::for_devices(vec![DeviceSpec::find("vulkan").unwrap()]).open().unwrap();
    let device = &devices.devices()[0];
    let edits: [fn(&mut ProfilingOptions); 3] =
        [|_| {}, |options| options.device_filter = Some(1), |options| options.filter.queue = Some(1)];
    for (index, edit) in edits.into_iter().enumerate() {
        let path = scratch.path().join(format!("{index}.ireeprof"));
        let mut options = ProfilingOptions::new(
            &path,
            ProfileData::QUEUE_EVENTS | ProfileData::DEVICE_QUEUE_EVENTS | ProfileData::DISPATCH_EVENTS,
        );
        edit(&mut options);
        let profiling = Profiling::begin(&devices, &options).unwrap();
        let buffer = device.allocate_buffer(BufferParams::default(), 64).unwrap();
        let done = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::default()).unwrap();
        device.queue(QUEUE_AFFINITY_ANY).signal(&[done.at(1)]).fill(&buffer, &[7], 0).unwrap();
        done.wait(1, Some(Duration::from_secs(60))).unwrap();
        profiling.end().unwrap();
        let rows = read(&path);
        assert_eq!((rows.queue.len(), rows.device_operations), (1, 1), "{index}");
    }
}
