//! Files that are removed when the crash guard ends the process: a list that a signal handler can walk.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The list grows at its front and never shrinks; slots are used again.
static FIRST: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());

struct Slot {
    /// A string of [`CString::into_raw`], or null. What takes it out owns it.
    path: AtomicPtr<c_char>,
    /// Constant once the slot is in the list.
    next: AtomicPtr<Slot>,
}

/// A file that [`exit_now`](super::exit_now) removes while this lives.
pub(crate) struct RemovedFile {
    /// `None` for a path that the system could not open either.
    slot: Option<&'static Slot>,
}

impl RemovedFile {
    pub(crate) fn new(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).ok();
        Self { slot: path.map(|path| slot(path.into_raw())) }
    }
}

impl Drop for RemovedFile {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let path = slot.path.swap(ptr::null_mut(), Ordering::AcqRel);
        if !path.is_null() {
            // SAFETY: it was made by `into_raw`, and only this exchange has returned it.
            drop(unsafe { CString::from_raw(path) });
        }
    }
}

/// Puts a path into a slot that is free, or into a new one.
fn slot(path: *mut c_char) -> &'static Slot {
    let free = slots().find(|slot| {
        let taken = slot.path.compare_exchange(ptr::null_mut(), path, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    });
    free.unwrap_or_else(|| {
        let slot: &'static Slot =
            Box::leak(Box::new(Slot { path: AtomicPtr::new(path), next: AtomicPtr::default() }));
        let mut first = FIRST.load(Ordering::Acquire);
        loop {
            slot.next.store(first, Ordering::Relaxed);
            let new = ptr::from_ref(slot).cast_mut();
            match FIRST.compare_exchange_weak(first, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return slot,
                Err(now) => first = now,
            }
        }
    })
}

/// The slots of the list; async-signal-safe.
fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: pointers of the list are null or to a slot that was leaked, and is never accessed mutably.
    let next = |slot: &AtomicPtr<Slot>| unsafe { slot.load(Ordering::Acquire).as_ref() };
    std::iter::successors(next(&FIRST), move |slot| next(&slot.next))
}

/// Removes the files; async-signal-safe.
pub(super) fn remove_files() {
    for slot in slots() {
        let path = slot.path.swap(ptr::null_mut(), Ordering::AcqRel);
        if !path.is_null() {
            // SAFETY: the string is complete, and only this exchange has returned it, so that no other thread frees it. It is not freed here:
            // the allocator may be in use by the thread that was interrupted.
            unsafe { libc::unlink(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_by_many_threads() {
        let work = || {
            for number in 0..200 {
                let file = RemovedFile::new(Path::new(&format!("no/such/file/{number}")));
                assert!(file.slot.is_some_and(|it| !it.path.load(Ordering::Relaxed).is_null()));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(work);
            }
        });
        assert!((1..=8).contains(&slots().count()));
        assert!(slots().all(|slot| slot.path.load(Ordering::Relaxed).is_null()));
        assert!(RemovedFile::new(Path::new("a\0b")).slot.is_none());
    }
}
