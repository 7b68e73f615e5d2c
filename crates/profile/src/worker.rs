//! The work of workers, from the relationships that our tools write.

use std::borrow::Cow;

use crate::layout::{EventRelationship, NONE, RELATIONSHIP_WORKER, SUBMITTING_THREAD, WAITING_THREAD};
use crate::model::{Model, QueueKey, queue_of};
use crate::{EndpointType, QueueEventType};

/// The name of a worker by its number, which threads of the program have too.
pub fn worker_name(worker: u32) -> Cow<'static, str> {
    match worker {
        WAITING_THREAD => Cow::Borrowed("waiting threads"),
        SUBMITTING_THREAD => Cow::Borrowed("submitting threads"),
        worker => Cow::Owned(format!("worker {worker}")),
    }
}

/// Work of a command that a worker executed without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSpan {
    pub queue: QueueKey,
    /// See [`worker_name`].
    pub worker: u32,
    /// The command buffer, or 0.
    pub command_buffer: u64,
    /// The submission, if it has no command buffer, or else 0.
    pub submission: u64,
    /// The command, or [`NONE`].
    pub command: u32,
    /// The operation of the submission, if it has no command buffer and the bundle says so.
    operation: Option<QueueEventType>,
    pub start_ns: i64,
    pub end_ns: i64,
}

impl WorkerSpan {
    /// The work that a row describes, if it is that of a worker.
    pub fn from_row(row: &EventRelationship) -> Option<Self> {
        if row.relationship_type.get() != RELATIONSHIP_WORKER {
            return None;
        }
        let secondary = row.source_secondary_id.get();
        let (id, what) = (row.source_id.get(), secondary as u32);
        let (command_buffer, submission, command, operation) = match EndpointType(row.source_type.get()) {
            EndpointType::COMMAND_OPERATION => (id, 0, what, None),
            EndpointType::QUEUE_SUBMISSION => {
                (0, id, NONE, Some(what).filter(|it| *it != NONE).map(QueueEventType))
            }
            _ => return None,
        };
        let time = |ns: u64| i64::try_from(ns).unwrap_or(-1);
        Some(Self {
            queue: queue_of!(row),
            worker: (secondary >> 32) as u32,
            command_buffer,
            submission,
            command,
            operation,
            start_ns: time(row.target_id.get()),
            end_ns: time(row.target_secondary_id.get()),
        })
    }

    /// The name of the work: the function or kind of the command, or the kind of the submission, as far as
    /// the bundle describes it.
    pub fn name<'m>(&self, model: &Model<'m>) -> Cow<'m, [u8]> {
        if let Some(operation) = self.operation {
            return Cow::Borrowed(operation.name().as_bytes());
        }
        let commands = model.command_buffers.get(&self.command_buffer).map_or(&[][..], |it| &it.operations);
        let at = |index: &usize| model.operations[*index];
        let is_it = |index: &&usize| self.command != NONE && at(index).command_index.get() == self.command;
        // Commands are almost always written in order.
        let found = commands.get(self.command as usize).filter(is_it).or_else(|| commands.iter().find(is_it));
        let key = found.and_then(|index| model.operation_key(at(index)).ok());
        key.unwrap_or(Cow::Borrowed(b"work"))
    }
}
