//! Dependent submissions: chains, forks, joins, in any order of submission.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{HostCall, HostCallFlags, QUEUE_AFFINITY_ANY, Semaphore, wait_any};

use super::semaphores::joined;
use crate::Capability;
use crate::check::{equal, holds, refused, same_bytes};
use crate::harness::Harness;
use crate::test::List;

pub(super) fn add(list: &mut List) {
    list.add("ordering/chain_in_reverse_order", &[Capability::HostCalls], chain_in_reverse_order);
    list.add("ordering/fork", &[Capability::HostCalls], fork);
    list.add("ordering/join", &[Capability::HostCalls], join);
    list.add("ordering/diamond", &[Capability::HostCalls], diamond);
    list.add("ordering/different_values_of_one_timeline", &[], different_values_of_one_timeline);
    list.add("ordering/device_and_host_must_both_signal", &[], device_and_host_must_both_signal);
    list.add("ordering/device_signals_device_and_host", &[], device_signals_device_and_host);
    list.add("ordering/device_or_host_whichever_signals", &[], device_or_host_whichever_signals);
    list.add("ordering/host_waits_while_device_works", &[], host_waits_while_device_works);
    list.add("ordering/unrelated_work_is_not_held_up", &[], unrelated_work_is_not_held_up);
    list.add("ordering/one_timeline_for_many_steps", &[], one_timeline_for_many_steps);
    list.add("ordering/deep_chain", &[], deep_chain);
    list.add("ordering/deep_chain_of_failures", &[], deep_chain_of_failures);
    list.add("ordering/wide_fork_and_join", &[], wide_fork_and_join);
    list.add("ordering/many_submissions_wait_for_one_value", &[], many_wait_for_one_value);
    list.add("ordering/a_queue_never_moves_a_timeline_back", &[], never_moves_back);
    list.add("ordering/queues_by_affinity", &[], queues_by_affinity);
    list.add("ordering/failure_stops_at_independent_work", &[], failure_stops_at_independent_work);
}

fn barrier(harness: &Harness<'_>, waits: &[(&Semaphore, u64)], signals: &[(&Semaphore, u64)]) -> Result<()> {
    let waits: Vec<_> = waits.iter().map(|(semaphore, value)| semaphore.at(*value)).collect();
    let signals: Vec<_> = signals.iter().map(|(semaphore, value)| semaphore.at(*value)).collect();
    harness.queue().wait(&waits).signal(&signals).barrier(0)
}

/// The order in which operations ran: each is a host call that logs its number.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    fn submit(
        &self,
        harness: &Harness<'_>,
        number: u64,
        waits: &[(&Semaphore, u64)],
        signals: &[(&Semaphore, u64)],
    ) -> Result<()> {
        let log = self.clone();
        let call = HostCall(Arc::new(move |arguments| {
            log.0.lock().unwrap_or_else(PoisonError::into_inner).push(arguments[0]);
            Ok(())
        }));
        let waits: Vec<_> = waits.iter().map(|(semaphore, value)| semaphore.at(*value)).collect();
        let signals: Vec<_> = signals.iter().map(|(semaphore, value)| semaphore.at(*value)).collect();
        let arguments = [number, 0, 0, 0];
        harness.queue().wait(&waits).signal(&signals).host_call(&call, arguments, HostCallFlags::empty())
    }

    fn numbers(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sorted(&self) -> Vec<u64> {
        let mut numbers = self.numbers();
        numbers.sort_unstable();
        numbers
    }
}

fn semaphores(harness: &Harness<'_>, count: usize) -> Result<Vec<Semaphore>> {
    (0..count).map(|_| harness.semaphore()).collect()
}

fn chain_in_reverse_order(harness: &Harness<'_>) -> Result<()> {
    let log = Log::default();
    let links = semaphores(harness, 11)?;
    for index in (0..10).rev() {
        log.submit(harness, index as u64, &[(&links[index], 1)], &[(&links[index + 1], 1)])?;
    }
    harness.settle()?;
    equal("before", log.numbers(), vec![])?;
    links[0].signal(1)?;
    harness.wait(&links[10], 1)?;
    equal("in order", log.numbers(), (0..10).collect())
}

fn fork(harness: &Harness<'_>) -> Result<()> {
    let log = Log::default();
    let head = harness.semaphore()?;
    let dones = semaphores(harness, 3)?;
    for (number, done) in (1..).zip(&dones) {
        log.submit(harness, number, &[(&head, 1)], &[(done, 1)])?;
    }
    log.submit(harness, 0, &[], &[(&head, 1)])?;
    for done in &dones {
        harness.wait(done, 1)?;
    }
    equal("the first", log.numbers()[0], 0)?;
    equal("all", log.sorted(), vec![0, 1, 2, 3])
}

