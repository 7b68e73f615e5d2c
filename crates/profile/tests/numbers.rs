//! The numbers of reports, as text and as JSON, of a bundle whose totals are small enough to compute by hand.

#[allow(dead_code, reason = "shared with the tests that change bundles")]
mod common;

use std::io::Cursor;

use common::printed;
use rehal_profile::layout::{self, CLOCK_DEVICE_TICK, CLOCK_HOST_CPU_TIMESTAMP, NONE};
use rehal_profile::report::{Format, Report, ReportOptions};
use rehal_profile::{
    Bundle, MemoryEventType, OpenOptions, QueueEventType, RecordFields, Writer, rows, times,
};

/// Device, queue and stream of all events: no two of them are equal, and none is zero.
const QUEUE: RecordFields<'_> = RecordFields {
    name: b"device",
    session_id: 1,
    stream_id: 9,
    event_id: 0,
    executable_id: 0,
    command_buffer_id: 0,
    physical_device_ordinal: 3,
    queue_ordinal: 5,
    dropped_record_count: 0,
    is_truncated: false,
};

/// A bundle with the rows that `append` writes.
fn bundle(append: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>)) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    writer.begin_session(&QUEUE).unwrap();
    append(&mut writer);
    writer.end_session(&QUEUE, 0).unwrap();
    writer.into_inner().into_inner()
}

/// A clock of 10 ns in 4 ticks, dispatches of the function `f` by submission, start and end, and a submission
/// after which two others were dropped.
fn dispatches(times: &[(u64, u64, u64)]) -> Vec<u8> {
    bundle(|writer| {
        let queue = layout::Queue {
            physical_device_ordinal: 3.into(),
            queue_ordinal: 5.into(),
            stream_id: 9.into(),
            ..Default::default()
        };
        let row = rows::Queue { header: &queue.sized(), appended: &[] };
        writer.append_rows(&QUEUE, &[row]).unwrap();
        let executable = layout::Executable { executable_id: 7.into(), ..Default::default() }.sized();
        let row = rows::Executable { header: &executable, appended: &[] };
        writer.append_rows(&QUEUE, &[row]).unwrap();
        let function =
            layout::Function { executable_id: 7.into(), function_ordinal: 2.into(), ..Default::default() };
        let row = rows::Function { header: &function.sized(b"f"), name: b"f", appended: &[] };
        writer.append_rows(&QUEUE, &[row]).unwrap();
        for (tick, ns) in [(100_u64, 1_000_u64), (500, 2_000)] {
            let sample = layout::ClockCorrelation {
                flags: (CLOCK_DEVICE_TICK | CLOCK_HOST_CPU_TIMESTAMP).into(),
                sample_id: tick.into(),
                physical_device_ordinal: 3.into(),
                device_tick: tick.into(),
                host_cpu_timestamp_ns: ns.into(),
                ..Default::default()
            };
            let row = rows::ClockCorrelation { header: &sample.sized(), appended: &[] };
            writer.append_rows(&QUEUE, &[row]).unwrap();
        }
        for (submission, start, end) in times {
            let event = layout::DispatchEvent {
                event_id: (*submission + 20).into(),
                submission_id: (*submission).into(),
                executable_id: 7.into(),
                function_ordinal: 2.into(),
                command_index: NONE.into(),
                start_tick: (*start).into(),
                end_tick: (*end).into(),
                ..Default::default()
            };
            let row = rows::DispatchEvent { header: &event.sized(), appended: &[] };
            writer.append_rows(&QUEUE, &[row]).unwrap();
        }
        let event = layout::QueueEvent {
            event_type: QueueEventType::COPY.0.into(),
            submission_id: 1.into(),
            physical_device_ordinal: 3.into(),
            queue_ordinal: 5.into(),
            stream_id: 9.into(),
            host_time_ns: 40.into(),
            ready_host_time_ns: 47.into(),
            operation_count: 6.into(),
            payload_length: 11.into(),
            ..Default::default()
        };
        let row = rows::QueueEvent { header: &event.sized(), appended: &[] };
        writer.append_rows(&RecordFields { dropped_record_count: 2, ..QUEUE }, &[row]).unwrap();
    })
}

/// The lines of a report that start with `start`, without it.
fn lines(bytes: &[u8], report: Report, format: Format, start: &str) -> Vec<String> {
    let (output, error) = printed(bytes, &ReportOptions::default().report(report).format(format));
    assert!(error.is_none(), "{error:?}");
    let output = String::from_utf8(output).unwrap();
    output.lines().filter_map(|line| Some(line.strip_prefix(start)?.to_owned())).collect()
}

