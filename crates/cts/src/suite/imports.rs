//! Host memory imported as a buffer.

use std::sync::Arc;

use rehal_base::{HostMemory, Range, Result};
use rehal_hal::{BufferParams, MemoryAccess};

use crate::Capability;
use crate::check::{ARGUMENT, PERMISSION, RANGE, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::test::List;

pub(super) fn add(list: &mut List) {
    let needs = &[Capability::HostMemory];
    list.add("import/shares_bytes", needs, shares_bytes);
    list.add("import/is_a_source", needs, is_a_source);
    list.add("import/keeps_the_memory", needs, keeps_the_memory);
    list.add("import/constants_stay", needs, constants_stay);
    list.add("import/what_does_not_fit_is_refused", &[], what_does_not_fit_is_refused);
    list.add("import/wrong_alignment_is_refused", &[], wrong_alignment_is_refused);
}

/// From one cache line into 1000 bytes of memory: half of it.
const PART: Range = Range { offset: 64, length: 500 };

fn shares_bytes(harness: &Harness<'_>) -> Result<()> {
    let memory = Arc::new(HostMemory::allocate(1000)?);
    memory.write(0, &noise(1000, 1))?;
    let buffer = harness.device.import_buffer(Harness::mappable(), &memory, PART)?;
    same_bytes("imported", &harness.read(&buffer)?, &noise(1000, 1)[64..564])?;
    harness.run(|queue| queue.fill(&buffer, &[7], 0))?;
    let mut bytes = [0; 1000];
    memory.read(0, &mut bytes)?;
    same_bytes("written by the device", &bytes[64..564], &[7; 500])?;
    same_bytes("before the range", &bytes[..64], &noise(1000, 1)[..64])?;
    same_bytes("after the range", &bytes[564..], &noise(1000, 1)[564..])
}

fn is_a_source(harness: &Harness<'_>) -> Result<()> {
    let memory = Arc::new(HostMemory::constant(&noise(1000, 2))?);
    let params = BufferParams { access: MemoryAccess::READ, ..Harness::mappable() };
    let source = harness.device.import_buffer(params, &memory, PART)?;
    let target = harness.device.allocate_buffer(Harness::mappable(), PART.length)?;
    harness.run(|queue| queue.copy(&source, &target, 0))?;
    same_bytes("copied", &harness.read(&target)?, &noise(1000, 2)[64..564])
}

fn keeps_the_memory(harness: &Harness<'_>) -> Result<()> {
    let memory = Arc::new(HostMemory::allocate(1000)?);
    memory.write(0, &noise(1000, 3))?;
    let buffer = harness.device.import_buffer(Harness::mappable(), &memory, PART)?;
    drop(memory);
    same_bytes("after its owner was dropped", &harness.read(&buffer)?, &noise(1000, 3)[64..564])
}

fn constants_stay(harness: &Harness<'_>) -> Result<()> {
    let memory = Arc::new(HostMemory::constant(&[1; 1000])?);
    let write = BufferParams { access: MemoryAccess::READ | MemoryAccess::WRITE, ..Harness::mappable() };
    refused(
        "a writable import of constants",
        harness.device.import_buffer(write, &memory, PART),
        PERMISSION,
    )?;
    let read = BufferParams { access: MemoryAccess::READ, ..Harness::mappable() };
    let buffer = harness.device.import_buffer(read, &memory, PART)?;
    refused("a write to constants", buffer.write(0, &[2]), PERMISSION)?;
    // A device may reject work that writes them, or write to a copy of its own.
    let fill = harness.run(|queue| queue.fill(&buffer, &[2], 0));
    if fill.is_err() {
        refused("a fill of constants", fill, PERMISSION)?;
        same_bytes("constants", &harness.read(&buffer)?, &[1; 500])?;
    }
    same_bytes("the host's constants", &memory.bytes(memory.whole())?, &[1; 1000])
}

fn what_does_not_fit_is_refused(harness: &Harness<'_>) -> Result<()> {
    let memory = Arc::new(HostMemory::allocate(1000)?);
    for (offset, length) in [(0, 1001), (1000, 1), (1001, 0), (64, 937), (0, u64::MAX), (u64::MAX, 0)] {
        let range = Range { offset, length };
        refused("a range", harness.device.import_buffer(Harness::mappable(), &memory, range), RANGE)?;
    }
    Ok(())
}

fn wrong_alignment_is_refused(harness: &Harness<'_>) -> Result<()> {
    let memory = Arc::new(HostMemory::allocate(1000)?);
    for (min_alignment, offset) in [(3, 0), (16, 8), (64, 32)] {
        let params = BufferParams { min_alignment, ..Harness::mappable() };
        let range = Range { offset, length: 64 };
        refused("an alignment", harness.device.import_buffer(params, &memory, range), ARGUMENT)?;
    }
    Ok(())
}