fn join(harness: &Harness<'_>) -> Result<()> {
    let log = Log::default();
    let arms = semaphores(harness, 3)?;
    let done = harness.semaphore()?;
    let waits: Vec<_> = arms.iter().map(|arm| (arm, 1)).collect();
    log.submit(harness, 9, &waits, &[(&done, 1)])?;
    for (number, arm) in (0..).zip(&arms) {
        equal("the join waits", done.query()?, 0)?;
        log.submit(harness, number, &[], &[(arm, 1)])?;
    }
    harness.wait(&done, 1)?;
    equal("the last", log.numbers().last().copied(), Some(9))?;
    equal("all", log.sorted(), vec![0, 1, 2, 9])
}

fn diamond(harness: &Harness<'_>) -> Result<()> {
    let log = Log::default();
    let (top, left, right, done) =
        (harness.semaphore()?, harness.semaphore()?, harness.semaphore()?, harness.semaphore()?);
    log.submit(harness, 3, &[(&left, 1), (&right, 1)], &[(&done, 1)])?;
    log.submit(harness, 2, &[(&top, 1)], &[(&right, 1)])?;
    log.submit(harness, 1, &[(&top, 1)], &[(&left, 1)])?;
    log.submit(harness, 0, &[], &[(&top, 1)])?;
    harness.wait(&done, 1)?;
    let order = log.numbers();
    equal("how many", order.len(), 4)?;
    equal("first and last", (order[0], order[3]), (0, 3))
}

fn different_values_of_one_timeline(harness: &Harness<'_>) -> Result<()> {
    let timeline = harness.semaphore()?;
    let dones = semaphores(harness, 3)?;
    for (index, value) in [(2, 3), (1, 2), (0, 1)] {
        barrier(harness, &[(&timeline, value)], &[(&dones[index], 1)])?;
    }
    timeline.signal(1)?;
    harness.wait(&dones[0], 1)?;
    harness.settle()?;
    equal("what waits for 2", dones[1].query()?, 0)?;
    // Beyond both of the others at once, signalled by a queue.
    barrier(harness, &[], &[(&timeline, 5)])?;
    harness.wait(&dones[1], 1)?;
    harness.wait(&dones[2], 1)?;
    equal("the timeline", timeline.query()?, 5)
}

fn device_and_host_must_both_signal(harness: &Harness<'_>) -> Result<()> {
    let (device, host, done) = (harness.semaphore()?, harness.semaphore()?, harness.semaphore()?);
    barrier(harness, &[(&device, 1), (&host, 1)], &[(&done, 1)])?;
    barrier(harness, &[], &[(&device, 1)])?;
    harness.wait(&device, 1)?;
    harness.settle()?;
    equal("without the host", done.query()?, 0)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| host.signal(1));
        harness.wait(&done, 1)?;
        joined(thread)
    })
}

/// The host waits for whichever comes first: a signal of a queue or of the host.
fn device_or_host_whichever_signals(harness: &Harness<'_>) -> Result<()> {
    let gate = harness.semaphore()?;
    let (of_device, of_host) = harness.two_semaphores()?;
    barrier(harness, &[(&gate, 1)], &[(&of_device, 1)])?;
    let either = [of_device.at(1), of_host.at(1)];
    refused("too early", wait_any(&either, Some(Duration::ZERO)), &[StatusCode::DeadlineExceeded])?;
    of_host.signal(1)?;
    equal("the host's", wait_any(&either, Some(harness.patience()))?, 1)?;
    gate.signal(1)?;
    let only_device = [of_host.at(2), of_device.at(1)];
    equal("the device's", wait_any(&only_device, Some(harness.patience()))?, 1)
}

fn device_signals_device_and_host(harness: &Harness<'_>) -> Result<()> {
    let (onward, to_host, done) = (harness.semaphore()?, harness.semaphore()?, harness.semaphore()?);
    barrier(harness, &[(&onward, 1)], &[(&done, 1)])?;
    std::thread::scope(|scope| {
        let waiters = [(&onward, 1), (&to_host, 4), (&done, 1)]
            .map(|(semaphore, value)| scope.spawn(move || harness.wait(semaphore, value)));
        barrier(harness, &[], &[(&onward, 1), (&to_host, 4)])?;
        waiters.into_iter().try_for_each(joined)
    })
}

fn host_waits_while_device_works(harness: &Harness<'_>) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    barrier(harness, &[(&gate, 1)], &[(&done, 1)])?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| harness.wait(&done, 1));
        std::thread::yield_now();
        gate.signal(1)?;
        joined(waiter)
    })
}

fn unrelated_work_is_not_held_up(harness: &Harness<'_>) -> Result<()> {
    let gate = harness.semaphore()?;
    let blocked = semaphores(harness, 50)?;
    for done in &blocked {
        barrier(harness, &[(&gate, 1)], &[(done, 1)])?;
    }
    let buffer = harness.buffer(&[0; 4])?;
    harness.run(|queue| queue.fill(&buffer, &[1], 0))?;
    same_bytes("what did not wait", &harness.read(&buffer)?, &[1; 4])?;
    gate.signal(1)?;
    blocked.iter().try_for_each(|done| harness.wait(done, 1))
}

