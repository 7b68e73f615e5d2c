//! Timelines in isolation, from one thread and from several.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{wait_all, wait_any};

use crate::check::{RANGE, equal, holds, refused};
use crate::harness::Harness;
use crate::test::List;

const LATE: &[StatusCode] = &[StatusCode::DeadlineExceeded];
const NOW: Option<Duration> = Some(Duration::ZERO);
const SOON: Option<Duration> = Some(Duration::from_millis(2));

pub(super) fn add(list: &mut List) {
    list.add("semaphore/starts_at_its_initial_value", &[], starts_at_its_initial_value);
    list.add("semaphore/only_grows", &[], only_grows);
    list.add("semaphore/wait_for_what_is_reached", &[], wait_for_what_is_reached);
    list.add("semaphore/wait_times_out", &[], wait_times_out);
    list.add("semaphore/failure_stays", &[], failure_stays);
    list.add("semaphore/failure_keeps_its_code_and_words", &[], failure_keeps_its_code_and_words);
    list.add("semaphore/failed_cannot_be_signalled", &[], failed_cannot_be_signalled);
    list.add("semaphore/callbacks", &[], callbacks_run_once);
    list.add("semaphore/callbacks_see_failure", &[], callbacks_see_failure);
    list.add("semaphore/callback_may_signal_another", &[], callback_may_signal_another);
    list.add("wait_all/nothing", &[], |_| wait_all(&[], NOW));
    list.add("wait_all/all_reached", &[], all_reached);
    list.add("wait_all/one_missing_times_out", &[], one_missing_times_out);
    list.add("wait_all/one_failed", &[], one_failed);
    list.add("wait_all/reached_in_any_order", &[], reached_in_any_order);
    list.add("wait_any/one_reached", &[], any_reached);
    list.add("wait_any/none_reached_times_out", &[], none_reached_times_out);
    list.add("wait_any/one_failed", &[], any_failed);
    list.add("semaphore/threads/wait_any_of_several", &[], wait_any_of_several);
    list.add("semaphore/threads/wait_any_that_fails", &[], wait_any_that_fails);
    list.add("semaphore/threads/signalled_beyond", &[], signalled_beyond);
    list.add("semaphore/threads/ping_pong", &[], ping_pong);
    list.add("semaphore/threads/many_waiters_one_value", &[], many_waiters_one_value);
    list.add("semaphore/threads/waiters_in_any_order", &[], waiters_in_any_order);
    list.add("semaphore/threads/failure_wakes_all", &[], failure_wakes_all);
    list.add("semaphore/threads/wait_all_of_the_same", &[], wait_all_of_the_same);
    list.add("semaphore/threads/signallers_race", &[], signallers_race);
}

fn starts_at_its_initial_value(harness: &Harness<'_>) -> Result<()> {
    for value in [0, 1, 100, u64::from(u32::MAX) + 7, 1 << 62] {
        let semaphore = harness.semaphore_at(value)?;
        equal("value", semaphore.query()?, value)?;
        semaphore.wait(value, NOW)?;
        semaphore.signal(value + 1)?;
        equal("after a signal", semaphore.query()?, value + 1)?;
    }
    Ok(())
}

fn only_grows(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore_at(2)?;
    semaphore.signal(3)?;
    semaphore.signal(40)?;
    for value in [40, 39, 3, 0] {
        refused("a signal that does not increase the payload", semaphore.signal(value), RANGE)?;
        equal("value", semaphore.query()?, 40)?;
    }
    semaphore.signal(41)?;
    equal("value", semaphore.query()?, 41)
}

fn wait_for_what_is_reached(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    semaphore.wait(0, NOW)?;
    semaphore.signal(5)?;
    for value in [5, 1, 0, 4] {
        semaphore.wait(value, NOW)?;
        semaphore.wait(value, None)?;
    }
    Ok(())
}

fn wait_times_out(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    semaphore.signal(1)?;
    refused("no time", semaphore.wait(2, NOW), LATE)?;
    refused("a little time", semaphore.wait(2, SOON), LATE)?;
    equal("a wait changes nothing", semaphore.query()?, 1)?;
    semaphore.signal(2)?;
    semaphore.wait(2, NOW)
}

fn failure_stays(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    semaphore.signal(1)?;
    semaphore.fail(Error::new(StatusCode::DataLoss, "first"));
    semaphore.fail(Error::new(StatusCode::NotFound, "second"));
    let codes = &[StatusCode::DataLoss];
    refused("a query", semaphore.query(), codes)?;
    for value in [1, 2, 1000] {
        refused("a wait", semaphore.wait(value, NOW), codes)?;
        refused("a wait without a deadline", semaphore.wait(value, None), codes)?;
    }
    Ok(())
}

fn failure_keeps_its_code_and_words(harness: &Harness<'_>) -> Result<()> {
    for code in [StatusCode::Cancelled, StatusCode::Aborted, StatusCode::Unavailable, StatusCode::Internal] {
        let semaphore = harness.semaphore()?;
        semaphore.fail(Error::new(code, "the original message"));
        match semaphore.query() {
            Ok(value) => return Err(Error::data_loss(format!("a failed semaphore is at {value}"))),
            Err(error) => {
                equal("code", error.code(), code)?;
                holds("the message is preserved", error.message().contains("the original message"))?;
            }
        }
    }
    Ok(())
}

