use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use super::*;
use crate::{
    Bundle, CommandOperationType, EndpointType, MemoryEventType, OpenOptions, QueueEventType, RecordFields,
    Writer, layout, rows,
};

fn sample_activity(max_events: usize) -> Activity {
    let bytes = testing::sample_profile();
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    of_bundle(&bundle, max_events).unwrap()
}

fn event(track: u32, id: u64) -> Event {
    Event { track, id, ..Event::default() }
}

/// The ids of a track's events by lane, in order.
fn lanes(activity: &Activity, track: u32) -> Vec<Vec<u64>> {
    let count = activity.tracks[track as usize].lane_count;
    let of =
        |lane| activity.events.iter().filter(move |it| it.is_timed && it.track == track && it.lane == lane);
    (0..count).map(|lane| of(lane).map(|event| event.id).collect()).collect()
}

#[test]
fn overlapping_events_have_lanes_of_their_own() {
    let mut builder = Builder::new(Axis::Nanoseconds, usize::MAX);
    let track = builder.track(TrackKind::HostExecution, 0, 0, 0);
    // What is inside another event is below it, in whatever order they come.
    for (id, start, end) in
        [(2, 110, 150), (1, 100, 200), (3, 150, 190), (4, 120, 130), (5, 200, 200), (6, 200, 210)]
    {
        builder.event(event(track, id), Span::Host(start, end));
    }
    builder.event(event(track, 7), Span::Host(300, 299));
    builder.event(event(track, 8), Span::Unknown);
    let activity = builder.finish();
    assert_eq!(activity.origin_ns, 100);
    assert_eq!(lanes(&activity, 0), [vec![1, 6], vec![2, 3, 5], vec![4]]);
    let untimed: Vec<_> = activity.events.iter().filter(|it| !it.is_timed).map(|it| it.id).collect();
    assert_eq!(untimed, [7, 8]);
    let first = &activity.events[0];
    assert_eq!((first.start, first.duration), (0, 100));
}

#[test]
fn lanes_are_limited() {
    let mut builder = Builder::new(Axis::Nanoseconds, usize::MAX);
    let track = builder.track(TrackKind::HostExecution, 0, 0, 0);
    for id in 0..3 * u64::from(MAX_LANES) {
        builder.event(event(track, id), Span::Host(id as i64, 1_000));
    }
    let activity = builder.finish();
    let lanes = lanes(&activity, 0);
    assert_eq!(lanes.len(), MAX_LANES as usize);
    assert_eq!(lanes.last().map(Vec::len), Some(2 * MAX_LANES as usize + 1));
}

#[test]
fn tracks_are_ordered_by_device_and_queue_and_extreme_times_are_kept() {
    let mut builder = Builder::new(Axis::Nanoseconds, usize::MAX);
    let tracks = [
        builder.track(TrackKind::HostExecution, 1, 0, 0),
        builder.track(TrackKind::HostExecution, 0, 1, 0),
        builder.track(TrackKind::Submissions, 0, 1, 0),
        builder.track(TrackKind::DeviceDispatches, 0, 0, 0),
    ];
    for (id, track) in tracks.into_iter().enumerate() {
        builder.event(event(track, id as u64), Span::Host(i64::MIN, i64::MAX));
    }
    let activity = builder.finish();
    let ids: Vec<_> = activity.events.iter().map(|event| event.id).collect();
    assert_eq!(ids, [3, 2, 1, 0]);
    assert!(activity.events.iter().all(|event| (event.start, event.duration) == (0, u64::MAX)));
}

#[test]
fn ticks_without_a_clock_start_at_zero() {
    let mut builder = Builder::new(Axis::Nanoseconds, usize::MAX);
    let host = builder.track(TrackKind::HostExecution, 0, 0, 0);
    let operations = builder.track(TrackKind::DeviceOperations, 1, 0, 0);
    let dispatches = builder.track(TrackKind::DeviceDispatches, 1, 0, 0);
    builder.event(event(host, 1), Span::Host(500, 600));
    builder.event(event(dispatches, 2), Span::Ticks(70, 80));
    builder.event(event(operations, 3), Span::Ticks(50, 90));
    let activity = builder.finish();
    let found: Vec<_> = activity.events.iter().map(|it| (it.id, it.start, it.duration)).collect();
    assert_eq!(found, [(1, 0, 100), (3, 0, 40), (2, 20, 10)]);
    let correlated: Vec<_> = activity.tracks.iter().map(|track| track.is_correlated).collect();
    assert_eq!(correlated, [true, false, false]);
}

