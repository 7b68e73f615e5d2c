//! The accesses byte by byte: what the others are specified by, and what other processors, Miri and the thread
//! sanitizer run.

#![cfg_attr(
    not(any(miri, not(target_arch = "x86_64"), rehal_portable_memory)),
    allow(dead_code, reason = "tests compare with a part of it")
)]

use std::sync::atomic::{AtomicU8, Ordering};

/// # Safety
/// `byte` is valid for reads, and accessed by atomics alone meanwhile.
#[inline]
unsafe fn load_byte(byte: *const u8) -> u8 {
    // SAFETY: as the caller says; a byte has no alignment. Not `from_ptr`, which wants memory that can be written:
    // constants cannot, and relaxed loads of a byte are allowed there (std, "Atomic accesses to read-only memory").
    unsafe { &*byte.cast::<AtomicU8>() }.load(Ordering::Relaxed)
}

/// # Safety
/// `byte` is valid for reads and writes, and accessed by atomics alone meanwhile.
#[inline]
unsafe fn store_byte(byte: *mut u8, value: u8) {
    // SAFETY: as the caller says; a byte has no alignment.
    unsafe { AtomicU8::from_ptr(byte) }.store(value, Ordering::Relaxed);
}

/// See [`super::copy`].
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    let one = |index: usize| {
        // SAFETY: the caller says that both are valid for `length` bytes, which `index` is below.
        unsafe { store_byte(target.add(index), load_byte(source.add(index))) };
    };
    // A target that begins within the source is written from its end, so that no byte is written before it is read.
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
        // SAFETY: the caller says that the source is as long as the target.
        *byte = unsafe { load_byte(source.add(index)) };
    }
}

/// See [`super::copy_in`].
#[inline]
pub(super) unsafe fn copy_in(source: &[u8], target: *mut u8) {
    for (index, byte) in source.iter().enumerate() {
        // SAFETY: the caller says that the target is as long as the source.
        unsafe { store_byte(target.add(index), *byte) };
    }
}

/// See [`super::set`].
#[inline]
pub(super) unsafe fn set(target: *mut u8, length: usize, value: u8) {
    for index in 0..length {
        // SAFETY: the caller says that the target has `length` bytes.
        unsafe { store_byte(target.add(index), value) };
    }
}

/// See [`super::load`].
#[inline]
pub(super) unsafe fn load<const N: usize>(source: *const u8) -> [u8; N] {
    let mut value = [0; N];
    // SAFETY: as the caller says.
    unsafe { copy_out(source, &mut value) };
    value
}

/// See [`super::store`].
#[inline]
pub(super) unsafe fn store<const N: usize>(target: *mut u8, value: [u8; N]) {
    // SAFETY: as the caller says.
    unsafe { copy_in(&value, target) };
}
