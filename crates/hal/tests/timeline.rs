//! Timelines in isolation: values, failures, callbacks and cancellation.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{
    Fence, Promise, Semaphore, SemaphoreBackend, Timeline, Timepoint, defer_callbacks, wait_any,
};

const NOW: Option<Duration> = Some(Duration::ZERO);

/// Counts its drops.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Counted(Drops);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drops {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A callback that owns a counted value.
    fn callback(&self) -> Box<dyn FnOnce(Result<()>) + Send> {
        let counted = Counted(self.clone());
        Box::new(move |_| drop(counted))
    }
}

/// A semaphore, and its timeline.
fn timeline() -> Semaphore {
    Semaphore::new(Timeline::new(0))
}

fn registered(semaphore: &Semaphore) -> usize {
    (semaphore.backend() as &dyn Any).downcast_ref::<Timeline>().unwrap().registered_callbacks()
}

fn at(semaphore: &Semaphore, value: u64) -> Timepoint<&Semaphore> {
    Timepoint { semaphore, value }
}

#[test]
fn the_payload_increases() {
    let timeline = Timeline::new(3);
    assert_eq!(timeline.query().unwrap(), 3);
    timeline.signal(5).unwrap();
    for value in [5, 3] {
        let refused = timeline.signal(value).unwrap_err();
        assert_eq!(refused.code(), StatusCode::OutOfRange);
        let message = format!("semaphore payload must increase: current 5, signalled {value}");
        assert_eq!(refused.message(), message);
    }
    let refused = timeline.signal(u64::MAX).unwrap_err();
    assert_eq!(refused.code(), StatusCode::OutOfRange);
    let message = "semaphore payload must be below 18446744073709551615, which is reserved for failure";
    assert_eq!(refused.message(), message);
    timeline.wait(5, None).unwrap();
    let late = timeline.wait(6, Some(Duration::from_millis(1))).unwrap_err();
    assert_eq!(late.code(), StatusCode::DeadlineExceeded);
    assert_eq!(late.message(), "timed out waiting for a semaphore to reach 6: current 5");
}

#[test]
fn callbacks_of_one_signal_run_in_registration_order() {
    let semaphore = timeline();
    let order = Arc::new(Mutex::new(Vec::new()));
    for value in [3, 1, 2, 9, 1] {
        let order = order.clone();
        semaphore.on_reached(value, Box::new(move |_| order.lock().unwrap().push(value))).detach();
    }
    semaphore.signal(3).unwrap();
    assert_eq!(*order.lock().unwrap(), [3, 1, 2, 1]);
}

#[test]
fn a_long_chain_does_not_overflow_the_stack() {
    let chain: Vec<_> = (0..100_000).map(|_| timeline()).collect();
    for pair in chain.windows(2) {
        let next = pair[1].clone();
        let signal = move |outcome: Result<()>| outcome.and_then(|()| next.signal(1)).unwrap();
        pair[0].on_reached(1, Box::new(signal)).detach();
    }
    chain[0].signal(1).unwrap();
    assert_eq!(chain.last().unwrap().query().unwrap(), 1);
}

#[test]
fn a_dropped_registration_cancels_its_callback() {
    let semaphore = timeline();
    let (kept, dropped) = (Drops::default(), Drops::default());
    let registration = semaphore.on_reached(1, dropped.callback());
    semaphore.on_reached(1, kept.callback()).detach();
    assert_eq!(registered(&semaphore), 2);
    drop(registration);
    assert_eq!((dropped.count(), registered(&semaphore)), (1, 1));
    semaphore.signal(1).unwrap();
    assert_eq!((kept.count(), registered(&semaphore)), (1, 0));
    // A registration may outlive its semaphore.
    let registration = semaphore.on_reached(2, kept.callback());
    drop(semaphore);
    assert_eq!(kept.count(), 2);
    drop(registration);
}

/// A callback may hold the last handle of its semaphore, or registrations with it.
#[test]
fn a_callback_may_hold_its_own_registration_and_semaphore() {
    let semaphore = timeline();
    let inner = semaphore.on_reached(2, Box::new(|_| panic!("cancelled")));
    let held = (inner, semaphore.clone());
    let outer = semaphore.on_reached(1, Box::new(move |_| drop(held)));
    drop(semaphore);
    drop(outer);
    let semaphore = timeline();
    let own = Arc::new(Mutex::new(None));
    let registration = semaphore.on_reached(
        1,
        Box::new({
            let own = own.clone();
            move |_| drop(own.lock().unwrap().take())
        }),
    );
    *own.lock().unwrap() = Some(registration);
    semaphore.signal(1).unwrap();
    assert!(own.lock().unwrap().is_none());
}

