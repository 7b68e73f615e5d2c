//! Models of the pool, checked for every interleaving.
//!
//! The pool's files are compiled a second time with the model checker's locks and threads in place of `sync`.
//! The name of a model says what it proves.

#![allow(dead_code, clippy::duplicate_mod, reason = "the pool's own files, under other locks")]

#[path = "permits.rs"]
mod permits;
#[path = "progress.rs"]
mod progress;
#[path = "tiles.rs"]
mod tiles;
#[path = "workers.rs"]
mod workers;

mod sync {
    pub(super) use rehal_interleave::thread::{self, JoinHandle};
    pub(super) use rehal_interleave::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering, explore_bounded};

    pub(super) fn spawn(
        _name: String,
        _stack_bytes: usize,
        main: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        Ok(thread::spawn(main))
    }
}

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::progress::{Claims, Progress, Stage, Work};
use self::sync::{AtomicU64, Condvar, Mutex, Ordering, explore_bounded, thread};
use self::tiles::Tiles;
use self::workers::{Job, Pool, PoolHandle, Threads, Worker, WorkerPlace};

/// Preemption bound: without it, models with three threads or with stages take minutes or longer.
const PREEMPTIONS: usize = 2;

/// Relaxed counters: a thread is sure to see the others' increments only if something else orders them.
#[derive(Clone)]
struct Counts(Arc<Vec<AtomicU64>>);

impl Counts {
    fn new(count: usize) -> Self {
        Self(Arc::new((0..count).map(|_| AtomicU64::new(0)).collect()))
    }

