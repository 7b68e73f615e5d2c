use rehal_base::{Error, Result};
use rehal_hal::{
    AccessScope, Buffer, BufferRef, Command, CommandBuffer, CommandBufferMode, CommandBufferParams,
    CommandCategories, Device, ExecutionStage, Live, MemoryBarrier, WHOLE_BUFFER,
};
use rehal_vm::Call;

use super::HalState;
use super::arguments::{bytes, handle, optional_handle, part_of};
use super::handle::Handle;

/// `(device, mode, categories, affinity, binding capacity) -> command buffer`, with recording begun.
pub(super) fn create(_: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device: &Device = handle(call, 0)?;
    let command_buffer = device.create_command_buffer(CommandBufferParams {
        mode: CommandBufferMode::from_bits_retain(call.u32(1)?),
        categories: CommandCategories::from_bits_retain(call.u32(2)?),
        affinity: call.u64(3)?,
        binding_capacity: call.u32(4)?.into(),
    })?;
    command_buffer.begin()?;
    call.push(Handle::reference(command_buffer));
    Ok(())
}

/// `(command buffer)`: ends the recording.
pub(super) fn finalize(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    handle::<CommandBuffer>(call, 0)?.end()
}

/// `(command buffer, label)`
pub(super) fn begin_debug_group(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let label = bytes(call, 1)?;
    record(call, &Command::BeginDebugGroup { label: &label, color: 0 })
}

/// `(command buffer)`
pub(super) fn end_debug_group(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    record(call, &Command::EndDebugGroup)
}

/// `(command buffer, source stages, target stages, flags)`: one memory barrier, implicit in the program,
/// which makes writes of dispatches visible to dispatches.
pub(super) fn execution_barrier(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    const DISPATCHES: &[MemoryBarrier] = &[MemoryBarrier {
        source_scope: AccessScope::DISPATCH_WRITE,
        target_scope: AccessScope::DISPATCH_READ,
    }];
    let command = Command::<Live<'_>>::ExecutionBarrier {
        source_stages: ExecutionStage::from_bits_retain(call.u32(1)?.into()),
        target_stages: ExecutionStage::from_bits_retain(call.u32(2)?.into()),
        flags: call.u64(3)?,
        memory_barriers: DISPATCHES,
        buffer_barriers: &[],
    };
    record(call, &command)
}

/// `(command buffer, buffer, flags, argument, argument, slot)`
pub(super) fn advise_buffer(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let buffer = buffer_ref(optional_handle(call, 1)?, call.u32(5)?, 0, WHOLE_BUFFER);
    let arguments = [call.u64(3)?, call.u64(4)?];
    record(call, &Command::Advise { buffer, flags: call.u64(2)?, arguments })
}

/// `(command buffer, target, offset, length, slot, pattern, pattern length, flags)`
pub(super) fn fill_buffer(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let target = buffer_ref(optional_handle(call, 1)?, call.u32(4)?, call.u64(2)?, call.u64(3)?);
    let pattern = call.u64(5)?.to_le_bytes();
    let pattern = pattern_of(&pattern, call.u32(6)?)?;
    record(call, &Command::Fill { target, pattern, flags: call.u64(7)? })
}

/// `(command buffer, bytes, source offset, target, target offset, length, slot, flags)`
pub(super) fn update_buffer(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let bytes: &rehal_vm::Buffer = call.object(1)?;
    let length = call.u64(5)?;
    let source = part_of(bytes, call.u64(2)?, length)?;
    let target = buffer_ref(optional_handle(call, 3)?, call.u32(6)?, call.u64(4)?, length);
    record(call, &Command::Update { source: &source, target, flags: call.u64(7)? })
}

/// `(command buffer, source slot, target slot, source, source offset, target, target offset, length, flags)`
pub(super) fn copy_buffer(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let length = call.u64(7)?;
    let source = buffer_ref(optional_handle(call, 3)?, call.u32(1)?, call.u64(4)?, length);
    let target = buffer_ref(optional_handle(call, 5)?, call.u32(2)?, call.u64(6)?, length);
    record(call, &Command::Copy { source, target, flags: call.u64(8)? })
}

/// A range of a buffer or, for a null buffer, of the binding table's entry `slot`.
pub(super) fn buffer_ref(buffer: Option<&Buffer>, slot: u32, offset: u64, length: u64) -> BufferRef<&Buffer> {
    match buffer {
        Some(buffer) => BufferRef::range(buffer, offset, length),
        None => BufferRef::slot(slot, offset, length),
    }
}

/// The first `length` bytes of a pattern that programs pass as one integer.
pub(super) fn pattern_of(pattern: &[u8; 8], length: u32) -> Result<&[u8]> {
    pattern
        .get(..length as usize)
        .ok_or_else(|| Error::invalid_argument(format!("a fill pattern has 1, 2 or 4 bytes, not {length}")))
}

fn record<'a>(call: &'a Call<'_>, command: &Command<Live<'a>>) -> Result<()> {
    handle::<CommandBuffer>(call, 0)?.record(command)
}
