use std::sync::Arc;

use rehal_base::{Context, Error, Range, Result};
use rehal_hal::{Binding, Buffer, BufferRef, Store, WHOLE_BUFFER};
use smallvec::SmallVec;

use crate::buffer::VulkanBuffer;
use crate::memory::{Allocation, Memory};

/// A range of a buffer's memory.
#[derive(Clone)]
pub(crate) struct MemoryRange {
    allocation: Arc<Allocation>,
    /// In the allocation.
    range: Range,
}

/// The binding table of a submission; `None` for empty slots.
pub(crate) type Table = SmallVec<[Option<MemoryRange>; 8]>;

impl MemoryRange {
    /// A range of a buffer. Fails if the buffer has no memory that the device with `memory` can use, or the
    /// range exceeds it.
    pub(crate) fn for_buffer(memory: &Memory, buffer: &Buffer, offset: u64, length: u64) -> Result<Self> {
        let range = buffer.resolve(offset, length)?;
        Ok(Self { allocation: allocation_for(memory, buffer)?, range })
    }

    /// A range of an allocation.
    pub(crate) fn within(allocation: &Arc<Allocation>, range: Range) -> Self {
        Self { allocation: allocation.clone(), range }
    }

    /// The range that stored operations refer to.
    pub(crate) fn resolve(
        memory: &Memory,
        store: &Store,
        table: &[Option<Self>],
        reference: &BufferRef<u32>,
    ) -> Result<Self> {
        match reference.binding {
            Binding::Direct(index) => {
                Self::for_buffer(memory, &store.buffers[index as usize], reference.offset, reference.length)
            }
            Binding::Slot(slot) => match table.get(slot as usize).and_then(Option::as_ref) {
                Some(range) => range.part(reference.offset, reference.length),
                None => {
                    Err(Error::invalid_argument(format!("the binding table has no buffer in slot {slot}")))
                }
            },
        }
    }

    /// The binding table of a submission.
    pub(crate) fn table(memory: &Memory, store: &Store, bindings: &[BufferRef<u32>]) -> Result<Table> {
        let range = |(slot, binding): (usize, &BufferRef<u32>)| match binding.binding {
            Binding::Direct(_) => Self::resolve(memory, store, &[], binding)
                .map(Some)
                .context(|| format!("binding slot {slot}")),
            Binding::Slot(_) => Ok(None),
        };
        bindings.iter().enumerate().map(range).collect()
    }

    /// A part of it.
    pub(crate) fn piece(&self, part: Range) -> Result<Self> {
        self.part(part.offset, part.length)
    }

    fn part(&self, offset: u64, length: u64) -> Result<Self> {
        let length = if length == WHOLE_BUFFER { self.range.length.saturating_sub(offset) } else { length };
        match Range::new(offset, length) {
            Some(range) if range.fits(self.range.length) => {
                let range = Range { offset: self.range.offset + offset, length };
                Ok(Self { allocation: self.allocation.clone(), range })
            }
            _ => Err(Error::out_of_range(format!(
                "{length} bytes at offset {offset} exceed a binding of {} bytes",
                self.range.length
            ))),
        }
    }

    /// The memory.
    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// The range in the allocation.
    pub(crate) fn range(&self) -> Range {
        self.range
    }

    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        self.range.length
    }

    /// The first byte in the block.
    pub(crate) fn offset(&self) -> u64 {
        self.allocation.offset() + self.range.offset
    }

    /// The device's address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.allocation.block().address() + self.offset()
    }

    /// How far the first byte of `other` is above the first byte of this range, if the two share bytes.
    pub(crate) fn overlap_distance(&self, other: &Self) -> Option<i64> {
        let (block, others) = (self.allocation.block(), other.allocation.block());
        let (from, to) = match Arc::ptr_eq(block, others) {
            true => (self.offset(), other.offset()),
            // Several imports may be of the same pages.
            false => (block.host_address(self.offset())?, others.host_address(other.offset())?),
        };
        let shares = from < to + other.length() && to < from + self.length();
        shares.then(|| to.wrapping_sub(from).cast_signed())
    }

    /// Its identity, for comparisons: memory may be reused, blocks never have the same id.
    pub(crate) fn key(&self) -> [u64; 3] {
        [self.allocation.block().id(), self.offset(), self.range.length]
    }
}

/// The memory of a buffer on the device with `memory`: its own, or an import of memory that another device
/// shares with the host.
fn allocation_for(memory: &Memory, buffer: &Buffer) -> Result<Arc<Allocation>> {
    let gpu = memory.gpu();
    if let Ok(mine) = VulkanBuffer::of(buffer) {
        let allocation = mine.allocation()?;
        if allocation.block().require(gpu).is_ok() {
            return Ok(allocation);
        }
    }
    // The import owns the device, so that no other has its address meanwhile.
    let key = Arc::as_ptr(gpu).addr();
    buffer
        .imported(key, |shared| memory.import(shared))
        .map_err(|error| {
            let is_vulkan = VulkanBuffer::of(buffer).is_ok();
            let error = error.context("a buffer of another device");
            match is_vulkan {
                true => error.advise(
                    "Vulkan devices share buffers in host-visible memory for persistent mappings, if both have VK_EXT_external_memory_host",
                ),
                false => error,
            }
        })
}
