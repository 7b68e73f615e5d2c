//! Code that depends on the operating system and the CPU, one module per platform.
//!
//! All modules have the same items; the rest of the crate compiles for any target.

#![allow(unsafe_code, reason = "maps pages and handles signals; see docs/unsafe.md")]

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

/// [`Fault::name`] of a call of exit(3), not a signal.
pub(crate) const EXIT: &str = "exit";

/// A fault reported by the operating system, as its handler receives it.
pub(crate) struct Fault<'a> {
    /// The signal's name, such as `SIGSEGV`, or [`EXIT`].
    pub(crate) name: &'static str,
    /// The faulting address, of data or of the instruction, if the processor provides one (it does not for
    /// non-canonical addresses), and if it is a fault of the processor (SIGABRT is not).
    pub(crate) address: Option<usize>,
    /// Address of the instruction; `None` for [`EXIT`].
    pub(crate) instruction: Option<usize>,
    /// Bytes of the instruction, if they can be read safely; at most 15.
    pub(crate) code: &'a [u8],
    /// Whether it is below the stack of kernels that the thread runs on.
    pub(crate) is_stack_overflow: bool,
}

/// Rows of a block that is transposed.
pub(crate) const BLOCK_ROWS: usize = 16;
/// Bytes of a row of such a block.
pub(crate) const BLOCK_ROW_BYTES: usize = 64;
/// Such a block: its rows, or its columns, one after another.
pub(crate) type Block = [u8; BLOCK_ROWS * BLOCK_ROW_BYTES];

/// A numeric loop worth compiling for wide vectors.
pub(crate) trait VectorWork {
    /// The result.
    type Output;

    /// Runs the loop. Implementations are `#[inline(always)]`, so that they are compiled with their caller's
    /// target features. `fuses` says that [`f32::mul_add`] is one instruction here.
    fn run(self, fuses: bool) -> Self::Output;
}
