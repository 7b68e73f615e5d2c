//! Programs that recurse or run beyond their limits.

use std::sync::Arc;

use crate::host::{Host, number};
use parking_lot::Mutex;
use rehal_base::{Error, StatusCode};
use rehal_vm::{Budget, Context, Invocation, Result, Step, Value};

/// Deeper than any limit.
const ENDLESS: i32 = i32::MAX;
/// Limit on the call lines that an error shows.
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

/// Checks that the error is a call depth overflow, and returns its lines.
fn lines_of(error: &Error) -> Vec<String> {
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{}", error.report());
    assert!(error.message().starts_with("call stack overflow: "), "{}", error.message());
    assert!(error.report().len() < 8192, "{} bytes", error.report().len());
    let lines: Vec<String> = error.context_lines().iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), LINES);
    assert!(lines[LINES / 2].ends_with(" more frames"), "{lines:?}");
    lines
}

#[test]
fn unbounded_recursion_fails() {
    let context = context();
    for _ in 0..3 {
        let lines = lines_of(&call(&context, "library.descend", &[ENDLESS]).unwrap_err());
        let calls = lines.iter().filter(|line| line.starts_with("library.descend+"));
        assert_eq!(calls.count(), LINES - 1);
        assert_eq!(call(&context, "library.descend", &[60_000]).unwrap(), 60_000);
    }
}

#[test]
fn unbounded_mutual_recursion_fails() {
    let context = context();
    assert_eq!(call(&context, "library.even", &[60_001]).unwrap(), 0);
    let lines = lines_of(&call(&context, "library.even", &[ENDLESS]).unwrap_err());
    let even = lines.iter().filter(|line| line.starts_with("library.even+")).count();
    let odd = lines.iter().filter(|line| line.starts_with("library.@")).count();
    assert_eq!((even, odd), (LINES / 2, LINES / 2));
}

/// A module imports only from earlier modules, so two modules cannot be mutually recursive: their depths add
/// up.
#[test]
fn call_depth_is_shared_by_modules() {
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
fn an_interrupted_invocation_can_be_restarted() {
    let context = context();
    let mut invocation = Invocation::new(&context.function("library.descend").unwrap());
    for _ in 0..3 {
        lines_of(&invocation.call([Value::I32(ENDLESS)]).unwrap_err());
        assert!(invocation.results().is_empty());
        invocation.call([Value::I32(7)]).unwrap();
        assert!(matches!(invocation.results(), [Value::I32(7)]));
    }
}

/// Yields and native calls do not refill the budget.
#[test]
fn a_budget_covers_a_whole_invocation() {
    let host = Host::default();
    let budget = Budget { instructions: 20_000, bytes: 1 << 20 };
    let context = Context::limited(&host.modules(&["shared"]), budget).unwrap();
    let mut invocation = Invocation::new(&context.function("shared.work").unwrap());
    for _ in 0..2 {
        let mut step = invocation.start([Value::I32(0), Value::I32(ENDLESS)]);
        let mut yields = 0;
        while let Ok(Step::Yielded) = step {
            yields += 1;
            assert!(yields < 20_000);
            step = invocation.resume();
        }
        assert_eq!(step.unwrap_err().code(), StatusCode::ResourceExhausted);
        assert!(yields > 10, "{yields}");
        // The next invocation has its own budget.
        invocation.call([Value::I32(0), Value::I32(5)]).unwrap();
    }
}

/// Tracing instantiates the dispatch loop with another meter, and names locations in both modules.
#[test]
fn tracing_does_not_change_results() {
    let host = Host::default();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let sink = Arc::new(move |line: &str| sink.lock().push(line.to_owned()));
    let context = Context::traced(&host.modules(&["library", "client", "lent", "shared"]), sink).unwrap();
    assert_eq!(call(&context, "client.descend_in_turns", &[20, 10]).unwrap(), 200);
    let results = context.function("lent.slow_inside").unwrap().call(&[Value::I32(1)]).unwrap();
    assert_eq!(results.iter().map(number).collect::<Vec<_>>(), [7, 7]);
    context.function("shared.work").unwrap().call(&[Value::I32(0), Value::I32(3)]).unwrap();
    let lines = lines.lock();
    // Both parts of a superinstruction: fusion is disabled while tracing.
    for name in ["vm.mul.i64", "vm.add.i64"] {
        let is_it = |line: &&String| line.starts_with("[shared.work+") && line.contains(name);
        assert_eq!(lines.iter().filter(is_it).count(), 3, "{name}");
    }
    let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    // Each call executes the condition and the return, and four instructions in between if it recurses.
    assert_eq!(count("[library.descend+"), 20 * (2 + 10 * 6));
    assert!(count("[lent.slow_inside+") == 5 && count("[client.__init+") > 0, "{lines:#?}");
}
