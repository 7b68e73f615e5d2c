//! Host functions called by a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{HostCall, HostCallFlags, QUEUE_AFFINITY_ANY, Semaphore};

use crate::Capability;
use crate::check::{equal, holds, same_bytes};
use crate::harness::Harness;
use crate::test::List;

pub(super) fn add(list: &mut List) {
    let needs = &[Capability::HostCalls];
    list.add("host_call/arguments", needs, arguments);
    list.add("host_call/flags_that_are_hints", needs, flags_that_are_hints);
    list.add("host_call/failure_fails_all_signals", needs, failure_fails_all_signals);
    list.add("host_call/failure_after_a_wait", needs, failure_after_a_wait);
    list.add("host_call/failure_stops_what_waits", needs, failure_stops_what_waits);
    list.add("host_call/non_blocking_signals_by_itself", needs, non_blocking_signals_by_itself);
    list.add("host_call/non_blocking_failure_is_its_own", needs, non_blocking_failure_is_its_own);
    list.add("host_call/non_blocking_comes_after_the_signals", needs, non_blocking_comes_after);
    list.add("host_call/deferred_signals_later", needs, deferred_signals_later);
    list.add("host_call/deferred_may_fail_later", needs, deferred_may_fail_later);
    list.add("host_call/sees_what_was_done_before", needs, sees_what_was_done_before);
    list.add("host_call/later_work_sees_what_it_did", needs, later_work_sees_what_it_did);
    list.add("host_call/may_signal_and_submit", needs, may_signal_and_submit);
    list.add("host_call/one_call_submitted_often", needs, one_call_submitted_often);
    list.add("host_call/dropped_when_done", needs, dropped_when_done);
}

fn arguments(harness: &Harness<'_>) -> Result<()> {
    for expected in [[10, 20, 30, u64::MAX], [0; 4], [1 << 63, 1, 2, 3]] {
        let sum = Arc::new(AtomicU64::new(0));
        let seen = sum.clone();
        let call = HostCall(Arc::new(move |arguments| {
            equal("arguments", arguments, expected)?;
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }));
        harness.run(|queue| queue.host_call(&call, expected, HostCallFlags::empty()))?;
        equal("calls", sum.load(Ordering::SeqCst), 1)?;
    }
    Ok(())
}

fn flags_that_are_hints(harness: &Harness<'_>) -> Result<()> {
    let hints = [HostCallFlags::WAIT_ACTIVE, HostCallFlags::RELAXED];
    for flags in [hints[0], hints[1], hints[0] | hints[1]] {
        let calls = Arc::new(AtomicU64::new(0));
        let call = counter(&calls);
        harness.run(|queue| queue.host_call(&call, [0; 4], flags))?;
        equal("calls", calls.load(Ordering::SeqCst), 1)?;
    }
    Ok(())
}

fn counter(calls: &Arc<AtomicU64>) -> HostCall {
    let calls = calls.clone();
    HostCall(Arc::new(move |_| {
        calls.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }))
}

fn failing() -> HostCall {
    HostCall(Arc::new(|_| Err(Error::new(StatusCode::PermissionDenied, "rejected by the host"))))
}

fn failure_fails_all_signals(harness: &Harness<'_>) -> Result<()> {
    let call = failing();
    let dones = [harness.semaphore()?, harness.semaphore()?];
    let signals = [dones[0].at(1), dones[1].at(2)];
    harness.queue().signal(&signals).host_call(&call, [9, 10, 11, 12], HostCallFlags::empty())?;
    for done in &dones {
        harness.expect_failure("a signal", done, StatusCode::PermissionDenied)?;
        let words = done.query().err().map(|error| error.message().to_string()).unwrap_or_default();
        holds("the message is preserved", words.contains("rejected by the host"))?;
    }
    harness.settle()
}

