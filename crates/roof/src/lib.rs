//! The most that the processors of this machine do: operations per second by element type and instruction
//! set, and bytes per second from each cache level and from memory, with one thread and with all.
//!
//! It must not depend on captures or devices: `kernels` compares kernels with what is measured here, and
//! measures GPUs with kernels of their own.
//!
//! A rate is the best of many short repetitions, by the processor time of the thread, so that other processes
//! do not lower it. A repetition of several threads counts if they ran at the same time; if none did, the
//! rates of the threads are added, and [`Rate::is_concurrent`] is false.

#![deny(unsafe_code)]

mod compute;
mod kernel;
mod lines;
mod memory;
mod platform;
mod threads;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use compute::{Peak, clock_hz, peaks};
pub use memory::{Bandwidth, CacheLevel, bandwidths};

/// Options of [`peaks`] and [`bandwidths`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MeasureOptions {
    /// Number of threads that are measured besides one.
    pub threads: usize,
    /// Time for each rate.
    pub time: Duration,
}

impl MeasureOptions {
    /// Measures one thread, and this many, for 40 ms each.
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), time: Duration::from_millis(40) }
    }

    /// The numbers of threads to measure.
    fn thread_counts(&self) -> impl Iterator<Item = usize> {
        [1, self.threads].into_iter().take(if self.threads > 1 { 2 } else { 1 })
    }
}

/// The work of a number of threads in a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Number of threads.
    pub threads: usize,
    /// Operations or bytes per second of all threads.
    pub per_second: f64,
    /// Whether the threads ran at the same time. If not, they did not compete for what they share, and the
    /// rate may be too high.
    pub is_concurrent: bool,
}
