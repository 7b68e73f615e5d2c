//! `summary`: counts of everything, and the clocks and dispatch times of devices.

use rehal_base::{Result, StatusCode};

use super::numbers::add;
use super::out::{Fixed, Out, Row, columns, row};
use crate::clock::{ClockFit, ClockSamples};
use crate::codes::status_name;
use crate::event::{EventRow, Times, nanoseconds, ticks};
use crate::layout::{self, CLOCK_HOST_TIME_BRACKET};
use crate::rows;
use crate::table::Table;
use crate::{Bundle, ContentType, Record, RecordType};

pub fn print(bundle: &Bundle<'_>, out: &mut Out<'_>) -> Result<()> {
    let mut summary = Summary::default();
    for record in bundle.records() {
        summary.add(&record?)?;
    }
    summary.print(out);
    out.heading("devices:\n");
    summary.devices.values().iter().for_each(|device| print_device(device, out));
    Ok(())
}

/// Number of content types.
const CONTENTS: usize = ContentType::CHUNKS.len() + 1;

/// Counts of everything.
#[derive(Default)]
pub struct Summary {
    pub records: u64,
    pub session_begins: u64,
    pub chunks: u64,
    pub session_ends: u64,
    pub failed_sessions: u64,
    pub first_failure: Option<Failure>,
    pub unknown_records: u64,
    pub unknown_chunks: u64,
    pub truncated_chunks: u64,
    pub dropped_rows: u64,
    chunk_counts: [u64; CONTENTS],
    row_counts: [u64; CONTENTS],
    pub code_bytes: u64,
    pub trace_bytes: u64,
    pub host_executions: Spans,
    pub regions: Spans,
    pub metrics: MetricCounts,
    pub devices: Table<u32, DeviceSummary>,
}

/// The end of a session that failed.
#[derive(Clone, Copy)]
pub struct Failure {
    pub session: u64,
    pub stream: u64,
    pub event: u64,
    pub code: u32,
}

/// Events on the host.
#[derive(Clone, Copy, Default)]
pub struct Spans {
    pub invalid: u64,
    pub total_ns: u64,
}

/// Samples of device metrics.
#[derive(Clone, Copy, Default)]
pub struct MetricCounts {
    pub samples: u64,
    pub values: u64,
    pub invalid: u64,
}

/// Counts of a device.
#[derive(Default)]
pub struct DeviceSummary {
    pub ordinal: u32,
    pub device_rows: u32,
    pub queue_rows: u32,
    pub queues: u32,
    pub clock: ClockSamples,
    uncertainty_ns: Option<(i64, i64)>,
    pub dispatches: u64,
    pub invalid_dispatches: u64,
    ticks: Option<Ticks>,
    pub metrics: MetricCounts,
}

/// The dispatches of a device that have times.
#[derive(Clone, Copy, Default)]
pub struct Ticks {
    pub start: u64,
    pub end: u64,
    pub minimum: u64,
    pub maximum: u64,
    pub total: u64,
}

impl Summary {
    /// Adds a record.
    pub fn add(&mut self, record: &Record<'_>) -> Result<()> {
        self.records += 1;
        match record.record_type() {
            RecordType::SESSION_BEGIN => self.session_begins += 1,
            RecordType::SESSION_END => self.add_session_end(record.header),
            RecordType::CHUNK => {
                self.chunks += 1;
                if record.is_truncated() {
                    self.truncated_chunks += 1;
                    self.dropped_rows =
                        self.dropped_rows.wrapping_add(record.header.dropped_record_count.get());
                }
                match record.content() {
                    Some(content) => self.add_chunk(content, record)?,
                    None => self.unknown_chunks += 1,
                }
            }
            _ => self.unknown_records += 1,
        }
        Ok(())
    }

    /// Number of chunks of a content type.
    pub fn chunks_of(&self, content: ContentType) -> u64 {
        self.chunk_counts[content as usize]
    }

