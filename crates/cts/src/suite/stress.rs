//! High concurrency from several threads, bounded in number rather than in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{BufferParams, BufferRef, CommandBufferMode, HostCall, HostCallFlags, Semaphore};

use super::semaphores::joined;
use crate::Capability;
use crate::check::{equal, refused, same_bytes};
use crate::harness::{Harness, noise};
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("stress/threads_submit_their_own_chains", &[], own_chains);
    list.add("stress/threads_hand_over_work", &[], hand_over);
    list.add("stress/random_graph_from_several_threads", &[Capability::HostCalls], random_graph);
    list.add("stress/threads_share_a_command_buffer", &[], shared_command_buffer);
    list.add("stress/threads_create_and_drop", &[], create_and_drop);
    list.add("stress/rapid_submits", &[], rapid_submits);
    list.add("stress/operations_of_all_kinds_on_many_timelines", &[], many_timelines);
    list.add(
        "stress/a_failure_reaches_only_what_depends_on_it",
        &[Capability::HostCalls],
        failure_in_the_middle,
    );
    list.add("stress/transient_buffers_come_and_go", &[], transients_come_and_go);
    list.add("stress/devices_are_released_with_work_in_flight", &[], released_in_flight);
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
    commands.copy(source, target)?;
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
                        harness.queue().signal(&[timeline.at(1)]).dealloca(&buffer, 0)?;
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

