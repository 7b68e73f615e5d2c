use std::sync::Arc;

use rehal_base::{Error, Result, StatusCode};

use super::sync::{AtomicU64, Ordering, explore, thread};
use super::{Counter, registered, semaphore};

/// A callback that counts its calls and its drop.
#[derive(Clone, Default)]
struct Watched {
    reached: Counter,
    failed: Counter,
    dropped: Counter,
}

struct Held(Watched);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dropped.add();
    }
}

impl Watched {
    fn callback(&self) -> Box<dyn FnOnce(Result<()>) + Send> {
        let held = Held(self.clone());
        Box::new(move |outcome| if outcome.is_ok() { held.0.reached.add() } else { held.0.failed.add() })
    }

    fn counts(&self) -> (usize, usize, usize) {
        (self.reached.get(), self.failed.get(), self.dropped.get())
    }
}

#[test]
fn a_waiter_is_woken() {
    explore(|| {
        let semaphore = semaphore();
        let waiters = [1, 2].map(|value| {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.wait(value, None).unwrap())
        });
        semaphore.signal(1).unwrap();
        semaphore.signal(2).unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

/// Writes before a signal are visible to a thread that reads its value, without a lock.
#[test]
fn a_payload_publishes_prior_writes() {
    explore(|| {
        let semaphore = semaphore();
        let bytes = Arc::new(AtomicU64::new(0));
        let writer = thread::spawn({
            let (semaphore, bytes) = (semaphore.clone(), bytes.clone());
            move || {
                bytes.store(7, Ordering::Relaxed);
                semaphore.signal(1).unwrap();
            }
        });
        if semaphore.query().unwrap() == 1 {
            assert_eq!(bytes.load(Ordering::Relaxed), 7);
        }
        if semaphore.wait(1, Some(std::time::Duration::ZERO)).is_ok() {
            assert_eq!(bytes.load(Ordering::Relaxed), 7);
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_callback_runs_once_under_concurrent_signals() {
    explore(|| {
        let semaphore = semaphore();
        let watched = Watched::default();
        let register = thread::spawn({
            let (semaphore, callback) = (semaphore.clone(), watched.callback());
            move || semaphore.on_reached(2, callback).detach()
        });
        let signal = thread::spawn({
            let semaphore = semaphore.clone();
            // Fails if the other signal was first.
            move || drop(semaphore.signal(2))
        });
        let _ = semaphore.signal(3);
        register.join().unwrap();
        signal.join().unwrap();
        assert_eq!(semaphore.query().unwrap(), 3);
        assert_eq!((watched.counts(), registered(&semaphore)), ((1, 0, 1), 0));
    });
}

#[test]
fn a_failure_reaches_all_waiters() {
    explore(|| {
        let semaphore = semaphore();
        let watched = Watched::default();
        let waiter = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.wait(9, None).unwrap_err().code()
        });
        let register = thread::spawn({
            let (semaphore, callback) = (semaphore.clone(), watched.callback());
            move || semaphore.on_reached(9, callback).detach()
        });
        semaphore.fail(Error::data_loss("gone"));
        assert_eq!(waiter.join().unwrap(), StatusCode::DataLoss);
        register.join().unwrap();
        assert_eq!(watched.counts(), (0, 1, 1));
    });
}

#[test]
fn a_signal_and_a_failure_race_and_one_wins() {
    explore(|| {
        let semaphore = semaphore();
        let watched = Watched::default();
        semaphore.on_reached(1, watched.callback()).detach();
        let signal = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.signal(1).is_ok()
        });
        semaphore.fail(Error::data_loss("gone"));
        let signalled = signal.join().unwrap();
        assert_eq!(watched.counts(), (signalled.into(), (!signalled).into(), 1));
        assert!(semaphore.query().is_err());
    });
}

#[test]
fn a_callback_cancelled_during_a_signal_runs_at_most_once() {
    explore(|| {
        let semaphore = semaphore();
        let (taken, other) = (Watched::default(), Watched::default());
        let registration = semaphore.on_reached(1, taken.callback());
        semaphore.on_reached(1, other.callback()).detach();
        let signal = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.signal(1).unwrap()
        });
        drop(registration);
        signal.join().unwrap();
        let (reached, failed, dropped) = taken.counts();
        assert!(reached <= 1 && failed == 0 && dropped == 1);
        assert_eq!((other.counts(), registered(&semaphore)), ((1, 0, 1), 0));
    });
}

#[test]
fn a_callback_cancelled_before_a_signal_never_runs() {
    explore(|| {
        let semaphore = semaphore();
        let watched = Watched::default();
        let registration = semaphore.on_reached(1, watched.callback());
        let other = Watched::default();
        let early = thread::spawn({
            let semaphore = semaphore.clone();
            move || {
                drop(registration);
                semaphore.signal(1).unwrap();
            }
        });
        semaphore.on_reached(1, other.callback()).detach();
        early.join().unwrap();
        assert_eq!((watched.counts(), other.counts()), ((0, 0, 1), (1, 0, 1)));
    });
}

#[test]
fn a_released_semaphore_fails_a_callback_unless_cancelled() {
    explore(|| {
        let semaphore = semaphore();
        let (kept, taken) = (Watched::default(), Watched::default());
        semaphore.on_reached(1, kept.callback()).detach();
        let registration = semaphore.on_reached(1, taken.callback());
        let release = thread::spawn(move || drop(semaphore));
        drop(registration);
        release.join().unwrap();
        assert_eq!(kept.counts(), (0, 1, 1));
        let (reached, failed, dropped) = taken.counts();
        assert!(reached == 0 && failed <= 1 && dropped == 1);
    });
}

/// Callbacks queued by one thread's callbacks run after them; each thread has a queue of its own.
#[test]
fn chains_of_signals_complete() {
    explore(|| {
        let chain = [semaphore(), semaphore(), semaphore()];
        for pair in chain.windows(2) {
            let next = pair[1].clone();
            pair[0]
                .on_reached(
                    1,
                    Box::new(move |outcome| {
                        outcome.unwrap();
                        // Fails if the other thread was first.
                        let _ = next.signal(1);
                    }),
                )
                .detach();
        }
        let other = thread::spawn({
            let middle = chain[1].clone();
            move || drop(middle.signal(1))
        });
        chain[0].signal(1).unwrap();
        other.join().unwrap();
        chain[2].wait(1, None).unwrap();
    });
}
