//! Accesses to shared bytes: see `memory/copy/assembly.rs`.

use std::arch::asm;

crate::platform::scalars! {
    load_1 store_1 1 reg u8, u32, "ldrb {0:w}, [{1}]", "strb {1:w}, [{0}]";
    load_2 store_2 2 reg u16, u32, "ldrh {0:w}, [{1}]", "strh {1:w}, [{0}]";
    load_4 store_4 4 reg u32, u32, "ldr {0:w}, [{1}]", "str {1:w}, [{0}]";
    load_8 store_8 8 reg u64, u64, "ldr {0}, [{1}]", "str {1}, [{0}]";
}

/// Replaces 2, 4 or 8 bytes if they are as expected, ordered with all other accesses. Returns the former
/// bytes, and bits beyond them that mean nothing.
///
/// # Safety
/// `target` is valid for reads and writes of that many bytes, and aligned to them.
#[inline]
pub(crate) unsafe fn exchange(bytes: usize, target: *mut u8, expected: u64, new: u64) -> u64 {
    let found: u64;
    // Until the store succeeds, as the first version of the architecture has no other way. The barrier orders
    // later loads, too.
    macro_rules! exchange {
        ($load:literal, $compare:literal, $store:literal) => {
            asm!(
                "2:", $load, $compare, "b.ne 3f", $store, "cbnz {4:w}, 2b", "3:", "dmb ish",
                in(reg) target, in(reg) expected, in(reg) new, out(reg) found, out(reg) _, options(nostack),
            )
        };
    }
    // SAFETY: it accesses that many bytes at `target`, which the caller guarantees.
    unsafe {
        match bytes {
            2 => exchange!("ldaxrh {3:w}, [{0}]", "cmp {3:w}, {1:w}", "stlxrh {4:w}, {2:w}, [{0}]"),
            4 => exchange!("ldaxr {3:w}, [{0}]", "cmp {3:w}, {1:w}", "stlxr {4:w}, {2:w}, [{0}]"),
            _ => exchange!("ldaxr {3}, [{0}]", "cmp {3}, {1}", "stlxr {4:w}, {2}, [{0}]"),
        }
    }
    found
}

/// Copies with the C library, whose function is for this processor.
///
/// # Safety
/// As for `copy` of `memory/copy`.
#[inline]
pub(crate) unsafe fn copy_large(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: the function has the C ABI, for which the block has an aligned stack and clobbers all that the
    // ABI does not preserve, the return address with it. It reads and writes `length` bytes from `source` and
    // `target`, which the caller guarantees.
    unsafe {
        asm!(
            "bl {copy}",
            copy = sym libc::memmove,
            inout("x0") target => _,
            inout("x1") source => _,
            inout("x2") length => _,
            clobber_abi("C"),
        );
    }
}

/// Sets bytes in the same way.
///
/// # Safety
/// As for `set` of `memory/copy`.
#[inline]
pub(crate) unsafe fn set_all(target: *mut u8, length: usize, value: u8) {
    // SAFETY: as in `copy_large`; it writes `length` bytes to `target`, which the caller guarantees.
    unsafe {
        asm!(
            "bl {set}",
            set = sym libc::memset,
            inout("x0") target => _,
            inout("w1") u32::from(value) => _,
            inout("x2") length => _,
            clobber_abi("C"),
        );
    }
}
