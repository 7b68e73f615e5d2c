use std::fmt;
use std::marker::PhantomData;

use rehal_base::Result;

use crate::{BufferBarrier, BufferRef, MemoryBarrier, Names, Timepoint};

/// A range of a list or byte string, by position: 16 bytes, regardless of the element type.
pub struct Span<T> {
    /// First element.
    pub start: u64,
    /// Number of elements.
    pub count: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Span<T> {
    /// `count` elements from `start`.
    pub fn new(start: u64, count: u64) -> Self {
        Self { start, count, of: PhantomData }
    }

    /// The elements of the range.
    pub fn of(self, list: &[T]) -> &[T] {
        &list[self.start as usize..(self.start + self.count) as usize]
    }
}

impl<T> Clone for Span<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Span<T> {}

impl<T> fmt::Debug for Span<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, +{}]", self.start, self.count)
    }
}

/// The names of stored operations: dense indices, and ranges of separate lists.
#[derive(Clone, Copy, Debug)]
pub struct Indexed;

impl Names for Indexed {
    type Device = u32;
    type Allocator = u32;
    type ExecutableCache = u32;
    type Buffer = u32;
    type Semaphore = u32;
    type Executable = u32;
    type CommandBuffer = u32;
    type File = u32;
    type Event = u32;
    type HostCall = u32;
    type BufferRefs = Span<BufferRef<u32>>;
    type Timepoints = Span<Timepoint<u32>>;
    type Events = Span<u32>;
    type MemoryBarriers = Span<MemoryBarrier>;
    type BufferBarriers = Span<BufferBarrier<u32>>;
    type Bytes = Span<u8>;
    type Created<T: Copy> = T;
    type Captured<T: Copy> = ();
    fn uncaptured<T: Copy>() -> Result<()> {
        Ok(())
    }
}

/// The lists that stored operations point into.
#[derive(Clone, Default)]
#[allow(missing_docs, reason = "each list has the objects in its name")]
pub struct StoredLists {
    pub buffer_refs: Vec<BufferRef<u32>>,
    pub timepoints: Vec<Timepoint<u32>>,
    pub events: Vec<u32>,
    pub memory_barriers: Vec<MemoryBarrier>,
    pub buffer_barriers: Vec<BufferBarrier<u32>>,
}

impl StoredLists {
    /// Empties all of them.
    pub fn clear(&mut self) {
        self.buffer_refs.clear();
        self.timepoints.clear();
        self.events.clear();
        self.memory_barriers.clear();
        self.buffer_barriers.clear();
    }
}
