//! A bundle as a trace for Perfetto: tracks of devices and queues, flows from submissions to what they
//! execute, and counters of memory and device metrics.
//!
//! Two walks over the records: the first for what describes events and may follow them (functions, clock
//! samples), the second for the events. Of these, only a window is in memory at a time; see [`Window`].
//!
//! Events of a window are sorted by their start and placed in lanes, tracks on which nothing overlaps. A flow
//! has one id per submission, which its operations and its first dispatch carry: flows of single dispatches
//! would have to be listed in the submission, which is written earlier.

pub(crate) mod clocks;
mod events;
mod lanes;
pub(crate) mod memory;
mod metrics;
mod proto;
mod trace;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io::Write;

use rehal_base::Result;

use crate::event::{Event, EventRow, Times};
use crate::layout::NONE;
use crate::model::{Model, QueueKey};
use crate::replayed::Replayed;
use crate::rows;
use crate::worker::worker_name;
use crate::{Bundle, Record};
use clocks::Clocks;
use events::Kind;
use lanes::Lanes;
use memory::Memory;
use metrics::Metrics;
use trace::{Trace, Track, Value};

/// Events that are sorted at a time. Bundles have events in about the order in which they end.
const WINDOW: usize = 1 << 16;

/// Submissions for which it is known whether a dispatch was already seen.
const KNOWN_SUBMISSIONS: usize = 1 << 12;

/// Numbers of the events of a timeline, and of those that it left out or could not place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineSummary {
    /// Slices, and instants for submissions.
    pub event_count: u64,
    /// Events without valid times, which are left out.
    pub untimed_count: u64,
    /// Events that overlap too many others, which are instants with their duration as an annotation.
    pub crowded_count: u64,
    /// Devices whose clock cannot be correlated with the host's: their events start with the trace, a tick as
    /// a nanosecond.
    pub uncorrelated_devices: BTreeSet<u32>,
}

/// Writes the timeline of a bundle to `sink`.
///
/// Fails if a record or row is malformed or the sink fails; what was written before the error remains
/// written. Memory does not grow with the number of events.
pub fn write(bundle: &Bundle<'_>, sink: &mut dyn Write) -> Result<TimelineSummary> {
    let survey = Survey::from_bundle(bundle)?;
    let origin_ns = survey.origin_ns.unwrap_or(0);
    let trace = Trace::new(sink, origin_ns.unsigned_abs())?;
    let mut timeline = Timeline {
        survey: &survey,
        origin_ns,
        trace,
        tracks: Tracks::default(),
        memory: Memory::default(),
        metrics: Metrics::default(),
        dispatched: Recent::default(),
        summary: TimelineSummary::default(),
    };
    let mut window = Window::default();
    for record in bundle.records() {
        let record = record?;
        record.for_each_event(|event| {
            let Some((start_ns, end_ns)) = timeline.place(&event) else {
                timeline.summary.untimed_count += 1;
                return Ok(());
            };
            if window.add(Pending { start_ns, end_ns, row: event.row, record: record.ordinal }) {
                window.drain().try_for_each(|pending| timeline.add(&pending))?;
            }
            Ok(())
        })?;
        timeline.add_metrics(&record)?;
    }
    window.drain().try_for_each(|pending| timeline.add(&pending))?;
    Ok(timeline.summary)
}

/// The results of the first walk.
#[derive(Default)]
struct Survey<'a> {
    model: Model<'a>,
    clocks: Clocks,
    replayed: Replayed<'a>,
    /// The first time of the host.
    origin_ns: Option<i64>,
}

impl<'a> Survey<'a> {
    fn from_bundle(bundle: &Bundle<'a>) -> Result<Self> {
        let mut survey = Self::default();
        for record in bundle.records() {
            let record = record?;
            survey.model.add(&record)?;
            survey.replayed.add(&record)?;
            for row in record.rows::<rows::ClockCorrelation<'_>>() {
                survey.clocks.add(row?.header);
            }
            record.for_each_event(|event| {
                match event.placed().valid() {
                    Some(Times::Device(start, _)) => survey.clocks.note(event.queue.0, start),
                    Some(Times::Host(start, _)) => {
                        survey.origin_ns = Some(survey.origin_ns.map_or(start, |it| it.min(start)));
                    }
                    None => {}
                }
                Ok(())
            })?;
        }
        survey.replayed = survey.replayed.finish();
        Ok(survey)
    }
}

