//! Systems of the Unix family: signals, C streams, and the end of the process.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::removal::remove_after_crash;
use crate::status_of_signal;

/// A descriptor that this process owns.
pub(crate) type OwnedStream = OwnedFd;

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

/// Flushes the output of native code in C streams.
pub(crate) fn flush_c_streams() {
    // SAFETY: null means all output streams, and each is locked while it is flushed. Write errors are the
    // concern of the code that printed.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Writes to standard error without buffering; async-signal-safe.
pub(crate) fn write_stderr(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are of a live slice.
        let written = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        let Ok(written @ 1..) = usize::try_from(written) else { return };
        bytes = &bytes[written.min(bytes.len())..];
    }
}

/// Where the exit status is written before [`exit_now`] ends the process; -1 for nowhere.
static ANNOUNCED: AtomicI32 = AtomicI32::new(-1);

/// From now on, [`exit_now`] first writes the exit status to this file, as a byte.
pub(crate) fn announce_exits(to: OwnedFd) {
    ANNOUNCED.store(to.into_raw_fd(), Ordering::Relaxed);
}

/// Writes the exit status to the file that was set for it. Async-signal-safe.
pub(crate) fn announce(status: u8) {
    let announced = ANNOUNCED.load(Ordering::Relaxed);
    if announced >= 0 {
        // SAFETY: the pointer and the length are of a local variable. If it fails, the process ends without.
        unsafe { libc::write(announced, (&raw const status).cast(), 1) };
    }
}

/// Removes what has a [`Removal`](crate::Removal) and exits without running anything else; async-signal-safe.
pub(crate) fn exit_now(status: i32) -> ! {
    remove_after_crash();
    announce(status as u8);
    // SAFETY: never returns and runs no code of this process.
    unsafe { libc::_exit(status) }
}

/// The same, but aborts: the system's action for SIGABRT, such as a core dump, which has the fault below the
/// handler. Async-signal-safe.
pub(crate) fn abort_now() -> ! {
    remove_after_crash();
    announce(status_of_signal(libc::SIGABRT));
    // SAFETY: both calls are async-signal-safe; without our handler, which would report the abort as a second
    // crash.
    unsafe {
        libc::signal(libc::SIGABRT, libc::SIG_DFL);
        libc::abort()
    }
}

/// An empty box, shared with the copies of this process. Never freed.
pub(crate) fn shared_zeros() -> io::Result<&'static crate::BlackBox> {
    let length = size_of::<crate::BlackBox>();
    // SAFETY: a fresh anonymous mapping at an address chosen by the system affects no other memory.
    let memory = unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0)
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is as large as the box, aligned to a page and never unmapped. The box consists of
    // atomics, for which zeros are valid, so that other processes may write to them.
    Ok(unsafe { &*memory.cast::<crate::BlackBox>() })
}
