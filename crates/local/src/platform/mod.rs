//! Code that depends on the operating system and the CPU, one module per platform.
//!
//! All modules have the same items; the rest of the crate compiles for any target.

#![allow(unsafe_code, reason = "maps pages and switches stacks; see docs/unsafe.md")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux_x86_64;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use linux_x86_64::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod unsupported;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) use unsupported::*;

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
