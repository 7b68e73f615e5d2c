//! Command buffers: states, categories, execution modes.

use rehal_base::Result;
use rehal_hal::{BufferRef, CommandBuffer, CommandBufferMode, CommandCategories, QUEUE_AFFINITY_ANY};

use crate::check::{STATE, enforced, equal, holds, refused, same_bytes};
use crate::harness::Harness;
use crate::live::Command;
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("command_buffer/keeps_its_parameters", &[], keeps_its_parameters);
    list.add("command_buffer/empty", &[], empty);
    list.add("command_buffer/record_before_begin_is_refused", &[], record_before_begin);
    list.add("command_buffer/begin_twice_is_refused", &[], begin_twice);
    list.add("command_buffer/end_before_begin_is_refused", &[], end_before_begin);
    list.add("command_buffer/nothing_after_end", &[], nothing_after_end);
    list.add("command_buffer/execute_before_end_is_refused", &[], execute_before_end);
    list.add("command_buffer/categories_are_enforced", &[], categories_are_enforced);
    list.add("command_buffer/usage_is_enforced", &[], usage_is_enforced);
    list.add("command_buffer/unvalidated_leaves_usage_alone", &[], unvalidated_leaves_usage_alone);
    list.add("command_buffer/refused_commands_are_not_recorded", &[], refused_commands_are_not_recorded);
    list.add("command_buffer/nothing_runs_before_execute", &[], nothing_runs_before_execute);
    list.add("command_buffer/reusable", &[], reusable);
    list.add("command_buffer/reusable_with_overlapping_submissions", &[], overlapping_submissions);
    list.add("command_buffer/one_shot_inline", &[], one_shot_inline);
    list.add("command_buffer/unretained", &[], unretained);
    list.add("command_buffer/retains_what_it_names", &[], retains_what_it_names);
    list.add("command_buffer/many_commands", &[], many_commands);
    list.add("command_buffer/two_recorded_at_once", &[], two_recorded_at_once);
    list.add("command_buffer/dropped_while_recording", &[], dropped_while_recording);
}

const REUSABLE: CommandBufferMode = CommandBufferMode::empty();

fn all() -> CommandCategories {
    CommandCategories::TRANSFER | CommandCategories::DISPATCH
}

fn keeps_its_parameters(harness: &Harness<'_>) -> Result<()> {
    let mode = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
    let commands = harness.unbegun(mode, CommandCategories::TRANSFER, 0)?;
    let params = commands.params();
    equal("mode", params.mode, mode)?;
    equal("categories", params.categories, CommandCategories::TRANSFER)?;
    equal("binding capacity", params.binding_capacity, 0)?;
    equal("affinity", params.affinity, QUEUE_AFFINITY_ANY)?;
    equal("binding capacity", harness.unbegun(REUSABLE, all(), 7)?.params().binding_capacity, 7)
}

fn empty(harness: &Harness<'_>) -> Result<()> {
    for mode in [CommandBufferMode::ONE_SHOT, REUSABLE] {
        let commands = harness.begin(mode, 0)?;
        commands.end()?;
        harness.execute(&commands, &[])?;
    }
    Ok(())
}

fn record_before_begin(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let commands = harness.unbegun(REUSABLE, all(), 0)?;
    refused("a command", commands.fill(&buffer, &[1]), STATE)?;
    refused("a barrier", commands.barrier(), STATE)
}

fn begin_twice(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.begin(REUSABLE, 0)?;
    refused("a second begin", commands.begin(), STATE)?;
    commands.end()
}

fn end_before_begin(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.unbegun(REUSABLE, all(), 0)?;
    refused("an end", commands.end(), STATE)?;
    commands.begin()?;
    commands.end()
}

fn nothing_after_end(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let commands = harness.begin(REUSABLE, 0)?;
    commands.end()?;
    refused("a command", commands.fill(&buffer, &[1]), STATE)?;
    refused("a second end", commands.end(), STATE)?;
    refused("a second begin", commands.begin(), STATE)?;
    harness.execute(&commands, &[])?;
    same_bytes("nothing was recorded", &harness.read(&buffer)?, &[0; 4])
}

fn execute_before_end(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.unbegun(REUSABLE, all(), 0)?;
    refused("one that has not begun", harness.execute(&commands, &[]), STATE)?;
    commands.begin()?;
    refused("one that is still recording", harness.execute(&commands, &[]), STATE)?;
    commands.end()?;
    harness.execute(&commands, &[])
}

