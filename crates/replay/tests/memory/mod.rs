//! How much memory a call holds at its peak, counted per thread, so that tests beside it do not
//! count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread holds, and the most that it held since that was last reset.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

/// The result of `call`, and how many bytes it held at its peak.
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

#[allow(unsafe_code, reason = "the trait's; it counts and leaves the work to the system's allocator")]
// SAFETY: every call goes to the system's allocator as it came; the counters never allocate.
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
        // Both are held while the bytes are moved, as far as anybody can tell from here.
        count(new_size as isize);
        // SAFETY: the caller's promise, passed on.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        count(-(layout.size() as isize));
        moved
    }
}
