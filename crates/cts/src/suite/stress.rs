//! High concurrency from several threads, bounded in number rather than in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_base::Result;
use rehal_hal::{BufferRef, CommandBufferMode, HostCall, HostCallFlags, Semaphore};

use super::semaphores::joined;
use crate::Capability;
use crate::check::{equal, same_bytes};
use crate::harness::{Harness, noise};
use crate::live::Command;
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("stress/threads_submit_their_own_chains", &[], own_chains);
    list.add("stress/threads_hand_over_work", &[], hand_over);
    list.add("stress/random_graph_from_several_threads", &[Capability::HostCalls], random_graph);
    list.add("stress/threads_share_a_command_buffer", &[], shared_command_buffer);
    list.add("stress/threads_create_and_drop", &[], create_and_drop);
    list.add("stress/rapid_submits", &[], rapid_submits);
}

const THREADS: usize = 4;

fn own_chains(harness: &Harness<'_>) -> Result<()> {
    const STEPS: u64 = 100;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u8)
            .map(|thread| {
                scope.spawn(move || {
                    let buffer = harness.buffer(&[0; 256])?;
                    let timeline = harness.semaphore()?;
                    for step in 0..STEPS {
                        let pattern = [thread, step as u8];
                        let (waits, signals) = ([timeline.at(step)], [timeline.at(step + 1)]);
                        harness.queue().wait(&waits).signal(&signals).fill(&buffer, &pattern, 0)?;
                    }
                    harness.wait(&timeline, STEPS)?;
                    let expected = [thread, STEPS as u8 - 1].repeat(128);
                    same_bytes("the last of a chain", &harness.read(&buffer)?, &expected)
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })
}

/// Each thread submits every n-th link of one chain, in its own order.
fn hand_over(harness: &Harness<'_>) -> Result<()> {
    const LINKS: usize = 400;
    let buffer = harness.buffer(&[0; LINKS])?;
    let timeline = harness.semaphore()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (buffer, timeline) = (&buffer, &timeline);
                scope.spawn(move || {
                    let mut links: Vec<_> = (thread..LINKS).step_by(THREADS).collect();
                    if thread % 2 == 0 {
                        links.reverse();
                    }
                    links.into_iter().try_for_each(|link| {
                        let value = link as u64;
                        let pattern = [link as u8];
                        let target = BufferRef::range(buffer, value, LINKS as u64 - value);
                        let (waits, signals) = ([timeline.at(value)], [timeline.at(value + 1)]);
                        harness.queue().wait(&waits).signal(&signals).fill(target, &pattern, 0)
                    })
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })?;
    harness.wait(&timeline, LINKS as u64)?;
    let expected: Vec<_> = (0..LINKS).map(|link| link as u8).collect();
    same_bytes("each link wrote after the one before", &harness.read(&buffer)?, &expected)
}

/// Nodes wait for up to three lower ones. Each checks, when it executes, that those have executed.
fn random_graph(harness: &Harness<'_>) -> Result<()> {
    const NODES: usize = 400;
    let done: Vec<Semaphore> = (0..NODES).map(|_| harness.semaphore()).collect::<Result<_>>()?;
    let dice = noise(4 * NODES, 77);
    let ran: Arc<Vec<AtomicU64>> = Arc::new((0..NODES).map(|_| AtomicU64::new(0)).collect());
    let parents = |node: usize| -> Vec<usize> {
        let throws = &dice[4 * node..4 * node + usize::from(dice[4 * node] % 4)];
        throws.iter().filter(|_| node != 0).map(|throw| (usize::from(*throw) * node) >> 8).collect()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (done, ran, parents) = (&done, &ran, &parents);
                scope.spawn(move || {
                    // In reverse order, so that most waits are satisfied by later submissions.
                    (thread..NODES).step_by(THREADS).rev().try_for_each(|node| {
                        let above = parents(node);
                        submit_node(harness, node, &above, done, ran)
                    })
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })?;
    for semaphore in &done {
        harness.wait(semaphore, 1)?;
    }
    for count in ran.iter() {
        equal("executions of a node", count.load(Ordering::SeqCst), 1)?;
    }
    Ok(())
}

fn submit_node(
    harness: &Harness<'_>,
    node: usize,
    above: &[usize],
    done: &[Semaphore],
    ran: &Arc<Vec<AtomicU64>>,
) -> Result<()> {
    let (ran, before) = (ran.clone(), above.to_vec());
    let call = HostCall(Arc::new(move |_| {
        for parent in &before {
            equal("executions of a parent node", ran[*parent].load(Ordering::SeqCst), 1)?;
        }
        ran[node].fetch_add(1, Ordering::SeqCst);
        Ok(())
    }));
    let waits: Vec<_> = above.iter().map(|parent| done[*parent].at(1)).collect();
    let signals = [done[node].at(1)];
    harness.queue().wait(&waits).signal(&signals).host_call(&call, [0; 4], HostCallFlags::empty())
}

fn shared_command_buffer(harness: &Harness<'_>) -> Result<()> {
    let commands = harness.begin(CommandBufferMode::empty(), 2)?;
    let (source, target) = (BufferRef::slot(0, 0, 64), BufferRef::slot(1, 0, 64));
    commands.record(&Command::Copy { source, target, flags: 0 })?;
    commands.end()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u32)
            .map(|thread| {
                let commands = &commands;
                scope.spawn(move || {
                    for round in 0..40 {
                        let bytes = noise(64, thread * 100 + round);
                        let source = harness.buffer(&bytes)?;
                        let target = harness.buffer(&[0; 64])?;
                        harness.execute(commands, &[BufferRef::from(&source), BufferRef::from(&target)])?;
                        same_bytes("the thread's target", &harness.read(&target)?, &bytes)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })
}

fn create_and_drop(harness: &Harness<'_>) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    for round in 0..50 {
                        let timeline = harness.semaphore()?;
                        let buffer = harness.transient(&[round; 128])?;
                        same_bytes("a transient buffer", &harness.read(&buffer)?, &[round; 128])?;
                        let signals = [timeline.at(1)];
                        harness.queue().signal(&signals).dealloca(&buffer, 0)?;
                        drop(harness.begin(CommandBufferMode::ONE_SHOT, 0)?);
                        harness.wait(&timeline, 1)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })
}

fn rapid_submits(harness: &Harness<'_>) -> Result<()> {
    const ROUNDS: usize = 300;
    let first = harness.buffer(&[0; 64])?;
    let second = harness.buffer(&[0; 64])?;
    for round in 0..ROUNDS {
        let pattern = (round as u32).to_le_bytes();
        crate::script::Script::new(harness, crate::script::Route::Direct)
            .fill(&first, &pattern)
            .copy(&first, &second)
            .run()?;
        same_bytes("the copy of a fill", &harness.read(&second)?, &pattern.repeat(16))?;
    }
    Ok(())
}
