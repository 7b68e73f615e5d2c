//! The locks and threads that timelines, waits and pending work are built of.
//!
//! Those files take them from here and from nowhere else: `models` compiles them a second time with the model
//! checker's in this place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::thread_local;

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
