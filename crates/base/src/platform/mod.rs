//! Code that depends on the operating system or on the processor, and what other code must know of them.
//!
//! Nothing outside of such modules asks for the target, as `cargo xtask tidy` checks: others ask for an
//! [`Ability`], or call what each system has.

#![allow(unsafe_code, reason = "calls the system, and accesses shared bytes in assembly; see docs/unsafe.md")]

/// Defines loads and stores of an instruction each.
#[cfg(not(any(miri, rehal_portable_memory)))]
macro_rules! scalars {
    ($($load:ident $store:ident $bytes:literal $class:ident $type:ty, $into:ty, $read:literal, $write:literal;)*) => {$(
        #[doc = concat!("Reads ", $bytes, " bytes.")]
        ///
        /// # Safety
        /// `source` is valid for reads of that many bytes.
        #[inline(always)]
        pub(crate) unsafe fn $load(source: *const u8) -> $into {
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
        pub(crate) unsafe fn $store(target: *mut u8, value: $type) {
            // SAFETY: it writes that many bytes to `target`, which the caller guarantees.
            unsafe { asm!($write, in(reg) target, in($class) value, options(nostack, preserves_flags)) };
        }
    )*};
}
#[cfg(not(any(miri, rehal_portable_memory)))]
use scalars;

mod ability;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use ability::{Ability, describe_abilities};
#[cfg(not(any(miri, rehal_portable_memory)))]
pub(crate) use processor::access;
pub(crate) use processor::evict_lines;
#[cfg(unix)]
pub(crate) use system::is_mappable;
#[cfg(unix)]
pub use system::{load_average, remove_directory, thread_id, unnamed_file};
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