fn one_timeline_for_many_steps(harness: &Harness<'_>) -> Result<()> {
    const STEPS: u64 = 500;
    let timeline = harness.semaphore()?;
    for value in 0..STEPS {
        barrier(harness, &[(&timeline, value)], &[(&timeline, value + 1)])?;
    }
    harness.wait(&timeline, STEPS)?;
    equal("the timeline", timeline.query()?, STEPS)
}

/// The longest chain without a host wait; a driver that executes the next operation recursively inside the
/// previous one overflows the stack here.
const DEEP: usize = 20_000;

fn deep(harness: &Harness<'_>) -> Result<Vec<Semaphore>> {
    let links = semaphores(harness, DEEP + 1)?;
    for pair in links.windows(2).rev() {
        barrier(harness, &[(&pair[0], 1)], &[(&pair[1], 1)])?;
    }
    Ok(links)
}

fn deep_chain(harness: &Harness<'_>) -> Result<()> {
    let links = deep(harness)?;
    equal("before", links[DEEP].query()?, 0)?;
    links[0].signal(1)?;
    harness.wait(&links[DEEP], 1)
}

fn deep_chain_of_failures(harness: &Harness<'_>) -> Result<()> {
    let links = deep(harness)?;
    links[0].fail(Error::new(StatusCode::Aborted, "the first of many"));
    harness.expect_failure("the last link", &links[DEEP], StatusCode::Aborted)
}

fn wide_fork_and_join(harness: &Harness<'_>) -> Result<()> {
    const WIDE: usize = 500;
    let head = harness.semaphore()?;
    let arms = semaphores(harness, WIDE)?;
    let done = harness.semaphore()?;
    let joined: Vec<_> = arms.iter().map(|arm| (arm, 1)).collect();
    barrier(harness, &joined, &[(&done, 1)])?;
    for arm in &arms {
        barrier(harness, &[(&head, 1)], &[(arm, 1)])?;
    }
    equal("before", done.query()?, 0)?;
    head.signal(1)?;
    harness.wait(&done, 1)?;
    for arm in &arms {
        equal("an arm", arm.query()?, 1)?;
    }
    Ok(())
}

fn many_wait_for_one_value(harness: &Harness<'_>) -> Result<()> {
    let gate = harness.semaphore()?;
    let buffers: Vec<_> = (0..64).map(|_| harness.buffer(&[0; 16])).collect::<Result<_>>()?;
    let dones = semaphores(harness, 64)?;
    for (index, (buffer, done)) in buffers.iter().zip(&dones).enumerate() {
        let pattern = [index as u8 + 1];
        harness.queue().wait(&[gate.at(1)]).signal(&[done.at(1)]).fill(buffer, &pattern, 0)?;
    }
    gate.signal(1)?;
    for (index, (buffer, done)) in buffers.iter().zip(&dones).enumerate() {
        harness.wait(done, 1)?;
        same_bytes("a buffer", &harness.read(buffer)?, &[index as u8 + 1; 16])?;
    }
    Ok(())
}

/// A signal that does not increase the payload fails or fails the timeline, but never lowers it.
fn never_moves_back(harness: &Harness<'_>) -> Result<()> {
    let timeline = harness.semaphore_at(5)?;
    let accepted = barrier(harness, &[], &[(&timeline, 3)]).is_ok();
    harness.settle()?;
    match timeline.query() {
        Ok(value) => {
            equal("the timeline", value, 5)?;
            holds("an invalid signal must not be silently ignored", !accepted)
        }
        Err(error) => refused::<()>("the timeline", Err(error), crate::check::RANGE),
    }
}

/// Semaphores order submissions across queues as within one; every device has the first queue.
fn queues_by_affinity(harness: &Harness<'_>) -> Result<()> {
    let timeline = harness.semaphore()?;
    for (value, affinity) in [(1, 1), (0, QUEUE_AFFINITY_ANY), (2, 1)] {
        let (waits, signals) = ([timeline.at(value)], [timeline.at(value + 1)]);
        let waits = if value == 0 { &waits[..0] } else { &waits[..] };
        harness.device.queue(affinity).wait(waits).signal(&signals).barrier(0)?;
    }
    harness.wait(&timeline, 3)
}

fn failure_stops_at_independent_work(harness: &Harness<'_>) -> Result<()> {
    let (gate, failing, healthy) = (harness.semaphore()?, harness.semaphore()?, harness.semaphore()?);
    barrier(harness, &[(&gate, 1)], &[(&failing, 1)])?;
    gate.fail(Error::new(StatusCode::Aborted, "only its own"));
    harness.expect_failure("what waited", &failing, StatusCode::Aborted)?;
    barrier(harness, &[], &[(&healthy, 1)])?;
    harness.wait(&healthy, 1)?;
    harness.settle()
}
