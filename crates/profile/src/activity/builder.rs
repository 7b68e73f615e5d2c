//! Puts events on tracks and lanes.

use std::collections::HashMap;

use super::{Activity, Axis, Event, Function, Series, Track, TrackKind};
use crate::table::Table;
use crate::timeline::clocks::Clocks;

/// Maximum number of lanes of a track. What overlaps even then is in the last one.
pub const MAX_LANES: u32 = 48;

/// Key of a track: how tracks are ordered.
type TrackKey = (u32, u32, u64, TrackKind);

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// It has no time.
    Unknown,
    /// Start and end in nanoseconds of the host, or in ordinals of records.
    Host(i64, i64),
    /// Start and end in ticks of the track's device.
    Ticks(u64, u64),
}

/// Collects the events of an [`Activity`].
pub struct Builder {
    axis: Axis,
    max_events: usize,
    tracks: Table<TrackKey, TrackKey>,
    names: Table<Vec<u8>, Vec<u8>>,
    functions: Table<(u64, u32), Function>,
    events: Vec<(Event, Span)>,
    omitted_count: u64,
    dropped_count: u64,
    series: Table<(u32, Vec<u8>), TimedSeries>,
}

/// A series whose times are absolute.
struct TimedSeries {
    device: u32,
    name: Vec<u8>,
    unit: &'static str,
    points: Vec<(i64, f64)>,
}

impl Builder {
    /// A builder that leaves out events beyond `max_events`.
    pub fn new(axis: Axis, max_events: usize) -> Self {
        Self {
            axis,
            max_events,
            tracks: Table::default(),
            names: Table::default(),
            functions: Table::default(),
            events: Vec::new(),
            omitted_count: 0,
            dropped_count: 0,
            series: Table::default(),
        }
    }

    /// The number of a track.
    pub fn track(&mut self, kind: TrackKind, device: u32, queue: u32, stream: u64) -> u32 {
        self.tracks.index((device, queue, stream, kind), || (device, queue, stream, kind)) as u32
    }

    /// The number of a name.
    pub fn name(&mut self, name: &[u8]) -> u32 {
        if let Some(known) = self.names.position_of(name) {
            return known as u32;
        }
        self.names.index(name.to_vec(), || name.to_vec()) as u32
    }

    /// The number of a function, whose name `name` gives if it is new.
    pub fn function(&mut self, executable: u64, ordinal: u32, name: impl FnOnce() -> Vec<u8>) -> (u32, u32) {
        let index = match self.functions.position(&(executable, ordinal)) {
            Some(index) => index,
            None => {
                let name = self.name(&name());
                self.functions.index((executable, ordinal), || Function { executable, ordinal, name })
            }
        };
        (index as u32, self.functions.values()[index].name)
    }

    /// Adds an event; its times come from `span`.
    pub fn event(&mut self, event: Event, span: Span) {
        if self.events.len() < self.max_events {
            self.events.push((event, span));
        } else {
            self.omitted_count += 1;
        }
    }

    /// Adds rows that were lost.
    pub fn dropped(&mut self, count: u64) {
        self.dropped_count = self.dropped_count.saturating_add(count);
    }

    /// Adds a value of a series at an absolute time.
    pub fn point(&mut self, device: u32, name: &[u8], unit: &'static str, at: i64, value: f64) {
        let make = || TimedSeries { device, name: name.to_vec(), unit, points: Vec::new() };
        self.series.entry((device, name.to_vec()), make).points.push((at, value));
    }

    /// Arranges the events. Without clocks, no device is correlated with the host.
    pub fn finish(self) -> Activity {
        self.finish_with(&Clocks::default())
    }

    /// Maps all times to one axis and arranges the events.
    pub(crate) fn finish_with(mut self, clocks: &Clocks) -> Activity {
        let keys = self.tracks.values().to_vec();
        let mut is_correlated = vec![true; keys.len()];
        for (event, span) in &mut self.events {
            if let Span::Ticks(start, end) = *span {
                let device = keys[event.track as usize].0;
                if clocks.is_correlated(device) {
                    *span = host_span(clocks, device, start, end);
                } else {
                    is_correlated[event.track as usize] = false;
                }
            }
        }
        let mut activity = Activity { axis: self.axis, ..Activity::default() };
        activity.origin_ns = self.origin();
        activity.omitted_count = self.omitted_count;
        activity.dropped_count = self.dropped_count;
        activity.series = series(&self.series, activity.origin_ns);
        activity.names = self.names.into_values();
        activity.functions = self.functions.into_values();
        activity.events = events(self.events, &keys, activity.origin_ns);
        let order = arrange(&mut activity.events, &keys);
        activity.tracks = order
            .into_iter()
            .map(|(index, lane_count)| {
                let (device, queue, stream, kind) = keys[index];
                Track { kind, device, queue, stream, lane_count, is_correlated: is_correlated[index] }
            })
            .collect();
        activity
    }

