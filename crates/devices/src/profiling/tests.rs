//! The files of sinks: ids and relationships of events, and the ticks of a device whose clock drifts from the
//! host's time.

use rehal_base::StatusCode;
use rehal_hal::profile::{
    ClockSample, DeviceQueueEvent, DispatchEvent, HostExecution, ProcessorTime, ProfileSink,
    ProfiledDispatch, ProfiledOperation, ProfiledThread, QueueEvent, QueueOpKind, SectionTime, WorkerSpan,
};
use rehal_hal::{FunctionInfo, Timepoint};
use rehal_profile::QueueEventType;
use std::path::Path;

use super::*;
use rehal_profile::report::Format as ReportFormat;

/// When the oscillator changes its temperature.
const CHANGE_NS: i64 = 6_000_000_000;

/// Ticks of a clock of 25 MHz that starts at an arbitrary value, and gains 100 ppm, then loses 300 ppm.
fn tick_at(host_ns: i64) -> u64 {
    let ticks_per_10_000 = |span_ns: i64, rate: i128| i128::from(span_ns) * rate / 40;
    let (before, after) = (host_ns.min(CHANGE_NS), (host_ns - CHANGE_NS).max(0));
    7_000_000 + ((ticks_per_10_000(before, 10_001) + ticks_per_10_000(after, 9_997)) / 10_000) as u64
}

fn sample(host_ns: i64) -> ClockSample {
    ClockSample { device_tick: tick_at(host_ns), host_before_ns: host_ns - 500, host_after_ns: host_ns + 500 }
}

/// How long each dispatch takes.
const DURATION_NS: i64 = 3_000_000;

/// When the dispatches begin.
const STARTS_NS: [i64; 2] = [3_000_000_000, 9_000_000_000];

/// The profile of a device that has the clock [`tick_at`], dispatches twice and reports three samples.
fn profile_of_a_clocked_device(path: &Path) {
    let bundle = Arc::new(Bundle::new(File::create(path).unwrap()).unwrap());
    let sink = DeviceSink::new(&bundle, 0, "clocked", None);
    sink.begin();
    let function = FunctionInfo {
        name: "kernel".into(),
        workgroup_size: [64, 1, 1],
        binding_count: 2,
        ..FunctionInfo::default()
    };
    sink.executable(9, &[function]);
    let dispatch = ProfiledDispatch {
        executable_id: 9,
        function: 0,
        workgroup_count: [4, 1, 1],
        workgroup_size: [64, 1, 1],
        is_indirect: false,
    };
    sink.clock_sample(&sample(1_000_000_000));
    for (submission_id, start_ns) in (1..).zip(STARTS_NS) {
        let operation = ProfiledOperation {
            kind: QueueOpKind::Dispatch,
            queue_ordinal: 0,
            submission_id,
            command_buffer_id: 0,
            allocation_id: 0,
            operation_count: 1,
            payload_bytes: 0,
        };
        sink.replayed(&operation, 40 + submission_id);
        let (start_tick, end_tick) = (tick_at(start_ns), tick_at(start_ns + DURATION_NS));
        sink.dispatch_event(&DispatchEvent {
            operation,
            command_index: None,
            dispatch,
            start_tick,
            end_tick,
        });
        sink.device_queue_event(&DeviceQueueEvent { operation, start_tick, end_tick });
        // As when the device is flushed.
        sink.clock_sample(&sample(CHANGE_NS));
        sink.write();
    }
    sink.clock_sample(&sample(11_000_000_000));
    sink.end(StatusCode::Ok);
    bundle.check().unwrap();
}

