use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rehal_base::{Error, Result, StatusCode};
use rehal_hal::profile::ProfiledSubmission;
use rehal_hal::{Dispatch, HostCallFlags, Indexed, KeptSubmission, Live, Note, QueueOp, Submission};

use super::delays::{Delayed, Delays};
use super::estimate;
use super::stage::Tiling;
use super::times::{Clock, ReportProgress};
use crate::command::{LocalCommands, in_command};
use crate::executable::{Share, WorkgroupFailure};
use crate::execute::{Resolve, Slots, StoredNames, run, with_arguments};
use crate::pool::{Claims, Job, PoolHandle, Progress, Stage, Work, Worker, chunk_size};

/// A submission while it runs on workers: the objects that it names, its progress, and the promise.
///
/// It is reused when it is complete, so that issuing a command buffer allocates nothing once the lists have
/// grown.
pub(super) struct SubmissionJob {
    progress: Progress,
    /// Workers that run it or were invited to.
    participants: AtomicUsize,
    /// Whether one of them is a thread that waits for it.
    has_helper: AtomicBool,
    /// Read by workers while they run tiles, written by the thread that submits and by the worker that
    /// completes it.
    content: RwLock<Content>,
    failure: Mutex<Option<Failure>>,
    spares: Weak<Spares>,
    /// For tests.
    delays: Option<Arc<Delays>>,
}

pub(super) struct Content {
    pub(super) kept: KeptSubmission,
    /// Whether a failure or a crash aborts the process.
    aborts: bool,
    /// The next stage.
    pub(super) stage: AtomicU32,
    /// The commands of the stage that runs; at least as many as any stage has.
    pub(super) tilings: Vec<Tiling>,
    /// For profiles.
    pub(super) report: ReportProgress,
}

/// The first failure, in the order of commands and workgroups, of those that happened.
struct Failure {
    command: usize,
    workgroup: u64,
    error: Error,
}

/// Target duration of a chunk: much longer than taking it, and short enough that all workers end at about the
/// same time.
const CHUNK_NS: u64 = 25_000;

/// How long a thread that helps waits for the next stage: several times as long as a worker runs a chunk.
const HELPER_STAY: Duration = Duration::from_micros(100);

/// How often a waiting worker polls before it looks at the clock and the queue.
const POLLS: usize = 16;

impl SubmissionJob {
    /// An idle job for a pool on which `slots` threads may run it, kept for reuse in `spares`.
    pub(super) fn new(slots: usize, spares: Weak<Spares>, delays: Option<Arc<Delays>>) -> Self {
        let content = Content {
            kept: KeptSubmission::empty(),
            aborts: false,
            stage: AtomicU32::new(0),
            tilings: Vec::new(),
            report: ReportProgress::default(),
        };
        Self {
            progress: Progress::new(slots),
            participants: AtomicUsize::new(0),
            has_helper: AtomicBool::new(false),
            content: RwLock::new(content),
            failure: Mutex::default(),
            spares,
            delays,
        }
    }

    /// Makes an idle job ready to run a submission.
    pub(super) fn keep(
        &self,
        submission: &Submission<Live<'_>>,
        profile: Option<ProfiledSubmission>,
        aborts: bool,
    ) -> Result<()> {
        let mut content = self.content.write();
        let note = Note { words: rehal_crash::record(), profile: profile.map(Box::new), created: None };
        content.kept.keep(submission, note)?;
        self.make_ready(&mut content, aborts);
        Ok(())
    }

    /// Makes an idle job ready to run a submission that had to wait.
    pub(super) fn take(&self, kept: KeptSubmission, aborts: bool) {
        let mut content = self.content.write();
        content.kept = kept;
        self.make_ready(&mut content, aborts);
    }

    fn make_ready(&self, content: &mut Content, aborts: bool) {
        content.aborts = aborts;
        content.report.reset();
        *content.stage.get_mut() = 0;
        // A command buffer of another driver fails when the job starts.
        let width = content.baked().ok().flatten().map_or(1, |recording| recording.widest_stage());
        if content.tilings.len() < width {
            content.tilings.resize_with(width, Tiling::default);
        }
        self.progress.make_ready();
    }

