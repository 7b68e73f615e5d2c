//! Memory between pages that cannot be accessed: code that accesses what is next to it faults, or leaves a
//! trace in the bytes between.

use std::ops;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::copy;
use crate::platform::{map_reserved, unmap_pages};
use crate::{Ability, page_bytes};

/// Allocations of this size in bytes or more begin at a page. Otherwise, what else the program has allocated
/// determines where in their pages the buffers of a kernel begin, and the same work can take an eighth longer
/// in one process than in another.
pub(super) const PAGE_BYTES: usize = 4096;

/// Bytes before shorter memory that are checked; what is before these is not used either.
const CHECKED_BEFORE_BYTES: usize = 256;

/// The most bytes of freed pages that are kept, in a span and in total, and spans: programs allocate the same
/// sizes again and again.
const MOST_SPAN_BYTES: usize = 64 << 20;
const MOST_BYTES: usize = 256 << 20;
const MOST_SPANS: usize = 256;

static SPARE: Mutex<Vec<Pages>> = Mutex::new(Vec::new());

/// The contents of unused bytes, by their offset in [`PAGE_BYTES`], twice: never 0, and never the same twice
/// in a row.
static CANARY: [u8; 2 * PAGE_BYTES] = {
    let mut bytes = [0; 2 * PAGE_BYTES];
    let mut at = 0;
    while at < 2 * PAGE_BYTES {
        bytes[at] = 0x80 | ((at % PAGE_BYTES * 37 + at % PAGE_BYTES / 128 + 11) as u8 & 0x7f);
        at += 1;
    }
    bytes
};

/// Accessible pages in a mapping that is otherwise reserved.
pub(super) struct Pages {
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    /// The first accessible byte.
    start: NonNull<u8>,
    /// Number of accessible bytes.
    length: usize,
}

// SAFETY: the pages belong to this value alone and are not bound to a thread.
unsafe impl Send for Pages {}
// SAFETY: shared access only yields addresses and copies bytes as `copy` requires.
unsafe impl Sync for Pages {}

/// Bytes next to a memory that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Whether they are after the memory, instead of before it.
    pub is_after: bool,
    /// Their addresses, from the first to the last.
    pub addresses: ops::Range<usize>,
}

impl Pages {
    /// Zeroed pages for memory of this length, and where the memory begins. `None` if memory is short, or
    /// where pages cannot be protected. `length` is not 0; `alignment` is a power of two.
    ///
    /// Memory of a page or more begins at a page, as other allocations do, and shorter memory ends where a
    /// page does, but for its alignment: an access to what follows it faults. `at_page` is where in its first
    /// page longer memory begins.
    pub(super) fn allocate(length: usize, alignment: usize, at_page: usize) -> Option<(Self, NonNull<u8>)> {
        let page = page_bytes();
        let bytes = length.checked_add(at_page)?.checked_next_multiple_of(page)?;
        let offset =
            if length < page && alignment < page { (bytes - length) & !(alignment - 1) } else { at_page };
        let pages = match Self::take_spare(bytes, alignment) {
            Some(pages) => {
                // SAFETY: the pages are accessible, and belong to this value alone.
                unsafe { pages.start.write_bytes(0, bytes) };
                pages
            }
            None => Self::map(bytes, alignment)?,
        };
        // SAFETY: the offset is within the pages.
        let data = unsafe { pages.start.add(offset) };
        pages.for_unused(data, length, |at, count| {
            // SAFETY: the bytes are unused ones of the pages, to which no slice refers.
            unsafe { copy::copy_in(canary(at, count), at.as_ptr()) };
        });
        Some((pages, data))
    }

    /// Calls `visit` with the unused bytes next to memory in these pages: at most [`PAGE_BYTES`] each.
    fn for_unused(&self, data: NonNull<u8>, length: usize, mut visit: impl FnMut(NonNull<u8>, usize)) {
        let offset = data.addr().get() - self.start.addr().get();
        let before = offset.min(CHECKED_BEFORE_BYTES);
        if before != 0 {
            // SAFETY: the bytes are between the start of the pages and the memory.
            visit(unsafe { data.sub(before) }, before);
        }
        let after = (self.length - offset - length).min(PAGE_BYTES);
        if after != 0 {
            // SAFETY: the memory ends within the pages.
            visit(unsafe { data.add(length) }, after);
        }
    }

