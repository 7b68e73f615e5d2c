use std::sync::Arc;

use rehal_base::{Error, HostMemory, Range, Result};

use super::{MemoryRange, Receiver, StagingMemory};
use crate::memory::Allocation;

/// Memory that the host writes and commands read: data of updates, or tables of addresses.
pub(crate) struct Staging {
    receiver: Receiver,
    /// The size of a chunk.
    chunk_length: u64,
    /// The last one is used.
    chunks: Vec<Chunk>,
    used: u64,
}

struct Chunk {
    allocation: Arc<Allocation>,
    memory: HostMemory,
    length: u64,
}

impl Staging {
    /// Data of updates.
    pub(crate) fn for_updates() -> Self {
        Self { receiver: Receiver::Device, chunk_length: 64 << 10, chunks: Vec::new(), used: 0 }
    }

    /// Tables of addresses. They are small, as the memory may be that they are in.
    pub(crate) fn for_tables() -> Self {
        Self { receiver: Receiver::Kernels, chunk_length: 8 << 10, chunks: Vec::new(), used: 0 }
    }

    /// Writes bytes at a multiple of `alignment`, and returns where they are.
    pub(crate) fn write(
        &mut self,
        memory: &StagingMemory,
        bytes: &[u8],
        alignment: u64,
    ) -> Result<MemoryRange> {
        let length = bytes.len() as u64;
        let fits = |chunk: &Chunk, used: u64| used.next_multiple_of(alignment) + length <= chunk.length;
        if !self.chunks.last().is_some_and(|chunk| fits(chunk, self.used)) {
            self.chunks.push(Chunk::allocate(memory, length.max(self.chunk_length), self.receiver)?);
            self.used = 0;
        }
        let Some(chunk) = self.chunks.last() else {
            return Err(Error::resource_exhausted("no staging memory"));
        };
        let range = Range { offset: self.used.next_multiple_of(alignment), length };
        chunk.memory.write(range.offset, bytes)?;
        chunk.allocation.flush(range)?;
        self.used = range.offset + length;
        Ok(MemoryRange::within(&chunk.allocation, range))
    }

    /// Forgets what was written; the device does not use it any more.
    pub(crate) fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.retain(|chunk| chunk.length == self.chunk_length);
        self.used = 0;
    }
}

impl Chunk {
    fn allocate(memory: &StagingMemory, length: u64, receiver: Receiver) -> Result<Self> {
        let allocation = Arc::new(memory.allocate(length, receiver)?);
        let memory = allocation
            .map(Range { offset: 0, length })
            .ok_or_else(|| Error::failed_precondition("the host cannot map the staging memory"))?;
        Ok(Self { allocation, memory, length })
    }
}
