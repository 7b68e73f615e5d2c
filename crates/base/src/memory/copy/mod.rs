//! The accesses to bytes that other threads may access at the same time.
//!
//! Each function is specified as a sequence of relaxed atomic accesses to single bytes, in any order that gives each
//! target byte one of the values which its source byte has during the call. So a race has some outcome and is never
//! undefined. Bytes, and not wider pieces: Rust's memory model, like that of C++, has no atomic accesses of different
//! sizes to the same place at the same time, and two threads may well choose different sizes.
//!
//! `portable.rs` is that specification as code, which Miri and the thread sanitizer check. `x86_64.rs` does the same
//! with wide moves in inline assembly. A block of assembly has to do what some Rust code could do (the Rust reference,
//! "Inline assembly", "Rules for inline assembly"): each wide move there is one of the outcomes that the byte accesses
//! allow.

#[cfg(any(test, miri, not(target_arch = "x86_64"), rehal_portable_memory))]
mod portable;
#[cfg(all(target_arch = "x86_64", not(any(miri, rehal_portable_memory))))]
mod x86_64;

#[cfg(any(miri, not(target_arch = "x86_64"), rehal_portable_memory))]
use portable as chosen;
#[cfg(all(target_arch = "x86_64", not(any(miri, rehal_portable_memory))))]
use x86_64 as chosen;

/// Copies between shared bytes; the ranges may overlap, and then the target gets what the source was, if nobody else
/// writes it meanwhile.
///
/// # Safety
/// `source` is valid for reads and `target` for writes of `length` bytes during the call. Others access these bytes
/// meanwhile by the functions of this module only (or something that is specified as they are).
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: as the caller says.
    unsafe { chosen::copy(source, target, length) }
}

/// Copies shared bytes to the caller's own.
///
/// # Safety
/// As for [`copy`]; `target` is memory of its own.
#[inline]
pub(super) unsafe fn copy_out(source: *const u8, target: &mut [u8]) {
    // SAFETY: as the caller says; the target is valid by being a reference.
    unsafe { chosen::copy_out(source, target) }
}

/// Copies bytes that nobody writes to shared ones.
///
/// # Safety
/// As for [`copy`]; `source` is memory of its own.
#[inline]
pub(super) unsafe fn copy_in(source: &[u8], target: *mut u8) {
    // SAFETY: as the caller says; the source is valid by being a reference.
    unsafe { chosen::copy_in(source, target) }
}

/// Sets shared bytes.
///
/// # Safety
/// As for the target of [`copy`].
#[inline]
pub(super) unsafe fn set(target: *mut u8, length: usize, value: u8) {
    // SAFETY: as the caller says.
    unsafe { chosen::set(target, length, value) }
}

/// Loads `N` shared bytes.
///
/// # Safety
/// As for the source of [`copy`].
#[inline(always)]
pub(super) unsafe fn load<const N: usize>(source: *const u8) -> [u8; N] {
    // SAFETY: as the caller says.
    unsafe { chosen::load(source) }
}

/// Stores `N` shared bytes.
///
/// # Safety
/// As for the target of [`copy`].
#[inline(always)]
pub(super) unsafe fn store<const N: usize>(target: *mut u8, value: [u8; N]) {
    // SAFETY: as the caller says.
    unsafe { chosen::store(target, value) }
}

#[cfg(test)]
mod tests;
