//! The role of a thread among the workers: whether it may run their work, and as what profiles name it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_hal::profile::ProfiledThread;

/// Workers, by a number that is unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkersId {
    number: u64,
    /// Whether only the workers run their work, and no thread that waits or submits.
    ///
    /// Not also threads whose affinity mask allows only CPUs of the workers: a mask may change while work
    /// runs, and work would run on one thread or the other depending on how the program was started.
    is_confined: bool,
}

thread_local! {
    /// The workers that the thread is one of, and its index.
    static WORKER: Cell<Option<(WorkersId, u32)>> = const { Cell::new(None) };
    /// The workers whose work the thread executes while it waits.
    static HELPED: Cell<Option<WorkersId>> = const { Cell::new(None) };
}

impl WorkersId {
    /// The number of new workers.
    pub(super) fn new(is_confined: bool) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self { number: LAST.fetch_add(1, Ordering::Relaxed), is_confined }
    }

    /// The calling thread is one of these workers from now on.
    pub(super) fn enter(self, index: usize) {
        WORKER.set(Some((self, index as u32)));
    }

    /// Whether the calling thread may run work of these workers.
    #[inline]
    pub(super) fn admits_this_thread(self) -> bool {
        !self.is_confined || WORKER.get().is_some_and(|(workers, _)| workers == self)
    }

    /// The role of the calling thread for a device of these workers: a worker or helper of others is a thread
    /// that submits to it.
    pub(super) fn this_thread(self) -> ProfiledThread {
        match (HELPED.get(), WORKER.get()) {
            (Some(workers), _) if workers == self => ProfiledThread::Waiting,
            (None, Some((workers, index))) if workers == self => ProfiledThread::Worker(index),
            _ => ProfiledThread::Submitting,
        }
    }

    /// The calling thread helps these workers until the result is dropped.
    pub(super) fn help(self) -> impl Drop {
        Helping(HELPED.replace(Some(self)))
    }
}

/// The workers that the thread helped before.
struct Helping(Option<WorkersId>);

impl Drop for Helping {
    fn drop(&mut self) {
        HELPED.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_helps_until_its_wait_is_over() {
        let [own, other] = [(); 2].map(|()| WorkersId::new(false));
        assert_eq!(own.this_thread(), ProfiledThread::Submitting);
        own.enter(3);
        let seen = || [own.this_thread(), other.this_thread()];
        assert_eq!(seen(), [ProfiledThread::Worker(3), ProfiledThread::Submitting]);
        {
            let _helping = other.help();
            assert_eq!(seen(), [ProfiledThread::Submitting, ProfiledThread::Waiting]);
        }
        assert_eq!(seen(), [ProfiledThread::Worker(3), ProfiledThread::Submitting]);
    }

    /// Also while it helps others: work of its own pool would otherwise wait for it.
    #[test]
    fn work_of_placed_workers_runs_on_them_only() {
        let [placed, other, free] = [true, true, false].map(WorkersId::new);
        let admitted = || [placed, other, free].map(WorkersId::admits_this_thread);
        assert_eq!(admitted(), [false, false, true]);
        placed.enter(0);
        assert_eq!(admitted(), [true, false, true]);
        let _helping = free.help();
        assert_eq!(admitted(), [true, false, true]);
    }
}
