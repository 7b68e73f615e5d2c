//! `summary` as text.

use super::out::{Fixed, Out, text};
use super::status_name;
use super::summary::{DeviceSummary, Summary};
use crate::ContentType as Content;

/// The chunks, as the report names and orders them.
const CHUNKS: [(&str, Content); 23] = [
    ("devices", Content::Devices),
    ("queues", Content::Queues),
    ("executables", Content::Executables),
    ("executable_code_objects", Content::CodeObjects),
    ("executable_code_object_loads", Content::CodeObjectLoads),
    ("executable_functions", Content::Functions),
    ("command_buffers", Content::CommandBuffers),
    ("command_operations", Content::CommandOperations),
    ("clock_correlations", Content::ClockCorrelations),
    ("dispatch_events", Content::DispatchEvents),
    ("queue_events", Content::QueueEvents),
    ("queue_device_events", Content::QueueDeviceEvents),
    ("host_execution_events", Content::HostExecutionEvents),
    ("command_region_events", Content::CommandRegionEvents),
    ("memory_events", Content::MemoryEvents),
    ("event_relationships", Content::EventRelationships),
    ("counter_sets", Content::CounterSets),
    ("counters", Content::Counters),
    ("counter_samples", Content::CounterSamples),
    ("device_metric_sources", Content::MetricSources),
    ("device_metric_descriptors", Content::MetricDescriptors),
    ("device_metric_samples", Content::MetricSamples),
    ("executable_traces", Content::ExecutableTraces),
];

pub fn print(summary: &Summary, out: &mut Out<'_>) {
    text!(out, "IREE HAL profile summary\nrecords: file={} ", summary.records);
    text!(out, "session_begin={} chunks={} ", summary.session_begins, summary.chunks);
    text!(out, "session_end={} non_ok_session_end={} ", summary.session_ends, summary.failed_sessions);
    text!(out, "unknown={}\n", summary.unknown_records);
    if let Some(failure) = summary.first_failure {
        text!(out, "session_status: first_non_ok_session_id={} ", failure.session);
        text!(out, "first_non_ok_stream_id={} first_non_ok_event_id={} ", failure.stream, failure.event);
        let (code, name) = (failure.code, status_name(failure.code));
        text!(out, "first_non_ok_status_code={code} first_non_ok_status={name}\n");
    }
    text!(out, "chunks:");
    for (name, content) in CHUNKS {
        text!(out, " {name}={}", summary.chunks_of(content));
    }
    text!(out, " unknown={} truncated={} ", summary.unknown_chunks, summary.truncated_chunks);
    text!(out, "dropped_records={}\nmetadata_records:", summary.dropped_rows);
    for (name, content) in &CHUNKS[2..8] {
        text!(out, " {name}={}", summary.rows_of(*content));
    }
    print_events(summary, out);
    text!(out, "trace_data_bytes: code_objects={} ", summary.code_bytes);
    text!(out, "executable_traces={}\n", summary.trace_bytes);
    text!(out, "counter_records: counter_sets={} ", summary.rows_of(Content::CounterSets));
    text!(out, "counters={}\n", summary.rows_of(Content::Counters));
    text!(out, "device_metric_records: sources={} ", summary.rows_of(Content::MetricSources));
    text!(out, "descriptors={} ", summary.rows_of(Content::MetricDescriptors));
    let metrics = &summary.metrics;
    text!(out, "samples={} values={} invalid_samples={}\n", metrics.samples, metrics.values, metrics.invalid);
    text!(out, "devices:\n");
    summary.devices.values().iter().for_each(|device| print_device(device, out));
}

fn print_events(summary: &Summary, out: &mut Out<'_>) {
    let rows = |content| summary.rows_of(content);
    text!(out, "\nevent_records: queue_events={} ", rows(Content::QueueEvents));
    text!(out, "queue_device_events={} ", rows(Content::QueueDeviceEvents));
    text!(out, "host_execution_events={} ", rows(Content::HostExecutionEvents));
    text!(out, "invalid_host_execution_events={} ", summary.host_executions.invalid);
    text!(out, "host_execution_duration_ns={} ", summary.host_executions.total_ns);
    text!(out, "memory_events={} ", rows(Content::MemoryEvents));
    text!(out, "command_region_events={} ", rows(Content::CommandRegionEvents));
    text!(out, "invalid_command_region_events={} ", summary.regions.invalid);
    text!(out, "command_region_duration_ns={} ", summary.regions.total_ns);
    text!(out, "event_relationships={} ", rows(Content::EventRelationships));
    text!(out, "counter_samples={} ", rows(Content::CounterSamples));
    text!(out, "executable_traces={}\n", rows(Content::ExecutableTraces));
}

fn print_device(device: &DeviceSummary, out: &mut Out<'_>) {
    text!(out, "  device[{}]: device_records={} ", device.ordinal, device.device_rows);
    text!(out, "queues={}/{}\n", device.queue_rows, device.queues);
    let (clock, uncertainty) = (&device.clock, device.uncertainty_ns());
    text!(out, "    clock_samples={} min_uncertainty_ns={} ", clock.count, uncertainty.0);
    text!(out, "max_uncertainty_ns={} ", uncertainty.1);
    text!(out, "invalid_alignment_samples={}\n", clock.unaligned_count);
    if clock.unaligned_count != 0 {
        text!(
            out,
            "    warning: device clock samples are not aligned with profiled event ticks; raw device events are \
             retained, but host timeline correlation is disabled\n"
        );
    }
    let fit = clock.fit();
    match fit {
        Some(fit) => {
            text!(out, "    clock_fit: ns_per_tick={} ", Fixed(fit.ns_per_tick(), 9));
            text!(out, "tick_frequency_hz={} ", Fixed(fit.frequency_hz(), 3));
            text!(out, "device_delta_ticks={} host_delta_ns={}\n", fit.tick_span(), fit.ns_span());
        }
        None => text!(out, "    clock_fit: unavailable\n"),
    }
    text!(out, "    dispatches={} valid={} ", device.dispatches, device.valid_dispatches());
    text!(out, "invalid={}\n", device.invalid_dispatches);
    if device.valid_dispatches() != 0 {
        let ticks = device.ticks();
        text!(out, "    dispatch_tick_range: start={} end={} ", ticks.start, ticks.end);
        text!(out, "covered_by_clock_samples={}\n", device.is_covered());
        text!(out, "    dispatch_ticks: min={} avg={} ", ticks.minimum, Fixed(device.average_ticks(), 3));
        text!(out, "max={} total={}\n", ticks.maximum, ticks.total);
        match (fit, device.ns(fit)) {
            (Some(fit), Some((minimum, maximum, total))) => {
                let average = Fixed(device.average_ticks() * fit.ns_per_tick(), 3);
                text!(out, "    dispatch_time_ns: min={minimum} avg={average} max={maximum} total={total}\n");
            }
            (Some(_), None) => text!(out, "    dispatch_time_ns: unavailable\n"),
            (None, _) => {}
        }
    }
    let metrics = &device.metrics;
    text!(out, "    device_metrics: samples={} values={} ", metrics.samples, metrics.values);
    text!(out, "invalid_samples={}\n", metrics.invalid);
}
