//! The records of a capture that submissions and commands replay.

use rehal_base::Result;

use crate::layout::{self, NONE, RELATIONSHIP_REPLAYS_RECORD};
use crate::model::QueueKey;
use crate::{ContentType, EndpointType, Record, rows};

/// The rows that relate submissions and commands to records of a capture.
#[derive(Debug, Default)]
pub struct Replayed<'a> {
    rows: Vec<&'a layout::EventRelationship>,
}

/// Type, device, queue and ids of a source.
type Key = (u32, u32, u32, u64, u64);

impl<'a> Replayed<'a> {
    /// Adds the rows of a record.
    pub fn add(&mut self, record: &Record<'a>) -> Result<()> {
        if record.content() != Some(ContentType::EventRelationships) {
            return Ok(());
        }
        for row in record.rows::<rows::EventRelationship<'_>>() {
            let row = row?.header;
            let target = EndpointType(row.target_type.get());
            if row.relationship_type.get() == RELATIONSHIP_REPLAYS_RECORD && target == EndpointType::ARTIFACT
            {
                self.rows.push(row);
            }
        }
        Ok(())
    }

    /// Sorts the rows, for [`Replayed::find`].
    pub fn finish(mut self) -> Self {
        self.rows.sort_by_key(|row| key_of(row));
        self
    }

    /// The ordinal of the record that an event replays: that of its command, or else of its submission.
    pub fn find(&self, queue: QueueKey, submission: u64, command_buffer: u64, command: u32) -> Option<u64> {
        let (command_operation, queue_submission) =
            (EndpointType::COMMAND_OPERATION.0, EndpointType::QUEUE_SUBMISSION.0);
        let of_command = || self.get((command_operation, queue.0, NONE, command_buffer, command.into()));
        let of_submission = || self.get((queue_submission, queue.0, queue.1, submission, 0));
        if command == NONE { of_submission() } else { of_command().or_else(of_submission) }
    }

    fn get(&self, key: Key) -> Option<u64> {
        let at = self.rows.partition_point(|row| key_of(row) < key);
        self.rows.get(at).filter(|row| key_of(row) == key).map(|row| row.target_id.get())
    }
}

fn key_of(row: &layout::EventRelationship) -> Key {
    let (device, queue) = (row.physical_device_ordinal.get(), row.queue_ordinal.get());
    (row.source_type.get(), device, queue, row.source_id.get(), row.source_secondary_id.get())
}
