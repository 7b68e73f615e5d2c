//! Binding tables and slots.

use rehal_base::{Result, StatusCode};
use rehal_hal::{BufferParams, BufferRef, BufferUsage, CommandBuffer, CommandBufferMode, WHOLE_BUFFER};

use crate::check::{ARGUMENT, RANGE, enforced, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::live::Command;
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("bindings/each_submission_has_its_own_table", &[], each_submission_has_its_own_table);
    list.add("bindings/ranges_add_up", &[], ranges_add_up);
    list.add("bindings/mixed_with_direct", &[], mixed_with_direct);
    list.add("bindings/one_buffer_in_two_slots", &[], one_buffer_in_two_slots);
    list.add("bindings/one_slot_in_many_commands", &[], one_slot_in_many_commands);
    list.add("bindings/unused_slots_and_longer_tables", &[], unused_slots_and_longer_tables);
    list.add("bindings/slot_beyond_capacity_is_refused", &[], slot_beyond_capacity_is_refused);
    list.add("bindings/short_table_is_refused", &[], short_table_is_refused);
    list.add("bindings/table_entry_outside_is_refused", &[], table_entry_outside_is_refused);
    list.add("bindings/range_beyond_the_entry_fails", &[], range_beyond_the_entry_fails);
    list.add("bindings/usage_of_the_entry_is_enforced", &[], usage_of_the_entry_is_enforced);
    list.add("bindings/empty_entry_that_is_used_fails", &[], empty_entry_that_is_used_fails);
    list.add("bindings/table_is_taken_at_submit", &[], table_is_taken_at_submit);
    list.add("bindings/queue_operations_have_no_slots", &[], queue_operations_have_no_slots);
}

/// A copy from slot 0 to slot 1 with these ranges.
fn copier(harness: &Harness<'_>, from: (u64, u64), to: (u64, u64)) -> Result<CommandBuffer> {
    let commands = harness.begin(CommandBufferMode::empty(), 2)?;
    let (source, target) = (BufferRef::slot(0, from.0, from.1), BufferRef::slot(1, to.0, to.1));
    commands.copy(source, target)?;
    commands.end()?;
    Ok(commands)
}

fn each_submission_has_its_own_table(harness: &Harness<'_>) -> Result<()> {
    let commands = copier(harness, (0, WHOLE_BUFFER), (0, WHOLE_BUFFER))?;
    let sources: Vec<_> = (0..5_u8).map(|value| harness.buffer(&[value; 8])).collect::<Result<_>>()?;
    let targets: Vec<_> = (0..5).map(|_| harness.buffer(&[0xee; 8])).collect::<Result<_>>()?;
    for (source, target) in sources.iter().zip(&targets) {
        harness.execute(&commands, &[source.into(), target.into()])?;
    }
    for (value, target) in (0_u8..).zip(&targets) {
        same_bytes("a target", &harness.read(target)?, &[value; 8])?;
    }
    harness.execute(&commands, &[BufferRef::from(&targets[4]), BufferRef::from(&sources[0])])?;
    same_bytes("the reverse", &harness.read(&sources[0])?, &[4; 8])
}

fn ranges_add_up(harness: &Harness<'_>) -> Result<()> {
    let bytes = noise(64, 3);
    let source = harness.buffer(&bytes)?;
    for (entry, range) in [(0, 3), (5, 0), (7, 11), (16, 4)] {
        let target = harness.buffer(&[0; 64])?;
        let commands = copier(harness, (range, 8), (2 * range, 8))?;
        let table = [BufferRef::range(&source, entry, 32), BufferRef::range(&target, entry + 1, 40)];
        harness.execute(&commands, &table)?;
        let (from, to) = ((entry + range) as usize, (entry + 1 + 2 * range) as usize);
        let mut expected = vec![0; 64];
        expected[to..to + 8].copy_from_slice(&bytes[from..from + 8]);
        same_bytes(&format!("slot range {range} of entry {entry}"), &harness.read(&target)?, &expected)?;
    }
    // To the end of the entry, not of the buffer.
    let target = harness.buffer(&[0; 64])?;
    let commands = copier(harness, (4, WHOLE_BUFFER), (0, WHOLE_BUFFER))?;
    harness.execute(&commands, &[BufferRef::range(&source, 10, 20), BufferRef::range(&target, 30, 16)])?;
    let mut expected = vec![0; 64];
    expected[30..46].copy_from_slice(&bytes[14..30]);
    same_bytes("to the end of the entry", &harness.read(&target)?, &expected)
}

