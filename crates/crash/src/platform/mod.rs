//! Code that depends on the operating system, one module per system, with the registers of each processor.
//!
//! All modules have the same items: see [`Ability::CrashReports`](rehal_base::Ability).

#![allow(unsafe_code, reason = "handles signals; see docs/unsafe.md")]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(target_os = "macos")]
mod without_reports;
#[cfg(target_os = "macos")]
pub(crate) use without_reports::*;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::HeldSignals;
#[cfg(unix)]
pub(crate) use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::HeldSignals;
#[cfg(windows)]
pub(crate) use windows::*;

/// [`Fault::name`] of a call of exit(3), not a signal.
pub(crate) const EXIT: &str = "exit";

/// A fault reported by the operating system, as its handler receives it.
pub(crate) struct Fault<'a> {
    /// The signal's name, such as `SIGSEGV`, or [`EXIT`].
    pub(crate) name: &'static str,
    /// The faulting address, of data or of the instruction, if the processor provides one (it does not for
    /// non-canonical addresses), and if it is a fault of the processor (SIGABRT is not).
    pub(crate) address: Option<usize>,
    /// The same as the system reports it: some address if the processor provides none.
    pub(crate) accessed: Option<usize>,
    /// The stack pointer at the fault.
    pub(crate) stack_pointer: usize,
    /// Address of the instruction; `None` for [`EXIT`].
    pub(crate) instruction: Option<usize>,
    /// Bytes of the instruction, if they can be read safely; at most 15.
    pub(crate) code: &'a [u8],
}
