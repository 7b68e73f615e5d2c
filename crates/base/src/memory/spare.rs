use std::alloc::{Layout, dealloc};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Blocks of this size in bytes or more are kept; smaller ones the allocator keeps itself. It returns larger
/// ones to the system, so that each page that is used has to be faulted in again: for a block that is used as
/// a whole, that takes several times longer than to zero it.
const LEAST_BYTES: usize = 128 << 10;

/// Larger blocks are returned: to zero one of which little is used takes long.
const MOST_BLOCK_BYTES: usize = 64 << 20;

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

/// A block of the allocator.
pub(super) struct Block {
    pub(super) base: NonNull<u8>,
    pub(super) layout: Layout,
}

// SAFETY: a block owns its bytes.
unsafe impl Send for Block {}

impl Block {
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

    /// Returns the block to the allocator.
    fn release(self) {
        // SAFETY: it was allocated with this layout, and its owner frees it once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// Makes the C library's allocator keep the memory that is freed for what this process allocates next,
/// instead of returning it to the system, which faults each page in again when it is used: within what is
/// measured, if a program measures. For programs that do the same work again and again, and only glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    {
        /// Larger blocks are mapped, and unmapped when they are freed: the most that glibc accepts.
        const MAPPED_BYTES: libc::c_int = 32 << 20;
        // SAFETY: the call changes when memory is returned, under the allocator's lock; -1 is never.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        }
    }
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
