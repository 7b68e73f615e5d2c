//! The peak memory of a call, counted per thread, so that concurrent tests do not
//! interfere.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes allocated by this thread, and the high-water mark since the last reset.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

/// The result of `call`, and its peak memory in bytes.
pub fn peak_bytes<R>(call: impl FnOnce() -> R) -> (R, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = call();
    (result, (PEAK.get() - before) as usize)
}

fn count(change: isize) {
    // An exiting thread may have destroyed its counters, which are no longer read.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        PEAK.with(|peak| peak.set(peak.get().max(held.get())));
    });
}

#[allow(unsafe_code, reason = "required by the trait; it counts and forwards to the system's allocator")]
// SAFETY: every call is forwarded to the system's allocator unchanged; the counters never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Counts both allocations during the copy: the allocator may or may not move the bytes.
        count(new_size as isize);
        // SAFETY: the caller's promise, passed on.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        count(-(layout.size() as isize));
        moved
    }
}
