//! `command`: command buffers, their commands and executions.

use std::borrow::Cow;

use rehal_base::{Error, Result};

use super::dispatches::{Dispatches, Span};
use super::options::ReportOptions;
use super::out::{Fixed, Out, columns, row};
use crate::CommandOperationType;
use crate::layout;
use crate::model::has_block_structure;

pub fn print(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let executions = Executions::from_dispatches(dispatches)?;
    let (model, is_text) = (&dispatches.model, out.is_text());
    let is_selected = |command_buffer: u64| options.selects_id(&[command_buffer]);
    print_summary(dispatches, options, out)?;
    for (index, command_buffer) in model.command_buffers.values().iter().enumerate() {
        if !is_selected(command_buffer.header.command_buffer_id.get()) {
            continue;
        }
        print_command_buffer(command_buffer.header, out);
        if is_text {
            for operation in &command_buffer.operations {
                print_operation(dispatches, model.operations[*operation], options, out)?;
            }
            for span in &executions.device[index] {
                print_span("command_execution", dispatches, span, out);
            }
            executions.host[index].iter().for_each(|span| print_host_execution(span, out));
            out.check()?;
        }
    }
    if is_text {
        return Ok(());
    }
    for operation in &model.operations {
        print_operation(dispatches, operation, options, out)?;
        out.check()?;
    }
    for span in dispatches.device.executions.values().iter().filter(|span| is_selected(span.command_buffer)) {
        print_span("command_execution", dispatches, span, out);
    }
    for span in dispatches.host.executions.values().iter().filter(|span| is_selected(span.command_buffer)) {
        print_host_execution(span, out);
    }
    Ok(())
}

/// The executions of each command buffer.
struct Executions<'d> {
    device: Vec<Vec<&'d Span<u64>>>,
    host: Vec<Vec<&'d Span<i64>>>,
}

impl<'d> Executions<'d> {
    fn from_dispatches(dispatches: &'d Dispatches<'_>) -> Result<Self> {
        let command_buffers = &dispatches.model.command_buffers;
        let position = |id: u64| {
            let missing = || Error::data_loss(format!("the bundle does not describe command buffer {id}"));
            command_buffers.position(&id).ok_or_else(missing)
        };
        let mut device = vec![Vec::new(); command_buffers.len()];
        for span in dispatches.device.executions.values() {
            device[position(span.command_buffer)?].push(span);
        }
        let mut host = vec![Vec::new(); command_buffers.len()];
        for span in dispatches.host.executions.values() {
            host[position(span.command_buffer)?].push(span);
        }
        Ok(Self { device, host })
    }
}

/// The key of a command, if the options select it.
fn selected<'a>(
    dispatches: &Dispatches<'a>,
    operation: &layout::CommandOperation,
    options: &ReportOptions,
) -> Result<Option<Cow<'a, [u8]>>> {
    if !options.selects_id(&[operation.command_buffer_id.get()]) {
        return Ok(None);
    }
    let name = CommandOperationType(operation.operation_type.get()).name();
    let key = dispatches.model.operation_key(operation)?;
    Ok((options.selects(name.as_bytes()) || options.selects(&key)).then_some(key))
}

fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let mut matched = 0_usize;
    for operation in &dispatches.model.operations {
        matched += usize::from(selected(dispatches, operation, options)?.is_some());
    }
    let (device, host) = (dispatches.device.counts, dispatches.host.counts);
    row!(
        out,
        "command_summary",
        "IREE HAL profile command-buffer summary\nfilter: {filter}\ncommand_buffers={command_buffers} \
         executions={executions} host_executions={host_executions} command_operations={command_operations} \
         matched_command_operations={matched_command_operations} matched_dispatches={matched_dispatches} \
         valid={valid_dispatches} invalid={invalid_dispatches} matched_host_dispatches={matched_host_dispatches} \
         host_valid={valid_host_dispatches} host_invalid={invalid_host_dispatches}\n",
        filter: options.filter.as_str(),
        command_buffers: dispatches.model.command_buffers.len(),
        executions: dispatches.device.executions.len(),
        host_executions: dispatches.host.executions.len(),
        command_operations: dispatches.model.operations.len(),
        matched_command_operations: matched,
        matched_dispatches: device.matched,
        valid_dispatches: device.valid,
        invalid_dispatches: device.invalid,
        matched_host_dispatches: host.matched,
        valid_host_dispatches: host.valid,
        invalid_host_dispatches: host.invalid,
    );
    Ok(())
}

fn print_command_buffer(header: &layout::CommandBuffer, out: &mut Out<'_>) {
    row!(
        out,
        "command_buffer",
        "command_buffer {command_buffer_id}: device={physical_device_ordinal} mode={mode} \
         categories={command_categories} queue_affinity={queue_affinity}\n",
        header { command_buffer_id, physical_device_ordinal, mode, command_categories, queue_affinity },
    );
}

