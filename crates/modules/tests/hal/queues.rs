use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rehal_base::{HostMemory, Range, Result, StatusCode};
use rehal_hal::{Buffer, BufferBackend, BufferParams, Fence, MappedRange};
use rehal_vm::Value;
use rehal_vm::Value::{I32, I64};

use crate::program::{
    ANY_QUEUE, ANY_USAGE, DEVICE_LOCAL, Program, bytes, handle, is_reached, value, words_of,
};

/// Calls a queue operation; returns its results and its signal fence.
fn submit(program: &Program, name: &str, wait: &Value, rest: &[Value]) -> (Vec<Value>, Value) {
    let signal = program.fence();
    let head = [program.device.clone(), I64(ANY_QUEUE), wait.clone(), signal.clone()];
    let results = program.call(&format!("device.queue.{name}"), &[&head, rest].concat()).unwrap();
    (results, signal)
}

fn run(program: &Program, name: &str, rest: &[Value]) {
    assert!(is_reached(&submit(program, name, &Value::NULL, rest).1), "{name}");
}

#[test]
fn transfers_execute_on_a_queue() {
    let program = Program::new();
    let (source, target) = (program.words(&[1, 2, 3, 4]), program.buffer(16));
    run(&program, "fill", &[target.clone(), I64(0), I64(16), I64(0x0101), I32(1), I64(0)]);
    assert_eq!(words_of(&target), [0x0101_0101; 4]);
    run(&program, "copy", &[source.clone(), I64(4), target.clone(), I64(0), I64(8), I64(0)]);
    run(&program, "update", &[bytes([9, 5, 0, 0, 0, 9]), I64(1), target.clone(), I64(8), I64(4), I64(0)]);
    assert_eq!(words_of(&target), [2, 3, 5, 0x0101_0101]);
    run(&program, "barrier", &[I64(0)]);
    program.call("device.queue.flush", &[program.device.clone(), I64(ANY_QUEUE)]).unwrap();
}

#[test]
fn memory_files_are_read() {
    let program = Program::new();
    let contents: Vec<u8> = (0..32).collect();
    let open = |access, offset, length| {
        let arguments = [
            program.device.clone(),
            I64(ANY_QUEUE),
            I32(access),
            bytes(&contents),
            I64(offset),
            I64(length),
            I32(0),
        ];
        program.call("ex.file.from_memory", &arguments).map(|results| results[0].clone())
    };
    let file = open(1, 8, 16).unwrap();
    let target = program.buffer(8);
    run(&program, "read", &[file.clone(), I64(4), target.clone(), I64(4), I64(4), I64(0)]);
    assert_eq!(words_of(&target), [0, 0x0f0e_0d0c]);
    let head = [program.device.clone(), I64(ANY_QUEUE), Value::NULL, Value::NULL];
    let read =
        |offset| [&head[..], &[file.clone(), I64(offset), target.clone(), I64(0), I64(8), I64(0)]].concat();
    assert_eq!(program.refused("device.queue.read", &read(12)).code(), StatusCode::OutOfRange);
    let write = [&head[..], &[target.clone(), I64(0), file, I64(0), I64(4), I64(0)]].concat();
    assert_eq!(program.refused("device.queue.write", &write).code(), StatusCode::PermissionDenied);
    for access in [0, 2, 3, 1 << 16] {
        let outcome = open(access, 0, 4);
        assert_eq!(outcome.is_err(), access != 0, "{access}");
    }
    assert_eq!(open(1, 24, 9).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(open(1, -1, 9).unwrap_err().code(), StatusCode::OutOfRange);
}

#[test]
fn transient_buffers_are_allocated_and_freed() {
    let program = Program::new();
    let rest = [I64(0), I32(DEVICE_LOCAL), I32(ANY_USAGE), I64(8), I64(0)];
    let (results, ready) = submit(&program, "alloca", &Value::NULL, &rest);
    let buffer = results[0].clone();
    assert!(is_reached(&ready));
    let (_, gone) = submit(&program, "dealloca", &ready, &[buffer.clone(), I64(0)]);
    assert!(is_reached(&gone));
    // The memory of a synchronous CPU device lives as long as its handles.
    program.call("buffer.load", &[buffer, I64(0), I32(4)]).unwrap();
    let pooled = [program.device.clone(), I64(ANY_QUEUE), Value::NULL, Value::NULL, I64(1)];
    let error = program.refused("device.queue.alloca", &[&pooled[..], &rest[1..]].concat());
    assert_eq!(
        (error.code(), error.message()),
        (StatusCode::Unimplemented, "VM queue allocation pools are not supported")
    );
}

/// Memory owned by a queue, as on devices with queue-ordered allocators.
struct QueueOwned(Arc<HostMemory>, Arc<AtomicBool>);

impl BufferBackend for QueueOwned {
    fn map(&self, mapped: &MappedRange) -> Result<HostMemory> {
        HostMemory::part(&self.0, mapped.range)
    }
    fn unmap(&self, _: &MappedRange, _: &HostMemory) -> Result<()> {
        Ok(())
    }
    fn flush(&self, _: &MappedRange, _: &HostMemory, _: Range) -> Result<()> {
        Ok(())
    }
    fn invalidate(&self, _: &MappedRange, _: &HostMemory, _: Range) -> Result<()> {
        Ok(())
    }
    fn is_queue_ordered(&self) -> bool {
        true
    }
    fn deallocate(&self) -> Result<()> {
        self.1.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn queue_owned_memory_is_deallocated() {
    let program = Program::new();
    let is_gone = Arc::new(AtomicBool::new(false));
    let backend = QueueOwned(Arc::new(HostMemory::allocate(4).unwrap()), is_gone.clone());
    let buffer = Buffer::new(BufferParams::default(), 4, backend);
    let part = buffer.subspan(0, 2).unwrap();
    let wait = program.fence();
    let (_, gone) = submit(&program, "dealloca", &wait, &[value(part), I64(0)]);
    assert!(!is_gone.load(Ordering::Relaxed) && !is_reached(&gone));
    program.call("fence.signal", &[wait]).unwrap();
    assert!(is_gone.load(Ordering::Relaxed) && is_reached(&gone));
}

#[test]
fn work_waits_for_all_timepoints_of_its_fence() {
    let program = Program::new();
    let target = program.buffer(4);
    let (first, second) = (program.fence(), program.fence());
    let joined = program
        .call_with_spans("fence.join", &[I64(0), first.clone(), Value::NULL, second.clone()], &[3])
        .unwrap();
    let rest = [target.clone(), I64(0), I64(4), I64(7), I32(4), I64(0)];
    let (_, done) = submit(&program, "fill", &joined[0], &rest);
    program.call("fence.signal", std::slice::from_ref(&second)).unwrap();
    assert!(!is_reached(&done));
    assert_eq!(words_of(&target), [0]);
    program.call("fence.signal", std::slice::from_ref(&first)).unwrap();
    assert!(is_reached(&done));
    assert_eq!(words_of(&target), [7]);
}

#[test]
fn a_failure_propagates_through_fences() {
    let program = Program::new();
    let wait = program.fence();
    let (_, done) = submit(&program, "barrier", &wait, &[I64(0)]);
    program.call("fence.fail", &[wait, I32(StatusCode::DataLoss as i32)]).unwrap();
    assert_eq!(handle::<Fence>(&done).query().unwrap_err().code(), StatusCode::DataLoss);
}
