//! Locks, atomics and threads under a model checker, in the shapes of `parking_lot` and `std`.
//!
//! Used by tests only, as a dev-dependency: a crate whose concurrency is checked takes its locks from a module
//! `sync` of its own, and its tests compile the same source files a second time with this crate as `sync`. So the
//! models run in the ordinary test binary, without another build of the workspace. It must never know what is
//! modelled.
//!
//! The checker is [loom]: it runs a model once for each order in which its threads may take their steps, up to a
//! number of preemptions, and for each value that the C++ memory model lets an atomic load return. It reports a
//! deadlock (a lost wake-up is one), a panic and an endless loop. Reference counts ([`std::sync::Arc`]) are not
//! explored.

#![forbid(unsafe_code)]

mod lock;

pub use lock::{Condvar, Mutex, MutexGuard, WaitTimeoutResult};
pub use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub use loom::thread;
pub use loom::thread_local;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as PlainCounter;

/// Runs `model` for every interleaving of its threads. Panics if one of them deadlocks or panics.
pub fn explore(model: impl Fn() + Send + Sync + 'static) {
    run(None, model);
}

/// [`explore`], but only the interleavings in which at most `preemptions` times a thread stops that could run on: for
/// models whose interleavings are too many. Two preemptions find almost every defect of this kind (M. Musuvathi and
/// S. Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", 2007).
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
    assert!(executions > 1, "the threads of the model have nothing in common");
}
