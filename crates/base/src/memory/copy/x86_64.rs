//! The accesses in inline assembly.
//!
//! The compiler knows of each block only that it reads, or reads and writes, any memory reachable from its
//! pointers. A block is specified as accesses to single bytes; the CPU splits a wide move into one or
//! more accesses to adjacent bytes, each of which is atomic, so every outcome is one that the specification
//! allows.

use std::arch::asm;

/// From this length on, `rep movsb` and `rep stosb` are faster than our loops.
const STRING_FROM_BYTES: usize = 1024;

/// See [`super::copy`].
#[inline]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: guaranteed by the caller; each function receives only lengths that it supports.
    unsafe {
        match length {
            0..=16 => copy_small(source, target, length),
            17..=64 => copy_middle(source, target, length),
            // If the target starts within the source, copy backwards, so that no byte is overwritten before
            // it is read; if it ends within the source, `rep movsb` is slow.
            _ if target.addr().wrapping_sub(source.addr()) < length => copy_backward(source, target, length),
            _ if length < STRING_FROM_BYTES || source.addr().wrapping_sub(target.addr()) < length => {
                copy_forward(source, target, length);
            }
            _ => copy_string(source, target, length),
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
    let wide = u64::from(value) * 0x0101_0101_0101_0101;
    // SAFETY: each piece is within the range, as its length is at most `length`.
    unsafe {
        match length {
            STRING_FROM_BYTES.. => set_string(target, length, value),
            16.. => set_vectors(target, length, wide),
            8.. => {
                store_8(target, wide);
                store_8(target.add(length - 8), wide);
            }
            _ => (0..length).for_each(|index| store_1(target.add(index), value)),
        }
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

/// Copies at most 16 bytes: one piece from each end, which may overlap. All loads precede all stores, here
/// and in [`copy_middle`], so the ranges may overlap.
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

/// Copies 16 to 64 bytes.
///
/// # Safety
/// As for [`copy`].
#[inline]
unsafe fn copy_middle(source: *const u8, target: *mut u8, length: usize) {
    // Up to 32 bytes, the inner pieces equal the outer ones.
    let inner = if length > 32 { 16_usize } else { 0 };
    // SAFETY: four pieces of 16 bytes, at 0, `inner`, `length - 16 - inner` and `length - 16`: all within the ranges.
    unsafe {
        asm!(
            "movdqu {0}, [{s}]",
            "movdqu {1}, [{s} + {inner}]",
            "movdqu {2}, [{s_end} - 16]",
            "sub {s_end}, {inner}",
            "movdqu {3}, [{s_end} - 16]",
            "movdqu [{t}], {0}",
            "movdqu [{t} + {inner}], {1}",
            "movdqu [{t_end} - 16], {2}",
            "sub {t_end}, {inner}",
            "movdqu [{t_end} - 16], {3}",
            out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _,
            s = in(reg) source,
            t = in(reg) target,
            s_end = inout(reg) source.add(length) => _,
            t_end = inout(reg) target.add(length) => _,
            inner = in(reg) inner,
            options(nostack),
        );
    }
}

/// Copies more than 64 bytes upwards, 64 at a time; the last 64 are read first, so the target may start
/// before the source and overlap it.
///
/// # Safety
/// As for [`copy`]; the target does not start within the source.
unsafe fn copy_forward(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: `at` increases from 0 in steps of 64 while it is below `length - 64`; each step reads and
    // writes the 64 bytes from there, and the last pieces are the last 64 bytes.
    unsafe {
        asm!(
            "movdqu {4}, [{s} + {rest}]",
            "movdqu {5}, [{s} + {rest} + 16]",
            "movdqu {6}, [{s} + {rest} + 32]",
            "movdqu {7}, [{s} + {rest} + 48]",
            "2:",
            "movdqu {0}, [{s} + {at}]",
            "movdqu {1}, [{s} + {at} + 16]",
            "movdqu {2}, [{s} + {at} + 32]",
            "movdqu {3}, [{s} + {at} + 48]",
            "movdqu [{t} + {at}], {0}",
            "movdqu [{t} + {at} + 16], {1}",
            "movdqu [{t} + {at} + 32], {2}",
            "movdqu [{t} + {at} + 48], {3}",
            "add {at}, 64",
            "cmp {at}, {rest}",
            "jb 2b",
            "movdqu [{t} + {rest}], {4}",
            "movdqu [{t} + {rest} + 16], {5}",
            "movdqu [{t} + {rest} + 32], {6}",
            "movdqu [{t} + {rest} + 48], {7}",
            out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _,
            out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _,
            s = in(reg) source,
            t = in(reg) target,
            rest = in(reg) length - 64,
            at = inout(reg) 0_usize => _,
            options(nostack),
        );
    }
}

/// Copies more than 64 bytes downwards, 64 at a time; the first 64 are read first.
///
/// # Safety
/// As for [`copy`]; the source does not start within the target.
unsafe fn copy_backward(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: `left` decreases from `length` in steps of 64 while it is above 64; each step reads and writes
    // the 64 bytes before it, and the last pieces are the first 64 bytes.
    unsafe {
        asm!(
            "movdqu {4}, [{s}]",
            "movdqu {5}, [{s} + 16]",
            "movdqu {6}, [{s} + 32]",
            "movdqu {7}, [{s} + 48]",
            "2:",
            "movdqu {0}, [{s} + {left} - 64]",
            "movdqu {1}, [{s} + {left} - 48]",
            "movdqu {2}, [{s} + {left} - 32]",
            "movdqu {3}, [{s} + {left} - 16]",
            "movdqu [{t} + {left} - 64], {0}",
            "movdqu [{t} + {left} - 48], {1}",
            "movdqu [{t} + {left} - 32], {2}",
            "movdqu [{t} + {left} - 16], {3}",
            "sub {left}, 64",
            "cmp {left}, 64",
            "ja 2b",
            "movdqu [{t}], {4}",
            "movdqu [{t} + 16], {5}",
            "movdqu [{t} + 32], {6}",
            "movdqu [{t} + 48], {7}",
            out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _,
            out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _, out(xmm_reg) _,
            s = in(reg) source,
            t = in(reg) target,
            left = inout(reg) length => _,
            options(nostack),
        );
    }
}

/// Copies with `rep movsb`.
///
/// # Safety
/// As for [`copy`]; the ranges do not overlap.
#[inline]
unsafe fn copy_string(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: it reads and writes `length` bytes from `source` and `target`. The direction flag is clear, as
    // the rules of inline assembly guarantee.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rdi") target => _,
            inout("rsi") source => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets at least 16 bytes, 16 at a time; the last 16 may overlap those before.
///
/// # Safety
/// As for [`set`].
#[inline]
unsafe fn set_vectors(target: *mut u8, length: usize, wide: u64) {
    // SAFETY: `at` increases from 0 in steps of 16 while it is below `length - 16`; each step writes 16 bytes
    // from there, and the last piece is the last 16 bytes.
    unsafe {
        asm!(
            "movq {0}, {wide}",
            "punpcklqdq {0}, {0}",
            "2:",
            "movdqu [{t} + {at}], {0}",
            "add {at}, 16",
            "cmp {at}, {rest}",
            "jb 2b",
            "movdqu [{t} + {rest}], {0}",
            out(xmm_reg) _,
            wide = in(reg) wide,
            t = in(reg) target,
            rest = in(reg) length - 16,
            at = inout(reg) 0_usize => _,
            options(nostack),
        );
    }
}

/// Sets bytes with `rep stosb`.
///
/// # Safety
/// As for [`set`].
#[inline]
unsafe fn set_string(target: *mut u8, length: usize, value: u8) {
    // SAFETY: it writes `length` bytes to `target`, which the caller guarantees. The direction flag is clear,
    // as the rules of inline assembly guarantee.
    unsafe {
        asm!(
            "rep stosb",
            inout("rcx") length => _,
            inout("rdi") target => _,
            in("al") value,
            options(nostack, preserves_flags),
        );
    }
}
