//! Host access to buffers.

use rehal_base::{Result, StatusCode};
use rehal_hal::{BufferParams, BufferUsage, MemoryAccess, MemoryType, WHOLE_BUFFER};

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
            same_bytes("a range read alone", &part, &written)?;
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
    let expected = [0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0];
    same_bytes("the buffer", &harness.read(&buffer)?, &expected)?;
    let rest = buffer.map(MemoryAccess::READ, 6, WHOLE_BUFFER)?;
    equal("to the end", rest.length(), 10)
}

fn looks_at_bytes_in_place(harness: &Harness<'_>) -> Result<()> {
    let bytes = noise(100, 8);
    let buffer = harness.buffer(&bytes)?;
    let mapping = buffer.map(MemoryAccess::READ, 10, 50)?;
    mapping.with_bytes(|found| same_bytes("in place", found, &bytes[10..60]))?
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
    refused("a look through a mapping for writing", writing.with_bytes(|_| ()), PERMISSION)?;
    same_bytes("nothing changed", &harness.read(&buffer)?, &[3; 16])
}

fn needs_the_usage(harness: &Harness<'_>) -> Result<()> {
    let params = BufferParams { usage: BufferParams::default().usage, ..Harness::mappable() };
    let buffer = harness.device.allocate_buffer(params, 16)?;
    if buffer.params().usage.contains(BufferUsage::MAPPING_SCOPED) {
        // The device grants it to every buffer: then it has to work.
        return buffer.map(MemoryAccess::READ, 0, 16).map(drop);
    }
    refused("a mapping of a buffer not for that", buffer.map(MemoryAccess::READ, 0, 16), PERMISSION)
}

fn needs_host_visible_memory(harness: &Harness<'_>) -> Result<()> {
    let params = BufferParams {
        memory_type: MemoryType::DEVICE_LOCAL,
        usage: BufferParams::default().usage | BufferUsage::MAPPING_SCOPED,
        ..BufferParams::default()
    };
    // A device may refuse to make such a buffer, or make it visible; else the mapping is refused.
    let Ok(buffer) = harness.device.allocate_buffer(params, 16) else {
        return Ok(());
    };
    let mapping = buffer.map(MemoryAccess::READ | MemoryAccess::WRITE, 0, 16);
    if buffer.params().memory_type.contains(MemoryType::HOST_VISIBLE) {
        return mapping?.write(0, &[1; 16]);
    }
    refused("memory that the host cannot see", mapping, &[StatusCode::FailedPrecondition])
}

fn sees_what_the_device_wrote(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 32])?;
    let mapping = buffer.map(MemoryAccess::READ, 8, 16)?;
    harness.run(|queue| queue.fill(&buffer, &[1, 2], 0))?;
    let mut found = [0; 4];
    mapping.read(0, &mut found)?;
    equal("through a mapping made before", found, [1, 2, 1, 2])?;
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
    same_bytes("both halves", &harness.read(&buffer)?, &[[1; 8], [2; 8]].concat())
}