#[test]
fn callbacks_of_a_released_semaphore_fail() {
    let semaphore = Semaphore::new(Timeline::new(3));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for value in [4, 5] {
        let seen = seen.clone();
        semaphore.on_reached(value, Box::new(move |outcome| seen.lock().unwrap().push(outcome))).detach();
    }
    drop(semaphore);
    let seen = seen.lock().unwrap();
    let outcomes: Vec<_> = seen.iter().map(|it| it.as_ref().unwrap_err()).collect();
    assert_eq!(outcomes.len(), 2);
    for error in outcomes {
        assert_eq!(error.code(), StatusCode::Aborted);
        let message = "the semaphore was released at 3, before the timepoint was reached";
        assert_eq!(error.message(), message);
    }
}

/// In a long-running host, waits that time out must not leak registrations in long-lived semaphores.
#[test]
fn a_hundred_thousand_cancelled_waits_are_cleaned_up() {
    let semaphores = [timeline(), timeline()];
    let drops = Drops::default();
    let fence = Fence::join(semaphores.iter().map(|it| Fence::at(it.clone(), 1)).collect::<Vec<_>>().iter())
        .unwrap()
        .unwrap();
    let timepoints = semaphores.each_ref().map(|semaphore| at(semaphore, 1));
    for _ in 0..100_000 {
        assert_eq!(wait_any(&timepoints, NOW).unwrap_err().code(), StatusCode::DeadlineExceeded);
        assert_eq!(fence.wait(NOW).unwrap_err().code(), StatusCode::DeadlineExceeded);
        drop(fence.on_reached(drops.callback()));
    }
    assert_eq!(drops.count(), 100_000);
    assert_eq!(semaphores.each_ref().map(registered), [0, 0]);
    // All at once.
    let registrations: Vec<_> = (0..100_000).map(|_| semaphores[0].on_reached(7, drops.callback())).collect();
    assert_eq!(registered(&semaphores[0]), 100_000);
    drop(registrations);
    assert_eq!((drops.count(), registered(&semaphores[0])), (200_000, 0));
    // A reached timepoint removes the registration with the other semaphore.
    semaphores[1].signal(1).unwrap();
    assert_eq!(wait_any(&timepoints, None).unwrap(), 1);
    assert_eq!(registered(&semaphores[0]), 0);
}

fn panics(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
    panic.downcast_ref::<&str>().unwrap().to_string()
}

