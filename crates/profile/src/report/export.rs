//! `export`: all rows, for other programs.

use rehal_base::printf::General;
use rehal_base::{Error, Result};
use zerocopy::little_endian::U64;

use super::counter::{SAMPLE_TICKS, set_columns};
use super::executable::{executable_columns, function_columns};
use super::memory::event_columns;
use super::out::{List, Out, Raw, Row, columns};
use super::queue::submission_columns;
use crate::codes::status_name;
use crate::event::{nanoseconds, ticks};
use crate::layout::{self, HAS_IDENTITY, NONE};
use crate::model::{Model, QueueKey, has_block_structure, queue_of};
use crate::rows;
use crate::{
    Bundle, CommandOperationType, ContentType, CounterSampleScope, DeviceClass, EndpointType, MetricPlotHint,
    MetricSemantic, MetricUnit, MetricValueKind, QueueEventType, Record, RecordType, RelationshipType,
    TraceFormat,
};

/// Version of the schema.
const SCHEMA_VERSION: u32 = 15;

/// Metrics from this id on are the producer's own.
const PRODUCER_METRICS: u64 = 1 << 63;

/// [`layout::MetricSample::flags`]: it has a timestamp of its source.
const SOURCE_TIMESTAMP: u32 = 1;

/// The clocks.
const TIME_DOMAINS: &str = concat!(
    "{\"iree_host_time_ns\":\"iree_time_now monotonic nanoseconds\",",
    "\"device_tick\":\"raw physical-device timestamp ticks\",",
    "\"driver_host_cpu_timestamp_ns\":\"driver-sampled CPU timestamp nanoseconds\",",
    "\"driver_host_system_timestamp\":\"driver-sampled system timestamp units scaled by host_system_frequency_hz\",",
    "\"device_tick_duration_ns\":\"duration nanoseconds derived from device_tick clock fit\"}"
);

/// The map from ticks to nanoseconds.
const CLOCK_FIT: &str =
    "{\"basis\":\"first_last_clock_correlation\",\"rounding\":\"nearest_integer_nanosecond\"}";

pub fn print(bundle: &Bundle<'_>, out: &mut Out<'_>) -> Result<()> {
    let model = Model::from_bundle(bundle)?;
    let header = bundle.header();
    let mut row = out.row_with("schema_version", &SCHEMA_VERSION, "");
    columns!(
        row,
        record_type: "schema",
        format: "ireeperf-jsonl",
        contract: "schema_versioned_interchange",
        row_key: "record_type",
        source_format: "ireeprof",
        source_version_major: header.version_major,
        source_version_minor: header.version_minor,
        time_domains: Raw(TIME_DOMAINS.to_owned()),
        clock_fit: Raw(CLOCK_FIT.to_owned()),
    );
    row.end();
    for record in bundle.records() {
        let record = record?;
        Export { model: &model, record: &record, out: &mut *out }.print()?;
        out.check()?;
    }
    Ok(())
}

/// A record that is being exported.
struct Export<'e, 'a, 'w> {
    model: &'e Model<'a>,
    record: &'e Record<'a>,
    out: &'e mut Out<'w>,
}

/// Prints a row: kind and columns.
macro_rules! row {
    ($export:expr, $kind:expr, $($columns:tt)*) => {{
        let mut row = $export.row($kind);
        columns!(row, $($columns)*);
        row.end();
    }};
}