    fn add(&self, index: usize) {
        self.0[index].fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Takes chunks until there are none; the worker that completes the last tile sees that each ran once.
fn take_all(tiles: &Tiles, worker: usize, victims: &[usize], chunk: u32, ran: &Counts) -> bool {
    let mut is_last = false;
    let take = || tiles.take_own(worker, |_| chunk).or_else(|| tiles.steal(worker, victims, |_| chunk));
    while let Some(range) = take() {
        range.clone().for_each(|tile| ran.add(tile as usize));
        if tiles.complete(range.end - range.start) {
            assert!(!is_last);
            assert_eq!(ran.all(), vec![1; ran.0.len()]);
            is_last = true;
        }
    }
    is_last
}

#[test]
fn each_tile_is_taken_once_and_one_worker_completes_the_last() {
    explore_bounded(PREEMPTIONS, || {
        let (tiles, ran) = (Arc::new(Tiles::new(3)), Counts::new(4));
        tiles.refill(0, 4);
        let thieves = [(1, [0, 2]), (2, [1, 0])].map(|(worker, victims)| {
            let (tiles, ran) = (tiles.clone(), ran.clone());
            thread::spawn(move || take_all(&tiles, worker, &victims, 2, &ran))
        });
        let mut completed = usize::from(take_all(&tiles, 0, &[1, 2], 1, &ran));
        for thief in thieves {
            completed += usize::from(thief.join().unwrap());
        }
        assert_eq!((completed, ran.all()), (1, vec![1; 4]));
    });
}

/// Work of two stages: the first has the counters from 0, the second the last.
struct TwoStages {
    first: u32,
    ran: Counts,
    begun: AtomicU64,
    /// A tile of the first stage that cancels the job.
    fails: Option<u32>,
    /// Whether a worker that finds no tiles looks again if a stage has begun.
    stays: bool,
    progress: Progress,
}

impl TwoStages {
    fn new(first: u32, fails: Option<u32>, stays: bool) -> Arc<Self> {
        let (ran, progress) = (Counts::new(first as usize + 1), Progress::new(2));
        progress.make_ready();
        Arc::new(Self { first, ran, begun: AtomicU64::new(0), fails, stays, progress })
    }
}

impl Work for &TwoStages {
    fn next_stage(&self) -> Option<Stage> {
        let ran = self.ran.all();
        match self.begun.fetch_add(1, Ordering::Relaxed) {
            0 => Some(Stage { tiles: self.first, helpers: 1 }),
            1 => {
                assert_eq!(ran[..self.first as usize], vec![1; self.first as usize]);
                Some(Stage { tiles: 1, helpers: 0 })
            }
            _ => {
                assert_eq!(ran, vec![1; self.first as usize + 1], "the work of both stages is visible");
                None
            }
        }
    }

    fn invite(&self, _helpers: usize) {}

    fn stays(&self, has_turned: impl Fn() -> bool) -> bool {
        self.stays && has_turned()
    }

    fn leaves(&self) -> bool {
        false
    }

    fn run(&self, claim: Range<u32>, claims: &mut Claims<'_>) {
        let mut next = Some(claim);
        // Once: what it takes while it runs is of the same stage.
        let stage = self.begun.load(Ordering::Relaxed) - 1;
        while let Some(claim) = next {
            for tile in claim.clone() {
                self.ran.add(if stage == 0 { tile as usize } else { self.first as usize });
                if stage == 0 && self.fails == Some(tile) {
                    self.progress.cancel();
                }
            }
            next = claims.more(|_| 2);
            // Puts half of a chunk back, as for a command that ends within it.
            if let Some(claim) = &mut next
                && claim.end - claim.start == 2
            {
                claims.put_back(claim.start + 1..claim.end);
                claim.end = claim.start + 1;
            }
        }
    }
}

/// Runs it on two workers; returns how many completed it.
fn run_on_two(work: &Arc<TwoStages>) -> usize {
    let other = thread::spawn({
        let work = work.clone();
        move || work.progress.run(1, &[0], &&*work)
    });
    let here = work.progress.run(0, &[1], &&**work);
    usize::from(here) + usize::from(other.join().unwrap())
}

#[test]
fn a_stage_begins_when_the_one_before_is_complete() {
    explore_bounded(3, || {
        let work = TwoStages::new(3, None, true);
        assert_eq!(run_on_two(&work), 1);
        assert_eq!(work.ran.all(), [1; 4]);
    });
}

#[test]
fn a_failing_tile_prevents_what_has_not_started_and_the_job_completes_once() {
    explore_bounded(3, || {
        let work = TwoStages::new(3, Some(1), true);
        assert_eq!(run_on_two(&work), 1);
        let ran = work.ran.all();
        assert!(ran[..3].iter().all(|count| *count <= 1) && ran[1] == 1, "{ran:?}");
        assert_eq!(ran[3], 0, "the next stage");
    });
}

/// The view of a thread that leaves after its first claim, and the invitations that it sends.
struct Leaving {
    work: Arc<TwoStages>,
    queries: AtomicU64,
    invitations: Mutex<Invitations>,
    changed: Condvar,
}

struct Invitations {
    sent: u64,
    is_complete: bool,
}

impl Leaving {
    /// Waits for an invitation; `false` if the job is complete.
    fn accept(&self) -> bool {
        let mut invitations = self.invitations.lock();
        while invitations.sent == 0 && !invitations.is_complete {
            self.changed.wait(&mut invitations);
        }
        invitations.sent = invitations.sent.saturating_sub(1);
        !invitations.is_complete
    }

    fn complete(&self) {
        let mut invitations = self.invitations.lock();
        assert!(!invitations.is_complete);
        invitations.is_complete = true;
        self.changed.notify_all();
    }
}

impl Work for &Leaving {
    fn next_stage(&self) -> Option<Stage> {
        let stage = (&&*self.work).next_stage()?;
        // Only by leaving does the thread invite another.
        Some(Stage { helpers: 0, ..stage })
    }

    fn invite(&self, helpers: usize) {
        self.invitations.lock().sent += helpers as u64;
        self.changed.notify_all();
    }

    fn stays(&self, _has_turned: impl Fn() -> bool) -> bool {
        false
    }

    fn leaves(&self) -> bool {
        self.queries.fetch_add(1, Ordering::Relaxed) != 0
    }

    fn run(&self, claim: Range<u32>, claims: &mut Claims<'_>) {
        (&&*self.work).run(claim, claims);
    }
}

#[test]
fn the_tiles_of_a_thread_that_leaves_run_on_another() {
    explore_bounded(PREEMPTIONS, || {
        let work = TwoStages::new(3, None, false);
        let leaving = Arc::new(Leaving {
            work: work.clone(),
            queries: AtomicU64::new(0),
            invitations: Mutex::new(Invitations { sent: 1, is_complete: false }),
            changed: Condvar::new(),
        });
        let worker = thread::spawn({
            let leaving = leaving.clone();
            move || {
                while leaving.accept() {
                    if leaving.work.progress.run(1, &[0], &&*leaving.work) {
                        leaving.complete();
                    }
                }
            }
        });
        if work.progress.run(0, &[1], &&*leaving) {
            leaving.complete();
        }
        worker.join().unwrap();
        assert_eq!(work.ran.all(), [1; 4]);
    });
}

/// A job is made ready again while a worker still looks for tiles of its last run: it gets tiles of the new
/// one, or none.
#[test]
fn a_job_is_reused_while_a_worker_still_looks_for_tiles() {
    explore_bounded(PREEMPTIONS, || {
        // A job is not reused while a worker stays: that holds the lock of its content.
        let work = TwoStages::new(1, None, false);
        let late = thread::spawn({
            let work = work.clone();
            move || (0..2).filter(|_| work.progress.run(1, &[0], &&*work)).count()
        });
        let mut completed = usize::from(work.progress.run(0, &[1], &&*work));
        if completed == 1 {
            work.begun.store(0, Ordering::Relaxed);
            work.ran.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
            work.progress.make_idle();
            work.progress.make_ready();
            completed += usize::from(work.progress.run(0, &[1], &&*work));
        }
        completed += late.join().unwrap();
        assert!(completed == 1 || completed == 2);
        assert_eq!(work.ran.all(), [1; 2]);
    });
}

/// A job that notes that it ran, may submit another, and may own the pool that it runs on.
struct Step {
    ran: Arc<Ran>,
    /// Whether it returns its permit before it ends, as for a host call.
    is_call: bool,
    next: Mutex<Option<Arc<Self>>>,
    owned: Mutex<Option<Arc<Pool<Self>>>>,
}

struct Ran {
    count: Mutex<u64>,
    changed: Condvar,
    /// Threads that execute, and at most how many may.
    executing: AtomicU64,
    limit: u64,
}

impl Ran {
    fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { count: Mutex::new(0), changed: Condvar::new(), executing: AtomicU64::new(0), limit })
    }

