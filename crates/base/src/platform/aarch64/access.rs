//! Accesses to shared bytes: see `memory/copy/assembly.rs`.

use std::arch::asm;

crate::platform::scalars! {
    load_1 store_1 1 reg u8, u32, "ldrb {0:w}, [{1}]", "strb {1:w}, [{0}]";
    load_2 store_2 2 reg u16, u32, "ldrh {0:w}, [{1}]", "strh {1:w}, [{0}]";
    load_4 store_4 4 reg u32, u32, "ldr {0:w}, [{1}]", "str {1:w}, [{0}]";
    load_8 store_8 8 reg u64, u64, "ldr {0}, [{1}]", "str {1}, [{0}]";
}

/// Loads and stores exclusively until that succeeds: the first version of the architecture has no other way.
/// The barrier orders later loads, too.
macro_rules! exchange {
    ($load:literal, $compare:literal, $store:literal, $target:ident, $expected:ident, $new:ident) => {{
        let found: u64;
        asm!(
            "2:",
            $load,
            $compare,
            "b.ne 3f",
            $store,
            "cbnz {status:w}, 2b",
            "3:",
            "dmb ish",
            target = in(reg) $target,
            expected = in(reg) $expected,
            new = in(reg) $new,
            found = out(reg) found,
            status = out(reg) _,
            options(nostack),
        );
        found
    }};
}

crate::platform::exchanges! {
    exchange_2 2; |target, expected, new| exchange!(
        "ldaxrh {found:w}, [{target}]", "cmp {found:w}, {expected:w}", "stlxrh {status:w}, {new:w}, [{target}]",
        target, expected, new
    );
    exchange_4 4; |target, expected, new| exchange!(
        "ldaxr {found:w}, [{target}]", "cmp {found:w}, {expected:w}", "stlxr {status:w}, {new:w}, [{target}]",
        target, expected, new
    );
    exchange_8 8; |target, expected, new| exchange!(
        "ldaxr {found}, [{target}]", "cmp {found}, {expected}", "stlxr {status:w}, {new}, [{target}]",
        target, expected, new
    );
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