impl<'a, 'w> Export<'_, 'a, 'w> {
    fn row(&mut self, kind: &str) -> Row<'_, 'w> {
        let mut row = self.out.row_with("schema_version", &SCHEMA_VERSION, "");
        columns!(row, record_type: kind, source_record_index: self.record.ordinal);
        row
    }

    fn print(mut self) -> Result<()> {
        let (record, header) = (self.record, self.record.header);
        match record.record_type() {
            RecordType::SESSION_BEGIN | RecordType::SESSION_END => {
                let is_begin = record.record_type() == RecordType::SESSION_BEGIN;
                row!(
                    self,
                    "session",
                    event: if is_begin { "begin" } else { "end" },
                    header { session_id, stream_id, event_id, session_status_code },
                    session_status: status_name(header.session_status_code.get()),
                );
                return Ok(());
            }
            RecordType::CHUNK => {}
            _ => {
                self.warn("unknown_record", "unknown profile file record type");
                return Ok(());
            }
        }
        if record.is_truncated() {
            row!(
                self,
                "diagnostic",
                severity: "error",
                category: "truncated_chunk",
                content_type: record.content_type,
                message: "chunk was marked truncated by the producer",
                dropped_records: header.dropped_record_count,
            );
        }
        match record.content() {
            // What other rows say of code is enough for other programs; the reference calls these unknown.
            None | Some(ContentType::Session | ContentType::CodeObjects | ContentType::CodeObjectLoads) => {
                self.warn("unknown_chunk", "unknown profile chunk content type");
                Ok(())
            }
            Some(content) => self.print_chunk(content),
        }
    }

    fn warn(&mut self, category: &str, message: &str) {
        let content_type = self.record.content_type;
        row!(
            self,
            "diagnostic",
            severity: "warning",
            category: category,
            content_type: content_type,
            message: message,
        );
    }

    fn print_chunk(mut self, content: ContentType) -> Result<()> {
        let record = self.record;
        match content {
            ContentType::Devices | ContentType::Queues | ContentType::CommandBuffers => self.print_topology(),
            ContentType::Executables | ContentType::Functions | ContentType::CommandOperations => {
                self.print_programs()
            }
            ContentType::ClockCorrelations | ContentType::EventRelationships => self.print_correlations(),
            ContentType::DispatchEvents => {
                record.rows::<rows::DispatchEvent<'_>>().try_for_each(|row| self.print_dispatch(row?.header))
            }
            ContentType::QueueEvents => record.rows::<rows::QueueEvent<'_>>().try_for_each(|row| {
                self.print_queue_event(row?.header);
                Ok(())
            }),
            ContentType::QueueDeviceEvents => {
                record.rows::<rows::QueueDeviceEvent<'_>>().try_for_each(|row| {
                    self.print_device_event(row?.header);
                    Ok(())
                })
            }
            ContentType::HostExecutionEvents => record
                .rows::<rows::HostExecutionEvent<'_>>()
                .try_for_each(|row| self.print_host_event(row?.header)),
            ContentType::CommandRegionEvents => {
                record.rows::<rows::CommandRegionEvent<'_>>().try_for_each(|row| {
                    self.print_region(row?.header);
                    Ok(())
                })
            }
            ContentType::MemoryEvents => record.rows::<rows::MemoryEvent<'_>>().try_for_each(|row| {
                let mut output = self.row("memory_event");
                event_columns(row?.header, &mut output);
                output.end();
                Ok(())
            }),
            ContentType::CounterSets | ContentType::Counters | ContentType::CounterSamples => {
                self.print_counters()
            }
            ContentType::ExecutableTraces => self.print_traces(),
            _ => self.print_metrics(),
        }
    }

    fn print_topology(&mut self) -> Result<()> {
        for row in self.record.rows::<rows::Device<'_>>() {
            let row = row?;
            let uuid = (row.flags.get() & HAS_IDENTITY != 0).then(|| hex::encode(row.physical_device_uuid));
            row!(
                self,
                "device",
                row { physical_device_ordinal, flags, queue_count },
                physical_device_uuid_present: uuid.is_some(),
                physical_device_uuid: uuid.as_deref(),
            );
        }
        for row in self.record.rows::<rows::Queue<'_>>() {
            let row = row?;
            row!(self, "queue", row { physical_device_ordinal, queue_ordinal, stream_id });
        }
        for row in self.record.rows::<rows::CommandBuffer<'_>>() {
            let row = row?;
            row!(
                self,
                "command_buffer",
                row {
                    command_buffer_id,
                    flags,
                    physical_device_ordinal,
                    mode,
                    command_categories,
                    queue_affinity
                },
            );
        }
        Ok(())
    }

    fn print_programs(&mut self) -> Result<()> {
        for row in self.record.rows::<rows::Executable<'_>>() {
            let mut output = self.row("executable");
            executable_columns(row?.header, &mut output);
            output.end();
        }
        for row in self.record.rows::<rows::Function<'_>>() {
            let row = row?;
            let mut output = self.row("executable_function");
            function_columns(&row, ("name", row.name), &mut output);
            output.end();
        }
        for row in self.record.rows::<rows::CommandOperation<'_>>() {
            let row = row?;
            let key = self.model.operation_key(row.header)?;
            row!(
                self,
                "command_operation",
                row { command_buffer_id, command_index },
                op: CommandOperationType(row.operation_type.get()).name(),
                key: key,
                row { flags },
                block_structure: has_block_structure(row.header),
                row {
                    block_ordinal, block_command_ordinal, executable_id, function_ordinal, binding_count, workgroup_count,
                    workgroup_size, source_ordinal, target_ordinal, source_offset, target_offset, length,
                    target_block_ordinal, alternate_block_ordinal,
                },
            );
        }
        Ok(())
    }

    fn print_correlations(&mut self) -> Result<()> {
        for row in self.record.rows::<rows::ClockCorrelation<'_>>() {
            let row = row?;
            let uncertainty = bracket_ns(row.host_time_begin_ns.get(), row.host_time_end_ns.get());
            row!(
                self,
                "clock_correlation",
                row { sample_id, flags, physical_device_ordinal },
                device_tick_domain: "device_tick",
                row { device_tick },
                host_cpu_timestamp_domain: "driver_host_cpu_timestamp_ns",
                row { host_cpu_timestamp_ns },
                host_system_timestamp_domain: "driver_host_system_timestamp",
                row { host_system_timestamp, host_system_frequency_hz },
                host_time_domain: "iree_host_time_ns",
                row { host_time_begin_ns, host_time_end_ns },
                host_time_uncertainty_ns: uncertainty,
            );
        }
        for row in self.record.rows::<rows::EventRelationship<'_>>() {
            let row = row?;
            row!(
                self,
                "event_relationship",
                row { relationship_id },
                kind: RelationshipType(row.relationship_type.get()).name(),
                kind_value: row.relationship_type,
                source_type: EndpointType(row.source_type.get()).name(),
                source_type_value: row.source_type,
                target_type: EndpointType(row.target_type.get()).name(),
                target_type_value: row.target_type,
                row {
                    physical_device_ordinal, queue_ordinal, stream_id, source_id, source_secondary_id, target_id,
                    target_secondary_id,
                },
            );
        }
        Ok(())
    }

    fn print_dispatch(&mut self, event: &layout::DispatchEvent) -> Result<()> {
        let (device, queue, stream): QueueKey = queue_of!(self.record.header);
        let time = DeviceTime::for_range(self.model, device, event.start_tick, event.end_tick);
        let (executable, function) = (event.executable_id.get(), event.function_ordinal.get());
        let key = self.model.function_key(device, executable, function)?;
        let mut row = self.row("dispatch_event");
        columns!(
            row,
            physical_device_ordinal: device,
            queue_ordinal: queue,
            stream_id: stream,
            event { event_id, submission_id, command_buffer_id, command_index, executable_id, function_ordinal },
            key: key,
            event { flags, workgroup_count, workgroup_size },
            device_tick_domain: "device_tick",
            event { start_tick, end_tick },
            duration_ticks: time.ticks.unwrap_or(0),
            valid: time.ticks.is_some(),
        );
        time.append(&mut row);
        row.end();
        Ok(())
    }

    fn print_device_event(&mut self, event: &layout::QueueDeviceEvent) {
        let device = event.physical_device_ordinal.get();
        let time = DeviceTime::for_range(self.model, device, event.start_tick, event.end_tick);
        let mut row = self.row("queue_device_event");
        columns!(
            row,
            event {
                physical_device_ordinal, queue_ordinal, stream_id, event_id, submission_id, command_buffer_id,
                allocation_id,
            },
            op: QueueEventType(event.event_type.get()).name(),
            type_value: event.event_type,
            event { flags, payload_length, operation_count },
            device_tick_domain: "device_tick",
            event { start_tick, end_tick },
            duration_ticks: time.ticks.unwrap_or(0),
            valid: time.ticks.is_some(),
        );
        time.append(&mut row);
        row.end();
    }

    fn print_host_event(&mut self, event: &layout::HostExecutionEvent) -> Result<()> {
        let ns = nanoseconds(event.start_host_time_ns.get(), event.end_host_time_ns.get());
        let (executable, function) = (event.executable_id.get(), event.function_ordinal.get());
        let has_function = executable != 0 && function != NONE;
        let device = event.physical_device_ordinal.get();
        let key = has_function.then(|| self.model.function_key(device, executable, function)).transpose()?;
        row!(
            self,
            "host_execution_event",
            event {
                physical_device_ordinal, queue_ordinal, stream_id, event_id, submission_id, command_buffer_id,
                command_index, executable_id, function_ordinal, allocation_id,
            },
            op: QueueEventType(event.event_type.get()).name(),
            key: key,
            type_value: event.event_type,
            event { flags, status_code, workgroup_count, workgroup_size },
            host_time_domain: "iree_host_time_ns",
            event { start_host_time_ns, end_host_time_ns },
            duration_ns: ns.unwrap_or(0),
            valid: ns.is_some(),
            event { payload_length, tile_count, tile_duration_sum_ns, operation_count },
        );
        Ok(())
    }

    fn print_queue_event(&mut self, event: &layout::QueueEvent) {
        let mut row = self.row("queue_event");
        columns!(
            row,
            event { event_id },
            op: QueueEventType(event.event_type.get()).name(),
            type_value: event.event_type,
        );
        submission_columns(event, &mut row);
        row.end();
    }

    fn print_region(&mut self, event: &layout::CommandRegionEvent) {
        let ns = nanoseconds(event.start_host_time_ns.get(), event.end_host_time_ns.get());
        row!(
            self,
            "command_region_event",
            event {
                physical_device_ordinal, queue_ordinal, stream_id, event_id, submission_id, command_buffer_id,
                block_sequence,
            },
            region_epoch: event.epoch,
            region_index: event.index,
            next_region_index: event.next_index,
            event { flags },
            host_time_domain: "iree_host_time_ns",
            event { start_host_time_ns, end_host_time_ns },
            duration_ns: ns.unwrap_or(0),
            valid: ns.is_some(),
            region_dispatch_count: event.dispatch_count,
            region_tile_count: event.tile_count,
            region_width_bucket: event.width_bucket,
            region_lookahead_width_bucket: event.lookahead_width_bucket,
            next_region_tile_count: event.next_tile_count,
            next_region_width_bucket: event.next_width_bucket,
            next_region_lookahead_width_bucket: event.next_lookahead_width_bucket,
            event {
                worker_count, old_wake_budget, new_wake_budget, wake_delta, useful_drain_count, no_work_drain_count,
                first_useful_drain_start_host_time_ns, last_useful_drain_end_host_time_ns,
            },
            tail_no_work: Raw(tail_of(event)),
            retention_keep_active_count: event.keep_active_count,
            retention_publish_keep_active_count: event.publish_keep_active_count,
            retention_keep_warm_count: event.keep_warm_count,
        );
    }

    fn print_counters(&mut self) -> Result<()> {
        for row in self.record.rows::<rows::CounterSet<'_>>() {
            let mut output = self.row("counter_set");
            set_columns(&row?, &mut output);
            output.end();
        }
        for row in self.record.rows::<rows::Counter<'_>>() {
            let row = row?;
            row!(
                self,
                "counter",
                row {
                    counter_set_id, counter_ordinal, physical_device_ordinal, flags, unit, sample_value_offset,
                    sample_value_count,
                },
                block: row.block_name,
                row { name, description },
            );
        }
        for row in self.record.rows::<rows::CounterSample<'_>>() {
            self.print_counter_sample(&row?);
        }
        Ok(())
    }

    fn print_counter_sample(&mut self, sample: &rows::CounterSample<'_>) {
        let has_ticks = sample.flags.get() & SAMPLE_TICKS != 0;
        let time = match has_ticks {
            true => DeviceTime::for_range(
                self.model,
                sample.physical_device_ordinal.get(),
                sample.start_tick,
                sample.end_tick,
            ),
            false => DeviceTime::default(),
        };
        let scope = CounterSampleScope(sample.scope.get());
        let mut row = self.row("counter_sample");
        columns!(
            row,
            sample { sample_id, counter_set_id },
            scope: scope.name(),
            scope_value: scope.0,
            sample {
                dispatch_event_id, submission_id, command_buffer_id, command_index, executable_id, function_ordinal,
                physical_device_ordinal, queue_ordinal, stream_id, flags,
            },
            device_tick_range_present: has_ticks,
            device_tick_domain: "device_tick",
            sample { start_tick, end_tick },
            duration_ticks: time.ticks.unwrap_or(0),
            device_tick_range_valid: time.ticks.is_some(),
        );
        time.append(&mut row);
        columns!(row, values: List(sample.values));
        row.end();
    }

    fn print_metrics(&mut self) -> Result<()> {
        for row in self.record.rows::<rows::MetricSource<'_>>() {
            let row = row?;
            row!(
                self,
                "device_metric_source",
                row { source_id, physical_device_ordinal },
                device_class: DeviceClass(row.device_class.get()).name(),
                device_class_value: row.device_class,
                row { flags, source_kind, source_revision, metric_count, name },
            );
        }
        for row in self.record.rows::<rows::MetricDescriptor<'_>>() {
            let row = row?;
            let id = row.metric_id.get();
            row!(
                self,
                "device_metric_descriptor",
                row { source_id, metric_id },
                builtin: id != 0 && id < PRODUCER_METRICS,
                producer_specific: id >= PRODUCER_METRICS,
                row { flags },
                unit: MetricUnit(row.unit.get()).name(),
                unit_value: row.unit,
                value_kind: MetricValueKind(row.value_kind.get()).name(),
                value_kind_value: row.value_kind,
                semantic: MetricSemantic(row.semantic.get()).name(),
                semantic_value: row.semantic,
                plot_hint: MetricPlotHint(row.plot_hint.get()).name(),
                plot_hint_value: row.plot_hint,
                row { name, description },
            );
        }
        for row in self.record.rows::<rows::MetricSample<'_>>() {
            self.print_metric_sample(&row?)?;
        }
        Ok(())
    }

    fn print_metric_sample(&mut self, sample: &rows::MetricSample<'a>) -> Result<()> {
        let source = sample.source_id.get();
        let mut values = Vec::with_capacity(sample.values.len());
        for value in sample.values {
            let metric = value.metric_id.get();
            let descriptor = self.model.metrics.get(&(source, metric)).ok_or_else(|| {
                Error::data_loss(format!(
                    "sample {} refers to metric {metric} of source {source}, which the bundle does not describe",
                    sample.sample_id
                ))
            })?;
            values.push(Metric { descriptor, value });
        }
        let mut row = self.row("device_metric_sample");
        columns!(
            row,
            sample { sample_id, source_id, flags, physical_device_ordinal },
            host_time_domain: "iree_host_time_ns",
            sample { host_time_begin_ns, host_time_end_ns },
            host_time_uncertainty_ns: bracket_ns(sample.host_time_begin_ns.get(), sample.host_time_end_ns.get()),
            source_timestamp_present: sample.flags.get() & SOURCE_TIMESTAMP != 0,
            sample { source_timestamp, source_timestamp_frequency_hz },
            values: List(&values),
        );
        row.end();
        Ok(())
    }

    fn print_traces(&mut self) -> Result<()> {
        for row in self.record.rows::<rows::ExecutableTrace<'_>>() {
            let row = row?;
            row!(
                self,
                "executable_trace",
                row { trace_id },
                format: TraceFormat(row.format.get()).name(),
                format_value: row.format,
                row {
                    flags, shader_engine, dispatch_event_id, submission_id, command_buffer_id, command_index,
                    executable_id, function_ordinal, physical_device_ordinal, queue_ordinal, stream_id, record_length,
                    data_length,
                },
            );
        }
        Ok(())
    }
}

