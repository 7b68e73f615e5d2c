//! On which logical processors threads run.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A set of logical processors.
#[derive(Clone, Copy)]
pub(crate) struct Processors(CpuSet);

impl Processors {
    pub(crate) fn contains(&self, processor: u32) -> bool {
        (processor as usize) < CpuSet::MAX_CPU && self.0.is_set(processor as usize)
    }
}

/// Those that the calling thread may run on; `None` if unknown.
pub(crate) fn allowed_processors() -> Option<Processors> {
    sched_getaffinity(None).ok().map(Processors)
}

/// The one that the calling thread runs on.
pub(crate) fn current_processor() -> u32 {
    sched_getcpu() as u32
}

/// Restricts the calling thread to these.
pub(crate) fn pin_thread(processors: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for processor in processors {
        let index = *processor as usize;
        if index >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(index);
    }
    Ok(sched_setaffinity(None, &set)?)
}
