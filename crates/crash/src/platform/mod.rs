//! Code that depends on the operating system, one module per system, with the registers of each processor.
//!
//! All modules have the same items; the rest of the crate compiles for any target.

#![allow(unsafe_code, reason = "handles signals; see docs/unsafe.md")]

#[cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]
mod linux;
#[cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(crate) use linux::*;

#[cfg(not(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64"))))]
mod unsupported;
#[cfg(not(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64"))))]
pub(crate) use unsupported::*;

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

/// While it lives, the signals that end a program wait on the calling thread, and on those that it starts or
/// copies.
pub struct HeldSignals(libc::sigset_t, std::marker::PhantomData<*const ()>);

impl HeldSignals {
    /// Holds SIGINT, SIGTERM and SIGHUP.
    pub fn hold() -> Self {
        // SAFETY: zeroed sets are valid; the calls only fill them in, and change the mask of this thread.
        unsafe {
            let (mut held, mut before): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut held);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&mut held, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &held, &mut before);
            Self(before, std::marker::PhantomData)
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the mask is one that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Whether the process ignores a signal.
pub(crate) fn is_ignored(signal: std::ffi::c_int) -> bool {
    // SAFETY: a zeroed `sigaction` is a valid value of the struct; the call only fills it in.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut current) == 0 && current.sa_sigaction == libc::SIG_IGN
    }
}