    /// Queues it for `count` workers, not 0. Returns `false` if the pool is being dropped.
    pub(super) fn submit(self: &Arc<Self>, pool: &PoolHandle<Self>, count: usize) -> bool {
        self.participants.fetch_add(count, Ordering::Relaxed);
        let is_queued = pool.submit(self.clone(), count).is_ok();
        if !is_queued {
            self.participants.fetch_sub(count, Ordering::Relaxed);
        }
        is_queued
    }

    /// Whether a thread that waits may help. If so, the calling thread is the helper, and must call
    /// [`Self::help`].
    pub(super) fn admits_helper(&self) -> bool {
        self.content.try_read().is_some_and(|content| content.admits_helper())
            && !self.has_helper.swap(true, Ordering::Acquire)
    }

    /// Runs it as a worker does.
    pub(super) fn help(self: Arc<Self>, worker: &Worker<'_, Self>) {
        // It may have been reused since for another submission.
        self.run_if(worker, Content::admits_helper);
    }

    /// Runs it on a worker until no work is left for that worker.
    fn run_if(self: Arc<Self>, worker: &Worker<'_, Self>, condition: impl FnOnce(&Content) -> bool) {
        // Locked only by a worker that completes it: then there is nothing left to run.
        let is_complete = self.content.try_read().is_some_and(|content| {
            if !condition(&content) {
                return false;
            }
            let _record = rehal_crash::RecordScope::enter(content.kept.note());
            let _abort = rehal_crash::AbortScope::enter(content.aborts);
            if matches!(
                content.kept.op(),
                QueueOp::HostCall { .. } | QueueOp::Read { .. } | QueueOp::Write { .. }
            ) {
                // A call may wait for work of this pool, and a file may be slow.
                worker.return_permit();
            }
            content.with_view(|view| {
                let running = Running { job: &self, content: &content, view, worker };
                let (index, victims) = (worker.index, worker.victims);
                let is_complete = match &self.delays {
                    None => self.progress.run(index, victims, &running),
                    Some(delays) => self.progress.run(index, victims, &Delayed { work: &running, delays }),
                };
                // Before callbacks of the signals.
                worker.return_permit();
                if is_complete {
                    running.report();
                }
                is_complete
            })
        });
        self.participants.fetch_sub(1, Ordering::Relaxed);
        if worker.is_helper() {
            self.has_helper.store(false, Ordering::Release);
        }
        if is_complete {
            if let Some(delays) = &self.delays {
                delays.wait();
            }
            self.complete();
        }
    }

    /// Fails the submission of a job that the workers can no longer run.
    pub(super) fn refuse(&self) {
        let mut content = self.content.write();
        let error = Error::new(StatusCode::Aborted, "the device was released before the submission ran");
        content.kept.promise().settle(&Err(error));
        content.kept.clear();
        self.progress.make_idle();
    }

    /// Keeps a failure if it is the first.
    fn fail(&self, failure: Failure) {
        self.progress.cancel();
        let mut slot = self.failure.lock();
        let at = |failure: &Failure| (failure.command, failure.workgroup);
        if slot.as_ref().is_none_or(|first| at(&failure) < at(first)) {
            *slot = Some(failure);
        }
    }

    /// Settles the signals, once everything has run.
    fn complete(self: Arc<Self>) {
        let failure = self.failure.lock().take();
        // Other workers may still look for tiles; there are none.
        let mut content = self.content.write();
        let outcome = match failure {
            None => Ok(()),
            Some(failure) => Err(failure.error.context(content.kept.op().name())),
        };
        if let Err(error) = &outcome
            && content.aborts
        {
            abort(error, content.kept.note());
        }
        // Before the signals: a thread that waits for them finds these objects free.
        content.kept.release_operands();
        // No caller can receive the panic of a callback; the panic hook has reported it.
        let _ = catch_unwind(AssertUnwindSafe(|| content.kept.promise().settle(&outcome)));
        content.kept.clear();
        drop(content);
        if let Some(spares) = self.spares.upgrade() {
            spares.add(self);
        }
    }
}

/// Complete jobs, kept for their memory.
#[derive(Default)]
pub(super) struct Spares(Mutex<Vec<Arc<SubmissionJob>>>);

/// Maximum number of spare jobs.
const SPARE_LIMIT: usize = 64;

impl Spares {
    /// One of them.
    pub(super) fn take(&self) -> Option<Arc<SubmissionJob>> {
        self.0.lock().pop()
    }