fn categories_are_enforced(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let other = harness.buffer(&[0; 4])?;
    let (target, source) = (BufferRef::whole(&buffer), BufferRef::whole(&other));
    let commands = harness.unbegun(REUSABLE, CommandCategories::DISPATCH, 0)?;
    commands.begin()?;
    let fill = Command::Fill { target, pattern: &[1], flags: 0 };
    refused("a fill among dispatches", commands.record(&fill), STATE)?;
    let update = Command::Update { source: &[1; 4], target, flags: 0 };
    refused("an update among dispatches", commands.record(&update), STATE)?;
    let copy = Command::Copy { source, target, flags: 0 };
    refused("a copy among dispatches", commands.record(&copy), STATE)?;
    commands.barrier()?;
    commands.end()?;
    harness.execute(&commands, &[])?;
    same_bytes("nothing was recorded", &harness.read(&buffer)?, &[0; 4])?;
    // Dispatches among transfers are covered by the tests of dispatches.
    let commands = harness.unbegun(REUSABLE, CommandCategories::TRANSFER, 0)?;
    commands.begin()?;
    commands.record(&fill)?;
    commands.barrier()?;
    commands.end()
}

fn usage_is_enforced(harness: &Harness<'_>) -> Result<()> {
    use rehal_hal::{BufferParams, BufferUsage};
    let params = BufferParams { usage: BufferUsage::TRANSFER_SOURCE, ..Harness::mappable() };
    let source_only = harness.device.allocate_buffer(params, 16)?;
    let commands = harness.begin(REUSABLE, 0)?;
    let usage = BufferUsage::TRANSFER_TARGET;
    enforced("a fill of a source", &source_only, usage, commands.fill(&source_only, &[1]))?;
    let update = Command::Update { source: &[0; 16], target: BufferRef::whole(&source_only), flags: 0 };
    enforced("an update of a source", &source_only, usage, commands.record(&update))?;
    commands.end()
}

fn unvalidated_leaves_usage_alone(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let commands = harness.begin(CommandBufferMode::UNVALIDATED, 0)?;
    commands.fill(&buffer, &[3])?;
    commands.end()?;
    harness.execute(&commands, &[])?;
    same_bytes("the buffer", &harness.read(&buffer)?, &[3; 4])
}

fn refused_commands_are_not_recorded(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 6])?;
    let commands = harness.begin(REUSABLE, 0)?;
    commands.fill(BufferRef::range(&buffer, 0, 2), &[1])?;
    holds("an invalid fill is rejected", commands.fill(&buffer, &[9, 9, 9]).is_err())?;
    commands.fill(BufferRef::range(&buffer, 4, 2), &[2])?;
    commands.end()?;
    harness.execute(&commands, &[])?;
    same_bytes("the valid commands", &harness.read(&buffer)?, &[1, 1, 0, 0, 2, 2])
}

fn nothing_runs_before_execute(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let commands = harness.begin(REUSABLE, 0)?;
    commands.fill(&buffer, &[1])?;
    commands.end()?;
    harness.settle()?;
    same_bytes("before", &harness.read(&buffer)?, &[0; 4])?;
    harness.execute(&commands, &[])?;
    same_bytes("after", &harness.read(&buffer)?, &[1; 4])
}

fn reusable(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let target = harness.buffer(&[0; 4])?;
    let commands = harness.begin(REUSABLE, 0)?;
    let (from, to) = (BufferRef::whole(&buffer), BufferRef::whole(&target));
    commands.copy(from, to)?;
    commands.end()?;
    for round in 0..20_u8 {
        buffer.write(0, &[round, 1, 2, round])?;
        harness.execute(&commands, &[])?;
        same_bytes("each execution", &harness.read(&target)?, &[round, 1, 2, round])?;
    }
    Ok(())
}