/// An event with its times on the host's clock.
struct Pending<'a> {
    start_ns: u64,
    end_ns: u64,
    row: EventRow<'a>,
    /// Ordinal of its record.
    record: u64,
}

/// Events that wait to be sorted by their start, so that they are placed in few lanes and memory is counted
/// in order.
#[derive(Default)]
struct Window<'a> {
    events: Vec<Pending<'a>>,
}

impl<'a> Window<'a> {
    /// Adds an event; returns whether the window is full.
    fn add(&mut self, event: Pending<'a>) -> bool {
        self.events.push(event);
        self.events.len() == WINDOW
    }

    /// Removes all events, sorted by their start; of those that start together, submissions are first.
    fn drain(&mut self) -> std::vec::Drain<'_, Pending<'a>> {
        self.events.sort_by_key(|event| (event.start_ns, !matches!(event.row, EventRow::Submission(_))));
        self.events.drain(..)
    }
}

/// A timeline that is being written.
struct Timeline<'m, 'a, 's> {
    survey: &'m Survey<'a>,
    origin_ns: i64,
    trace: Trace<'s>,
    tracks: Tracks,
    memory: Memory,
    metrics: Metrics,
    /// Submissions of which a dispatch was already added, by the kind of dispatch.
    dispatched: Recent<(Kind, u64)>,
    summary: TimelineSummary,
}

impl<'a> Timeline<'_, 'a, '_> {
    /// The start and end of an event on the host's clock, unless they are missing, reversed or out of range.
    fn place(&self, event: &Event<'_>) -> Option<(u64, u64)> {
        let (start, end) = match event.placed().valid()? {
            Times::Host(start, end) => (start, end),
            Times::Device(start, end) => {
                let time = |tick| self.survey.clocks.time_ns(event.queue.0, tick, self.origin_ns);
                (time(start)?, time(end)?)
            }
        };
        Some((u64::try_from(start).ok()?, u64::try_from(end).ok()?))
    }

    fn add(&mut self, pending: &Pending<'a>) -> Result<()> {
        let Pending { start_ns, end_ns, row, record } = pending;
        if let EventRow::Memory(event) = row {
            let device = self.tracks.device(event.physical_device_ordinal.get(), &mut self.trace)?;
            return self.memory.add(event, *start_ns, device, &mut self.trace);
        }
        let event = Event::from(*row);
        let Some(kind) = events::kind(&event) else { return Ok(()) };
        self.note_clock(&event);
        let mut annotations = events::annotations(&event);
        annotations.push(("record", Value::Unsigned(*record)));
        let replayed =
            self.survey.replayed.find(event.queue, event.submission, event.command_buffer, event.command);
        annotations.extend(replayed.map(|record| ("replayed_record", Value::Unsigned(record))));
        let name = events::name(&event, &self.survey.model);
        let flow = self.flow(&event, kind);
        let lanes = self.tracks.lanes(event.queue, (kind, events::worker(&event)), &mut self.trace)?;
        self.summary.event_count += 1;
        let mut event = trace::Event { name: &name, category: kind.name(), flow, annotations };
        if kind == Kind::Submission {
            let track = lanes.any(&mut self.trace)?;
            return self.trace.instant(track, *start_ns, event);
        }
        match lanes.place(&mut self.trace, *start_ns, *end_ns)? {
            Some(track) => self.trace.slice(track, *start_ns, *end_ns, event),
            None => {
                self.summary.crowded_count += 1;
                event.annotations.push(("duration_ns", Value::Unsigned(end_ns - start_ns)));
                let track = lanes.any(&mut self.trace)?;
                self.trace.instant(track, *start_ns, event)
            }
        }
    }

