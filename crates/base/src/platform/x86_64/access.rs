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

/// Replaces 2, 4 or 8 bytes if they are as expected, ordered with all other accesses. Returns the former
/// bytes, and bits beyond them that mean nothing.
///
/// # Safety
/// `target` is valid for reads and writes of that many bytes, and aligned to them.
#[inline]
pub(crate) unsafe fn exchange(bytes: usize, target: *mut u8, expected: u64, new: u64) -> u64 {
    let found: u64;
    macro_rules! exchange {
        ($text:literal) => {
            asm!($text, in(reg) target, in(reg) new, inout("rax") expected => found, options(nostack))
        };
    }
    // SAFETY: it accesses that many bytes at `target`, which the caller guarantees.
    unsafe {
        match bytes {
            2 => exchange!("lock cmpxchg word ptr [{0}], {1:x}"),
            4 => exchange!("lock cmpxchg dword ptr [{0}], {1:e}"),
            _ => exchange!("lock cmpxchg qword ptr [{0}], {1}"),
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
