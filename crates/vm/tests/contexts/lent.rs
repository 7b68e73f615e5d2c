//! A native function borrows the references that its caller keeps, without incrementing their counts, and the
//! caller has them back afterwards, whatever the function did.

use crate::host::{Host, number};
use rehal_base::StatusCode;
use rehal_vm::{Context, Invocation, Result, Step, Value};

/// Calls a function of the program twice, reusing the machine, and returns the results as numbers: token
/// numbers and integers. No token may leak.
fn call(host: &Host, context: &Context, name: &str, arguments: &[i32]) -> Result<Vec<i32>> {
    let function = context.function(&format!("lent.{name}"))?;
    let mut both = Vec::new();
    for _ in 0..2 {
        // References first, as tokens with those numbers.
        let kinds = function.convention().as_str()[1..].bytes();
        let values = kinds.zip(arguments).map(|(kind, argument)| match kind {
            b'r' => host.token(*argument),
            _ => Value::I32(*argument),
        });
        let values: Vec<Value> = values.collect();
        let results = function.call(&values);
        drop(values);
        both.push(results.map(|results| results.iter().map(plain).collect()));
        assert_eq!(host.alive(), 0, "{name}");
    }
    let second = both.pop().unwrap();
    let first = both.pop().unwrap();
    match (&first, &second) {
        (Ok(first), Ok(second)) => assert_eq!(first, second, "{name}"),
        (Err(first), Err(second)) => assert_eq!(first.report(), second.report(), "{name}"),
        _ => panic!("{name}: {first:?}, then {second:?}"),
    }
    second
}

fn plain(value: &Value) -> i32 {
    match value {
        Value::I32(value) => *value,
        token => number(token),
    }
}

fn context() -> (Host, Context) {
    let host = Host::default();
    let context = host.context(&["lent"]).unwrap();
    (host, context)
}

#[test]
fn a_lent_reference_is_moved_and_returned() {
    let (host, context) = context();
    assert_eq!(call(&host, &context, "kept", &[]).unwrap(), [1, 1, 5]);
    assert_eq!(call(&host, &context, "given_up", &[]).unwrap(), [1, 0]);
}

#[test]
fn one_register_can_be_passed_twice() {
    let (host, context) = context();
    assert_eq!(call(&host, &context, "twice", &[3]).unwrap(), [1, 3]);
    assert_eq!(call(&host, &context, "twice_and_given_up", &[3]).unwrap(), [1, 0]);
}

#[test]
fn results_overwrite_argument_registers() {
    let (host, context) = context();
    assert_eq!(call(&host, &context, "replaced", &[1, 2]).unwrap(), [2, 2]);
    assert_eq!(call(&host, &context, "replaced_by_itself", &[1, 2]).unwrap(), [1, 2]);
    assert_eq!(call(&host, &context, "swapped", &[1, 2]).unwrap(), [2, 1]);
    assert_eq!(call(&host, &context, "mixed", &[1, 2]).unwrap(), [0, 2, 1]);
    assert_eq!(call(&host, &context, "nulls", &[]).unwrap(), [0, 0]);
}

#[test]
fn yielding_functions_keep_lent_references() {
    let (host, context) = context();
    for yields in [0, 1] {
        assert_eq!(call(&host, &context, "slow", &[yields]).unwrap(), [7, 7]);
        assert_eq!(call(&host, &context, "slow_inside", &[yields]).unwrap(), [7, 7]);
    }
}

#[test]
fn waiting_functions_keep_lent_references() {
    let (host, context) = context();
    let mut invocation = Invocation::new(&context.function("lent.waiting").unwrap());
    assert!(matches!(invocation.start([]).unwrap(), Step::Waiting(_)));
    assert!(matches!(invocation.resume().unwrap(), Step::Waiting(_)));
    assert_eq!(host.alive(), 2);
    host.event().happen();
    let invocation = std::thread::spawn(move || {
        assert!(matches!(invocation.resume().unwrap(), Step::Done));
        invocation
    });
    let results = invocation.join().unwrap().take_results();
    assert_eq!(results.iter().map(number).collect::<Vec<_>>(), [8, 0, 8]);
    assert_eq!(host.alive(), 2);
    drop(results);
    assert_eq!(host.alive(), 0);
}

#[test]
fn failing_functions_release_lent_references() {
    let (host, context) = context();
    for yields in [0, 1] {
        let error = call(&host, &context, "failing", &[yields]).unwrap_err();
        assert_eq!((error.code(), error.message()), (StatusCode::DataLoss, "token 9 is refused"));
        let lines = error.context_lines().join("\n");
        assert!(lines.contains("host.fail") && lines.contains("lent.failing+"), "{lines}");
    }
    let error = call(&host, &context, "wrong", &[]).unwrap_err();
    assert_eq!(error.code(), StatusCode::Internal);
    let expected = "the native function returned [Ref, Ref], expected [Ref] by its calling convention";
    assert_eq!(error.message(), expected);
    // A token is required, and the argument is null.
    let function = context.function("lent.spans").unwrap();
    assert_eq!(function.call(&[Value::NULL, Value::NULL]).unwrap_err().code(), StatusCode::InvalidArgument);
    assert_eq!(call(&host, &context, "kept", &[]).unwrap(), [1, 1, 5]);
}

#[test]
fn references_in_spans_come_back() {
    let (host, context) = context();
    assert_eq!(call(&host, &context, "spans", &[1, 2]).unwrap(), [1, 12, 11212, 122, 1, 2]);
    assert_eq!(call(&host, &context, "slow_spans", &[1, 2]).unwrap(), [25, 1, 2]);
}
