//! Consistency rules of records: the object type of each operation, and the payload types of each operation
//! and object (source: IREE's `hal/replay/recorder*.c`).

use crate::{ObjectType, OperationCode, PayloadType};

impl OperationCode {
    /// Type of the object that the operation is called on; `NONE` for scopes, and `None` for an unknown
    /// operation.
    pub fn object_type(self) -> Option<ObjectType> {
        if !self.is_known() {
            return None;
        }
        Some(match self.0 {
            1..=28 => ObjectType::DEVICE,
            100..=113 => ObjectType::ALLOCATOR,
            200..=203 => ObjectType::BUFFER,
            300..=313 => ObjectType::COMMAND_BUFFER,
            400..=402 => ObjectType::EXECUTABLE_CACHE,
            500..=503 => ObjectType::EXECUTABLE,
            _ => ObjectType::NONE,
        })
    }

    /// Payload types allowed in a record of the operation; only `NONE` if it has no payload, and empty for an
    /// unknown operation.
    ///
    /// Calls that failed or could not be captured may omit the payload.
    pub fn payload_types(self) -> &'static [PayloadType] {
        use OperationCode as Op;
        use PayloadType as P;
        match self {
            Op::DEVICE_CREATE_COMMAND_BUFFER => &[P::COMMAND_BUFFER_OBJECT],
            Op::DEVICE_CREATE_EVENT => &[P::EVENT_OBJECT],
            Op::DEVICE_CREATE_EXECUTABLE_CACHE => &[P::EXECUTABLE_CACHE_OBJECT],
            Op::DEVICE_IMPORT_FILE => &[P::FILE_OBJECT],
            Op::DEVICE_CREATE_SEMAPHORE => &[P::SEMAPHORE_OBJECT],
            Op::DEVICE_QUEUE_ALLOCA => &[P::DEVICE_QUEUE_ALLOCA],
            Op::DEVICE_QUEUE_DEALLOCA => &[P::DEVICE_QUEUE_DEALLOCA],
            Op::DEVICE_QUEUE_FILL => &[P::DEVICE_QUEUE_FILL],
            Op::DEVICE_QUEUE_UPDATE => &[P::DEVICE_QUEUE_UPDATE],
            Op::DEVICE_QUEUE_COPY => &[P::DEVICE_QUEUE_COPY],
            Op::DEVICE_QUEUE_READ => &[P::DEVICE_QUEUE_READ],
            Op::DEVICE_QUEUE_WRITE => &[P::DEVICE_QUEUE_WRITE],
            Op::DEVICE_QUEUE_DISPATCH | Op::COMMAND_BUFFER_DISPATCH => &[P::DISPATCH],
            Op::DEVICE_QUEUE_EXECUTE => &[P::DEVICE_QUEUE_EXECUTE],
            Op::REPLAY_SCOPE_BEGIN | Op::REPLAY_SCOPE_END => &[P::REPLAY_SCOPE],
            Op::ALLOCATOR_ALLOCATE_BUFFER => &[P::ALLOCATOR_ALLOCATE_BUFFER],
            Op::ALLOCATOR_IMPORT_BUFFER => &[P::ALLOCATOR_IMPORT_BUFFER],
            Op::BUFFER_MAP_RANGE | Op::BUFFER_INVALIDATE_RANGE => &[P::BUFFER_RANGE],
            Op::BUFFER_UNMAP_RANGE | Op::BUFFER_FLUSH_RANGE => &[P::BUFFER_RANGE, P::BUFFER_RANGE_DATA],
            Op::COMMAND_BUFFER_EXECUTION_BARRIER => &[P::COMMAND_BUFFER_EXECUTION_BARRIER],
            Op::COMMAND_BUFFER_SIGNAL_EVENT | Op::COMMAND_BUFFER_RESET_EVENT => &[P::COMMAND_BUFFER_EVENT],
            Op::COMMAND_BUFFER_WAIT_EVENTS => &[P::COMMAND_BUFFER_WAIT_EVENTS],
            Op::COMMAND_BUFFER_FILL_BUFFER => &[P::COMMAND_BUFFER_FILL_BUFFER],
            Op::COMMAND_BUFFER_UPDATE_BUFFER => &[P::COMMAND_BUFFER_UPDATE_BUFFER],
            Op::COMMAND_BUFFER_COPY_BUFFER => &[P::COMMAND_BUFFER_COPY_BUFFER],
            Op::EXECUTABLE_CACHE_PREPARE_EXECUTABLE => &[P::EXECUTABLE_PREPARE],
            _ if self.is_known() => &[P::NONE],
            _ => &[],
        }
    }
}

impl ObjectType {
    /// Payload type of the record of such an object, or `None` if such objects are never captured.
    pub fn payload_type(self) -> Option<PayloadType> {
        Some(match self {
            Self::DEVICE | Self::ALLOCATOR | Self::EXECUTABLE => PayloadType::NONE,
            Self::BUFFER => PayloadType::BUFFER_OBJECT,
            Self::COMMAND_BUFFER => PayloadType::COMMAND_BUFFER_OBJECT,
            Self::EXECUTABLE_CACHE => PayloadType::EXECUTABLE_CACHE_OBJECT,
            Self::SEMAPHORE => PayloadType::SEMAPHORE_OBJECT,
            Self::FILE => PayloadType::FILE_OBJECT,
            Self::EVENT => PayloadType::EVENT_OBJECT,
            _ => return None,
        })
    }
}
