use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sync::{AtomicU64, Condvar, JoinHandle, Mutex, Ordering, spawn, thread};

/// What workers run.
pub(crate) trait Job: Send + Sync + Sized + 'static {
    /// Runs the job on a worker until no work is left for that worker. May be called any number of times, by several
    /// workers concurrently, and after the job is complete.
    fn run(self: Arc<Self>, worker: &Worker<'_, Self>);
}

/// A worker while it runs a job.
pub(crate) struct Worker<'a, J> {
    /// Its index in the pool.
    pub(crate) index: usize,
    /// The workers that it steals from, in order.
    pub(crate) victims: &'a [usize],
    /// Its pool.
    pub(crate) pool: &'a PoolHandle<J>,
}

/// Where a worker runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerPlace {
    /// The cache domain: workers steal from those of the same one first.
    pub(crate) domain: u32,
}

/// How the threads of a pool are started, and how they wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// The name of a worker's thread.
    pub(crate) name: fn(usize) -> String,
    /// Size of a thread's stack.
    pub(crate) stack_bytes: usize,
    /// How long an idle worker spins before it sleeps.
    pub(crate) spin: Duration,
}

/// Threads that run jobs. Drop runs the submitted jobs and joins the threads, unless one of these threads drops the
/// pool.
pub(crate) struct Pool<J: Job> {
    handle: PoolHandle<J>,
    threads: Vec<JoinHandle<()>>,
}

/// Submits jobs to a pool, which it does not keep alive.
pub(crate) struct PoolHandle<J>(Arc<Shared<J>>);

struct Shared<J> {
    queue: Mutex<Queue<J>>,
    changed: Condvar,
    /// The number of jobs in the queue, for workers that spin.
    queued: AtomicU64,
    workers: usize,
    spin: Duration,
}

struct Queue<J> {
    jobs: VecDeque<Arc<J>>,
    /// Sleeping workers that have not been woken.
    idle: usize,
    is_closed: bool,
}

/// How many others a woken worker wakes if there are jobs for them. A submitting thread wakes only one.
pub(super) const WAKES: usize = 2;

/// Initial capacity of the queue, so that it rarely grows.
const QUEUE_CAPACITY: usize = 64;

impl<J> Clone for PoolHandle<J> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<J: Job> Pool<J> {
    /// Starts a worker per place. Each calls `prepare` with its number first.
    pub(crate) fn new(
        places: &[WorkerPlace],
        threads: &Threads,
        prepare: impl Fn(usize) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let queue =
            Mutex::new(Queue { jobs: VecDeque::with_capacity(QUEUE_CAPACITY), idle: 0, is_closed: false });
        let handle = PoolHandle(Arc::new(Shared {
            queue,
            changed: Condvar::new(),
            queued: AtomicU64::new(0),
            workers: places.len(),
            spin: threads.spin,
        }));
        // If a thread cannot be spawned, drop joins those that were.
        let mut pool = Self { handle, threads: Vec::with_capacity(places.len()) };
        for index in 0..places.len() {
            let (handle, prepare, victims) = (pool.handle.clone(), prepare.clone(), victims(places, index));
            pool.threads.push(spawn((threads.name)(index), threads.stack_bytes, move || {
                prepare(index);
                handle.work(index, &victims);
            })?);
        }
        Ok(pool)
    }

    /// For submitting jobs.
    pub(crate) fn handle(&self) -> &PoolHandle<J> {
        &self.handle
    }
}

impl<J: Job> Drop for Pool<J> {
    fn drop(&mut self) {
        self.handle.close();
        let current = thread::current().id();
        // A worker that joined the others could deadlock: they may be waiting for it.
        if self.threads.iter().any(|thread| thread.thread().id() == current) {
            return;
        }
        for thread in self.threads.drain(..) {
            // Workers catch the panics of jobs.
            let _ = thread.join();
        }
    }
}

impl<J: Job> PoolHandle<J> {
    /// The number of workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.0.workers
    }

    /// Whether jobs are waiting for a worker.
    pub(crate) fn has_queued(&self) -> bool {
        self.0.queued.load(Ordering::Relaxed) != 0
    }

    /// Queues the job for `count` workers, not 0. Returns the job if the pool is being dropped.
    pub(crate) fn submit(&self, job: Arc<J>, count: usize) -> Result<(), Arc<J>> {
        let mut queue = self.0.queue.lock();
        if queue.is_closed {
            return Err(job);
        }
        for _ in 1..count {
            queue.jobs.push_back(job.clone());
        }
        queue.jobs.push_back(job);
        self.0.queued.store(queue.jobs.len() as u64, Ordering::Relaxed);
        let wakes = queue.take_idle();
        drop(queue);
        if wakes {
            self.0.changed.notify_one();
        }
        Ok(())
    }

    fn work(&self, index: usize, victims: &[usize]) {
        while let Some(job) = self.next() {
            let worker = Worker { index, victims, pool: self };
            // A job that panics has failed its own promise; the panic was reported by the hook.
            let _ = catch_unwind(AssertUnwindSafe(|| job.run(&worker)));
        }
    }

    /// Blocks until there is a job; `None` if the queue is empty and the pool is being dropped.
    fn next(&self) -> Option<Arc<J>> {
        let mut has_spun = self.0.spin.is_zero();
        let mut queue = self.0.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                self.0.queued.store(queue.jobs.len() as u64, Ordering::Relaxed);
                let wakes = (0..WAKES.min(queue.jobs.len())).filter(|_| queue.take_idle()).count();
                drop(queue);
                for _ in 0..wakes {
                    self.0.changed.notify_one();
                }
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            if !has_spun {
                has_spun = true;
                drop(queue);
                self.spin();
                queue = self.0.queue.lock();
                continue;
            }
            queue.idle += 1;
            self.0.changed.wait(&mut queue);
        }
    }

    /// Spins until there may be a job, or for at most the time configured.
    fn spin(&self) {
        let start = Instant::now();
        while self.0.queued.load(Ordering::Relaxed) == 0 && start.elapsed() < self.0.spin {
            std::hint::spin_loop();
        }
    }

    fn close(&self) {
        let mut queue = self.0.queue.lock();
        queue.is_closed = true;
        queue.idle = 0;
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl<J> Queue<J> {
    /// Claims a sleeping worker for the caller to wake; `false` if there is none.
    fn take_idle(&mut self) -> bool {
        let is_any = self.idle != 0;
        self.idle -= usize::from(is_any);
        is_any
    }
}

/// The other workers in the order of stealing: those of the same domain first, each group from the next index on.
pub(super) fn victims(places: &[WorkerPlace], index: usize) -> Box<[usize]> {
    let count = places.len();
    let mut victims: Vec<_> = (1..count).map(|step| (index + step) % count).collect();
    victims.sort_by_key(|other| places[*other].domain != places[index].domain);
    victims.into()
}