/// The values of the columns of a JSON line.
fn values(bytes: &[u8], report: Report, kind: &str, names: &[&str]) -> String {
    let start = format!("{{\"type\":\"{kind}\"");
    let line = lines(bytes, report, Format::Jsonl, &start).pop().unwrap_or_else(|| panic!("no {kind}"));
    let value = |name: &&str| {
        let (_, value) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {line}"));
        value.split([',', '}']).next().unwrap().to_owned()
    };
    names.iter().map(value).collect::<Vec<_>>().join(" ")
}

#[test]
fn dispatches_are_totalled_by_function_and_queue() {
    // 60, 20 and 10 ticks: mean 30, sample variance (100 + 900 + 400) / 2.
    let bytes = dispatches(&[(1, 110, 170), (1, 100, 120), (1, 140, 150), (4, 210, 205)]);
    let report = Report::Dispatch;
    let names = ["physical_device_ordinal", "executable_id", "function_ordinal", "count", "valid", "invalid"];
    assert_eq!(values(&bytes, report, "dispatch_group", &names), "3 7 2 4 3 1");
    let ticks = ["min_ticks", "avg_ticks", "stddev_ticks", "max_ticks", "total_ticks"];
    assert_eq!(values(&bytes, report, "dispatch_group", &ticks), "10 30.000 26.458 60 90");
    let ns = ["min_ns", "avg_ns", "stddev_ns", "max_ns", "total_ns"];
    assert_eq!(values(&bytes, report, "dispatch_group", &ns), "25 75.000 66.144 150 225");
    let text = lines(&bytes, report, Format::Text, "    ");
    assert_eq!(
        text,
        [
            "device=3 executable=7 function=2 count=4 valid=3 invalid=1",
            "ticks: min=10 avg=30.000 stddev=26.458 max=60 total=90",
            "time_ns: min=25 avg=75.000 stddev=66.144 max=150 total=225",
            "last_geometry: workgroup_count=0x0x0 workgroup_size=0x0x0",
        ]
    );
    let [first, invalid] = lines(&bytes, Report::Queue, Format::Text, "  submission=").try_into().unwrap();
    assert_eq!(
        first,
        "1 dispatches=3 valid=3 invalid=0 span_ticks=70.000 total_dispatch_ticks=90 span_ns=175.000 \
         total_dispatch_ns=225"
    );
    assert_eq!(invalid, "4 dispatches=1 valid=0 invalid=1 span_ticks=0.000 total_dispatch_ticks=0");
    let names = ["submissions", "matched_dispatches", "truncated_chunks", "dropped_records"];
    assert_eq!(values(&bytes, Report::Queue, "queue_summary", &names), "2 4 1 2");
    let device =
        ["earliest_dispatch_start_tick", "latest_dispatch_end_tick", "avg_dispatch_ns", "ns_per_tick"];
    assert_eq!(values(&bytes, Report::Summary, "device_summary", &device), "100 170 75.000 2.500000000");
}

#[test]
fn bottlenecks_have_shares_and_gaps() {
    // Busy from 100 to 170 and from 190 to 200, with a gap of 20 ticks; and one of 40 ticks before 240.
    let bytes = dispatches(&[(1, 100, 120), (1, 110, 170), (2, 190, 200), (3, 240, 245)]);
    let ticks = ["busy_ticks", "total_dispatch_ticks", "gaps", "total_gap_ticks", "max_gap_ticks"];
    assert_eq!(values(&bytes, Report::Explain, "explain_queue", &ticks), "85.000 95 2 60.000 40.000");
    let ns = ["busy_ns", "total_dispatch_ns", "total_gap_ns", "max_gap_ns"];
    assert_eq!(values(&bytes, Report::Explain, "explain_queue", &ns), "212.500 238 150.000 100.000");
    let device = ["visible_span_ticks", "active_dispatch_ticks", "active_over_visible", "visible_span_ns"];
    assert_eq!(values(&bytes, Report::Explain, "explain_device", &device), "145.000 95 0.655172 362.500");
    let text = lines(&bytes, Report::Explain, Format::Text, "  queue device=3 ordinal=5 stream=9: ");
    assert_eq!(
        text,
        ["submissions=3 valid=3 invalid=0 busy_ticks=85.000 total_dispatch_ticks=95 busy_ns=212.500 \
          total_dispatch_ns=238 gaps=2 total_gap_ticks=60.000 max_gap_ticks=40.000 total_gap_ns=150.000 \
          max_gap_ns=100.000"]
    );
    let longest = lines(&bytes, Report::Explain, Format::Text, "  #1 event=");
    assert_eq!(
        longest,
        [
            "21 submission=1 f device=3 queue=5 stream=9 timing_source=device_dispatch_event duration_ticks=60 \
          duration_ns=150"
        ]
    );
}

