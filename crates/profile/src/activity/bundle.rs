//! The events of a bundle.

use rehal_base::Result;
use zerocopy::little_endian::U32;

use super::memory::Memory;
use super::submissions::Submissions;
use super::{Activity, Axis, Builder, Event, Session, Span, TrackKind};
use crate::event::{self, EventRow, Times};
use crate::layout::NONE;
use crate::model::{Model, key_of};
use crate::replayed::Replayed;
use crate::timeline::clocks::Clocks;
use crate::{Bundle, MetricUnit, MetricValueKind, QueueEventType, Record, RecordType, rows};

/// The events of `bundle`, at most `max_events`; more are counted.
///
/// Fails if a record or row is malformed, or if metadata refers to something that the bundle does not
/// describe.
pub fn of_bundle(bundle: &Bundle<'_>, max_events: usize) -> Result<Activity> {
    let (mut model, mut clocks, mut replayed) = (Model::default(), Clocks::default(), Replayed::default());
    for record in bundle.records() {
        let record = record?;
        model.add(&record)?;
        replayed.add(&record)?;
        for sample in record.rows::<rows::ClockCorrelation<'_>>() {
            clocks.add(sample?.header);
        }
    }
    let builder = Builder::new(Axis::Nanoseconds, max_events);
    let mut this = Collector {
        model,
        replayed: replayed.finish(),
        builder,
        memory: Memory::default(),
        submissions: Submissions::new(max_events),
        sessions: Vec::new(),
    };
    for record in bundle.records() {
        this.add(&record?)?;
    }
    this.memory.add_to(&mut this.builder);
    let submissions = this.submissions.finish();
    Ok(Activity { sessions: this.sessions, submissions, ..this.builder.finish_with(&clocks) })
}

struct Collector<'a> {
    model: Model<'a>,
    replayed: Replayed<'a>,
    builder: Builder,
    memory: Memory,
    submissions: Submissions,
    sessions: Vec<Session>,
}

impl<'a> Collector<'a> {
    fn add(&mut self, record: &Record<'a>) -> Result<()> {
        if record.is_truncated() {
            self.builder.dropped(record.header.dropped_record_count.get());
        }
        let (id, name) = (record.header.session_id.get(), record.name);
        match record.record_type() {
            RecordType::SESSION_BEGIN => {
                self.sessions.push(Session { id, name: name.to_vec(), status: None })
            }
            RecordType::SESSION_END => self.end_session(id, name, record.header.session_status_code.get()),
            _ => {}
        }
        record.for_each_event(|event| {
            self.add_event(&event);
            Ok(())
        })?;
        for row in record.rows::<rows::EventRelationship<'_>>() {
            self.submissions.relate(row?.header);
        }
        for row in record.rows::<rows::MetricSample<'_>>() {
            self.add_metrics(&row?);
        }
        Ok(())
    }

    fn end_session(&mut self, id: u64, name: &[u8], status: u32) {
        let find = |is_named: bool| {
            let is_it = |it: &Session| it.id == id && it.status.is_none() && (!is_named || it.name == name);
            self.sessions.iter().position(is_it)
        };
        if let Some(at) = find(true).or_else(|| find(false)) {
            self.sessions[at].status = Some(status);
        }
    }

    fn add_event(&mut self, event: &event::Event<'a>) {
        let (device, queue, mut stream) = event.queue;
        let operation = QueueEventType(event.event_type).name().as_bytes();
        let (kind, (function, name)) = match event.row {
            EventRow::Memory(row) => return self.memory.add(row),
            EventRow::Submission(row) => {
                self.submissions.add(row);
                (TrackKind::Submissions, (NONE, self.builder.name(operation)))
            }
            EventRow::DeviceOperation(_) => {
                (TrackKind::DeviceOperations, (NONE, self.builder.name(operation)))
            }
            EventRow::Dispatch(..) => (TrackKind::DeviceDispatches, self.function(event)),
            EventRow::HostExecution(_) if event.is_host_dispatch() && event.function().is_some() => {
                (TrackKind::HostExecution, self.function(event))
            }
            EventRow::HostExecution(_) => (TrackKind::HostExecution, (NONE, self.builder.name(operation))),
            EventRow::Region(row) => {
                let name = format!("region {}", row.index.get());
                (TrackKind::CommandRegions, (NONE, self.builder.name(name.as_bytes())))
            }
            // Its dispatch is another event, so that it is not one of the functions.
            EventRow::Worker(span) => {
                stream = span.worker.into();
                (TrackKind::Worker, (NONE, self.builder.name(&span.name(&self.model))))
            }
        };
        let record = self.replayed.find(event.queue, event.submission, event.command_buffer, event.command);
        let added = Event {
            track: self.builder.track(kind, device, queue, stream),
            name,
            function,
            id: event.id,
            submission: event.submission,
            command_buffer: event.command_buffer,
            command: event.command,
            workgroup_count: event.workgroup_count.map(U32::get),
            workgroup_size: event.workgroup_size.map(U32::get),
            bytes: event.bytes,
            wait_count: event.wait_count,
            signal_count: event.signal_count,
            operation_count: event.operation_count,
            tile_count: event.tile_count,
            tile_duration: u64::try_from(event.tile_duration_ns).unwrap_or(0),
            strategy: event.strategy,
            status: event.status,
            replayed_record: record.and_then(|record| u32::try_from(record).ok()).unwrap_or(NONE),
            ..Event::default()
        };
        let span = match event.placed() {
            Times::Host(start, end) if start >= 0 => Span::Host(start, end),
            Times::Device(start, end) if start != 0 && end != 0 => Span::Ticks(start, end),
            _ => Span::Unknown,
        };
        self.builder.event(added, span);
    }

    fn add_metrics(&mut self, sample: &rows::MetricSample<'_>) {
        let (at, device) = (sample.host_time_begin_ns.get(), sample.physical_device_ordinal.get());
        for value in sample.values.iter().filter(|_| at >= 0) {
            let key = (sample.source_id.get(), value.metric_id.get());
            let Some(metric) = self.model.metrics.get(&key) else { continue };
            let bits = value.value_bits.get();
            let number = match MetricValueKind(metric.value_kind.get()) {
                MetricValueKind::I64 => bits as i64 as f64,
                MetricValueKind::U64 => bits as f64,
                MetricValueKind::F64 => f64::from_bits(bits),
                _ => continue,
            };
            if number.is_finite() {
                let unit = MetricUnit(metric.unit.get()).name();
                self.builder.point(device, metric.name, unit, at, number);
            }
        }
    }

    /// The numbers of an event's function and of its name.
    fn function(&mut self, event: &event::Event<'_>) -> (u32, u32) {
        let (executable, ordinal) = (event.executable, event.function);
        let described = self.model.functions.get(&(executable, ordinal));
        self.builder.function(executable, ordinal, || match described {
            Some(function) => key_of(function, event.queue.0).into_owned(),
            None => format!("executable{executable}#{ordinal}").into_bytes(),
        })
    }
}
