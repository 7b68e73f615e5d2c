//! Scopes that are repeated by themselves.
#![allow(unsafe_code, reason = "takes pointers from C, which the header says are valid")]

use std::sync::{Mutex, MutexGuard, TryLockError};

use rehal::replay::FastForward;
use rehal::{Error, Result};

use crate::error::{guard, quietly, rehal_error_t};
use crate::handle::{self, handle};
use crate::replay::{observed, rehal_observer_t, rehal_replay_t};
use crate::structs::{out, rehal_string_t};

/// A scope, until it is finished.
pub struct Repeated(Mutex<Option<FastForward>>);

handle!(rehal_fast_forward_t, Repeated, "fast-forward", b"fastfwd\0");

impl Repeated {
    fn with<T>(&self, body: impl FnOnce(&mut FastForward) -> Result<T>) -> Result<T> {
        body(self.lock()?.as_mut().ok_or_else(finished)?)
    }

    /// Does not wait: a callback of the call that uses it would wait forever.
    fn lock(&self) -> Result<MutexGuard<'_, Option<FastForward>>> {
        match self.0.try_lock() {
            Ok(scope) => Ok(scope),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(Error::failed_precondition("another call uses the fast-forward"))
            }
        }
    }
}

fn finished() -> Error {
    Error::failed_precondition("the fast-forward is finished")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_fast_forward_create(
    replay: *const rehal_replay_t,
    scope: rehal_string_t,
    observer: *const rehal_observer_t,
    fast_forward: *mut *mut rehal_fast_forward_t,
) -> *mut rehal_error_t {
    // SAFETY: what the caller gives is valid, as the header says.
    guard(|| unsafe {
        let out = out(fast_forward)?;
        let scope = scope.bytes()?;
        let made = handle::using(replay, |replay| {
            replay.check_capture()?;
            observed(observer, |observers| replay.fast_forward(scope, observers))
        })?;
        *out = handle::new(Repeated(Mutex::new(Some(made))));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_fast_forward_restore(
    fast_forward: *const rehal_fast_forward_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe { handle::get(fast_forward)?.with(FastForward::restore) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_fast_forward_repeat(
    fast_forward: *const rehal_fast_forward_t,
    observer: *const rehal_observer_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        handle::using(fast_forward, |repeated| {
            observed(observer, |observers| repeated.with(|scope| scope.repeat(observers)))
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_fast_forward_finish(
    fast_forward: *const rehal_fast_forward_t,
) -> *mut rehal_error_t {
    // SAFETY: as above.
    guard(|| unsafe {
        let scope = handle::get(fast_forward)?.lock()?.take();
        scope.ok_or_else(finished)?.finish()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rehal_fast_forward_free(fast_forward: *mut rehal_fast_forward_t) {
    // SAFETY: as above.
    quietly(|| unsafe { handle::free(fast_forward) });
}
