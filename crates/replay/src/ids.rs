use std::collections::HashMap;

use rehal_base::{Error, Result, StatusCode};
use rehal_capture::layout;
use rehal_hal::Names;
use zerocopy::little_endian::U64;

/// The names of a capture: the ids assigned by its recorder, with lists and bytes borrowed from the file.
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
    type HostCall = u64;
    type BufferRefs = &'a [layout::BufferRef];
    type Timepoints = &'a [layout::SemaphoreTimepoint];
    type Events = &'a [U64];
    type MemoryBarriers = &'a [layout::MemoryBarrier];
    type BufferBarriers = &'a [layout::BufferBarrier];
    type Bytes = &'a [u8];
    type Created<T: Copy> = T;
    type Captured<T: Copy> = T;
    fn uncaptured<T: Copy>() -> Result<T> {
        Err(Error::new(StatusCode::Internal, "an operation lacks captured data"))
    }
}

/// The error for a record that cannot be replayed.
pub(crate) fn refuse(reason: impl Into<String>) -> Error {
    Error::unimplemented(reason)
}

/// Numbers of threads in the order of their first record, in place of the ids of the system.
#[derive(Default)]
pub(crate) struct ThreadNumbers(HashMap<u64, u64>);

impl ThreadNumbers {
    /// The number of a thread; 0, without a thread, stays.
    pub fn number(&mut self, id: u64) -> u64 {
        let next = self.0.len() as u64 + 1;
        if id == 0 { 0 } else { *self.0.entry(id).or_insert(next) }
    }
}
