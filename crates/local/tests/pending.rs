//! Waiting submissions: unreachable waits, deadlocks, and panics of host calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rehal_base::{Result, StatusCode};
use rehal_hal::{
    BufferParams, BufferRef, Command, CommandBufferParams, Device, HostCall, HostCallFlags,
    QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags, Timepoint,
};
use rehal_local::LocalSync;

fn device() -> Device {
    LocalSync::create(Default::default())
}

fn semaphore(device: &Device) -> Semaphore {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
}

fn at(semaphore: &Semaphore, value: u64) -> Timepoint<&Semaphore> {
    semaphore.at(value)
}

fn submit(
    device: &Device,
    waits: &[Timepoint<&Semaphore>],
    signals: &[Timepoint<&Semaphore>],
    call: &HostCall,
) {
    let queue = device.queue(QUEUE_AFFINITY_ANY).wait(waits).signal(signals);
    queue.host_call(call, [0; 4], HostCallFlags::empty()).unwrap();
}

/// A host call that counts its runs, and its remaining references.
#[derive(Default)]
struct Work {
    runs: Arc<AtomicUsize>,
}

impl Work {
    /// Every live submission holds one more reference of `runs`.
    fn call(&self) -> HostCall {
        let runs = self.runs.clone();
        HostCall(Arc::new(move |_| {
            runs.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    fn alive(&self) -> usize {
        Arc::strong_count(&self.runs) - 1
    }
}

const MANY: usize = 100_000;

#[test]
fn a_hundred_thousand_submissions_whose_semaphore_is_released_are_freed_at_once() {
    let (device, work) = (device(), Work::default());
    let done = semaphore(&device);
    for _ in 0..MANY {
        let (gate, next) = (semaphore(&device), semaphore(&device));
        submit(&device, &[at(&gate, 1)], &[at(&next, 1)], &work.call());
        submit(&device, &[at(&next, 1)], &[], &work.call());
        drop(next);
        assert_eq!(work.alive(), 2);
        drop(gate);
        assert_eq!(work.alive(), 0);
    }
    let gate = semaphore(&device);
    submit(&device, &[at(&gate, 1)], &[at(&done, 1)], &work.call());
    drop(gate);
    let error = done.wait(1, None).unwrap_err();
    assert_eq!(error.code(), StatusCode::Aborted);
    assert_eq!(error.message(), "the semaphore was released at 0, before the timepoint was reached");
    assert_eq!((work.runs(), work.alive()), (0, 0));
}

/// A submission keeps its signals alive, so reference cycles must be found.
#[test]
fn a_hundred_thousand_deadlocked_submissions_are_freed_in_time() {
    let (device, work) = (device(), Work::default());
    for _ in 0..MANY {
        let (a, b) = (semaphore(&device), semaphore(&device));
        // The queue's own timeline, and two queues that alternate.
        submit(&device, &[at(&a, 1)], &[at(&a, 2), at(&b, 1)], &work.call());
        submit(&device, &[at(&b, 1)], &[at(&a, 3)], &work.call());
        drop((a, b));
        assert!(work.alive() <= 130, "{} wait", work.alive());
    }
    device.trim().unwrap();
    assert_eq!((work.runs(), work.alive()), (0, 0));
}

#[test]
fn trimming_keeps_reachable_submissions() {
    let (device, work) = (device(), Work::default());
    let (a, b, done) = (semaphore(&device), semaphore(&device), semaphore(&device));
    submit(&device, &[at(&a, 1)], &[at(&a, 2), at(&b, 1)], &work.call());
    submit(&device, &[at(&b, 1)], &[at(&done, 1)], &work.call());
    drop(b);
    device.trim().unwrap();
    assert_eq!(work.alive(), 2);
    a.signal(1).unwrap();
    done.wait(1, None).unwrap();
    assert_eq!((work.runs(), work.alive(), a.query().unwrap()), (2, 0, 2));
}

/// Buffers refer to their device, for transfers. Those of a pending submission must not keep it alive.
#[test]
fn releasing_a_device_fails_pending_submissions_with_buffers() {
    let device = device();
    let (gate, done) = (semaphore(&device), semaphore(&device));
    let buffer = device.allocate_buffer(BufferParams::default(), 16).unwrap();
    let commands = device.create_command_buffer(CommandBufferParams::default()).unwrap();
    commands.begin().unwrap();
    let (target, flags) = (BufferRef::from(&buffer), 0);
    commands.record(&Command::Fill { target, pattern: &[7], flags }).unwrap();
    commands.end().unwrap();
    for value in [1, 2] {
        let (waits, signals) = ([at(&gate, value)], [at(&done, value)]);
        let queue = device.queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals);
        match value {
            1 => queue.fill(&buffer, &[7], 0),
            _ => queue.execute(&commands, &[], 0),
        }
        .unwrap();
    }
    drop((buffer, commands));
    drop(device);
    assert_eq!(done.query().unwrap_err().code(), StatusCode::Aborted);
}

#[test]
fn releasing_a_device_fails_pending_submissions() {
    let (device, work) = (device(), Work::default());
    let (gate, next, done) = (semaphore(&device), semaphore(&device), semaphore(&device));
    submit(&device, &[at(&gate, 1)], &[at(&next, 1)], &work.call());
    submit(&device, &[at(&next, 1)], &[at(&done, 1)], &work.call());
    drop(device);
    for semaphore in [&next, &done] {
        let error = semaphore.wait(1, None).unwrap_err();
        assert_eq!(error.code(), StatusCode::Aborted);
        assert_eq!(error.message(), "the device was released while the submission waited");
    }
    gate.signal(1).unwrap();
    assert_eq!((work.runs(), work.alive()), (0, 0));
}

fn panicking(message: &'static str) -> HostCall {
    HostCall(Arc::new(move |_| std::panic::panic_any(message)))
}

fn panics(work: impl FnOnce()) -> &'static str {
    let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
    panic.downcast_ref::<&str>().copied().unwrap()
}

/// Its signals failed, and the thread and the device still work.
fn expect_failed_and_working(device: &Device, signals: &[&Semaphore]) {
    for semaphore in signals {
        let error = semaphore.wait(9, None).unwrap_err();
        assert_eq!(error.code(), StatusCode::Internal);
        assert_eq!(error.message(), "the thread that ran the submission panicked");
    }
    let work = Work::default();
    let (gate, done) = (semaphore(device), semaphore(device));
    submit(device, &[at(&gate, 1)], &[at(&done, 1)], &work.call());
    submit(device, &[], &[at(&gate, 1)], &work.call());
    done.wait(1, None).unwrap();
    assert_eq!(work.runs(), 2);
}

#[test]
fn a_host_call_that_panics_while_it_is_submitted_fails_its_signals() {
    let device = device();
    let (a, b) = (semaphore(&device), semaphore(&device));
    let signals = [at(&a, 1), at(&b, 1)];
    assert_eq!(panics(|| submit(&device, &[], &signals, &panicking("at submit"))), "at submit");
    expect_failed_and_working(&device, &[&a, &b]);
}

#[test]
fn a_host_call_that_panics_when_it_becomes_ready_fails_its_signals() {
    let (device, work) = (device(), Work::default());
    let (gate, a, b, done) = (semaphore(&device), semaphore(&device), semaphore(&device), semaphore(&device));
    submit(&device, &[at(&gate, 1)], &[at(&a, 1), at(&b, 1)], &panicking("at the signal"));
    // The same signal makes this one ready too.
    submit(&device, &[at(&gate, 1)], &[at(&done, 1)], &work.call());
    // Dependents of the panicking submission fail too.
    let behind = semaphore(&device);
    submit(&device, &[at(&b, 1)], &[at(&behind, 1)], &work.call());
    assert_eq!(panics(|| gate.signal(1).unwrap()), "at the signal");
    assert_eq!((gate.query().unwrap(), done.query().unwrap(), work.runs()), (1, 1, 1));
    expect_failed_and_working(&device, &[&a, &b, &behind]);
    // On another thread, the panic unwinds that thread.
    let (gate, a) = (semaphore(&device), semaphore(&device));
    submit(&device, &[at(&gate, 1)], &[at(&a, 1)], &panicking("elsewhere"));
    let signaller = std::thread::spawn(move || gate.signal(1).unwrap());
    assert_eq!(*signaller.join().unwrap_err().downcast_ref::<&str>().unwrap(), "elsewhere");
    expect_failed_and_working(&device, &[&a]);
}

/// A destructor submits while its thread unwinds: the panic does not belong to the submission.
#[test]
fn submissions_of_an_unwinding_thread_run() {
    struct SubmitOnDrop<'a>(
        &'a Device,
        &'a [Timepoint<&'a Semaphore>],
        &'a [Timepoint<&'a Semaphore>],
        HostCall,
    );
    impl Drop for SubmitOnDrop<'_> {
        fn drop(&mut self) {
            submit(self.0, self.1, self.2, &self.3);
        }
    }
    let (device, work) = (device(), Work::default());
    let (gate, done) = (semaphore(&device), semaphore(&device));
    let (waits, signals) = ([at(&gate, 1)], [at(&done, 1)]);
    let panicked = panics(|| {
        let _submit = SubmitOnDrop(&device, &waits, &signals, work.call());
        panic!("unrelated");
    });
    assert_eq!((panicked, done.query().unwrap()), ("unrelated", 0));
    gate.signal(1).unwrap();
    assert_eq!((done.query().unwrap(), work.runs()), (1, 1));
}

