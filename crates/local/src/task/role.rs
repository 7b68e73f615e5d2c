//! What a thread is to the workers, for profiles.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use rehal_hal::profile::ProfiledThread;

/// Workers, by a number that is unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkersId(u64);

#[derive(Clone, Copy)]
enum Role {
    /// A thread of the program.
    Program,
    /// One that executes work of these workers while it waits.
    Helper(WorkersId),
    Worker(WorkersId, u32),
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Program) };
}

impl WorkersId {
    /// The number of new workers.
    pub(super) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }

    /// The calling thread is one of these workers from now on.
    pub(super) fn enter(self, index: usize) {
        ROLE.set(Role::Worker(self, index as u32));
    }

    /// What the calling thread is to a device of these workers: a worker or helper of others is a thread that
    /// submits to it.
    pub(super) fn this_thread(self) -> ProfiledThread {
        match ROLE.get() {
            Role::Worker(workers, index) if workers == self => ProfiledThread::Worker(index),
            Role::Helper(workers) if workers == self => ProfiledThread::Waiting,
            Role::Program | Role::Helper(_) | Role::Worker(..) => ProfiledThread::Submitting,
        }
    }

    /// The calling thread helps these workers until the result is dropped.
    pub(super) fn help(self) -> impl Drop {
        Helping(ROLE.replace(Role::Helper(self)))
    }
}

struct Helping(Role);

impl Drop for Helping {
    fn drop(&mut self) {
        ROLE.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_helps_until_its_wait_is_over() {
        let [own, other] = [(); 2].map(|()| WorkersId::new());
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
}
