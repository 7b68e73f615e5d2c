//! `command`: command buffers, their commands and executions.

use rehal_base::{Error, Result};

use super::ReportOptions;
use super::dispatches::{Dispatches, Span};
use super::out::{Fixed, Out, object, text};
use crate::CommandOperationType;
use crate::layout;
use crate::model::has_block_structure;

pub fn print(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let executions = Executions::from_dispatches(dispatches)?;
    print_summary(dispatches, options, out)?;
    if options.is_text() {
        print_text(dispatches, &executions, options, out)
    } else {
        print_jsonl(dispatches, options, out)
    }
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
        for span in dispatches.executions.values() {
            device[position(span.command_buffer)?].push(span);
        }
        let mut host = vec![Vec::new(); command_buffers.len()];
        for span in dispatches.host_executions.values() {
            host[position(span.command_buffer)?].push(span);
        }
        Ok(Self { device, host })
    }
}

/// The commands that the options select, each with its key.
fn selected<'d, 'a>(
    dispatches: &'d Dispatches<'a>,
    options: &'d ReportOptions,
) -> impl Iterator<Item = Result<(&'a layout::CommandOperation, std::borrow::Cow<'a, [u8]>)>> {
    let model = &dispatches.model;
    let in_command_buffer =
        |operation: &layout::CommandOperation| options.selects_id(&[operation.command_buffer_id.get()]);
    model.operations.iter().copied().filter(move |it| in_command_buffer(it)).filter_map(move |operation| {
        let name = CommandOperationType(operation.operation_type.get()).name();
        match model.operation_key(operation) {
            Ok(key) => {
                (options.selects(name.as_bytes()) || options.selects(&key)).then_some(Ok((operation, key)))
            }
            Err(error) => Some(Err(error)),
        }
    })
}