fn report(profile: &ProfileFile, report: Report, format: ReportFormat) -> String {
    let mut text = Vec::new();
    profile.print(&ReportOptions::default().report(report).format(format), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn ticks_of_a_clock_that_drifts_are_converted_to_the_hosts_time() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("clock.ireeprof");
    profile_of_a_clocked_device(&path);
    let profile = ProfileFile::open(&path).unwrap();

    // Reports fit one line through the first and the last sample: its rate is off by at most 250 ppm.
    let export = report(&profile, Report::Export, ReportFormat::IreeperfJsonl);
    let duration = |row: &str| -> i64 {
        let value = row.split("\"duration_ns\":").nth(1).unwrap_or_else(|| panic!("no duration: {row}"));
        value.split([',', '}']).next().unwrap().parse().unwrap()
    };
    for kind in ["dispatch_event", "queue_device_event"] {
        let is_it = |row: &&str| row.contains(&format!("\"record_type\":\"{kind}\""));
        let durations: Vec<_> = export.lines().filter(is_it).map(duration).collect();
        assert_eq!(durations.len(), STARTS_NS.len(), "{kind}");
        for (duration_ns, start_ns) in durations.into_iter().zip(STARTS_NS) {
            assert!((duration_ns - DURATION_NS).abs() <= 840, "{kind}: {duration_ns} ns");
            let ticks = tick_at(start_ns + DURATION_NS) - tick_at(start_ns);
            assert_ne!(duration_ns, (ticks * 40) as i64, "{kind}: ticks at the nominal rate");
        }
    }
    let times = profile.dispatch_times().unwrap();
    assert_eq!((times.untimed_count, times.functions.len()), (0, 1));
    assert_eq!(
        (&*times.functions[0].name, times.functions[0].timed_by),
        ("kernel", rehal_profile::times::TimedBy::Device)
    );
    for time_ns in &times.functions[0].times_ns {
        assert!((time_ns - DURATION_NS as f64).abs() <= 840.0, "{time_ns} ns");
    }
    let explain = report(&profile, Report::Explain, ReportFormat::Jsonl);
    assert!(explain.contains("\"kernel\"") && !explain.contains("\"time_ns\":null"), "{explain}");

    // A timeline follows the rate between neighbouring samples.
    let activity = profile.activity(usize::MAX).unwrap();
    assert!(activity.tracks.iter().all(|track| track.is_correlated));
    assert_eq!(activity.events.len(), 2 * STARTS_NS.len());
    for event in &activity.events {
        let start_ns = activity.origin_ns + event.start as i64;
        let expected_ns = STARTS_NS[event.submission as usize - 1];
        assert!((start_ns - expected_ns).abs() <= 80, "begins at {start_ns}, not {expected_ns}");
        assert!((event.duration as i64 - DURATION_NS).abs() <= 80, "{} ns", event.duration);
        assert_eq!(u64::from(event.replayed_record), 40 + event.submission);
    }
    let summary = profile.write_timeline(&mut Vec::new()).unwrap();
    assert_eq!((summary.event_count, summary.untimed_count), (4, 0));
    assert!(summary.uncorrelated_devices.is_empty());
}

#[test]
fn spans_of_workers_name_the_command_or_the_kind_of_submission() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("workers.ireeprof");
    let bundle = Arc::new(Bundle::new(File::create(&path).unwrap()).unwrap());
    let sink = DeviceSink::new(&bundle, 0, "host", None);
    sink.begin();
    let span = |command_buffer_id, command_index, thread| WorkerSpan {
        operation: ProfiledOperation {
            kind: QueueOpKind::Copy,
            queue_ordinal: 0,
            submission_id: 9,
            command_buffer_id,
            allocation_id: 0,
            operation_count: 1,
            payload_bytes: 0,
        },
        command_index,
        thread,
        start_ns: 10,
        end_ns: 20,
    };
    sink.worker_span(&span(0, None, ProfiledThread::Worker(3)));
    sink.worker_span(&span(0, None, ProfiledThread::Waiting));
    sink.worker_span(&span(5, Some(7), ProfiledThread::Worker(2)));
    sink.worker_span(&span(5, Some(8), ProfiledThread::Submitting));
    sink.end(StatusCode::Ok);
    bundle.check().unwrap();
    let export = report(&ProfileFile::open(&path).unwrap(), Report::Export, ReportFormat::IreeperfJsonl);
    let sources: Vec<_> = export
        .lines()
        .filter(|row| row.contains("\"record_type\":\"event_relationship\""))
        .map(|row| (number(row, "source_id"), number(row, "source_secondary_id")))
        .collect();
    let copy = u64::from(QueueEventType::COPY.0);
    assert_eq!(
        sources,
        [(9, 3 << 32 | copy), (9, 0xffff_ffff << 32 | copy), (5, 2 << 32 | 7), (5, 0xffff_fffe << 32 | 8)]
    );
}