    /// Number of rows in chunks of a content type.
    pub fn rows_of(&self, content: ContentType) -> u64 {
        self.row_counts[content as usize]
    }

    fn add_session_end(&mut self, header: &layout::RecordHeader) {
        self.session_ends += 1;
        let code = header.session_status_code.get();
        if code != StatusCode::Ok as u32 {
            self.failed_sessions += 1;
            self.first_failure.get_or_insert(Failure {
                session: header.session_id.get(),
                stream: header.stream_id.get(),
                event: header.event_id.get(),
                code,
            });
        }
    }

    fn add_chunk(&mut self, content: ContentType, record: &Record<'_>) -> Result<()> {
        self.chunk_counts[content as usize] += 1;
        record.with_rows(|_| self.row_counts[content as usize] += 1)?;
        if content == ContentType::DispatchEvents {
            self.device(record.header.physical_device_ordinal.get());
        }
        match content {
            ContentType::DispatchEvents
            | ContentType::HostExecutionEvents
            | ContentType::CommandRegionEvents => {
                record.for_each_event(|event| match (event.row, event.times) {
                    (_, Times::Device(start, end)) => self.device(event.queue.0).add_dispatch(start, end),
                    (EventRow::HostExecution(_), Times::Host(start, end)) => {
                        self.host_executions.add(start, end)
                    }
                    (_, Times::Host(start, end)) => self.regions.add(start, end),
                })
            }
            _ => self.add_metadata(record),
        }
    }

    fn add_metadata(&mut self, record: &Record<'_>) -> Result<()> {
        for row in record.rows::<rows::Device<'_>>() {
            let row = row?;
            let device = self.device(row.physical_device_ordinal.get());
            device.device_rows = device.device_rows.wrapping_add(1);
            device.queues = row.queue_count.get();
        }
        for row in record.rows::<rows::Queue<'_>>() {
            let device = self.device(row?.physical_device_ordinal.get());
            device.queue_rows = device.queue_rows.wrapping_add(1);
        }
        for row in record.rows::<rows::ClockCorrelation<'_>>() {
            let sample = row?.header;
            self.device(sample.physical_device_ordinal.get()).add_clock_sample(sample);
        }
        for row in record.rows::<rows::CodeObject<'_>>() {
            add(&mut self.code_bytes, row?.data_length.get())?;
        }
        for row in record.rows::<rows::ExecutableTrace<'_>>() {
            add(&mut self.trace_bytes, row?.data_length.get())?;
        }
        for row in record.rows::<rows::MetricSample<'_>>() {
            let sample = row?.header;
            self.metrics.add(sample);
            self.device(sample.physical_device_ordinal.get()).metrics.add(sample);
        }
        Ok(())
    }

    fn device(&mut self, ordinal: u32) -> &mut DeviceSummary {
        self.devices.entry(ordinal, || DeviceSummary { ordinal, ..DeviceSummary::default() })
    }
}

impl Spans {
    fn add(&mut self, start: i64, end: i64) -> Result<()> {
        match nanoseconds(start, end) {
            Some(ns) => add(&mut self.total_ns, ns.unsigned_abs()),
            None => {
                self.invalid += 1;
                Ok(())
            }
        }
    }
}

impl MetricCounts {
    fn add(&mut self, sample: &layout::MetricSample) {
        self.samples += 1;
        self.values += u64::from(sample.value_count.get());
        let ns = nanoseconds(sample.host_time_begin_ns.get(), sample.host_time_end_ns.get());
        self.invalid += u64::from(ns.is_none());
    }
}

