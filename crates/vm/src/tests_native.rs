//! Native modules without bytecode: calls, spans, checks, waits.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rehal_base::{Error, StatusCode};

use crate::{
    Call, Context, Export, Flow, Invocation, Module, NativeModule, Notification, Ref, Result, Resumed, State,
    Step, Value, Wait, WaitSource,
};

/// An event that a test sets or fails.
#[derive(Default)]
struct Event {
    outcome: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Event {
    fn set(&self, outcome: Result<()>) {
        *self.outcome.lock() = Some(outcome);
        self.changed.notify_all();
    }
}

impl WaitSource for Event {
    fn is_ready(&self) -> bool {
        self.outcome.lock().is_some()
    }
    fn block(&self, deadline: Option<Instant>) -> Result<bool> {
        let mut outcome = self.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone().map(|()| true);
            }
            match deadline {
                None => self.changed.wait(&mut outcome),
                Some(deadline) => {
                    if self.changed.wait_until(&mut outcome, deadline).timed_out() && outcome.is_none() {
                        return Ok(false);
                    }
                }
            }
        }
    }
    fn notify(&self, wake: Box<dyn FnOnce() + Send>) -> Notification {
        wake();
        Notification::done()
    }
}

struct TestModule {
    event: Arc<Event>,
    deadline: Option<Instant>,
}

const EXPORTS: &[Export] = &[
    Export::new("spans", "0iCiID_II"),
    Export::new("wrong_results", "0_i"),
    Export::new("wait", "0i_i"),
    Export::new("yield_twice", "0_i"),
    Export::new("refs", "0rr_r"),
];

impl NativeModule for TestModule {
    fn name(&self) -> &str {
        "test"
    }
    fn version(&self) -> u32 {
        3
    }
    fn exports(&self) -> &[Export] {
        EXPORTS
    }
    fn new_state(&self) -> Result<State> {
        Ok(Box::new(Mutex::new(0)))
    }
    fn call(&self, state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        match ordinal {
            0 => {
                let span = call.span(1)?;
                let sum = span.tuples().map(|tuple| Ok(tuple.i64(1)? * i64::from(tuple.i32(0)?)));
                let sum = sum.sum::<Result<i64>>()?;
                let count = span.len() as i64;
                call.push(sum + i64::from(call.i32(0)?));
                call.push(count);
            }
            1 => call.push(1_i64),
            2 => match call.resumed() {
                None => return Ok(Flow::Wait(Wait::new(self.event.clone(), self.deadline))),
                Some(Resumed::Ready) => call.push(call.i32(0)?),
                Some(Resumed::DeadlineExceeded) => call.push(-1),
                Some(Resumed::Failed(error)) => return Err(error),
            },
            3 => {
                let count = state.downcast_ref::<Mutex<i32>>().unwrap();
                *count.lock() += 1;
                if *count.lock() < 3 {
                    return Ok(Flow::Yield);
                }
                call.push(*count.lock());
            }
            _ => call.push(call.reference(1)?.clone()),
        }
        Ok(Flow::Return)
    }
}

fn context(deadline: Option<Instant>) -> (Context, Arc<Event>) {
    let event = Arc::new(Event::default());
    let module = Module::native(TestModule { event: event.clone(), deadline }).unwrap();
    (Context::new(&[module]).unwrap(), event)
}

#[test]
fn spans_reach_the_function_and_are_checked() {
    let (context, _) = context(None);
    let function = context.function("test.spans").unwrap();
    let values = [Value::I32(1), Value::I32(2), Value::I64(10), Value::I32(3), Value::I64(100)];
    let results = function.call_with_spans(&values, &[2]).unwrap();
    assert!(matches!(results[..], [Value::I64(321), Value::I64(2)]));
    let results = function.call_with_spans(&values[..1], &[0]).unwrap();
    assert!(matches!(results[..], [Value::I64(1), Value::I64(0)]));
    for tuples in [&[1][..], &[3], &[], &[2, 0]] {
        let error = function.call_with_spans(&values, tuples).unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument);
    }
    let error = function.call_with_spans(&[Value::I64(0)], &[0]).unwrap_err();
    assert_eq!(error.message(), "argument 0: expected i32, found i64");
}

#[test]
fn functions_are_found_by_module_and_name() {
    let (context, _) = context(None);
    assert_eq!(context.function("test.refs").unwrap().convention().as_str(), "0rr_r");
    for name in ["refs", "test.none", "other.refs", ""] {
        assert!(context.function(name).is_err(), "{name}");
    }
    let module = context.modules().next().unwrap().clone();
    // If two modules share a name, the last one wins.
    assert_eq!(Context::new(&[module.clone(), module]).unwrap().modules().len(), 2);
}

#[test]
fn results_that_do_not_match_the_convention_fail() {
    let (context, _) = context(None);
    let error = context.function("test.wrong_results").unwrap().call(&[]).unwrap_err();
    assert_eq!(error.code(), StatusCode::Internal);
}

#[test]
fn a_waiting_invocation_can_be_resumed_on_another_thread() {
    let (context, event) = context(None);
    let mut invocation = Invocation::new(&context.function("test.wait").unwrap());
    assert!(matches!(invocation.start([Value::I32(7)]).unwrap(), Step::Waiting(_)));
    assert!(invocation.start([Value::I32(7)]).is_err());
    assert!(matches!(invocation.resume().unwrap(), Step::Waiting(_)));
    assert!(invocation.results().is_empty());
    event.set(Ok(()));
    let mut invocation = std::thread::spawn(move || {
        assert!(matches!(invocation.resume().unwrap(), Step::Done));
        invocation
    })
    .join()
    .unwrap();
    assert!(matches!(invocation.results(), [Value::I32(7)]));
    assert!(invocation.resume().is_err());
    // Once more, reusing its machine.
    invocation.call([Value::I32(8)]).unwrap();
    assert!(matches!(invocation.take_results()[..], [Value::I32(8)]));
}

#[test]
fn waits_fail_and_time_out() {
    let (context, event) = context(Some(Instant::now()));
    let function = context.function("test.wait").unwrap();
    assert!(matches!(function.call(&[Value::I32(1)]).unwrap()[..], [Value::I32(-1)]));
    event.set(Err(Error::new(StatusCode::Aborted, "lost")));
    assert_eq!(function.call(&[Value::I32(1)]).unwrap_err().message(), "lost");
}

#[test]
fn yields_come_back() {
    let (context, _) = context(None);
    let results = context.function("test.yield_twice").unwrap().call(&[]).unwrap();
    assert!(matches!(results[..], [Value::I32(3)]));
}

#[test]
fn references_pass_through() {
    let (context, _) = context(None);
    let list = Ref::new(crate::List::from_variants(Vec::new()));
    let results = context.function("test.refs").unwrap().call(&[Value::NULL, list.clone().into()]).unwrap();
    let [Value::Ref(result)] = &results[..] else { panic!("{results:?}") };
    assert!(result.is_same(&list));
}
