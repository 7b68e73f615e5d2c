use std::time::Duration;

use rehal_base::{Error, StatusCode};

use super::sync::{explore, explore_bounded, thread};
use super::wait::{wait_all, wait_any};
use super::{at, registered, semaphore};

const SOON: Option<Duration> = Some(Duration::from_millis(1));

#[test]
fn a_wait_with_a_deadline_ends_with_the_signal_or_the_deadline() {
    explore(|| {
        let semaphore = semaphore();
        let signal = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.signal(1).unwrap()
        });
        match semaphore.wait(1, SOON) {
            Ok(()) => assert_eq!(semaphore.query().unwrap(), 1),
            Err(error) => assert_eq!(error.code(), StatusCode::DeadlineExceeded),
        }
        // Later waits are unaffected by it.
        semaphore.wait(1, None).unwrap();
        signal.join().unwrap();
    });
}

#[test]
fn waiting_for_any_ends_with_the_first_and_cleans_up() {
    explore_bounded(3, || {
        let (a, b) = (semaphore(), semaphore());
        let signals = [a.clone(), b.clone()].map(|it| thread::spawn(move || it.signal(1).unwrap()));
        let first = wait_any(&[at(&a, 1), at(&b, 1)], None).unwrap();
        assert!([&a, &b][first].query().unwrap() == 1);
        assert_eq!((registered(&a), registered(&b)), (0, 0));
        for signal in signals {
            signal.join().unwrap();
        }
    });
}

#[test]
fn waiting_for_any_ends_with_the_deadline_and_cleans_up() {
    explore(|| {
        let (a, b) = (semaphore(), semaphore());
        let signal = thread::spawn({
            let b = b.clone();
            move || b.signal(1).unwrap()
        });
        match wait_any(&[at(&a, 1), at(&b, 1)], SOON) {
            Ok(index) => assert_eq!(index, 1),
            Err(error) => assert_eq!(error.code(), StatusCode::DeadlineExceeded),
        }
        assert_eq!((registered(&a), registered(&b)), (0, 0));
        signal.join().unwrap();
    });
}

#[test]
fn waiting_for_any_and_for_all_ends_with_a_failure() {
    explore(|| {
        let (a, b) = (semaphore(), semaphore());
        let fail = thread::spawn({
            let b = b.clone();
            move || b.fail(Error::data_loss("gone"))
        });
        assert_eq!(wait_any(&[at(&a, 1), at(&b, 1)], None).unwrap_err().code(), StatusCode::DataLoss);
        assert_eq!(wait_all(&[at(&b, 1), at(&a, 1)], None).unwrap_err().code(), StatusCode::DataLoss);
        assert_eq!((registered(&a), registered(&b)), (0, 0));
        fail.join().unwrap();
    });
}