fn failed_cannot_be_signalled(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    semaphore.fail(Error::new(StatusCode::Aborted, "gone"));
    refused("a signal", semaphore.signal(1), &[StatusCode::Aborted])?;
    refused("a query after it", semaphore.query(), &[StatusCode::Aborted])
}

fn callbacks_run_once(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    let seen = Arc::new(AtomicU64::new(0));
    let note = |value: u64, mark: u64| {
        let seen = seen.clone();
        let mark = move |outcome: Result<()>| {
            seen.fetch_add(if outcome.is_ok() { mark } else { 1 << 40 }, Ordering::SeqCst);
        };
        semaphore.on_reached(value, Box::new(mark)).detach();
    };
    note(2, 1);
    note(3, 100);
    equal("before", seen.load(Ordering::SeqCst), 0)?;
    semaphore.signal(1)?;
    equal("too early", seen.load(Ordering::SeqCst), 0)?;
    semaphore.signal(2)?;
    equal("one due", seen.load(Ordering::SeqCst), 1)?;
    note(1, 10_000);
    equal("due immediately", seen.load(Ordering::SeqCst), 10_001)?;
    semaphore.signal(9)?;
    semaphore.signal(10)?;
    equal("each once", seen.load(Ordering::SeqCst), 10_101)
}

fn callbacks_see_failure(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    let seen = Arc::new(AtomicU64::new(0));
    let note = || {
        let seen = seen.clone();
        let mark = move |outcome: Result<()>| {
            if outcome.is_err_and(|error| error.code() == StatusCode::Aborted) {
                seen.fetch_add(1, Ordering::SeqCst);
            }
        };
        semaphore.on_reached(5, Box::new(mark)).detach();
    };
    note();
    semaphore.fail(Error::new(StatusCode::Aborted, "gone"));
    equal("a callback that waited", seen.load(Ordering::SeqCst), 1)?;
    note();
    equal("a callback registered late", seen.load(Ordering::SeqCst), 2)
}

fn callback_may_signal_another(harness: &Harness<'_>) -> Result<()> {
    let (first, second) = harness.two_semaphores()?;
    let onward = second.clone();
    let signal = move |outcome: Result<()>| {
        if let Err(error) = outcome.and_then(|()| onward.signal(7)) {
            onward.fail(error);
        }
    };
    first.on_reached(1, Box::new(signal)).detach();
    first.signal(1)?;
    harness.wait(&second, 7)
}

fn all_reached(harness: &Harness<'_>) -> Result<()> {
    let a = harness.semaphore_at(3)?;
    let b = harness.semaphore()?;
    b.signal(2)?;
    wait_all(&[a.at(3), b.at(2)], NOW)?;
    wait_all(&[a.at(1), a.at(2), b.at(1)], None)
}

fn one_missing_times_out(harness: &Harness<'_>) -> Result<()> {
    let a = harness.semaphore_at(3)?;
    let b = harness.semaphore()?;
    refused("the last", wait_all(&[a.at(3), b.at(1)], SOON), LATE)?;
    refused("the first", wait_all(&[b.at(1), a.at(3)], NOW), LATE)
}

fn one_failed(harness: &Harness<'_>) -> Result<()> {
    let a = harness.semaphore_at(3)?;
    let b = harness.semaphore()?;
    b.fail(Error::new(StatusCode::Aborted, "gone"));
    let patience = Some(harness.patience());
    refused("a wait", wait_all(&[a.at(3), b.at(1)], patience), &[StatusCode::Aborted])
}

fn reached_in_any_order(harness: &Harness<'_>) -> Result<()> {
    let semaphores: Vec<_> = (0..6).map(|_| harness.semaphore()).collect::<Result<_>>()?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in [3, 0, 5, 1, 4, 2] {
                // A failure shows as a wait that never ends.
                let _ = semaphores[index].signal(1);
                std::thread::yield_now();
            }
        });
        let timepoints: Vec<_> = semaphores.iter().map(|semaphore| semaphore.at(1)).collect();
        wait_all(&timepoints, Some(harness.patience()))
    })
}

fn any_reached(harness: &Harness<'_>) -> Result<()> {
    let a = harness.semaphore_at(3)?;
    let b = harness.semaphore()?;
    equal("the first", wait_any(&[a.at(2), b.at(1)], NOW)?, 0)?;
    equal("the last", wait_any(&[b.at(1), a.at(3)], None)?, 1)?;
    b.signal(1)?;
    equal("of two", wait_any(&[b.at(1), a.at(3)], None)?, 0)?;
    refused("of none", wait_any(&[], None), &[StatusCode::InvalidArgument])
}

fn none_reached_times_out(harness: &Harness<'_>) -> Result<()> {
    let a = harness.semaphore_at(3)?;
    let b = harness.semaphore()?;
    for time in [NOW, SOON] {
        refused("a wait", wait_any(&[a.at(4), b.at(1)], time), LATE)?;
    }
    // An earlier wait leaves no registration behind.
    a.signal(4)?;
    equal("after it", wait_any(&[b.at(1), a.at(4)], NOW)?, 1)
}

