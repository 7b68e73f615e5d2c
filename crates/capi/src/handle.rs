//! Handles: boxed objects that know their kind and the process that made them.
//!
//! A handle begins with a word that tells its kind. In debug builds, a handle that is freed keeps its memory,
//! with a word that says so: a later use is an error, or ends the process if it is freed again. A handle that
//! a callback frees while a call [uses](using) it keeps its object until this call ends, in an error. In a
//! child after fork(2), the threads of devices and recorders do not exist, so all handles of the parent are
//! refused there, and freeing them does nothing.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rehal::{Error, Result};

#[cfg(debug_assertions)]
use crate::fork::is_refused;

/// A handle of C: opaque, and made by [`new`].
///
/// # Safety
/// It is `repr(transparent)` over [`Shell`].
pub unsafe trait Handle: Sized {
    /// The object, which several threads may use at a time.
    type Object: Send + Sync;
    /// Its name in errors.
    const NAME: &'static str;
    /// The word that it begins with.
    const KIND: u64;
}

/// The memory of a handle.
#[repr(C)]
pub struct Shell<T> {
    kind: AtomicU64,
    process: u32,
    /// Calls that use it while callbacks run, with [`FREED_IN_USE`] once it is freed meanwhile.
    users: AtomicU32,
    object: Option<T>,
}

/// A bit above the number of users.
const FREED_IN_USE: u32 = 1 << 31;

/// The kind of a handle that was freed.
#[cfg(debug_assertions)]
const FREED: u64 = u64::from_le_bytes(*b"freed!!!");

#[cfg(debug_assertions)]
static GRAVES: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());

macro_rules! handle {
    ($name:ident, $object:ty, $called:literal, $kind:literal) => {
        #[doc = concat!("A handle: ", $called, ".")]
        #[repr(transparent)]
        pub struct $name($crate::handle::Shell<$object>);

        // SAFETY: it is `repr(transparent)`.
        unsafe impl $crate::handle::Handle for $name {
            type Object = $object;
            const NAME: &'static str = $called;
            const KIND: u64 = u64::from_le_bytes(*$kind);
        }
    };
}
pub(crate) use handle;

/// A new handle, which [`free`] frees.
pub fn new<H: Handle>(object: H::Object) -> *mut H {
    let (kind, users) = (AtomicU64::new(H::KIND), AtomicU32::new(0));
    Box::into_raw(Box::new(Shell { kind, process: std::process::id(), users, object: Some(object) })).cast()
}

/// The object of a handle.
///
/// # Safety
/// Null, or a handle of any kind that was made by [`new`]; in release builds, one that is not freed.
pub unsafe fn get<'a, H: Handle + 'a>(handle: *const H) -> Result<&'a H::Object> {
    // SAFETY: the caller guarantees it.
    let shell = unsafe { check(handle) }?;
    shell.object.as_ref().ok_or_else(|| freed::<H>())
}

/// Calls `body` with the object of a handle, which callbacks may free meanwhile: that is an error.
///
/// # Safety
/// As for [`get`].
pub unsafe fn using<H: Handle, T>(handle: *const H, body: impl FnOnce(&H::Object) -> Result<T>) -> Result<T> {
    // SAFETY: the caller guarantees it.
    let shell = unsafe { check(handle) }?;
    let object = shell.object.as_ref().ok_or_else(|| freed::<H>())?;
    shell.users.fetch_add(1, Ordering::AcqRel);
    let used = Use(handle);
    let outcome = body(object);
    let is_freed = shell.users.load(Ordering::Acquire) & FREED_IN_USE != 0;
    drop(used);
    match is_freed {
        true => Err(Error::failed_precondition(format!(
            "the {} was freed within a callback of a call that uses it",
            H::NAME
        ))
        .advise("free it when the call has returned")),
        false => outcome,
    }
}

/// A use of a live handle, whose memory it keeps.
struct Use<H: Handle>(*const H);

impl<H: Handle> Drop for Use<H> {
    fn drop(&mut self) {
        // SAFETY: `free` leaves a handle that is in use.
        let shell = unsafe { &*self.0.cast::<Shell<H::Object>>() };
        if shell.users.fetch_sub(1, Ordering::AcqRel) == FREED_IN_USE | 1 {
            // SAFETY: it is a live handle, which was freed, and this was the last use.
            drop(unsafe { bury(self.0.cast_mut()) });
        }
    }
}