    fn add(&self, job: Arc<SubmissionJob>) {
        let mut spares = self.0.lock();
        if spares.len() < SPARE_LIMIT {
            spares.push(job);
        }
    }
}

impl Job for SubmissionJob {
    fn run(self: Arc<Self>, worker: &Worker<'_, Self>) {
        self.run_if(worker, |_| true);
    }
}

/// The operations of a submission: the commands of a command buffer in stages, or the one operation.
pub(super) struct View<'r, 's> {
    pub(super) operations: &'r [QueueOp<Indexed>],
    /// The first operation of each stage.
    pub(super) stages: &'r [u32],
    pub(super) names: StoredNames<'r, 's>,
    pub(super) is_command_buffer: bool,
    /// Why there are none.
    error: Option<Error>,
}

impl Content {
    /// Whether a thread that waits may run a part of it, since it will not be detained: it leaves between
    /// workgroups, and between pieces of transfers. A host call may take locks that the waiting thread holds,
    /// and a file may be slow.
    fn admits_helper(&self) -> bool {
        match self.kept.op() {
            QueueOp::HostCall { .. } | QueueOp::Read { .. } | QueueOp::Write { .. } => false,
            QueueOp::Alloca { .. }
            | QueueOp::Dealloca { .. }
            | QueueOp::Barrier { .. }
            | QueueOp::Fill { .. }
            | QueueOp::Update { .. }
            | QueueOp::Copy { .. }
            | QueueOp::Dispatch(_)
            | QueueOp::Execute { .. } => true,
        }
    }

    fn baked(&self) -> Result<Option<&crate::command::Recording>> {
        match self.kept.op() {
            QueueOp::Execute { command_buffer, .. } => {
                LocalCommands::of(&self.kept.store().command_buffers[*command_buffer as usize])?.baked()
            }
            _ => Ok(None),
        }
    }

    fn with_view<R>(&self, run: impl FnOnce(&View<'_, '_>) -> R) -> R {
        let (store, op) = (self.kept.store(), self.kept.op());
        let single = |operations, stages, error| View {
            operations,
            stages,
            names: StoredNames { store, slots: Slots::NONE },
            is_command_buffer: false,
            error,
        };
        let QueueOp::Execute { bindings, .. } = op else {
            return run(&single(std::slice::from_ref(op), &[0], None));
        };
        match self.baked() {
            // Its commands ran when they were recorded.
            Ok(None) => run(&single(&[], &[], None)),
            Err(error) => run(&single(&[], &[], Some(error))),
            Ok(Some(recording)) => {
                let slots = Slots::Stored(store, bindings.of(&store.lists.buffer_refs));
                run(&View {
                    operations: &recording.operations,
                    stages: &recording.stages,
                    names: StoredNames { store: &recording.store, slots },
                    is_command_buffer: true,
                    error: None,
                })
            }
        }
    }
}

/// A job that a worker runs.
pub(super) struct Running<'a, 'r, 's> {
    job: &'a Arc<SubmissionJob>,
    pub(super) content: &'a Content,
    pub(super) view: &'a View<'r, 's>,
    pub(super) worker: &'a Worker<'a, SubmissionJob>,
}