impl DeviceSummary {
    fn add_clock_sample(&mut self, sample: &layout::ClockCorrelation) {
        self.clock.add(sample);
        let (begin, end) = (sample.host_time_begin_ns.get(), sample.host_time_end_ns.get());
        if sample.flags.get() & CLOCK_HOST_TIME_BRACKET != 0 && end >= begin {
            let ns = end.wrapping_sub(begin);
            // The most is at least zero, which matters only to a bracket that is longer than 63 bits.
            let (least, most) = self.uncertainty_ns.unwrap_or((ns, 0));
            self.uncertainty_ns = Some((least.min(ns), most.max(ns)));
        }
    }

    fn add_dispatch(&mut self, start: u64, end: u64) -> Result<()> {
        self.dispatches += 1;
        let Some(ticks) = ticks(start, end) else {
            self.invalid_dispatches += 1;
            return Ok(());
        };
        let all = self.ticks.get_or_insert(Ticks { start, minimum: ticks, ..Ticks::default() });
        (all.start, all.end) = (all.start.min(start), all.end.max(end));
        (all.minimum, all.maximum) = (all.minimum.min(ticks), all.maximum.max(ticks));
        add(&mut all.total, ticks)
    }

    /// Least and most nanoseconds between two readings of the host's clock around a sample.
    pub fn uncertainty_ns(&self) -> (i64, i64) {
        self.uncertainty_ns.unwrap_or_default()
    }

    /// Dispatches with times.
    pub fn valid_dispatches(&self) -> u64 {
        self.dispatches - self.invalid_dispatches
    }

    /// Their times.
    pub fn ticks(&self) -> Ticks {
        self.ticks.unwrap_or_default()
    }

    /// Whether the clock samples span all dispatches.
    pub fn is_covered(&self) -> bool {
        let (first, last) = (self.clock.first.device_tick.get(), self.clock.last.device_tick.get());
        self.clock.count >= 2
            && self.clock.have_aligned_ticks()
            && self.ticks.is_some_and(|ticks| first <= ticks.start && ticks.end <= last)
    }

    /// Ticks of a dispatch on average.
    pub fn average_ticks(&self) -> f64 {
        match self.valid_dispatches() {
            0 => 0.0,
            valid => self.ticks().total as f64 / valid as f64,
        }
    }

    /// The shortest, longest and total time in nanoseconds.
    pub fn ns(&self, fit: Option<ClockFit>) -> Option<(i64, i64, i64)> {
        let (fit, ticks) = (fit?, self.ticks?);
        Some((
            fit.duration_ns(ticks.minimum)?,
            fit.duration_ns(ticks.maximum)?,
            fit.duration_ns(ticks.total)?,
        ))
    }
}

/// Appends the columns of the first session that failed, if one did.
pub fn failure_columns(failure: Option<Failure>, row: &mut Row<'_, '_>) {
    if let Some(failure) = failure {
        columns!(
            row,
            first_non_ok_session_id: failure.session,
            first_non_ok_stream_id: failure.stream,
            first_non_ok_event_id: failure.event,
            first_non_ok_status_code: failure.code,
            first_non_ok_status: status_name(failure.code),
        );
    }
}

/// The rows of each content type of [`ContentType::CHUNKS`].
const NAMES: [&str; ContentType::CHUNKS.len()] = [
    "device",
    "queue",
    "executable",
    "executable_code_object",
    "executable_code_object_load",
    "executable_function",
    "command_buffer",
    "command_operation",
    "clock_correlation",
    "dispatch_event",
    "queue_event",
    "queue_device_event",
    "host_execution_event",
    "command_region_event",
    "memory_event",
    "event_relationship",
    "counter_set",
    "counter",
    "counter_sample",
    "device_metric_source",
    "device_metric_descriptor",
    "device_metric_sample",
    "executable_trace",
];

