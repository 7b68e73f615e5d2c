//! Repeated calls with borrowed arguments.

use crate::host::{Host, number};
use rehal_base::StatusCode;
use rehal_vm::{Invocation, Step, Value};

#[test]
fn borrowed_arguments_are_cloned_for_each_call() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    let mut invocation = Invocation::new(&context.function("client.linger").unwrap());
    let mut arguments = [Value::I32(0), host.token(1), host.token(2)];
    for round in 1..4 {
        arguments[0] = Value::I32(round);
        let step = invocation.start_from(&arguments).unwrap();
        assert!(matches!(step, Step::Yielded));
        let error = invocation.start_from(&arguments).unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition, "suspended");
        step.block(&mut invocation).unwrap();
        let results = invocation.take_results();
        assert_eq!((number(&results[0]), number(&results[1])), (1, 2));
        assert!(matches!(results[2], Value::I32(value) if value == round));
        assert_eq!(host.alive(), 2);
    }
    drop(arguments);
    assert_eq!(host.alive(), 0, "the invocation keeps no argument");
}

#[test]
fn mismatched_borrowed_arguments_are_rejected_and_released() {
    let host = Host::default();
    let context = host.context(&["library", "client"]).unwrap();
    let mut invocation = Invocation::new(&context.function("client.linger").unwrap());
    {
        let (one, two) = (host.token(1), host.token(2));
        let cases: [(&[Value], &str); 4] = [
            (&[Value::I32(1), one.clone(), Value::I32(2)], "argument 2: expected ref, found i32"),
            (&[one.clone(), one.clone(), two.clone()], "argument 0: expected i32"),
            (&[Value::I32(1), one.clone()], "argument 2 is missing"),
            (&[Value::I32(1), one.clone(), two.clone(), Value::I32(1)], "too many values"),
        ];
        for (arguments, reason) in cases {
            let error = invocation.start_from(arguments).unwrap_err();
            assert_eq!(error.code(), StatusCode::InvalidArgument);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
    assert_eq!(host.alive(), 0, "the invocation keeps no argument");
}

/// Native functions and spans take the path of owned arguments.
#[test]
fn borrowed_arguments_reach_native_functions_and_empty_spans() {
    let host = Host::default();
    let context = host.context(&[]).unwrap();
    let mut note = Invocation::new(&context.function("host.note").unwrap());
    for value in [3, 4] {
        assert!(matches!(note.start_from(&[Value::I32(value)]).unwrap(), Step::Done));
    }
    assert_eq!(host.notes(), [3, 4]);
    let mut sum = Invocation::new(&context.function("host.sum").unwrap());
    let error = sum.start_from(&[host.token(1)]).unwrap_err();
    assert!(error.to_string().contains("its tuple count is missing"), "{error}");
}
