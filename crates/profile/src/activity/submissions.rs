//! The waits and signals of submissions.

use super::Submission;
use crate::layout::{self, RELATIONSHIP_SIGNALS, RELATIONSHIP_WAITS};
use crate::model::QueueKey;
use crate::model::queue_of;
use crate::table::Table;
use crate::{EndpointType, QueueEventType};

/// The submissions of a bundle.
pub(super) struct Submissions {
    max_count: usize,
    all: Table<(QueueKey, u64), Timed>,
}

struct Timed {
    /// The time at which it was submitted; without its event, after all others.
    at: i64,
    submission: Submission,
}

impl Submissions {
    /// An empty set that leaves out submissions beyond `max_count`.
    pub(super) fn new(max_count: usize) -> Self {
        Self { max_count, all: Table::default() }
    }

    /// Adds the event of a submission.
    pub(super) fn add(&mut self, event: &layout::QueueEvent) {
        if let Some(timed) = self.get(queue_of!(event), event.submission_id.get()) {
            timed.at = event.host_time_ns.get();
            timed.submission.operation = QueueEventType(event.event_type.get()).name();
        }
    }

    /// Adds a semaphore, if the relationship is to one.
    pub(super) fn relate(&mut self, relationship: &layout::EventRelationship) {
        let is_wait = match relationship.relationship_type.get() {
            RELATIONSHIP_WAITS => true,
            RELATIONSHIP_SIGNALS => false,
            _ => return,
        };
        let ends = [relationship.source_type.get(), relationship.target_type.get()];
        if ends != [EndpointType::QUEUE_SUBMISSION.0, EndpointType::ARTIFACT.0] {
            return;
        }
        let timepoint = (relationship.target_id.get(), relationship.target_secondary_id.get());
        if let Some(timed) = self.get(queue_of!(relationship), relationship.source_id.get()) {
            let Submission { waits, signals, .. } = &mut timed.submission;
            (if is_wait { waits } else { signals }).push(timepoint);
        }
    }

    /// All of them in the order in which they were submitted; none if no semaphore is known.
    pub(super) fn finish(self) -> Vec<Submission> {
        let mut all = self.all.into_values();
        if all.iter().all(|it| it.submission.waits.is_empty() && it.submission.signals.is_empty()) {
            return Vec::new();
        }
        all.sort_by_key(|it| it.at);
        all.into_iter().map(|it| it.submission).collect()
    }

    /// A submission, unless it is beyond the limit.
    fn get(&mut self, queue: QueueKey, id: u64) -> Option<&mut Timed> {
        let key = (queue, id);
        if self.all.len() >= self.max_count && self.all.position(&key).is_none() {
            return None;
        }
        Some(self.all.entry(key, || {
            let (waits, signals) = (Vec::new(), Vec::new());
            Timed {
                at: i64::MAX,
                submission: Submission { id, device: queue.0, operation: "", waits, signals },
            }
        }))
    }
}