impl Summary {
    fn print(&self, out: &mut Out<'_>) {
        let mut row = out.row(
            "summary",
            "IREE HAL profile summary\nrecords: file={file_records} session_begin={session_begin_records} \
             chunks={chunk_records} session_end={session_end_records} non_ok_session_end={non_ok_session_end_records} \
             unknown={unknown_records}\n{first_non_ok_status?session_status: \
             first_non_ok_session_id={first_non_ok_session_id} first_non_ok_stream_id={first_non_ok_stream_id} \
             first_non_ok_event_id={first_non_ok_event_id} first_non_ok_status_code={first_non_ok_status_code} \
             first_non_ok_status={first_non_ok_status}\n}chunks:{all_chunks} unknown={unknown_chunks} \
             truncated={truncated_chunks} dropped_records={dropped_records}\nmetadata_records:{metadata_records}\n\
             event_records: queue_events={queue_event_records} queue_device_events={queue_device_event_records} \
             host_execution_events={host_execution_event_records} \
             invalid_host_execution_events={invalid_host_execution_event_records} \
             host_execution_duration_ns={total_host_execution_duration_ns} memory_events={memory_event_records} \
             command_region_events={command_region_event_records} \
             invalid_command_region_events={invalid_command_region_event_records} \
             command_region_duration_ns={total_command_region_duration_ns} \
             event_relationships={event_relationship_records} counter_samples={counter_sample_records} \
             executable_traces={executable_trace_records}\ntrace_data_bytes: \
             code_objects={executable_code_object_data_bytes} executable_traces={executable_trace_data_bytes}\n\
             counter_records: counter_sets={counter_set_records} counters={counter_records}\ndevice_metric_records: \
             sources={device_metric_source_records} descriptors={device_metric_descriptor_records} \
             samples={device_metric_sample_records} values={device_metric_values} \
             invalid_samples={invalid_device_metric_sample_records}\n",
        );
        columns!(
            row,
            file_records: self.records,
            session_begin_records: self.session_begins,
            chunk_records: self.chunks,
            session_end_records: self.session_ends,
            non_ok_session_end_records: self.failed_sessions,
            unknown_records: self.unknown_records,
        );
        failure_columns(self.first_failure, &mut row);
        let (mut chunks, mut metadata) = (String::new(), String::new());
        for (name, content) in NAMES.into_iter().zip(ContentType::CHUNKS) {
            let (chunk_count, row_count) = (self.chunks_of(*content), self.rows_of(*content));
            chunks.push_str(&format!(" {name}s={chunk_count}"));
            row.prefix = name;
            columns!(row, _chunks: chunk_count);
            match content {
                ContentType::Devices
                | ContentType::Queues
                | ContentType::ClockCorrelations
                | ContentType::DispatchEvents => continue,
                ContentType::Executables
                | ContentType::CodeObjects
                | ContentType::CodeObjectLoads
                | ContentType::Functions
                | ContentType::CommandBuffers
                | ContentType::CommandOperations => metadata.push_str(&format!(" {name}s={row_count}")),
                _ => {}
            }
            columns!(row, _records: row_count);
            row.prefix = "";
            match content {
                ContentType::CodeObjects => row.column("executable_code_object_data_bytes", &self.code_bytes),
                ContentType::HostExecutionEvents => {
                    let Spans { invalid, total_ns } = self.host_executions;
                    row.column("invalid_host_execution_event_records", &invalid);
                    row.column("total_host_execution_duration_ns", &total_ns);
                }
                ContentType::CommandRegionEvents => {
                    let Spans { invalid, total_ns } = self.regions;
                    row.column("invalid_command_region_event_records", &invalid);
                    row.column("total_command_region_duration_ns", &total_ns);
                }
                ContentType::MetricSamples => {
                    row.column("device_metric_values", &self.metrics.values);
                    row.column("invalid_device_metric_sample_records", &self.metrics.invalid);
                }
                _ => {}
            }
        }
        columns!(
            row,
            executable_trace_data_bytes: self.trace_bytes,
            unknown_chunks: self.unknown_chunks,
            truncated_chunks: self.truncated_chunks,
            dropped_records: self.dropped_rows,
            @all_chunks: chunks,
            @metadata_records: metadata,
        );
        row.end();
    }
}

