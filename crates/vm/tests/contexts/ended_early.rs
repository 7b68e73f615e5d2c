//! Invocations that are dropped while suspended leak nothing.

use crate::host::{Host, number};
use rehal_vm::{Invocation, Step, Value};

/// Where an invocation suspends, and how many tokens it then holds.
const STOPS: &[(&str, &[i32], usize)] = &[
    ("lent.slow", &[1], 1),
    ("lent.slow_inside", &[1], 2),
    ("lent.waiting", &[], 2),
    ("lent.failing", &[1], 2),
];

#[test]
fn dropped_invocations_release_their_references() {
    let host = Host::default();
    let context = host.context(&["lent"]).unwrap();
    for _ in 0..3 {
        for (name, arguments, alive) in STOPS {
            let mut invocation = Invocation::new(&context.function(name).unwrap());
            let step = invocation.start(arguments.iter().map(|value| Value::I32(*value))).unwrap();
            assert!(matches!(step, Step::Yielded | Step::Waiting(_)), "{name}: {step:?}");
            assert_eq!(host.alive(), *alive, "{name}");
            drop(step);
            drop(invocation);
            assert_eq!(host.alive(), 0, "{name}");
            // The next one reuses its machine, which must be empty.
            let results = context.function("lent.slow").unwrap().call(&[Value::I32(1)]).unwrap();
            assert_eq!(results.iter().map(number).collect::<Vec<_>>(), [7, 7], "{name}");
            assert_eq!(host.alive(), 1);
        }
    }
}

#[test]
fn dropping_an_invocation_unwinds_both_modules() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    let linger = context.function("client.linger").unwrap();
    for resumptions in 0..4 {
        let mut invocation = Invocation::new(&linger);
        let mut step = invocation.start([Value::I32(5), host.token(1), host.token(2)]).unwrap();
        for _ in 0..resumptions {
            assert!(matches!(step, Step::Yielded));
            step = invocation.resume().unwrap();
        }
        assert!(matches!(step, Step::Yielded));
        assert_eq!(host.alive(), 2);
        // Many at once; the first is dropped first.
        let mut others: Vec<Invocation> = (0..4).map(|_| Invocation::new(&linger)).collect();
        for other in &mut others {
            let step = other.start([Value::I32(5), host.token(3), host.token(4)]).unwrap();
            assert!(matches!(step, Step::Yielded));
        }
        drop(invocation);
        assert_eq!(host.alive(), 8);
        for (left, mut other) in others.into_iter().enumerate() {
            let step = other.resume().unwrap();
            step.block(&mut other).unwrap();
            let results = other.take_results();
            assert!(matches!(results[..], [_, _, Value::I32(5)]));
            assert_eq!((number(&results[0]), number(&results[1])), (3, 4));
            drop(results);
            assert_eq!(host.alive(), 6 - 2 * left);
        }
    }
}

#[test]
fn an_invocation_keeps_its_context_until_it_ends() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    let mut invocation = Invocation::new(&context.function("client.linger").unwrap());
    assert!(matches!(invocation.start([Value::I32(1), host.token(1), Value::NULL]).unwrap(), Step::Yielded));
    drop(context);
    assert_eq!((host.states(), host.alive(), host.notes().len()), (1, 1, 3));
    drop(invocation);
    // Both deinitialisers ran, and then the state of the native module was dropped.
    assert_eq!((host.states(), host.alive(), host.notes().len()), (0, 0, 5));
}
