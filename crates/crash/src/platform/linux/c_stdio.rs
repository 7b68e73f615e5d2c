//! The C stdio buffers of native code in this process.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::FILE;

use super::fault::SIGNALS;
use crate::platform::exit_now;

// SAFETY: declared as in the C library (POSIX `stdio.h`; glibc and musl have all of them).
unsafe extern "C" {
    static stdout: *mut FILE;
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn fflush_unlocked(stream: *mut FILE) -> c_int;
}

/// Exit status after a second fault.
static STATUS: AtomicI32 = AtomicI32::new(0);

/// Flushes C's standard output from the handler of a kernel's fault. If that faults too, the process exits
/// with `status`: the kernel may have corrupted the stream.
///
/// Other streams are not flushed: enumerating them takes a lock that another thread may never release.
pub(crate) fn flush_after_crash(status: i32) {
    STATUS.store(status, Ordering::Relaxed);
    // SAFETY: the new handler makes only async-signal-safe calls. The stream's lock is tried, not waited for,
    // and is owned by this thread if the fault occurred inside stdio. The stream may have arbitrary contents;
    // a fault while reading it ends the process, which the caller does next anyway.
    unsafe {
        let mut faults: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut faults);
        for (signal, _) in SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = give_up as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(signal, &action, std::ptr::null_mut());
            libc::sigaddset(&mut faults, signal);
        }
        // The signal being handled is blocked, and a fault while it is blocked would kill the process.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &faults, std::ptr::null_mut());
        if ftrylockfile(stdout) == 0 {
            fflush_unlocked(stdout);
        }
    }
}

extern "C" fn give_up(_signal: c_int) {
    exit_now(STATUS.load(Ordering::Relaxed));
}