fn any_failed(harness: &Harness<'_>) -> Result<()> {
    let (a, b) = harness.two_semaphores()?;
    b.fail(Error::new(StatusCode::Aborted, "gone"));
    let patience = Some(harness.patience());
    refused("a wait", wait_any(&[a.at(3), b.at(1)], patience), &[StatusCode::Aborted])
}

fn wait_any_of_several(harness: &Harness<'_>) -> Result<()> {
    let semaphores: Vec<_> = (0..4).map(|_| harness.semaphore()).collect::<Result<_>>()?;
    for (round, winner) in (1..).zip([2, 0, 3, 3, 1]) {
        let timepoints: Vec<_> = semaphores.iter().map(|semaphore| semaphore.at(round * 10)).collect();
        std::thread::scope(|scope| {
            let signaller = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(1));
                semaphores[winner].signal(round * 10)
            });
            let first = wait_any(&timepoints, Some(harness.patience()))?;
            joined(signaller)?;
            equal("the reached semaphore", first, winner)
        })?;
    }
    Ok(())
}

fn wait_any_that_fails(harness: &Harness<'_>) -> Result<()> {
    let (a, b) = harness.two_semaphores()?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait_any(&[a.at(1), b.at(1)], Some(harness.patience())));
        std::thread::sleep(Duration::from_millis(1));
        b.fail(Error::new(StatusCode::Unavailable, "gone"));
        refused("a waiter", joined(waiter), &[StatusCode::Unavailable])
    })
}

fn signalled_beyond(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| harness.wait(&semaphore, 2));
        let signaller = scope.spawn(|| semaphore.signal(3));
        joined(waiter)?;
        joined(signaller)
    })?;
    equal("value", semaphore.query()?, 3)
}

fn ping_pong(harness: &Harness<'_>) -> Result<()> {
    const ROUNDS: u64 = 200;
    let (there, back) = harness.two_semaphores()?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            (1..=ROUNDS).try_for_each(|round| {
                harness.wait(&there, round)?;
                back.signal(round)
            })
        });
        for round in 1..=ROUNDS {
            there.signal(round)?;
            harness.wait(&back, round)?;
        }
        joined(echo)
    })
}

fn many_waiters_one_value(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(|| harness.wait(&semaphore, 1))).collect();
        semaphore.signal(1)?;
        waiters.into_iter().try_for_each(joined)
    })
}

fn waiters_in_any_order(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    std::thread::scope(|scope| {
        let values = [5, 2, 8, 1, 4, 7, 3, 6];
        let waiters = values.map(|value| {
            let semaphore = &semaphore;
            scope.spawn(move || {
                harness.wait(semaphore, value)?;
                holds("a waiter wakes at its value or later", semaphore.query()? >= value)
            })
        });
        for value in 1..=8 {
            semaphore.signal(value)?;
            std::thread::yield_now();
        }
        waiters.into_iter().try_for_each(joined)
    })
}

fn failure_wakes_all(harness: &Harness<'_>) -> Result<()> {
    let semaphore = harness.semaphore()?;
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (1..=8)
            .map(|value| {
                let semaphore = &semaphore;
                scope.spawn(move || {
                    let outcome = harness.wait(semaphore, value);
                    refused("a waiter", outcome, &[StatusCode::Unavailable])
                })
            })
            .collect();
        semaphore.fail(Error::new(StatusCode::Unavailable, "gone"));
        waiters.into_iter().try_for_each(joined)
    })
}

fn wait_all_of_the_same(harness: &Harness<'_>) -> Result<()> {
    let (a, b) = harness.two_semaphores()?;
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..6)
            .map(|index| {
                let (a, b) = (&a, &b);
                scope.spawn(move || {
                    let forth = [a.at(1), b.at(1)];
                    let back = [b.at(1), a.at(1)];
                    let patience = Some(harness.patience());
                    wait_all(if index % 2 == 0 { &forth } else { &back }, patience)
                })
            })
            .collect();
        a.signal(1)?;
        b.signal(1)?;
        waiters.into_iter().try_for_each(joined)
    })
}

/// Signals from several threads: those that are too low fail, the highest wins.
fn signallers_race(harness: &Harness<'_>) -> Result<()> {
    const THREADS: u64 = 4;
    const EACH: u64 = 250;
    let semaphore = harness.semaphore()?;
    std::thread::scope(|scope| {
        let signallers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let semaphore = &semaphore;
                scope.spawn(move || {
                    for step in 0..EACH {
                        let value = 1 + thread + step * THREADS;
                        if let Err(error) = semaphore.signal(value) {
                            refused::<()>("a signal that lost", Err(error), RANGE)?;
                        }
                        holds("the payload is at least that value", semaphore.query()? >= value)?;
                    }
                    Ok(())
                })
            })
            .collect();
        signallers.into_iter().try_for_each(joined)
    })?;
    equal("the highest value", semaphore.query()?, THREADS * EACH)
}

/// The result of a thread; propagates its panic.
pub(super) fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
