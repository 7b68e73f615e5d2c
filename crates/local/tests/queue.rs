//! When operations of the `local-sync` device run: immediately, deferred, or never.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_base::{Error, Result, StatusCode};
use rehal_hal::{
    Buffer, BufferParams, BufferRef, Device, HostCall, HostCallFlags, HostFile, MemoryAccess,
    QUEUE_AFFINITY_ANY, Semaphore, SemaphoreFlags, Timepoint,
};
use rehal_local::LocalSync;

fn device() -> Device {
    LocalSync::create(Default::default())
}

fn semaphore(device: &Device) -> Semaphore {
    device.create_semaphore(QUEUE_AFFINITY_ANY, 0, SemaphoreFlags::empty()).unwrap()
}

fn fill(device: &Device, buffer: &Buffer, byte: u8, wait: &Semaphore, signal: &Semaphore) -> Result<()> {
    let pattern: &[u8] = &[byte];
    let waits = [Timepoint { semaphore: wait, value: 1 }];
    let signals = [Timepoint { semaphore: signal, value: 1 }];
    device.queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals).fill(buffer, pattern, 0)
}

fn first_byte(buffer: &Buffer) -> u8 {
    let mut byte = [0];
    buffer.read(0, &mut byte).unwrap();
    byte[0]
}

#[test]
fn pending_work_runs_when_the_host_signals() {
    let device = device();
    let buffer = device.allocate_buffer(BufferParams::default(), 8).unwrap();
    let (gate, done) = (semaphore(&device), semaphore(&device));
    fill(&device, &buffer, 7, &gate, &done).unwrap();
    assert_eq!((first_byte(&buffer), done.query().unwrap()), (0, 0));
    gate.signal(1).unwrap();
    assert_eq!((first_byte(&buffer), done.query().unwrap()), (7, 1));
}

#[test]
fn pending_work_runs_when_another_thread_signals() {
    let device = device();
    let buffer = device.allocate_buffer(BufferParams::default(), 8).unwrap();
    let (gate, done) = (semaphore(&device), semaphore(&device));
    fill(&device, &buffer, 7, &gate, &done).unwrap();
    let signaller = std::thread::spawn({
        let gate = gate.clone();
        move || gate.signal(1).unwrap()
    });
    done.wait(1, None).unwrap();
    assert_eq!(first_byte(&buffer), 7);
    signaller.join().unwrap();
}

#[test]
fn pending_submissions_keep_their_objects_alive() {
    let device = device();
    let buffer = device.allocate_buffer(BufferParams::default(), 8).unwrap();
    let (gate, done) = (semaphore(&device), semaphore(&device));
    {
        let shortlived = semaphore(&device);
        fill(&device, &buffer, 3, &gate, &shortlived).unwrap();
        fill(&device, &buffer, 9, &shortlived, &done).unwrap();
    }
    gate.signal(1).unwrap();
    assert_eq!(done.query().unwrap(), 1);
    assert_eq!(first_byte(&buffer), 9);
}

#[test]
fn failures_propagate_to_dependent_submissions() {
    let device = device();
    let buffer = device.allocate_buffer(BufferParams::default(), 8).unwrap();
    let chain: Vec<_> = (0..4).map(|_| semaphore(&device)).collect();
    for pair in chain.windows(2) {
        fill(&device, &buffer, 7, &pair[0], &pair[1]).unwrap();
    }
    chain[0].fail(Error::data_loss("the first link broke"));
    for link in &chain {
        assert_eq!(link.query().unwrap_err().message(), "the first link broke");
    }
    assert_eq!(first_byte(&buffer), 0);
    // A submission after the failure fails at once, and so do waits for it.
    let late = semaphore(&device);
    let error = fill(&device, &buffer, 7, &chain[3], &late).unwrap_err();
    assert_eq!(error.message(), "the first link broke");
    assert_eq!(late.query().unwrap_err().code(), StatusCode::DataLoss);
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

#[test]
fn an_operation_waits_for_all_its_semaphores_reached_in_any_order() {
    let device = device();
    let ran = Arc::new(AtomicU64::new(0));
    let call = HostCall(Arc::new({
        let ran = ran.clone();
        move |arguments| {
            ran.fetch_add(arguments[0], Ordering::Relaxed);
            Ok(())
        }
    }));
    let [a, b, c] = [semaphore(&device), semaphore(&device), semaphore(&device)];
    let waits = [&a, &b, &c].map(|semaphore| semaphore.at(2));
    device
        .queue(QUEUE_AFFINITY_ANY)
        .wait(&waits)
        .host_call(&call, [5, 0, 0, 0], HostCallFlags::empty())
        .unwrap();
    for semaphore in [&c, &a] {
        semaphore.signal(2).unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 0);
    }
    b.signal(1).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    b.signal(2).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 5);
}

#[test]
fn a_buffer_is_usable_before_its_alloca_has_run_and_unusable_after_its_dealloca() {
    let device = device();
    let [gate, made, gone] = [semaphore(&device), semaphore(&device), semaphore(&device)];
    let waits = [gate.at(1)];
    let signals = [made.at(1)];
    let buffer = device
        .queue(QUEUE_AFFINITY_ANY)
        .wait(&waits)
        .signal(&signals)
        .alloca(BufferParams::default(), 16, 0)
        .unwrap();
    assert_eq!(buffer.size(), 16);
    assert_eq!(made.query().unwrap(), 0);
    let waits = [made.at(1)];
    let signals = [gone.at(1)];
    device.queue(QUEUE_AFFINITY_ANY).wait(&waits).signal(&signals).dealloca(&buffer, 0).unwrap();
    gate.signal(1).unwrap();
    assert_eq!((made.query().unwrap(), gone.query().unwrap()), (1, 1));
    assert_eq!(buffer.write(0, &[1]).unwrap_err().code(), StatusCode::FailedPrecondition);
}

#[test]
fn files_are_read_and_written_at_offsets() {
    let device = device();
    let file = HostFile::from_bytes(&(0..32).collect::<Vec<_>>()).unwrap();
    let file =
        device.import_file(QUEUE_AFFINITY_ANY, MemoryAccess::READ | MemoryAccess::WRITE, file).unwrap();
    let buffer = device.allocate_buffer(BufferParams::default(), 8).unwrap();
    let target = BufferRef::range(&buffer, 2, 4);
    device.queue(QUEUE_AFFINITY_ANY).read(&file, 28, target, 0).unwrap();
    let mut bytes = [0; 8];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 0, 28, 29, 30, 31, 0, 0]);
    let source = BufferRef::range(&buffer, 0, 4);
    device.queue(QUEUE_AFFINITY_ANY).write(source, &file, 3, 0).unwrap();
    let bytes = rehal_hal::HostMemory::allocate(6).unwrap();
    file.backend().read_at(2, &bytes, bytes.whole()).unwrap();
    assert_eq!(bytes.load(0).unwrap(), [2, 0, 0, 28, 29, 7]);
    assert_eq!(
        device.queue(QUEUE_AFFINITY_ANY).read(&file, 29, target, 0).unwrap_err().code(),
        StatusCode::OutOfRange
    );
}
