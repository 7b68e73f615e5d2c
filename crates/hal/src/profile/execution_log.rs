use rehal_base::StatusCode;

use super::kept_operation::{KeptOperation, KeptRecord};
use super::{HostExecution, ProfiledDispatch, QueueOpKind};

/// Host executions that are kept until they are written, as [`SubmissionLog`](super::SubmissionLog) keeps queue events: each
/// takes the size of a cache line, and its dispatch less than another.
#[derive(Debug, Default)]
pub struct ExecutionLog {
    executions: Vec<Kept>,
    /// The dispatches of those that are dispatches, in the same order.
    dispatches: Vec<KeptDispatch>,
    /// Executions that replay a record.
    replaying: usize,
}

/// A [`HostExecution`] whose dispatch is in the log.
#[derive(Debug)]
struct Kept {
    operation: KeptOperation,
    start_ns: i64,
    end_ns: i64,
    replayed_record: KeptRecord,
    /// [`NO_COMMAND`] for a queue operation.
    command_index: u32,
    status: StatusCode,
}

const _: () = assert!(size_of::<Kept>() == 64, "a cache line");
const _: () = assert!(size_of::<KeptDispatch>() == 48);

#[derive(Debug)]
struct KeptDispatch {
    dispatch: ProfiledDispatch,
    thread_time_ns: i64,
}

/// No command buffer has that many commands.
const NO_COMMAND: u32 = u32::MAX;

const IS_DISPATCH: u8 = 1 << 0;
const WAS_DEFERRED: u8 = 1 << 1;

/// Whether the object of an event is a command buffer, not an allocation.
fn has_command_buffer(kind: QueueOpKind, command_index: Option<u32>) -> bool {
    kind == QueueOpKind::Execute || command_index.is_some()
}

impl ExecutionLog {
    /// Adds an event.
    // Copies of an event, whose fields were just written one by one, take longer than all else here.
    #[inline(always)]
    pub fn push(&mut self, event: &HostExecution) {
        let mut flags = if event.was_deferred { WAS_DEFERRED } else { 0 };
        if let Some(dispatch) = event.dispatch {
            flags |= IS_DISPATCH;
            self.dispatches.push(KeptDispatch { dispatch, thread_time_ns: event.thread_time_ns });
        }
        self.replaying += usize::from(event.replayed_record.is_some());
        let has_command_buffer = has_command_buffer(event.operation.kind, event.command_index);
        self.executions.push(Kept {
            operation: KeptOperation::new(&event.operation, has_command_buffer, flags),
            start_ns: event.start_ns,
            end_ns: event.end_ns,
            replayed_record: KeptRecord::new(event.replayed_record),
            command_index: event.command_index.unwrap_or(NO_COMMAND),
            status: event.status,
        });
    }

    /// The events, in the order in which they were added.
    pub fn events(&self) -> impl Iterator<Item = HostExecution> {
        let mut dispatches = self.dispatches.iter();
        self.executions.iter().map(move |kept| {
            let dispatch = if kept.operation.flags & IS_DISPATCH != 0 { dispatches.next() } else { None };
            kept.event(dispatch)
        })
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.executions.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.executions.is_empty()
    }

    /// Number of records that the events replay.
    pub fn relationship_count(&self) -> usize {
        self.replaying
    }

    /// Removes all events, and keeps the capacity.
    pub fn clear(&mut self) {
        self.executions.clear();
        self.dispatches.clear();
        self.replaying = 0;
    }
}

impl Kept {
    fn event(&self, dispatch: Option<&KeptDispatch>) -> HostExecution {
        let command_index = Some(self.command_index).filter(|index| *index != NO_COMMAND);
        HostExecution {
            operation: self.operation.operation(has_command_buffer(self.operation.kind(), command_index)),
            command_index,
            dispatch: dispatch.map(|it| it.dispatch),
            was_deferred: self.operation.flags & WAS_DEFERRED != 0,
            status: self.status,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            thread_time_ns: dispatch.map_or(0, |it| it.thread_time_ns),
            replayed_record: self.replayed_record.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfiledOperation;

    fn execution(kind: QueueOpKind, command_index: Option<u32>) -> HostExecution {
        let has_command_buffer = has_command_buffer(kind, command_index);
        let is_dispatch = kind == QueueOpKind::Dispatch;
        HostExecution {
            operation: ProfiledOperation {
                kind,
                queue_ordinal: 3,
                submission_id: 7,
                command_buffer_id: if has_command_buffer { 11 } else { 0 },
                allocation_id: if has_command_buffer || is_dispatch { 0 } else { 13 },
                operation_count: 17,
                payload_bytes: 19,
            },
            command_index,
            dispatch: is_dispatch.then_some(ProfiledDispatch {
                executable_id: 23,
                function: 29,
                workgroup_count: [31, 37, 41],
                workgroup_size: [1, 2, 3],
                is_indirect: command_index == Some(0),
            }),
            was_deferred: command_index.is_none(),
            status: if has_command_buffer { StatusCode::Ok } else { StatusCode::Incompatible },
            start_ns: -43,
            end_ns: 47,
            thread_time_ns: if is_dispatch { 53 } else { 0 },
            replayed_record: command_index.is_none().then_some(0),
        }
    }

    #[test]
    fn events_are_returned_as_they_were_added() {
        let events = [
            execution(QueueOpKind::Execute, None),
            execution(QueueOpKind::Dispatch, Some(0)),
            execution(QueueOpKind::Copy, Some(1)),
            execution(QueueOpKind::Dispatch, None),
            execution(QueueOpKind::Alloca, None),
            execution(QueueOpKind::Dispatch, Some(2)),
        ];
        let mut log = ExecutionLog::default();
        events.iter().for_each(|event| log.push(event));
        assert_eq!(log.events().collect::<Vec<_>>(), events);
        assert_eq!((log.len(), log.relationship_count()), (6, 3));
        log.clear();
        assert_eq!((log.len(), log.relationship_count(), log.events().count()), (0, 0, 0));
    }
}
