//! Runs submissions on a pool of workers.
//!
//! A submission whose waits are reached becomes a `SubmissionJob` of the pool; one that takes less time than
//! waking a worker runs inline, on the thread that made it ready, as on `local-sync` (`estimate`).
//!
//! Tiles are numbered across the commands of a stage. A tile is a workgroup (or several, past 2^31 in a
//! stage), 256 KiB of a copy or fill, or the whole of anything else. Workers take chunks that run for about
//! 25 us, by the measured cost of the function (`executable/cost.rs`), and at most a part of a range that
//! others may steal from. Each worker resolves a dispatch's bindings when it takes its first tile of it,
//! which costs less than sharing them. The worker that completes the last tile of a stage begins the next,
//! and settles the promise after the last stage.
//!
//! A failing workgroup, or a host call that panics, cancels the tiles and stages that have not started. Of
//! several failures, the first command's lowest workgroup is reported, with the message of `local-sync`.
//! Jobs are reused, so that issuing a command buffer allocates nothing once the lists have grown.
//!
//! A thread that waits helps (`semaphore.rs`): it runs queued submissions as one more worker, and leaves them
//! when its wait is over. It takes no host calls and no files, and a wait with a timeout does not help.
//! Command buffers that may execute inline, while they are recorded, do so on `local-sync` only. If options
//! place the workers on CPUs (`role.rs`), only the workers' threads execute.
//!
//! A workgroup has local memory up to the smallest L2 cache of the workers' CPUs; more is
//! `RESOURCE_EXHAUSTED`. Workers have a stack of at least 2 MiB. A host call that blocks occupies its worker;
//! on a single worker, one that waits for work of its own device deadlocks, unless it waits without a timeout
//! for dispatches that are queued by then.

mod delays;
mod estimate;
mod report;
mod role;
mod semaphore;
mod stage;
mod submission_job;
mod times;

use std::sync::{Arc, Weak};
use std::time::Duration;

use rehal_base::{Context, Error, Result};
use rehal_hal::profile::ProfiledSubmission;
use rehal_hal::{KeptSubmission, Live, Names, Promise, QueueOp, Semaphore, Submission};

use self::delays::Delays;
pub use self::delays::WorkerDelays;
use self::role::WorkersId;
use self::semaphore::TaskSemaphore;
use self::submission_job::{Spares, SubmissionJob, abort};
use crate::execute::{LiveNames, Resolve, Slots, StoredNames, run_and_settle};
use crate::pool::{Permit, Pool, PoolHandle, Threads, WorkerPlace};
use crate::profile::Profiled;
use crate::topology::Topology;

/// Workers that several devices may share: a clone refers to the same workers. Dropping the last clone ends
/// them.
#[derive(Clone)]
pub struct Workers(Arc<Owner>);

struct Owner {
    /// The first field, so that the threads end before what they use is dropped.
    pool: Pool<SubmissionJob>,
    id: WorkersId,
    spares: Arc<Spares>,
    topology: Topology,
    delays: Option<Arc<Delays>>,
}

/// How workers are started, and how they wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// How long an idle worker spins before it sleeps. Default: not at all.
    pub spin: Duration,
    /// The size of the stack of kernels, on any thread, and the least of a worker. Default: 2 MiB, which is
    /// also the least of both.
    pub stack_bytes: usize,
    /// For tests. Default: none.
    #[doc(hidden)]
    pub delays: Option<WorkerDelays>,
}

/// The stack size of threads that run code of unknown needs: that of `std`.
const MIN_STACK_BYTES: usize = 2 << 20;

impl Workers {
    /// Starts a thread for each worker of the topology. If it pins any worker, only these threads run work:
    /// the caller has chosen the CPUs.
    pub fn start(topology: &Topology, options: &WorkerOptions) -> Result<Self> {
        let is_placed = topology.workers().iter().any(|worker| worker.pinned.is_some());
        Self::start_selected(topology, options, is_placed)
    }

    /// The same; `is_placed` tells whether only these threads run work.
    pub(crate) fn start_selected(
        topology: &Topology,
        options: &WorkerOptions,
        is_placed: bool,
    ) -> Result<Self> {
        let domains = topology.cache_domains();
        let places: Vec<_> =
            domains.into_iter().map(|domain| WorkerPlace { domain: domain as u32 }).collect();
        let workers: Arc<[_]> = topology.workers().into();
        let id = WorkersId::new(is_placed);
        let prepare = move |index: usize| {
            rehal_crash::arm_thread();
            id.enter(index);
            // A worker whose CPU is offline or not allowed for this process stays unpinned.
            let _ = workers[index].pin_current_thread();
        };
        let threads = Threads {
            name: Topology::thread_name,
            stack_bytes: options.stack_bytes.max(MIN_STACK_BYTES),
            spin: options.spin,
        };
        let pool = Pool::new(&places, &threads, prepare)
            .map_err(|error| Error::io("starting a worker thread", &error))
            .context(|| format!("starting {} workers", places.len()))?;
        let delays = options.delays.map(|delays| Arc::new(Delays::new(delays)));
        Ok(Self(Arc::new(Owner { pool, id, spares: Arc::default(), topology: topology.clone(), delays })))
    }