    /// The work of a thread with a permit.
    fn execute(&self) {
        assert!(
            self.executing.fetch_add(1, Ordering::Relaxed) < self.limit,
            "more threads than workers execute"
        );
        thread::yield_now();
        self.executing.fetch_sub(1, Ordering::Relaxed);
    }

    fn wait_for(&self, count: u64) {
        let mut now = self.count.lock();
        while *now < count {
            self.changed.wait(&mut now);
        }
    }
}

impl Step {
    fn new(ran: &Arc<Ran>, next: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { ran: ran.clone(), is_call: false, next: Mutex::new(next), owned: Mutex::new(None) })
    }
}

impl Job for Step {
    fn run(self: Arc<Self>, worker: &Worker<'_, Self>) {
        if self.is_call {
            worker.return_permit();
        } else {
            self.ran.execute();
        }
        drop(self.owned.lock().take());
        if let Some(next) = self.next.lock().take() {
            assert!(worker.pool.submit(next, 1).is_ok());
        }
        *self.ran.count.lock() += 1;
        self.ran.changed.notify_all();
    }
}

fn pool(workers: usize) -> Pool<Step> {
    let threads = Threads { name: |index| index.to_string(), stack_bytes: 0, spin: Duration::ZERO };
    Pool::new(&vec![WorkerPlace::default(); workers], &threads, |_| {}).unwrap()
}

fn submit(pool: &PoolHandle<Step>, job: Arc<Step>) {
    assert!(pool.submit(job, 1).is_ok());
}

#[test]
fn sleeping_workers_are_woken_for_each_job() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(2);
        let pool = pool(2);
        submit(pool.handle(), Step::new(&ran, None));
        ran.wait_for(1);
        submit(pool.handle(), Step::new(&ran, None));
        ran.wait_for(2);
    });
}

