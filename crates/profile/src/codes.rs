//! The enumerations of the format. Each table is the only place that maps a number to its name, and the names
//! are those that `iree-profile` prints.
//!
//! A code is a newtype over its number, so that unknown values can still be stored, compared and printed.

use std::fmt;

macro_rules! codes {
    ($(
        $(#[$doc:meta])*
        $name:ident($repr:ty) else $unknown:literal { $( $constant:ident = $number:literal $text:literal, )* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
            pub struct $name(
                /// The number in the file.
                pub $repr,
            );

            #[allow(missing_docs, reason = "the names are the format's own")]
            impl $name {
                $( pub const $constant: Self = Self($number); )*

                /// The name that reports print.
                pub const fn name(self) -> &'static str {
                    match self.0 {
                        $( $number => $text, )*
                        _ => $unknown,
                    }
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(self.name())
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(f, "{}({})", self.name(), self.0)
                }
            }
        )*
    };
}

/// The name of a status code in the reference's reports.
pub(crate) fn status_name(code: u32) -> &'static str {
    rehal_base::StatusCode::from_u32(code).map_or("UNKNOWN_STATUS", rehal_base::StatusCode::name)
}

codes! {
    /// Type of a record of the file.
    RecordType(u16) else "unknown" {
        SESSION_BEGIN = 1 "session_begin",
        CHUNK = 2 "chunk",
        SESSION_END = 3 "session_end",
    }

    /// Operation of a command of a command buffer.
    CommandOperationType(u32) else "unknown" {
        BARRIER = 1 "barrier",
        DISPATCH = 2 "dispatch",
        FILL = 3 "fill",
        COPY = 4 "copy",
        UPDATE = 5 "update",
        PROFILE_MARKER = 6 "profile_marker",
        BRANCH = 7 "branch",
        COND_BRANCH = 8 "cond_branch",
        RETURN = 9 "return",
    }

    /// Type of a queue operation.
    QueueEventType(u32) else "unknown" {
        BARRIER = 1 "barrier",
        DISPATCH = 2 "dispatch",
        EXECUTE = 3 "execute",
        COPY = 4 "copy",
        FILL = 5 "fill",
        UPDATE = 6 "update",
        READ = 7 "read",
        WRITE = 8 "write",
        ALLOCA = 9 "alloca",
        DEALLOCA = 10 "dealloca",
        HOST_CALL = 11 "host_call",
    }

    /// Strategy by which a queue waits for the dependencies of a submission.
    DependencyStrategy(u32) else "unknown" {
        NONE = 0 "none",
        INLINE = 1 "inline",
        DEVICE_BARRIER = 2 "device_barrier",
        SOFTWARE_DEFER = 3 "software_defer",
    }

    /// A step in the life of an allocation.
    MemoryEventType(u32) else "unknown" {
        SLAB_ACQUIRE = 1 "slab_acquire",
        SLAB_RELEASE = 2 "slab_release",
        POOL_RESERVE = 3 "pool_reserve",
        POOL_MATERIALIZE = 4 "pool_materialize",
        POOL_RELEASE = 5 "pool_release",
        POOL_WAIT = 6 "pool_wait",
        QUEUE_ALLOCA = 7 "queue_alloca",
        QUEUE_DEALLOCA = 8 "queue_dealloca",
        BUFFER_ALLOCATE = 9 "buffer_allocate",
        BUFFER_FREE = 10 "buffer_free",
        BUFFER_IMPORT = 11 "buffer_import",
        BUFFER_UNIMPORT = 12 "buffer_unimport",
    }

    /// Type of a relationship of two events.
    RelationshipType(u32) else "unknown" {
        QUEUE_SUBMISSION_DISPATCH = 1 "queue_submission_dispatch",
        QUEUE_SUBMISSION_QUEUE_DEVICE_EVENT = 2 "queue_submission_queue_device_event",
        QUEUE_EVENT_HOST_EXECUTION_EVENT = 3 "queue_event_host_execution_event",
        QUEUE_SUBMISSION_HOST_EXECUTION_EVENT = 4 "queue_submission_host_execution_event",
    }

    /// Type of an end of a relationship.
    EndpointType(u32) else "unknown" {
        QUEUE_SUBMISSION = 1 "queue_submission",
        QUEUE_EVENT = 2 "queue_event",
        DISPATCH_EVENT = 3 "dispatch_event",
        COMMAND_OPERATION = 4 "command_operation",
        MEMORY_EVENT = 5 "memory_event",
        ARTIFACT = 6 "artifact",
        QUEUE_DEVICE_EVENT = 7 "queue_device_event",
        HOST_EXECUTION_EVENT = 8 "host_execution_event",
    }

    /// Unit of a hardware counter.
    CounterUnit(u32) else "unknown" {
        NONE = 0 "none",
        COUNT = 1 "count",
        CYCLES = 2 "cycles",
        BYTES = 3 "bytes",
    }

    /// Scope of a counter sample.
    CounterSampleScope(u32) else "unknown" {
        NONE = 0 "none",
        DISPATCH = 1 "dispatch",
        COMMAND_OPERATION = 2 "command_operation",
        DEVICE_TIME_RANGE = 3 "device_time_range",
    }

    /// Class of a device.
    DeviceClass(u32) else "unknown" {
        NONE = 0 "none",
        CPU = 1 "cpu",
        GPU = 2 "gpu",
        NPU = 3 "npu",
        OTHER = 0x7FFF_FFFF "other",
    }

    /// Unit of a device metric.
    MetricUnit(u32) else "" {
        NONE = 0 "none",
        COUNT = 1 "count",
        HERTZ = 2 "hz",
        BYTES = 3 "bytes",
        BYTES_PER_SECOND = 4 "bytes_per_second",
        MILLIPERCENT = 5 "millipercent",
        MILLIDEGREES_CELSIUS = 6 "millidegrees_celsius",
        MICROWATTS = 7 "microwatts",
        MICROJOULES = 8 "microjoules",
        BITFIELD = 9 "bitfield",
        ENUM = 10 "enum",
    }

    /// Type of a device metric's values.
    MetricValueKind(u32) else "" {
        NONE = 0 "none",
        I64 = 1 "i64",
        U64 = 2 "u64",
        F64 = 3 "f64",
    }

    /// Meaning of a device metric's value.
    MetricSemantic(u32) else "" {
        NONE = 0 "none",
        INSTANT = 1 "instant",
        AVERAGE = 2 "average",
        CUMULATIVE = 3 "cumulative",
        DELTA = 4 "delta",
        STATE = 5 "state",
    }

    /// Style in which to plot a device metric.
    MetricPlotHint(u32) else "" {
        NONE = 0 "none",
        NUMBER = 1 "number",
        MEMORY = 2 "memory",
        PERCENTAGE = 3 "percentage",
        FREQUENCY = 4 "frequency",
        TEMPERATURE = 5 "temperature",
        POWER = 6 "power",
        ENERGY = 7 "energy",
        BANDWIDTH = 8 "bandwidth",
    }

    /// Format of a hardware trace.
    TraceFormat(u32) else "unknown" {
        NONE = 0 "none",
        AMDGPU_ATT = 1 "amdgpu_att",
    }
}