#[test]
fn ticks_are_mapped_to_the_clock_of_host_events() {
    let activity = sample_activity(usize::MAX);
    // The second dispatch of the first queue is from tick 8000 to 8017. Clock samples are in the middle of
    // two readings of the host's clock: tick 1000 at (9960 + 10076) / 2, tick 50500 at (19960 + 20065) / 2.
    let place =
        |it: &&Event| activity.tracks[it.track as usize].kind == TrackKind::DeviceDispatches && it.id == 1;
    let dispatch = activity.events.iter().find(place).unwrap();
    let time = |tick: i64| 10_018 + ((tick - 1_000) * (20_012 - 10_018) + 24_750) / 49_500;
    assert_eq!(activity.origin_ns + dispatch.start as i64, time(8_000));
    assert_eq!(dispatch.duration as i64, time(8_017) - time(8_000));
}

#[test]
fn a_bundle_with_rows_of_every_kind() {
    let activity = sample_activity(usize::MAX);
    let count = |kind| {
        let is_it = |event: &&Event| activity.tracks[event.track as usize].kind == kind;
        activity.events.iter().filter(is_it).count()
    };
    assert_eq!(count(TrackKind::Submissions), 12);
    assert_eq!(count(TrackKind::DeviceOperations), 4);
    assert_eq!(count(TrackKind::DeviceDispatches), 17);
    assert_eq!(count(TrackKind::HostExecution), 6);
    assert_eq!(count(TrackKind::CommandRegions), 2);
    assert_eq!(activity.dropped_count, 3);
    let statuses: Vec<_> = activity.sessions.iter().map(|session| (session.id, session.status)).collect();
    assert_eq!(statuses, [(1, Some(0)), (2, Some(8))]);
    // A function without a name is named by where it is.
    assert!(activity.names.contains(&b"device0/executable1#1".to_vec()), "{:?}", activity.names);
    let untimed = activity.events.iter().filter(|event| !event.is_timed).count();
    // A dispatch of the device and one of the host that end before they start, a region, a host call and a
    // copy without start.
    assert_eq!(untimed, 5);
}

#[test]
fn memory_is_what_was_opened_and_not_closed() {
    let activity = sample_activity(usize::MAX);
    let series = |name: &str| {
        let is_it = |it: &&Series| it.device == 0 && it.name == name.as_bytes();
        let series = activity.series.iter().find(is_it).unwrap();
        series.points.iter().map(|(_, value)| *value).collect::<Vec<_>>()
    };
    assert_eq!(series("slabs"), [4096.0, 4000.0]);
    assert_eq!(series("queue allocations"), [256.0, 0.0]);
    // More is freed than was allocated since the session began.
    assert_eq!(series("buffers"), [99.0, 0.0]);
    let temperature = series("temperature");
    assert!(temperature.contains(&-40_000.0) && temperature.iter().all(|value| value.is_finite()));
    assert_eq!(activity.series[0].unit, "bytes");
}

#[test]
fn memory_is_counted_for_each_device_in_the_order_of_time() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let fields = RecordFields { session_id: 1, ..RecordFields::default() };
    writer.begin_session(&fields).unwrap();
    for (device, time, length) in [(0_u32, 30_i64, 4_u64), (0, 10, 1), (1, 20, 2)] {
        let header = layout::MemoryEvent {
            event_type: MemoryEventType::SLAB_ACQUIRE.0.into(),
            physical_device_ordinal: device.into(),
            host_time_ns: time.into(),
            length: length.into(),
            ..Default::default()
        };
        writer.append_rows(&fields, &[rows::MemoryEvent { header: &header.sized(), appended: &[] }]).unwrap();
    }
    writer.end_session(&fields, 0).unwrap();
    let bytes = writer.into_inner().into_inner();
    let activity = of_bundle(&Bundle::open(&bytes, OpenOptions::default()).unwrap(), usize::MAX).unwrap();
    let values = |series: &Series| series.points.iter().map(|(_, value)| *value).collect::<Vec<_>>();
    let found: Vec<_> = activity.series.iter().map(|it| (it.device, values(it))).collect();
    assert_eq!(found, [(0, vec![1.0, 5.0]), (1, vec![2.0])]);
}