#[test]
fn what_a_job_submits_runs() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(2);
        let pool = pool(2);
        let last = Step::new(&ran, None);
        submit(pool.handle(), Step::new(&ran, Some(last)));
        ran.wait_for(2);
    });
}

#[test]
fn dropping_the_pool_runs_what_was_submitted() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(2);
        let pool = pool(2);
        submit(pool.handle(), Step::new(&ran, None));
        submit(pool.handle(), Step::new(&ran, None));
        drop(pool);
        assert_eq!(*ran.count.lock(), 2);
    });
}

#[test]
fn a_job_that_is_submitted_while_the_pool_is_dropped_runs_or_is_returned() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(1);
        let pool = pool(1);
        let submitted = thread::spawn({
            let (handle, job) = (pool.handle().clone(), Step::new(&ran, None));
            move || handle.submit(job, 1).is_ok()
        });
        drop(pool);
        let expected = u64::from(submitted.join().unwrap());
        assert_eq!(*ran.count.lock(), expected);
    });
}

/// A thread that helps takes the place of a worker, which may have been woken for the job: each job runs
/// once, and the next one still finds a worker.
#[test]
fn a_thread_that_helps_runs_a_job_instead_of_a_worker() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(1);
        let pool = pool(1);
        submit(pool.handle(), Step::new(&ran, None));
        pool.handle().help(|_| true, &|| false, |job, worker| job.run(worker));
        submit(pool.handle(), Step::new(&ran, None));
        ran.wait_for(2);
        drop(pool);
        assert_eq!(*ran.count.lock(), 2);
    });
}

/// One worker, a thread that helps, and one that executes of its own accord: never two at once, and a worker
/// that was refused gets its job when they are done, also while the pool is dropped.
#[test]
fn no_more_threads_than_workers_execute_and_a_refused_worker_is_woken() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(1);
        let pool = pool(1);
        submit(pool.handle(), Step::new(&ran, None));
        let inline = thread::spawn({
            let (handle, ran) = (pool.handle().clone(), ran.clone());
            move || {
                if let Some(_permit) = handle.permit() {
                    ran.execute();
                }
            }
        });
        pool.handle().help(|_| true, &|| false, |job, worker| job.run(worker));
        ran.wait_for(1);
        submit(pool.handle(), Step::new(&ran, None));
        drop(pool);
        assert_eq!(*ran.count.lock(), 2);
        inline.join().unwrap();
    });
}

/// Two workers and a thread that executes of its own accord while the pool is dropped: all of them end.
#[test]
fn workers_that_are_refused_end_with_the_pool() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(2);
        let pool = pool(2);
        let permit_of = pool.handle().clone();
        let permit = permit_of.permit();
        submit(pool.handle(), Step::new(&ran, None));
        submit(pool.handle(), Step::new(&ran, None));
        let held = ran.clone();
        let inline = thread::spawn({
            let handle = pool.handle().clone();
            move || {
                if let Some(_permit) = handle.permit() {
                    held.execute();
                }
            }
        });
        drop(permit);
        drop(pool);
        assert_eq!(*ran.count.lock(), 2);
        inline.join().unwrap();
    });
}

/// A job that returned its permit may wait for one that another thread executes.
#[test]
fn a_thread_helps_while_the_only_worker_is_in_a_call() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(1);
        let pool = pool(1);
        let mut call = Step::new(&ran, None);
        Arc::get_mut(&mut call).unwrap().is_call = true;
        submit(pool.handle(), call);
        submit(pool.handle(), Step::new(&ran, None));
        pool.handle().help(|job| !job.is_call, &|| false, |job, worker| job.run(worker));
        drop(pool);
        assert_eq!(*ran.count.lock(), 2);
    });
}

#[test]
fn a_worker_may_drop_its_own_pool() {
    explore_bounded(PREEMPTIONS, || {
        let ran = Ran::new(2);
        let pool = Arc::new(pool(2));
        let job = Step::new(&ran, None);
        *job.owned.lock() = Some(pool.clone());
        submit(pool.handle(), job);
        drop(pool);
        ran.wait_for(1);
    });
}
