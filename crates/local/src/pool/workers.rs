use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::permits::Permits;
use super::sync::{AtomicBool, AtomicU64, Condvar, JoinHandle, Mutex, Ordering, spawn, thread};

/// The work that workers run.
pub(crate) trait Job: Send + Sync + Sized + 'static {
    /// Runs the job on a worker until no work is left for that worker. May be called any number of times, by
    /// several workers concurrently, and after the job is complete.
    fn run(self: Arc<Self>, worker: &Worker<'_, Self>);
}

/// A worker while it runs a job, or a thread that helps.
pub(crate) struct Worker<'a, J> {
    /// Its index in the pool; that of a helping thread is the number of workers.
    pub(crate) index: usize,
    /// The workers that it steals from, in order.
    pub(crate) victims: &'a [usize],
    /// Its pool.
    pub(crate) pool: &'a PoolHandle<J>,
    /// Whether it stops before the work runs out: a thread that helps while it waits, once the wait is over.
    pub(crate) leaves: &'a dyn Fn() -> bool,
    /// Not a `Cell` of the [`Permit`], which would make the lifetime invariant.
    has_permit: Cell<bool>,
}

/// The right to execute work of a pool: as many threads have it at the same time as the pool has workers.
/// Drop returns it.
///
/// A thread that has one must not wait for another thread to execute work, since there may be no permit left
/// for that, and must not drop the pool.
pub(crate) struct Permit<'a, J>(&'a Shared<J>);

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

/// Threads that run jobs. Drop runs the submitted jobs and joins the threads, unless one of these threads
/// drops the pool.
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
    /// Whether the pool is being dropped, for the same.
    ends: AtomicBool,
    permits: Permits,
    workers: usize,
    /// The workers that a helping thread steals from: all.
    victims_of_helper: Box<[usize]>,
    spin: Duration,
    /// How long a worker that is woken takes to run, in nanoseconds: a moving average. Written with the queue
    /// locked.
    wake_ns: AtomicU64,
}

struct Queue<J> {
    jobs: VecDeque<Arc<J>>,
    /// Sleeping workers that have not been woken.
    idle: usize,
    /// When a worker was woken that has not run since.
    woken_at: Option<Instant>,
    is_closed: bool,
}

/// The initial estimate of [`Shared::wake_ns`]. It depends on the machine and its load: from 3 us if a CPU
/// has not gone to sleep, to 70 us in a virtual machine.
const WAKE_NS: u64 = 10_000;

/// Limit of a measured time: longer ones are of a busy or suspended machine.
const MAX_WAKE_NS: u64 = 50_000;

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
        let queue = Mutex::new(Queue {
            jobs: VecDeque::with_capacity(QUEUE_CAPACITY),
            idle: 0,
            woken_at: None,
            is_closed: false,
        });
        let handle = PoolHandle(Arc::new(Shared {
            queue,
            changed: Condvar::new(),
            queued: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            permits: Permits::new(places.len()),
            workers: places.len(),
            victims_of_helper: (0..places.len()).collect(),
            spin: threads.spin,
            wake_ns: AtomicU64::new(WAKE_NS),
        }));
        // If a thread cannot be spawned, drop joins those that were.
        let mut pool = Self { handle, threads: Vec::with_capacity(places.len()) };
        for index in 0..places.len() {
            let (handle, prepare) = (pool.handle.clone(), prepare.clone());
            let victims: Box<[usize]> = victims(places, index).into_iter().chain([places.len()]).collect();
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

impl<'a, J> Worker<'a, J> {
    fn new(
        index: usize,
        victims: &'a [usize],
        permit: Permit<'a, J>,
        pool: &'a PoolHandle<J>,
        leaves: &'a dyn Fn() -> bool,
    ) -> Self {
        // Dropped by `return_permit`.
        std::mem::forget(permit);
        Self { index, victims, pool, leaves, has_permit: Cell::new(true) }
    }

    /// Whether it is a thread that helps.
    pub(crate) fn is_helper(&self) -> bool {
        self.index == self.pool.0.workers
    }

    /// Returns its permit, since it executes nothing more of the job: another thread may execute in its place
    /// while it calls code that may block.
    pub(crate) fn return_permit(&self) {
        if self.has_permit.replace(false) {
            drop(Permit(&self.pool.0));
        }
    }
}

impl<J> Drop for Worker<'_, J> {
    fn drop(&mut self) {
        self.return_permit();
    }
}

impl<J> Drop for Permit<'_, J> {
    #[inline]
    fn drop(&mut self) {
        if self.0.permits.put_back() {
            self.0.wake_refused();
        }
    }
}

impl<J> Shared<J> {
    /// A permit was returned after a worker was refused one: wakes a worker if there still is a job for it.
    #[cold]
    fn wake_refused(&self) {
        let mut queue = self.queue.lock();
        if queue.jobs.is_empty() {
            self.permits.forget_refused();
            if queue.is_closed {
                drop(queue);
                self.end_sleep();
            }
            return;
        }
        // If all are awake, one of them is about to look for jobs.
        if queue.take_idle() {
            drop(queue);
            self.changed.notify_one();
        }
    }

    /// Wakes all workers, which end since the queue is closed and empty.
    fn end_sleep(&self) {
        self.changed.notify_all();
    }
}

/// The outcome for a thread that [helps](PoolHandle::help).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Help {
    /// It ran a job.
    Ran,
    /// No job was queued that it may run.
    Nothing,
    /// All permits were held, or a worker waited for one. Nothing wakes the thread when that has changed.
    Refused,
}

