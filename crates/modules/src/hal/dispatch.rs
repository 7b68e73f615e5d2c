use rehal_base::{Context, Error, Result};
use rehal_hal::{
    Buffer, BufferRef, Command, CommandBuffer, Dispatch, DispatchFlags, Executable, WORKGROUP_COUNT_BYTES,
    WorkgroupCount,
};
use rehal_vm::{Call, Span};
use smallvec::SmallVec;

use super::HalState;
use super::arguments::{handle, optional_handle, optional_tuple_handle};
use super::command_buffer::buffer_ref;
use super::executable::ProgramExecutable;

/// Limit on the bindings of a dispatch (source: `iree/modules/hal/module.c`).
const BINDING_LIMIT: usize = 32;

type Bindings<'a> = SmallVec<[BufferRef<&'a Buffer>; 8]>;

/// `(command buffer, executable, function, x, y, z, flags, [constant], [reserved, slot, buffer, offset,
/// length])`
pub(super) fn dispatch(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let count = WorkgroupCount::Static([call.u32(3)?, call.u32(4)?, call.u32(5)?]);
    record(call, count, DispatchFlags::from_bits_retain(call.u64(6)?))
}

/// `(command buffer, executable, function, slot, workgroups buffer, offset, flags, [constant], [reserved,
/// slot, buffer, offset, length])`: the workgroup count is read when the command executes, unless the flags
/// mark it as static.
pub(super) fn dispatch_indirect(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let count = buffer_ref(optional_handle(call, 4)?, call.u32(3)?, call.u64(5)?, WORKGROUP_COUNT_BYTES);
    let mut flags = DispatchFlags::from_bits_retain(call.u64(6)?);
    if !flags.contains(DispatchFlags::STATIC_INDIRECT_PARAMETERS) {
        flags |= DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS;
    }
    record(call, WorkgroupCount::Indirect(count), flags)
}

/// The arguments that both forms share: the function, the constants and the bindings.
fn record(call: &Call<'_>, workgroup_count: WorkgroupCount<&Buffer>, mut flags: DispatchFlags) -> Result<()> {
    let command_buffer: &CommandBuffer = handle(call, 0)?;
    let ordinal = function_of(call.i64(2)?)?;
    let (executable, function, needed) = handle::<ProgramExecutable>(call, 1)?.function(ordinal);
    let constants = constants(call.span(7)?)?;
    let mut workgroup_count = workgroup_count;
    let is_indirect = matches!(workgroup_count, WorkgroupCount::Indirect(_));
    if let Some(needed) = needed.count(&constants, is_indirect).context(|| named(executable, function))? {
        workgroup_count = WorkgroupCount::Static(needed);
        flags -= DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS;
    }
    let bindings = bindings(call.span(8)?)?;
    command_buffer.record(&Command::Dispatch(Dispatch {
        executable,
        function,
        workgroup_size: [0; 3],
        workgroup_count,
        dynamic_local_memory: 0,
        constants: &constants,
        bindings: &bindings,
        flags,
    }))
}

/// A function in errors.
fn named(executable: &Executable, function: u32) -> String {
    let name = executable.function(function).map(|it| it.name.escape_debug().to_string());
    format!("function '{}', which replaces one of the program", name.unwrap_or_default())
}

/// Programs identify a function by its ordinal.
fn function_of(id: i64) -> Result<u32> {
    u32::try_from(id).map_err(|_| Error::out_of_range(format!("invalid function ordinal {id}")))
}

fn constants(span: Span<'_>) -> Result<SmallVec<[u8; 64]>> {
    let mut constants = SmallVec::new();
    for tuple in span.tuples() {
        constants.extend_from_slice(&tuple.u32(0)?.to_le_bytes());
    }
    Ok(constants)
}

fn bindings(span: Span<'_>) -> Result<Bindings<'_>> {
    if span.len() > BINDING_LIMIT {
        return Err(Error::out_of_range(format!("binding count {} > {BINDING_LIMIT}", span.len())));
    }
    let bindings = span.tuples().map(|tuple| {
        Ok(buffer_ref(optional_tuple_handle(tuple, 2)?, tuple.u32(1)?, tuple.u64(3)?, tuple.u64(4)?))
    });
    bindings.collect()
}
