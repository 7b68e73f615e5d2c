use rehal_base::Error;
use rehal_capture::layout;
use rehal_hal::Names;
use zerocopy::little_endian::U64;

/// Names of a capture: the ids that its recorder gave out, with lists and bytes where they lie in
/// the file.
#[derive(Clone, Copy, Debug)]
pub struct Ids<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> Names for Ids<'a> {
    type Device = u64;
    type Allocator = u64;
    type ExecutableCache = u64;
    type Buffer = u64;
    type Semaphore = u64;
    type Executable = u64;
    type CommandBuffer = u64;
    type File = u64;
    type Event = u64;
    type Channel = u64;
    type HostCall = u64;
    type BufferRefs = &'a [layout::BufferRef];
    type Timepoints = &'a [layout::SemaphoreTimepoint];
    type Events = &'a [U64];
    type MemoryBarriers = &'a [layout::MemoryBarrier];
    type BufferBarriers = &'a [layout::BufferBarrier];
    type Bytes = &'a [u8];
    type Created<T: Copy> = T;
    type Captured<T: Copy> = T;
}

/// Why a record stops a replay.
pub(crate) fn refuse(reason: impl Into<String>) -> Error {
    Error::unimplemented(reason)
}
