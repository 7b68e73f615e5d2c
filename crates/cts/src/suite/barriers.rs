//! Synchronization and annotation of commands: barriers, events, advice, debug groups.

use rehal_base::{Result, StatusCode};
use rehal_hal::{
    AccessScope, Buffer, BufferBarrier, BufferRef, CommandBuffer, CommandBufferMode, CommandCategories,
    Event, ExecutionStage, MemoryBarrier, QUEUE_AFFINITY_ANY,
};

use crate::Capability;
use crate::check::{RANGE, holds, refused, same_bytes};
use crate::harness::Harness;
use crate::live::Command;
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("barrier/execution_only", &[], execution_only);
    list.add("barrier/memory_and_buffer_barriers", &[], memory_and_buffer_barriers);
    list.add("barrier/buffer_barrier_of_a_slot", &[], buffer_barrier_of_a_slot);
    list.add("barrier/wrong_ranges_are_refused", &[], wrong_ranges_are_refused);
    list.add("barrier/alone", &[], alone);
    list.add("advise/changes_nothing", &[], advice_changes_nothing);
    list.add("debug_group/nested", &[], nested_debug_groups);
    let events = &[Capability::Events];
    list.add("event/create", events, |it| create(it).map(drop));
    list.add("event/signal_and_reset", events, signal_and_reset);
    list.add("event/for_dispatches", events, events_are_for_dispatches);
    list.add("event/wait_inside_of_one_command_buffer", events, wait_inside);
    list.add("event/across_command_buffers", events, across_command_buffers);
    list.add("event/several_at_once_with_barriers", events, several_at_once);
    list.add("event/reusable_command_buffer", events, reusable_command_buffer);
    list.add("event/kept_alive_by_commands", events, kept_alive_by_commands);
}

const RETIRE: ExecutionStage = ExecutionStage::COMMAND_RETIRE;
const ISSUE: ExecutionStage = ExecutionStage::COMMAND_ISSUE;
const WRITE_TO_READ: MemoryBarrier =
    MemoryBarrier { source_scope: AccessScope::TRANSFER_WRITE, target_scope: AccessScope::TRANSFER_READ };

/// Fills the left half, runs `between`, copies the left half to the right one.
fn fill_then_copy(
    harness: &Harness<'_>,
    between: impl FnOnce(&CommandBuffer, &Buffer) -> Result<()>,
) -> Result<()> {
    let buffer = harness.buffer(&[0; 8])?;
    let commands = harness.begin(CommandBufferMode::ONE_SHOT, 0)?;
    let (left, right) = (BufferRef::range(&buffer, 0, 4), BufferRef::range(&buffer, 4, 4));
    commands.fill(left, &[1, 2])?;
    between(&commands, &buffer)?;
    commands.copy(left, right)?;
    commands.end()?;
    harness.execute(&commands, &[])?;
    same_bytes("both halves", &harness.read(&buffer)?, &[1, 2].repeat(4))
}

fn execution_only(harness: &Harness<'_>) -> Result<()> {
    fill_then_copy(harness, |commands, _| {
        commands.record(&Command::ExecutionBarrier {
            source_stages: ExecutionStage::TRANSFER,
            target_stages: ExecutionStage::TRANSFER,
            flags: 0,
            memory_barriers: &[],
            buffer_barriers: &[],
        })
    })
}

fn memory_and_buffer_barriers(harness: &Harness<'_>) -> Result<()> {
    fill_then_copy(harness, |commands, buffer| {
        let left = BufferBarrier { barrier: WRITE_TO_READ, buffer: BufferRef::range(buffer, 0, 4) };
        let whole = BufferBarrier { barrier: WRITE_TO_READ, buffer: BufferRef::whole(buffer) };
        commands.record(&Command::ExecutionBarrier {
            source_stages: ExecutionStage::TRANSFER | RETIRE,
            target_stages: ExecutionStage::TRANSFER | ISSUE,
            flags: 0,
            memory_barriers: &[WRITE_TO_READ, WRITE_TO_READ],
            buffer_barriers: &[left, whole],
        })
    })
}

