//! Whether standard output was closed when the process started.
//!
//! Rust's runtime opens `/dev/null` in its place before `main`, so output would be lost with status 0.

#![allow(unsafe_code, reason = "runs before Rust's runtime starts; see docs/unsafe.md")]

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the process started.
pub(super) fn stdout_was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the section holds pointers to functions that the loader calls before `main`, with arguments that
// this one ignores. It makes one system call and stores to an atomic, which does not depend on Rust's
// runtime.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    // SAFETY: F_GETFD reads the flags of a descriptor, and fails if it is not open.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}
