//! The enumerations of the format. Each table is the only place that maps a number to its name, and the names
//! are those that `iree-dump-replay` prints.
//!
//! A code is a newtype over its number, so that unknown values can still be stored, compared and printed.

use std::fmt;

macro_rules! codes {
    ($(
        $(#[$doc:meta])*
        $name:ident($repr:ty) { $( $constant:ident = $number:literal $text:literal, )* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
            pub struct $name(
                /// The number in the file.
                pub $repr,
            );

            #[allow(missing_docs, reason = "the names are the format's own")]
            #[allow(clippy::manual_range_patterns, reason = "some tables happen to have no holes")]
            impl $name {
                $( pub const $constant: Self = Self($number); )*

                /// All named values, in the order of the table.
                pub const ALL: &'static [Self] = &[ $( Self::$constant, )* ];

                /// The name that dumps print; `unknown` for an unnamed value.
                pub const fn name(self) -> &'static str {
                    match self.0 {
                        $( $number => $text, )*
                        _ => "unknown",
                    }
                }

                /// Whether the value has a name.
                pub const fn is_known(self) -> bool {
                    matches!(self.0, $( $number )|*)
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(f, "{}({})", self.name(), self.0)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Display::fmt(self, f)
                }
            }
        )*
    };
}

codes! {
    /// Type of a record.
    RecordType(u16) {
        NONE = 0 "none",
        SESSION = 1 "session",
        OBJECT = 2 "object",
        OPERATION = 3 "operation",
        BLOB = 4 "blob",
        UNSUPPORTED = 5 "unsupported",
    }

    /// Type of a HAL object.
    ObjectType(u32) {
        NONE = 0 "none",
        DEVICE = 1 "device",
        ALLOCATOR = 2 "allocator",
        POOL = 3 "pool",
        BUFFER = 4 "buffer",
        COMMAND_BUFFER = 5 "command_buffer",
        EXECUTABLE_CACHE = 6 "executable_cache",
        EXECUTABLE = 7 "executable",
        SEMAPHORE = 8 "semaphore",
        FILE = 9 "file",
        EVENT = 10 "event",
        CHANNEL = 11 "channel",
        HOST_CALL = 12 "host_call",
    }

    /// A HAL operation.
    OperationCode(u32) {
        NONE = 0 "none",
        DEVICE_TRIM = 1 "device.trim",
        DEVICE_QUERY_I64 = 2 "device.query_i64",
        DEVICE_QUERY_CAPABILITIES = 3 "device.query_capabilities",
        DEVICE_REFINE_TOPOLOGY_EDGE = 4 "device.refine_topology_edge",
        DEVICE_ASSIGN_TOPOLOGY_INFO = 5 "device.assign_topology_info",
        DEVICE_CREATE_CHANNEL = 6 "device.create_channel",
        DEVICE_CREATE_COMMAND_BUFFER = 7 "device.create_command_buffer",
        DEVICE_CREATE_EVENT = 8 "device.create_event",
        DEVICE_CREATE_EXECUTABLE_CACHE = 9 "device.create_executable_cache",
        DEVICE_IMPORT_FILE = 10 "device.import_file",
        DEVICE_CREATE_SEMAPHORE = 11 "device.create_semaphore",
        DEVICE_QUERY_QUEUE_POOL_BACKEND = 12 "device.query_queue_pool_backend",
        DEVICE_QUEUE_ALLOCA = 13 "device.queue_alloca",
        DEVICE_QUEUE_DEALLOCA = 14 "device.queue_dealloca",
        DEVICE_QUEUE_FILL = 15 "device.queue_fill",
        DEVICE_QUEUE_UPDATE = 16 "device.queue_update",
        DEVICE_QUEUE_COPY = 17 "device.queue_copy",
        DEVICE_QUEUE_READ = 18 "device.queue_read",
        DEVICE_QUEUE_WRITE = 19 "device.queue_write",
        DEVICE_QUEUE_HOST_CALL = 20 "device.queue_host_call",
        DEVICE_QUEUE_DISPATCH = 21 "device.queue_dispatch",
        DEVICE_QUEUE_EXECUTE = 22 "device.queue_execute",
        DEVICE_QUEUE_FLUSH = 23 "device.queue_flush",
        DEVICE_PROFILING_BEGIN = 24 "device.profiling_begin",
        DEVICE_PROFILING_FLUSH = 25 "device.profiling_flush",
        DEVICE_PROFILING_END = 26 "device.profiling_end",
        DEVICE_EXTERNAL_CAPTURE_BEGIN = 27 "device.external_capture_begin",
        DEVICE_EXTERNAL_CAPTURE_END = 28 "device.external_capture_end",
        REPLAY_SCOPE_BEGIN = 50 "replay.scope_begin",
        REPLAY_SCOPE_END = 51 "replay.scope_end",
        ALLOCATOR_TRIM = 100 "allocator.trim",
        ALLOCATOR_QUERY_MEMORY_HEAPS = 101 "allocator.query_memory_heaps",
        ALLOCATOR_ALLOCATE_BUFFER = 102 "allocator.allocate_buffer",
        ALLOCATOR_IMPORT_BUFFER = 103 "allocator.import_buffer",
        ALLOCATOR_EXPORT_BUFFER = 104 "allocator.export_buffer",
        ALLOCATOR_VIRTUAL_MEMORY_QUERY_GRANULARITY = 105 "allocator.virtual_memory_query_granularity",
        ALLOCATOR_VIRTUAL_MEMORY_RESERVE = 106 "allocator.virtual_memory_reserve",
        ALLOCATOR_VIRTUAL_MEMORY_RELEASE = 107 "allocator.virtual_memory_release",
        ALLOCATOR_PHYSICAL_MEMORY_ALLOCATE = 108 "allocator.physical_memory_allocate",
        ALLOCATOR_PHYSICAL_MEMORY_FREE = 109 "allocator.physical_memory_free",
        ALLOCATOR_VIRTUAL_MEMORY_MAP = 110 "allocator.virtual_memory_map",
        ALLOCATOR_VIRTUAL_MEMORY_UNMAP = 111 "allocator.virtual_memory_unmap",
        ALLOCATOR_VIRTUAL_MEMORY_PROTECT = 112 "allocator.virtual_memory_protect",
        ALLOCATOR_VIRTUAL_MEMORY_ADVISE = 113 "allocator.virtual_memory_advise",
        BUFFER_MAP_RANGE = 200 "buffer.map_range",
        BUFFER_UNMAP_RANGE = 201 "buffer.unmap_range",
        BUFFER_INVALIDATE_RANGE = 202 "buffer.invalidate_range",
        BUFFER_FLUSH_RANGE = 203 "buffer.flush_range",
        COMMAND_BUFFER_BEGIN = 300 "command_buffer.begin",
        COMMAND_BUFFER_END = 301 "command_buffer.end",
        COMMAND_BUFFER_BEGIN_DEBUG_GROUP = 302 "command_buffer.begin_debug_group",
        COMMAND_BUFFER_END_DEBUG_GROUP = 303 "command_buffer.end_debug_group",
        COMMAND_BUFFER_EXECUTION_BARRIER = 304 "command_buffer.execution_barrier",
        COMMAND_BUFFER_SIGNAL_EVENT = 305 "command_buffer.signal_event",
        COMMAND_BUFFER_RESET_EVENT = 306 "command_buffer.reset_event",
        COMMAND_BUFFER_WAIT_EVENTS = 307 "command_buffer.wait_events",
        COMMAND_BUFFER_ADVISE_BUFFER = 308 "command_buffer.advise_buffer",
        COMMAND_BUFFER_FILL_BUFFER = 309 "command_buffer.fill_buffer",
        COMMAND_BUFFER_UPDATE_BUFFER = 310 "command_buffer.update_buffer",
        COMMAND_BUFFER_COPY_BUFFER = 311 "command_buffer.copy_buffer",
        COMMAND_BUFFER_COLLECTIVE = 312 "command_buffer.collective",
        COMMAND_BUFFER_DISPATCH = 313 "command_buffer.dispatch",
        EXECUTABLE_CACHE_INFER_FORMAT = 400 "executable_cache.infer_format",
        EXECUTABLE_CACHE_CAN_PREPARE_FORMAT = 401 "executable_cache.can_prepare_format",
        EXECUTABLE_CACHE_PREPARE_EXECUTABLE = 402 "executable_cache.prepare_executable",
        EXECUTABLE_FUNCTION_COUNT = 500 "executable.function_count",
        EXECUTABLE_FUNCTION_INFO = 501 "executable.function_info",
        EXECUTABLE_FUNCTION_PARAMETERS = 502 "executable.function_parameters",
        EXECUTABLE_LOOKUP_FUNCTION_BY_NAME = 503 "executable.lookup_function_by_name",
    }

    /// Type of a record's payload.
    PayloadType(u32) {
        NONE = 0 "none",
        BUFFER_OBJECT = 1 "buffer_object",
        ALLOCATOR_ALLOCATE_BUFFER = 2 "allocator_allocate_buffer",
        BUFFER_RANGE = 3 "buffer_range",
        BUFFER_RANGE_DATA = 4 "buffer_range_data",
        COMMAND_BUFFER_OBJECT = 5 "command_buffer_object",
        EXECUTABLE_CACHE_OBJECT = 6 "executable_cache_object",
        EXECUTABLE_PREPARE = 7 "executable_prepare",
        DISPATCH = 8 "dispatch",
        DEVICE_QUEUE_EXECUTE = 9 "device_queue_execute",
        SEMAPHORE_OBJECT = 10 "semaphore_object",
        COMMAND_BUFFER_COPY_BUFFER = 11 "command_buffer_copy_buffer",
        DEVICE_QUEUE_ALLOCA = 12 "device_queue_alloca",
        COMMAND_BUFFER_EXECUTION_BARRIER = 13 "command_buffer_execution_barrier",
        DEVICE_QUEUE_DEALLOCA = 14 "device_queue_dealloca",
        DEVICE_QUEUE_FILL = 15 "device_queue_fill",
        DEVICE_QUEUE_UPDATE = 16 "device_queue_update",
        DEVICE_QUEUE_COPY = 17 "device_queue_copy",
        COMMAND_BUFFER_FILL_BUFFER = 18 "command_buffer_fill_buffer",
        COMMAND_BUFFER_UPDATE_BUFFER = 19 "command_buffer_update_buffer",
        EVENT_OBJECT = 20 "event_object",
        COMMAND_BUFFER_EVENT = 21 "command_buffer_event",
        COMMAND_BUFFER_WAIT_EVENTS = 22 "command_buffer_wait_events",
        FILE_OBJECT = 23 "file_object",
        DEVICE_QUEUE_READ = 24 "device_queue_read",
        DEVICE_QUEUE_WRITE = 25 "device_queue_write",
        ALLOCATOR_IMPORT_BUFFER = 26 "allocator_import_buffer",
        REPLAY_SCOPE = 27 "replay_scope",
    }

    /// The storage of a captured file's contents.
    FileReferenceType(u32) {
        NONE = 0 "none",
        EXTERNAL_PATH = 1 "external_path",
        INLINE_BYTES = 2 "inline_bytes",
        CAPTURED_RANGES = 3 "captured_ranges",
    }

    /// How a file is validated against the captured one at replay.
    FileValidationType(u32) {
        NONE = 0 "none",
        IDENTITY = 1 "identity",
        CONTENT_DIGEST = 2 "digest",
    }

    /// The algorithm of a file's digest.
    DigestType(u16) {
        NONE = 0 "none",
        FNV1A_64 = 1 "fnv1a64",
    }
}

/// Extensions of rehal. Unnamed, because dumps print what the reference prints for them: `unknown`.
impl PayloadType {
    /// Of the session record at the start of a capture with checksums.
    pub const CHECKSUMMED: Self = Self(0x7265_6801);
    /// Of the session record at the end, with the checksums of all bytes before it.
    pub const CHECKSUMS: Self = Self(0x7265_6802);
    /// Of the session record behind a map for reading, with a [`ReadDigest`](crate::layout::ReadDigest).
    pub const READ_DIGEST: Self = Self(0x7265_6803);
    /// Of a session record behind a submission, with what one of its dispatches wrote: a dispatch entry of a
    /// ledger.
    pub const DISPATCH_DIGESTS: Self = Self(0x7265_6804);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_values_are_preserved() {
        assert_eq!(OperationCode::DEVICE_QUEUE_EXECUTE.to_string(), "device.queue_execute(22)");
        assert_eq!(OperationCode(999).to_string(), "unknown(999)");
        assert!(!OperationCode(29).is_known());
        assert_eq!(FileValidationType::CONTENT_DIGEST.name(), "digest");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = OperationCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OperationCode::ALL.len());
        assert!(PayloadType::ALL.iter().enumerate().all(|(number, code)| code.0 as usize == number));
    }
}
