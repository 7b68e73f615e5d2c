//! The threads of a pool of workers, and the CPUs that they are pinned to.
//!
//! [`TopologyOptions::select`] reads the machine, or a copy of its `/sys/devices/system`, and returns the
//! workers of each pool. Its rules are those of the reference, so that both start the same workers on the
//! same CPUs; the control group's CPU quota, which the reference does not read, limits the automatic
//! selection here.

mod describe;
mod quota;
mod select;
mod sysfs;
mod text;
mod values;

use std::path::PathBuf;

use rehal_base::{Error, Result};

use crate::platform;

pub use values::{PRESETS, parse_ids};

/// The bytes of memory of the machine, or those that the control groups of the process leave it if these are
/// fewer.
pub fn memory_bytes() -> Option<u64> {
    quota::memory_bytes("/".as_ref())
}

/// Maximum number of workers of one selected topology.
pub const MAX_WORKERS: usize = 256;
/// Maximum number of workers of one pool: each is a thread.
const MAX_POOL_WORKERS: usize = 1024;
/// Largest local memory that is derived from a cache. Those of real machines are far below; a snapshot may
/// claim anything.
const MAX_DERIVED_LOCAL_MEMORY: usize = 64 << 20;
/// Local memory of two workers does not share a cache line.
const CACHE_LINE_BYTES: usize = 64;
/// Assumed for unpinned workers if the machine's cache sizes are unknown.
const DEFAULT_CACHES: Caches = Caches { l1_data: 32 << 10, l2_data: 128 << 10, l3_data: 0 };

/// How workers are selected. The default is one worker per physical core of the current NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopologyOptions {
    /// Logical CPUs: one topology per list, with one worker per CPU. Unless empty, all other options are
    /// ignored, including the snapshot.
    pub processors: Vec<Vec<u32>>,
    /// This many workers, at most [`MAX_WORKERS`], that may run on any CPU. Default: one worker per core.
    pub worker_count: Option<usize>,
    /// The NUMA nodes: one topology per node.
    pub nodes: NodeSelection,
    /// Maximum number of workers per topology, if they are not counted or listed above. At most
    /// [`MAX_WORKERS`].
    pub max_workers: usize,
    /// The cores to use on a machine with slow and fast ones.
    pub performance: Performance,
    /// The order of the workers.
    pub distribution: Distribution,
    /// A copy of `/sys/devices/system` to read instead of this machine's. The affinity mask and the quota of
    /// this process do not apply to it.
    pub snapshot: Option<PathBuf>,
}

impl Default for TopologyOptions {
    fn default() -> Self {
        Self {
            processors: Vec::new(),
            worker_count: None,
            nodes: NodeSelection::Current,
            max_workers: 64,
            performance: Performance::Any,
            distribution: Distribution::Scatter,
            snapshot: None,
        }
    }
}

impl TopologyOptions {
    /// Whether they say which CPUs workers run on, and not merely how many workers there are: then no other
    /// thread runs work of the workers.
    pub fn places_workers(&self) -> bool {
        let selects_cores = self.nodes != NodeSelection::Current
            || self.performance != Performance::Any
            || self.snapshot.is_some();
        // Counted workers may run on any CPU.
        !self.processors.is_empty() || (self.worker_count.is_none() && selects_cores)
    }
}

/// NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelection {
    /// The node of the calling thread.
    Current,
    /// Each node.
    Each,
    /// The whole machine as one.
    All,
    /// These ids.
    Ids(Vec<u32>),
}

/// The cores to use if their capacities differ, as in big.LITTLE systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Performance {
    /// All cores.
    Any,
    /// Cores below three quarters of the highest capacity.
    Low,
    /// The other cores.
    High,
}

/// The order in which the selected cores become workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// By number.
    Compact,
    /// One core of each cache domain in turn.
    Scatter,
}

/// The workers of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The NUMA node of all workers; `None` if they differ or may run anywhere.
    pub node: Option<u32>,
    /// At most [`MAX_WORKERS`], if they are selected.
    pub workers: Vec<Worker>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// A representative logical CPU.
    pub processor: u32,
    /// The kernel's id of the CPU's cluster.
    pub cluster: Option<u32>,
    /// The kernel's id of the CPU's package.
    pub package: Option<u32>,
    /// Where the worker is pinned; `None` if it may run anywhere.
    pub pinned: Option<Pin>,
    /// Caches of the CPU.
    pub caches: Caches,
    /// Workers with the same last-level cache.
    pub sharing: Sharing,
}

