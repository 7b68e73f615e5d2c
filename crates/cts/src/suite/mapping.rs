//! Host access to buffers.

use rehal_base::{Result, StatusCode};
use rehal_hal::{BufferParams, BufferRef, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};

use crate::check::{PERMISSION, RANGE, equal, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("mapping/write_then_read_whole", &[], write_then_read_whole);
    list.add("mapping/every_subrange", &[], every_subrange);
    list.add("mapping/offsets_inside_of_a_mapping", &[], offsets_inside_of_a_mapping);
    list.add("mapping/looks_at_bytes_in_place", &[], looks_at_bytes_in_place);
    list.add("mapping/zero_length", &[], zero_length);
    list.add("mapping/large", &[], large);
    list.add("mapping/wrong_ranges_are_refused", &[], wrong_ranges_are_refused);
    list.add("mapping/wrong_ranges_inside_are_refused", &[], wrong_ranges_inside_are_refused);
    list.add("mapping/access_of_the_buffer_is_enforced", &[], access_of_the_buffer_is_enforced);
    list.add("mapping/access_of_the_mapping_is_enforced", &[], access_of_the_mapping_is_enforced);
    list.add("mapping/needs_the_usage", &[], needs_the_usage);
    list.add("mapping/needs_host_visible_memory", &[], needs_host_visible_memory);
    list.add("mapping/sees_what_the_device_wrote", &[], sees_what_the_device_wrote);
    list.add("mapping/device_sees_what_the_host_wrote", &[], device_sees_what_the_host_wrote);
    list.add("mapping/device_sees_what_was_flushed", &[], device_sees_what_was_flushed);
    list.add("mapping/parts_are_invalidated_and_flushed", &[], parts_are_invalidated_and_flushed);
    list.add("mapping/wrong_parts_are_refused", &[], wrong_parts_are_refused);
    list.add("mapping/outlives_its_buffer", &[], outlives_its_buffer);
    list.add("mapping/goes_to_another_thread", &[], goes_to_another_thread);
    list.add("mapping/two_mappings_at_once", &[], two_mappings_at_once);
}

fn write_then_read_whole(harness: &Harness<'_>) -> Result<()> {
    let bytes = noise(777, 3);
    let buffer = harness.buffer(&[0; 777])?;
    buffer.map(MemoryAccess::WRITE, 0, WHOLE_BUFFER)?.write(0, &bytes)?;
    let mapping = buffer.map(MemoryAccess::READ, 0, WHOLE_BUFFER)?;
    equal("mapped length", mapping.length(), 777)?;
    let mut found = vec![0; 777];
    mapping.read(0, &mut found)?;
    same_bytes("read back", &found, &bytes)
}

fn every_subrange(harness: &Harness<'_>) -> Result<()> {
    let initial = noise(24, 1);
    for offset in 0..=24_usize {
        for length in 0..=24 - offset {
            let buffer = harness.buffer(&initial)?;
            let written = noise(length, 2);
            buffer.write(offset as u64, &written)?;
            let mut expected = initial.clone();
            expected[offset..offset + length].copy_from_slice(&written);
            same_bytes("after a write", &harness.read(&buffer)?, &expected)?;
            let mut part = vec![0; length];
            buffer.read(offset as u64, &mut part)?;
            same_bytes("a separate read of the range", &part, &written)?;
        }
    }
    Ok(())
}

fn offsets_inside_of_a_mapping(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 16])?;
    let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 4, 8)?;
    equal("mapped length", mapping.length(), 8)?;
    mapping.write(2, &[1, 2, 3])?;
    let mut found = [0; 4];
    mapping.read(1, &mut found)?;
    equal("read in the mapping", found, [0, 1, 2, 3])?;
    mapping.flush(0, 8)?;
    let expected = [0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0];
    same_bytes("the buffer", &harness.read(&buffer)?, &expected)?;
    let rest = buffer.map(MemoryAccess::READ, 6, WHOLE_BUFFER)?;
    equal("to the end", rest.length(), 10)
}

fn looks_at_bytes_in_place(harness: &Harness<'_>) -> Result<()> {
    let bytes = noise(100, 8);
    let buffer = harness.buffer(&bytes)?;
    let mapping = buffer.map(MemoryAccess::READ, 10, 50)?;
    let memory = mapping.source()?;
    equal("mapped memory", memory.length(), 50)?;
    same_bytes("in place", &memory.bytes(memory.whole())?, &bytes[10..60])
}

