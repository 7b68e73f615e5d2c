//! Accesses to bytes that other threads may access concurrently.
//!
//! Each function is specified as a sequence of relaxed atomic accesses to single bytes, in any order in which
//! each target byte receives one of the values that its source byte has during the call. A data race
//! therefore has some outcome and is never undefined. Single bytes, because Rust's memory model, like that of
//! C++, does not define concurrent atomic accesses of different sizes to the same location, and two threads
//! may choose different sizes.
//!
//! `portable.rs` implements that specification directly; Miri and the thread sanitizer check it.
//! `assembly.rs` implements it in inline assembly, with wide moves and with the C library's `memmove` and
//! `memset`. A block of assembly must behave as some Rust code could (the Rust reference, "Rules for inline
//! assembly"): each wide move is one of the outcomes that the byte accesses allow.

#[cfg(not(any(miri, rehal_portable_memory)))]
mod assembly;
#[cfg(any(test, miri, rehal_portable_memory))]
mod portable;

#[cfg(not(any(miri, rehal_portable_memory)))]
use assembly as chosen;
#[cfg(any(miri, rehal_portable_memory))]
use portable as chosen;

/// Copies between shared bytes, like `memmove`: if the ranges overlap, the target receives the source's
/// previous contents, unless another thread writes it meanwhile.
///
/// # Safety
/// `source` is valid for reads and `target` for writes of `length` bytes during the call. Concurrent accesses
/// to these bytes use only the functions of this module (or something with the same specification).
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { chosen::copy(source, target, length) }
}

/// Copies shared bytes to memory owned by the caller.
///
/// # Safety
/// As for [`copy`], with `target` exclusively borrowed.
#[inline]
pub(super) unsafe fn copy_out(source: *const u8, target: &mut [u8]) {
    // SAFETY: guaranteed by the caller; the target is valid because it is a reference.
    unsafe { chosen::copy_out(source, target) }
}

/// Copies bytes that no thread writes to shared ones.
///
/// # Safety
/// As for [`copy`], with `source` borrowed.
#[inline]
pub(super) unsafe fn copy_in(source: &[u8], target: *mut u8) {
    // SAFETY: guaranteed by the caller; the source is valid because it is a reference.
    unsafe { chosen::copy_in(source, target) }
}

/// Sets shared bytes.
///
/// # Safety
/// As for the target of [`copy`].
#[inline]
pub(super) unsafe fn set(target: *mut u8, length: usize, value: u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { chosen::set(target, length, value) }
}

/// Loads `N` shared bytes.
///
/// # Safety
/// As for the source of [`copy`].
#[inline(always)]
pub(super) unsafe fn load<const N: usize>(source: *const u8) -> [u8; N] {
    // SAFETY: guaranteed by the caller.
    unsafe { chosen::load(source) }
}

/// Stores `N` shared bytes.
///
/// # Safety
/// As for the target of [`copy`].
#[inline(always)]
pub(super) unsafe fn store<const N: usize>(target: *mut u8, value: [u8; N]) {
    // SAFETY: guaranteed by the caller.
    unsafe { chosen::store(target, value) }
}

/// Replaces `N` shared bytes if they are as expected, at once, and returns the former ones. Sequentially
/// consistent with other exchanges.
///
/// # Safety
/// As for the target of [`copy`]; it is aligned to `N` bytes, which are 2, 4 or 8.
#[inline]
pub(super) unsafe fn exchange<const N: usize>(target: *mut u8, expected: [u8; N], new: [u8; N]) -> [u8; N] {
    // SAFETY: guaranteed by the caller.
    unsafe { chosen::exchange(target, expected, new) }
}

#[cfg(test)]
mod tests;
