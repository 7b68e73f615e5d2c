use rehal_base::{Error, Result};

/// Where the workers of a `local-task` device run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    workers: Vec<WorkerPlacement>,
}

/// Where one worker runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerPlacement {
    /// The logical processors that it may run on; empty for all that the process may run on.
    pub processors: Vec<u32>,
    /// The cache domain: an idle worker steals from those of its own domain first.
    pub domain: u32,
}

/// More workers than this are an error: each is a thread.
const WORKER_LIMIT: usize = 1024;

impl Topology {
    /// `count` workers that run wherever the process may.
    pub fn with_workers(count: usize) -> Result<Self> {
        Self::new(vec![WorkerPlacement::default(); count])
    }

    /// These workers. Fails without any, and with more than 1024.
    pub fn new(workers: Vec<WorkerPlacement>) -> Result<Self> {
        match workers.len() {
            1..=WORKER_LIMIT => Ok(Self { workers }),
            count => Err(Error::out_of_range(format!(
                "a topology of {count} workers (expected 1 to {WORKER_LIMIT})"
            ))),
        }
    }

    /// As many workers as this process may use processors, by its affinity mask and the CPU quota of its control group.
    pub fn of_this_process() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(WORKER_LIMIT);
        Self { workers: vec![WorkerPlacement::default(); count] }
    }

    /// The workers.
    pub fn workers(&self) -> &[WorkerPlacement] {
        &self.workers
    }
}

impl Default for Topology {
    /// [`Topology::of_this_process`].
    fn default() -> Self {
        Self::of_this_process()
    }
}