    /// The flow of a submission, through its operations and the first of its dispatches on each side.
    fn flow(&mut self, event: &Event<'_>, kind: Kind) -> Option<u64> {
        let flow = flow_id(event.queue, event.submission);
        let is_first = match kind {
            Kind::Submission | Kind::HostOperation | Kind::DeviceOperation => true,
            Kind::HostCommand | Kind::Dispatch => self.dispatched.insert((kind, flow)),
            Kind::Region | Kind::Worker => false,
        };
        (is_first && event.submission != 0).then_some(flow)
    }

    fn note_clock(&mut self, event: &Event<'_>) {
        let device = event.queue.0;
        if matches!(event.times, Times::Device(..)) && !self.survey.clocks.is_correlated(device) {
            self.summary.uncorrelated_devices.insert(device);
        }
    }

    fn add_metrics(&mut self, record: &Record<'a>) -> Result<()> {
        for row in record.rows::<rows::MetricSample<'_>>() {
            let row = row?;
            let device = self.tracks.device(row.physical_device_ordinal.get(), &mut self.trace)?;
            self.metrics.add(&row, &self.survey.model, device, &mut self.trace)?;
        }
        Ok(())
    }
}

/// The id of the flow of a submission: distinct for all submissions of a bundle, as far as 64 bits allow.
fn flow_id((device, queue, stream): QueueKey, submission: u64) -> u64 {
    [u64::from(device) << 32 | u64::from(queue), stream, submission].iter().fold(0, |state, value| {
        // The finalizer of SplitMix64.
        let mut z = (state ^ value).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

/// The keys that were inserted last.
#[derive(Debug)]
struct Recent<K> {
    keys: HashSet<K>,
    order: VecDeque<K>,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { keys: HashSet::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash> Recent<K> {
    /// Inserts a key; returns whether it was not there.
    fn insert(&mut self, key: K) -> bool {
        if !self.keys.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > KNOWN_SUBMISSIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        true
    }
}

/// The tracks of devices and queues, added when first used.
#[derive(Default)]
struct Tracks {
    devices: HashMap<u32, Track>,
    queues: HashMap<QueueKey, Track>,
    /// By queue, kind and worker.
    lanes: HashMap<(QueueKey, (Kind, u32)), Lanes>,
}

impl Tracks {
    fn device(&mut self, ordinal: u32, trace: &mut Trace<'_>) -> Result<Track> {
        if let Some(track) = self.devices.get(&ordinal) {
            return Ok(*track);
        }
        let name = if ordinal == NONE { "host".to_owned() } else { format!("device {ordinal}") };
        let track = trace.track(None, &name, rank(ordinal))?;
        self.devices.insert(ordinal, track);
        Ok(track)
    }

    fn queue(&mut self, key: QueueKey, trace: &mut Trace<'_>) -> Result<Track> {
        if let Some(track) = self.queues.get(&key) {
            return Ok(*track);
        }
        let (device, ordinal, stream) = key;
        let device = self.device(device, trace)?;
        let queue = if ordinal == NONE { "no queue".to_owned() } else { format!("queue {ordinal}") };
        let name = if stream == 0 { queue } else { format!("{queue}, stream {stream}") };
        let track = trace.track(Some(device), &name, rank(ordinal))?;
        self.queues.insert(key, track);
        Ok(track)
    }

    fn lanes(&mut self, queue: QueueKey, of: (Kind, u32), trace: &mut Trace<'_>) -> Result<&mut Lanes> {
        if !self.lanes.contains_key(&(queue, of)) {
            let parent = self.queue(queue, trace)?;
            let (kind, worker) = of;
            let name = match kind {
                Kind::Worker => worker_name(worker).into_owned(),
                kind => kind.name().to_owned(),
            };
            let rank = (kind as i32).saturating_add(rank(worker));
            self.lanes.insert((queue, of), Lanes::new(parent, name, rank));
        }
        Ok(self.lanes.get_mut(&(queue, of)).expect("they have just been added"))
    }
}

fn rank(ordinal: u32) -> i32 {
    i32::try_from(ordinal).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
