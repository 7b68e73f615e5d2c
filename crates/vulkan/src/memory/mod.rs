//! Memory of a device: blocks that are allocated from Vulkan, and ranges of them for buffers.
//!
//! Each block is one `VkDeviceMemory` and one `VkBuffer` over it. A buffer of the program is a range of a
//! block, so that the number of Vulkan's allocations stays small, and allocating a buffer calls Vulkan only
//! if all blocks are full.
//!
//! A block is mapped as long as it exists, if the host can map it. `kinds.rs` chooses the memory types: the
//! best, and those that follow if it is exhausted. Memory of the host follows only if the host is to see the
//! buffer. `pool.rs` keeps what queues deallocate: an alloca that follows the dealloca in queue order may
//! have it at once, while the work in between executes. Other allocations, staging included, take it when the
//! device has no more. Memory of the program is imported with its pages, except as a buffer that is to be
//! local to a device which those pages are not local to: the program then copies.

mod block;
mod kinds;
mod pool;
mod ranges;

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rehal_base::{Error, HostMemory, Range, Result, StatusCode};
use rehal_hal::BufferParams;

pub(crate) use block::Block;
pub(crate) use kinds::{Kind, Kinds, grant};
use kinds::{is_shared, require_place};
pub(crate) use pool::Pool;

use crate::gpu::Gpu;

/// The size of the first block of each memory type.
const FIRST_BLOCK: u64 = 1 << 20;
/// The size up to which later blocks grow.
const LARGEST_BLOCK: u64 = 64 << 20;
/// Allocations of at least this size have a block of their own.
const OWN_BLOCK: u64 = LARGEST_BLOCK / 4;

/// The memory of a device.
pub(crate) struct Memory {
    gpu: Arc<Gpu>,
    /// The memory types, as bits, that buffers can be in.
    types: u32,
    /// The shared blocks of each memory type, by its index.
    blocks: Mutex<Vec<Vec<Arc<Block>>>>,
}

/// A range of a block, returned to it on drop.
pub(crate) struct Allocation {
    block: Arc<Block>,
    range: Range,
    /// `None` if the block has no other ranges.
    memory: Option<Weak<Memory>>,
}