#[test]
fn statistics_add_up_samples() {
    let bytes = dispatches(&[(1, 100, 120), (1, 110, 170), (4, 210, 205)]);
    let text = lines(&bytes, Report::Statistics, Format::Text, "  ");
    assert_eq!(
        text,
        [
            "aggregate_rows=2",
            "dropped_records=2",
            "dispatch_function_total=200 ns",
            "host_execution_function_total=0 ns",
            "host_execution_queue_total=0 ns",
            "device_queue_total=0 ns",
            "host_queue_ready_total=7 ns",
            "dispatch f  count=3 total=200 ns avg=65 ns invalid=1",
            "host_queue p=3 q=5 copy  count=1 total=7 ns avg=7 ns operations=6 payload=11B",
        ]
    );
    let names = ["time_domain", "physical_device_ordinal", "queue_ordinal", "event_type", "sample_count"];
    let found = values(&bytes, Report::Statistics, "statistics_row", &names);
    assert_eq!(found, format!("\"iree_host_time_ns\" 3 5 {} 1", QueueEventType::COPY.0));
    let times =
        ["first_start_time", "last_end_time", "total_duration", "minimum_duration", "maximum_duration_ns"];
    assert_eq!(values(&bytes, Report::Statistics, "statistics_row", &times), "40 47 7 7 7");
}

#[test]
fn threads_of_the_host_spend_processor_time_where_it_is_known() {
    let bytes = bundle(|writer| {
        // The work of event 1 took 33 ns of the processor; that of event 2 is known by its tiles only.
        let relationship = layout::EventRelationship {
            relationship_type: layout::RELATIONSHIP_PROCESSOR.into(),
            physical_device_ordinal: 3.into(),
            source_id: 1.into(),
            target_id: 33.into(),
            ..Default::default()
        };
        let row = rows::EventRelationship { header: &relationship.sized(), appended: &[] };
        writer.append_rows(&QUEUE, &[row]).unwrap();
        for (id, start, end) in [(1_u64, 100_i64, 120_i64), (2, 120, 150), (3, 9, 8)] {
            let event = layout::HostExecutionEvent {
                event_type: QueueEventType::DISPATCH.0.into(),
                event_id: id.into(),
                physical_device_ordinal: 3.into(),
                executable_id: 7.into(),
                function_ordinal: 2.into(),
                start_host_time_ns: start.into(),
                end_host_time_ns: end.into(),
                tile_duration_sum_ns: 50.into(),
                ..Default::default()
            };
            let row = rows::HostExecutionEvent { header: &event.sized(), appended: &[] };
            writer.append_rows(&QUEUE, &[row]).unwrap();
        }
    });
    let times = times::of(&Bundle::open(&bytes, OpenOptions::default()).unwrap()).unwrap();
    assert_eq!((times.functions.len(), times.untimed_count, times.uncorrelated_count), (1, 1, 0));
    let function = &times.functions[0];
    assert_eq!((&*function.name, function.timed_by), ("executable7#2", times::TimedBy::Host));
    assert_eq!((&*function.times_ns, function.thread_time_ns), (&[20.0, 30.0][..], 83.0));
}

