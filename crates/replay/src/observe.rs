use std::ops::ControlFlow;

use rehal_base::{HostMemory, Result};
use rehal_hal::{Buffer, Executable};

use crate::{ExecutableRecord, Operation, RecordLocation};

/// A scope opened by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Its name; UTF-8 by convention, not validated.
    pub name: &'a [u8],
    /// The record that begins or ends it.
    pub location: RecordLocation,
}

/// Bytes that the program mapped for reading: its view of the results.
#[derive(Clone, Copy)]
pub struct HostRead<'a> {
    /// The record of the map call.
    pub location: RecordLocation,
    /// Name of the innermost open scope.
    pub scope: Option<&'a [u8]>,
    /// The buffer's id in the capture.
    pub buffer_id: u64,
    /// Byte offset in the buffer.
    pub offset: u64,
    /// The mapped bytes.
    pub memory: &'a HostMemory,
}

impl HostRead<'_> {
    /// Copies the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        // The whole memory is in range.
        self.memory.bytes(self.memory.whole()).unwrap_or_default().into_owned()
    }
}

/// Receives the steps of a replay. An error returned by an observer aborts the replay.
pub trait Observer {
    /// A scope begins; its timing starts after this returns.
    fn scope_begin(&mut self, scope: &Scope<'_>) -> Result<()> {
        let _ = scope;
        Ok(())
    }

    /// Whether it measures the time of a scope that is about to begin or to end. A replay in captured order
    /// waits for all work in flight before the end, so that the time includes it. What the scope frees is
    /// freed after it, unless that is much memory.
    fn times_scope(&self, scope: &Scope<'_>) -> bool {
        let _ = scope;
        false
    }

    /// A scope ends; its timing ended before this call.
    fn scope_end(&mut self, scope: &Scope<'_>) -> Result<()> {
        let _ = scope;
        Ok(())
    }

    /// Whether [`Observer::host_read`] is called; queried once, before a run.
    fn wants_host_reads(&self) -> bool {
        false
    }

    /// The program reads bytes of a buffer.
    fn host_read(&mut self, read: &HostRead<'_>) -> Result<()> {
        let _ = read;
        Ok(())
    }

    /// Work for observers follows, such as copying a host read, which the captured program did not
    /// do. Work in flight continues.
    fn pause_timing(&mut self) {}

    /// It is done.
    fn resume_timing(&mut self) {}

    /// An executable of the capture, or its substitute, has been prepared. It is called for each if functions
    /// of one are replaced one by one.
    fn executable(&mut self, record: &ExecutableRecord<'_>, executable: &Executable) -> Result<()> {
        let _ = (record, executable);
        Ok(())
    }

    /// Whether new memory is zeroed, so that what nothing writes is the same in every run; queried once,
    /// before a run.
    fn wants_zeroed_memory(&self) -> bool {
        false
    }

    /// A buffer has been allocated, and nothing has been written to it. Buffers that a queue allocates are
    /// included if an observer [wants](Observer::wants_operations) the operations of the submission.
    fn allocated(&mut self, buffer_id: u64, buffer: &Buffer) -> Result<()> {
        let _ = (buffer_id, buffer);
        Ok(())
    }

    /// Whether [`Observer::step`] is called; queried once, before a run.
    fn wants_steps(&self) -> bool {
        false
    }

    /// The operation of the record at `location` is about to run; for crash reports and progress.
    fn step(&mut self, location: RecordLocation) -> Result<()> {
        let _ = location;
        Ok(())
    }

    /// Like [`Observer::step`], for a command that is about to be performed by itself because an observer
    /// wants its operation, and for its submission again when that continues.
    fn command_step(&mut self, location: RecordLocation) -> Result<()> {
        let _ = location;
        Ok(())
    }

    /// Whether profiles relate work to the record that it replays; queried once, before a run.
    fn profiles_records(&self) -> bool {
        false
    }

    /// Whether [`Observer::before_operation`] and [`Observer::after_operation`] are called; queried once,
    /// before a run.
    ///
    /// A run with such an observer is in serialized order. The commands of command buffers are recorded, and
    /// also performed one by one: each in a command buffer of its own, with the binding table of the
    /// submission. The submission waits before its first command, and signals after its last one.
    fn wants_operations(&self) -> bool {
        false
    }

    /// Whether the operations of the submission at this record are wanted. A submission whose operations no
    /// observer wants is performed as a whole. Called when it is issued, which for a deferred submission is
    /// before it can run.
    fn wants_submission(&mut self, submission: RecordLocation) -> bool {
        let _ = submission;
        true
    }

    /// Whether a command of a wanted submission is wanted: the command of the record at `location`, whose
    /// command buffer has been executed `occurrence` times before. Commands between those that are wanted are
    /// executed together, so that they cost what they cost without observers. Called once for each, in order.
    /// If other observers want an operation, it is reported to this one as well.
    fn wants_command(&mut self, location: RecordLocation, occurrence: u64) -> bool {
        let _ = (location, occurrence);
        true
    }

    /// An operation is about to be performed, and no work is in flight. `Break` ends the run before it,
    /// without an error.
    fn before_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let _ = operation;
        Ok(ControlFlow::Continue(()))
    }

    /// An operation is complete, and no work is in flight. `Break` ends the run, without an error.
    fn after_operation(&mut self, operation: &Operation<'_>) -> Result<ControlFlow<()>> {
        let _ = operation;
        Ok(ControlFlow::Continue(()))
    }
}

/// Observers, and another after them.
pub(crate) fn with<'o>(
    observers: &'o mut [&mut dyn Observer],
    last: &'o mut dyn Observer,
) -> Vec<&'o mut dyn Observer> {
    observers.iter_mut().map(|it| &mut **it as _).chain([last]).collect()
}
