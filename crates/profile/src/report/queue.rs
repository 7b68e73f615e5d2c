//! `queue`: submissions to queues.

use rehal_base::Result;

use super::command::{print_span, print_span_fields};
use super::dispatches::{Dispatches, Span};
use super::out::{Out, object, text};
use super::{ReportOptions, nanoseconds, ticks};
use crate::model::queue_of;
use crate::{DependencyStrategy, QueueEventType, layout};

pub fn print(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    print_summary(dispatches, options, out);
    if options.is_text() { print_text(dispatches, out) } else { print_jsonl(dispatches, out) }
}

fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) {
    let (device, host) = (dispatches.device_counts, dispatches.host_counts);
    let (queues, submissions) = (dispatches.model.queues.len(), dispatches.submissions.len());
    let (events, device_events) = (dispatches.queue_events.len(), dispatches.queue_device_events.len());
    let (host_events, executions) = (dispatches.host_events.len(), dispatches.host_executions.len());
    let (truncated, dropped) = (dispatches.truncated_chunks, dispatches.dropped_rows);
    if options.is_text() {
        text!(out, "IREE HAL profile queue summary\nfilter: {}\n", options.filter);
        text!(out, "queues={queues} queue_events={events} queue_device_events={device_events} ");
        text!(out, "host_execution_events={host_events} truncated_chunks={truncated} ");
        text!(out, "dropped_records={dropped} submissions={submissions} ");
        text!(out, "matched_dispatches={} valid={} ", device.matched, device.valid);
        text!(out, "invalid={}\nhost_dispatches: matched={} ", device.invalid, host.matched);
        text!(out, "valid={} invalid={} command_executions={executions}\n", host.valid, host.invalid);
        return;
    }
    object!(
        out,
        "queue_summary",
        filter: options.filter.as_str(),
        queues: queues,
        queue_events: events,
        queue_device_events: device_events,
        host_execution_events: host_events,
        truncated_chunks: truncated,
        dropped_records: dropped,
        submissions: submissions,
        matched_dispatches: device.matched,
        valid_dispatches: device.valid,
        invalid_dispatches: device.invalid,
        matched_host_dispatches: host.matched,
        valid_host_dispatches: host.valid,
        invalid_host_dispatches: host.invalid,
        host_command_executions: executions,
    );
}

/// What happened on one queue.
#[derive(Clone, Default)]
struct OnQueue<'d, 'a> {
    submissions: Vec<&'d Span<u64>>,
    device_events: Vec<&'a layout::QueueDeviceEvent>,
    host_events: Vec<&'a layout::HostExecutionEvent>,
    events: Vec<&'a layout::QueueEvent>,
}

fn print_text(dispatches: &Dispatches<'_>, out: &mut Out<'_>) -> Result<()> {
    let model = &dispatches.model;
    let mut queues = vec![OnQueue::default(); model.queues.len()];
    for span in dispatches.submissions.values() {
        queues[model.check_queue("a dispatch", span.queue, span.submission)?].submissions.push(span);
    }
    for event in &dispatches.queue_device_events {
        let index =
            model.check_queue("a queue event of a device", queue_of!(event), event.submission_id.get())?;
        queues[index].device_events.push(event);
    }
    for event in &dispatches.host_events {
        let index = model.check_queue("a host execution", queue_of!(event), event.submission_id.get())?;
        queues[index].host_events.push(event);
    }
    for event in &dispatches.queue_events {
        let index = model.check_queue("a queue event", queue_of!(event), event.submission_id.get())?;
        queues[index].events.push(event);
    }
    for (queue, on_queue) in model.queues.values().iter().zip(&queues) {
        text!(out, "queue device={} ", queue.physical_device_ordinal);
        text!(out, "ordinal={} stream={}\n", queue.queue_ordinal, queue.stream_id);
        for span in &on_queue.submissions {
            text!(out, "  submission={} ", span.submission);
            print_span(dispatches, span, out);
        }
        on_queue.device_events.iter().for_each(|event| print_device_event(dispatches, event, out));
        on_queue.host_events.iter().for_each(|event| print_host_event(event, out));
        on_queue.events.iter().for_each(|event| print_event(event, out));
        out.check()?;
    }
    Ok(())
}