#[test]
fn memory_is_what_was_opened_and_closed() {
    use MemoryEventType as Type;
    // Of slabs, more is released than was acquired: by 6 bytes, and by one that was never acquired. The
    // reservation (flag 8) of pool 4 is materialized; of the last event, the reservation is missing.
    let events = [
        (Type::SLAB_ACQUIRE, 64_u64, 0_u32),
        (Type::SLAB_ACQUIRE, 16, 0),
        (Type::SLAB_RELEASE, 64, 0),
        (Type::SLAB_RELEASE, 22, 0),
        (Type::SLAB_RELEASE, 5, 0),
        (Type::POOL_RESERVE, 100, 8),
        (Type::POOL_WAIT, 0, 8),
        (Type::POOL_MATERIALIZE, 100, 8),
        (Type::BUFFER_ALLOCATE, 30, 0),
        (Type::BUFFER_IMPORT, 7, 32),
        (Type::BUFFER_UNIMPORT, 7, 32),
        (Type::POOL_MATERIALIZE, 40, 8),
    ];
    let bytes = bundle(|writer| {
        for (id, (event_type, length, flags)) in (1_u64..).zip(events) {
            let event = layout::MemoryEvent {
                event_id: id.into(),
                event_type: event_type.0.into(),
                flags: flags.into(),
                host_time_ns: (10 * id as i64).into(),
                allocation_id: (2 + u64::from(id == 12)).into(),
                pool_id: 4.into(),
                physical_device_ordinal: 3.into(),
                queue_ordinal: NONE.into(),
                length: length.into(),
                ..Default::default()
            };
            let row = rows::MemoryEvent { header: &event.sized(), appended: &[] };
            writer.append_rows(&QUEUE, &[row]).unwrap();
        }
    });
    let text = lines(&bytes, Report::Memory, Format::Text, "  ");
    let none = "open_at_end=0 peak_open=0 current_bytes=0 high_water_bytes=0 opened_bytes=0 closed_bytes=0 \
                partial_closes=0 partial_close_bytes=0";
    let reserved = "open_at_end=1 peak_open=1 current_bytes=100 high_water_bytes=100 opened_bytes=100 closed_bytes=0 \
                    partial_closes=0 partial_close_bytes=0";
    assert_eq!(
        text,
        [
            "slab_provider_events: open_at_end=0 peak_open=2 current_bytes=0 high_water_bytes=80 opened_bytes=80 \
             closed_bytes=91 partial_closes=2 partial_close_bytes=11"
                .to_owned(),
            format!("pool_reservations: {reserved}"),
            "pool_materializations: open_at_end=2 peak_open=2 current_bytes=140 high_water_bytes=140 opened_bytes=140 \
             closed_bytes=0 partial_closes=0 partial_close_bytes=0"
                .to_owned(),
            format!("queue_inflight_allocations: {none}"),
            "buffer_allocations: open_at_end=1 peak_open=1 current_bytes=30 high_water_bytes=30 opened_bytes=30 \
             closed_bytes=0 partial_closes=0 partial_close_bytes=0"
                .to_owned(),
            "buffer_imports: open_at_end=0 peak_open=1 current_bytes=0 high_water_bytes=7 opened_bytes=7 closed_bytes=7 \
             partial_closes=0 partial_close_bytes=0"
                .to_owned(),
        ]
    );
    let counts = [
        "slab_acquires",
        "slab_releases",
        "pool_reserves",
        "pool_materializes",
        "pool_releases",
        "pool_waits",
    ];
    assert_eq!(values(&bytes, Report::Memory, "memory_device", &counts), "2 3 1 2 0 1");
    let slabs = [
        "slab_total_open_count",
        "slab_total_close_count",
        "slab_partial_close_count",
        "slab_high_water_count",
    ];
    assert_eq!(values(&bytes, Report::Memory, "memory_device", &slabs), "2 3 2 2");
    let names = ["total_events", "devices", "allocation_lifecycles", "open_allocation_lifecycles"];
    assert_eq!(values(&bytes, Report::Memory, "memory_summary", &names), "12 1 5 3");
    assert_eq!(values(&bytes, Report::Memory, "memory_summary", &["partial_lifecycle_closes"]), "2");
    let allocations = lines(&bytes, Report::Memory, Format::Jsonl, "{\"type\":\"memory_allocation\"");
    let reserved = "\"events\":3,\"waits\":1,\"materializes\":1,\"open_at_end\":true";
    assert!(allocations[1].contains(reserved), "{}", allocations[1]);
    let imported = "\"open_at_end\":false,\"first_event_id\":10,\"last_event_id\":11,";
    assert!(allocations[3].contains("\"kind\":\"imported_buffer\""), "{}", allocations[3]);
    assert!(allocations[3].contains("\"externally_owned\":true") && allocations[3].contains(imported));
    assert!(allocations[3].contains("\"duration_ns\":10,"), "{}", allocations[3]);
    let names =
        ["kind", "allocation_id", "open_at_end", "lifecycle_current_bytes", "materialized_current_bytes"];
    assert_eq!(
        values(&bytes, Report::Memory, "memory_allocation", &names),
        "\"pool_reservation\" 3 true 0 40"
    );
}
