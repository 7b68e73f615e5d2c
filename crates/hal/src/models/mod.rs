//! Models of threads that use timelines and pending work, checked for every interleaving.
//!
//! The files below are those of the crate, compiled a second time with the model checker's locks in place of
//! `sync`. The rest of the crate that they use (handles, registrations, errors) has no locks. The name of a
//! model says what it proves. Mutations that the models detect: a relaxed store or load of the payload, a
//! notification before the store, a check before the lock, and `notify_one` for `notify_all`.

#![allow(dead_code, clippy::duplicate_mod, reason = "the crate's files, with other locks")]

mod sync {
    pub(super) use rehal_interleave::{
        AtomicU64, Condvar, Mutex, MutexGuard, Ordering, explore, explore_bounded, thread, thread_local,
    };
}

#[path = "../callbacks.rs"]
mod callbacks;
#[path = "../latch.rs"]
mod latch;
#[path = "../pending.rs"]
mod pending;
#[path = "../promise.rs"]
mod promise;
#[path = "../timeline.rs"]
mod timeline;
#[path = "../wait.rs"]
mod wait;

mod of_pending;
mod of_timelines;
mod of_waits;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Semaphore, Timepoint};

fn semaphore() -> Semaphore {
    Semaphore::new(timeline::Timeline::new(0))
}

fn at(semaphore: &Semaphore, value: u64) -> Timepoint<&Semaphore> {
    Timepoint { semaphore, value }
}

fn registered(semaphore: &Semaphore) -> usize {
    (semaphore.backend() as &dyn Any).downcast_ref::<timeline::Timeline>().unwrap().registered_callbacks()
}

/// Counts events of a model. Not a step of the model: reading it does not synchronize with other threads.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
