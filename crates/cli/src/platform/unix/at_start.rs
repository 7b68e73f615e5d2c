//! The actions of Rust's runtime at the start of a program.

#![allow(unsafe_code, reason = "sets the action of a signal; see docs/unsafe.md")]

use std::ffi::c_int;
use std::os::fd::IntoRawFd as _;
use std::panic::catch_unwind;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_getfd};
use rustix::stdio::{stderr, stdin, stdout};

/// Rust opens `/dev/null` in the place of a standard output that is closed when the process starts: output
/// would be lost with status 0.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The exit status of a panic.
const PANICKED: u8 = 101;

/// Whether standard output was closed when the process started.
pub(crate) fn stdout_was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Runs the tool for a program that has no runtime of Rust, and ends the process.
pub fn main_without_runtime() -> c_int {
    rehal_jobs::note_emulator_threads();
    WAS_CLOSED.store(is_closed(fcntl_getfd(stdout())), Ordering::Relaxed);
    // Otherwise a file that is opened later would be one of them.
    while [fcntl_getfd(stdin()), fcntl_getfd(stdout()), fcntl_getfd(stderr())].into_iter().any(is_closed) {
        match open("/dev/null", OFlags::RDWR, Mode::empty()) {
            // The least that is free.
            Ok(null) => drop(null.into_raw_fd()),
            Err(_) => return PANICKED.into(),
        }
    }
    // SAFETY: no handler is set. A write to a pipe without a reader is an error then.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    exit(catch_unwind(crate::main).unwrap_or(PANICKED).into())
}

fn is_closed<T>(flags: Result<T, Errno>) -> bool {
    flags.is_err_and(|error| error == Errno::BADF)
}