#[test]
fn a_callback_that_panics_does_not_affect_others() {
    let (first, second) = (timeline(), timeline());
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |ran: &Arc<AtomicUsize>| {
        let ran = ran.clone();
        Box::new(move |_: Result<()>| {
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    first.on_reached(1, count(&ran)).detach();
    first.on_reached(1, Box::new(|_| panic!("first"))).detach();
    // Callbacks queued by callbacks run as well, whether or not one panics.
    let signal = second.clone();
    first.on_reached(1, Box::new(move |_| signal.signal(1).unwrap())).detach();
    first.on_reached(1, count(&ran)).detach();
    second.on_reached(1, Box::new(|_| panic!("second"))).detach();
    second.on_reached(1, count(&ran)).detach();
    assert_eq!(panics(|| first.signal(1).unwrap()), "first");
    assert_eq!(ran.load(Ordering::Relaxed), 3);
    assert_eq!((first.query().unwrap(), second.query().unwrap()), (1, 1));
    // The thread can still signal these timelines and others.
    for semaphore in [&first, &second, &timeline()] {
        let before = ran.load(Ordering::Relaxed);
        semaphore.on_reached(2, count(&ran)).detach();
        semaphore.signal(2).unwrap();
        semaphore.on_reached(1, count(&ran)).detach();
        assert_eq!(ran.load(Ordering::Relaxed), before + 2);
    }
    // A callback that runs immediately, because its value is reached or it fails.
    assert_eq!(panics(|| first.on_reached(1, Box::new(|_| panic!("at once"))).detach()), "at once");
    first.on_reached(9, Box::new(|_| panic!("failing"))).detach();
    assert_eq!(panics(|| first.fail(Error::data_loss("gone"))), "failing");
    second.on_reached(9, Box::new(|_| panic!("released"))).detach();
    assert_eq!(panics(|| drop(second)), "released");
    first.on_reached(1, count(&ran)).detach();
    assert_eq!(ran.load(Ordering::Relaxed), 10);
}

/// A second panic on an unwinding thread would abort the process.
#[test]
fn a_callback_panic_during_unwinding_is_swallowed() {
    struct SignalsOnDrop(Semaphore);
    impl Drop for SignalsOnDrop {
        fn drop(&mut self) {
            self.0.signal(1).unwrap();
        }
    }
    let semaphore = timeline();
    semaphore.on_reached(1, Box::new(|_| panic!("inner"))).detach();
    let unwound = panics(|| {
        let _signals = SignalsOnDrop(semaphore.clone());
        panic!("outer");
    });
    assert_eq!((unwound.as_str(), semaphore.query().unwrap()), ("outer", 1));
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let count = move |_: Result<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    semaphore.on_reached(1, Box::new(count)).detach();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

/// Thread-local storage may hold semaphores, and is destroyed in any order.
#[test]
fn callbacks_run_while_a_thread_exits() {
    thread_local!(static HELD: std::cell::RefCell<Vec<Semaphore>> = const { std::cell::RefCell::new(Vec::new()) });
    let ran = Arc::new(AtomicUsize::new(0));
    for before in [false, true] {
        let ran = ran.clone();
        std::thread::spawn(move || {
            let semaphore = timeline();
            let run_one = || semaphore.on_reached(0, Box::new(|_| {})).detach();
            if before {
                run_one();
            }
            HELD.with_borrow_mut(|held| held.push(semaphore.clone()));
            if !before {
                run_one();
            }
            let count = move |_: Result<()>| {
                ran.fetch_add(1, Ordering::Relaxed);
            };
            semaphore.on_reached(1, Box::new(count)).detach();
        })
        .join()
        .unwrap();
    }
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

/// The payloads of both semaphores that their callbacks see when both are signalled, or failed, by `settle`.
fn seen_by_callbacks(settle: impl FnOnce(&[Semaphore; 2])) -> Vec<Result<[u64; 2]>> {
    let semaphores = [timeline(), timeline()];
    let seen = Arc::new(Mutex::new(Vec::new()));
    for semaphore in &semaphores {
        let (seen, both) = (seen.clone(), semaphores.clone());
        let see = move |_: Result<()>| {
            let waited = both.iter().try_for_each(|it| it.wait(1, NOW));
            let values = waited.and_then(|()| Ok([both[0].query()?, both[1].query()?]));
            seen.lock().unwrap().push(values);
        };
        semaphore.on_reached(1, Box::new(see)).detach();
    }
    settle(&semaphores);
    Arc::into_inner(seen).unwrap().into_inner().unwrap()
}

#[test]
fn callbacks_see_every_signal_of_a_promise_or_fence() {
    let fence = |both: &[Semaphore; 2]| {
        let fences = both.each_ref().map(|it| Fence::at(it.clone(), 1));
        Fence::join(&fences).unwrap().unwrap()
    };
    let lost = || Error::data_loss("gone");
    let ok = seen_by_callbacks(|[a, b]| Promise::new(&[a.at(1), b.at(1)]).settle(&Ok(())));
    assert_eq!(ok.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [[1, 1]; 2]);
    let ok = seen_by_callbacks(|both| fence(both).signal().unwrap());
    assert_eq!(ok.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [[1, 1]; 2]);
    for failed in [
        seen_by_callbacks(|[a, b]| Promise::new(&[a.at(1), b.at(1)]).settle(&Err(lost()))),
        seen_by_callbacks(|[a, b]| drop(Promise::new(&[b.at(1), a.at(1)]))),
        seen_by_callbacks(|both| fence(both).fail(&lost())),
    ] {
        assert_eq!(failed.len(), 2);
        assert!(
            failed
                .iter()
                .all(|it| it.as_ref().is_err_and(|error| error.code() != StatusCode::DeadlineExceeded))
        );
    }
}

#[test]
fn deferred_callbacks_run_when_the_outermost_call_returns() {
    let [first, second] = [timeline(), timeline()];
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = ran.clone();
        Box::new(move |_: Result<()>| {
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    first.on_reached(1, count()).detach();
    second.on_reached(1, count()).detach();
    second.on_reached(2, Box::new(|_| panic!("a callback"))).detach();
    second.on_reached(2, count()).detach();
    defer_callbacks(|| {
        defer_callbacks(|| first.signal(1).unwrap());
        second.signal(1).unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        // A thread that waits runs them first: they may do what it waits for.
        let late = first.wait(2, Some(Duration::from_millis(1))).unwrap_err();
        assert_eq!((late.code(), ran.load(Ordering::Relaxed)), (StatusCode::DeadlineExceeded, 2));
    });
    // Panics of the work and of callbacks: the first is resumed when all callbacks have run.
    let panic = panics(|| {
        defer_callbacks(|| {
            second.signal(2).unwrap();
            panic!("the work");
        });
    });
    assert_eq!((panic.as_str(), ran.load(Ordering::Relaxed)), ("the work", 3));
    first.on_reached(2, count()).detach();
    first.signal(2).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 4);
}
