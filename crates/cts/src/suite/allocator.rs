//! Buffers allocated by the host.

use rehal_base::{Result, StatusCode};
use rehal_hal::{BufferParams, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};

use crate::check::{ARGUMENT, enforced, equal, holds, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("allocator/sizes", &[], gives_the_size_that_was_asked);
    list.add("allocator/grants_what_was_asked", &[], grants_what_was_asked);
    list.add("allocator/no_access_named_means_all", &[], no_access_named_means_all);
    list.add("allocator/empty_buffer", &[], empty_buffers_work);
    list.add("allocator/too_much_memory_is_refused", &[], too_much_memory_is_refused);
    list.add("allocator/alignment", &[], aligns_as_asked);
    list.add("allocator/wrong_alignment_is_refused", &[], wrong_alignment_is_refused);
    list.add("allocator/device_local_through_staging", &[], device_local_through_staging);
    list.add("allocator/usage_is_enforced", &[], usage_is_enforced);
    list.add("allocator/many_live_buffers_do_not_overlap", &[], many_buffers_do_not_overlap);
}

fn gives_the_size_that_was_asked(harness: &Harness<'_>) -> Result<()> {
    for size in [1, 3, 4, 63, 64, 65, 4096, 1_000_003, 16 << 20] {
        let buffer = harness.device.allocate_buffer(Harness::mappable(), size)?;
        equal("size", buffer.size(), size)?;
        buffer.write(size - 1, &[0x5a])?;
        let mut last = [0];
        buffer.read(size - 1, &mut last)?;
        equal("the last byte", last, [0x5a])?;
    }
    Ok(())
}

fn grants_what_was_asked(harness: &Harness<'_>) -> Result<()> {
    for params in [BufferParams::default(), Harness::mappable()] {
        let granted = *harness.device.allocate_buffer(params, 64)?.params();
        holds("the usage is granted", granted.usage.contains(params.usage))?;
        // `HOST_LOCAL` includes coherence, which a device need not have: the mapping tests flush and
        // invalidate.
        let wanted = params.memory_type - MemoryType::HOST_COHERENT;
        holds("the memory type is granted", granted.memory_type.contains(wanted))?;
        holds("the access is granted", granted.access.contains(params.access))?;
    }
    Ok(())
}

fn no_access_named_means_all(harness: &Harness<'_>) -> Result<()> {
    let params = BufferParams { access: MemoryAccess::empty(), ..Harness::mappable() };
    let buffer = harness.device.allocate_buffer(params, 16)?;
    harness.run(|queue| queue.fill(&buffer, &[7], 0))?;
    buffer.write(0, &[1, 2])?;
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes)?;
    equal("bytes", bytes, [1, 2, 7, 7])
}

fn empty_buffers_work(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.device.allocate_buffer(Harness::mappable(), 0)?;
    equal("size", buffer.size(), 0)?;
    equal("bytes", harness.read(&buffer)?.len(), 0)?;
    harness.run(|queue| queue.fill(&buffer, &[7, 7, 7, 7], 0))?;
    harness.run(|queue| queue.update(&[], &buffer, 0))?;
    refused("a write to an empty buffer", buffer.write(0, &[1]), &[StatusCode::OutOfRange])
}

fn too_much_memory_is_refused(harness: &Harness<'_>) -> Result<()> {
    let codes = &[StatusCode::ResourceExhausted, StatusCode::OutOfRange, StatusCode::InvalidArgument];
    for size in [u64::MAX, u64::MAX - 63, u64::MAX / 2, 1 << 60] {
        let result = harness.device.allocate_buffer(BufferParams::default(), size);
        refused("a buffer larger than any memory", result, codes)?;
    }
    Ok(())
}

fn aligns_as_asked(harness: &Harness<'_>) -> Result<()> {
    for min_alignment in [0, 1, 16, 64, 256, 4096] {
        let params = BufferParams { min_alignment, ..Harness::mappable() };
        let buffer = harness.device.allocate_buffer(params, 100)?;
        // Only host-visible memory has a known address.
        if buffer.is_mappable() {
            let mapping = buffer.map(MemoryAccess::READ, 0, WHOLE_BUFFER)?;
            let address = mapping.source()?.as_ptr() as u64;
            equal("address modulo alignment", address % min_alignment.max(1), 0)?;
        }
    }
    Ok(())
}

fn wrong_alignment_is_refused(harness: &Harness<'_>) -> Result<()> {
    for min_alignment in [3, 65, u64::MAX] {
        let params = BufferParams { min_alignment, ..Harness::mappable() };
        refused("an alignment", harness.device.allocate_buffer(params, 16), ARGUMENT)?;
    }
    Ok(())
}

fn device_local_through_staging(harness: &Harness<'_>) -> Result<()> {
    let bytes = noise(1000, 1);
    let device_local = harness.device.allocate_buffer(BufferParams::default(), 1000)?;
    harness.run(|queue| queue.update(&bytes, &device_local, 0))?;
    same_bytes("copied back", &harness.read(&device_local)?, &bytes)
}

fn usage_is_enforced(harness: &Harness<'_>) -> Result<()> {
    let with = |usage| {
        let params = BufferParams { usage, ..Harness::mappable() };
        harness.device.allocate_buffer(params, 16)
    };
    let source_only = with(BufferUsage::TRANSFER_SOURCE | BufferUsage::MAPPING_SCOPED)?;
    let target_only = with(BufferUsage::TRANSFER_TARGET | BufferUsage::MAPPING_SCOPED)?;
    let (source, target) = (BufferUsage::TRANSFER_SOURCE, BufferUsage::TRANSFER_TARGET);
    enforced(
        "a fill without TRANSFER_TARGET usage",
        &source_only,
        target,
        harness.run(|queue| queue.fill(&source_only, &[1], 0)),
    )?;
    enforced(
        "an update without TRANSFER_TARGET usage",
        &source_only,
        target,
        harness.run(|queue| queue.update(&[0; 16], &source_only, 0)),
    )?;
    harness.run(|queue| queue.copy(&source_only, &target_only, 0))?;
    let scratch = harness.buffer(&[0; 16])?;
    enforced(
        "a copy without TRANSFER_TARGET usage",
        &source_only,
        target,
        harness.run(|queue| queue.copy(&scratch, &source_only, 0)),
    )?;
    enforced(
        "a copy without TRANSFER_SOURCE usage",
        &target_only,
        source,
        harness.run(|queue| queue.copy(&target_only, &scratch, 0)),
    )
}

fn many_buffers_do_not_overlap(harness: &Harness<'_>) -> Result<()> {
    let contents: Vec<_> = (0..200_u32).map(|index| noise(1 + 37 * index as usize, index)).collect();
    let buffers: Vec<_> = contents.iter().map(|bytes| harness.buffer(bytes)).collect::<Result<_>>()?;
    for (buffer, bytes) in buffers.iter().zip(&contents) {
        same_bytes("a buffer among many", &harness.read(buffer)?, bytes)?;
    }
    holds("two buffers are distinct", !buffers[0].is_same(&buffers[1]))
}
