//! The locks and threads that the capture's writer is built of.
//!
//! `stream` and `behind` take them from here and from nowhere else: `models` compiles them a second time with the
//! model checker's in this place.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
pub(super) use std::thread;

pub(super) use parking_lot::{Condvar, Mutex, MutexGuard};
