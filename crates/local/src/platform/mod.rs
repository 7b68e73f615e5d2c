//! What depends on the operating system and the machine, once per platform.
//!
//! Each platform's module has the same items; the rest of the crate compiles for any target.

#![allow(unsafe_code, reason = "maps pages and handles signals; docs/unsafe.md says what it rests on")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux_x86_64;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use linux_x86_64::*;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod unsupported;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) use unsupported::*;

/// What may be done with a run of pages. There is deliberately no way to say writable and executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
}

/// A fault that the operating system reported, as its handler sees it.
pub(crate) struct Fault<'a> {
    /// The signal's name, such as `SIGSEGV`.
    pub(crate) name: &'static str,
    /// The address that the fault is about, of memory or of the instruction, where the processor
    /// gives one (it does not for addresses that no memory can have).
    pub(crate) address: Option<usize>,
    /// Address of the instruction.
    pub(crate) instruction: usize,
    /// Bytes of the instruction, where they can be read safely; at most 15.
    pub(crate) code: &'a [u8],
}

/// A loop over numbers that is worth compiling for wide vectors.
pub(crate) trait VectorWork {
    /// What it gives.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, so that they take on the vectors of
    /// their caller. `fuses` says that [`f32::mul_add`] is one instruction here.
    fn run(self, fuses: bool) -> Self::Output;
}