fn print_summary(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    let mut matched = 0_usize;
    for operation in selected(dispatches, options) {
        operation?;
        matched += 1;
    }
    let (device, host) = (dispatches.device_counts, dispatches.host_counts);
    let (command_buffers, operations) =
        (dispatches.model.command_buffers.len(), dispatches.model.operations.len());
    let (executions, host_executions) = (dispatches.executions.len(), dispatches.host_executions.len());
    if options.is_text() {
        text!(out, "IREE HAL profile command-buffer summary\nfilter: {}\n", options.filter);
        text!(out, "command_buffers={command_buffers} executions={executions} ");
        text!(out, "host_executions={host_executions} command_operations={operations} ");
        text!(out, "matched_command_operations={matched} matched_dispatches={} ", device.matched);
        text!(out, "valid={} invalid={} ", device.valid, device.invalid);
        text!(out, "matched_host_dispatches={} host_valid={} ", host.matched, host.valid);
        text!(out, "host_invalid={}\n", host.invalid);
        return Ok(());
    }
    object!(
        out,
        "command_summary",
        filter: options.filter.as_str(),
        command_buffers: command_buffers,
        executions: executions,
        host_executions: host_executions,
        command_operations: operations,
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

fn print_text(
    dispatches: &Dispatches<'_>,
    executions: &Executions<'_>,
    options: &ReportOptions,
    out: &mut Out<'_>,
) -> Result<()> {
    let model = &dispatches.model;
    for (index, command_buffer) in model.command_buffers.values().iter().enumerate() {
        let header = command_buffer.header;
        if !options.selects_id(&[header.command_buffer_id.get()]) {
            continue;
        }
        text!(out, "command_buffer {}: ", header.command_buffer_id);
        text!(out, "device={} mode={} ", header.physical_device_ordinal, header.mode);
        let (categories, affinity) = (header.command_categories, header.queue_affinity);
        text!(out, "categories={categories} queue_affinity={affinity}\n");
        for operation in &command_buffer.operations {
            print_operation_text(dispatches, model.operations[*operation], options, out)?;
        }
        for span in &executions.device[index] {
            let (_, queue, stream) = span.queue;
            text!(out, "  submission={} queue={queue} stream={stream} ", span.submission);
            print_span(dispatches, span, out);
        }
        for span in &executions.host[index] {
            let (_, queue, stream) = span.queue;
            text!(out, "  host_submission={} queue={queue} stream={stream} ", span.submission);
            text!(out, "dispatches={} valid={} invalid={} ", span.count, span.valid, span.invalid);
            text!(out, "span_ns={} total_dispatch_ns={} ", span.ns(), span.total);
            text!(out, "tile_count={} tile_sum_ns={}\n", span.tiles, span.tiles_ns);
        }
        out.check()?;
    }
    Ok(())
}

/// Prints the counts and times of dispatches, and ends the line.
pub fn print_span(dispatches: &Dispatches<'_>, span: &Span<u64>, out: &mut Out<'_>) {
    text!(out, "dispatches={} valid={} invalid={} ", span.count, span.valid, span.invalid);
    text!(out, "span_ticks={} total_dispatch_ticks={}", Fixed(span.ticks(), 3), span.total);
    let fit = dispatches.model.clock_fit(span.queue.0);
    if let Some((total, fit)) = span.total_ns(fit).zip(fit) {
        let ns = Fixed(span.ticks() * fit.ns_per_tick(), 3);
        text!(out, " span_ns={ns} total_dispatch_ns={total}");
    }
    text!(out, "\n");
}

fn print_operation_text(
    dispatches: &Dispatches<'_>,
    operation: &layout::CommandOperation,
    options: &ReportOptions,
    out: &mut Out<'_>,
) -> Result<()> {
    let name = CommandOperationType(operation.operation_type.get());
    let key = dispatches.model.operation_key(operation)?;
    if !options.selects(name.name().as_bytes()) && !options.selects(&key) {
        return Ok(());
    }
    text!(out, "    command[{}]: op={name} flags=0x{:x}", operation.command_index, operation.flags.get());
    if has_block_structure(operation) {
        text!(out, " block={} local={}", operation.block_ordinal, operation.block_command_ordinal);
    }
    let (source, target) = (operation.source_ordinal, operation.target_ordinal);
    let (source_offset, target_offset) = (operation.source_offset, operation.target_offset);
    let length = operation.length;
    match name {
        CommandOperationType::DISPATCH => {
            text!(
                out,
                " executable={} function={} key=",
                operation.executable_id,
                operation.function_ordinal
            );
            out.name(&key);
            let (count, size) = (operation.workgroup_count, operation.workgroup_size);
            text!(
                out,
                " bindings={} workgroups=[{},{},{}] ",
                operation.binding_count,
                count[0],
                count[1],
                count[2]
            );
            text!(out, "workgroup_size=[{},{},{}]", size[0], size[1], size[2]);
        }
        CommandOperationType::FILL | CommandOperationType::UPDATE => {
            text!(out, " target={target} target_offset={target_offset} length={length}");
        }
        CommandOperationType::COPY => {
            text!(out, " source={source} source_offset={source_offset} ");
            text!(out, "target={target} target_offset={target_offset} length={length}");
        }
        CommandOperationType::BRANCH | CommandOperationType::COND_BRANCH => {
            let (block, other) = (operation.target_block_ordinal, operation.alternate_block_ordinal);
            text!(out, " target_block={block} alternate_block={other}");
        }
        _ => {}
    }
    text!(out, "\n");
    Ok(())
}

fn print_jsonl(dispatches: &Dispatches<'_>, options: &ReportOptions, out: &mut Out<'_>) -> Result<()> {
    for command_buffer in dispatches.model.command_buffers.values() {
        let header = command_buffer.header;
        if options.selects_id(&[header.command_buffer_id.get()]) {
            object!(
                out,
                "command_buffer",
                header {
                    command_buffer_id,
                    physical_device_ordinal,
                    mode,
                    command_categories,
                    queue_affinity
                },
            );
        }
    }
    for operation in selected(dispatches, options) {
        let (operation, key) = operation?;
        object!(
            out,
            "command_operation",
            operation { command_buffer_id, command_index },
            op: CommandOperationType(operation.operation_type.get()).name(),
            operation { flags },
            block_structure: has_block_structure(operation),
            operation { block_ordinal, block_command_ordinal },
            key: key,
            operation {
                executable_id, function_ordinal, binding_count, workgroup_count, workgroup_size, source_ordinal,
                target_ordinal, source_offset, target_offset, length, target_block_ordinal, alternate_block_ordinal,
            },
        );
        out.check()?;
    }
    for span in dispatches.executions.values() {
        if options.selects_id(&[span.command_buffer]) {
            let mut object = out.object("command_execution");
            object.field("command_buffer_id", &span.command_buffer);
            print_span_fields(dispatches, span, &mut object);
            object.end();
        }
    }
    for span in dispatches.host_executions.values() {
        if options.selects_id(&[span.command_buffer]) {
            print_host_execution(span, out);
        }
    }
    Ok(())
}

/// Prints the fields of a submission and its dispatches.
pub fn print_span_fields(
    dispatches: &Dispatches<'_>,
    span: &Span<u64>,
    object: &mut super::out::Object<'_, '_>,
) {
    let fit = dispatches.model.clock_fit(span.queue.0);
    let total_ns = span.total_ns(fit);
    super::out::fields!(
        object,
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
}

fn print_host_execution(span: &Span<i64>, out: &mut Out<'_>) {
    object!(
        out,
        "command_host_execution",
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
