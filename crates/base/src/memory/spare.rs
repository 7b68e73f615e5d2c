use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::guarded::PAGE_BYTES;
use crate::platform::{map_pages, unmap_pages};

/// Blocks of this size in bytes or more are kept; smaller ones the allocator keeps itself. It returns larger
/// ones to the system, so that each page that is used has to be faulted in again: for a block that is used as
/// a whole, that takes several times longer than to zero it.
const LEAST_BYTES: usize = 128 << 10;

/// Larger blocks are returned: to zero one of which little is used takes long.
const MOST_BLOCK_BYTES: usize = 64 << 20;

/// Blocks of this size or more are mappings of their own, as the allocator would map them.
const MAPPED_BYTES: usize = 32 << 20;

/// The most bytes that are kept, and blocks, among which a block is searched for.
const MOST_BYTES: usize = 256 << 20;
const MOST_BLOCKS: usize = 64;

static SPARE: Mutex<Spare> = Mutex::new(Spare { blocks: Vec::new(), bytes: 0 });

/// Freed blocks: programs and replays allocate the same sizes again and again.
struct Spare {
    /// The one that was freed last is the last.
    blocks: Vec<Block>,
    /// The sum of their sizes.
    bytes: usize,
}

/// A block of the allocator or, if its layout has the alignment of pages, a mapping of its own.
pub(super) struct Block {
    pub(super) base: NonNull<u8>,
    pub(super) layout: Layout,
}

// SAFETY: a block owns its bytes.
unsafe impl Send for Block {}

impl Block {
    /// The layout of a block, of which the whole is a mapping of its own if a file may be mapped into it.
    pub(super) fn layout(size: usize, is_for_file: bool) -> Option<Layout> {
        let is_mapping = !cfg!(miri) && (is_for_file || size >= MAPPED_BYTES);
        Layout::from_size_align(size, if is_mapping { PAGE_BYTES } else { 1 }).ok()
    }

    /// Whether the block is a mapping.
    pub(super) fn is_mapping(layout: Layout) -> bool {
        layout.align() == PAGE_BYTES
    }

    /// A new block of a layout that is not empty. If it is not zeroed, its bytes are uninitialized. If it
    /// does not reserve memory, the system may have less than its size.
    pub(super) fn allocate(layout: Layout, is_zeroed: bool, reserves: bool) -> Option<Self> {
        if Self::is_mapping(layout) {
            let base = map_pages(layout.size(), reserves)?;
            return Some(Self { base, layout });
        }
        // SAFETY: the layout has a nonzero size.
        let base = unsafe { if is_zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        // Hidden from the optimizer, which would fuse `alloc` and zeroing to `alloc_zeroed`.
        NonNull::new(black_box(base)).map(|base| Self { base, layout })
    }

    /// A freed block with this layout, with the bytes that it had; the one that was freed last, as most of it
    /// may be in the cache.
    pub(super) fn take(layout: Layout) -> Option<Self> {
        if layout.size() < LEAST_BYTES {
            return None;
        }
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let index = spare.blocks.iter().rposition(|block| block.layout == layout)?;
        spare.bytes -= layout.size();
        Some(spare.blocks.remove(index))
    }

    /// Keeps the block if it is worth it. Those that were freed first make room for it.
    pub(super) fn free(self) {
        let size = self.layout.size();
        if cfg!(miri) || !(LEAST_BYTES..=MOST_BLOCK_BYTES).contains(&size) {
            return self.release();
        }
        let mut dropped = Vec::new();
        {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            while spare.blocks.len() >= MOST_BLOCKS || spare.bytes + size > MOST_BYTES {
                let oldest = spare.blocks.remove(0);
                spare.bytes -= oldest.layout.size();
                dropped.push(oldest);
            }
            spare.bytes += size;
            spare.blocks.push(self);
        }
        dropped.into_iter().for_each(Self::release);
    }

    /// Returns the block to the allocator, or to the system.
    pub(super) fn release(self) {
        // SAFETY: it was allocated with this layout, and its owner frees it once.
        unsafe {
            match Self::is_mapping(self.layout) {
                true => unmap_pages(self.base, self.layout.size()),
                false => dealloc(self.base.as_ptr(), self.layout),
            }
        }
    }
}

/// Makes the C library's allocator keep the memory that is freed for what this process allocates next,
/// instead of returning it to the system, which faults each page in again when it is used: within what is
/// measured, if a program measures. For programs that do the same work again and again, and only glibc.
pub fn keep_freed_memory() {
    crate::platform::keep_freed_memory();
}

/// Returns all freed blocks to the allocator.
pub(super) fn release_all() {
    let blocks = {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        spare.bytes = 0;
        std::mem::take(&mut spare.blocks)
    };
    blocks.into_iter().for_each(Block::release);
}

/// The number of blocks that are kept, and of their bytes.
#[cfg(test)]
pub(super) fn kept() -> (usize, usize) {
    let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(spare.blocks.iter().map(|block| block.layout.size()).sum::<usize>(), spare.bytes);
    (spare.blocks.len(), spare.bytes)
}
