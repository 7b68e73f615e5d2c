use rehal_base::Result;
use rehal_hal::{
    Binding, Buffer, BufferParams, BufferRef, BufferUsage, Command, CommandBufferMode, CommandBufferParams,
    CommandCategories, Device, Live, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY, QueueOp, SemaphoreFlags,
    Timepoint,
};

/// Buffers with the same bytes that the host can map: those of `buffers` that it can map already, and copies of the
/// others, which one command buffer of `device` makes. Blocks the calling thread until they are made.
pub fn to_host(device: &Device, buffers: &[Buffer]) -> Result<Vec<Buffer>> {
    if buffers.iter().all(is_mappable) {
        return Ok(buffers.to_vec());
    }
    let params = BufferParams {
        usage: BufferUsage::TRANSFER_SOURCE
            | BufferUsage::TRANSFER_TARGET
            | BufferUsage::MAPPING_SCOPED
            | BufferUsage::MAPPING_ACCESS_RANDOM,
        access: MemoryAccess::READ | MemoryAccess::WRITE | MemoryAccess::DISCARD | MemoryAccess::ANY,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        affinity: QUEUE_AFFINITY_ANY,
        min_alignment: 0,
    };
    let commands = device.create_command_buffer(CommandBufferParams {
        mode: CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION,
        categories: CommandCategories::TRANSFER,
        affinity: QUEUE_AFFINITY_ANY,
        binding_capacity: 0,
    })?;
    commands.begin()?;
    let mut copies = Vec::with_capacity(buffers.len());
    for source in buffers {
        if is_mappable(source) {
            copies.push(source.clone());
            continue;
        }
        let target = device.allocate_buffer(params, source.size())?;
        let part = |buffer| BufferRef { binding: Binding::Direct(buffer), offset: 0, length: source.size() };
        commands.record(&Command::Copy { source: part(source), target: part(&target), flags: 0 })?;
        copies.push(target);
    }
    commands.end()?;
    let flags = SemaphoreFlags::HOST_INTERRUPT | SemaphoreFlags::EXPORTABLE_TIMEPOINTS;
    let semaphore = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, flags)?;
    let done = [Timepoint::<Live<'_>> { semaphore: &semaphore, value: 1 }];
    let execute = QueueOp::<Live<'_>>::Execute { command_buffer: &commands, bindings: &[], flags: 0 };
    device.submit(QUEUE_AFFINITY_ANY, &[], &done, execute)?;
    semaphore.wait(1, None)?;
    Ok(copies)
}

/// Whether the host can map it and read it.
fn is_mappable(buffer: &Buffer) -> bool {
    let params = buffer.params();
    params.memory_type.contains(MemoryType::HOST_VISIBLE)
        && params.usage.contains(BufferUsage::MAPPING_SCOPED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehal_local::LocalSync;

    #[test]
    fn what_the_host_cannot_map_is_copied() {
        let device = LocalSync::create(rehal_local::executable::Plugins::default());
        let params = |usage| BufferParams {
            usage,
            access: MemoryAccess::ANY,
            memory_type: MemoryType::DEVICE_LOCAL,
            affinity: QUEUE_AFFINITY_ANY,
            min_alignment: 0,
        };
        let transfer = BufferUsage::TRANSFER_SOURCE | BufferUsage::TRANSFER_TARGET;
        let hidden = device.allocate_buffer(params(transfer), 4).unwrap();
        let semaphore = device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap();
        let target = BufferRef { binding: Binding::Direct(&hidden), offset: 0, length: 4 };
        let fill = QueueOp::<Live<'_>>::Fill { target, pattern: &[7, 0, 9, 0], flags: 0 };
        let done = [Timepoint { semaphore: &semaphore, value: 1 }];
        device.submit(QUEUE_AFFINITY_ANY, &[], &done, fill).unwrap();
        semaphore.wait(1, None).unwrap();
        let copies = to_host(&device, &[hidden]).unwrap();
        let mut bytes = [0; 4];
        copies[0].read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7, 0, 9, 0]);
        assert!(to_host(&device, &copies).unwrap()[0].is_same(&copies[0]));
    }
}