/// A bundle of submissions, by id and time, and of relationships: source, type, semaphore and value.
fn submissions(events: &[(u64, i64)], relationships: &[(u64, u32, u64, u64)]) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let fields = RecordFields { session_id: 1, ..RecordFields::default() };
    writer.begin_session(&fields).unwrap();
    for (source, kind, semaphore, value) in relationships {
        let header = layout::EventRelationship {
            relationship_type: (*kind).into(),
            source_type: EndpointType::QUEUE_SUBMISSION.0.into(),
            target_type: EndpointType::ARTIFACT.0.into(),
            source_id: (*source).into(),
            target_id: (*semaphore).into(),
            target_secondary_id: (*value).into(),
            ..Default::default()
        };
        let row = rows::EventRelationship { header: &header.sized(), appended: &[] };
        writer.append_rows(&fields, &[row]).unwrap();
    }
    for (id, time) in events {
        let header = layout::QueueEvent {
            event_type: QueueEventType::COPY.0.into(),
            submission_id: (*id).into(),
            host_time_ns: (*time).into(),
            ..Default::default()
        };
        writer.append_rows(&fields, &[rows::QueueEvent { header: &header.sized(), appended: &[] }]).unwrap();
    }
    writer.end_session(&fields, 0).unwrap();
    writer.into_inner().into_inner()
}

#[test]
fn semaphores_of_submissions_are_in_the_order_of_submission() {
    let activity = |relationships, max_events| {
        let bytes = submissions(&[(1, 300), (2, 100)], relationships);
        of_bundle(&Bundle::open(&bytes, OpenOptions::default()).unwrap(), max_events).unwrap()
    };
    let (waits, signals) = (layout::RELATIONSHIP_WAITS, layout::RELATIONSHIP_SIGNALS);
    // Of submission 3, the event is missing.
    let all = [(1, waits, 7, 5), (3, waits, 8, 1), (2, signals, 7, 5), (1, waits, 8, 2), (1, 4, 9, 9)];
    let found = activity(&all, usize::MAX).submissions;
    let shown: Vec<_> =
        found.iter().map(|it| (it.id, it.operation, it.waits.as_slice(), it.signals.as_slice())).collect();
    assert_eq!(
        shown,
        [(2, "copy", &[][..], &[(7, 5)][..]), (1, "copy", &[(7, 5), (8, 2)], &[]), (3, "", &[(8, 1)], &[])]
    );
    assert_eq!(activity(&all, 1).submissions.len(), 1);
    assert_eq!(activity(&[(1, 4, 9, 9)], usize::MAX).submissions, []);
}

