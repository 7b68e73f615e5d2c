use rehal_base::Result;
use rehal_hal::{
    Binding, Buffer, BufferParams, BufferRef, BufferUsage, BufferView, Command, CommandBufferMode,
    CommandBufferParams, CommandCategories, Device, Fence, Live, MemoryAccess, MemoryType,
    QUEUE_AFFINITY_ANY, QueueOp, SemaphoreFlags,
};
use rehal_modules::hal::Handle;
use rehal_vm::Value;

use super::tensors::MAPPING;

/// A fence on a semaphore of its own that hosts wait for, reached at 1.
pub(crate) fn new_fence(device: &Device) -> Result<Fence> {
    let flags = SemaphoreFlags::HOST_INTERRUPT | SemaphoreFlags::EXPORTABLE_TIMEPOINTS;
    Ok(Fence::at(device.create_semaphore(QUEUE_AFFINITY_ANY, 0, flags)?, 1))
}

/// Replaces the buffers among `values` that the host cannot read as they are by copies that it can, and waits
/// for the copies. One command buffer copies all; where none needs it nothing happens.
pub(crate) fn to_host(values: &mut [Value], device: &Device) -> Result<()> {
    let wanted = BufferParams {
        usage: BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET | MAPPING,
        access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        affinity: QUEUE_AFFINITY_ANY,
        min_alignment: 0,
    };
    if !values.iter().any(|value| buffer_of(value).is_some_and(|buffer| !suffices(buffer, &wanted))) {
        return Ok(());
    }
    let commands = device.create_command_buffer(CommandBufferParams {
        mode: CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION,
        categories: CommandCategories::TRANSFER,
        affinity: QUEUE_AFFINITY_ANY,
        binding_capacity: 0,
    })?;
    commands.begin()?;
    for value in values {
        let Some(source) = buffer_of(value).filter(|buffer| !suffices(buffer, &wanted)) else { continue };
        let target = device.allocate_buffer(wanted, source.allocation_size())?;
        let whole = |buffer| BufferRef { binding: Binding::Direct(buffer), offset: 0, length: source.size() };
        commands.record(&Command::Copy { source: whole(source), target: whole(&target), flags: 0 })?;
        *value = over(value, target)?;
    }
    commands.end()?;
    let done = new_fence(device)?;
    let signals: Vec<_> = done.live_timepoints().collect();
    let bindings: &[BufferRef<Live<'_>>] = &[];
    let execute = QueueOp::Execute { command_buffer: &commands, bindings, flags: 0 };
    device.submit(QUEUE_AFFINITY_ANY, &[], &signals, execute)?;
    done.wait(None)
}

fn suffices(buffer: &Buffer, wanted: &BufferParams) -> bool {
    buffer.params().memory_type.contains(wanted.memory_type) && buffer.params().usage.contains(wanted.usage)
}

/// The buffer that a value is, or is a view of.
fn buffer_of(value: &Value) -> Option<&Buffer> {
    let Value::Ref(reference) = value else { return None };
    match reference.downcast_ref::<Handle<BufferView>>() {
        Some(view) => Some(view.0.buffer()),
        None => reference.downcast_ref::<Handle<Buffer>>().map(|buffer| &buffer.0),
    }
}

/// The same value over another buffer.
fn over(value: &Value, buffer: Buffer) -> Result<Value> {
    let view = match value {
        Value::Ref(reference) => reference.downcast_ref::<Handle<BufferView>>(),
        _ => None,
    };
    Ok(match view {
        Some(Handle(view)) => {
            let view = BufferView::new(buffer, view.shape(), view.element_type(), view.encoding())?;
            Handle::reference(view).into()
        }
        None => Handle::reference(buffer).into(),
    })
}