impl Running<'_, '_, '_> {
    /// The operations of the stage that runs, or of the next.
    pub(super) fn commands_of(&self, stage: u32) -> Option<Range<usize>> {
        crate::command::stage(self.view.stages, self.view.operations.len(), stage as usize)
    }

    /// The first command that failed, and how.
    pub(super) fn failed_command(&self) -> Option<(usize, StatusCode)> {
        self.job.failure.lock().as_ref().map(|failure| (failure.command, failure.error.code()))
    }

    /// The other workers that run the submission or were invited to.
    fn other_participants(&self) -> usize {
        self.job.participants.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn fail(&self, command: usize, failure: impl Into<WorkgroupFailure>) {
        let WorkgroupFailure { workgroup, error } = failure.into();
        let error = if self.view.is_command_buffer { error.context(in_command(command)) } else { error };
        self.job.fail(Failure { command, workgroup, error });
    }

    /// Runs the tiles of a claim that are of one command.
    fn run_command(
        &self,
        command: usize,
        tiling: &Tiling,
        end: u32,
        claim: Range<u32>,
        claims: &mut Claims<'_>,
    ) {
        let operation = &self.view.operations[command];
        let names = &self.view.names;
        let mut clock = Clock::new(self.profile());
        if !matches!(operation, QueueOp::Dispatch(_)) {
            clock.start(false);
        }
        let outcome = match operation {
            QueueOp::Dispatch(dispatch) => self.run_dispatch(command, dispatch, tiling, end, claim, claims),
            QueueOp::Fill { target, pattern, .. } => {
                let part = tiling.part(&claim);
                names
                    .place(target)
                    .and_then(|place| place.fill_piece(names.bytes(*pattern), piece(part)))
                    .map_err(Into::into)
            }
            QueueOp::Copy { source, target, .. } => {
                let part = tiling.part(&claim);
                names
                    .place(target)
                    .and_then(|place| place.copy_piece(names.place(source)?, piece(part)))
                    .map_err(Into::into)
            }
            QueueOp::HostCall { flags, .. } => self.run_host_call(operation, *flags).map_err(Into::into),
            _ => run(operation, names, None).map_err(Into::into),
        };
        self.report_worker(command, clock.stop(&tiling.times));
        if let Err(failure) = outcome {
            self.fail(command, failure);
        }
    }

    fn run_dispatch(
        &self,
        command: usize,
        dispatch: &Dispatch<Indexed>,
        tiling: &Tiling,
        end: u32,
        claim: Range<u32>,
        claims: &mut Claims<'_>,
    ) -> Result<(), WorkgroupFailure> {
        let (count, per_tile) = (tiling.workgroup_count(), tiling.per_tile());
        with_arguments(dispatch, &self.view.names, count, |executable, arguments| {
            let cost = executable.cost(dispatch.function);
            let measured = cost.filter(|cost| cost.is_due());
            let mut first = Some(claim);
            let mut running: Option<(Instant, u64)> = None;
            let chunk = |range: &Range<u32>| {
                let workgroups = cost.and_then(|cost| cost.workgroups_in(CHUNK_NS)).unwrap_or(1);
                let tiles = u32::try_from((workgroups / per_tile).max(1)).unwrap_or(u32::MAX);
                chunk_size(tiles, range, self.other_participants())
            };
            let mut clock = Clock::new(self.profile());
            let mut next = || {
                // Before `claims` completes the tiles, after which another worker may report the stage.
                self.report_worker(command, clock.stop(&tiling.times));
                if let (Some(cost), Some((start, workgroups))) = (measured, running.take()) {
                    cost.add(workgroups, start.elapsed());
                }
                let mut tiles = match first.take() {
                    Some(tiles) => tiles,
                    None => claims.more(chunk)?,
                };
                if tiles.start < tiling.first() || tiles.start >= end {
                    // They belong to another command of the stage.
                    claims.put_back(tiles);
                    return None;
                }
                if tiles.end > end {
                    claims.put_back(end..tiles.end);
                    tiles.end = end;
                }
                let part = tiling.part(&tiles);
                if measured.is_some() {
                    running = Some((Instant::now(), part.end - part.start));
                }
                clock.start(!part.is_empty());
                Some(part)
            };
            let share = Share { concurrency: self.worker.pool.worker_count(), next: &mut next };
            executable.run_share(dispatch.function, arguments, share)
        })?
    }

    /// A non-blocking one runs after the signals, and its result is ignored; one that returns `DEFERRED` has
    /// taken ownership of the signals.
    fn run_host_call(&self, operation: &QueueOp<Indexed>, flags: HostCallFlags) -> Result<()> {
        let kept = &self.content.kept;
        if flags.contains(HostCallFlags::NON_BLOCKING) {
            kept.promise().settle(&Ok(()));
            let _ = run(operation, &self.view.names, None);
            return Ok(());
        }
        match run(operation, &self.view.names, None) {
            Err(error) if error.code() == StatusCode::Deferred => {
                kept.promise().defer();
                Ok(())
            }
            outcome => outcome,
        }
    }
}

