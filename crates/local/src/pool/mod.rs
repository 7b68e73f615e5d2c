//! Runs jobs on a fixed set of threads.
//!
//! ```text
//! workers.rs    threads, their queue of jobs, sleeping and waking, shutdown
//! permits.rs    how many threads execute at the same time
//! progress.rs   a job: stages one after another, the tiles of each run by any number of workers
//! tiles.rs      who runs which tile: ranges, and stealing
//! ```
//!
//! Nothing here knows devices or executables. Locks, atomics and threads come from `sync`, so that `models`
//! explores all interleavings.
//!
//! A worker's range of tiles is one word. Its owner takes from the front; a worker without tiles steals the
//! back half of another's range, of the first with plenty from its own cache domain on, else of the largest.
//! Completed tiles are counted when a worker's range is empty, since all workers share the counter.
//!
//! A stage invites as many workers as its cost, and that of the stages after it, justifies, given how long
//! woken workers took to run lately (`handover_ns`). A worker that finds no tiles polls for the next stage,
//! for at most the time that waking it would take, if no other job waits. A thread that submits wakes one
//! worker, and each worker that finds more in the queue wakes two. A stale invitation is harmless: it finds
//! no tiles, or those of the job's next run.
//!
//! A worker takes a permit with its job; a thread that helps or runs work inline takes one too. Without a
//! permit, its work goes to the queue or stays there. Permits are returned before signals are settled.

mod permits;
mod progress;
mod sync;
mod tiles;
mod workers;

pub(crate) use progress::{Claims, Progress, Stage, Work};
pub(crate) use tiles::chunk_size;
pub(crate) use workers::{Help, Job, Permit, Pool, PoolHandle, Threads, Worker, WorkerPlace};

#[cfg(test)]
mod models;
#[cfg(test)]
mod simulation;
