//! The fields of every payload, shared by all formats.

use rehal_capture::layout::{self, SemaphoreTimepoint};
use rehal_capture::payload as view;
use rehal_capture::{FileReferenceType, FileValidationType, Payload, Record};

use zerocopy::little_endian::U64;

use super::sink::{Fields, Name, name};

/// Passes the fields of `payload` to `out`; none if it has no type.
pub fn write<F: Fields>(record: &Record<'_>, payload: &Payload<'_>, out: &mut F) {
    let spans = Spans { next: record.payload_offset() };
    match payload {
        Payload::BufferObject(view) => buffer_object(view, out),
        Payload::AllocateBuffer(view) => allocation(view, name!("queue_affinity"), out),
        Payload::ImportBuffer(view) => import_buffer(view, spans, out),
        Payload::BufferRange(view) => {
            out.number(name!("byte_offset"), view.byte_offset.get());
            out.number(name!("byte_length"), view.byte_length.get());
            out.bits::<8>(name!("mapping_mode"), view.mapping_mode.get().into());
            out.bits::<4>(name!("memory_access"), view.memory_access.get().into());
        }
        Payload::BufferRangeData(view) => buffer_range_data(view, spans, out),
        Payload::CommandBufferObject(view) => {
            out.bits::<8>(name!("mode"), view.mode.get().into());
            out.bits::<8>(name!("categories", "command_categories"), view.command_categories.get().into());
            out.number(name!("queue_affinity"), view.queue_affinity.get());
            out.number(name!("binding_capacity"), view.binding_capacity.get());
        }
        Payload::ExecutableCacheObject(view) => executable_cache(view, spans, out),
        Payload::ExecutablePrepare(view) => executable_prepare(view, spans, out),
        Payload::SemaphoreObject(view) => {
            out.number(name!("queue_affinity"), view.queue_affinity.get());
            out.number(name!("initial_value"), view.initial_value.get());
            out.bits::<16>(name!("flags"), view.flags.get());
        }
        Payload::EventObject(view) => {
            out.number(name!("queue_affinity"), view.queue_affinity.get());
            out.bits::<8>(name!("flags"), view.flags.get().into());
        }
        Payload::FileObject(view) => file_object(view, spans, out),
        Payload::Scope(view) => out.string(name!("name"), view.name),
        Payload::Dispatch(view) => dispatch(view, spans, out),
        Payload::QueueExecute(view) => queue_execute(view, spans, out),
        Payload::QueueAlloca(view) => queue_alloca(view, spans, out),
        Payload::QueueDealloca(view) => queue_dealloca(view, spans, out),
        Payload::QueueFill(view) => queue_fill(view, spans, out),
        Payload::QueueUpdate(view) => queue_update(view, spans, out),
        Payload::QueueCopy(view) => queue_copy(view, spans, out),
        Payload::QueueRead(view) => queue_read(view, spans, out),
        Payload::QueueWrite(view) => queue_write(view, spans, out),
        Payload::CommandBarrier(view) => command_barrier(view, spans, out),
        Payload::CommandEvent(view) => {
            out.number(name!("event_id"), view.event_id.get());
            out.bits::<16>(name!("source_stage_mask"), view.source_stage_mask.get());
        }
        Payload::CommandWaitEvents(view) => command_wait_events(view, spans, out),
        Payload::CommandFill(view) => command_fill(view, spans, out),
        Payload::CommandUpdate(view) => command_update(view, spans, out),
        Payload::CommandCopy(view) => {
            out.bits::<8>(name!("flags"), view.flags.get().into());
            out.reference(name!("source"), &view.source_ref);
            out.reference(name!("target"), &view.target_ref);
        }
        _ => {}
    }
}

/// File ranges of a payload's lists, in their order after the header.
struct Spans {
    next: u64,
}

impl Spans {
    /// Skips the header `H`.
    fn after<H>(mut self) -> Self {
        self.next += size_of::<H>() as u64;
        self
    }

    /// The range of the next list.
    fn take<T>(&mut self, list: &[T]) -> Span {
        let span = Span { offset: self.next, length: size_of_val(list) as u64 };
        self.next += span.length;
        span
    }
}

#[derive(Clone, Copy)]
struct Span {
    offset: u64,
    length: u64,
}

fn span<F: Fields>(out: &mut F, name: Name, span: Span) {
    out.range(name, span.offset, span.length);
}

/// The number of timepoints that a queue operation waits for and signals.
fn timepoint_counts<F: Fields>(out: &mut F, waits: &[SemaphoreTimepoint], signals: &[SemaphoreTimepoint]) {
    out.number(name!("wait_count", "wait_semaphore_count"), waits.len() as u64);
    out.number(name!("signal_count", "signal_semaphore_count"), signals.len() as u64);
}

