//! The accesses in inline assembly.
//!
//! The compiler knows of each block only that it reads, or reads and writes, any memory reachable from its
//! pointers. A block is specified as accesses to single bytes; the CPU splits a wide move into one or more
//! accesses to adjacent bytes, each of which is atomic, so every outcome is one that the specification
//! allows. The C library's functions are called from within a block: a call that the compiler sees would be
//! an access that must not race.

use std::arch::asm;

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
    // SAFETY: as in `copy_large`; it writes `length` bytes to `target`, which the caller guarantees.
    unsafe {
        asm!(
            "call {set}",
            set = sym libc::memset,
            inout("rdi") target => _,
            inout("esi") u32::from(value) => _,
            inout("rdx") length => _,
            clobber_abi("C"),
        );
    }
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

macro_rules! scalars {
    ($($load:ident $store:ident $bytes:literal $class:ident $type:ty, $into:ty, $read:literal, $write:literal;)*) => {$(
        #[doc = concat!("Reads ", $bytes, " bytes.")]
        ///
        /// # Safety
        /// `source` is valid for reads of that many bytes.
        #[inline(always)]
        unsafe fn $load(source: *const u8) -> $into {
            let value: $into;
            // SAFETY: it reads that many bytes from `source`, which the caller guarantees.
            unsafe { asm!($read, out(reg) value, in(reg) source, options(nostack, preserves_flags, readonly)) };
            value
        }

        #[doc = concat!("Writes ", $bytes, " bytes.")]
        ///
        /// # Safety
        /// `target` is valid for writes of that many bytes.
        #[inline(always)]
        unsafe fn $store(target: *mut u8, value: $type) {
            // SAFETY: it writes that many bytes to `target`, which the caller guarantees.
            unsafe { asm!($write, in(reg) target, in($class) value, options(nostack, preserves_flags)) };
        }
    )*};
}

scalars! {
    load_1 store_1 1 reg_byte u8, u32, "movzx {0:e}, byte ptr [{1}]", "mov byte ptr [{0}], {1}";
    load_2 store_2 2 reg u16, u32, "movzx {0:e}, word ptr [{1}]", "mov word ptr [{0}], {1:x}";
    load_4 store_4 4 reg u32, u32, "mov {0:e}, dword ptr [{1}]", "mov dword ptr [{0}], {1:e}";
    load_8 store_8 8 reg u64, u64, "mov {0}, qword ptr [{1}]", "mov qword ptr [{0}], {1}";
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

/// Copies with the C library, whose function is for this processor.
///
/// # Safety
/// As for [`copy`].
#[inline]
unsafe fn copy_large(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: the function has the C ABI, for which the block has an aligned stack and clobbers all that the
    // ABI does not preserve. It reads and writes `length` bytes from `source` and `target`, which the caller
    // guarantees.
    unsafe {
        asm!(
            "call {copy}",
            copy = sym libc::memmove,
            inout("rdi") target => _,
            inout("rsi") source => _,
            inout("rdx") length => _,
            clobber_abi("C"),
        );
    }
}
