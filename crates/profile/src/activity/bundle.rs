//! The events of a bundle.

use rehal_base::Result;
use zerocopy::little_endian::U32;

use super::memory::Memory;
use super::submissions::Submissions;
use super::{Activity, Axis, Builder, Event, Session, Span, TrackKind};
use crate::layout::{self, NONE};
use crate::model::{Model, key_of};
use crate::replayed::Replayed;
use crate::rows;
use crate::timeline::clocks::Clocks;
use crate::worker::WorkerSpan;
use crate::{
    Bundle, ContentType, DependencyStrategy, MetricUnit, MetricValueKind, QueueEventType, Record, RecordType,
};

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

/// The fields that several kinds of events have under the same names.
macro_rules! common {
    ($event:expr) => {
        Event {
            id: $event.event_id.get(),
            submission: $event.submission_id.get(),
            command_buffer: $event.command_buffer_id.get(),
            ..Event::default()
        }
    };
}

/// The record that an event replays, which is of `$header`'s queue.
macro_rules! replayed_record {
    ($this:expr, $header:expr, $event:expr, $command:expr) => {{
        let (device, queue) = ($header.physical_device_ordinal.get(), $header.queue_ordinal.get());
        let queue = (device, queue, $header.stream_id.get());
        let (submission, command_buffer) = ($event.submission_id.get(), $event.command_buffer_id.get());
        let record = $this.replayed.find(queue, submission, command_buffer, $command);
        record.and_then(|record| u32::try_from(record).ok()).unwrap_or(NONE)
    }};
}