/// The fields that most queue operations begin with.
fn queued<F: Fields>(
    out: &mut F,
    affinity: U64,
    flags: U64,
    waits: &[SemaphoreTimepoint],
    signals: &[SemaphoreTimepoint],
) {
    out.number(name!("queue_affinity"), affinity.get());
    out.bits::<16>(name!("flags"), flags.get());
    timepoint_counts(out, waits, signals);
}

/// Their file ranges.
fn timepoint_spans<F: Fields>(
    out: &mut F,
    spans: &mut Spans,
    waits: &[SemaphoreTimepoint],
    signals: &[SemaphoreTimepoint],
) {
    span(out, name!("wait_range", "wait_semaphores_range"), spans.take(waits));
    span(out, name!("signal_range", "signal_semaphores_range"), spans.take(signals));
}

fn buffer_object<F: Fields>(view: &layout::BufferObject, out: &mut F) {
    out.number(name!("allocation_size"), view.allocation_size.get());
    out.number(name!("byte_offset"), view.byte_offset.get());
    out.number(name!("byte_length"), view.byte_length.get());
    out.number(name!("queue_affinity"), view.queue_affinity.get());
    out.bits::<8>(name!("placement_flags"), view.placement_flags.get().into());
    out.bits::<8>(name!("memory_type"), view.memory_type.get().into());
    out.bits::<8>(name!("allowed_usage"), view.allowed_usage.get().into());
    out.bits::<4>(name!("allowed_access"), view.allowed_access.get().into());
}

fn allocation<F: Fields>(view: &layout::AllocateBuffer, affinity: Name, out: &mut F) {
    out.number(name!("allocation_size"), view.allocation_size.get());
    out.number(affinity, view.queue_affinity.get());
    out.number(name!("min_alignment"), view.min_alignment.get());
    out.bits::<8>(name!("usage"), view.usage.get().into());
    out.bits::<8>(name!("type"), view.memory_type.get().into());
    out.bits::<4>(name!("access"), view.access.get().into());
}

fn import_buffer<F: Fields>(view: &view::ImportBuffer<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::ImportBuffer>();
    allocation(&view.allocation, name!("queue_affinity"), out);
    out.number(name!("external_type"), view.external_type.get().into());
    out.bits::<8>(name!("external_flags"), view.external_flags.get().into());
    span(out, name!("data_range"), spans.take(view.data));
}

fn buffer_range_data<F: Fields>(view: &view::BufferRangeData<'_>, spans: Spans, out: &mut F) {
    let data = spans.after::<layout::BufferRangeData>().take(view.data);
    out.number(name!("byte_offset"), view.byte_offset.get());
    out.number(name!("byte_length"), view.byte_length.get());
    span(out, name!(text "data_range"), data);
    out.number(name!(json "mapping_mode"), view.mapping_mode.get().into());
    out.bits::<4>(name!("memory_access"), view.memory_access.get().into());
    span(out, name!(json "data_range"), data);
}

fn executable_cache<F: Fields>(view: &view::ExecutableCacheObject<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::ExecutableCacheObject>();
    out.number(name!(json "identifier_length"), view.identifier_length.get());
    span(out, name!("identifier_range"), spans.take(view.identifier));
}

fn executable_prepare<F: Fields>(view: &view::ExecutablePrepare<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::ExecutablePrepare>();
    out.number(name!("queue_affinity"), view.queue_affinity.get());
    out.bits::<8>(name!("caching_mode"), view.caching_mode.get().into());
    out.number(name!(json "executable_format_length"), view.executable_format_length.get().into());
    out.number(name!(json "executable_data_length"), view.executable_data_length.get());
    out.number(name!(json "constant_count"), view.constant_count.get());
    out.number(name!(json "executable_metadata_length"), view.executable_metadata_length.get().into());
    span(out, name!("format_range"), spans.take(view.format));
    span(out, name!("data_range"), spans.take(view.data));
    span(out, name!("constants_range"), spans.take(view.constants));
    span(out, name!("metadata_range"), spans.take(view.metadata_bytes));
    let Some(metadata) = view.metadata() else { return };
    let header = metadata.header;
    out.number(name!("metadata_functions", "metadata_function_count"), header.function_count.get());
    out.number(name!("metadata_parameters", "metadata_parameter_count"), header.parameter_count.get());
    let storage = header.function_name_storage_length.get();
    out.number(name!("metadata_function_name_storage_length"), storage);
}