fn failure_after_a_wait(harness: &Harness<'_>) -> Result<()> {
    let call = failing();
    let (gate, done) = harness.two_semaphores()?;
    {
        let (waits, signals) = ([gate.at(1)], [done.at(1)]);
        harness.queue().wait(&waits).signal(&signals).host_call(&call, [0; 4], HostCallFlags::empty())?;
    }
    drop(call);
    equal("before", done.query()?, 0)?;
    // The signaller must not get the failure of the waiter.
    gate.signal(1)?;
    equal("the gate", gate.query()?, 1)?;
    harness.expect_failure("the signal", &done, StatusCode::PermissionDenied)
}

fn failure_stops_what_waits(harness: &Harness<'_>) -> Result<()> {
    let call = failing();
    let buffer = harness.buffer(&[0; 4])?;
    let (middle, done) = harness.two_semaphores()?;
    {
        harness.queue().wait(&[middle.at(1)]).signal(&[done.at(1)]).fill(&buffer, &[1], 0)?;
        harness.queue().signal(&[middle.at(1)]).host_call(&call, [0; 4], HostCallFlags::empty())?;
    }
    harness.expect_failure("the fill", &done, StatusCode::PermissionDenied)?;
    same_bytes("not filled", &harness.read(&buffer)?, &[0; 4])
}

fn non_blocking_signals_by_itself(harness: &Harness<'_>) -> Result<()> {
    let side = harness.semaphore()?;
    let from_call = side.clone();
    let call = HostCall(Arc::new(move |_| from_call.signal(1)));
    harness.run(|queue| queue.host_call(&call, [0; 4], HostCallFlags::NON_BLOCKING))?;
    harness.wait(&side, 1)
}

fn non_blocking_failure_is_its_own(harness: &Harness<'_>) -> Result<()> {
    let call = failing();
    harness.run(|queue| queue.host_call(&call, [0; 4], HostCallFlags::NON_BLOCKING))?;
    harness.settle()
}

/// A non-blocking call may itself wait for the signals of its submission.
fn non_blocking_comes_after(harness: &Harness<'_>) -> Result<()> {
    let (done, side) = harness.two_semaphores()?;
    let (own, after, patience) = (done.clone(), side.clone(), harness.patience());
    let call = HostCall(Arc::new(move |_| {
        own.wait(1, Some(patience))?;
        after.signal(1)
    }));
    harness.queue().signal(&[done.at(1)]).host_call(&call, [0; 4], HostCallFlags::NON_BLOCKING)?;
    harness.wait(&side, 1)
}

/// A call that returns `DEFERRED` takes over the signals.
fn deferred() -> HostCall {
    HostCall(Arc::new(|_| Err(Error::new(StatusCode::Deferred, "later"))))
}

fn submit_deferred(harness: &Harness<'_>, done: &Semaphore) -> Result<()> {
    let (call, gate) = (deferred(), harness.semaphore()?);
    // One that runs immediately and one that runs when the gate opens.
    for opens_at in [0, 1] {
        let (waits, signals) = ([gate.at(opens_at)], [done.at(opens_at + 1)]);
        harness.queue().wait(&waits).signal(&signals).host_call(&call, [0; 4], HostCallFlags::empty())?;
    }
    gate.signal(1)?;
    harness.settle()?;
    equal("a deferred signal", done.query()?, 0)
}

fn deferred_signals_later(harness: &Harness<'_>) -> Result<()> {
    let done = harness.semaphore()?;
    submit_deferred(harness, &done)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| done.signal(2));
        harness.wait(&done, 2)?;
        super::semaphores::joined(thread)
    })
}

fn deferred_may_fail_later(harness: &Harness<'_>) -> Result<()> {
    let done = harness.semaphore()?;
    submit_deferred(harness, &done)?;
    done.fail(Error::new(StatusCode::Aborted, "deferred failure"));
    harness.expect_failure("the signal", &done, StatusCode::Aborted)
}

