//! Which pages of which files can take the place of memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::{MappedFile, Range, page_bytes};

/// The fewest bytes of whole pages that are mapped: a mapping takes one of the few that a process may have,
/// and faults.
pub(super) const LEAST_BYTES: usize = 1 << 20;

/// Where in a page memory begins whose first byte is to be a file's at `offset`; 0 if `alignment` forbids it.
pub(super) fn place_in_page(offset: u64, alignment: usize) -> usize {
    let place = (offset % page_bytes() as u64) as usize;
    if place.is_multiple_of(alignment) { place } else { 0 }
}

/// The most ranges of files that are mapped at a time: a process has 65,530 mappings by default
/// (`vm.max_map_count`), each range takes up to three, and without any left, allocations fail.
pub(super) const MOST_RANGES: usize = 16 << 10;

/// The number of them.
pub(super) static RANGES: AtomicUsize = AtomicUsize::new(0);

/// A range of memory that was read from a file, of which pages may be mapped. It counts in [`RANGES`].
pub(super) struct FilePages {
    /// The address of its first byte.
    pub start: u64,
    pub length: u64,
    pub file: Arc<MappedFile>,
    /// The offset of the first byte in the file.
    pub file_offset: u64,
}

impl Drop for FilePages {
    fn drop(&mut self) {
        RANGES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The ranges of a memory that were read so.
pub(super) type AllFilePages = OnceLock<Box<Mutex<Vec<FilePages>>>>;

/// The pages in `range`, which begins at address `start`, that a mapping of the file at `file_offset` can
/// replace; `None` if there are too few.
pub(super) fn whole_pages(start: usize, file_offset: u64, range: Range) -> Option<Range> {
    if range.length < LEAST_BYTES as u64 {
        return None;
    }
    let page = page_bytes() as u64;
    let before = (start as u64).wrapping_neg() % page;
    let length = range.length.checked_sub(before)? / page * page;
    let agrees = (start as u64 ^ file_offset).is_multiple_of(page);
    let pages = Range { offset: range.offset + before, length };
    (agrees && length >= LEAST_BYTES as u64).then_some(pages)
}
