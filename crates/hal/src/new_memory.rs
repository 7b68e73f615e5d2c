//! Memory of zeros, where what nothing has written must be the same in every run.
//!
//! Devices may return memory with the results of earlier work. Kernels read it, copies move it, and hosts
//! read the padding between results: bytes that differ from one run to the next, without being results.

use rehal_base::Result;

use crate::{
    Buffer, BufferRef, Device, Live, QueueAffinity, QueueOp, Semaphore, SemaphoreFlags, Submission, Timepoint,
};

/// Zeroes a buffer of `device` that has just been allocated, and waits for that.
pub fn zero(device: &Device, buffer: &Buffer) -> Result<()> {
    if device.info().zeroes_memory {
        return Ok(());
    }
    let affinity = buffer.params().affinity;
    let done = device.create_semaphore(affinity, 0, SemaphoreFlags::HOST_INTERRUPT)?;
    fill(device, affinity, &[], &[done.at(1)], buffer)?;
    device.flush(affinity)?;
    done.wait(1, None)
}

/// Submits an operation with `submit`. The memory of an alloca is zeroed before its signals are reached.
pub fn zeroed(
    submission: &Submission<Live<'_>>,
    submit: impl FnOnce(&Submission<Live<'_>>) -> Result<Option<Buffer>>,
) -> Result<Option<Buffer>> {
    let Submission { device, affinity, waits, signals, .. } = *submission;
    let QueueOp::Alloca { params, size, flags, created } = submission.op else { return submit(submission) };
    if device.info().zeroes_memory {
        return submit(submission);
    }
    let allocated = device.create_semaphore(affinity, 0, SemaphoreFlags::default())?;
    let between = [allocated.at(1)];
    let op = QueueOp::Alloca { params, size, flags, created };
    let buffer = submit(&Submission { device, affinity, waits, signals: &between, op })?;
    if let Some(buffer) = &buffer {
        fill(device, affinity, &between, signals, buffer)?;
    }
    Ok(buffer)
}

/// Fills a buffer with zeros. The operation is not checked: the program's use of the buffer need not allow
/// it.
fn fill(
    device: &Device,
    affinity: QueueAffinity,
    waits: &[Timepoint<&Semaphore>],
    signals: &[Timepoint<&Semaphore>],
    buffer: &Buffer,
) -> Result<()> {
    let op = QueueOp::Fill { target: BufferRef::from(buffer), pattern: &[0][..], flags: 0 };
    device.backend().submit(&Submission { device, affinity, waits, signals, op }).map(drop)
}