impl Memory {
    /// No memory yet.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { gpu: gpu.clone(), types: Block::types(gpu)?, blocks: Mutex::default() }))
    }

    /// The device of the memory.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The memory types for buffers of `size` bytes with these parameters, the best first.
    pub(crate) fn kinds(&self, params: &BufferParams, size: u64) -> Result<Kinds> {
        kinds::choose(self.gpu.memory_properties(), params, self.types, size)
    }

    /// The memory type that buffers of `size` bytes with these parameters have if there is enough of it.
    pub(crate) fn best(&self, params: &BufferParams, size: u64) -> Result<Kind> {
        if self.shares(params) {
            return self.gpu.kind_for_host(self.types);
        }
        Ok(self.kinds(params, size)?[0])
    }

    /// Whether buffers with these parameters are made of pages of the host, so that other Vulkan devices can
    /// import them: GPUs do not import what is a mapping of another's memory.
    pub(crate) fn shares(&self, params: &BufferParams) -> bool {
        is_shared(params) && self.gpu.can_import() && self.gpu.has_siblings()
    }

    /// Pages of the host that this device imports, and others can.
    pub(crate) fn allocate_shared(&self, length: u64, alignment: u64) -> Result<Allocation> {
        let page = self.gpu.import_page();
        let padded = length.max(1).checked_next_multiple_of(page);
        let padded = padded.filter(|padded| *padded <= self.gpu.largest_block());
        let padded = padded.ok_or_else(|| self.gpu.exceeds_largest(length))?;
        self.import(HostMemory::allocate_aligned(padded, alignment.max(page))?)
    }

    /// Allocates `length` bytes; `alignment` is 0 or a power of two. Fails with `RESOURCE_EXHAUSTED` if there
    /// are not as many.
    pub(crate) fn allocate(self: &Arc<Self>, kind: Kind, length: u64, alignment: u64) -> Result<Allocation> {
        let atom = if kind.needs_flushes() { self.gpu.limits().non_coherent_atom_size.max(1) } else { 1 };
        let alignment = alignment.max(self.gpu.memory_alignment()).max(atom.next_power_of_two());
        // Empty buffers have a place too. Fills write whole words.
        let padded = length.max(1).checked_next_multiple_of(atom.max(16));
        let padded = padded.filter(|padded| *padded <= self.gpu.largest_block());
        let padded = padded.ok_or_else(|| self.gpu.exceeds_largest(length))?;
        match self.allocate_padded(kind, padded, alignment) {
            Err(error) if error.code() == StatusCode::ResourceExhausted => {
                self.trim();
                self.allocate_padded(kind, padded, alignment)
            }
            outcome => outcome,
        }
    }

    fn allocate_padded(self: &Arc<Self>, kind: Kind, length: u64, alignment: u64) -> Result<Allocation> {
        if length >= OWN_BLOCK || alignment >= FIRST_BLOCK {
            let block = Arc::new(Block::allocate(&self.gpu, kind, length.saturating_add(alignment))?);
            let offset = block.take(length, alignment).ok_or_else(too_small)?;
            return Ok(Allocation { block, range: Range { offset, length }, memory: None });
        }
        let mut blocks = self.blocks.lock();
        let index = kind.index as usize;
        if blocks.len() <= index {
            blocks.resize_with(index + 1, Vec::new);
        }
        let of_kind = &mut blocks[index];
        let memory = Some(Arc::downgrade(self));
        // The last blocks are the largest.
        for block in of_kind.iter().rev() {
            if let Some(offset) = block.take(length, alignment) {
                return Ok(Allocation { block: block.clone(), range: Range { offset, length }, memory });
            }
        }
        let grown = of_kind.last().map_or(FIRST_BLOCK, |last| (last.length() * 4).min(LARGEST_BLOCK));
        let least = (length + alignment).next_power_of_two();
        let block = match Block::allocate(&self.gpu, kind, grown.max(least)) {
            Err(error) if error.code() == StatusCode::ResourceExhausted && grown > least => {
                Block::allocate(&self.gpu, kind, least)?
            }
            block => block?,
        };
        let block = Arc::new(block);
        let offset = block.take(length, alignment).ok_or_else(too_small)?;
        of_kind.push(block.clone());
        Ok(Allocation { block, range: Range { offset, length }, memory })
    }

    /// A block over memory of the program. Fails before the device is given the pages if they are not where
    /// `params` want a buffer.
    pub(crate) fn import_as(&self, params: &BufferParams, memory: HostMemory) -> Result<Allocation> {
        let pages = self.gpu.pages_of(&memory)?;
        let types = self.gpu.importable_types(&pages)? & self.types;
        require_place(self.gpu.kind_for_host(types)?, params)?;
        self.import(memory)
    }

    /// A block over memory that the program, or another device, shares.
    pub(crate) fn import(&self, memory: HostMemory) -> Result<Allocation> {
        let pages = self.gpu.pages_of(&memory)?;
        let range = Range { offset: pages.offset, length: memory.length() };
        let block = Arc::new(Block::import(&self.gpu, memory, pages)?);
        Ok(Allocation { block, range, memory: None })
    }

    /// Returns blocks without allocations to Vulkan.
    pub(crate) fn trim(&self) {
        let mut unused = Vec::new();
        for of_kind in self.blocks.lock().iter_mut() {
            // No thread allocates from them meanwhile, since the list is locked.
            unused.extend(of_kind.extract_if(.., |block| block.is_free()));
        }
        drop(unused);
    }

    /// Returns a block to Vulkan if it is free and another one of its type is, too.
    fn retire(&self, block: &Arc<Block>) {
        let mut blocks = self.blocks.lock();
        let Some(of_kind) = blocks.get_mut(block.kind().index as usize) else { return };
        let is_spare = |it: &Arc<Block>| !Arc::ptr_eq(it, block) && it.is_free();
        if !block.is_free() || !of_kind.iter().any(is_spare) {
            return;
        }
        let found = of_kind.iter().position(|it| Arc::ptr_eq(it, block));
        let retired = found.map(|index| of_kind.remove(index));
        drop(blocks);
        drop(retired);
    }
}

/// The error of an allocation that is larger than any that the device makes.
fn too_small() -> Error {
    Error::new(
        StatusCode::Internal,
        "a new block of memory is too small for the allocation that it was made for",
    )
}

impl Allocation {
    /// The block.
    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Whether it is the only one of its block.
    pub(crate) fn has_own_block(&self) -> bool {
        self.memory.is_none()
    }

    /// The first byte in the block.
    pub(crate) fn offset(&self) -> u64 {
        self.range.offset
    }

    /// Bytes, at least as many as were asked for.
    pub(crate) fn length(&self) -> u64 {
        self.range.length
    }

    /// A part of it for the host, which keeps it alive; `None` if the host cannot map it.
    pub(crate) fn map(self: &Arc<Self>, part: Range) -> Option<HostMemory> {
        let range = Range { offset: self.range.offset + part.offset, length: part.length };
        self.block.map(range, self.clone())
    }

    /// See [`Block::flush`]; `part` is relative to the allocation.
    pub(crate) fn flush(&self, part: Range) -> Result<()> {
        self.block.flush(Range { offset: self.range.offset + part.offset, length: part.length })
    }

    /// See [`Block::invalidate_edges`]; `part` is relative to the allocation.
    pub(crate) fn invalidate_edges(&self, part: Range) -> Result<()> {
        self.block.invalidate_edges(Range { offset: self.range.offset + part.offset, length: part.length })
    }

    /// See [`Block::invalidate`]; `part` is relative to the allocation.
    pub(crate) fn invalidate(&self, part: Range) -> Result<()> {
        self.block.invalidate(Range { offset: self.range.offset + part.offset, length: part.length })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(memory) = &self.memory else { return };
        self.block.give(self.range);
        if self.block.is_free()
            && let Some(memory) = memory.upgrade()
        {
            memory.retire(&self.block);
        }
    }
}