#[test]
fn workers_have_tracks_behind_those_of_their_queue() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let fields = RecordFields { session_id: 1, ..RecordFields::default() };
    writer.begin_session(&fields).unwrap();
    let command_buffer = layout::CommandBuffer { command_buffer_id: 4.into(), ..Default::default() }.sized();
    let row = rows::CommandBuffer { header: &command_buffer, appended: &[] };
    writer.append_rows(&fields, &[row]).unwrap();
    let operation = layout::CommandOperation {
        operation_type: CommandOperationType::FILL.0.into(),
        command_buffer_id: 4.into(),
        command_index: 2.into(),
        block_ordinal: NONE.into(),
        block_command_ordinal: NONE.into(),
        target_block_ordinal: NONE.into(),
        alternate_block_ordinal: NONE.into(),
        ..Default::default()
    };
    let row = rows::CommandOperation { header: &operation.sized(), appended: &[] };
    writer.append_rows(&fields, &[row]).unwrap();
    // Worker 1 executed command 2 and an unknown command; worker 0 a copy without a command buffer, and a
    // thread that waited a submission of unknown kind.
    for (source_type, id, worker, command, start, end) in [
        (EndpointType::COMMAND_OPERATION, 4, 1, 2, 100, 150),
        (EndpointType::COMMAND_OPERATION, 4, 1, 3, 150, 140),
        (EndpointType::QUEUE_SUBMISSION, 9, 0, QueueEventType::COPY.0, 120, 130),
        (EndpointType::QUEUE_SUBMISSION, 9, NONE.into(), NONE, 130, 140),
        (EndpointType::ARTIFACT, 9, 7, NONE, 120, 130),
    ] {
        let header = layout::EventRelationship {
            relationship_type: layout::RELATIONSHIP_WORKER.into(),
            source_type: source_type.0.into(),
            // A queue whose stream is not the least of the numbers of workers.
            stream_id: (1 << 32).into(),
            source_id: id.into(),
            source_secondary_id: (worker << 32 | u64::from(command)).into(),
            target_id: start.into(),
            target_secondary_id: end.into(),
            ..Default::default()
        };
        let row = rows::EventRelationship { header: &header.sized(), appended: &[] };
        writer.append_rows(&fields, &[row]).unwrap();
    }
    let event =
        layout::QueueEvent { stream_id: (1 << 32).into(), host_time_ns: 90.into(), ..Default::default() };
    let row = rows::QueueEvent { header: &event.sized(), appended: &[] };
    writer.append_rows(&fields, &[row]).unwrap();
    let bytes = writer.into_inner().into_inner();
    let activity = of_bundle(&Bundle::open(&bytes, OpenOptions::default()).unwrap(), usize::MAX).unwrap();
    let tracks: Vec<_> = activity.tracks.iter().map(|it| (it.kind, it.stream)).collect();
    assert_eq!(
        tracks,
        [
            (TrackKind::Submissions, 1 << 32),
            (TrackKind::Worker, 0),
            (TrackKind::Worker, 1),
            (TrackKind::Worker, NONE.into()),
        ]
    );
    let shown: Vec<_> = activity.events[1..]
        .iter()
        .map(|it| (it.track, it.is_timed, it.start, it.duration, activity.names[it.name as usize].as_slice()))
        .collect();
    // The one that ends before it begins has no time.
    let expected = [
        (1, true, 30, 10, &b"copy"[..]),
        (2, true, 10, 50, b"fill"),
        (3, true, 40, 10, b"work"),
        (2, false, 0, 0, b"work"),
    ];
    assert_eq!(shown, expected);
    let mut trace = Vec::new();
    let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
    let summary = crate::timeline::write(&bundle, &mut trace).unwrap();
    assert_eq!((summary.event_count, summary.untimed_count), (4, 1));
    let has = |name: &[u8]| trace.windows(name.len()).any(|it| it == name);
    assert!(has(b"worker 0") && has(b"worker 1") && has(b"waiting threads") && !has(b"worker 7"));
}

#[test]
fn events_beyond_the_limit_are_counted() {
    let (all, some) = (sample_activity(usize::MAX), sample_activity(10));
    assert_eq!((some.events.len(), some.omitted_count), (10, all.events.len() as u64 - 10));
    assert_eq!(all.omitted_count, 0);
}

/// One line for each part.
fn shown(activity: &Activity) -> String {
    let mut text = format!("{:?}, origin {} ns\n", activity.axis, activity.origin_ns);
    let mut line = |part: std::fmt::Arguments<'_>| writeln!(text, "{part}").unwrap();
    line(format_args!("omitted {}, dropped {}", activity.omitted_count, activity.dropped_count));
    activity.sessions.iter().for_each(|it| line(format_args!("{it:?}")));
    activity.tracks.iter().for_each(|it| line(format_args!("{}: {it:?}", it.name())));
    activity.functions.iter().for_each(|it| line(format_args!("{it:?}")));
    for event in &activity.events {
        line(format_args!("{}: {event:?}", activity.names[event.name as usize].escape_ascii()));
    }
    activity.series.iter().for_each(|it| line(format_args!("{}: {it:?}", it.name.escape_ascii())));
    activity.submissions.iter().for_each(|it| line(format_args!("{it:?}")));
    text
}

/// The events that the page of `rehal profile report` draws.
#[test]
fn events_of_profiles_are_those_of_the_golden_files() {
    for (name, path) in testing::profiles() {
        let bytes = std::fs::read(path).unwrap();
        let bundle = Bundle::open(&bytes, OpenOptions::default()).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.activity.txt"));
        testing::assert_golden(&golden, &shown(&of_bundle(&bundle, usize::MAX).unwrap()));
    }
}