fn mixed_with_direct(harness: &Harness<'_>) -> Result<()> {
    let fixed = harness.buffer(&[1, 2, 3, 4])?;
    let commands = harness.begin(CommandBufferMode::empty(), 1)?;
    let (source, target) = (BufferRef::range(&fixed, 0, 4), BufferRef::slot(0, 0, 4));
    commands.copy(source, target)?;
    commands.end()?;
    for _ in 0..2 {
        let target = harness.buffer(&[0; 4])?;
        harness.execute(&commands, &[BufferRef::from(&target)])?;
        same_bytes("the slot", &harness.read(&target)?, &[1, 2, 3, 4])?;
    }
    Ok(())
}

fn one_buffer_in_two_slots(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[1, 2, 3, 4, 0, 0, 0, 0])?;
    let commands = copier(harness, (0, 4), (0, 4))?;
    harness.execute(&commands, &[BufferRef::range(&buffer, 0, 4), BufferRef::range(&buffer, 4, 4)])?;
    same_bytes("the buffer", &harness.read(&buffer)?, &[1, 2, 3, 4, 1, 2, 3, 4])
}

fn one_slot_in_many_commands(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.begin(CommandBufferMode::empty(), 1)?;
    for index in 0..4_u8 {
        let target = BufferRef::slot(0, 2 * u64::from(index), 2);
        commands.fill(target, &[index + 1])?;
    }
    commands.end()?;
    let buffer = harness.buffer(&[0; 10])?;
    harness.execute(&commands, &[BufferRef::range(&buffer, 1, 8)])?;
    same_bytes("the buffer", &harness.read(&buffer)?, &[0, 1, 1, 2, 2, 3, 3, 4, 4, 0])
}

fn unused_slots_and_longer_tables(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.begin(CommandBufferMode::empty(), 3)?;
    commands.fill(BufferRef::slot(2, 0, 4), &[7])?;
    commands.end()?;
    let buffers: Vec<_> = (0..5).map(|_| harness.buffer(&[0; 4])).collect::<Result<_>>()?;
    let table: Vec<_> = buffers.iter().map(BufferRef::from).collect();
    harness.execute(&commands, &table)?;
    for (index, buffer) in buffers.iter().enumerate() {
        let expected = if index == 2 { [7; 4] } else { [0; 4] };
        same_bytes(&format!("the buffer in slot {index}"), &harness.read(buffer)?, &expected)?;
    }
    Ok(())
}

fn slot_beyond_capacity_is_refused(harness: &Harness<'_>) -> Result<()> {
    for (capacity, slot) in [(0, 0), (1, 1), (2, 7), (3, u32::MAX)] {
        let commands = harness.begin(CommandBufferMode::empty(), capacity)?;
        let fill = Command::Fill { target: BufferRef::slot(slot, 0, 4), pattern: &[1], flags: 0 };
        refused(&format!("slot {slot} of {capacity}"), commands.record(&fill), RANGE)?;
        commands.end()?;
    }
    Ok(())
}

fn short_table_is_refused(harness: &Harness<'_>) -> Result<()> {
    let commands = copier(harness, (0, 4), (0, 4))?;
    let buffer = harness.buffer(&[0; 8])?;
    refused("no table", harness.execute(&commands, &[]), ARGUMENT)?;
    refused("a short table", harness.execute(&commands, &[BufferRef::from(&buffer)]), ARGUMENT)
}

