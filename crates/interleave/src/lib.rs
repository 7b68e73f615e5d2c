//! Locks, atomics and threads for model checking, with the interfaces of `parking_lot` and `std`.
//!
//! Used by tests only, as a dev-dependency: a crate whose concurrency is checked takes its locks from a
//! module `sync` of its own, and its tests compile the same source files a second time with this crate as
//! `sync`. The models thus run in the ordinary test binary, without another build of the workspace. It must
//! not depend on the modelled code.
//!
//! The checker is [loom]: it runs a model once for each possible interleaving of its threads, up to a number
//! of preemptions, and for each value that the C++ memory model allows an atomic load to return. It reports
//! deadlocks (including lost wake-ups), panics and endless loops. Reference counts ([`std::sync::Arc`]) are
//! not explored.

#![forbid(unsafe_code)]

mod lock;

pub use lock::{Condvar, Mutex, MutexGuard, WaitTimeoutResult};
pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub use loom::thread;
pub use loom::thread_local;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as PlainCounter;

/// Runs `model` for every interleaving of its threads. Panics if any execution deadlocks or panics.
pub fn explore(model: impl Fn() + Send + Sync + 'static) {
    run(None, model);
}

/// Like [`explore`], but limited to interleavings with at most `preemptions` preemptions, for models with too
/// many interleavings. Two preemptions find almost every defect of this kind (M. Musuvathi and S. Qadeer,
/// "Iterative context bounding for systematic testing of multithreaded programs", 2007).
pub fn explore_bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    run(Some(preemptions), model);
}

fn run(preemption_bound: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(PlainCounter::new(0));
    let counter = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemption_bound;
    builder.max_branches = 20_000;
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{executions} executions");
    assert!(executions > 1, "the model's threads do not interact");
}