fn buffer_barrier_of_a_slot(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 8])?;
    let commands = harness.begin(CommandBufferMode::empty(), 1)?;
    commands.fill(BufferRef::slot(0, 0, 4), &[3])?;
    let barrier = BufferBarrier { barrier: WRITE_TO_READ, buffer: BufferRef::slot(0, 0, 4) };
    commands.record(&Command::ExecutionBarrier {
        source_stages: ExecutionStage::TRANSFER,
        target_stages: ExecutionStage::TRANSFER,
        flags: 0,
        memory_barriers: &[],
        buffer_barriers: &[barrier],
    })?;
    let (source, target) = (BufferRef::slot(0, 0, 4), BufferRef::slot(0, 4, 4));
    commands.copy(source, target)?;
    commands.end()?;
    harness.execute(&commands, &[BufferRef::from(&buffer)])?;
    same_bytes("both halves", &harness.read(&buffer)?, &[3; 8])
}

fn wrong_ranges_are_refused(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 8])?;
    let commands = harness.begin(CommandBufferMode::empty(), 1)?;
    let barriers = [BufferRef::range(&buffer, 4, 8), BufferRef::slot(1, 0, 4)]
        .map(|buffer| BufferBarrier { barrier: WRITE_TO_READ, buffer });
    for wrong in 0..2 {
        let outcome = commands.record(&Command::ExecutionBarrier {
            source_stages: ExecutionStage::TRANSFER,
            target_stages: ExecutionStage::TRANSFER,
            flags: 0,
            memory_barriers: &[],
            buffer_barriers: &barriers[wrong..=wrong],
        });
        refused("a barrier", outcome, RANGE)?;
    }
    commands.end()
}

fn alone(harness: &Harness<'_>) -> Result<()> {
    for categories in [CommandCategories::TRANSFER, CommandCategories::DISPATCH] {
        let commands = harness.unbegun(CommandBufferMode::empty(), categories, 0)?;
        commands.begin()?;
        for _ in 0..3 {
            commands.barrier()?;
        }
        commands.end()?;
        harness.execute(&commands, &[])?;
    }
    Ok(())
}

fn advice_changes_nothing(harness: &Harness<'_>) -> Result<()> {
    fill_then_copy(harness, |commands, buffer| {
        for (flags, arguments) in [(0, [0, 0]), (1, [u64::MAX, 7])] {
            let buffer = BufferRef::whole(buffer);
            commands.record(&Command::Advise { buffer, flags, arguments })?;
        }
        commands.barrier()
    })
}

fn nested_debug_groups(harness: &Harness<'_>) -> Result<()> {
    fill_then_copy(harness, |commands, _| {
        let labels: [&[u8]; 3] = [b"outer", b"", "\u{e9}t\u{e9} \u{1f980}".as_bytes()];
        for label in labels {
            commands.record(&Command::BeginDebugGroup { label, color: 0xff00_80ff })?;
        }
        commands.barrier()?;
        labels.iter().try_for_each(|_| commands.record(&Command::EndDebugGroup))
    })
}

fn create(harness: &Harness<'_>) -> Result<Event> {
    let event = harness.device.create_event(QUEUE_AFFINITY_ANY, 0)?;
    holds("an event equals its clone", event.is_same(&event.clone()))?;
    let other = harness.device.create_event(QUEUE_AFFINITY_ANY, 0)?;
    holds("two events are distinct", !event.is_same(&other))?;
    Ok(event)
}

fn record_wait(commands: &CommandBuffer, events: &[&Event]) -> Result<()> {
    // Events are borrowed for as long as the list that contains them.
    let events: Vec<&Event> = events.to_vec();
    commands.record(&Command::WaitEvents {
        events: &events,
        source_stages: RETIRE,
        target_stages: ISSUE,
        memory_barriers: &[],
        buffer_barriers: &[],
    })
}

fn signal_and_reset(harness: &Harness<'_>) -> Result<()> {
    let event = create(harness)?;
    let both = CommandCategories::TRANSFER | CommandCategories::DISPATCH;
    for categories in [both, CommandCategories::DISPATCH] {
        let commands = harness.unbegun(CommandBufferMode::ONE_SHOT, categories, 0)?;
        commands.begin()?;
        let source_stages = ExecutionStage::COMMAND_PROCESS;
        commands.record(&Command::SignalEvent { event: &event, source_stages })?;
        commands.record(&Command::ResetEvent { event: &event, source_stages: RETIRE })?;
        commands.end()?;
        harness.execute(&commands, &[])?;
    }
    Ok(())
}

