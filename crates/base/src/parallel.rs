//! Work on all processors, or on the calling thread if the system gives no threads: as in a container with
//! a limit on them.

use std::sync::LazyLock;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

/// The process that has the pool of threads; 0 without one. It is created here, before anything uses it:
/// otherwise rayon panics if it cannot be.
static POOL_PROCESS: LazyLock<u32> = LazyLock::new(|| {
    let exists = match ThreadPoolBuilder::new().build_global() {
        Ok(()) => true,
        // Without a source, the program that uses this library has created it.
        Err(error) => std::error::Error::source(&error).is_none(),
    };
    if exists { std::process::id() } else { 0 }
});

/// Whether there is a pool. A child after fork lacks the threads of its parent, and would wait for them.
fn has_pool() -> bool {
    *POOL_PROCESS == std::process::id()
}

/// Calls `perform` for each item, in any order; the results are in the order of the items.
pub fn map<T: Send, R: Send>(items: Vec<T>, perform: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
    match items.len() > 1 && has_pool() {
        true => items.into_par_iter().map(perform).collect(),
        false => items.into_iter().map(perform).collect(),
    }
}

/// Calls both, perhaps at the same time.
pub fn join<A: Send, B: Send>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B + Send) -> (A, B) {
    match has_pool() {
        true => rayon::join(first, second),
        false => (first(), second()),
    }
}

/// Adds bytes to a digest.
pub fn hash(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    // Below it, waking a thread takes as long as it saves.
    const PARALLEL_BYTES: usize = 512 << 10;
    match bytes.len() >= PARALLEL_BYTES && has_pool() {
        true => hasher.update_rayon(bytes),
        false => hasher.update(bytes),
    };
}