    /// The first time of all.
    fn origin(&self) -> i64 {
        let starts = self.events.iter().filter_map(|(_, span)| match span {
            Span::Host(start, _) => Some(*start),
            Span::Unknown | Span::Ticks(..) => None,
        });
        let points = self.series.values().iter().flat_map(|series| series.points.iter().map(|(at, _)| *at));
        starts.chain(points).min().unwrap_or(0)
    }
}

/// Both ends are mapped, not the start and the length: then events that follow one another do not overlap.
fn host_span(clocks: &Clocks, device: u32, start: u64, end: u64) -> Span {
    match (clocks.time_ns(device, start, 0), clocks.time_ns(device, end, 0)) {
        // Reversed ticks may be the same nanosecond.
        (Some(from), Some(to)) if start <= end => Span::Host(from, to),
        _ => Span::Unknown,
    }
}

/// Counts the times of all events from `origin`.
fn events(events: Vec<(Event, Span)>, keys: &[TrackKey], origin: i64) -> Vec<Event> {
    // All tracks of a device have one clock.
    let mut first_ticks: HashMap<u32, u64> = HashMap::new();
    for (event, span) in &events {
        if let Span::Ticks(start, _) = span {
            let first = first_ticks.entry(keys[event.track as usize].0).or_insert(u64::MAX);
            *first = (*first).min(*start);
        }
    }
    events
        .into_iter()
        .map(|(mut event, span)| {
            let (start, duration) = match span {
                Span::Host(start, end) if start <= end => (start.abs_diff(origin), end.abs_diff(start)),
                Span::Ticks(start, end) if start <= end => {
                    (start - first_ticks[&keys[event.track as usize].0], end - start)
                }
                _ => return event,
            };
            (event.is_timed, event.start, event.duration) = (true, start, duration);
            event
        })
        .collect()
}

fn series(all: &Table<(u32, Vec<u8>), TimedSeries>, origin: i64) -> Vec<Series> {
    let mut all: Vec<_> = all
        .values()
        .iter()
        .map(|series| {
            let mut points: Vec<_> =
                series.points.iter().map(|(at, value)| (at.abs_diff(origin), *value)).collect();
            points.sort_by_key(|(at, _)| *at);
            let TimedSeries { device, name, unit, .. } = series;
            Series { device: *device, name: name.clone(), unit, points }
        })
        .collect();
    all.sort_by_key(|series| (series.unit != "bytes", series.device));
    all
}

/// Sorts the events by track, lane and start, and renumbers their tracks. Returns the tracks in their order,
/// by their old numbers, with the number of lanes of each.
fn arrange(events: &mut [Event], keys: &[TrackKey]) -> Vec<(usize, u32)> {
    let mut order: Vec<_> = (0..keys.len()).collect();
    // Scopes and threads come first, then each device with its queues and their workers.
    order.sort_by_key(|index| {
        let (device, queue, stream, kind) = keys[*index];
        (kind > TrackKind::Calls, device, queue, kind == TrackKind::Worker, stream, kind)
    });
    let mut place = vec![0; keys.len()];
    for (new, old) in order.iter().enumerate() {
        place[*old] = new as u32;
    }
    for event in &mut *events {
        event.track = place[event.track as usize];
    }
    // A longer event precedes those inside it, so that it has the lane above them.
    events.sort_by_key(|event| (!event.is_timed, event.track, event.start, u64::MAX - event.duration));
    let mut lane_counts = vec![1; keys.len()];
    let mut ends = Vec::new();
    let mut last_track = None;
    for event in events.iter_mut().filter(|event| event.is_timed) {
        if last_track.replace(event.track) != Some(event.track) {
            ends.clear();
        }
        event.lane = lane(&mut ends, event);
        let count = &mut lane_counts[event.track as usize];
        *count = (*count).max(event.lane + 1);
    }
    events.sort_by_key(|event| (!event.is_timed, event.track, event.lane, event.start));
    order.into_iter().zip(lane_counts).collect()
}

/// The first lane in which nothing runs any more when the event starts.
fn lane(ends: &mut Vec<u64>, event: &Event) -> u32 {
    let end = event.start.saturating_add(event.duration);
    match ends.iter().position(|last| *last <= event.start) {
        Some(lane) => {
            ends[lane] = end;
            lane as u32
        }
        None if ends.len() < MAX_LANES as usize => {
            ends.push(end);
            ends.len() as u32 - 1
        }
        None => MAX_LANES - 1,
    }
}
