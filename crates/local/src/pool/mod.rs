//! Runs jobs on a fixed set of threads.
//!
//! ```text
//! workers.rs    threads, their queue of jobs, sleeping and waking, shutdown
//! permits.rs    how many threads execute at the same time
//! progress.rs   a job: stages one after another, the tiles of each run by any number of workers
//! tiles.rs      who runs which tile: ranges, and stealing
//! ```
//!
//! Nothing here knows devices or executables. Locks, atomics and threads come from `sync`, so that `models` explores
//! all interleavings.

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