/// The largest payload marks a failure: a semaphore that started there would have failed without an error.
#[test]
fn the_failure_payload_is_rejected_as_an_initial_value() {
    let create = |value| device().create_semaphore(QUEUE_AFFINITY_ANY, value, SemaphoreFlags::empty());
    assert_eq!(create(u64::MAX).err().unwrap().code(), StatusCode::OutOfRange);
    assert_eq!(create(u64::MAX - 1).unwrap().query().unwrap(), u64::MAX - 1);
}

/// A callback of the first signal panics: the second still happens.
#[test]
fn a_panicking_callback_does_not_prevent_other_signals() {
    let (device, work) = (device(), Work::default());
    for waits in [false, true] {
        let (gate, a, b) = (semaphore(&device), semaphore(&device), semaphore(&device));
        let panic: Box<dyn FnOnce(Result<()>) + Send> = Box::new(|_| panic!("in the callback"));
        a.on_reached(1, panic).detach();
        let waits = if waits { vec![at(&gate, 1)] } else { vec![] };
        assert_eq!(
            panics(|| {
                submit(&device, &waits, &[at(&a, 1), at(&b, 1)], &work.call());
                gate.signal(1).unwrap();
            }),
            "in the callback"
        );
        assert_eq!((a.query().unwrap(), b.query().unwrap()), (1, 1));
    }
    assert_eq!(work.runs(), 2);
}