fn print_device_event(dispatches: &Dispatches<'_>, event: &layout::QueueDeviceEvent, out: &mut Out<'_>) {
    let ticks = ticks(event.start_tick.get(), event.end_tick.get());
    let (kind, submission) = (QueueEventType(event.event_type.get()), event.submission_id);
    text!(out, "  device_event={} type={kind} submission={submission} ", event.event_id);
    text!(out, "command_buffer={} allocation={} ", event.command_buffer_id, event.allocation_id);
    text!(out, "ops={} ticks={} ", event.operation_count, ticks.unwrap_or(0));
    text!(out, "valid={}", ticks.is_some());
    let fit = dispatches.model.clock_fit(event.physical_device_ordinal.get());
    if let Some(ns) = ticks.and_then(|ticks| fit?.duration_ns(ticks)) {
        text!(out, " ns={ns}");
    }
    text!(out, "\n");
}

fn print_host_event(event: &layout::HostExecutionEvent, out: &mut Out<'_>) {
    let ns = nanoseconds(event.start_host_time_ns.get(), event.end_host_time_ns.get());
    let (kind, submission) = (QueueEventType(event.event_type.get()), event.submission_id);
    text!(out, "  host_execution_event={} type={kind} submission={submission} ", event.event_id);
    text!(out, "command_buffer={} allocation={} ", event.command_buffer_id, event.allocation_id);
    text!(out, "ops={} tiles={} ns={} ", event.operation_count, event.tile_count, ns.unwrap_or(0));
    text!(out, "tile_sum_ns={} valid={}\n", event.tile_duration_sum_ns, ns.is_some());
}

fn print_event(event: &layout::QueueEvent, out: &mut Out<'_>) {
    let (kind, submission) = (QueueEventType(event.event_type.get()), event.submission_id);
    let strategy = DependencyStrategy(event.dependency_strategy.get());
    text!(out, "  event={} type={kind} submission={submission} strategy={strategy} ", event.event_id);
    text!(out, "submit={} ready={} ", event.host_time_ns, event.ready_host_time_ns);
    text!(out, "waits={} signals={} ", event.wait_count, event.signal_count);
    text!(out, "barriers={} ops={} ", event.barrier_count, event.operation_count);
    text!(out, "bytes={}\n", event.payload_length);
}

fn print_jsonl(dispatches: &Dispatches<'_>, out: &mut Out<'_>) -> Result<()> {
    for queue in dispatches.model.queues.values() {
        object!(out, "queue", queue { physical_device_ordinal, queue_ordinal, stream_id });
    }
    for span in dispatches.submissions.values() {
        let mut object = out.object("queue_submission");
        print_span_fields(dispatches, span, &mut object);
        object.end();
    }
    for event in dispatches.queue_device_events.iter().copied() {
        let fit = dispatches.model.clock_fit(event.physical_device_ordinal.get());
        let ticks = ticks(event.start_tick.get(), event.end_tick.get());
        let ns = ticks.and_then(|ticks| fit?.duration_ns(ticks));
        object!(
            out,
            "queue_device_event",
            event { event_id },
            op: QueueEventType(event.event_type.get()).name(),
            event {
                flags, submission_id, command_buffer_id, allocation_id, physical_device_ordinal, queue_ordinal, stream_id,
                operation_count, payload_length, start_tick, end_tick,
            },
            duration_ticks: ticks.unwrap_or(0),
            valid: ticks.is_some(),
            clock_fit_available: fit.is_some(),
            duration_ns: ns.unwrap_or(0),
        );
    }
    for event in dispatches.host_events.iter().copied() {
        let ns = nanoseconds(event.start_host_time_ns.get(), event.end_host_time_ns.get());
        object!(
            out,
            "host_execution_event",
            event { event_id },
            op: QueueEventType(event.event_type.get()).name(),
            event {
                flags, status_code, submission_id, command_buffer_id, command_index, executable_id, function_ordinal,
                allocation_id, physical_device_ordinal, queue_ordinal, stream_id, operation_count, payload_length,
                tile_count, tile_duration_sum_ns,
            },
            host_time_domain: "iree_host_time_ns",
            event { start_host_time_ns, end_host_time_ns },
            duration_ns: ns.unwrap_or(0),
            valid: ns.is_some(),
        );
    }
    for event in dispatches.queue_events.iter().copied() {
        object!(
            out,
            "queue_event",
            event { event_id },
            op: QueueEventType(event.event_type.get()).name(),
            event { flags },
            dependency_strategy: DependencyStrategy(event.dependency_strategy.get()).name(),
            event {
                submission_id, command_buffer_id, allocation_id, physical_device_ordinal, queue_ordinal, stream_id,
                host_time_ns, ready_host_time_ns,
            },
            host_time_domain: "iree_host_time_ns",
            event { wait_count, signal_count, barrier_count, operation_count, payload_length },
        );
        out.check()?;
    }
    Ok(())
}
