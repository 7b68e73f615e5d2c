//! Bit fields and enums of the HAL, with the values in captures (source: the headers of `iree/hal` of release
//! 3.13.0). Unknown bits are preserved, so that newer captures round-trip.

use bitflags::bitflags;

macro_rules! fields {
    ($($(#[$meta:meta])* $name:ident: $bits:ty { $($flag:ident = $value:expr;)* })*) => {$(
        bitflags! {
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name: $bits {
                $(#[allow(missing_docs, reason = "the reference's names")] const $flag = $value;)*
                const _ = !0;
            }
        }
    )*};
}

fields! {
    /// Memory location and visibility.
    MemoryType: u32 {
        OPTIMAL = 1 << 0;
        HOST_VISIBLE = 1 << 1;
        HOST_COHERENT = 1 << 2;
        HOST_CACHED = 1 << 3;
        DEVICE_VISIBLE = 1 << 4;
        DEVICE_LOCAL = (1 << 5) | (1 << 4);
        HOST_LOCAL = (1 << 6) | (1 << 2) | (1 << 1);
    }
    /// Access to memory.
    MemoryAccess: u16 {
        READ = 1 << 0;
        WRITE = 1 << 1;
        DISCARD = 1 << 2;
        MAY_ALIAS = 1 << 3;
        UNALIGNED = 1 << 4;
        ANY = 1 << 5;
    }
    /// Usage of a buffer.
    BufferUsage: u32 {
        TRANSFER_SOURCE = 1 << 0;
        TRANSFER_TARGET = 1 << 1;
        DISPATCH_INDIRECT_PARAMETERS = 1 << 8;
        DISPATCH_UNIFORM_READ = 1 << 9;
        DISPATCH_STORAGE_READ = 1 << 10;
        DISPATCH_STORAGE_WRITE = 1 << 11;
        DISPATCH_IMAGE_READ = 1 << 12;
        DISPATCH_IMAGE_WRITE = 1 << 13;
        SHARING_EXPORT = 1 << 16;
        SHARING_REPLICATE = 1 << 17;
        SHARING_CONCURRENT = 1 << 18;
        SHARING_IMMUTABLE = 1 << 19;
        MAPPING_SCOPED = 1 << 24;
        MAPPING_PERSISTENT = 1 << 25;
        MAPPING_OPTIONAL = 1 << 26;
        MAPPING_ACCESS_RANDOM = 1 << 27;
        MAPPING_ACCESS_SEQUENTIAL_WRITE = 1 << 28;
    }
    /// Lifetime of a mapping.
    MappingMode: u32 {
        SCOPED = 1 << 0;
        PERSISTENT = 1 << 1;
    }
    /// Recording and execution mode of a command buffer.
    CommandBufferMode: u32 {
        ONE_SHOT = 1 << 0;
        ALLOW_INLINE_EXECUTION = 1 << 4;
        UNVALIDATED = 1 << 5;
        UNRETAINED = 1 << 6;
        RETAIN_PROFILE_METADATA = 1 << 7;
        RETAIN_DISPATCH_METADATA = 1 << 8;
    }
    /// Categories of commands in a command buffer.
    CommandCategories: u32 {
        TRANSFER = 1 << 0;
        DISPATCH = 1 << 1;
    }
    /// Execution stages that a barrier orders.
    ExecutionStage: u64 {
        COMMAND_ISSUE = 1 << 0;
        COMMAND_PROCESS = 1 << 1;
        DISPATCH = 1 << 2;
        TRANSFER = 1 << 3;
        COMMAND_RETIRE = 1 << 4;
        HOST = 1 << 5;
    }
    /// Access types that a barrier makes visible.
    AccessScope: u32 {
        INDIRECT_COMMAND_READ = 1 << 0;
        CONSTANT_READ = 1 << 1;
        DISPATCH_READ = 1 << 2;
        DISPATCH_WRITE = 1 << 3;
        TRANSFER_READ = 1 << 4;
        TRANSFER_WRITE = 1 << 5;
        HOST_READ = 1 << 6;
        HOST_WRITE = 1 << 7;
        MEMORY_READ = 1 << 8;
        MEMORY_WRITE = 1 << 9;
    }
    /// Dispatch options: static or indirect workgroup count, and argument passing.
    DispatchFlags: u64 {
        DYNAMIC_INDIRECT_PARAMETERS = 1 << 0;
        STATIC_INDIRECT_PARAMETERS = 1 << 1;
        CUSTOM_DIRECT_ARGUMENTS = 1 << 2;
        DYNAMIC_INDIRECT_ARGUMENTS = 1 << 3;
        STATIC_INDIRECT_ARGUMENTS = 1 << 4;
        ALLOW_INLINE_EXECUTION = 1 << 5;
        BORROW_RESOURCE_LIFETIMES = 1 << 6;
    }
    /// Semaphore options.
    SemaphoreFlags: u64 {
        DEVICE_LOCAL = 1 << 0;
        HOST_INTERRUPT = 1 << 1;
        EXPORTABLE = 1 << 2;
        EXPORTABLE_TIMEPOINTS = 1 << 3;
        SINGLE_PRODUCER = 1 << 4;
    }
    /// Host call options.
    HostCallFlags: u64 {
        NON_BLOCKING = 1 << 0;
        WAIT_ACTIVE = 1 << 1;
        RELAXED = 1 << 2;
    }
    /// Executable preparation options.
    CachingMode: u32 {
        ALIAS_PROVIDED_DATA = 1 << 0;
        ALLOW_PERSISTENT_CACHING = 1 << 1;
        ALLOW_OPTIMIZATION = 1 << 2;
        ENABLE_DEBUGGING = 1 << 3;
        ENABLE_COVERAGE = 1 << 4;
        ENABLE_PROFILING = 1 << 5;
        DISABLE_VERIFICATION = 1 << 6;
    }
}

/// The queues of a device that an operation may use, one bit each.
pub type QueueAffinity = u64;

/// Any queue of the device.
pub const QUEUE_AFFINITY_ANY: QueueAffinity = u64::MAX;

/// A length that means "to the end of the buffer" (source: `IREE_HAL_WHOLE_BUFFER`).
pub const WHOLE_BUFFER: u64 = u64::MAX;

impl BufferUsage {
    /// Source and target of transfers.
    pub const TRANSFER: Self = Self::TRANSFER_SOURCE.union(Self::TRANSFER_TARGET);
}