fn print_device(device: &DeviceSummary, out: &mut Out<'_>) {
    let (fit, ticks) = (device.clock.fit(), device.ticks());
    let scale = fit.map_or(0.0, |fit| fit.ns_per_tick());
    let ns = device.ns(fit);
    let (minimum, maximum, total) = ns.unwrap_or_default();
    let uncertainty = device.uncertainty_ns();
    row!(
        out,
        "device_summary",
        "  device[{physical_device_ordinal}]: device_records={device_records} queues={queue_records}/{queues}\n    \
         clock_samples={clock_samples} min_uncertainty_ns={min_clock_uncertainty_ns} \
         max_uncertainty_ns={max_clock_uncertainty_ns} \
         invalid_alignment_samples={invalid_clock_alignment_samples}\n{invalid_clock_alignment_samples?    warning: \
         device clock samples are not aligned with profiled event ticks; raw device events are retained, but host \
         timeline correlation is disabled\n}    clock_fit: {clock_fit_available?ns_per_tick={ns_per_tick} \
         tick_frequency_hz={tick_frequency_hz} device_delta_ticks={tick_span} \
         host_delta_ns={ns_span}}{clock_fit_available!unavailable}\n    dispatches={dispatches} \
         valid={valid_dispatches} invalid={invalid_dispatches}\n{valid_dispatches?    dispatch_tick_range: \
         start={earliest_dispatch_start_tick} end={latest_dispatch_end_tick} \
         covered_by_clock_samples={dispatch_ticks_covered_by_clock_samples}\n    dispatch_ticks: \
         min={min_dispatch_ticks} avg={avg_dispatch_ticks} max={max_dispatch_ticks} \
         total={total_dispatch_ticks}\n{clock_fit_available?    dispatch_time_ns: \
         {dispatch_time_available?min={min_dispatch_ns} avg={avg_dispatch_ns} max={max_dispatch_ns} \
         total={total_dispatch_ns}}{dispatch_time_available!unavailable}\n}}    device_metrics: \
         samples={device_metric_samples} values={device_metric_values} \
         invalid_samples={invalid_device_metric_samples}\n",
        physical_device_ordinal: device.ordinal,
        device_records: device.device_rows,
        queue_records: device.queue_rows,
        queues: device.queues,
        clock_samples: device.clock.count,
        invalid_clock_alignment_samples: device.clock.unaligned_count,
        clock_fit_available: fit.is_some(),
        ns_per_tick: Fixed(scale, 9),
        tick_frequency_hz: Fixed(fit.map_or(0.0, |fit| fit.frequency_hz()), 3),
        @tick_span: fit.map_or(0, |fit| fit.tick_span()),
        @ns_span: fit.map_or(0, |fit| fit.ns_span()),
        min_clock_uncertainty_ns: uncertainty.0,
        max_clock_uncertainty_ns: uncertainty.1,
        dispatches: device.dispatches,
        valid_dispatches: device.valid_dispatches(),
        invalid_dispatches: device.invalid_dispatches,
        min_dispatch_ticks: ticks.minimum,
        avg_dispatch_ticks: Fixed(device.average_ticks(), 3),
        max_dispatch_ticks: ticks.maximum,
        total_dispatch_ticks: ticks.total,
        earliest_dispatch_start_tick: ticks.start,
        latest_dispatch_end_tick: ticks.end,
        dispatch_ticks_covered_by_clock_samples: device.is_covered(),
        dispatch_time_available: ns.is_some(),
        min_dispatch_ns: minimum,
        avg_dispatch_ns: Fixed(if ns.is_some() { device.average_ticks() * scale } else { 0.0 }, 3),
        max_dispatch_ns: maximum,
        total_dispatch_ns: total,
        device_metric_samples: device.metrics.samples,
        device_metric_values: device.metrics.values,
        invalid_device_metric_samples: device.metrics.invalid,
    );
}