/// The track of an event that names its queue.
macro_rules! track_of {
    ($this:expr, $kind:ident, $event:expr) => {
        $this.builder.track(
            TrackKind::$kind,
            $event.physical_device_ordinal.get(),
            $event.queue_ordinal.get(),
            $event.stream_id.get(),
        )
    };
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
        match record.content() {
            Some(ContentType::QueueEvents) => {
                for row in record.rows::<rows::QueueEvent<'_>>() {
                    self.add_submission(row?.header);
                }
            }
            Some(ContentType::QueueDeviceEvents) => {
                for row in record.rows::<rows::QueueDeviceEvent<'_>>() {
                    self.add_device_operation(row?.header);
                }
            }
            Some(ContentType::DispatchEvents) => {
                for row in record.rows::<rows::DispatchEvent<'_>>() {
                    self.add_dispatch(record.header, row?.header);
                }
            }
            Some(ContentType::HostExecutionEvents) => {
                for row in record.rows::<rows::HostExecutionEvent<'_>>() {
                    self.add_host_execution(row?.header);
                }
            }
            Some(ContentType::CommandRegionEvents) => {
                for row in record.rows::<rows::CommandRegionEvent<'_>>() {
                    self.add_region(row?.header);
                }
            }
            Some(ContentType::MemoryEvents) => {
                for row in record.rows::<rows::MemoryEvent<'_>>() {
                    self.memory.add(row?.header);
                }
            }
            Some(ContentType::EventRelationships) => {
                for row in record.rows::<rows::EventRelationship<'_>>() {
                    let row = row?.header;
                    self.submissions.relate(row);
                    if let Some(span) = WorkerSpan::from_row(row) {
                        self.add_worker(&span);
                    }
                }
            }
            Some(ContentType::MetricSamples) => {
                for row in record.rows::<rows::MetricSample<'_>>() {
                    self.add_metrics(&row?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the first open session with this id and name, or else with this id: two devices may have begun
    /// the same.
    fn end_session(&mut self, id: u64, name: &[u8], status: u32) {
        let find = |is_named: bool| {
            let is_it = |it: &Session| it.id == id && it.status.is_none() && (!is_named || it.name == name);
            self.sessions.iter().position(is_it)
        };
        if let Some(at) = find(true).or_else(|| find(false)) {
            self.sessions[at].status = Some(status);
        }
    }

    fn add_submission(&mut self, event: &layout::QueueEvent) {
        self.submissions.add(event);
        let (submitted, ready) = (event.host_time_ns.get(), event.ready_host_time_ns.get());
        let span = if submitted < 0 { Span::Unknown } else { Span::Host(submitted, ready.max(submitted)) };
        let added = Event {
            track: track_of!(self, Submissions, event),
            name: self.operation_name(event.event_type),
            bytes: event.payload_length.get(),
            wait_count: event.wait_count.get(),
            signal_count: event.signal_count.get(),
            operation_count: event.operation_count.get(),
            strategy: DependencyStrategy(event.dependency_strategy.get()).0,
            replayed_record: replayed_record!(self, event, event, NONE),
            ..common!(event)
        };
        self.builder.event(added, span);
    }

    fn add_device_operation(&mut self, event: &layout::QueueDeviceEvent) {
        let added = Event {
            track: track_of!(self, DeviceOperations, event),
            name: self.operation_name(event.event_type),
            bytes: event.payload_length.get(),
            operation_count: event.operation_count.get(),
            replayed_record: replayed_record!(self, event, event, NONE),
            ..common!(event)
        };
        self.builder.event(added, ticks(event.start_tick.get(), event.end_tick.get()));
    }

    fn add_dispatch(&mut self, header: &layout::RecordHeader, event: &layout::DispatchEvent) {
        let device = header.physical_device_ordinal.get();
        let (function, name) = self.function(device, event.executable_id.get(), event.function_ordinal.get());
        let added = Event {
            track: track_of!(self, DeviceDispatches, header),
            name,
            function,
            command: event.command_index.get(),
            workgroup_count: triple(event.workgroup_count),
            workgroup_size: triple(event.workgroup_size),
            replayed_record: replayed_record!(self, header, event, event.command_index.get()),
            ..common!(event)
        };
        self.builder.event(added, ticks(event.start_tick.get(), event.end_tick.get()));
    }

    fn add_host_execution(&mut self, event: &layout::HostExecutionEvent) {
        let (executable, ordinal) = (event.executable_id.get(), event.function_ordinal.get());
        let is_dispatch = QueueEventType(event.event_type.get()) == QueueEventType::DISPATCH;
        let (function, name) = if is_dispatch && executable != 0 && ordinal != NONE {
            self.function(event.physical_device_ordinal.get(), executable, ordinal)
        } else {
            (NONE, self.operation_name(event.event_type))
        };
        let added = Event {
            track: track_of!(self, HostExecution, event),
            name,
            function,
            command: event.command_index.get(),
            workgroup_count: triple(event.workgroup_count),
            workgroup_size: triple(event.workgroup_size),
            bytes: event.payload_length.get(),
            operation_count: event.operation_count.get(),
            tile_count: event.tile_count.get(),
            tile_duration: u64::try_from(event.tile_duration_sum_ns.get()).unwrap_or(0),
            status: event.status_code.get(),
            replayed_record: replayed_record!(self, event, event, event.command_index.get()),
            ..common!(event)
        };
        self.builder.event(added, host(event.start_host_time_ns.get(), event.end_host_time_ns.get()));
    }

    fn add_region(&mut self, event: &layout::CommandRegionEvent) {
        let name = format!("region {}", event.index.get());
        let added = Event {
            track: track_of!(self, CommandRegions, event),
            name: self.builder.name(name.as_bytes()),
            operation_count: event.dispatch_count.get(),
            tile_count: event.tile_count.get().into(),
            replayed_record: replayed_record!(self, event, event, NONE),
            ..common!(event)
        };
        self.builder.event(added, host(event.start_host_time_ns.get(), event.end_host_time_ns.get()));
    }

    /// Its dispatch is another event, so that it is not one of the functions.
    fn add_worker(&mut self, span: &WorkerSpan) {
        let (device, queue, _) = span.queue;
        let record = self.replayed.find(span.queue, span.submission, span.command_buffer, span.command);
        let added = Event {
            track: self.builder.track(TrackKind::Worker, device, queue, span.worker.into()),
            name: self.builder.name(&span.name(&self.model)),
            submission: span.submission,
            command_buffer: span.command_buffer,
            command: span.command,
            replayed_record: record.and_then(|record| u32::try_from(record).ok()).unwrap_or(NONE),
            ..Event::default()
        };
        self.builder.event(added, host(span.start_ns, span.end_ns));
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

    fn operation_name(&mut self, event_type: U32) -> u32 {
        self.builder.name(QueueEventType(event_type.get()).name().as_bytes())
    }

    /// The numbers of a function and of its name.
    fn function(&mut self, device: u32, executable: u64, ordinal: u32) -> (u32, u32) {
        let described = self.model.functions.get(&(executable, ordinal));
        self.builder.function(executable, ordinal, || match described {
            Some(function) => key_of(function, device).into_owned(),
            None => format!("executable{executable}#{ordinal}").into_bytes(),
        })
    }
}

fn ticks(start: u64, end: u64) -> Span {
    if start == 0 || end == 0 { Span::Unknown } else { Span::Ticks(start, end) }
}

fn host(start: i64, end: i64) -> Span {
    if start < 0 { Span::Unknown } else { Span::Host(start, end) }
}

fn triple(numbers: [U32; 3]) -> [u32; 3] {
    numbers.map(U32::get)
}
