use std::cell::Cell;

use rehal_base::{Result, StatusCode};

use super::clock::event_ns;
use super::session::{Profiler, replayed_record};
use super::{ExecutionLog, HostExecution, ProfiledOperation, QueueOpKind};
use crate::CommandBuffer;

/// The synchronous execution of a command buffer, of which a session wants host executions only. Each command is kept when it has
/// ended, the last one together with the submission, under one lock. What ends after the session is not reported.
pub struct ImmediateExecution<'p> {
    profiler: &'p Profiler,
    session_id: u64,
    submission_id: u64,
    command_buffer_id: u64,
    command_count: u32,
    start_ns: i64,
    is_complete: Cell<bool>,
}

/// Where the events of the commands of an [`ImmediateExecution`] are kept.
pub struct KeptCommands<'l> {
    submission_id: u64,
    command_buffer_id: u64,
    log: &'l mut ExecutionLog,
}

impl Profiler {
    /// Begins the synchronous execution of a command buffer. `None` without a session, if the session has a filter or requests other
    /// data of submissions than host executions, and until the command buffer has been described. `command_count` returns the number
    /// of its commands, the first time that a profile asks for it.
    #[inline]
    pub fn immediate(
        &self,
        command_buffer: &CommandBuffer,
        command_count: impl FnOnce() -> Result<u32>,
    ) -> Option<ImmediateExecution<'_>> {
        let session_id = self.immediate_session_id()?;
        if !command_buffer.identity().is_described_in(session_id) {
            return None;
        }
        Some(ImmediateExecution {
            profiler: self,
            session_id,
            command_buffer_id: command_buffer.id(),
            command_count: command_buffer.profiled_count(command_count).ok()?,
            submission_id: self.next_submission_id(session_id)?,
            start_ns: event_ns(),
            is_complete: Cell::new(false),
        })
    }
}

impl ImmediateExecution<'_> {
    /// Whether it is [complete](Self::complete).
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.is_complete.get()
    }

    /// Calls `keep`, which adds commands that have ended, unless the session has ended.
    #[inline]
    pub fn keep(&self, keep: impl FnOnce(&mut KeptCommands<'_>)) {
        let (submission_id, command_buffer_id) = (self.submission_id, self.command_buffer_id);
        self.profiler.keep_executions(self.session_id, |log| {
            keep(&mut KeptCommands { submission_id, command_buffer_id, log });
        });
    }

    /// The submission has been executed; `keep` adds the last of its commands. To be called before its signals are settled, since the
    /// program may end the session then.
    #[inline]
    pub fn complete(&self, status: StatusCode, end_ns: i64, keep: impl FnOnce(&mut KeptCommands<'_>)) {
        debug_assert!(!self.is_complete.get(), "it ends once");
        self.is_complete.set(true);
        self.keep(|commands| {
            keep(commands);
            commands.push(&HostExecution {
                operation: ProfiledOperation {
                    operation_count: self.command_count,
                    ..commands.operation(QueueOpKind::Execute, 0)
                },
                command_index: None,
                dispatch: None,
                was_deferred: false,
                status,
                start_ns: self.start_ns,
                end_ns,
                thread_time_ns: 0,
                replayed_record: replayed_record(),
            });
        });
    }
}

impl KeptCommands<'_> {
    /// The operation of a command, which moves so many bytes.
    #[inline(always)]
    pub fn operation(&self, kind: QueueOpKind, payload_bytes: u64) -> ProfiledOperation {
        ProfiledOperation {
            kind,
            queue_ordinal: 0,
            submission_id: self.submission_id,
            command_buffer_id: self.command_buffer_id,
            allocation_id: 0,
            operation_count: 1,
            payload_bytes,
        }
    }

    /// Adds a command.
    #[inline(always)]
    pub fn push(&mut self, command: &HostExecution) {
        self.log.push(command);
    }
}
