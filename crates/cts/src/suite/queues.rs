//! Requirements on every queue operation: it executes when its waits are reached, by host or device, signals
//! after execution, and fails its signals on error.

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::Semaphore;

use super::probe::{Operation, Probe};
use super::semaphores::joined;
use crate::check::{equal, holds, refused};
use crate::harness::Harness;
use crate::test::List;

type Check = fn(&Harness<'_>, Operation) -> Result<()>;

const CHECKS: [(&str, Check); 15] = [
    ("runs_and_signals", runs_and_signals),
    ("waits_that_are_met_already", waits_that_are_met_already),
    ("waits_for_the_host", waits_for_the_host),
    ("waits_for_another_thread", waits_for_another_thread),
    ("waits_for_a_later_submission", waits_for_a_later_submission),
    ("waits_for_all", waits_for_all),
    ("waits_for_a_value_that_is_passed_over", waits_for_a_value_that_is_passed_over),
    ("signals_all", signals_all),
    ("failed_wait_fails_the_signals", failed_wait_fails_the_signals),
    ("wait_that_fails_later_fails_the_signals", wait_that_fails_later),
    ("one_failed_wait_is_enough", one_failed_wait_is_enough),
    ("failure_goes_down_a_chain", failure_goes_down_a_chain),
    ("keeps_its_objects_while_it_waits", keeps_its_objects_while_it_waits),
    ("keeps_its_semaphores_while_it_waits", keeps_its_semaphores),
    ("submitted_from_another_thread", submitted_from_another_thread),
];

pub(super) fn add(list: &mut List, formats: &[&'static str]) {
    for operation in Operation::all(formats) {
        for (name, check) in CHECKS {
            let name = format!("queue/{}/{name}", operation.name());
            list.add(name, operation.needs, move |harness| check(harness, operation));
        }
    }
    list.add("queue/barrier/without_waits_or_signals", &[], |harness| {
        harness.queue().barrier(0)?;
        harness.settle()
    });
}

/// It has executed, and its result is usable.
fn expect_done(harness: &Harness<'_>, probe: &Probe) -> Result<()> {
    probe.expect_run(harness)?;
    probe.expect_allocated(harness)
}

/// It has neither executed nor signalled, although the device had time to.
fn expect_pending(harness: &Harness<'_>, probe: &Probe, done: &Semaphore) -> Result<()> {
    harness.settle()?;
    equal("the signal of a pending operation", done.query()?, 0)?;
    probe.expect_not_run(harness)
}

fn runs_and_signals(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let done = harness.semaphore()?;
    let mut probe = Probe::new(harness, operation)?;
    probe.expect_not_run(harness)?;
    probe.submit(harness, &[], &[(&done, 1)])?;
    harness.wait(&done, 1)?;
    equal("the signal", done.query()?, 1)?;
    expect_done(harness, &probe)
}

fn waits_that_are_met_already(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let gate = harness.semaphore_at(7)?;
    let done = harness.semaphore()?;
    let mut probe = Probe::new(harness, operation)?;
    probe.submit(harness, &[(&gate, 7), (&gate, 3), (&done, 0)], &[(&done, 5)])?;
    harness.wait(&done, 5)?;
    expect_done(harness, &probe)
}

fn waits_for_the_host(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    let mut probe = Probe::new(harness, operation)?;
    probe.submit(harness, &[(&gate, 2)], &[(&done, 1)])?;
    expect_pending(harness, &probe, &done)?;
    gate.signal(1)?;
    expect_pending(harness, &probe, &done)?;
    gate.signal(2)?;
    harness.wait(&done, 1)?;
    expect_done(harness, &probe)
}

fn waits_for_another_thread(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    let mut probe = Probe::new(harness, operation)?;
    std::thread::scope(|scope| {
        probe.submit(harness, &[(&gate, 1)], &[(&done, 1)])?;
        expect_pending(harness, &probe, &done)?;
        let thread = scope.spawn(|| gate.signal(1));
        harness.wait(&done, 1)?;
        joined(thread)
    })?;
    expect_done(harness, &probe)
}

fn waits_for_a_later_submission(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    let mut probe = Probe::new(harness, operation)?;
    probe.submit(harness, &[(&gate, 1)], &[(&done, 1)])?;
    expect_pending(harness, &probe, &done)?;
    harness.queue().signal(&[gate.at(1)]).barrier(0)?;
    harness.wait(&done, 1)?;
    expect_done(harness, &probe)
}

fn waits_for_all(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let gates = [harness.semaphore()?, harness.semaphore()?, harness.semaphore()?];
    let done = harness.semaphore()?;
    let mut probe = Probe::new(harness, operation)?;
    let waits = [(&gates[0], 1), (&gates[1], 2), (&gates[2], 3)];
    probe.submit(harness, &waits, &[(&done, 1)])?;
    for (gate, value) in [(2, 3), (0, 1)] {
        gates[gate].signal(value)?;
        expect_pending(harness, &probe, &done)?;
    }
    gates[1].signal(2)?;
    harness.wait(&done, 1)?;
    expect_done(harness, &probe)
}

fn waits_for_a_value_that_is_passed_over(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    let mut probe = Probe::new(harness, operation)?;
    probe.submit(harness, &[(&gate, 3)], &[(&done, 1)])?;
    gate.signal(1000)?;
    harness.wait(&done, 1)?;
    expect_done(harness, &probe)
}

fn signals_all(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let dones = [harness.semaphore()?, harness.semaphore_at(10)?, harness.semaphore()?];
    let gate = harness.semaphore()?;
    let mut probe = Probe::new(harness, operation)?;
    let signals = [(&dones[0], 1), (&dones[1], 11), (&dones[2], 500)];
    probe.submit(harness, &[(&gate, 1)], &signals)?;
    harness.settle()?;
    for (done, value) in dones.iter().zip([0, 10, 0]) {
        equal("a signal before", done.query()?, value)?;
    }
    gate.signal(1)?;
    for (done, value) in signals {
        harness.wait(done, value)?;
        equal("a signal after", done.query()?, value)?;
    }
    expect_done(harness, &probe)
}

/// A submission that waits for a failed semaphore is rejected, or fails its signals.
fn failed_wait_fails_the_signals(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let gate = harness.semaphore()?;
    let dones = [harness.semaphore()?, harness.semaphore()?];
    gate.fail(Error::new(StatusCode::Cancelled, "the gate is closed"));
    let mut probe = Probe::new(harness, operation)?;
    match probe.submit(harness, &[(&gate, 1)], &[(&dones[0], 1), (&dones[1], 2)]) {
        Ok(()) => {
            for done in &dones {
                harness.expect_failure("a signal", done, StatusCode::Cancelled)?;
            }
        }
        Err(error) => refused::<()>("the submission", Err(error), &[StatusCode::Cancelled])?,
    }
    probe.expect_not_run(harness)
}

fn wait_that_fails_later(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let gate = harness.semaphore()?;
    let dones = [harness.semaphore()?, harness.semaphore()?];
    let mut probe = Probe::new(harness, operation)?;
    probe.submit(harness, &[(&gate, 1)], &[(&dones[0], 1), (&dones[1], 2)])?;
    expect_pending(harness, &probe, &dones[0])?;
    gate.fail(Error::new(StatusCode::DataLoss, "the gate failed"));
    for done in &dones {
        harness.expect_failure("a signal", done, StatusCode::DataLoss)?;
        let error = done.query().err();
        let keeps = error.is_some_and(|error| error.message().contains("the gate failed"));
        holds("the failure keeps its message", keeps)?;
    }
    probe.expect_not_run(harness)
}

fn one_failed_wait_is_enough(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let gates = [harness.semaphore_at(1)?, harness.semaphore()?, harness.semaphore()?];
    let done = harness.semaphore()?;
    let mut probe = Probe::new(harness, operation)?;
    let waits = [(&gates[0], 1), (&gates[1], 1), (&gates[2], 1)];
    probe.submit(harness, &waits, &[(&done, 1)])?;
    gates[1].fail(Error::new(StatusCode::Aborted, "one of three"));
    gates[2].signal(1)?;
    harness.expect_failure("the signal", &done, StatusCode::Aborted)?;
    probe.expect_not_run(harness)
}

fn failure_goes_down_a_chain(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let links: Vec<_> = (0..6).map(|_| harness.semaphore()).collect::<Result<_>>()?;
    let mut probe = Probe::new(harness, operation)?;
    // Submitted from the end to the start; the probe is in the middle.
    for index in (0..5).rev() {
        if index == 2 {
            probe.submit(harness, &[(&links[2], 1)], &[(&links[3], 1)])?;
            continue;
        }
        harness.queue().wait(&[links[index].at(1)]).signal(&[links[index + 1].at(1)]).barrier(0)?;
    }
    links[0].fail(Error::new(StatusCode::Unavailable, "the first link"));
    for link in &links {
        harness.expect_failure("a link", link, StatusCode::Unavailable)?;
    }
    probe.expect_not_run(harness)
}

fn keeps_its_objects_while_it_waits(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    let mut probe = Probe::new(harness, operation)?;
    probe.submit(harness, &[(&gate, 1)], &[(&done, 1)])?;
    probe.drop_objects();
    // Allocates whatever a driver that released too early would have freed.
    let others: Vec<_> = (0..32).map(|_| harness.buffer(&[0xdd; 16])).collect::<Result<_>>()?;
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    drop(others);
    expect_done(harness, &probe)
}

/// Only the queue references the semaphore between two operations.
fn keeps_its_semaphores(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let (gate, done) = harness.two_semaphores()?;
    let mut probe = Probe::new(harness, operation)?;
    {
        let between = harness.semaphore()?;
        probe.submit(harness, &[(&between, 1)], &[(&done, 1)])?;
        harness.queue().wait(&[gate.at(1)]).signal(&[between.at(1)]).barrier(0)?;
    }
    expect_pending(harness, &probe, &done)?;
    gate.signal(1)?;
    harness.wait(&done, 1)?;
    expect_done(harness, &probe)
}

fn submitted_from_another_thread(harness: &Harness<'_>, operation: Operation) -> Result<()> {
    let done = harness.semaphore()?;
    let mut probe = Probe::new(harness, operation)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| probe.submit(harness, &[], &[(&done, 1)]));
        harness.wait(&done, 1)?;
        joined(thread)
    })?;
    expect_done(harness, &probe)
}
