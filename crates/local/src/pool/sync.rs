//! The locks, atomics and threads that the pool is built on.
//!
//! Its files import them only from here: `models` compiles them a second time with the model checker's
//! instead.

use std::io;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(super) use std::thread::{self, JoinHandle};

pub(super) use parking_lot::{Condvar, Mutex};

/// Starts a thread.
pub(super) fn spawn(
    name: String,
    stack_bytes: usize,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).stack_size(stack_bytes).spawn(main)
}