fn zero_length(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[9; 8])?;
    for offset in [0, 3, 8] {
        let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, offset, 0)?;
        equal("mapped length", mapping.length(), 0)?;
        mapping.write(0, &[])?;
        refused("a byte in no bytes", mapping.write(0, &[1]), RANGE)?;
    }
    equal("mapped length", buffer.map(MemoryAccess::READ, 8, WHOLE_BUFFER)?.length(), 0)?;
    same_bytes("nothing changed", &harness.read(&buffer)?, &[9; 8])
}

fn large(harness: &Harness<'_>) -> Result<()> {
    let bytes = noise((8 << 20) + 13, 5);
    let buffer = harness.buffer(&bytes)?;
    same_bytes("read back", &harness.read(&buffer)?, &bytes)
}

fn wrong_ranges_are_refused(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 16])?;
    let ranges =
        [(0, 17), (16, 1), (17, 0), (1, 16), (8, u64::MAX - 1), (u64::MAX - 1, 2), (17, WHOLE_BUFFER)];
    for (offset, length) in ranges {
        refused("a mapping", buffer.map(MemoryAccess::READ, offset, length), RANGE)?;
    }
    refused("a read", buffer.read(15, &mut [0; 2]), RANGE)?;
    refused("a write", buffer.write(u64::MAX, &[0]), RANGE)?;
    same_bytes("nothing changed", &harness.read(&buffer)?, &[0; 16])
}

fn wrong_ranges_inside_are_refused(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 16])?;
    let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 4, 8)?;
    for (offset, length) in [(0, 9), (8, 1), (9, 0), (u64::MAX, 1), (u64::MAX - 3, 8)] {
        refused("a write", mapping.write(offset, &vec![1; length]), RANGE)?;
        refused("a read", mapping.read(offset, &mut vec![0; length]), RANGE)?;
    }
    same_bytes("nothing changed", &harness.read(&buffer)?, &[0; 16])
}

fn access_of_the_buffer_is_enforced(harness: &Harness<'_>) -> Result<()> {
    let with = |access| {
        let params = BufferParams { access, ..Harness::mappable() };
        harness.device.allocate_buffer(params, 16)
    };
    let read_only = with(MemoryAccess::READ)?;
    read_only.map(MemoryAccess::READ, 0, 16)?;
    refused("a write to read-only memory", read_only.map(MemoryAccess::WRITE, 0, 16), PERMISSION)?;
    let both = MemoryAccess::READ | MemoryAccess::WRITE;
    refused("both of read-only memory", read_only.map(both, 0, 16), PERMISSION)?;
    let write_only = with(MemoryAccess::WRITE)?;
    write_only.map(MemoryAccess::WRITE, 0, 16)?.write(0, &[1; 16])?;
    refused("a read of write-only memory", write_only.map(MemoryAccess::READ, 0, 16), PERMISSION)
}

fn access_of_the_mapping_is_enforced(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[3; 16])?;
    let reading = buffer.map(MemoryAccess::READ, 0, 16)?;
    refused("a write through a mapping for reading", reading.write(0, &[1]), PERMISSION)?;
    let writing = buffer.map(MemoryAccess::WRITE, 0, 16)?;
    refused("a read through a mapping for writing", writing.read(0, &mut [0]), PERMISSION)?;
    refused("direct access through a mapping for writing", writing.source(), PERMISSION)?;
    refused("writable access through a mapping for reading", reading.target(), PERMISSION)?;
    same_bytes("nothing changed", &harness.read(&buffer)?, &[3; 16])
}

fn needs_the_usage(harness: &Harness<'_>) -> Result<()> {
    let params = BufferParams { usage: BufferParams::default().usage, ..Harness::mappable() };
    let buffer = harness.device.allocate_buffer(params, 16)?;
    if buffer.params().usage.contains(BufferUsage::MAPPING_SCOPED) {
        // If the device grants it to every buffer, it must work.
        return buffer.map(MemoryAccess::READ, 0, 16).map(drop);
    }
    refused("a mapping of a buffer without the usage", buffer.map(MemoryAccess::READ, 0, 16), PERMISSION)
}

fn needs_host_visible_memory(harness: &Harness<'_>) -> Result<()> {
    let params = BufferParams {
        memory_type: MemoryType::DEVICE_LOCAL,
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        ..BufferParams::default()
    };
    // A device may reject such a buffer, or make it host-visible; else mapping must fail.
    let Ok(buffer) = harness.device.allocate_buffer(params, 16) else {
        return Ok(());
    };
    let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 0, 16);
    if buffer.params().memory_type.contains(MemoryType::HOST_VISIBLE) {
        return mapping?.write(0, &[1; 16]);
    }
    refused("memory that is not host-visible", mapping, &[StatusCode::FailedPrecondition])
}