fn table_entry_outside_is_refused(harness: &Harness<'_>) -> Result<()> {
    let commands = copier(harness, (0, 4), (0, 4))?;
    let source = harness.buffer(&[1; 8])?;
    let target = harness.buffer(&[0; 8])?;
    for (offset, length) in [(0, 9), (9, 0), (4, 5), (u64::MAX, 1), (9, WHOLE_BUFFER)] {
        let table = [BufferRef::from(&source), BufferRef::range(&target, offset, length)];
        refused("an entry", harness.execute(&commands, &table), RANGE)?;
    }
    same_bytes("nothing changed", &harness.read(&target)?, &[0; 8])
}

fn range_beyond_the_entry_fails(harness: &Harness<'_>) -> Result<()> {
    let source = harness.buffer(&[1; 64])?;
    let target = harness.buffer(&[0; 64])?;
    // The buffers are large enough; the table entries are not.
    for (range, entry) in [((0, 9), 8), ((8, 1), 8), ((4, 8), 8), ((9, 0), 8), ((u64::MAX - 2, 4), 8)] {
        let commands = copier(harness, (0, range.1), range)?;
        let table = [BufferRef::from(&source), BufferRef::range(&target, 16, entry)];
        refused("a range beyond the entry", harness.execute(&commands, &table), RANGE)?;
    }
    same_bytes("nothing changed", &harness.read(&target)?, &[0; 64])
}

fn usage_of_the_entry_is_enforced(harness: &Harness<'_>) -> Result<()> {
    let commands = copier(harness, (0, 4), (0, 4))?;
    let source = harness.buffer(&[1; 4])?;
    let usage = BufferUsage::TRANSFER_SOURCE | BufferUsage::MAPPING_SCOPED;
    let params = BufferParams { usage, ..Harness::mappable() };
    let source_only = harness.device.allocate_buffer(params, 4)?;
    source_only.write(0, &[2; 4])?;
    let outcome = harness.execute(&commands, &[BufferRef::from(&source), BufferRef::from(&source_only)]);
    enforced("a target without TRANSFER_TARGET usage", &source_only, BufferUsage::TRANSFER_TARGET, outcome)?;
    let is_target = source_only.params().usage.contains(BufferUsage::TRANSFER_TARGET);
    same_bytes("the entry", &harness.read(&source_only)?, &[if is_target { 1 } else { 2 }; 4])
}

fn empty_entry_that_is_used_fails(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.begin(CommandBufferMode::empty(), 1)?;
    commands.fill(BufferRef::slot(0, 0, 4), &[7])?;
    commands.end()?;
    let codes = &[StatusCode::InvalidArgument, StatusCode::OutOfRange, StatusCode::FailedPrecondition];
    refused("an empty entry", harness.execute(&commands, &[BufferRef::slot(0, 0, 0)]), codes)
}

fn table_is_taken_at_submit(harness: &Harness<'_>) -> Result<()> {
    let commands = copier(harness, (0, 4), (0, 4))?;
    let target = harness.buffer(&[0; 4])?;
    let (gate, done) = harness.two_semaphores()?;
    {
        let source = harness.buffer(&[1, 2, 3, 4])?;
        let bindings = vec![BufferRef::whole(&source), BufferRef::whole(&target)];
        harness.queue().wait(&[gate.at(1)]).signal(&[done.at(1)]).execute(&commands, &bindings, 0)?;
    }
    drop(commands);
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    same_bytes("the table's buffers are retained", &harness.read(&target)?, &[1, 2, 3, 4])
}

fn queue_operations_have_no_slots(harness: &Harness<'_>) -> Result<()> {
    refused("a fill", harness.run(|queue| queue.fill(BufferRef::slot(0, 0, 4), &[1], 0)), ARGUMENT)?;
    let buffer = harness.buffer(&[0; 4])?;
    let source = BufferRef::slot(0, 0, 4);
    refused("a copy", harness.run(|queue| queue.copy(source, BufferRef::range(&buffer, 0, 4), 0)), ARGUMENT)
}
