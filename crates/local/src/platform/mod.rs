//! Code that depends on the operating system (`unix`, and below it `linux` and `macos`), or on the processor
//! (`x86_64`, `aarch64`).
//!
//! Modules of one kind have the same items. What a system lacks is an [`Ability`](rehal_base::Ability).

#![allow(unsafe_code, reason = "maps pages and switches stacks; see docs/unsafe.md")]

use std::hint::black_box;

/// The type of a function of an executable, or such a function. Embedded executables have the ABI of the
/// System V processor supplement on all systems.
#[cfg(unix)]
macro_rules! executable_fn {
    ($($signature:tt)*) => { unsafe extern "C" $($signature)* };
}
#[cfg(windows)]
macro_rules! executable_fn {
    ($($signature:tt)*) => { unsafe extern "sysv64" $($signature)* };
}
pub(crate) use executable_fn;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

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
#[cfg(windows)]
use windows as system;

pub(crate) use system::{Processors, allowed_processors, pin_thread, processor_id};
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// Protection of a run of pages. Deliberately, none is both writable and executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// No access.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
}

/// A numeric loop worth compiling for wide vectors.
pub(crate) trait VectorWork {
    /// The result.
    type Output;

    /// Runs the loop. Implementations are `#[inline(always)]`, so that they are compiled with their caller's
    /// target features. `fuses` says that [`f32::mul_add`] is one instruction here.
    fn run(self, fuses: bool) -> Self::Output;
}

/// Calls `work` on another stack. `work` must not panic: that ends the process.
///
/// # Safety
/// `top` is aligned to 16 bytes, and the memory below it is a stack that is not in use.
#[inline]
unsafe fn call_on<F: FnOnce()>(top: *mut u8, work: F) {
    executable_fn! {
        fn call<F: FnOnce()>(work: *mut std::ffi::c_void) {
            // SAFETY: it is the address of the `Option<F>` below, which lives until this returns and is used
            // by nothing else.
            if let Some(work) = unsafe { (*work.cast::<Option<F>>()).take() } {
                work();
            }
        }
    }
    let mut work = Some(work);
    // SAFETY: guaranteed by the caller; `call` takes what it is passed, and does not unwind.
    unsafe { switch((&raw mut work).cast(), call::<F>, top) };
}

/// Runs `work`, which interprets floating-point operations of a program, in that mode.
///
/// Rust specifies floating-point code only in the default mode, so this relies on the compiler: an operation
/// on values known only at run time becomes an instruction or a libm call, both of which follow the mode
/// as in the reference. `work` is opaque here, so none of it can be moved out of the region where the mode is
/// set. Only floating-point results depend on the mode, and memory safety depends on none of them.
pub(crate) fn with_flushed_denormals(work: &mut dyn FnMut()) {
    let _mode = KernelMode::enter(true);
    black_box(work)();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denormals_are_flushed_only_in_the_mode() {
        let small = black_box([f32::MIN_POSITIVE / 2.0, f32::MIN_POSITIVE]);
        let mut results = [9.0; 3];
        with_flushed_denormals(&mut || results = [small[0] * 4.0, small[1] * 0.5, small[1] * 2.0]);
        assert_eq!(results, [0.0, 0.0, f32::MIN_POSITIVE * 2.0]);
        assert_eq!(small[0] * 2.0, f32::MIN_POSITIVE, "and only there");
    }
}
