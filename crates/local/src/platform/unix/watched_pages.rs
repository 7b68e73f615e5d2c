//! Pages that tell whether they are accessed: they are protected, and the handler of the fault notes the page
//! and allows the access, which is then repeated.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rehal_base::{HostMemory, page_bytes};
use rehal_crash::{allow_accesses, handles_faults};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Bytes on each side that are not protected: a kernel that accesses a few bytes outside of its buffer does
/// so elsewhere, too.
const MARGIN_BYTES: usize = 64 << 10;

/// A span of pages that is watched; one without pages is free.
struct Slot {
    is_taken: AtomicBool,
    /// Address of the first page; 0 unless its faults are handled. The other fields are valid if it is not.
    start: AtomicUsize,
    page_count: AtomicUsize,
    /// Whether each page was accessed.
    accessed: AtomicPtr<AtomicBool>,
}

static SLOTS: [Slot; 256] = [const {
    Slot {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        page_count: AtomicUsize::new(0),
        accessed: AtomicPtr::new(std::ptr::null_mut()),
    }
}; 256];

/// The number of threads in [`allow`].
static HANDLING: AtomicUsize = AtomicUsize::new(0);

/// Allows accesses to the page of an address, if it is watched, and notes it. Runs in a signal handler: it
/// only uses atomics and mprotect(2).
fn allow(address: usize) -> bool {
    // A slot that is found is not freed before this returns, see `WatchedPages::release`.
    HANDLING.fetch_add(1, Ordering::SeqCst);
    let is_watched = SLOTS.iter().any(|slot| slot.allow(address));
    HANDLING.fetch_sub(1, Ordering::SeqCst);
    is_watched
}

impl Slot {
    fn allow(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::SeqCst);
        let count = self.page_count.load(Ordering::SeqCst);
        if start == 0 || address < start || address - start >= count * page_bytes() {
            return false;
        }
        let page = (address - start) / page_bytes();
        // SAFETY: the slot has this many flags while `start` is not 0, and they are freed only when no thread
        // is here.
        let accessed = unsafe { std::slice::from_raw_parts(self.accessed.load(Ordering::SeqCst), count) };
        accessed[page].store(true, Ordering::SeqCst);
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        let protect = |first: usize, pages: usize| {
            let at = std::ptr::with_exposed_provenance_mut::<c_void>(start + first * page_bytes());
            // SAFETY: the pages belong to the slot; to allow accesses does not affect others.
            unsafe { mprotect(at, pages * page_bytes(), access) }.is_ok()
        };
        if protect(page, 1) {
            return true;
        }
        // There are too many spans with different protections: what else is accessed stays unknown.
        accessed.iter().for_each(|page| page.store(true, Ordering::SeqCst));
        protect(0, count)
    }
}

/// Zeroed memory whose accesses can be watched. Its bytes are accessed through [`WatchedPages::memory`].
pub(crate) struct WatchedPages {
    /// The mapping, with margins.
    base: NonNull<u8>,
    /// Length in bytes, without margins.
    length: usize,
    accessed: Box<[AtomicBool]>,
    slot: &'static Slot,
}

// SAFETY: the pages belong to this value alone and are not bound to a thread; the flags are atomics.
unsafe impl Send for WatchedPages {}
// SAFETY: as above; shared access protects pages, whose accesses are then repeated.
unsafe impl Sync for WatchedPages {}

impl WatchedPages {
    /// `length` bytes; `None` if faults are not handled, too many pages are watched, or memory is short.
    pub(crate) fn new(length: usize) -> Option<Arc<Self>> {
        let page_count = length.div_ceil(page_bytes()).max(1);
        let mapped = page_count.checked_mul(page_bytes())?.checked_add(2 * MARGIN_BYTES)?;
        if !handles_faults() {
            return None;
        }
        // SAFETY: it uses atomics and mprotect(2) only.
        unsafe { allow_accesses(allow) };
        let slot = SLOTS.iter().find(|slot| !slot.is_taken.swap(true, Ordering::SeqCst))?;
        let free = || slot.is_taken.store(false, Ordering::SeqCst);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address chosen by the kernel affects no other memory.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, access, flags) };
        let Some(base) = base.ok().and_then(|base| NonNull::new(base.cast::<u8>())) else {
            free();
            return None;
        };
        base.as_ptr().expose_provenance();
        let accessed = (0..page_count).map(|_| AtomicBool::new(false)).collect();
        Some(Arc::new(Self { base, length, accessed, slot }))
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: the mapping has a margin on each side.
        unsafe { self.base.add(MARGIN_BYTES) }
    }

    /// The bytes.
    pub(crate) fn memory(self: &Arc<Self>) -> HostMemory {
        // SAFETY: the mapping lives as long as the keeper. While pages are protected, an access faults, and
        // the handler allows it: `watch` fails unless it is installed.
        unsafe { HostMemory::foreign(self.start(), self.length, true, Box::new(self.clone())) }
    }

    /// Protects all pages.
    pub(crate) fn watch(&self) -> io::Result<()> {
        if !handles_faults() {
            return Err(io::Error::other("another handler of SIGSEGV is installed"));
        }
        self.release();
        self.accessed.iter().for_each(|page| page.store(false, Ordering::SeqCst));
        self.slot.page_count.store(self.accessed.len(), Ordering::SeqCst);
        self.slot.accessed.store(self.accessed.as_ptr().cast_mut(), Ordering::SeqCst);
        self.slot.start.store(self.start().as_ptr().addr(), Ordering::SeqCst);
        self.protect(MprotectFlags::empty())
    }

    /// Allows all accesses; returns the bytes of the pages that were accessed, in order.
    pub(crate) fn accessed(&self) -> io::Result<Vec<Range<usize>>> {
        self.protect(MprotectFlags::READ | MprotectFlags::WRITE)?;
        self.release();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let pages = self.accessed.iter().enumerate().filter(|(_, page)| page.load(Ordering::SeqCst));
        for (page, _) in pages {
            let start = page * page_bytes();
            let end = (start + page_bytes()).min(self.length);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        Ok(ranges)
    }

    fn protect(&self, access: MprotectFlags) -> io::Result<()> {
        let length = self.accessed.len() * page_bytes();
        // SAFETY: the pages are between the margins of a mapping that this value owns. Accesses to protected
        // pages are handled.
        unsafe { mprotect(self.start().as_ptr().cast::<c_void>(), length, access) }?;
        Ok(())
    }

    /// Withdraws the pages from the fault handler, and waits until no thread is in it.
    fn release(&self) {
        self.slot.start.store(0, Ordering::SeqCst);
        while HANDLING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

impl Drop for WatchedPages {
    fn drop(&mut self) {
        self.release();
        self.slot.is_taken.store(false, Ordering::SeqCst);
        let mapped = self.accessed.len() * page_bytes() + 2 * MARGIN_BYTES;
        // SAFETY: `base..base + mapped` is a mapping that `new` created and only this drop unmaps; memory
        // over it keeps this value.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), mapped) };
    }
}
