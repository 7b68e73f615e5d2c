//! The locks and threads that timelines, waits and pending work are built on.
//!
//! Those files import them only from here: `models` compiles them a second time with the model checker's
//! instead.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::thread_local;

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