fn file_object<F: Fields>(view: &view::FileObject<'_>, spans: Spans, out: &mut F) {
    let reference = spans.after::<layout::FileObject>().take(view.reference);
    let identity = |out: &mut F| {
        out.number(name!("file_device"), view.file_device.get());
        out.number(name!("file_inode"), view.file_inode.get());
        out.number(name!("file_mtime_ns"), view.file_mtime_ns.get());
    };
    out.number(name!("queue_affinity"), view.queue_affinity.get());
    out.number(name!("file_length"), view.file_length.get());
    if !F::TEXT {
        identity(out);
    }
    out.number(name!(json "reference_length"), view.reference_length.get());
    out.bits::<8>(name!("access"), view.access.get().into());
    out.bits::<8>(name!("flags"), view.flags.get().into());
    out.number(name!("handle_type"), view.handle_type.get().into());
    let reference_type = FileReferenceType(view.reference_type.get());
    let meaning = reference_type.name();
    out.code(name!("reference_type"), reference_type.0, name!(json "reference_type_name"), meaning);
    if F::TEXT {
        identity(out);
    }
    let validation_type = FileValidationType(view.validation_type.get());
    let meaning = validation_type.name();
    out.code(name!("validation_type"), validation_type.0, name!(json "validation_type_name"), meaning);
    out.number(name!("digest_type"), view.digest_type.get().into());
    let mut digest = [0; 8];
    digest.copy_from_slice(&view.digest[..8]);
    out.digest(name!("digest_fnv1a64"), u64::from_le_bytes(digest));
    span(out, name!("reference_range"), reference);
}

fn dispatch<F: Fields>(view: &view::Dispatch<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::Dispatch>();
    out.number(name!("executable_id"), view.executable_id.get());
    out.number(name!("queue_affinity"), view.queue_affinity.get());
    out.number(name!("function_ordinal"), view.function_ordinal.get().into());
    out.bits::<8>(name!("flags"), view.flags.get().into());
    out.triple(name!("workgroup_count"), &view.workgroup_count);
    out.triple(name!("workgroup_size"), &view.workgroup_size);
    let local_memory = view.dynamic_workgroup_local_memory.get();
    out.number(name!(json "dynamic_workgroup_local_memory"), local_memory.into());
    timepoint_counts(out, view.waits, view.signals);
    out.number(name!(json "constants_length"), view.constants_length.get());
    out.number(name!(json "binding_count"), view.binding_count.get());
    out.reference(name!("workgroup_count_ref"), &view.workgroup_count_ref);
    span(out, name!(json "wait_semaphores_range"), spans.take(view.waits));
    span(out, name!(json "signal_semaphores_range"), spans.take(view.signals));
    span(out, name!("constants_range"), spans.take(view.constants));
    span(out, name!("bindings_range"), spans.take(view.bindings));
}

fn queue_execute<F: Fields>(view: &view::QueueExecute<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueExecute>();
    out.number(name!("command_buffer_id"), view.command_buffer_id.get());
    queued(out, view.queue_affinity, view.flags, view.waits, view.signals);
    out.number(name!(json "binding_count"), view.binding_count.get());
    timepoint_spans(out, &mut spans, view.waits, view.signals);
    span(out, name!("bindings_range"), spans.take(view.bindings));
    out.timepoints(name!("wait_semaphores"), view.waits);
    out.timepoints(name!("signal_semaphores"), view.signals);
    out.references(name!("bindings"), view.bindings);
}

fn queue_alloca<F: Fields>(view: &view::QueueAlloca<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueAlloca>();
    allocation(&view.allocation, name!("queue_affinity", "allocation_queue_affinity"), out);
    out.number(name!("submit_queue_affinity", "queue_affinity"), view.queue_affinity.get());
    out.bits::<16>(name!("flags"), view.flags.get());
    timepoint_counts(out, view.waits, view.signals);
    timepoint_spans(out, &mut spans, view.waits, view.signals);
}

fn queue_dealloca<F: Fields>(view: &view::QueueDealloca<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueDealloca>();
    queued(out, view.queue_affinity, view.flags, view.waits, view.signals);
    out.reference(name!("buffer_ref"), &view.buffer_ref);
    timepoint_spans(out, &mut spans, view.waits, view.signals);
}

fn queue_fill<F: Fields>(view: &view::QueueFill<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueFill>();
    queued(out, view.queue_affinity, view.flags, view.waits, view.signals);
    out.number(name!(json "pattern_length"), view.pattern_length.get());
    out.reference(name!("target_ref"), &view.target_ref);
    timepoint_spans(out, &mut spans, view.waits, view.signals);
    span(out, name!("pattern_range"), spans.take(view.pattern));
}

