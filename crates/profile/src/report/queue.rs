//! `queue`: submissions to queues.

use rehal_base::Result;

use super::command::print_span;
use super::dispatches::{Dispatches, Span};
use super::options::ReportOptions;
use super::out::{Out, Row, columns, row};
use crate::event::{nanoseconds, ticks};
use crate::model::queue_of;
use crate::{DependencyStrategy, QueueEventType, layout};

pub fn print(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    print_summary(dispatches, options, out);
    if out.is_text() {
        return print_by_queue(dispatches, out);
    }
    dispatches.model.queues.values().iter().for_each(|queue| print_queue(queue, out));
    dispatches
        .submissions
        .values()
        .iter()
        .for_each(|span| print_span("queue_submission", dispatches, span, out));
    dispatches.queue_device_events.iter().for_each(|event| print_device_event(dispatches, event, out));
    dispatches.host_events.iter().for_each(|event| print_host_event(event, out));
    for event in &dispatches.queue_events {
        print_event(event, out);
        out.check()?;
    }
    Ok(())
}

fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) {
    let (device, host) = (dispatches.device.counts, dispatches.host.counts);
    row!(
        out,
        "queue_summary",
        "IREE HAL profile queue summary\nfilter: {filter}\nqueues={queues} queue_events={queue_events} \
         queue_device_events={queue_device_events} host_execution_events={host_execution_events} \
         truncated_chunks={truncated_chunks} dropped_records={dropped_records} submissions={submissions} \
         matched_dispatches={matched_dispatches} valid={valid_dispatches} invalid={invalid_dispatches}\n\
         host_dispatches: matched={matched_host_dispatches} valid={valid_host_dispatches} \
         invalid={invalid_host_dispatches} command_executions={host_command_executions}\n",
        filter: options.filter.as_str(),
        queues: dispatches.model.queues.len(),
        queue_events: dispatches.queue_events.len(),
        queue_device_events: dispatches.queue_device_events.len(),
        host_execution_events: dispatches.host_events.len(),
        truncated_chunks: dispatches.truncated_chunks,
        dropped_records: dispatches.dropped_rows,
        submissions: dispatches.submissions.len(),
        matched_dispatches: device.matched,
        valid_dispatches: device.valid,
        invalid_dispatches: device.invalid,
        matched_host_dispatches: host.matched,
        valid_host_dispatches: host.valid,
        invalid_host_dispatches: host.invalid,
        host_command_executions: dispatches.host.executions.len(),
    );
}

/// The events of one queue.
#[derive(Clone, Default)]
struct OnQueue<'d, 'a> {
    submissions: Vec<&'d Span<u64>>,
    device_events: Vec<&'a layout::QueueDeviceEvent>,
    host_events: Vec<&'a layout::HostExecutionEvent>,
    events: Vec<&'a layout::QueueEvent>,
}

fn print_by_queue(dispatches: &Dispatches<'_>, out: &mut Out<'_>) -> Result<()> {
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
        print_queue(queue, out);
        on_queue.submissions.iter().for_each(|span| print_span("queue_submission", dispatches, span, out));
        on_queue.device_events.iter().for_each(|event| print_device_event(dispatches, event, out));
        on_queue.host_events.iter().for_each(|event| print_host_event(event, out));
        on_queue.events.iter().for_each(|event| print_event(event, out));
        out.check()?;
    }
    Ok(())
}

fn print_queue(queue: &layout::Queue, out: &mut Out<'_>) {
    row!(
        out,
        "queue",
        "queue device={physical_device_ordinal} ordinal={queue_ordinal} stream={stream_id}\n",
        queue { physical_device_ordinal, queue_ordinal, stream_id },
    );
}

fn print_device_event(dispatches: &Dispatches<'_>, event: &layout::QueueDeviceEvent, out: &mut Out<'_>) {
    let fit = dispatches.model.clock_fit(event.physical_device_ordinal.get());
    let ticks = ticks(event.start_tick.get(), event.end_tick.get());
    let ns = ticks.and_then(|ticks| fit?.duration_ns(ticks));
    row!(
        out,
        "queue_device_event",
        "  device_event={event_id} type={op} submission={submission_id} command_buffer={command_buffer_id} \
         allocation={allocation_id} ops={operation_count} ticks={duration_ticks} valid={valid}{has_ns? \
         ns={duration_ns}}\n",
        event { event_id },
        op: QueueEventType(event.event_type.get()).name(),
        event {
            flags, submission_id, command_buffer_id, allocation_id, physical_device_ordinal, queue_ordinal, stream_id,
            operation_count, payload_length, start_tick, end_tick,
        },
        duration_ticks: ticks.unwrap_or(0),
        valid: ticks.is_some(),
        clock_fit_available: fit.is_some(),
        @has_ns: ns.is_some(),
        duration_ns: ns.unwrap_or(0),
    );
}

fn print_host_event(event: &layout::HostExecutionEvent, out: &mut Out<'_>) {
    let ns = nanoseconds(event.start_host_time_ns.get(), event.end_host_time_ns.get());
    row!(
        out,
        "host_execution_event",
        "  host_execution_event={event_id} type={op} submission={submission_id} command_buffer={command_buffer_id} \
         allocation={allocation_id} ops={operation_count} tiles={tile_count} ns={duration_ns} \
         tile_sum_ns={tile_duration_sum_ns} valid={valid}\n",
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

fn print_event(event: &layout::QueueEvent, out: &mut Out<'_>) {
    let mut row = out.row(
        "queue_event",
        "  event={event_id} type={op} submission={submission_id} strategy={dependency_strategy} \
         submit={host_time_ns} ready={ready_host_time_ns} waits={wait_count} signals={signal_count} \
         barriers={barrier_count} ops={operation_count} bytes={payload_length}\n",
    );
    columns!(row, event { event_id }, op: QueueEventType(event.event_type.get()).name());
    submission_columns(event, &mut row);
    row.end();
}

/// Appends the columns of a submission behind its id and operation.
pub fn submission_columns(event: &layout::QueueEvent, row: &mut Row<'_, '_>) {
    columns!(
        row,
        event { flags },
        dependency_strategy: DependencyStrategy(event.dependency_strategy.get()).name(),
        event {
            submission_id, command_buffer_id, allocation_id, physical_device_ordinal, queue_ordinal, stream_id,
            host_time_ns, ready_host_time_ns,
        },
        host_time_domain: "iree_host_time_ns",
        event { wait_count, signal_count, barrier_count, operation_count, payload_length },
    );
}