/// The place of a pinned worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The logical CPU.
    pub processor: u32,
    /// Its NUMA node, or 0 if this is unknown or above 255.
    pub node: u8,
}

/// Sizes in bytes, or 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Of the first-level data cache.
    pub l1_data: u32,
    /// Of the second-level cache.
    pub l2_data: u32,
    /// Of the third-level cache.
    pub l3_data: u32,
}

/// Which workers of a topology have the same last-level cache, up to L3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Unknown, since the worker may run anywhere.
    Unknown,
    /// These workers in ascending order, usually with the worker itself. Empty if unknown.
    Workers(Vec<usize>),
}

impl Topology {
    /// `count` workers that may run on any CPU. Fails if `count` is 0 or above 1024.
    pub fn with_workers(count: usize) -> Result<Self> {
        Self { node: None, workers: vec![Worker::anywhere(DEFAULT_CACHES); count.min(MAX_POOL_WORKERS + 1)] }
            .checked(count)
    }

    /// The workers of several topologies as those of one pool. Fails if there are none or more than 1024.
    pub fn merged(topologies: Vec<Self>) -> Result<Self> {
        let node = topologies.first().and_then(|first| first.node);
        let node = node.filter(|_| topologies.iter().all(|topology| topology.node == node));
        let mut workers = Vec::new();
        for topology in topologies {
            let before = workers.len();
            workers.extend(topology.workers.into_iter().map(|mut worker| {
                if let Sharing::Workers(others) = &mut worker.sharing {
                    others.iter_mut().for_each(|other| *other += before);
                }
                worker
            }));
        }
        let count = workers.len();
        Self { node, workers }.checked(count)
    }

    fn checked(self, count: usize) -> Result<Self> {
        match count {
            1..=MAX_POOL_WORKERS => Ok(self),
            _ => Err(Error::out_of_range(format!(
                "a pool of {count} workers (expected 1 to {MAX_POOL_WORKERS})"
            ))),
        }
    }

    /// The workers.
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// The name of the thread of a worker.
    pub fn thread_name(worker: usize) -> String {
        format!("iree-worker-{worker}")
    }

    /// The cache domain of each worker, numbered from 0 in the order of their first workers. All workers
    /// whose caches are unknown are in one domain.
    pub fn cache_domains(&self) -> Vec<usize> {
        let mut firsts: Vec<Option<usize>> = Vec::new();
        let domain = |worker: &Worker| {
            let first = match &worker.sharing {
                Sharing::Unknown => None,
                Sharing::Workers(workers) => workers.first().copied(),
            };
            firsts.iter().position(|it| *it == first).unwrap_or_else(|| {
                firsts.push(first);
                firsts.len() - 1
            })
        };
        self.workers.iter().map(domain).collect()
    }
}

impl Worker {
    fn anywhere(caches: Caches) -> Self {
        Self { processor: 0, cluster: None, package: None, pinned: None, caches, sharing: Sharing::Unknown }
    }

    /// Bytes of local memory: the size of the L2 cache, or of L1 if that is unknown, in whole cache lines.
    pub fn default_local_memory(&self) -> usize {
        let caches = [self.caches.l2_data, self.caches.l1_data];
        let bytes = caches.into_iter().find(|bytes| *bytes > 0).unwrap_or(0) as usize;
        bytes.min(MAX_DERIVED_LOCAL_MEMORY).next_multiple_of(CACHE_LINE_BYTES)
    }

    /// Pins the calling thread to the worker's CPU, if it has one. Fails if the kernel refuses, as for a CPU
    /// that is offline or outside of the process's control group; the thread then runs where it did before.
    pub fn pin_current_thread(&self) -> Result<()> {
        let Some(Pin { processor, .. }) = self.pinned else { return Ok(()) };
        platform::pin_thread(&[processor])
            .map_err(|error| Error::io(format!("cannot pin a worker to CPU {processor}"), &error))
    }
}

#[cfg(test)]
mod tests;