/// The object of a handle, which is freed. Fails in a child after fork.
///
/// # Safety
/// As for [`get`], and nothing uses the handle any more.
pub unsafe fn take<H: Handle>(handle: *mut H) -> Result<H::Object> {
    // SAFETY: the caller guarantees it.
    unsafe { check(handle) }?;
    // SAFETY: it is a live handle, which nothing else uses.
    unsafe { bury(handle) }.ok_or_else(|| freed::<H>())
}

/// Frees a handle. Null is ignored, and so is a handle of the parent of this process.
///
/// # Safety
/// As for [`take`].
pub unsafe fn free<H: Handle>(handle: *mut H) {
    if handle.is_null() {
        return;
    }
    // SAFETY: the caller guarantees it.
    match unsafe { check_kind(handle.cast_const()) } {
        Err(error) => abort(&error),
        Ok(shell) if shell.process != std::process::id() => {}
        Ok(shell) => {
            let free_later = |users| (users != 0).then_some(users | FREED_IN_USE);
            match shell.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, free_later) {
                Ok(users) if users & FREED_IN_USE != 0 => abort(&freed::<H>()),
                Ok(_) => {}
                // SAFETY: as above.
                Err(_) => drop(unsafe { bury(handle) }),
            }
        }
    }
}

/// The memory of a handle of this process.
///
/// # Safety
/// As for [`get`].
unsafe fn check<'a, H: Handle + 'a>(handle: *const H) -> Result<&'a Shell<H::Object>> {
    // SAFETY: the caller guarantees it.
    let shell = unsafe { check_kind(handle) }?;
    if shell.process != std::process::id() {
        let message = format!("the {} belongs to process {}, which was forked", H::NAME, shell.process);
        return Err(Error::failed_precondition(message).advise("make handles after fork, or in the parent"));
    }
    if shell.users.load(Ordering::Acquire) & FREED_IN_USE != 0 {
        return Err(freed::<H>());
    }
    Ok(shell)
}

/// The memory of a handle of this kind, also in a child of its process.
///
/// # Safety
/// As for [`get`].
unsafe fn check_kind<'a, H: Handle + 'a>(handle: *const H) -> Result<&'a Shell<H::Object>> {
    if handle.is_null() {
        return Err(Error::invalid_argument(format!("the {} is NULL", H::NAME)));
    }
    if !handle.cast::<Shell<H::Object>>().is_aligned() {
        return Err(Error::invalid_argument(format!("the {} is not a handle", H::NAME)));
    }
    // SAFETY: a handle of any kind begins with this word.
    let kind = unsafe { &*handle.cast::<AtomicU64>() }.load(Ordering::Acquire);
    #[cfg(debug_assertions)]
    if kind == FREED {
        return Err(freed::<H>());
    }
    if kind != H::KIND {
        return Err(Error::invalid_argument(format!("the {} is a handle of another kind", H::NAME)));
    }
    // SAFETY: it is a handle of this kind.
    Ok(unsafe { &*handle.cast::<Shell<H::Object>>() })
}

/// Takes the object out of a live handle, and frees it.
///
/// # Safety
/// It is a handle of this kind, and nothing uses it any more.
unsafe fn bury<H: Handle>(handle: *mut H) -> Option<H::Object> {
    let shell = handle.cast::<Shell<H::Object>>();
    #[cfg(debug_assertions)]
    {
        // SAFETY: the caller guarantees it.
        let shell = unsafe { &mut *shell };
        shell.kind.store(FREED, Ordering::Release);
        // Kept, so that leak checkers do not report what is kept on purpose. Another thread of the parent may
        // have had the lock.
        if !is_refused() {
            GRAVES
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(std::ptr::from_mut(shell).expose_provenance());
        }
        shell.object.take()
    }
    #[cfg(not(debug_assertions))]
    // SAFETY: `new` made the box.
    unsafe { Box::from_raw(shell) }.object
}

fn freed<H: Handle>() -> Error {
    Error::failed_precondition(format!("the {} is used after it was freed", H::NAME))
}

/// A function that frees cannot report: the caller has lost track of its memory.
fn abort(error: &Error) -> ! {
    eprintln!("rehal: {}", error.report());
    std::process::abort()
}
