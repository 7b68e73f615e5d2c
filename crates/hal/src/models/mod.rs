//! Models of what threads do with timelines and pending work, run for every interleaving.
//!
//! The files below are those of the crate, compiled a second time with the model checker's locks in the place of
//! `sync`. What they share with the rest of the crate (handles, registrations, errors) has no lock of its own.
//! docs/testing.md says what each model proves.

#![allow(dead_code, clippy::duplicate_mod, reason = "the crate's own files, under other locks")]

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
#[path = "../timeline.rs"]
mod timeline;
#[path = "../wait.rs"]
mod wait;

mod of_pending;
mod of_timelines;
mod of_waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Live, Semaphore, Timepoint};

fn semaphore() -> Semaphore {
    Semaphore::new(timeline::Timeline::new(0))
}

fn at(semaphore: &Semaphore, value: u64) -> Timepoint<Live<'_>> {
    Timepoint { semaphore, value }
}

fn registered(semaphore: &Semaphore) -> usize {
    semaphore.backend().as_any().downcast_ref::<timeline::Timeline>().unwrap().registered_callbacks()
}

/// Counts what a model sees. Not a step of the model: reading it says nothing of what other threads may see.
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
