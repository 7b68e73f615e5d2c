//! The accesses byte by byte: the specification of the others, and the implementation under Miri
//! and under the thread sanitizer.

#![cfg_attr(
    not(any(miri, rehal_portable_memory)),
    allow(dead_code, reason = "tests compare with part of it")
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// # Safety
/// `byte` is valid for reads, and all concurrent accesses are atomic.
#[inline]
unsafe fn load_byte(byte: *const u8) -> u8 {
    // SAFETY: guaranteed by the caller; a byte has no alignment. Not `from_ptr`, which requires writable
    // memory: constants are read-only, where relaxed loads of a byte are allowed (std, "Atomic accesses to
    // read-only memory").
    unsafe { &*byte.cast::<AtomicU8>() }.load(Ordering::Relaxed)
}

/// # Safety
/// `byte` is valid for reads and writes, and all concurrent accesses are atomic.
#[inline]
unsafe fn store_byte(byte: *mut u8, value: u8) {
    // SAFETY: guaranteed by the caller; a byte has no alignment.
    unsafe { AtomicU8::from_ptr(byte) }.store(value, Ordering::Relaxed);
}

/// See [`super::copy`].
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    let one = |index: usize| {
        // SAFETY: the caller guarantees `length` bytes in both, and `index` is below that.
        unsafe { store_byte(target.add(index), load_byte(source.add(index))) };
    };
    // If the target starts within the source, copy backwards, so that no byte is overwritten before it is
    // read.
    if target.addr().wrapping_sub(source.addr()) < length {
        (0..length).rev().for_each(one);
    } else {
        (0..length).for_each(one);
    }
}

/// See [`super::copy_out`].
#[inline]
pub(super) unsafe fn copy_out(source: *const u8, target: &mut [u8]) {
    for (index, byte) in target.iter_mut().enumerate() {
        // SAFETY: the caller guarantees a source as long as the target.
        *byte = unsafe { load_byte(source.add(index)) };
    }
}

/// See [`super::copy_in`].
#[inline]
pub(super) unsafe fn copy_in(source: &[u8], target: *mut u8) {
    for (index, byte) in source.iter().enumerate() {
        // SAFETY: the caller guarantees a target as long as the source.
        unsafe { store_byte(target.add(index), *byte) };
    }
}

/// See [`super::set`].
#[inline]
pub(super) unsafe fn set(target: *mut u8, length: usize, value: u8) {
    for index in 0..length {
        // SAFETY: the caller guarantees a target of `length` bytes.
        unsafe { store_byte(target.add(index), value) };
    }
}

/// See [`super::load`].
#[inline]
pub(super) unsafe fn load<const N: usize>(source: *const u8) -> [u8; N] {
    let mut value = [0; N];
    // SAFETY: guaranteed by the caller.
    unsafe { copy_out(source, &mut value) };
    value
}

/// See [`super::store`].
#[inline]
pub(super) unsafe fn store<const N: usize>(target: *mut u8, value: [u8; N]) {
    // SAFETY: guaranteed by the caller.
    unsafe { copy_in(&value, target) };
}

/// See [`super::exchange`]. Only other exchanges are kept from changing the bytes meanwhile: processors have
/// no operation on several single bytes.
#[inline]
pub(super) unsafe fn exchange<const N: usize>(target: *mut u8, expected: [u8; N], new: [u8; N]) -> [u8; N] {
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock();
    // SAFETY: guaranteed by the caller.
    unsafe {
        let found = load(target);
        if found == expected {
            store(target, new);
        }
        found
    }
}