fn queue_update<F: Fields>(view: &view::QueueUpdate<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueUpdate>();
    out.number(name!("queue_affinity"), view.queue_affinity.get());
    out.bits::<16>(name!("flags"), view.flags.get());
    out.number(name!("source_offset"), view.source_offset.get());
    timepoint_counts(out, view.waits, view.signals);
    out.number(name!(json "data_length"), view.data_length.get());
    out.reference(name!("target_ref"), &view.target_ref);
    timepoint_spans(out, &mut spans, view.waits, view.signals);
    span(out, name!("data_range"), spans.take(view.data));
}

fn queue_copy<F: Fields>(view: &view::QueueCopy<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueCopy>();
    queued(out, view.queue_affinity, view.flags, view.waits, view.signals);
    out.reference(name!("source_ref"), &view.source_ref);
    out.reference(name!("target_ref"), &view.target_ref);
    timepoint_spans(out, &mut spans, view.waits, view.signals);
}

fn queue_read<F: Fields>(view: &view::QueueRead<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueRead>();
    out.number(name!("source_file_id"), view.source_file_id.get());
    out.number(name!("source_offset"), view.source_offset.get());
    out.number(name!("queue_affinity"), view.queue_affinity.get());
    out.bits::<16>(name!("flags"), view.flags.get());
    out.number(name!("captured_data_length"), view.captured_data_length.get());
    timepoint_counts(out, view.waits, view.signals);
    out.reference(name!("target_ref"), &view.target_ref);
    timepoint_spans(out, &mut spans, view.waits, view.signals);
    span(out, name!("captured_data_range"), spans.take(view.captured_data));
}

fn queue_write<F: Fields>(view: &view::QueueWrite<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::QueueWrite>();
    out.number(name!("target_file_id"), view.target_file_id.get());
    out.number(name!("target_offset"), view.target_offset.get());
    queued(out, view.queue_affinity, view.flags, view.waits, view.signals);
    out.reference(name!("source_ref"), &view.source_ref);
    timepoint_spans(out, &mut spans, view.waits, view.signals);
}

fn command_barrier<F: Fields>(view: &view::CommandBarrier<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::CommandBarrier>();
    out.bits::<16>(name!("source_stage_mask"), view.source_stage_mask.get());
    out.bits::<16>(name!("target_stage_mask"), view.target_stage_mask.get());
    out.bits::<16>(name!("flags"), view.flags.get());
    out.number(name!("memory_count", "memory_barrier_count"), view.memory_barrier_count.get());
    out.number(name!("buffer_count", "buffer_barrier_count"), view.buffer_barrier_count.get());
    span(out, name!("memory_barriers_range"), spans.take(view.memory_barriers));
    span(out, name!("buffer_barriers_range"), spans.take(view.buffer_barriers));
}

fn command_wait_events<F: Fields>(view: &view::CommandWaitEvents<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::CommandWaitEvents>();
    out.bits::<16>(name!("source_stage_mask"), view.source_stage_mask.get());
    out.bits::<16>(name!("target_stage_mask"), view.target_stage_mask.get());
    out.number(name!("event_count"), view.event_count.get());
    out.number(name!("memory_count", "memory_barrier_count"), view.memory_barrier_count.get());
    out.number(name!("buffer_count", "buffer_barrier_count"), view.buffer_barrier_count.get());
    span(out, name!("events_range"), spans.take(view.events));
    span(out, name!("memory_barriers_range"), spans.take(view.memory_barriers));
    span(out, name!("buffer_barriers_range"), spans.take(view.buffer_barriers));
}

fn command_fill<F: Fields>(view: &view::CommandFill<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::CommandFill>();
    out.bits::<8>(name!("flags"), view.flags.get().into());
    out.number(name!(json "pattern_length"), view.pattern_length.get());
    out.reference(name!("target"), &view.target_ref);
    span(out, name!("pattern_range"), spans.take(view.pattern));
}

fn command_update<F: Fields>(view: &view::CommandUpdate<'_>, spans: Spans, out: &mut F) {
    let mut spans = spans.after::<layout::CommandUpdate>();
    out.bits::<8>(name!("flags"), view.flags.get().into());
    out.number(name!("source_offset"), view.source_offset.get());
    out.number(name!(json "data_length"), view.data_length.get());
    out.reference(name!("target"), &view.target_ref);
    span(out, name!("data_range"), spans.take(view.data));
}