/// Nanoseconds between two readings of the host's clock.
fn bracket_ns(begin: i64, end: i64) -> i64 {
    if end >= begin { end.wrapping_sub(begin) } else { 0 }
}

/// The activity of workers that found no work at the end of a region.
fn tail_of(event: &layout::CommandRegionEvent) -> String {
    let buckets: Vec<_> = event.remaining_tiles_bucket_counts.iter().map(ToString::to_string).collect();
    format!(
        "{{\"count\":{},\"remaining_tiles\":{{\"min\":{},\"max\":{},\"bucket_counts\":[{}]}},\
         \"first_start_host_time_ns\":{},\"last_end_host_time_ns\":{},\
         \"time_sums\":{{\"start_offset_ns\":{},\"drain_duration_ns\":{}}}}}",
        event.tail_no_work_count,
        event.remaining_tiles_min,
        event.remaining_tiles_max,
        buckets.join(","),
        event.tail_first_start_host_time_ns,
        event.tail_last_end_host_time_ns,
        event.tail_start_offset_ns,
        event.tail_drain_duration_ns,
    )
}

/// A value with what it measures.
struct Metric<'m, 'a> {
    descriptor: &'m rows::MetricDescriptor<'a>,
    value: &'a layout::MetricValue,
}

impl super::out::Value for Metric<'_, '_> {
    fn write_json(&self, buffer: &mut Vec<u8>) {
        let (descriptor, bits) = (self.descriptor, self.value.value_bits.get());
        let value = match MetricValueKind(descriptor.value_kind.get()) {
            MetricValueKind::I64 => (bits as i64).to_string(),
            MetricValueKind::U64 => bits.to_string(),
            MetricValueKind::F64 => General { value: f64::from_bits(bits), digits: 17 }.to_string(),
            _ => "null".to_owned(),
        };
        let name = |name: &'static str, text: &'static str| format!(",\"{name}\":\"{text}\"");
        buffer.extend_from_slice(format!("{{\"metric_id\":{},\"name\":", self.value.metric_id).as_bytes());
        descriptor.name.write_json(buffer);
        for text in [
            name("unit", MetricUnit(descriptor.unit.get()).name()),
            name("value_kind", MetricValueKind(descriptor.value_kind.get()).name()),
            name("semantic", MetricSemantic(descriptor.semantic.get()).name()),
            name("plot_hint", MetricPlotHint(descriptor.plot_hint.get()).name()),
            format!(",\"flags\":{},\"value\":{value},\"value_bits\":{bits}}}", self.value.flags),
        ] {
            buffer.extend_from_slice(text.as_bytes());
        }
    }
}

