//! The accesses in inline assembly.
//!
//! The compiler knows of each block only that it reads, or reads and writes, any memory reachable from its
//! pointers. A block is specified as accesses to single bytes; the CPU splits a wide move into one or more
//! accesses to adjacent bytes, each of which is atomic, so every outcome is one that the specification
//! allows. The C library's functions are called from within a block: a call that the compiler sees would be
//! an access that must not race. An exchange is specified as accesses to bytes, too, under a lock that all
//! exchanges take.

use crate::platform::access::{
    self, copy_large, load_1, load_2, load_4, load_8, set_all, store_1, store_2, store_4, store_8,
};

/// See [`super::copy`].
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: guaranteed by the caller; `copy_small` receives only lengths that it supports.
    unsafe {
        match length {
            0..=16 => copy_small(source, target, length),
            _ => copy_large(source, target, length),
        }
    }
}

/// See [`super::copy_out`].
#[inline]
pub(super) unsafe fn copy_out(source: *const u8, target: &mut [u8]) {
    // SAFETY: guaranteed by the caller; the target is exclusively borrowed.
    unsafe { copy(source, target.as_mut_ptr(), target.len()) };
}

/// See [`super::copy_in`].
#[inline]
pub(super) unsafe fn copy_in(source: &[u8], target: *mut u8) {
    // SAFETY: guaranteed by the caller; the source is only read.
    unsafe { copy(source.as_ptr(), target, source.len()) };
}

/// See [`super::set`].
#[inline]
pub(super) unsafe fn set(target: *mut u8, length: usize, value: u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { set_all(target, length, value) };
}

/// See [`super::load`].
#[inline(always)]
pub(super) unsafe fn load<const N: usize>(source: *const u8) -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: each reads `N` bytes, which the caller guarantees.
    unsafe {
        match N {
            1 => bytes.copy_from_slice(&(load_1(source) as u8).to_ne_bytes()),
            2 => bytes.copy_from_slice(&(load_2(source) as u16).to_ne_bytes()),
            4 => bytes.copy_from_slice(&load_4(source).to_ne_bytes()),
            8 => bytes.copy_from_slice(&load_8(source).to_ne_bytes()),
            _ => copy_out(source, &mut bytes),
        }
    }
    bytes
}

/// See [`super::store`].
#[inline(always)]
pub(super) unsafe fn store<const N: usize>(target: *mut u8, value: [u8; N]) {
    let mut wide = [0; 8];
    // SAFETY: each writes `N` bytes, which the caller guarantees.
    unsafe {
        match N {
            1 => store_1(target, value[0]),
            2 => store_2(target, u16::from_ne_bytes([value[0], value[1]])),
            4 => store_4(target, u32::from_ne_bytes([value[0], value[1], value[2], value[3]])),
            8 => {
                wide.copy_from_slice(&value);
                store_8(target, u64::from_ne_bytes(wide));
            }
            _ => copy_in(&value, target),
        }
    }
}

/// See [`super::exchange`].
#[inline]
pub(super) unsafe fn exchange<const N: usize>(target: *mut u8, expected: [u8; N], new: [u8; N]) -> [u8; N] {
    let wide = |bytes: [u8; N]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    // SAFETY: guaranteed by the caller.
    let found = unsafe { access::exchange(N, target, wide(expected), wide(new)) };
    std::array::from_fn(|byte| found.to_le_bytes()[byte])
}

/// Copies at most 16 bytes: one piece from each end, which may overlap. All loads precede all stores, so
/// the ranges may overlap.
///
/// # Safety
/// As for [`copy`].
#[inline]
unsafe fn copy_small(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: each piece is within the ranges, as its length is at most `length`.
    unsafe {
        match length {
            8.. => {
                let (first, last) = (load_8(source), load_8(source.add(length - 8)));
                store_8(target, first);
                store_8(target.add(length - 8), last);
            }
            4.. => {
                let (first, last) = (load_4(source), load_4(source.add(length - 4)));
                store_4(target, first);
                store_4(target.add(length - 4), last);
            }
            2.. => {
                let (first, last) = (load_2(source), load_2(source.add(length - 2)));
                store_2(target, first as u16);
                store_2(target.add(length - 2), last as u16);
            }
            1 => store_1(target, load_1(source) as u8),
            0 => {}
        }
    }
}