    /// The unused bytes next to the memory that were written since it was allocated, or since the last call,
    /// if any.
    pub(super) fn take_overrun(&self, data: NonNull<u8>, length: usize) -> Option<Overrun> {
        let mut overrun = None;
        self.for_unused(data, length, |at, count| {
            let mut found = [0; PAGE_BYTES];
            let found = &mut found[..count];
            // SAFETY: the bytes are unused ones of the pages; they may be written meanwhile, as `copy`
            // allows.
            unsafe { copy::copy_out(at.as_ptr(), found) };
            let expected = canary(at, count);
            if found == expected {
                return;
            }
            let is_changed = |at: &usize| found[*at] != expected[*at];
            let (Some(first), Some(last)) = ((0..count).find(is_changed), (0..count).rfind(is_changed))
            else {
                return;
            };
            let start = at.addr().get();
            overrun = Some(Overrun { is_after: at > data, addresses: start + first..start + last + 1 });
            // SAFETY: as in `allocate`.
            unsafe { copy::copy_in(expected, at.as_ptr()) };
        });
        overrun
    }

    fn take_spare(bytes: usize, alignment: usize) -> Option<Self> {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |it: &Self| it.length == bytes && it.start.addr().get().is_multiple_of(alignment);
        let index = spare.iter().rposition(fits)?;
        Some(spare.remove(index))
    }

    /// Keeps the pages if it is worth it. Those that were freed first make room for them.
    pub(super) fn free(self) {
        if self.length > MOST_SPAN_BYTES {
            return;
        }
        let mut dropped = Vec::new();
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let total = |spare: &[Self]| spare.iter().map(|it| it.length).sum::<usize>();
        while spare.len() >= MOST_SPANS || total(&spare) + self.length > MOST_BYTES {
            dropped.push(spare.remove(0));
        }
        spare.push(self);
        drop(spare);
    }

    fn map(bytes: usize, alignment: usize) -> Option<Self> {
        // The least and the most that is reserved on each side; between these, as much as the length.
        // Reserved pages take no memory.
        const LEAST_GUARD_BYTES: usize = 4 << 20;
        const MOST_GUARD_BYTES: usize = 1 << 30;
        let guard = bytes.clamp(LEAST_GUARD_BYTES, MOST_GUARD_BYTES);
        if !Ability::Guards.is_here() {
            return None;
        }
        // Address space may be limited.
        Self::map_with_guards(bytes, alignment, guard)
            .or_else(|| Self::map_with_guards(bytes, alignment, page_bytes()))
    }

    fn map_with_guards(bytes: usize, alignment: usize, guard: usize) -> Option<Self> {
        let page = page_bytes();
        let alignment = alignment.max(page);
        let mapping_bytes = bytes.checked_add(2 * guard)?.checked_add(alignment - page)?;
        let (mapping, shift) = map_reserved(mapping_bytes, |address| {
            ((address + guard).next_multiple_of(alignment) - address, bytes)
        })?;
        // SAFETY: the mapping has room for the pages after the guard and the alignment.
        let start = unsafe { mapping.add(shift) };
        Some(Self { mapping, mapping_bytes, start, length: bytes })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map_with_guards` created this mapping, and only this drop unmaps it.
        unsafe { unmap_pages(self.mapping, self.mapping_bytes) };
    }
}

/// The contents of unused bytes at `at`, [`PAGE_BYTES`] at most.
fn canary(at: NonNull<u8>, count: usize) -> &'static [u8] {
    &CANARY[at.addr().get() % PAGE_BYTES..][..count]
}

/// Returns the freed pages to the system.
pub(super) fn release_all() {
    let spare = std::mem::take(&mut *SPARE.lock().unwrap_or_else(PoisonError::into_inner));
    drop(spare);
}
