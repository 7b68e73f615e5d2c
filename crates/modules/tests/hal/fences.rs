use std::time::{Duration, Instant};

use rehal_base::StatusCode;
use rehal_hal::Fence;
use rehal_vm::Value::{I32, I64};
use rehal_vm::{Context, Function, Invocation, Module, Step, Value};

use crate::program::{Program, devices, handle, i32_of};
use rehal_modules::hal::HalModule;

const FOREVER: i32 = -1;

fn query(program: &Program, fence: &Value) -> i32 {
    i32_of(&program.one("fence.query", std::slice::from_ref(fence)))
}

fn function(name: &str) -> Function {
    let context = Context::new(&[Module::native(HalModule::new(devices(1))).unwrap()]).unwrap();
    context.function(name).unwrap()
}

/// Starts a wait for `fences`.
fn start(fences: &[&Value], timeout: i32) -> (Invocation, rehal_base::Result<Step>) {
    let mut invocation = Invocation::new(&function("hal.fence.await"));
    let mut arguments = vec![I32(timeout), I64(0)];
    arguments.extend(fences.iter().map(|fence| (*fence).clone()));
    let step = invocation.start_with_spans(arguments, &[fences.len()]);
    (invocation, step)
}

#[test]
fn a_fence_is_deferred_then_reached_or_failed() {
    let program = Program::new();
    let (good, bad) = (program.fence(), program.fence());
    assert_eq!(query(&program, &good), StatusCode::Deferred as i32);
    program.call("fence.signal", std::slice::from_ref(&good)).unwrap();
    assert_eq!(query(&program, &good), 0);
    program.call("fence.fail", &[bad.clone(), I32(StatusCode::Aborted as i32 | 0x100)]).unwrap();
    assert_eq!(query(&program, &bad), StatusCode::Aborted as i32);
    for ok_or_no_code in [0, 31] {
        let failed = program.fence();
        program.call("fence.fail", &[failed.clone(), I32(ok_or_no_code)]).unwrap();
        assert_eq!(query(&program, &failed), StatusCode::Unknown as i32);
    }
    assert_eq!(program.refused("fence.query", &[Value::NULL]).code(), StatusCode::InvalidArgument);
}

#[test]
fn joining_no_fences_is_null() {
    let program = Program::new();
    let join = |fences: &[Value]| {
        let arguments = [&[I64(0)], fences].concat();
        program.call_with_spans("fence.join", &arguments, &[fences.len()]).unwrap()[0].clone()
    };
    assert!(matches!(join(&[]), Value::Ref(none) if none.is_null()));
    assert!(matches!(join(&[Value::NULL, Value::NULL]), Value::Ref(none) if none.is_null()));
    let (a, b) = (program.fence(), program.fence());
    let both = join(&[a.clone(), Value::NULL, b, a]);
    assert_eq!(handle::<Fence>(&both).timepoints().len(), 2);
}

#[test]
fn waiting_suspends_the_program() {
    let program = Program::new();
    let (a, b) = (program.fence(), program.fence());
    let (mut invocation, step) = start(&[&a, &Value::NULL, &b], FOREVER);
    let Step::Waiting(wait) = step.unwrap() else { panic!("the fences are not reached") };
    assert!(!wait.is_ready());
    program.call("fence.signal", std::slice::from_ref(&a)).unwrap();
    assert!(matches!(invocation.resume().unwrap(), Step::Waiting(_)));
    let (sender, woken) = std::sync::mpsc::channel();
    let cancelled = wait.source().notify(Box::new(|| panic!("the notification was cancelled")));
    let _notification = wait.source().notify(Box::new(move || sender.send(()).unwrap()));
    drop(cancelled);
    assert!(woken.try_recv().is_err());
    program.call("fence.signal", std::slice::from_ref(&b)).unwrap();
    woken.try_recv().unwrap();
    assert!(matches!(invocation.resume().unwrap(), Step::Done));
    assert_eq!(i32_of(&invocation.results()[0]), 0);
}

#[test]
fn reached_fences_do_not_suspend() {
    let program = Program::new();
    let fence = program.fence();
    program.call("fence.signal", std::slice::from_ref(&fence)).unwrap();
    for fences in [&[][..], &[&Value::NULL], &[&fence, &fence]] {
        let (invocation, step) = start(fences, FOREVER);
        assert!(matches!(step.unwrap(), Step::Done));
        assert_eq!(i32_of(&invocation.results()[0]), 0);
    }
}

#[test]
fn a_failed_fence_fails_the_program_with_its_message() {
    let program = Program::new();
    let (never, bad) = (program.fence(), program.fence());
    let (mut invocation, step) = start(&[&never, &bad], FOREVER);
    assert!(matches!(step.unwrap(), Step::Waiting(_)));
    handle::<Fence>(&bad).fail(&rehal_base::Error::data_loss("the disk is gone"));
    assert_eq!(invocation.resume().unwrap_err().message(), "the disk is gone");
    let (_, step) = start(&[&bad], FOREVER);
    assert_eq!(step.unwrap_err().message(), "the disk is gone");
}

#[test]
fn waits_time_out() {
    let program = Program::new();
    let never = program.fence();
    let late = |timeout| {
        let (mut invocation, step) = start(&[&never], timeout);
        step.unwrap().block(&mut invocation).unwrap();
        i32_of(&invocation.results()[0])
    };
    assert_eq!(late(0), StatusCode::DeadlineExceeded as i32);
    let before = Instant::now();
    assert_eq!(late(5), StatusCode::DeadlineExceeded as i32);
    assert!(before.elapsed() >= Duration::from_millis(5));
}

#[test]
fn a_host_can_block_on_a_wait() {
    let program = Program::new();
    let fence = program.fence();
    let signaller = std::thread::spawn({
        let fence = handle::<Fence>(&fence).clone();
        move || fence.signal().unwrap()
    });
    let (mut invocation, step) = start(&[&fence], FOREVER);
    step.unwrap().block(&mut invocation).unwrap();
    assert_eq!(i32_of(&invocation.results()[0]), 0);
    signaller.join().unwrap();
}
