//! Files that are removed when the crash guard ends the process: a list that a signal handler can walk.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The list grows at its front and never shrinks; places are used again.
static FIRST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

struct Place {
    /// A string of [`CString::into_raw`], or null. What takes it out owns it.
    path: AtomicPtr<c_char>,
    /// Constant once the place is in the list.
    next: AtomicPtr<Place>,
}

/// A file that [`exit_now`](super::exit_now) removes while this lives.
pub(crate) struct RemovedFile {
    /// `None` for a path that the system could not open either.
    place: Option<&'static Place>,
}

impl RemovedFile {
    pub(crate) fn new(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).ok();
        Self { place: path.map(|path| place(path.into_raw())) }
    }
}

impl Drop for RemovedFile {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let path = place.path.swap(ptr::null_mut(), Ordering::AcqRel);
        if !path.is_null() {
            // SAFETY: it was made by `into_raw`, and only this exchange has returned it.
            drop(unsafe { CString::from_raw(path) });
        }
    }
}

/// Puts a path into a place that is free, or into a new one.
fn place(path: *mut c_char) -> &'static Place {
    let free = places().find(|place| {
        let taken = place.path.compare_exchange(ptr::null_mut(), path, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    });
    free.unwrap_or_else(|| {
        let place: &'static Place =
            Box::leak(Box::new(Place { path: AtomicPtr::new(path), next: AtomicPtr::default() }));
        let mut first = FIRST.load(Ordering::Acquire);
        loop {
            place.next.store(first, Ordering::Relaxed);
            let new = ptr::from_ref(place).cast_mut();
            match FIRST.compare_exchange_weak(first, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return place,
                Err(now) => first = now,
            }
        }
    })
}

/// The places of the list; async-signal-safe.
fn places() -> impl Iterator<Item = &'static Place> {
    // SAFETY: pointers of the list are null or to a place that was leaked, and is never accessed mutably.
    let next = |place: &AtomicPtr<Place>| unsafe { place.load(Ordering::Acquire).as_ref() };
    std::iter::successors(next(&FIRST), move |place| next(&place.next))
}

/// Removes the files; async-signal-safe.
pub(super) fn remove_files() {
    for place in places() {
        let path = place.path.swap(ptr::null_mut(), Ordering::AcqRel);
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
                assert!(file.place.is_some_and(|it| !it.path.load(Ordering::Relaxed).is_null()));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(work);
            }
        });
        assert!((1..=8).contains(&places().count()));
        assert!(places().all(|place| place.path.load(Ordering::Relaxed).is_null()));
        assert!(RemovedFile::new(Path::new("a\0b")).place.is_none());
    }
}