/// Each thread has several chains, advances them in random order, and occasionally joins and forks them. A
/// chain's buffer shows its last step; longer steps overlap with other chains.
fn many_timelines(harness: &Harness<'_>) -> Result<()> {
    const CHAINS: usize = 6;
    const STEPS: usize = 120;
    const BYTES: u64 = 192 << 10;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u32)
            .map(|thread| {
                scope.spawn(move || {
                    let parameters = Harness::mappable();
                    let allocate = || harness.device.allocate_buffer(parameters, BYTES);
                    let buffers: Vec<_> = (0..CHAINS).map(|_| allocate()).collect::<Result<_>>()?;
                    let timelines: Vec<_> =
                        (0..CHAINS).map(|_| harness.semaphore()).collect::<Result<_>>()?;
                    let (mut at, mut last) = ([0_u64; CHAINS], [0_u8; CHAINS]);
                    for (step, dice) in noise(2 * STEPS, 500 + thread).chunks_exact(2).enumerate() {
                        let (chain, other) = (usize::from(dice[0]) % CHAINS, usize::from(dice[1]) % CHAINS);
                        let next = at[chain] + 1;
                        let (own, signals) = (timelines[chain].at(at[chain]), [timelines[chain].at(next)]);
                        let other_after = [timelines[chain].at(next), timelines[other].at(at[other] + 1)];
                        let waits = [own, timelines[other].at(at[other])];
                        let queue = harness.queue().wait(&waits);
                        match dice[1] % 4 {
                            // A copy reads the other chain, which it also advances: its next step must not
                            // overtake it.
                            0 if other != chain => {
                                queue.signal(&other_after).copy(&buffers[other], &buffers[chain], 0)?;
                                at[other] += 1;
                                last[chain] = last[other];
                            }
                            1 => queue.signal(&signals).barrier(0)?,
                            _ => {
                                last[chain] = step as u8;
                                queue.signal(&signals).fill(&buffers[chain], &[step as u8], 0)?;
                            }
                        }
                        at[chain] = next;
                    }
                    for chain in 0..CHAINS {
                        harness.wait(&timelines[chain], at[chain])?;
                        let expected = vec![last[chain]; BYTES as usize];
                        same_bytes("the last step of a chain", &harness.read(&buffers[chain])?, &expected)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })
}

/// A chain of host calls, one of which fails, and a chain of barriers whose second half waits for the calls.
/// Whatever depends on the failed call fails, in both chains; nothing else does.
fn failure_in_the_middle(harness: &Harness<'_>) -> Result<()> {
    const LINKS: usize = 60;
    for round in 0..10 {
        let failing = LINKS / 2 + round;
        let lines = [(); 2].map(|()| (0..=LINKS).map(|_| harness.semaphore()).collect::<Result<Vec<_>>>());
        let [first, second] = lines;
        let (first, second) = (first?, second?);
        for link in 0..LINKS {
            let call = HostCall(Arc::new(move |_| match link == failing {
                true => Err(Error::new(StatusCode::DataLoss, "the call in the middle")),
                false => Ok(()),
            }));
            let (waits, signals) = ([first[link].at(1)], [first[link + 1].at(1)]);
            harness.queue().wait(&waits).signal(&signals).host_call(&call, [0; 4], HostCallFlags::empty())?;
            let waits = [second[link].at(1), first[if link < LINKS / 2 { 0 } else { link + 1 }].at(1)];
            harness.queue().wait(&waits).signal(&[second[link + 1].at(1)]).barrier(0)?;
        }
        second[0].signal(1)?;
        first[0].signal(1)?;
        for link in 0..=LINKS {
            if link <= failing {
                harness.wait(&first[link], 1)?;
                harness.wait(&second[link], 1)?;
            } else {
                harness.expect_failure("what follows the failure", &first[link], StatusCode::DataLoss)?;
                harness.expect_failure("what waits for that", &second[link], StatusCode::DataLoss)?;
            }
        }
    }
    Ok(())
}

/// Allocates, fills, copies out and deallocates without a wait of the host, many at a time.
fn transients_come_and_go(harness: &Harness<'_>) -> Result<()> {
    const ROUNDS: u64 = 60;
    const BYTES: u64 = 96 << 10;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                scope.spawn(move || {
                    let result = harness.device.allocate_buffer(Harness::mappable(), ROUNDS)?;
                    let done: Vec<_> = (0..ROUNDS).map(|_| harness.semaphore()).collect::<Result<_>>()?;
                    for (round, done) in (0..).zip(&done) {
                        let byte = (thread * ROUNDS + round) as u8;
                        let queue = harness.queue();
                        let buffer = queue.signal(&[done.at(1)]).alloca(BufferParams::default(), BYTES, 0)?;
                        queue.wait(&[done.at(1)]).signal(&[done.at(2)]).fill(&buffer, &[byte], 0)?;
                        let (source, target) =
                            (BufferRef::range(&buffer, BYTES - 1, 1), BufferRef::range(&result, round, 1));
                        queue.wait(&[done.at(2)]).signal(&[done.at(3)]).copy(source, target, 0)?;
                        queue.wait(&[done.at(3)]).signal(&[done.at(4)]).dealloca(&buffer, 0)?;
                    }
                    done.iter().try_for_each(|done| harness.wait(done, 4))?;
                    let expected: Vec<_> = (0..ROUNDS).map(|round| (thread * ROUNDS + round) as u8).collect();
                    same_bytes("what each buffer had", &harness.read(&result)?, &expected)
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })
}

/// Every submission of a device that is released ends: it has run, or its signals have failed.
fn released_in_flight(harness: &Harness<'_>) -> Result<()> {
    const DEVICES: usize = 20;
    const LINKS: u64 = 16;
    for _ in 0..DEVICES {
        let own = Harness::new(harness.subject())?;
        let chains: Vec<_> = (0..4).map(|_| own.semaphore()).collect::<Result<_>>()?;
        for chain in &chains {
            let buffer = own.device.allocate_buffer(Harness::mappable(), 64 << 10)?;
            for link in 0..LINKS {
                let (waits, signals) = ([chain.at(link)], [chain.at(link + 1)]);
                own.queue().wait(&waits).signal(&signals).fill(&buffer, &[link as u8], 0)?;
            }
        }
        drop(own);
        for chain in &chains {
            match harness.wait(chain, LINKS) {
                Ok(()) => {}
                outcome => refused("work of a released device", outcome, &[StatusCode::Aborted])?,
            }
        }
    }
    Ok(())
}