/// Source: `iree_hal_command_buffer_signal_event_validation` and its neighbours.
fn events_are_for_dispatches(harness: &Harness<'_>) -> Result<()> {
    let event = create(harness)?;
    let commands = harness.unbegun(CommandBufferMode::ONE_SHOT, CommandCategories::TRANSFER, 0)?;
    commands.begin()?;
    let wanted = &[StatusCode::FailedPrecondition];
    let signal = Command::SignalEvent { event: &event, source_stages: RETIRE };
    refused("a signal among transfers", commands.record(&signal), wanted)?;
    refused("a wait among transfers", record_wait(&commands, &[&event]), wanted)?;
    let reset = Command::ResetEvent { event: &event, source_stages: RETIRE };
    refused("a reset among transfers", commands.record(&reset), wanted)
}

fn wait_inside(harness: &Harness<'_>) -> Result<()> {
    let event = create(harness)?;
    fill_then_copy(harness, |commands, _| {
        commands.record(&Command::SignalEvent { event: &event, source_stages: RETIRE })?;
        record_wait(commands, &[&event])?;
        commands.record(&Command::ResetEvent { event: &event, source_stages: RETIRE })
    })
}

fn across_command_buffers(harness: &Harness<'_>) -> Result<()> {
    let event = create(harness)?;
    let buffer = harness.buffer(&[0; 8])?;
    let (left, right) = (BufferRef::range(&buffer, 0, 4), BufferRef::range(&buffer, 4, 4));
    let first = harness.begin(CommandBufferMode::ONE_SHOT, 0)?;
    first.fill(left, &[6])?;
    first.record(&Command::SignalEvent { event: &event, source_stages: RETIRE })?;
    first.end()?;
    let second = harness.begin(CommandBufferMode::ONE_SHOT, 0)?;
    record_wait(&second, &[&event])?;
    second.copy(left, right)?;
    second.end()?;
    let done = harness.semaphore()?;
    for (value, commands) in [(0, &first), (1, &second)] {
        harness.queue().wait(&[done.at(value)]).signal(&[done.at(value + 1)]).execute(commands, &[], 0)?;
    }
    harness.wait(&done, 2)?;
    same_bytes("both halves", &harness.read(&buffer)?, &[6; 8])
}

fn several_at_once(harness: &Harness<'_>) -> Result<()> {
    let events = [create(harness)?, create(harness)?, create(harness)?];
    fill_then_copy(harness, |commands, buffer| {
        for event in &events {
            commands.record(&Command::SignalEvent { event, source_stages: ExecutionStage::TRANSFER })?;
        }
        let all: Vec<&Event> = events.iter().collect();
        let barrier = BufferBarrier { barrier: WRITE_TO_READ, buffer: BufferRef::whole(buffer) };
        commands.record(&Command::WaitEvents {
            events: &all,
            source_stages: ExecutionStage::TRANSFER,
            target_stages: ExecutionStage::TRANSFER,
            memory_barriers: &[WRITE_TO_READ],
            buffer_barriers: &[barrier],
        })
    })
}

fn reusable_command_buffer(harness: &Harness<'_>) -> Result<()> {
    let event = create(harness)?;
    let buffer = harness.buffer(&[0; 4])?;
    let commands = harness.begin(CommandBufferMode::empty(), 0)?;
    commands.record(&Command::SignalEvent { event: &event, source_stages: RETIRE })?;
    record_wait(&commands, &[&event])?;
    commands.record(&Command::ResetEvent { event: &event, source_stages: RETIRE })?;
    commands.fill(&buffer, &[1])?;
    commands.end()?;
    for _ in 0..5 {
        buffer.write(0, &[0; 4])?;
        harness.execute(&commands, &[])?;
        same_bytes("the buffer", &harness.read(&buffer)?, &[1; 4])?;
    }
    Ok(())
}

fn kept_alive_by_commands(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.begin(CommandBufferMode::empty(), 0)?;
    {
        let event = create(harness)?;
        commands.record(&Command::SignalEvent { event: &event, source_stages: RETIRE })?;
        record_wait(&commands, &[&event])?;
    }
    commands.end()?;
    harness.execute(&commands, &[])?;
    harness.run(|queue| queue.barrier(0))
}
