//! Writes packets of a trace: tracks, slices, instants and counters, with their names interned.

use std::collections::HashMap;
use std::io::Write;

use prost::Message;
use rehal_base::{Error, Result};

use super::proto::{
    self, Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, InternedData, InternedName, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent,
};

/// The key of `Trace.packet`, the field that every packet of a trace is: number 1, with a length.
const PACKET_KEY: u8 = 0x0A;

/// The only sequence of packets.
const SEQUENCE: u32 = 1;

/// A trace that is being written.
pub struct Trace<'s> {
    sink: &'s mut dyn Write,
    scratch: Vec<u8>,
    next_uuid: u64,
    categories: HashMap<&'static str, u64>,
    names: HashMap<String, u64>,
    annotation_names: HashMap<&'static str, u64>,
    /// Strings that no packet has introduced yet.
    introduced: InternedData,
}

/// A track by its uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(u64);

/// The value of an annotation or a counter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
}

/// The name and annotations of a slice or an instant.
pub struct Event<'e> {
    pub name: &'e str,
    pub category: &'static str,
    pub flow: Option<u64>,
    pub annotations: Vec<(&'static str, Value)>,
}

impl<'s> Trace<'s> {
    /// Begins a trace, whose times are nanoseconds of the host's monotonic clock from `start_ns` on.
    pub fn new(sink: &'s mut dyn Write, start_ns: u64) -> Result<Self> {
        let mut this = Self {
            sink,
            scratch: Vec::new(),
            next_uuid: 1,
            categories: HashMap::new(),
            names: HashMap::new(),
            annotation_names: HashMap::new(),
            introduced: InternedData::default(),
        };
        let clock = Clock { clock_id: Some(proto::CLOCK_MONOTONIC), timestamp: Some(start_ns) };
        this.write(TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![clock],
                primary_trace_clock: Some(proto::CLOCK_MONOTONIC),
            }),
            ..TracePacket::default()
        })?;
        this.write(TracePacket {
            sequence_flags: Some(proto::SEQUENCE_STARTS),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(proto::CLOCK_MONOTONIC),
            }),
            ..TracePacket::default()
        })?;
        Ok(this)
    }

    /// Adds a track below `parent`, in the order of `rank` among its siblings.
    pub fn track(&mut self, parent: Option<Track>, name: &str, rank: i32) -> Result<Track> {
        self.describe(parent, name, rank, None)
    }

    /// Adds a counter below `parent`, of bytes unless it has another unit.
    pub fn counter_track(
        &mut self,
        parent: Track,
        name: &str,
        rank: i32,
        unit_name: Option<&str>,
    ) -> Result<Track> {
        let unit = if unit_name.is_some() { proto::UNIT_COUNT } else { proto::UNIT_BYTES };
        let counter = CounterDescriptor { unit: Some(unit), unit_name: unit_name.map(Into::into) };
        self.describe(Some(parent), name, rank, Some(counter))
    }

    /// Adds a slice. Slices of a track must not overlap, and of two that meet the earlier one is added first.
    pub fn slice(&mut self, track: Track, start_ns: u64, end_ns: u64, event: Event<'_>) -> Result<()> {
        let begin = self.event(track, proto::SLICE_BEGIN, event);
        self.at(start_ns, begin)?;
        let end = TrackEvent {
            event_type: Some(proto::SLICE_END),
            track_uuid: Some(track.0),
            ..TrackEvent::default()
        };
        self.at(end_ns, end)
    }

    /// Adds an instant.
    pub fn instant(&mut self, track: Track, time_ns: u64, event: Event<'_>) -> Result<()> {
        let instant = self.event(track, proto::INSTANT, event);
        self.at(time_ns, instant)
    }

    /// Sets the value of a counter from `time_ns` on.
    pub fn count(&mut self, track: Track, time_ns: u64, value: Value) -> Result<()> {
        let mut event = TrackEvent {
            event_type: Some(proto::COUNTER),
            track_uuid: Some(track.0),
            ..TrackEvent::default()
        };
        match value {
            Value::Unsigned(value) if i64::try_from(value).is_err() => {
                event.double_counter_value = Some(value as f64);
            }
            Value::Unsigned(value) => event.counter_value = Some(value as i64),
            Value::Signed(value) => event.counter_value = Some(value),
            Value::Float(value) => event.double_counter_value = Some(value),
            Value::Text(_) => return Ok(()),
        }
        self.at(time_ns, event)
    }

    fn describe(
        &mut self,
        parent: Option<Track>,
        name: &str,
        rank: i32,
        counter: Option<CounterDescriptor>,
    ) -> Result<Track> {
        let track = Track(self.next_uuid);
        self.next_uuid += 1;
        let descriptor = TrackDescriptor {
            uuid: Some(track.0),
            name: Some(name.to_owned()),
            parent_uuid: parent.map(|it| it.0),
            counter,
            child_ordering: Some(proto::ORDER_BY_RANK),
            sibling_order_rank: Some(rank),
        };
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        Ok(track)
    }

    fn event(&mut self, track: Track, event_type: i32, event: Event<'_>) -> TrackEvent {
        let annotations = event.annotations.into_iter().map(|(name, value)| self.annotation(name, value));
        let debug_annotations = annotations.collect();
        let category = intern(&mut self.categories, &mut self.introduced.event_categories, event.category);
        let name_iid = match self.names.get(event.name) {
            Some(iid) => *iid,
            None => {
                let iid = self.names.len() as u64 + 1;
                self.names.insert(event.name.to_owned(), iid);
                self.introduced.event_names.push(interned(iid, event.name));
                iid
            }
        };
        TrackEvent {
            category_iids: vec![category],
            debug_annotations,
            event_type: Some(event_type),
            name_iid: Some(name_iid),
            track_uuid: Some(track.0),
            flow_ids: event.flow.into_iter().collect(),
            ..TrackEvent::default()
        }
    }

    fn annotation(&mut self, name: &'static str, value: Value) -> DebugAnnotation {
        let iid = intern(&mut self.annotation_names, &mut self.introduced.debug_annotation_names, name);
        let mut annotation = DebugAnnotation { name_iid: Some(iid), ..DebugAnnotation::default() };
        match value {
            Value::Unsigned(value) => annotation.uint_value = Some(value),
            Value::Signed(value) => annotation.int_value = Some(value),
            Value::Float(value) => annotation.string_value = Some(value.to_string()),
            Value::Text(value) => annotation.string_value = Some(value),
        }
        annotation
    }

    fn at(&mut self, time_ns: u64, event: TrackEvent) -> Result<()> {
        let introduced = std::mem::take(&mut self.introduced);
        let has_new = introduced != InternedData::default();
        self.write(TracePacket {
            timestamp: Some(time_ns),
            sequence_flags: Some(proto::SEQUENCE_CONTINUES),
            interned_data: has_new.then_some(introduced),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn write(&mut self, packet: TracePacket) -> Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.scratch.clear();
        self.scratch.push(PACKET_KEY);
        packet.encode_length_delimited(&mut self.scratch).expect("memory takes all");
        self.sink.write_all(&self.scratch).map_err(|error| Error::io("writing the trace", &error))
    }
}

fn intern(
    known: &mut HashMap<&'static str, u64>,
    introduced: &mut Vec<InternedName>,
    name: &'static str,
) -> u64 {
    let next = known.len() as u64 + 1;
    *known.entry(name).or_insert_with(|| {
        introduced.push(interned(next, name));
        next
    })
}

fn interned(iid: u64, name: &str) -> InternedName {
    InternedName { iid: Some(iid), name: Some(name.to_owned()) }
}
