//! The locks and threads used by the capture writer.
//!
//! `stream` and `background_sink` must take them only from here: `models` compiles both a second time with
//! the model checker's versions instead.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(super) use std::thread;

pub(super) use parking_lot::{Condvar, Mutex, MutexGuard};
