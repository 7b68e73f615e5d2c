use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use prost::Message;
use zerocopy::FromZeros;
use zerocopy::little_endian::{I64, U32, U64};

use super::proto::{self, TracePacket};
use super::*;
use crate::{OpenOptions, QueueEventType, RecordFields, Writer, layout};

/// The packets of a trace.
fn packets(mut trace: &[u8]) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    while let Some((key, rest)) = trace.split_first() {
        assert_eq!(*key, 0x0A);
        trace = rest;
        packets.push(TracePacket::decode_length_delimited(&mut trace).unwrap());
    }
    packets
}

/// A bundle of host operations with these times, in chunks of a thousand.
fn bundle(times: impl Iterator<Item = (i64, i64)>) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let fields = RecordFields { session_id: 1, ..RecordFields::default() };
    writer.begin_session(&fields).unwrap();
    let headers: Vec<_> = times
        .zip(1..)
        .map(|((start, end), id)| {
            layout::HostExecutionEvent {
                event_type: U32::new(QueueEventType::COPY.0),
                event_id: U64::new(id),
                submission_id: U64::new(id),
                command_index: U32::new(NONE),
                function_ordinal: U32::new(NONE),
                start_host_time_ns: I64::new(start),
                end_host_time_ns: I64::new(end),
                ..layout::HostExecutionEvent::new_zeroed()
            }
            .sized()
        })
        .collect();
    for chunk in headers.chunks(1000) {
        let rows: Vec<_> =
            chunk.iter().map(|header| rows::HostExecutionEvent { header, appended: &[] }).collect();
        writer.append_rows(&fields, &rows).unwrap();
    }
    writer.end_session(&fields, 0).unwrap();
    writer.into_inner().into_inner()
}

/// The summary of a timeline, and its slices by track: begin and end, in the order of the file.
fn slices(bytes: &[u8]) -> (TimelineSummary, HashMap<u64, Vec<(u64, u64)>>) {
    let bundle = Bundle::open(bytes, OpenOptions::default()).unwrap();
    let mut trace = Vec::new();
    let summary = write(&bundle, &mut trace).unwrap();
    let mut slices: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for packet in packets(&trace) {
        let (Some(event), Some(time)) = (packet.track_event, packet.timestamp) else { continue };
        let of_track = slices.entry(event.track_uuid.unwrap()).or_default();
        match event.event_type {
            Some(proto::SLICE_BEGIN) => of_track.push((time, 0)),
            Some(proto::SLICE_END) => of_track.last_mut().unwrap().1 = time,
            _ => {}
        }
    }
    slices.retain(|_, of_track| !of_track.is_empty());
    (summary, slices)
}

#[test]
fn slices_that_overlap_are_on_different_tracks() {
    let times = [(10, 20), (15, 18), (20, 30), (18, 40), (30, 30)];
    let (summary, slices) = slices(&bundle(times.into_iter()));
    assert_eq!((summary.event_count, summary.crowded_count), (5, 0));
    let mut lanes: Vec<_> = slices.into_values().collect();
    lanes.sort();
    assert_eq!(lanes, [vec![(10, 20), (20, 30), (30, 30)], vec![(15, 18), (18, 40)]]);
}

#[test]
fn more_than_a_window_is_placed_without_overlaps() {
    // Reversed: each window is before the last one.
    let count = 3 * WINDOW as i64 / 2;
    let (summary, slices) = slices(&bundle((0..count).rev().map(|at| (at * 10, at * 10 + 10))));
    assert_eq!(summary.event_count, count as u64);
    assert!(slices.len() <= 2, "{} tracks", slices.len());
    let mut total = 0;
    for mut lane in slices.into_values() {
        total += lane.len();
        lane.sort();
        assert!(lane.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
    assert_eq!(total, count as usize);
}

#[test]
fn a_crowd_becomes_instants() {
    let (summary, slices) = slices(&bundle((0..100).map(|at| (at, 1_000))));
    assert_eq!((slices.len(), summary.crowded_count), (64, 36));
}

#[test]
fn events_without_valid_times_are_left_out() {
    let (summary, slices) = slices(&bundle([(-1, 5), (9, 8), (3, 4)].into_iter()));
    assert_eq!((summary.event_count, summary.untimed_count, slices.len()), (1, 2, 1));
}

#[test]
fn names_are_interned_once_and_all_refer_to_the_monotonic_clock() {
    let mut trace = Vec::new();
    let bytes = bundle([(1, 2), (3, 4)].into_iter());
    write(&Bundle::open(&bytes, OpenOptions::default()).unwrap(), &mut trace).unwrap();
    let packets = packets(&trace);
    let snapshot = packets[0].clock_snapshot.as_ref().unwrap();
    assert_eq!(snapshot.primary_trace_clock, Some(proto::CLOCK_MONOTONIC));
    let defaults = packets[1].trace_packet_defaults.as_ref().unwrap();
    assert_eq!(defaults.timestamp_clock_id, Some(proto::CLOCK_MONOTONIC));
    let names =
        packets.iter().filter_map(|packet| packet.interned_data.as_ref()).flat_map(|it| &it.event_names);
    assert_eq!(names.filter_map(|name| name.name.as_deref()).collect::<Vec<_>>(), ["copy"]);
}

#[test]
fn counters_are_finite() {
    let bytes = testing::sample_profile();
    let mut trace = Vec::new();
    write(&Bundle::open(&bytes, OpenOptions::default()).unwrap(), &mut trace).unwrap();
    let events = packets(&trace).into_iter().filter_map(|packet| packet.track_event);
    let values: Vec<_> = events.filter_map(|event| event.double_counter_value).collect();
    assert!(!values.is_empty() && values.iter().all(|value| value.is_finite()), "{values:?}");
}

#[test]
fn flows_of_submissions_differ() {
    let ids: HashSet<_> =
        (0..4).flat_map(|queue| (0..1000).map(move |id| flow_id((0, queue, 7), id))).collect();
    assert_eq!(ids.len(), 4000);
    assert_eq!(flow_id((1, 2, 3), 4), flow_id((1, 2, 3), 4));
}

/// A packet on one line, without absent fields.
fn shown(packet: &TracePacket) -> String {
    let mut text = format!("{packet:?}");
    while let Some(end) = text.find(": None").map(|at| at + ": None".len()) {
        let start = text[..end - ": None".len()].rfind(' ').unwrap();
        let end = if text[end..].starts_with(", ") { end + 1 } else { end };
        text.replace_range(start..end, "");
    }
    text
}

#[test]
fn timelines_of_profiles_are_those_of_the_golden_files() {
    for (name, path) in testing::profiles() {
        let bytes = std::fs::read(path).unwrap();
        let mut trace = Vec::new();
        let summary = write(&Bundle::open(&bytes, OpenOptions::default()).unwrap(), &mut trace).unwrap();
        let mut text = format!("{summary:?}\n");
        packets(&trace).iter().for_each(|packet| writeln!(text, "{}", shown(packet)).unwrap());
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.timeline.txt"));
        testing::assert_golden(&golden, &text);
    }
}