/// The value of a field in a row of an export.
fn number(row: &str, name: &str) -> u64 {
    let value = row.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("no {name}: {row}"));
    value.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn events_of_all_writes_have_consecutive_ids_and_their_own_relationships() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("events.ireeprof");
    let bundle = Arc::new(Bundle::new(File::create(&path).unwrap()).unwrap());
    let sink = DeviceSink::new(&bundle, 0, "host", None);
    sink.begin();
    let threads = [(70, 90), (50, 120)].map(|(cpu_ns, elapsed_ns)| SectionTime { cpu_ns, elapsed_ns });
    let processor = ProcessorTime::of(threads);
    assert_eq!((processor.elapsed_ns, processor.longest_elapsed_ns), (210, 120));
    for submission_id in 1..=6 {
        let operation = ProfiledOperation {
            kind: QueueOpKind::Barrier,
            queue_ordinal: 0,
            submission_id,
            command_buffer_id: 0,
            allocation_id: 0,
            operation_count: 0,
            payload_bytes: 0,
        };
        // Of the submission n: n - 1 waits, one signal.
        let waits: Vec<_> =
            (1..submission_id).map(|value| Timepoint { semaphore: 100 + submission_id, value }).collect();
        let record = (submission_id % 2 == 0).then_some(1_000 + submission_id);
        sink.queue_event(&QueueEvent {
            operation,
            waits: &waits,
            signals: &[Timepoint { semaphore: 200 + submission_id, value: 7 }],
            was_deferred: false,
            submitted_ns: 10,
            ready_ns: 10,
            replayed_record: record,
        });
        // A relationship that is encoded at once.
        sink.replayed(&operation, 2_000 + submission_id);
        sink.host_execution(&HostExecution {
            operation,
            command_index: None,
            dispatch: None,
            was_deferred: false,
            status: StatusCode::Ok,
            start_ns: 20,
            end_ns: 30,
            thread_time_ns: 0,
            processor: (submission_id == 5).then_some(processor),
            replayed_record: Some(3_000 + submission_id),
        });
        if submission_id % 3 == 0 {
            sink.write();
        }
    }
    sink.end(StatusCode::Ok);
    bundle.check().unwrap();

    let profile = ProfileFile::open(&path).unwrap();
    let export = report(&profile, Report::Export, ReportFormat::IreeperfJsonl);
    let rows = |kind: &str| -> Vec<&str> {
        let wanted = format!("\"record_type\":\"{kind}\"");
        export.lines().filter(|row| row.contains(&wanted)).collect()
    };
    for kind in ["queue_event", "host_execution_event"] {
        let ids: Vec<_> =
            rows(kind).iter().map(|row| (number(row, "event_id"), number(row, "submission_id"))).collect();
        assert_eq!(ids, (1..=6).map(|id| (id, id)).collect::<Vec<_>>(), "{kind}");
    }
    let relationships = rows("event_relationship");
    let mut ids: Vec<_> = relationships.iter().map(|row| number(row, "relationship_id")).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    for submission in 1..=6 {
        let mut targets: Vec<_> = relationships
            .iter()
            .filter(|row| number(row, "source_id") == submission)
            .map(|row| (number(row, "target_id"), number(row, "target_secondary_id")))
            .collect();
        targets.sort_unstable();
        let mut expected: Vec<_> = (1..submission).map(|value| (100 + submission, value)).collect();
        expected.push((200 + submission, 7));
        expected.extend((submission % 2 == 0).then_some((1_000 + submission, 0)));
        expected.extend([(2_000 + submission, 0), (3_000 + submission, 0)]);
        // Of its event, which has the same id: the CPU time of both threads, and of the one that used more.
        expected.extend((submission == 5).then_some((120, 70)));
        expected.sort_unstable();
        assert_eq!(targets, expected, "submission {submission}");
    }
}

#[test]
fn each_device_is_asked_for_what_it_supports() {
    let info = DeviceInfo {
        driver: "test".into(),
        formats: &[],
        name: "untimed".into(),
        is_synchronous: false,
        uses_host_memory: false,
        zeroes_memory: true,
        can_be_lost: false,
        is_emulated: false,
        uuid: None,
        limits: None,
    };
    let of = |data: RequestedData, supported| data.of(&info, supported);
    let queue = ProfileData::QUEUE_EVENTS | ProfileData::EXECUTABLE_METADATA;
    let (host, memory) = (ProfileData::HOST_EXECUTION, ProfileData::MEMORY_EVENTS);
    let dispatches = ProfileData::DISPATCH_EVENTS;

    assert_eq!(of(RequestedData::Statistics, queue | host | memory).unwrap(), queue | host);
    assert_eq!(
        of(RequestedData::Statistics, queue | dispatches | memory).unwrap(),
        queue | dispatches | memory
    );
    assert_eq!(of(RequestedData::Statistics, ProfileData::QUEUE_EVENTS).unwrap(), ProfileData::QUEUE_EVENTS);
    assert_eq!(of(RequestedData::DispatchTimes, queue | host | dispatches).unwrap(), host);
    assert_eq!(of(RequestedData::DispatchTimes, queue | dispatches).unwrap(), dispatches);
    // The device refuses by itself what it is explicitly asked for.
    assert_eq!(of(RequestedData::Kinds(host), queue).unwrap(), host);

    let error = of(RequestedData::DispatchTimes, queue | memory).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unimplemented);
    assert!(error.to_string().contains("device 'untimed' does not time dispatches"), "{error}");
}
