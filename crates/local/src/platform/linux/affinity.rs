//! On which logical processors threads run.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of logical processors.
#[derive(Clone, Copy)]
pub(crate) struct Processors(CpuSet);

impl Processors {
    pub(crate) fn contains(&self, processor: u32) -> bool {
        (processor as usize) < CpuSet::MAX_CPU && self.0.is_set(processor as usize)
    }
}

/// The processors that the calling thread may run on; `None` if unknown.
pub(crate) fn allowed_processors() -> Option<Processors> {
    sched_getaffinity(None).ok().map(Processors)
}

/// The logical processor that the calling thread currently runs on.
pub(crate) fn processor_id() -> u32 {
    // SAFETY: takes no arguments and does not access our memory.
    let id = unsafe { libc::sched_getcpu() };
    u32::try_from(id).unwrap_or(0)
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