impl<J: Job> PoolHandle<J> {
    /// The number of workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.0.workers
    }

    /// The number of threads that may run a job at the same time, if at most one of them helps.
    pub(crate) fn slots(&self) -> usize {
        self.0.workers + 1
    }

    /// How long waking a worker takes until it runs, and then waking the thread that waits for it.
    pub(crate) fn handover_ns(&self) -> u64 {
        2 * self.0.wake_ns.load(Ordering::Relaxed)
    }

    /// Whether jobs are waiting for a worker.
    pub(crate) fn has_queued(&self) -> bool {
        self.0.queued.load(Ordering::Relaxed) != 0
    }

    /// Whether a worker waits for another thread to return its permit.
    pub(crate) fn wants_permit(&self) -> bool {
        self.0.permits.was_refused()
    }

    /// A permit for a thread that is not a worker, to execute work of its own accord. `None` if as many
    /// threads execute work as there are workers, or if one of these waits for a permit.
    #[inline]
    pub(crate) fn permit(&self) -> Option<Permit<'_, J>> {
        self.0.permits.take().then(|| Permit(&self.0))
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

    /// Calls `run` with the first queued job that `admits` selects, on the calling thread and in place of one
    /// of the workers for which it was queued, if there is a [permit](Self::permit). `admits` must select a
    /// job for one thread at a time; `leaves` is that of the [`Worker`].
    ///
    /// For a thread that is about to wait: that costs two context switches less than waiting for a worker
    /// that sleeps.
    pub(crate) fn help(
        &self,
        admits: impl Fn(&J) -> bool,
        leaves: &dyn Fn() -> bool,
        run: impl FnOnce(Arc<J>, &Worker<'_, J>),
    ) -> Help {
        if !self.has_queued() {
            return Help::Nothing;
        }
        // Before the lock, which returning it may need.
        let Some(permit) = self.permit() else { return Help::Refused };
        let mut queue = self.0.queue.lock();
        let position = queue.jobs.iter().position(|job| admits(job));
        let Some(job) = position.and_then(|position| queue.jobs.remove(position)) else {
            drop(queue);
            return Help::Nothing;
        };
        self.0.queued.store(queue.jobs.len() as u64, Ordering::Relaxed);
        drop(queue);
        let worker = Worker::new(self.0.workers, &self.0.victims_of_helper, permit, self, leaves);
        catch(|| run(job, &worker));
        Help::Ran
    }

    fn work(&self, index: usize, victims: &[usize]) {
        while let Some((job, permit)) = self.next() {
            let worker = Worker::new(index, victims, permit, self, &|| false);
            catch(|| job.run(&worker));
        }
    }

    /// Blocks until there are a job and a permit; `None` if the queue is empty and the pool is being dropped.
    fn next(&self) -> Option<(Arc<J>, Permit<'_, J>)> {
        let mut has_spun = self.0.spin.is_zero();
        let mut queue = self.0.queue.lock();
        loop {
            let is_empty = queue.jobs.is_empty();
            // A worker that is refused sleeps until the permit of another thread is returned.
            if !is_empty
                && self.0.permits.take_for_worker()
                && let Some(job) = queue.jobs.pop_front()
            {
                self.0.queued.store(queue.jobs.len() as u64, Ordering::Relaxed);
                let wakes = (0..WAKES.min(queue.jobs.len())).filter(|_| queue.take_idle()).count();
                drop(queue);
                for _ in 0..wakes {
                    self.0.changed.notify_one();
                }
                return Some((job, Permit(&self.0)));
            }
            if is_empty && queue.is_closed {
                drop(queue);
                // Those that were refused when there were jobs.
                self.0.end_sleep();
                return None;
            }
            if is_empty && !has_spun {
                has_spun = true;
                drop(queue);
                self.spin();
                queue = self.0.queue.lock();
                continue;
            }
            queue.idle += 1;
            self.0.changed.wait(&mut queue);
            if let Some(woken_at) = queue.woken_at.take() {
                let measured = woken_at.elapsed().as_nanos().min(MAX_WAKE_NS.into()) as u64;
                let average = self.0.wake_ns.load(Ordering::Relaxed);
                self.0.wake_ns.store((7 * average + measured) / 8, Ordering::Relaxed);
            }
        }
    }

    /// Spins until there may be a job, until the pool is dropped, or for at most the time configured.
    fn spin(&self) {
        let start = Instant::now();
        let is_idle = || self.0.queued.load(Ordering::Relaxed) == 0 && !self.0.ends.load(Ordering::Relaxed);
        while is_idle() && start.elapsed() < self.0.spin {
            std::hint::spin_loop();
        }
    }

    fn close(&self) {
        let mut queue = self.0.queue.lock();
        queue.is_closed = true;
        queue.idle = 0;
        self.0.ends.store(true, Ordering::Relaxed);
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl<J> Queue<J> {
    /// Claims a sleeping worker for the caller to wake; `false` if there is none.
    fn take_idle(&mut self) -> bool {
        let is_any = self.idle != 0;
        if is_any {
            self.idle -= 1;
            self.woken_at = Some(Instant::now());
        }
        is_any
    }
}

/// Runs a job. One that panics has failed its own promise, and the hook has reported the panic.
fn catch(run: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(run));
}

/// The other workers in the order of stealing: those of the same domain first, each group from the next index
/// on.
pub(super) fn victims(places: &[WorkerPlace], index: usize) -> Box<[usize]> {
    let count = places.len();
    let mut victims: Vec<_> = (1..count).map(|step| (index + step) % count).collect();
    victims.sort_by_key(|other| places[*other].domain != places[index].domain);
    victims.into()
}