/// Submitted three times before the first has executed; each sees the result of the previous one.
fn overlapping_submissions(harness: &Harness<'_>) -> Result<()> {
    let history = harness.buffer(&[1, 2, 3, 4, 5, 6, 7, 8])?;
    let scratch = harness.buffer(&[0; 7])?;
    let commands = harness.begin(REUSABLE, 0)?;
    let shift = [(&history, 0, &scratch, 0), (&scratch, 0, &history, 1)];
    for (from, from_offset, to, to_offset) in shift {
        commands.copy(BufferRef::range(from, from_offset, 7), BufferRef::range(to, to_offset, 7))?;
        commands.barrier()?;
    }
    commands.end()?;
    let done = harness.semaphore()?;
    for value in [2, 0, 1] {
        let (waits, signals) = ([done.at(value + 1)], [done.at(value + 2)]);
        harness.queue().wait(&waits).signal(&signals).execute(&commands, &[], 0)?;
    }
    drop(commands);
    same_bytes("before", &harness.read(&history)?, &[1, 2, 3, 4, 5, 6, 7, 8])?;
    done.signal(1)?;
    harness.wait(&done, 4)?;
    same_bytes("shifted three times", &harness.read(&history)?, &[1, 1, 1, 1, 2, 3, 4, 5])
}

fn one_shot_inline(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let mode = CommandBufferMode::ONE_SHOT | CommandBufferMode::ALLOW_INLINE_EXECUTION;
    let commands = harness.begin(mode, 0)?;
    commands.fill(&buffer, &[4])?;
    commands.barrier()?;
    commands.fill(BufferRef::range(&buffer, 1, 1), &[5])?;
    commands.end()?;
    harness.execute(&commands, &[])?;
    same_bytes("the buffer", &harness.read(&buffer)?, &[4, 5, 4, 4])
}

fn unretained(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let commands = harness.begin(CommandBufferMode::UNRETAINED, 0)?;
    commands.fill(&buffer, &[4])?;
    commands.end()?;
    harness.execute(&commands, &[])?;
    same_bytes("the buffer", &harness.read(&buffer)?, &[4; 4])
}

fn retains_what_it_names(harness: &Harness<'_>) -> Result<()> {
    let target = harness.buffer(&[0; 4])?;
    let commands = harness.begin(REUSABLE, 0)?;
    {
        let source = harness.buffer(&[1, 2, 3, 4])?;
        let (from, to) = (BufferRef::whole(&source), BufferRef::whole(&target));
        commands.copy(from, to)?;
    }
    commands.end()?;
    let others: Vec<_> = (0..16).map(|_| harness.buffer(&[9; 4])).collect::<Result<_>>()?;
    harness.execute(&commands, &[])?;
    drop(others);
    same_bytes("from a buffer that only the commands hold", &harness.read(&target)?, &[1, 2, 3, 4])
}

fn many_commands(harness: &Harness<'_>) -> Result<()> {
    const COUNT: u32 = 5000;
    let buffer = harness.buffer(&vec![0; 4 * COUNT as usize])?;
    let commands = harness.begin(CommandBufferMode::ONE_SHOT, 0)?;
    let mut expected = Vec::new();
    for index in 0..COUNT {
        let pattern = (index * 7).to_le_bytes();
        let target = BufferRef::range(&buffer, 4 * u64::from(index), 4);
        commands.fill(target, &pattern)?;
        expected.extend(pattern);
    }
    commands.end()?;
    harness.execute(&commands, &[])?;
    same_bytes("the buffer", &harness.read(&buffer)?, &expected)
}

fn two_recorded_at_once(harness: &Harness<'_>) -> Result<()> {
    let buffers = [harness.buffer(&[0; 4])?, harness.buffer(&[0; 4])?];
    let both = [harness.begin(REUSABLE, 0)?, harness.begin(REUSABLE, 0)?];
    for pattern in [[1], [2]] {
        for (commands, buffer) in both.iter().zip(&buffers) {
            commands.fill(buffer, &pattern)?;
            commands.barrier()?;
        }
    }
    both[1].fill(&buffers[1], &[3])?;
    both.iter().try_for_each(CommandBuffer::end)?;
    for commands in &both {
        harness.execute(commands, &[])?;
    }
    same_bytes("the first", &harness.read(&buffers[0])?, &[2; 4])?;
    same_bytes("the second", &harness.read(&buffers[1])?, &[3; 4])
}

fn dropped_while_recording(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    for steps in 0..3 {
        let commands = harness.unbegun(CommandBufferMode::ONE_SHOT, all(), 0)?;
        if steps > 0 {
            commands.begin()?;
        }
        if steps > 1 {
            commands.fill(&buffer, &[1])?;
        }
    }
    harness.run(|queue| queue.barrier(0))?;
    same_bytes("nothing ran", &harness.read(&buffer)?, &[0; 4])
}