fn sees_what_the_device_wrote(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 32])?;
    let mapping = buffer.map(MemoryAccess::READ, 8, 16)?;
    harness.run(|queue| queue.fill(&buffer, &[1, 2], 0))?;
    mapping.invalidate(0, 4)?;
    let mut found = [0; 4];
    mapping.read(0, &mut found)?;
    equal("through an existing mapping", found, [1, 2, 1, 2])?;
    same_bytes("through a new mapping", &harness.read(&buffer)?, &[1, 2].repeat(16))
}

fn device_sees_what_the_host_wrote(harness: &Harness<'_>) -> Result<()> {
    let bytes = noise(64, 4);
    let source = harness.buffer(&[0; 64])?;
    let target = harness.buffer(&[0; 64])?;
    for round in 0..3_u8 {
        source.write(0, &bytes)?;
        source.write(7, &[round])?;
        harness.run(|queue| queue.copy(&source, &target, 0))?;
        let mut expected = bytes.clone();
        expected[7] = round;
        same_bytes("the copy", &harness.read(&target)?, &expected)?;
    }
    Ok(())
}

fn two_mappings_at_once(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 16])?;
    let low = buffer.map(MemoryAccess::WRITE, 0, 8)?;
    let high = buffer.map(MemoryAccess::WRITE, 8, 8)?;
    high.write(0, &[2; 8])?;
    low.write(0, &[1; 8])?;
    high.unmap()?;
    low.unmap()?;
    same_bytes("both halves", &harness.read(&buffer)?, &[[1; 8], [2; 8]].concat())
}

fn device_sees_what_was_flushed(harness: &Harness<'_>) -> Result<()> {
    let source = harness.buffer(&[1; 32])?;
    let target = harness.buffer(&[0; 32])?;
    let mapping = source.map(MemoryAccess::READ | MemoryAccess::WRITE, 8, 16)?;
    mapping.write(0, &[2; 16])?;
    mapping.flush(0, 16)?;
    harness.run(|queue| queue.copy(&source, &target, 0))?;
    let expected = [[1; 8].as_slice(), &[2; 16], &[1; 8]].concat();
    same_bytes("while it is mapped", &harness.read(&target)?, &expected)?;
    mapping.unmap()?;
    same_bytes("the source", &harness.read(&source)?, &expected)
}

fn parts_are_invalidated_and_flushed(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 32])?;
    let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 16, 16)?;
    mapping.write(4, &[1; 4])?;
    mapping.flush(4, 4)?;
    let part = |offset| BufferRef::range(&buffer, offset, 8);
    harness.run(|queue| queue.copy(part(16), part(24), 0))?;
    mapping.invalidate(8, 8)?;
    let mut found = [9; 16];
    mapping.read(0, &mut found)?;
    equal("the mapping", found, [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1])?;
    mapping.invalidate(0, 0)?;
    mapping.flush(16, 0)
}

fn wrong_parts_are_refused(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 32])?;
    let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 16, 16)?;
    for (offset, length) in [(0, 17), (16, 1), (17, 0), (u64::MAX, 1), (u64::MAX - 3, 8)] {
        refused("a flush", mapping.flush(offset, length), RANGE)?;
        refused("an invalidation", mapping.invalidate(offset, length), RANGE)?;
    }
    let reading = buffer.map(MemoryAccess::READ, 0, 8)?;
    refused("a flush of a mapping for reading", reading.flush(0, 8), PERMISSION)?;
    let writing = buffer.map(MemoryAccess::WRITE, 0, 8)?;
    refused("an invalidation of a mapping for writing", writing.invalidate(0, 8), PERMISSION)
}

fn outlives_its_buffer(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[5; 16])?;
    let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 4, 8)?;
    drop(buffer);
    mapping.write(0, &[6])?;
    let mut found = [0; 2];
    mapping.read(0, &mut found)?;
    equal("the mapping", found, [6, 5])?;
    mapping.unmap()
}

fn goes_to_another_thread(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[5; 16])?;
    let mapping = buffer.map(MemoryAccess::WRITE, 4, 8)?;
    let written = std::thread::spawn(move || {
        mapping.write(0, &[6; 8])?;
        mapping.unmap()
    });
    match written.join() {
        Ok(outcome) => outcome?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    same_bytes("the buffer", &harness.read(&buffer)?, &[[5; 4].as_slice(), &[6; 8], &[5; 4]].concat())
}
