use super::{ProfiledOperation, QueueOpKind};

/// The operation of a kept event, in half a cache line.
#[derive(Debug)]
pub(super) struct KeptOperation {
    submission_id: u64,
    /// The command buffer or the allocation: no operation has both, and the event says which.
    object_id: u64,
    payload_bytes: u64,
    operation_count: u32,
    queue_ordinal: u16,
    kind: QueueOpKind,
    /// What else is kept of the event.
    pub flags: u8,
}

const _: () = assert!(size_of::<KeptOperation>() == 32);

impl KeptOperation {
    /// An operation whose object is a command buffer or an allocation.
    #[inline(always)]
    pub fn new(operation: &ProfiledOperation, has_command_buffer: bool, flags: u8) -> Self {
        Self {
            submission_id: operation.submission_id,
            object_id: match has_command_buffer {
                true => operation.command_buffer_id,
                false => operation.allocation_id,
            },
            payload_bytes: operation.payload_bytes,
            operation_count: operation.operation_count,
            queue_ordinal: operation.queue_ordinal as u16,
            kind: operation.kind,
            flags,
        }
    }

    pub fn kind(&self) -> QueueOpKind {
        self.kind
    }

    /// The operation, with the same object.
    pub fn operation(&self, has_command_buffer: bool) -> ProfiledOperation {
        ProfiledOperation {
            kind: self.kind,
            queue_ordinal: self.queue_ordinal.into(),
            submission_id: self.submission_id,
            command_buffer_id: if has_command_buffer { self.object_id } else { 0 },
            allocation_id: if has_command_buffer { 0 } else { self.object_id },
            operation_count: self.operation_count,
            payload_bytes: self.payload_bytes,
        }
    }
}

/// The ordinal of a replayed record, in 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptRecord(u64);

impl KeptRecord {
    /// No capture has that many records.
    const NONE: u64 = u64::MAX;

    #[inline(always)]
    pub fn new(record: Option<u64>) -> Self {
        Self(record.unwrap_or(Self::NONE))
    }

    pub fn get(self) -> Option<u64> {
        Some(self.0).filter(|record| *record != Self::NONE)
    }
}
