//! When operations of the `local-sync` device run: in the call that submits them or that signals the last of
//! their waits. The conformance suite has what is the same on all devices.

use std::sync::Arc;

use rehal_base::{Error, StatusCode};
use rehal_hal::{
    BufferParams, Device, HostCall, HostCallFlags, QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags, transfer,
};
use rehal_local::LocalSync;

fn device() -> Device {
    LocalSync::create(Default::default())
}

fn semaphore(device: &Device) -> Semaphore {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
}

#[test]
fn pending_work_runs_while_the_host_signals() {
    let device = device();
    let buffer = device.allocate_buffer(BufferParams::default(), 1).unwrap();
    let first_byte = || transfer::to_vec(&buffer, 0, 1).unwrap()[0];
    let (gate, done) = (semaphore(&device), semaphore(&device));
    let (waits, signals) = ([gate.at(1)], [done.at(1)]);
    let queue = || device.queue(QUEUE_AFFINITY_ANY);
    queue().wait(&waits).signal(&signals).fill(&buffer, &[7], 0).unwrap();
    assert_eq!((first_byte(), done.query().unwrap()), (0, 0));
    gate.signal(1).unwrap();
    assert_eq!((first_byte(), done.query().unwrap()), (7, 1));
    // What waits for a failure is refused.
    gate.fail(Error::data_loss("broke"));
    let (waits, signals) = ([gate.at(2)], [done.at(2)]);
    let error = queue().wait(&waits).signal(&signals).fill(&buffer, &[8], 0).unwrap_err();
    assert_eq!((error.message(), done.query().unwrap_err().code()), ("broke", StatusCode::DataLoss));
}

#[test]
fn a_failed_operation_fails_its_signals_or_its_caller() {
    let device = device();
    let call = HostCall(Arc::new(|_| Err(Error::new(StatusCode::Aborted, "no"))));
    let done = semaphore(&device);
    let signals = [done.at(1)];
    device
        .queue(QUEUE_AFFINITY_ANY)
        .signal(&signals)
        .host_call(&call, [0; 4], HostCallFlags::empty())
        .unwrap();
    assert_eq!(done.query().unwrap_err().code(), StatusCode::Aborted);
    let alone =
        device.queue(QUEUE_AFFINITY_ANY).host_call(&call, [0; 4], HostCallFlags::empty()).unwrap_err();
    assert_eq!(alone.code(), StatusCode::Aborted);
}
