use super::kept_operation::{KeptOperation, KeptRecord};
use super::{QueueEvent, QueueOpKind};
use crate::Timepoint;

/// Queue events that are kept until they are written. Most of the cost of an event is the time to write it to memory, so each
/// takes the size of a cache line, and each timepoint 16 bytes.
#[derive(Debug, Default)]
pub struct SubmissionLog {
    submissions: Vec<Kept>,
    /// The waits and then the signals of all submissions.
    timepoints: Vec<Timepoint<u64>>,
    /// Submissions that replay a record.
    replaying: usize,
}

/// A [`QueueEvent`] whose timepoints are in the log.
#[derive(Debug)]
struct Kept {
    operation: KeptOperation,
    submitted_ns: i64,
    ready_ns: i64,
    replayed_record: KeptRecord,
    wait_count: u32,
    signal_count: u32,
}

const _: () = assert!(size_of::<Kept>() == 64, "a cache line");

const WAS_DEFERRED: u8 = 1 << 0;

/// Whether the object of an event is a command buffer, not an allocation.
fn has_command_buffer(kind: QueueOpKind) -> bool {
    kind == QueueOpKind::Execute
}

impl SubmissionLog {
    /// Adds an event.
    pub fn push(&mut self, event: &QueueEvent<'_>) {
        self.timepoints.extend_from_slice(event.waits);
        self.timepoints.extend_from_slice(event.signals);
        self.push_without_timepoints(event, event.waits.len(), event.signals.len());
    }

    /// Adds an event whose timepoints `waits` and then `signals` yield, instead of those that it lists.
    #[inline]
    pub(super) fn push_with(
        &mut self,
        event: &QueueEvent<'_>,
        waits: impl ExactSizeIterator<Item = Timepoint<u64>>,
        signals: impl ExactSizeIterator<Item = Timepoint<u64>>,
    ) {
        let (wait_count, signal_count) = (waits.len(), signals.len());
        // One loop for each list: a chained iterator costs as much as the rest of the event.
        self.timepoints.extend(waits);
        self.timepoints.extend(signals);
        self.push_without_timepoints(event, wait_count, signal_count);
    }

    #[inline]
    fn push_without_timepoints(&mut self, event: &QueueEvent<'_>, wait_count: usize, signal_count: usize) {
        let flags = if event.was_deferred { WAS_DEFERRED } else { 0 };
        self.replaying += usize::from(event.replayed_record.is_some());
        self.submissions.push(Kept {
            operation: KeptOperation::new(&event.operation, has_command_buffer(event.operation.kind), flags),
            submitted_ns: event.submitted_ns,
            ready_ns: event.ready_ns,
            replayed_record: KeptRecord::new(event.replayed_record),
            wait_count: wait_count as u32,
            signal_count: signal_count as u32,
        });
    }

    /// The events, in the order in which they were added.
    pub fn events(&self) -> impl Iterator<Item = QueueEvent<'_>> {
        let mut timepoints = &*self.timepoints;
        self.submissions.iter().map(move |kept| {
            let (waits, rest) = timepoints.split_at(kept.wait_count as usize);
            let (signals, rest) = rest.split_at(kept.signal_count as usize);
            timepoints = rest;
            kept.event(waits, signals)
        })
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.submissions.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.submissions.is_empty()
    }

    /// Number of timepoints of all events, and of records that they replay.
    pub fn relationship_count(&self) -> usize {
        self.timepoints.len() + self.replaying
    }

    /// Removes all events, and keeps the capacity.
    pub fn clear(&mut self) {
        self.submissions.clear();
        self.timepoints.clear();
        self.replaying = 0;
    }
}

impl Kept {
    fn event<'a>(&self, waits: &'a [Timepoint<u64>], signals: &'a [Timepoint<u64>]) -> QueueEvent<'a> {
        QueueEvent {
            operation: self.operation.operation(has_command_buffer(self.operation.kind())),
            waits,
            signals,
            was_deferred: self.operation.flags & WAS_DEFERRED != 0,
            submitted_ns: self.submitted_ns,
            ready_ns: self.ready_ns,
            replayed_record: self.replayed_record.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfiledOperation;

    fn event<'a>(
        kind: QueueOpKind,
        waits: &'a [Timepoint<u64>],
        signals: &'a [Timepoint<u64>],
    ) -> QueueEvent<'a> {
        let is_execution = kind == QueueOpKind::Execute;
        QueueEvent {
            operation: ProfiledOperation {
                kind,
                queue_ordinal: 3,
                submission_id: 7,
                command_buffer_id: if is_execution { 11 } else { 0 },
                allocation_id: if is_execution { 0 } else { 13 },
                operation_count: 17,
                payload_bytes: 19,
            },
            waits,
            signals,
            was_deferred: is_execution,
            submitted_ns: -23,
            ready_ns: 29,
            replayed_record: is_execution.then_some(0),
        }
    }

    #[test]
    fn events_are_returned_as_they_were_added() {
        let timepoints: Vec<_> = (1..6).map(|at| Timepoint { semaphore: at, value: 10 * at }).collect();
        let events = [
            event(QueueOpKind::Execute, &timepoints[..2], &timepoints[2..3]),
            event(QueueOpKind::Alloca, &[], &[]),
            event(QueueOpKind::Dealloca, &[], &timepoints[1..]),
            event(QueueOpKind::Execute, &timepoints, &[]),
        ];
        let mut log = SubmissionLog::default();
        for (index, event) in events.iter().enumerate() {
            if index % 2 == 0 {
                log.push(event);
            } else {
                let bare = QueueEvent { waits: &[], signals: &[], ..*event };
                log.push_with(&bare, event.waits.iter().copied(), event.signals.iter().copied());
            }
        }
        assert_eq!(log.events().collect::<Vec<_>>(), events);
        assert_eq!((log.len(), log.relationship_count()), (4, 3 + 4 + 5 + 2));
        log.clear();
        assert_eq!((log.len(), log.relationship_count(), log.events().count()), (0, 0, 0));
    }
}
