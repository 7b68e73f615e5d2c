//! Concurrent invocations of one context.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::thread;

use crate::host::Host;
use parking_lot::Mutex;
use rehal_vm::{Function, Invocation, Step, Value};

const THREADS: usize = 8;
const ROUNDS: i32 = 25;

/// The result of `shared.work`, whatever runs concurrently.
fn expected(start: i32, rounds: i32) -> i64 {
    (0..rounds).fold(0_i64, |sum, round| sum.wrapping_mul(31).wrapping_add(i64::from(start + round)))
}

fn arguments(start: i32) -> [Value; 2] {
    [Value::I32(start), Value::I32(ROUNDS)]
}

fn check(invocation: &mut Invocation, start: i32) {
    let results = invocation.take_results();
    assert!(matches!(results[..], [Value::I64(value)] if value == expected(start, ROUNDS)), "{results:?}");
}

fn work() -> Function {
    Host::default().context(&["shared"]).unwrap().function("shared.work").unwrap()
}

#[test]
fn threads_call_one_context_concurrently() {
    let function = work();
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for index in 0..THREADS as i32 {
            let (function, barrier) = (&function, &barrier);
            scope.spawn(move || {
                let mut kept = Invocation::new(function);
                barrier.wait();
                for call in 0..20 {
                    let start = index * 1000 + call;
                    if call % 2 == 0 {
                        kept.call(arguments(start)).unwrap();
                        check(&mut kept, start);
                    } else {
                        let mut own = Invocation::new(function);
                        own.call(arguments(start)).unwrap();
                        check(&mut own, start);
                    }
                }
            });
        }
    });
}

/// An 8-byte read returns a value that was written, never halves of two.
#[test]
fn concurrent_stores_do_not_tear() {
    let context = Host::default().context(&["shared"]).unwrap();
    let function = context.function("shared.hammer").unwrap();
    thread::scope(|scope| {
        for index in 1..=THREADS as i32 {
            let function = &function;
            scope.spawn(move || {
                let results = function.call(&[Value::I32(index * 0x0101), Value::I32(20_000)]).unwrap();
                assert!(matches!(results[..], [Value::I32(value)] if value == index * 0x0101));
            });
        }
    });
}

/// Each step of an invocation runs on an arbitrary thread.
#[test]
fn suspended_invocations_move_between_threads() {
    const INVOCATIONS: i32 = 60;
    let function = work();
    let mut queue = VecDeque::new();
    for start in 0..INVOCATIONS {
        let mut invocation = Invocation::new(&function);
        let step = invocation.start(arguments(start)).unwrap();
        assert!(matches!(step, Step::Yielded));
        queue.push_back((start, invocation));
    }
    let queue = Mutex::new(queue);
    let done = Mutex::new(Vec::new());
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                loop {
                    let Some((start, mut invocation)) = queue.lock().pop_front() else { return };
                    match invocation.resume().unwrap() {
                        Step::Done => {
                            check(&mut invocation, start);
                            done.lock().push(start);
                        }
                        // Every seventh is dropped while suspended.
                        Step::Yielded if start % 7 == 6 => drop(invocation),
                        _ => queue.lock().push_back((start, invocation)),
                    }
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_unstable();
    let finished: Vec<i32> = (0..INVOCATIONS).filter(|start| start % 7 != 6).collect();
    assert_eq!(done, finished);
}

/// Contexts are created and dropped by many threads while others call.
#[test]
fn contexts_are_created_and_dropped_concurrently() {
    let host = Host::default();
    let modules = ["library", "client"];
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..5 {
                    let context = host.context(&modules).unwrap();
                    let count = context.function("client.count").unwrap();
                    // This context is not shared.
                    assert!(matches!(count.call(&[]).unwrap()[..], [Value::I32(102)]));
                }
            });
        }
    });
    assert_eq!((host.states(), host.notes().len()), (0, THREADS * 5 * 5));
}
