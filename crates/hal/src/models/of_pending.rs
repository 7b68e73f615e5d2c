use rehal_base::{Error, Result, StatusCode};

use super::pending::{KeptSubmission, PendingSubmissions};
use super::sync::{AtomicU64, Ordering, explore, explore_bounded, thread};
use super::{Counter, at, registered, semaphore};
use crate::{QUEUE_AFFINITY_ANY, QueueOp, Semaphore, Span, Store, Submission, Timepoint};

/// Work without device waits, which signals 1 of the first semaphore and 2 of the others.
fn work(signals: &[&Semaphore]) -> KeptSubmission {
    let mut store = Store::default();
    for (semaphore, value) in signals.iter().zip([1, 2, 2]) {
        store.lists.timepoints.push(Timepoint { semaphore: store.semaphores.len() as u32, value });
        store.semaphores.push((*semaphore).clone());
    }
    let submission = Submission {
        device: 0,
        affinity: QUEUE_AFFINITY_ANY,
        waits: Span::new(0, 0),
        signals: Span::new(0, signals.len() as u64),
        op: QueueOp::Barrier { flags: 0 },
    };
    KeptSubmission::new(store, submission)
}

/// A device that counts executions.
fn device() -> (PendingSubmissions, Counter) {
    let ran = Counter::default();
    let counter = ran.clone();
    let pending = PendingSubmissions::new(move |kept| {
        counter.add();
        kept.promise().settle(&Ok(()));
    });
    (pending, ran)
}

fn code(outcome: Result<()>) -> StatusCode {
    outcome.map_or_else(|error| error.code(), |()| StatusCode::Ok)
}

#[test]
fn runs_once_when_the_last_wait_is_reached() {
    explore(|| {
        let (a, b, done) = (semaphore(), semaphore(), semaphore());
        let (pending, ran) = device();
        pending.keep_until(&[at(&a, 1), at(&b, 1)], work(&[&done]));
        let signal = thread::spawn({
            let a = a.clone();
            move || a.signal(1).unwrap()
        });
        assert_eq!(ran.get(), 0);
        b.signal(1).unwrap();
        done.wait(1, None).unwrap();
        signal.join().unwrap();
        assert_eq!((ran.get(), pending.count(), registered(&a), registered(&b)), (1, 0, 0, 0));
    });
}

#[test]
fn runs_once_if_reached_during_submission() {
    explore(|| {
        let (a, b, done) = (semaphore(), semaphore(), semaphore());
        let (pending, ran) = device();
        let signal = thread::spawn({
            let (a, b) = (a.clone(), b.clone());
            move || {
                b.signal(1).unwrap();
                a.signal(1).unwrap();
            }
        });
        pending.keep_until(&[at(&a, 1), at(&b, 1)], work(&[&done]));
        done.wait(1, None).unwrap();
        signal.join().unwrap();
        assert_eq!((ran.get(), pending.count(), registered(&a), registered(&b)), (1, 0, 0, 0));
    });
}

/// One wait fails while the other is reached: the submission does not run, and its signals fail once.
#[test]
fn a_failing_wait_fails_the_signals() {
    // Unbounded, it takes more than five minutes.
    explore_bounded(2, || {
        let (a, b, done) = (semaphore(), semaphore(), semaphore());
        let (pending, ran) = device();
        let fail = thread::spawn({
            let a = a.clone();
            move || a.fail(Error::data_loss("gone"))
        });
        let signal = thread::spawn({
            let b = b.clone();
            move || b.signal(1).unwrap()
        });
        pending.keep_until(&[at(&a, 1), at(&b, 1)], work(&[&done]));
        assert_eq!(code(done.wait(1, None)), StatusCode::DataLoss);
        fail.join().unwrap();
        signal.join().unwrap();
        assert_eq!((ran.get(), pending.count(), registered(&a), registered(&b)), (0, 0, 0, 0));
    });
}

/// The device is dropped while the wait is reached: the submission runs, or its signals fail, and no waiter
/// hangs.
#[test]
fn a_released_device_fails_or_has_run_the_submission() {
    explore(|| {
        let (a, done) = (semaphore(), semaphore());
        let (pending, ran) = device();
        pending.keep_until(&[at(&a, 1)], work(&[&done]));
        let signal = thread::spawn({
            let a = a.clone();
            move || a.signal(1).unwrap()
        });
        drop(pending);
        let outcome = code(done.wait(1, None));
        signal.join().unwrap();
        assert_eq!(outcome, if ran.get() == 1 { StatusCode::Ok } else { StatusCode::Aborted });
        assert_eq!(registered(&a), 0);
    });
}

/// A live handle that can still signal prevents the waiting submission from being considered stranded.
#[test]
fn a_signallable_submission_is_not_stranded() {
    explore(|| {
        let (a, done) = (semaphore(), semaphore());
        let (pending, ran) = device();
        // It waits for 1 of the semaphore whose 2 it signals.
        pending.keep_until(&[at(&a, 1)], work(&[&done, &a]));
        let signal = thread::spawn(move || {
            a.signal(1).unwrap();
            drop(a);
        });
        assert_eq!(pending.fail_stranded(), 0);
        done.wait(1, None).unwrap();
        signal.join().unwrap();
        assert_eq!((ran.get(), pending.count()), (1, 0));
    });
}

/// Two submissions that wait for each other, while the only other handle is dropped: they are eventually
/// found, once.
#[test]
fn a_stranded_submission_fails_once() {
    explore(|| {
        let (a, b, done) = (semaphore(), semaphore(), semaphore());
        let (pending, ran) = device();
        pending.keep_until(&[at(&a, 1)], work(&[&done, &b]));
        pending.keep_until(&[at(&b, 1)], work(&[&a]));
        drop(b);
        // Counting handles is not a step of the model, so this adds one.
        let step = std::sync::Arc::new(AtomicU64::new(0));
        let release = thread::spawn({
            let step = step.clone();
            move || {
                step.store(1, Ordering::SeqCst);
                drop(a);
            }
        });
        step.load(Ordering::SeqCst);
        let early = pending.fail_stranded();
        release.join().unwrap();
        let late = pending.fail_stranded();
        assert!(early == 0 || late == 0);
        assert_eq!((early + late, ran.get(), pending.count()), (2, 0, 0));
        assert_eq!(code(done.wait(1, None)), StatusCode::Aborted);
    });
}