impl Work for Running<'_, '_, '_> {
    fn next_stage(&self) -> Option<Stage> {
        if let Some(error) = &self.view.error {
            self.fail(0, error.clone());
            return None;
        }
        let stage = self.content.stage.fetch_add(1, Ordering::Relaxed);
        let region_before = self.report_stage_before(stage);
        let Some(commands) = self.commands_of(stage) else {
            self.end_last_stage(region_before);
            return None;
        };
        // At most 2^31 tiles in total, so that their numbers fit into a u32.
        let limit = u32::try_from((1 << 31) / commands.len() as u64).unwrap_or(1).max(1);
        let (mut tiles, mut cost) = (0, Some(0_u64));
        for (command, tiling) in commands.zip(&self.content.tilings) {
            let operation = &self.view.operations[command];
            match tiling.begin(operation, &self.view.names, tiles, limit) {
                Ok(size) => {
                    tiles += size.tiles;
                    cost = cost.zip(size.cost).map(|(sum, cost)| sum.saturating_add(cost));
                }
                Err(error) => {
                    self.fail(command, error);
                    return None;
                }
            }
        }
        self.begin_stage(tiles, region_before);
        let most = (tiles as usize - 1).min(self.worker.pool.worker_count() - 1);
        let useful = cost.map_or(most, |cost| most.min((cost / estimate::JOINING_NS) as usize));
        let missing = useful.saturating_sub(self.other_participants());
        let helpers = match cost {
            // Each must get twice the work, in this stage and in those that follow, that waking it costs:
            // with less, it saves hardly any time, and keeps a CPU busy.
            Some(cost) if missing > 0 => {
                let least = 2 * self.worker.pool.handover_ns();
                let limit = least.saturating_mul(missing as u64);
                let following = self.commands_of(stage + 1);
                let following = following.map_or(&[][..], |it| &self.view.operations[it.start..]);
                let cost = estimate::of_shared_work(following, &self.view.names, cost, limit);
                missing.min((cost / least) as usize)
            }
            _ => missing,
        };
        Some(Stage { tiles, helpers })
    }

    fn invite(&self, helpers: usize) {
        // While the pool is being dropped, this worker does it alone.
        let _ = self.job.submit(self.worker.pool, helpers);
    }

    fn stays(&self, has_turned: impl Fn() -> bool) -> bool {
        let is_helper = self.worker.is_helper();
        let next = self.content.stage.load(Ordering::Relaxed) as usize;
        if next >= self.view.stages.len() && !is_helper {
            return false;
        }
        // As long as waking it again takes: so waiting at most doubles the cost of an invitation. A thread
        // that helps has nothing else to do.
        let limit = match is_helper {
            true => HELPER_STAY,
            false => Duration::from_nanos(self.worker.pool.handover_ns()),
        };
        let start = Instant::now();
        loop {
            for _ in 0..POLLS {
                if has_turned() {
                    return true;
                }
                std::hint::spin_loop();
            }
            // A helper is in the way only of a worker that waits for its permit.
            let pool = self.worker.pool;
            let is_wanted = pool.has_queued() && (!is_helper || pool.wants_permit());
            if is_wanted || self.leaves() || start.elapsed() >= limit {
                return false;
            }
        }
    }

    fn leaves(&self) -> bool {
        (self.worker.leaves)()
    }

    fn run(&self, claim: Range<u32>, claims: &mut Claims<'_>) {
        let stage = self.content.stage.load(Ordering::Relaxed) - 1;
        let Some(commands) = self.commands_of(stage) else { return };
        let tilings = &self.content.tilings[..commands.len()];
        let position = tilings.partition_point(|tiling| tiling.first() <= claim.start) - 1;
        let end = tilings.get(position + 1).map_or(u32::MAX, Tiling::first);
        let mut claim = claim;
        if claim.end > end {
            claims.put_back(end..claim.end);
            claim.end = end;
        }
        let command = commands.start + position;
        let run = || self.run_command(command, &tilings[position], end, claim, claims);
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            let error = Error::new(StatusCode::Internal, "the thread that ran the submission panicked");
            self.fail(command, error);
        }
    }
}

fn piece(bytes: Range<u64>) -> rehal_base::Range {
    rehal_base::Range { offset: bytes.start, length: bytes.end - bytes.start }
}

/// Aborts the process because of a failure, as the user requested. `record` is that of the submission: see
/// [`rehal_crash::record`].
pub(super) fn abort(error: &Error, record: [u64; 2]) -> ! {
    let error = match rehal_crash::describe_record(record) {
        Some(record) => error.clone().context(record),
        None => error.clone(),
    };
    // Nothing can be done if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{}", error.report());
    // The message above says why.
    rehal_crash::clear_context();
    std::process::abort();
}