/// It has signalled before it runs, so there is nothing to fail.
#[test]
fn a_non_blocking_host_call_may_panic_after_its_signals() {
    let device = device();
    let done = semaphore(&device);
    let call = panicking("after the signals");
    let signals = [done.at(1)];
    let queue = device.queue(QUEUE_AFFINITY_ANY).signal(&signals);
    let unwound = panics(|| queue.host_call(&call, [0; 4], HostCallFlags::NON_BLOCKING).unwrap());
    assert_eq!((unwound, done.query().unwrap()), ("after the signals", 1));
    expect_failed_and_working(&device, &[]);
}

/// The host call waits for an action that is due on its own thread.
#[test]
fn a_host_call_may_wait_for_effects_of_its_own_signal() {
    let device = device();
    let (gate, first, second, done) =
        (semaphore(&device), semaphore(&device), semaphore(&device), semaphore(&device));
    let call = HostCall(Arc::new({
        let (first, second) = (first.clone(), second.clone());
        move |_| {
            first.signal(1)?;
            second.wait(1, Some(Duration::from_secs(20)))
        }
    }));
    submit(&device, &[at(&gate, 1)], &[at(&done, 1)], &call);
    device.queue(QUEUE_AFFINITY_ANY).wait(&[at(&first, 1)]).signal(&[at(&second, 1)]).barrier(0).unwrap();
    gate.signal(1).unwrap();
    done.wait(1, Some(Duration::ZERO)).unwrap();
}