fn sees_what_was_done_before(harness: &Harness<'_>) -> Result<()> {
    let buffer = harness.buffer(&[0; 4])?;
    let seen = buffer.clone();
    let call = HostCall(Arc::new(move |_| {
        let mut bytes = [0; 4];
        seen.read(0, &mut bytes)?;
        same_bytes("what the call sees", &bytes, &[5; 4])
    }));
    let timeline = harness.semaphore()?;
    {
        harness.queue().signal(&[timeline.at(1)]).fill(&buffer, &[5], 0)?;
        let (waits, signals) = ([timeline.at(1)], [timeline.at(2)]);
        harness.queue().wait(&waits).signal(&signals).host_call(&call, [0; 4], HostCallFlags::empty())?;
    }
    harness.wait(&timeline, 2)
}

fn later_work_sees_what_it_did(harness: &Harness<'_>) -> Result<()> {
    let source = harness.buffer(&[0; 4])?;
    let target = harness.buffer(&[0; 4])?;
    let written = source.clone();
    let call = HostCall(Arc::new(move |arguments| written.write(0, &[arguments[0] as u8; 4])));
    let timeline = harness.semaphore()?;
    {
        harness.queue().wait(&[timeline.at(1)]).signal(&[timeline.at(2)]).copy(&source, &target, 0)?;
        harness.queue().signal(&[timeline.at(1)]).host_call(&call, [8, 0, 0, 0], HostCallFlags::empty())?;
    }
    harness.wait(&timeline, 2)?;
    same_bytes("the copy", &harness.read(&target)?, &[8; 4])
}

fn may_signal_and_submit(harness: &Harness<'_>) -> Result<()> {
    let device = harness.device.clone();
    let buffer = harness.buffer(&[0; 4])?;
    let (inner, side, outer) = (harness.semaphore()?, harness.semaphore()?, harness.semaphore()?);
    let (target, inner_done, sideways) = (buffer.clone(), inner.clone(), side.clone());
    let call = HostCall(Arc::new(move |_| {
        sideways.signal(3)?;
        let signals = [inner_done.at(1)];
        device.queue(QUEUE_AFFINITY_ANY).signal(&signals).fill(&target, &[4], 0)
    }));
    harness.queue().signal(&[outer.at(1)]).host_call(&call, [0; 4], HostCallFlags::empty())?;
    harness.wait(&outer, 1)?;
    harness.wait(&side, 3)?;
    harness.wait(&inner, 1)?;
    same_bytes("what the call submitted", &harness.read(&buffer)?, &[4; 4])
}

fn one_call_submitted_often(harness: &Harness<'_>) -> Result<()> {
    let calls = Arc::new(AtomicU64::new(0));
    let call = counter(&calls);
    let timeline = harness.semaphore()?;
    for value in (0..20).rev() {
        let (waits, signals) = ([timeline.at(value + 1)], [timeline.at(value + 2)]);
        harness.queue().wait(&waits).signal(&signals).host_call(&call, [value; 4], HostCallFlags::empty())?;
    }
    equal("before", calls.load(Ordering::SeqCst), 0)?;
    timeline.signal(1)?;
    harness.wait(&timeline, 21)?;
    equal("calls", calls.load(Ordering::SeqCst), 20)
}

/// A device that retains calls after they ran leaks their captures.
fn dropped_when_done(harness: &Harness<'_>) -> Result<()> {
    let captured = Arc::new(());
    let held = captured.clone();
    let call = HostCall(Arc::new(move |_| {
        let _ = &held;
        Ok(())
    }));
    harness.run(|queue| queue.host_call(&call, [0; 4], HostCallFlags::empty()))?;
    drop(call);
    // A thread of the device may be about to drop its reference.
    let start = std::time::Instant::now();
    while Arc::strong_count(&captured) != 1 && start.elapsed() < harness.patience() {
        std::thread::yield_now();
    }
    equal("owners left", Arc::strong_count(&captured), 1)
}
