use rehal_base::Result;
use rehal_hal::{
    Binding, Buffer, BufferParams, BufferRef, BufferUsage, Command, CommandBufferMode, CommandBufferParams,
    CommandCategories, Device, Fence, MemoryAccess, MemoryType, QUEUE_AFFINITY_ANY,
};

/// What the host requires of a buffer to read it.
pub const READABLE: BufferParams = BufferParams {
    usage: BufferUsage::TRANSFER_SOURCE
        .union(BufferUsage::TRANSFER_TARGET)
        .union(BufferUsage::MAPPING_SCOPED),
    access: MemoryAccess::READ.union(MemoryAccess::WRITE).union(MemoryAccess::DISCARD),
    memory_type: MemoryType::HOST_LOCAL.union(MemoryType::DEVICE_VISIBLE),
    affinity: QUEUE_AFFINITY_ANY,
    min_alignment: 0,
};

/// Buffers with the same bytes and with the memory type and usage of `wanted`: those of `buffers` that
/// already have them, and copies of the others, made by one command buffer on `device`. Blocks the calling
/// thread until the copies are complete.
pub fn to_host(device: &Device, buffers: &[Buffer], wanted: &BufferParams) -> Result<Vec<Buffer>> {
    if buffers.iter().all(|buffer| suffices(buffer, wanted)) {
        return Ok(buffers.to_vec());
    }
    let commands = device.create_command_buffer(CommandBufferParams {
        mode: CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION,
        categories: CommandCategories::TRANSFER,
        affinity: QUEUE_AFFINITY_ANY,
        binding_capacity: 0,
    })?;
    commands.begin()?;
    let mut copies = Vec::with_capacity(buffers.len());
    for source in buffers {
        if suffices(source, wanted) {
            copies.push(source.clone());
            continue;
        }
        let target = device.allocate_buffer(*wanted, source.allocation_size())?;
        let part = |buffer| BufferRef { binding: Binding::Direct(buffer), offset: 0, length: source.size() };
        commands.record(&Command::Copy { source: part(source), target: part(&target), flags: 0 })?;
        copies.push(target);
    }
    commands.end()?;
    let done = Fence::create(device)?;
    let signals: Vec<_> = done.live_timepoints().collect();
    device.queue(QUEUE_AFFINITY_ANY).signal(&signals).execute(&commands, &[], 0)?;
    done.wait(None)?;
    Ok(copies)
}

fn suffices(buffer: &Buffer, wanted: &BufferParams) -> bool {
    buffer.params().memory_type.contains(wanted.memory_type) && buffer.params().usage.contains(wanted.usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehal_hal::SemaphoreFlags;
    use rehal_local::LocalSync;

    #[test]
    fn unmappable_buffers_are_copied() {
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
        let done = [semaphore.at(1)];
        device.queue(QUEUE_AFFINITY_ANY).signal(&done).fill(target, &[7, 0, 9, 0], 0).unwrap();
        semaphore.wait(1, None).unwrap();
        let copies = to_host(&device, &[hidden], &READABLE).unwrap();
        let mut bytes = [0; 4];
        copies[0].read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7, 0, 9, 0]);
        assert!(to_host(&device, &copies, &READABLE).unwrap()[0].is_same(&copies[0]));
    }
}
