//! The buffers of C's stdio, which native code in this process prints through.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::FILE;

use super::fault::{SIGNALS, exit_now};

// SAFETY: these are the C library's, with these names and types (POSIX, `stdio.h`; glibc and musl have all of them).
unsafe extern "C" {
    static stdout: *mut FILE;
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn fflush_unlocked(stream: *mut FILE) -> c_int;
}

/// Writes out what native code has printed to C's streams.
pub(crate) fn flush_c_streams() {
    // SAFETY: null means all streams that are open for output, and each is locked while it is flushed. That a stream
    // cannot be written is for whoever printed to it.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// The status that a second fault ends the process with.
static STATUS: AtomicI32 = AtomicI32::new(0);

/// Writes out what a kernel has printed to C's standard output, from the handler of the fault that it ended with. The
/// process ends with `status` if that faults as well: the kernel may have corrupted the stream.
///
/// Other streams are left alone, because finding them takes a lock that some thread may never release.
pub(crate) fn flush_after_crash(status: i32) {
    STATUS.store(status, Ordering::Relaxed);
    // SAFETY: the new handler makes async-signal-safe calls alone. The lock of a stream is not waited for, and belongs to
    // this thread where the fault came from inside of a function of stdio. What is read of the stream may be anything;
    // a fault in there ends the process, which is what the caller does next.
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
        // The one that is being handled is blocked, and a fault that is blocked ends the process with a signal.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &faults, std::ptr::null_mut());
        if ftrylockfile(stdout) == 0 {
            fflush_unlocked(stdout);
        }
    }
}

extern "C" fn give_up(_signal: c_int) {
    exit_now(STATUS.load(Ordering::Relaxed));
}