/// Two ticks of a device on the clock that its driver samples.
#[derive(Default)]
struct DeviceTime {
    ticks: Option<u64>,
    /// First and last sample of the fit, start, end.
    derived: Option<(u64, u64, i64, i64)>,
}

impl DeviceTime {
    fn for_range(model: &Model<'_>, device: u32, start: U64, end: U64) -> Self {
        let (start, end) = (start.get(), end.get());
        let ticks = ticks(start, end);
        let derived = ticks.and_then(|_| {
            let fit = model.clock_fit(device)?;
            let (start, end) = (fit.time_ns(start)?, fit.time_ns(end)?);
            (end >= start).then_some((fit.first_sample_id, fit.last_sample_id, start, end))
        });
        Self { ticks, derived }
    }

    fn append(&self, row: &mut Row<'_, '_>) {
        let (first, last, start, end) = self.derived.unwrap_or_default();
        columns!(
            row,
            derived_time_available: self.derived.is_some(),
            derived_time_domain: "driver_host_cpu_timestamp_ns",
            derived_time_basis: "first_last_clock_correlation",
            clock_fit_first_sample_id: first,
            clock_fit_last_sample_id: last,
            start_driver_host_cpu_time_ns: start,
            end_driver_host_cpu_time_ns: end,
            duration_time_domain: "device_tick_duration_ns",
            duration_ns: end.wrapping_sub(start),
        );
    }
}
