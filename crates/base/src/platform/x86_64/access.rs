//! Accesses to shared bytes: see `memory/copy/assembly.rs`.

use std::arch::asm;

/// Calls a function of the C library with three arguments.
#[cfg(unix)]
macro_rules! call {
    ($function:path, $first:expr, $second:expr, $third:expr) => {
        asm!(
            "call {function}",
            function = sym $function,
            inout("rdi") $first => _,
            inout("rsi") $second => _,
            inout("rdx") $third => _,
            clobber_abi("C"),
        )
    };
}

/// The same in the ABI of Windows, in which the caller reserves 32 bytes.
#[cfg(windows)]
macro_rules! call {
    ($function:path, $first:expr, $second:expr, $third:expr) => {
        asm!(
            "sub rsp, 32",
            "call {function}",
            "add rsp, 32",
            function = sym $function,
            inout("rcx") $first => _,
            inout("rdx") $second => _,
            inout("r8") $third => _,
            clobber_abi("C"),
        )
    };
}

crate::platform::scalars! {
    load_1 store_1 1 reg_byte u8, u32, "movzx {0:e}, byte ptr [{1}]", "mov byte ptr [{0}], {1}";
    load_2 store_2 2 reg u16, u32, "movzx {0:e}, word ptr [{1}]", "mov word ptr [{0}], {1:x}";
    load_4 store_4 4 reg u32, u32, "mov {0:e}, dword ptr [{1}]", "mov dword ptr [{0}], {1:e}";
    load_8 store_8 8 reg u64, u64, "mov {0}, qword ptr [{1}]", "mov qword ptr [{0}], {1}";
}

/// Exchanges the operand of an instruction with `rax`.
macro_rules! exchange {
    ($text:literal, $target:ident, $expected:ident, $new:ident) => {{
        let found: u64;
        asm!($text, in(reg) $target, in(reg) $new, inout("rax") $expected => found, options(nostack));
        found
    }};
}

crate::platform::exchanges! {
    exchange_2 2; |target, expected, new|
        exchange!("lock cmpxchg word ptr [{0}], {1:x}", target, expected, new) & 0xffff;
    exchange_4 4; |target, expected, new|
        exchange!("lock cmpxchg dword ptr [{0}], {1:e}", target, expected, new) & 0xffff_ffff;
    exchange_8 8; |target, expected, new| exchange!("lock cmpxchg qword ptr [{0}], {1}", target, expected, new);
}

/// Copies with the C library, whose function is for this processor.
///
/// # Safety
/// As for `copy` of `memory/copy`.
#[inline]
pub(crate) unsafe fn copy_large(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: the function has the C ABI, for which the block has an aligned stack and clobbers all that the
    // ABI does not preserve. It reads and writes `length` bytes from `source` and `target`, which the caller
    // guarantees.
    unsafe {
        call!(libc::memmove, target, source, length);
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
        call!(libc::memset, target, usize::from(value), length);
    }
}