    /// Where they run.
    pub fn topology(&self) -> &Topology {
        &self.0.topology
    }
}

/// Runs the submissions of one device.
#[derive(Clone)]
pub(crate) struct TaskExecutor {
    pool: PoolHandle<SubmissionJob>,
    workers: WorkersId,
    spares: Weak<Spares>,
    delays: Option<Arc<Delays>>,
    /// Whether a failure or a crash aborts the process.
    aborts: bool,
}

impl TaskExecutor {
    /// Runs on `workers`, without keeping them alive.
    pub(crate) fn new(workers: &Workers, abort_on_failure: bool) -> Self {
        Self {
            pool: workers.0.pool.handle().clone(),
            workers: workers.0.id,
            spares: Arc::downgrade(&workers.0.spares),
            delays: workers.0.delays.clone(),
            aborts: abort_on_failure,
        }
    }

    /// Runs a submission whose waits are reached, now or on the workers.
    pub(crate) fn execute(
        &self,
        submission: &Submission<Live<'_>>,
        profile: Option<ProfiledSubmission>,
    ) -> Result<()> {
        if let Some(permit) = self.inline(&submission.op, &LiveNames) {
            let _abort = rehal_crash::AbortScope::enter(self.aborts);
            let promise = Promise::new(submission.signals);
            let outcome =
                run_and_settle(&submission.op, &LiveNames, promise, self.profiled(profile.as_ref()), permit);
            let outcome = outcome.inspect_err(|error| self.abort_if_asked(error));
            // Whether the call reports a failure must not depend on where the work runs: the signals do. A
            // dealloca never runs elsewhere.
            let is_reported =
                !submission.signals.is_empty() && !matches!(submission.op, QueueOp::Dealloca { .. });
            return if is_reported { Ok(()) } else { outcome };
        }
        if let Some(profile) = &profile {
            profile.ready();
        }
        let job = self.job();
        job.keep(submission, profile, self.aborts)?;
        self.submit(&job);
        Ok(())
    }

    /// The same for one that had to wait.
    pub(crate) fn execute_kept(&self, kept: KeptSubmission) {
        let names = StoredNames { store: kept.store(), slots: Slots::NONE };
        if let Some(permit) = self.inline(kept.op(), &names) {
            let _record = rehal_crash::RecordScope::enter(kept.note());
            let _abort = rehal_crash::AbortScope::enter(self.aborts);
            let outcome =
                run_and_settle(kept.op(), &names, kept.promise(), self.profiled(kept.profile()), permit);
            // Waiters get a failure from the signals; there is no other receiver.
            return outcome.unwrap_or_else(|error| self.abort_if_asked(&error));
        }
        if let Some(profile) = kept.profile() {
            profile.ready();
        }
        let job = self.job();
        job.take(kept, self.aborts);
        self.submit(&job);
    }

    /// A semaphore whose waiting threads help to run what signals it.
    pub(crate) fn create_semaphore(&self, initial_value: u64) -> Semaphore {
        Semaphore::new(TaskSemaphore::new(initial_value, self.pool.clone(), self.workers))
    }

    /// The permit that an operation needs to run on the thread that makes it ready; `None` if it does not run
    /// there. One without work, such as a barrier, needs no permit, and runs on any thread.
    fn inline<'r, N: Names + 'r, R: Resolve<'r, N>>(
        &self,
        op: &QueueOp<N>,
        names: &R,
    ) -> Option<Option<Permit<'_, SubmissionJob>>> {
        if self.delays.is_some() || !estimate::is_brief(op, names) {
            return None;
        }
        if let QueueOp::Alloca { .. } | QueueOp::Dealloca { .. } | QueueOp::Barrier { .. } = op {
            return Some(None);
        }
        if !self.workers.admits_this_thread() {
            return None;
        }
        self.pool.permit().map(Some)
    }

    /// The report of an operation that runs on this thread.
    fn profiled<'p>(&self, profile: Option<&'p ProfiledSubmission>) -> Option<Profiled<'p>> {
        profile.map(|submission| {
            let thread = submission.reports_regions().then(|| self.workers.this_thread());
            Profiled { submission, thread }
        })
    }

    fn abort_if_asked(&self, error: &Error) {
        if self.aborts {
            abort(error, rehal_crash::record());
        }
    }

    fn job(&self) -> Arc<SubmissionJob> {
        let spare = self.spares.upgrade().and_then(|spares| spares.take());
        spare.unwrap_or_else(|| {
            Arc::new(SubmissionJob::new(self.pool.slots(), self.spares.clone(), self.delays.clone()))
        })
    }

    fn submit(&self, job: &Arc<SubmissionJob>) {
        if !job.submit(&self.pool, 1) {
            job.refuse();
        }
    }
}
