//! Work on all processors, or on the calling thread if the system gives no threads: as in a container with
//! a limit on them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The threads, if the system gives any, and the process that has them: a child after fork lacks those of its
/// parent, and gets its own.
type Owned = Option<(u32, Option<&'static ThreadPool>)>;

static POOL: Mutex<Owned> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Owned> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the system for the id of the process, which costs more than small work.
fn pool() -> Option<&'static ThreadPool> {
    let mut pool = lock();
    let process = std::process::id();
    match *pool {
        Some((owner, pool)) if owner == process => pool,
        _ => {
            let created = ThreadPoolBuilder::new().build().ok().map(|pool| &*Box::leak(Box::new(pool)));
            *pool = Some((process, created));
            created
        }
    }
}

/// Number of threads that are kept for the functions of this module, and idle while none of them is called.
pub fn thread_count() -> usize {
    match *lock() {
        Some((owner, Some(pool))) if owner == std::process::id() => pool.current_num_threads(),
        _ => 0,
    }
}

/// Calls `perform` for each item, in any order; the results are in the order of the items.
pub fn map<T: Send, R: Send>(items: Vec<T>, perform: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
    match (items.len() > 1).then(pool).flatten() {
        Some(pool) => pool.install(|| items.into_par_iter().map(perform).collect()),
        None => items.into_iter().map(perform).collect(),
    }
}

/// Calls both, perhaps at the same time.
pub fn join<A: Send, B: Send>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B + Send) -> (A, B) {
    match pool() {
        Some(pool) => pool.join(first, second),
        None => (first(), second()),
    }
}

/// Adds bytes to a digest.
pub fn hash(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    // Below it, waking a thread takes as long as it saves.
    const PARALLEL_BYTES: usize = 512 << 10;
    match (bytes.len() >= PARALLEL_BYTES).then(pool).flatten() {
        Some(pool) => {
            pool.install(|| hasher.update_rayon(bytes));
        }
        None => {
            hasher.update(bytes);
        }
    }
}
