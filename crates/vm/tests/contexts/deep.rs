//! Programs that call deeper than they may.

use crate::host::Host;
use rehal_base::{Error, StatusCode};
use rehal_vm::{Context, Invocation, Result, Value};

/// Deeper than any program may.
const ENDLESS: i32 = i32::MAX;
/// Lines that an error shows of calls, however many there are.
const LINES: usize = 65;

fn context() -> Context {
    Host::default().context(&["library", "client"]).unwrap()
}

fn call(context: &Context, name: &str, arguments: &[i32]) -> Result<i32> {
    let arguments: Vec<Value> = arguments.iter().map(|value| Value::I32(*value)).collect();
    let results = context.function(name)?.call(&arguments)?;
    let [Value::I32(result)] = results[..] else { panic!("{results:?}") };
    Ok(result)
}

/// Checks that it is the error of a program that calls too deeply, and gives its lines.
fn lines_of(error: &Error) -> Vec<String> {
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{}", error.report());
    assert!(error.message().starts_with("the program calls too deeply: "), "{}", error.message());
    assert!(error.report().len() < 8192, "{} bytes", error.report().len());
    let lines: Vec<String> = error.context_lines().iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), LINES);
    assert!(lines[LINES / 2].ends_with(" calls more"), "{lines:?}");
    lines
}

#[test]
fn a_function_that_calls_itself_without_end_is_stopped() {
    let context = context();
    for _ in 0..3 {
        let lines = lines_of(&call(&context, "library.descend", &[ENDLESS]).unwrap_err());
        let calls = lines.iter().filter(|line| line.starts_with("library.descend+"));
        assert_eq!(calls.count(), LINES - 1);
        assert_eq!(call(&context, "library.descend", &[60_000]).unwrap(), 60_000);
    }
}

#[test]
fn functions_that_call_each_other_without_end_are_stopped() {
    let context = context();
    assert_eq!(call(&context, "library.even", &[60_001]).unwrap(), 0);
    let lines = lines_of(&call(&context, "library.even", &[ENDLESS]).unwrap_err());
    let even = lines.iter().filter(|line| line.starts_with("library.even+")).count();
    let odd = lines.iter().filter(|line| line.starts_with("library.@")).count();
    assert_eq!((even, odd), (LINES / 2, LINES / 2));
}

/// A module imports only from those before it, so no two can call each other in circles: the depth of one comes on top of
/// that of the other.
#[test]
fn the_calls_of_all_modules_count_together() {
    let context = context();
    assert_eq!(call(&context, "client.descend", &[30_000, 30_000]).unwrap(), 60_000);
    let lines = lines_of(&call(&context, "client.descend", &[30_000, 40_000]).unwrap_err());
    assert!(lines[..LINES / 2].iter().all(|line| line.starts_with("library.descend+")), "{lines:?}");
    assert!(lines[LINES / 2 + 1..].iter().all(|line| line.starts_with("client.descend+")), "{lines:?}");
    assert_eq!(call(&context, "client.descend_in_turns", &[500, 100]).unwrap(), 50_000);
    lines_of(&call(&context, "client.descend_in_turns", &[ENDLESS, 3]).unwrap_err());
    assert_eq!(call(&context, "client.count", &[]).unwrap(), 102);
}

#[test]
fn an_invocation_that_was_stopped_can_be_started_again() {
    let context = context();
    let mut invocation = Invocation::new(&context.function("library.descend").unwrap());
    for _ in 0..3 {
        lines_of(&invocation.call([Value::I32(ENDLESS)]).unwrap_err());
        assert!(invocation.results().is_empty());
        invocation.call([Value::I32(7)]).unwrap();
        assert!(matches!(invocation.results(), [Value::I32(7)]));
    }
}