/// Prints a command, if the options select it.
fn print_operation(
    dispatches: &Dispatches<'_>,
    operation: &layout::CommandOperation,
    options: &ReportOptions,
    out: &mut Out<'_>,
) -> Result<()> {
    use CommandOperationType as Type;
    let Some(key) = selected(dispatches, operation, options)? else { return Ok(()) };
    let name = Type(operation.operation_type.get());
    row!(
        out,
        "command_operation",
        "    command[{command_index}]: op={op} flags=0x{hexadecimal_flags}{block_structure? block={block_ordinal} \
         local={block_command_ordinal}}{is_dispatch? executable={executable_id} function={function_ordinal} key={key} \
         bindings={binding_count} workgroups={workgroup_count} workgroup_size={workgroup_size}}{is_copy? \
         source={source_ordinal} source_offset={source_offset}}{is_transfer? target={target_ordinal} \
         target_offset={target_offset} length={length}}{is_branch? target_block={target_block_ordinal} \
         alternate_block={alternate_block_ordinal}}\n",
        operation { command_buffer_id, command_index },
        op: name.name(),
        operation { flags },
        @hexadecimal_flags: format_args!("{:x}", operation.flags.get()),
        block_structure: has_block_structure(operation),
        operation { block_ordinal, block_command_ordinal },
        key: key,
        @is_dispatch: name == Type::DISPATCH,
        @is_copy: name == Type::COPY,
        @is_transfer: matches!(name, Type::COPY | Type::FILL | Type::UPDATE),
        @is_branch: matches!(name, Type::BRANCH | Type::COND_BRANCH),
        operation {
            executable_id, function_ordinal, binding_count, workgroup_count, workgroup_size, source_ordinal,
            target_ordinal, source_offset, target_offset, length, target_block_ordinal, alternate_block_ordinal,
        },
    );
    Ok(())
}

/// Prints a submission, or the execution of a command buffer in it, and the times of its dispatches.
pub fn print_span(kind: &'static str, dispatches: &Dispatches<'_>, span: &Span<u64>, out: &mut Out<'_>) {
    let fit = dispatches.model.clock_fit(span.queue.0);
    let total_ns = span.total_ns(fit);
    let mut row = out.row(
        kind,
        "  submission={submission_id} {command_buffer_id?queue={queue_ordinal} stream={stream_id} \
         }dispatches={dispatches} valid={valid} invalid={invalid} span_ticks={span_ticks} \
         total_dispatch_ticks={total_dispatch_ticks}{total_dispatch_time_ns_available? span_ns={span_ns} \
         total_dispatch_ns={total_dispatch_ns}}\n",
    );
    if span.command_buffer != 0 {
        columns!(row, command_buffer_id: span.command_buffer);
    }
    columns!(
        row,
        submission_id: span.submission,
        physical_device_ordinal: span.queue.0,
        queue_ordinal: span.queue.1,
        stream_id: span.queue.2,
        dispatches: span.count,
        valid: span.valid,
        invalid: span.invalid,
        span_ticks: Fixed(span.ticks(), 3),
        total_dispatch_ticks: span.total,
        clock_fit_available: fit.is_some(),
        total_dispatch_time_ns_available: total_ns.is_some(),
        span_ns: Fixed(fit.map_or(0.0, |fit| span.ticks() * fit.ns_per_tick()), 3),
        total_dispatch_ns: total_ns.unwrap_or(0),
    );
    row.end();
}

fn print_host_execution(span: &Span<i64>, out: &mut Out<'_>) {
    row!(
        out,
        "command_host_execution",
        "  host_submission={submission_id} queue={queue_ordinal} stream={stream_id} dispatches={dispatches} \
         valid={valid} invalid={invalid} span_ns={span_ns} total_dispatch_ns={total_dispatch_ns} \
         tile_count={total_tile_count} tile_sum_ns={total_tile_duration_sum_ns}\n",
        timing_source: "host_execution_event",
        time_domain: "iree_host_time_ns",
        duration_time_domain: "iree_host_duration_ns",
        command_buffer_id: span.command_buffer,
        submission_id: span.submission,
        physical_device_ordinal: span.queue.0,
        queue_ordinal: span.queue.1,
        stream_id: span.queue.2,
        dispatches: span.count,
        valid: span.valid,
        invalid: span.invalid,
        span_ns: span.ns(),
        total_dispatch_ns: span.total,
        total_tile_count: span.tiles,
        total_tile_duration_sum_ns: span.tiles_ns,
    );
}
